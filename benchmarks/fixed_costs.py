"""What a file and a column cost beside their values:  python -m benchmarks.fixed_costs

Small files and wide ones, on one thread, beside pyarrow.orc, in one run, answers checked equal; each row *cold*, where
``forget_metadata()`` comes before each pass, and *warm*. The best of several passes of each side counts, and only the
ratio (pyarrow's time by orcidx's) says much on a shared machine; on a busy one ``--cpu`` counts the time of the
processor instead of the clock's. pyarrow reads one file after the other, as
``pyarrow.orc.ORCFile``; with a key it filters what it has read, which is what a reader without pruning can do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc

import orcidx
from orcidx.orc.metadata_cache import forget_metadata

GOALS = {
    "files whole": (1.0, 1.3),
    "files, one key": (1.2, 3.0),
    "files counted": (0.7, 1.2),
    "one by one": (0.6, 0.8),
    "one of 1,000 columns": (1.0, 3.0),
    "1,000 columns x 10 rows": (1.0, 1.0),
    "1,000 columns x 10,000 rows": (1.5, 1.5),
    "100 columns x 1,000 rows": (1.0, 1.0),
}
"""Ratios that each row is to reach, cold and warm."""

CLOCKS = {False: time.perf_counter, True: time.process_time}
"""The clock by whether ``--cpu`` was given."""

SMALL_ROWS = 100
ONE_BY_ONE = 300


@dataclass(frozen=True)
class Row:
    name: str
    pyarrow: float
    cold: float
    warm: float

    @property
    def ratios(self) -> tuple[float, float]:
        return self.pyarrow / self.cold, self.pyarrow / self.warm


def small_files(folder: Path, count: int) -> list[str]:
    """Files of 100 rows with an ascending key, a double and a word, as streaming jobs leave them behind."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    paths = []
    for number in range(count):
        path = folder / f"part-{number:05d}.orc"
        if not path.is_file():
            key = np.arange(number * SMALL_ROWS, (number + 1) * SMALL_ROWS)
            words = [f"word {value}" for value in random.integers(0, 1000, SMALL_ROWS)]
            table = pa.table({"key": key, "price": random.random(SMALL_ROWS), "word": words})
            pa.orc.write_table(table, path, compression="zstd")
        paths.append(str(path))
    return paths


def wide_file(folder: Path, columns: int, rows: int) -> str:
    """A file of doubles, integers and short strings in turn."""
    path = folder / f"wide-{columns}x{rows}.orc"
    if not path.is_file():
        random = np.random.default_rng(columns * rows)
        kinds: list[Callable[[], Any]] = [
            lambda: random.random(rows),
            lambda: random.integers(0, 1 << 20, rows),
            lambda: pa.array([f"v{value}" for value in random.integers(0, 100, rows)]),
        ]
        pa.orc.write_table(pa.table({f"c{i}": kinds[i % 3]() for i in range(columns)}), path, compression="zstd")
    return str(path)


def _seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    call()
    return clock() - began


def measure(name: str, peer: Callable[[], Any], ours: Callable[[], Any], repeat: int, *, cpu: bool) -> Row:
    """Both sides in turn, best of ``repeat``; raises ``SystemExit`` where the answers differ."""
    expected, found = peer(), ours()
    if not (expected.equals(found) if isinstance(expected, pa.Table) else expected == found):
        raise SystemExit(f"{name}: the answers differ")
    del expected, found
    theirs = cold = warm = float("inf")
    for _ in range(repeat):
        theirs = min(theirs, _seconds(peer, CLOCKS[cpu]))
        forget_metadata()
        cold = min(cold, _seconds(ours, CLOCKS[cpu]))
        warm = min(warm, _seconds(ours, CLOCKS[cpu]))
    return Row(name, theirs, cold, warm)


def peer_table(paths: list[str], columns: list[str] | None = None) -> pa.Table:
    return pa.concat_tables([pa.orc.ORCFile(path).read(columns) for path in paths])


def our_table(path: str, columns: list[str] | None = None) -> pa.Table:
    with orcidx.open(path) as file:
        return file.scan(columns, use_threads=False).to_table()


def file_rows(paths: list[str], repeat: int, *, cpu: bool) -> list[Row]:
    """Many small files: whole, one key of them, counted, and opened one by one."""
    key = len(paths) * SMALL_ROWS // 2 + 17
    some = paths[:ONE_BY_ONE]

    def scan(where: Any = None) -> Any:
        return orcidx.scan(paths, where=where, use_threads=False)

    def one_key() -> pa.Table:
        tables = (pa.orc.ORCFile(path).read() for path in paths)
        return pa.concat_tables([table.filter(pc.equal(table["key"], key)) for table in tables])

    def whole_each() -> pa.Table:
        return pa.concat_tables([our_table(path) for path in some])

    return [
        measure("files whole", lambda: peer_table(paths), lambda: scan().to_table(), repeat, cpu=cpu),
        measure("files, one key", one_key, lambda: scan(orcidx.col("key") == key).to_table(), repeat, cpu=cpu),
        measure(
            "files counted",
            lambda: sum(pa.orc.ORCFile(path).nrows for path in paths),
            scan().count_rows,
            repeat,
            cpu=cpu,
        ),
        measure("one by one", lambda: peer_table(some), whole_each, repeat, cpu=cpu),
    ]


def wide_rows(folder: Path, repeat: int, *, cpu: bool) -> list[Row]:
    """Wide files: one column of them, and all."""
    wide = wide_file(folder, 1000, 10_000)
    one = ["c501"]
    rows = []

    def add(name: str, path: str, columns: list[str] | None, repeat: int) -> None:
        rows.append(
            measure(name, lambda: peer_table([path], columns), lambda: our_table(path, columns), repeat, cpu=cpu)
        )

    add("one of 1,000 columns", wide, one, 4 * repeat)
    for name, columns, count in (
        ("1,000 columns x 10 rows", 1000, 10),
        ("1,000 columns x 10,000 rows", 1000, 10_000),
        ("100 columns x 1,000 rows", 100, 1000),
    ):
        add(name, wide_file(folder, columns, count), None, 2 * repeat)
    return rows


def report(rows: list[Row]) -> str:
    """The rows as a table; a star marks a ratio that is below its goal."""
    lines = [f"{'':28} {'pyarrow ms':>11} {'cold ms':>9} {'warm ms':>9} {'cold':>7} {'warm':>7}   goals"]
    for row in rows:
        ratios, goals = row.ratios, GOALS[row.name]
        cells = "".join(f"{ratio:7.2f}{' *'[ratio < goal]}" for ratio, goal in zip(ratios, goals))
        times = f"{row.pyarrow * 1e3:11.2f} {row.cold * 1e3:9.2f} {row.warm * 1e3:9.2f}"
        lines.append(f"{row.name:28} {times} {cells}  {goals[0]:g} / {goals[1]:g}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000, help="number of small files")
    parser.add_argument("--repeat", type=int, default=5, help="passes of each side")
    parser.add_argument("--folder", type=Path, help="where the files lie, or are made")
    parser.add_argument("--cpu", action="store_true", help="measure the processor's time")
    chosen = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        paths = small_files(folder / "small", chosen.files)
        time.sleep(0.3)  # a file just written has no identity yet: nothing of it would be kept
        rows = file_rows(paths, chosen.repeat, cpu=chosen.cpu) + wide_rows(folder, chosen.repeat, cpu=chosen.cpu)
        sys.stdout.write(report(rows) + "\n")


if __name__ == "__main__":
    main()
