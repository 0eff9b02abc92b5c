"""Values that are filtered or tested while they are decoded. With a mask, each kernel returns those values that the
mask keeps. With a range, it returns which values are in the range. It refuses the same streams as without a mask or a
range, with the same messages, and continues at the same position."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from streams import encoders
from streams.framing import PieceSource

from orcidx.errors import OrcidxError
from orcidx.orc import decimals, kept_decimals, tested_values, timestamps
from orcidx.orc.byte_rle import RawBytes
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask
from orcidx.orc.window import Window

ROUNDS = int(os.environ.get("ORCIDX_PREDICATES", "20"))
MOST = 9000
SHARES = (0.0, 0.001, 0.02, 0.3, 0.8, 0.97, 1.0)

Bytes = npt.NDArray[np.uint8]
Reader = tuple[Callable[[int], Any], Callable[[Bytes, int], Any], Callable[[Bytes, int, int], None]]
"""Three functions. The first reads a number of values. The second gets a mask with a byte for each value, and returns
the values that the mask keeps. The third writes for each value whether it is between two numbers."""

FIRST_DAY = -141427
"""The first day that does not move if a test moves days."""


def masked(rng: np.random.Generator, rows: int) -> Bytes:
    """Returns a mask that keeps scattered rows. In some masks, a range of rows is kept or dropped as a whole."""
    mask = rng.random(rows) < rng.choice(SHARES)
    if rows and rng.random() < 0.4:
        first, last = sorted(rng.integers(0, rows + 1, 2))
        mask[first:last] = rng.random() < 0.5
    return mask.view(np.uint8)


def window(data: bytes, piece: int | None, name: str = "DATA") -> Window:
    return Window(PieceSource(data, piece), None, 0, name=name)


def runs_of(rng: np.random.Generator, count: int, *, bits: int = 40) -> list[encoders.Run]:
    """Returns runs of all kinds, which have ``count`` values in total."""
    runs: list[encoders.Run] = []
    while count:
        size = int(min(count, rng.choice([1, 3, 10, 100, 511, 512])))
        low = int(rng.integers(-(1 << bits), 1 << bits))
        kind = rng.integers(0, 3)
        if kind == 0 and 3 <= size <= 10:
            runs.append(encoders.short_repeat(low, size, signed=True))
        elif kind == 1:
            runs.append(encoders.fixed_delta(low, int(rng.integers(-5, 6)), size, signed=True))
        else:
            high = 1 << int(rng.integers(1, bits))
            runs.append(encoders.direct(rng.integers(-high, high, size).tolist(), signed=True))
        count -= size
    return runs


def integers(kind: type[np.signedinteger[Any]], rng: np.random.Generator, data: bytes, piece: int | None) -> Reader:
    stream = IntRle(window(data, piece), version=2, signed=True)

    def some(count: int) -> Any:
        out = np.zeros(count, kind)
        stream.read(out, count)
        return out

    def kept(mask: Bytes, count: int) -> Any:
        out = np.zeros(count + 1, kind)
        stream.read_kept(out, Mask(mask))
        return out[:count]

    def within(out: Bytes, low: int, high: int) -> None:
        tested_values.integers_within(stream, out, np.dtype(kind).itemsize, low, high)

    return some, kept, within


def moved(days: Any) -> Any:
    return np.where(days < FIRST_DAY, days - 10, days)


def move(block: memoryview) -> None:
    days = np.frombuffer(block, np.int32)
    days[:] = moved(days)


def days(rng: np.random.Generator, data: bytes, piece: int | None) -> Reader:
    stream = IntRle(window(data, piece), version=2, signed=True)

    def some(count: int) -> Any:
        out = np.zeros(count, np.int32)
        return timestamps.read_days(stream, out, count, FIRST_DAY), out

    def kept(mask: Bytes, count: int) -> Any:
        out = np.zeros(count + 1, np.int32)
        return timestamps.read_kept_days(stream, out, Mask(mask), FIRST_DAY), out[:count]

    def within(out: Bytes, low: int, high: int) -> None:
        tested_values.days_within(stream, out, low, high, FIRST_DAY, move)

    return some, kept, within


def floats(rng: np.random.Generator, data: bytes, piece: int | None) -> Reader:
    stream = RawBytes(window(data, piece))
    block = np.zeros(int(rng.choice([8, 9, 64, 1000, 1 << 16])), np.uint8)

    def some(count: int) -> Any:
        out = np.zeros(count * 8, np.uint8)
        stream.read_into(out, count * 8)
        return out.view(np.int64)

    def kept(mask: Bytes, count: int) -> Any:
        out = np.zeros(count * 8 + 8, np.uint8)
        stream.read_kept(out, 8, Mask(mask), block)
        return out[: count * 8].view(np.int64)

    return some, kept, no_range


def no_range(out: Bytes, low: int, high: int) -> None:
    raise AssertionError("these values are not tested while they are decoded")


def numbers(rng: np.random.Generator, data: bytes, scales: bytes, piece: int | None, **digits: Any) -> Reader:
    values, stream = window(data, piece), IntRle(window(scales, piece, "SECONDARY"), version=2, signed=True)

    def some(count: int) -> Any:
        out = np.zeros(16 * count, np.uint8)
        decimals.read_decimals(values, stream, out, count, **digits)
        return out.reshape(-1, 16)

    def kept(mask: Bytes, count: int) -> Any:
        out = np.zeros(16 * count + 16, np.uint8)
        kept_decimals.read_kept_decimals(values, stream, out, Mask(mask), **digits)
        return out[: 16 * count].reshape(-1, 16)

    def within(out: Bytes, low: int, high: int) -> None:
        tested_values.decimals_within(values, stream, out, low, high, **digits)

    return some, kept, within


def short_numbers(rng: np.random.Generator, data: bytes, piece: int | None) -> Reader:
    stream, digits = IntRle(window(data, piece), version=2, signed=True), {"scale": 2, "precision": 12}

    def some(count: int) -> Any:
        out = np.zeros(16 * count, np.uint8)
        decimals.read_short_decimals(stream, out, count, **digits)
        return out.reshape(-1, 16)

    def kept(mask: Bytes, count: int) -> Any:
        out = np.zeros(16 * count + 16, np.uint8)
        kept_decimals.read_kept_short_decimals(stream, out, Mask(mask), **digits)
        return out[: 16 * count].reshape(-1, 16)

    def within(out: Bytes, low: int, high: int) -> None:
        tested_values.short_decimals_within(stream, out, low, high, **digits)

    return some, kept, within


def varints(rng: np.random.Generator, count: int, bits: Sequence[int]) -> bytes:
    codes = [int.from_bytes(rng.bytes(17), "little") & (1 << int(size)) - 1 for size in rng.choice(bits, count)]
    return b"".join(map(encoders.varint, codes))


def decimal_stream(
    rng: np.random.Generator, count: int, *, whole: bool, precisions: Sequence[int] = (9, 15, 18, 19, 38)
) -> Callable[[int | None], Reader]:
    precision = int(rng.choice(precisions))
    bits = range(1, 24) if precision == 9 else range(1, 46) if precision < 19 else range(1, 58)
    data = varints(rng, count, [*bits, 110] if precision == 38 else bits)
    scales: list[encoders.Run] = []
    left = count
    while left:
        size = int(min(left, rng.choice([3, 64, 300, 512])))
        if rng.random() < 0.7:
            scales.append(encoders.fixed_delta(2, 0, size, signed=True))
        else:
            scales.append(encoders.direct(rng.integers(0, 4, size).tolist(), signed=True))
        left -= size
    if not whole:
        data = data[: len(data) // 2]
    elif rng.random() < 0.1:
        data = damaged(rng, data)
    rounding = str(rng.choice(["half_up", "truncate", "error"]))
    text = b"".join(run.data for run in scales)
    return lambda piece: numbers(rng, data, text, piece, scale=2, precision=precision, rounding=rounding)


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if changed:
            changed[int(rng.integers(0, len(changed)))] = int(rng.integers(0, 256))
    return bytes(changed[: int(rng.integers(0, len(changed) + 1))] if rng.random() < 0.5 else changed)


def stream_of(name: str, rng: np.random.Generator, count: int, *, whole: bool) -> Callable[[int | None], Reader]:
    """Returns a function that opens a random stream of ``count`` values. If ``whole`` is False, the second half of the
    bytes is missing."""
    if name == "decimals":
        return decimal_stream(rng, count, whole=whole)
    if name == "narrow decimals":
        return decimal_stream(rng, count, whole=whole, precisions=(9, 15, 18))
    if name == "floats":
        data = rng.bytes(8 * count)
        if not whole:
            data = data[: len(data) // 2]
        elif rng.random() < 0.2:
            data = data[: -int(rng.integers(0, 20))]
        return lambda piece: floats(rng, data, piece)
    bits = {"days": 18, "short decimals": 38, "int16": 16}.get(name, 40)
    data = b"".join(run.data for run in runs_of(rng, count, bits=bits))
    if not whole:
        data = data[: len(data) // 2]
    elif rng.random() < 0.2:
        data = damaged(rng, data)
    if name == "days":
        return lambda piece: days(rng, data, piece)
    if name == "short decimals":
        return lambda piece: short_numbers(rng, data, piece)
    kind = {"int16": np.int16, "int32": np.int32, "int64": np.int64}[name]
    return lambda piece: integers(kind, rng, data, piece)


def outcome(read: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return read(), None
    except OrcidxError as error:
        return None, f"{type(error).__name__} {error.stream} {str(error).split('offset')[0]}"


@pytest.mark.parametrize("name", ["int16", "int32", "int64", "days", "floats", "decimals", "short decimals"])
def test_what_is_kept_is_what_a_mask_keeps_of_all(name: str, rng: np.random.Generator) -> None:
    kept_any = failed = 0
    for number in range(ROUNDS):
        count = int(rng.choice([1, 7, 8, 65, 511, 1024, 1025, 2064, 5000, MOST]))
        opened = stream_of(name, rng, count, whole=number > 0)
        piece = None if rng.random() < 0.5 else int(rng.choice([1, 7, 64, 1000]))
        some, kept = opened(None)[0], opened(piece)[1]
        left = count
        while left:
            step = int(min(left, rng.choice([1, 3, 40, 1000, MOST])))
            mask = masked(rng, step)
            found, error = outcome(lambda: kept(mask, int(mask.sum())))  # noqa: B023
            expected, other = outcome(lambda: some(step))  # noqa: B023
            if other is not None:
                assert error == other, name
                failed += 1
                break
            assert error is None, error
            if name == "days":
                assert found[0] == expected[0]
                found, expected = found[1], expected[1]
            assert np.array_equal(found, expected[mask.view(np.bool_)]), (name, step)
            kept_any += len(found)
            left -= step
    assert kept_any > 1000
    assert failed


ONE_SIZE = [
    *(("one byte", digits) for digits in (3, 9)),
    *(("two bytes", digits) for digits in (3, 4, 9)),
    *(("most digits", digits) for digits in (1, 2, 4, 9, 15, 17, 18)),
]


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize(("size", "precision"), ONE_SIZE)
def test_decimals_of_one_size(rng: np.random.Generator, size: str, precision: int, bad: bool) -> None:
    """There are loops of their own for values of one byte and of two bytes, and for values that may have too many
    digits. A value that has too many is found in any row, kept or not."""
    low, high = {"one byte": (0, 1 << 6), "two bytes": (1 << 6, 500)}.get(size, (0, 10**precision))
    rows = 5000
    values = rng.integers(low, high, rows) * rng.choice([1, -1], rows)
    if size == "most digits":
        values = np.where(rng.random(rows) < 0.3, rng.choice([1, -1], rows) * (10**precision - 1), values)
    if bad:
        values[rng.integers(0, rows)] = rng.choice([10**precision, -(10**precision)])
    data = b"".join(encoders.varint(int(one) * 2 if one >= 0 else -2 * int(one) - 1) for one in values)
    scales = encoders.fixed_delta(2, 0, 500, signed=True).data * (rows // 500)
    digits: dict[str, Any] = {"scale": 2, "precision": precision, "rounding": "error"}
    for share in SHARES:
        some = numbers(rng, data, scales, None, **digits)[0]
        kept = numbers(rng, data, scales, None, **digits)[1]
        mask = (rng.random(rows) < share).view(np.uint8)
        found, error = outcome(lambda: kept(mask, int(mask.sum())))  # noqa: B023
        expected, other = outcome(lambda: some(rows))  # noqa: B023
        assert error == other
        assert bad == (error is not None)
        if not bad:
            assert np.array_equal(expected.view(np.int64)[:, 0], values)
            assert np.array_equal(found, expected[mask.view(np.bool_)])


@pytest.mark.parametrize("name", ["int32", "int64", "days", "narrow decimals", "short decimals"])
def test_what_is_within_a_range_is_what_a_comparison_finds(name: str, rng: np.random.Generator) -> None:
    passed = failed = 0
    bits = 64 if name in ("int64", "narrow decimals", "short decimals") else 32
    ends = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    for number in range(ROUNDS):
        count = int(rng.choice([1, 7, 8, 65, 511, 1024, 1025, 2064, 5000, MOST]))
        opened = stream_of(name, rng, count, whole=number > 0)
        piece = None if rng.random() < 0.5 else int(rng.choice([1, 7, 64, 1000]))
        some, within = opened(None)[0], opened(piece)[2]
        left = count
        while left:
            step = int(min(left, rng.choice([1, 3, 40, 1000, MOST])))
            expected, other = outcome(lambda: some(step))  # noqa: B023
            values = np.zeros(0, np.int64)
            if other is None:
                values = moved(expected[1]) if name == "days" else expected
                if values.ndim == 2:  # the lower halves of decimals
                    values = values.view(np.int64)[:, 0]
            drawn = [int(one) for one in rng.choice(values, 2)] if len(values) else [0, 0]
            low, high = (int(rng.choice([one, end])) for one, end in zip(drawn, ends, strict=True))
            if rng.random() < 0.3:
                high = low
            found = np.full(step, 7, np.uint8)
            _, error = outcome(lambda: within(found, low, high))  # noqa: B023
            if other is not None:
                assert error == other, name
                failed += 1
                break
            assert error is None, error
            assert np.array_equal(found, (low <= values) & (values <= high)), (name, step, low, high)
            passed += int(found.sum())
            left -= step
    assert passed > 1000
    assert failed


def test_ranges_that_do_not_fit() -> None:
    data = encoders.direct([1, 2, 3], signed=True).data
    stream = IntRle(window(data, None), version=2, signed=True)
    out = np.zeros(3, np.uint8)
    for width, low in ((2, 0), (4, -(1 << 31) - 1)):
        with pytest.raises(ValueError, match="a range of integers"):
            tested_values.integers_within(stream, out, width, low, 5)
    with pytest.raises(ValueError, match="64 bits"):
        tested_values.short_decimals_within(stream, out, 0, 1, scale=2, precision=19)
    with pytest.raises(ValueError, match="64 bits"):
        tested_values.decimals_within(stream.window, stream, out, 0, 1, scale=39, precision=9, rounding="error")
    tested_values.integers_within(stream, out[:0], 8, 0, 1)
    tested_values.integers_within(stream, out, 8, 2, 1)
    assert not out.any()


@pytest.mark.parametrize(("share", "at"), [(0.999, 0), (0.999, 8), (0.9, 16)])
def test_decimals_that_go_past_the_caches(rng: np.random.Generator, share: float, at: int) -> None:
    """If the output begins at the start of a cache line, stores of whole lines bypass the caches."""
    rows = 80_001
    data = varints(rng, rows, range(1, 50))
    scales = [encoders.fixed_delta(2, 0, 512, signed=True)] * (rows // 512 + 1)
    mask = (rng.random(rows) < share).view(np.uint8)
    count = int(mask.sum())
    digits: dict[str, Any] = {"scale": 2, "precision": 18, "rounding": "error"}

    def opened() -> tuple[Window, IntRle]:
        text = b"".join(run.data for run in scales)
        return window(data, None), IntRle(window(text, None, "SECONDARY"), version=2, signed=True)

    whole = np.zeros(16 * rows, np.uint8)
    decimals.read_decimals(*opened(), whole, rows, **digits)
    memory = np.full(16 * count + 1024, 7, np.uint8)
    begin = -memory.ctypes.data % 64 + at
    kept_decimals.read_kept_decimals(*opened(), memory[begin : begin + 16 * count + 16], Mask(mask), **digits)
    found = memory[begin : begin + 16 * count].reshape(-1, 16)
    assert np.array_equal(found, whole.reshape(-1, 16)[mask.view(np.bool_)])
    assert (memory[begin + 16 * count + 16 :] == 7).all()
    assert (memory[:begin] == 7).all()


def test_sizes_that_do_not_fit() -> None:
    data = encoders.direct([1, 2, 3], signed=True).data
    stream = IntRle(window(data, None), version=2, signed=True)
    mask, out = Mask(np.array([1, 0, 1], np.uint8)), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="room"):
        stream.read_kept(out, mask)
    with pytest.raises(ValueError, match="room"):
        timestamps.read_kept_days(stream, out.astype(np.int32), mask, 0)
    with pytest.raises(ValueError, match="room"):
        RawBytes(window(data, None)).read_kept(out.view(np.uint8), 8, mask, np.zeros(8, np.uint8))
    with pytest.raises(ValueError, match="room"):
        kept_decimals.read_kept_short_decimals(stream, np.zeros(32, np.uint8), mask, scale=2, precision=9)
    raw, some = RawBytes(window(data, None)), np.zeros(24, np.uint8)
    with pytest.raises(ValueError, match="3 bytes"):
        raw.read_kept(some, 3, mask, some)
    with pytest.raises(ValueError, match="block"):
        raw.read_kept(some, 8, mask, some[:7])
    with pytest.raises(ValueError, match="64 bits"):
        kept_decimals.read_kept_short_decimals(stream, np.zeros(48, np.uint8), mask, scale=2, precision=19)
