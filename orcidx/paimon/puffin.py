"""Reads the footer of a Puffin file (Apache Iceberg), only to find deletion vectors.

    "PFA1"  blobs  "PFA1"  payload  payload size i32  flags 4 bytes  "PFA1"

The payload is JSON: {"blobs": [{"type", "offset", "length", "compression-codec"?, "properties", ...}]}. Its offsets
count from the start of the file. If bit 0 of the first flag byte is set, the payload is one LZ4 frame. Integers are
little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import cramjam

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.json_object import parse_json_object

__all__ = ["PUFFIN_MAGIC", "DeletionBlob", "deletion_blobs"]

PUFFIN_MAGIC = b"PFA1"
DELETION_VECTOR_TYPE = "deletion-vector-v1"
_TAIL_BYTES = 12  # payload size, flags, magic
_LEAST_PAYLOAD = 1 << 20
_PAYLOAD_PER_BYTE = 8
"""The maximum number of decompressed bytes of an LZ4 footer for each stored byte. ``_LEAST_PAYLOAD`` bytes are always
allowed. LZ4 compresses names and offsets to a third or a quarter of their size."""
_COMPRESSED_FOOTER = 1


@dataclass(frozen=True)
class DeletionBlob:
    """The position of a ``deletion-vector-v1`` blob in the file."""

    offset: int
    length: int


def deletion_blobs(data: memoryview) -> list[DeletionBlob]:
    """The deletion vectors of a whole Puffin file, in the footer's order. Blobs of other types are ignored."""
    payload, start = _footer(data)
    blobs = parse_json_object(payload, "the Puffin footer").get("blobs")
    if not isinstance(blobs, list):
        raise CorruptFile("the Puffin footer has no list of blobs")
    found = []
    for blob in blobs:
        if not isinstance(blob, dict):
            raise CorruptFile("the Puffin footer has a blob that is not a JSON object")
        if blob.get("type") != DELETION_VECTOR_TYPE:
            continue
        if (codec := blob.get("compression-codec")) is not None:
            raise Unsupported(
                f"a Puffin deletion vector is compressed with {codec!r}, but the format requires an uncompressed one"
            )
        offset, length = blob.get("offset"), blob.get("length")
        if type(offset) is not int or type(length) is not int:
            raise CorruptFile("a Puffin blob has no offset or no length")
        if not len(PUFFIN_MAGIC) <= offset <= offset + length <= start:
            raise CorruptFile(
                f"a Puffin blob of {length} bytes at byte {offset} is not between the magic, which ends at byte "
                f"{len(PUFFIN_MAGIC)}, and the footer, which starts at byte {start}",
                offset=offset,
            )
        found.append(DeletionBlob(offset, length))
    # Without this check, many blobs could name the same bytes, and these bytes would be read once for each blob.
    if sum(blob.length for blob in found) > start:
        raise CorruptFile(
            f"the {len(found)} Puffin blobs overlap, because together they have more than the {start} bytes before "
            "the footer"
        )
    return found


def _footer(data: memoryview) -> tuple[bytes, int]:
    """The JSON text of the footer, and the position where the footer starts."""
    size = len(data)
    if size < 2 * len(PUFFIN_MAGIC) + _TAIL_BYTES or data[-4:] != PUFFIN_MAGIC or data[:4] != PUFFIN_MAGIC:
        raise CorruptFile(
            "this is not a Puffin file, because it does not start and end with PFA1", offset=max(size - 4, 0)
        )
    length, flags = struct.unpack("<iI", data[-_TAIL_BYTES:-4])
    start = size - _TAIL_BYTES - length - len(PUFFIN_MAGIC)
    if length < 0 or start < len(PUFFIN_MAGIC) or data[start : start + 4] != PUFFIN_MAGIC:
        raise CorruptFile(f"the Puffin footer of {length} bytes does not fit into the file", offset=size - _TAIL_BYTES)
    payload = bytes(data[start + 4 : size - _TAIL_BYTES])
    if flags & _COMPRESSED_FOOTER:
        room = bytearray(max(_LEAST_PAYLOAD, _PAYLOAD_PER_BYTE * length))
        try:
            size = cramjam.lz4.decompress_into(payload, room)
        except cramjam.DecompressionError as error:
            raise CorruptFile(
                f"the Puffin footer of {length} bytes is damaged, or has more than {len(room)} bytes after "
                f"decompression: {error}",
                offset=start + 4,
            ) from None
        payload = bytes(room[:size])
    return payload, start
