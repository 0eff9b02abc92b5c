"""Joins small record batches, and cuts large batches to at most ``batch_size`` rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from orcidx.fetching.drive import off_loop

__all__ = ["Joiner", "concatenated", "join_batches", "join_off_loop", "without_fields"]


def without_fields(rows: int) -> pa.RecordBatch:
    """A batch of ``rows`` rows without columns. The batch takes no memory. This matters because a small file may claim
    to have 10^12 rows."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], 0, children=[]))


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches of the same schema into one batch. ``pyarrow.concat_batches`` exists only since pyarrow 19."""
    first = batches[0]
    if not first.num_columns:
        return without_fields(sum(batch.num_rows for batch in batches)).replace_schema_metadata(first.schema.metadata)
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(first.num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)


class Joiner:
    """Takes batches, and yields batches of at most ``batch_size`` rows in the same order.

    A batch that is at least half full, by rows or by bytes, is passed on unchanged, because joining would cost more
    than it saves. Smaller batches are collected until they fill a batch.

    ``first``: the first batch is returned after at most this many rows. Each later batch is returned after at most
    twice as many rows as the previous batch. So a caller that stops early does not wait for a whole batch. ``large``: a
    batch of at least this many rows is passed on unchanged, even if smaller batches are waiting. This option increases
    the number of batches. It is for callers for which this number does not matter.
    """

    def __init__(
        self, *, batch_size: int, batch_bytes: int, first: int | None = None, large: int | None = None
    ) -> None:
        self._batch_size = batch_size
        self._large = large or batch_size
        self._enough = batch_size if first is None else min(first, batch_size)
        self._batch_bytes = batch_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch, and yields the batches that are ready. The caller must exhaust the iterator."""
        for piece in (batch,) if batch.num_rows <= self._batch_size else _cut(batch, self._batch_size):
            if piece.num_rows == 0:
                continue
            if self._waiting and (self._rows + piece.num_rows > self._batch_size or piece.num_rows >= self._large):
                yield from self.rest()
            if not self._waiting and (piece.num_rows * 2 >= self._batch_size or piece.num_rows >= self._large):
                yield piece  # its size is not needed, because the piece is not collected
                continue
            size = _size_of(piece)
            if self._waiting and self._size + size > self._batch_bytes:
                yield from self.rest()
            if not self._waiting and (piece.num_rows * 2 >= self._batch_size or size * 2 >= self._batch_bytes):
                yield piece
                continue
            self._waiting.append(piece)
            self._rows += piece.num_rows
            self._size += size
            if self._rows >= self._enough or self._size >= self._batch_bytes:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The collected rows as one batch."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._size = 0
        if waiting:
            self._enough = min(2 * self._enough, self._batch_size)
            yield waiting[0] if len(waiting) == 1 else concatenated(waiting)


SMALL_BATCH_BYTES = 64 << 10
"""The size of a batch of at most this many bytes is computed from its buffers."""


def _size_of(batch: pa.RecordBatch) -> int:
    """The number of bytes of a batch's rows. For a small batch, the total size of its buffers is returned. For five
    columns, computing the total size takes 1.5 us, and computing the exact size takes 13 us. The total size is too high
    only if the batch is a slice."""
    size = int(batch.get_total_buffer_size())
    return size if size < SMALL_BATCH_BYTES else int(batch.nbytes)


def join_batches(
    batches: Iterable[pa.RecordBatch],
    *,
    batch_size: int,
    batch_bytes: int,
    first: int | None = None,
    large: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields batches of at most ``batch_size`` rows, in order. See ``Joiner``. If ``batches`` raises an error, the rows
    before it are yielded first."""
    joiner = Joiner(batch_size=batch_size, batch_bytes=batch_bytes, first=first, large=large)
    try:
        for batch in batches:
            yield from joiner.add(batch)
    except Exception:
        yield from joiner.rest()
        raise
    yield from joiner.rest()


async def join_off_loop(
    batches: AsyncIterator[pa.RecordBatch], left: int | None, *, batch_size: int, batch_bytes: int
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Does the same as ``join_batches``, but joins in another thread. At most ``left`` rows are yielded. None means no
    limit."""
    joiner = Joiner(batch_size=batch_size, batch_bytes=batch_bytes)
    failed: Exception | None = None
    try:
        async for batch in batches:
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            for joined in await off_loop(partial(_added, joiner, batch)):
                yield joined
            if left == 0:
                break
    except Exception as error:
        failed = error
    for joined in await off_loop(lambda: list(joiner.rest())):
        yield joined
    if failed is not None:
        raise failed


def _added(joiner: Joiner, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return list(joiner.add(batch))


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most)
