"""Measures the time that a file and a column take in addition to their values:  python -m benchmarks.fixed_costs

orcidx and pyarrow.orc read small files and wide files in one run, with one thread. The results are compared. For
orcidx, each row of the output has a *cold* time, measured after ``forget_metadata()``, and a *warm* time. The best of
several reads counts. The ratio is pyarrow's time divided by orcidx's time. On a shared machine, only the ratio is
meaningful. On a busy machine, use ``--cpu``, which measures processor time instead of elapsed time. pyarrow reads one
file after the other with ``pyarrow.orc.ORCFile``. For a key, it filters the rows that it has read, because it cannot
skip rows.
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
"""The goals for the ratios of each row, cold and warm."""

CLOCKS = {False: time.perf_counter, True: time.process_time}
"""The clocks. The key says whether ``--cpu`` is given."""

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
    """Writes files of 100 rows with an ascending key, a double and a word. Streaming jobs write such small files."""
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
    """Writes a file. Its columns are doubles, integers and short strings, alternately."""
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
    """Measures both sides in turns. The best of ``repeat`` times counts. Different answers raise ``SystemExit``."""
    expected, found = peer(), ours()
    if not (expected.equals(found) if isinstance(expected, pa.Table) else expected == found):
        raise SystemExit(f"{name}: orcidx and its peer must return the same result, but their results differ")
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
    """Reads many small files in four ways: all rows, one key, only the number of rows, and each file alone. The last
    case reads fewer files, so it is repeated more often."""
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
        measure("one by one", lambda: peer_table(some), whole_each, 4 * repeat, cpu=cpu),
    ]


def wide_rows(folder: Path, repeat: int, *, cpu: bool) -> list[Row]:
    """Reads wide files: one column, and all columns."""
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
    """Returns the rows as a table. A star marks a ratio below its goal."""
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
    parser.add_argument("--repeat", type=int, default=5, help="reads by each side")
    parser.add_argument("--folder", type=Path, help="the folder of the files; missing files are made")
    parser.add_argument("--cpu", action="store_true", help="measure processor time")
    chosen = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        paths = small_files(folder / "small", chosen.files)
        time.sleep(0.3)  # the metadata of a file that was just written is not cached
        rows = file_rows(paths, chosen.repeat, cpu=chosen.cpu) + wide_rows(folder, chosen.repeat, cpu=chosen.cpu)
        sys.stdout.write(report(rows) + "\n")


if __name__ == "__main__":
    main()
