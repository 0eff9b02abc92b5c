"""Computes totals of rows from the indexes of one column. Counts, sums, minima, maxima and groups are exact. The data
file is not read.

    bitmap        a bitmap for each value: groups, counts, sums, minima, maxima and quantiles
    bsi           bit slices of the numbers themselves: counts, sums, minima, maxima and quantiles. A sum is the sum
                  over all bits b of 2**b times the number of rows in slice b. Positive and negative numbers are in
                  separate parts. In each part, the smallest number of the part is subtracted from each number.
    range-bitmap  bit slices of *codes*: counts. The dictionary also gives minima, maxima and quantiles. There are no
                  sums, because the sum of the codes is not the sum of the values: for the values [10, 1000, 10, 7]
                  the codes add up to 4.

Values are converted to the forms that ``aggregation.value_forms`` defines. Values that are equal in SQL have the same
form, even if an index distinguishes them. So -0.0 becomes 0.0, and CHAR values lose their trailing spaces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from pyroaring import BitMap

from orcidx.aggregation.ranks import Ordered
from orcidx.aggregation.value_forms import NAN, Form
from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.bitmap import BitmapIndex
from orcidx.paimon.bsi import NO_PART, BsiIndex, BsiPart
from orcidx.paimon.data_types import DataType
from orcidx.paimon.index import Index
from orcidx.paimon.keys import Key, KeyType, ordered_bits
from orcidx.paimon.order_totals import CountedOrder, SliceOrder
from orcidx.paimon.range_bitmap import RangeBitmapIndex

__all__ = ["MOST_VALUES", "Ends", "IndexTotals", "totals_of"]

MOST_VALUES = 10_000
"""The maximum number of values of a bitmap index that is used for totals. If an index has more values, it costs less to
decode the column than to use the index."""

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_ORDERED = (*_INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DATE", "DECIMAL", "VARCHAR", "CHAR")
"""Types whose values can be computed from the keys of an index alone. Times of day and timestamps are left out, because
the form of their values also depends on units and zones."""


@dataclass(frozen=True)
class Ends:
    """The smallest and the greatest of some values. Both are None if there is no value, or no value except NaN."""

    minimum: Any
    maximum: Any
    has_nan: bool = False


class IndexTotals(ABC):
    """Totals from an index for any selection of rows. A selection is a bitmap, or None for all rows.

    ``totals_of`` creates these objects. It also reads and checks all bytes that they need. ``adds_up``: whether the
    index gives sums. ``has_ends``: whether the index gives minima, maxima and the order of values. ``has_groups``:
    whether the index gives each value with its rows.
    """

    adds_up = False
    has_ends = False
    has_groups = False

    @abstractmethod
    def present(self) -> BitMap:
        """The rows that are not null."""

    def count(self, rows: BitMap | None) -> int:
        """The number of rows that are not null."""
        return len(self.present()) if rows is None else self.present().intersection_cardinality(rows)

    def total(self, rows: BitMap | None) -> int:
        """The sum of integers, or of the unscaled values of decimals."""
        raise NotImplementedError

    def ends(self, rows: BitMap | None) -> Ends:
        """Minimum and maximum."""
        raise NotImplementedError

    def order(self, rows: BitMap | None) -> Ordered:
        """The values in ascending order."""
        raise NotImplementedError

    def counts(self, rows: BitMap | None) -> Iterator[tuple[Any, int]]:
        """Each value with the number of ``rows`` that have it. Nulls are left out."""
        raise NotImplementedError

    def groups(self) -> list[tuple[Any, BitMap]]:
        """Each value with the rows that have it. For null rows the value is None."""
        raise NotImplementedError


def totals_of(index: Index) -> IndexTotals | None:
    """Returns the totals of an index. Returns None if the kind of the index or the type of its column does not
    allow totals.

    Raises ``CorruptFile`` if the index is damaged, and ``Unsupported`` if it has more than ``MOST_VALUES`` values.
    """
    if isinstance(index, BitmapIndex):
        return _BitmapTotals(index)
    if isinstance(index, BsiIndex):
        return _BsiTotals(index)
    if isinstance(index, RangeBitmapIndex):
        return _RangeTotals(index)
    return None


# ---------------------------------------------------------------------- values of keys


def _form_of(kind: KeyType) -> Callable[[Key], Any]:
    """Converts a key to the form of its value. Raises ``CorruptFile`` for text that is not UTF-8, and for text that is
    too long."""
    data_type = kind.data_type
    if kind.floating:
        return lambda key: _float(key, kind)
    if data_type.root == "DECIMAL":
        return lambda key: Decimal(int(key)).scaleb(-data_type.scale)
    if data_type.root in ("VARCHAR", "CHAR"):
        return lambda key: _text(key, data_type)
    return int


def _float(key: Key, kind: KeyType) -> Any:
    if key == kind.nan:
        return NAN
    bits = ordered_bits(np.array([key], np.int64), kind.width)
    width = np.int32 if kind.width == 4 else np.int64
    value = bits.astype(width).view(np.float32 if kind.width == 4 else np.float64)[0]
    return float(value) + 0.0  # -0.0 becomes 0.0


def _text(key: Key, data_type: DataType) -> bytes:
    assert isinstance(key, bytes)
    try:
        length = len(key.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CorruptFile("the index is damaged: one of its keys is not valid UTF-8") from error
    if data_type.length and length > data_type.length:
        # A reader may shorten this value to the length of the type. The index would then lack the value that is read.
        raise CorruptFile(f"the index has a value of {length} characters, but {data_type} allows {data_type.length}")
    return key.rstrip(b" ") if data_type.root == "CHAR" else key


def _check_range(low: int, high: int, data_type: DataType) -> None:
    """Raises ``CorruptFile`` for numbers outside of the range of the type."""
    limit = 10**data_type.precision if data_type.root == "DECIMAL" else 1 << (_INTEGERS.get(data_type.root, 32) - 1)
    lowest = 1 - limit if data_type.root == "DECIMAL" else -limit
    if low < lowest or high >= limit:
        raise CorruptFile(
            f"the index stores numbers from {low} to {high}, but numbers of {data_type} must be from {lowest} to "
            f"{limit - 1}"
        )


# ---------------------------------------------------------------------- bitmap


class _BitmapTotals(IndexTotals):
    def __init__(self, index: BitmapIndex) -> None:
        root = index.data_type.root
        if index.cardinality > MOST_VALUES:
            raise Unsupported(f"the index has {index.cardinality} values; at most {MOST_VALUES} are supported")
        contents = index.contents()
        merged: dict[Any, list[BitMap]] = {}
        self.has_ends = self.has_groups = root in _ORDERED
        self.adds_up = root in _INTEGERS
        form = _form_of(index.key_type) if self.has_ends else None
        for key, bitmap in zip(contents.keys, contents.bitmaps):
            merged.setdefault(key if form is None else form(key), []).append(bitmap)
        self._values = [
            (value, parts[0] if len(parts) == 1 else BitMap.union(*parts)) for value, parts in merged.items()
        ]
        self._nulls = contents.nulls
        index.check_rows(contents)
        self._present = index.present()

    def present(self) -> BitMap:
        return self._present

    def counts(self, rows: BitMap | None) -> Iterator[tuple[Any, int]]:
        for value, bitmap in self._values:
            yield value, len(bitmap) if rows is None else bitmap.intersection_cardinality(rows)

    def total(self, rows: BitMap | None) -> int:
        return sum(value * count for value, count in self.counts(rows))

    def ends(self, rows: BitMap | None) -> Ends:
        found = [value for value, count in self.counts(rows) if count]
        numbers = [value for value in found if value is not NAN]
        return Ends(min(numbers, default=None), max(numbers, default=None), len(numbers) < len(found))

    def order(self, rows: BitMap | None) -> Ordered:
        return CountedOrder({value: count for value, count in self.counts(rows) if count})

    def groups(self) -> list[tuple[Any, BitMap]]:
        return [*self._values, (None, self._nulls)] if self._nulls else self._values


# ---------------------------------------------------------------------- BSI


class _BsiTotals(IndexTotals):
    def __init__(self, index: BsiIndex) -> None:
        root = index.data_type.root
        self.adds_up = root in _INTEGERS or root == "DECIMAL"
        self.has_ends = self.adds_up or root == "DATE"
        self._scale = index.data_type.scale if root == "DECIMAL" else None
        contents = index.contents()
        self._positive, self._negative = _Numbers(contents.positive), _Numbers(contents.negative)
        self._present = self._positive.existence | self._negative.existence
        if self.has_ends and self._present:
            _check_range(-self._negative.largest, self._positive.largest, index.data_type)

    def present(self) -> BitMap:
        return self._present

    def total(self, rows: BitMap | None) -> int:
        return self._positive.total(rows) - self._negative.total(rows)

    def _numbers(self, rows: BitMap | None) -> tuple[int, int] | None:
        positive, negative = self._positive.ends(rows), self._negative.ends(rows)
        found = [*(positive or ()), *(-number for number in negative or ())]
        return (min(found), max(found)) if found else None

    def ends(self, rows: BitMap | None) -> Ends:
        found = self._numbers(rows)
        if found is None or self._scale is None:
            return Ends(*(found or (None, None)))
        low, high = (Decimal(number).scaleb(-self._scale) for number in found)
        return Ends(low, high)

    def order(self, rows: BitMap | None) -> Ordered:
        signs = (self._negative, self._positive)
        return _BsiOrder(tuple(SliceOrder(one.among(rows), one.slices, one.smallest) for one in signs), self._scale)


class _BsiOrder:
    """The numbers of a BSI in ascending order. The negative numbers come first, from the largest absolute value to the
    smallest."""

    nans = 0

    def __init__(self, signs: tuple[SliceOrder, ...], scale: int | None) -> None:
        self._negative, self._positive = signs
        self._scale = scale
        self.numbers = self._negative.count + self._positive.count

    def _form(self, number: int) -> Form:
        return number if self._scale is None else Decimal(number).scaleb(-self._scale)

    def at(self, place: int) -> Form:
        below = self._negative.count
        if place < below:
            return self._form(-self._negative.at(below - 1 - place))
        return self._form(self._positive.at(place - below))

    def counts(self) -> Iterator[tuple[Any, int]]:
        yield from ((self._form(-number), times) for number, times in self._negative.counts())
        yield from ((self._form(number), times) for number, times in self._positive.counts())


class _Numbers:
    """The numbers of one sign."""

    def __init__(self, part: BsiPart | None) -> None:
        known = part or NO_PART
        self.smallest, self.existence, self.slices = known.smallest, known.existence, known.slices
        self.largest = self.smallest + _largest(self.existence, self.slices) if self.existence else 0
        if self.existence and self.largest > known.largest:
            raise CorruptFile(
                f"a part of the index contains the number {self.largest}, but the maximum stored for this part is "
                f"{known.largest}"
            )

    def total(self, rows: BitMap | None) -> int:
        if rows is None:
            count, counts = len(self.existence), [len(one) for one in self.slices]
        else:
            count = self.existence.intersection_cardinality(rows)
            counts = [one.intersection_cardinality(rows) for one in self.slices] if count else []
        return self.smallest * count + sum(number << bit for bit, number in enumerate(counts))

    def among(self, rows: BitMap | None) -> BitMap:
        """The rows of ``rows`` whose number is in this part, which has only numbers of one sign."""
        return _among(self.existence, rows)

    def ends(self, rows: BitMap | None) -> tuple[int, int] | None:
        low = self.among(rows)
        if not low:
            return None
        smallest, largest = _smallest(low, self.slices), _largest(low, self.slices)
        return self.smallest + smallest, self.smallest + largest


def _among(existence: BitMap, rows: BitMap | None) -> BitMap:
    return existence if rows is None else existence & rows


def _smallest(rows: BitMap, slices: Sequence[BitMap]) -> int:
    """The smallest of the integers that bit slices store for the given rows. There must be at least one row."""
    smallest = 0
    for bit in reversed(range(len(slices))):
        without = rows - slices[bit]
        if without:
            rows = without
        else:
            smallest |= 1 << bit
    return smallest


def _largest(rows: BitMap, slices: Sequence[BitMap]) -> int:
    """The greatest of the integers that bit slices store for the given rows. There must be at least one row."""
    largest = 0
    for bit in reversed(range(len(slices))):
        with_it = rows & slices[bit]
        if with_it:
            rows = with_it
            largest |= 1 << bit
    return largest


# ---------------------------------------------------------------------- range bitmap


class _RangeTotals(IndexTotals):
    def __init__(self, index: RangeBitmapIndex) -> None:
        # Codes are ordered by bytes, including trailing spaces. A comparison of CHAR values ignores trailing spaces.
        # For example, "x " has a larger code than "x\0", but is the smaller CHAR value.
        self.has_ends = index.data_type.root in _ORDERED and index.data_type.root != "CHAR"
        self._existence = index.numbers.existence
        self._nan = BitMap()
        self._slices: list[BitMap] = []
        if not self.has_ends or not self._existence:
            return
        self._index = index
        self._form = _form_of(index.key_type)
        self._slices = index.numbers.slices()
        smallest, largest = _smallest(self._existence, self._slices), _largest(self._existence, self._slices)
        if smallest or largest != index.cardinality - 1:
            raise CorruptFile(
                f"the codes of the index must go from 0 to {index.cardinality - 1}, but they go from {smallest} to "
                f"{largest}"
            )
        if self.value(0) is NAN or self.value(largest) is NAN:
            self._nan = index.numbers.equal(largest)

    def value(self, code: int) -> Form:
        """The value of a code."""
        found: Form = self._form(self._index.key(code))
        return found

    def present(self) -> BitMap:
        return self._existence

    def ends(self, rows: BitMap | None) -> Ends:
        found = _among(self._existence, rows)
        if not found:
            return Ends(None, None)
        has_nan = found.intersect(self._nan)
        if has_nan:
            found = found - self._nan
        if not found:
            return Ends(None, None, has_nan)
        smallest, largest = _smallest(found, self._slices), _largest(found, self._slices)
        return Ends(self.value(smallest), self.value(largest), has_nan)

    def order(self, rows: BitMap | None) -> Ordered:
        found = _among(self._existence, rows)
        return _RangeOrder(SliceOrder(found - self._nan, self._slices), found.intersection_cardinality(self._nan), self)


class _RangeOrder:
    """Values in the order of their codes."""

    def __init__(self, codes: SliceOrder, nans: int, of: _RangeTotals) -> None:
        self._codes = codes
        self._of = of
        self.numbers = codes.count
        self.nans = nans

    def at(self, place: int) -> Form:
        return self._of.value(self._codes.at(place))

    def counts(self) -> Iterator[tuple[Any, int]]:
        return ((self._of.value(code), times) for code, times in self._codes.counts())
