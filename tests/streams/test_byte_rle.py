"""Compares ByteRle, BooleanRle and RawBytes with lists of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import encoders
from streams.encoders import Run, Stream
from streams.framing import Positions, chop, chunk_sizes, read_sizes, split_counts
from streams.reference import decode

from orcidx.errors import CorruptFile
from orcidx.orc.byte_rle import BooleanRle, ByteRle, RawBytes

BYTE = st.integers(0, 255)
RUNS = st.one_of(
    st.builds(encoders.byte_run, st.one_of(BYTE, st.sampled_from([0, 255])), st.integers(3, 130)),
    st.lists(BYTE, min_size=1, max_size=128).map(encoders.byte_literals),
)
STREAMS = st.lists(RUNS, min_size=1, max_size=6).map(lambda chosen: Stream(tuple(chosen)))
FRAMINGS = st.sampled_from(["NONE", "ZLIB", "MIXED"])


def read(reader: ByteRle, count: int) -> list[int]:
    out = np.empty(count, np.uint8)
    reader.read(out)
    return [int(value) for value in out]


def read_bits(reader: BooleanRle, count: int, offset: int) -> list[int]:
    out = np.zeros((offset + count) // 8 + 2, np.uint8)
    set_bits = reader.read_bits(out, offset, count)
    bits = np.unpackbits(out, bitorder="little")
    assert not bits[:offset].any()
    assert not bits[offset + count :].any()
    assert set_bits == bits.sum()
    return [int(bit) for bit in bits[offset : offset + count]]


@settings(max_examples=60)
@given(stream=STREAMS, framing=FRAMINGS, data=st.data())
def test_bytes_any_order(stream: Stream, framing: str, data: st.DataObject) -> None:
    content, values = stream.data, stream.values
    chopped = chop(content, data.draw(st.sampled_from(chunk_sizes(content, len(stream.runs[0].data)))), framing)
    reader = ByteRle(chopped.window())
    at = 0
    for verb in data.draw(st.lists(st.sampled_from(["read", "skip", "seek"]), max_size=10)):
        count = data.draw(st.integers(0, len(values) - at))
        if verb == "read":
            assert read(reader, count) == values[at : at + count]
            at += count
        elif verb == "skip":
            reader.skip(count)
            at += count
        else:
            at = data.draw(st.integers(0, len(values)))
            byte, consumed = stream.place(at)
            reader.seek(Positions(*chopped.position(byte), consumed))
    assert read(reader, len(values) - at) == values[at:]
    with pytest.raises(CorruptFile, match="ends before"):
        read(reader, 1)


@settings(max_examples=80)
@given(stream=STREAMS, framing=FRAMINGS, data=st.data())
def test_bits_any_order(stream: Stream, framing: str, data: st.DataObject) -> None:
    content = stream.data
    bits = [int(bit) for bit in np.unpackbits(np.array(stream.values, np.uint8))]
    chopped = chop(content, data.draw(st.sampled_from(chunk_sizes(content, len(stream.runs[0].data)))), framing)
    reader = BooleanRle(chopped.window())
    at = 0
    for verb in data.draw(st.lists(st.sampled_from(["read", "skip", "seek", "seek 8"]), max_size=10)):
        count = data.draw(st.integers(0, len(bits) - at))
        if verb == "read":
            assert read_bits(reader, count, data.draw(st.integers(0, 17))) == bits[at : at + count]
            at += count
        elif verb == "skip":
            assert reader.skip(count) == sum(bits[at : at + count])
            at += count
        else:
            at = data.draw(st.integers(0, len(bits)))
            index, bit = divmod(at, 8)
            if verb == "seek 8" and bit == 0 and index:  # the same position as bit 8 of the previous byte
                index, bit = index - 1, 8
            byte, consumed = stream.place(index)
            reader.seek(Positions(*chopped.position(byte), consumed, bit))
    offset = data.draw(st.integers(0, 17))
    assert read_bits(reader, len(bits) - at, offset) == bits[at:]


@settings(max_examples=50)
@given(bits=st.lists(st.booleans(), min_size=1, max_size=3000), framing=FRAMINGS)
def test_bits_at_every_read_size(bits: list[bool], framing: str) -> None:
    content = encoders.encode_bits(bits).data
    for step in read_sizes(len(bits)):
        reader = BooleanRle(chop(content, 5, framing).window())
        out = np.zeros((len(bits) + 7) // 8, np.uint8)
        at = 0
        for count in split_counts(len(bits), step):
            assert reader.read_bits(out, at, count) == sum(bits[at : at + count])
            at += count
        assert np.unpackbits(out, bitorder="little")[: len(bits)].astype(bool).tolist() == bits


def test_reading_bits_leaves_the_others() -> None:
    for offset in range(9):
        for count in (0, 1, 7, 8, 9, 64, 65):
            for value in (0, 255):
                runs: list[Run] = [encoders.byte_run(value, 5), encoders.byte_literals([value] * 5)]
                reader = BooleanRle(chop(Stream(tuple(runs)).data, 99, "NONE").window())
                out = np.full(12, 255 - value, np.uint8)
                reader.read_bits(out, offset, count)
                expected = np.full(96, value == 0, np.uint8)
                expected[offset : offset + count] = value == 255
                assert np.unpackbits(out, bitorder="little").tolist() == expected.tolist()


@settings(max_examples=300)
@given(content=st.binary(max_size=300), chunk=st.sampled_from([1, 7, 1000]), framing=FRAMINGS)
def test_noise_reads_as_the_reference_reads_it(content: bytes, chunk: int, framing: str) -> None:
    # If the data ends inside a literal run, ByteRle returns the first values of the run, but the reference does not. So
    # only the values of whole runs are compared.
    expected, _ = decode("bytes", content)
    reader = ByteRle(chop(content, chunk, framing).window())
    assert read(reader, len(expected)) == expected
    with pytest.raises(CorruptFile, match="ends before"):
        read(reader, 130)


@settings(max_examples=20)
@given(stream=STREAMS.filter(lambda stream: len(stream.data) < 200))
def test_truncation_anywhere_is_refused(stream: Stream) -> None:
    for end in range(len(stream.data)):
        reader = ByteRle(chop(stream.data[:end], 50, "ZLIB").window("PRESENT"))
        with pytest.raises(CorruptFile, match="ends before") as error:
            read(reader, len(stream.values))
        assert error.value.stream == "PRESENT"
        bits = BooleanRle(chop(stream.data[:end], 50, "NONE").window())
        with pytest.raises(CorruptFile, match="ends before"):
            bits.skip(8 * len(stream.values))


def test_positions_that_cannot_be() -> None:
    content = encoders.encode_bits([True] * 100).data
    for numbers in ((0, 0, 9), (0, 99, 0), (0, 2**80, 0), (99, 0, 0), (0, 0, -1), (0, 13, 1)):
        with pytest.raises(CorruptFile):
            BooleanRle(chop(content, 99, "NONE").window()).seek(Positions(*numbers))
    BooleanRle(chop(content, 99, "NONE").window()).seek(Positions(0, 13, 0))
    BooleanRle(chop(b"", 99, "NONE").window()).seek(Positions(5, 13, 7))


def test_the_caller_is_checked() -> None:
    reader = BooleanRle(chop(b"\x00\xff", 9, "NONE").window())
    for offset, count in ((0, 9), (8, 1), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="outside a bitmap"):
            reader.read_bits(np.zeros(1, np.uint8), offset, count)
    assert reader.read_bits(np.zeros(0, np.uint8), 0, 0) == 0
    with pytest.raises(ValueError, match="backwards"):
        reader.skip(-1)
    with pytest.raises(ValueError, match="do not fit"):
        ByteRle(chop(b"\x00\xff", 9, "NONE").window()).read(np.zeros(1, np.uint8), 2)


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=500), framing=FRAMINGS, data=st.data())
def test_raw_bytes_any_order(content: bytes, framing: str, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 2, 7, 100]))
    chopped = chop(content, size, framing, piece=data.draw(st.sampled_from([None, 4])))
    reader = RawBytes(chopped.window())
    at = 0
    for verb in data.draw(st.lists(st.sampled_from(["read", "skip", "seek"]), max_size=10)):
        count = data.draw(st.integers(0, len(content) - at))
        if verb == "read":
            out = bytearray(count)
            reader.read_into(out)
            assert out == content[at : at + count]
            at += count
        elif verb == "skip":
            reader.skip(count)
            at += count
        else:
            at = data.draw(st.integers(0, len(content)))
            reader.seek(Positions(*chopped.position(at)))
    out = bytearray(len(content) - at)
    reader.read_into(out)
    assert out == content[at:]
    for verb in (reader.skip, lambda n: reader.read_into(bytearray(n))):
        with pytest.raises(CorruptFile, match="ends before"):
            verb(1)
    with pytest.raises(CorruptFile, match="ends before"):
        reader.skip(2**80)


@pytest.mark.parametrize("framing", ["NONE", "ZLIB", "MIXED"])
@pytest.mark.parametrize("size", [1, 9, 1000])
@pytest.mark.parametrize("strange", [None, 0, 7, 8, 500, 998, 999])
def test_text_that_is_not_ascii_shows_wherever_it_is(strange: int | None, size: int, framing: str) -> None:
    content = bytearray(b"x" * 1001)
    if strange is not None:
        content[strange] = 0x80
    content[1000] = 0xFF  # this byte is after the bytes that are read
    out = np.full(1001, 7, np.uint8)
    reader = RawBytes(chop(bytes(content), size, framing).window())
    assert reader.read_text(out, 1000) == (strange is None)
    assert out[:1000].tobytes() == content[:1000]
    assert out[1000] == 7
