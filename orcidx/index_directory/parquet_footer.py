"""What a Parquet file's footer says of its column chunks, read from Thrift's compact protocol.

pyarrow's own ``RowGroupMetaData.column`` ends the process for a footer with one flipped bit (its C++ throws where no
exception is caught: "Definition level histogram size mismatch"), so that a catalog is looked through here before it is
shown to pyarrow, whose reader raises.

    FileMetaData    3 rows  4 RowGroup*
    RowGroup        1 ColumnChunk*  3 rows
    ColumnChunk     3 ColumnMetaData  8, 9 encrypted
    ColumnMetaData  2 encodings  5 values  6 bytes decompressed  7 bytes  9 first data page  11 dictionary page

Source: parquet-format's parquet.thrift, and Thrift's thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile

__all__ = ["ChunkFacts", "FooterFacts", "read_footer"]

_BOOLEANS, _INTEGERS, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), (4, 5, 6), (8,), (9, 10), 11, (12,)
_SIZES = {3: 1, 7: 8}
"""Of a byte and a double."""
_DEEPEST = 16
_MAGIC = b"PAR1"
_KEPT_BYTES = 64 << 10
"""Longer footers are not kept."""


@dataclass(frozen=True)
class ChunkFacts:
    """A column chunk: values, bytes decompressed and stored, where it starts, and the numbers of its encodings."""

    values: int
    decompressed: int
    stored: int
    start: int
    encodings: frozenset[int]


@dataclass(frozen=True)
class FooterFacts:
    """The rows that the file and its row groups claim, the largest of these, and their column chunks."""

    rows: int
    chunks: tuple[ChunkFacts, ...]


def read_footer(source: pa.NativeFile) -> FooterFacts:
    """The facts of a Parquet file (a seekable ``pyarrow.NativeFile``). Raises ``CorruptFile``."""
    size = source.size()
    source.seek(max(0, size - 8))
    end = source.read(8)
    length = int.from_bytes(end[:4], "little")
    if len(end) < 8 or end[4:] != _MAGIC or length > size - 8:
        raise CorruptFile("not a catalog: it has no Parquet footer; build the indexes again")
    source.seek(size - 8 - length)
    try:
        return (_kept_facts if length <= _KEPT_BYTES else _facts)(source.read(length))
    except (IndexError, KeyError) as error:
        raise CorruptFile("not a catalog: its Parquet footer is damaged; build the indexes again") from error


def _facts(footer: bytes) -> FooterFacts:
    found = _Compact(footer).struct({3: _INTEGER, 4: _list_of(_STRUCT, _row_group)})
    groups = found.get(4, [])
    rows = max(found[3], 0, *(group_rows for group_rows, _ in groups))
    return FooterFacts(rows, tuple(chunk for _, chunks in groups for chunk in chunks))


_kept_facts = lru_cache(maxsize=64)(_facts)
"""One catalog is looked at for each query; 49 columns take 2 ms, several times."""


def _row_group(data: _Compact) -> tuple[int, list[ChunkFacts]]:
    found = data.struct({1: _list_of(_STRUCT, _chunk), 3: _INTEGER})
    return found[3], found[1]


def _chunk(data: _Compact) -> ChunkFacts:
    found = data.struct({3: (_STRUCT, _chunk_facts), 8: (_STRUCT, _encrypted), 9: (_BINARY, _encrypted)})
    return found[3]  # type: ignore[no-any-return]


def _encrypted(data: _Compact) -> None:
    raise CorruptFile("a catalog is encrypted, as none is written; build the indexes again")


def _chunk_facts(data: _Compact) -> ChunkFacts:
    wanted = dict.fromkeys((5, 6, 7, 9, 11), _INTEGER)
    found = data.struct({**wanted, 2: _list_of(*_INTEGER)})
    start = min(found[9], found.get(11) or found[9])  # 0 for no dictionary is what some writers say
    return ChunkFacts(found[5], found[6], found[7], start, frozenset(found[2]))


class _Compact:
    """A message in Thrift's compact protocol, read forwards; what is not wanted is passed over.

    ``IndexError`` where it ends too early. Everything takes a byte at least, so that no count makes a loop longer than
    the message.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, wanted: Mapping[int, _Wanted], depth: int = 0) -> dict[int, Any]:
        """The wanted fields by number, the last of each; ``KeyError`` for one of another type."""
        found: dict[int, Any] = {}
        number = 0
        while header := self.byte():
            kind = header & 15
            number = number + (header >> 4) if header >> 4 else self.integer()
            if number in wanted:
                kinds, read = wanted[number]
                if kind not in kinds:
                    raise KeyError(f"field {number} is of type {kind}")
                found[number] = read(self)
            else:
                self._skip(kind, depth + 1)
        return found

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def length(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise IndexError("a number of more than ten bytes")
        return value | byte << shift

    def integer(self) -> int:
        value = self.length()
        return value >> 1 ^ -(value & 1)

    def list_header(self) -> tuple[int, int]:
        """(elements, their type)"""
        header = self.byte()
        return self._count(header >> 4 if header >> 4 < 15 else self.length()), header & 15

    def _count(self, count: int) -> int:
        if count > len(self._data) - self._at:
            raise IndexError("more elements than there are bytes")
        return count

    def _pass(self, size: int) -> None:
        self._at += size
        if self._at > len(self._data):
            raise IndexError("the message ends too early")

    def _skip(self, kind: int, depth: int, *, in_list: bool = False) -> None:
        if depth > _DEEPEST:
            raise IndexError("messages within messages")
        if kind in _BOOLEANS:
            self._pass(int(in_list))  # of a field it is the type that tells
        elif kind in _SIZES:
            self._pass(_SIZES[kind])
        elif kind in _INTEGERS:
            self.length()
        elif kind in _BINARY:
            self._pass(self.length())
        elif kind in _LISTS:
            count, element = self.list_header()
            for _ in range(count):
                self._skip(element, depth + 1, in_list=True)
        elif kind == _MAP:
            count = self._count(self.length())
            kinds = self.byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, depth + 1, in_list=True)
                self._skip(kinds & 15, depth + 1, in_list=True)
        elif kind in _STRUCT:
            self.struct({}, depth)
        else:
            raise IndexError(f"a field of type {kind}")


_Wanted = tuple[tuple[int, ...], Callable[[_Compact], Any]]
_INTEGER: _Wanted = (_INTEGERS, _Compact.integer)


def _list_of(kinds: tuple[int, ...], read: Callable[[_Compact], Any]) -> _Wanted:
    def elements(data: _Compact) -> list[Any]:
        count, kind = data.list_header()
        if count and kind not in kinds:
            raise KeyError(f"a list of type {kind}")
        return [read(data) for _ in range(count)]

    return _LISTS, elements
