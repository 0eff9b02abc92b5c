"""Short and simple decoders. Tests compare the fast decoders with them on arbitrary bytes."""

from __future__ import annotations

from collections.abc import Callable

from streams.encoders import WIDTHS, wrap


class Broken(Exception):
    """Raised if the bytes do not follow the format, or end inside a run."""


def unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise Broken("end")
        self.at += 1
        return self.data[self.at - 1]

    def big_endian(self, size: int) -> int:
        value = 0
        for _ in range(size):
            value = value << 8 | self.byte()
        return value

    def varint(self) -> int:
        value = 0
        for i in range(10):
            byte = self.byte()
            value |= (byte & 127) << 7 * i
            if byte < 128:
                return value % (1 << 64)
        raise Broken("varint")

    def packed(self, count: int, width: int) -> list[int]:
        size = (count * width + 7) // 8
        bits = self.big_endian(size) >> (size * 8 - count * width)
        return [bits >> (count - 1 - i) * width & ((1 << width) - 1) for i in range(count)]


def v1_run(source: Bytes, signed: bool) -> list[int]:
    number = unzigzag if signed else int
    header = source.byte()
    if header < 128:
        step = source.byte()
        step -= 256 * (step > 127)
        first = number(source.varint())
        return [wrap(first + i * step) for i in range(header + 3)]
    return [wrap(number(source.varint())) for _ in range(256 - header)]


def v2_run(source: Bytes, signed: bool) -> list[int]:
    number = unzigzag if signed else int
    header = source.byte()
    if header < 64:
        value = wrap(number(source.big_endian((header >> 3) + 1)))
        return [value] * ((header & 7) + 3)
    width = WIDTHS[header >> 1 & 31]
    count = ((header & 1) << 8 | source.byte()) + 1
    if header >> 6 == 1:
        return [wrap(number(value)) for value in source.packed(count, width)]
    if header >> 6 == 2:
        return _patched(source, count, width)
    values = [number(source.varint())]
    step = unzigzag(source.varint())
    if header >> 1 & 31 == 0:
        return [wrap(values[0] + i * step) for i in range(count)]
    if count == 1:
        raise Broken("one delta")
    values.append(values[0] + step)
    for magnitude in source.packed(count - 2, width):
        values.append(values[-1] + (magnitude if step >= 0 else -magnitude))
    return [wrap(value) for value in values]


def _patched(source: Bytes, count: int, width: int) -> list[int]:
    third, fourth = source.byte(), source.byte()
    base_bits = 8 * ((third >> 5) + 1)
    patch_width = WIDTHS[third & 31]
    gap_width = (fourth >> 5) + 1
    if fourth & 31 == 0 or gap_width + patch_width > 64:
        raise Broken("patches")
    base = source.big_endian(base_bits // 8)
    if base >> (base_bits - 1):
        base = -(base - (1 << base_bits - 1))
    values = source.packed(count, width)
    entry_width = next(step for step in WIDTHS if step >= gap_width + patch_width)
    at, patched = 0, set()
    for entry in source.packed(fourth & 31, entry_width):
        gap, patch = entry >> patch_width, entry & ((1 << patch_width) - 1)
        at += gap
        if gap == 255 and patch == 0:
            continue
        if gap > 255 or at >= count or at in patched:
            raise Broken("patch outside")
        patched.add(at)
        values[at] |= patch << width
    return [wrap(base + value) for value in values]


def byte_run(source: Bytes, signed: bool = False) -> list[int]:
    header = source.byte()
    if header < 128:
        return [source.byte()] * (header + 3)
    return [source.byte() for _ in range(256 - header)]


RUNS: dict[str, Callable[[Bytes, bool], list[int]]] = {"v1": v1_run, "v2": v2_run, "bytes": byte_run}


def decode(form: str, data: bytes, signed: bool = False) -> tuple[list[int], bool]:
    """Returns all values up to the end or the first broken run, and whether the decoder reached the end."""
    source = Bytes(data)
    values: list[int] = []
    while source.at < len(data):
        try:
            values += RUNS[form](source, signed)
        except Broken:
            return values, False
    return values, True


def first_run(form: str, data: bytes, signed: bool = False) -> int:
    """Returns the number of bytes of the first run."""
    source = Bytes(data)
    try:
        RUNS[form](source, signed)
    except Broken:
        return len(data)
    return source.at
