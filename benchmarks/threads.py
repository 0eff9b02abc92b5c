"""Two threads beside one, and beside two processes, on lineitem: ``python -m benchmarks.threads``.

Each round runs all three, so that what else the machine does weighs on all alike; the best of the rounds counts. Two
processes read half of the row groups each, as two tasks of an engine would: what memory and processor give at best.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

import pyarrow as pa

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
    """Two that wait for what to read."""

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--codec", default="zstd")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--spark", action="store_true", help="the file that Spark writes, not pyarrow")
    arguments = parser.parse_args()
    path = str(lineitem.orc(arguments.scale, arguments.codec, spark=arguments.spark))
    pa.set_cpu_count(2)
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
