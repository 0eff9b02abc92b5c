"""Finds the value at a given position in the ascending order of all values of an index. The values come from bit
slices, or are given with their counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from pyroaring import BitMap

from orcidx.aggregation.value_forms import NAN, Form

__all__ = ["CountedOrder", "SliceOrder"]


class SliceOrder:
    """The numbers of some rows in ascending order. The number of a row is its integer in the bit slices, plus
    ``least``."""

    def __init__(self, rows: BitMap, slices: Sequence[BitMap], least: int = 0) -> None:
        self._rows = rows
        self._slices = slices
        self._least = least
        self.count = len(rows)

    def at(self, place: int) -> int:
        """The number at a position in ascending order, counted from 0. The slices give the bits of the number one by
        one, from the highest bit to the lowest."""
        rows, number = self._rows, 0
        for bit in reversed(range(len(self._slices))):
            without = rows - self._slices[bit]
            if place < len(without):
                rows = without
            else:
                place -= len(without)
                rows = rows & self._slices[bit]
                number |= 1 << bit
        return self._least + number

    def counts(self) -> Iterator[tuple[int, int]]:
        """Each number, with the number of rows that have it."""
        rows = np.array(self._rows.to_array(), np.uint32)
        numbers = np.zeros(len(rows), np.uint64)
        for bit, one in enumerate(self._slices):
            inside = np.array((self._rows & one).to_array(), np.uint32)
            numbers[np.searchsorted(rows, inside)] += np.uint64(1 << bit)
        found, times = np.unique(numbers, return_counts=True)
        return ((self._least + number, count) for number, count in zip(found.tolist(), times.tolist()))


class CountedOrder:
    """Values, and how often each value occurs."""

    def __init__(self, counted: Mapping[Any, int]) -> None:
        self._counted = {value: times for value, times in counted.items() if value is not NAN}
        self.numbers = sum(self._counted.values())
        self.nans = sum(counted.values()) - self.numbers

    def at(self, place: int) -> Form:
        """The value at a position, counted from 0."""
        values = sorted(self._counted)
        ends = accumulate(self._counted[value] for value in values)
        return next(value for value, end in zip(values, ends) if place < end)  # type: ignore[no-any-return]

    def counts(self) -> Iterator[tuple[Any, int]]:
        """Each value, and how often it occurs."""
        return iter(self._counted.items())
