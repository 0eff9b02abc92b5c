"""Converts rows to text that is the same for every reader: Arrow arrays, tuples of pyorc, and lines of
``OrcRows.java``.

null: N; numbers: decimal; floats: their bits; texts and binaries: x and hexadecimal digits; times: nanoseconds; lists:
[list]; maps: {key:value}; structs: (struct); unions: <tag variant>
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyorc")
import pyorc
from pyorc.converters import ORCConverter

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NULL = "N"
MINUS_ZERO = "-zero"


def arrow_rows(table: pa.Table) -> list[str]:
    """Returns a line for each row."""
    columns = [plain(column.combine_chunks()) for column in table.columns]
    return [" ".join(row) for row in zip(*columns)] if columns else [""] * table.num_rows


def plain(array: Any) -> list[str]:
    """Returns the text of each value. If ORC does not have the type of the array, the values get the text of the type
    in which ORC stores them."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_union(kind):
        return _union(array)
    found = _valid(array)
    return [text if valid else NULL for text, valid in zip(found, array.is_valid().to_pylist(), strict=True)]


def _valid(array: Any) -> list[str]:
    kind, types = array.type, pa.types
    if types.is_struct(kind):
        fields = [plain(array.field(i)) for i in range(kind.num_fields)]
        return [f"({','.join(row)})" for row in zip(*fields)] if fields else ["()"] * len(array)
    if types.is_map(kind):
        return _lists(array, "{}", [f"{k}:{v}" for k, v in zip(plain(array.keys), plain(array.items), strict=True)])
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        starts = [(array.offset + i) * size for i in range(len(array))]
        return _lists(array, "[]", plain(array.values), starts, [size] * len(array))
    if types.is_nested(kind):
        if "view" in str(kind).split("<")[0]:
            lengths = [size or 0 for size in array.sizes.to_pylist()]
            return _lists(array, "[]", plain(array.values), array.offsets.to_pylist(), lengths)
        return _lists(array, "[]", plain(array.values))
    return [NULL if value is None else str(value) for value in _scalars(array)]


def _lists(array: Any, brackets: str, items: list[str], starts: Any = None, lengths: Any = None) -> list[str]:
    if starts is None:
        bounds = array.offsets.to_pylist()
        starts, lengths = bounds[:-1], [stop - start for start, stop in itertools.pairwise(bounds)]
    left, right = brackets
    return [f"{left}{','.join(items[at : at + n])}{right}" for at, n in zip(starts, lengths)]


def _union(array: Any) -> list[str]:
    places = {code: tag for tag, code in enumerate(array.type.type_codes)}
    # pyarrow's type_codes and offsets ignore the offset of a slice.
    tags = [places[code] for code in np.frombuffer(array.buffers()[1], np.int8)[array.offset :][: len(array)]]
    children = [plain(array.field(i)) for i in range(array.type.num_fields)]
    dense = array.type.mode == "dense"
    at = np.frombuffer(array.buffers()[2], np.int32)[array.offset :][: len(array)] if dense else range(len(array))
    return [f"<{tag} {children[tag][i]}>" for tag, i in zip(tags, at, strict=True)]


def _scalars(array: Any) -> list[Any]:
    kind, types = array.type, pa.types
    if types.is_floating(kind):
        return _floats(array.cast(pa.float32()) if kind == pa.float16() else array)
    if types.is_timestamp(kind):
        factor = 10**9 // PER_SECOND[kind.unit]
        return [None if value is None else value * factor for value in array.cast(pa.int64()).to_pylist()]
    if types.is_decimal(kind):
        return [None if value is None else plain_decimal(value) for value in array.to_pylist()]
    if types.is_date32(kind) or types.is_time32(kind):
        return array.cast(pa.int32()).to_pylist()
    if types.is_date64(kind):
        return array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if types.is_time64(kind) or types.is_duration(kind):
        return array.cast(pa.int64()).to_pylist()
    if types.is_boolean(kind):
        return array.cast(pa.int8()).to_pylist()
    if types.is_integer(kind) or types.is_null(kind):
        return array.to_pylist()
    values = array.to_pylist()
    return [None if v is None else "x" + (v.encode() if isinstance(v, str) else v).hex() for v in values]


def _floats(array: Any) -> list[Any]:
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    bits = numbers.view(np.uint32 if array.type == pa.float32() else np.uint64)
    return [_float(number, bit) for number, bit in zip(numbers.tolist(), bits.tolist(), strict=True)]


def _float(number: float, bits: int) -> str:
    if number == 0:
        return MINUS_ZERO if bits else "0"
    return "nan" if number != number else f"{bits:x}"


def java_rows(rows: list[str]) -> list[str]:
    """Converts rows to the rows that ORC Java returns. If a batch has only zeros, Java returns the first of them for
    all rows, so a -0.0 may become 0. Therefore every -0.0 is replaced by 0."""
    return [row.replace(MINUS_ZERO, "0") for row in rows]


def plain_decimal(value: Decimal) -> str:
    """Returns a decimal without exponent and without trailing zeros. Python's ``normalize`` is not used, because it
    rounds to 28 digits."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


# ---------------------------------------------------------------------- pyorc


class Nanoseconds(ORCConverter):
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, _zone: Any) -> str:
        return str(seconds * 10**9 + nanoseconds)

    @staticmethod
    def to_orc(obj: Any, timezone: Any) -> tuple[int, int]:
        """Converts a literal in nanoseconds to seconds and nanoseconds."""
        return divmod(obj, 10**9)


class Days(ORCConverter):
    @staticmethod
    def from_orc(days: int) -> str:
        return str(days)

    @staticmethod
    def to_orc(obj: int) -> int:
        return obj


class Digits(ORCConverter):
    @staticmethod
    def from_orc(decimal: str) -> str:
        return plain_decimal(Decimal(decimal))

    @staticmethod
    def to_orc(precision: int, scale: int, obj: Decimal) -> int:
        with localcontext(prec=80):  # Python's default of 28 digits would round the literal
            return int(obj.scaleb(scale))


CONVERTERS = {
    pyorc.TypeKind.TIMESTAMP: Nanoseconds,
    pyorc.TypeKind.TIMESTAMP_INSTANT: Nanoseconds,
    pyorc.TypeKind.DATE: Days,
    pyorc.TypeKind.DECIMAL: Digits,
}


def open_pyorc(data: bytes, predicate: Any = None) -> pyorc.Reader:
    return pyorc.Reader(io.BytesIO(data), converters=CONVERTERS, predicate=predicate)


def pyorc_row(reader: pyorc.Reader) -> Callable[[Any], str]:
    """Returns a function that converts a row of pyorc to a line of text."""
    columns = [_pyorc(reader.schema[name]) for name in reader.schema.fields]

    def line(row: Sequence[Any]) -> str:
        return " ".join([NULL if v is None else show(v) for show, v in zip(columns, row, strict=True)])

    return line


def _pyorc(kind: Any) -> Callable[[Any], str]:
    name = kind.kind.name
    if name in ("FLOAT", "DOUBLE"):
        number, word = (np.float32, np.uint32) if name == "FLOAT" else (np.float64, np.uint64)
        return lambda v: _float(v, int(np.array(v, number).view(word)))
    if name == "BOOLEAN":
        return lambda v: str(int(v))
    if name in ("STRING", "VARCHAR", "CHAR"):
        return lambda v: "x" + (v.rstrip(" ") if name == "CHAR" else v).encode().hex()
    if name == "BINARY":
        return lambda v: "x" + v.hex()
    if name == "LIST":
        item = _nullable(_pyorc(kind.type))
        return lambda v: f"[{','.join(map(item, v))}]"
    if name == "MAP":
        key, value = _nullable(_pyorc(kind.key)), _nullable(_pyorc(kind.value))
        return lambda v: f"{{{','.join(f'{key(k)}:{value(w)}' for k, w in v.items())}}}"
    if name == "STRUCT":
        fields = [_nullable(_pyorc(kind[field])) for field in kind.fields]
        return lambda v: f"({','.join(show(w) for show, w in zip(fields, v, strict=True))})"
    return str


def _nullable(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: NULL if value is None else show(value)
