"""Column statistics of a file, its stripes and its row groups. The same code decodes all of these statistics into
arrays.

``RawStatistics`` has the statistics of one column's units. A unit is the file, a stripe or a row group.
``unit_statistics`` makes a Python object for one unit, and ``units_table`` makes an Arrow table for many. ``bounds``
decides whether statistics can be trusted and what they prove.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from html import escape
from operator import is_
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import located
from orcidx.orc.calendars import proleptic_days
from orcidx.orc.decimal_text import read_decimal
from orcidx.orc.metadata import FileTail, TypeKind
from orcidx.orc.types import OrcType
from orcidx.orc.wire import Message, TypedPart, read_statistics

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from orcidx.orc.wire import Int64s, StatisticsArrays

__all__ = [
    "ColumnStatistics",
    "Geospatial",
    "Level",
    "RawStatistics",
    "decode_statistics",
    "file_statistics",
    "stripe_statistics",
    "timestamp_bounds",
    "unit_statistics",
    "units_table",
]

Level = Literal["file", "stripe", "row_group"]
T = TypeVar("T")

PARTS = {
    TypeKind.BOOLEAN: TypedPart.BUCKET,
    TypeKind.BYTE: TypedPart.INTEGER,
    TypeKind.SHORT: TypedPart.INTEGER,
    TypeKind.INT: TypedPart.INTEGER,
    TypeKind.LONG: TypedPart.INTEGER,
    TypeKind.FLOAT: TypedPart.DOUBLE,
    TypeKind.DOUBLE: TypedPart.DOUBLE,
    TypeKind.STRING: TypedPart.STRING,
    TypeKind.VARCHAR: TypedPart.STRING,
    TypeKind.CHAR: TypedPart.STRING,
    TypeKind.BINARY: TypedPart.BINARY,
    TypeKind.DECIMAL: TypedPart.DECIMAL,
    TypeKind.DATE: TypedPart.DATE,
    TypeKind.TIMESTAMP: TypedPart.TIMESTAMP,
    TypeKind.TIMESTAMP_INSTANT: TypedPart.TIMESTAMP,
    TypeKind.LIST: TypedPart.COLLECTION,
    TypeKind.MAP: TypedPart.COLLECTION,
}
"""The typed part of the statistics of each type. A type that is missing here has no part that is decoded into
columns."""

GEOSPATIAL_FIELD = 13
MILLIS_PER_DAY = 86_400_000
NANOS_PER_MILLI = 1_000_000
LAST_NANO = NANOS_PER_MILLI - 1
"""The last nanosecond of a millisecond. An absent ``maximumNanos`` has this value."""
KEPT_UNITS = 1 << 12
"""The maximum number of decoded statistics that are kept with one tail. Each of them is for one column, and for the
file or one stripe. It takes about 256 bytes. The statistics of the column that was decoded last are always kept."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RawStatistics:
    """Statistics of one column for n units. ``rows``: the number of rows of each unit. ``arrays``: the arrays of
    ``wire.read_statistics``. A span in these arrays is a pair (start, stop) of positions in ``buffer``. A unit without
    statistics has count -1, has_null -1 and no fields.

    ``RawStatistics`` objects are kept in the cache of metadata. So values that are computed from them (``derived``) are
    cached as well."""

    node: OrcType
    level: Level
    stripes: Sequence[int | None]
    """The number of the stripe of each unit. None for the file."""
    rows: Int64s
    buffer: bytes
    arrays: StatisticsArrays
    extents: tuple[Int64s, Int64s]
    _derived: dict[str, tuple[tuple[Any, ...], Any]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def derived(self, what: str, asked: tuple[Any, ...], make: Callable[..., T]) -> T:
        """The result of calling ``make`` with these statistics and the arguments in ``asked``. ``what``: the name under
        which the result is kept. If the arguments are the same objects as in the last call, the last result is
        returned. The caller must not change the result."""
        known = self._derived.get(what)
        if known is None or not all(map(is_, known[0], asked)):
            known = self._derived[what] = asked, make(self, *asked)
        found: T = known[1]
        return found

    def has(self, *fields: int) -> npt.NDArray[np.bool_]:
        """Whether the type-specific part of the statistics has all these fields, for each unit."""
        bits = np.uint32(sum(1 << number for number in fields))
        found: npt.NDArray[np.bool_] = (self.arrays["fields"] & bits) == bits
        return found

    def text(self, number: int, unit: int) -> bytes | None:
        """The value of a bytes field in the type-specific part of one unit's statistics."""
        if not self.arrays["fields"][unit] >> np.uint32(number) & 1:
            return None
        start, stop = self.arrays["spans"][number - 1, unit]
        return self.buffer[start:stop]


def decode_statistics(
    node: OrcType,
    level: Level,
    buffer: Buffer,
    extents: tuple[Int64s, Int64s],
    *,
    rows: Int64s,
    stripes: Sequence[int | None],
) -> RawStatistics:
    """Decodes the ColumnStatistics messages at ``extents`` (starts, stops) of the buffer. There is one message for each
    unit.

    Raises ``CorruptFile`` for bytes that are not such a message.
    """
    raw = buffer if isinstance(buffer, bytes) else bytes(buffer)
    with located(column=node.dotted):
        arrays = read_statistics(raw, *extents, PARTS.get(node.kind, TypedPart.NOTHING))
    return RawStatistics(node=node, level=level, stripes=stripes, rows=rows, buffer=raw, arrays=arrays, extents=extents)


def file_statistics(tail: FileTail, node: OrcType) -> RawStatistics:
    """Statistics of a column for the whole file, which is one unit. The statistics of a few columns are cached with the
    tail."""
    return _kept(tail, node, "file", _file_statistics)


def _kept(
    tail: FileTail, node: OrcType, level: Level, decode: Callable[[FileTail, OrcType], RawStatistics]
) -> RawStatistics:
    kept = tail.decoded_statistics
    found: RawStatistics | None = kept.get((level, node.id))
    if found is None or found.node is not node:
        found = decode(tail, node)
        others = tuple(kept.values())  # copied by one call, because other threads may add entries
        if sum(map(len, others)) + len(found) > KEPT_UNITS:
            kept.clear()
        kept[level, node.id] = found
    return found


def _file_statistics(tail: FileTail, node: OrcType) -> RawStatistics:
    rows = np.array([tail.footer.rows], np.int64)
    with located(file=tail.name):
        raw = tail.footer.raw_statistics(node.id)
        extents = np.zeros(1, np.int64), np.array([len(raw)], np.int64)
        return decode_statistics(node, "file", raw, extents, rows=rows, stripes=[None])


def stripe_statistics(tail: FileTail, node: OrcType, *, stripes: Sequence[int] | None = None) -> RawStatistics:
    """Statistics of a column for each of the ``stripes``, or for all stripes by default. A stripe that is missing in
    the Metadata has no statistics.

    For a few columns, the statistics of all stripes are cached with the tail.
    """
    if stripes is not None:
        return _stripe_statistics(tail, node, stripes)
    return _kept(tail, node, "stripe", _stripe_statistics)


def _stripe_statistics(tail: FileTail, node: OrcType, stripes: Sequence[int] | None = None) -> RawStatistics:
    bounds, starts, stops = tail.stripe_statistics
    wanted = np.arange(len(tail.footer.stripes)) if stripes is None else np.array(stripes, np.int64)
    first, last = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    known = np.flatnonzero(wanted < len(bounds) - 1)
    at = bounds[wanted[known]] + node.id
    present = np.flatnonzero(at < bounds[wanted[known] + 1])
    first[known[present]], last[known[present]] = starts[at[present]], stops[at[present]]
    rows = np.array([tail.footer.stripes[number].rows for number in wanted.tolist()], np.int64)
    with located(file=tail.name):
        return decode_statistics(node, "stripe", tail.raw_metadata, (first, last), rows=rows, stripes=wanted.tolist())


def timestamp_bounds(raw: RawStatistics) -> tuple[Any, Any, Any]:
    """The minima and the maxima of timestamps, each as a pair (milliseconds, nanoseconds) of int64 arrays. The third
    result is a mask of the units whose timestamps are in UTC (ORC-135).

    The file stores the number of nanoseconds plus one. If the nanoseconds are absent, 0 is used for the minimum and
    999999 for the maximum. Arrow's C++ writer stores negative nanoseconds before the epoch. If the absolute value of
    the nanoseconds is more than 999999, -999999 is used for the minimum and 999999 for the maximum.
    """
    integers = raw.arrays["integers"]
    utc = raw.has(3, 4)
    pairs = []
    for millis, nanos, absent in ((2, 4, 0), (3, 5, LAST_NANO)):
        within = integers[nanos] - 1
        outermost = LAST_NANO if absent else -LAST_NANO
        within = np.where(np.abs(within) <= LAST_NANO, within, outermost)
        known = raw.has(nanos + 1)
        pairs.append((np.where(utc, integers[millis], integers[millis - 2]), np.where(known, within, absent)))
    return pairs[0], pairs[1], utc


@dataclass(frozen=True)
class Geospatial:
    """``bounds``: the values among xmin, xmax, ymin, ymax, zmin, zmax, mmin and mmax that the file has. ``types``: WKB
    type codes."""

    bounds: dict[str, float] = field(hash=False)
    types: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnStatistics:
    """The statistics that the file has about one column in one unit. A field is None if the file does not have it.

    ``minimum``, ``maximum``: int, float, str, Decimal, date or datetime, depending on the column's type. If Python's
    dates cannot represent the value, it is an int (days or nanoseconds). A datetime is rounded down to microseconds.
    ``minimum_nanos`` and ``maximum_nanos`` are exact. ``minimum`` and ``maximum`` are set only if some value equals
    them. ``lower_bound``, ``upper_bound``: bounds of strings, if the minimum or maximum is too long to be stored
    completely. ``sum``: the sum of numbers, or the total bytes of strings and binaries. Dates of the hybrid calendar
    are given as the same date of the proleptic calendar. ``bytes_on_disk`` and counts of children are plain integers.
    """

    column: str
    column_id: int
    type: str
    level: Level
    rows: int
    stripe: int | None = None
    row_group: int | None = None
    count: int | None = None
    has_null: bool | None = None
    minimum: Any = None
    maximum: Any = None
    minimum_nanos: int | None = None
    maximum_nanos: int | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    sum: int | float | Decimal | None = None
    true_count: int | None = None
    bytes_on_disk: int | None = None
    minimum_children: int | None = None
    maximum_children: int | None = None
    total_children: int | None = None
    geospatial: Geospatial | None = None

    def __repr__(self) -> str:
        known = {field.name: getattr(self, field.name) for field in fields(self)[3:]}
        text = ", ".join(f"{name}={_brief(value)}" for name, value in known.items() if value is not None)
        return f"<ColumnStatistics of {self.column or 'rows'} {_brief(self.type, quote=False)}: {text}>"

    def _repr_html_(self) -> str:
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        lines = (
            f"<tr><th>{name}</th><td>{escape(_brief(value, quote=False))}</td></tr>"
            for name, value in known.items()
            if value is not None
        )
        return f"<table>{''.join(lines)}</table>"


_LONGEST_SHOWN = 60
"""The most characters of a value in a repr."""


def _brief(value: Any, *, quote: bool = True) -> str:
    text = repr(value) if quote and isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def unit_statistics(raw: RawStatistics, unit: int, *, hybrid: bool) -> ColumnStatistics:
    """The statistics of one unit as a Python object. ``hybrid``: whether the file's dates are in the hybrid
    calendar."""
    arrays = raw.arrays
    node = raw.node
    return ColumnStatistics(
        column=node.dotted,
        column_id=node.id,
        type=str(node),
        level=raw.level,
        rows=int(raw.rows[unit]),
        stripe=raw.stripes[unit],
        row_group=unit if raw.level == "row_group" else None,
        count=_known(arrays["count"][unit]),
        has_null=None if arrays["has_null"][unit] < 0 else bool(arrays["has_null"][unit]),
        bytes_on_disk=_known(arrays["bytes_on_disk"][unit]),
        **_typed(raw, unit, hybrid),
    )


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


def _typed(raw: RawStatistics, unit: int, hybrid: bool) -> dict[str, Any]:
    """The fields that are read from the type-specific part of the statistics message."""
    kind = raw.node.kind
    part = PARTS.get(kind, TypedPart.NOTHING)
    if part == TypedPart.STRING:
        numbers = {"minimum": 1, "maximum": 2, "lower_bound": 4, "upper_bound": 5}
        texts = {name: raw.text(number, unit) for name, number in numbers.items()}
        decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items() if text is not None}
        return decoded | _integers(raw, unit, {3: "sum"})
    if part == TypedPart.DECIMAL:
        texts = {name: raw.text(number, unit) for name, number in (("minimum", 1), ("maximum", 2), ("sum", 3))}
        return {name: read_decimal(text) for name, text in texts.items() if text is not None}
    if part == TypedPart.DOUBLE:
        names = ("minimum", "maximum", "sum")
        return {name: float(raw.arrays["doubles"][i, unit]) for i, name in enumerate(names) if raw.has(i + 1)[unit]}
    if part == TypedPart.DATE:
        days = _integers(raw, unit, {1: "minimum", 2: "maximum"})
        return {name: _date(day, hybrid) for name, day in days.items()}
    if part == TypedPart.TIMESTAMP:
        return _timestamps(raw, unit, hybrid)
    if part == TypedPart.COLLECTION:
        return _integers(raw, unit, {1: "minimum_children", 2: "maximum_children", 3: "total_children"})
    if part == TypedPart.BUCKET:
        return _integers(raw, unit, {1: "true_count"})
    if part == TypedPart.BINARY:
        return _integers(raw, unit, {1: "sum"})
    if part == TypedPart.INTEGER:
        return _integers(raw, unit, {1: "minimum", 2: "maximum", 3: "sum"})
    if kind in (TypeKind.GEOMETRY, TypeKind.GEOGRAPHY):
        return {"geospatial": _geospatial(raw, unit)}
    return {}


def _integers(raw: RawStatistics, unit: int, names: dict[int, str]) -> dict[str, int]:
    fields = int(raw.arrays["fields"][unit])
    return {
        name: int(raw.arrays["integers"][number - 1, unit]) for number, name in names.items() if fields >> number & 1
    }


_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()


def _date(day: int, hybrid: bool) -> datetime.date | int:
    if hybrid and abs(day) < 1 << 40:
        day = int(proleptic_days(np.array([day], np.int64))[0])
    ordinal = day + _EPOCH_ORDINAL
    return datetime.date.fromordinal(ordinal) if 1 <= ordinal <= datetime.date.max.toordinal() else day


def _timestamps(raw: RawStatistics, unit: int, hybrid: bool) -> dict[str, Any]:
    zone = datetime.UTC if raw.node.kind is TypeKind.TIMESTAMP_INSTANT else None
    minimum, maximum, utc = timestamp_bounds(raw)
    result: dict[str, Any] = {}
    for name, (millis, nanos), number in (("minimum", minimum, 1), ("maximum", maximum, 2)):
        if not (utc[unit] or raw.has(number)[unit]):
            continue
        days, rest = divmod(int(millis[unit]), MILLIS_PER_DAY)
        if hybrid:
            days = int(proleptic_days(np.array([days], np.int64))[0])
        exact = (days * MILLIS_PER_DAY + rest) * NANOS_PER_MILLI + int(nanos[unit])
        result[f"{name}_nanos"] = exact
        result[name] = _datetime(exact, zone)
    return result


def _datetime(nanos: int, zone: datetime.timezone | None) -> datetime.datetime | int:
    try:
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=nanos // 1000)
    except OverflowError:
        return nanos


def _geospatial(raw: RawStatistics, unit: int) -> Geospatial | None:
    starts, stops = raw.extents
    message = Message(raw.buffer[starts[unit] : stops[unit]], "ColumnStatistics")
    if not message.has(GEOSPATIAL_FIELD):
        return None
    inner = Message(message.blob(GEOSPATIAL_FIELD), "GeospatialStatistics")
    box = Message(inner.blob(1), "BoundingBox")
    names = ("xmin", "xmax", "ymin", "ymax", "zmin", "zmax", "mmin", "mmax")
    bounds = {name: box.double(number) for number, name in enumerate(names, 1)}
    return Geospatial({name: value for name, value in bounds.items() if value is not None}, tuple(inner.uints(2)))


_TABLE = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),
        pa.field("column_id", pa.int32(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("stripe", pa.int32()),
        pa.field("row_group", pa.int32()),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("count", pa.int64()),
        pa.field("has_null", pa.bool_()),
        pa.field("minimum", pa.string()),
        pa.field("maximum", pa.string()),
        pa.field("sum", pa.string()),
        pa.field("minimum_integer", pa.int64()),
        pa.field("maximum_integer", pa.int64()),
        pa.field("minimum_double", pa.float64()),
        pa.field("maximum_double", pa.float64()),
        pa.field("lower_bound", pa.string()),
        pa.field("upper_bound", pa.string()),
        pa.field("true_count", pa.int64()),
        pa.field("bytes_on_disk", pa.int64()),
        pa.field("minimum_children", pa.int64()),
        pa.field("maximum_children", pa.int64()),
        pa.field("total_children", pa.int64()),
    ]
)

_COPIED = (
    "column", "column_id", "type", "stripe", "row_group", "rows", "count", "has_null", "lower_bound", "upper_bound",
    "true_count", "bytes_on_disk", "minimum_children", "maximum_children", "total_children",
)  # fmt: skip


def units_table(units: Iterable[RawStatistics], *, hybrid: bool) -> pa.Table:
    """Statistics of many columns and units as one table, with a row for each column and unit.

    ``minimum``, ``maximum`` and ``sum`` are text for every type (ISO dates and times, in UTC for instants), so one
    column is enough for all types. Numbers have typed columns as well: integers in ``minimum_integer`` and
    ``maximum_integer``, floats in ``minimum_double`` and ``maximum_double``. The other columns are fields of
    ``ColumnStatistics``. Null means that the file does not have the value.
    """
    rows: list[dict[str, Any]] = []
    for raw in units:
        for unit in range(len(raw)):
            item = unit_statistics(raw, unit, hybrid=hybrid)
            row = {name: getattr(item, name) for name in _COPIED}
            row["minimum"] = _text(item.minimum, item.minimum_nanos)
            row["maximum"] = _text(item.maximum, item.maximum_nanos)
            row["sum"] = _text(item.sum, None)
            suffix = {TypedPart.INTEGER: "integer", TypedPart.DOUBLE: "double"}.get(
                PARTS.get(raw.node.kind, TypedPart.NOTHING)
            )
            if suffix:
                row[f"minimum_{suffix}"], row[f"maximum_{suffix}"] = item.minimum, item.maximum
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=_TABLE)


def _text(value: Any, nanos: int | None) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime.datetime) and nanos is not None:
        fraction = f"{nanos % 1_000_000_000:09d}".rstrip("0") or "0"
        return f"{value.replace(microsecond=0, tzinfo=None).isoformat(' ')}.{fraction}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)
