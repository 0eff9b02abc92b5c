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
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.paimon.body import Body, checked_rows, rows_of
from orcidx.paimon.data_types import INTEGERS, TEXTS, TIMESTAMPS, DataType
from orcidx.paimon.index import BodyIndex
from orcidx.paimon.key_arrays import KeyColumn
from orcidx.paimon.keys import INT, LARGEST_INT, Key, KeyType, KeyValues, key_type
from orcidx.paimon.questions import NullTest, Points, Question
from orcidx.paimon.roaring import read_bitmap, write_bitmap
from orcidx.paimon.roaring_writer import write_groups
from orcidx.pruning.evaluate import Verdict
from orcidx.pruning.row_forms import bitmap_of_rows

__all__ = ["BitmapIndex", "Contents", "build", "write"]

KIND = "bitmap"
HEAD = struct.Struct(">BiiB")  # version, rows, values, has null
PAIR = struct.Struct(">ii")  # offset and length
DEFAULT_BLOCK_SIZE = 16 << 10
NOT_STORED = -1  # stored as the length if a value has only one row, because such a value has no bitmap
_GUESSED_HEAD_BYTES = 8 << 10  # size of the first read, if the size of the head is unknown

_ROOTS = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", *TEXTS, "DATE", "TIME", *TIMESTAMPS)


@dataclass(frozen=True)
class Contents:
    """The contents of a body: ``keys`` in the order of the body, and the rows of each key."""

    rows: int
    nulls: BitMap
    keys: tuple[Key, ...]
    bitmaps: tuple[BitMap, ...]


@dataclass(frozen=True)
class BitmapEntries:
    """Keys with the positions of their bitmaps. ``offsets[i]`` counts from the first bitmap. A negative offset means a
    single row, as in the module's docstring. A length of -1 means that the length is unknown."""

    keys: KeyValues
    offsets: Sequence[int]
    lengths: Sequence[int]

    def find(self, key: Key) -> tuple[int, int] | None:
        """The offset and the length of the bitmap of a key. None if there is no such key. ``keys`` must ascend."""
        at = bisect_left(self.keys, key)
        if at == len(self.keys) or self.keys[at] != key:
            return None
        return int(self.offsets[at]), int(self.lengths[at])


# ---------------------------------------------------------------------- read


def _read_entries(data: memoryview, count: int, kind: KeyType, fields: struct.Struct) -> tuple[BitmapEntries, int]:
    """Reads ``count`` entries. Returns the entries and the position of their end. An entry is a value and an offset. If
    the layout ``fields`` has two integers, the second integer is the length of the bitmap."""
    size = kind.width + fields.size
    if count < 0 or count > len(data) // max(size, INT.size + fields.size if not kind.width else 1):
        raise CorruptFile(f"{count} entries do not fit into the {len(data)} bytes of the index")
    if kind.width:
        names = [("key", kind.dtype), ("offset", ">i4"), ("length", ">i4")][: 1 + fields.size // INT.size]
        stored = np.frombuffer(data, np.dtype(names), count)
        lengths = stored["length"].tolist() if len(names) > 2 else [NOT_STORED] * count
        return BitmapEntries(kind.decode(stored["key"]), stored["offset"].tolist(), lengths), count * size
    keys: list[bytes] = []
    places: list[tuple[int, ...]] = []
    at = 0
    for _ in range(count):
        key, at = kind.read(data, at)
        if at + fields.size > len(data):
            raise CorruptFile("an entry is cut off", offset=at)
        keys.append(key)  # type: ignore[arg-type]
        places.append(fields.unpack_from(data, at))
        at += fields.size
    lengths = [place[1] if len(place) > 1 else NOT_STORED for place in places]
    return BitmapEntries(keys, [place[0] for place in places], lengths), at


class _Layout:
    """The positions of the parts of a body. There is one subclass for version 1 and one for version 2."""

    def __init__(self, body: Body, kind: KeyType, rows: int) -> None:
        self.body = body
        self.kind = kind
        self.rows = rows
        self.first_bitmap = 0

    def head_entries(self, at: int, count: int) -> tuple[BitmapEntries, int]:
        """Reads ``count`` entries of the head from the position ``at``. Returns the entries and their size."""
        kind = self.kind
        guess = count * (kind.width + INT.size) if kind.width else max(_GUESSED_HEAD_BYTES, count * 2 * INT.size)
        entries, size = self.body.parse_growing(at, lambda data: _read_entries(data, count, kind, INT), guess=guess)
        return entries, size

    def places(self, keys: Sequence[Key]) -> list[tuple[int, int] | None]:
        """Offset and length of each key's bitmap."""
        raise NotImplementedError

    def places_padded(self, stem: bytes) -> list[tuple[int, int]]:
        """Offset and length of the bitmap of each key that consists of ``stem`` and any number of spaces."""
        raise NotImplementedError

    def null_place(self) -> tuple[int, int] | None:
        """The offset and the length of the bitmap of nulls."""
        raise NotImplementedError

    def with_length(self, offset: int, length: int) -> tuple[int, int]:
        """The offset of a bitmap, and its actual length if ``length`` is unknown."""
        return offset, length

    def entries(self) -> BitmapEntries:
        """Every entry."""
        raise NotImplementedError

    def bitmaps(self, places: Sequence[tuple[int, int]]) -> list[BitMap]:
        """The bitmap of rows at each position. All bitmaps are fetched together."""
        stored = [(self.first_bitmap + offset, length) for offset, length in places if offset >= 0]
        self.body.check_apart(stored)
        data = iter(self.body.read_many(stored))
        return [self._single(offset) if offset < 0 else self._stored(next(data)) for offset, _ in places]

    def _single(self, offset: int) -> BitMap:
        return checked_rows(BitMap([-1 - offset]), self.rows, "bitmap index")

    def _stored(self, data: memoryview) -> BitMap:
        return rows_of(data, self.rows, "bitmap index")


class _Layout1(_Layout):
    """Version 1. All entries are in the head, which is read at once."""

    def __init__(self, body: Body, kind: KeyType, rows: int, at: int, values: int, has_null: int) -> None:
        super().__init__(body, kind, rows)
        self.nulls = int(body.unpack(INT, at)[0]) if has_null else None
        at += INT.size if has_null else 0
        if values > (body.length - at) // (INT.size + (kind.width or INT.size)):
            raise CorruptFile(f"{values} values do not fit into the {body.length} bytes of the index", offset=5)
        self._entries, size = self.head_entries(at, values)
        self.first_bitmap = at + size
        # The entries can be in any order. A bitmap ends where the next bitmap begins.
        self._by_key = dict(zip(_listed(self._entries.keys), self._entries.offsets))
        if len(self._by_key) != values:
            raise CorruptFile("a value occurs twice")
        offsets = [*self._entries.offsets, *([] if self.nulls is None else [self.nulls])]
        self._edges = sorted({offset for offset in offsets if offset >= 0})
        self._edges.append(body.length - self.first_bitmap)

    def with_length(self, offset: int, length: int = NOT_STORED) -> tuple[int, int]:
        if offset < 0:
            return offset, NOT_STORED
        return offset, self._edges[bisect_right(self._edges, offset, hi=len(self._edges) - 1)] - offset

    def places(self, keys: Sequence[Key]) -> list[tuple[int, int] | None]:
        offsets = [self._by_key.get(key) for key in keys]
        return [None if offset is None else self.with_length(offset) for offset in offsets]

    def places_padded(self, stem: bytes) -> list[tuple[int, int]]:
        return [self.with_length(offset) for key, offset in self._by_key.items() if _is_padded(key, stem)]

    def null_place(self) -> tuple[int, int] | None:
        return None if self.nulls is None else self.with_length(self.nulls)

    def entries(self) -> BitmapEntries:
        return self._entries

    def _stored(self, data: memoryview) -> BitMap:
        return checked_rows(read_bitmap(data, 0)[0], self.rows, "bitmap index")


class _Layout2(_Layout):
    """Version 2. The head has the first key of each block. A block is read when a wanted key may be in it. Blocks that
    were read are kept in memory."""

    def __init__(self, body: Body, kind: KeyType, rows: int, at: int, values: int, has_null: int) -> None:
        super().__init__(body, kind, rows)
        self.values = values
        self.nulls = body.unpack(PAIR, at) if has_null else None
        at += PAIR.size if has_null else 0
        (blocks,) = body.unpack(INT, at)
        at += INT.size
        if blocks < 0 or blocks > values:
            raise CorruptFile(
                f"an index of {values} values must have from 0 to {values} blocks, but this index has {blocks} blocks",
                offset=at - INT.size,
            )
        self._firsts, size = self.head_entries(at, blocks)
        kind.check_ascending(self._firsts.keys, "the blocks")
        at += size
        (total,) = body.unpack(INT, at)
        self.first_block = at + INT.size
        self.first_bitmap = self.first_block + total
        self._edges = [*self._firsts.offsets, total]
        ascending = all(a < b for a, b in zip(self._edges, self._edges[1:]))
        if total < 0 or self.first_bitmap > body.length:
            raise CorruptFile(
                f"{total} bytes of blocks do not fit into the {body.length} bytes of the index", offset=at
            )
        if not ascending or (blocks and self._edges[0]):
            raise CorruptFile(
                f"the offsets of the blocks must ascend, begin at 0, and be below {total}, the size of all blocks",
                offset=at,
            )
        self._blocks: dict[int, BitmapEntries] = {}

    def _load(self, numbers: Sequence[int]) -> None:
        missing = sorted(set(numbers) - self._blocks.keys())
        ranges = [(self.first_block + self._edges[n], self._edges[n + 1] - self._edges[n]) for n in missing]
        for number, data in zip(missing, self.body.read_many(ranges) if ranges else []):
            self._blocks[number] = self._block(number, data)

    def _block(self, number: int, data: memoryview) -> BitmapEntries:
        if len(data) < INT.size:
            raise CorruptFile("a block is cut off")
        (count,) = INT.unpack_from(data, 0)
        entries, size = _read_entries(data[INT.size :], count, self.kind, PAIR)
        if count < 1:
            raise CorruptFile(f"block {number} has no entries, but must have at least one")
        if INT.size + size != len(data):
            raise CorruptFile(
                f"there are {len(data) - INT.size - size} unexpected bytes after the entries of block {number}"
            )
        if entries.keys[0] != self._firsts.keys[number]:
            raise CorruptFile(f"the first value of block {number} differs from the value in the header")
        self.kind.check_ascending(entries.keys, f"block {number}")
        return entries

    def places(self, keys: Sequence[Key]) -> list[tuple[int, int] | None]:
        numbers = [bisect_right(self._firsts.keys, key) - 1 for key in keys]
        self._load([number for number in numbers if number >= 0])
        return [self._blocks[n].find(key) if n >= 0 else None for n, key in zip(numbers, keys)]

    def places_padded(self, stem: bytes) -> list[tuple[int, int]]:
        firsts = self._firsts.keys
        first = max(bisect_right(firsts, stem) - 1, 0)
        # "!" follows the space in ASCII. So ``stem + b"!"`` is above the stem with any number of spaces.
        numbers = range(first, bisect_right(firsts, stem + b"!"))
        self._load(numbers)
        blocks = [self._blocks[number] for number in numbers]
        entries = (entry for block in blocks for entry in zip(block.keys, block.offsets, block.lengths))
        return [(offset, length) for key, offset, length in entries if _is_padded(key, stem)]

    def null_place(self) -> tuple[int, int] | None:
        return self.nulls

    def entries(self) -> BitmapEntries:
        self._load(range(len(self._firsts.keys)))
        blocks = [self._blocks[number] for number in range(len(self._firsts.keys))]
        keys = [key for block in blocks for key in _listed(block.keys)]
        self.kind.check_ascending(keys, "all blocks")
        if len(keys) != self.values:
            raise CorruptFile(f"the blocks have {len(keys)} values, but the header says {self.values}")
        offsets = [offset for block in blocks for offset in block.offsets]
        return BitmapEntries(keys, offsets, [length for block in blocks for length in block.lengths])


def _is_padded(key: Any, stem: bytes) -> bool:
    return bool(key.startswith(stem)) and not key[len(stem) :].strip(b" ")


def _listed(keys: KeyValues) -> list[Any]:
    return keys.tolist() if isinstance(keys, np.ndarray) else keys


_LAYOUTS: dict[int, type[_Layout1] | type[_Layout2]] = {1: _Layout1, 2: _Layout2}


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
        if self.version not in _LAYOUTS:
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
        self._layout = _LAYOUTS[self.version](self._body, self.key_type, rows, HEAD.size, values, has_null)
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
        return Contents(self._rows, self.nulls, tuple(_listed(entries.keys)), tuple(self._layout.bitmaps(places)))

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
