"""``ColumnCursor``: the reader of one column, and the reader's current row. Each column has its own cursor, so columns
are read independently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc.chunks_ahead import ChunksAhead
from orcidx.orc.column_readers import Claims, ColumnReader
from orcidx.orc.reader import OpenStripe
from orcidx.orc.streams import PositionIterator
from orcidx.orc.window import Window
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.kept_columns import KeptColumn, read_kept

__all__ = ["ColumnCursor"]

Work = tuple[int, int]

LEAST_CHUNKS = 4
"""If chunks are decompressed ahead, there are at least this many of them. With fewer chunks, another thread would
decompress the chunk that the reader needs next."""


class ColumnCursor:
    """Reads one column from any row. The limits of ``stripe`` must be for this column alone. Not thread-safe.

    ``windows``: the ``Window`` objects of the column's streams. A ``Window`` gives decoders the decompressed bytes of a
    stream. ``bounds``: the numbers of the first rows of all row groups, followed by the number of rows of the stripe.
    """

    __slots__ = ("_bounds", "_reader", "_row", "_stripe", "_windows")

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

    @property
    def stored_bytes(self) -> int:
        return self._stripe.stored_bytes(self._reader.node)

    @property
    def work(self) -> Work:
        """The number of chunks and bytes that have been decompressed."""
        chunks = size = 0
        for window in self._windows:
            chunks += window.chunks_decompressed
            size += window.bytes_decompressed
        return chunks, size

    @property
    def chunks_ahead(self) -> list[ChunksAhead]:
        return [window.ahead for window in self._windows if window.ahead is not None]

    def decompress_ahead(self, ask: Callable[[ChunksAhead], None], *, memory: int, whole: bool) -> None:
        """Passes the next chunks to ``ask``, so that other threads decompress these chunks. The chunks use at most
        ``memory`` bytes of memory.

        ``whole``: whether all rows of the stripe will be read.
        """
        for window in self._windows:
            codec = window.native
            most = 0 if codec is None else memory // len(self._windows) // (2 * window.block_size)
            if codec is not None and most >= LEAST_CHUNKS:
                window.ahead = ChunksAhead(
                    codec,
                    block_size=window.block_size,
                    stream_length=window.length,
                    most=most,
                    whole=whole,
                    ask=ask,
                )

    def go_on(self) -> None:
        """Permits other threads to decompress the next chunks before they are read."""
        for ahead in self.chunks_ahead:
            ahead.go_on()

    def close(self) -> None:
        """Drops data that was decompressed but not used."""
        for window in self._windows:
            if window.ahead is not None:
                window.ahead.close()
                window.ahead = None

    def lose_place(self) -> None:
        """Makes the next read start with a seek. This is needed after a read that failed halfway. It is also needed if
        rows were read but not used."""
        self._row = None

    def read(self, start: int, rows: int, batch_bytes: int | None, claims: Claims) -> pa.Array:
        """Reads the rows from ``start``. ``claims`` counts the bytes of these rows together with the bytes of the other
        columns."""
        self._begin(start, batch_bytes, claims)
        array = self._reader.read(rows)
        self._row = start + rows
        return array

    def read_kept(self, start: int, kept: KeptRows, batch_bytes: int | None, claims: Claims) -> KeptColumn:
        """Reads the kept rows among the next rows from ``start``. ``claims`` counts the bytes of all the next rows, not
        only of the kept rows."""
        self._begin(start, batch_bytes, claims)
        found = read_kept(self._reader, kept)
        self._row = start + len(kept)
        return found

    def _begin(self, start: int, batch_bytes: int | None, claims: Claims) -> None:
        self._stripe.limits.begin(batch_bytes, claims)
        if start != self._row:
            self._seek(start)
        self._row = None  # unknown until the read ends

    def _seek(self, start: int) -> None:
        group = int(self._bounds.searchsorted(start, "right")) - 1
        first = int(self._bounds[group])
        ids, index, row = self._reader.node.ids, self._stripe.index, self._row
        self._row = None
        if row is None or start < row or first > row:
            if index is not None:
                self._reader.seek(index.positions(ids, group))
                row = first
            elif row is None or first < row:
                self._reader.seek({column: PositionIterator.start() for column in ids})
                row = 0
        self._reader.skip(start - row)
