"""Handles Arrow's layouts that share or repeat values: views, dictionaries and runs. Computes how many bytes the rows
of such arrays take when they are written. Expands such layouts inside other arrays.

The values of views, dictionaries and runs can have more bytes than their buffers. A slice of an array in such a layout
keeps the buffers of the whole array. So ``written_bytes`` measures arrays by their expanded size, which is the size
that the encoders get.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.orc_writer.source import longest_text

__all__ = [
    "decoded_dictionary",
    "hides_values",
    "is_joined",
    "is_list_view",
    "is_plain_text",
    "is_view",
    "plain_layout",
    "type_without_views",
    "written_bytes",
]

ROUGH_BYTES = 8 << 20
"""Up to this many bytes, an upper bound of the expanded size of a dictionary's rows is accurate enough. Above it the
bytes are counted exactly."""

MANY_ENTRIES_PER_ROW = 16
"""The bytes of rows are counted one by one if a dictionary has more than this many entries for each row. This is common
in small batches."""


def is_view(type_: pa.DataType) -> bool:
    """Whether an Arrow type is a text or binary type in the view layout."""
    return str(type_) in ("string_view", "binary_view")


def type_without_views(type_: pa.DataType) -> pa.DataType:
    """The plain type that replaces a type for which ``is_view`` is true."""
    return pa.large_string() if type_ == pa.string_view() else pa.large_binary()


def is_plain_text(type_: pa.DataType) -> bool:
    """Whether an Arrow type is a text or binary type whose values lie one after the other."""
    return str(type_) in ("string", "large_string", "binary", "large_binary")


def is_list_view(type_: pa.DataType) -> bool:
    return str(type_).startswith(("list_view<", "large_list_view<"))


def _storage(type_: Any) -> Any:
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def hides_values(type_: pa.DataType) -> bool:
    """Whether a list or struct contains view arrays or run-end encoded arrays. pyarrow's ``filter`` and ``take`` do not
    support such arrays inside nested types."""
    type_ = _storage(type_)
    if not pa.types.is_nested(type_) or pa.types.is_run_end_encoded(type_):
        return False
    below = [_storage(type_.field(number).type) for number in range(type_.num_fields)]
    return any(is_view(child) or pa.types.is_run_end_encoded(child) or hides_values(child) for child in below)


def is_joined(type_: pa.DataType) -> bool:
    """Whether pyarrow can concatenate arrays of the type but cannot take rows of them. This is true for types with
    views or runs at any depth."""
    type_ = _storage(type_)
    return is_view(type_) or pa.types.is_run_end_encoded(type_) or hides_values(type_)


def plain_layout(array: pa.Array) -> pa.Array:
    """The array with views and runs expanded at any depth. Other layouts are kept."""
    if isinstance(array, pa.ExtensionArray):
        return plain_layout(array.storage)
    kind, types = array.type, pa.types
    if is_view(kind):
        return array.cast(type_without_views(kind))
    if types.is_run_end_encoded(kind):
        return _decoded_runs(array)
    if not types.is_nested(kind):
        return array
    if types.is_union(kind):
        return _plain_union(array)
    mask = array.is_null() if array.null_count else None
    if types.is_struct(kind):
        names = [field.name for field in kind]
        if not names:
            return array
        return pa.StructArray.from_arrays([plain_layout(array.field(i)) for i in range(len(names))], names, mask=mask)
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        if not size:  # pyarrow's ``from_arrays`` refuses lists of the size 0
            return pa.ListArray.from_arrays(np.zeros(len(array) + 1, np.int32), plain_layout(values), mask=mask)
        return pa.FixedSizeListArray.from_arrays(plain_layout(values), size, mask=mask)
    if is_list_view(kind):
        cls = pa.ListViewArray if str(kind).startswith("list_view<") else pa.LargeListViewArray
        return cls.from_arrays(_copied(array.offsets), _copied(array.sizes), plain_layout(array.values), mask=mask)
    offsets = _copied(array.offsets)
    if types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, plain_layout(array.keys), plain_layout(array.items), mask=mask)
    cls = pa.LargeListArray if types.is_large_list(kind) else pa.ListArray
    return cls.from_arrays(offsets, plain_layout(array.values), mask=mask)


def decoded_dictionary(array: pa.DictionaryArray) -> pa.Array:
    """The value of each row of a dictionary array, in a plain layout. pyarrow's ``take`` supports neither views nor
    runs inside other types."""
    entries = plain_layout(array.dictionary)
    if entries.type != array.dictionary.type:
        array = pa.DictionaryArray.from_arrays(array.indices, entries)
    return array.dictionary_decode()


def _decoded_runs(array: Any) -> Any:
    """Expands runs. pyarrow's own ``run_end_decode`` supports neither views nor nested types."""
    values = plain_layout(array.values)
    ends = array.run_ends.to_numpy()
    rows = np.arange(array.offset, array.offset + len(array))
    return values.take(pa.array(np.searchsorted(ends, rows, side="right")))


def _plain_union(array: Any) -> Any:
    kind = array.type
    children = [plain_layout(array.field(i)) for i in range(kind.num_fields)]
    names = [kind.field(i).name for i in range(kind.num_fields)]
    # pyarrow's type_codes and offsets ignore the offset of a slice. So both are read from the array's buffers.
    codes = _numbers(array, 1, pa.int8())
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, children, names, list(kind.type_codes))
    return pa.UnionArray.from_dense(codes, _numbers(array, 2, pa.int32()), children, names, list(kind.type_codes))


def _numbers(array: Any, number: int, type_: pa.DataType) -> Any:
    return _copied(pa.Array.from_buffers(type_, len(array), [None, array.buffers()[number]], offset=array.offset))


def _copied(array: Any) -> Any:
    """Copies the array, without an offset. pyarrow does not accept an offset together with a mask."""
    return pa.array(array.to_numpy(zero_copy_only=False).copy(), array.type)


_FIXED: dict[int, int] = {
    kind.id: kind.bit_width
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.timestamp("ns"), pa.time32("s"),
        pa.time64("us"), pa.duration("s"), pa.decimal128(1), pa.decimal256(1),
    )
}  # fmt: skip
"""The bits of a value, by the id of its type."""


def written_bytes(array: pa.Array) -> int:
    """The number of bytes that the rows of an array take after views, dictionaries and runs are expanded."""
    kind, types = array.type, pa.types
    rows = len(array)
    if not rows:
        return 0
    if (width := _FIXED.get(kind.id)) is not None:  # tested first, because the code below takes ten times as long
        return rows * width // 8 + (rows // 8 if array.null_count else 0)
    if isinstance(array, pa.ExtensionArray):
        return written_bytes(array.storage)
    if types.is_dictionary(kind):
        return int(array.indices.nbytes) + _entry_bytes(array)
    if types.is_run_end_encoded(kind):
        return rows * _longest(array.values)
    if is_view(kind):
        return 16 * rows + _view_bytes(array)
    if not types.is_nested(kind):
        return int(array.nbytes)
    if types.is_struct(kind):
        return rows // 8 + sum(written_bytes(array.field(i)) for i in range(kind.num_fields))
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        return rows // 8 + written_bytes(array.values.slice(array.offset * size, rows * size))
    if is_list_view(kind):
        elements = int(pc.sum(array.sizes).as_py() or 0)
        return 8 * rows + elements * max(1, written_bytes(array.values) // max(1, len(array.values)))
    if types.is_union(kind):
        return rows + sum(written_bytes(array.field(i)) for i in range(kind.num_fields))
    first, last = array.offsets[0].as_py(), array.offsets[rows].as_py()
    children = (array.keys, array.items) if types.is_map(kind) else (array.values,)
    if not 0 <= first <= last <= len(children[0]):
        return 8 * rows  # damaged offsets, for which the column's writer raises an error
    return 8 * rows + sum(written_bytes(child.slice(first, last - first)) for child in children)


def _longest(values: Any) -> int:
    """The number of bytes of the longest text or binary value, or an upper bound of it. For other types, the mean
    number of bytes of a value."""
    if not len(values):
        return 0
    kind = values.type
    if is_plain_text(kind):
        return longest_text(values) + 4
    return max(1, written_bytes(values) // len(values))


def _entry_bytes(array: Any) -> int:
    """The number of bytes of the dictionary entries that the rows refer to. The result may be 0 if the entries take at
    most ``ROUGH_BYTES`` bytes."""
    values = array.dictionary
    texts = is_plain_text(values.type)
    if texts and MANY_ENTRIES_PER_ROW * len(array) < len(values):
        return _named_bytes(array)
    longest = _longest(values)
    if len(array) * longest <= ROUGH_BYTES:
        return 0
    if not texts:
        return len(array) * longest
    # Batches are cut several times. An exact size for each cut would take a tenth of the time of writing (decision
    # 0129). So the mean size of an entry is used unless some entries are much longer.
    offsets = (8 if str(values.type).startswith("large") else 4) * len(values)
    mean: int = math.ceil((values.nbytes - offsets) / len(values))
    return len(array) * mean if longest <= 4 * mean else _named_bytes(array)


def _named_bytes(array: Any) -> int:
    values, indices = array.dictionary, array.indices
    number = np.int64 if str(values.type).startswith("large") else np.int32
    chosen = (indices.fill_null(0) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    offsets = np.frombuffer(values.buffers()[1], number)[values.offset : values.offset + len(values) + 1]
    try:
        return max(0, int((offsets[chosen + np.int64(1)] - offsets[chosen]).sum()))
    except IndexError:  # a damaged index, for which the column's writer raises an error
        return 0


def _view_bytes(array: Any) -> int:
    """The lengths of views. Each view has sixteen bytes and begins with the length."""
    views = np.frombuffer(array.buffers()[1], np.int32)[4 * array.offset :: 4][: len(array)]
    if array.null_count:
        views = views[array.is_valid().to_numpy(zero_copy_only=False)]
    return int(views.sum(dtype=np.int64))
