"""Writes Avro object container files with a given schema, whose text is stored unchanged.

``fastavro`` encodes the records. The records are read back before anything is stored. An error is raised if a record
differs after it was read back, for example because the schema lacks a field, or because a union is read differently."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import cramjam
import zstandard

from orcidx.errors import Unsupported
from orcidx.extras import needed
from orcidx.paimon_table.avro.container import MAGIC, SYNC_BYTES, parsed_schema, read_avro

__all__ = ["write_avro"]

_BLOCK_BYTES = 64_000
"""A block ends when it has at least this number of bytes. Other writers use the same number."""


def write_avro(schema_text: bytes, codec: str, records: Iterable[dict[str, Any]]) -> bytes:
    """The bytes of a whole file. Raises ``Unsupported`` if the records would differ when they are read back."""
    if codec not in _CODECS:
        raise Unsupported(f"orcidx cannot write the Avro codec {codec!r}; it can write {', '.join(_CODECS)}")
    records = list(records)
    sync = os.urandom(SYNC_BYTES)
    texts = b"avro.schema", schema_text, b"avro.codec", codec.encode()
    pairs = b"".join([_long(len(text)) + text for text in texts])
    parts = [MAGIC, _long(len(texts) // 2), pairs, _long(0), sync]
    for count, block in _blocks(schema_text, records):
        packed = _CODECS[codec](block)
        parts += [_long(count), _long(len(packed)), packed, sync]
    data = b"".join(parts)
    if list(read_avro(memoryview(data))) != records:
        raise Unsupported(
            "the records of a manifest are different when they are read back, because orcidx does not support the "
            "manifest's Avro schema"
        )
    return data


def _blocks(schema_text: bytes, records: list[dict[str, Any]]) -> Iterable[tuple[int, bytes]]:
    with needed("fastavro"):
        import fastavro
    schema = parsed_schema(schema_text)
    stream, count = io.BytesIO(), 0
    for record in records:
        try:
            fastavro.schemaless_writer(stream, schema, record, strict=True)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise Unsupported(f"a manifest's record does not fit its Avro schema: {error}") from None
        count += 1
        if stream.tell() >= _BLOCK_BYTES:
            yield count, stream.getvalue()
            stream, count = io.BytesIO(), 0
    if count:
        yield count, stream.getvalue()


def _long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _deflate(block: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(block) + packer.flush()


def _snappy(block: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block)) + zlib.crc32(block).to_bytes(4, "big")


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": lambda block: zstandard.ZstdCompressor(level=1).compress(block),
}
