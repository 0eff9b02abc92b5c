"""Column statistics of row groups, stripes and the file. Statistics of row groups are merged into those of their
stripe, and statistics of stripes into those of the file. They are written so that no reader prunes wrongly.

Some rules have reasons outside the specification (decision 0041 has the table):

* ``hasNull`` and ``numberOfValues`` are always written, because ORC C++ does not prune without ``hasNull`` (ORC-1813).
* Statistics have a typed part, such as ``intStatistics``. If the typed part of a unit (a row group, a stripe or the
  file) has no bound, ORC Java prunes all rows of the unit. So the typed part has all its bounds, or is left out. The
  only exception is a unit that has no value at all.
* A least timestamp before 1970 is lowered to the whole second, because ORC C++ divides negative milliseconds towards
  zero.
* Bounds of texts are exact up to 1,024 bytes. Longer bounds are truncated and stored as ``lowerBound`` and
  ``upperBound``, which Java takes as exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orcidx.orc.decimal_text import plain_text
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import STRING_KINDS
from orcidx.orc_writer.messages import blob, double, packed, sint, uint

__all__ = ["LARGEST_SUM", "NO_STATISTICS", "ColumnMessages", "ColumnSummary", "statistics_message"]

LONGEST_BOUND = 1024
"""The most bytes of a bound of texts. Longer bounds are truncated, as in ORC Java."""
LARGEST_SUM = 10**38
_INTEGERS = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG})
_FLOATS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE})
_TIMESTAMPS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
_LENGTHS = frozenset({TypeKind.LIST, TypeKind.MAP})
_PER_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The known facts about a column in some rows. ``values`` depends on the type. For booleans, it is the number of
    true values. For timestamps, it is (least, greatest) in the unit of the timestamps. For most other types it is
    (least, greatest, sum). It is None if there is no value."""

    count: int
    has_null: bool
    values: Any = None

    def merge(self, other: ColumnSummary) -> ColumnSummary:
        """The statistics of both sets of rows together."""
        if self is NO_STATISTICS:
            return other
        return ColumnSummary(
            self.count + other.count, self.has_null or other.has_null, _merge(self.values, other.values)
        )


NO_STATISTICS = ColumnSummary(0, False)


def _merge(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if not isinstance(one, tuple):
        return one + other
    least = one[0] if other[0] is None or (one[0] is not None and one[0] <= other[0]) else other[0]
    greatest = one[1] if other[1] is None or (one[1] is not None and one[1] >= other[1]) else other[1]
    if len(one) == 2:
        return least, greatest
    return least, greatest, one[2] + other[2]


def statistics_message(summary: ColumnSummary, kind: TypeKind, *, scale: int = 0, unit: str = "ns") -> bytes:
    """A ColumnStatistics message."""
    return uint(1, summary.count) + _typed(summary, kind, scale, unit) + uint(10, summary.has_null)


class ColumnMessages:
    """Makes the ColumnStatistics messages of one column. The last message is kept, because the statistics of the only
    row group of a stripe are also those of the stripe, and often those of the file."""

    def __init__(self, kind: TypeKind, *, scale: int, unit: str) -> None:
        self._kind, self._scale, self._unit = kind, scale, unit
        self._last: tuple[ColumnSummary | None, bytes] = None, b""

    def message(self, summary: ColumnSummary, *, size: int | None = None) -> bytes:
        """The message. ``size``: bytes of the column's data on disk. It is given for stripes and the file."""
        last, message = self._last
        if summary is not last:
            message = statistics_message(summary, self._kind, scale=self._scale, unit=self._unit)
            self._last = summary, message
        return message if size is None else message + uint(11, size)


def _typed(summary: ColumnSummary, kind: TypeKind, scale: int, unit: str) -> bytes:
    values = summary.values
    if kind is TypeKind.BOOLEAN:
        return blob(5, packed(1, [values or 0]))
    if kind is TypeKind.BINARY:
        return blob(8, sint(1, values[2] if values else 0))
    if values is None:
        return _empty(kind)
    if kind in _INTEGERS:
        return blob(2, sint(1, values[0]) + sint(2, values[1]) + _sum(values[2]))
    if kind in _FLOATS:
        return blob(3, double(1, values[0]) + double(2, values[1]) + double(3, values[2]))
    if kind in STRING_KINDS:
        return _texts(values)
    if kind is TypeKind.DECIMAL:
        total = values[2] if abs(values[2]) < LARGEST_SUM else None
        numbers = [_decimal(n, v, scale) for n, v in enumerate((values[0], values[1], total), 1) if v is not None]
        return blob(6, b"".join(numbers))
    if kind is TypeKind.DATE:
        return blob(7, sint(1, values[0]) + sint(2, values[1]))
    if kind in _TIMESTAMPS:
        bounds = _timestamps(values, unit)
        return blob(9, bounds) if bounds else b""
    if kind in _LENGTHS:
        return blob(12, uint(1, values[0]) + uint(2, values[1]) + uint(3, values[2]))
    return b""


def _empty(kind: TypeKind) -> bytes:
    """The typed part of the message of a unit without values. Only such a part may have no bounds."""
    if kind in _INTEGERS:
        return blob(2, sint(3, 0))
    if kind is TypeKind.DECIMAL:
        return blob(6, blob(3, b"0"))
    number = 3 if kind in _FLOATS else 4 if kind in STRING_KINDS else 7 if kind is TypeKind.DATE else 9
    return blob(number, b"") if kind in _FLOATS | STRING_KINDS | _TIMESTAMPS | {TypeKind.DATE} else b""


def _sum(total: int) -> bytes:
    return sint(3, total) if -(1 << 63) <= total < 1 << 63 else b""


def _decimal(number: int, value: int, scale: int) -> bytes:
    shown = plain_text(value, scale)
    return blob(number, (shown.rstrip("0").rstrip(".") if scale else shown).encode())


def _timestamps(values: tuple[int, int], unit: str) -> bytes:
    """The bounds of timestamps. The result is empty if a bound does not fit into 64-bit milliseconds."""
    per = _PER_SECOND[unit]
    least, greatest = values[0] * 10**9 // per, values[1] * 10**9 // per
    if least < 0:
        least = least // 10**9 * 10**9
    (first, first_nanos), (last, last_nanos) = divmod(least, 10**6), divmod(greatest, 10**6)
    if not (first >= -(1 << 63) and last < 1 << 63):
        return b""
    message = sint(3, first) + sint(4, last)
    if first_nanos:
        message += uint(5, first_nanos + 1)
    return message + uint(6, last_nanos + 1) if last_nanos != 999_999 else message


def _texts(values: tuple[bytes, bytes, int]) -> bytes:
    least, greatest, total = values
    lower, upper = _cut(least), greatest
    if len(greatest) > LONGEST_BOUND:
        raised = _raise(_cut(greatest))
        if raised is None:
            return b""
        upper = raised
    message = blob(1, least) if lower is least else b""
    message += blob(2, greatest) if upper is greatest else b""
    message += sint(3, total) if total < 1 << 63 else b""
    message += b"" if lower is least else blob(4, lower)
    return blob(4, message + (b"" if upper is greatest else blob(5, upper)))


def _cut(value: bytes) -> bytes:
    """A text truncated to at most 1,024 bytes, at the end of a character."""
    if len(value) <= LONGEST_BOUND:
        return value
    end = LONGEST_BOUND
    while value[end] & 0xC0 == 0x80:
        end -= 1
    return value[:end]


def _raise(value: bytes) -> bytes | None:
    """A text that is greater than all texts that begin with the given text. The last character of the given text is
    replaced by the next character. The result is None if this is impossible."""
    characters = value.decode()
    while characters and characters[-1] == "\U0010ffff":
        characters = characters[:-1]
    if not characters:
        return None
    last = ord(characters[-1]) + 1
    raised = (characters[:-1] + chr(0xE000 if last == 0xD800 else last)).encode()
    return raised if len(raised) <= LONGEST_BOUND + 3 else None
