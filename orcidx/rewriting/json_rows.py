"""Reads rows of JSON lines, with types that do not change any value. Numbers that no double represents exactly stay
text. Times also stay text if some of them have a zone and others have none.

pyarrow parses the lines if its types are exact. If they are not, or if the caller gives types, Python's parser is used.
This parser returns the text of each number."""

from __future__ import annotations

import decimal
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from orcidx.errors import CorruptFile
from orcidx.rewriting import csv_rows
from orcidx.rewriting.exact_numbers import is_exact_double

__all__ = ["open_json"]

_CHUNK_BYTES = 1 << 22
"""The number of bytes that are read at once. Parsing takes most of the time, so this number matters little."""
_BATCH_ROWS = 1 << 14
"""The number of rows of a batch."""
_SUSPECT = re.compile(rb"[0-9][0-9.]{15}|[0-9][eE]")
"""A line without a match contains no number that a double changes, because it has neither 16 digits in a row nor an
exponent."""
_ZONE = r"[T ][0-9][0-9:.]*(?:Z|[+-][0-9:]+)$"
"""The end of a time with a zone: Z, +02, +0200 or +02:00."""
Path = tuple[str, ...]
_ITEM = "[]"
_OPEN = getattr(pyarrow.json, "open_json", None)
"""pyarrow's reader of JSON lines. Older versions of pyarrow have only ``read_json``, which reads the whole file."""


class _Number(str):
    """The text of a JSON number."""


def open_json(
    open_file: Callable[[], io.RawIOBase], given: Mapping[str, pa.DataType], name: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch], tuple[str, ...]]:
    """Returns the schema, the rows, and the columns with numbers that stay text. ``given`` has the column types that
    the caller knows. ``open_file()`` opens the text again, because it may be read twice."""
    shown = _shown(open_file)
    doubtful: set[Path] = set()
    if any(_has_double(field.type) for field in shown if field.name not in given):
        for number, line in _lines(open_file()):
            if _SUSPECT.search(line):
                for row in _objects(line, number, name):
                    _find_inexact(row, (), doubtful)
    zoned = _zones(open_file, [field for field in shown if field.name not in given])
    doubtful |= {path for path, found in zoned.items() if len(found) > 1}
    instants = {path for path, found in zoned.items() if found == {True}}
    fields = []
    kept = []
    for field in shown:
        kind = given.get(field.name) or _retyped(field.type, (field.name,), doubtful, instants)
        if field.name not in given and kind != _retyped(field.type, (field.name,), set(), instants):
            kept.append(field.name)
        fields.append(pa.field(field.name, kind))
    fields += [pa.field(column, kind) for column, kind in given.items() if column not in shown.names]
    schema = pa.schema(fields)
    if given or kept:
        return schema, _parsed(open_file(), schema, name), tuple(kept)
    return schema, _by_pyarrow(open_file, schema), ()


def _shown(open_file: Callable[[], io.RawIOBase]) -> pa.Schema:
    read = pyarrow.json.ReadOptions(block_size=csv_rows.TEXT_BLOCK_BYTES)
    return (_OPEN or pyarrow.json.read_json)(pa.PythonFile(open_file(), mode="r"), read_options=read).schema


def _batches(open_file: Callable[[], io.RawIOBase], schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """Returns the batches that pyarrow reads. If ``schema`` names a column, the column is read in the type that
    ``schema`` gives."""
    file, options = pa.PythonFile(open_file(), mode="r"), pyarrow.json.ParseOptions(explicit_schema=schema)
    read = pyarrow.json.ReadOptions(block_size=csv_rows.TEXT_BLOCK_BYTES)
    if _OPEN is None:
        yield from pyarrow.json.read_json(file, read_options=read, parse_options=options).to_batches()
    else:
        yield from _OPEN(file, read_options=read, parse_options=options)


def _by_pyarrow(open_file: Callable[[], io.RawIOBase], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in _batches(open_file):
        yield batch.cast(schema)


def _zones(open_file: Callable[[], io.RawIOBase], fields: list[pa.Field]) -> dict[Path, set[bool]]:
    """For each place where pyarrow reads texts as times, says whether the texts have zones. pyarrow converts times with
    a zone to UTC without reporting the zone."""
    found: dict[Path, set[bool]] = {}
    with_times = [field for field in fields if any(True for _ in _time_places(field.type, (field.name,)))]
    if not with_times:
        return found
    schema = pa.schema([pa.field(field.name, _times_as_text(field.type)) for field in with_times])
    for batch in _batches(open_file, schema):
        for field in with_times:
            for path, steps in _time_places(field.type, (field.name,)):
                texts = batch.column(field.name)
                for step in steps:
                    texts = texts.flatten() if step is None else pc.struct_field(texts, step)
                has_zone = pc.match_substring_regex(texts, _ZONE)
                found.setdefault(path, set()).update(has_zone.unique().drop_null().to_pylist())
    return found


def _time_places(kind: Any, path: Path, steps: tuple[str | None, ...] = ()) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Yields each timestamp in a type as a pair (path, steps). In ``steps``, an item is the name of a field, or None
    for the items of a list."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _time_places(field.type, (*path, field.name), (*steps, field.name))
    elif pa.types.is_list(kind):
        yield from _time_places(kind.value_type, (*path, _ITEM), (*steps, None))
    elif pa.types.is_timestamp(kind):
        yield path, steps


def _times_as_text(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _times_as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_times_as_text(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _has_double(kind: pa.DataType) -> bool:
    children = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_floating(kind) or any(map(_has_double, children))


def _retyped(kind: Any, path: Path, doubtful: set[Path], instants: set[Path]) -> Any:
    """The type in which a column is written. It is text if another type might change a value, or if all values are
    null."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _retyped(f.type, (*path, f.name), doubtful, instants)) for f in kind])
    if types.is_list(kind):
        return pa.list_(_retyped(kind.value_type, (*path, _ITEM), doubtful, instants))
    if types.is_timestamp(kind) and path in instants:
        return pa.timestamp(kind.unit, "UTC")
    if types.is_null(kind) or types.is_time(kind) or path in doubtful:
        return pa.string()
    return kind


# ---------------------------------------------------------------------- by Python's parser


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    rest = b""
    number = 0
    while True:
        chunk = file.read(_CHUNK_BYTES)
        *whole, rest = (rest + chunk).split(b"\n") if chunk else [rest, b""]
        for line in whole:
            number += 1
            if line.strip():
                yield number, line
        if not chunk:
            return


def _objects(line: bytes, number: int, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a line, usually one."""
    try:
        text = line.decode().strip()
        at = 0
        while at < len(text):
            row, at = _DECODER.raw_decode(text, at)
            if not isinstance(row, dict):
                raise CorruptFile(f"line {number} is not a JSON object", file=name)
            yield row
            at += len(text[at:]) - len(text[at:].lstrip())
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"the file cannot be read as jsonl: line {number}: {error}", file=name) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in names if names.count(key) > 1)!r} occurs twice in one object")
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)  # fmt: skip


def _find_inexact(value: Any, path: Path, found: set[Path]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _find_inexact(item, (*path, key), found)
    elif isinstance(value, list):
        for item in value:
            _find_inexact(item, (*path, _ITEM), found)
    elif isinstance(value, _Number) and not is_exact_double(value):
        found.add(path)


def _parsed(file: Any, schema: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    crossing = pa.schema([pa.field(field.name, _crossing(field.type)) for field in schema])
    held: list[dict[str, Any]] = []
    first = 1
    for number, line in _lines(file):
        for row in _objects(line, number, name):
            unknown = row.keys() - set(schema.names)
            if unknown:
                raise CorruptFile(
                    f"line {number} has the field {min(unknown)!r}, which is not in the schema", file=name
                )
            held.append(row)
        if len(held) >= _BATCH_ROWS:
            yield _batch(held, crossing, schema, (first, number), name)
            held, first = [], number + 1
    if held:
        yield _batch(held, crossing, schema, (first, number), name)


def _batch(
    rows: list[dict[str, Any]], crossing: pa.Schema, schema: pa.Schema, lines: tuple[int, int], name: str
) -> pa.RecordBatch:
    columns = []
    for field, wanted in zip(crossing, schema):
        try:
            values = [_fitting(row.get(field.name), field.type) for row in rows]
            columns.append(pa.array(values, field.type).cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError, decimal.InvalidOperation) as error:
            raise CorruptFile(
                f"lines {lines[0]} to {lines[1]}: a value of {field.name!r} cannot be read as {wanted.type}: {error}",
                file=name,
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _crossing(kind: Any) -> Any:
    """The Arrow type into which Python's values are converted first. Times are converted to text, which Arrow then
    parses."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _crossing(f.type)) for f in kind])
    if types.is_list(kind):
        return pa.list_(_crossing(kind.value_type))
    return pa.string() if types.is_temporal(kind) else kind


def _fitting(value: Any, kind: Any) -> Any:
    types = pa.types
    if value is None:
        return None
    if types.is_struct(kind) and isinstance(value, dict):
        unknown = value.keys() - {field.name for field in kind}
        if unknown:
            raise ValueError(f"the value has a field {min(unknown)!r}, which is not in its type")
        return {field.name: _fitting(value.get(field.name), field.type) for field in kind}
    if types.is_list(kind) and isinstance(value, list):
        return [_fitting(item, kind.value_type) for item in value]
    if isinstance(value, _Number):
        return _number(value, kind)
    if isinstance(value, bool) and types.is_string(kind):
        return str(value).lower()
    if isinstance(value, str) and types.is_decimal(kind):
        return decimal.Decimal(value)
    return value


def _number(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(text)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(text)
    raise ValueError(f"{text} is a number, but a text is expected")
