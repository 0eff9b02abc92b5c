"""``read_kept`` reads the kept rows of a column and counts the bytes of all rows."""

from __future__ import annotations

import pyarrow as pa

from orcidx.orc.column_readers import ColumnReader
from orcidx.orc.types import row_bytes
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.survivors import picked

__all__ = ["KeptColumn", "array_bytes", "read_kept"]

KeptColumn = tuple[pa.Array, int]
"""The kept rows of a column, and the number of bytes of all rows from which the kept rows were selected."""


class _Picking:
    """Selects the kept rows of an array. ``size``: the number of bytes of all rows, if it was counted."""

    __slots__ = ("_kept", "size")

    def __init__(self, kept: KeptRows) -> None:
        self._kept = kept
        self.size: int | None = None

    def __call__(self, array: pa.Array, size: int | None = None) -> pa.Array:
        self.size = array_bytes(array) if size is None else size
        (found,) = picked([array], self._kept, owned=True)
        return found

    def counts(self, size: int) -> None:
        self.size = size


def read_kept(reader: ColumnReader, kept: KeptRows) -> KeptColumn:
    """Reads the next rows of a column and returns the kept rows."""
    pick = _Picking(kept)
    array = reader.read_kept(len(kept), kept.checked, pick)
    return array, int(len(kept) * (row_bytes(reader.node) or 0)) if pick.size is None else pick.size


def array_bytes(array: pa.Array) -> int:
    """The number of bytes of the rows. Several batches share a dictionary. So a dictionary is not counted as a whole.
    Instead, each row counts as one entry of average size."""
    if not isinstance(array, pa.DictionaryArray):
        return int(array.nbytes)
    entries = array.dictionary
    return int(array.indices.nbytes + entries.nbytes * len(array) / max(1, len(entries)))
