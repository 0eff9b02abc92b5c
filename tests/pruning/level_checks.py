"""Compares the results of scans with one predicate, with each of ``levels`` turned on, turned off, or used alone."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from indexed_directory import index_here
from pruning.levels import LEVELS, alone, edges, without
from pruning.soundness_tables import Table

import orcidx
from orcidx.rewriting.row_hashes import RowsSeen, rows_seen

ASKED = [level for level in LEVELS if "table" not in level and "manifest" not in level and level != "buckets"]
"""The levels of scans of files. ``paimon_table/delete_random`` tests the levels of scans of tables."""
INDEXED = {"bloom-filter": ("int32", "int64", "string", "date"), "bitmap": ("int8", "int64", "string", "bool", "date")}
INDEXED |= {"bsi": ("int16", "int64", "date"), "range-bitmap": ("int32", "string", "date")}
"""The types that get an index of each kind in a directory."""


@dataclass(frozen=True)
class Written:
    """A file, the table in it, and a text for messages that says how the file was written."""

    source: bytes | Path
    table: Table
    how: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options of scans of this file."""


@dataclass
class Tally:
    """Counts the cases of a run, so that a record can state them exactly."""

    files: Counter[str]
    levelled: int = 10
    """One of ``levelled`` predicates is also asked with one level turned off, and with this level alone."""
    predicates: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    counts: int = 0
    groups: int = 0
    groups_skipped: int = 0
    groups_proved: int = 0
    rows_returned: int = 0


@dataclass
class Placed:
    """A file in its own directory, sometimes with indexes, and the rows that a scan of all rows returns."""

    source: Path
    written: Written
    wholes: RowsSeen

    @classmethod
    def of(cls, written: Written, folder: Path, rng: np.random.Generator) -> Placed:
        if isinstance(written.source, Path):
            source = written.source
        else:
            source = folder / "files"
            (source / "p=7").mkdir(parents=True)
            (source / "p=7" / "a.orc").write_bytes(written.source)
            tops = {path[0] for path in written.table.columns if len(path) == 1}
            spec = {kind: {name: {} for name in names if name in tops} for kind, names in INDEXED.items()}
            spec = {kind: columns for kind, columns in spec.items() if columns and rng.random() < 0.6}
            if spec and rng.random() < 0.9:
                index_here(source, spec)
        with without(*ASKED):
            return cls(source, written, rows_seen(orcidx.scan(source, **cls.options(written)).to_batches()))

    @staticmethod
    def options(written: Written) -> dict[str, Any]:
        return {"timestamp_unit": "us", **written.options}

    def answers(self, predicate: Any, nan: str, top: str | None) -> list[Any]:
        """Returns the results of a scan that do not depend on how it reads: rows, counts, totals, first rows."""
        options = {**self.options(self.written), "nan": nan}
        asked = orcidx.scan(self.source, None, predicate, **options)
        given: list[Any] = [rows_seen(asked.to_batches()), asked.count_rows()]
        aggregates = (
            {"rows": "count(*)"} if top is None else {"n": f"count({top})", "a": f"min({top})", "b": f"max({top})"}
        )
        given.append(repr(asked.aggregate(aggregates).to_pylist()))
        if top is not None:
            first = orcidx.scan(self.source, [top], predicate, top=[top], limit=3, **options)
            given.append(repr(first.to_table()[top].to_pylist()))
        return given


def check_edges(placed: Placed, path: tuple[str, ...], nan: str, rng: np.random.Generator) -> None:
    """Checks a level like ``check_level``, with comparisons with the smallest and the largest value."""
    options = {**placed.options(placed.written), "nan": nan}
    level = ASKED[int(rng.integers(len(ASKED)))]
    for leaf in edges(path, placed.written.table.columns[path].extremes()):
        wanted = int(placed.written.table.matching(leaf, nan).sum())
        for name, how in (("all levels", nullcontext()), (f"{level} alone", alone(level))):
            with how:
                found = orcidx.scan(placed.source, [], leaf, **options).to_table().num_rows
                assert found == wanted, f"{name}: {leaf!r} returns {found} rows, not {wanted}"


def check_level(placed: Placed, predicate: Any, nan: str, rng: np.random.Generator, tally: Tally) -> None:
    """Raises ``AssertionError`` if a level changes the results. The level is turned on, turned off, and used alone."""
    level = ASKED[int(rng.integers(len(ASKED)))]
    beside = predicate
    # Sometimes a condition on the partition column p (always 7) is added. It does not change which rows match.
    if placed.source.is_dir() and rng.random() < 0.5:
        beside = predicate & (orcidx.col("p") <= 7) if rng.random() < 0.5 else predicate | (orcidx.col("p") > 7)
    table = placed.written.table
    wanted = np.flatnonzero(table.matching(predicate, nan))
    options = {**placed.options(placed.written), "nan": nan}
    ways: dict[str, AbstractContextManager[None]] = {
        "all levels": nullcontext(),
        f"without {level}": without(level),
        f"{level} alone": alone(level),
    }
    for name, how in ways.items():
        with how:
            found = orcidx.scan(placed.source, [], beside, row_numbers=True, **options).to_table().column(0).to_numpy()
            lost, invented = np.setdiff1d(wanted, found), np.setdiff1d(found, wanted)
            assert np.array_equal(found, wanted), f"{name}: missing {lost[:5]}, not matching {invented[:5]}"
    tops = [path[0] for path in table.columns if len(path) == 1]
    top = tops[int(rng.integers(len(tops)))] if rng.random() < 0.5 else None
    given = placed.answers(beside, nan, top)
    with without(level):
        assert given == placed.answers(beside, nan, top), f"other results without {level}, first rows by {top}"
    assert given[1] == len(wanted), "count_rows disagrees"
    with without(level) if rng.random() < 0.5 else alone(level):
        rows = rows_seen(orcidx.scan(placed.source, **placed.options(placed.written)).to_batches())
        assert rows == placed.wholes, f"other rows without a condition: {level}"
    tally.levels[level] += 1
