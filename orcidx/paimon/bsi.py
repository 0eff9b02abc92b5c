"""A BSI (bit-slice index) stores signed integers as bit slices of their absolute values. This module reads, writes,
builds and evaluates BSIs. Paimon has deprecated the format in favour of the range-bitmap.

    version       u8   1
    rows          i32
    has positive  u8   if 1, the part of the rows with a value >= 0 follows
    has negative  u8   if 1, the part of the rows with a value < 0 follows (absolute values)

    part:  version     u8   1
           min, max    i64, i64
           existence   bitmap of the rows of the part
           slices      i32
           slice b     bitmap of the rows whose (value - min) has bit b, for b = 0 .. slices - 1

Integers are big-endian. Bitmaps are portable roaring bitmaps, which follow each other without lengths. A null row is in
neither part. Java always writes min 0 and bitlength(max - min) slices. Readers accept any min. Long.MIN_VALUE has no
absolute value and cannot be written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import BitMap

from orcidx.errors import CorruptFile, Unsupported, ValueOutOfRange
from orcidx.paimon.bit_slices import BitSlices
from orcidx.paimon.body import Body, checked_rows, is_within
from orcidx.paimon.data_types import INTEGERS, TIMESTAMPS, DataType
from orcidx.paimon.index import BodyIndex
from orcidx.paimon.key_arrays import KeyColumn
from orcidx.paimon.keys import INT
from orcidx.paimon.questions import NullTest, Points, Question, Span
from orcidx.paimon.roaring import read_bitmap, write_bitmap
from orcidx.paimon.roaring_writer import write_slices
from orcidx.pruning.evaluate import Verdict
from orcidx.pruning.row_forms import bitmap_of_rows

__all__ = ["NO_PART", "BsiIndex", "BsiPart", "Contents", "build", "write"]

KIND = "bsi"
VERSION = 1
HEAD = struct.Struct(">Bi")  # version, rows
PART_HEAD = struct.Struct(">Bqq")  # version, min, max
FLAG = struct.Struct("B")
MOST_SLICES = 64
LARGEST_LONG = (1 << 63) - 1

_ROOTS = (*INTEGERS, "DECIMAL", "DATE", "TIME", *TIMESTAMPS)


@dataclass(frozen=True)
class BsiPart:
    """A part of a BSI: one non-negative number for each of its rows. ``smallest`` is subtracted from each number before
    the number is stored in the slices. The slice of the lowest bit comes first."""

    smallest: int
    largest: int
    existence: BitMap
    slices: tuple[BitMap, ...]


NO_PART = BsiPart(0, 0, BitMap(), ())
"""A part without rows. Its bitmap must not be changed."""


@dataclass(frozen=True)
class Contents:
    """The contents of a body."""

    rows: int
    positive: BsiPart | None
    negative: BsiPart | None


# ---------------------------------------------------------------------- read


def read(data: memoryview) -> Contents:
    """Reads a whole body. Raises ``CorruptFile``."""
    version, rows = _unpack(HEAD, data, 0)
    if version != VERSION:
        raise CorruptFile(f"the BSI has version {version}; orcidx supports only version {VERSION}", offset=0)
    if rows < 0:
        raise CorruptFile(f"a BSI has {rows} rows, but the number of rows must not be negative", offset=1)
    parts: list[BsiPart | None] = []
    at = HEAD.size
    for _ in range(2):
        (flag,) = _unpack(FLAG, data, at)
        at += FLAG.size
        if flag > 1:
            raise CorruptFile(f"the flag that says whether a part exists is {flag}, but must be 0 or 1", offset=at - 1)
        part = None
        if flag:
            part, at = _read_part(data, at, rows)
        parts.append(part)
    if at != len(data):
        raise CorruptFile(f"there are {len(data) - at} unexpected bytes after the index", offset=at)
    positive, negative = parts
    if positive and negative and positive.existence.intersect(negative.existence):
        raise CorruptFile("a row is both in the part of positive values and in the part of negative values")
    return Contents(rows, positive, negative)


def _read_part(data: memoryview, at: int, rows: int) -> tuple[BsiPart, int]:
    version, smallest, largest = _unpack(PART_HEAD, data, at)
    if version != VERSION:
        raise CorruptFile(f"a part of a BSI has version {version}; orcidx supports only version {VERSION}", offset=at)
    if not 0 <= smallest <= largest:
        raise CorruptFile(
            f"a part of a BSI has the minimum {smallest} and the maximum {largest}, but the minimum must not be "
            "negative or larger than the maximum",
            offset=at,
        )
    existence, at = read_bitmap(data, at + PART_HEAD.size)
    checked_rows(existence, rows, "existence")
    (count,) = _unpack(INT, data, at)
    at += INT.size
    if not (largest - smallest).bit_length() <= count <= MOST_SLICES:
        raise CorruptFile(
            f"a part of a BSI has {count} slices, but must have {(largest - smallest).bit_length()} to {MOST_SLICES} "
            f"slices, because its maximum is {largest - smallest} above its minimum",
            offset=at,
        )
    slices = []
    for bit in range(count):
        rows_with, at = read_bitmap(data, at)
        if not is_within(rows_with, existence, rows):
            raise CorruptFile(f"slice {bit} contains a row that is not among the rows with a value", offset=at)
        slices.append(rows_with)
    return BsiPart(smallest, largest, existence, tuple(slices)), at


def _unpack(layout: struct.Struct, data: memoryview, at: int) -> tuple[Any, ...]:
    if at + layout.size > len(data):
        raise CorruptFile("BSI is cut off", offset=at)
    return layout.unpack_from(data, at)


# ---------------------------------------------------------------------- write


def write(contents: Contents) -> bytes:
    """Bytes of a body."""
    parts = (contents.positive, contents.negative)
    return b"".join([HEAD.pack(VERSION, contents.rows), *(_written_contents(part) for part in parts)])


def _written_contents(part: BsiPart | None) -> bytes:
    if part is None:
        return FLAG.pack(False)
    slices = [write_bitmap(rows_with) for rows_with in part.slices]
    return _written(part.smallest, part.largest, part.existence, slices)


def _written(smallest: int, largest: int, existence: BitMap, slices: Sequence[bytes]) -> bytes:
    head = FLAG.pack(True) + PART_HEAD.pack(VERSION, smallest, largest)
    return b"".join([head, write_bitmap(existence), INT.pack(len(slices)), *slices])


# ---------------------------------------------------------------------- build


def build(column: KeyColumn) -> BsiIndex:
    """Builds the index of a column. Raises ``ValueOutOfRange`` for Long.MIN_VALUE."""
    keys, rows = column.present_values, column.present_rows
    assert isinstance(keys, np.ndarray)
    if keys.size and int(keys.min()) < -LARGEST_LONG:
        raise ValueOutOfRange(
            "-9223372036854775808 cannot be stored in a BSI, because its absolute value does not fit in 64 bits"
        )
    below = keys < 0
    parts = _part(keys[~below], rows[~below]) + _part(-keys[below], rows[below])
    return BsiIndex(HEAD.pack(VERSION, column.length) + parts, column.key_type.data_type)


def _part(numbers: Any, rows: Any) -> bytes:
    if not len(rows):
        return FLAG.pack(False)
    largest = int(numbers.max())
    # Java's writer starts with the minimum 0, so every index that Java writes has the minimum 0. orcidx writes the same
    # minimum.
    return _written(0, largest, bitmap_of_rows(rows, BitMap), write_slices(numbers, rows, largest.bit_length()))


# ---------------------------------------------------------------------- evaluate


class _Side:
    """One part of the index. Its methods compare the numbers of the part with a value."""

    def __init__(self, part: BsiPart | None) -> None:
        known = part or NO_PART
        self.smallest = known.smallest
        self.numbers = BitSlices(known.existence, len(known.slices), lambda first, stop: known.slices[first:stop])

    def equal(self, value: int) -> BitMap:
        return self.numbers.equal(value - self.smallest)

    def above(self, value: int) -> BitMap:
        return self.numbers.above(value - self.smallest)

    def below(self, value: int) -> BitMap:
        return self.numbers.below(value - self.smallest)


class BsiIndex(BodyIndex):
    """A bit-slice index. The whole index is read when it is first used, because bitmaps without lengths cannot be
    skipped."""

    kind = KIND
    answered = frozenset({"eq", "neq", "in", "notin", "lt", "lte", "gt", "gte", "between", "isnull", "isnotnull"})

    def __init__(self, body: bytes | memoryview | Body, data_type: DataType | str) -> None:
        super().__init__(body, data_type)
        check_type(self.data_type)
        version, rows = self._body.unpack(HEAD, 0)
        if version != VERSION or rows < 0:
            raise CorruptFile(
                f"the BSI has version {version} and {rows} rows; it must have version {VERSION}, and the number of "
                "rows must not be negative",
                offset=0,
            )
        self._rows = int(rows)
        self._contents: Contents | None = None

    @property
    def rows(self) -> int:
        return self._rows

    def contents(self) -> Contents:
        """The contents of the body."""
        if self._contents is None:
            self._contents = read(self._body.all())
            self._positive = _Side(self._contents.positive)
            self._negative = _Side(self._contents.negative)
        return self._contents

    def check(self) -> None:
        self.contents()

    def answer(self, question: Question) -> Verdict:
        self.contents()
        present = self._positive.numbers.existence | self._negative.numbers.existence
        if isinstance(question, NullTest):
            return Verdict.of(present if question.negated else BitMap(range(self._rows)) - present, True)
        if self.key_type.loses_digits:
            return Verdict.remain()
        if isinstance(question, Points):
            found = BitMap()
            for key in question.keys:
                found |= self._equal(int(key))
            return Verdict.of(present - found if question.negated else found, True)
        return Verdict.of(self._span(question, present), True)

    def _equal(self, value: int) -> BitMap:
        return self._negative.equal(-value) if value < 0 else self._positive.equal(value)

    def _span(self, span: Span, present: BitMap) -> BitMap:
        rows = present
        if span.low is not None:
            low = int(span.low)
            rows = rows - self._below(low + 1 if span.low_open else low)
        if span.high is not None:
            high = int(span.high)
            rows = rows & self._below(high if span.high_open else high + 1)
        return rows

    def _below(self, value: int) -> BitMap:
        """The rows with a value below ``value``."""
        if value <= 0:
            return self._negative.above(-value)
        return self._positive.below(value) | self._negative.numbers.existence


def check_type(data_type: DataType) -> None:
    """Raises ``Unsupported`` for a type that a BSI does not support."""
    if data_type.root not in _ROOTS:
        raise Unsupported(f"a bsi index does not support values of type {data_type}")
