"""``orcidx.spark.read`` beside ``spark.read.orc``, in one session, over data that Spark wrote without bloom filters.

    python -m benchmarks.spark_read [--gigabytes 1] [--repeat 3] [--folder DIR] [--master "local[*]"]

The key that is looked for follows no order, so that statistics rule nothing out; orcidx has a bloom-filter index of it,
built here and timed. Every time includes planning. Answers are compared. The last rows are those where nothing can be
skipped and Spark's own reader should win. ``--folder`` keeps the data for the next run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orcidx import spark as orcidx_spark

BYTES_PER_ROW = 34
"""Measured, with zstd: three random longs, a random text of 16 digits, and what compresses."""
FILES = 16

QUERIES: Sequence[tuple[str, str | None, list[str], str]] = (
    ("one key, indexed", "key = {hit}", ["key", "n", "a", "text"], "*"),
    ("five keys, indexed", "key IN ({hits})", ["key", "n", "a", "text"], "*"),
    ("an absent key, indexed", "key = 5", ["key", "n", "a", "text"], "*"),
    ("a key OR a value", "key = {hit} OR n = 1000", ["key", "n", "a", "text"], "*"),
    ("a range of a sorted column", "n BETWEEN {low} AND {high}", ["n", "a"], "sum(a % 1000003) AS x"),
    ("half of the rows", "part < 500", ["part", "a"], "sum(a % 1000003) AS x"),
    ("full scan, one column", None, ["a"], "sum(a % 1000003) AS x"),
    (
        "full scan, all columns",
        None,
        ["n", "key", "a", "b", "text", "part"],
        "sum(key % 7 + a % 7 + b % 7 + length(text)) AS x",
    ),
    ("count(*)", None, ["n"], "count(*) AS x"),
)


def write(spark: Any, folder: Path, rows: int) -> None:
    data = spark.range(0, rows, numPartitions=FILES).selectExpr(
        "id AS n",
        "xxhash64(id) AS key",
        "xxhash64(id, 1) AS a",
        "xxhash64(id, 2) AS b",
        "lower(hex(xxhash64(id, 3))) AS text",
        "id % 1000 AS part",
    )
    data.write.mode("overwrite").orc(str(folder))


def measured(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = run()
    return time.perf_counter() - began, answer


def rows_of(frame: Any, shown: str) -> list[str]:
    return sorted(map(repr, (frame if shown == "*" else frame.selectExpr(shown)).collect()))


def compare(spark: Any, folder: Path, rows: int, repeat: int) -> None:
    picked = [rows // 9 * i + 3 for i in range(1, 6)]
    keys = [
        row.k
        for row in spark.createDataFrame([(n,) for n in picked], "n bigint").selectExpr("xxhash64(n) AS k").collect()
    ]
    names = {"hit": keys[0], "hits": ", ".join(map(str, keys)), "low": rows // 2, "high": rows // 2 + 50_000}
    out = sys.stdout
    out.write(f"{'query':<28}{'Spark':>10}{'orcidx':>10}{'Spark / orcidx':>16}\n")
    for title, template, columns, shown in QUERIES:
        where = None if template is None else template.format(**names)

        def by_spark(where: str | None = where, columns: list[str] = columns, shown: str = shown) -> list[str]:
            frame = spark.read.orc(str(folder))
            return rows_of((frame if where is None else frame.where(where)).select(*columns), shown)

        def by_orcidx(where: str | None = where, columns: list[str] = columns, shown: str = shown) -> list[str]:
            return rows_of(orcidx_spark.read(spark, str(folder), columns, where), shown)

        best = [float("inf")] * 2
        answers: list[Any] = [None, None]
        for _ in range(repeat):
            for side, run in enumerate((by_spark, by_orcidx)):
                seconds, answers[side] = measured(run)
                best[side] = min(best[side], seconds)
        if answers[0] != answers[1]:
            raise SystemExit(f"{title}: the answers differ: {str(answers)[:300]}")
        out.write(f"{title:<28}{best[0]:>9.2f}s{best[1]:>9.2f}s{best[0] / best[1]:>16.2f}\n")
        out.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the data is, or is written and stays")
    parser.add_argument("--master", default="local[*]")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = orcidx_spark.session(given.master, settings)
    spark.sparkContext.setLogLevel("ERROR")
    rows = int(given.gigabytes * 1e9 / BYTES_PER_ROW)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.folder or Path(scratch)) / f"rows-{rows}"
        if not (folder / "_SUCCESS").exists():
            sys.stdout.write(f"writing {rows:,} rows: {measured(lambda: write(spark, folder, rows))[0]:.0f} s\n")
        size = sum(path.stat().st_size for path in folder.glob("*.orc"))
        spec = {"bloom-filter": {"key": {"items": rows // FILES, "fpp": 0.001}}}

        def index() -> list[Any]:
            return orcidx_spark.build_file_index(spark, str(folder), spec, progress=False).collect()  # type: ignore[no-any-return]

        seconds, built = measured(index)
        states = sorted({row.status for row in built})
        indexes = sum(row.bytes or 0 for row in built)
        told = f"index of key: {indexes / 1e6:.0f} MB, {seconds:.1f} s ({', '.join(states)})"
        sys.stdout.write(f"{size / 1e9:.2f} GB in {FILES} files; {told}\n")
        compare(spark, folder, rows, given.repeat)
        load = os.getloadavg()[0]
        sys.stdout.write(f"best of {given.repeat}, {given.master}, pyspark {spark.version}, load average {load:.1f}\n")
    spark.stop()


if __name__ == "__main__":
    main()
