"""Filters one span while threads decode the other columns of the span before it. A span is a range of consecutive rows.
The other columns are the columns that the predicate does not use. ``SpanBehind`` holds the earlier span.
``OtherColumns`` holds the other columns. ``SpanBatches`` makes the batches of a span.

After the predicate has been evaluated for a span, threads start to decode the other columns of the matching rows.
Meanwhile the caller decodes and filters the predicate's columns of the next span. So the batches of a span are returned
after the next span was filtered. The batches, and the rows that are returned before an error, must not depend on the
number of threads. So the order is the same with only one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.planner.column_plan import ColumnPlan
from orcidx.scanner.column_group import ColumnGroup
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.row_width import RowWidth
from orcidx.scanner.span_plan import SpanPlan
from orcidx.scanner.survivors import Survivors, as_batch, picked

__all__ = ["OtherColumns", "SpanBatches", "SpanBehind"]


@dataclass
class OtherColumns:
    """The other columns of a stripe. ``alone``: whether there is no predicate. All rows of these columns are then
    decoded ahead."""

    group: ColumnGroup
    width: RowWidth
    ahead: DecodeAhead | None
    alone: bool

    def begin(self, found: Survivors) -> None:
        """Lets threads start decoding the rows, if this saves time and there is memory for them."""
        size = self.width.row_bytes(self.group)
        if self.ahead is None or size is None or found.reach is None or self.alone or not self.group.cursors:
            return
        if self.ahead.has_room and self.width.fits(self.group, found.rows):
            self.ahead.begin(self.group.cursors, *found.reach, size)

    def read(self, found: Survivors) -> list[pa.Array]:
        """The columns of the matching rows. Raises ``BatchTooLarge`` if all rows of the span have too many bytes."""
        if not self.group.columns:
            return []
        if found.kept is None:
            self.group.seek(found.start)
            return self._whole(found.stop - found.start)
        if found.reach is None:
            return self._runs(found.start, found.kept.runs())
        start, kept = found.reach
        self.group.seek(start)
        if self.ahead is not None and self.alone:
            return [array for array in picked(self._whole(len(kept)), kept, owned=True) if array is not None]
        arrays, size = self.group.read_kept(kept, self.ahead)
        self.width.saw_bytes(self.group, size, len(kept))
        return arrays

    def _whole(self, rows: int) -> list[pa.Array]:
        arrays = self.group.read(rows, self.ahead)
        self.width.saw(self.group, arrays, rows)
        return arrays

    def _runs(self, start: int, runs: list[list[int]]) -> list[pa.Array]:
        pieces: list[list[pa.Array]] = []
        for first, last in runs:
            self.group.seek(start + first)
            pieces.append(self.group.read(last - first, self.ahead))
        if len(pieces) == 1:
            return pieces[0]
        return [pa.concat_arrays(list(column)) for column in zip(*pieces)]


@dataclass(frozen=True)
class SpanBatches:
    """Makes batches of the matching rows of a span. ``first_row``: the number of the stripe's first row in the file.
    ``spans``: the plan of the spans, which must be made again if rows are larger than expected."""

    columns: ColumnPlan
    first_row: int
    others: OtherColumns
    spans: SpanPlan

    def of(self, found: Survivors) -> Iterator[pa.RecordBatch]:
        """Yields the matching rows as one batch. If the other columns have too many bytes for one batch, yields several
        batches. If the other columns of several batches cannot be read at once, they are read one batch at a time, so
        that the batches before an error are returned."""
        if found.others is not None:
            yield as_batch(self.columns, found, found.others, self.first_row)
            return
        others, batch_size = self.others, self.others.width.options.batch_size
        failed: OrcidxError | None = None
        if others.width.fits(others.group, found.rows):
            try:
                rest = others.read(found)
            except BatchTooLarge:
                others.width.was_too_large(self.spans)
            except OrcidxError as error:
                if found.stop - found.start <= batch_size:
                    raise
                failed = error
            else:
                yield as_batch(self.columns, found, rest, self.first_row)
                return
        for part in found.parts(batch_size):
            yield from self.of(part)
        if failed is not None:  # no batch failed again, but the error must not be lost
            raise failed


@dataclass
class SpanBehind:
    """Keeps the previous span until the next span was filtered. ``batches``: a function that makes the batches of a
    span. The function reads the other columns, unless threads have already read them."""

    others: OtherColumns
    batches: Callable[[Survivors], Iterator[pa.RecordBatch]]
    waiting: Survivors | None = None

    def after(self, found: Survivors) -> Iterator[pa.RecordBatch]:
        """Yields the batches of the previous span. If the other columns of ``found`` can be read with one read, threads
        start to decode them before the first batch is yielded. Otherwise the batches of ``found`` are also yielded."""
        before: list[pa.RecordBatch] = []
        try:
            before.extend(self.rest())
        except Exception:
            yield from before
            raise
        if found.others is None and found.reach is not None:
            self.others.begin(found)
            self.waiting = found
        yield from before
        if self.waiting is None:
            yield from self.batches(found)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches that were not returned yet."""
        before, self.waiting = self.waiting, None
        if before is not None:
            yield from self.batches(before)

    def before_an_error(self, filtered: Iterator[Survivors]) -> Iterator[Survivors | pa.RecordBatch]:
        """Yields the spans of ``filtered`` unchanged. If filtering a span fails, yields the batches of the previous
        span before the error is raised."""
        try:
            yield from filtered
        except Exception:
            yield from self.rest()
            raise
