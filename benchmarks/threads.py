"""Reads lineitem with two threads, with one thread and with two processes: ``python -m benchmarks.threads``.

Each round runs all three, so other work of the machine slows all of them down alike. The best round counts. The two
processes read half of the rows each, like two tasks of an engine. Their time is the best that memory and processor
allow. ``--polars`` makes two other comparisons. The first compares reading the whole table with two threads in orcidx
and in Polars. Polars reads a Parquet file of the same rows and codec, written by pyarrow. The second compares the time
for all columns, with one thread, with the sum of the times for each column alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

import orcidx
from benchmarks import lineitem

COLUMNS = {"whole": None, "l_comment": ["l_comment"], "numbers": ["l_partkey", "l_quantity", "l_extendedprice"]}


def read(path: str, columns: list[str] | None, form: str, threads: bool, part: int | None = None) -> None:
    with orcidx.open(path) as file:
        rows = None if part is None else (file.num_rows * part // 2, file.num_rows * (part + 1) // 2)
        scan = file.scan(columns, use_threads=threads, **({} if rows is None else {"row_range": rows}))
        if form == "table":
            scan.to_table()
        else:
            for _ in scan:
                pass


def _serve(connection: Connection) -> None:
    while (task := connection.recv()) is not None:
        read(*task)
        connection.send(None)


class Processes:
    """Two processes that wait for the next file to read."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends = []
        for _ in range(2):
            mine, other = context.Pipe()
            context.Process(target=_serve, args=(other,), daemon=True).start()
            self._ends.append(mine)

    def read(self, path: str, columns: list[str] | None, form: str) -> None:
        for part, end in enumerate(self._ends):
            end.send((path, columns, form, False, part))
        for end in self._ends:
            end.recv()

    def close(self) -> None:
        for end in self._ends:
            end.send(None)


def seconds(call: Callable[[], None]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - processor


def compare(name: str, calls: Sequence[Callable[[], None]], rounds: int) -> None:
    best = [(9e9, 9e9)] * len(calls)
    for _ in range(rounds):
        best = [(min(a, b), min(c, d)) for (a, c), (b, d) in zip(best, map(seconds, calls))]
    (one, alone), (two, beside), (apart, _) = best
    print(
        f"{name:20} {one * 1e3:7.1f} ms   {two * 1e3:7.1f} ms   {apart * 1e3:7.1f} ms   "
        f"{one / two:5.2f}  {apart / two:5.2f}  {beside / alone:5.2f}",
        flush=True,
    )


def twin(path: str, codec: str) -> str:
    """Returns a Parquet file with the same rows. It is written if it does not exist."""
    target = Path(path).with_suffix(".parquet")
    if not target.is_file():
        with orcidx.open(path) as file:
            pyarrow.parquet.write_table(file.scan().to_table(), target, compression=codec)
    return str(target)


def beside_polars(path: str, codec: str, rounds: int) -> None:
    os.environ["POLARS_MAX_THREADS"] = "2"
    import polars

    with orcidx.open(path) as file:
        columns = file.scan().schema.names
    calls = [partial(polars.read_parquet, twin(path, codec)), partial(read, path, None, "table", True)]
    calls += [partial(read, path, names, "table", False) for names in (None, *([name] for name in columns))]
    best = [9e9] * len(calls)
    for _ in range(rounds):
        best = [min(before, seconds(call)[0]) for before, call in zip(best, calls)]
    other, two, whole, *alone = best
    print(f"{path}\nPolars {other * 1e3:.1f} ms, two threads {two * 1e3:.1f} ms, of its time {two / other:.2f}")
    print(
        f"one thread {whole * 1e3:.1f} ms, its columns {sum(alone) * 1e3:.1f} ms, of their sum {whole / sum(alone):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--codec", default="zstd")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--spark", action="store_true", help="read a file that Spark wrote, not pyarrow")
    parser.add_argument("--polars", action="store_true", help="only compare with Polars and the sum of the columns")
    arguments = parser.parse_args()
    path = str(lineitem.orc(arguments.scale, arguments.codec, spark=arguments.spark))
    pa.set_cpu_count(2)
    if arguments.polars:
        beside_polars(path, arguments.codec, arguments.rounds)
        return
    processes = Processes()
    print(f"{path}\n{'':20} 1 thread     2 threads    2 processes   threads' speed-up, of processes', processor time")
    for name, columns in COLUMNS.items():
        for form in ("table", "batches"):
            calls = [
                partial(read, path, columns, form, False),
                partial(read, path, columns, form, True),
                partial(processes.read, path, columns, form),
            ]
            compare(f"{name}, {form}", calls, arguments.rounds)
    processes.close()


if __name__ == "__main__":
    main()
