"""The numbered kinds of the format: codecs, writers, types, streams, encodings."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["DATA_KINDS", "STREAM_NAMES", "CompressionKind", "EncodingKind", "StreamKind", "TypeKind", "WriterKind"]


class CompressionKind(IntEnum):
    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


class WriterKind(IntEnum):
    """Who wrote the file."""

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
"""The kinds of streams that hold values, rather than what is known of them."""


STREAM_NAMES = {kind: kind.name for kind in StreamKind}


class EncodingKind(IntEnum):
    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3
