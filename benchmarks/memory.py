"""Measures the memory that a scan of one large stripe takes. The stripe has 512 MiB of compressed data, 10 columns of
numbers and strings, and blocks of 256 KiB.

    python benchmarks/memory.py                  # one thread; prints the peak above the memory after the imports
    python benchmarks/memory.py --mebibytes 64   # a smaller stripe; the peak should be about the same
    python benchmarks/memory.py --remote         # with a remote reader, which fetches byte ranges ahead

The exit status is 1 if the peak exceeds the bound of 96 MiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

DATA = Path(os.environ.get("ORCIDX_BENCH_DATA") or Path(__file__).parent / "data")
SEED = 20261121
PIECE = 100_000
BYTES_PER_ROW = 49
BOUND = 96


def make_piece(random: np.random.Generator) -> pa.Table:
    """Makes rows of about ``BYTES_PER_ROW`` compressed bytes each."""
    big = random.integers(0, 1 << 62, PIECE)
    texts = pa.array(random.integers(0, 1 << 62, PIECE)).cast(pa.string())
    words = pa.array([f"word-{i:04d}" for i in range(1000)])
    return pa.table(
        {
            "long": big,
            "int": random.integers(0, 1 << 31, PIECE).astype(np.int32),
            "small": random.integers(0, 1000, PIECE),
            "sequence": np.arange(PIECE),
            "double": random.random(PIECE),
            "float": random.random(PIECE).astype(np.float32),
            "decimal": pa.array(random.integers(0, 10**12, PIECE)).cast(pa.decimal128(20, 0)),
            "time": pa.array(random.integers(0, 1 << 60, PIECE)).view(pa.timestamp("ns")),
            "text": texts,
            "word": words.take(pa.array(random.integers(0, 1000, PIECE))),
        }
    )


def make_file(mebibytes: int) -> Path:
    """Returns a file with one stripe of about this many MiB. The file is kept for the next run."""
    path = DATA / f"one-stripe-{mebibytes}.orc"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(SEED)
        partial = path.with_suffix(".part")
        with pa.orc.ORCWriter(
            str(partial), compression="zstd", compression_block_size=256 << 10, stripe_size=1 << 40
        ) as writer:
            for _ in range((mebibytes << 20) // (BYTES_PER_ROW * PIECE)):
                writer.write(make_piece(random))
        partial.rename(path)
    return path


def scan(path: str, *, remote: bool) -> None:
    """Runs the scan, and prints its memory and time. It must run in a separate process."""
    import orcidx

    source: Any = path
    if remote:
        from orcidx.storage import open_reader
        from orcidx.storage.recording import RecordingReader

        source = RecordingReader(open_reader(path))
        source.is_local = False
    held = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began = time.perf_counter()
    rows = 0
    with orcidx.open(source) as file:
        stripe = file.stripes[0]
        for batch in file.scan(use_threads=False):
            rows += batch.num_rows
    took = time.perf_counter() - began
    print(
        f"{rows} rows, {len(file.stripes)} stripe of {(stripe.data_length + stripe.index_length) / 2**20:.0f} MiB, "
        f"{took:.1f} s: {_status('VmHWM') - held:.1f} MiB above {held:.0f} MiB"
    )
    sys.exit(_status("VmHWM") - held > BOUND)


def _status(name: str) -> float:
    """Returns a value of ``/proc/self/status`` in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=512, help="compressed size of the stripe")
    parser.add_argument("--remote", action="store_true", help="read the file like a remote object")
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.scan:
        scan(given.scan, remote=given.remote)
    path = make_file(given.mebibytes)
    command = [sys.executable, __file__, "--scan", str(path), *(["--remote"] if given.remote else [])]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
