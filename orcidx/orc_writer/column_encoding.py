"""Encodes the columns of a slice in one of three ways. One way encodes the columns one after the other. Another way
encodes each column in its own thread. The third way encodes several row groups of one column in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from orcidx.errors import ValueOutOfRange
from orcidx.orc_writer.array_layouts import written_bytes
from orcidx.orc_writer.column_tree import ColumnWriter, Piece
from orcidx.orc_writer.columns import BadValue
from orcidx.orc_writer.lanes import Lanes, SplitRows, compress_waiting, split_rows
from orcidx.threads.tasks import Pool

__all__ = ["ENCODERS", "SMALLEST_TASK_BYTES", "ColumnEncoder", "batch_bytes"]

SMALLEST_TASK_BYTES = 64 << 10
"""A slice of fewer bytes of Arrow data is encoded without threads. Encoding such a slice takes less than a millisecond,
and a thread starts only 50 us after it was notified."""

ENCODERS = Pool(pa.cpu_count())


@dataclass
class ColumnEncoder:
    """Encodes slices of the columns of a stripe. ``name``: the name of the file, for messages."""

    lanes: Sequence[Lanes]
    name: str
    use_threads: bool

    def write(self, batch: pa.RecordBatch, pieces: Sequence[Piece], first_row: int, *, first_alone: bool) -> None:
        """Encodes a slice. ``pieces``: the parts of row groups in the slice. ``first_row``: the number of the slice's
        first row in the file, for messages. ``first_alone``: see ``split_rows``."""
        arrays = batch.columns
        threads = pa.cpu_count() if self.use_threads and batch_bytes(batch) > SMALLEST_TASK_BYTES else 1
        if threads > 1 and arrays:
            shares = threads if len(arrays) < 2 * threads and any(lanes.pays for lanes in self.lanes) else 1
            split = split_rows(pieces, first_alone=first_alone, shares=shares)
            if len(split.shares) > 1:
                self._write_in_lanes(arrays, split, first_row, threads)
            else:
                writers = [lanes.writer for lanes in self.lanes]
                self._write_in_threads(list(zip(writers, arrays, strict=True)), pieces, first_row)
        else:
            for lanes, array in zip(self.lanes, arrays, strict=True):
                self._write_column(lanes.writer, array, pieces, first_row)

    def _write_in_threads(self, tasks: Sequence[tuple[ColumnWriter, Any]], pieces: Sequence[Piece], first: int) -> None:
        """Encodes the largest columns first, each in the next free thread. If several columns have errors, the error of
        the first column is raised, as without threads."""
        waiting = sorted(range(len(tasks)), key=lambda i: written_bytes(tasks[i][1]))
        errors: dict[int, BaseException] = {}

        def work() -> None:
            while waiting:
                try:
                    number = waiting.pop()
                except IndexError:  # another thread has taken the column
                    return
                try:
                    self._write_column(*tasks[number], pieces, first)
                except BaseException as error:  # raised below, after it is known whether an earlier column has an error
                    errors[number] = error

        ENCODERS.run_all([work] * min(pa.cpu_count(), len(tasks)))
        if errors:
            raise errors[min(errors)]

    def _write_in_lanes(self, arrays: Sequence[Any], split: SplitRows, first: int, threads: int) -> None:
        """Encodes row groups of each column in parallel, for tables of few columns."""
        tasks: list[Callable[[], None]] = []
        for lanes, array in zip(self.lanes, arrays, strict=True):
            if split.head:
                self._write_column(lanes.writer, array.slice(0, split.head[0].stop), split.head, first)

            def write(lane: ColumnWriter, part: Any, pieces: Sequence[Piece], start: int) -> None:
                self._write_column(lane, part, pieces, first + start)

            tasks += lanes.encode(array, split.shares, write)
        ENCODERS.run_all(tasks)
        ENCODERS.run_all([partial(lanes.join, len(split.shares)) for lanes in self.lanes])
        compress_waiting([stream for lanes in self.lanes for stream in lanes.streams()], ENCODERS, threads)
        for lanes, array in zip(self.lanes, arrays, strict=True):
            for piece in split.tail:
                moved = Piece(0, piece.stop - piece.start, piece.ends_group)
                self._write_column(lanes.writer, array.slice(piece.start), [moved], first + piece.start)

    def _write_column(self, writer: ColumnWriter, array: Any, pieces: Sequence[Piece], first: int) -> None:
        try:
            writer.write(array, pieces)
        except BadValue as error:
            place = error.path or writer.node.dotted
            raise ValueOutOfRange(f"row {first + error.row}: {error.reason}", file=self.name, column=place) from error


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch, with views and dictionaries expanded."""
    return sum(map(written_bytes, batch.columns))
