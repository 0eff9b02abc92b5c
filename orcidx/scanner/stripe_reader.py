"""Scanning one stripe: predicate columns first, the others only where rows survive.

A stripe's scan is a generator that never reads by itself: it yields ``Fetch`` requests and gets their bytes sent back,
and it yields record batches. Loops around it do the I/O: in the caller's thread, awaited, or ahead (``io_loop``).

Late materialisation. The predicate's columns are decoded for the row groups that the indexes left alive, and filtered.
What survives waits until there is a batch's worth; then the other columns are planned for the row groups that hold
survivors, and read. When most row groups survive, holding back only costs: the scan turns to reading all columns
side by side, and where most rows do, to decoding them at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.fetching.byte_budget import ByteBudget, Share
from orcidx.fetching.drive import Fetch, Pending
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.reader import OpenStripe
from orcidx.orc.types import OrcType
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.planner.data_fetches import DataFetches
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.column_group import ColumnGroup, read_groups
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.row_width import RowWidth
from orcidx.scanner.span_plan import FIRST_ROWS, SpanPlan

__all__ = ["Step", "read_stripe"]

Bools = npt.NDArray[np.bool_]

DENSE = 0.5
"""From this share of row groups with survivors on, columns are read side by side (decision 0108: for threads)."""

SPARSE_RUNS = 8
"""Up to so many runs of survivors in a span the other columns skip and read; beyond, they read all and filter.
From 1 to 32 take equally long; 128 take twice as long where survivors are spread (decision 0108)."""

Constants = Sequence[tuple[str, pa.Scalar]]
Step = Generator[Fetch | Pending | pa.RecordBatch, Sequence[object] | None, None]


@dataclass
class _Survivors:
    """Rows of one span that matched, with the filtered arrays of the predicate's columns, and of the ``others`` where
    they were decoded at the same time."""

    start: int
    stop: int
    mask: Bools | None
    arrays: list[pa.Array]
    rows: int
    others: list[pa.Array] | None = None

    def halves(self) -> Iterator[_Survivors]:
        """The two halves of the span that have rows."""
        middle = (self.stop - self.start) // 2
        before = middle if self.mask is None else int(np.count_nonzero(self.mask[:middle]))
        masks = (None, None) if self.mask is None else (self.mask[:middle], self.mask[middle:])
        if before:
            arrays = [array.slice(0, before) for array in self.arrays]
            yield _Survivors(self.start, self.start + middle, masks[0], arrays, before)
        if self.rows > before:
            arrays = [array.slice(before) for array in self.arrays]
            yield _Survivors(self.start + middle, self.stop, masks[1], arrays, self.rows - before)


@dataclass
class StripeReader:
    """The state of one stripe's scan; ``read_stripe`` runs it.

    ``fetches``: brings what was planned. ``constants``: (name, value) of what the predicate asks that is no column of
    the file. ``goes_on``: whether who reads has taken a batch and asked for another one; nothing is decoded ahead
    before.
    """

    stripe: OpenStripe
    columns: ColumnPlan
    rows: StripeRows
    options: ReadOptions
    fetches: DataFetches
    constants: Constants = ()
    goes_on: Callable[[], bool] = bool
    width: RowWidth = field(init=False)
    waiting: list[_Survivors] = field(default_factory=list)
    dense: bool = False
    together: bool = False
    spans: SpanPlan = field(init=False)
    ahead: DecodeAhead | None = field(init=False)

    def __post_init__(self) -> None:
        plan = self.columns
        self.width = RowWidth(self.options)
        self.first = self._group(plan.predicate, plan.predicate_options, plan.exact_times)
        rest = plan.rest
        self.rest = self._group(
            [plan.output[index] for index in rest], [plan.output_options[index] for index in rest], [False] * len(rest)
        )
        self.width.learn([group for group in (self.first, self.rest) if group.columns])
        self.alive = self.rows.may.any_in(self.rows.bounds)
        most = FIRST_ROWS if self._filtering() else self.options.batch_size
        self.spans = SpanPlan(self.rows, RowSelection.from_groups(self.alive, self.rows.bounds), most=most)
        self.ahead = self._decode_ahead()

    def _filtering(self) -> bool:
        return self.columns.where is not None and not self.rows.may.issubset(self.rows.must)

    def _decode_ahead(self) -> DecodeAhead | None:
        """What reads columns in threads, where the stripe has so many rows that they have cursors."""
        threads, cursors = thread_count(use_threads=self.options.use_threads), self.first.cursors + self.rest.cursors
        if threads < 2 or not cursors:
            return None
        most = self.options.ahead_bytes if self.stripe.needs_no_gil else 0
        ahead = DecodeAhead(cursors, threads=threads, most=most, batch_bytes=self.options.batch_bytes)
        whole = self.rows.may.is_all and (self.rows.must.is_empty or not self._filtering())
        ahead.decompress(self.first.cursors if self._filtering() else cursors, whole=whole)
        return ahead

    def _group(self, columns: Sequence[OrcType], options: Sequence[ReadOptions], exact: Sequence[bool]) -> ColumnGroup:
        threads, bounds = self.options.use_threads, self.rows.bounds
        return ColumnGroup(self.stripe, columns, options, exact_times=exact, bounds=bounds, use_threads=threads)

    # ------------------------------------------------------------------ the run

    def run(self) -> Step:
        try:
            yield from self._run(filtering=self._filtering())
        finally:
            if self.ahead is not None:
                self.ahead.close()
                self.stripe.wasted = self.ahead.wasted

    def _run(self, *, filtering: bool) -> Step:
        if not filtering:
            self.dense, self.together = True, self.rows.may.is_all
            yield from self.fetches.fetch(self.first.plan(self.alive) + self.rest.plan(self.alive))
        else:
            others = (lambda: self.rest.plan(self.alive)) if self.rest.columns else None
            yield from self.fetches.fetch_first(self.first.plan(self.alive), others)
        while planned := self.spans.plan(self.width.next_rows(), dense=self.dense):
            if self.ahead is not None and self.ahead.has_room and self.goes_on():
                self._expect(self.ahead, planned, filtering=filtering)
            start, stop = self.spans.take()
            for found in self._filtered(start, stop, filtering=filtering):
                if self.dense:
                    yield from self._batches(found)
                    continue
                self.waiting.append(found)
                if self._is_dense(stop):
                    yield from self._turn_dense()
                elif self._waited_enough():
                    yield from self._turn_dense() if self.fetches.requests == 1 else self._flush(most=1)
        yield from self._flush()

    def _expect(self, ahead: DecodeAhead, planned: Sequence[tuple[int, int]], *, filtering: bool) -> None:
        """Says what will be read next of the predicate's columns, or of all where nothing is filtered."""
        group = self.first if filtering or self.first.columns else self.rest
        if group is self.first:
            planned = [span for span in planned if self._reads_first(*span, filtering=filtering)]
        row_bytes = self.width.row_bytes(group)
        if planned and row_bytes is not None:
            ahead.expect(group.cursors, planned, row_bytes)

    def _reads_first(self, start: int, stop: int, *, filtering: bool) -> bool:
        """Whether a span takes the predicate's columns."""
        needs_test = filtering and not self._is_proved(start, stop)
        return bool(self.first.columns) and (needs_test or not self._first_is_hidden())

    def _filtered(self, start: int, stop: int, *, filtering: bool) -> Iterator[_Survivors]:
        """The survivors of a span; of its halves where its bytes are too many for one batch."""
        try:
            found = self._filter(start, stop, filtering=filtering)
        except BatchTooLarge:
            self._was_too_large()
            middle = (start + stop) // 2
            yield from self._filtered(start, middle, filtering=filtering)
            yield from self._filtered(middle, stop, filtering=filtering)
            return
        if found is not None:
            yield found

    def _was_too_large(self) -> None:
        self.width.was_too_large()
        self.spans.drop()

    def _filter(self, start: int, stop: int, *, filtering: bool) -> _Survivors | None:
        """Decodes the predicate's columns over a span and says which rows survive."""
        mask, count = self._wanted(start, stop)
        where = self.columns.where
        needs_test = filtering and not self._is_proved(start, stop)
        if not self._reads_first(start, stop, filtering=filtering):
            return _Survivors(start, stop, mask, [], count)
        arrays, others = self._read_first(start, stop - start)
        if needs_test:
            assert where is not None
            matches = self._matches(arrays, stop - start)
            if not self.rows.must.is_empty:
                matches |= self.rows.must.slice(start, stop).mask()
            mask = matches if mask is None else mask & matches
            if mask.all():
                mask = None
        count = stop - start if mask is None else int(np.count_nonzero(mask))
        self.together = self.dense and count * 2 >= stop - start
        if count == 0:
            return None
        if mask is not None:
            arrow_mask = pa.array(mask)
            arrays = [array.filter(arrow_mask) for array in arrays]
            others = None if others is None else [array.filter(arrow_mask) for array in others]
        return _Survivors(start, stop, mask, arrays, count, others)

    def _read_first(self, start: int, rows: int) -> tuple[list[pa.Array], list[pa.Array] | None]:
        """The predicate's columns, and the others where the span before makes it likely that their rows survive."""
        self.first.seek(start)
        if not (self.together and self.rest.columns):
            arrays = self.first.read(rows, self.ahead)
            self.width.saw(self.first, arrays, rows)
            return arrays, None
        self.rest.seek(start)
        arrays, others = read_groups([self.first, self.rest], rows, self.ahead)
        self.width.saw(self.first, arrays, rows)
        self.width.saw(self.rest, others, rows)
        return arrays, others

    def _wanted(self, start: int, stop: int) -> tuple[Bools | None, int]:
        """Which rows of a span may match (None: all) and how many."""
        if self.rows.may.is_all:
            return None, stop - start
        wanted = self.rows.may.slice(start, stop)
        return (None if wanted.is_all else wanted.mask()), wanted.count

    def _is_proved(self, start: int, stop: int) -> bool:
        must = self.rows.must
        return not must.is_empty and (must.is_all or must.slice(start, stop).is_all)

    def _first_is_hidden(self) -> bool:
        """Whether no output comes from the predicate's columns, so that proved rows need not decode them."""
        return all(shared is None for shared in self.columns.shared)

    def _matches(self, arrays: Sequence[pa.Array], rows: int) -> Bools:
        where = self.columns.where
        assert where is not None
        plan = self.columns
        constants = [pa.repeat(value, rows) for _, value in self.constants]
        names = [*plan.predicate_names, *(name for name, _ in self.constants)]
        return where.evaluate(pa.RecordBatch.from_arrays([*arrays, *constants], names=names))

    # ------------------------------------------------------------------ policy

    def _is_dense(self, examined: int) -> bool:
        """Whether so many of the row groups examined so far have survivors that waiting does not pay."""
        bounds = self.rows.bounds
        looked = self.alive & (bounds[:-1] < examined)
        most = max(2.0, DENSE * int(looked.sum()))
        return bool(self.columns.rest and len(_surviving(self.waiting, self.rows.bounds)) >= most)

    def _waited_enough(self) -> bool:
        if sum(found.rows for found in self.waiting) >= self.options.batch_size:
            return True
        held = sum(array.nbytes for found in self.waiting for array in found.arrays)
        return bool(held >= self.options.batch_bytes // 2)

    def _turn_dense(self) -> Step:
        """Plans the other columns for all living row groups from the first waiting row on, and reads on."""
        self.dense = True
        first = self.waiting[0].start
        groups = self.alive & (self.rows.bounds[1:] > first)
        yield from self.fetches.fetch(self.rest.plan(groups))
        for found in self.waiting:
            yield from self._batches(found)
        self.waiting.clear()

    def _flush(self, *, most: int | None = None) -> Step:
        """Reads the other columns for the waiting survivors."""
        if not self.waiting:
            return
        if self.rest.columns:
            groups = np.zeros(len(self.rows.bounds) - 1, bool)
            groups[_surviving(self.waiting, self.rows.bounds)] = True
            yield from self.fetches.fetch(self.rest.plan(groups), most=most)
        for found in self.waiting:
            yield from self._batches(found)
        self.waiting.clear()

    # ------------------------------------------------------------------ batches

    def _batches(self, found: _Survivors) -> Iterator[pa.RecordBatch]:
        """A batch of the survivors; several where the other columns' bytes are too many for one."""
        if found.others is not None:
            yield _batch(self.columns, found, found.others, self.rows.first_row)
            return
        if self.width.fits(self.rest, found.rows):
            try:
                rest = self._read_rest(found)
            except BatchTooLarge:
                self._was_too_large()
            else:
                yield _batch(self.columns, found, rest, self.rows.first_row)
                return
        for half in found.halves():
            yield from self._batches(half)

    def _read_rest(self, found: _Survivors) -> list[pa.Array]:
        if not self.rest.columns:
            return []
        if found.mask is None:
            self.rest.seek(found.start)
            arrays = self.rest.read(found.stop - found.start, self.ahead)
            self.width.saw(self.rest, arrays, found.stop - found.start)
            return arrays
        runs = RowSelection.from_mask(found.mask).runs()
        if len(runs) <= SPARSE_RUNS:
            return self._read_runs(found.start, runs)
        first, last = int(runs[0, 0]), int(runs[-1, 1])
        self.rest.seek(found.start + first)
        arrays = self.rest.read(last - first, self.ahead)
        self.width.saw(self.rest, arrays, last - first)
        mask = pa.array(found.mask[first:last])
        return [array.filter(mask) for array in arrays]

    def _read_runs(self, start: int, runs: npt.NDArray[np.int64]) -> list[pa.Array]:
        pieces: list[list[pa.Array]] = []
        for first, last in runs.tolist():
            self.rest.seek(start + first)
            pieces.append(self.rest.read(last - first, self.ahead))
        if len(pieces) == 1:
            return pieces[0]
        return [pa.concat_arrays(list(column)) for column in zip(*pieces)]


def _surviving(waiting: Sequence[_Survivors], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Numbers of the row groups that hold waiting survivors."""
    touched = np.zeros(len(bounds) - 1, np.bool_)
    for found in waiting:
        first, last = (np.searchsorted(bounds, (found.start, found.stop - 1), "right") - 1).tolist()
        if found.mask is None:
            touched[first : last + 1] = True
        else:
            starts = np.maximum(bounds[first : last + 1], found.start) - found.start
            touched[first : last + 1] |= np.logical_or.reduceat(found.mask, starts)
    return np.flatnonzero(touched)


def _batch(plan: ColumnPlan, found: _Survivors, others: list[pa.Array], first_row: int) -> pa.RecordBatch:
    """The survivors as a batch. ``first_row``: of the stripe, in the file."""
    rest = iter(others)
    arrays = [found.arrays[shared] if shared is not None else next(rest) for shared in plan.shared]
    if plan.row_number is not None:
        arrays.insert(plan.row_number, _row_numbers(found, first_row))
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * found.rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _row_numbers(found: _Survivors, first_row: int) -> pa.Array:
    start = first_row + found.start
    if found.mask is None:
        return pa.array(np.arange(start, start + found.rows, dtype=np.int64))
    return pa.array(start + np.flatnonzero(found.mask).astype(np.int64))


def read_stripe(
    stripe: OpenStripe,
    columns: ColumnPlan,
    rows: StripeRows,
    options: ReadOptions,
    *,
    constants: Constants = (),
    requests: int | None = None,
    share: Share | None = None,
    goes_on: Callable[[], bool] = bool,
) -> Step:
    """The batches of one stripe; see the module's text. Batches are no larger than ``options.batch_size`` rows.

    ``requests``: those that its data may take of remote storage; ``share``: of the bytes that the scan may hold."""
    if not rows.may.is_empty:
        share = share or ByteBudget(options.io_bytes).enter()
        fetches = DataFetches(stripe, options, requests, share)
        yield from StripeReader(stripe, columns, rows, options, fetches, constants, goes_on).run()
