"""Which statistics are values: counts, sums, minima and maxima that equal those of the rows as they are read.

A bound that is right for pruning need not be a value of the column, and a recorded sum need not be the sum of what is
stored. ``stored_totals`` says of each unit what is proved, and nothing where it is not:

* a count where ``bounds`` trusts it;
* a sum of integers where both bounds lie in the range of the type, no intermediate sum can have overflowed, and the sum
  lies between ``count * minimum`` and ``count * maximum``. ORC C++ given 70000 for a smallint records that number and
  stores 4464;
* a sum of decimals likewise, but of no file of ORC Java: 1.9.8 to 2.3.0 add a repeated vector once, and such a sum may
  pass every test of plausibility;
* no sum of floats: Java's have the same defect, and any is rounded in an order that nobody knows;
* minima and maxima of integers, truth values, decimals, floats without NaN, dates of the proleptic calendar, and whole
  strings. Not of timestamps (cut to milliseconds, moved by zones, and loose in files of orcidx), CHAR (padded) and
  VARCHAR (may be cut).

Only ORC Java and ORC C++, whose number orcidx writes too, are believed at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from orcidx.options import ReadOptions
from orcidx.orc.bounds import StatisticsColumn, bound_statistics
from orcidx.orc.decimal_text import read_decimal
from orcidx.orc.kinds import TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.statistics import RawStatistics
from orcidx.orc.types import decimal_digits, reads_as_timestamp

if TYPE_CHECKING:
    from orcidx.orc.wire import Int64s

__all__ = ["StoredTotals", "stored_totals"]

_BELIEVED = (WriterKind.JAVA, WriterKind.CPP)
_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG)
_FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE)
_TEXTS = (TypeKind.STRING,)
_SAFE = 1 << 63
_EXACT = Context(prec=200)
"""Of recorded decimals, which have 38 digits at most; a longer one is not believed."""


@dataclass(frozen=True, eq=False)
class StoredTotals:
    """What is proved of one column in each of n units.

    ``count``: values that are not null, -1 unknown. ``sums``: Python integers, of decimals in units of their scale;
    ``minima``, ``maxima``: int, float, Decimal or bytes; each None where it is not proved.
    """

    rows: Int64s
    count: Int64s
    sums: list[int | None]
    minima: list[Any]
    maxima: list[Any]


def stored_totals(raw: RawStatistics, facts: FileFacts, options: ReadOptions) -> StoredTotals:
    """The totals that the statistics of a column prove. Raises ``CorruptFile`` for damaged ones."""
    units = len(raw)
    nothing: list[Any] = [None] * units
    if facts.writer not in _BELIEVED or reads_as_timestamp(raw.node, options):
        return StoredTotals(raw.rows, np.full(units, -1, np.int64), nothing, nothing, nothing)
    bounded = bound_statistics(raw, facts, options)
    minima, maxima = _attained(raw, bounded, facts, options)
    sums = nothing
    if raw.node.kind in _INTEGERS:
        sums = _integer_sums(raw, bounded)
    elif raw.node.kind is TypeKind.DECIMAL and facts.writer is not WriterKind.JAVA:
        scale = decimal_digits(raw.node, options)[1]
        sums = [_decimal_sum(raw, bounded, unit, scale) for unit in range(units)]
    return StoredTotals(raw.rows, bounded.count, sums, minima, maxima)


# ---------------------------------------------------------------------- minima and maxima


def _attained(
    raw: RawStatistics, column: StatisticsColumn, facts: FileFacts, options: ReadOptions
) -> tuple[list[Any], list[Any]]:
    """The least and the greatest value of each unit, where a value surely equals it."""
    kind = raw.node.kind
    if not (
        kind in _INTEGERS
        or kind in _FLOATS
        or kind in (TypeKind.BOOLEAN, TypeKind.DECIMAL)
        or (kind is TypeKind.DATE and not facts.hybrid_calendar)
        or (kind in _TEXTS and options.utf8 == "strict")
    ):
        return [None] * len(raw), [None] * len(raw)
    both = column.lower.exact & column.upper.exact & ~column.may_nan & (column.count > 0)
    sides: list[list[Any]] = []
    for bounds in (column.lower, column.upper):
        found = bounds.at(np.arange(len(raw)))
        sides.append([value if known else None for value, known in zip(found, both.tolist())])
    if kind in _FLOATS:
        return _positive_zeros(sides[0]), _positive_zeros(sides[1])
    if kind in _TEXTS:
        return _whole_text(sides[0]), _whole_text(sides[1])
    return sides[0], sides[1]


def _positive_zeros(values: list[Any]) -> list[Any]:
    return [None if value is None else value + 0.0 for value in values]


def _whole_text(values: list[Any]) -> list[Any]:
    """Those that are UTF-8: what is not is an error where it is read."""
    return [value if value is not None and _is_utf8(value) else None for value in values]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# ---------------------------------------------------------------------- sums


def _integer_sums(raw: RawStatistics, column: StatisticsColumn) -> list[int | None]:
    """All at once: a file has thousands of row groups."""
    every = np.arange(len(raw))
    sums: list[int | None] = []
    for is_empty, is_told, count, total, low, high in zip(
        ((column.count == 0) & column.all_null).tolist(),
        (raw.has(3) & column.lower.valid & column.upper.valid).tolist(),
        column.count.tolist(),
        raw.arrays["integers"][2].tolist(),
        column.lower.at(every),
        column.upper.at(every),
    ):
        sums.append(0 if is_empty else total if is_told and _is_plausible(total, count, low, high) else None)
    return sums


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


def _is_plausible(total: int, count: int, low: int, high: int) -> bool:
    """Whether a sum of 64 bits can be that of so many values, and no order of additions overflowed."""
    return count > 0 and count * max(abs(low), abs(high)) < _SAFE and count * low <= total <= count * high


def _unscaled(value: Decimal | int | None, scale: int) -> int | None:
    """A decimal in units of 10**-scale, None where it has finer digits."""
    if value is None:
        return None
    number = Decimal(value)
    if not number.is_finite() or number.adjusted() > 80 or len(number.as_tuple().digits) > 80:
        return None
    scaled = number.scaleb(scale, _EXACT)
    whole = int(scaled)
    return whole if whole == scaled else None
