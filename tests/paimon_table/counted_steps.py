"""Steps on small Paimon tables and ORC files, whose instructions ``test_paimon_instructions`` counts. The test runs
this file in callgrind:
python counted_steps.py MARKS FOLDER

MARKS is a library whose ``begin`` and ``end`` tell callgrind where a step begins and ends. The file prints the name of
each counted step, in the order of callgrind's dumps. Work that a process does only once is done before counting starts.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))
from paimon_empty import empty_table

from orcidx import col, write_table
from orcidx.paimon import open_table

ROWS = pa.table({"id": range(100), "city": [f"c{i}" for i in range(100)]})
ONE = pa.table({"id": [5], "city": ["x"]})
WRITTEN = pa.table({"k": [1], "v": ["a"], "x": [1.5]})
UNCOUNTED = 3
"""The number of runs of each step before it is counted."""


class _Part:
    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def shown(self) -> str:
        return f"{self.name}-{self.size}"


def yardstick(_: Path) -> None:
    """Runs plain Python that is similar to the other steps: objects, calls, texts, dicts and bytes."""
    for number in range(600):
        parts = [_Part(name, number) for name in ("a", "b", "c")]
        by_name = {part.shown(): part for part in parts}
        text = ",".join(sorted(by_name))
        data = text.encode().ljust(32, b"\0")
        total = sum(part.size for part in by_name.values()) + len(data)
        assert total == 3 * number + 32
        assert all(isinstance(part, _Part) for part in parts)


def lookup(path: Path) -> None:
    found = open_table(path).scan(where=col("id") == 5, use_threads=False).to_table()
    assert found.num_rows == 1


def append(path: Path) -> None:
    assert open_table(path).append(ONE).rows == 1


def delete(path: Path) -> None:
    assert open_table(path).delete(col("id") == 7).rows == 1


def write(path: Path) -> None:
    """Writes an ORC file of one row. The Paimon table in ``path`` is not used."""
    write_table(WRITTEN, path / "one.orc")


STEPS: tuple[Callable[[Path], None], ...] = (yardstick, lookup, append, delete, write)


def main(marks: Any, folder: Path) -> None:
    pa.set_cpu_count(1)
    for step in STEPS:
        paths = [empty_table(folder / step.__name__ / str(number)) for number in range(UNCOUNTED + 1)]
        for path in paths:
            open_table(path).append(ROWS)
        for path in paths[1:]:
            step(path)
        gc.collect()
        gc.disable()
        marks.begin()
        step(paths[0])
        marks.end()
        gc.enable()
        print(step.__name__, flush=True)


if __name__ == "__main__":
    main(ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]))
