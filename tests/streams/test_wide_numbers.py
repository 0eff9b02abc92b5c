"""Compares numbers of 128 bits with Python's integers: rescaled decimals, timestamps in any unit, and ranges.

Decimals are rescaled with both forms of ``orc/int128.pxd``: the compiler's ``__int128``, and two halves, as on Windows.
A process with ``ORCIDX_SIMD=none`` uses the second form. A build with ``ORCIDX_HALVES=1`` has only the second form.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from streams import encoders
from streams.framing import PieceSource

from orcidx.errors import CorruptFile, OrcidxError, ValueOutOfRange
from orcidx.orc.decimals import read_decimals
from orcidx.orc.int_rle import IntRle
from orcidx.orc.timestamps import combine, combine_exactly
from orcidx.orc.window import Window
from orcidx.predicate import compares

COUNT = int(os.environ.get("ORCIDX_WIDE_NUMBERS", "4000"))
LEAST, MOST = -(1 << 127), (1 << 127) - 1


def rescaled(number: int, scale: int, *, to: int, precision: int, rounding: str) -> int | type[OrcidxError]:
    """Returns a decimal with another scale, or the type of the error."""
    if not -38 <= scale <= 38:
        return CorruptFile
    if scale <= to:
        number *= 10 ** (to - scale)
    else:
        unit = 10 ** (scale - to)
        size, rest = divmod(abs(number), unit)
        if rest and rounding == "error":
            return ValueOutOfRange
        size += rounding == "half_up" and 2 * rest >= unit
        number = size if number >= 0 else -size
    return number if abs(number) < 10**precision else CorruptFile


def read_one(number: int, scale: int, *, to: int, precision: int, rounding: str) -> int | type[OrcidxError]:
    code = encoders.varint(number << 1 if number >= 0 else (-number << 1) - 1)
    values = Window(PieceSource(code), None, 0, name="DATA")
    scales = Window(PieceSource(encoders.direct([scale], signed=True).data), None, 0, name="SECONDARY")
    out = bytearray(16)
    try:
        rle = IntRle(scales, version=2, signed=True)
        read_decimals(values, rle, out, 1, scale=to, precision=precision, rounding=rounding)
    except OrcidxError as error:
        return type(error)
    return int.from_bytes(out, "little", signed=True)


def numbers_near_borders(rng: np.random.Generator) -> list[int]:
    near = [LEAST, MOST, 0, 1]
    for power in range(39):
        near += [5 * 10**power // 10, 10**power, 10**power - 1, 10**power + 1, MOST // 10**power, MOST // 10**power + 1]
    near += [1 << bits for bits in range(127)] + [(1 << bits) - 1 for bits in range(127)]
    near += [int.from_bytes(rng.bytes(16), "little", signed=True) >> int(rng.integers(128)) for _ in range(300)]
    return [number for one in near for number in (one, -one) if LEAST <= number <= MOST]


def test_rescaled_decimals(rng: np.random.Generator) -> None:
    numbers = numbers_near_borders(rng)
    seen = set()
    for _ in range(COUNT):
        number = numbers[int(rng.integers(len(numbers)))]
        scale = int(rng.integers(-40, 41))
        to, precision = int(rng.integers(0, 39)), int(rng.choice([1, 9, 18, 19, 20, 37, 38]))
        rounding = ["half_up", "truncate", "error"][int(rng.integers(3))]
        wanted = rescaled(number, scale, to=to, precision=precision, rounding=rounding)
        found = read_one(number, scale, to=to, precision=precision, rounding=rounding)
        assert found == wanted, (number, scale, to, precision, rounding)
        seen.add(wanted if isinstance(wanted, type) else (wanted > 0) - (wanted < 0))
    assert seen == {-1, 0, 1, CorruptFile, ValueOutOfRange}


@pytest.mark.parametrize("per_second", [1, 1000, 1_000_000, 1_000_000_000])
def test_timestamps_at_the_ends(per_second: int, rng: np.random.Generator) -> None:
    last = ((1 << 63) - 1) // per_second
    ends = [last + step for step in (-2, -1, 0, 1, 2)] + [-last + step for step in (-3, -2, -1, 0, 1)]
    ends = [second for second in ends if -(1 << 61) <= second <= 1 << 61] + [0, -1, 1, 1 << 61, -(1 << 61)]
    ends += [int(one) for one in rng.integers(-(1 << 61), 1 << 61, 50)]
    for second in ends:
        for nano in (0, 1, 999_999_999, 224_192_000, 224_191_999, 775_807_000, 854_775_807, 854_775_808, 145_224_192):
            out, exact = np.zeros(1, "int64"), bytearray(16)
            pair = np.array([second]), np.array([nano])
            wanted = second * per_second + nano * per_second // 1_000_000_000
            fits = -(1 << 63) <= wanted < 1 << 63
            assert combine(*pair, 1, per_second, out) == (-1 if fits else 0), (second, nano)
            assert not fits or out[0] == wanted
            combine_exactly(*pair, 1, exact)
            assert int.from_bytes(exact, "little", signed=True) == second * 1_000_000_000 + nano


def test_ranges(rng: np.random.Generator) -> None:
    numbers = sorted(numbers_near_borders(rng))
    words = np.frombuffer(b"".join(number.to_bytes(16, "little", signed=True) for number in numbers), np.uint64)
    for _ in range(100):
        low, high = sorted(numbers[int(rng.integers(len(numbers)))] for _ in range(2))
        out = np.zeros(len(numbers), np.uint8)
        compares.within_wide(words, low, high - low, out)
        assert out.tolist() == [low <= number <= high for number in numbers]
    for part in (b"a", b"ab", b"aab"):
        data = b"aabaabab" * 3
        out = np.zeros(4, np.uint8)
        compares.contains(np.array([0, 1, 3, 10, 24], np.int32), data, part, out)
        assert out.tolist() == [part in data[a:b] for a, b in ((0, 1), (1, 3), (3, 10), (10, 24))]
