"""``SmallFilter``: decodes the matching rows of small files whose bytes are in memory. Each file is decoded with one
call.

As in ``stripe_reader``, the predicate's columns are decoded first, and the other columns are decoded only if some row
matches. But this module creates no column readers and no row indexes, because creating them would take ten times as
long as decoding a thousand rows. The file must have only one row group. The row index of such a file cannot rule out
more rows than the file's statistics.

Some tests set ``ENABLED`` to False. All files are then opened and scanned like large files, with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc.kinds import StreamKind
from orcidx.orc.small_file import SmallFile
from orcidx.orc.small_stripe import PLAIN_ROWS, recipe_of
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType, arrow_type
from orcidx.planner.column_plan import ColumnPlan
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_plan import AtOnce, SchemaPlan
from orcidx.predicate import BoundPredicate
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_stripes import HeldBytes, arrays_at_once
from orcidx.scanner.survivors import Survivors, as_batch, picked

__all__ = ["SmallFilter", "small_filter"]

ENABLED = True

BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


@dataclass(frozen=True, eq=False)
class SmallFilter:
    """The predicate, and the columns that are decoded from each file of one schema. ``rest``: output columns that are
    not in the predicate."""

    where: BoundPredicate
    columns: ColumnPlan
    asked: AtOnce
    rest: AtOnce | None

    def takes(self, file: SmallFile, request: ScanRequest) -> bool:
        """Whether a file has one stripe of one row group, so that it can be decoded in one call."""
        stride = file.kind.facts.row_index_stride
        rows = file.stripes[0].rows if len(file.stripes) == 1 else 0
        return 0 < rows <= min(PLAIN_ROWS, request.options.batch_size, stride or PLAIN_ROWS)

    def rows_of(
        self, file: SmallFile, footer: StripeFooter, held: HeldBytes, *, request: ScanRequest, metrics: ScanMetrics
    ) -> pa.RecordBatch | None:
        """Returns the matching rows of a file. Returns None if column readers are needed, or if a bloom filter might
        rule out the rows."""
        stripe, facts = file.stripes[0], file.kind.facts
        blooms = request.options.bloom_filters and self._has_blooms(footer)
        asked = None
        if not blooms:
            asked = arrays_at_once(self.asked, facts, stripe, footer, held, request=request, metrics=metrics)
        if asked is None:
            return None
        mask = self.where.evaluate(pa.RecordBatch.from_arrays(asked, names=list(self.columns.predicate_names)))
        count = int(np.count_nonzero(mask))
        others: list[pa.Array] | None = []
        if count and self.rest is not None:
            others = arrays_at_once(self.rest, facts, stripe, footer, held, request=request, metrics=metrics)
        if others is None:
            return None
        if not count:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, kind) for kind in self.columns.schema.types], schema=self.columns.schema
            )
        found = Survivors(0, stripe.rows, None, asked, count)
        if count < stripe.rows:
            kept = KeptRows(mask, count)
            found = Survivors(0, stripe.rows, kept, picked(asked, kept), count)
            others = picked(others, kept)
        return as_batch(self.columns, found, others, first_row=0)

    def _has_blooms(self, footer: StripeFooter) -> bool:
        ids = [one for column in self.asked.columns for one in column.ids]
        return any((one, kind) in footer.streams for one in ids for kind in BLOOMS)


def small_filter(plan: SchemaPlan) -> SmallFilter | None:
    """Returns the ``SmallFilter`` for files of this schema and the plan's predicate. Returns None if the files must be
    opened.

    Files must be opened if the predicate uses a name that is not a column of the file. Files must also be opened if the
    predicate uses timestamps, because the type of timestamps depends on the file's statistics.
    """
    if not ENABLED or plan.where is None or not plan.is_complete:
        return None
    wanted = plan.asked
    if wanted.predicate_constants or not wanted.predicate or any(wanted.timestamps):
        return None
    columns = wanted.columns((False,) * len(wanted.predicate))
    asked = _at_once(plan, columns.predicate, columns.predicate_options)
    assert asked is not None
    return SmallFilter(plan.where, columns, asked, _at_once(plan, columns.rest_columns, columns.rest_options))


def _at_once(plan: SchemaPlan, columns: Sequence[OrcType], options: Sequence[ReadOptions]) -> AtOnce | None:
    types = [arrow_type(*one, dictionaries=plan.dictionaries) for one in zip(columns, options)]
    recipe = recipe_of(columns, types, checked=plan.options.utf8 != "unchecked")
    return None if recipe is None else AtOnce(recipe, columns, options, plan.dictionaries)
