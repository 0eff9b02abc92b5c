"""``ColumnCursor``: the reader of one column, with the row at which it stands, for who takes columns apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc.column_readers import Claims, ColumnReader
from orcidx.orc.reader import OpenStripe
from orcidx.orc.row_index import RowIndex
from orcidx.orc.streams import PositionIterator, is_dictionary
from orcidx.orc.window import Window

__all__ = ["ColumnCursor"]

Work = tuple[int, int]

STRETCH = 4 << 20
"""Stored bytes of a column that one of its cursors reads in a row, where it has several: going on elsewhere costs a
chunk that the one before decompresses, too, and half a row group that is passed over."""


class ColumnCursor:
    """Reads one column from any row on. ``stripe`` has limits of the column's own; one thread at a time.

    ``windows``: those of the column. ``bounds``: first rows of the row groups and the stripe's rows at the end.
    """

    __slots__ = ("_bounds", "_index", "_reader", "_row", "_stretch_rows", "_stripe", "_windows")

    def __init__(
        self,
        reader: ColumnReader,
        stripe: OpenStripe,
        windows: Sequence[Window],
        bounds: npt.NDArray[np.int64],
    ) -> None:
        self._reader = reader
        self._stripe = stripe
        self._windows = windows
        self._bounds = bounds
        self._row: int | None = 0
        self._index = stripe.index
        self._stretch_rows = stripe.rows

    @property
    def stored_bytes(self) -> int:
        return self._stripe.stored_bytes(self._reader.node)

    @property
    def work(self) -> Work:
        """Chunks and bytes that were decompressed so far."""
        chunks = size = 0
        for window in self._windows:
            chunks += window.chunks_decompressed
            size += window.bytes_decompressed
        return chunks, size

    def lanes(self, threads: int, total: int) -> int:
        """How many cursors keep so many threads busy, of ``total`` stored bytes of all columns. One for a column
        with others below, whose chunks could not be told apart, or a dictionary, which each would decode."""
        node, stored = self._reader.node, self.stored_bytes
        if stored < 2 * STRETCH or node.children or is_dictionary(self._stripe.encoding(node.id).kind):
            return 1
        self._stretch_rows = max(1, self._stripe.rows * STRETCH // stored)
        return max(1, min(threads, round(threads * stored / total)))

    def seek_by(self, index: RowIndex) -> None:
        """Finds rows by this index, where the stripe's was not read."""
        self._index, self._bounds = index, index.bounds

    def stretch(self, row: int) -> int:
        """Number of the stretch that a row is in."""
        return row // self._stretch_rows

    def jump(self, start: int) -> None:
        """Goes to a row now, so that ``work`` after it is what its rows take: the chunks before are another's."""
        if start != self._row:
            self._seek(start)
            self._reader.pass_over()
            self._row = start

    def lose_place(self) -> None:
        """After a read that failed halfway, or rows that nobody takes: the next read seeks."""
        self._row = None

    def read(self, start: int, rows: int, batch_bytes: int | None, claims: Claims) -> pa.Array:
        """The rows from ``start`` on; ``claims``: bytes of the same rows' other columns count with these."""
        self._stripe.limits.begin(batch_bytes, claims)
        if start != self._row:
            self._seek(start)
        self._row = None
        array = self._reader.read(rows)
        self._row = start + rows
        return array

    def _seek(self, start: int) -> None:
        group = int(np.searchsorted(self._bounds, start, "right")) - 1
        first = int(self._bounds[group])
        ids, index, row = self._reader.node.ids, self._index, self._row
        self._row = None
        if row is None or start < row or first > row:
            if index is not None:
                self._reader.seek(index.positions(ids, group))
                row = first
            elif row is None or first < row:
                self._reader.seek({column: PositionIterator.start() for column in ids})
                row = 0
        self._reader.skip(start - row)
