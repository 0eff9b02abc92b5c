"""The columns that the benchmarks compare. Their values are computed with a fixed seed. ``benchmarks/data`` has an ORC
file for each column and codec."""

from __future__ import annotations

import decimal
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.orc

DATA = Path(os.environ.get("ORCIDX_BENCH_DATA") or Path(__file__).parent / "data")
CODECS = ("none", "snappy", "zstd", "zlib")
SEED = 20261121


def _random() -> np.random.Generator:
    return np.random.default_rng(SEED)


def _nulls(rows: int) -> np.ndarray:
    return np.random.default_rng(SEED + 1).random(rows) < 0.1


def _outliers(rows: int) -> pa.Array:
    random = _random()
    far = random.random(rows) < 0.02
    return pa.array(np.where(far, random.integers(0, 2**40, rows), random.integers(0, 100, rows)))


def _dictionary_strings(rows: int) -> pa.Array:
    words = pa.array([f"word-{i:04d}-{'x' * (i % 9)}" for i in range(1000)])
    return words.take(pa.array(_random().integers(0, 1000, rows)))


def _unique_strings(rows: int) -> pa.Array:
    numbers = pa.array(_random().permutation(rows) + 10**9)
    return pa.compute.binary_join_element_wise("key", numbers.cast(pa.string()), "")


def _decimals(rows: int, high: int, data_type: pa.DataType) -> pa.Array:
    scaled = _random().integers(-high, high, rows)
    whole = pa.array(scaled).cast(pa.decimal128(19, 0))
    return pa.compute.multiply(whole, pa.scalar(decimal.Decimal(1).scaleb(-data_type.scale))).cast(data_type)


def _lists(rows: int) -> pa.Array:
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * 2)
    return pa.ListArray.from_arrays(offsets, pa.array(_random().integers(0, 1000, 2 * rows)))


def _seconds(rows: int) -> np.ndarray:
    return _random().integers(0, 2_000_000_000, rows)


COLUMNS: dict[str, Callable[[int], pa.Array]] = {
    "int64 random 62-bit": lambda rows: pa.array(_random().integers(-(2**61), 2**61, rows)),
    "int64 0..999": lambda rows: pa.array(_random().integers(0, 1000, rows)),
    "int64 sequence": lambda rows: pa.array(np.arange(rows)),
    "int64 0..999, 10 % null": lambda rows: pa.array(_random().integers(0, 1000, rows), mask=_nulls(rows)),
    "int64 small, 2 % outliers": _outliers,
    "double": lambda rows: pa.array(_random().normal(size=rows)),
    "double, 10 % null": lambda rows: pa.array(_random().normal(size=rows), mask=_nulls(rows)),
    "string, 1000 distinct": _dictionary_strings,
    "string, unique 13 bytes": _unique_strings,
    "bool": lambda rows: pa.array(_random().random(rows) < 0.3),
    "date": lambda rows: pa.array(_random().integers(0, 20000, rows).astype(np.int32)).cast(pa.date32()),
    "timestamp, random ns": lambda rows: pa.array(
        _seconds(rows) * 10**9 + np.random.default_rng(SEED + 2).integers(0, 10**9, rows), pa.timestamp("ns")
    ),
    "timestamp, whole seconds": lambda rows: pa.array(_seconds(rows) * 10**9, pa.timestamp("ns")),
    "decimal(12, 2)": lambda rows: _decimals(rows, 10**9, pa.decimal128(12, 2)),
    "decimal(38, 10)": lambda rows: _decimals(rows, 2**62, pa.decimal128(38, 10)),
    "list<int64>, 2 items": _lists,
    "RLEv1 int64 0..63": lambda rows: pa.array(_random().integers(0, 64, rows)),
    "RLEv1 int64 rising": lambda rows: pa.array(np.cumsum(_random().integers(0, 4, rows))),
    "RLEv1 int32 0..999": lambda rows: pa.array(_random().integers(0, 1000, rows).astype(np.int32)),
}
"""The functions that compute the values of the columns. Each key is the name of a row of the comparison."""


def file_of(column: str, codec: str, rows: int) -> Path:
    """Returns the ORC file of one column. If it does not exist, pyarrow writes it."""
    word = "".join(letter if letter.isalnum() else "-" for letter in column)
    path = DATA / f"{word}.{rows}.{codec}.orc"
    if not path.is_file():
        DATA.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".fresh")
        pa.orc.write_table(
            pa.table({"c": COLUMNS[column](rows)}),
            fresh,
            compression="uncompressed" if codec == "none" else codec,
            dictionary_key_size_threshold=0.8 if "distinct" in column else 0.0,
            file_version="0.11" if column.startswith("RLEv1") else "0.12",
        )
        fresh.replace(path)
    return path
