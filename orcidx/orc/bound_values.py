"""Lower or upper bounds of many units. A unit is a file, a stripe or a row group. The bounds of all units are compared
with a literal at once."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.orc.spans import compare_spans
from orcidx.predicate.literals import scaled_floor
from orcidx.predicate.nodes import object_array

if TYPE_CHECKING:
    from orcidx.orc.wire import Int64s

__all__ = ["INT64_MAX", "INT64_MIN", "Bools", "BytesBounds", "NumberBounds", "TypedBounds"]

Bools = npt.NDArray[np.bool_]

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class NumberBounds:
    """A number for each of n units. ``valid``: a mask of the units that have a number. ``exact``: a mask of the numbers
    that certainly equal a value in their unit.

    ``values``: float64, or integers as int64. If some integers do not fit into int64, all are Python ints in an object
    array. Integers are in units of 10**-scale."""

    values: npt.NDArray[Any]
    valid: Bools
    exact: Bools
    scale: int = 0

    @cached_property
    def known(self) -> int:
        """The number of units that have a bound."""
        return int(np.count_nonzero(self.valid))

    def where(self, kept: Bools) -> NumberBounds:
        """The bounds of the units in ``kept``."""
        valid = self.valid & kept
        return NumberBounds(self.values, valid, self.exact & valid, self.scale)

    def compare(self, literal: float | Decimal) -> npt.NDArray[np.int8]:
        """The sign of bound - literal for each unit, as int8. The sign of a unit that is not valid is arbitrary. The
        literal is a value of the column's physical domain and not NaN. The comparison is exact."""
        if self.values.dtype == np.float64:
            return _signs(self.values, literal)
        floor, exact = scaled_floor(literal, self.scale)
        if self.values.dtype == np.int64 and not _is_int64(floor):
            return np.full(len(self.values), 1 if floor < 0 else -1, np.int8)
        return _signs(self.values, floor) if exact else np.where(self.values <= floor, -1, 1).astype(np.int8)

    def plain(self, literal: float | Decimal) -> npt.NDArray[Any] | None:
        """The values, if every unit has one and if the values can be compared directly with the literal. Otherwise
        None."""
        if self.known < len(self.values):
            return None
        if self.values.dtype == np.float64:
            return self.values if type(literal) is float else None
        fits = type(literal) is int and not self.scale and INT64_MIN <= literal <= INT64_MAX
        return self.values if fits else None

    def sortable(self, units: Int64s, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The bounds of some units, in a form that ``numpy.searchsorted`` can look up in sorted literals. All these
        units must have a bound."""
        return self.values[units] if not self.scale and keys.dtype != object else object_array(self.at(units))

    def value(self, unit: int) -> int | float | Decimal | None:
        """The bound of one unit. None if it is not valid."""
        return self.at(np.array([unit]))[0]

    def at(self, units: Int64s) -> list[int | float | Decimal | None]:
        """The bounds of some units. The entry of a unit that is not valid is None."""
        found, valid = self.values[units].tolist(), self.valid[units]
        if not self.scale and valid.all():
            return list(found)
        known = zip(found, valid.tolist())
        return [self._known(value) if valid else None for value, valid in known]

    def _known(self, value: int | float) -> int | float | Decimal:
        if not self.scale or isinstance(value, float):
            return value
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -self.scale))


def _is_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def _signs(values: npt.NDArray[Any], literal: Any) -> npt.NDArray[np.int8]:
    signs: npt.NDArray[np.int8] = (values > literal).view(np.int8) - (values < literal).view(np.int8)
    return signs


@dataclass(frozen=True, eq=False)
class BytesBounds:
    """Like ``NumberBounds``, for bytes. The bytes are compared as unsigned numbers. The bounds are spans (start, stop)
    of a buffer, as an int64 array of shape (n, 2)."""

    buffer: bytes
    spans: Int64s
    valid: Bools
    exact: Bools

    @cached_property
    def known(self) -> int:
        """The number of units that have a bound."""
        return int(np.count_nonzero(self.valid))

    def where(self, kept: Bools) -> BytesBounds:
        """The bounds of the units in ``kept``."""
        valid = self.valid & kept
        return BytesBounds(self.buffer, self.spans, valid, self.exact & valid)

    def compare(self, literal: bytes) -> npt.NDArray[np.int8]:
        """The sign of bound - literal for each unit, as int8. The sign of a unit that is not valid is arbitrary."""
        return compare_spans(self.buffer, self.spans, literal)

    def plain(self, literal: bytes) -> None:
        """Always None, because these bounds can only be compared by ``compare``."""

    def sortable(self, units: Int64s, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The bounds of some units, in a form that ``numpy.searchsorted`` can look up in sorted literals. All these
        units must have a bound."""
        return object_array(self.at(units))

    def value(self, unit: int) -> bytes | None:
        """The bound of one unit. None if it is not valid."""
        start, stop = self.spans[unit]
        return self.buffer[start:stop] if self.valid[unit] else None

    def at(self, units: Int64s) -> list[bytes | None]:
        """The bounds of some units. The entry of a unit that is not valid is None."""
        # ``spans.tolist()`` would make one short list for each unit, and the garbage collector would have to examine
        # tens of thousands of lists. So two long lists of numbers are used.
        spans, valid = self.spans[units], self.valid[units]
        starts, stops = spans[:, 0].tolist(), spans[:, 1].tolist()
        if valid.all():
            return [self.buffer[start:stop] for start, stop in zip(starts, stops)]
        known = zip(starts, stops, valid.tolist())
        return [self.buffer[start:stop] if valid else None for start, stop, valid in known]


TypedBounds = NumberBounds | BytesBounds
