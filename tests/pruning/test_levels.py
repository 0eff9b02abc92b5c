"""Each kind of evidence and each short cut is a level. Random tests turn each level off and use it alone, so that they
find a fault of a single level."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pruning.level_checks import ASKED
from pruning.levels import EVIDENCE, LEVELS, SHORT_CUTS, alone, bare, edges, without

import orcidx
from orcidx.orc import integer_range
from orcidx.paimon import open_table
from orcidx.paimon_table.read import file_pruning
from orcidx.predicate import Op

PACKAGE = Path(orcidx.__file__).parent
PASSED_ON = {"_LazyEvidence", "Evidence"}
"""Classes whose method ``test`` only calls other evidence or has no code. ``_LazyEvidence`` creates other evidence when
it is needed. ``Evidence`` is the protocol."""

SWITCHED = {
    patch[0].__name__.rpartition(".")[2] for parts in SHORT_CUTS.values() for patch in parts if patch[1] == "ENABLED"
}
"""Modules that a level switches off as a whole."""

NAMED_BY = {"StatisticsEvidence", "_evidence", "FileBounds", "_prune"}
"""Calls whose first argument is the name of evidence. ``NAMED_ELSEWHERE`` has the names that are not arguments of such
calls."""
NAMED_ELSEWHERE = {"row-group statistics"}

PLACES = {
    "aggregate_pass._take_groups": "totals from statistics",
    "unit_totals._known": "totals from statistics",
    "range_units.batches": "whole units of a range",
    "decode_ahead.take": "decoding ahead",
    "stripes_together.step": "stripes at the same time",
    "file_queue.take_small": "small files",
    "small_queue.take": "small files",
    "small_queue._read": "small files",
    "small_queue._taken": "small files",
    "small_groups.take": "small files decoded together",
    "reader_columns.result": "one-call stripes",
    "small_groups._arrays": "small files decoded together",
    "small_filter.kept": "small files filtered",
    "file_scan.at_once": "one-call stripes",
    "file_scan._decoded": "one-call stripes",
    "small_files._opened": "small files",
    "small_files._read": "small files",
    "small_reads.split": "small files",
    "small_files._rows": "small files",
    "small_files._decoded": "small files",
    "small_files.take": "small files",
    "small_files._take_large": "small files",
    "small_files._filter_large": "small files",
    "opened_file.rows_that_match": "small files",
    "opened_file.batches": "one-call stripes",
    "opened_file._source": "one-call stripes",
    "small_files._filtered": "small files filtered",
    "small_filter.rows_of": "small files filtered",
    "small_stripes.arrays_at_once": "one-call stripes",
    "reader_columns.read_others": "one-call stripes",
    "small_stripes.held_stripe": "stripes in one read",
    "small_stripes.read_at_once": "one-call stripes",
    "stripe_turns._at_once": "one-call stripes",
    "narrow_decimals.widened": "decimals in 64 bits",
    "tested_columns.spelled_out": "tested while decoded",
    "tested_columns._literals_of": "tested while decoded",
    "kept_arrays.kept_array": "rows kept in one pass",
    "kept_arrays.taken_array": "rows kept in one pass",
    "top_scan._decide": "bounds of the first rows",
    "constant_evidence.rules_out": "constants of a file",
    "integer_range._rules_out": "integer range",
    "bounds.numbers_rule_out": "integer range",
    "file_pruning._ruled_out": "indexes in the catalog",
    # No other code returns the same result, so these functions are not levels.
    "coded_strings.spelled_out": None,
    "span_reader._read_first": None,
    "survivors.picked": None,
    "survivors.rules_out": None,  # used by Spark without a scan; tests/spark/predicates.py compares it with Spark
    "pictures.rows_ruled_out": None,
}
"""The level of each function that may give rows, or prove that there are none, in place of the usual code."""

_ROWS = re.compile(
    r"(RecordBatch|SmallRows|Array|RowSelection|DecodedRows|StoredTotals|Held|SmallFile|Decision).*\| None"
)


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path, node


def test_all_evidence_is_a_level() -> None:
    classes, names = set(), set()
    for _, node in nodes():
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "test":
                    given = [argument.arg for argument in part.args.args]
                    classes |= {node.name} if given == ["self", "leaf", "alive"] else set()
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names |= {node.args[0].value} if called in NAMED_BY else set()
    assert classes - PASSED_ON == {kind.__name__ for kind, _ in EVIDENCE.values()}
    assert names | NAMED_ELSEWHERE == {name for _, name in EVIDENCE.values() if name}


def test_all_short_cuts_are_levels() -> None:
    found = set()
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef):
            result = ast.unparse(node.returns) if node.returns and path.parent.name in ("scanner", "planner") else ""
            if _ROWS.search(result) or re.search(r"(rule[sd]|numbers_rule)_out$", node.name):
                found.add(f"{path.stem}.{node.name}")
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assert node.targets[0].id != "ENABLED" or path.stem in SWITCHED, f"{path}: no level turns ENABLED off"
    assert found == set(PLACES), "add a level to pruning/levels.py, and its function to PLACES"
    assert {level for level in PLACES.values() if level} <= set(SHORT_CUTS)


def test_each_level_is_asked() -> None:
    assert not set(EVIDENCE) & set(SHORT_CUTS)
    from paimon_table.delete_random import OF_TABLES

    assert {*ASKED, *OF_TABLES} == set(LEVELS)


def small_files(folder: Path) -> list[tuple[str, np.ndarray]]:
    made = []
    for number, start in enumerate((0, 40, 80)):
        values = np.arange(start, start + 40) % 90
        path = str(folder / f"{number}.orc")
        orcidx.write_table(pa.table({"key": values, "city": [f"c{value // 30}" for value in values]}), path)
        made.append((path, values))
    return made


@pytest.mark.parametrize("level", [level for level in ASKED if level != "partition"])
def test_a_level_alone_and_off_gives_the_same_rows(tmp_path: Path, level: str) -> None:
    files = small_files(tmp_path)
    every = np.concatenate([values for _, values in files])
    where = (orcidx.col("key") >= 70) & (orcidx.col("city") == "c2")
    for how in (without(level), alone(level), bare()):
        with how:
            scan = orcidx.scan(tmp_path, ["key"], where)
            assert scan.to_table()["key"].to_pylist() == every[every >= 70].tolist()
            assert scan.count_rows() == int((every >= 70).sum())


def test_the_range_of_a_file_counts_its_bounds(tmp_path: Path, monkeypatch: Any) -> None:
    """Finds the fault of an ``integer_range`` that treats ``<=`` as ``<``. 206 other tests do not find this fault."""
    files = small_files(tmp_path)

    def wrong() -> list[str]:
        found = []
        for path, values in files:
            for leaf in edges(("key",), [int(values.min()), int(values.max())]):
                with alone("integer range"):
                    given = orcidx.read_table(path, where=leaf)["key"].to_pylist()
                with bare():
                    if given != orcidx.read_table(path, where=leaf)["key"].to_pylist():
                        found.append(repr(leaf))
        return found

    assert wrong() == []
    outside = integer_range.numbers_rule_out

    def strict(leaf: Any, low: int, high: int) -> bool:
        return outside(leaf, low, high) or (leaf.op is Op.LE and not leaf.negated and low == leaf.literals[0])

    monkeypatch.setattr(integer_range, "numbers_rule_out", strict)
    assert len(wrong()) == 3


def test_the_bounds_of_manifests_count(tmp_path: Path, monkeypatch: Any) -> None:
    from paimon_empty import empty_table

    folder = empty_table(tmp_path / "t", {"key": "BIGINT"})
    for start in (0, 40, 80):
        open_table(folder).append(pa.table({"key": range(start, start + 40)}))

    def wrong() -> list[str]:
        found = []
        for leaf in edges(("key",), [0, 39, 40, 79, 119]):
            with alone("manifests' statistics"):
                given = open_table(folder).scan(where=leaf).to_table()["key"].to_pylist()
            with bare():
                if given != open_table(folder).scan(where=leaf).to_table()["key"].to_pylist():
                    found.append(repr(leaf))
        return found

    assert wrong() == []
    judge = file_pruning.leaf_in_bounds

    def strict(leaf: Any, known: Any) -> Any:
        may, must = judge(leaf, known)
        if leaf.op is Op.GE and not leaf.negated and known.upper is not None:
            may = may & (known.upper.compare(leaf.literals[0]) != 0)
        return may, must

    monkeypatch.setattr(file_pruning, "leaf_in_bounds", strict)
    assert len(wrong()) == 3
