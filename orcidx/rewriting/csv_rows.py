"""Reads rows of CSV text, with types that do not change any value. A column stays text if no such type is certain.

pyarrow chooses the types that fit the first block. It reads 01234 as 1234, and 12345678901234567890 as the nearest
double. This module tests all values of a column before it chooses the type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from orcidx.rewriting.exact_numbers import is_exact_double

__all__ = ["open_csv"]

# The texts that pyarrow reads as null by default, without the texts for NaN. The texts for NaN are read as the double
# NaN.
_NULL_WORDS = ["", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"]
_BLANK = "[ \\t]*"
_INTEGER = f"^{_BLANK}(0|-?[1-9][0-9]{{0,17}}){_BLANK}$"
"""The pattern accepts at most 18 digits, because a number of 19 digits may not fit in 64 bits."""
_DOUBLE = f"^{_BLANK}(-?((0|[1-9][0-9]*)(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|NaN|inf|Inf)){_BLANK}$"
_BOOLEAN = f"^{_BLANK}(true|True|TRUE|false|False|FALSE){_BLANK}$"
_MANY_DIGITS = "([0-9].?){16}|[0-9][eE]"


def open_csv(
    open_file: Callable[[], pa.PythonFile], delimiter: str, given: Mapping[str, pa.DataType]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], tuple[str, ...]]:
    """Returns the schema, the rows, and the columns that stay text although pyarrow would convert them to numbers.

    ``given`` has the column types that the caller knows. ``open_file()`` opens the text again, because it is read
    twice.
    """
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def opened(types: Mapping[str, pa.DataType], **more: Any) -> pyarrow.csv.CSVStreamingReader:
        convert = pyarrow.csv.ConvertOptions(column_types=dict(types), null_values=_NULL_WORDS, **more)
        return pyarrow.csv.open_csv(open_file(), parse_options=parse, convert_options=convert)

    shown: pa.Schema = opened(given).schema
    asked = [
        _Column(number, field.name, field.type)
        for number, field in enumerate(shown)
        if field.name not in given and not pa.types.is_string(field.type)
    ]
    types = dict(given)
    if asked:
        texts = {name: pa.string() for name in shown.names}
        for batch in opened(texts, strings_can_be_null=True):
            for column in asked:
                column.ask(batch.column(column.number))
        for column in asked:
            settled = column.settled()
            types[column.name] = settled if types.get(column.name, settled) == settled else pa.string()
    kept = [one.name for one in asked if pa.types.is_string(types[one.name]) and not pa.types.is_null(one.shown)]
    reader = opened(types)
    return reader.schema, iter(reader), tuple(dict.fromkeys(kept))


@dataclass
class _Column:
    """Tests which types keep all values of a column unchanged."""

    number: int
    name: str
    shown: pa.DataType

    def __post_init__(self) -> None:
        types = pa.types
        kind = self.shown
        if types.is_integer(kind) or types.is_floating(kind):
            self.possible = [pa.int64(), pa.float64()]
        elif types.is_timestamp(kind):
            self.possible = [kind, pa.timestamp("ns", kind.tz)]
        elif types.is_date(kind) or types.is_boolean(kind):
            self.possible = [kind]
        else:  # only nulls, or times of day, for which ORC has no type
            self.possible = []

    def ask(self, texts: pa.Array) -> None:
        if self.possible:
            values = texts.drop_null()
            self.possible = [kind for kind in self.possible if _holds(kind, values)]

    def settled(self) -> pa.DataType:
        return self.possible[0] if self.possible else pa.string()


def _holds(kind: pa.DataType, texts: pa.Array) -> bool:
    if pa.types.is_integer(kind):
        return _all_match(texts, _INTEGER) or _are_long_integers(texts)
    if pa.types.is_floating(kind):
        if not _all_match(texts, _DOUBLE):
            return False
        many = texts.filter(pc.match_substring_regex(texts, _MANY_DIGITS))
        return all(is_exact_double(text) for text in pc.unique(many).to_pylist())
    if pa.types.is_boolean(kind):
        return _all_match(texts, _BOOLEAN)
    try:
        pc.cast(pc.utf8_trim(texts, " \t"), kind)
    except pa.ArrowInvalid:
        return False
    return True


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _are_long_integers(texts: pa.Array) -> bool:
    """Whether each text matches ``_INTEGER``, or is a number of 19 digits that fits in 64 bits."""
    pattern = _INTEGER.replace("{0,17}", "{0,18}")
    if not _all_match(texts, pattern):
        return False
    long = texts.filter(pc.greater_equal(pc.utf8_length(texts), len(str(1 << 63))))
    return all(-(1 << 63) <= int(text) < 1 << 63 for text in long.to_pylist())
