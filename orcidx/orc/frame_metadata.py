"""Stores the parts of an Arrow schema that ORC columns cannot store. These are metadata, for example from pandas, and
types that ORC does not have.

These keys of the user metadata are written if the schema has metadata:

    pandas          JSON, as pyarrow writes it: the index, names of columns, dtypes
    other keys      unchanged; ``orcidx.schema`` contains the names of these keys as a JSON list
    orcidx.arrow    base64 of an Arrow schema in IPC form: the columns of a data frame whose types ORC does not have
    orcidx.categories   base64 of an Arrow IPC stream: one row, with a list for each column that has categories

If this metadata is missing or damaged, all rows can still be read. Parts that cannot be understood are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["as_given", "kept_metadata", "with_categories", "with_schema_metadata"]

PANDAS, KEYS, ARROW, CATEGORIES = "pandas", "orcidx.schema", "orcidx.arrow", "orcidx.categories"

_FOREIGN = ("ARROW:", "PARQUET:", "hive.", "orc.", "orcidx")
"""Prefixes of keys that belong to other formats or to the source file. Such metadata would be wrong in the new file."""

_MOST_CATEGORIES = 10_000
_MOST_BYTES = 1 << 20
"""The most bytes of categories, and of a value that is parsed. If the categories are not stored, only their order is
lost, because the rows have the categories, too."""

_UNCHANGED = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()} | {
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("ns"),
}


def with_categories(schema: pa.Schema, batch: pa.RecordBatch) -> pa.Schema:
    """Adds the categories in the first batch of a data frame to the metadata of ``schema``. The order of the categories
    is kept."""
    if not _is_of_pandas(schema) or ARROW.encode() in schema.metadata:
        return schema
    lists = {
        field.name: pa.ListArray.from_arrays(pa.array([0, len(column.dictionary)], pa.int32()), column.dictionary)
        for field, column in zip(schema, batch.columns)
        if pa.types.is_dictionary(field.type)
        and not isinstance(field.type.value_type, pa.BaseExtensionType)
        and len(column.dictionary) <= _MOST_CATEGORIES
    }
    stored = _stream_of(pa.RecordBatch.from_pydict(lists)) if lists else b""
    if not 0 < len(stored) <= _MOST_BYTES:
        return schema
    return schema.with_metadata({**schema.metadata, CATEGORIES: base64.b64encode(stored)})


def kept_metadata(schema: pa.Schema) -> dict[str, bytes]:
    """The user metadata to write. It stores the parts of the schema that ORC columns cannot store."""
    metadata = schema.metadata or {}
    kept: dict[str, bytes] = {}
    for raw, value in metadata.items():
        try:
            key = raw.decode()
        except UnicodeDecodeError:  # ORC's keys must be text
            continue
        if not key.startswith(_FOREIGN):
            kept[key] = value
    others = [key for key in kept if key != PANDAS]
    if others:
        kept[KEYS] = json.dumps(others).encode()
    if not _is_of_pandas(schema):
        return kept
    given = metadata.get(ARROW.encode())  # set if the table was read from a file, and then passed on
    fields = [pa.field(one.name, one.type) for one in schema if not _reads_alike(one.type)]
    if given is not None or fields:
        kept[ARROW] = base64.b64encode(pa.schema(fields).serialize()) if given is None else given
    categories = metadata.get(CATEGORIES.encode())
    return kept if categories is None else kept | {CATEGORIES: categories}


def _is_of_pandas(schema: pa.Schema) -> bool:
    return PANDAS.encode() in (schema.metadata or {})


def _reads_alike(kind: pa.DataType) -> bool:
    return kind in _UNCHANGED or pa.types.is_decimal128(kind) or pa.types.is_nested(kind)


def _stream_of(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def with_schema_metadata(
    schema: pa.Schema, user_metadata: Mapping[str, bytes], wanted: pa.Schema | None = None
) -> pa.Schema:
    """Adds metadata to the schema: the metadata of ``wanted``, or by default the metadata of the schema with which the
    file was written."""
    if wanted is not None:
        return schema.with_metadata(wanted.metadata) if wanted.metadata else schema
    if PANDAS not in user_metadata and KEYS not in user_metadata:
        return schema
    names = [PANDAS, ARROW, CATEGORIES] if PANDAS in user_metadata else []
    names += [key for key in _names(user_metadata.get(KEYS, b"[]")) if not key.startswith(_FOREIGN)]
    found = {key: user_metadata[key] for key in names if key in user_metadata}
    return schema.with_metadata({**(schema.metadata or {}), **found}) if found else schema


def _names(stored: bytes) -> list[str]:
    try:
        names = json.loads(stored)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def as_given(table: pa.Table) -> pa.Table:
    """Converts the columns of a table to their types in the data frame from which the file was written. A column is not
    converted if its values do not fit into this type."""
    metadata = table.schema.metadata or {}
    if PANDAS.encode() not in metadata:
        return table
    if not _is_sound(metadata[PANDAS.encode()]):
        return table.replace_schema_metadata(None)
    fields = _stored(metadata.get(ARROW.encode()), pa.ipc.read_schema)
    rows = _stored(metadata.get(CATEGORIES.encode()), lambda buffer: pa.ipc.open_stream(buffer).read_all())
    for field in fields or ():
        if table.schema.names.count(field.name) != 1:
            continue
        at = table.schema.get_field_index(field.name)
        known = None if rows is None or rows.num_rows != 1 or field.name not in rows.column_names else rows[field.name]
        column = _converted(table.column(at), field.type, known)
        if column is not None:
            table = table.set_column(at, field.name, column)
    return table


def _is_sound(stored: bytes) -> bool:
    """Whether pandas' metadata has all parts that pyarrow needs."""
    try:
        facts = json.loads(stored)
    except ValueError:
        return False
    if not isinstance(facts, dict) or not isinstance(facts.get("index_columns"), list):
        return False
    parts = [facts.get("columns"), facts.get("column_indexes", [])]
    return all(isinstance(part, list) and all(isinstance(one, dict) for one in part) for part in parts)


def _stored(stored: bytes | None, read: Any) -> Any:
    if stored is None or len(stored) > 2 * _MOST_BYTES:
        return None
    try:
        return read(pa.py_buffer(base64.b64decode(stored, validate=True)))
    except (pa.ArrowException, binascii.Error, ValueError, OSError, KeyError, TypeError):
        return None


def _converted(column: pa.ChunkedArray, kind: pa.DataType, known: pa.ChunkedArray | None) -> pa.ChunkedArray | None:
    """Converts a column to the Arrow type ``kind``. Returns None if its values do not fit into the type."""
    try:
        if pa.types.is_dictionary(kind):
            return _categorical(column, kind, known)
        if isinstance(kind, pa.BaseExtensionType):
            storage = column.cast(kind.storage_type).combine_chunks()
            return pa.chunked_array([pa.ExtensionArray.from_storage(kind, storage)])
        # A unit other than "ns" is kept, because the caller requested it.
        if pa.types.is_timestamp(column.type) and column.type.unit != "ns":
            return None
        return column.cast(kind)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError):
        return None


def _categorical(column: pa.ChunkedArray, kind: pa.DataType, categories: pa.ChunkedArray | None) -> pa.ChunkedArray:
    values = column.cast(kind.value_type)
    wanted = pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    if categories is not None:
        known = categories.combine_chunks().flatten().cast(kind.value_type)
        codes = pc.index_in(values, value_set=known, skip_nulls=True)
        if codes.null_count == values.null_count:
            chunks = [pa.DictionaryArray.from_arrays(one, known, ordered=kind.ordered) for one in codes.chunks]
            return pa.chunked_array(chunks, wanted)
    encoded = values.dictionary_encode().unify_dictionaries()
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(one.indices, one.dictionary, ordered=kind.ordered) for one in encoded.chunks],
        wanted,
    )
