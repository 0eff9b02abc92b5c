"""A range bitmap stores the sorted values of a column as codes, and the codes as bit slices. This module reads, writes,
builds and evaluates range bitmaps.

    header length  i32   bytes from version to dictionary length
    version        u8    1
    rows           i32
    cardinality    i32   distinct values, without null
    min, max       values; absent when cardinality is 0
    dictionary length  i32
    dictionary           see ``range_dictionary``
    bit slices:
        header length  i32   bytes from version to the end of the indexes
        version        u8    1
        slices         u8
        existence length   i32
        indexes length     i32
        indexes        {i32 offset, i32 length} per slice; offsets count from the end of the existence bitmap
        existence      bitmap of the rows that are not null
        slice b        bitmap of the rows whose code has bit b

Integers are big-endian. The module ``keys`` describes how values are stored. The distinct values in ascending order
have the codes 0, 1, 2, ... There are bitlength(cardinality - 1) slices, but at least 1. If there is no value, Java
writes 64 empty slices.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import BitMap

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.paimon.bit_slices import BitSlices, smallest
from orcidx.paimon.body import Body, is_within, rows_of
from orcidx.paimon.data_types import DataType
from orcidx.paimon.index import BodyIndex, as_bitmap
from orcidx.paimon.key_arrays import KeyColumn
from orcidx.paimon.keys import INT, Key, KeyValues, integers, key_type
from orcidx.paimon.questions import NullTest, Points, Question, Span
from orcidx.paimon.range_dictionary import KeyDictionary, write_dictionary
from orcidx.paimon.roaring import EMPTY_BITMAP, write_bitmap
from orcidx.paimon.roaring_writer import write_slices
from orcidx.pruning.evaluate import Verdict
from orcidx.pruning.row_forms import bitmap_of_rows

__all__ = ["Contents", "RangeBitmapIndex", "build", "write"]

KIND = "range-bitmap"
VERSION = 1
HEAD = struct.Struct(">iBii")  # header length, version, rows, cardinality
SLICES_HEAD = struct.Struct(">iBBii")  # header length, version, slices, existence length, indexes length
SLICE = struct.Struct(">ii")  # offset, length
LENGTH = INT.size  # size of the field "header length", which is not counted in the header length
SLICES_WITHOUT_VALUES = 64
"""The number of bit slices of an index without values. No index has more bit slices."""
DEFAULT_CHUNK_SIZE = 16 << 10

_SMALL = ("BOOLEAN", "TINYINT", "SMALLINT")
_ROOTS = (*_SMALL, "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "CHAR", "VARCHAR")
_LIMITED = {"DECIMAL": 18, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}


@dataclass(frozen=True)
class Contents:
    """The contents of a body. ``keys`` ascend. For each row that is not null, the bit slices store the code of the
    row's key."""

    rows: int
    keys: tuple[Key, ...]
    existence: BitMap
    slices: tuple[BitMap, ...]


# ---------------------------------------------------------------------- write


def write(contents: Contents, data_type: DataType, *, chunk_size: int | None = None) -> bytes:
    """The bytes of a body. ``chunk_size``: the size of a dictionary chunk in bytes. None means Paimon's default for the
    type."""
    kind = key_type(data_type)
    keys: KeyValues = np.array(contents.keys, np.int64) if kind.width else list(contents.keys)  # type: ignore[arg-type]
    slices = [write_bitmap(rows_with) for rows_with in contents.slices]
    return _written(contents.rows, keys, (contents.existence, slices), data_type, chunk_size)


def _written(
    rows: int,
    keys: KeyValues,
    numbers: tuple[BitMap, Sequence[bytes]],
    data_type: DataType,
    chunk_size: int | None,
) -> bytes:
    kind = key_type(data_type)
    if chunk_size is None:
        chunk_size = 0 if data_type.root in _SMALL else DEFAULT_CHUNK_SIZE
    ends = kind.write(keys[0]) + kind.write(keys[-1]) if len(keys) else b""
    head = HEAD.pack(HEAD.size + len(ends), VERSION, rows, len(keys)) + ends
    dictionary = write_dictionary(kind, keys, chunk_size)
    return b"".join([head, INT.pack(len(dictionary)), dictionary, *_stored_slices(*numbers)])


def _stored_slices(existence: BitMap, slices: Sequence[bytes]) -> list[bytes]:
    present = write_bitmap(existence)
    indexes = []
    at = 0
    for data in slices:
        indexes.append(SLICE.pack(at, len(data)))
        at += len(data)
    size = SLICE.size * len(slices)
    head = SLICES_HEAD.pack(SLICES_HEAD.size - LENGTH + size, VERSION, len(slices), len(present), size)
    return [head, *indexes, present, *slices]


# ---------------------------------------------------------------------- build


def build(column: KeyColumn, *, chunk_size: int | None = None) -> RangeBitmapIndex:
    """Builds the index of a column. ``chunk_size`` is as in ``write``. If the chunk size is 0, every value has a chunk
    of its own."""
    data_type = column.key_type.data_type
    if chunk_size is not None and chunk_size < 0:
        raise InvalidQuery(f"chunk-size is {chunk_size}, but must not be negative")
    keys, rows = column.distinct, column.present_rows
    count = max((len(keys) - 1).bit_length(), 1) if len(keys) else SLICES_WITHOUT_VALUES
    codes = column.codes.astype(np.int64)
    slices = write_slices(codes, rows, count) if len(keys) else [EMPTY_BITMAP] * count
    numbers = bitmap_of_rows(rows, BitMap), slices
    return RangeBitmapIndex(_written(column.length, keys, numbers, data_type, chunk_size), data_type)


def check_type(data_type: DataType) -> None:
    """Raises ``Unsupported`` for a type that a range bitmap does not support."""
    limit = _LIMITED.get(data_type.root)
    if limit is not None and data_type.precision > limit:
        raise Unsupported(f"a range-bitmap index supports {data_type.root} up to precision {limit}, not {data_type}")
    if limit is None and data_type.root not in _ROOTS:
        raise Unsupported(f"a range-bitmap index does not support values of type {data_type}")


# ---------------------------------------------------------------------- evaluate


class RangeBitmapIndex(BodyIndex):
    """A range bitmap. Its parts are read when they are needed. A lookup of a value reads one dictionary chunk and the
    slices."""

    kind = KIND
    answered = frozenset({"eq", "neq", "in", "notin", "lt", "lte", "gt", "gte", "between", "isnull", "isnotnull"})

    def __init__(self, body: bytes | memoryview | Body, data_type: DataType | str) -> None:
        super().__init__(body, data_type)
        check_type(self.data_type)
        length, version, rows, cardinality = self._body.unpack(HEAD, 0)
        if version > VERSION:
            raise CorruptFile(
                f"the range bitmap has version {version}; orcidx supports only version {VERSION}", offset=LENGTH
            )
        if not 0 <= cardinality <= rows or length < HEAD.size:
            raise CorruptFile(
                f"the range bitmap has a header of {length} bytes, {rows} rows and {cardinality} values, but it must "
                f"have a header of at least {HEAD.size} bytes, and at most one value for each row",
                offset=0,
            )
        self._rows = int(rows)
        self.cardinality = int(cardinality)
        end = LENGTH + length
        ends = self._body.read(HEAD.size, end - HEAD.size)
        at = 0
        self.smallest: Any = None
        self.largest: Any = None
        if cardinality:
            self.smallest, at = self.key_type.read(ends, 0)
            self.largest, at = self.key_type.read(ends, at)
        if at + INT.size != len(ends):
            raise CorruptFile(
                "the header of the range bitmap does not end with the length of its dictionary", offset=HEAD.size
            )
        (size,) = INT.unpack_from(ends, at)
        if cardinality and self.smallest > self.largest:
            raise CorruptFile(
                "in the header of the range bitmap, the smallest value is larger than the largest value",
                offset=HEAD.size,
            )
        self._body.check(end, size)
        self._dictionary = KeyDictionary(self._body, (end, size), self.key_type, self.cardinality)
        self._slices_at = end + size
        self._numbers: BitSlices | None = None

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def numbers(self) -> BitSlices:
        """The code of each row. The header of the slices and the existence bitmap are read when they are first used."""
        if self._numbers is None:
            self._numbers = self._open_slices()
        return self._numbers

    def _open_slices(self) -> BitSlices:
        at = self._slices_at
        length, version, count, existence_size, indexes_size = self._body.unpack(SLICES_HEAD, at)
        if version > VERSION:
            raise CorruptFile(
                f"the bit slices have version {version}; orcidx supports only version {VERSION}", offset=at
            )
        needed_length = SLICES_HEAD.size - LENGTH + SLICE.size * count
        if indexes_size != SLICE.size * count or length != needed_length:
            raise CorruptFile(
                f"the header of {count} bit slices has {length} bytes, of which {indexes_size} bytes are entries, but "
                f"must have {needed_length} bytes, of which {SLICE.size * count} bytes are entries",
                offset=at,
            )
        needed = max((self.cardinality - 1).bit_length(), 1)
        if not needed <= count <= SLICES_WITHOUT_VALUES:
            raise CorruptFile(
                f"there are {count} bit slices, but {self.cardinality} codes need {needed} to {SLICES_WITHOUT_VALUES} "
                "slices",
                offset=at,
            )
        indexes_at = at + SLICES_HEAD.size
        existence_at = indexes_at + indexes_size
        ranges = [(indexes_at, indexes_size), (existence_at, existence_size)]
        indexes, present = self._body.read_many(ranges)
        existence = rows_of(present, self._rows, "range bitmap")
        if bool(existence) != bool(self.cardinality) or len(existence) < self.cardinality:
            raise CorruptFile(
                f"the range bitmap has {self.cardinality} distinct values, but {len(existence)} rows with a value",
                offset=existence_at,
            )
        first = existence_at + existence_size
        numbers = integers(indexes)
        places = [(first + offset, size) for offset, size in zip(numbers[::2], numbers[1::2])]

        self._body.check_apart(places)

        def load(lowest: int, stop: int) -> list[BitMap]:
            stored = self._body.read_many(places[lowest:stop])
            return [rows_of(data, self._rows, "range bitmap") for data in stored]

        return BitSlices(existence, count, load)

    def key(self, code: int) -> Key:
        """The value of a code. The code must be below the cardinality."""
        return self._dictionary.key(code)

    def contents(self) -> Contents:
        """The contents of the body."""
        keys = self._dictionary.keys()
        if keys and (keys[0] != self.smallest or keys[-1] != self.largest):
            raise CorruptFile(
                "the first or last value of the dictionary differs from the smallest or largest value in the header"
            )
        return Contents(self._rows, tuple(keys), self.numbers.existence, tuple(self.numbers.slices()))

    def check(self) -> None:
        contents = self.contents()
        if not all(is_within(rows_with, contents.existence, self._rows) for rows_with in contents.slices):
            raise CorruptFile("a bit slice contains a row that is not among the rows with a value")
        if self.cardinality and self.numbers.above(self.cardinality - 1):
            raise CorruptFile(f"codes must be from 0 to {self.cardinality - 1}, but a row has a larger code")

    # ------------------------------------------------------------------ evaluation

    def answer(self, question: Question) -> Verdict:
        if isinstance(question, NullTest):
            present = self.numbers.existence
            return Verdict.of(present.copy() if question.negated else BitMap(range(self._rows)) - present, True)
        if not self.cardinality:
            return Verdict.of(BitMap(), True)
        if isinstance(question, Span):
            return Verdict.of(self._span(question), True)
        found = self._points(question)
        # A stem stands for each key that consists of the stem and any number of spaces. The span contains these keys,
        # because "!" follows the space in ASCII.
        for stem in question.stems:
            found |= self._span(Span(stem, stem + b"!", high_open=True))
        return Verdict.of(self.numbers.existence - found if question.negated else found, True)

    def _points(self, question: Points) -> BitMap:
        keys = [key for key in question.keys if self.smallest <= key <= self.largest]
        if keys and self.smallest == self.largest:
            return self.numbers.existence.copy()
        codes = [code for code, known in self._dictionary.find_many(keys) if known] if keys else []
        return self.numbers.any_of(codes) if codes else BitMap()

    def _span(self, span: Span) -> BitMap:
        """The rows whose key is in ``span``. Codes ascend with the keys, so these keys have consecutive codes."""
        first, stop = 0, self.cardinality
        above = span.low is not None and span.low > self.largest
        if above or (span.high is not None and span.high < self.smallest):
            return BitMap()
        if span.low is not None and span.low >= self.smallest:
            code, known = self._dictionary.find(span.low)
            first = code + 1 if known and span.low_open else code
        if span.high is not None and span.high <= self.largest:
            code, known = self._dictionary.find(span.high)
            stop = code + 1 if known and not span.high_open else code
        if first >= stop:
            return BitMap()
        rows = self.numbers.existence.copy() if first == 0 else self.numbers.above(first - 1)
        return rows if stop == self.cardinality else rows - self.numbers.above(stop - 1)

    # ------------------------------------------------------------------ top rows

    def top_k(
        self, k: int, *, descending: bool, nulls_first: bool, selection: object = None, strict: bool = True
    ) -> BitMap:
        """The first ``k`` rows of ``selection``, ordered by the column's values. ``selection`` is a ``BitMap``, a
        ``RowSelection``, or None for all rows.

        If ``strict``, at most ``k`` rows are returned. Several rows may have the same value as the row at place ``k``.
        Of these rows, the rows with the highest row numbers are returned. But if this value is null, the rows with the
        lowest row numbers are returned. Without ``strict``, all rows with this value are returned, and the caller
        orders them by the next column. If the column has no values, all rows of the selection are returned.
        """
        if k < 0:
            raise InvalidQuery(f"k must not be negative, but is {k}")
        candidates = as_bitmap(selection, self._rows)
        if not self.cardinality:
            return candidates
        nulls = candidates - self.numbers.existence
        values = candidates & self.numbers.existence
        some_nulls = smallest(nulls, k) if strict else nulls
        if nulls_first:
            if len(nulls) >= k:
                return some_nulls
            return nulls | self.numbers.top(k - len(nulls), values, largest=descending, strict=strict)
        best = self.numbers.top(k, values, largest=descending, strict=strict)
        if len(best) >= k:
            return best
        return best | (smallest(nulls, k - len(best)) if strict else nulls)
