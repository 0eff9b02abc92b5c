"""Scans one stripe. The predicate's columns are decoded first. The other columns are decoded only for the rows that
match the predicate.

The scan of a stripe is a generator that never reads bytes itself. It yields record batches and ``Fetch`` requests. The
bytes of a request are sent back to the generator. The loop that runs the generator does the I/O (``fetching``). The
loop reads in the caller's thread, asynchronously, or in advance.

Late materialisation: the predicate's columns are decoded for the row groups that the indexes do not rule out. Then the
predicate is evaluated. The matching rows are called survivors. They are collected until they fill a batch. Then the
other columns are read for the row groups that have survivors. If most row groups have survivors, it saves nothing to
read the other columns later. The scan then reads the bytes of all columns together. If most rows survive, the scan also
decodes all columns at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from orcidx.fetching.byte_budget import ByteBudget, Share
from orcidx.fetching.drive import PENDING, Fetch, Pending
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.reader import OpenStripe
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.planner.data_fetches import DataFetches
from orcidx.predicate.binding import BoundPredicate
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.coded_strings import spelled_out
from orcidx.scanner.column_group import read_groups
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.narrow_decimals import widened
from orcidx.scanner.span_behind import OtherColumns, SpanBehind
from orcidx.scanner.span_plan import FIRST_OF_ALL_ROWS, FIRST_ROWS, SpanPlan
from orcidx.scanner.span_reader import StripeGroups
from orcidx.scanner.stripe_filter import Constants, StripeFilter
from orcidx.scanner.survivors import Survivors, as_batch, groups_of, picked

__all__ = ["Caller", "Step", "scan_stripe"]

DENSE_SHARE = 0.5
"""If at least this share of the row groups has survivors, all columns are read together (decision 0113)."""

SPANS_IN_VAIN = 3
"""After this many spans of a stripe, decoding ahead starts even if no batch was returned yet. The first spans are
short."""

Step = Generator[Fetch | Pending | pa.RecordBatch, Sequence[object] | None, None]


@dataclass(frozen=True)
class Caller:
    """What the caller of ``scan_stripe`` does with the rows.

    ``goes_on``: whether the caller has taken a batch and requested another one. ``count``: a function that receives the
    number of matching rows of each span. If it is given, no batches are made, and the plan must have no output columns.
    ``pauses``: whether ``PENDING`` is yielded after each span, so that the caller can do other work in between.
    ``takes_all``: whether the caller takes all rows, so that the first batch need not be early."""

    goes_on: Callable[[], bool] = bool
    count: Callable[[int], None] | None = None
    pauses: bool = False
    takes_all: bool = False


@dataclass
class StripeReader:
    """The state of the scan of one stripe. The function ``scan_stripe`` runs the scan.

    ``fetches``: fetches the planned bytes. While the caller does not go on, nothing is decoded ahead, except after
    several spans without matching rows.
    """

    stripe: OpenStripe
    columns: ColumnPlan
    rows: StripeRows
    options: ReadOptions
    fetches: DataFetches
    filter: StripeFilter
    spans: SpanPlan
    caller: Caller
    waiting: list[Survivors] = field(default_factory=list)
    dense: bool = False
    together: bool = False
    behind: SpanBehind = field(init=False)

    def __post_init__(self) -> None:
        plan = self.columns
        where = self.filter.where if self.filter.tests else None
        self.groups = groups = StripeGroups(self.stripe, plan, self.rows, self.options, where)
        self.filter.tested = groups.tested
        threads = thread_count(use_threads=True) if self.options.use_threads and groups.both else 1
        self.ahead = self._decoder(threads) if threads > 1 else None
        others = OtherColumns(groups.rest, groups.width, self.ahead, alone=not groups.first.columns)
        self.behind = SpanBehind(others, self._batches)

    def _decoder(self, threads: int) -> DecodeAhead:
        most = self.options.ahead_bytes if self.stripe.needs_no_gil else 0
        ahead = DecodeAhead(self.groups.both, threads=threads, most=most, batch_bytes=self.options.batch_bytes)
        whole = self.rows.may.is_all and (self.rows.must.is_empty or not self.filter.tests)
        ahead.decompress(self.groups.first.cursors if self.filter.tests else self.groups.both, whole=whole)
        return ahead

    # ------------------------------------------------------------------ the run

    def run(self) -> Step:
        try:
            yield from self._run()
        finally:
            if (ahead := self.ahead) is not None:
                ahead.close()
                self.stripe.wasted = ahead.wasted

    def _run(self) -> Step:
        alive = self.rows.alive
        if not self.filter.tests:
            self.dense, self.together = True, self.rows.may.is_all
            yield from self.fetches.fetch(self.groups.first.plan(alive) + self.groups.rest.plan(alive))
        else:
            others = (lambda: self.groups.rest.plan(alive)) if self.groups.rest.columns else None
            yield from self.fetches.fetch_first(self.groups.first.plan(alive), others)
        ahead, behind, count = self.ahead, self.behind, self.caller.count
        while planned := self.spans.plan(self.groups.width.next_rows(), dense=self.dense or count is not None):
            if ahead is not None and ahead.has_room and self._goes_on:
                self._expect(ahead, planned)
            start, stop = self.spans.take()
            filtered = self._filtered(start, stop)
            for found in behind.before_an_error(filtered) if self.dense and self.filter.tests else filtered:
                if isinstance(found, pa.RecordBatch):
                    yield found
                    continue
                if count is not None:
                    count(found.rows)
                    continue
                if self.dense:
                    waits = self.filter.tests and self._goes_on
                    yield from behind.after(found) if waits else self._batches(found)
                    continue
                self.waiting.append(found)
                if self._is_dense(stop):
                    yield from self._turn_dense()
                elif self._waited_enough():
                    yield from self._turn_dense() if self.fetches.requests == 1 else self._flush(most=1)
            if self.caller.pauses:
                yield PENDING
        if behind.waiting is not None:
            yield from behind.rest()
        yield from self._flush()

    def _expect(self, ahead: DecodeAhead, planned: Sequence[tuple[int, int]]) -> None:
        """Announces the columns that will be read next. If all columns are decoded at the same time, these are all
        columns. Otherwise they are the predicate's columns."""
        groups = [self.groups.first] if self.filter.tests or self.groups.first.columns else [self.groups.rest]
        columns = groups[0].cursors
        if self.filter.tests and self._is_joint:
            groups, columns = [self.groups.first, self.groups.rest], self.groups.both
        if groups[0] is self.groups.first:
            planned = [span for span in planned if self.filter.reads(*span)]
        sizes = [size for size in map(self.groups.width.row_bytes, groups) if size is not None]
        if planned and len(sizes) == len(groups):
            ahead.expect(columns, planned, sum(sizes))

    @property
    def _goes_on(self) -> bool:
        return self.caller.goes_on() or self.spans.taken >= SPANS_IN_VAIN

    @property
    def _is_joint(self) -> bool:
        return self.together and bool(self.groups.rest.columns)

    def _filtered(self, start: int, stop: int) -> Iterator[Survivors]:
        """The matching rows of a span (a range of consecutive rows). If the span has too many bytes for one batch, each
        half is filtered separately."""
        try:
            found = self._filter(start, stop)
        except BatchTooLarge:
            self._was_too_large()
            middle = (start + stop) // 2
            yield from self._filtered(start, middle)
            yield from self._filtered(middle, stop)
            return
        if found is not None:
            yield found

    def _was_too_large(self) -> None:
        self.groups.width.was_too_large()
        self.spans.drop()

    def _filter(self, start: int, stop: int) -> Survivors | None:
        """Decodes the predicate's columns over a span and finds the matching rows."""
        if not (self.filter.reads_all or self.filter.reads(start, stop)):
            mask, count = self.filter.wanted(start, stop)
            return Survivors(start, stop, None if mask is None else KeptRows(mask, count), [], count)
        found, others = self._read_first(start, stop - start)
        mask = self.filter.mask(found, start, stop)
        kept = None if mask is None else KeptRows(mask)
        count = stop - start if kept is None else kept.count
        self.together = self.dense and kept is None
        if count == 0 or self.caller.count is not None:
            return Survivors(start, stop, None, [], count) if count else None
        arrays = [array if wanted else None for array, wanted in zip(found, self.columns.returned, strict=True)]
        if kept is not None:
            arrays = picked(arrays, kept, owned=True)
            others = None if others is None else picked(others, kept, owned=True)
        if self.groups.coded:
            arrays = spelled_out(arrays, self.columns.predicate, self.groups.coded, self.options.batch_bytes)
        if self.groups.narrow:
            arrays = widened(arrays, self.columns.predicate, self.groups.narrow)
        return Survivors(start, stop, kept, arrays, count, others)

    def _read_first(self, start: int, rows: int) -> tuple[list[pa.Array], list[pa.Array] | None]:
        """Decodes the predicate's columns. Also decodes the other columns, if most rows of this span are likely to
        match. This is estimated from the share of matching rows in the previous span."""
        self.groups.first.seek(start)
        if not self.together or not self._is_joint:
            arrays = self.groups.first.read(rows, self.ahead)
            self.groups.width.saw(self.groups.first, arrays, rows)
            return arrays, None
        self.groups.rest.seek(start)
        joint = self.groups.both if self.filter.tests else None
        arrays, others = read_groups([self.groups.first, self.groups.rest], rows, self.ahead, joint=joint)
        self.groups.width.saw(self.groups.first, arrays, rows)
        self.groups.width.saw(self.groups.rest, others, rows)
        return arrays, others

    # ------------------------------------------------------------------ policy

    def _is_dense(self, examined: int) -> bool:
        """Whether most of the examined row groups have matching rows. In that case it saves nothing to read the other
        columns later."""
        if not self.columns.rest:
            return False
        bounds = self.rows.bounds
        looked = self.rows.alive & (bounds[:-1] < examined)
        most = max(2.0, DENSE_SHARE * int(looked.sum()))
        return len(groups_of(self.waiting, bounds)) >= most

    def _waited_enough(self) -> bool:
        rows = size = 0
        for found in self.waiting:
            rows += found.rows
            for array in found.arrays:
                size += 0 if array is None else array.nbytes
        return rows >= self.options.batch_size or size >= self.options.batch_bytes // 2

    def _turn_dense(self) -> Step:
        """Plans to read the other columns of all remaining row groups, from the first waiting row on. Yields the
        batches of the waiting rows. After this call, the scan reads all columns together."""
        self.dense = True
        first = self.waiting[0].start
        groups = self.rows.alive & (self.rows.bounds[1:] > first)
        yield from self.fetches.fetch(self.groups.rest.plan(groups))
        for found in self.waiting:
            yield from self._batches(found)
        self.waiting.clear()

    def _flush(self, *, most: int | None = None) -> Step:
        """Reads the other columns for the matching rows that wait to be returned."""
        if not self.waiting:
            return
        if self.groups.rest.columns:
            groups = np.zeros(len(self.rows.bounds) - 1, bool)
            groups[groups_of(self.waiting, self.rows.bounds)] = True
            yield from self.fetches.fetch(self.groups.rest.plan(groups), most=most)
        for found in self.waiting:
            yield from self._batches(found)
        self.waiting.clear()

    # ------------------------------------------------------------------ batches

    def _batches(self, found: Survivors) -> Iterator[pa.RecordBatch]:
        """Yields the matching rows as one batch. If the other columns have too many bytes for one batch, yields several
        batches."""
        if found.others is not None:
            yield as_batch(self.columns, found, found.others, self.rows.first_row)
            return
        if self.groups.width.fits(self.groups.rest, found.rows):
            try:
                rest = self.behind.others.read(found)
            except BatchTooLarge:
                self._was_too_large()
            else:
                yield as_batch(self.columns, found, rest, self.rows.first_row)
                return
        for half in found.halves():
            yield from self._batches(half)


def scan_stripe(
    stripe: OpenStripe,
    columns: ColumnPlan,
    rows: StripeRows,
    options: ReadOptions,
    *,
    where: BoundPredicate | None,
    constants: Constants = (),
    requests: int | None = None,
    share: Share | None = None,
    caller: Caller,
) -> Step:
    """Yields the batches of one stripe, as the docstring of the module describes. A batch has at most
    ``options.batch_size`` rows.

    ``requests``: how many requests the data of the stripe may take on remote storage. ``share``: the part of the scan's
    memory that the stripe may use.
    """
    if not rows.may.is_empty:
        share = share or ByteBudget(options.io_bytes).enter()
        fetches = DataFetches(stripe, options, requests, share)
        tests = StripeFilter(columns, where, rows, constants)
        most = options.batch_size
        if tests.tests:
            most = FIRST_OF_ALL_ROWS if caller.takes_all and None not in columns.widths else FIRST_ROWS
        spans = SpanPlan(rows, RowSelection.from_groups(rows.alive, rows.bounds), most=most)
        yield from StripeReader(stripe, columns, rows, options, fetches, tests, spans, caller).run()
