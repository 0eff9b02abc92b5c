"""``SmallFilter``: decodes the matching rows of small files whose bytes are in memory. Each file is decoded with one
call.

As in ``stripe_reader``, the predicate's columns are decoded first, and the other columns are decoded only if some row
matches. But this module creates no column readers and no row indexes, because creating them would take ten times as
long as decoding a thousand rows. The file must have only one row group. The row index of such a file cannot rule out
more rows than the file's statistics.

Evaluating the predicate and filtering take as long for a hundred rows as for some thousand rows. So the rows of many
files are decoded, tested and filtered together (``small_groups``), unless the caller may need only some of the files.

Some tests set ``ENABLED`` to False. All files are then opened and scanned like large files, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

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
from orcidx.planner.schema_mapping import FieldSource, wanted_columns
from orcidx.planner.schema_plan import AtOnce, SchemaPlan
from orcidx.predicate import BoundPredicate, External
from orcidx.predicate.fold import parts
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_groups import WaitingFile, WantedColumns, constant_column
from orcidx.scanner.small_stripes import HeldBytes, arrays_at_once
from orcidx.scanner.survivors import Survivors, as_batch, picked

__all__ = ["SmallFilter", "small_filter"]

ENABLED = True

BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


@dataclass(eq=False)
class SmallFilter:
    """The predicate, and the columns that are decoded from each file of one schema. ``asked``: columns of the
    predicate. ``rest``: output columns that are not in the predicate. ``constants``: names in the predicate that are
    not columns of the file. ``alone``: whether a file can be decoded alone. ``together``: whether files can be decoded
    together."""

    plan: SchemaPlan
    where: BoundPredicate
    columns: ColumnPlan
    asked: AtOnce | None
    rest: AtOnce | None
    constants: Mapping[str, FieldSource]
    alone: bool
    together: bool

    def takes(self, file: SmallFile, request: ScanRequest) -> bool:
        """Whether a file has one stripe of one row group, so that it can be decoded in one call."""
        stride = file.kind.facts.row_index_stride
        rows = file.stripes[0].rows if len(file.stripes) == 1 else 0
        return 0 < rows <= min(PLAIN_ROWS, request.options.batch_size, stride or PLAIN_ROWS)

    def may_rule_out(self, footer: StripeFooter, request: ScanRequest) -> bool:
        """Whether a bloom filter of the stripe might rule out its rows. Such a file must be opened."""
        if request.options.bloom_filters:
            for place in self._blooms:
                if place in footer.streams:
                    return True
        return False

    @cached_property
    def _blooms(self) -> tuple[tuple[int, StreamKind], ...]:
        """Where bloom filters of the predicate's columns would be."""
        return tuple([(one, kind) for column in self.columns.predicate for one in column.ids for kind in BLOOMS])

    def rows_of(
        self, file: SmallFile, footer: StripeFooter, held: HeldBytes, *, request: ScanRequest, metrics: ScanMetrics
    ) -> pa.RecordBatch | None:
        """Returns the matching rows of a file. Returns None if column readers are needed."""
        if self.asked is None or not self.alone:
            return None
        stripe, facts = file.stripes[0], file.kind.facts
        asked = arrays_at_once(self.asked, facts, stripe, footer, held, request=request, metrics=metrics)
        if asked is None:
            return None
        mask = self.test(asked, stripe.rows)
        others: list[pa.Array] | None = []
        if self.rest is not None and mask.any():
            others = arrays_at_once(self.rest, facts, stripe, footer, held, request=request, metrics=metrics)
        return None if others is None else self._batch(self.kept(asked, others, mask), _no_constant)

    def test(self, asked: Sequence[pa.Array], rows: int) -> npt.NDArray[np.bool_]:
        """Returns which rows match. ``asked``: the columns of the predicate, then its constants."""
        names = [*self.columns.predicate_names, *self.constants]
        if not names:  # a batch without columns would have no rows
            asked, names = [pa.nulls(rows)], [""]
        return self.where.evaluate(pa.RecordBatch.from_arrays(asked, names=names))

    @property
    def first(self) -> AtOnce | None:
        """See ``GroupReader.first``."""
        return self.asked

    def rows(
        self, arrays: list[pa.Array], files: Sequence[WaitingFile]
    ) -> Generator[WantedColumns, list[pa.Array], pa.RecordBatch]:
        """See ``GroupReader.rows``. The other columns are decoded only in files that have matching rows."""
        rows = [one.rows for one in files]
        constants = [constant_column(files, rows, source) for source in self.constants.values()]
        mask = self.test([*arrays, *constants], sum(rows))
        each = np.array([np.count_nonzero(mask[end - size : end]) for size, end in zip(rows, accumulate(rows))])
        others: list[pa.Array] = []
        among, places = mask, None
        if self.rest is not None and each.any():
            if not each.all():
                among, places = mask[np.repeat(each > 0, rows)], np.flatnonzero(each).tolist()
            others = yield WantedColumns(self.rest, places, among)
        kept = self.kept(arrays, others, mask, among)
        return self._batch(kept, partial(constant_column, files, each.tolist()))

    def _batch(self, kept: pa.RecordBatch | None, constant: Callable[[FieldSource], pa.Array]) -> pa.RecordBatch:
        """Makes the wanted columns of the decoded ones. ``kept``: None if no row matches. ``constant``: see
        ``wanted_columns``."""
        schema = self.plan.schema
        if kept is None:
            return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)
        if self.plan.is_complete:
            return kept
        arrays = wanted_columns(self.plan.fields, kept.columns, constant)
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else kept

    def kept(
        self,
        asked: Sequence[pa.Array],
        others: Sequence[pa.Array],
        mask: npt.NDArray[np.bool_],
        among: npt.NDArray[np.bool_] | None = None,
    ) -> pa.RecordBatch | None:
        """Returns the decoded columns of the matching rows. ``others``: the output columns that are not in the
        predicate. Each has only the matching rows, or also others. ``among``: which of these rows match, if they do not
        have all rows. Returns None if no row matches."""
        kept = KeptRows(mask)
        rows, count = len(kept), kept.count
        if not count:
            return None
        found = Survivors(0, rows, None, list(asked), count)
        if count < rows:
            wanted = [array if is_returned else None for array, is_returned in zip(asked, self.columns.returned)]
            found = Survivors(0, rows, kept, picked(wanted, kept, owned=True), count)
            matching = kept if among is None else KeptRows(among)
            left = iter(picked([one for one in others if len(one) > count], matching, owned=True))
            others = [next(left) if len(one) > count else one for one in others]
        return as_batch(self.columns, found, list(others), first_row=0)


def _no_constant(source: FieldSource) -> pa.Array:
    raise AssertionError(f"{source.field.name} is not a column of a file that is decoded alone")


def small_filter(plan: SchemaPlan) -> SmallFilter | None:
    """Returns the ``SmallFilter`` for files of this schema and the plan's predicate. Returns None if the files must be
    opened.

    Files must be opened if the predicate uses timestamps, because the type of timestamps depends on the file's
    statistics. If the predicate uses a name that is not a column of the file, or if the decoded columns are not the
    wanted columns, files can only be decoded together.
    """
    if not ENABLED or plan.where is None:
        return None
    wanted = plan.asked
    if any(wanted.timestamps):
        return None
    columns = wanted.columns((False,) * len(wanted.predicate))
    constants = {path[0]: source for path, source in wanted.predicate_constants.items()}
    alone = bool(wanted.predicate) and not constants
    alone = alone and (plan.is_complete or _are_views_apart(columns.schema, plan.schema))
    together = _may_be_together(plan, columns)
    if not (alone or together):
        return None
    asked = _at_once(plan, columns.predicate, columns.predicate_options)
    rest = _at_once(plan, columns.rest_columns, columns.rest_options)
    return SmallFilter(plan, plan.where, columns, asked, rest, constants, alone, together)


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
    return len(calendars) <= 1 and not any(isinstance(part, External) for part in parts(plan.where.root))


def _at_once(plan: SchemaPlan, columns: Sequence[OrcType], options: Sequence[ReadOptions]) -> AtOnce | None:
    types = [arrow_type(*one, dictionaries=plan.dictionaries) for one in zip(columns, options)]
    roundings = [one.decimal_rounding for one in options]
    recipe = recipe_of(columns, types, roundings, checked=plan.options.utf8 != "unchecked")
    return None if recipe is None else AtOnce(recipe, columns, options, plan.dictionaries)
