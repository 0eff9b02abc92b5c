"""Columns of every type as pyorc writes them: values, ORC types and the Arrow type in which they must come back."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyorc

UTC = dt.UTC


@dataclass(frozen=True)
class Kind:
    """A column type and its values. ``make(i)`` returns the value of row ``i``, which is never None."""

    orc: str
    arrow: pa.DataType
    make: Callable[[int], Any]
    dictionary: bool = False


def _timestamp(i: int) -> dt.datetime:
    # No time is in the last second before 1970, because writers lose the sign of such a time. Fractions of a second
    # are zero or whole microseconds.
    return dt.datetime(1969, 12, 20) + dt.timedelta(hours=i, microseconds=(i % 5) * 123_457 if i % 3 else 0)


KINDS: dict[str, Kind] = {
    "boolean": Kind("boolean", pa.bool_(), lambda i: i % 3 == 0),
    "tinyint": Kind("tinyint", pa.int8(), lambda i: (i // 4) % 256 - 128),
    "smallint": Kind("smallint", pa.int16(), lambda i: i * 37 % 65536 - 32768),
    "int": Kind("int", pa.int32(), lambda i: i * i * 7919 % (1 << 32) - (1 << 31)),
    "bigint": Kind("bigint", pa.int64(), lambda i: i * 5 if i % 200 < 100 else (i * 7919**5) % (1 << 63)),
    "float": Kind("float", pa.float32(), lambda i: i / 8 - 3),
    "double": Kind("double", pa.float64(), lambda i: i / 7 - 3),
    "string": Kind("string", pa.string(), lambda i: "æß" * (i % 5) + str(i)),
    "dictionary": Kind("string", pa.string(), lambda i: f"entry number {i % 11}" if i % 11 else "", dictionary=True),
    "char": Kind("char(4)", pa.string(), lambda i: f"{i % 1000:<4}"),
    "char-dictionary": Kind("char(6)", pa.string(), lambda i: f"{'ü' * (i % 5):<6}", dictionary=True),
    "varchar": Kind("varchar(9)", pa.string(), lambda i: "x" * (i % 9)),
    "binary": Kind("binary", pa.binary(), lambda i: bytes([i % 256]) * (i % 20)),
    "date": Kind("date", pa.date32(), lambda i: dt.date(1582, 10, 15) + dt.timedelta(days=i * 149)),
    "timestamp": Kind("timestamp", pa.timestamp("us"), _timestamp),
    "instant": Kind(
        "timestamp with local time zone", pa.timestamp("us", "UTC"), lambda i: _timestamp(i).replace(tzinfo=UTC)
    ),
    "decimal-short": Kind("decimal(10,3)", pa.decimal128(10, 3), lambda i: Decimal(i * 7919 - 50_000).scaleb(-3)),
    "decimal-long": Kind("decimal(38,9)", pa.decimal128(38, 9), lambda i: Decimal((-7) ** i % 10**37).scaleb(-9)),
}


def list_of(kind: Kind) -> Kind:
    """Lists of zero to four elements, some of which are null."""

    def make(i: int) -> Any:
        return [None if (i + j) % 4 == 3 else kind.make(i + j) for j in range(i % 5)]

    return Kind(f"array<{kind.orc}>", pa.list_(kind.arrow), make, kind.dictionary)


def map_of(kind: Kind) -> Kind:
    """Maps from ints to values, some of them null."""

    def make(i: int) -> Any:
        return {j * 3: None if (i + j) % 4 == 3 else kind.make(i + j) for j in range(i % 4)}

    return Kind(f"map<int,{kind.orc}>", pa.map_(pa.int32(), kind.arrow), make, kind.dictionary)


def struct_of(kind: Kind) -> Kind:
    """Structs of a value, which is sometimes null, and a number."""

    def make(i: int) -> Any:
        return (None if i % 4 == 3 else kind.make(i), i)

    fields = [pa.field("v", kind.arrow), pa.field("n", pa.int64())]
    return Kind(f"struct<v:{kind.orc},n:bigint>", pa.struct(fields), make, kind.dictionary)


def deep_of(kind: Kind) -> Kind:
    """A list of structs of maps of lists."""
    return list_of(struct_of(map_of(list_of(kind))))


PATTERNS: dict[str, Callable[[int], bool]] = {
    "none": lambda i: False,
    "seventh": lambda i: i % 7 == 3,
    "long": lambda i: 70 <= i < 300,  # in whole row groups, all values are null
    "all": lambda i: True,
}
"""Patterns of nulls. A function returns whether row ``i`` is null."""


def write(kind: Kind, rows: int, *, compression: str, stride: int, root_nulls: bool = False) -> tuple[bytes, pa.Table]:
    """Writes a file with a column for each pattern of nulls. Returns the file and the table that a reader must get."""
    columns = [[None if null(i) else kind.make(i) for i in range(rows)] for null in PATTERNS.values()]
    if root_nulls:
        columns = [[None if i % 5 == 2 else value for i, value in enumerate(column)] for column in columns]
    out = io.BytesIO()
    schema = ",".join(f"`{name}`:{kind.orc}" for name in PATTERNS)
    with pyorc.Writer(
        out,
        f"struct<{schema}>",
        stripe_size=1 << 20,
        row_index_stride=stride,
        compression=getattr(pyorc.CompressionKind, compression),
        compression_block_size=1 << 10,
        dict_key_size_threshold=1.0 if kind.dictionary else 0.0,
        batch_size=64,
        memory_block_size=1 << 10,
    ) as writer:
        for i, row in enumerate(zip(*columns)):
            writer.write(None if root_nulls and i % 5 == 2 else row)
    arrays = [pa.array(_arrow_values(column, kind.arrow), kind.arrow) for column in columns]
    return out.getvalue(), pa.table(arrays, names=list(PATTERNS))


def _arrow_values(values: Any, kind: pa.DataType) -> Any:
    """Converts pyorc's tuples and dicts to the forms that pyarrow takes for structs and maps."""
    return [_arrow_value(value, kind) for value in values]


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _arrow_value(item, field.type) for field, item in zip(kind, value)}
    if pa.types.is_list(kind):
        return [_arrow_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(key, _arrow_value(item, kind.item_type)) for key, item in value.items()]
    return value
