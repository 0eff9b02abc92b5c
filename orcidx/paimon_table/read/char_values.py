"""Applies the option ``char`` to CHAR columns that a data file stores as strings. The ORC reader applies the option
only to columns of ORC's type char."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import Unsupported, located
from orcidx.paimon.data_types import DataType
from orcidx.paimon_table.read.evolution import null_mask, own_offsets

__all__ = ["in_char_form"]

CharForm = Literal["stored", "padded", "trimmed"]


def in_char_form(batch: pa.RecordBatch, types: Mapping[str, DataType], form: CharForm) -> pa.RecordBatch:
    """Returns the batch with all CHAR values in this form. CHAR values in nested columns are changed, too. ``types``:
    the types of the columns in the table."""
    if form == "stored" or not any(types[name].contains("CHAR") for name in batch.schema.names):
        return batch
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns):
        with located(column=name):
            arrays.append(_formed(array, types[name], form))
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _formed(array: pa.Array, kind: DataType, form: CharForm) -> pa.Array:
    if not kind.contains("CHAR"):
        return array
    if kind.root == "CHAR":
        return _text(array, kind.length, form)
    if kind.root == "ROW":
        children = [_formed(array.field(i), field.type, form) for i, field in enumerate(kind.fields)]
        fields = [array.type.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=null_mask(array))
    offsets, mask = own_offsets(array), null_mask(array)
    if kind.root == "ARRAY":
        return pa.ListArray.from_arrays(
            offsets, _formed(array.values, kind.children[0], form), type=array.type, mask=mask
        )
    keys = _formed(array.keys, kind.children[0], form)
    items = _formed(array.items, kind.children[1], form) if kind.root == "MAP" else array.items
    return pa.MapArray.from_arrays(offsets, keys, items, type=array.type, mask=mask)


def _text(array: pa.Array, length: int, form: CharForm) -> pa.Array:
    if form == "trimmed":
        return pc.ascii_rtrim(array, " ")
    try:
        return pc.utf8_rpad(array, length, " ")
    except pa.ArrowException:
        raise Unsupported(
            f"{len(array)} values, padded to {length} characters, do not fit into an Arrow array; read the column with "
            'char="stored" or char="trimmed"'
        ) from None
