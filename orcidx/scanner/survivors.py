"""``Survivors``: the matching rows of a span with their arrays. A span is a range of consecutive rows. ``WaitingRows``
has the survivors of several spans. This module also makes a batch from these rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.scanner.batches import without_fields
from orcidx.scanner.kept_arrays import KeptRows, kept_array, taken_array

__all__ = ["Survivors", "WaitingRows", "as_batch", "picked"]

Bools = npt.NDArray[np.bool_]

DENSE_SHARE = 0.5
"""If at least this share of the row groups has survivors, all columns are read together (decision 0113)."""

ROWS_PER_TAKEN = 16
"""Rows are taken by number if fewer than one in ``ROWS_PER_TAKEN`` rows is kept. Taking by number does not read the
other rows."""

LONG_RUNS = 16
"""If the runs of kept rows have at least this many rows on average, pyarrow's filter is faster than taking rows by
number. Both were measured with 262,144 rows of int64, of which 2, 14, 50 or 98 % were kept at random. The filter took
0.4, 2.1, 9.6 and 1.1 ns per row, and ``take`` took 0.1, 0.6, 1.3 and 2.2 ns per row. Finding the row numbers took
another 1.1 to 1.4 ns per row, once for all columns (decision 0148)."""


@dataclass
class Survivors:
    """The matching rows of one span. ``kept``: the rows that matched, or None if all rows of the span matched.
    ``arrays``: the filtered arrays of the predicate's columns, or None for a column that is in no output. ``others``:
    the arrays of the other columns, if they were decoded at the same time."""

    start: int
    stop: int
    kept: KeptRows | None
    arrays: list[pa.Array | None]
    rows: int
    others: list[pa.Array] | None = None

    @cached_property
    def reach(self) -> tuple[int, KeptRows] | None:
        """The first kept row, and the ``KeptRows`` of the range from the first to the last kept row. The result is None
        if all rows are kept, and also if the other columns are read separately for each run of kept rows."""
        if self.kept is None:
            return None
        first, last = self.kept.reach
        if len(self.kept.runs()) == 1 or (not self.kept.are_scattered and self.kept.count * 2 < last - first):
            return None
        return self.start + first, self.kept.narrowed()

    def within(self, groups: Bools, bounds: npt.NDArray[np.int64]) -> Sequence[Survivors]:
        """The parts of the span that are in some row groups. All kept rows must be in these row groups. The row groups
        of a part are adjacent, so the read of a part does not reach over other row groups. A span that is read
        separately for each run of kept rows is not divided. ``groups``: for each row group of the stripe, whether it is
        one of them. ``bounds``: the numbers of the first rows of all row groups, followed by the number of rows of the
        stripe."""
        first, last = bounds.searchsorted((self.start, self.stop - 1), "right").tolist()
        chosen = groups[first - 1 : last]
        if self.kept is None or self.reach is None or chosen.all():
            return (self,)
        found: list[Survivors] = []
        before = 0
        edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2) + (first - 1)
        for begin, end in bounds[edges].tolist():
            start, stop = max(begin, self.start), min(end, self.stop)
            mask = self.kept.mask[start - self.start : stop - self.start]
            count = int(np.count_nonzero(mask))
            if count:
                kept = None if count == len(mask) else KeptRows(mask)
                arrays = [None if array is None else array.slice(before, count) for array in self.arrays]
                found.append(Survivors(start, stop, kept, arrays, count))
                before += count
        return found

    def parts(self, rows: int) -> Iterator[Survivors]:
        """Parts of the span, which are read separately. If all rows match, and the span has more than ``rows`` rows,
        each part has at most ``rows`` rows. Otherwise the parts are halves. A half without rows is left out."""
        if self.kept is None and self.stop - self.start > rows:
            for start in range(self.start, self.stop, rows):
                stop = min(start + rows, self.stop)
                arrays = [None if one is None else one.slice(start - self.start, stop - start) for one in self.arrays]
                yield Survivors(start, stop, None, arrays, stop - start)
            return
        middle = (self.stop - self.start) // 2
        mask = None if self.kept is None else self.kept.mask
        before = middle if mask is None else int(np.count_nonzero(mask[:middle]))
        first = None if mask is None else KeptRows(mask[:middle])
        second = None if mask is None else KeptRows(mask[middle:])
        if before:
            arrays = [None if array is None else array.slice(0, before) for array in self.arrays]
            yield Survivors(self.start, self.start + middle, first, arrays, before)
        if self.rows > before:
            arrays = [None if array is None else array.slice(before) for array in self.arrays]
            yield Survivors(self.start + middle, self.stop, second, arrays, self.rows - before)


def picked(arrays: Sequence[pa.Array | None], kept: KeptRows, *, owned: bool = False) -> list[pa.Array | None]:
    """Returns the kept rows of each array. If an array is None, its result is None. ``owned``: whether values may be
    moved within the arrays. This is allowed only if the buffers of the arrays are not used afterwards."""
    few = kept.count * ROWS_PER_TAKEN < len(kept)
    by_pyarrow: Callable[[pa.Array], pa.Array] | None = None
    found: list[pa.Array | None] = []
    for array in arrays:
        if array is None:
            found.append(None)
            continue
        one = taken_array(array, kept.numbers) if few else kept_array(array, kept.checked, owned=owned)
        if one is None:
            by_pyarrow = by_pyarrow or _by_pyarrow(kept)
            one = by_pyarrow(array)
        found.append(one)
    return found


def _by_pyarrow(kept: KeptRows) -> Callable[[pa.Array], pa.Array]:
    """Returns a function that filters an array with pyarrow. It is used if few rows of an array are kept, and for types
    that the compiled code does not support."""
    rows, mask = kept.numbers, kept.mask
    if LONG_RUNS * (1 + int(np.count_nonzero(np.diff(rows) > 1))) > kept.count:
        chosen = pa.array(rows)
        return lambda array: array.filter(_as_arrow(mask)) if pa.types.is_nested(array.type) else array.take(chosen)
    whole = _as_arrow(mask)
    return lambda array: array.filter(whole)


def _as_arrow(mask: Bools) -> pa.BooleanArray:
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))  # takes a twentieth of the time of pa.array(mask)
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits], 0)


@dataclass(frozen=True)
class WaitingRows:
    """The survivors of the spans that wait to be returned. They wait until they fill a batch. Then the other columns
    are read for the row groups that have survivors."""

    rows: StripeRows
    options: ReadOptions
    spans: list[Survivors] = field(default_factory=list)

    def are_enough(self) -> bool:
        """Whether the rows fill a batch."""
        rows = size = 0
        for found in self.spans:
            rows += found.rows
            for array in found.arrays:
                size += 0 if array is None else array.nbytes
        return rows >= self.options.batch_size or size >= self.options.batch_bytes // 2

    def are_dense(self, examined: int) -> bool:
        """Whether most of the row groups before the row ``examined`` have survivors. In that case it saves nothing to
        read the other columns later."""
        looked = self.rows.alive & (self.rows.bounds[:-1] < examined)
        most = max(2.0, DENSE_SHARE * int(looked.sum()))
        return int(self.groups().sum()) >= most

    def groups(self) -> Bools:
        """For each row group, whether it has survivors that wait to be returned."""
        bounds = self.rows.bounds
        touched = np.zeros(len(bounds) - 1, np.bool_)
        for found in self.spans:
            first, last = (np.searchsorted(bounds, (found.start, found.stop - 1), "right") - 1).tolist()
            if found.kept is None:
                touched[first : last + 1] = True
            else:
                starts = np.maximum(bounds[first : last + 1], found.start) - found.start
                touched[first : last + 1] |= np.logical_or.reduceat(found.kept.mask, starts)
        return touched

    def groups_left(self) -> Bools:
        """For each row group, whether it may have matching rows and ends after the start of the first waiting span."""
        return self.rows.alive & (self.rows.bounds[1:] > self.spans[0].start)


def as_batch(plan: ColumnPlan, found: Survivors, others: list[pa.Array], first_row: int) -> pa.RecordBatch:
    """The matching rows as a batch. ``first_row``: the number of the stripe's first row in the file."""
    rest = iter(others)
    arrays = [found.arrays[shared] if shared is not None else next(rest) for shared in plan.shared]
    if plan.row_number is not None:
        arrays.insert(plan.row_number, _row_numbers(found, first_row))
    if not arrays:
        return without_fields(found.rows)
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _row_numbers(found: Survivors, first_row: int) -> pa.Array:
    start = first_row + found.start
    if found.kept is None:
        return pa.array(np.arange(start, start + found.rows, dtype=np.int64))
    return pa.array(start + found.kept.numbers.astype(np.int64))
