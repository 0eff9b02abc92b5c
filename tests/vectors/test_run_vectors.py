"""The bytes of every test vector are read with every read size and chunk size, uncompressed and with ZLIB. Malformed
vectors are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from streams.framing import Chopped, Positions, chop, chunk_sizes, read_sizes, split_counts
from streams.reference import first_run
from vectors.run_vectors import BITS, BYTES, INTEGERS, MALFORMED, Vector

from orcidx.errors import CorruptFile
from orcidx.orc.byte_rle import BooleanRle, ByteRle
from orcidx.orc.int_rle import IntRle

Read = Callable[[Chopped, int], tuple[np.ndarray[Any, Any], Callable[[], None]]]
FRAMINGS = ("NONE", "ZLIB", "MIXED")


def as_uint64(values: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array([value % 2**64 for value in values], np.uint64)


def every_chopping(vector: Vector) -> list[Chopped]:
    form = "bytes" if vector.form == "bits" else vector.form
    run = first_run(form, vector.data, vector.signed)
    return [
        chop(vector.data, size, framing, piece=piece)
        for framing in FRAMINGS
        for size in chunk_sizes(vector.data, run)
        for piece in ((None,) if framing == "NONE" else (None, 5))
    ]


def check_reads(vector: Vector, read: Read) -> None:
    expected = as_uint64(vector.values)
    for chopped in every_chopping(vector):
        for size in read_sizes(len(expected)):
            got, read_one_more = read(chopped, size)
            np.testing.assert_array_equal(got.astype(np.int64).view(np.uint64), expected)
            with pytest.raises(CorruptFile, match="ends before"):
                read_one_more()


@pytest.mark.parametrize("vector", INTEGERS, ids=str)
def test_integers(vector: Vector) -> None:
    def read(chopped: Chopped, size: int) -> tuple[np.ndarray[Any, Any], Callable[[], None]]:
        reader = IntRle(chopped.window(), version=int(vector.form[1]), signed=vector.signed)
        out = np.empty(len(vector.values), np.int64)
        at = 0
        for count in split_counts(len(out), size):
            reader.read(out[at : at + count])
            at += count
        return out, lambda: reader.read(np.empty(1, np.int64))

    check_reads(vector, read)


@pytest.mark.parametrize("vector", BYTES, ids=str)
def test_bytes(vector: Vector) -> None:
    def read(chopped: Chopped, size: int) -> tuple[np.ndarray[Any, Any], Callable[[], None]]:
        reader = ByteRle(chopped.window())
        out = np.empty(len(vector.values), np.int8 if vector.signed else np.uint8)
        at = 0
        for count in split_counts(len(out), size):
            reader.read(out[at : at + count])
            at += count
        return out, lambda: reader.read(np.empty(1, np.uint8))

    check_reads(vector, read)


@pytest.mark.parametrize("vector", BITS, ids=str)
def test_bits(vector: Vector) -> None:
    padding = -len(vector.values) % 8

    def read(chopped: Chopped, size: int) -> tuple[np.ndarray[Any, Any], Callable[[], None]]:
        reader = BooleanRle(chopped.window())
        out = np.zeros(len(vector.values) // 8 + 1, np.uint8)
        at = 0
        for count in split_counts(len(vector.values), size):
            assert reader.read_bits(out, at, count) == sum(vector.values[at : at + count])
            at += count
        bits = np.unpackbits(out, bitorder="little")[: len(vector.values)]
        return bits, lambda: (reader.skip(padding), reader.read_bits(out, 0, 1))[0]  # type: ignore[return-value]

    check_reads(vector, read)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str, framing: str) -> None:
    form, data, message = MALFORMED[name]
    raw = bytes.fromhex(data)
    for size in chunk_sizes(raw, len(raw)):
        for signed in (True, False):
            reader = IntRle(chop(raw, size, framing).window("LENGTH"), version=int(form[1]), signed=signed)
            with pytest.raises(CorruptFile, match=message) as error:
                reader.read(np.empty(512, np.int64))
            assert error.value.stream == "LENGTH"
            assert error.value.offset is not None


def test_a_trailing_gap_of_255_is_legal() -> None:
    """orcidx and ORC C++ accept a gap of 255 at the end. ORC Java reads beyond its array."""
    reader = IntRle(chop(bytes.fromhex("820403e10a5540ff00"), 99, "NONE").window(), version=2, signed=True)
    out = np.empty(5, np.int64)
    reader.read(out)
    assert out.tolist() == [11] * 5


def test_seek_into_the_second_run() -> None:
    """The position is byte 7 of the stream, and then 13 values of the run (vector 51)."""
    (vector,) = (vector for vector in INTEGERS if vector.number == 51)
    for framing in FRAMINGS:
        for size in chunk_sizes(vector.data, 7):
            chopped = chop(vector.data, size, framing)
            reader = IntRle(chopped.window(), version=2, signed=True)
            reader.seek(Positions(*chopped.position(7), 13))
            out = np.empty(7, np.int64)
            reader.read(out)
            assert out.tolist() == [2, 0, 2, 0, 2, 0, 2]


@pytest.mark.parametrize(("byte", "bit", "index"), [(2, 5, 21), (5, 5, 45)])
def test_seek_to_a_bit(byte: int, bit: int, index: int) -> None:
    """A position has the number of bytes to skip in the byte run, and the number of bits to skip in the byte (vector
    90)."""
    (vector,) = (vector for vector in BITS if vector.number == 90)
    for framing in FRAMINGS:
        chopped = chop(vector.data, 3, framing)
        reader = BooleanRle(chopped.window())
        reader.seek(Positions(*chopped.position(0), byte, bit))
        out = np.zeros(1, np.uint8)
        assert reader.read_bits(out, 0, 1) == out[0] == vector.values[index]


def test_skip_does_not_touch_past_the_end() -> None:
    """This is vector 93 (ORC-470)."""
    (vector,) = (vector for vector in BITS if vector.number == 93)
    reader = BooleanRle(chop(vector.data, 1, "NONE").window())
    assert reader.skip(1024) == 1024
    with pytest.raises(CorruptFile):
        reader.read_bits(np.zeros(1, np.uint8), 0, 1)


def integers(data: str, *, signed: bool, count: int) -> list[int]:
    reader = IntRle(chop(bytes.fromhex(data), 3, "ZLIB").window(), version=1, signed=signed)
    out = np.empty(count, np.int64)
    reader.read(out)
    return [int(value) for value in out]


def as_time(seconds: int, coded: int) -> tuple[datetime, int]:
    """Returns the local time and the nanoseconds. Stored seconds are truncated towards 1970, and coded nanoseconds have
    no trailing zeros."""
    nanos = (coded >> 3) * 10 ** ((coded & 7) + 1 if coded & 7 else 0)
    start = datetime(2015, 1, 1, tzinfo=UTC)
    time = start + timedelta(seconds=seconds)
    if time < datetime(1970, 1, 1, tzinfo=UTC) and nanos > 999_999:
        time -= timedelta(seconds=1)
    return time.replace(tzinfo=None), nanos


def test_integer_streams_of_timestamps() -> None:
    """Vectors 94 and 95 are the two streams of a TIMESTAMP column."""
    data = "f69ff4c6bd03ffecf3bc03ffb1f8841b9d86d7fa1a9db8cddc1a9deac3be1a9d9cbaa01a9d88a6821a9dba9ce4199deee1cd18"
    rest = "f600a8d1f9d603009e01ec76f476fc7684778c77fd0b"
    times = list(map(as_time, integers(data, signed=True, count=10), integers(rest, signed=False, count=10)))
    assert times[0] == (datetime(2000, 3, 12, 15), 0)
    assert times[1] == (datetime(2000, 3, 20, 12), 123456789)
    assert times[2] == (datetime(1900, 1, 1), 0)
    assert times[3] == (datetime(1900, 5, 5, 12, 34, 56), 190000000)
    for year, time in zip((1901, 1902, 1903, 1904, 1905), times[4:9], strict=True):
        assert time == (datetime(year, 5, 5, 12, 34, 56), year * 100_000)
    assert times[9] == (datetime(1910, 5, 5, 12, 34, 56), 191000000)
    seconds = integers("fcbbb5be31a1eee210f892ee0f92a0d430", signed=True, count=4)
    coded = integers("01085e", signed=False, count=4)
    assert coded == [94, 102, 110, 118]
    # The writer's zone is Los Angeles. Seconds are counted from 2015-01-01, which is in winter. The times below are in
    # summer, when clocks show an hour more.
    summer = timedelta(hours=1)
    assert [(time + summer, nanos) for time, nanos in map(as_time, seconds, coded)] == [
        (datetime(2013, 5, 10, 10, 40, 50), 110000000),
        (datetime(2014, 6, 11, 11, 41, 51), 120000000),
        (datetime(2015, 7, 12, 12, 42, 52), 130000000),
        (datetime(2016, 8, 13, 13, 43, 53), 140000000),
    ]


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_narrow_types_keep_the_low_bits(dtype: type) -> None:
    """In a SHORT column, 40000 is read as -25536. In an INT column, 2**31 is read as -2**31."""
    for vector in INTEGERS:
        reader = IntRle(chop(vector.data, 2, "NONE").window(), version=int(vector.form[1]), signed=vector.signed)
        out = np.empty(len(vector.values), dtype)
        reader.read(out)
        np.testing.assert_array_equal(out, as_uint64(vector.values).astype(dtype))
