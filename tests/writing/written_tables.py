"""Tables of every type that can be written, and checks that readers return the same rows of the files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

import orcidx

pyorc = pytest.importorskip("pyorc")

Make = Callable[[np.random.Generator, int], pa.Array]


def decimals(rng: np.random.Generator, n: int, precision: int, scale: int) -> pa.Array:
    digits = rng.integers(1, precision + 1, n)
    values = [int(rng.integers(0, 10, 40) @ (10 ** np.arange(40, dtype=object))) % 10 ** int(d) for d in digits]
    signs = rng.choice([-1, 1], n)
    numbers = [10**precision - 1, 1 - 10**precision, 0, *(int(s) * v for s, v in zip(signs, values, strict=True))][:n]
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(pa.decimal128(precision, scale), n, [None, pa.py_buffer(raw)])


def texts(rng: np.random.Generator, n: int, distinct: int) -> list[str]:
    words = ["", "a", "æ€𝄞", "x" * 300] + [f"word {i}" * int(rng.integers(1, 4)) for i in range(distinct)]
    return [words[i] for i in rng.integers(0, len(words), n)]


def times(rng: np.random.Generator, n: int, unit: str, zone: str | None = None) -> pa.Array:
    per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    years = 200 if unit == "ns" else 1900
    seconds = rng.integers(-years * 31_000_000, years * 31_000_000, n)
    within = rng.choice([0, 0, 1, per // 10, per - 1, int(rng.integers(0, per))], n)
    within[(seconds == -1)] = 0
    return pa.array(seconds * per + within % per, pa.int64()).cast(pa.timestamp(unit, zone))


PLAIN: dict[str, Make] = {
    "bool": lambda rng, n: pa.array(rng.random(n) < 0.3),
    "int8": lambda rng, n: pa.array(rng.integers(-128, 128, n).astype(np.int8)),
    "int16": lambda rng, n: pa.array(rng.integers(-(2**15), 2**15, n).astype(np.int16)),
    "int32": lambda rng, n: pa.array(np.repeat(rng.integers(-(2**31), 2**31, n), 3)[:n].astype(np.int32)),
    "int64": lambda rng, n: pa.array(rng.integers(-(2**63), 2**63 - 1, n)),
    "small": lambda rng, n: pa.array(np.where(rng.random(n) < 0.02, 2**40, rng.integers(-9, 9, n))),
    "rising": lambda rng, n: pa.array(np.cumsum(rng.integers(0, 9, n)) - 1000),
    "float": lambda rng, n: pa.array(np.concatenate([[0.0, -0.0, np.inf], rng.normal(size=n)])[:n].astype(np.float32)),
    "double": lambda rng, n: pa.array(np.concatenate([[-0.0, 5e-324, -np.inf], rng.normal(size=n) * 1e9])[:n]),
    "string": lambda rng, n: pa.array(texts(rng, n, 50)),
    "unique": lambda rng, n: pa.array([f"{i}é" for i in rng.permutation(n)]),
    "binary": lambda rng, n: pa.array([rng.bytes(int(k)) for k in rng.integers(0, 9, n)]),
    "date": lambda rng, n: pa.array(rng.integers(-700_000, 2_900_000, n).astype(np.int32)).cast(pa.date32()),
    "seconds": lambda rng, n: times(rng, n, "s"),
    "millis": lambda rng, n: times(rng, n, "ms"),
    "micros": lambda rng, n: times(rng, n, "us"),
    "nanos": lambda rng, n: times(rng, n, "ns"),
    "instant": lambda rng, n: times(rng, n, "us", "UTC"),
    "decimal(12,2)": lambda rng, n: decimals(rng, n, 12, 2),
    "decimal(18,18)": lambda rng, n: decimals(rng, n, 18, 18),
    "decimal(38,10)": lambda rng, n: decimals(rng, n, 38, 10),
}


def nested(rng: np.random.Generator, n: int) -> dict[str, pa.Array]:
    lengths = rng.integers(0, 4, n)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    total = int(lengths.sum())
    numbers = pa.array(rng.integers(0, 100, total), mask=rng.random(total) < 0.2)
    inner = pa.StructArray.from_arrays([numbers, pa.array(texts(rng, total, 5))], ["x", "y"])
    keys = pa.array([f"k{i}" for i in range(total)])
    fields = [pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.3), pa.array(texts(rng, n, 9))]
    holes = pa.array(rng.random(n) < 0.3)
    deep = pa.StructArray.from_arrays([pa.StructArray.from_arrays(fields, ["a", "b"], mask=holes)], ["in"], mask=holes)
    return {
        "list": pa.ListArray.from_arrays(offsets, numbers, mask=holes),
        "list of struct": pa.ListArray.from_arrays(offsets, inner),
        "map": pa.MapArray.from_arrays(offsets, keys, inner),
        "struct": pa.StructArray.from_arrays(fields, ["a", "b"], mask=holes),
        "struct in struct": deep,
    }


NULLS = ("none", "some", "all", "group")


def with_nulls(array: pa.Array, rng: np.random.Generator, kind: str, stride: int) -> pa.Array:
    n = len(array)
    mask = {
        "none": np.zeros(n, bool),
        "some": rng.random(n) < 0.3,
        "all": np.ones(n, bool),
        "group": (np.arange(n) // stride) % 2 == 1,
    }[kind]
    return pa.array([None] * n, array.type) if kind == "all" else _masked(array, mask)


def _masked(array: pa.Array, mask: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)


def table(rng: np.random.Generator, n: int, nulls: str, stride: int = 1000) -> pa.Table:
    columns = {name: with_nulls(make(rng, n), rng, nulls, stride) for name, make in PLAIN.items()}
    return pa.table({**columns, **nested(rng, n)})


def written(data: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    orcidx.write_table(data, out, **options)
    return out.getvalue()


def comparable(column: pa.ChunkedArray) -> pa.Array:
    """Converts timestamps to microseconds, and their time zones to UTC, so that columns of different readers can be
    compared."""
    array = column.combine_chunks()
    if pa.types.is_timestamp(array.type):
        zone = array.type.tz
        floored = pc.floor_temporal(array, unit="microsecond") if array.type.unit == "ns" else array
        return floored.cast(pa.timestamp("us", zone and "UTC"))
    return array


def check_equal(found: pa.Table, expected: pa.Table, who: str) -> None:
    assert found.num_rows == expected.num_rows, who
    for name in expected.schema.names:
        one, other = comparable(found.column(name)), comparable(expected.column(name))
        if one.type != other.type:
            one = one.cast(other.type)
        assert one.equals(other), (who, name, expected.column(name).type)


def check_readers(data: bytes, expected: pa.Table) -> None:
    """Checks that orcidx and pyarrow read the written rows, and that pyorc finds the same number of rows."""
    with orcidx.open(data) as file:
        found = file.read(timestamp_unit="us")
        found.validate(full=True)
        check_equal(found, expected, "orcidx")
    narrow = [name for name in expected.schema.names if expected.schema.field(name).type not in UNFIT]
    check_equal(orc.read_table(io.BytesIO(data), columns=narrow), expected.select(narrow), "pyarrow")
    reader = pyorc.Reader(io.BytesIO(data))
    assert len(reader) == expected.num_rows


UNFIT = (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC"))
"""pyarrow reads these types in nanoseconds, which cannot represent years after 2262."""
