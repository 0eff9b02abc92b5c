"""Decimals with all mixtures of sizes of varints. Long runs of equal scales are handled as a whole, and other scales
are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from streams import encoders
from streams.framing import PieceSource

from orcidx.errors import CorruptFile
from orcidx.orc.decimals import (
    read_decimals,
    read_narrow_decimals,
    read_narrow_short_decimals,
    read_short_decimals,
    skip_varints,
    widen_decimals,
)
from orcidx.orc.int_rle import IntRle
from orcidx.orc.window import Window

READS = (1, 3, 7, 64, 1000, 5000)
SCALE = 2


def codes_of(bits: Sequence[int], rng: np.random.Generator, count: int) -> list[int]:
    """Returns signed numbers. The number of bits of each zigzag code is taken from ``bits``."""
    codes = []
    for size in rng.choice(bits, count):
        code = int.from_bytes(rng.bytes(17), "little") & (1 << int(size)) - 1 | 1 << int(size) - 1
        codes.append(code >> 1 ^ -(code & 1))
    return codes


SHAPES: dict[str, Sequence[int]] = {
    "1 byte": range(1, 8),
    "2 bytes": range(8, 15),
    "1 or 2": range(1, 15),
    "3 or 4": range(15, 29),
    "up to 8": range(1, 57),
    "8": range(50, 57),
    "8 or 9": range(50, 63),
    "9": range(57, 62),
    "9 or 10": range(57, 71),
    "any": range(1, 126),
    "1 and long": (1, 2, 3, 4, 5, 6, 7, 120),
}


def unsigned(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def same(count: int, scale: int) -> list[encoders.Run]:
    runs = []
    while count >= 3:
        step = min(512, count) if count % 512 not in (1, 2) or count < 512 else 509
        runs.append(encoders.fixed_delta(scale, 0, step, signed=True))
        count -= step
    return runs + ([encoders.direct([scale] * count, signed=True)] if count else [])


def version_1(count: int, scale: int) -> list[encoders.Run]:
    runs = [encoders.v1_run(scale, 0, 130, signed=True) for _ in range(count // 130)]
    left = count - 130 * len(runs)
    return [*runs, *([encoders.v1_literals([scale] * left, signed=True)] if left else [])]


def short_at_the_ends(count: int, scale: int) -> list[encoders.Run]:
    short = encoders.short_repeat(scale, 10, signed=True)
    return [short, *same(count - 20, scale), short]


def decoded(count: int, scale: int) -> list[encoders.Run]:
    return [encoders.direct([scale] * min(512, count - at), signed=True) for at in range(0, count, 512)]


def others_between(count: int, scale: int) -> list[encoders.Run]:
    """Returns runs with ``count`` scales in total: long runs of ``scale`` and of other scales, and a short run of
    ascending scales."""
    slope = encoders.fixed_delta(0, 1, 3, signed=True)
    runs = [*same(300, scale), *same(100, 0), *same(70, scale), slope, *same(63, scale), *same(64, 1)]
    return [*runs, *same(count - 600, scale)]


RUNS: dict[str, Callable[[int, int], list[encoders.Run]]] = {
    "same": same,
    "version 1": version_1,
    "short": short_at_the_ends,
    "decoded": decoded,
    "others": others_between,
}


class Column:
    """The two streams of a column. ``piece`` is the number of bytes that the storage returns at a time."""

    def __init__(self, numbers: Sequence[int], runs: Sequence[encoders.Run], *, version: int = 2) -> None:
        self.numbers = numbers
        self.varints = [encoders.varint(unsigned(number)) for number in numbers]
        self.scales = encoders.Stream(tuple(runs))
        self.version = version

    def open(self, piece: int | None, at: int = 0) -> tuple[Window, IntRle]:
        values = Window(PieceSource(b"".join(self.varints), piece), None, 0, name="DATA")
        scales = Window(PieceSource(self.scales.data, piece), None, 0, name="SECONDARY")
        rle = IntRle(scales, version=self.version, signed=True)
        if at:
            values.seek(sum(map(len, self.varints[:at])))
            run, within = self.scales.place(at)
            scales.seek(run)
            rle.skip(within)
        return values, rle

    def expected(self) -> list[int]:
        return [number * 10 ** (SCALE - scale) for number, scale in zip(self.numbers, self.scales.values)]


def read(opened: tuple[Window, IntRle], sizes: Sequence[int], *, precision: int = 38) -> list[int]:
    found = []
    for size in sizes:
        out = bytearray(16 * size)
        read_decimals(*opened, out, size, scale=SCALE, precision=precision, rounding="error")
        found += [int.from_bytes(out[16 * i : 16 * i + 16], "little", signed=True) for i in range(size)]
    return found


def read_narrow(opened: tuple[Window, IntRle], sizes: Sequence[int], *, precision: int = 18) -> list[int]:
    found: list[int] = []
    for size in sizes:
        out = np.zeros(size, np.int64)
        read_narrow_decimals(*opened, out, size, scale=SCALE, precision=precision, rounding="error")
        wide = bytearray(16 * size)
        widen_decimals(out, wide)
        found += [int.from_bytes(wide[16 * i : 16 * i + 16], "little", signed=True) for i in range(size)]
        assert found[-size:] == out.tolist()
    return found


def in_steps(total: int, step: int) -> list[int]:
    return [min(step, total - at) for at in range(0, total, step)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", RUNS)
def test_every_size_under_every_run_of_scales(rng: np.random.Generator, shape: str, form: str) -> None:
    # numbers of at most 36 digits, because the conversion to ``SCALE`` can add two digits
    bits = [size for size in SHAPES[shape] if size < 118] + ([117] if max(SHAPES[shape]) > 118 else [])
    count = 1301
    column = Column(codes_of(bits, rng, count), RUNS[form](count, SCALE), version=1 if form == "version 1" else 2)
    expected = column.expected()
    for step in READS:
        assert read(column.open(None), in_steps(count, step)) == expected
    for piece in (1, 7, 63, 64, 65, 1000):
        assert read(column.open(piece), [count - 500, 500]) == expected


@pytest.mark.parametrize("shape", ["1 byte", "2 bytes", "1 or 2", "3 or 4", "up to 8"])
@pytest.mark.parametrize("form", RUNS)
def test_every_size_in_64_bits(rng: np.random.Generator, shape: str, form: str) -> None:
    count = 1301
    bits = [size for size in SHAPES[shape] if size <= 52]  # at most 16 digits, and ``SCALE`` can add two
    column = Column(codes_of(bits, rng, count), RUNS[form](count, SCALE), version=1 if form == "version 1" else 2)
    expected = column.expected()
    for step in READS:
        assert read_narrow(column.open(None), in_steps(count, step)) == expected
    for piece in (1, 7, 65, 1000):
        assert read_narrow(column.open(piece), [count - 500, 500]) == expected


@pytest.mark.parametrize("precision", [1, 2, 9, 18])
@pytest.mark.parametrize("form", ["same", "decoded"])
def test_the_largest_number_in_64_bits(precision: int, form: str) -> None:
    """The largest number of the precision can be read. Larger numbers are refused, including numbers of more than 64
    bits."""
    largest = 10**precision - 1
    fit = [largest, -largest, 0] * 20
    assert read_narrow(Column(fit, RUNS[form](60, SCALE)).open(None), [60], precision=precision) == fit
    for number in (largest + 1, -largest - 1, 1 << 60, 1 << 61, -1 << 62, 1 << 63, 1 << 64, 1 << 126):
        for at in (0, 30, 60):
            column = Column([*fit[:at], number, *fit[at:]], RUNS[form](61, SCALE))
            with pytest.raises(CorruptFile, match="more digits"):
                read_narrow(column.open(None), [61], precision=precision)
    column = Column(fit, RUNS[form](60, SCALE))
    column.varints[30] = b"\x81" * 30 + b"\x01"
    with pytest.raises(CorruptFile, match="128 bits"):
        read_narrow(column.open(None), [60], precision=precision)
    column.varints[30:] = []
    with pytest.raises(CorruptFile):
        read_narrow(column.open(None), [60], precision=precision)


@pytest.mark.parametrize("form", ["same", "decoded"])
@pytest.mark.parametrize("size", [2, 8, 9, 10, 16, 19])
def test_small_numbers_in_more_bytes_than_they_need(form: str, size: int) -> None:
    """Numbers that are stored in more bytes than they need can be read, as 64 bits and as 128 bits. ORC Java and ORC
    C++ read them too."""
    numbers = [0, 1, -1, 63, -64] * 12
    column = Column(numbers, RUNS[form](60, SCALE))
    for at in range(0, 60, 3):
        short = column.varints[at]
        column.varints[at] = bytes([short[0] | 0x80]) + b"\x80" * (size - 2) + b"\x00"
    for sizes in ([60], [1] * 60, [7, 53]):
        assert read(column.open(None), sizes) == numbers
        assert read_narrow(column.open(None), sizes) == numbers
        assert read_narrow(column.open(5), sizes, precision=2) == numbers
    column.varints[33] = b"\x80" * 19 + b"\x00"
    for reads in (read, read_narrow):
        with pytest.raises(CorruptFile, match="128 bits"):
            reads(column.open(None), [60])


def test_64_bits_that_do_not_fit() -> None:
    opened = Column([1, 2, 3], same(3, SCALE)).open(None)
    for precision, size in ((18, 2), (19, 3), (0, 3)):
        with pytest.raises(ValueError, match=r"fit|64 bits"):
            read_narrow_decimals(*opened, np.zeros(size, np.int64), 3, scale=2, precision=precision, rounding="error")
    with pytest.raises(ValueError, match="fit"):
        widen_decimals(np.zeros(3, np.int64), bytearray(47))


def test_sizes_that_change_within_a_block(rng: np.random.Generator) -> None:
    """The stream consists of series of numbers of the same size. There are series that are shorter than a block of 64
    bytes, series that are as long, and series that are longer."""
    numbers: list[int] = []
    for length in (1, 3, 4, 5, 31, 32, 33, 63, 64, 65, 66, 129):
        for bits in (7, 14, 7, 21, 14, 56, 61, 7):
            numbers += codes_of([bits], rng, length)
    column = Column(numbers, same(len(numbers), SCALE))
    for step in (len(numbers), 1000, 65, 4):
        assert read(column.open(None), in_steps(len(numbers), step)) == numbers
        assert read(column.open(13), in_steps(len(numbers), step)) == numbers


def test_seeks_and_skips_into_runs(rng: np.random.Generator) -> None:
    numbers = codes_of(range(1, 40), rng, 1300)
    for form in RUNS:
        version = 1 if form == "version 1" else 2
        column = Column(numbers, RUNS[form](len(numbers), SCALE), version=version)
        expected = column.expected()
        for at in (0, 1, 63, 64, 299, 300, 301, 399, 511, 512, 513, 1299, 700, 1300):
            opened = column.open(None, at)
            assert read(opened, [min(70, 1300 - at)]) == expected[at : at + 70], (form, at)
        values, scales = column.open(100)
        assert read((values, scales), [5]) == expected[:5]
        skip_varints(values, 600)
        scales.skip(600)
        assert read((values, scales), [695]) == expected[605:]


@pytest.mark.parametrize("precision", [*range(1, 20), 34, 38])
@pytest.mark.parametrize("form", ["same", "decoded"])
def test_the_largest_number_of_a_precision(precision: int, form: str) -> None:
    largest = 10**precision - 1
    fit = [largest, -largest, 0, 1] * 40
    column = Column(fit, RUNS[form](160, SCALE))
    assert read(column.open(None), [160], precision=precision) == fit
    for place, number in ((0, largest + 1), (77, -largest - 1), (159, largest + 1)):
        wrong = [*fit[:place], number, *fit[place + 1 :]]
        with pytest.raises(CorruptFile, match="more digits") as caught:
            read(Column(wrong, RUNS[form](160, SCALE)).open(None), [160], precision=precision)
        assert caught.value.stream == "DATA"


def test_streams_that_end_too_early(rng: np.random.Generator) -> None:
    numbers = codes_of(range(1, 30), rng, 600)
    for values, scales, stream in ((599, 600, "DATA"), (600, 599, "SECONDARY"), (600, 0, "SECONDARY")):
        column = Column(numbers[:values], same(scales, SCALE))
        with pytest.raises(CorruptFile, match="ends before") as caught:
            read(column.open(None), [600])
        assert caught.value.stream == stream
    column = Column(numbers, same(600, SCALE))
    column.varints[-1] = b"\x80"
    with pytest.raises(CorruptFile, match="ends before"):
        read(column.open(None), [600])


@pytest.mark.parametrize("size", [20, 63, 64, 65, 200])
@pytest.mark.parametrize("before", [0, 1, 4, 50])
def test_values_of_more_than_128_bits(size: int, before: int) -> None:
    column = Column([5] * (before + 1), same(before + 1, SCALE))
    column.varints[before] = b"\x81" * (size - 1) + b"\x01"
    with pytest.raises(CorruptFile, match="128 bits") as caught:
        read(column.open(None), [before + 1])
    assert caught.value.stream == "DATA"


@pytest.mark.parametrize("precision", [1, 4, 12, 18])
def test_the_largest_integer_of_a_precision(precision: int) -> None:
    """These decimals are stored as run-length encoded integers."""
    largest = 10**precision - 1

    def integers(numbers: Sequence[int]) -> list[int]:
        window = Window(PieceSource(encoders.direct(numbers, signed=True).data), None, 0, name="DATA")
        out = bytearray(16 * len(numbers))
        rle = IntRle(window, version=2, signed=True)
        read_short_decimals(rle, out, len(numbers), scale=0, precision=precision)
        narrow = np.zeros(len(numbers), np.int64)
        window = Window(PieceSource(encoders.direct(numbers, signed=True).data), None, 0, name="DATA")
        rle = IntRle(window, version=2, signed=True)
        read_narrow_short_decimals(rle, narrow, len(numbers), scale=0, precision=precision)
        assert out[::16] == narrow.tobytes()[::8]
        return [int.from_bytes(out[16 * i : 16 * i + 16], "little", signed=True) for i in range(len(numbers))]

    fit = [largest, -largest, 0] * 20
    assert integers(fit) == fit
    for number in (largest + 1, -largest - 1, (1 << 63) - 1, -(1 << 63)):
        with pytest.raises(CorruptFile, match="more digits"):
            integers([*fit, number])
        window = Window(PieceSource(encoders.direct([*fit, number], signed=True).data), None, 0, name="DATA")
        rle = IntRle(window, version=2, signed=True)
        with pytest.raises(CorruptFile, match="more digits"):
            read_narrow_short_decimals(rle, np.zeros(61, np.int64), 61, scale=0, precision=precision)
