"""Avro object container files, the format of Paimon's manifests. This module parses the file. ``fastavro`` decodes the
records.

    "Obj\\x01"  metadata map {"avro.schema": JSON, "avro.codec": text}  sync marker 16 bytes
    blocks: record count long, byte length long, bytes (compressed), sync marker

A few bytes of an untrusted file must not cause endless work. So the types of its schema must not be recursive, and each
item of an array or map must take at least one byte. The memory of all values is computed before the values are created
(``values``). Logical types are dropped: values are returned as they are stored.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import cramjam
import zstandard

from orcidx.errors import CorruptFile, Unsupported
from orcidx.extras import needed
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon_table.avro.values import ValueSizes, read_avro_metadata, read_long

__all__ = ["SYNC_BYTES", "AvroFile", "parsed_schema", "read_avro", "read_avro_file"]

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
"""Bytes of the marker after each block."""
_LARGEST_BLOCK = 1 << 25  # uncompressed bytes; other Avro writers start a new block every 64 KiB
_PIECE_BYTES = 1 << 18
"""A block is decompressed in pieces of this number of bytes. Decompression stops when the block becomes too large."""
_LEAST_MEMORY = 64 << 20
_MEMORY_PER_STORED, _MEMORY_PER_BYTE = 1024, 40
"""Limits of the memory that the values of a file may take: bytes for each byte of the file, and bytes for each
decompressed byte. The smaller of the two limits counts, but ``_LEAST_MEMORY`` is always allowed. An entry for a data
file takes some 3 KiB: 14 bytes for each decompressed byte, and 140 to 830 bytes for each byte of a compressed
manifest. The largest ratio occurs if one writer made all names of data files (decision 0002)."""
_DEEPEST_NESTING = 32
"""The largest depth of nested types in a schema."""
KEPT_AVRO_SCHEMAS, LARGEST_KEPT_AVRO_SCHEMA = 16, 16 << 10
"""How many parsed schemas are kept, and the largest text of a kept schema in bytes. The schemas of manifests have 1 to
5 KB of text. A parsed schema takes twenty times as much memory as its text."""
_XZ_MEMORY = 1 << 27
"""Bytes of memory that the xz decoder may use."""
_PRIMITIVES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_DECODE_ERRORS = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, MemoryError)


@dataclass(frozen=True)
class AvroFile:
    """A whole Avro file: the text of its schema, and all records with all fields. The text is needed to write another
    file with the same schema.

    The records must not be changed, because they may be shared."""

    schema_text: bytes
    codec: str
    records: tuple[dict[str, Any], ...] = field(repr=False)


def read_avro_file(data: memoryview) -> AvroFile:
    """Reads a file and the text of its schema. Raises the same errors as ``read_avro``."""
    header = _header(data)
    return AvroFile(header[0], header[1], tuple(_records_behind(header, data)))


def parsed_schema(schema_text: bytes) -> Any:
    """A checked schema for fastavro, without logical types. Raises ``CorruptFile`` for a schema that is not valid. The
    schemas that were checked last are cached, because all files of one kind from one writer have the same schema. So
    the caller must not change the schema."""
    return _understood(schema_text)[0]


def _understood(schema_text: bytes) -> tuple[Any, ValueSizes]:
    """The schema for fastavro, and the sizes of its values."""
    return (_kept_schema if len(schema_text) <= LARGEST_KEPT_AVRO_SCHEMA else _kept_schema.__wrapped__)(schema_text)


@lru_cache(KEPT_AVRO_SCHEMAS)
def _kept_schema(schema_text: bytes) -> tuple[Any, ValueSizes]:
    checked = _checked_schema(schema_text)
    return _fastavro().parse_schema(checked), ValueSizes(checked)


@cache
def _fastavro() -> Any:
    with needed("fastavro"):
        import fastavro
    return fastavro


_Header = tuple[bytes, str, int]


def _header(data: memoryview) -> _Header:
    """The schema's text, the codec, and the position of the sync marker, which ends the header."""
    if data[:4] != MAGIC:
        raise CorruptFile("not an Avro file", offset=0)
    metadata, at = read_avro_metadata(data, len(MAGIC))
    codec = metadata.get("avro.codec", b"null").decode("latin-1")
    if codec not in _CODECS:
        raise Unsupported(
            f"the Avro codec {codec!r:.40} is not supported; the supported codecs are {', '.join(_CODECS)}"
        )
    return metadata.get("avro.schema", b""), codec, at


def read_avro(data: memoryview) -> Iterator[dict[str, Any]]:
    """The records of a whole file. Raises ``CorruptFile`` for a damaged file, and ``Unsupported`` for a codec that
    orcidx does not know."""
    return _records_behind(_header(data), data)


def _records_behind(header: _Header, data: memoryview) -> Iterator[dict[str, Any]]:
    schema_text, codec, at = header
    schema, sizes = _understood(schema_text)
    sync = data[at : at + SYNC_BYTES]
    at += SYNC_BYTES
    if len(sync) != SYNC_BYTES:
        raise CorruptFile("the Avro file is cut off in its header", offset=at)
    taken = plain = 0
    while at < len(data):
        start = at
        count, at = read_long(data, at)
        size, at = read_long(data, at)
        if (
            size < 0
            or count < 0
            or at + size + SYNC_BYTES > len(data)
            or data[at + size : at + size + SYNC_BYTES] != sync
        ):
            raise CorruptFile(f"an Avro block of {size} bytes is not followed by the file's sync marker", offset=start)
        block = _decompress(codec, data[at : at + size], start)
        if count > len(block):
            raise CorruptFile(f"an Avro block of {len(block)} bytes cannot hold {count} records", offset=start)
        plain += len(block)
        most = max(_LEAST_MEMORY, min(_MEMORY_PER_STORED * len(data), _MEMORY_PER_BYTE * plain))
        try:
            more = sizes.check(block, count, most - taken)
        except CorruptFile as error:
            error.at(offset=start)
            raise
        if more < 0:
            message = f"the values of an Avro file of {len(data)} bytes take more than {most} bytes of memory"
            raise CorruptFile(message, offset=start)
        taken += more
        yield from _records(schema, block, count, start)
        at += size + SYNC_BYTES


def _records(schema: Any, block: bytes, count: int, start: int) -> list[dict[str, Any]]:
    read, stream = _fastavro().schemaless_reader, io.BytesIO(block)
    records = []
    try:
        for _ in range(count):
            records.append(read(stream, schema, None))
    except _DECODE_ERRORS as error:
        raise CorruptFile(f"an Avro record cannot be decoded: {type(error).__name__}: {error}", offset=start) from None
    return records


# ---------------------------------------------------------------------- schema


def _checked_schema(text: bytes) -> dict[str, Any]:
    schema, smallest, _ = _checked(parse_json_object(text, "the Avro schema"), {}, _DEEPEST_NESTING)
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise CorruptFile("the Avro schema is not a record")
    if not smallest:
        raise CorruptFile("the Avro schema has records that take no bytes, which is not allowed")
    return schema


_Checked = tuple[Any, int, int]
"""The schema rebuilt from known parts only, the smallest size of a value in bytes, and the depth of nested types."""


def _checked(schema: Any, named: dict[str, tuple[int, int]], depth: int) -> _Checked:
    """Checks a schema, and rebuilds it from its known parts. ``named``: the smallest size and the depth of each named
    type that has been read completely. ``depth``: the number of further levels that are allowed."""
    if depth <= 0:
        raise CorruptFile(f"the Avro schema is nested more than {_DEEPEST_NESTING} levels deep")
    if isinstance(schema, list):
        branches = [_checked(branch, named, depth - 1) for branch in schema]
        if not branches or any(isinstance(branch, list) for branch, _, _ in branches):
            raise CorruptFile("a union in the Avro schema is empty or contains another union")
        smallest = 1 + min(smallest for _, smallest, _ in branches)
        return [branch for branch, _, _ in branches], smallest, 1 + max(levels for _, _, levels in branches)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return schema, _PRIMITIVES[schema], 1
        if schema not in named:
            raise CorruptFile(f"the Avro type {schema!r:.60} is unknown or contains itself")
        smallest, levels = named[schema]
        if levels > depth:  # a type that is referred to by its name counts as nested, like a type that is written out
            raise CorruptFile(f"the Avro schema is nested more than {_DEEPEST_NESTING} levels deep")
        return schema, smallest, levels
    if not isinstance(schema, dict):
        raise CorruptFile(f"{schema!r:.60} is not an Avro type")
    kind = schema.get("type")
    if kind == "record":
        return _checked_record(schema, named, depth)
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        inner, smallest, levels = _checked(schema.get(part), named, depth - 1)
        if not smallest and kind == "array":
            raise CorruptFile("an array in the Avro schema has items that take no bytes, which is not allowed")
        return {"type": kind, part: inner}, 1, 1 + levels
    if isinstance(kind, str) and kind in _PRIMITIVES:
        return kind, _PRIMITIVES[kind], 1
    raise CorruptFile(f"the Avro type {kind!r:.60} is not allowed in a manifest")


def _checked_record(schema: dict[str, Any], named: dict[str, tuple[int, int]], depth: int) -> _Checked:
    name, fields = schema.get("name"), schema.get("fields")
    if not isinstance(name, str) or not isinstance(fields, list):
        raise CorruptFile("a record type in the Avro schema has no name or no fields")
    rebuilt, total, deepest = [], 0, 0
    for part in fields:
        if not isinstance(part, dict) or not isinstance(part.get("name"), str):
            raise CorruptFile("a field in the Avro schema has no name")
        inner, smallest, levels = _checked(part.get("type"), named, depth - 1)
        rebuilt.append({"name": part["name"], "type": inner})
        total += smallest
        deepest = max(deepest, levels)
    if name in named or len({part["name"] for part in rebuilt}) != len(rebuilt):
        raise CorruptFile(f"the Avro schema defines {name!r:.60} or one of its fields twice")
    named[name] = total, 1 + deepest
    return {"type": "record", "name": name, "fields": rebuilt}, total, 1 + deepest


# ---------------------------------------------------------------------- codecs


def _decompress(codec: str, block: memoryview, start: int) -> bytes:
    try:
        data = _CODECS[codec](block)
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError, cramjam.DecompressionError, OSError, EOFError) as error:
        raise CorruptFile(f"an Avro block cannot be decompressed: {error}", offset=start) from None
    if len(data) > _LARGEST_BLOCK:
        raise CorruptFile(f"an Avro block is larger than {_LARGEST_BLOCK} bytes", offset=start)
    return data


def _deflate(block: memoryview) -> bytes:
    return zlib.decompressobj(-15).decompress(block, _LARGEST_BLOCK + 1)


def _zstandard(block: memoryview) -> bytes:
    pieces, size, frame = [], 0, bytes(block)
    if 0 <= zstandard.frame_content_size(frame) <= _PIECE_BYTES:
        return zstandard.ZstdDecompressor().decompress(frame)
    with zstandard.ZstdDecompressor().stream_reader(frame) as stream:
        # stream.read(n) allocates n bytes, so it is called with a small n.
        while size <= _LARGEST_BLOCK and (piece := stream.read(_PIECE_BYTES)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


def _snappy(block: memoryview) -> bytes:
    """Decompresses a raw Snappy block that is followed by the big-endian CRC-32 of its content."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if len(block) < 5:
        raise CorruptFile(f"a Snappy block has {len(block)} bytes, but must have at least 5 bytes")
    if length > _LARGEST_BLOCK:
        raise CorruptFile(f"a Snappy block of {length} bytes is too large; at most {_LARGEST_BLOCK} bytes are allowed")
    data = bytes(cramjam.snappy.decompress_raw(bytes(block[:-4])))
    if zlib.crc32(data) != int.from_bytes(block[-4:], "big"):
        raise CorruptFile("the CRC of a Snappy block does not match its content")
    return data


_CODECS: dict[str, Callable[[memoryview], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda block: bz2.BZ2Decompressor().decompress(bytes(block), _LARGEST_BLOCK + 1),
    "xz": lambda block: lzma.LZMADecompressor(memlimit=_XZ_MEMORY).decompress(bytes(block), _LARGEST_BLOCK + 1),
}
