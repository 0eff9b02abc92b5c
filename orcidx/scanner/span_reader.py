"""Reads one span of a stripe. A span is a range of consecutive rows.

``StripeGroups`` has the columns of the stripe, divided into the predicate's columns and the other columns. A
``SpanReader`` decodes the predicate's columns over a span and finds the matching rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.reader import OpenStripe
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.predicate.binding import BoundPredicate
from orcidx.scanner.coded_strings import coded_columns, spelled_out
from orcidx.scanner.column_group import ColumnGroup, read_groups
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.narrow_decimals import narrow_columns, widened
from orcidx.scanner.row_width import RowWidth
from orcidx.scanner.span_plan import SpanPlan
from orcidx.scanner.stripe_filter import StripeFilter
from orcidx.scanner.survivors import Survivors, picked
from orcidx.scanner.tested_columns import tested_columns
from orcidx.scanner.wanted_lengths import expect_lengths

__all__ = ["SpanReader", "StripeGroups"]


class StripeGroups:
    """The opened columns of a stripe. ``first``: the predicate's columns. ``rest``: the other columns. ``both``: the
    cursors of all columns. ``coded``: strings of the predicate that are read as dictionary codes. ``narrow``: decimals
    of the predicate that are read in 64 bits. ``tested``: columns of the predicate that are tested while they are
    decoded. ``width``: the sizes of rows that are known so far."""

    def __init__(
        self, stripe: OpenStripe, plan: ColumnPlan, rows: StripeRows, options: ReadOptions, where: BoundPredicate | None
    ) -> None:
        self.coded: frozenset[int] = frozenset()
        if plan.texts:
            self.coded = coded_columns(stripe, plan, options, where, rows.may.count)
        chosen: Sequence[ReadOptions] = plan.predicate_options
        if self.coded:
            stripe.dictionaries |= self.coded
            chosen = [
                replace(one, strings="dictionary") if column.id in self.coded else one
                for column, one in zip(plan.predicate, chosen, strict=True)
            ]
        opened = partial(ColumnGroup, stripe, bounds=rows.bounds, use_threads=options.use_threads)
        self.first = opened(plan.predicate, chosen, exact_times=plan.exact_times)
        self.narrow = narrow_columns(plan, where) if plan.decimals else frozenset()
        if self.narrow:
            self.first.narrow(self.narrow)
        self.tested = None
        if self.first.cursors and (plan.have_lengths or False in plan.returned):
            tests_all = rows.must.is_empty
            self.tested = tested_columns(self.first, plan.predicate_names, plan.returned, where, tests_all=tests_all)
        if plan.have_lengths and where is not None and rows.must.is_empty:
            expect_lengths(self.first, plan.predicate_names, where)
        self.rest = opened(plan.rest_columns, plan.rest_options, exact_times=(False,) * len(plan.rest))
        self.both = [*self.first.cursors, *self.rest.cursors]
        self.width = RowWidth(options, whole=where is None and rows.may.is_all)
        self.width.learn(dict(zip((self.first, self.rest), plan.widths)))


@dataclass
class SpanReader:
    """Decodes the predicate's columns over spans and finds the matching rows.

    ``spans``: the plan of the spans, which must be made again if rows are larger than expected. ``ahead``: decodes
    columns in other threads. ``counts``: whether only the number of matching rows is wanted. ``dense``: whether the
    bytes of all columns are read together. ``together``: whether the other columns are decoded at the same time as the
    predicate's columns, because all rows of the previous span matched.
    """

    columns: ColumnPlan
    filter: StripeFilter
    groups: StripeGroups
    spans: SpanPlan
    ahead: DecodeAhead | None
    batch_bytes: int
    counts: bool
    dense: bool = False
    together: bool = False

    def expect(self, ahead: DecodeAhead, planned: Sequence[tuple[int, int]]) -> None:
        """Announces the columns whose spans will be read next. All columns are announced if all of them are decoded at
        the same time. Otherwise only the predicate's columns are announced."""
        first, rest = self.groups.first, self.groups.rest
        groups = [first] if self.filter.tests or first.columns else [rest]
        columns = groups[0].cursors
        if self.filter.tests and self.together and rest.columns:
            groups, columns = [first, rest], self.groups.both
        if groups[0] is first:
            planned = [span for span in planned if self.filter.reads(*span)]
        sizes = [size for size in map(self.groups.width.row_bytes, groups) if size is not None]
        if planned and len(sizes) == len(groups):
            ahead.expect(columns, planned, sum(sizes))

    def matching(self, start: int, stop: int) -> Iterator[Survivors]:
        """The matching rows of a span. If the span has too many bytes for one batch, each half is read separately. The
        same is done if a span of several batches cannot be read, so that the rows before an error are returned."""
        width, failed = self.groups.width, None
        try:
            found = self._read(start, stop)
        except BatchTooLarge:
            width.was_too_large(self.spans)
        except OrcidxError as error:
            if stop - start <= width.options.batch_size:
                raise
            failed = error
        else:
            if found is not None:
                yield found
            return
        middle = (start + stop) // 2
        yield from self.matching(start, middle)
        yield from self.matching(middle, stop)
        if failed is not None:  # no half failed again, but the error must not be lost
            raise failed

    def _read(self, start: int, stop: int) -> Survivors | None:
        """Decodes the predicate's columns over a span and finds the matching rows."""
        if not (self.filter.reads_all or self.filter.reads(start, stop)):
            mask, count = self.filter.wanted(start, stop)
            return Survivors(start, stop, None if mask is None else KeptRows(mask), [], count)
        found, others = self._read_first(start, stop - start)
        mask = self.filter.mask(found, start, stop)
        kept = None if mask is None else KeptRows(mask)
        count = stop - start if kept is None else kept.count
        self.together = self.dense and kept is None
        if count == 0 or self.counts:
            return Survivors(start, stop, None, [], count) if count else None
        arrays = [array if wanted else None for array, wanted in zip(found, self.columns.returned, strict=True)]
        if kept is not None:
            arrays = picked(arrays, kept, owned=True)
            others = None if others is None else picked(others, kept, owned=True)
        if self.groups.tested is not None:
            arrays = self.groups.tested.spelled_out(arrays, self.batch_bytes)
        if self.groups.coded:
            arrays = spelled_out(arrays, self.columns.predicate, self.groups.coded, self.batch_bytes)
        if self.groups.narrow:
            arrays = widened(arrays, self.columns.predicate, self.groups.narrow)
        return Survivors(start, stop, kept, arrays, count, others)

    def _read_first(self, start: int, rows: int) -> tuple[list[pa.Array], list[pa.Array] | None]:
        """Decodes the predicate's columns. Also decodes the other columns, if most rows of this span are likely to
        match. This is estimated from the share of matching rows in the previous span."""
        first, rest, width = self.groups.first, self.groups.rest, self.groups.width
        first.seek(start)
        if not (self.together and rest.columns):
            arrays = first.read(rows, self.ahead)
            width.saw(first, arrays, rows)
            return arrays, None
        rest.seek(start)
        joint = self.groups.both if self.filter.tests else None
        arrays, others = read_groups([first, rest], rows, self.ahead, joint=joint)
        width.saw(first, arrays, rows)
        width.saw(rest, others, rows)
        return arrays, others
