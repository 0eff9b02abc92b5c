"""Compares ``orcidx.spark.read`` with ``spark.read.orc`` in one session: scans, and lookups with an index.

    python -m benchmarks.spark_read [--scale 1] [--gigabytes 1] [--pairs 9] [--parts scans,lookups,tpch,many]
        [--layouts 24,2000,1] [--folder DIR] [--only-data]

Both readers run in pairs, in alternating order, and the medians are compared. Every time includes the creation of the
DataFrame. The first pair compares Spark with itself and shows the noise of the machine. The answers are compared, too.
The parts are:

``scans``    lineitem with ``--scale`` times six million rows, in 24 files, in 2,000 files and in one sorted file. All
             files have indexes
``lookups``  ``--gigabytes`` of rows with a bloom filter of the key. The keys are not sorted
``tpch``     the 22 queries of TPC-H at ``--scale``, on views
``many``     100,000 files are listed, and their rows are counted, with and without a condition

A ratio is Spark's time divided by the time of orcidx. The exit code is 1 in two cases. First, a scan or a query has a
ratio below 0.95 and is more than 30 ms slower. Second, the average ratio of the lookups is below 4. ``--folder`` keeps
the data for the next run. ``--only-data`` makes the data without measuring. So parts and layouts can be measured one by
one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks import tpch
from orcidx import spark as orcidx_spark

BYTES_PER_ROW = 34
"""Measured with zstd. A row has three random longs, a random text of 16 digits, and columns that compress well."""
FILES, MANY = 16, 100_000
LINES = 6_000_000
LEAST, NOISE, LOOKUPS = 0.95, 0.030, 4.0
LAYOUTS = {"24": "24 files", "2000": "2,000 files", "1": "one sorted file"}


@dataclass(frozen=True)
class Query:
    """A read of ``columns`` with the condition ``where``. If ``columns`` is None, all columns are read. ``end``
    converts the DataFrame of the read to the DataFrame that is collected."""

    title: str
    where: str | None
    columns: tuple[str, ...] | None
    end: Callable[[Any], Any]


def rows(frame: Any) -> Any:
    return frame


def noop(frame: Any) -> Any:
    frame.write.format("noop").mode("overwrite").save()
    return None


def count(frame: Any) -> Any:
    return frame.selectExpr("count(*)")


def total(column: str) -> Callable[[Any], Any]:
    return lambda frame: frame.selectExpr(f"sum({column})", "count(*)")


def grouped(frame: Any) -> Any:
    return frame.groupBy("returnflag").agg({"quantity": "sum", "*": "count"})


def joined(frame: Any) -> Any:
    other = frame.sparkSession.range(0, LINES // 4, 100).withColumnRenamed("id", "orderkey")
    return frame.join(other, "orderkey").selectExpr("sum(quantity)", "count(*)")


def limited(frame: Any) -> Any:
    return frame.limit(10).selectExpr("count(*)")


SCANS = tuple(
    Query(title + (", columns=" if columns else ""), where, columns, end)
    for title, where, narrow, end in (
        ("whole scan", None, None, noop),
        ("one column", None, ("quantity",), total("quantity")),
        ("count(*)", None, None, count),
        ("range", "orderkey BETWEEN 100000 AND 120000", ("orderkey", "quantity"), total("quantity")),
        ("half of the rows", "partkey % 2 = 0", ("partkey", "quantity"), total("quantity")),
        ("group by", None, ("returnflag", "quantity"), grouped),
        ("join", None, ("orderkey", "quantity"), joined),
        ("limit", None, None, limited),
        ("one key counted", "partkey = 4711", ("partkey",), count),
        ("few values", "returnflag = 'R'", ("returnflag", "quantity"), total("quantity")),
    )
    for columns in ((None, narrow) if narrow else (None,))
)


# ---------------------------------------------------------------------- writing the data


def write_lines(spark: Any, folder: Path, scale: float) -> None:
    """Writes columns like those of lineitem in 24 files, in 2,000 files, and in one file sorted by ``partkey``."""
    lines = int(LINES * scale)
    frame = spark.range(0, lines, 1, 24).selectExpr(
        "id div 4 AS orderkey",
        "pmod(xxhash64(id), 200000) AS partkey",
        "pmod(xxhash64(id, 1), 10000) AS suppkey",
        "cast(1 + pmod(xxhash64(id, 2), 50) AS decimal(15,2)) AS quantity",
        "cast(pmod(xxhash64(id, 3), 9000000) / 100 AS decimal(15,2)) AS extendedprice",
        "element_at(array('A', 'N', 'R'), int(pmod(xxhash64(id, 4), 3)) + 1) AS returnflag",
        "date_add(date'1992-01-02', int(pmod(xxhash64(id, 5), 2526))) AS shipdate",
        "lower(hex(xxhash64(id, 6))) AS comment",
    )
    frame.write.mode("overwrite").orc(str(folder / "24 files"))
    whole = spark.read.orc(str(folder / "24 files"))
    whole.repartition(2000).write.mode("overwrite").orc(str(folder / "2,000 files"))
    whole.coalesce(1).sortWithinPartitions("partkey").write.mode("overwrite").orc(str(folder / "one sorted file"))
    for one in LAYOUTS.values():
        spec = {"bitmap": {"returnflag": {}}, "bloom-filter": {"partkey": {"items": 200_000, "fpp": 0.01}}}
        orcidx_spark.build_file_index(spark, str(folder / one), spec, progress=False).count()


def write_keys(spark: Any, folder: Path, lines: int) -> None:
    frame = spark.range(0, lines, numPartitions=FILES).selectExpr(
        "id AS n",
        "xxhash64(id) AS key",
        "xxhash64(id, 1) AS a",
        "xxhash64(id, 2) AS b",
        "lower(hex(xxhash64(id, 3))) AS text",
        "id % 1000 AS part",
    )
    frame.write.mode("overwrite").orc(str(folder))
    spec = {"bloom-filter": {"key": {"items": lines // FILES, "fpp": 0.001}}}
    orcidx_spark.build_file_index(spark, str(folder), spec, progress=False).count()


def made(folder: Path, write: Callable[[], None]) -> Path:
    if not (folder / "_done").exists():
        began = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        write()
        (folder / "_done").touch()
        sys.stdout.write(f"written and indexed {folder.name}: {time.perf_counter() - began:.0f} s\n")
    return folder


# ---------------------------------------------------------------------- measuring pairs of runs


def answer(frame: Any) -> Any:
    return None if frame is None else sorted(map(repr, frame.collect()))


def compared(title: str, sides: Sequence[Callable[[], Any]], pairs: int) -> tuple[float, float]:
    """Prints and returns the medians of both sides. Raises ``SystemExit`` if the answers differ."""
    seconds: list[list[float]] = [[], []]
    found = [answer(side()) for side in sides]
    if found[0] != found[1]:
        raise SystemExit(f"{title}: both sides must return the same rows, but they return {str(found)[:300]}")
    for number in range(pairs):
        for side in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            answer(sides[side]())
            seconds[side].append(time.perf_counter() - began)
    first, second = (median(one) for one in seconds)
    low = " low" if first / second < LEAST and second - first > NOISE else ""
    sys.stdout.write(f"  {title:<34}{first:>9.3f}s{second:>9.3f}s{first / second:>8.2f}{low}\n")
    sys.stdout.flush()
    return first, second


def by_spark(spark: Any, path: Path, query: Query) -> Callable[[], Any]:
    def run() -> Any:
        frame = spark.read.orc(str(path))
        frame = frame if query.where is None else frame.where(query.where)
        return query.end(frame if query.columns is None else frame.select(*query.columns))

    return run


def by_orcidx(spark: Any, path: Path, query: Query) -> Callable[[], Any]:
    return lambda: query.end(orcidx_spark.read(spark, str(path), query.columns, query.where))


def scans(spark: Any, folder: Path, pairs: int, layouts: Sequence[str]) -> bool:
    good = True
    for name in (LAYOUTS[one] for one in layouts):
        sys.stdout.write(f"lineitem in {name}{'':<20}    Spark   orcidx   ratio\n")
        itself = by_spark(spark, folder / name, SCANS[1])
        compared("Spark against itself", (itself, itself), pairs)
        for query in SCANS:
            sides = by_spark(spark, folder / name, query), by_orcidx(spark, folder / name, query)
            first, second = compared(query.title, sides, pairs)
            good &= first / second >= LEAST or second - first <= NOISE
    return good


def lookups(spark: Any, folder: Path, lines: int, pairs: int) -> bool:
    picked = spark.createDataFrame([(lines // 9 * i + 3,) for i in range(1, 6)], "n bigint")
    keys = [row.k for row in picked.selectExpr("xxhash64(n) AS k").collect()]
    hits = ", ".join(map(str, keys))
    sys.stdout.write(f"lookups in {lines:,} rows{'':<20}    Spark   orcidx   ratio\n")
    ratios = []
    for title, where in (
        ("one key, whole rows", f"key = {keys[0]}"),
        ("an absent key", "key = 5"),
        ("five keys, whole rows", f"key IN ({hits})"),
        ("a key OR a value", f"key = {keys[0]} OR n = 1000"),
    ):
        query = Query(title, where, None, rows)
        first, second = compared(title, (by_spark(spark, folder, query), by_orcidx(spark, folder, query)), pairs)
        ratios.append(first / second)
    small = spark.range(0, 100).selectExpr(f"xxhash64(id * 7 + {lines // 2}) AS key").cache()
    small.count()

    def join(frame: Any) -> Any:
        return frame.join(small, "key").selectExpr("count(*)", "sum(n)")

    sides = (
        lambda: join(spark.read.orc(str(folder))),
        lambda: join(orcidx_spark.read(spark, str(folder), where_in={"key": small})),
    )
    first, second = compared("a join pruned by 100 keys", sides, pairs)
    ratios.append(first / second)
    sys.stdout.write(f"  on average {fmean(ratios):.2f}\n")
    return fmean(ratios) >= LOOKUPS


def benchmark_tpch(spark: Any, folder: Path, pairs: int) -> bool:
    """Runs the 22 queries. The views are made again for each query, so the time of a query includes ``read``."""
    good = True
    sys.stdout.write(f"TPC-H, views made by each reader{'':<17}    Spark   orcidx   ratio\n")
    for number, text in enumerate(tpch.queries(), 1):

        def run(reader: Callable[[str], Any], text: str = text) -> Any:
            tpch.view_all(folder, reader)
            return spark.sql(text)

        sides = (
            lambda run=run: run(spark.read.orc),  # type: ignore[misc]
            lambda run=run: run(lambda path: orcidx_spark.read(spark, path)),  # type: ignore[misc]
        )
        first, second = compared(f"query {number}", sides, pairs)
        good &= first / second >= LEAST or second - first <= NOISE
    return good


def write_many(spark: Any, folder: Path) -> None:
    """Writes 100 files, adds links to them until there are 100,000 files, and builds an index."""
    first = folder / "many"
    for number in range(MANY):
        below = first / f"d={number // 1000}"
        if number % 1000 == 0:
            below.mkdir(parents=True, exist_ok=True)
            spark.range(number, number + 10).coalesce(1).write.mode("overwrite").orc(str(folder / "one"))
            shutil.copyfile(next((folder / "one").glob("*.orc")), below / "0.orc")
        else:
            os.link(below / "0.orc", below / f"{number}.orc")
    orcidx_spark.build_file_index(spark, str(first), {"bloom-filter": {"id": {}}}, progress=False).count()


def many(spark: Any, first: Path, *, only_data: bool) -> None:
    """Prints the seconds of each step for 100,000 files, the length of the plan, and the memory of the driver."""
    if only_data:
        return
    for title, where in (("all", None), ("a thousand files", "id < 10"), ("half of them", "id < 50000")):
        began = time.perf_counter()
        frame = orcidx_spark.read(spark, str(first), where=where)
        planned = time.perf_counter() - began
        found = frame.count()
        plan = len(frame._jdf.queryExecution().toString())
        heap = spark._jvm.java.lang.Runtime.getRuntime()
        used = (heap.totalMemory() - heap.freeMemory()) >> 20
        told = f"planned {planned:.1f} s, counted {found:,} in {time.perf_counter() - began - planned:.1f} s"
        sys.stdout.write(f"  {title:<20}{told}, plan {plan:,} characters, heap {used} MB\n")
        sys.stdout.write(f"    {orcidx_spark.why(frame)}\n")


def measured(spark: Any, given: argparse.Namespace, folder: Path) -> bool:
    """Makes the data of each chosen part, and measures the part."""
    good, parts = True, given.parts.split(",")
    if "scans" in parts:
        lines = folder / f"lines-{given.scale}"
        made(lines, lambda: write_lines(spark, lines, given.scale))
        good &= given.only_data or scans(spark, lines, given.pairs, given.layouts.split(","))
    if "lookups" in parts:
        rows_of = int(given.gigabytes * 1e9 / BYTES_PER_ROW)
        keyed = folder / f"keys-{rows_of}"
        made(keyed, lambda: write_keys(spark, keyed, rows_of))
        good &= given.only_data or lookups(spark, keyed, rows_of, given.pairs)
    if "tpch" in parts:
        tables = folder / f"tpch-{given.scale}"
        made(tables, lambda: tpch.write_tables(spark, tables, given.scale))
        good &= given.only_data or benchmark_tpch(spark, tables, given.pairs)
    if "many" in parts:
        many(spark, made(folder / "many", lambda: write_many(spark, folder)), only_data=given.only_data)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--parts", default="scans,lookups,tpch,many")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help=f"layouts of the scans: {', '.join(LAYOUTS)}")
    parser.add_argument("--only-data", action="store_true", help="only write and index missing data in --folder")
    parser.add_argument("--folder", type=Path, help="the folder of the data; missing data is written there")
    parser.add_argument("--master", default="local[*]")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "4g"}
    spark = orcidx_spark.session(given.master, settings)
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as scratch:
        good = measured(spark, given, given.folder or Path(scratch))
    if not given.only_data:
        load = os.getloadavg()[0]
        told = f"medians of {given.pairs} pairs, {given.master}, pyspark {spark.version}, load average {load:.1f}"
        sys.stdout.write(f"{told}\n{'good' if good else 'a ratio is too low'}\n")
    spark.stop()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
