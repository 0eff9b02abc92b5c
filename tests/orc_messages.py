"""Encoders of ORC's protobuf messages, and of whole files with them, for tests. They use no code of the reader."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

KINDS = {
    "boolean": 0, "tinyint": 1, "smallint": 2, "int": 3, "bigint": 4, "float": 5, "double": 6, "string": 7,
    "binary": 8, "timestamp": 9, "list": 10, "map": 11, "struct": 12, "union": 13, "decimal": 14, "date": 15,
    "varchar": 16, "char": 17, "instant": 18, "geometry": 19, "geography": 20,
}  # fmt: skip


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def uint(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def sint(number: int, value: int) -> bytes:
    return uint(number, zigzag(value))


def blob(number: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def packed(number: int, values: Iterable[int]) -> bytes:
    return blob(number, b"".join(map(varint, values)))


def encode(fields: list[tuple[int, int, int | bytes]]) -> bytes:
    """Encodes a message. A field is (wire type, field number, value)."""
    out = b""
    for wire, number, value in fields:
        key = varint(number << 3 | wire)
        if isinstance(value, int):
            out += key + varint(value)
        else:
            out += key + (varint(len(value)) if wire == 2 else b"") + value
    return out


def type_message(kind: str, subtypes: Sequence[int] = (), names: Sequence[str] = (), **fields: int) -> bytes:
    """Encodes a type. ``fields``: max_length, precision, scale."""
    numbers = {"max_length": 4, "precision": 5, "scale": 6}
    return (
        uint(1, KINDS[kind])
        + (packed(2, subtypes) if subtypes else b"")
        + b"".join(blob(3, name) for name in names)
        + b"".join(uint(numbers[name], value) for name, value in fields.items())
    )


def statistics(count: int | None, has_null: bool | None = None, typed: bytes = b"") -> bytes:
    """Encodes a ColumnStatistics message. ``typed`` is the encoded part for the type."""
    known = b"" if count is None else uint(1, count)
    return known + typed + (b"" if has_null is None else uint(10, has_null))


def stripe_footer(streams: Sequence[tuple[int, int, int]], encodings: Sequence[bytes], timezone: str = "UTC") -> bytes:
    """Encodes a stripe footer. ``streams``: (kind, column, length)."""
    items = [blob(1, uint(1, kind) + uint(2, column) + uint(3, length)) for kind, column, length in streams]
    return b"".join(items) + b"".join(blob(2, item) for item in encodings) + blob(3, timezone)


def orc_file(
    types: Sequence[bytes],
    *,
    stripes: Sequence[tuple[bytes, bytes, int]] = (),
    footer_fields: bytes = b"",
    postscript_fields: bytes = b"",
    metadata: bytes = b"",
    tail: bytes | None = None,
) -> bytes:
    """Returns an uncompressed file. ``stripes``: (data, stripe footer, rows). ``tail`` replaces the whole PostScript.

    The last value of a field counts, so ``footer_fields`` and ``postscript_fields`` override the usual values.
    """
    out = bytearray(b"ORC")
    footer = uint(1, 3)
    for data, stripe, rows in stripes:
        parts = (len(out), 0, len(data), len(stripe), rows)
        footer += blob(3, b"".join(uint(number, value) for number, value in enumerate(parts, 1)))
        out += data + stripe
    footer += b"".join(blob(4, item) for item in types) + footer_fields
    out += metadata + footer
    postscript = uint(1, len(footer)) + uint(2, 0) + uint(3, 65536) + packed(4, (0, 12)) + uint(5, len(metadata))
    postscript += uint(6, 9) + postscript_fields + blob(8000, b"ORC")
    postscript = postscript if tail is None else tail
    return bytes(out + postscript + bytes([len(postscript)]))
