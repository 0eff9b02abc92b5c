"""``ColumnCursor``: the reader of one column, and the reader's current row. Each column has its own cursor, so columns
are read independently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

__all__ = ["ColumnCursor", "CursorPlace", "Work"]

Work = tuple[int, int]
"""Numbers of chunks and bytes that were decompressed."""


@dataclass(frozen=True, slots=True)
class CursorPlace:
    """Where a reader is. ``group``: the row group of its last seek. None if it has read from the start of the stripe.
    ``row``: its next row. None if the next read must seek. ``loaded``: ``Window.loaded`` of each stream."""

    group: int | None
    row: int | None
    loaded: tuple[tuple[int, int], ...]


LEAST_CHUNKS = 4
"""If chunks are decompressed ahead, there are at least this many of them. With fewer chunks, another thread would
decompress the chunk that the reader needs next."""


class ColumnCursor:
    """Reads one column from any row. The limits of ``stripe`` must be for this column alone. Not thread-safe.

    ``windows``: the ``Window`` objects of the column's streams. A ``Window`` gives decoders the decompressed bytes of a
    stream. ``bounds``: the numbers of the first rows of all row groups, followed by the number of rows of the stripe.
    """

    __slots__ = ("_back", "_bounds", "_group", "_reader", "_row", "_stripe", "_windows", "wasted")

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
        self._group: int | None = None
        self._row: int | None = 0
        self._back: CursorPlace | None = None
        self.wasted: Work = (0, 0)
        """The part of ``work`` that was done for rows which were read but not used."""

    @property
    def stored_bytes(self) -> int:
        return self._stripe.streams.stored_bytes(self._reader.node)

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

    def close(self) -> None:
        """Drops data that was decompressed but not used."""
        for window in self._windows:
            if window.ahead is not None:
                window.ahead.close()
                window.ahead = None

    def lose_place(self) -> None:
        """Makes the next read start with a seek. This is needed after a read that failed halfway."""
        self._row = None
        if self._back is not None:
            self._back = replace(self._back, row=None)

    @property
    def place(self) -> CursorPlace:
        return self._back or CursorPlace(self._group, self._row, tuple([window.loaded for window in self._windows]))

    def go_back(self, place: CursorPlace, work: Work) -> None:
        """Goes back to an earlier place, because the rows that were read from there are not used. ``work``: the work
        that was done for these rows.

        The next read then starts as if these rows had never been read. It would not be enough to seek to the row group
        of the first of these rows, because a seek may pass over damaged bytes. Whether an error is raised would then
        depend on what was read in advance."""
        self._back, self._group, self._row = place, place.group, place.row
        self.wasted = self.wasted[0] + work[0], self.wasted[1] + work[1]

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
        if start != self._row or self._back is not None:
            self._seek(start)
        self._row = None  # unknown until the read ends

    def _seek(self, start: int) -> None:
        group: int | None = int(self._bounds.searchsorted(start, "right")) - 1
        ids, index, row, back = self._reader.node.ids, self._stripe.index, self._row, self._back
        self._row = self._back = None
        seeks = row is None or start < row or (self._bounds[group] > row and index is not None)
        if back is not None:
            for window, (chunk, after) in zip(self._windows, back.loaded):
                window.unload(*((chunk, chunk + 1) if seeks else (0, after)))
            group = group if seeks else back.group
        if seeks or back is not None:
            if group is None or index is None:
                self._reader.seek({column: PositionIterator.start() for column in ids})
                self._group, row = None, 0
            else:
                self._reader.seek(index.positions(ids, group))
                self._group, row = group, int(self._bounds[group])
        assert row is not None
        self._reader.skip(start - row)
