"""Index jobs on Spark. The indexes have the same bytes as without Spark, even if tasks die or run twice. Work that is
finished is not repeated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import SPEC
from pyarrow import orc
from spark_frames import collected

from orcidx import CorruptFile, InvalidQuery, Unsupported, paimon
from orcidx.index_directory.store import IndexStore
from orcidx.spark.jobs import build_index
from orcidx.spark.jobs.build_index import build_file_index, refresh
from orcidx.spark.jobs.file_jobs import FILES_PER_TASK, run_over_files, weigh
from orcidx.storage.folder import is_temporary


def table(start: int, rows: int) -> pa.Table:
    numbers = np.arange(start, start + rows)
    cities = pa.array([f"c{n % 7}-{start}" for n in numbers.tolist()], pa.string())
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": cities, "price": pa.array(numbers * 0.25)})


def write_files(spark: Any, root: Path, count: int) -> None:
    """Writes files of very different sizes, a third of them with Spark. One is corrupt, one has no rows, and one is
    empty."""
    by_spark = count // 3
    rows = f"SELECT id, concat('s', id % 11) city, id * 0.5D price FROM range(0, {by_spark * 200}, 1, {by_spark})"
    spark.sql(rows).write.orc(str(root / "spark"))
    for number in range(count - by_spark - 3):
        rows_of = 20_000 if number % 40 == 0 else 50 * (number % 9 + 1)
        orc.write_table(table(number * 100_000, rows_of), root / f"{number:03}.orc")
    (root / "corrupt.orc").write_bytes((root / "001.orc").read_bytes()[:-40])
    (root / "nothing.orc").write_bytes(b"")
    orc.write_table(table(0, 0), root / "no_rows.orc")


def index_bytes(root: Path) -> dict[str, bytes]:
    """Returns the index of every file. It is embedded in the catalog, or is a file of its own."""
    store = IndexStore.open(root)
    assert store is not None
    files = store.catalogs.read(files=["index", "embedded"]).files.to_pylist()
    places = {row["path"]: row["embedded"] or row["index"] for row in files}
    return {
        path: place if isinstance(place, bytes) else (root / "_orcidx" / place).read_bytes()
        for path, place in places.items()
        if place is not None
    }


def check_against_one_machine(root: Path) -> None:
    found = index_bytes(root)
    names = {str(path.relative_to(root)) for path in root.rglob("*.orc") if "_orcidx" not in path.parts}
    assert found.keys() == names - {"corrupt.orc", "nothing.orc"}
    for name, data in found.items():
        assert data == paimon.build_file_index(str(root / name), SPEC).to_bytes(), name


def statuses(frame: Any) -> Counter[str]:
    return Counter(collected(frame)["status"].to_pylist())


def leftovers(root: Path) -> list[Path]:
    return [path for path in (root / "_orcidx").rglob(".*") if is_temporary(path.name)]


def changed_job(monkeypatch: pytest.MonkeyPatch, change: Callable[..., pa.Table]) -> None:
    monkeypatch.setattr(build_index, "run_over_files", change)


def dying(task: Any) -> Any:
    """Wraps a task. In the first attempt, the worker dies before the third index file gets its name."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        from orcidx.storage import local_writing

        if TaskContext.get().attemptNumber() == 0:
            names = []

            def dies_at_the_third(publish: Callable[..., None]) -> Callable[..., None]:
                def published(*arguments: Any) -> None:
                    names.append(arguments)
                    if len(names) == 3:
                        os._exit(1)
                    publish(*arguments)

                return published

            for name in ("give_name", "_link", "_rename_if_absent"):  # one of these functions gives a file its name
                setattr(local_writing, name, dies_at_the_third(getattr(local_writing, name)))
        yield from task(batches)

    run.schema, run.root = task.schema, task.root  # type: ignore[attr-defined]
    return run


def run_dying(spark: Any, files: pa.Table, bins: list[int], task: Any) -> pa.Table:
    return run_over_files(spark, files, bins, dying(task))


def run_twice_at_once(spark: Any, files: pa.Table, bins: list[int], task: Any) -> pa.Table:
    """Runs the task twice for every file, in two Spark tasks at the same time."""
    twice = pa.concat_tables([files, files])
    found = run_over_files(spark, twice, [2 * one for one in bins] + [2 * one + 1 for one in bins], task)
    rows = found.drop(["millis"]).to_pylist()
    by_path: dict[str, list[Any]] = {}
    for row in rows:
        by_path.setdefault(row["path"], []).append(row)
    assert all(len(two) == 2 and _same(*two) for two in by_path.values())
    first = {path: number for number, path in reversed(list(enumerate(found["path"].to_pylist())))}
    return found.take(pa.array(sorted(first.values())))


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "read_bytes": 0} == {**other, "read_bytes": 0}


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_a_job_ends_right_whatever_happens_to_its_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    write_files(spark, tmp_path, count)
    expected = Counter(built=2 * (count - 2), error=2, skipped=2)
    assert statuses(build_file_index(spark, tmp_path, SPEC)) == expected
    check_against_one_machine(tmp_path)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "_orcidx").rglob("*")}

    again = build_file_index(spark, tmp_path, SPEC)
    assert statuses(again) == Counter(fresh=2 * (count - 2), error=2, skipped=2)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "_orcidx").rglob("*")} == made
    (error,) = {row["error"] for row in collected(again).to_pylist() if row["status"] == "error"}
    assert "corrupt.orc" in error

    for change in (run_dying, run_twice_at_once):
        (tmp_path / "_orcidx").rename(tmp_path.parent / f"{tmp_path.name}-{change.__name__}")
        changed_job(monkeypatch, change)
        assert statuses(build_file_index(spark, tmp_path, SPEC, target_bytes=16 << 20)) == expected
        check_against_one_machine(tmp_path)
        if change is run_twice_at_once:
            assert not leftovers(tmp_path)
        else:
            assert leftovers(tmp_path)


def test_other_readers_do_not_see_the_indexes(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 100), tmp_path / "a.orc")
    build_file_index(spark, tmp_path, SPEC)
    assert spark.read.orc(str(tmp_path)).count() == 100


def test_a_dry_run_writes_nothing(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 100), tmp_path / "a.orc")
    found = collected(build_file_index(spark, tmp_path, SPEC, dry_run=True))
    assert found.to_pylist() == [
        {**dict.fromkeys(found.schema.names), "path": "a.orc", "column": column, "kind": kind, "status": "planned"}
        for column, kind in (("city", "bitmap"), ("id", "bloom-filter"))
    ]
    assert not (tmp_path / "_orcidx").exists()


def test_the_rows_of_a_job(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 700), tmp_path / "a.orc")
    orc.write_table(table(0, 100).drop(["city"]), tmp_path / "b.orc")
    found = collected(build_file_index(spark, tmp_path, SPEC, file_filter="*.orc")).to_pylist()
    bitmap, bloom, absent, embedded = sorted(found, key=lambda row: (row["path"], row["kind"]))
    assert Path(bitmap["index"]).parent == tmp_path / "_orcidx" / "index"
    assert bitmap["bytes"] + bloom["bytes"] < Path(bitmap["index"]).stat().st_size
    assert (bitmap["rows"], bitmap["status"], bloom["index"]) == (700, "built", bitmap["index"])
    assert (absent["status"], absent["error"]) == ("skipped", "no such column")
    assert (embedded["status"], embedded["rows"]) == ("built", 100)


def test_refresh_does_what_is_new_or_changed(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        orc.write_table(table(number * 1000, 200), tmp_path / f"{number}.orc")
    with pytest.raises(InvalidQuery, match="no indexes yet"):
        refresh(spark, tmp_path)
    build_file_index(spark, tmp_path, SPEC)
    before = index_bytes(tmp_path)
    size = (tmp_path / "1.orc").stat().st_size
    orc.write_table(table(1001, 200), tmp_path / "1.orc")
    orc.write_table(table(9000, 200), tmp_path / "new.orc")
    (tmp_path / "2.orc").unlink()
    assert abs((tmp_path / "1.orc").stat().st_size - size) < 8
    planned = collected(refresh(spark, tmp_path, dry_run=True)).to_pylist()
    assert {row["path"] for row in planned if row["status"] == "planned"} == {"1.orc", "new.orc"}
    found = {row["path"]: row["status"] for row in collected(refresh(spark, tmp_path)).to_pylist()}
    assert found == {"0.orc": "fresh", "1.orc": "rebuilt", "3.orc": "fresh", "new.orc": "built"}
    after = index_bytes(tmp_path)
    check_against_one_machine(tmp_path)
    assert after.keys() == {"0.orc", "1.orc", "3.orc", "new.orc"}
    assert after["1.orc"] != before["1.orc"]
    assert statuses(refresh(spark, tmp_path)) == Counter(fresh=8)
    (tmp_path / "0.orc").unlink()
    assert statuses(refresh(spark, tmp_path)) == Counter(fresh=6)
    assert index_bytes(tmp_path).keys() == {"1.orc", "3.orc", "new.orc"}


def test_a_directory_without_files_can_be_indexed_for_later(spark: Any, tmp_path: Path) -> None:
    both = {"bloom-filter": {"id": {"items": 300}}, "bitmap": {"id": {}}}
    assert build_file_index(spark, tmp_path, both).count() == 0
    orc.write_table(table(0, 200), tmp_path / "a.orc")
    assert statuses(refresh(spark, tmp_path)) == Counter(built=2)
    assert index_bytes(tmp_path)["a.orc"] == paimon.build_file_index(str(tmp_path / "a.orc"), both).to_bytes()


def test_another_spec_replaces_the_indexes(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 200), tmp_path / "a.orc")
    build_file_index(spark, tmp_path, SPEC)
    assert statuses(build_file_index(spark, tmp_path, {"bsi": {"id": {}}})) == Counter(rebuilt=1)
    store = IndexStore.open(tmp_path)
    assert store is not None
    assert store.catalogs.listing.spec["spec"] == {"bsi": {"id": {}}}
    assert statuses(refresh(spark, tmp_path)) == Counter(fresh=1)


@pytest.mark.slow
def test_the_first_error_stops_the_job_when_it_shall(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 200), tmp_path / "a.orc")
    (tmp_path / "b.orc").write_bytes(b"nonsense")
    bad = str(tmp_path / "b.orc")
    with pytest.raises(CorruptFile, match="not an ORC file") as caught:
        build_file_index(spark, tmp_path, SPEC, on_error="raise")
    assert caught.value.file == bad
    assert str(caught.value).count(bad) == 1
    assert IndexStore.open(tmp_path) is None
    build_file_index(spark, tmp_path, SPEC)
    with pytest.raises(CorruptFile, match="not an ORC file"):
        build_file_index(spark, tmp_path, SPEC, on_error="raise")


@pytest.mark.parametrize("vanishes", [True, False])
def test_a_file_that_changes_meanwhile_is_named(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vanishes: bool
) -> None:
    for name in "abc":
        orc.write_table(table(0, 200), tmp_path / f"{name}.orc")
    (tmp_path / "b.orc").touch()

    def disturbed(*arguments: Any) -> pa.Table:
        if vanishes:
            (tmp_path / "b.orc").unlink()
        else:
            orc.write_table(table(7, 300), tmp_path / "b.orc")
        return run_over_files(*arguments)

    changed_job(monkeypatch, disturbed)
    found = collected(build_file_index(spark, tmp_path, SPEC)).to_pylist()
    (error,) = {row["error"] for row in found if row["status"] == "error"}
    assert str(tmp_path / "b.orc") in error
    assert ("No such file" if vanishes else "has changed") in error
    monkeypatch.undo()
    wanted = {"a.orc": "fresh", "c.orc": "fresh"} | ({} if vanishes else {"b.orc": "built"})
    assert {row["path"]: row["status"] for row in collected(refresh(spark, tmp_path)).to_pylist()} == wanted


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"bitmap": {"town": {}}}, InvalidQuery),
        ({"bitmap": {"city": {"version": 3}}}, InvalidQuery),
        ({"bsi": {"city": {}}}, Unsupported),
        ({}, InvalidQuery),
        (["city"], InvalidQuery),
        ({"bitmap": {"city": "version"}}, InvalidQuery),
    ],
)
def test_a_spec_that_cannot_be_is_refused_at_once(spark: Any, tmp_path: Path, spec: Any, error: type) -> None:
    orc.write_table(table(0, 10), tmp_path / "a.orc")
    with pytest.raises(error):
        build_file_index(spark, tmp_path, spec)
    assert not (tmp_path / "_orcidx").exists()


def test_what_is_no_plain_directory_is_refused(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 10), tmp_path / "a.orc")
    with pytest.raises(InvalidQuery, match="give the path of its directory"):
        build_file_index(spark, tmp_path / "a.orc", SPEC)
    with pytest.raises(FileNotFoundError):
        build_file_index(spark, tmp_path / "nowhere", SPEC)
    table_path = Path(__file__).parent.parent / "fixtures/paimon/tables/db.db/append_dv32"
    with pytest.raises(Unsupported, match="rewrite_file_index"):
        build_file_index(spark, table_path, SPEC)


def test_bins_follow_the_bytes() -> None:
    sizes = [100 << 20, *[1000] * 99]
    bins = weigh(sizes, 2, None)
    assert bins.count(bins[0]) == 1
    assert max(bins) + 1 == 8
    assert max(Counter(bins[1:]).values()) <= 15
    assert set(weigh([2 << 30] * 3, 1, None)) == {0, 1, 2}
    assert weigh([10] * 4, 8, None) == [0, 0, 0, 0]


@pytest.mark.parametrize("target", [None, 1 << 40])
@pytest.mark.parametrize("slots", [1, 2, 64])
def test_many_small_files_are_cut_by_their_number_too(slots: int, target: int | None) -> None:
    """Of 10,000 files of 2 KB, no task gets more than ``FILES_PER_TASK``. This also applies to the indexes of a Paimon
    table."""
    counts = Counter(weigh([2000] * 10_000, slots, target))
    assert sorted(counts) == list(range(len(counts)))
    assert max(counts.values()) <= FILES_PER_TASK
    assert max(counts.values()) - min(counts.values()) <= FILES_PER_TASK // 8, "tasks have similar amounts of work"
    assert len(counts) <= max(80, 4 * slots)


def test_a_large_file_among_small_ones_keeps_a_task_of_its_own() -> None:
    sizes = [2 << 30, *[1000] * 1000, 2 << 30]
    bins = weigh(sizes, 2, None)
    counts = Counter(bins)
    assert counts[bins[0]] == counts[bins[-1]] == 1
    assert max(counts.values()) <= FILES_PER_TASK


def test_the_bar_counts_files_and_errors(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        orc.write_table(table(number, 10), tmp_path / f"{number}.orc")
    (tmp_path / "bad.orc").write_bytes(b"nonsense")
    build_file_index(spark, tmp_path, SPEC)
    assert "indexing" not in capfd.readouterr().err, "no progress bar if standard error is no terminal"
    build_file_index(spark, tmp_path, {"bsi": {"id": {}}}, progress=True)
    assert "1 errors" in (shown := capfd.readouterr().err)
    assert "4/4" in shown
    assert os.path.exists(tmp_path / "_orcidx")


def test_what_is_no_directory_or_no_spec_is_refused(spark: Any, tmp_path: Path) -> None:
    orc.write_table(table(0, 10), tmp_path / "a.orc")
    for path in (f"{tmp_path}/*", f"{tmp_path}/[a-z].orc"):
        with pytest.raises(InvalidQuery, match="the path is a pattern"):
            build_file_index(spark, path, SPEC)
    assert sorted(os.listdir(tmp_path)) == ["a.orc"]
    for spec in (["id"], "id", {"bitmap": ["id"]}, {"bitmap": "id"}, {"bitmap": {"id": 5}}, {7: {"id": {}}}, None):
        with pytest.raises(InvalidQuery, match=r'spec.*\{"bloom-filter": \{"id": \{\}\}\}'):
            build_file_index(spark, str(tmp_path), spec)  # type: ignore[arg-type]
        with pytest.raises(InvalidQuery, match="spec"):
            paimon.build_file_index(tmp_path / "a.orc", spec)  # type: ignore[arg-type]


def test_damaged_and_missing_indexes_are_built_again(spark: Any, tmp_path: Path) -> None:
    for number in range(4):
        orc.write_table(table(number * 1000, 300), tmp_path / f"{number}.orc")

    def statuses(**options: Any) -> dict[str, int]:
        rows = collected(build_file_index(spark, str(tmp_path), SPEC, embedded_bytes=0, **options)).to_pylist()
        return dict(Counter(row["status"] for row in rows))

    assert statuses() == {"built": 8}
    files = sorted((tmp_path / "_orcidx" / "index").iterdir())
    whole = [file.read_bytes() for file in files]
    files[0].unlink()
    files[1].write_bytes(b"")
    files[2].write_bytes(whole[2][:-3])
    assert Counter(row["status"] for row in collected(refresh(spark, str(tmp_path), dry_run=True)).to_pylist()) == {
        "planned": 6,
        "fresh": 2,
    }
    assert Counter(row["status"] for row in collected(refresh(spark, str(tmp_path))).to_pylist()) == {
        "rebuilt": 6,
        "fresh": 2,
    }
    assert [file.read_bytes() for file in files] == whole
    assert statuses() == {"fresh": 8}
    files[3].write_bytes(b"X" * len(whole[3]))  # same length, so only a read shows the change
    assert statuses(rebuild=True) == {"rebuilt": 8}
    assert [file.read_bytes() for file in files] == whole

    store = IndexStore.open(tmp_path)
    assert store is not None
    (tmp_path / "_orcidx" / store.catalogs.names[-1]).write_bytes(b"PAR1 torn")
    with pytest.raises(CorruptFile, match="build the indexes again"):
        refresh(spark, str(tmp_path))
    with pytest.warns(RuntimeWarning, match="the catalog is damaged and will be replaced"):
        assert statuses() == {"built": 8}
    assert statuses() == {"fresh": 8}


def test_storage_without_an_exclusive_create_wants_a_single_writer(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orc.write_table(table(0, 10), tmp_path / "a.orc")

    def unable(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    with pytest.raises(Unsupported, match="single_writer=True"):
        build_file_index(spark, str(tmp_path), SPEC)
    rows = collected(build_file_index(spark, str(tmp_path), SPEC, single_writer=True)).to_pylist()
    assert {row["status"] for row in rows} == {"built"}
