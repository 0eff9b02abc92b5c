"""Compares the sizes and times of files that orcidx and pyarrow write, for 62 shapes (kinds of columns).

Both libraries use the same codec, stripe size and row-group stride. All other options have the defaults of each
library. pyarrow writes a file with dictionaries and a file without, and the smaller file counts. The least processor
time of one thread counts. ``--parquet`` also compares with Parquet files, which pyarrow writes with zstd.

``python -m benchmarks.written_sizes [--rows N] [--codec zstd] [--times N] [--parquet] [SHAPE ...]``
"""

from __future__ import annotations

import argparse
import io
import math
import statistics
import time
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyarrow import orc

import orcidx

STRIPE, STRIDE = 64 << 20, 10_000
Make = Callable[[np.random.Generator, int], pa.Array]
WORDS = [
    "the",
    "of",
    "carefully",
    "deposits",
    "quick",
    "ideas",
    "bold",
    "accounts",
    "sleep",
    "final",
    "requests",
    "even",
]


def _texts(values: object) -> pa.Array:
    return pa.array(values, pa.string())


def _decimals(values: np.ndarray, precision: int, scale: int) -> pa.Array:
    words = np.empty((len(values), 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [None, pa.py_buffer(words.tobytes())])


def _nulls(array: pa.Array, rng: np.random.Generator, share: float) -> pa.Array:
    return pa.array(array.to_numpy(zero_copy_only=False), array.type, mask=rng.random(len(array)) < share)


def _zipf(rng: np.random.Generator, n: int, distinct: int) -> np.ndarray:
    weights = 1 / np.arange(1, distinct + 1)
    return rng.choice(distinct, n, p=weights / weights.sum())


def _few(rng: np.random.Generator, n: int, values: list[str]) -> pa.Array:
    return _texts(values).take(pa.array(rng.integers(0, len(values), n)))


def _names(rng: np.random.Generator, n: int) -> list[str]:
    syllables = ["an", "bel", "car", "do", "el", "fi", "gar", "ho", "is", "jo", "ka", "li", "mo", "na", "os", "pe"]
    parts = rng.integers(0, len(syllables), (n, 3)).tolist()
    return [syllables[a] + syllables[b] + syllables[c] for a, b, c in parts]


def _sentences(rng: np.random.Generator, n: int) -> pa.Array:
    base = [" ".join(rng.choice(WORDS, int(k))) for k in rng.integers(4, 12, min(n, 20_000))]
    return _texts(base).take(pa.array(rng.integers(0, len(base), n)))


def _paths(rng: np.random.Generator, n: int) -> list[str]:
    sections = ["news", "shop", "blog", "help"]
    return [
        f"https://www.example.com/{sections[s]}/{i:07d}?ref={r}"
        for s, i, r in zip(rng.integers(0, 4, n), rng.integers(0, 10**7, n), rng.integers(0, 50, n), strict=True)
    ]


def _emails(rng: np.random.Generator, n: int) -> list[str]:
    hosts = ["example.com", "mail.org", "post.net"]
    return [
        f"{name}{i}@{hosts[h]}"
        for name, i, h in zip(_names(rng, n), rng.integers(0, 10_000, n), rng.integers(0, 3, n), strict=True)
    ]


def _hex(rng: np.random.Generator, n: int, size: int) -> pa.Array:
    return _texts([rng.bytes(size).hex() for _ in range(n)])


def _uuids(rng: np.random.Generator, n: int) -> pa.Array:
    return _texts([str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(n)])


def _json(rng: np.random.Generator, n: int) -> pa.Array:
    kinds = ["view", "click", "buy"]
    return _texts(
        [
            f'{{"user": {u}, "event": "{kinds[k]}", "price": {p / 100:.2f}}}'
            for u, k, p in zip(rng.integers(0, 10**6, n), rng.integers(0, 3, n), rng.integers(0, 10**5, n), strict=True)
        ]
    )


def _addresses(rng: np.random.Generator, n: int) -> pa.Array:
    return _texts([f"10.{a}.{b}.{c}" for a, b, c in rng.integers(0, 256, (n, 3)).tolist()])


def _lists(values: pa.Array, lengths: np.ndarray) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _maps(rng: np.random.Generator, n: int) -> pa.Array:
    offsets = pa.array(np.arange(0, 2 * n + 1, 2, dtype=np.int32))
    keys = _texts(["width", "height"] * n)
    return pa.MapArray.from_arrays(offsets, keys, pa.array(rng.integers(0, 2000, 2 * n)))


def _seconds(rng: np.random.Generator, n: int) -> np.ndarray:
    return 1_700_000_000 + np.sort(rng.integers(0, 86_400 * 30, n))


def _dictionary(rng: np.random.Generator, n: int, distinct: int) -> pa.Array:
    values = _texts([f"customer-{i:08d}" for i in range(distinct)])
    return pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, distinct, n).astype(np.int32)), values)


SHAPES: dict[str, Make] = {
    "int64 sequence": lambda rng, n: pa.array(np.arange(n)),
    "int64 steps of 10": lambda rng, n: pa.array(np.arange(n) * 10 + 7),
    "int64 sorted": lambda rng, n: pa.array(np.cumsum(rng.integers(0, 20, n))),
    "int64 sorted, gaps": lambda rng, n: pa.array(np.sort(rng.integers(0, 2**40, n))),
    "int64 falling": lambda rng, n: pa.array(-np.cumsum(rng.integers(1, 100, n))),
    "int64 0..999": lambda rng, n: pa.array(rng.integers(0, 1000, n)),
    "int64 0..9": lambda rng, n: pa.array(rng.integers(0, 10, n)),
    "int64 zipf": lambda rng, n: pa.array(_zipf(rng, n, 10_000)),
    "int64 few of large": lambda rng, n: pa.array(rng.integers(0, 2**60, 20)[rng.integers(0, 20, n)]),
    "int64 constant": lambda rng, n: pa.array(np.full(n, 42)),
    "int64 runs": lambda rng, n: pa.array(np.repeat(rng.integers(0, 10**6, n // 50 + 1), 50)[:n]),
    "int64 outliers": lambda rng, n: pa.array(
        np.where(rng.random(n) < 0.02, rng.integers(0, 2**40, n), rng.integers(0, 200, n))
    ),
    "int64 random": lambda rng, n: pa.array(rng.integers(-(2**61), 2**61, n)),
    "int64 signed small": lambda rng, n: pa.array(rng.integers(-100, 100, n)),
    "int64 10 % null": lambda rng, n: pa.array(rng.integers(0, 1000, n), mask=rng.random(n) < 0.1),
    "int64 90 % null": lambda rng, n: pa.array(rng.integers(0, 1000, n), mask=rng.random(n) < 0.9),
    "int64 walk": lambda rng, n: pa.array(np.cumsum(rng.integers(-50, 51, n))),
    "int64 ids of days": lambda rng, n: pa.array(20240000 + np.arange(n) // 4000 + 100 * (np.arange(n) // 120_000)),
    "int32 random": lambda rng, n: pa.array(rng.integers(-(2**31), 2**31, n).astype(np.int32)),
    "int32 0..49": lambda rng, n: pa.array(rng.integers(0, 50, n).astype(np.int32)),
    "int16 random": lambda rng, n: pa.array(rng.integers(-(2**15), 2**15, n).astype(np.int16)),
    "int8 random": lambda rng, n: pa.array(rng.integers(-128, 128, n).astype(np.int8)),
    "int8 few": lambda rng, n: pa.array(rng.integers(0, 4, n).astype(np.int8)),
    "bool 30 %": lambda rng, n: pa.array(rng.random(n) < 0.3),
    "bool 1 %": lambda rng, n: pa.array(rng.random(n) < 0.01),
    "bool runs": lambda rng, n: pa.array(np.repeat(rng.random(n // 100 + 1) < 0.5, 100)[:n]),
    "double random": lambda rng, n: pa.array(rng.random(n)),
    "double prices": lambda rng, n: pa.array(rng.integers(100, 100_000, n) / 100),
    "double few": lambda rng, n: pa.array(rng.integers(0, 11, n) / 100),
    "double whole": lambda rng, n: pa.array(rng.integers(0, 10_000, n).astype(float)),
    "double walk": lambda rng, n: pa.array(np.cumsum(rng.normal(size=n))),
    "float random": lambda rng, n: pa.array(rng.random(n).astype(np.float32)),
    "float sensor": lambda rng, n: pa.array((20 + 5 * np.sin(np.arange(n) / 5000)).round(1).astype(np.float32)),
    "decimal(12,2)": lambda rng, n: _decimals(rng.integers(0, 10**7, n), 12, 2),
    "decimal(12,2) few": lambda rng, n: _decimals(rng.integers(0, 11, n), 12, 2),
    "decimal(38,10)": lambda rng, n: _decimals(rng.integers(0, 2**60, n), 38, 10),
    "date": lambda rng, n: pa.array(rng.integers(8000, 11_000, n).astype(np.int32)).cast(pa.date32()),
    "date sorted": lambda rng, n: pa.array(np.sort(rng.integers(19_000, 19_365, n)).astype(np.int32)).cast(pa.date32()),
    "timestamp us": lambda rng, n: pa.array(rng.integers(10**15, 17 * 10**14, n)).cast(pa.timestamp("us")),
    "timestamp s sorted": lambda rng, n: pa.array(_seconds(rng, n)).cast(pa.timestamp("s")),
    "timestamp ms log": lambda rng, n: pa.array(1_700_000_000_000 + np.cumsum(rng.integers(0, 200, n))).cast(
        pa.timestamp("ms")
    ),
    "timestamp zoned": lambda rng, n: pa.array(_seconds(rng, n) * 10**6).cast(pa.timestamp("us", "UTC")),
    "string flags": lambda rng, n: _few(rng, n, ["A", "N", "R"]),
    "string modes": lambda rng, n: _few(rng, n, ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]),
    "string 1000 distinct": lambda rng, n: _few(rng, n, [f"val_{i:06d}" for i in range(1000)]),
    "string zipf": lambda rng, n: _texts([f"item {i * 7919}" for i in range(50_000)]).take(
        pa.array(_zipf(rng, n, 50_000))
    ),
    "string sorted keys": lambda rng, n: _texts([f"key-{i:012d}" for i in np.sort(rng.integers(0, 10**9, n))]),
    "string digits": lambda rng, n: _texts([f"{i:012d}" for i in rng.integers(0, 10**12, n)]),
    "string hex ids": lambda rng, n: _hex(rng, n, 8),
    "string uuids": lambda rng, n: _uuids(rng, n),
    "string emails": lambda rng, n: _texts(_emails(rng, n)),
    "string urls": lambda rng, n: _texts(_paths(rng, n)),
    "string names": lambda rng, n: _texts(_names(rng, n)),
    "string addresses": lambda rng, n: _addresses(rng, n),
    "string sentences": lambda rng, n: _sentences(rng, n),
    "string json": lambda rng, n: _json(rng, n),
    "string 50 % null": lambda rng, n: _nulls(_few(rng, n, ["red", "green", "blue", "yellow"]), rng, 0.5),
    "binary random": lambda rng, n: pa.array([rng.bytes(12) for _ in range(n)], pa.binary()),
    "dictionary 200,000": lambda rng, n: _dictionary(rng, n, 200_000),
    "list<int64>": lambda rng, n: _lists(pa.array(rng.integers(0, 1000, 2 * n)), np.full(n, 2)),
    "struct": lambda rng, n: pa.StructArray.from_arrays(
        [pa.array(rng.integers(0, 1000, n)), pa.array(rng.random(n))], ["a", "b"]
    ),
    "map": _maps,
}


def table_of(name: str, rows: int, seed: int = 1) -> pa.Table:
    return pa.table({"x": SHAPES[name](np.random.default_rng(seed), rows)})


def write_own(table: pa.Table, codec: str) -> bytes:
    out = io.BytesIO()
    orcidx.write_table(table, out, compression=codec, stripe_size=STRIPE, row_index_stride=STRIDE, use_threads=False)
    return out.getvalue()


def write_theirs(table: pa.Table, codec: str, threshold: float) -> bytes:
    out = io.BytesIO()
    if pa.types.is_dictionary(table.schema.types[0]):  # pyarrow's writer refuses dictionaries
        table = table.cast(pa.schema([("x", pa.string())]))
    orc.write_table(
        table,
        out,
        compression=codec,
        stripe_size=STRIPE,
        row_index_stride=STRIDE,
        dictionary_key_size_threshold=threshold,
    )
    return out.getvalue()


def write_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def sizes(table: pa.Table, codec: str) -> tuple[int, int, float]:
    """Returns the bytes of orcidx, the bytes of pyarrow, and the dictionary threshold of pyarrow's smaller file."""
    thresholds = (0.0, 0.8) if pa.types.is_string(table.schema.types[0]) else (0.0,)
    theirs = {len(write_theirs(table, codec, threshold)): threshold for threshold in thresholds}
    return len(write_own(table, codec)), min(theirs), theirs[min(theirs)]


def seconds(write: Callable[[], object]) -> float:
    start = time.process_time()
    write()
    return time.process_time() - start


def compare(name: str, rows: int, codec: str, times: int, *, parquet: bool) -> tuple[float, float]:
    """Prints one row. Returns orcidx's size divided by pyarrow's size, and pyarrow's time divided by orcidx's time."""
    table = table_of(name, rows)
    own_size, size, threshold = sizes(table, codec)
    own = other = math.inf
    for _ in range(times):
        other = min(other, seconds(lambda: write_theirs(table, codec, threshold)))
        own = min(own, seconds(lambda: write_own(table, codec)))
    per_row = own_size / rows
    line = f"{name:22} {per_row:9.3f} {size / rows:9.3f} {own_size / size:7.3f} {other / own:7.2f}x"
    if parquet:
        found = len(write_parquet(table))
        line += f" {found / rows:9.3f} {own_size / found:7.3f}"
    print(line, flush=True)
    return own_size / size, other / own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--codec", default="zstd", choices=["uncompressed", "zlib", "snappy", "lz4", "zstd"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--parquet", action="store_true")
    parser.add_argument("names", nargs="*", metavar="SHAPE")
    given = parser.parse_args()
    heads = ["orcidx", "pyarrow", "size", "speed", *(["parquet", "size"] if given.parquet else [])]
    print(f"{'bytes a row':22} {heads[0]:>9} {heads[1]:>9} {heads[2]:>7} {heads[3]:>8} {' '.join(heads[4:])}")
    names = given.names or list(SHAPES)
    found = [compare(name, given.rows, given.codec, given.times, parquet=given.parquet) for name in names]
    print(
        f"{len(names)} shapes; {sum(size > 1.02 for size, _ in found)} larger than 1.02 of pyarrow's, "
        f"{sum(speed < 1 for _, speed in found)} slower; geometric means: "
        f"size {statistics.geometric_mean(size for size, _ in found):.3f}, "
        f"speed {statistics.geometric_mean(speed for _, speed in found):.2f}x"
    )


if __name__ == "__main__":
    main()
