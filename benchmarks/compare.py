"""Compares the reading speed of orcidx and pyarrow.orc in one run, with one thread:  python -m benchmarks.compare

Each row of the output is one file or one column. Both readers read it in turns, at least ``--repeat`` times and for at
least ``--seconds``. The least time of each reader counts. On a shared machine only the ratio is meaningful. The file is
in the page cache, and each read opens the file again. The benchmark checks that both readers return equal values.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean

import pyarrow as pa
import pyarrow.orc

import orcidx
from benchmarks import lineitem
from benchmarks.columns import CODECS, COLUMNS, file_of


@dataclass(frozen=True)
class Row:
    group: str
    name: str
    codec: str
    values: int
    megabytes: float
    pyarrow_ns: float
    orcidx_ns: float
    equal: bool

    @property
    def ratio(self) -> float:
        return self.pyarrow_ns / self.orcidx_ns


def measure(
    group: str, name: str, codec: str, path: Path, repeat: int, seconds: float, columns: list[str] | None = None
) -> Row:
    """Measures the best time of both readers, which read in turns at least ``repeat`` times and for ``seconds``."""

    def peer() -> pa.Table:
        return pa.orc.ORCFile(path).read(columns=columns)

    def ours() -> pa.Table:
        with orcidx.open(str(path)) as file:
            return file.read(columns=columns, use_threads=False)

    expected, found = peer(), ours()
    values = max(1, expected.num_rows * expected.num_columns)
    equal = same_values(expected, found)
    del expected, found
    best = [math.inf, math.inf]
    began, reads = time.perf_counter(), 0
    while reads < repeat or time.perf_counter() - began < seconds:
        reads += 1
        for side, read in enumerate((peer, ours)):
            best[side] = min(best[side], _seconds(read))
    size = path.stat().st_size / 1e6
    return Row(group, name, codec, values, size, best[0] / values * 1e9, best[1] / values * 1e9, equal)


def _seconds(read: Callable[[], pa.Table]) -> float:
    began = time.perf_counter()
    table = read()
    took = time.perf_counter() - began
    del table
    return took


def same_values(expected: pa.Table, found: pa.Table) -> bool:
    """Whether names, types, nulls and values are equal. The chunks of the tables may differ."""
    if expected.column_names != found.column_names or expected.num_rows != found.num_rows:
        return False
    return all(a.type == b.type and a.equals(b) for a, b in zip(expected.columns, found.columns, strict=True))


def rows(given: argparse.Namespace) -> Iterator[Row]:
    for name in COLUMNS:
        for codec in given.codecs:
            if given.only in name:
                path = file_of(name, codec, given.rows)
                yield measure("columns", name, codec, path, given.repeat, given.seconds)
    if not given.scale:
        return
    writer = "Spark" if given.spark else "pyarrow"
    for codec in given.codecs:
        path = lineitem.orc(given.scale, codec, spark=given.spark)
        name = f"lineitem sf {given.scale:g} ({writer})"
        if given.only in name:
            yield measure("lineitem", name, codec, path, max(2, given.repeat // 2), given.seconds)
        for column in pa.orc.ORCFile(path).schema.names if given.each_column else ():
            if given.only in column:
                yield measure("lineitem by column", column, codec, path, given.repeat, given.seconds, [column])


def summary(group: str, found: list[Row]) -> str:
    """Returns a line with the geometric mean of the ratios, and the slowest row."""
    mean = geometric_mean(row.ratio for row in found)
    slowest = min(found, key=lambda row: row.ratio)
    worst = f"{slowest.name} / {slowest.codec} {slowest.ratio:.2f}x"
    return f"{group}: {len(found)} rows, geometric mean {mean:.2f}x, slowest {worst}"


def report(found: list[Row]) -> str:
    """Returns a summary of each group and of all rows. Rows with different values or slower reads are listed."""
    groups = list(dict.fromkeys(row.group for row in found))
    lines = [summary(group, [row for row in found if row.group == group]) for group in groups]
    lines += [summary("all", found)] if len(groups) > 1 else []
    lines += [f"slower than pyarrow: {row.name} / {row.codec} {row.ratio:.2f}x" for row in found if row.ratio < 1]
    lines += [f"VALUES DIFFER: {row.name} / {row.codec}" for row in found if not row.equal]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="values of each column (default 2,000,000)")
    parser.add_argument("--repeat", type=int, default=5, help="minimum number of reads of each row (default 5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="minimum time of the reads of a row (default 0.5)")
    parser.add_argument("--codecs", nargs="+", default=list(CODECS), choices=CODECS, metavar="CODEC")
    parser.add_argument("--only", default="", help="measure only rows whose name contains this text")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale of lineitem, 0 for none (default 0.1)")
    parser.add_argument("--each-column", action="store_true", help="also read each column of lineitem alone")
    parser.add_argument("--no-spark", dest="spark", action="store_false", help="write lineitem with pyarrow")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    given = parser.parse_args()
    given.spark = given.spark and lineitem.java()
    return given


def main() -> int:
    given = arguments()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    print(f"pyarrow {pa.__version__}, {platform.machine()}, Python {platform.python_version()}; ns a value, one thread")
    print(f"{'':34} {'codec':7} {'MB':>7} {'pyarrow':>8} {'orcidx':>8} {'ratio':>7}")
    found: list[Row] = []
    for row in rows(given):
        found.append(row)
        numbers = f"{row.megabytes:7.2f} {row.pyarrow_ns:8.2f} {row.orcidx_ns:8.2f} {row.ratio:6.2f}x"
        print(f"{row.name:34} {row.codec:7} {numbers}{'' if row.equal else '  VALUES DIFFER'}", flush=True)
    if not found:
        raise SystemExit(f"nothing was measured, because no row has a name that contains {given.only!r}; change --only")
    print(report(found))
    if given.json:
        given.json.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in found], indent=1))
    return 0 if all(row.equal for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
