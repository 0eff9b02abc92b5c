"""Finds the statistics that are exact: counts, sums, minima and maxima that equal the values computed from the rows.

A bound that is right for pruning is not always a value of the column. A recorded sum is not always the sum of the
stored values. For each unit (file, stripe or row group) ``stored_totals`` gives only totals that are proved:

* a count, if ``bounds`` trusts it;
* a sum of integers, if both bounds are in the range of the type, no intermediate sum can have overflowed, and the sum
  is between ``count * minimum`` and ``count * maximum``. For example, if ORC C++ gets 70000 for a smallint, it records
  that number but stores 4464;
* a sum of decimals under the same conditions, but not in files of ORC Java. If a vector repeats one value, ORC Java
  1.9.8 to 2.3.0 adds the value only once, and the wrong sum may still look plausible;
* no sum of floats, because sums of ORC Java have the same defect. Also, a sum of floats depends on the order of the
  additions, which is unknown;
* minima and maxima of integers, booleans, decimals, floats without NaN, dates of the proleptic calendar, and complete
  strings. Minima and maxima of timestamps are not used, because they are truncated to milliseconds, shifted by time
  zones, and not exact in files of orcidx. Minima and maxima of CHAR and VARCHAR are not used either, because CHAR is
  padded and VARCHAR may be truncated.

Only files of ORC Java and ORC C++ are trusted. Files of orcidx are trusted as well, because they have the writer number
of ORC C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.options import ValueOptions
from orcidx.orc.bound_values import INT64_MAX, Bools, NumberBounds, TypedBounds
from orcidx.orc.bounds import StatisticsColumn, bound_statistics
from orcidx.orc.decimal_text import read_decimal
from orcidx.orc.kinds import TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.spans import parse_decimals
from orcidx.orc.statistics import RawStatistics
from orcidx.orc.types import FLOAT_KINDS, INTEGER_KINDS, decimal_digits, reads_as_timestamp
from orcidx.predicate.nodes import object_array

if TYPE_CHECKING:
    from orcidx.orc.wire import Int64s

__all__ = ["Proved", "StoredTotals", "stored_totals"]

_BELIEVED = (WriterKind.JAVA, WriterKind.CPP)
_TEXTS = (TypeKind.STRING,)
_LARGEST = np.uint64(INT64_MAX)
_EXACT = Context(prec=200)
"""The precision for parsing a recorded decimal, which has at most 38 digits. A longer text is not trusted."""


@dataclass(frozen=True, eq=False)
class Proved:
    """One value for each of n units: int64, double, or Python objects. ``known``: the units whose value certainly
    equals the value computed from the rows."""

    values: npt.NDArray[Any]
    known: Bools

    @classmethod
    def nothing(cls, units: int) -> Proved:
        """Makes an object in which no unit has a known value."""
        return cls(np.zeros(units, np.int64), np.zeros(units, np.bool_))

    @classmethod
    def of(cls, values: Sequence[Any]) -> Proved:
        """Makes an object from Python values, one for each unit. None stands for a unit whose value is not known."""
        return cls(object_array(values), np.array([value is not None for value in values], np.bool_))

    def of_units(self, units: Bools) -> npt.NDArray[Any]:
        """The known values of the selected units. ``units``: a mask of the selected units."""
        return self.values[units & self.known]


@dataclass(frozen=True, eq=False)
class StoredTotals:
    """The totals that are proved for one column in each of n units.

    ``count``: the number of values that are not null, -1 if unknown. ``sums``: the sums as integers. A sum of decimals
    is in units of 10**-scale. ``minima``, ``maxima``: int, float, Decimal or bytes.
    """

    rows: Int64s
    count: Int64s
    sums: Proved
    minima: Proved
    maxima: Proved

    def prove(self, *, sums: bool, ends: bool) -> Bools:
        """The units whose count is known. If sums, or minima and maxima, are requested, these must be known as well."""
        found = self.count > 0
        if sums:
            found &= self.sums.known
        if ends:
            found &= self.minima.known & self.maxima.known
        return np.asarray(found | (self.count == 0), np.bool_)


def stored_totals(raw: RawStatistics, facts: FileFacts, options: ValueOptions, *, ends: bool = True) -> StoredTotals:
    """The totals that the statistics of a column prove. ``ends``: whether the caller needs the minima and maxima.
    Raises ``CorruptFile`` for damaged statistics."""
    return raw.derived("totals", (facts, options, ends), _stored)


def _stored(raw: RawStatistics, facts: FileFacts, options: ValueOptions, ends: bool) -> StoredTotals:
    units = len(raw)
    nothing = Proved.nothing(units)
    if facts.writer not in _BELIEVED or reads_as_timestamp(raw.node, options):
        return StoredTotals(raw.rows, np.full(units, -1, np.int64), nothing, nothing, nothing)
    bounded = bound_statistics(raw, facts, options)
    minima, maxima = _attained(raw, bounded, facts, options) if ends else (nothing, nothing)
    sums = nothing
    if raw.node.kind in INTEGER_KINDS:
        sums = _integer_sums(raw, bounded)
    elif raw.node.kind is TypeKind.DECIMAL and facts.writer is not WriterKind.JAVA:
        scale = decimal_digits(raw.node, options)[1]
        sums = _decimal_sums(raw, bounded, scale)
    return StoredTotals(raw.rows, bounded.count, sums, minima, maxima)


# ---------------------------------------------------------------------- minima and maxima


def _attained(
    raw: RawStatistics, column: StatisticsColumn, facts: FileFacts, options: ValueOptions
) -> tuple[Proved, Proved]:
    """The least and the greatest value of each unit. Such a value is known only if some row certainly has it."""
    kind = raw.node.kind
    if not (
        kind in INTEGER_KINDS
        or kind in FLOAT_KINDS
        or kind in (TypeKind.BOOLEAN, TypeKind.DECIMAL)
        or (kind is TypeKind.DATE and not facts.hybrid_calendar)
        or (kind in _TEXTS and options.utf8 == "strict")
    ):
        return Proved.nothing(len(raw)), Proved.nothing(len(raw))
    both = column.lower.exact & column.upper.exact & ~column.may_nan & (column.count > 0)
    low, high = (_values(bounds, both) for bounds in (column.lower, column.upper))
    if kind in _TEXTS:
        both = both & np.array([_is_utf8(one) and _is_utf8(other) for one, other in zip(low, high)], np.bool_)
    return Proved(low, both), Proved(high, both)


def _values(bounds: TypedBounds, known: Bools) -> npt.NDArray[Any]:
    """The bounds in the form in which values are compared. Negative zeros become positive, and decimals become
    ``Decimal`` objects."""
    if isinstance(bounds, NumberBounds) and not bounds.scale:
        return bounds.values + 0.0 if bounds.values.dtype == np.float64 else bounds.values
    found = np.empty(len(known), object)
    found[known] = bounds.at(np.flatnonzero(known))
    return found


def _is_utf8(value: bytes | None) -> bool:
    """Whether a bound is valid UTF-8. Reading text that is not UTF-8 raises an error, so an invalid bound is never the
    value of a row."""
    if value is None:
        return False
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# ---------------------------------------------------------------------- sums


def _integer_sums(raw: RawStatistics, column: StatisticsColumn) -> Proved:
    assert isinstance(column.lower, NumberBounds)
    assert isinstance(column.upper, NumberBounds)
    total = raw.arrays["integers"][2]
    told = raw.has(3) & column.lower.valid & column.upper.valid
    told &= _are_plausible(total, column.count, column.lower.values, column.upper.values)
    empty = (column.count == 0) & column.all_null
    return Proved(np.where(empty, 0, total), empty | told)


def _decimal_sums(raw: RawStatistics, column: StatisticsColumn, scale: int) -> Proved:
    """Parses sums of up to 18 digits together, and longer sums one by one."""
    low, high = column.lower, column.upper
    assert isinstance(low, NumberBounds)
    assert isinstance(high, NumberBounds)
    total, parsed, exact = parse_decimals(raw.buffer, raw.arrays["spans"][2], scale, False)
    short = (parsed & exact) | ~raw.has(3)
    if not short.all() or low.values.dtype != np.int64 or high.values.dtype != np.int64:
        return Proved.of([_decimal_sum(raw, column, unit, scale) for unit in range(len(raw))])
    values = np.maximum(column.count, 1)
    within = (low.values <= total // values) & (-(-total // values) <= high.values)
    told = raw.has(3) & low.exact & high.exact & (column.count > 0) & within
    empty = (column.count == 0) & column.all_null
    return Proved(np.where(empty, 0, total), empty | told)


def _decimal_sum(raw: RawStatistics, column: StatisticsColumn, unit: int, scale: int) -> int | None:
    count = int(column.count[unit])
    if count == 0 and bool(column.all_null[unit]):
        return 0
    text = raw.text(3, unit)
    recorded = None if text is None else read_decimal(text)
    if recorded is None or not (column.lower.exact[unit] and column.upper.exact[unit]):
        return None
    total, low, high = (_unscaled(value, scale) for value in (recorded, *_ends(column, unit)))
    if total is None or low is None or high is None or count <= 0:
        return None
    return total if count * low <= total <= count * high else None


def _ends(column: StatisticsColumn, unit: int) -> tuple[Any, Any]:
    return column.lower.value(unit), column.upper.value(unit)


def _are_plausible(total: Int64s, count: Int64s, low: Int64s, high: Int64s) -> Bools:
    """Whether the sums agree with the counts, minima and maxima, and whether adding ``count`` such values in 64 bits
    cannot overflow in any order."""
    values = np.maximum(count, 1)
    farthest = np.maximum(np.abs(low).view(np.uint64), np.abs(high).view(np.uint64))  # -2**63 becomes 2**63
    fits = farthest <= _LARGEST // values.view(np.uint64)
    within = (values * np.where(fits, low, 0) <= total) & (total <= values * np.where(fits, high, 0))
    return np.asarray((count > 0) & fits & within, np.bool_)


def _unscaled(value: Decimal | int | None, scale: int) -> int | None:
    """A decimal in units of 10**-scale. None if it has more than ``scale`` fraction digits."""
    if value is None:
        return None
    number = Decimal(value)
    if not number.is_finite() or number.adjusted() > 80 or len(number.as_tuple().digits) > 80:
        return None
    scaled = number.scaleb(scale, _EXACT)
    whole = int(scaled)
    return whole if whole == scaled else None
