"""Converts Arrow rows to rows of a table. Columns are found by name, and values are checked against the table's types
before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, Unsupported, ValueOutOfRange, located
from orcidx.options import ReadOptions
from orcidx.paimon.data_types import ARROW_BINARIES, ARROW_TEXTS, LONGEST_TYPE, TEXTS, DataField
from orcidx.paimon.hash_index import bucket_of_hash, key_hash
from orcidx.paimon_table.data_files.column_statistics import physical
from orcidx.paimon_table.metadata.binary_row import write_binary_row
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.storage.given_rows import stream_of

__all__ = ["arrow_batches", "conformed", "placed"]

_ANY_INTEGER = pa.decimal128(20, 0)
"""A decimal type that can hold every integer of 64 bits."""


def arrow_batches(data: object) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of a Table, a record batch, a reader, or an object with the Arrow stream interface."""
    if isinstance(data, pa.RecordBatch):
        return data.schema, iter([data])
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches(max_chunksize=ReadOptions.batch_size))
    if not isinstance(data, pa.RecordBatchReader):
        if not hasattr(data, "__arrow_c_stream__"):
            raise InvalidQuery(
                f"a {type(data).__name__} is not Arrow data: give a Table, a RecordBatch or a RecordBatchReader"
            )
        data = stream_of(data)
    reader: pa.RecordBatchReader = data
    return reader.schema, iter(reader)


def check_columns(given: pa.Schema, schema: TableSchema) -> None:
    """Raises ``InvalidQuery`` for columns that the table does not have, and for required columns that are missing.
    Raises ``Unsupported`` for missing columns that have a default value."""
    if len(set(given.names)) != len(given.names):
        raise InvalidQuery("the rows have two columns with the same name; rename one of them")
    if surplus := [name for name in given.names if name not in schema.by_name]:
        raise InvalidQuery(f"the table has no column {surplus[0]!r}; it has {', '.join(schema.by_name)}")
    needed = [field for field in schema.fields if not field.type.nullable and field.name not in given.names]
    if needed:
        raise InvalidQuery(f"column {needed[0].name!r} is NOT NULL, but the rows do not have it")
    for name in schema.defaults:
        if name not in given.names:
            raise _needs_default(schema, name)


def _needs_default(schema: TableSchema, name: str) -> Unsupported:
    return Unsupported(
        f"Paimon's Java writes the default {schema.defaults[name]!r} for a missing value, which orcidx does not do: "
        "give the value in each row",
        column=name,
    )


def conformed(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Converts rows to the table's columns and types. Missing columns become null.

    Raises ``InvalidQuery`` for values of a kind that the column does not accept, and for nulls that are not allowed.
    Raises ``ValueOutOfRange`` for values that do not fit.
    """
    arrays = []
    for field in schema.fields:
        with located(column=field.name):
            if field.name in batch.schema.names:
                arrays.append(_column(batch.column(field.name), field))
                if field.name in schema.defaults and arrays[-1].null_count:
                    raise _needs_default(schema, field.name)
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type.arrow_type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow_schema)


def _column(array: pa.Array, field: DataField) -> pa.Array:
    kind = field.type.arrow_type
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidQuery(f"values are not valid for {array.type}: {error}") from None
    if not field.type.nullable and array.null_count:
        raise InvalidQuery("the column is NOT NULL, but a row has no value")
    if not _is_alike(array.type, kind):
        raise InvalidQuery(
            f"the column has the type {field.type}, but the values have the type {array.type}: cast the values first"
        )
    if array.type != kind:
        try:
            # pyarrow refuses a cast of integers to a decimal that cannot hold every integer of their type.
            whole = pa.types.is_integer(array.type) and pa.types.is_decimal(kind)
            cast = (array.cast(_ANY_INTEGER) if whole else array).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueOutOfRange(f"a value does not fit {field.type}: {error}") from None
        if pa.types.is_float64(array.type) and pc.any(pc.and_(pc.is_inf(cast), pc.is_finite(array))).as_py():
            raise ValueOutOfRange(f"a value is too large for {field.type}, and would become infinite")
        array = cast
    _check_length(array, field)
    return array


def _is_alike(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast keeps the kind of the values. For example, text may only be cast to text, and instants with a zone
    only to instants with a zone."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_timestamp(kind):
        return pa.types.is_timestamp(given) and (given.tz is None) == (kind.tz is None)
    families = (
        (pa.types.is_boolean,),
        (pa.types.is_integer,),
        (pa.types.is_floating,),
        (pa.types.is_date,),
        (pa.types.is_time,),
        ARROW_TEXTS,
        ARROW_BINARIES,
    )
    for family in families:
        if any(is_kind(kind) for is_kind in family):
            return any(is_kind(given) for is_kind in family)
    return bool(pa.types.is_decimal(kind) and (pa.types.is_decimal(given) or pa.types.is_integer(given)))


def _check_length(array: pa.Array, field: DataField) -> None:
    limit = field.type.length
    if not limit or limit == LONGEST_TYPE:
        return
    measure = pc.utf8_length if field.type.root in TEXTS else pc.binary_length
    longest = pc.max(measure(array)).as_py()
    if longest is not None and longest > limit:
        raise ValueOutOfRange(f"a value of length {longest} does not fit {field.type}")


def placed(
    batch: pa.RecordBatch, schema: TableSchema, buckets: int
) -> Iterator[tuple[bytes, tuple[Any, ...], int, pa.RecordBatch]]:
    """Groups the rows by partition and bucket. For each group, yields the bytes and the values of the partition's row,
    the bucket, and the group's rows in order.

    ``buckets``: the number of buckets, or -1 if all rows go to bucket 0.
    """
    codes = [np.zeros(batch.num_rows, np.int64)]
    if buckets > 0:
        keys = batch.select([field.name for field in schema.bucket_fields])
        hashes = key_hash(keys, [field.type for field in schema.bucket_fields])
        codes[0] = bucket_of_hash(hashes, buckets).astype(np.int64)
    dictionaries = []
    for field in schema.partition_fields:
        encoded = batch.column(field.name).dictionary_encode()
        dictionaries.append(encoded.dictionary)
        codes.append(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
    groups, members = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
    types = [field.type for field in schema.partition_fields]
    for number, (bucket, *places) in enumerate(groups.tolist()):
        values = tuple(
            None if place < 0 else physical(words[place], data_type)
            for place, words, data_type in zip(places, dictionaries, types)
        )
        chosen = np.flatnonzero(members.reshape(-1) == number)
        rows = batch if len(chosen) == batch.num_rows else batch.take(pa.array(chosen))
        yield write_binary_row(types, values), values, int(bucket), rows
