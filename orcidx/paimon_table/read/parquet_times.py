"""Time zones of the timestamps in Parquet files. Paimon stores timestamps with more than 6 fractional digits as INT96,
which pyarrow reads without a time zone."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from orcidx.paimon.data_types import TIMESTAMPS, DataType

__all__ = ["with_zones"]


def with_zones(batch: pa.RecordBatch, types: Mapping[str, DataType]) -> pa.RecordBatch:
    """Returns the batch with the time zones of the given types. Timestamps of type TIMESTAMP WITH LOCAL TIME ZONE get
    the zone UTC, and other timestamps have no zone."""
    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns):
        kind = _zoned(field.type, types[field.name]) if field.name in types else field.type
        arrays.append(array if kind == field.type else array.cast(kind))
        fields.append(field.with_type(kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _zoned(kind: pa.DataType, declared: DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and declared.root in TIMESTAMPS:
        return pa.timestamp(kind.unit, "UTC" if declared.root == "TIMESTAMP_LTZ" else None)
    if pa.types.is_struct(kind):
        inner = {field.name: field.type for field in declared.fields}
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([one.with_type(_zoned(one.type, inner.get(one.name, declared))) for one in fields])
    if pa.types.is_map(kind) and declared.root == "MAP":
        key, value = declared.children
        item = kind.item_field
        return pa.map_(kind.key_field.with_type(_zoned(kind.key_type, key)), item.with_type(_zoned(item.type, value)))
    if pa.types.is_list(kind) and declared.root == "ARRAY":
        return pa.list_(kind.value_field.with_type(_zoned(kind.value_type, declared.children[0])))
    return kind
