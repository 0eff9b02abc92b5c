"""Bit slices: the integers of a column, stored as one bitmap per bit. This module also compares these integers with
given numbers.

Each row has at most one integer. Slice ``b`` has the rows whose integer has bit ``b`` set. The existence bitmap has the
rows that have an integer. A comparison reads each slice once (O'Neil and Quass, "Improved query performance with
variant indexes", 1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from pyroaring import BitMap

__all__ = ["BitSlices", "smallest", "without_smallest"]


class BitSlices:
    """An integer from 0 to ``2 ** count - 1`` for each row of ``existence``. ``load(first, stop)`` returns the slices
    ``first`` to ``stop - 1``, lowest first. Loaded slices are kept, so each slice is loaded once."""

    def __init__(self, existence: BitMap, count: int, load: Callable[[int, int], Sequence[BitMap]]) -> None:
        self.existence = existence
        self.count = count
        self._load = load
        self._first = count
        self._loaded: list[BitMap] = []

    def slices(self, first: int = 0) -> list[BitMap]:
        """The slices from bit ``first`` to the highest bit."""
        if first < self._first:
            self._loaded = [*self._load(first, self._first), *self._loaded]
            self._first = first
        return self._loaded[first - self._first :]

    def equal(self, number: int) -> BitMap:
        """The rows whose number is ``number``."""
        if not 0 <= number < 1 << self.count:
            return BitMap()
        rows = self.existence.copy()
        for bit, rows_with in enumerate(self.slices()):
            if number >> bit & 1:
                rows &= rows_with
            else:
                rows -= rows_with
            if not rows:
                break
        return rows

    def any_of(self, numbers: Sequence[int]) -> BitMap:
        """The rows whose integer is one of ``numbers``. ``numbers`` must ascend."""
        inside = [number for number in numbers if 0 <= number < 1 << self.count]
        if len(inside) == 1:
            return self.equal(inside[0])
        return self._among(inside, self.existence, self.count) if inside else BitMap()

    def _among(self, numbers: Sequence[int], rows: BitMap, bits: int) -> BitMap:
        """The rows of ``rows`` whose integer is one of ``numbers``. The items of ``numbers`` differ only in their
        lowest ``bits`` bits.

        Each slice splits the integers and the rows by one bit, from the highest bit to the lowest. Integers with the
        same higher bits share these steps. So a slice is used once for each distinct prefix of bits, and not once for
        each integer."""
        if len(numbers) == 1 << bits or not rows:
            return rows.copy()
        bit = bits - 1
        middle = bisect_left(numbers, (numbers[0] >> bits << bits) | 1 << bit)
        rows_with = self.slices()[bit]
        found = BitMap()
        if middle:
            found |= self._among(numbers[:middle], rows - rows_with, bit)
        if middle < len(numbers):
            found |= self._among(numbers[middle:], rows & rows_with, bit)
        return found

    def above(self, number: int) -> BitMap:
        """The rows whose integer is larger than ``number``."""
        if number < 0:
            return self.existence.copy()
        # All bits of ``number`` below its lowest 0 bit are 1. So the slices below this bit cannot make the integer of a
        # row larger than ``number``. These slices are not loaded.
        first = (number ^ (number + 1)).bit_length() - 1
        if first >= self.count or number >= 1 << self.count:
            return BitMap()
        rows = BitMap()
        for bit, rows_with in enumerate(self.slices(first), first):
            if number >> bit & 1:
                rows &= rows_with
            else:
                rows |= rows_with
        rows &= self.existence
        return rows

    def below(self, number: int) -> BitMap:
        """The rows whose integer is smaller than ``number``."""
        return self.existence - self.above(number - 1)

    def top(self, k: int, candidates: BitMap, *, largest: bool, strict: bool) -> BitMap:
        """The ``k`` candidates with the largest (or smallest) integers.

        ``candidates`` is a subset of ``existence``. Several rows may have the same integer as the last of the ``k``
        rows. If ``strict`` is False, all of these rows are returned. If ``strict`` is True, at most ``k`` rows are
        returned, and of the rows with this integer the rows with the highest row numbers are chosen.
        """
        if k <= 0:
            return BitMap()
        if len(candidates) <= k:
            return candidates.copy()
        best, open_rows = BitMap(), candidates.copy()
        for rows_with in reversed(self.slices()):
            better = open_rows & rows_with if largest else open_rows - rows_with
            if len(best) + len(better) > k:
                open_rows = better
                continue
            best |= better
            open_rows -= better
            if len(best) == k:
                return best
        if strict:
            open_rows = without_smallest(open_rows, len(best) + len(open_rows) - k)
        return best | open_rows


def without_smallest(rows: BitMap, dropped: int) -> BitMap:
    """The rows in ``rows``, without the ``dropped`` rows that have the smallest row numbers."""
    if dropped <= 0:
        return rows
    if dropped >= len(rows):
        return BitMap()
    kept = rows.copy()
    kept.remove_range(0, rows[dropped])
    return kept


def smallest(rows: BitMap, k: int) -> BitMap:
    """The ``k`` smallest row numbers."""
    if k >= len(rows):
        return rows
    return rows - without_smallest(rows, k)
