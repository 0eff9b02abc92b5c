"""``StripeGroups``: the columns of a stripe that a scan reads, divided into the predicate's columns and the other
columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from orcidx.options import ReadOptions
from orcidx.orc.reader import OpenStripe
from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.predicate.binding import BoundPredicate
from orcidx.scanner.coded_strings import coded_columns
from orcidx.scanner.column_group import ColumnGroup
from orcidx.scanner.narrow_decimals import narrow_columns
from orcidx.scanner.row_width import RowWidth
from orcidx.scanner.tested_columns import tested_columns

__all__ = ["StripeGroups"]


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
        if self.first.cursors and False in plan.returned:
            self.tested = tested_columns(self.first, plan.predicate_names, plan.returned, where)
        self.rest = opened(plan.rest_columns, plan.rest_options, exact_times=(False,) * len(plan.rest))
        self.both = [*self.first.cursors, *self.rest.cursors]
        self.width = RowWidth(options)
        self.width.learn(dict(zip((self.first, self.rest), plan.widths)))
