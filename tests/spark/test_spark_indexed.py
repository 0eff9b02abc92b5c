"""Reads of an indexed directory. Its catalog is used for planning, its indexes rule out rows, and stale entries are not
used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from orcidx.errors import InvalidQuery, StorageError
from orcidx.scanner.scan import Scan
from orcidx.spark import build_file_index, read, refresh
from orcidx.spark.query.parts import split_orc
from orcidx.spark.query.plan import Plan, begin_plan
from orcidx.spark.query.read_query import Query

pytestmark = pytest.mark.java

FILES, ROWS = 6, 500


def write(folder: Path, number: int, shift: int = 0) -> None:
    """Writes a file. ``k`` is in random order, and ``n`` grows from file to file."""
    numbers = range(number * ROWS + shift, number * ROWS + ROWS + shift)
    data = pa.table({"n": numbers, "k": [i * 7919 % 10_007 for i in numbers]})
    orc.write_table(data, folder / f"day={number % 2}" / f"{number}.orc")


@pytest.fixture
def indexed(spark: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    for part in (0, 1):
        (folder / f"day={part}").mkdir(parents=True)
    for number in range(FILES):
        write(folder, number)
    built = build_file_index(spark, str(folder), {"bitmap": {"k": {}}}, progress=False)
    assert {row.status for row in built.collect()} == {"built"}
    return folder


def planned(folder: Path, where: str | None = None) -> Plan:
    return begin_plan(Query(path=str(folder), where=where))


def test_a_rollup_rules_files_out_and_brings_their_indexes(spark: Any, indexed: Path) -> None:
    where = f"k = {1234 * 7919 % 10_007}"
    plan = planned(indexed, f"{where} AND n < 1500 AND day = 0")
    assert isinstance(plan.rows, Scan)
    assert [Path(job.source.name).name for job in plan.rows.jobs] == ["0.orc", "2.orc"]
    assert all(job.file_index is not None and job.fingerprint is not None for job in plan.rows.jobs)
    assert [row.n for row in read(spark, indexed, where=where).collect()] == [1234]
    assert read(spark, indexed, where="n < 0").count() == 0
    assert read(spark, indexed).count() == FILES * ROWS
    batches = planned(indexed, where).rows.to_batches()
    assert sum(batch.num_rows for batch in batches) == 1
    assert batches.metrics.rows_considered == 1


def test_a_stale_index_is_never_used(spark: Any, indexed: Path) -> None:
    where = f"k = {1600 * 7919 % 10_007}"
    before = sorted(row.n for row in read(spark, indexed, where=where).collect())
    write(indexed, 3, shift=100_000)
    (indexed / "day=0" / "4.orc").unlink()
    write(indexed, 7)
    rows = spark.read.orc(str(indexed)).where(where).collect()
    after = sorted(row.n for row in rows)
    assert sorted(row.n for row in read(spark, indexed, where=where).collect()) == after != before
    plan = planned(indexed, where)
    assert isinstance(plan.rows, Scan)
    without = {Path(job.source.name).name for job in plan.rows.jobs if job.file_index is None}
    assert without == {"3.orc", "7.orc"}  # the catalog does not know the new versions of these files
    assert read(spark, indexed, where="n >= 101000").count() == 500
    refresh(spark, str(indexed), progress=False)
    assert all(job.file_index is not None for job in planned(indexed, where).rows.jobs)  # type: ignore[union-attr]


def test_an_index_is_used_however_its_files_are_named(spark: Any, indexed: Path) -> None:
    where = f"k = {1600 * 7919 % 10_007}"  # this value is in 3.orc
    asked: list[Any] = [
        str(indexed / "day=1"),
        f"{indexed}/*",
        f"{indexed}/day=1/*.orc",
        str(indexed / "day=1" / "3.orc"),
        [str(indexed / "day=0"), str(indexed / "day=1")],
        sorted(map(str, (indexed / "day=1").glob("*.orc"))),
    ]
    for path in asked:
        plan = begin_plan(Query(path=path, where=where))
        assert isinstance(plan.rows, Scan)
        assert all(job.file_index is not None for job in plan.rows.jobs), path
        assert [row.n for row in read(spark, path, where=where).collect()] == [1600], path
        assert begin_plan(Query(path=path, where="n < 0")).rows.jobs == (), path  # type: ignore[union-attr]


def test_a_file_that_changes_after_the_listing_is_refused(indexed: Path) -> None:
    plan = planned(indexed, f"k = {1600 * 7919 % 10_007}")
    write(indexed, 3, shift=100_000)
    os.utime(indexed / "day=1" / "3.orc", ns=(1, 1))
    assert isinstance(plan.rows, Scan)
    with pytest.raises(StorageError, match=r"3\.orc"):
        split_orc(plan.rows, 1 << 20)


def test_a_damaged_rollup_warns_and_rules_nothing_out(spark: Any, indexed: Path) -> None:
    for path in (indexed / "_orcidx" / "rollup").iterdir():
        path.write_bytes(b"PAR1 and no more")
    with pytest.warns(RuntimeWarning, match="indexes are not used.*build the indexes again"):
        frame = read(spark, indexed, where="n = 700")
    assert [row.n for row in frame.collect()] == [700]


def test_columns_are_names(spark: Any, indexed: Path) -> None:
    """A Column of Spark stands for its name. Expressions and other objects raise a clear error."""
    from pyspark.sql import functions

    assert read(spark, indexed, columns=[functions.col("k")]).columns == ["k"]
    with pytest.raises(InvalidQuery, match="columns must be names"):
        read(spark, indexed, columns=[functions.col("k") + 1])
    with pytest.raises(InvalidQuery, match=r"columns contains 7, of type int.*give names"):
        read(spark, indexed, columns=[7])  # type: ignore[list-item]
