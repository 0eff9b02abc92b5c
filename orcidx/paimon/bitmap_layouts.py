"""The two layouts of a bitmap index, for reading. The module ``bitmap`` describes both. A layout finds the places of
values and their bitmaps, and reads only the bytes that it needs for this."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyroaring import BitMap

from orcidx.errors import CorruptFile
from orcidx.paimon.body import Body, checked_rows, rows_of
from orcidx.paimon.keys import INT, Key, KeyType, KeyValues
from orcidx.paimon.roaring import read_bitmap

__all__ = ["LAYOUT_OF_VERSION", "NOT_STORED", "PAIR", "listed_keys"]

PAIR = struct.Struct(">ii")  # offset and length
NOT_STORED = -1  # stored as the length if a value has only one row, because such a value has no bitmap
_GUESSED_HEAD_BYTES = 8 << 10  # size of the first read, if the size of the head is unknown


@dataclass(frozen=True)
class BitmapEntries:
    """Keys with the positions of their bitmaps. ``offsets[i]`` counts from the first bitmap. A negative offset means a
    single row, as in the module ``bitmap``. A length of -1 means that the length is unknown."""

    keys: KeyValues
    offsets: Sequence[int]
    lengths: Sequence[int]

    def find(self, key: Key) -> tuple[int, int] | None:
        """The offset and the length of the bitmap of a key. None if there is no such key. ``keys`` must ascend."""
        at = bisect_left(self.keys, key)
        if at == len(self.keys) or self.keys[at] != key:
            return None
        return int(self.offsets[at]), int(self.lengths[at])


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
        self._by_key = dict(zip(listed_keys(self._entries.keys), self._entries.offsets))
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
        keys = [key for block in blocks for key in listed_keys(block.keys)]
        self.kind.check_ascending(keys, "all blocks")
        if len(keys) != self.values:
            raise CorruptFile(f"the blocks have {len(keys)} values, but the header says {self.values}")
        offsets = [offset for block in blocks for offset in block.offsets]
        return BitmapEntries(keys, offsets, [length for block in blocks for length in block.lengths])


def _is_padded(key: Any, stem: bytes) -> bool:
    return bool(key.startswith(stem)) and not key[len(stem) :].strip(b" ")


def listed_keys(keys: KeyValues) -> list[Any]:
    """The keys as a list of Python values."""
    return keys.tolist() if isinstance(keys, np.ndarray) else keys


LAYOUT_OF_VERSION: dict[int, type[_Layout1] | type[_Layout2]] = {1: _Layout1, 2: _Layout2}
"""The layouts by the version of the index."""
