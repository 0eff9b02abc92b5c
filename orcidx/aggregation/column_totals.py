"""``ColumnTotals``: count, sum, minimum and maximum of the values that were added for one column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.exact_sums import FloatSum, integer_sum, rounded_sum
from orcidx.aggregation.functions import LARGEST_PRECISION, Aggregate
from orcidx.aggregation.ranks import Ranks
from orcidx.aggregation.value_forms import NAN, Comparable, NotANumber, comparable, form_of
from orcidx.errors import ValueOutOfRange

__all__ = ["ColumnTotals", "Wanted", "wanted_of"]

SUM_LIMIT = 10**LARGEST_PRECISION
"""The smallest absolute value of a sum that has too many digits for a decimal."""


@dataclass(frozen=True)
class Wanted:
    """The totals of a column that are computed in addition to its count. ``order``: whether quantiles are computed."""

    sum: bool
    minimum: bool
    maximum: bool
    order: bool = False

    @property
    def ends(self) -> bool:
        """Whether the minimum or the maximum is computed."""
        return self.minimum or self.maximum

    def __or__(self, other: Wanted) -> Wanted:
        """The totals that at least one of the two objects has."""
        return Wanted(
            self.sum or other.sum,
            self.minimum or other.minimum,
            self.maximum or other.maximum,
            self.order or other.order,
        )


def wanted_of(aggregates: Iterable[Aggregate], column: str) -> Wanted:
    """Returns the totals of a column that these aggregates need."""
    functions = {aggregate.function for aggregate in aggregates if aggregate.column == column}
    order = "quantile_disc" in functions
    return Wanted(bool(functions & {"sum", "avg"}), "min" in functions, "max" in functions, order)


@dataclass
class ColumnTotals:
    """Totals of one column over some rows. Sums of integers and of unscaled decimals are Python integers. Minima and
    maxima have the form of ``value_forms.comparable``."""

    kind: pa.DataType
    wanted: Wanted
    count: int = 0
    total: int = 0
    floats: FloatSum = field(default_factory=FloatSum)
    minimum: Comparable | None = None
    maximum: Comparable | None = None
    has_nan: bool = False

    @cached_property
    def ranks(self) -> Ranks:
        """The values in sorted order, for quantiles."""
        return Ranks(self.kind)

    def add(self, values: pa.Array) -> None:
        """Adds the values of an array, except nulls."""
        if values.null_count:
            values = values.drop_null()
        self.count += len(values)
        if not len(values):
            return
        if self.wanted.sum:
            self._add_sum(values)
        if self.wanted.ends:
            self._add_bounds(comparable(values))
        if self.wanted.order:
            self.ranks.add(comparable(values))

    def _add_sum(self, values: pa.Array) -> None:
        if pa.types.is_floating(self.kind):
            self.floats.add(np.asarray(values.cast(pa.float64())))
        else:
            self.total += integer_sum(values)

    def _add_bounds(self, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            number = pc.invert(pc.is_nan(values))
            if not pc.all(number).as_py():
                self.has_nan = True
                values = values.filter(number)
        if len(values):
            bounds = pc.min_max(values)
            self.take_bounds(bounds["min"].as_py(), bounds["max"].as_py())

    def take_bounds(self, minimum: Comparable, maximum: Comparable) -> None:
        """Adds the minimum and the maximum of some values. None of these values is NaN."""
        if self.minimum is None or minimum < self.minimum:
            self.minimum = minimum
        if self.maximum is None or self.maximum < maximum:
            self.maximum = maximum

    def add_repeated(self, value: pa.Scalar, rows: int) -> None:
        """Adds one value for ``rows`` rows, which all have this value."""
        if not value.is_valid or not rows:
            return
        self.count += rows
        form = form_of(value)
        if self.wanted.sum and pa.types.is_floating(self.kind):
            self.add_float(value.as_py(), rows)
        elif self.wanted.sum:
            self.total += rows * integer_sum(pa.array([value.as_py()], value.type))
        if form is None or isinstance(form, NotANumber):
            self.has_nan = True
        else:
            self.take_bounds(form, form)
        if self.wanted.order:
            self.ranks.add_repeated(form, rows)

    def add_float(self, value: float | NotANumber, times: int) -> None:
        """Adds a float to the sum. The float is added ``times`` times."""
        if times:
            one = FloatSum()
            one.add(np.array([math.nan if isinstance(value, NotANumber) else value]))
            one.units *= times
            self.floats.merge(one)

    def merge(self, other: ColumnTotals) -> None:
        """Adds the totals of other rows."""
        self.count += other.count
        self.total += other.total
        self.floats.merge(other.floats)
        self.has_nan |= other.has_nan
        if other.minimum is not None and other.maximum is not None:
            self.take_bounds(other.minimum, other.maximum)
        if self.wanted.order:
            self.ranks.merge(other.ranks)

    def result(self, aggregate: Aggregate, *, nan: Literal["ieee", "largest"]) -> object:
        """The value of an aggregate. Minima, maxima and quantiles have the form of ``value_forms``. Sums of decimals
        are unscaled integers. None means SQL's NULL.

        Raises ``ValueOutOfRange`` for a sum of more than 38 digits.
        """
        function = aggregate.function
        if function == "count":
            return self.count
        if not self.count:
            return None
        if function in ("min", "max"):
            return self._bound(function, nan_is_largest=nan == "largest")
        if function == "quantile_disc":
            return self.ranks.value(aggregate.share or Fraction(0), nan_is_largest=nan == "largest")
        if pa.types.is_floating(self.kind):
            return self.floats.value(1 if function == "sum" else self.count)
        if function == "avg":
            scale = self.kind.scale if pa.types.is_decimal(self.kind) else 0
            return rounded_sum(self.total, self.count * 10**scale)
        if abs(self.total) >= SUM_LIMIT:
            raise ValueOutOfRange(
                f"{aggregate}: the sum has more than {LARGEST_PRECISION} digits; use avg, or add up fewer rows",
                column=aggregate.column,
            )
        return self.total

    def _bound(self, function: str, *, nan_is_largest: bool) -> object:
        """The minimum or maximum. With ``nan_is_largest``, NaN is greater than every number. Otherwise NaN is the
        result only if there is no other value."""
        value = self.minimum if function == "min" else self.maximum
        if self.has_nan and (value is None or (nan_is_largest and function == "max")):
            return NAN
        return value
