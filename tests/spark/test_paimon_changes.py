"""Spark jobs that change Paimon tables. Each job commits exactly one snapshot."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from goldens import FIXTURES
from paimon_empty import empty_table
from paimon_invariants import check_table, snapshot_numbers

from orcidx import CorruptFile, InvalidQuery, Unsupported, col
from orcidx import spark as orcidx_spark
from orcidx.paimon import open_table
from orcidx.spark.jobs import table_changes


def ids(folder: Path) -> list[int]:
    return sorted(open_table(folder).scan().to_table()["id"].to_pylist())


def test_append_delete_and_rewrite_are_one_snapshot_each(spark: Any, tmp_path: Path, capsys: Any) -> None:
    options = {"bucket": "2", "bucket_key": "id", "file_index__in_manifest_threshold": "10 b"}
    folder = empty_table(tmp_path / "t", **options)
    frame = spark.range(0, 300, 1, 3).selectExpr("id", "concat('city ', id % 10) as city")
    result = orcidx_spark.append(spark, folder, frame)
    assert (result.snapshot_id, result.rows, len(result.files["new"])) == (1, 300, 6)
    assert "commit_user='orcidx-" in capsys.readouterr().err
    check_table(folder)
    orcidx_spark.append(spark, folder, frame.selectExpr("id + 300 as id", "city"))
    check_table(folder)
    result = orcidx_spark.delete(spark, folder, "city = 'city 7'")
    assert (result.snapshot_id, result.rows) == (3, 60)
    result = orcidx_spark.rewrite_file_index(spark, folder, spec={"bitmap": {"city": {}}})
    assert (result.snapshot_id, len(result.files["done"])) == (4, 12)
    check_table(folder)
    assert ids(folder) == [i for i in range(600) if i % 10 != 7]
    again = orcidx_spark.rewrite_file_index(spark, folder, spec={"bitmap": {"city": {}}})
    assert (again.snapshot_id, len(again.files["complete"])) == (None, 12)
    assert open_table(folder).scan(where="city = 'city 7'").count_rows() == 0


def test_a_delete_takes_the_rows_that_a_read_gives(spark: Any, tmp_path: Path) -> None:
    """A condition of ``delete`` has the same meaning as in Spark: NaN is the largest number, null is not NaN, names are
    not case-sensitive, and times are in the session's zone."""
    types = {"id": "BIGINT", "v": "DOUBLE", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    folder = empty_table(tmp_path / "t", types, file__format="parquet")
    frame = spark.range(9).selectExpr(
        "id", "if(id = 5, double('nan'), if(id = 6, null, id)) as v", "timestamp_seconds(id * 3600) as at"
    )
    orcidx_spark.append(spark, folder, frame)
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        for where, expected in (
            ("V > 7.5", [5, 8]),
            ("AT < '1970-01-01 06:30:00'", [0]),
            ("Id = 3", [3]),
            ("NOT isnan(v) AND id > 4", [6, 7]),
        ):
            shown = sorted(row.id for row in orcidx_spark.read(spark, folder, where=where).collect())
            assert shown == expected
            assert orcidx_spark.delete(spark, folder, where, dry_run=True).rows == len(expected)
            before = ids(folder)
            assert orcidx_spark.delete(spark, folder, where).rows == len(expected)
            assert sorted(set(before) - set(ids(folder))) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_delete_compares_microseconds(spark: Any, tmp_path: Path) -> None:
    """Spark truncates nanoseconds before it compares. A delete removes the rows that ``read`` returns, whether its
    condition is a text or a predicate."""
    folder = empty_table(tmp_path / "t", {"id": "BIGINT", "t": "TIMESTAMP(9)"})
    time = 1_700_000_000_000_000_000
    times = pa.array([time - 1000, time + 500, time + 1000], pa.timestamp("ns"))
    open_table(folder).append(pa.table({"id": [0, 1, 2], "t": times}))
    at, text = dt.datetime(2023, 11, 14, 22, 13, 20), "TIMESTAMP_NTZ '2023-11-14 22:13:20'"
    for where, expected in (
        (f"t = {text}", [1]),
        (col("t") == at, [1]),
        (col("t") <= at, [0, 1]),
        (col("t") > at, [2]),
        (col("t").between(at, at), [1]),
    ):
        shown = sorted(row.id for row in orcidx_spark.read(spark, folder, where=where, jvm_zone="UTC").collect())
        assert shown == expected
        assert orcidx_spark.delete(spark, folder, where, dry_run=True).rows == len(expected)
    assert orcidx_spark.delete(spark, folder, col("t") <= at).rows == 2
    assert ids(folder) == [2]


def test_a_driver_that_is_started_again_commits_once(spark: Any, tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t")
    frame = spark.range(0, 50, 1, 2).selectExpr("id", "'a' as city")
    named = {"commit_user": "job", "identifier": 5, "since": 0}
    assert orcidx_spark.append(spark, folder, frame, **named).snapshot_id == 1
    again = orcidx_spark.append(spark, folder, frame, **named)
    assert (again.snapshot_id, again.repeated) == (1, True)
    assert ids(folder) == list(range(50))
    named["identifier"] = 6
    assert orcidx_spark.delete(spark, folder, "id < 10", **named).snapshot_id == 2
    assert orcidx_spark.delete(spark, folder, "id < 10", **named).repeated
    named["identifier"] = 7
    spec = {"bsi": {"id": {}}}
    assert orcidx_spark.rewrite_file_index(spark, folder, spec=spec, **named).snapshot_id == 3
    assert orcidx_spark.rewrite_file_index(spark, folder, spec=spec, **named).repeated
    assert snapshot_numbers(folder) == [1, 2, 3]


def test_sidecars_of_tasks_beside_one_that_failed_are_named(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a task fails, the error names the sidecars that the job had written before."""
    folder = empty_table(tmp_path / "t", file_index__in_manifest_threshold="10 b")
    files: list[set[Path]] = []
    for start in (0, 100):
        frame = spark.range(start, start + 100, 1, 1).selectExpr("id", "concat('city ', id % 10) as city")
        orcidx_spark.append(spark, folder, frame)
        files.append(set(folder.rglob("data-*.orc")))
    orcidx_spark.rewrite_file_index(spark, folder, spec={"bitmap": {"city": {}}})
    named = {path.name for path in folder.rglob("*.index")}
    (damaged,) = files[1] - files[0]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    # All files are in bin 0, so one task processes them one after the other.
    monkeypatch.setattr(table_changes, "weigh", lambda sizes, *_: [0] * len(sizes))
    with pytest.raises(CorruptFile) as caught:
        orcidx_spark.rewrite_file_index(spark, folder, spec={"bsi": {"id": {}}}, only_missing=False)
    (left,) = (path for path in folder.rglob("*.index") if path.name not in named)
    (note,) = (note for note in caught.value.__notes__ if note.startswith("remaining files"))
    assert note.endswith(f": {left.relative_to(folder)}")
    assert len(named) == 2
    assert snapshot_numbers(folder) == [1, 2, 3]


def dying(task: Any) -> Any:
    """Wraps a task. In the first attempt, the worker dies after all work is done, but before it returns results."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        results = list(task(batches))
        if TaskContext.get().attemptNumber() == 0:
            os._exit(1)
        yield from results

    return run


@pytest.mark.slow
def test_tasks_that_die_when_they_are_done_change_the_table_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an attempt of a task dies, or another attempt wins (speculation), the files that the lost attempt wrote are in
    no snapshot."""
    folder = empty_table(tmp_path / "t")
    collected = table_changes._collected
    monkeypatch.setattr(table_changes, "_collected", lambda frame, task: collected(frame, dying(task)))
    frame = spark.range(0, 300, 1, 2).selectExpr("id", "concat('city ', id % 10) as city")
    result = orcidx_spark.append(spark, folder, frame)
    assert (result.rows, len(result.files["new"])) == (300, 2)
    assert len(list(folder.rglob("data-*"))) == 4
    assert orcidx_spark.delete(spark, folder, "city = 'city 7'").rows == 30
    result = orcidx_spark.rewrite_file_index(spark, folder, spec={"bitmap": {"city": {}}})
    assert len(result.files["done"]) == 2
    assert snapshot_numbers(folder) == [1, 2, 3]
    check_table(folder)
    assert ids(folder) == [i for i in range(300) if i % 10 != 7]


@pytest.mark.slow
def test_the_page_of_changes_has_a_job_of_each_kind(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs/guides/paimon-tables.md").read_text()
    (example,) = re.findall(r"<!-- runnable with Spark -->\n+```python\n(.*?)```", page, re.DOTALL)
    folder = tmp_path / "warehouse/db.db/orders"
    shutil.copytree(FIXTURES / "paimon/tables/db.db/append_dv32", folder)
    monkeypatch.chdir(tmp_path)
    before, number = open_table(folder).scan().count_rows(), snapshot_numbers(folder)[-1]
    exec(compile(example, "paimon-tables.md", "exec"), {"spark": spark})
    assert snapshot_numbers(folder)[-1] == number + 3
    after = open_table(folder).scan()
    assert after.to_table()["id"].to_pylist().count(9) == 0
    assert before < after.count_rows() <= before + 100
    check_table(folder)


@pytest.mark.slow
def test_what_tasks_refuse_is_told_and_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    folder = empty_table(tmp_path / "t")
    with pytest.raises(InvalidQuery, match="cast"):
        orcidx_spark.append(spark, folder, spark.range(10).selectExpr("cast(id as string) as id"))
    with pytest.raises(InvalidQuery, match="no column"):
        orcidx_spark.append(spark, folder, spark.range(10).selectExpr("id as ident"))
    assert not list(folder.rglob("*.orc"))
    with pytest.raises(Unsupported, match="rewrite_file_index"):
        orcidx_spark.build_file_index(spark, folder, {"bsi": {"id": {}}})
