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
from dataclasses import dataclass

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.fetching.byte_budget import ByteBudget, Share
from orcidx.fetching.drive import PENDING, Fetch, Pending
from orcidx.options import ReadOptions
from orcidx.orc.reader import OpenStripe
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.planner.data_fetches import DataFetches
from orcidx.predicate.binding import BoundPredicate
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.decode_pool import thread_count
from orcidx.scanner.span_behind import OtherColumns, SpanBatches, SpanBehind
from orcidx.scanner.span_plan import FIRST_OF_ALL_ROWS, FIRST_ROWS, GROWTH_FACTOR, GROWTH_OF_BATCHES, SpanPlan
from orcidx.scanner.span_reader import SpanReader, StripeGroups
from orcidx.scanner.stripe_filter import Constants, StripeFilter
from orcidx.scanner.survivors import Survivors, WaitingRows

__all__ = ["Caller", "Step", "scan_stripe"]

SPANS_IN_VAIN = 3
"""After this many spans of a stripe, decoding ahead starts even if no batch was returned yet. The first spans are
short, so this delay is short, too."""

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
    """The scan of one stripe. The function ``scan_stripe`` runs it.

    ``spans``: the next rows to read. ``reads``: finds the matching rows of a span. ``waiting``: the matching rows for
    which the other columns are read later. ``behind``: the matching rows whose other columns are decoded while the next
    span is read. While the caller does not go on, nothing is decoded ahead, except after several spans without matching
    rows.
    """

    rows: StripeRows
    fetches: DataFetches
    caller: Caller
    groups: StripeGroups
    spans: SpanPlan
    reads: SpanReader
    waiting: WaitingRows
    behind: SpanBehind

    def run(self) -> Step:
        reads, behind, waiting, count = self.reads, self.behind, self.waiting, self.caller.count
        first, rest, alive = self.groups.first, self.groups.rest, self.rows.alive
        ahead, tests = reads.ahead, reads.filter.tests
        if not tests:
            reads.dense, reads.together = True, self.rows.may.is_all
            yield from self.fetches.fetch(first.plan(alive) + rest.plan(alive))
        else:
            others = (lambda: rest.plan(alive)) if rest.columns else None
            yield from self.fetches.fetch_first(first.plan(alive), others)
        while planned := self.spans.plan(
            self.groups.width.next_rows(), dense=tests and (reads.dense or count is not None)
        ):
            if ahead is not None and ahead.has_room and self._goes_on:
                reads.expect(ahead, planned)
            start, stop = self.spans.take()
            filtered: Iterator[Survivors | pa.RecordBatch] = reads.matching(start, stop)
            if reads.dense and tests:
                filtered = behind.before_an_error(filtered)
            while True:
                try:
                    found = next(filtered, None)
                except OrcidxError:
                    yield from self._flush()  # the rows before the error
                    raise
                if found is None:
                    break
                if isinstance(found, pa.RecordBatch):
                    yield found
                    continue
                if count is not None:
                    count(found.rows)
                    continue
                if reads.dense:
                    yield from behind.after(found) if tests and self._goes_on else behind.batches(found)
                    continue
                waiting.spans.append(found)
                if rest.columns and waiting.are_dense(stop):
                    yield from self._turn_dense()
                elif waiting.are_enough():
                    yield from self._turn_dense() if self.fetches.requests == 1 else self._flush(most=1)
            if self.caller.pauses:
                yield PENDING
        if behind.waiting is not None:
            yield from behind.rest()
        yield from self._flush()

    @property
    def _goes_on(self) -> bool:
        return self.caller.goes_on() or self.spans.taken >= SPANS_IN_VAIN

    def _turn_dense(self) -> Step:
        """Plans to read the other columns of all remaining row groups, from the first waiting row on. Yields the
        batches of the waiting rows. After this call, the scan reads all columns together."""
        self.reads.dense = True
        yield from self.fetches.fetch(self.groups.rest.plan(self.waiting.groups_left()))
        for found in self.waiting.spans:
            yield from self.behind.batches(found)
        self.waiting.spans.clear()

    def _flush(self, *, most: int | None = None) -> Step:
        """Reads the other columns for the matching rows that wait to be returned."""
        if not self.waiting.spans:
            return
        groups = None
        if self.groups.rest.columns:
            groups = self.waiting.groups()
            yield from self.fetches.fetch(self.groups.rest.plan(groups), most=most)
        for found in self.waiting.spans:
            # A read must not reach over other row groups: it would fetch and decode them.
            for part in (found,) if groups is None else found.within(groups, self.rows.bounds):
                yield from self.behind.batches(part)
        self.waiting.spans.clear()


def _decoder(groups: StripeGroups, tests: StripeFilter, options: ReadOptions, threads: int) -> DecodeAhead | None:
    stripe, rows = groups.first.stripe, tests.rows
    most = options.ahead_bytes if stripe.needs_no_gil else 0
    ahead = DecodeAhead(groups.both, threads=threads, most=most, batch_bytes=options.batch_bytes)
    whole = rows.may.is_all and (rows.must.is_empty or not tests.tests)
    ahead.decompress(groups.first.cursors if tests.tests else groups.both, whole=whole)
    return ahead


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
    if where is not None and rows.are_proved:
        where, columns = None, columns.without_predicate
    if rows.may.is_empty:
        return
    tests = StripeFilter(columns, where, rows, constants)
    groups = StripeGroups(stripe, columns, rows, options, where if tests.tests else None)
    groups.width.first_rows = first_rows = FIRST_OF_ALL_ROWS if caller.takes_all else FIRST_ROWS
    tests.tested = groups.tested
    ahead = None
    if options.use_threads and groups.both and (threads := thread_count(use_threads=True)) > 1:
        ahead = _decoder(groups, tests, options, threads)
    most, growth = options.batch_size, GROWTH_OF_BATCHES
    if tests.tests:
        most, growth = first_rows, GROWTH_FACTOR
    alive = RowSelection.from_groups(rows.alive, rows.bounds)
    spans = SpanPlan(rows, alive, most=most, batch_size=options.batch_size, growth=growth)
    others = OtherColumns(groups.rest, groups.width, ahead, alone=not groups.first.columns)
    reader = StripeReader(
        rows,
        DataFetches(stripe, options, requests, share or ByteBudget(options.io_bytes).enter()),
        caller,
        groups,
        spans,
        SpanReader(columns, tests, groups, spans, ahead, options.batch_bytes, counts=caller.count is not None),
        WaitingRows(rows, options),
        SpanBehind(others, SpanBatches(columns, rows.first_row, others, spans).of),
    )
    try:
        yield from reader.run()
    finally:
        if ahead is not None:
            ahead.close()
            stripe.wasted = ahead.wasted
