"""Protocol Buffers, written: the few forms of field that ORC's messages have."""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["blob", "double", "packed", "sint", "text", "uint", "varint"]

_WORD = (1 << 64) - 1
_SHORT = [bytes([value]) for value in range(128)]


def varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _SHORT[value]
    value &= _WORD
    out = []
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uint(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def sint(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value << 1 if value >= 0 else -2 * value - 1)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def blob(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def text(number: int, value: str) -> bytes:
    return blob(number, value.encode())


def packed(number: int, values: Iterable[int]) -> bytes:
    return blob(number, b"".join(map(varint, values)))
