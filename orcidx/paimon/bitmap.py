"""The bitmap index, versions 1 and 2. A bitmap index stores the rows of each value of a column. This module reads,
writes, builds and evaluates it.

Version 1                                       Version 2

    version         u8   1                          version         u8   2
    rows            i32                             rows            i32
    values          i32  distinct, without null     values          i32  distinct, without null
    has null        u8                              has null        u8
    null offset     i32  if has null                null offset     i32  if has null
    {value, i32 offset} per value                   null length     i32  if has null
    bitmaps                                         blocks          i32
                                                    {first value, i32 block offset} per block
                                                    size of blocks  i32
                                                    blocks: i32 entries, {value, i32 offset, i32 length} per entry
                                                    bitmaps

Integers are big-endian. The module ``keys`` describes how values are stored. In version 2 the values are sorted. In
version 1 they are not sorted, because Java writes them in the order of a hash map. An offset counts from the first
bitmap. A negative offset means the single row ``-1 - offset``, which has no bitmap. A block offset counts from the
first block. Version 1 has no lengths, because the end of a bitmap follows from its contents. In version 2 the
length of a single row is -1, but the length of a single null is the length that its bitmap would have.

In version 2, a lookup of a value reads one block and one bitmap.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.paimon.bitmap_layouts import LAYOUT_OF_VERSION, NOT_STORED, PAIR, listed_keys
from orcidx.paimon.body import Body
from orcidx.paimon.data_types import INTEGERS, TEXTS, TIMESTAMPS, DataType
from orcidx.paimon.index import BodyIndex
from orcidx.paimon.key_arrays import KeyColumn
from orcidx.paimon.keys import INT, LARGEST_INT, Key, KeyType, KeyValues, key_type
from orcidx.paimon.questions import NullTest, Points, Question
from orcidx.paimon.roaring import write_bitmap
from orcidx.paimon.roaring_writer import write_groups
from orcidx.pruning.evaluate import Verdict
from orcidx.pruning.row_forms import bitmap_of_rows

__all__ = ["BitmapIndex", "Contents", "build", "write"]

KIND = "bitmap"
HEAD = struct.Struct(">BiiB")  # version, rows, values, has null
DEFAULT_BLOCK_SIZE = 16 << 10

_ROOTS = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", *TEXTS, "DATE", "TIME", *TIMESTAMPS)


@dataclass(frozen=True)
class Contents:
    """The contents of a body: ``keys`` in the order of the body, and the rows of each key."""

    rows: int
    nulls: BitMap
    keys: tuple[Key, ...]
    bitmaps: tuple[BitMap, ...]


# ---------------------------------------------------------------------- write


def write(contents: Contents, data_type: DataType, *, version: int = 2, block_size: int = DEFAULT_BLOCK_SIZE) -> bytes:
    """The bytes of a body. The values are written in the order of ``contents``. For version 2 they must ascend.

    ``block_size``: the maximum size of a block in bytes, for version 2 only. Raises ``InvalidQuery`` if a value does
    not fit into a block, and ``ValueOutOfRange`` if the bitmaps take more than 2 GiB.
    """
    kind = key_type(data_type)
    single = np.array([bitmap[0] if len(bitmap) == 1 else -1 for bitmap in contents.bitmaps], np.int64)
    stored = [write_bitmap(bitmap) for bitmap in contents.bitmaps if len(bitmap) != 1]
    keys: KeyValues = np.array(contents.keys, np.int64) if kind.width else list(contents.keys)  # type: ignore[arg-type]
    sizes = np.fromiter(map(len, stored), np.int64, len(stored))
    values = _Values(keys, single, b"".join(stored), sizes)
    return _written(kind, contents.rows, contents.nulls, values, version, block_size)


@dataclass(frozen=True)
class _Values:
    """The keys and their rows. ``single``: the row of each key that has only one row, and -1 for the other keys.
    ``stored`` and ``sizes``: the bitmaps of the other keys in the order of the keys, and the size of each bitmap."""

    keys: KeyValues
    single: npt.NDArray[np.int64]
    stored: bytes
    sizes: npt.NDArray[np.int64]

    def places(self, first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The offset and the length of each key's bitmap. ``first`` is the offset of the first bitmap."""
        if first + len(self.stored) > LARGEST_INT:
            raise ValueOutOfRange("the bitmaps take more than 2 GiB, the limit of a bitmap index")
        lengths = np.full(len(self.single), NOT_STORED, np.int64)
        offsets = -1 - self.single
        shared = self.single < 0
        lengths[shared] = self.sizes
        offsets[shared] = first + np.cumsum(self.sizes) - self.sizes
        return offsets, lengths


def _written(kind: KeyType, rows: int, nulls: BitMap, values: _Values, version: int, block_size: int) -> bytes:
    null_data = write_bitmap(nulls)
    null_head = b""
    first = 0
    if nulls:
        offset = -1 - nulls[0] if len(nulls) == 1 else 0
        null_head = INT.pack(offset) if version == 1 else PAIR.pack(offset, len(null_data))
        first = 0 if len(nulls) == 1 else len(null_data)
    head = HEAD.pack(version, rows, len(values.keys), bool(nulls)) + null_head
    offsets, lengths = values.places(first)
    if version == 1:
        entries = _stored_entries(kind, values.keys, offsets)
    else:
        entries = _stored_blocks(kind, values.keys, (offsets, lengths), block_size)
    return b"".join([head, *entries, null_data if first else b"", values.stored])


def _stored_entries(kind: KeyType, keys: KeyValues, *numbers: npt.NDArray[np.int64]) -> list[bytes]:
    """The bytes of each entry. If all entries have the same size, the list has a single item, which is the bytes of all
    entries."""
    if isinstance(keys, np.ndarray):
        fields = [("key", kind.dtype), *((f"number{i}", ">i4") for i in range(len(numbers)))]
        entries = np.empty(len(keys), np.dtype(fields))
        entries["key"] = kind.encode(keys)
        for i, column in enumerate(numbers):
            entries[f"number{i}"] = column
        return [entries.tobytes()]
    fields_of = struct.Struct(f">{len(numbers)}i")
    rows = zip(*(column.tolist() for column in numbers))
    return [INT.pack(len(key)) + key + fields_of.pack(*row) for key, row in zip(keys, rows)]


def _stored_blocks(
    kind: KeyType, keys: KeyValues, places: Sequence[npt.NDArray[np.int64]], block_size: int
) -> list[bytes]:
    """The bytes of a body of version 2, from the number of blocks to the last block."""
    starts = _block_starts(kind.stored_sizes(keys) + PAIR.size, block_size - INT.size)
    entries = _stored_entries(kind, keys, *places)
    size = kind.width + PAIR.size
    blocks = []
    for start, stop in zip(starts, [*starts[1:], len(keys)]):
        inside = entries[0][start * size : stop * size] if kind.width else b"".join(entries[start:stop])
        blocks.append(INT.pack(stop - start) + inside)
    lengths = np.fromiter(map(len, blocks), np.int64, len(blocks))
    firsts: KeyValues = keys[starts] if isinstance(keys, np.ndarray) else [keys[start] for start in starts]
    heads = _stored_entries(kind, firsts, np.cumsum(lengths) - lengths)
    return [INT.pack(len(blocks)), *heads, INT.pack(int(lengths.sum())), *blocks]


def _block_starts(sizes: npt.NDArray[np.int64], room: int) -> list[int]:
    """The first entry of each block. A block gets as many entries as fit into ``room`` bytes."""
    if sizes.size and int(sizes.max()) > room:
        raise InvalidQuery(
            f"a value takes {sizes.max()} bytes, but an index block has only {room} bytes: raise index-block-size, or "
            "use version 1"
        )
    ends = np.cumsum(sizes)
    starts: list[int] = []
    at = 0
    while at < len(sizes):
        starts.append(at)
        before = int(ends[at - 1]) if at else 0
        at = int(np.searchsorted(ends, before + room, "right"))
    return starts


# ---------------------------------------------------------------------- build


def build(column: KeyColumn, *, version: int = 2, block_size: int = DEFAULT_BLOCK_SIZE) -> BitmapIndex:
    """Builds the index of a column. Raises the errors of ``write``."""
    groups = column.groups()
    starts, counts = groups.starts[:-1], np.diff(groups.starts)
    single = np.where(counts == 1, groups.rows[starts].astype(np.int64), -1)
    shared = counts > 1
    rows = groups.rows if shared.all() else groups.rows[np.repeat(shared, counts)]
    stored, sizes = write_groups(rows, np.concatenate(([0], np.cumsum(counts[shared]))).astype(np.int64))
    values = _Values(groups.keys, single, stored, sizes)
    data = _written(
        column.key_type, column.length, bitmap_of_rows(column.null_rows, BitMap), values, version, block_size
    )
    return BitmapIndex(data, column.key_type.data_type)


def check_type(data_type: DataType) -> None:
    """Raises ``Unsupported`` for a type that a bitmap index does not support."""
    if data_type.root not in _ROOTS:
        raise Unsupported(f"a bitmap index does not support values of type {data_type}")


# ---------------------------------------------------------------------- evaluate


class BitmapIndex(BodyIndex):
    """A bitmap index of version 1 or 2. Its parts are read when they are needed."""

    kind = KIND
    answered = frozenset({"eq", "neq", "in", "notin", "isnull", "isnotnull"})

    def __init__(self, body: bytes | memoryview | Body, data_type: DataType | str) -> None:
        super().__init__(body, data_type)
        check_type(self.data_type)
        self.version, rows, values, has_null = self._body.unpack(HEAD, 0)
        if self.version not in LAYOUT_OF_VERSION:
            raise CorruptFile(
                f"the bitmap index has version {self.version}; orcidx supports versions 1 and 2", offset=0
            )
        if not 0 <= values <= rows or has_null > 1:
            raise CorruptFile(
                f"the bitmap index has {rows} rows, {values} values and the null flag {has_null}; the number of values "
                "must be from 0 to the number of rows, and the null flag must be 0 or 1",
                offset=1,
            )
        self._rows = int(rows)
        self.cardinality = int(values)
        self._layout = LAYOUT_OF_VERSION[self.version](self._body, self.key_type, rows, HEAD.size, values, has_null)
        self._nulls: BitMap | None = None

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def nulls(self) -> BitMap:
        """The rows that are null."""
        if self._nulls is None:
            place = self._layout.null_place()
            self._nulls = self._layout.bitmaps([place])[0] if place else BitMap()
        return self._nulls

    def contents(self) -> Contents:
        """The contents of the body."""
        entries = self._layout.entries()
        places = [self._layout.with_length(*place) for place in zip(entries.offsets, entries.lengths)]
        return Contents(self._rows, self.nulls, tuple(listed_keys(entries.keys)), tuple(self._layout.bitmaps(places)))

    def check(self) -> None:
        self.check_rows(self.contents())

    def check_rows(self, contents: Contents) -> None:
        """Raises ``CorruptFile`` unless each row is in exactly one bitmap of the index's contents."""
        count = len(contents.nulls) + sum(map(len, contents.bitmaps))
        if count != self._rows or len(BitMap.union(contents.nulls, *contents.bitmaps)) != self._rows:
            raise CorruptFile(
                f"each of the {self._rows} rows must be in exactly one bitmap, but some rows are in no bitmap or in "
                f"several; the bitmaps contain {count} rows in all"
            )

    def answer(self, question: Question) -> Verdict:
        if isinstance(question, NullTest):
            return Verdict.of(self.present() if question.negated else self.nulls, True)
        if not isinstance(question, Points):
            return Verdict.remain()
        if self.key_type.loses_digits:
            return Verdict.remain()
        if question.stems:
            places = [place for stem in question.stems for place in self._layout.places_padded(stem)]
        else:
            places = [place for place in self._layout.places(question.keys) if place is not None]
        bitmaps = self._layout.bitmaps(places)
        found = BitMap.union(*bitmaps) if bitmaps else BitMap()
        return Verdict.of(self.present() - found if question.negated else found, True)

    def present(self) -> BitMap:
        """The rows that are not null."""
        return BitMap(range(self._rows)) - self.nulls
