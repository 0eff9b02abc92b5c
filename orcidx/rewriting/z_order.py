"""Z-order keys: rows with near values in several columns get near keys. Rows are then sorted by these keys.

Each value is replaced by its rank among the rows of a sample. The bits of the ranks are interleaved, beginning with the
first column. Ranks count rows, so each bit divides the rows into two halves. Columns of any type and distribution
therefore have the same influence. If ranks counted distinct values, most bits would be used for values that are rare.
Nulls come last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MOST_KEY_COLUMNS", "ZOrder"]

MOST_KEY_COLUMNS = 8
"""The maximum number of columns of a key. With 64 bits, each of 8 columns has 8 bits."""
MOST_BITS = 16
"""The maximum number of bits for a column in a key."""
SAMPLE_ROWS = 1 << 17
"""The number of rows of a sample, which is twice the number of ranks."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Ranks of the values of one column. ``edges`` has sorted quantiles of the sampled rows, in which a frequent value
    occurs several times. ``prefix`` is the common beginning of all sampled texts."""

    edges: Numbers
    prefix: bytes
    bits: int

    @staticmethod
    def of(column: pa.Array, bits: int) -> _Ranks:
        prefix = _common_prefix(column)
        values = np.sort(_sortable(column.drop_null(), prefix))
        steps = min(len(values), (1 << bits) - 1)  # the highest rank is for nulls
        edges = values[np.linspace(0, len(values) - 1, steps).astype(np.int64)] if steps else values
        return _Ranks(edges, prefix, bits)

    def rank(self, column: pa.Array) -> npt.NDArray[np.uint64]:
        """For each value, the share of sampled rows that have a smaller value. The share is scaled to the range of a
        rank."""
        valid = np.asarray(column.is_valid())
        ranks = np.full(len(column), (1 << self.bits) - 1, np.uint64)
        places = np.searchsorted(self.edges, _sortable(column.drop_null(), self.prefix), side="left")
        ranks[valid] = places * ((1 << self.bits) - 2) // max(1, len(self.edges))
        return ranks


def _sortable(array: Any, prefix: bytes) -> Numbers:
    """Numbers in approximately the order of the values. They are exact for integers and times. For texts they are the
    eight bytes after the prefix."""
    kind, types = array.type, pa.types
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        binary = array.cast(pa.large_binary())
        if prefix:
            binary = pc.if_else(
                pc.starts_with(binary, prefix),
                pc.binary_slice(binary, len(prefix), len(prefix) + 8),
                pc.if_else(pc.less(binary, pa.scalar(prefix, pa.large_binary())), b"", b"\xff" * 8),
            )
        texts = np.array(binary.to_pylist(), "S8") if len(binary) else np.zeros(0, "S8")
        return texts.view(">u8").astype(np.uint64)
    if types.is_boolean(kind):
        return np.asarray(array).astype(np.int64)
    if types.is_decimal(kind):
        return np.asarray(array.cast(pa.float64()))
    if types.is_date(kind):
        return np.asarray(array.cast(pa.int32()))
    if types.is_timestamp(kind):
        return np.asarray(array.cast(pa.int64()))
    found = np.asarray(array)
    return np.where(np.isnan(found), np.inf, found) if types.is_floating(kind) else found


def _common_prefix(array: Any) -> bytes:
    kind, types = array.type, pa.types
    if not (types.is_string(kind) or types.is_binary(kind)) or not len(array):
        return b""
    ends = pc.min_max(array.cast(pa.binary()))
    least, greatest = ends["min"].as_py() or b"", ends["max"].as_py() or b""
    same = next((i for i, (a, b) in enumerate(zip(least, greatest)) if a != b), min(len(least), len(greatest)))
    return bytes(least[:same])


@dataclass(frozen=True, eq=False)
class ZOrder:
    """Makes keys from the columns ``names``."""

    names: Sequence[str]
    ranks: Sequence[_Ranks]

    @staticmethod
    def of(sample: pa.Table, names: Sequence[str]) -> ZOrder:
        """Prepares the keys from a sample of rows with these columns."""
        bits = min(MOST_BITS, 64 // len(names))
        return ZOrder(names, [_Ranks.of(_one(sample[name]), bits) for name in names])

    def keys(self, table: pa.Table) -> pa.Array:
        """An int64 key for each row of a table or batch, in Z-order."""
        key = np.zeros(table.num_rows, np.uint64)
        columns = [ranks.rank(_one(table.column(name))) for name, ranks in zip(self.names, self.ranks)]
        for bit in reversed(range(self.ranks[0].bits)):
            for column in columns:
                key = key << np.uint64(1) | (column >> np.uint64(bit) & np.uint64(1))
        return pa.array((key ^ np.uint64(1 << 63)).view(np.int64))


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
