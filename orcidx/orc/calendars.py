"""Converts days of the hybrid calendar: Julian dates before 1582-10-15, Gregorian dates from then on.

By default, Java's writers store the number of a day in the hybrid calendar. For a day before 1582-10-15 this number
stands for a Julian date. Arrow needs the number that stands for the same date in the proleptic Gregorian calendar. For
example, 1500-01-01 is day -171655 in the hybrid calendar and day -171664 in the proleptic calendar.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["GREGORIAN_START", "gregorian_day", "hybrid_days", "proleptic_days"]

GREGORIAN_START = -141427
"""1582-10-15 in days since 1970-01-01. The day before it was 1582-10-04 in the Julian calendar."""

EPOCH_JULIAN_DAY = 2440588
"""The Julian day number of 1970-01-01."""

Int64s = npt.NDArray[np.int64]
Number = TypeVar("Number", int, npt.NDArray[np.int64])


def proleptic_days(days: npt.NDArray[np.integer[Any]]) -> Int64s:
    """Converts days of the hybrid calendar to the days with the same date in the proleptic Gregorian calendar. The
    order is kept."""
    result = np.array(days, np.int64)
    old = result < GREGORIAN_START
    if old.any():
        result[old] = gregorian_day(*_julian_label(result[old]))
    return result


def hybrid_days(day: int) -> list[int]:
    """All hybrid days that are read as this proleptic day. Usually there is one such day. There is none for the ten
    days that the switch left out. There are two if the date is a leap day only in the Julian calendar."""
    if day >= GREGORIAN_START:
        return [day]
    start = int(_julian_day(*_gregorian_label(np.array([day], np.int64)))[0])
    near = np.arange(start - 1, min(start + 2, GREGORIAN_START), dtype=np.int64)
    return [int(candidate) for candidate in near[proleptic_days(near) == day]]


def _label(count: Int64s, years: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Year, month and day of the day that is ``count`` days after 1 March of the year -4800. ``years`` is added to the
    year."""
    cycle = (4 * count + 3) // 1461
    rest = count - 1461 * cycle // 4
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    return cycle - 4800 + month // 10 + years, month + 3 - 12 * (month // 10), day


def _julian_label(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    return _label(days + EPOCH_JULIAN_DAY + 32082, np.zeros_like(days))


def _gregorian_label(days: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    count = days + EPOCH_JULIAN_DAY + 32044
    century = (4 * count + 3) // 146097
    return _label(count - 146097 * century // 4, 100 * century)


def _march_days(year: Number, month: Number, day: Number) -> tuple[Number, Number]:
    """Returns the number of years since the year -4800, and a day number that does not count leap days yet. A year
    begins in March."""
    early = (14 - month) // 12
    years = year + 4800 - early
    return years, day + (153 * (month + 12 * early - 3) + 2) // 5 + 365 * years - EPOCH_JULIAN_DAY


def _julian_day(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    years, days = _march_days(year, month, day)
    return days + years // 4 - 32083


def gregorian_day(year: Number, month: Number, day: Number) -> Number:
    """The day with this date in the proleptic Gregorian calendar, in days since 1970-01-01. The year must be at least
    -4799."""
    years, days = _march_days(year, month, day)
    return days + years // 4 - years // 100 + years // 400 - 32045
