"""Converts literals exactly to the physical domain of a column.

``point_of`` returns the two values of the domain that enclose the literal. Both are the same value if the literal
itself is a value of the domain. For an integer column, ``1.5`` gives ``Point(1, 2)``, and ``x < 1.5`` is bound as
``x <= 1``. Only literals that are compared with a float column are converted to double.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.nodes import DAY_NANOS, EQUALITIES, NANOS, BoundLeaf, Domain, Op, show_literal

__all__ = ["NAN_POINT", "Point", "domain_of", "equal_bytes", "parse_time", "point_of", "scaled_floor", "stored_range"]


class Point(NamedTuple):
    """The largest value of the domain that is not above the literal, and the smallest value that is not below it.

    In domains without infinities, ``-inf`` means "below every value" and ``inf`` means "above every value".
    """

    below: Any
    above: Any

    @property
    def exact(self) -> bool:
        """Whether the literal is itself a value of the domain."""
        return bool(self.below == self.above) and not (isinstance(self.below, float) and math.isinf(self.below))


NAN_POINT = Point(math.nan, math.nan)
_NUMPY_NANOS = {**NANOS, "m": 60 * NANOS["s"], "h": 3_600 * NANOS["s"], "D": DAY_NANOS, "W": 7 * DAY_NANOS}
_NUMPY_FINER = {"ps": 1_000, "fs": 1_000_000, "as": 1_000_000_000}
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TEXT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)

_DOMAINS = (
    (pa.types.is_boolean, Domain.BOOL),
    (pa.types.is_integer, Domain.INT),
    (pa.types.is_floating, Domain.FLOAT),
    (pa.types.is_date, Domain.DATE),
    (pa.types.is_time, Domain.TIME),
    (pa.types.is_timestamp, Domain.TIMESTAMP),
    (pa.types.is_null, Domain.NULL),
)


def domain_of(kind: pa.DataType) -> Domain:
    """The domain of an Arrow type. The result is ``NESTED`` for types that can only be tested for null."""
    while isinstance(kind, (pa.DictionaryType, pa.RunEndEncodedType)):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType):
        return domain_of(kind.storage_type)
    for belongs, domain in _DOMAINS:
        if belongs(kind):
            return domain
    if pa.types.is_decimal(kind):
        return Domain.NESTED if kind.bit_width > 128 else Domain.DECIMAL
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return Domain.STRING
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(kind):
        return Domain.BINARY
    return Domain.NESTED


def point_of(value: Any, kind: pa.DataType, domain: Domain, *, column: str) -> Point:
    """Returns the position of the literal among the values of a column of Arrow type ``kind``. The result is
    ``NAN_POINT`` for a NaN.

    Raises ``InvalidQuery`` if the literal cannot have the column's type. The error names the column, the literal and
    both types.
    """
    point = _CONVERTERS[domain](value, kind)
    if point is None:
        text = f"{column} is of type {kind} and cannot be compared with {show_literal(value)} ({type(value).__name__})"
        raise InvalidQuery(text + _hint(value, kind, domain), column=column)
    return point


def _hint(value: Any, kind: pa.DataType, domain: Domain) -> str:
    if domain is Domain.TIMESTAMP and isinstance(value, (datetime.date, np.datetime64, ExactTime, str)):
        wanted = "a time with a zone" if kind.tz else "a time without a zone"
        return f"; the column needs {wanted}"
    if domain in (Domain.DATE, Domain.TIMESTAMP) and isinstance(value, str):
        return "; a text must be an ISO 8601 date or time"
    return ""


# ---------------------------------------------------------------------- numbers


def _number(value: Any) -> Any:
    """The literal as int, finite Decimal, or float (only NaN and ±inf). The result is None if the literal is not a
    number. A bool is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return decimal.Decimal(value) if math.isfinite(value) else value
    if isinstance(value, decimal.Decimal):
        return value if value.is_finite() else float(value)
    return None


def _to_int(value: Any, kind: pa.DataType) -> Point | None:
    number = _number(value)
    if number is None:
        return None
    if isinstance(number, int):
        return Point(number, number)
    if isinstance(number, float):
        return NAN_POINT if math.isnan(number) else Point(number, number)
    # A number with more than 81 digits before the decimal point is outside the range of every column. Without this
    # check, a hostile literal such as 1E+999999999 would be written out digit by digit.
    if number.adjusted() > 80:
        return Point(math.inf, math.inf) if number > 0 else Point(-math.inf, -math.inf)
    if number.adjusted() < 0:
        below = -1 if number < 0 else 0
        return Point(below, below + 1) if number else Point(0, 0)
    below = math.floor(number)
    return Point(below, below + (below != number))


def _to_decimal(value: Any, kind: pa.DataType) -> Point | None:
    number = _number(value)
    if number is None:
        return None
    if isinstance(number, float):
        return NAN_POINT if math.isnan(number) else Point(number, number)
    number = decimal.Decimal(number)
    return Point(number, number)


def _to_float(value: Any, kind: pa.DataType) -> Point | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return None
    if isinstance(value, int):
        return _around(value)
    # A decimal is rounded to the nearest double, as in every SQL engine, so the decimal 0.1 equals the double 0.1.
    nearest = float(value)
    return NAN_POINT if math.isnan(nearest) else Point(nearest, nearest)


def _around(value: int) -> Point:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if nearest == value:
        return Point(nearest, nearest)
    if nearest > value:
        return Point(math.nextafter(nearest, -math.inf), nearest)
    return Point(nearest, math.nextafter(nearest, math.inf))


def _to_bool(value: Any, kind: pa.DataType) -> Point | None:
    return Point(value, value) if isinstance(value, bool) else None


# ---------------------------------------------------------------------- bytes


def _to_string(value: Any, kind: pa.DataType) -> Point | None:
    if not isinstance(value, str):
        return None
    try:
        encoded = value.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded in UTF-8
        return None
    return Point(encoded, encoded)


def _to_binary(value: Any, kind: pa.DataType) -> Point | None:
    return Point(value, value) if isinstance(value, bytes) else None


# ---------------------------------------------------------------------- times


def _split(nanos: int, unit: int) -> Point:
    below, rest = divmod(nanos, unit)
    return Point(below, below + (rest != 0))


def _instant(value: Any) -> tuple[int, int, bool] | None:
    """Returns three values for a time literal: the largest nanosecond not above it, the smallest nanosecond not below
    it, and whether the literal has a zone. Returns None for other literals."""
    if isinstance(value, str):
        parsed = parse_time(value)
        return None if parsed is None else (parsed[0], parsed[0], parsed[1])
    if isinstance(value, datetime.datetime):
        aware = value.tzinfo is not None and value.utcoffset() is not None
        since = value - (_EPOCH_UTC if aware else _EPOCH)
        # pandas' Timestamp is a datetime with an additional attribute for nanoseconds.
        whole = (since.days * 86_400 + since.seconds) * NANOS["s"] + since.microseconds * 1_000
        nanos = whole + int(getattr(value, "nanosecond", 0))
        return nanos, nanos, aware
    if isinstance(value, datetime.date):
        nanos = (value - _EPOCH.date()).days * DAY_NANOS
        return nanos, nanos, False
    if isinstance(value, np.datetime64):
        return _of_numpy(value)
    if isinstance(value, ExactTime) and not value.of_day:
        return value.nanos, value.nanos, value.zone is not None
    return None


def _of_numpy(value: np.datetime64) -> tuple[int, int, bool]:
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    ticks = int(value.astype(np.int64)) * step
    if unit in _NUMPY_FINER:
        below, above = _split(ticks, _NUMPY_FINER[unit])
        return below, above, False
    nanos = ticks * _NUMPY_NANOS[unit]
    return nanos, nanos, False


def parse_time(text: str) -> tuple[int, bool] | None:
    """Converts ISO 8601 text to nanoseconds since 1970-01-01. Also returns whether the text names a zone. Returns None
    for other texts."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    *fields, fraction, zone = match.groups()
    try:
        moment = datetime.datetime(*(int(field or 0) for field in fields))  # type: ignore[arg-type]
    except ValueError:
        return None
    nanos = int((moment - _EPOCH).total_seconds()) * NANOS["s"] + int((fraction or "").ljust(9, "0"))
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * NANOS["s"]
        nanos -= offset if zone[0] == "+" else -offset
    return nanos, zone is not None


def _to_date(value: Any, kind: pa.DataType) -> Point | None:
    instant = _instant(value)
    if instant is None or instant[2]:
        return None
    return Point(_split(instant[0], DAY_NANOS).below, _split(instant[1], DAY_NANOS).above)


def _to_timestamp(value: Any, kind: pa.DataType) -> Point | None:
    instant = _instant(value)
    if instant is None or instant[2] != (kind.tz is not None):
        return None
    return Point(instant[0], instant[1])


def _to_time(value: Any, kind: pa.DataType) -> Point | None:
    if isinstance(value, datetime.time) and value.tzinfo is None:
        seconds = value.hour * 3_600 + value.minute * 60 + value.second
        nanos = seconds * NANOS["s"] + value.microsecond * 1_000
        return Point(nanos, nanos)
    if isinstance(value, ExactTime) and value.of_day:
        return Point(value.nanos, value.nanos)
    return None


def _to_nothing(value: Any, kind: pa.DataType) -> Point | None:
    return None


_CONVERTERS = {
    Domain.BOOL: _to_bool,
    Domain.INT: _to_int,
    Domain.DECIMAL: _to_decimal,
    Domain.FLOAT: _to_float,
    Domain.STRING: _to_string,
    Domain.BINARY: _to_binary,
    Domain.DATE: _to_date,
    Domain.TIME: _to_time,
    Domain.TIMESTAMP: _to_timestamp,
    Domain.NULL: _to_nothing,
    Domain.NESTED: _to_nothing,
}


def equal_bytes(leaf: BoundLeaf) -> tuple[bytes, ...] | None:
    """The literals, if the leaf is TRUE exactly for the strings that have the bytes of a literal. The result is None
    for any other leaf. Trailing spaces of CHAR values do not count, so such a leaf gives None."""
    if leaf.op not in EQUALITIES or leaf.negated or leaf.char_length is not None:
        return None
    return leaf.literals if leaf.domain in (Domain.STRING, Domain.BINARY) else None


def stored_range(leaf: BoundLeaf, kind: pa.DataType) -> tuple[list[int] | None, int | None, int | None]:
    """The leaf as (points, low, high), in the integers that an array of type ``kind`` stores. If ``points`` is None,
    ``low`` and ``high`` are the ends of a closed range. An end that is None means that the range has no end there."""
    # ``split`` returns the largest stored integer that is not above a literal, and whether it equals the literal. If
    # ``split`` is None, the array stores the literals themselves.
    split: Callable[[Any], tuple[int, bool]] | None = None
    if pa.types.is_decimal(kind):
        split = functools.partial(scaled_floor, scale=kind.scale)
    elif leaf.domain in (Domain.TIME, Domain.TIMESTAMP):
        unit = NANOS[kind.unit]
        split = lambda nanos: (nanos // unit, nanos % unit == 0)  # noqa: E731
    if split is None and leaf.op in EQUALITIES:
        return list(leaf.literals), None, None
    ends = [(value, True) if split is None else split(value) for value in leaf.literals]
    if leaf.op in EQUALITIES:
        return [value for value, exact in ends if exact], None, None
    at_least = ends[0][0] if ends[0][1] else ends[0][0] + 1
    if leaf.op in (Op.LT, Op.LE):
        return None, None, at_least - 1 if leaf.op is Op.LT else ends[0][0]
    if leaf.op in (Op.GT, Op.GE):
        return None, ends[0][0] + 1 if leaf.op is Op.GT else at_least, None
    return None, at_least, ends[1][0]


def scaled_floor(literal: float | decimal.Decimal, scale: int) -> tuple[int, bool]:
    """The floor of literal * 10**scale, and whether the result is exact. Very large exponents are limited to
    10**100."""
    if isinstance(literal, int):
        return literal * 10**scale, True
    number = decimal.Decimal(literal)
    if number == 0:
        return 0, True
    if not number.is_finite() or number.adjusted() > 100:
        return (-(10**100) if number < 0 else 10**100), False
    sign, digits, exponent = number.as_tuple()
    whole = int(decimal.Decimal((sign, digits, 0)))
    shift = int(exponent) + scale
    if shift >= 0:
        return whole * 10**shift, True
    if -shift > len(digits) + 1:
        return (-1 if whole < 0 else 0), False
    floor, rest = divmod(whole, 10**-shift)
    return floor, rest == 0
