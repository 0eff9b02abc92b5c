"""Exact sums of integers, decimals and floats. The result does not depend on the order of the additions.

Every finite double is an integer times 2**-1126. So a sum of doubles is kept as one integer and rounded once, at the
end. The sum does not depend on batches or threads, or on the parts that came from statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["FloatSum", "integer_parts", "integer_sum", "integer_sums", "numbers_sum"]

Int64s = npt.NDArray[np.int64]

_UNIT_EXPONENT = 1126
"""A double is m * 2**e, where m has 53 bits. The smallest e is -1126: it is the e of the smallest
subnormal double."""

_LOW_BITS = 27
"""Bits of the lower part of a mantissa. ``bincount`` adds these parts as doubles. A sum of 2**26 parts is exact in a
double."""

_MOST_AT_ONCE = 1 << 24
"""Largest number of values that are added at once. Sums of fewer than 2**26 values are exact."""


@dataclass
class FloatSum:
    """A sum of doubles. ``units``: the exact sum of the finite values, in units of 2**-1126."""

    units: int = 0
    has_nan: bool = False
    has_positive: bool = False
    has_negative: bool = False
    """``has_positive`` and ``has_negative`` say whether +inf and -inf were among the values."""

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Adds values that are not null."""
        finite = np.isfinite(values)
        if not finite.all():
            rest = values[~finite]
            self.has_nan |= bool(np.isnan(rest).any())
            self.has_positive |= bool((rest == np.inf).any())
            self.has_negative |= bool((rest == -np.inf).any())
            values = values[finite]
        for start in range(0, len(values), _MOST_AT_ONCE):
            self.units += _units(values[start : start + _MOST_AT_ONCE])

    def merge(self, other: FloatSum) -> None:
        """Adds another sum."""
        self.units += other.units
        self.has_nan |= other.has_nan
        self.has_positive |= other.has_positive
        self.has_negative |= other.has_negative

    @property
    def special(self) -> float | None:
        """NaN or an infinity, if the sum of the values is NaN or infinite. Otherwise the result is None."""
        if self.has_nan or (self.has_positive and self.has_negative):
            return math.nan
        if self.has_positive or self.has_negative:
            return math.inf if self.has_positive else -math.inf
        return None

    def value(self, divisor: int = 1) -> float:
        """The sum divided by ``divisor``, rounded once. A result beyond the largest double is infinite."""
        special = self.special
        return rounded_sum(self.units, divisor << _UNIT_EXPONENT) if special is None else special


def rounded_sum(numerator: int, denominator: int) -> float:
    """The double nearest to a fraction."""
    try:
        return float(Fraction(numerator, denominator))
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _units(values: npt.NDArray[np.float64]) -> int:
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    least = int(exponents.min())
    places = exponents - least
    high = np.bincount(places, weights=(mantissas >> _LOW_BITS).astype(np.float64))
    low = np.bincount(places, weights=(mantissas & ((1 << _LOW_BITS) - 1)).astype(np.float64))
    total = 0
    for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
        total += ((int(high[place]) << _LOW_BITS) + int(low[place])) << place
    return total << (least - 53 + _UNIT_EXPONENT)


def integer_parts(values: pa.Array) -> list[tuple[int, Int64s]]:
    """Splits values that are not null into parts (shift, int64 array). Each value is the sum of its parts, each
    multiplied by 2**shift. Decimals are split by their unscaled values.

    Parts have at most 32 bits and a sign, so a sum of 2**31 parts fits into 64 bits.
    """
    if pa.types.is_decimal(values.type):
        words = _decimal_words(values)
        low, high = words[:, 0], words[:, 1].view(np.int64)
        parts = _halves(low.view(np.int64), signed=False)
        return [*parts, *((shift + 64, part) for shift, part in _halves(high, signed=True))]
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return _halves(numbers.view(np.int64), signed=False)
    return _halves(numbers.astype(np.int64, copy=False), signed=True)


def _decimal_words(values: pa.Array) -> npt.NDArray[np.uint64]:
    if values.type.bit_width != 128:
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    data = values.buffers()[1]
    words = np.frombuffer(data, np.uint64, count=2 * (values.offset + len(values)))
    return words.reshape(-1, 2)[values.offset :]


def _halves(numbers: Int64s, *, signed: bool) -> list[tuple[int, Int64s]]:
    high = numbers >> 32
    return [(0, numbers & 0xFFFFFFFF), (32, high if signed else high & 0xFFFFFFFF)]


def integer_sum(values: pa.Array) -> int:
    """Returns the exact sum of integers, or of the unscaled values of decimals. The values must not be null."""
    return sum(int(np.add.reduce(part)) << shift for shift, part in integer_parts(values)) if len(values) else 0


def numbers_sum(numbers: npt.NDArray[Any]) -> int:
    """Returns the exact sum of fewer than 2**31 numbers in int64, or of Python integers."""
    if numbers.dtype == object:
        return sum(numbers.tolist())
    return sum(int(np.add.reduce(part)) << shift for shift, part in _halves(numbers, signed=True))


def integer_sums(values: pa.Array, starts: Int64s) -> list[int]:
    """Returns the exact sum of each run of values. Run i begins at ``starts[i]``. No run may be empty."""
    parts = [(shift, np.add.reduceat(part, starts).tolist()) for shift, part in integer_parts(values)]
    return [sum(sums[i] << shift for shift, sums in parts) for i in range(len(starts))]
