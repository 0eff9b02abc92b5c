"""A delete removes the rows that a scan returns: a short run of ``delete_random``, and cases that once failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import SEED
from paimon_empty import empty_table
from paimon_table.delete_random import Tally, run

from orcidx.paimon import open_table
from orcidx.paimon_table.read import orc_rows
from orcidx.planner.stripe_pruning import FilePruner
from orcidx.predicate import col
from orcidx.pruning.selection import RowSelection
from orcidx.scanner import small_filter


def test_random_tables_and_predicates() -> None:
    tally = Tally()
    assert run(60, SEED, tally) == []
    assert tally.cases == 60
    assert tally.edges > 25


@pytest.mark.parametrize("form", ["orc", "parquet"])
@pytest.mark.parametrize("zone", ["", " WITH LOCAL TIME ZONE"])
@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("at > {zero}", 2),
        ("at IN ({half})", 1),
        ("at BETWEEN {half} AND {half}", 1),
        ("NOT at <= {zero}", 2),
        ("at = {zero}", 1),
    ],
)
def test_fractions_of_a_second_count(tmp_path: Path, form: str, zone: str, where: str, rows: int) -> None:
    """A delete reads no result columns, but must compare fractions of a second as a scan does."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "at": f"TIMESTAMP(3){zone}"}, file__format=form)
    kind = pa.timestamp("ms", "UTC" if zone else None)
    open_table(folder).append(pa.table({"id": range(4), "at": pa.array([0, 500, 1500, None], kind)}), jvm_zone="UTC")
    suffix = "Z" if zone else ""
    text = where.format(zero=f"'1970-01-01 00:00:00{suffix}'", half=f"'1970-01-01 00:00:00.5{suffix}'")
    assert open_table(folder).scan(where=text, jvm_zone="UTC").count_rows() == rows
    assert open_table(folder).delete(text, jvm_zone="UTC").rows == rows
    assert open_table(folder).scan(where=text, jvm_zone="UTC").count_rows() == 0
    assert open_table(folder).scan().count_rows() == 4 - rows


@pytest.mark.levels("proved rows", "one-call stripes", "stripes in one read")
def test_statistics_that_are_wrong_make_no_row_match(tmp_path: Path, monkeypatch: Any) -> None:
    """A delete tests the rows of a row group even if statistics prove that all of them match."""
    folder = empty_table(tmp_path / "t")
    open_table(folder).append(pa.table({"id": [7] * 50 + [9] + [7] * 49, "city": ["x"] * 100}))
    decide = FilePruner.decide

    def lying(self: FilePruner, stripe: int) -> Any:
        decision = yield from decide(self, stripe)
        return replace(decision, rows=replace(decision.rows, must=RowSelection.all(decision.rows.may.length)))

    monkeypatch.setattr(FilePruner, "decide", lying)
    monkeypatch.setattr(small_filter, "ENABLED", False)  # the small-file filter does not use the pruner
    assert open_table(folder).scan(where=col("id") == 7).to_table().num_rows == 100
    assert open_table(folder).delete(col("id") == 7).rows == 99


@pytest.mark.levels("small files filtered")
def test_a_small_file_is_not_opened(tmp_path: Path, monkeypatch: Any) -> None:
    """Only the first small file of a schema is opened. The rows of the other small files are decoded and tested by one
    call, as in a scan."""

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the file was opened")

    folder = empty_table(tmp_path / "t")
    for start in (0, 100):
        rows = range(start, start + 100)
        open_table(folder).append(pa.table({"id": rows, "city": [f"c{id % 7}" for id in rows]}))
    assert open_table(folder).delete(col("id") == 3).rows == 1
    with monkeypatch.context() as patch:
        patch.setattr(orc_rows, "open_file", refused)
        assert open_table(folder).delete((col("id") >= 95) & (col("city") == "c4")).rows == 15
    left = open_table(folder).scan().to_table()["id"].to_pylist()
    assert left == [id for id in range(200) if id != 3 and not (id >= 95 and id % 7 == 4)]


@pytest.mark.parametrize("value", ["a", "a\x01", "ab"])
def test_a_partition_by_char_compares_without_its_blanks(tmp_path: Path, value: str) -> None:
    """Spark pads CHAR values of a partition with blanks, but literals have no trailing blanks. Files with matching rows
    must not be skipped because of this."""
    columns = {"id": "BIGINT", "kind": "CHAR(5)"}
    folder = empty_table(tmp_path / "t", columns, partition_keys=["kind"])
    for start, text in ((0, value.ljust(5)), (10, "c    "), (20, "a b  ")):
        open_table(folder).append(pa.table({"id": range(start, start + 3), "kind": [text] * 3}))
    for asked in (value, value + " ", value.ljust(5)):
        assert sorted(open_table(folder).scan(["id"], col("kind") == asked).to_table()["id"].to_pylist()) == [0, 1, 2]
    assert open_table(folder).scan(where=col("kind") < "c").count_rows() == 6
    assert open_table(folder).scan(where=col("kind") != value).count_rows() == 6
    assert open_table(folder).scan(where=col("kind") <= value).count_rows() == 3 + 3 * (value > "a b")
    assert open_table(folder).delete(col("kind") == value).rows == 3


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_the_first_rows_by_char_sort_without_blanks(tmp_path: Path, form: str) -> None:
    """The order of CHAR values is that of comparisons: "a" is smaller than "a\\x01", with or without the blanks that
    ORC adds."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "kind": "CHAR(5)"}, file__format=form)
    for start, texts in ((0, ["a\x01", "a", "b"]), (3, ["a ", "", "a\x02"])):
        open_table(folder).append(pa.table({"id": range(start, start + 3), "kind": texts}))
    for limit in range(1, 7):
        for direction, order in (("asc", [4, 1, 3, 0, 5, 2]), ("desc", [2, 5, 0, 1, 3, 4])):
            scan = open_table(folder).scan(["id"], top=[("kind", direction)], limit=limit)
            assert scan.to_table()["id"].to_pylist() == order[:limit]
