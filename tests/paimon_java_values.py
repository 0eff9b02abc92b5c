"""Random rows of every flat type of Paimon: limits of the type, equal values with different bytes, texts that are
cut."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.paimon.data_types import parse_type

TYPES: Mapping[str, str] = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "number_": "INT",
    "big": "BIGINT",
    "real": "FLOAT",
    "score": "DOUBLE",
    "price": "DECIMAL(9, 2)",
    "eighteen": "DECIMAL(18, 0)",
    "wide": "DECIMAL(38, 10)",
    "text": "STRING",
    "code": "VARCHAR(40)",
    "fixed": "CHAR(20)",
    "raw": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "seconds": "TIMESTAMP(0)",
    "millis": "TIMESTAMP(3)",
    "micros": "TIMESTAMP(6)",
    "nanos": "TIMESTAMP(9)",
}
_LETTERS = list("abcxyz019 .\x00\x7f\u00e9\u07ff\u0800\u2603\ue000\uffff\U00010000\U0010ffff")
"""Letters of random texts. U+D7FF is not among them. If it is the last character of a maximum that Java cuts, Java
stores "?" in its place, which is not a bound."""


def random_rows(rng: np.random.Generator, count: int, columns: Sequence[str] = tuple(TYPES)) -> pa.Table:
    """Returns ``count`` random rows, in which a tenth of the values is null."""
    return pa.table({name: _column(rng, count, TYPES[name]) for name in columns})


def _column(rng: np.random.Generator, count: int, sql: str) -> pa.Array:
    kind = parse_type(sql)
    made = _MAKERS[kind.root](rng, count, kind)
    values = [None if rng.random() < 0.1 else value for value in made]
    return pa.array(values, kind.arrow_type)


def _whole(bits: int) -> Any:
    def make(rng: np.random.Generator, count: int, _: Any) -> list[Any]:
        least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        drawn = rng.integers(least, most, count, endpoint=True, dtype=np.int64)
        narrow = rng.integers(-100, 100, count)
        return [
            int(pick[0] if rng.random() < 0.5 else pick[1]) if i % 50 else (least, most)[i // 50 % 2]
            for i, pick in enumerate(zip(drawn, narrow))
        ]

    return make


def _floats(kind: Any) -> Any:
    def make(rng: np.random.Generator, count: int, _: Any) -> list[Any]:
        odd = [0.0, -0.0, float("inf"), float("-inf"), 1.5, float(np.finfo(kind).tiny), float(np.finfo(kind).max)]
        with np.errstate(over="ignore"):
            drawn = (rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)).astype(kind)
        return [odd[int(rng.integers(len(odd)))] if rng.random() < 0.3 else float(value) for value in drawn]

    return make


def _decimals(rng: np.random.Generator, count: int, kind: Any) -> list[Any]:
    most = 10**kind.precision - 1
    found = []
    for i in range(count):
        digits = int(rng.integers(1, kind.precision + 1))
        whole = int.from_bytes(rng.bytes(16), "big") % 10**digits if i % 20 else most
        found.append(Decimal(whole if rng.random() < 0.5 else -whole).scaleb(-kind.scale, _EXACT))
    return found


def _texts(rng: np.random.Generator, count: int, kind: Any) -> list[Any]:
    """Returns texts. Some texts are longer than the values in statistics. There are few different letters, so texts
    share prefixes. No text ends with a blank."""
    most = min(kind.length or 60, 60)
    found = []
    for _ in range(count):
        letters = rng.choice(_LETTERS, int(rng.integers(0, most + 1)))
        found.append("".join(letters).rstrip(" "))
    return [text.replace("\x00", "0") if kind.root == "CHAR" else text for text in found]


def _bytes(rng: np.random.Generator, count: int, _: Any) -> list[Any]:
    return [rng.bytes(int(rng.integers(0, 40))) for _ in range(count)]


def _days(rng: np.random.Generator, count: int, _: Any) -> list[Any]:
    return [
        datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(-100_000, 100_000, count)
    ]


def _clocks(rng: np.random.Generator, count: int, kind: Any) -> list[Any]:
    per_tick = {"s": 1000, "ms": 1}[kind.arrow_type.unit]
    return [int(milli) // per_tick for milli in rng.integers(0, 86_400_000, count)]


def _moments(rng: np.random.Generator, count: int, kind: Any) -> list[Any]:
    """Returns random times from 1901 to 2100 in the type's unit, except the last second before 1970, which ORC cannot
    store."""
    ticks = 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.arrow_type.unit]
    seconds = rng.integers(-2_170_000_000, 4_100_000_000, count)
    seconds[seconds == -1] = 0
    return [int(second) * ticks + int(rng.integers(0, ticks)) for second in seconds]


_EXACT = Context(prec=60)
_MAKERS: Mapping[str, Any] = {
    "BOOLEAN": lambda rng, count, _: [bool(value) for value in rng.integers(0, 2, count)],
    "TINYINT": _whole(8),
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": _whole(64),
    "FLOAT": _floats(np.float32),
    "DOUBLE": _floats(np.float64),
    "DECIMAL": _decimals,
    "CHAR": _texts,
    "VARCHAR": _texts,
    "VARBINARY": _bytes,
    "DATE": _days,
    "TIME": _clocks,
    "TIMESTAMP": _moments,
}
