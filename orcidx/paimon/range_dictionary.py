"""The dictionary of a range bitmap. It stores the sorted values in chunks. A chunk is found by its first value.

    header length  i32   13
    version        u8    1
    chunks         i32
    offsets length i32   4 * chunks
    chunks length  i32
    offsets        i32 per chunk: the position of its header, from the first header on
    chunk headers:
        version      u8   1
        first value
        code         i32  of the first value
        keys offset  i32  of the chunk's other values, counted from the end of the headers
        values       i32  number of the other values
        offsets length  i32  text only: 4 * values
        keys length  i32
        key width    i32  fixed width only
    keys: per chunk the other values; text values follow their i32 offsets, which count from the first text

Integers are big-endian. The module ``keys`` describes how values are stored. A chunk has as many values as fit into the
chunk size.
For text, the offsets of these values must also fit into the chunk size. The first value of a chunk is stored in the
header of the chunk, and is not counted.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from orcidx.errors import CorruptFile, ValueOutOfRange
from orcidx.paimon.body import Body
from orcidx.paimon.keys import INT, LARGEST_INT, Key, KeyType, KeyValues, integers

__all__ = ["KeyDictionary", "write_dictionary"]

VERSION = 1
HEAD = struct.Struct(">iBiii")  # header length, version, chunks, offsets length, chunks length
# Code, keys offset, values. Then offsets length and keys length for text, or keys length and key width for fixed width.
CHUNK = struct.Struct(">iiiii")
LENGTH = INT.size


class Chunk(NamedTuple):
    """The header of a chunk. ``first``: the first value of the chunk. ``others``: the number of its other values.
    ``start`` and ``size``: the range of the other values in the key areas."""

    first: Key
    code: int
    start: int
    others: int
    offsets_size: int
    size: int


# ---------------------------------------------------------------------- read


class KeyDictionary:
    """A dictionary at ``place`` (offset, length) of a body. The chunk headers are read when they are first used. A
    chunk is read when a wanted value may be in it. Headers and chunks that were read are kept in memory."""

    def __init__(self, body: Body, place: tuple[int, int], kind: KeyType, cardinality: int) -> None:
        self._body = body
        self._at, self._size = place
        self._kind = kind
        self._cardinality = cardinality
        self._chunks: list[Chunk] | None = None
        self._firsts: list[Key] = []
        self._keys_at = 0
        self._loaded: dict[int, list[Key]] = {}

    def chunks(self) -> list[Chunk]:
        """The headers of all chunks."""
        if self._chunks is None:
            chunks = self._read_chunks()
            self._firsts = [chunk.first for chunk in chunks]
            self._kind.check_ascending(self._firsts, "the chunks")
            self._chunks = chunks
        return self._chunks

    def _read_chunks(self) -> list[Chunk]:
        if self._size < HEAD.size:
            raise CorruptFile(
                f"a dictionary has {self._size} bytes, but its header has at least {HEAD.size} bytes", offset=self._at
            )
        length, version, count, offsets_size, headers_size = self._body.unpack(HEAD, self._at)
        if version > VERSION or length != HEAD.size - LENGTH:
            raise CorruptFile(
                f"the dictionary has version {version} and a header of {length} bytes; orcidx supports only version "
                f"{VERSION} with a header of {HEAD.size - LENGTH} bytes",
                offset=self._at,
            )
        if headers_size < 0:
            raise CorruptFile(
                f"the stored size of a dictionary's chunk headers is {headers_size} bytes, but must not be negative",
                offset=self._at,
            )
        if count < 0 or offsets_size != INT.size * count:
            raise CorruptFile(
                f"a dictionary of {count} chunks has {offsets_size} bytes of offsets, but must have {INT.size} bytes "
                "for each chunk",
                offset=self._at,
            )
        headers_at = self._at + HEAD.size + offsets_size
        self._keys_at = headers_at + headers_size
        if self._keys_at > self._at + self._size:
            raise CorruptFile(
                f"the chunk headers end at byte {self._keys_at - self._at} of the dictionary, but the dictionary has "
                f"only {self._size} bytes",
                offset=self._at,
            )
        offsets, headers = self._body.read_many([(self._at + HEAD.size, offsets_size), (headers_at, headers_size)])
        chunks = self._read_fixed_chunks(headers, integers(offsets)) if self._kind.width else None
        if chunks is None:
            chunks = [self._read_chunk(headers, offset) for offset in integers(offsets)]
        codes = [chunk.code for chunk in chunks] + [self._cardinality]
        if codes[0] != 0 or any(c.code + 1 + c.others != code for c, code in zip(chunks, codes[1:])):
            raise CorruptFile(
                f"the chunks do not contain the codes from 0 to {self._cardinality - 1} without gaps", offset=self._at
            )
        return chunks

    def _read_fixed_chunks(self, headers: memoryview, offsets: list[int]) -> list[Chunk] | None:
        """Reads all headers at once, if they have the layout that Java writes. Returns None if they have another
        layout, or if a header is damaged."""
        header = np.dtype([("version", "u1"), ("first", self._kind.dtype), ("rest", ">i4", CHUNK.size // INT.size)])
        count = len(offsets)
        if len(headers) != count * header.itemsize or offsets != list(range(0, len(headers), header.itemsize)):
            return None
        stored = np.frombuffer(headers, header)
        codes, starts, counts, sizes, widths = stored["rest"].astype(np.int64).T
        room = self._at + self._size - self._keys_at
        sound = (stored["version"] <= VERSION) & (widths == self._kind.width) & (sizes == counts * widths)
        if not np.all(sound & (counts >= 0) & (starts >= 0) & (starts + sizes <= room)):
            return None
        columns = (self._kind.decode(stored["first"]), codes, starts, counts, np.zeros(count, np.int64), sizes)
        return [Chunk._make(fields) for fields in zip(*(column.tolist() for column in columns))]

    def _read_chunk(self, headers: memoryview, at: int) -> Chunk:
        if not 0 <= at < len(headers):
            raise CorruptFile(
                f"a chunk header cannot start at byte {at} of the {len(headers)} bytes of chunk headers", offset=at
            )
        if headers[at] > VERSION:
            raise CorruptFile(
                f"a chunk header has version {headers[at]}; orcidx supports only version {VERSION}", offset=at
            )
        first, at = self._kind.read(headers, at + 1)
        if at + CHUNK.size > len(headers):
            raise CorruptFile("a chunk header is cut off", offset=at)
        code, start, count, size, last = CHUNK.unpack_from(headers, at)
        offsets_size = 0
        if self._kind.width:
            sound = last == self._kind.width and size == count * last
        else:
            offsets_size, size = size, last
            sound = offsets_size == count * INT.size and size >= offsets_size
        room = self._at + self._size - self._keys_at
        if not sound or count < 0 or size < 0:
            raise CorruptFile(
                f"the header of a chunk contradicts itself: {count} values cannot have {offsets_size} bytes of offsets "
                f"and {size} bytes of keys",
                offset=at,
            )
        if start < 0 or start + offsets_size + size > room:
            raise CorruptFile(
                f"the {offsets_size + size} bytes of a chunk at byte {start} do not fit into the {room} bytes of all "
                "chunks",
                offset=at,
            )
        return Chunk(first, code, start, count, offsets_size, size)

    def _load(self, numbers: Sequence[int]) -> None:
        chunks = self.chunks()
        missing = [n for n in sorted(set(numbers)) if n not in self._loaded]
        ranges = [(self._keys_at + chunks[n].start, chunks[n].offsets_size + chunks[n].size) for n in missing]
        for number, data in zip(missing, self._body.read_many(ranges) if ranges else []):
            keys = self._read_keys(number, data)
            if number + 1 < len(chunks) and not keys[-1] < chunks[number + 1].first:  # type: ignore[operator]
                raise CorruptFile(f"the last value of chunk {number} is not below the first value of the next chunk")
            self._loaded[number] = keys

    def _read_keys(self, number: int, data: memoryview) -> list[Key]:
        chunk = self.chunks()[number]
        if self._kind.width:
            first = np.array([chunk.first], np.int64)
            stored = np.concatenate([first, self._kind.decode(np.frombuffer(data, self._kind.dtype))])
            self._kind.check_ascending(stored, f"chunk {number}")
            numbers: list[Key] = stored.tolist()
            return numbers
        area = data[chunk.offsets_size :]
        keys, at = [chunk.first], 0
        for offset in integers(data[: chunk.offsets_size]):
            if offset != at:
                raise CorruptFile("the offsets in a chunk do not point to the keys of the chunk")
            key, at = self._kind.read(area, offset)
            keys.append(key)
        if at != len(area):
            raise CorruptFile(f"there are {len(area) - at} unexpected bytes after the keys of a chunk")
        self._kind.check_ascending(keys, f"chunk {number}")
        return keys

    def find(self, key: Key) -> tuple[int, bool]:
        """Returns the code of a key, and True. If the key is not stored, returns the code of the next larger key, and
        False. If there is no larger key, the returned code is the cardinality."""
        return self.find_many([key])[0]

    def find_many(self, keys: Sequence[Key]) -> list[tuple[int, bool]]:
        """Does the same as ``find`` for several keys, and reads their chunks together."""
        chunks = self.chunks()
        numbers = [bisect_right(self._firsts, key) - 1 for key in keys]
        inside = [n for n, key in zip(numbers, keys) if n >= 0 and chunks[n].others and key != chunks[n].first]
        self._load(inside)
        found = []
        for number, key in zip(numbers, keys):
            if number < 0:
                found.append((0, False))
                continue
            chunk = chunks[number]
            known = self._loaded.get(number, [chunk.first])
            at = bisect_left(known, key)
            found.append((chunk.code + at, at < len(known) and known[at] == key))
        return found

    def key(self, code: int) -> Key:
        """The key of a code. The code must be below the cardinality."""
        chunks = self.chunks()
        number = bisect_right(chunks, code, key=lambda chunk: chunk.code) - 1
        chunk = chunks[number]
        if code == chunk.code:
            return chunk.first
        self._load([number])
        return self._loaded[number][code - chunk.code]

    def keys(self) -> list[Key]:
        """Every key in ascending order."""
        numbers = range(len(self.chunks()))
        self._load(numbers)
        return [key for number in numbers for key in self._loaded[number]]


# ---------------------------------------------------------------------- write


def write_dictionary(kind: KeyType, keys: KeyValues, chunk_size: int) -> bytes:
    """The bytes of a dictionary of ascending keys, in chunks of ``chunk_size`` bytes."""
    starts = _chunk_starts(kind, keys, chunk_size)
    offsets: list[bytes] = []
    headers: list[bytes] = []
    areas: list[bytes] = []
    headers_size = areas_size = 0
    for start, stop in zip(starts, [*starts[1:], len(keys)]):
        area, offsets_area = _key_area(kind, keys, start + 1, stop)
        sizes = (len(area), kind.width) if kind.width else (len(offsets_area), len(area))
        header = bytes([VERSION]) + kind.write(keys[start])
        header += CHUNK.pack(start, areas_size, stop - start - 1, *sizes)
        offsets.append(INT.pack(headers_size))
        headers.append(header)
        areas += [offsets_area, area]
        headers_size += len(header)
        areas_size += len(offsets_area) + len(area)
        if areas_size > LARGEST_INT or headers_size > LARGEST_INT:
            raise ValueOutOfRange("the values take more than 2 GiB, the limit of a range-bitmap index")
    head = HEAD.pack(HEAD.size - LENGTH, VERSION, len(starts), INT.size * len(starts), headers_size)
    return b"".join([head, *offsets, *headers, *areas])


def _key_area(kind: KeyType, keys: KeyValues, start: int, stop: int) -> tuple[bytes, bytes]:
    """The stored keys of a chunk, and for text their offsets. In the file the offsets come before the keys."""
    if isinstance(keys, np.ndarray):
        return kind.encode(keys[start:stop]).tobytes(), b""
    stored = [INT.pack(len(key)) + key for key in keys[start:stop]]
    sizes = np.fromiter(map(len, stored), np.int64, len(stored))
    return b"".join(stored), (np.cumsum(sizes) - sizes).astype(">i4").tobytes()


def _chunk_starts(kind: KeyType, keys: KeyValues, chunk_size: int) -> list[int]:
    """The index of the first key of each chunk."""
    if kind.width:
        return list(range(0, len(keys), 1 + chunk_size // kind.width))
    ends = np.cumsum(kind.stored_sizes(keys))
    most = chunk_size // INT.size  # like the keys, the offsets of a chunk are limited to chunk_size bytes
    starts: list[int] = []
    at = 0
    while at < len(keys):
        starts.append(at)
        full = int(np.searchsorted(ends, int(ends[at]) + chunk_size, "right"))
        at = max(at + 1, min(full, at + 1 + most))
    return starts
