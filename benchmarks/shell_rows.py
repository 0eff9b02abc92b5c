"""Measures the processor time of ``orcidx cat`` and ``orcidx head``: ``python -m benchmarks.shell_rows [ROWS]``."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import orcidx


def table(rows: int) -> pa.Table:
    """Makes a table with two columns of each of eight types."""
    rng = np.random.default_rng(1)
    made = [
        lambda: rng.integers(0, 10**9, rows),
        lambda: rng.normal(size=rows) * 1000,
        lambda: pa.array(np.char.add("name", rng.integers(0, 10**6, rows).astype("U"))),
        lambda: pa.array(rng.integers(0, 20_000, rows).astype("i4")).cast(pa.date32()),
        lambda: pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us")),
        lambda: rng.integers(0, 100, rows),
        lambda: rng.integers(0, 10**5, rows) / 100,
        lambda: pa.array(rng.random(rows) < 0.5),
    ]
    return pa.table({f"column{i}": made[i % 8]() for i in range(16)})


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.orc")
        orcidx.write_table(table(rows), path)
        for words in (["cat", "--json"], ["cat"], ["head", "-n", str(rows), "--json"]):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "orcidx", words[0], str(path), *words[1:]]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"orcidx {' '.join(words)}: {rows:,} rows of 16 columns in {used:.2f} s of processor time")


if __name__ == "__main__":
    main()
