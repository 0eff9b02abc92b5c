"""Runs every job of ``orcidx.spark`` in separate executors. Some tasks die when their work is done, and some run twice.

    python tests/spark/cluster_jobs.py DIRECTORY_OR_URL '{"spark.hadoop.…": "…"}'

The script must run in a process of its own, because the master of a running session cannot be changed in its JVM. In
jobs that write, the first attempt of the first task dies after it has written everything. The first attempt of the
second task then waits. Meanwhile Spark starts another attempt of the second task in another executor (speculation), and
uses the result of that attempt. The result of a job must equal the result of Spark alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from orcidx import spark as orcidx_spark
from orcidx.spark.jobs import file_jobs, rewrite_directory, swaps

CLUSTER = "local-cluster[2,1,1024]"
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "200ms",
}
FILES, ROWS = 6, 300
SPEC = {"bloom-filter": {"id": {"items": "600"}}, "bitmap": {"k": {}}}
WAIT = 90.0
"""The maximum number of seconds that a task waits for its second attempt, on busy machines."""


def troubled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function of a task. Before it returns its results, the first attempt of task 0 dies, and the first
    attempt of task 1 waits."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        done = list(function(batches))
        context = TaskContext.get()
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            os._exit(1)
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            time.sleep(WAIT)  # Spark ends this attempt when the second attempt has finished
        yield from done

    return run


def with_trouble() -> None:
    for module in (file_jobs, rewrite_directory):  # other jobs only read, so they cannot leave files
        shipped = module.shipped
        module.shipped = lambda function, sources, _shipped=shipped: _shipped(troubled(function), sources)  # type: ignore[assignment]


def session_of(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(CLUSTER).appName("orcidx-cluster")
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def write(spark: Any, table: str, start: int, mode: str = "error") -> None:
    frame = spark.range(start, start + FILES * ROWS, 1, FILES)
    columns = ("id", "id div 100 AS k", "concat('it is ', id) AS t", "concat('p ', id div 900, '%ü') AS part")
    frame.selectExpr(*columns).write.mode(mode).partitionBy("part").orc(table)


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def check_reads(spark: Any, table: str, most: int) -> None:
    """Checks that Spark's reader, orcidx's tasks and SQL return the same rows of the table."""
    for where in ("id = 777", "part = 'p 1%ü' AND k = 17"):
        plain = ids(spark.read.orc(table).where(where))
        assert ids(orcidx_spark.read(spark, table, where=where)) == plain, where
        assert ids(orcidx_spark.read(spark, table, where=where, engine="orcidx")) == plain, where
        orcidx_spark.enable(spark)
        assert ids(spark.sql(f"SELECT id FROM orc.`{table}` WHERE {where}")) == plain, where
        orcidx_spark.disable(spark)
    assert orcidx_spark.read(spark, table, limit=7).count() == 7
    top = orcidx_spark.read(spark, table, top=[("id", "desc")], limit=3)
    assert ids(top) == [most - 3, most - 2, most - 1]


def statuses(frame: Any) -> Counter[str]:
    return Counter(row.status for row in frame.collect())


def run(spark: Any, table: str) -> None:
    write(spark, table, 0)
    first = len(spark.read.orc(table).inputFiles())
    built = orcidx_spark.build_file_index(spark, table, SPEC, progress=False, target_bytes=1 << 20)
    assert statuses(built) == {"built": first * len(SPEC)}
    assert orcidx_spark.describe(spark, table, verify=True).states == {"fresh": first}
    check_reads(spark, table, FILES * ROWS)

    write(spark, table, FILES * ROWS, "append")
    refreshed = statuses(orcidx_spark.refresh(spark, table, progress=False))
    assert refreshed["fresh"] == first * len(SPEC)
    assert refreshed["built"] > 0
    check_reads(spark, table, 2 * FILES * ROWS)

    everything = list(range(2 * FILES * ROWS))
    renamed = swaps._rename
    calls: list[Any] = []

    def dies(staged: Any, final: Any) -> None:
        renamed(staged, final)
        calls.append(final)
        raise KeyboardInterrupt

    swaps._rename = dies
    try:
        orcidx_spark.rewrite(spark, table, sort_by="id", progress=False)
        raise AssertionError("the swap was not killed")
    except KeyboardInterrupt:
        assert len(calls) == 1
    finally:
        swaps._rename = renamed
    assert ids(orcidx_spark.read(spark, table)) == everything
    assert len(orcidx_spark.recover(spark, table)) == 1
    assert orcidx_spark.recover(spark, table) == ()
    assert ids(spark.read.orc(table)) == everything
    orcidx_spark.refresh(spark, table, progress=False)
    assert set(statuses(orcidx_spark.rewrite(spark, table, sort_by="id", progress=False))) == {"fresh"}
    check_reads(spark, table, 2 * FILES * ROWS)
    states = orcidx_spark.describe(spark, table, verify=True).states
    assert set(states) == {"fresh"}, states
    orcidx_spark.clean(spark, table, older_than=0)
    check_reads(spark, table, 2 * FILES * ROWS)


def main(url: str, settings: str) -> None:
    spark = session_of(json.loads(settings))
    with_trouble()
    began = time.monotonic()
    run(spark, f"{url}/on a cluster %20")
    sys.stdout.write(f"all jobs ran in {time.monotonic() - began:.0f} s\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "{}")
