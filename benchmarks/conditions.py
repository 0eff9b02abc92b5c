"""Compares conditions with reading all rows and filtering them with pyarrow: ``python -m benchmarks.conditions``.

The benchmark makes a grid of types, codecs and shares of kept rows. The kept rows are adjacent or scattered. In each
cell of the grid, it compares two reads with one thread. The first is a scan with a condition, which reads the column of
the condition and another column. The second reads all rows of both columns, and filters them with pyarrow. Both run in
turns, and the least processor time of each counts. The results are compared. With ``--counts``, the first read only
counts the matching rows, and the second only decodes the column of the condition.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import orcidx

SHARES = (0.0, 0.0001, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
KINDS = ("int64", "date", "timestamp", "decimal", "double", "dictionary", "unique")
CODECS = ("uncompressed", "zstd", "snappy")
ORDERS = ("together", "scattered")
MARK = 1.03

BETWEEN = {
    "date": timedelta(days=1),
    "timestamp": timedelta(seconds=1),
    "double": 0.25,
    "int64": 1,
    "decimal": 1,
}
"""For each type: the number to add to a value of the column, so that the sum is between two values of the column."""


@dataclass(frozen=True)
class Cell:
    kind: str
    order: str
    codec: str
    share: float
    ours: float
    other: float

    @property
    def ratio(self) -> float:
        return self.ours / self.other


def column(kind: str, ranks: Any) -> pa.Array:
    """Makes a column. Its values have the same order as ``ranks``, which are the numbers from 0 to the row count."""
    numbers = ranks * 2
    if kind == "dictionary":
        texts = pa.array([f"category {number:05}" for number in range(0, 2000, 2)])
        return texts.take(pa.array(ranks * 1000 // len(ranks)))
    if kind == "unique":
        return pc.binary_join_element_wise("key", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 12, "0"), "é", "-")
    if kind == "date":
        return pa.array(numbers.astype(np.int32)).cast(pa.date32())
    if kind == "timestamp":
        return pa.array(numbers * 1_000_000).cast(pa.timestamp("us"))
    if kind == "decimal":
        return pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 0))
    return pa.array(numbers if kind == "int64" else numbers / 4)


def conditions(kind: str, values: pa.Array, share: float) -> tuple[Any, pc.Expression]:
    """Makes a condition that keeps this share of the rows, for orcidx and for pyarrow. Statistics cannot decide it."""
    field, name = pc.field("asked"), orcidx.col("asked")
    if share in (0.0, 1.0):
        some = values[len(values) // 2].as_py()
        absent = some[:-1] + "!" if kind in ("dictionary", "unique") else some + BETWEEN[kind]
        literal = pa.scalar(absent, values.type)
        return (name == absent, field == literal) if share == 0.0 else (name != absent, field != literal)
    ordered = values.take(pc.sort_indices(values))
    first = ordered[int(len(values) * (1 - share) / 2)]
    last = ordered[int(len(values) * (1 + share) / 2)]
    if kind == "dictionary":  # with <=, at least one entry of the dictionary matches
        return (name >= first.as_py()) & (name <= last.as_py()), (field >= first) & (field <= last)
    return (name >= first.as_py()) & (name < last.as_py()), (field >= first) & (field < last)


def best(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Calls the functions in turns, and returns the least processor time of each."""
    least = [math.inf] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            begun = time.process_time()
            call()
            least[place] = min(least[place], time.process_time() - begun)
    return least


def cells(asked: argparse.Namespace, path: str) -> Iterator[Cell]:
    rng = np.random.default_rng(7)
    for kind in asked.kinds:
        for order in asked.orders:
            ranks = np.arange(asked.rows)
            if order == "scattered":
                rng.shuffle(ranks)
            table = pa.table({"asked": column(kind, ranks), "other": rng.integers(0, 1 << 30, asked.rows)})
            for codec in asked.codecs:
                orcidx.write_table(table, path, compression=codec)
                whole = orcidx.open(path).read()
                for share in asked.shares:
                    yield Cell(kind, order, codec, share, *measured(asked, path, whole, kind, share))


def measured(asked: argparse.Namespace, path: str, table: pa.Table, kind: str, share: float) -> list[float]:
    where, expression = conditions(kind, table.column("asked").combine_chunks(), share)

    def ours() -> Any:
        with orcidx.open(path) as file:
            scan = file.scan(["asked", "other"], where, use_threads=False)
            return scan.count_rows() if asked.counts else scan.to_table()

    def other() -> Any:
        with orcidx.open(path) as file:
            if asked.counts:
                return file.scan(["asked"], use_threads=False).to_table()
            return file.scan(["asked", "other"], use_threads=False).to_table().filter(expression)

    expected, found = table.filter(expression), ours()
    if (found != expected.num_rows) if asked.counts else not found.equals(expected):
        sys.exit(f"{kind}, {share} kept: the scan returns other rows than pyarrow's filter of the whole table")
    return best([ours, other], asked.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.conditions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=ORDERS)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--counts", action="store_true", help="count matching rows; compare with decoding the column")
    asked = parser.parse_args()
    print(f"{'':34}" + "".join(f"{share * 100:11g} %" for share in asked.shares), end="")
    found: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder:
        for one in cells(asked, str(Path(folder) / "rows.orc")):
            if len(found) % len(asked.shares) == 0:
                print(f"\n{one.kind:10} {one.order:9} {one.codec:12}", end="")
            found.append(one)
            print(f" {one.ratio:5.2f} ({one.other * 1e3:4.1f})", end="", flush=True)
    mean = geometric_mean(one.ratio for one in found)
    above = sum(one.ratio > MARK for one in found)
    most = max(one.ratio for one in found)
    print(f"\n{len(found)} cells: {mean:.2f} in the geometric mean, {most:.2f} at most, {above} above {MARK}")


if __name__ == "__main__":
    main()
