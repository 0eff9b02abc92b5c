"""Encoders for every form of run. They are written from the format's specification, and encode value by value.

Each encoder returns a ``Run`` with its bytes and the values of these bytes. So a property test can join any runs to a
stream, and knows the values that a decoder must return. ``Stream`` joins runs, and knows the position of every value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

U64 = 1 << 64
WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


def wrap(value: int) -> int:
    """Returns the value modulo 2**64 as int64."""
    return (value + (1 << 63)) % U64 - (1 << 63)


def zigzag(value: int) -> int:
    return (value << 1 ^ value >> 63) % U64


def coded(value: int, signed: bool) -> int:
    return zigzag(wrap(value)) if signed else value % U64


def varint(value: int) -> bytes:
    """Encodes an unsigned value in base 128, lowest group first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack(values: Iterable[int], width: int) -> bytes:
    """Packs values of ``width`` bits, most significant bit first, and pads to a byte with zeros."""
    bits = 0
    count = 0
    for value in values:
        assert 0 <= value < 1 << width
        bits = bits << width | value
        count += width
    padding = -count % 8
    return (bits << padding).to_bytes((count + padding) // 8, "big")


def width_for(values: Iterable[int]) -> int:
    """Returns the smallest width of the format that can hold all unsigned values."""
    need = max((value.bit_length() for value in values), default=1) or 1
    return next(width for width in WIDTHS if width >= need)


@dataclass(frozen=True)
class Run:
    data: bytes
    values: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """A sequence of runs."""

    runs: tuple[Run, ...]

    @property
    def data(self) -> bytes:
        return b"".join(run.data for run in self.runs)

    @property
    def values(self) -> list[int]:
        return [value for run in self.runs for value in run.values]

    def place(self, index: int) -> tuple[int, int]:
        """Returns the position of value ``index`` as a row index stores it: the byte offset of its run, and the number
        of values before it in the run.

        ``index`` may be the number of values. This is the position of the end of the stream.
        """
        firsts, offsets = [0], [0]
        for run in self.runs:
            firsts.append(firsts[-1] + len(run.values))
            offsets.append(offsets[-1] + len(run.data))
        number = bisect_right(firsts, index) - 1
        return offsets[number], index - firsts[number]


# --- integers, version 1 --------------------------------------------------------------------------------------------


def v1_run(first: int, delta: int, count: int, *, signed: bool) -> Run:
    assert 3 <= count <= 130
    assert -128 <= delta <= 127
    data = bytes([count - 3, delta % 256]) + varint(coded(first, signed))
    return Run(data, tuple(wrap(first + i * delta) for i in range(count)))


def v1_literals(values: Sequence[int], *, signed: bool) -> Run:
    assert 1 <= len(values) <= 128
    data = bytes([256 - len(values)]) + b"".join(varint(coded(value, signed)) for value in values)
    return Run(data, tuple(map(wrap, values)))


# --- integers, version 2 --------------------------------------------------------------------------------------------


def v2_header(kind: int, width: int, count: int) -> bytes:
    assert 1 <= count <= 512
    code = WIDTHS.index(width) if width else 0
    return bytes([kind << 6 | code << 1 | (count - 1) >> 8, (count - 1) & 255])


def short_repeat(value: int, count: int, *, signed: bool) -> Run:
    assert 3 <= count <= 10
    number = coded(value, signed)
    size = max((number.bit_length() + 7) // 8, 1)
    return Run(bytes([(size - 1) << 3 | count - 3]) + number.to_bytes(size, "big"), (wrap(value),) * count)


def direct(values: Sequence[int], *, signed: bool, width: int | None = None) -> Run:
    numbers = [coded(value, signed) for value in values]
    width = width or width_for(numbers)
    return Run(v2_header(1, width, len(values)) + pack(numbers, width), tuple(map(wrap, values)))


def fixed_delta(first: int, delta: int, count: int, *, signed: bool) -> Run:
    data = v2_header(3, 0, count) + varint(coded(first, signed)) + varint(zigzag(wrap(delta)))
    return Run(data, tuple(wrap(first + i * delta) for i in range(count)))


def delta(first: int, second: int, magnitudes: Sequence[int], *, signed: bool, width: int | None = None) -> Run:
    """Encodes a DELTA run. ``second`` is the first delta. ``magnitudes`` are the absolute values of the other deltas,
    which have the same sign as ``second``."""
    width = width or max(width_for(magnitudes), 2)  # DELTA has no code for width 1
    data = v2_header(3, width, len(magnitudes) + 2) + varint(coded(first, signed)) + varint(zigzag(wrap(second)))
    values = [wrap(first), wrap(first + second)]
    for magnitude in magnitudes:
        values.append(wrap(values[-1] + (magnitude if second >= 0 else -magnitude)))
    return Run(data + pack(magnitudes, width), tuple(values))


@dataclass(frozen=True)
class Patch:
    index: int
    bits: int


def patched(base: int, low: Sequence[int], patches: Sequence[Patch], *, width: int, patch_width: int) -> Run:
    """Encodes a PATCHED_BASE run. A patched value is ``base + (low | bits << width)``. A gap above 255 gets additional
    entries."""
    values = list(low)
    entries = []
    at = 0
    for patch in patches:
        gap = patch.index - at
        while gap > 255:
            entries.append((255, 0))
            gap -= 255
        entries.append((gap, patch.bits))
        at = patch.index
        values[at] |= patch.bits << width
    assert 1 <= len(entries) <= 31
    gap_width = max(max(gap for gap, _ in entries).bit_length(), 1)
    magnitude = abs(base)
    base_bytes = magnitude.bit_length() // 8 + 1  # with one bit for the sign
    sign = (base < 0) << (8 * base_bytes - 1)
    data = v2_header(2, width, len(low))
    data += bytes([(base_bytes - 1) << 5 | WIDTHS.index(patch_width), (gap_width - 1) << 5 | len(entries)])
    data += (magnitude | sign).to_bytes(base_bytes, "big") + pack(low, width)
    entry_width = next(step for step in WIDTHS if step >= gap_width + patch_width)
    data += pack([gap << patch_width | bits for gap, bits in entries], entry_width)
    return Run(data, tuple(wrap(base + value) for value in values))


# --- bytes and booleans ---------------------------------------------------------------------------------------------


def byte_run(value: int, count: int) -> Run:
    assert 3 <= count <= 130
    return Run(bytes([count - 3, value]), (value,) * count)


def byte_literals(values: Sequence[int]) -> Run:
    assert 1 <= len(values) <= 128
    return Run(bytes([256 - len(values)]) + bytes(values), tuple(values))


def encode_bytes(values: bytes) -> Stream:
    """Encodes bytes as a writer does: three and more equal bytes as runs, and the other bytes as literals."""
    runs: list[Run] = []
    literals: list[int] = []
    i = 0
    while i < len(values):
        count = 1
        while count < 130 and i + count < len(values) and values[i + count] == values[i]:
            count += 1
        if count >= 3 or len(literals) == 128:
            if literals:
                runs.append(byte_literals(literals))
                literals = []
            if count >= 3:
                runs.append(byte_run(values[i], count))
                i += count
                continue
        literals.append(values[i])
        i += 1
    if literals:
        runs.append(byte_literals(literals))
    return Stream(tuple(runs))


def encode_bits(bits: Sequence[bool]) -> Stream:
    """Encodes bits, most significant bit first, as run-length encoded bytes. The values of the stream are these
    bytes."""
    return encode_bytes(pack(map(int, bits), 1))
