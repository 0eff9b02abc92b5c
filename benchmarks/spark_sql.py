"""Compares TPC-H's 22 queries in an enabled session with a plain session, with indexes and without indexes.

    python -m benchmarks.spark_sql [--scale 0.2] [--pairs 15] [--queries 1,6,12] [--cpu] [--folder DIR] [--only-data]

A session is enabled with ``orcidx.spark.enable``. Each round runs a query three times over the same views: plain, plain
again, and enabled. The three runs have six possible orders. Each order is used equally often, in a random sequence with
a fixed seed. With a rotating order, a run would always follow the same other run, and the JVM would collect the garbage
of this other run during its time.

For each query, two ratios are printed. Each is the median of the ratios of the rounds. The first is the plain time
divided by the enabled time. The second is the first plain time divided by the second plain time, which shows the noise.
The layout ``with`` has bloom filters on two columns. The layout ``without`` has no indexes. The results are compared.
``--cpu`` measures the processor time of the JVM and of this process, for a machine with other work. The exit code is 1
if the first ratio of a query is below 0.95, and the enabled run takes over 30 ms longer than the plain run.
``--folder`` keeps the data.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import tpch
from benchmarks.spark_read import LEAST, NOISE, answer, made
from orcidx import spark as orcidx_spark

SIDES = ("plain", "again", "enabled")
WARM_UP = 3
"""The number of rounds that run first and do not count. The JVM compiles more in these rounds than in later rounds."""


def without_indexes(indexed: Path, plain: Path) -> None:
    """Makes hard links to the same files, except to the files of orcidx."""
    shutil.copytree(indexed, plain, copy_function=os.link, ignore=shutil.ignore_patterns("_orcidx"), dirs_exist_ok=True)


def processor_seconds(spark: Any) -> Callable[[], float]:
    """Returns a clock of the processor time of the JVM and of this process."""
    bean = spark._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(
        spark._jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
    )
    return lambda: float(bean.getProcessCpuTime()) / 1e9 + time.process_time()


def orders(rounds: int) -> Iterator[tuple[str, ...]]:
    """Yields the order of the sides for each round."""
    drawn = random.Random(1)
    every = list(permutations(SIDES))
    for number in range(rounds):
        if number % len(every) == 0:
            drawn.shuffle(every)
        yield every[number % len(every)]


def run_query(spark: Any, text: str, rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Returns the seconds of each side in each round. Raises ``SystemExit`` if the answers differ."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    answers: dict[str, Any] = {}
    for number, order in enumerate(orders(rounds + WARM_UP), start=-WARM_UP):
        for side in order:
            (orcidx_spark.enable if side == "enabled" else orcidx_spark.disable)(spark)
            began = clock()
            answers[side] = answer(spark.sql(text))
            if number >= 0:
                seconds[side].append(clock() - began)
    orcidx_spark.disable(spark)
    if answers["plain"] != answers["enabled"]:
        raise SystemExit(f"the query must return the same rows on all sides, but it returns {str(answers)[:300]}")
    return seconds


def measured(spark: Any, folder: Path, numbers: list[int], rounds: int, clock: Callable[[], float]) -> bool:
    good = True
    tpch.view_all(folder, spark.read.orc)
    texts = tpch.queries()
    for number in numbers:
        seconds = run_query(spark, texts[number - 1], rounds, clock)
        plain, enabled = median(seconds["plain"]), median(seconds["enabled"])
        ratio = median(one / other for one, other in zip(seconds["plain"], seconds["enabled"]))
        control = median(one / other for one, other in zip(seconds["plain"], seconds["again"]))
        low = ratio < LEAST and enabled - plain > NOISE
        good &= not low
        told = f"  query {number:<6}{plain:>9.3f}s{enabled:>9.3f}s{ratio:>8.2f}{control:>9.2f}{' low' if low else ''}\n"
        sys.stdout.write(told)
        sys.stdout.flush()
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--queries", default=",".join(map(str, range(1, 23))))
    parser.add_argument("--layouts", default="with,without", help="layouts to measure: with indexes, without indexes")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of elapsed time")
    parser.add_argument("--only-data", action="store_true", help="only write and index missing data in --folder")
    parser.add_argument("--folder", type=Path, help="the folder of the data; missing data is written there")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = orcidx_spark.session("local[*]", {**settings, "spark.sql.shuffle.partitions": "4"})
    spark.sparkContext.setLogLevel("ERROR")
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        places = {"with": folder / f"tpch-{given.scale}", "without": folder / f"tpch-{given.scale}-without"}
        made(places["with"], lambda: tpch.write_tables(spark, places["with"], given.scale))
        made(places["without"], lambda: without_indexes(places["with"], places["without"]))
        clock = processor_seconds(spark) if given.cpu else time.perf_counter
        for layout in () if given.only_data else given.layouts.split(","):
            sys.stdout.write(f"{layout} indexes{'':<8}plain   enabled   ratio  control\n")
            numbers = [int(one) for one in given.queries.split(",")]
            good &= measured(spark, places[layout], numbers, given.pairs, clock)
    told = f"medians of {given.pairs} rounds, pyspark {spark.version}, load average {os.getloadavg()[0]:.1f}"
    sys.stdout.write(f"{told}\n{'good' if good else 'a ratio is too low'}\n")
    spark.stop()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
