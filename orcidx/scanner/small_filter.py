"""``SmallFilter``: decodes the matching rows of small files whose bytes are in memory. Each file is decoded with one
call.

As in ``stripe_reader``, the predicate's columns are decoded first, and the other columns are decoded only if some row
matches. But this module creates no column readers and no row indexes, because creating them would take ten times as
long as decoding a thousand rows. The file must have only one row group. The row index of such a file cannot rule out
more rows than the file's statistics.

Evaluating the predicate and filtering take as long for a hundred rows as for some thousand rows. So for a table, the
rows of many files are tested and filtered together (``UntestedRows``), unless most files have no matching row.

Some tests set ``ENABLED`` to False. All files are then opened and scanned like large files, with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc.kinds import StreamKind
from orcidx.orc.plain_columns import PLAIN_ROWS
from orcidx.orc.small_file import SmallFile
from orcidx.orc.small_stripe import recipe_of
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.types import OrcType, arrow_type
from orcidx.planner.column_plan import ColumnPlan
from orcidx.planner.request import ScanRequest
from orcidx.planner.schema_mapping import widen
from orcidx.planner.schema_plan import AtOnce, SchemaPlan
from orcidx.predicate import BoundPredicate, External
from orcidx.predicate.fold import parts
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_stripes import HeldBytes, arrays_at_once
from orcidx.scanner.survivors import Survivors, as_batch, picked

__all__ = ["SmallFilter", "UntestedRows", "small_filter", "tested_together"]

ENABLED = True

BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


@dataclass(eq=False)
class SmallFilter:
    """The predicate, and the columns that are decoded from each file of one schema. ``rest``: output columns that are
    not in the predicate. ``every``: the columns of the predicate, followed by the columns of ``rest``. It is None if
    the rows of several files cannot be tested together. ``schema``: the schema of the returned batches. ``most_match``:
    whether most of the last files had matching rows."""

    where: BoundPredicate
    columns: ColumnPlan
    asked: AtOnce
    rest: AtOnce | None
    every: AtOnce | None
    schema: pa.Schema
    most_match: bool = False

    def takes(self, file: SmallFile, request: ScanRequest) -> bool:
        """Whether a file has one stripe of one row group, so that it can be decoded in one call."""
        stride = file.kind.facts.row_index_stride
        rows = file.stripes[0].rows if len(file.stripes) == 1 else 0
        return 0 < rows <= min(PLAIN_ROWS, request.options.batch_size, stride or PLAIN_ROWS)

    def may_rule_out(self, footer: StripeFooter, request: ScanRequest) -> bool:
        """Whether a bloom filter of the stripe might rule out its rows. Such a file must be opened."""
        ids = [one for column in self.asked.columns for one in column.ids]
        return request.options.bloom_filters and any((one, kind) in footer.streams for one in ids for kind in BLOOMS)

    def untested(
        self, file: SmallFile, footer: StripeFooter, held: HeldBytes, *, request: ScanRequest, metrics: ScanMetrics
    ) -> UntestedRows | None:
        """Returns all rows of a file, to test them together with the rows of other files. Returns None if the rows must
        be tested now."""
        if self.every is None or not (self.most_match or self.rest is None):
            return None
        stripe = file.stripes[0]
        arrays = arrays_at_once(self.every, file.kind.facts, stripe, footer, held, request=request, metrics=metrics)
        return None if arrays is None else UntestedRows(self, arrays, stripe.rows)

    def rows_of(
        self, file: SmallFile, footer: StripeFooter, held: HeldBytes, *, request: ScanRequest, metrics: ScanMetrics
    ) -> pa.RecordBatch | None:
        """Returns the matching rows of a file. Returns None if column readers are needed."""
        stripe, facts = file.stripes[0], file.kind.facts
        asked = arrays_at_once(self.asked, facts, stripe, footer, held, request=request, metrics=metrics)
        if asked is None:
            return None
        mask = self.test(asked)
        self.most_match = bool(mask.any())
        others: list[pa.Array] | None = []
        if self.most_match and self.rest is not None:
            others = arrays_at_once(self.rest, facts, stripe, footer, held, request=request, metrics=metrics)
        return None if others is None else self.kept(asked, others, mask)

    def test(self, asked: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Returns which rows match. ``asked``: the columns of the predicate."""
        return self.where.evaluate(pa.RecordBatch.from_arrays(asked, names=list(self.columns.predicate_names)))

    def kept(
        self, asked: Sequence[pa.Array], others: Sequence[pa.Array], mask: npt.NDArray[np.bool_]
    ) -> pa.RecordBatch:
        """Returns the matching rows as a batch. ``others``: the output columns that are not in the predicate. If no row
        matches, it may be empty."""
        rows, count = len(mask), int(np.count_nonzero(mask))
        if not count:
            nothing = [pa.nulls(0, kind) for kind in self.schema.types]
            return pa.RecordBatch.from_arrays(nothing, schema=self.schema)
        found = Survivors(0, rows, None, list(asked), count)
        if count < rows:
            kept = KeptRows(mask, count)
            wanted = [array if is_returned else None for array, is_returned in zip(asked, self.columns.returned)]
            found, others = Survivors(0, rows, kept, picked(wanted, kept), count), picked(others, kept)
        batch = as_batch(self.columns, found, list(others), first_row=0)
        if self.schema is self.columns.schema:
            return batch
        arrays = [widen(array, kind) for array, kind in zip(batch.columns, self.schema.types)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class UntestedRows(NamedTuple):
    """All rows of a small file, before they are tested. ``arrays``: the columns ``filter.every``."""

    filter: SmallFilter
    arrays: list[pa.Array]
    rows: int


def tested_together(files: Sequence[UntestedRows]) -> pa.RecordBatch:
    """Tests the rows of several files together, and returns the rows that match. All files have the same filter."""
    under = files[0].filter
    columns = [pa.concat_arrays(arrays) for arrays in zip(*[one.arrays for one in files])]
    asked, others = columns[: len(under.asked.columns)], columns[len(under.asked.columns) :]
    mask = under.test(asked)
    starts = [0, *accumulate([one.rows for one in files[:-1]])]
    under.most_match = 2 * int(np.logical_or.reduceat(mask, starts).sum()) >= len(files)
    return under.kept(asked, others, mask)


def small_filter(plan: SchemaPlan) -> SmallFilter | None:
    """Returns the ``SmallFilter`` for files of this schema and the plan's predicate. Returns None if the files must be
    opened.

    Files must be opened if the predicate uses a name that is not a column of the file, or if the decoded columns are
    not the wanted columns. Files must also be opened if the predicate uses timestamps, because the type of timestamps
    depends on the file's statistics.
    """
    if not ENABLED or plan.where is None:
        return None
    wanted = plan.asked
    if wanted.predicate_constants or not wanted.predicate or any(wanted.timestamps):
        return None
    columns = wanted.columns((False,) * len(wanted.predicate))
    if not plan.is_complete and not _are_views_apart(columns.schema, plan.schema):
        return None
    asked = _at_once(plan, columns.predicate, columns.predicate_options)
    assert asked is not None
    rest = _at_once(plan, columns.rest_columns, columns.rest_options)
    every = None
    if _may_be_together(plan, columns):
        options = (*columns.predicate_options, *columns.rest_options)
        every = _at_once(plan, (*columns.predicate, *columns.rest_columns), options)
    schema = columns.schema if plan.is_complete else plan.schema
    return SmallFilter(plan.where, columns, asked, rest, every, schema)


def _are_views_apart(decoded: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether two schemas differ only in columns that are strings in the first schema, and views in the second."""
    if decoded.names != wanted.names:
        return False
    text, view = pa.string(), pa.string_view()
    pairs = zip(decoded, wanted)
    return all(one == other or (one.type == text and other == one.with_type(view)) for one, other in pairs)


def _may_be_together(plan: SchemaPlan, columns: ColumnPlan) -> bool:
    """Whether rows of several files may be tested together. This is not possible if the rows are numbered, because they
    are numbered in each file, and if columns are dictionaries, because each file has its own. It is also not done for
    conditions that pyarrow evaluates. If such a condition raises an error, the file is opened, because its indexes may
    rule out the row with the error. One call decodes the dates of all its columns in the same calendar."""
    assert plan.where is not None
    if columns.row_number is not None or plan.dictionaries:
        return False
    calendars = {one.calendar for one in (*columns.predicate_options, *columns.rest_options)}
    return len(calendars) == 1 and not any(isinstance(part, External) for part in parts(plan.where.root))


def _at_once(plan: SchemaPlan, columns: Sequence[OrcType], options: Sequence[ReadOptions]) -> AtOnce | None:
    types = [arrow_type(*one, dictionaries=plan.dictionaries) for one in zip(columns, options)]
    roundings = [one.decimal_rounding for one in options]
    recipe = recipe_of(columns, types, roundings, checked=plan.options.utf8 != "unchecked")
    return None if recipe is None else AtOnce(recipe, columns, options, plan.dictionaries)
