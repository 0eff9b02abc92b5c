"""Reads rows of CSV text, with types that do not change any value. A column stays text if no such type is certain.

pyarrow chooses the types that fit the first block. It reads 01234 as 1234, and 12345678901234567890 as the nearest
double. This module tests all values of a column before it chooses the type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from orcidx.rewriting.exact_numbers import is_exact_double

__all__ = ["TEXT_BLOCK_BYTES", "open_csv"]

TEXT_BLOCK_BYTES = 1 << 24
"""The number of bytes that pyarrow parses at once. pyarrow refuses a row that is longer."""

# The texts that pyarrow reads as null by default, without the texts for NaN. The texts for NaN are read as the double
# NaN. In columns of text, only an empty value without quotes is null.
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
    several times.
    """
    file = _CsvFile(open_file, delimiter)
    shown = file.shown(given)
    columns = [_Column(number, field.name, field.type) for number, field in enumerate(shown)]
    asked = [one for one in columns if one.name not in given and not pa.types.is_string(one.shown)]
    texts = [one.name for one in columns if pa.types.is_string(one.shown)]
    types = dict.fromkeys(texts, pa.string()) | dict(given)
    tested = [one for one in columns if not _is_text(types.get(one.name, pa.null()))]
    for batch in file.texts(dict.fromkeys(shown.names, pa.string())) if tested else ():
        for column in tested:
            column.ask(batch.column(column.number))
    for column in asked:
        settled = column.settled()
        types[column.name] = settled if types.get(column.name, settled) == settled else pa.string()
    kept = [one.name for one in asked if pa.types.is_string(types[one.name]) and not pa.types.is_null(one.shown)]
    if any(one.has_words and not _is_text(types[one.name]) for one in tested):
        schema, rows = file.both(types)
    else:
        reader = file.texts(types)
        schema, rows = reader.schema, iter(reader)
    return schema, rows, tuple(dict.fromkeys(kept))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    tests = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(test(kind) for test in tests)


class _CsvFile:
    """Opens readers of one file. Each reader returns the same rows in the same batches."""

    def __init__(self, open_file: Callable[[], pa.PythonFile], delimiter: str) -> None:
        self._open_file = open_file
        self._parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def shown(self, given: Mapping[str, pa.DataType]) -> pa.Schema:
        """The columns with the types that pyarrow chooses. If there is only one column, an empty line is a null in this
        column."""
        found: pa.Schema = self.numbers(given).schema
        if len(found) == 1:
            self._parse.ignore_empty_lines = False
            again: pa.Schema = self.numbers(given).schema
            if again.names == found.names:
                return again
            self._parse.ignore_empty_lines = True  # an empty line before the header line would be read as the header
        return found

    def numbers(self, types: Mapping[str, pa.DataType]) -> pyarrow.csv.CSVStreamingReader:
        """A reader that reads the texts ``_NULL_WORDS`` as nulls, except in columns of text."""
        return self._opened(pyarrow.csv.ConvertOptions(column_types=dict(types), null_values=_NULL_WORDS))

    def texts(self, types: Mapping[str, pa.DataType]) -> pyarrow.csv.CSVStreamingReader:
        """A reader that reads only empty values without quotes as nulls."""
        return self._opened(
            pyarrow.csv.ConvertOptions(
                column_types=dict(types), null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            )
        )

    def both(self, types: Mapping[str, pa.DataType]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of ``numbers``, with the columns of text as ``texts`` reads them."""
        numbers = self.numbers(types)
        texts = self.texts({name: kind if _is_text(kind) else pa.string() for name, kind in types.items()})
        schema: pa.Schema = numbers.schema
        return schema, (
            pa.RecordBatch.from_arrays(
                [text if _is_text(one.type) else one for one, text in zip(batch.columns, beside.columns)], schema=schema
            )
            for batch, beside in zip(numbers, texts, strict=True)
        )

    def _opened(self, convert: pyarrow.csv.ConvertOptions) -> pyarrow.csv.CSVStreamingReader:
        read = pyarrow.csv.ReadOptions(block_size=TEXT_BLOCK_BYTES)
        return pyarrow.csv.open_csv(
            self._open_file(), read_options=read, parse_options=self._parse, convert_options=convert
        )


@dataclass
class _Column:
    """Tests which types keep all values of a column unchanged. ``has_words`` says whether the column has a value that
    is in ``_NULL_WORDS``, such as NULL or a quoted empty value. Such a value stays a text in a column of text, and is a
    null in any other column."""

    number: int
    name: str
    shown: pa.DataType
    has_words: bool = False

    def __post_init__(self) -> None:
        types = pa.types
        kind = self.shown
        if types.is_integer(kind) or types.is_floating(kind):
            self.possible = [pa.int64(), pa.float64()]
        elif types.is_timestamp(kind):
            self.possible = [kind, pa.timestamp("ns", kind.tz)]
        elif types.is_date(kind) or types.is_boolean(kind):
            self.possible = [kind]
        # The column has only nulls or times of day. ORC has no type for times of day.
        else:
            self.possible = []

    def ask(self, texts: pa.Array) -> None:
        values = texts.drop_null()
        words = pc.is_in(values, pa.array(_NULL_WORDS))
        if pc.any(words).as_py():
            self.has_words = True
            values = values.filter(pc.invert(words))
        if self.possible:
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
