"""Derives bounds of the values of one column from statistics, as far as the writer can be trusted. There are bounds for
each unit. A unit is the file, a stripe or a row group.

``bound_statistics`` makes a ``StatisticsColumn`` from raw statistics of any level. A ``StatisticsColumn`` has lower and
upper bounds that hold for every value that a read returns. It also says whether there are nulls and NaN, and has the
reasons why bounds are missing. A bound that cannot be trusted is left out. No bound is tighter than the file's
statistics prove. The rules come from HIVE-8732 (early Java writers), ORC-135 (timestamps), ORC-517 (short decimals),
HIVE-20604 (statistics with neither values nor nulls) and ORC-1796 (absent hasNull).

Statistics describe the values that the writer received, but reads return the values that the writer stored. If the
writer converts values when it stores them, the bounds are changed to hold for the stored values (``_integers``,
``_doubles``, ``_strings``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile
from orcidx.options import ValueOptions
from orcidx.orc.bound_values import INT64_MAX, INT64_MIN, Bools, BytesBounds, NumberBounds, TypedBounds
from orcidx.orc.calendars import GREGORIAN_START, proleptic_days
from orcidx.orc.decimal_text import read_decimal
from orcidx.orc.kinds import TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts, FileTail
from orcidx.orc.spans import order_spans, parse_decimals, spans_with_byte
from orcidx.orc.statistics import (
    MILLIS_PER_DAY,
    NANOS_PER_MILLI,
    PARTS,
    Level,
    RawStatistics,
    file_statistics,
    timestamp_bounds,
)
from orcidx.orc.timezones import CALM_FROM, CALM_UNTIL, FARTHEST_ZONE, Zone, clock_zone
from orcidx.orc.types import STRING_KINDS, TIMESTAMP_KINDS, OrcType, decimal_digits, reads_as_timestamp
from orcidx.orc.wire import TypedPart
from orcidx.predicate.literals import scaled_floor
from orcidx.pruning.bounds import successor

if TYPE_CHECKING:
    from orcidx.orc.wire import Int64s

__all__ = [
    "INTEGER_RANGES",
    "BytesBounds",
    "NumberBounds",
    "StatisticsColumn",
    "TypedBounds",
    "bound_statistics",
    "distrust",
    "within_nanoseconds",
]

INTEGER_RANGES = {
    TypeKind.BYTE: (-(1 << 7), (1 << 7) - 1),
    TypeKind.SHORT: (-(1 << 15), (1 << 15) - 1),
    TypeKind.INT: (-(1 << 31), (1 << 31) - 1),
    TypeKind.DATE: (-(1 << 31), (1 << 31) - 1),
    TypeKind.LONG: (INT64_MIN, INT64_MAX),
}
"""Values beyond these limits wrap around when they are read, so bounds beyond the limits are useless."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StatisticsColumn:
    """The facts that statistics prove about one column in each of n units.

    ``may_null``: a row may be null, for example because an enclosing struct is null. ``all_null``: every row is null.
    ``may_nan``: a value may be NaN, and the bounds then hold for the other values. ``reasons``: each reason why
    statistics were not trusted, and the units to which it applies. ``distrusted``: the reason why the column has no
    bounds at this level.
    """

    node: OrcType
    level: Level
    rows: Int64s
    count: Int64s
    """The number of values that are not null. -1: unknown."""
    may_null: Bools
    all_null: Bools
    may_nan: Bools
    lower: TypedBounds
    upper: TypedBounds
    distrusted: str | None
    reasons: tuple[tuple[str, Bools], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def reason(self, unit: int) -> str | None:
        """The reason why the unit's bounds are not trusted. None if the unit has bounds, or if its bounds are missing
        for another reason."""
        return self.distrusted or next((reason for reason, units in self.reasons if units[unit]), None)


WRONG_STATISTICS = "this writer's statistics of stripes and files are wrong (HIVE-8732)"
OTHER_ROWS = "rows inside a list, map or union are not the rows of the file"


def distrust(node: OrcType, level: Level, facts: FileFacts, options: ValueOptions) -> str | None:
    """The reason why minima and maxima of this column cannot be used at this level. None if they can be used."""
    java = facts.writer == WriterKind.JAVA
    if node.kind in TIMESTAMP_KINDS and java and facts.writer_version < 6:
        return "the writer stored timestamps in its local time (ORC-135)"
    if node.kind is TypeKind.TIMESTAMP and options.timezone is not None:
        return "with the option timezone, timestamps differ from their statistics"
    if node.kind is TypeKind.DECIMAL and java and facts.writer_version == 6 and 0 < node.precision <= 18:
        return "this writer's minima and maxima of short decimals are wrong (ORC-517)"
    if java and facts.writer_version == 0 and level != "row_group" and node.kind in _HIVE_8732:
        return WRONG_STATISTICS
    return None


_HIVE_8732 = STRING_KINDS | {
    TypeKind.DATE,
    TypeKind.DECIMAL,
    TypeKind.TIMESTAMP,
    TypeKind.TIMESTAMP_INSTANT,
    TypeKind.BINARY,
    TypeKind.BOOLEAN,
}


def bound_statistics(
    raw: RawStatistics,
    facts: FileFacts,
    options: ValueOptions,
    *,
    repeated: bool = False,
    zone: Zone | None = None,
) -> StatisticsColumn:
    """Makes the ``StatisticsColumn`` of a column from its raw statistics. ``repeated``: whether the column is below a
    list, map or union. The statistics of such a column prove nothing, because its rows are not rows of the file.
    ``zone``: the writer's time zone, from the footers of the stripes (``timezones.zone_of_statistics``). Without a
    zone, bounds of timestamps are a day wider."""
    return raw.derived("bounds", (facts, options, repeated, zone), _bound)


def _bound(
    raw: RawStatistics, facts: FileFacts, options: ValueOptions, repeated: bool, zone: Zone | None
) -> StatisticsColumn:
    distrusted = distrust(raw.node, raw.level, facts, options)
    if repeated:
        distrusted = OTHER_ROWS
    lower, upper = _BUILDERS.get(PARTS.get(raw.node.kind, TypedPart.NOTHING), _no_bounds)(raw, facts, options, zone)
    count, has_null, rows = raw.arrays["count"], raw.arrays["has_null"], raw.rows
    empty = count == 0
    impossible_nulls = empty & (has_null == 0) & (rows > 0)
    too_many = count > rows
    crossed = lower.valid & upper.valid & ~empty & _crossed(lower, upper)
    nan_seen, may_nan = _nan_facts(raw)
    reasons = (
        ("there is neither a value nor a null, which is impossible (HIVE-20604)", impossible_nulls),
        ("there are more values than rows", too_many),
        ("the minimum is above the maximum", crossed),
        ("a value is NaN", nan_seen),
    )
    broken = impossible_nulls | too_many
    if distrusted in (WRONG_STATISTICS, OTHER_ROWS):
        broken[:] = True
    kept = ~(broken | crossed | empty)
    if distrusted is not None:
        kept[:] = False
    return StatisticsColumn(
        node=raw.node,
        level=raw.level,
        rows=rows,
        count=np.where(broken, -1, count),
        may_null=broken | (has_null == 1) | (count != rows),
        all_null=empty & (has_null != 0) & ~broken,
        may_nan=may_nan,
        lower=lower.where(kept),
        upper=upper.where(kept),
        distrusted=distrusted,
        reasons=tuple([one for one in reasons if one[1].any()]),
    )


def _crossed(lower: TypedBounds, upper: TypedBounds) -> Bools:
    if isinstance(lower, BytesBounds) and isinstance(upper, BytesBounds):
        return order_spans(lower.buffer, lower.spans, upper.buffer, upper.spans) > 0
    assert isinstance(lower, NumberBounds)
    assert isinstance(upper, NumberBounds)
    return np.asarray(lower.values > upper.values, np.bool_)


def _nan_facts(raw: RawStatistics) -> tuple[Bools, Bools]:
    """Two masks: the units whose statistics show a NaN, and the units that may have a NaN. Only a sum that is not NaN
    proves that there is no NaN."""
    if PARTS.get(raw.node.kind) != TypedPart.DOUBLE:
        return (nothing := np.zeros(len(raw), np.bool_)), nothing
    seen = _nan_seen(raw)
    without = raw.has(3) & ~seen
    return seen, np.asarray(~without & (raw.arrays["count"] != 0), np.bool_)


def _nan_seen(raw: RawStatistics) -> Bools:
    return np.asarray(np.isnan(raw.arrays["doubles"]).any(axis=0), np.bool_)


# Functions that compute bounds, by kind of statistics

Pair = tuple[TypedBounds, TypedBounds]


def _no_bounds(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    return _numbers(*(np.zeros(len(raw), np.int64),) * 2, valid=np.zeros(len(raw), np.bool_))


def _numbers(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any], *, valid: Bools, scale: int = 0) -> Pair:
    return (
        NumberBounds(minimum, valid.copy(), valid.copy(), scale),
        NumberBounds(maximum, valid.copy(), valid.copy(), scale),
    )


def _integers(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    minimum, maximum = raw.arrays["integers"][0], raw.arrays["integers"][1]
    low, high = INTEGER_RANGES[raw.node.kind]
    valid = raw.has(1, 2) & (minimum >= low) & (maximum <= high)
    if reads_as_timestamp(raw.node, options):
        return _numbers(*(_multiplied(values, 1000) for values in (minimum, maximum)), valid=valid)
    return _numbers(minimum, maximum, valid=valid)


def _dates(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    lower, upper = _integers(raw, facts, options, zone)
    if not facts.moves_days(options):
        return lower, upper
    days = [np.where(lower.valid, raw.arrays["integers"][i], 0) for i in (0, 1)]
    return _numbers(*map(proleptic_days, days), valid=lower.valid)


def _doubles(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    """If a minimum, maximum or sum is NaN, Java's bounds depend on the order of the values. So these bounds are not
    used.

    ORC C++ computes statistics from the doubles that it receives, but stores FLOAT values rounded. So the bounds are
    rounded, too. Rounding keeps the order, so the least value is still the least.
    """
    doubles = raw.arrays["doubles"]
    if raw.node.kind is TypeKind.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            doubles = doubles.astype(np.float32).astype(np.float64)
    return _numbers(doubles[0], doubles[1], valid=raw.has(1, 2) & ~_nan_seen(raw))


def _buckets(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    true, count = raw.arrays["integers"][0], raw.arrays["count"]
    valid = raw.has(1) & (true >= 0) & (true <= count)
    return _numbers((true == count).astype(np.int64), (true != 0).astype(np.int64), valid=valid)


def _strings(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    """The minimum and maximum of each unit. If they were truncated, the bounds in the file are used instead. Such
    bounds need not be values of the column. Java's first writers compared UTF-16 units. In that order, characters
    beyond the BMP come before U+E000 to U+FFFF."""
    java = facts.writer == WriterKind.JAVA
    sides = []
    for whole, cut, wrong_order in ((1, 4, (0xF0, 0xFF)), (2, 5, (0xEE, 0xEF))):
        exact = raw.has(whole)
        valid = exact | raw.has(cut)
        spans = np.where(exact[:, None], raw.arrays["spans"][whole - 1], raw.arrays["spans"][cut - 1])
        if java and facts.writer_version == 0:
            valid &= ~spans_with_byte(raw.buffer, spans, *wrong_order)
        if options.utf8 == "replace":
            # Bytes that are not UTF-8 are read as U+FFFD, which sorts differently from the stored bytes. So bounds with
            # bytes that are not ASCII are not used.
            valid &= ~spans_with_byte(raw.buffer, spans, 0x80, 0xFF)
        bounds = BytesBounds(raw.buffer, spans, valid, exact & valid)
        merged = raw.level != "row_group" and facts.writer_version < ORC_203
        sides.append(_as_given(bounds, is_upper=whole == 2, merged=merged) if java else bounds)
    lower, upper = sides
    if raw.node.kind is TypeKind.CHAR:
        return _padded(lower, _cut_lower), _padded(upper, _raised_upper)
    return lower, upper


_REPLACEMENT, _AFTER_REPLACEMENT = "\ufffd".encode(), "\ufffe".encode()
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_FROM_REPLACEMENT = re.compile(rb"\xef\xbf[\xbd-\xbf]|[\xf0-\xff]")
ORC_203 = 8
"""The first version of Java's writer that merges statistics as bytes."""


def _as_given(bounds: BytesBounds, *, is_upper: bool, merged: bool) -> BytesBounds:
    """Corrects bounds that Java has decoded. Java compares and truncates bytes. It then decodes the bound as UTF-8 to
    store it. Bytes that cannot be decoded become U+FFFD. The successors of U+10FFFF and of U+FFFE become U+FFFD, too.
    So the text is known only up to the first U+FFFD. If the last character of a truncated upper bound could not be
    decoded, the bound ends in the successor of U+FFFD, which is U+FFFE.

    ``merged``: whether the unit is a stripe or file written before ORC-203. Such writers decoded bounds when they
    merged the bounds of row groups. A bound that could not be decoded was compared as U+FFFD with other bounds, and the
    wrong bound may have been chosen. For a minimum this happens if the other bound has a byte above ASCII. For a
    maximum this happens if the other bound has a character above U+FFFD. The remaining text may then belong to another
    row group.
    """
    if _REPLACEMENT not in bounds.buffer and _AFTER_REPLACEMENT not in bounds.buffer and not merged:
        return bounds
    known: dict[int, bytes] = {}
    leads = ((0xEF, 0xFF) if is_upper else (0x80, 0xFF)) if merged else (0xEF, 0xEF)
    for unit in np.flatnonzero(bounds.valid & spans_with_byte(bounds.buffer, bounds.spans, *leads)).tolist():
        text = bounds.value(unit) or b""
        places = [text.find(_REPLACEMENT)]
        if merged and (other := (_FROM_REPLACEMENT if is_upper else _NOT_ASCII).search(text)) is not None:
            places.append(other.start())
        if is_upper and not bounds.exact[unit] and text.endswith(_AFTER_REPLACEMENT):
            places.append(len(text) - len(_AFTER_REPLACEMENT))
        if (stop := min((place for place in places if place >= 0), default=None)) is not None:
            known[unit] = text[:stop]
    spans, valid, exact, added = bounds.spans.copy(), bounds.valid.copy(), bounds.exact.copy(), [bounds.buffer]
    end = len(bounds.buffer)
    for unit, start in known.items():
        text = (successor(start) or b"") if is_upper else start
        spans[unit] = end, end + len(text)
        end += len(text)
        added.append(text)
        valid[unit], exact[unit] = bool(text), False
    return BytesBounds(b"".join(added), spans, valid, exact)


def _padded(bounds: BytesBounds, change: Callable[[bytes], bytes]) -> BytesBounds:
    """orcidx compares CHAR values without trailing spaces, but the writer may have compared them with padding. The
    order with padding and the order without spaces differ only for bytes below the space. The bounds are widened for
    such bytes, so they need not be values of the column."""
    texts = [change((bounds.value(unit) or b"").rstrip(b" ")) for unit in range(len(bounds.valid))]
    stops = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate(([0], stops[:-1])).astype(np.int64) if texts else stops
    return BytesBounds(b"".join(texts), np.stack([starts, stops], axis=1), bounds.valid, np.zeros_like(bounds.exact))


def _cut_lower(text: bytes) -> bytes:
    return text[: next((i for i, byte in enumerate(text) if byte < 0x20), len(text))].rstrip(b" ")


def _raised_upper(text: bytes) -> bytes:
    return text + b"!"


def _decimals(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    """The bounds of decimals, rounded outwards to the scale in which the column is read. The values that a read returns
    are rounded to the same scale."""
    _, scale = decimal_digits(raw.node, options)
    lower = _rounded(raw, 1, scale, upwards=False)
    return lower, _rounded(raw, 2, scale, upwards=True)


def _rounded(raw: RawStatistics, number: int, scale: int, *, upwards: bool) -> NumberBounds:
    given = raw.has(number)
    values: npt.NDArray[Any]
    values, known, exact = parse_decimals(raw.buffer, raw.arrays["spans"][number - 1], scale, upwards)
    for unit in np.flatnonzero(given & ~known).tolist():
        value = read_decimal(raw.text(number, unit) or b"")
        if value is not None:
            floor, exact[unit] = scaled_floor(value, scale)
            values = values.astype(object)
            values[unit] = floor + (upwards and not exact[unit])
            known[unit] = True
    return NumberBounds(values, given & known, given & known & exact, scale)


def _timestamps(raw: RawStatistics, facts: FileFacts, options: ValueOptions, zone: Zone | None) -> Pair:
    """Bounds in nanoseconds of local time or of UTC, depending on the column. Presto and Trino write bounds
    that are rounded to milliseconds.

    A value less than a second before the epoch is read as one second later, because writers round seconds towards zero.
    So maxima near the epoch are raised by a second. The local time of the epoch depends on the zone. A maximum is
    treated as near the epoch if it can be the local time of the epoch in any zone. The writer computed local times with
    its own time zone table, and orcidx reads them with another table. So the bounds are widened by the possible
    difference between the two tables.
    """
    lower, upper, utc = timestamp_bounds(raw)
    sides = []
    for (millis, nanos), is_upper in ((lower, False), (upper, True)):
        inexact = np.abs(millis) < 1000 * FARTHEST_ZONE
        coarse = ~raw.has(6 if is_upper else 5)
        if is_upper:
            rounded = facts.writer in (WriterKind.PRESTO, WriterKind.TRINO)
            millis = millis + np.where(inexact, 1000, 0) + (coarse & rounded)
        if facts.hybrid_calendar:
            days, rest = np.divmod(millis, MILLIS_PER_DAY)
            moved = proleptic_days(days) * MILLIS_PER_DAY + rest
            inexact |= days < GREGORIAN_START
            millis = np.maximum(millis, moved) if is_upper else np.minimum(millis, moved)
        if raw.node.kind is TypeKind.TIMESTAMP:
            slack = _clock_slack(millis, zone)
            inexact |= slack != 0
            millis = millis + (slack if is_upper else -slack)
            clock = clock_zone(options)
            if clock is not None and not clock.is_utc:
                inexact |= True
                millis = _instant_bounds(millis, clock, is_upper=is_upper)
        sides.append(NumberBounds(_multiplied(millis, NANOS_PER_MILLI, nanos), utc.copy(), utc & ~inexact & ~coarse))
    return sides[0], sides[1]


def _clock_slack(millis: Int64s, zone: Zone | None) -> Int64s:
    """The largest difference, in milliseconds, between a local time in another time zone table and the same local time
    in the writer's table."""
    if zone is None:
        return np.full_like(millis, MILLIS_PER_DAY)
    if zone.is_fixed:
        return np.zeros_like(millis)
    calm = (millis >= 1000 * CALM_FROM) & (millis < 1000 * CALM_UNTIL)
    return np.where(calm, 1000 * zone.shifts[-1], MILLIS_PER_DAY)


def _instant_bounds(millis: Int64s, zone: Zone, *, is_upper: bool) -> Int64s:
    """Converts bounds of local times to bounds of the instants that have these local times in the zone."""
    farthest = min if is_upper else max
    offsets = [farthest(zone.offsets_near(second)) for second in (millis // 1000).tolist()]
    return millis - 1000 * np.array(offsets, np.int64)


def _multiplied(values: Int64s, factor: int, addend: Int64s | int = 0) -> npt.NDArray[Any]:
    """Computes values * factor + addend. The results are Python ints if int64 is too small. Each addend is less than
    the factor."""
    limit = INT64_MAX // factor - 1
    fits = ((values <= limit) & (values >= -limit)).all()
    return (values if fits else values.astype(object)) * factor + addend


_BUILDERS: dict[TypedPart, Callable[[RawStatistics, FileFacts, ValueOptions, Zone | None], Pair]] = {
    TypedPart.INTEGER: _integers,
    TypedPart.DATE: _dates,
    TypedPart.DOUBLE: _doubles,
    TypedPart.BUCKET: _buckets,
    TypedPart.STRING: _strings,
    TypedPart.DECIMAL: _decimals,
    TypedPart.TIMESTAMP: _timestamps,
}


def within_nanoseconds(tail: FileTail, node: OrcType, options: ValueOptions) -> bool:
    """Whether the file's statistics prove that every timestamp of a column fits into 64 bits of nanoseconds since
    1970."""
    try:
        column = bound_statistics(file_statistics(tail, node), tail.facts, options)
    except CorruptFile:
        return False
    if column.distrusted or len(column) != 1:
        return False
    low, high = column.lower.value(0), column.upper.value(0)
    return isinstance(low, int) and isinstance(high, int) and low >= INT64_MIN and high <= INT64_MAX
