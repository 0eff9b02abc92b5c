"""Reads lineitem with a condition and without: ``python -m benchmarks.lineitem_conditions``.

For each condition there are four reads. "rows" returns the matching rows. "all" returns all rows of the same columns
and of the columns of the condition. "count" counts the matching rows. "condition" reads the columns of the condition.
Each round makes all reads with one thread and with two, in random order, and the least time of the rounds counts. A new
process makes these rounds, because the memory of a process influences all of its reads. With several processes, the
table has the least time, and the least and the largest ratio. With ``--files N``, the first rows of lineitem are read
from N files of 1,000 rows.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import math
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import orcidx
from benchmarks.engines import files
from orcidx import col
from orcidx.predicate import Predicate

READS = ("rows", "all", "count", "condition")
THREADS = (1, 2)
SMALL_ROWS = 1000
"""The number of rows of each small file."""


@dataclass(frozen=True)
class Case:
    """A condition. ``columns``: the columns that are returned. ``tested``: the columns of the condition."""

    name: str
    columns: tuple[str, ...]
    tested: tuple[str, ...]
    where: Predicate

    def read(self, scan: Any, which: str, *, use_threads: bool) -> int:
        if which == "rows":
            return scan(list(self.columns), self.where, use_threads=use_threads).to_table().num_rows
        if which == "count":
            return scan(list(self.columns), self.where, use_threads=use_threads).count_rows()
        wanted = dict.fromkeys(self.columns + self.tested) if which == "all" else self.tested
        return scan(list(wanted), use_threads=use_threads).to_table().num_rows


QUERY_1 = ("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax")
QUERY_6 = ("l_shipdate", "l_discount", "l_quantity")
CASES = (
    Case("query 1", (*QUERY_1, "l_shipdate"), ("l_shipdate",), col("l_shipdate") <= dt.date(1998, 9, 2)),
    Case(
        "query 6",
        ("l_extendedprice", "l_discount"),
        QUERY_6,
        (col("l_shipdate") >= dt.date(1994, 1, 1))
        & (col("l_shipdate") < dt.date(1995, 1, 1))
        & (col("l_discount") >= Decimal("0.05"))
        & (col("l_discount") <= Decimal("0.07"))
        & (col("l_quantity") < 24),
    ),
    Case("l_shipmode = 'AIR'", ("l_orderkey", "l_extendedprice"), ("l_shipmode",), col("l_shipmode") == "AIR"),
    Case("l_comment = 'abc'", ("l_comment",), ("l_comment",), col("l_comment") == "abc"),
)

Times = dict[tuple[str, str, int], float]
"""The milliseconds by the name of the case, the read and the number of threads."""


def small_files(path: str, count: int) -> list[str]:
    """Writes the first rows of a file as ``count`` small files, and returns their paths."""
    folder = Path(path).with_name(f"lineitem-{count}-files")
    paths = [str(folder / f"{number:05}.orc") for number in range(count)]
    if not folder.is_dir():
        table = orcidx.scan(path).head(count * SMALL_ROWS)
        folder.mkdir()
        for number, one in enumerate(paths):
            orcidx.write_table(table.slice(number * SMALL_ROWS, SMALL_ROWS), one, compression="zstd")
    return paths


@contextmanager
def scans_of(paths: list[str]) -> Iterator[Any]:
    """Gives the function that scans the files."""
    if len(paths) > 1:
        yield partial(orcidx.scan, paths)
    else:
        with orcidx.open(paths[0]) as file:
            yield file.scan


def measured(paths: list[str], rounds: int) -> Times:
    """Returns the least time of each read. Ends the program if reads of the same rows find different numbers of
    rows."""
    pa.set_cpu_count(2)
    calls = list(itertools.product(CASES, READS, THREADS))
    counted: dict[tuple[str, bool], int] = {}
    least = {(case.name, which, threads): math.inf for case, which, threads in calls}
    for _ in range(rounds):
        random.shuffle(calls)
        for case, which, threads in calls:
            begun = time.perf_counter()
            with scans_of(paths) as scan:
                rows = case.read(scan, which, use_threads=threads > 1)
            key = case.name, which, threads
            least[key] = min(least[key], (time.perf_counter() - begun) * 1e3)
            if rows != counted.setdefault((case.name, which in ("rows", "count")), rows):
                raise SystemExit(f"{case.name}: the read {which!r} with {threads} threads has another number of rows")
    return least


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.lineitem_conditions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=0, help="read this many small files instead of one file")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--processes", type=int, default=3)
    asked = parser.parse_args()
    path = str(files(asked.scale) / "lineitem.orc")
    paths = small_files(path, asked.files) if asked.files else [path]
    context = multiprocessing.get_context("spawn")
    found: list[Times] = []
    for _ in range(asked.processes):
        with context.Pool(1) as process:
            found.append(process.apply(measured, (paths, asked.rounds)))
    shown = path if len(paths) == 1 else Path(paths[0]).parent
    print(f"{shown}, milliseconds with one and two threads, and ratios: the least and the largest of the processes")
    for case in CASES:
        print(case.name)
        for which in READS:
            one, two = (min(times[case.name, which, threads] for times in found) for threads in THREADS)
            print(f"    {which:9} {one:7.1f} {two:7.1f}   one thread by two {one / two:.2f}")
        for over, under in (READS[:2], READS[2:]):
            for threads in THREADS:
                ratios = [times[case.name, over, threads] / times[case.name, under, threads] for times in found]
                print(f"    {over} / {under}, threads: {threads}   {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
