"""All levels of a scan: the kinds of evidence (statistics, filters, indexes, dictionaries) and the short cuts. Each
level can be turned off, or used alone.

A fault of one level is often hidden by another level that decides earlier. The random tests run with all levels on.
This module turns one level off, so that the tests can compare the rows with and without this level. It can also turn
off all other levels. ``test_levels`` fails if a kind of evidence or a short cut is not a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from orcidx.index_directory import catalogs
from orcidx.index_directory import file_pruning as catalog_pruning
from orcidx.index_directory.directory_partitions import PartitionEvidence
from orcidx.index_directory.scan_files import DirectoryIndexes
from orcidx.orc import small_tails
from orcidx.orc.evidence import BloomEvidence, DictionaryEvidence, StatisticsEvidence
from orcidx.paimon_table.read import plan as table_plan
from orcidx.paimon_table.read.file_pruning import FileBounds
from orcidx.paimon_table.read.row_evidence import RowEvidence
from orcidx.planner import bloom_choice, dictionary_choice, stripe_pruning
from orcidx.planner.constant_evidence import ConstantEvidence
from orcidx.planner.index_evidence import IndexEvidence
from orcidx.predicate import Leaf, Op, column_pairs, compiled, ranges
from orcidx.pruning.selection import RowSelection
from orcidx.scanner import (
    aggregate_pass,
    coded_strings,
    column_group,
    decode_ahead,
    file_queue,
    file_scan,
    kept_arrays,
    narrow_decimals,
    opened_file,
    reads_ahead,
    row_count,
    row_width,
    small_files,
    small_filter,
    small_groups,
    stripe_reader,
    stripe_turns,
    stripes_together,
    tested_columns,
    top_scan,
    wanted_lengths,
)
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.range_units import RangeUnits
from orcidx.scanner.scan import Scan
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.unit_totals import UnitTotals
from orcidx.storage import local

__all__ = ["EVIDENCE", "LEVELS", "SHORT_CUTS", "alone", "as_if_large", "bare", "edges", "without"]

EVIDENCE: dict[str, tuple[type[Any], str]] = {
    "file statistics": (StatisticsEvidence, "file statistics"),
    "stripe statistics": (StatisticsEvidence, "stripe statistics"),
    "row-group statistics": (StatisticsEvidence, "row-group statistics"),
    "bloom filter": (BloomEvidence, ""),
    "dictionary": (DictionaryEvidence, ""),
    "constant column": (ConstantEvidence, ""),
    "Paimon index": (IndexEvidence, ""),
    "partition": (PartitionEvidence, ""),
    "manifests' ranges of partitions": (FileBounds, "partition range"),
    "partitions of a table's files": (FileBounds, "partition"),
    "manifests' statistics": (FileBounds, "file statistics"),
}
"""For each level, the class of the evidence, and the name of the objects of this class that belong to the level (""
means all objects)."""


def _gives(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _no_steps(*_: Any, **__: Any) -> Iterator[Any]:
    return
    yield


def _counted(self: Scan) -> int:
    return sum(batch.num_rows for batch in self.to_batches())


def _untested(request: Any, decision: Any) -> Any:
    return replace(decision.rows, must=RowSelection.none(decision.rows.may.length))


Patch = tuple[Any, str, Any]
SHORT_CUTS: dict[str, tuple[Patch, ...]] = {
    "integer range": ((stripe_pruning, "file_test", _gives(None)),),
    "constants of a file": ((file_queue, "rules_out", _gives(False)),),
    "small files": ((SmallFiles, "take", _gives(None)),),
    "one-call stripes": (
        (file_scan, "read_at_once", _gives(None)),
        (small_files, "read_at_once", _gives(None)),
        (opened_file, "read_at_once", _gives(None)),
    ),
    "stripes in one read": ((file_scan, "held_stripe", _no_steps),),
    "decoding ahead": ((stripe_reader, "_decoder", _gives(None)),),
    "stripes at the same time": (
        (stripe_turns, "stripes_together", _gives(None)),
        (row_count, "stripes_together", _gives(None)),
    ),
    "several batches at once": ((row_width, "ENABLED", False),),
    "chunks ahead": ((DecodeAhead, "decompress", _gives(None)),),
    "codes of dictionaries": ((coded_strings, "ENABLED", False),),
    "small files filtered": ((small_filter, "ENABLED", False),),
    "small files decoded together": ((small_groups, "ENABLED", False),),
    "tails like the last one": ((small_tails, "TailPattern", _gives(None)),),
    "small files read ahead": ((reads_ahead, "ENABLED", False),),
    "compiled leaves": ((compiled, "ENABLED", False),),
    "columns compared by NumPy": ((column_pairs, "ENABLED", False),),
    "ends of a range at once": ((ranges, "ENABLED", False),),
    "tested while decoded": ((tested_columns, "ENABLED", False),),
    "lengths of strings": ((wanted_lengths, "ENABLED", False),),
    "decimals in 64 bits": ((narrow_decimals, "ENABLED", False),),
    "rows kept in one pass": ((kept_arrays, "ENABLED", False),),
    "counts without arrays": ((Scan, "count_rows", _counted),),
    "proved rows": ((file_scan, "tested_rows", _untested),),
    "totals from statistics": (
        (UnitTotals, "_known", _gives(None)),
        (aggregate_pass._FileTotals, "_take_groups", _gives(None)),
    ),
    "whole units of a range": ((RangeUnits, "of", _gives(None)),),
    "bounds of the first rows": ((top_scan, "bound_condition", _gives(None)),),
    "catalog": ((DirectoryIndexes, "plan", lambda self, jobs, *_, **__: (jobs, ())),),
    "kept rows of catalogs": ((catalogs, "ROWS_AT_ONCE", -1),),
    "indexes in the catalog": ((catalog_pruning, "_ruled_out", _gives(frozenset())),),
    "buckets": ((table_plan, "bucket_filter", _gives(None)),),
    "indexes of a table's files": ((RowEvidence, "_open_index", _gives(None)),),
}
"""For each level, the attributes that are replaced to turn it off, as (owner, name, replacement)."""

LEVELS = (*EVIDENCE, *SHORT_CUTS)


@contextmanager
def without(*levels: str) -> Iterator[None]:
    """Turns off these levels. All other levels remain on."""
    muted: dict[type[Any], set[str]] = {}
    with ExitStack() as stack:
        for level in levels:
            if level in EVIDENCE:
                kind, name = EVIDENCE[level]
                muted.setdefault(kind, set()).add(name)
            else:
                for owner, name, put in SHORT_CUTS[level]:
                    stack.enter_context(mock.patch.object(owner, name, put))
        for kind, names in muted.items():
            stack.enter_context(mock.patch.object(kind, "test", _muted(kind.test, frozenset(names))))
        yield


def _muted(test: Any, names: frozenset[str]) -> Any:
    return lambda self, leaf, alive: None if names & {"", self.name} else test(self, leaf, alive)


@contextmanager
def eager() -> Iterator[None]:
    """Makes scans use bloom filters and dictionaries even if they are large compared with the data."""
    with (
        mock.patch.object(bloom_choice, "BLOOM_SHARE", float("inf")),
        mock.patch.object(dictionary_choice, "DICTIONARY_SHARE", float("inf")),
    ):
        yield


@contextmanager
def as_if_large() -> Iterator[None]:
    """Makes orcidx read small files as it reads large ones. Cursors read the columns, values are decoded ahead, and
    several stripes are read at the same time. Range conditions are tested while values are decoded."""
    with (
        mock.patch.object(local, "SMALL_FILE_BYTES", 0),
        mock.patch.object(column_group, "MANY_ROWS", 1),
        mock.patch.object(stripes_together, "LEAST_ROWS", 1),
        mock.patch.object(decode_ahead, "FEW_VALUES", 0),
    ):
        yield


@contextmanager
def alone(level: str) -> Iterator[None]:
    """Turns off all other levels. Bloom filters and dictionaries are used even if they are large compared with the
    data."""
    with without(*(other for other in LEVELS if other != level)), eager():
        yield


def edges(path: tuple[str, ...], ends: Iterable[Any]) -> Iterator[Leaf]:
    """Yields comparisons with the smallest and the largest value of a column. For these literals, the results of ``<``
    and ``<=`` differ for the column as a whole. Random literals are rarely equal to these values."""
    for end in ends:
        for op in (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ):
            yield from (Leaf(path, op, (end,), negated) for negated in (False, True))
        yield Leaf(path, Op.BETWEEN, (end, end))
        yield Leaf(path, Op.IN, (end,))


def bare() -> Any:
    """Turns off all levels."""
    return without(*LEVELS)
