"""Compares ``orcidx.write_table`` with ``pyarrow.orc.write_table``, column by column and over a lineitem-like table.

Both libraries use one thread, the same codec and level, and their own default row index stride and block size. They run
in turns, and the least processor time counts. The benchmark prints the nanoseconds per row, the ratio of the times and
the ratio of the sizes. It checks that pyarrow reads equal values from both files.
``python -m benchmarks.compare_writers [--rows N] [--codec zstd] [COLUMN ...]``

``--threads`` compares the elapsed time of orcidx with one thread and with all processors. Use it on an idle machine.
``--memory`` measures the memory that writing lineitem takes in addition to the table. Each library runs in a separate
process (Linux).
"""

from __future__ import annotations

import argparse
import io
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import geometric_mean

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcidx

WORDS = [
    f"{kind} {what}" for kind in ("furiously", "quick", "even", "bold") for what in ("deposits", "ideas", "asymptotes")
]
PYARROW_LEVELS = {"zstd": 1, "zlib": 2}
"""The levels that pyarrow uses with its default strategy, "speed"."""


def decimals(values: np.ndarray, precision: int, scale: int) -> pa.Array:
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [None, pa.py_buffer(words.tobytes())])


def comments(rng: np.random.Generator, n: int) -> pa.Array:
    base = [" ".join(rng.choice(WORDS, int(k))) for k in rng.integers(3, 8, min(n, 20_000))]
    return pa.array(base).take(pa.array(rng.integers(0, len(base), n)))


def columns(rng: np.random.Generator, n: int) -> dict[str, pa.Array]:
    small = rng.integers(0, 1000, n)
    wide = rng.integers(0, 2**62, (n, 2))
    wide[:, 1] >>= 2
    offsets = pa.array(np.arange(0, 2 * n + 1, 2, dtype=np.int32))
    return {
        "int64 random": pa.array(rng.integers(-(2**61), 2**61, n)),
        "int64 0..999": pa.array(small),
        "int64 sequence": pa.array(np.arange(n)),
        "int64 sorted": pa.array(np.cumsum(rng.integers(0, 20, n))),
        "int64 10 % null": pa.array(small, mask=rng.random(n) < 0.1),
        "int64 outliers": pa.array(np.where(rng.random(n) < 0.02, rng.integers(0, 2**40, n), rng.integers(0, 200, n))),
        "bool": pa.array(rng.random(n) < 0.3),
        "double": pa.array(rng.random(n)),
        "float": pa.array(rng.random(n).astype(np.float32)),
        "string 1000 distinct": pa.array([f"val_{i:06d}" for i in range(1000)]).take(pa.array(small)),
        "string unique": pa.array([f"k{i:012d}" for i in rng.integers(0, 10**12, n)]),
        "string comment": comments(rng, n),
        "date": pa.array(rng.integers(8000, 11000, n).astype(np.int32)).cast(pa.date32()),
        "timestamp us": pa.array(rng.integers(10**15, 17 * 10**14, n)).cast(pa.timestamp("us")),
        "decimal(12,2)": decimals(rng.integers(0, 10**9, n), 12, 2),
        "decimal(38,10)": pa.Array.from_buffers(pa.decimal128(38, 10), n, [None, pa.py_buffer(wide.tobytes())]),
        "list<int64>": pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 1000, 2 * n))),
        "struct": pa.StructArray.from_arrays([pa.array(small), pa.array(rng.random(n))], ["a", "b"]),
    }


def lineitem(rng: np.random.Generator, n: int) -> pa.Table:
    def pick(*values: str) -> pa.Array:
        return pa.array(values).take(pa.array(rng.integers(0, len(values), n)))

    def days() -> pa.Array:
        return pa.array(rng.integers(8035, 10561, n).astype(np.int32)).cast(pa.date32())

    return pa.table(
        {
            "l_orderkey": np.sort(rng.integers(1, n, n)),
            "l_partkey": rng.integers(1, 200_000, n),
            "l_suppkey": rng.integers(1, 10_000, n),
            "l_linenumber": rng.integers(1, 8, n).astype(np.int32),
            "l_quantity": decimals(rng.integers(1, 51, n) * 100, 12, 2),
            "l_extendedprice": decimals(rng.integers(90_000, 10_500_000, n), 12, 2),
            "l_discount": decimals(rng.integers(0, 11, n), 12, 2),
            "l_tax": decimals(rng.integers(0, 9, n), 12, 2),
            "l_returnflag": pick("A", "N", "R"),
            "l_linestatus": pick("O", "F"),
            "l_shipdate": days(),
            "l_commitdate": days(),
            "l_receiptdate": days(),
            "l_shipinstruct": pick("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"),
            "l_shipmode": pick("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"),
            "l_comment": comments(rng, n),
        }
    )


def best(write: Callable[[io.BytesIO], object], before: float, out: io.BytesIO) -> float:
    out.seek(0)
    out.truncate()
    start = time.process_time()
    write(out)
    return min(before, time.process_time() - start)


def compare(name: str, table: pa.Table, codec: str, times: int) -> tuple[float, float]:
    """Prints one row. Returns pyarrow's time divided by orcidx's time, and orcidx's size divided by pyarrow's size."""
    threshold = 0.8 if name == "lineitem" else 0.0
    level = PYARROW_LEVELS.get(codec)
    ours, theirs = io.BytesIO(), io.BytesIO()
    own = other = math.inf
    for _ in range(times):
        other = best(
            lambda out: orc.write_table(table, out, compression=codec, dictionary_key_size_threshold=threshold),
            other,
            theirs,
        )
        own = best(
            lambda out: orcidx.write_table(table, out, compression=codec, compression_level=level, use_threads=False),
            own,
            ours,
        )
    if not orc.read_table(io.BytesIO(ours.getvalue())).equals(orc.read_table(io.BytesIO(theirs.getvalue()))):
        raise SystemExit(f"{name}: the files differ")
    size = len(ours.getvalue()) / len(theirs.getvalue())
    rows = table.num_rows / 1e9
    print(f"{name:22} {other / rows:8.1f} {own / rows:8.1f} {other / own:7.2f}x {size:7.3f}", flush=True)
    return other / own, size


class Nowhere:
    """A file object that discards what is written."""

    def write(self, data: bytes) -> None:
        pass


def compare_threads(name: str, table: pa.Table, codec: str, times: int) -> float:
    """Prints one row. Returns the time with one thread divided by the time with all processors."""
    least = {False: math.inf, True: math.inf}
    for _ in range(times):
        for use in least:
            start = time.perf_counter()
            orcidx.write_table(
                table, Nowhere(), compression=codec, compression_level=PYARROW_LEVELS.get(codec), use_threads=use
            )
            least[use] = min(least[use], time.perf_counter() - start)
    print(
        f"{name:22} {least[False] * 1e3:8.1f} {least[True] * 1e3:8.1f} {least[False] / least[True]:7.2f}x", flush=True
    )
    return least[False] / least[True]


def memory_of(key: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) >> 10


def peak(who: str, rows: int, codec: str) -> int:
    """Returns the MiB of memory that writing lineitem takes in this process, in addition to the memory held before."""
    table = lineitem(np.random.default_rng(1), rows)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # resets the peak
    before = memory_of("VmRSS")
    if who == "pyarrow":
        orc.write_table(table, os.devnull, compression=codec, dictionary_key_size_threshold=0.8)
    else:
        level = PYARROW_LEVELS.get(codec)
        orcidx.write_table(table, Nowhere(), compression=codec, compression_level=level, use_threads=who == "threads")
    return memory_of("VmHWM") - before


def peak_apart(who: str, rows: int, codec: str) -> int:
    """Runs ``peak`` in a separate process."""
    command = [sys.executable, "-m", "benchmarks.compare_writers", "--rows", str(rows), "--codec", codec]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return int(subprocess.run([*command, "--peak", who], check=True, capture_output=True, text=True, env=place).stdout)


def compare_memory(rows: int, codec: str) -> None:
    for who in ("pyarrow", "orcidx", "threads"):
        shown = "orcidx, all processors" if who == "threads" else who
        print(f"{shown:22} {peak_apart(who, rows, codec):8} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--codec", default="zstd", choices=["uncompressed", "zlib", "snappy", "lz4", "zstd"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", choices=["pyarrow", "orcidx", "threads"], help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="COLUMN")
    given = parser.parse_args()
    if given.peak:
        print(peak(given.peak, given.rows, given.codec))
        return
    if given.memory:
        compare_memory(given.rows, given.codec)
        return
    if not given.threads:
        pa.set_cpu_count(1)
    rng = np.random.default_rng(1)
    tables = {name: pa.table({"c": array}) for name, array in columns(rng, given.rows).items()}
    tables["lineitem"] = lineitem(rng, given.rows)
    tables = {name: table for name, table in tables.items() if not given.names or name in given.names}
    if given.threads:
        print(f"{given.codec:22} {'one':>8} {'all':>8} {'faster':>8}   (ms)")
        for name, table in tables.items():
            compare_threads(name, table, given.codec, given.times)
        return
    print(f"{given.codec:22} {'pyarrow':>8} {'orcidx':>8} {'faster':>8} {'size':>7}   (ns a row)")
    ratios = [compare(name, table, given.codec, given.times)[0] for name, table in tables.items()]
    print(f"geometric mean {geometric_mean(ratios):.2f}x, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
