"""A simple implementation of BinaryRow and its hash, one value at a time. It is the oracle for the compiled hash."""

from __future__ import annotations

import struct
from typing import Any

from orcidx.paimon.data_types import DataType, parse_type

FORMATS = {"BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "h", "INT": "i", "DATE": "i", "TIME": "i", "BIGINT": "q"}
FORMATS |= {"FLOAT": "f", "DOUBLE": "d"}


def binary_row(types: list[str], values: list[Any]) -> bytes:
    """Encodes one row. Numbers are given as ``struct`` takes them, texts as str or bytes, decimals as unscaled ints,
    and timestamps as (millis, nanos)."""
    nulls = ((len(types) + 63 + 8) // 64) * 8
    row = bytearray(nulls + 8 * len(types))
    for i, (text, value) in enumerate(zip(types, values)):
        at = nulls + 8 * i
        if value is None:
            row[(i + 8) // 8] |= 1 << (i + 8) % 8
        row[at : at + 8] = _slot(row, parse_type(text), value)
    return bytes(row)


def _slot(row: bytearray, kind: DataType, value: Any) -> bytes:
    if kind.root in FORMATS:
        return bytes(8) if value is None else struct.pack("<" + FORMATS[kind.root], value).ljust(8, b"\x00")
    if kind.root == "DECIMAL" and kind.precision <= 18:
        return struct.pack("<q", value or 0)
    if kind.root == "DECIMAL":
        data = b"" if value is None else value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
        slot = len(row) << 32 | len(data)
        row += data.ljust(16, b"\x00")
        return struct.pack("<Q", slot)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        millis, nanos = value or (0, 0)
        if kind.precision <= 3:
            return struct.pack("<q", millis)
        slot = len(row) << 32 | nanos
        row += struct.pack("<q", millis)
        return struct.pack("<Q", slot)
    if value is None:
        return bytes(8)
    data = value.encode() if isinstance(value, str) else value
    if len(data) <= 7:
        return data.ljust(7, b"\x00") + bytes([0x80 | len(data)])
    slot = len(row) << 32 | len(data)
    row += data + bytes(-len(data) % 8)
    return struct.pack("<Q", slot)


def murmur(row: bytes) -> int:
    """Returns the Murmur3-32 hash with seed 42, as a signed int."""
    h, mask = 42, 0xFFFFFFFF
    for (word,) in struct.iter_unpack("<I", row):
        word = word * 0xCC9E2D51 & mask
        word = (word << 15 | word >> 17) & mask
        h ^= word * 0x1B873593 & mask
        h = (h << 13 | h >> 19) & mask
        h = (h * 5 + 0xE6546B64) & mask
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
