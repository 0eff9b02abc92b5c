"""``StripeFilter``: finds the wanted rows of a span of one stripe, by the results of the indexes and by the
predicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.planner.column_plan import ColumnPlan, StripeRows
from orcidx.predicate.binding import BoundPredicate
from orcidx.predicate.dictionary_answers import DictionaryAnswers
from orcidx.scanner.tested_columns import TestedColumns

__all__ = ["Constants", "StripeFilter"]

Bools = npt.NDArray[np.bool_]
Constants = Sequence[tuple[str, pa.Scalar]]


@dataclass
class StripeFilter:
    """``where``: the predicate, or None. ``constants``: pairs (name, value) for the names in the predicate that are not
    columns of the file."""

    columns: ColumnPlan
    where: BoundPredicate | None
    rows: StripeRows
    constants: Constants
    answers: DictionaryAnswers = field(default_factory=DictionaryAnswers)
    """The results of the predicate for the entries of the stripe's dictionaries."""
    tested: TestedColumns | None = None
    """Columns that are tested while they are decoded, if there are such columns."""

    def __post_init__(self) -> None:
        self.tests = self.where is not None and not self.rows.are_proved
        """Whether the predicate is evaluated for any row."""
        self.asks_all = self.tests and self.rows.must.is_empty
        """Whether the predicate is evaluated for all rows that may match."""
        self.reads_all = self.asks_all or True in self.columns.returned
        """Whether the predicate's columns are decoded for all rows that may match."""
        self.names = list(self.columns.predicate_names)
        """The names in the predicate. The names of the columns come first, then the names of the constants."""
        for name, _ in self.constants:
            self.names.append(name)

    def wanted(self, start: int, stop: int) -> tuple[Bools | None, int]:
        """The rows of a span that may match (None means all rows), and the number of these rows."""
        if self.rows.may.is_all:
            return None, stop - start
        wanted = self.rows.may.slice(start, stop)
        return (None if wanted.is_all else wanted.mask()), wanted.count

    def asks(self, start: int, stop: int) -> bool:
        """Whether the predicate must be evaluated for the rows of a span. It need not be evaluated if the indexes prove
        that all these rows match."""
        must = self.rows.must
        proved = not must.is_empty and (must.is_all or must.slice(start, stop).is_all)
        return self.tests and not proved

    def reads(self, start: int, stop: int) -> bool:
        """Whether the predicate's columns are decoded for a span. This is the case if an output has one of these
        columns, or if the predicate is evaluated for the span. A predicate of constants alone, such as ``p + 0 = 2``,
        has no columns to decode, but is still evaluated."""
        return self.reads_all or self.asks(start, stop)

    def mask(self, arrays: Sequence[pa.Array], start: int, stop: int) -> Bools | None:
        """The rows of a span that match, computed from the predicate's columns. None means all rows."""
        mask = None if self.rows.may.is_all else self.wanted(start, stop)[0]
        if self.asks_all or self.asks(start, stop):
            matches = self._matches(arrays, stop - start)
            if not self.rows.must.is_empty:
                matches |= self.rows.must.slice(start, stop).mask()
            mask = matches if mask is None else mask & matches
        return None if mask is None or mask.all() else mask

    def _matches(self, arrays: Sequence[pa.Array], rows: int) -> Bools:
        where, names, passed = self.where, self.names, None
        if self.tested is not None:
            passed, where = self.tested.passed(arrays), self.tested.rest
            if where is None or not passed.any():
                return passed
            arrays, names = self.tested.left(arrays), self.tested.left(names)
        assert where is not None
        if self.constants:
            arrays = [*arrays, *[pa.repeat(value, rows) for _, value in self.constants]]
        if not names:  # a batch without columns would have no rows
            arrays, names = [pa.nulls(rows)], [""]
        matches = where.evaluate(pa.RecordBatch.from_arrays(arrays, names=names), self.answers)
        return matches if passed is None else np.logical_and(passed, matches, out=matches)
