"""A compaction and the expiry of a snapshot delete files of a plan. The scan is planned again, or raises
``FileGone``."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable

from orcidx import FileGone
from orcidx.paimon import open_table
from orcidx.paimon_table.commit.index_rewriting import IndexTask
from orcidx.paimon_table.commit.row_deleting import DeleteTask

GONE = r"gone since its snapshot was opened.*open the table again.*data-1"


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "t")


def ints(**columns: list[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("kind", "call"),
    [(kind, call) for kind in ("orc", "parquet") for call in ("explain", "rows", "count", "totals", "top")],
)
def test_a_scan_is_planned_again_where_its_files_are_gone(table: PaimonTable, kind: str, call: str) -> None:
    table.schema({0: ("a", "INT")})
    entry = table.add(f"data-1.{kind}", ints(a=[1, 2]))
    table.commit()
    asks: dict[str, Any] = {
        "rows": lambda opened: opened.scan(None, "a = 1").to_table().num_rows,
        "count": lambda opened: opened.scan(None, "a = 1").count_rows(),
        "explain": lambda opened: len(opened.scan(None, "a = 1").explain().files[0].file.split("data-2")),
        "totals": lambda opened: opened.aggregate({"n": "sum(a)"}, "a = 1")["n"].to_pylist()[0],
        "top": lambda opened: opened.scan(top=["a"], limit=2).to_table()["a"].to_pylist()[1] + 1,
    }
    opened, pinned = open_table(table.path), open_table(table.path, snapshot_id=1)
    scan = opened.scan(None, "a = 1")
    (table.path / "bucket-0" / f"data-1.{kind}").unlink()
    with pytest.raises(FileGone, match="is missing, although the newest snapshot 1 refers to it"):
        asks[call](opened)
    table.delete(entry)
    table.add(f"data-2.{kind}", ints(a=[1, 2, 1]))  # a compaction
    table.commit()
    with pytest.raises(FileGone, match=GONE):
        asks[call](pinned)
    assert asks[call](opened) == 2
    for one in (scan, pickle.loads(pickle.dumps(scan))):
        batches = one.to_batches()
        assert sum(batch.num_rows for batch in batches) == 2
        (note,) = batches.notes
        assert (note.kind, note.text) == ("gone", "planned again on snapshot 2, because files of snapshot 1 are gone")
    # A Spark task gets a part of a scan without notes. Such a part is not planned again.
    part = replace(scan, plan=replace(scan.plan, notes=()))
    with pytest.raises(FileGone, match=GONE):
        part.to_table()


def test_a_scan_that_has_given_rows_does_not_go_on_on_another_snapshot(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    entries = [table.add(f"data-{n}.orc", ints(a=[n] * 9)) for n in (0, 1)]
    table.commit()
    batches = open_table(table.path).scan(batch_size=4).to_batches()
    assert next(batches).num_rows == 4
    for entry in entries:
        table.delete(entry)
    table.add("data-3.orc", ints(a=[1, 2]))
    table.commit()
    (table.path / "bucket-0" / "data-1.orc").unlink()
    with pytest.raises(FileGone, match=r"open the table again\. Rows of the snapshot were already returned.*data-1"):
        list(batches)


def test_a_scan_is_not_planned_again_into_other_columns(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("b", "INT")})
    entry = table.add("data-1.orc", ints(a=[1], b=[1]))
    table.commit()
    opened = open_table(table.path)
    same, *others = opened.scan(["a"]), opened.scan(["b"]), opened.scan(["a"], "b = 1")
    table.schema({0: ("a", "INT"), 2: ("c", "INT")})
    table.delete(entry)
    table.add("data-2.orc", ints(a=[3], c=[4]))
    table.commit()
    (table.path / "bucket-0" / "data-1.orc").unlink()
    assert same.to_table()["a"].to_pylist() == [3]
    for scan in others:
        with pytest.raises(FileGone, match=GONE):
            scan.to_table()


def test_a_table_whose_manifests_expired_is_planned_on_the_newest_snapshot(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    entry = table.add("data-1.orc", ints(a=[1]))
    table.commit()
    opened, pinned = open_table(table.path), open_table(table.path, snapshot_id=1)
    before = list((table.path / "manifest").iterdir())
    table.delete(entry)
    table.add("data-2.orc", ints(a=[7]))
    table.commit()
    for path in before:
        path.unlink()
    assert opened.scan().to_table()["a"].to_pylist() == [7]
    for ask in (opened.files, opened.plan, pinned.scan, pinned.files):
        with pytest.raises(FileGone, match="the file is gone, because snapshot 1 has expired; open the table again"):
            ask()


DELETABLE = {"deletion-vectors.enabled": "true", "bucket": "-1", "file-index.in-manifest-threshold": "10 kb"}


def overtaken(table: PaimonTable, monkeypatch: Any, kind: Any, method: str, *, commits: bool) -> None:
    """Makes a table of one file. The file is deleted before a task reads it. If ``commits`` is True, a compaction also
    replaces it by another file."""
    table.schema({0: ("a", "INT")}, options=DELETABLE)
    entry = table.add("data-1.orc", ints(a=[1, 2, 3, 4]))
    table.commit()
    asked = getattr(kind, method)

    def late(self: Any) -> Any:
        old = table.path / "bucket-0" / "data-1.orc"
        if old.exists():
            old.unlink()
            if commits:
                table.delete(entry)
                table.add("data-2.orc", ints(a=[4, 3, 3, 2, 1]))
                table.commit()
        return asked(self)

    monkeypatch.setattr(kind, method, late)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_delete_is_planned_again(table: PaimonTable, monkeypatch: Any, dry_run: bool) -> None:
    overtaken(table, monkeypatch, DeleteTask, "find", commits=True)
    assert open_table(table.path).delete("a >= 3", dry_run=dry_run).rows == 3
    left = open_table(table.path).scan().to_table()["a"].to_pylist()
    assert left == ([4, 3, 3, 2, 1] if dry_run else [2, 1])


def test_a_rewrite_of_indexes_reports_files_that_are_gone(table: PaimonTable, monkeypatch: Any) -> None:
    overtaken(table, monkeypatch, IndexTask, "build", commits=True)
    done = open_table(table.path).rewrite_file_index(spec={"bitmap": {"a": {}}})
    assert (done.snapshot_id, done.files) == (None, {"gone": ("data-1.orc",), "new": ("data-2.orc",)})


@pytest.mark.parametrize("kind", [DeleteTask, IndexTask])
def test_a_file_that_the_newest_snapshot_names_is_no_reason_to_plan_again(
    table: PaimonTable, monkeypatch: Any, kind: Any
) -> None:
    overtaken(table, monkeypatch, kind, "find" if kind is DeleteTask else "build", commits=False)
    opened = open_table(table.path)
    change = opened.delete if kind is DeleteTask else partial(opened.rewrite_file_index, spec={"bitmap": {"a": {}}})
    with pytest.raises(FileGone, match=r"is missing, although .*snapshot 1.* refers to it.*data-1"):
        change("a >= 3" if kind is DeleteTask else None)
