"""Joining and cutting record batches: small remainders are joined, none leaves with more than ``batch_size`` rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

__all__ = ["join_batches"]


def join_batches(batches: Iterable[pa.RecordBatch], *, batch_size: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yields batches of at most ``batch_size`` rows, in order.

    A batch that is at least half full goes out as it is (joining it would copy more than it saves); smaller ones are
    collected until they fill a batch by rows or by bytes.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _cut(batch, batch_size):
            if piece.num_rows == 0:
                continue
            if waiting and rows + piece.num_rows > batch_size:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
            if not waiting and piece.num_rows * 2 >= batch_size:
                yield piece
                continue
            waiting.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
            if rows >= batch_size or size >= batch_bytes:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= most:
        yield batch
        return
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
