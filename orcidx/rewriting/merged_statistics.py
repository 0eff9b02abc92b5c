"""Merges ColumnStatistics messages of several files without decoding a value.

Only messages of the same writer are merged, because the writer determines the meaning of bounds and whether they are
trusted. The typed part of a message, such as ``intStatistics``, is written either with both bounds or not at all. If
the typed part lacks one bound, ORC Java skips all data (decision 0041)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from orcidx.errors import CorruptFile
from orcidx.orc.decimal_text import plain_text
from orcidx.orc.kinds import TypeKind
from orcidx.orc.statistics import LAST_NANO, PARTS
from orcidx.orc.wire import Message, TypedPart
from orcidx.orc_writer.messages import blob, double, packed, sint, uint
from orcidx.orc_writer.statistics import LARGEST_SUM

__all__ = ["has_counts", "merge_statistics", "with_bytes_on_disk", "without_values"]

COUNT, HAS_NULL, ON_DISK = 1, 10, 11
_REPLACED = ("\ufffd".encode(), "\ufffe".encode())
"""The texts that ORC Java writes in place of a bound that cannot be decoded. Such bounds cannot be compared."""


def has_counts(message: bytes) -> bool:
    """Whether a message has the number of values. Without this number, messages cannot be merged."""
    return bool(message) and Message(message, "ColumnStatistics").has(COUNT)


def merge_statistics(kind: TypeKind, messages: Sequence[bytes]) -> bytes:
    """Merges messages into one message for all rows. All ``messages`` must have counts."""
    parsed = [Message(one, "ColumnStatistics") for one in messages]
    parts = [uint(COUNT, sum(one.uint(COUNT) for one in parsed))]
    part = PARTS.get(kind, TypedPart.NOTHING)
    with_values = [one for one in parsed if one.uint(COUNT)]
    if part != TypedPart.NOTHING:
        parts.append(_typed(part, with_values, parsed))
    if all(one.has(HAS_NULL) for one in parsed) or any(one.uint(HAS_NULL) for one in parsed):
        parts.append(uint(HAS_NULL, any(one.uint(HAS_NULL) for one in parsed)))
    if all(one.has(ON_DISK) for one in parsed):
        parts.append(uint(ON_DISK, sum(one.uint(ON_DISK) for one in parsed)))
    return b"".join(parts)


def _typed(part: TypedPart, with_values: Sequence[Message], everywhere: Sequence[Message]) -> bytes:
    chosen = with_values or everywhere[:1]
    if not all(one.has(part) for one in chosen):
        return b""
    inner = [Message(one.blob(part), part.name) for one in chosen]
    if not with_values:
        return blob(part, chosen[0].blob(part))
    merged = _MERGERS[part](inner)
    return b"" if merged is None else blob(part, merged)


def _signed(value: int) -> int:
    """Decodes a zigzag number."""
    return value >> 1 ^ -(value & 1)


def _have(parts: Sequence[Message], *numbers: int) -> bool:
    return all(part.has(number) for part in parts for number in numbers)


def _integers(parts: Sequence[Message]) -> bytes | None:
    if not _have(parts, 1, 2):
        return None
    values = [[_signed(part.uint(number)) for part in parts] for number in (1, 2)]
    message = sint(1, min(values[0])) + sint(2, max(values[1]))
    total = sum(_signed(part.uint(3)) for part in parts)
    return message + (sint(3, total) if _have(parts, 3) and -(1 << 63) <= total < 1 << 63 else b"")


def _doubles(parts: Sequence[Message]) -> bytes | None:
    if not _have(parts, 1, 2):
        return None
    least, greatest, sums = ([part.double(number) for part in parts] for number in (1, 2, 3))
    if any(value is None or math.isnan(value) for value in (*least, *greatest)):
        return None
    message = double(1, min(v for v in least if v is not None)) + double(2, max(v for v in greatest if v is not None))
    return message + (double(3, sum(v for v in sums if v is not None)) if None not in sums else b"")


def _texts(parts: Sequence[Message]) -> bytes | None:
    sides = []
    for whole, cut, is_upper in ((1, 4, False), (2, 5, True)):
        found = []
        for part in parts:
            exact = part.has(whole)
            if not exact and not part.has(cut):
                return None
            text = part.blob(whole if exact else cut)
            if any(mark in text for mark in _REPLACED):
                return None
            found.append((text, exact))
        # If two bounds are equal, the exact bound is kept, because readers treat truncated bounds as exclusive.
        best = max(found, key=lambda b: b) if is_upper else min(found, key=lambda b: (b[0], not b[1]))
        sides.append((best, whole, cut))
    message = b"".join(blob(whole if best[1] else cut, best[0]) for best, whole, cut in sides)
    total = sum(_signed(part.uint(3)) for part in parts)
    return message + (sint(3, total) if _have(parts, 3) and 0 <= total < 1 << 63 else b"")


def _buckets(parts: Sequence[Message]) -> bytes | None:
    counts = [part.uints(1) for part in parts]
    return packed(1, [sum(one[0] for one in counts)]) if all(len(one) == 1 for one in counts) else None


def _decimals(parts: Sequence[Message]) -> bytes | None:
    if not _have(parts, 1, 2):
        return None
    try:
        values = [
            [(Decimal(part.text(number)), part.blob(number)) for part in parts if part.has(number)]
            for number in (1, 2, 3)
        ]
    except (InvalidOperation, CorruptFile):
        return None
    if not all(value.is_finite() and abs(int(value.as_tuple().exponent)) <= 38 for side in values for value, _ in side):
        return None
    message = blob(1, min(values[0])[1]) + blob(2, max(values[1])[1])
    if len(values[2]) < len(parts):
        return message
    scale = max(0, *(-int(value.as_tuple().exponent) for value, _ in values[2]))
    total = sum(_scaled(value, scale) for value, _ in values[2])
    return message + (blob(3, plain_text(total, scale).encode()) if abs(total) < LARGEST_SUM else b"")


def _scaled(value: Decimal, scale: int) -> int:
    """The value times 10^scale. The methods of ``Decimal`` would round it to 28 digits."""
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def _dates(parts: Sequence[Message]) -> bytes | None:
    if not _have(parts, 1, 2):
        return None
    return sint(1, min(_signed(p.uint(1)) for p in parts)) + sint(2, max(_signed(p.uint(2)) for p in parts))


def _binaries(parts: Sequence[Message]) -> bytes | None:
    total = sum(_signed(part.uint(1)) for part in parts)
    return sint(1, total) if _have(parts, 1) and 0 <= total < 1 << 63 else None


def _timestamps(parts: Sequence[Message]) -> bytes | None:
    """Merges only the bounds in UTC. Bounds of the older kind are in the local time of the writer. They are left out,
    because the file does not name the zone."""
    if not _have(parts, 3, 4):
        return None
    sides = []
    for millis, nanos, absent in ((3, 5, 0), (4, 6, LAST_NANO)):
        sides.append(
            [
                (_signed(part.uint(millis)), _int64(part.uint(nanos)) - 1 if part.has(nanos) else absent, part)
                for part in parts
            ]
        )
    first, last = min(sides[0], key=lambda s: s[:2]), max(sides[1], key=lambda s: s[:2])
    message = sint(3, first[0]) + sint(4, last[0])
    message += uint(5, first[2].uint(5)) if first[2].has(5) else b""
    return message + (uint(6, last[2].uint(6)) if last[2].has(6) else b"")


def _int64(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _collections(parts: Sequence[Message]) -> bytes | None:
    if not _have(parts, 1, 2):
        return None
    message = uint(1, min(part.uint(1) for part in parts)) + uint(2, max(part.uint(2) for part in parts))
    return message + (uint(3, sum(part.uint(3) for part in parts)) if _have(parts, 3) else b"")


_MERGERS: dict[TypedPart, Any] = {
    TypedPart.INTEGER: _integers,
    TypedPart.DOUBLE: _doubles,
    TypedPart.STRING: _texts,
    TypedPart.BUCKET: _buckets,
    TypedPart.DECIMAL: _decimals,
    TypedPart.DATE: _dates,
    TypedPart.BINARY: _binaries,
    TypedPart.TIMESTAMP: _timestamps,
    TypedPart.COLLECTION: _collections,
}


def with_bytes_on_disk(message: bytes, size: int) -> bytes:
    """Returns the message of a column with ``size`` as its bytes on disk. A message without such a number is not
    changed."""
    kept, found = [], False
    for number, start, stop in _fields(message):
        if number == ON_DISK:
            found = True
        else:
            kept.append(message[start:stop])
    return b"".join(kept) + uint(ON_DISK, size) if found else message


def without_values(message: bytes) -> bytes:
    """Returns the message with counts only, without the minimum, the maximum and the sum."""
    counts = (COUNT, HAS_NULL, ON_DISK)
    return b"".join(message[start:stop] for number, start, stop in _fields(message) if number in counts)


def _fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (number, start, stop) for each field of a message."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            length, at = _varint(message, at)
            at += length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise CorruptFile(f"column statistics have a field of the unknown wire type {wire}")
        if at > len(message):
            raise CorruptFile("column statistics end inside a field")
        yield tag >> 3, start, at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise CorruptFile("column statistics end inside a number")
