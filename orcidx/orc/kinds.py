"""The numbered kinds of the format (codecs, writers, types, streams, encodings), and the streams in which each type is
stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = [
    "DATA_KINDS",
    "INTEGER_STREAM",
    "LAYOUTS",
    "STREAM_NAMES",
    "CompressionKind",
    "EncodingKind",
    "StreamKind",
    "StreamShape",
    "StreamSpec",
    "TypeKind",
    "WriterKind",
]


class CompressionKind(IntEnum):
    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


class WriterKind(IntEnum):
    """The software that wrote the file, as the number in its footer."""

    JAVA = 0
    CPP = 1
    PRESTO = 2
    SCRITCHLEY = 3
    TRINO = 4
    CUDF = 5


class TypeKind(IntEnum):
    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20


class StreamKind(IntEnum):
    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8
    ENCRYPTED_INDEX = 9
    ENCRYPTED_DATA = 10
    STRIPE_STATISTICS = 100
    FILE_STATISTICS = 101


DATA_KINDS = tuple(kind for kind in StreamKind if kind <= StreamKind.SECONDARY)
"""The kinds of streams that have values. The other kinds have indexes or statistics."""


STREAM_NAMES: dict[int, str] = {kind: kind.name for kind in StreamKind}


class EncodingKind(IntEnum):
    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


class StreamShape(Enum):
    """The kind of data that a stream contains. The value of each member is the number of positions of the stream in an
    index entry of an uncompressed file."""

    BYTES = ("bytes", 1)
    BYTE_RLE = ("byte_rle", 2)
    INT_RLE = ("int_rle", 2)
    BITS = ("bits", 3)

    def positions(self, *, compressed: bool) -> int:
        return self.value[1] + compressed


@dataclass(frozen=True)
class StreamSpec:
    """One stream of a column. ``signed``: whether its integers are zigzag coded. ``positioned``: whether row-index
    entries have positions in the stream. Streams of dictionaries have no positions, because they are read
    completely."""

    kind: StreamKind
    shape: StreamShape
    signed: bool = False
    positioned: bool = True


_BITS = (StreamSpec(StreamKind.DATA, StreamShape.BITS),)
_BYTES = (StreamSpec(StreamKind.DATA, StreamShape.BYTES),)
_BYTE_RLE = (StreamSpec(StreamKind.DATA, StreamShape.BYTE_RLE),)
INTEGER_STREAM = (StreamSpec(StreamKind.DATA, StreamShape.INT_RLE, signed=True),)
_LENGTHS = (StreamSpec(StreamKind.LENGTH, StreamShape.INT_RLE),)
_DICTIONARY = (
    StreamSpec(StreamKind.DATA, StreamShape.INT_RLE),
    StreamSpec(StreamKind.LENGTH, StreamShape.INT_RLE, positioned=False),
    StreamSpec(StreamKind.DICTIONARY_DATA, StreamShape.BYTES, positioned=False),
)
_DECIMAL = (*_BYTES, StreamSpec(StreamKind.SECONDARY, StreamShape.INT_RLE, signed=True))
_TIMESTAMP = (*INTEGER_STREAM, StreamSpec(StreamKind.SECONDARY, StreamShape.INT_RLE))

_DIRECT: dict[TypeKind, tuple[StreamSpec, ...]] = {
    TypeKind.BOOLEAN: _BITS,
    TypeKind.BYTE: _BYTE_RLE,
    TypeKind.UNION: _BYTE_RLE,
    TypeKind.SHORT: INTEGER_STREAM,
    TypeKind.INT: INTEGER_STREAM,
    TypeKind.LONG: INTEGER_STREAM,
    TypeKind.DATE: INTEGER_STREAM,
    TypeKind.FLOAT: _BYTES,
    TypeKind.DOUBLE: _BYTES,
    TypeKind.STRING: _BYTES + _LENGTHS,
    TypeKind.CHAR: _BYTES + _LENGTHS,
    TypeKind.VARCHAR: _BYTES + _LENGTHS,
    TypeKind.BINARY: _BYTES + _LENGTHS,
    TypeKind.GEOMETRY: _BYTES + _LENGTHS,
    TypeKind.GEOGRAPHY: _BYTES + _LENGTHS,
    TypeKind.DECIMAL: _DECIMAL,
    TypeKind.TIMESTAMP: _TIMESTAMP,
    TypeKind.TIMESTAMP_INSTANT: _TIMESTAMP,
    TypeKind.LIST: _LENGTHS,
    TypeKind.MAP: _LENGTHS,
    TypeKind.STRUCT: (),
}

LAYOUTS: dict[tuple[TypeKind, EncodingKind], tuple[StreamSpec, ...]] = {
    (kind, encoding): layout
    for kind, layout in _DIRECT.items()
    for encoding in (EncodingKind.DIRECT, EncodingKind.DIRECT_V2)
} | {
    (kind, encoding): _DICTIONARY
    for kind in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
    for encoding in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)
}
"""The value streams of a column in order, without PRESENT. A (type, encoding) pair that is not a key is not allowed."""
