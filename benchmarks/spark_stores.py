"""Compares lookups on HDFS and s3a with Spark's reader, and measures an enabled session and the listing of many files.

    python -m benchmarks.spark_stores hdfs|s3a|many [--files 48] [--rows 2400000] [--rounds 9] [--wait FILE]

HDFS is a namenode and a datanode in a separate JVM. s3a is moto on this machine. ``.ci/fetch-hadoop`` fetches the jars.
Each round runs Spark's reader, ``orcidx.spark.read`` and a session of ``orcidx.spark.enable``. Their order changes from
round to round. ``lookup`` reads all columns of one key of a column with a bloom filter. ``nothing falls`` counts rows
by a condition on a column without an index, so no file is skipped. The condition of each round has another value. The
answers are compared. A ratio is the median of the ratios of the rounds.

``many`` measures the time to make the DataFrame of ``--files`` (20,000) small partitioned files of this machine, if no
file is skipped. With ``--wait``, measuring begins when this file exists.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyarrow import orc

from orcidx import spark as orcidx_spark

sys.path.append(str(Path(__file__).parent.parent / "tests"))

JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orcidx" / "jars"
TEXT = "concat_ws(' ', uuid(), uuid(), uuid(), uuid())"
SIDES = ("spark", "read", "enabled")


@dataclass(frozen=True)
class Place:
    """A store. ``settings`` are settings of Spark. ``fetched`` returns how many bytes a session has fetched."""

    url: str
    settings: Mapping[str, str]
    fetched: Callable[[Any], int]


@contextmanager
def hdfs(scratch: Path) -> Iterator[Place]:
    from minicluster import minicluster

    (jars,) = JARS.glob("hdfs-*")
    with minicluster(jars, scratch) as (url, web):
        yield Place(f"{url}/data", {"spark.hadoop.dfs.namenode.http-address": web}, _read_of_hdfs)


def _read_of_hdfs(spark: Any) -> int:
    every = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(int(one.getBytesRead()) for one in every if one.getScheme() == "hdfs")


@contextmanager
def s3a(scratch: Path) -> Iterator[Place]:
    import boto3
    from s3_server import s3_server

    (jars,) = JARS.glob("s3a-*")
    with s3_server("bucket") as (endpoint, log):
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="bucket")
        settings = {f"spark.{one}.extraClassPath": f"{jars}/*" for one in ("driver", "executor")}
        own = {"endpoint": endpoint, "endpoint.region": "us-east-1", "path.style.access": "true", "access.key": "k"}
        settings |= {f"spark.hadoop.fs.s3a.{name}": value for name, value in {**own, "secret.key": "s"}.items()}
        yield Place("s3a://bucket/data", settings, lambda spark: log.sent)


def write_rows(spark: Any, table: str, files: int, rows: int) -> None:
    columns = ("id", f"pmod(id * 7919, {rows}) AS key", "id % 100 AS few", f"{TEXT} AS a", f"{TEXT} AS b")
    spark.range(0, rows, 1, files).selectExpr(*columns).write.option("orc.compress", "zstd").orc(table)
    spec = {"bloom-filter": {"key": {"items": str(2 * rows // files), "fpp": "0.001"}}}
    built = orcidx_spark.build_file_index(spark, table, spec, progress=False).collect()
    if {row.status for row in built} != {"built"}:
        raise SystemExit(f"build_file_index must build an index of every file, but it returned {built}")


def query_of(spark: Any, side: str, table: str, where: str, columns: str) -> Any:
    if side == "spark":
        return spark.read.orc(table).where(where).selectExpr(columns)
    if side == "read":
        return orcidx_spark.read(spark, table, where=where).selectExpr(columns)
    return spark.sql(f"SELECT {columns} FROM orc.`{table}` WHERE {where}")


def compare(spark: Any, place: Place, table: str, title: str, where: str, columns: str, rounds: int) -> None:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    fetched = dict.fromkeys(SIDES, 0)
    answers = {}
    for number in range(-2, rounds):  # the first two rounds are not counted, because they warm up the JVM
        asked = where.format(number + 2)  # a new literal in each round, because an enabled session caches decisions
        for side in (*SIDES[number % 3 :], *SIDES[: number % 3]):
            (orcidx_spark.enable if side == "enabled" else orcidx_spark.disable)(spark)
            before, began = place.fetched(spark), time.perf_counter()
            answers[side] = query_of(spark, side, table, asked, columns).collect()
            if number >= 0:
                seconds[side].append(time.perf_counter() - began)
            fetched[side] = place.fetched(spark) - before
        if any(answers[side] != answers["spark"] for side in SIDES):
            raise SystemExit(f"{title}: all sides must return the same rows, but they return {str(answers)[:300]}")
    orcidx_spark.disable(spark)
    for side in SIDES:
        ratio = median(one / other for one, other in zip(seconds["spark"], seconds[side]))
        more = median(seconds[side]) - median(seconds["spark"])
        told = f"  {title:<14}{side:<9}{median(seconds[side]) * 1e3:>7.0f} ms{ratio:>7.2f}{more * 1e3:>+8.0f} ms"
        sys.stdout.write(f"{told}{fetched[side] / 1e6:>9.2f} MB{fetched[side] / max(1, fetched['spark']):>7.3f}\n")
    sys.stdout.flush()


def write_many(folder: Path, files: int) -> None:
    for number in range(files):
        place = folder / f"day={number // 200}"
        place.mkdir(parents=True, exist_ok=True)
        orc.write_table(pa.table({"id": [number], "few": [number % 2]}), place / f"{number:06}.orc")


def compare_listings(spark: Any, folder: Path, rounds: int) -> None:
    seconds: dict[str, list[float]] = {side: [] for side in SIDES[:2]}
    for number in range(-1, rounds):
        for side in SIDES[:2] if number % 2 else SIDES[1::-1]:
            began = time.perf_counter()
            if side == "spark":
                spark.read.orc(str(folder)).where("few = 1").schema  # noqa: B018
            else:
                orcidx_spark.read(spark, str(folder), where="few = 1").schema  # noqa: B018
            if number >= 0:
                seconds[side].append(time.perf_counter() - began)
    for side, taken in seconds.items():
        ratio = median(one / other for one, other in zip(taken, seconds["spark"]))
        sys.stdout.write(f"  made by {side:<8}{median(taken) * 1e3:>7.0f} ms{ratio:>7.2f} of Spark's time\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", choices=["hdfs", "s3a", "many"])
    parser.add_argument("--files", type=int)
    parser.add_argument("--rows", type=int, default=2_400_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--wait", type=Path)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    plain = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}

    def begin(settings: Mapping[str, str]) -> Any:
        spark = orcidx_spark.session("local[*]", {**plain, **settings})
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    def wait() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while given.wait is not None and not given.wait.exists():
            time.sleep(0.2)

    with tempfile.TemporaryDirectory() as scratch:
        if given.store == "many":
            write_many(Path(scratch) / "many", given.files or 20_000)
            spark = begin({})
            spec = {"bloom-filter": {"id": {}}}
            orcidx_spark.build_file_index(spark, str(Path(scratch) / "many"), spec, progress=False).count()
            wait()
            compare_listings(spark, Path(scratch) / "many", given.rounds)
        else:
            with {"hdfs": hdfs, "s3a": s3a}[given.store](Path(scratch)) as place:
                spark, table = begin(place.settings), f"{place.url}/looked up"
                write_rows(spark, table, given.files or 48, given.rows)
                wait()
                compare(spark, place, table, "lookup", "key = 47{:02}", "*", given.rounds)
                compare(spark, place, table, "nothing falls", "few = {}", "count(*)", given.rounds)
                spark.stop()
    sys.stdout.write(f"medians of {given.rounds} rounds, load average {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
