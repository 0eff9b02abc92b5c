"""Hashes sets of rows independently of their order. A rewrite uses the hashes to verify that no row was lost or
changed.

Each row is hashed to 64 bits. Its hash is computed from the bits of its values, and the hashes of all rows are added.
NaNs with different bits have different hashes, and so do zeros with different signs. The bytes behind a null are
ignored. The hashes detect faults, but they do not protect against forgery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.orc_writer.array_layouts import decoded_dictionary, is_list_view, is_view, plain_layout

__all__ = ["RowsSeen", "hash_batch", "rows_seen"]

Words = npt.NDArray[np.uint64]
_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1B54A32D192ED03)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BYTE = np.uint64(0x100000001B3)
"""Odd constants. Multiplying a word by such a constant spreads the bits of the word. The constants are those of
SplitMix64, and the prime of FNV for the bytes of texts."""
_MASK_64 = (1 << 64) - 1


@dataclass(frozen=True)
class RowsSeen:
    """The number of ``rows``, the sum of their hashes, and the sum weighted by position. The weighted sums are equal
    only for the same rows in the same order."""

    rows: int = 0
    total: int = 0
    ordered: int = 0

    def with_batch(self, batch: pa.RecordBatch) -> RowsSeen:
        hashes = hash_batch(batch)
        places = np.arange(self.rows, self.rows + len(hashes), dtype=np.uint64) * _STEP + _NULL
        total = (self.total + int(hashes.sum(dtype=np.uint64))) & _MASK_64
        ordered = (self.ordered + int(_mixed(hashes ^ places).sum(dtype=np.uint64))) & _MASK_64
        return RowsSeen(self.rows + len(hashes), total, ordered)

    def same_rows(self, other: RowsSeen) -> bool:
        """Whether both summaries describe the same rows, in any order."""
        return (self.rows, self.total) == (other.rows, other.total)


def rows_seen(batches: Iterable[pa.RecordBatch]) -> RowsSeen:
    seen = RowsSeen()
    for batch in batches:
        seen = seen.with_batch(batch)
    return seen


def hash_batch(batch: pa.RecordBatch) -> Words:
    """A hash of each row, which depends on the order of the columns but not on their names."""
    found = np.zeros(batch.num_rows, np.uint64)
    for column in batch.columns:
        found = _mixed(found * _STEP + _hash(column))
    return found


def _mixed(words: Words) -> Words:
    """The finalizer of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * _A
    words = (words ^ (words >> np.uint64(27))) * _B
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


def _hash(array: Any) -> Words:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return _hash(decoded_dictionary(array))
    if is_view(array.type) or pa.types.is_run_end_encoded(array.type):
        return _hash(plain_layout(array))
    found = _values(array)
    if array.null_count:
        found = np.where(np.asarray(array.is_null()), _NULL, found)
    return found


def _values(array: Any) -> Words:
    kind, types = array.type, pa.types
    if types.is_struct(kind):
        found = np.ones(len(array), np.uint64)
        for child in (array.field(i) for i in range(kind.num_fields)):
            found = _mixed(found * _STEP + _hash(child))
        return found
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _lists(array)
    if types.is_fixed_size_list(kind) or is_list_view(kind):
        return _other_lists(array)
    if types.is_union(kind):
        return _unions(array)
    if types.is_null(kind):
        return np.full(len(array), _NULL)
    if types.is_boolean(kind):
        return _mixed(np.asarray(pc.fill_null(array, False)).astype(np.uint64) + _A)
    if types.is_string(kind) or types.is_binary(kind):
        return _texts(array, np.int32)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _texts(array, np.int64)
    width = kind.bit_width // 8
    if not width:
        return np.zeros(len(array), np.uint64)
    if width > 8 or types.is_fixed_size_binary(kind):
        return _wide(array, width)
    data = np.frombuffer(array.buffers()[1], np.dtype(f"u{width}"), len(array), array.offset * width)
    return _mixed(data.astype(np.uint64) + _B)


def _wide(array: Any, width: int) -> Words:
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width).reshape(-1, width)
    padded = np.zeros((len(array), -(-width // 8) * 8), np.uint8)
    padded[:, :width] = raw
    found = np.full(len(array), width, np.uint64)
    for word in padded.view(np.uint64).T:
        found = _mixed(found * _STEP + word)
    return found


def _texts(array: Any, number: type[np.signedinteger[Any]]) -> Words:
    if not len(array):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(array.buffers()[1], number, len(array) + 1, array.offset * number().itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[first:last]
    bounds = offsets.astype(np.int64) - first
    return _sequences(data.astype(np.uint64) + np.uint64(1), bounds)


def _sequences(elements: Words, bounds: npt.NDArray[np.int64]) -> Words:
    """A hash of each range of elements. It is computed from the length of the range and from each element with its
    position."""
    lengths = np.diff(bounds)
    places = np.arange(len(elements), dtype=np.int64) - np.repeat(bounds[:-1], lengths)
    weighed = _mixed(elements * _BYTE + places.astype(np.uint64) * _STEP)
    sums = np.concatenate(([np.uint64(0)], np.cumsum(weighed, dtype=np.uint64)))
    found: Words = _mixed(sums[bounds[1:]] - sums[bounds[:-1]] + lengths.astype(np.uint64) * _A)
    return found


def _lists(array: Any) -> Words:
    number = np.int64 if pa.types.is_large_list(array.type) else np.int32
    if not len(array):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(array.buffers()[1], number, len(array) + 1, array.offset * number().itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        keys, items = (_hash(child.slice(first, last - first)) for child in (array.keys, array.items))
        elements = _mixed(keys * _STEP + items)
    else:
        elements = _hash(array.values.slice(first, last - first))
    return _sequences(elements, offsets.astype(np.int64) - first)


def _other_lists(array: Any) -> Words:
    """Hashes lists of a fixed size and list views. The values of list views may be stored in any order."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return _sequences(_hash(array.flatten()), np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))


def _unions(array: Any) -> Words:
    """Hashes unions row by row. This is slow, but unions are rare."""
    codes = np.frombuffer(array.buffers()[1], np.int8, len(array), array.offset)
    dense = array.type.mode == "dense"
    offsets = np.frombuffer(array.buffers()[2], np.int32)[array.offset : array.offset + len(array)] if dense else None
    found = np.zeros(len(array), np.uint64)
    for tag, code in enumerate(array.type.type_codes):
        chosen = np.flatnonzero(codes == code)
        places = chosen if offsets is None else offsets[chosen]
        hashes = _hash(array.field(tag))
        found[chosen] = _mixed(hashes[places] + np.uint64(tag * int(_STEP) & _MASK_64))
    return found
