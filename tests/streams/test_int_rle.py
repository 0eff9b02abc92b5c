"""IntRle. Encoded runs are decoded to the same values. Skips move as far as reads, and seeks can go to every value.
Damaged streams are refused, and random bytes never crash the process."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import encoders
from streams.encoders import WIDTHS, Patch, Run, Stream
from streams.framing import PieceSource, Positions, chop, chunk_sizes, read_sizes, split_counts
from streams.reference import decode

from orcidx.errors import CorruptFile
from orcidx.orc.int_rle import IntRle
from orcidx.orc.streams import PositionIterator
from orcidx.orc.window import Window

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-200, 200)


def lists(elements: st.SearchStrategy[int], low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(elements, min_size=low, max_size=high)


@st.composite
def patched_runs(draw: st.DrawFn) -> Run:
    width = draw(st.sampled_from([w for w in WIDTHS if w <= 32]))
    patch_width = draw(st.sampled_from([w for w in WIDTHS if w <= 24]))
    low = draw(lists(st.integers(0, 2**width - 1), 1, 512))
    indexes = sorted(draw(st.sets(st.integers(0, len(low) - 1), min_size=1, max_size=10)))
    bits = draw(lists(st.integers(1, 2**patch_width - 1), len(indexes), len(indexes)))
    base = draw(st.integers(-(2**55), 2**55))
    patches = [Patch(index, bit) for index, bit in zip(indexes, bits, strict=True)]
    return encoders.patched(base, low, patches, width=width, patch_width=patch_width)


def version_1(signed: bool) -> st.SearchStrategy[Run]:
    values = st.one_of(INT64, SMALL) if signed else st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 300))
    run = st.builds(encoders.v1_run, values, st.integers(-128, 127), st.integers(3, 130), signed=st.just(signed))
    return run | st.builds(encoders.v1_literals, lists(values, 1, 128), signed=st.just(signed))


def version_2(signed: bool) -> st.SearchStrategy[Run]:
    values = st.one_of(INT64, SMALL) if signed else st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 300))
    same = st.just(signed)
    return st.one_of(
        st.builds(encoders.short_repeat, values, st.integers(3, 10), signed=same),
        st.builds(encoders.direct, lists(values, 1, 512), signed=same),
        st.builds(encoders.fixed_delta, values, st.one_of(SMALL, INT64), st.integers(1, 512), signed=same),
        st.builds(encoders.delta, values, SMALL, lists(st.integers(0, 2**20), 0, 510), signed=same),
        patched_runs(),
    )


def streams(version: int, signed: bool) -> st.SearchStrategy[Stream]:
    runs = version_1(signed) if version == 1 else version_2(signed)
    return st.lists(runs, min_size=1, max_size=5).map(lambda chosen: Stream(tuple(chosen)))


def read(reader: IntRle, count: int) -> list[int]:
    out = np.empty(count, np.int64)
    reader.read(out)
    return [int(value) for value in out]


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_encoded_comes_back(version: int, signed: bool, data: st.DataObject) -> None:
    stream = data.draw(streams(version, signed))
    content, values = stream.data, stream.values
    framing = data.draw(st.sampled_from(["NONE", "ZLIB", "MIXED"]))
    size = data.draw(st.sampled_from(chunk_sizes(content, len(stream.runs[0].data))))
    chopped = chop(content, size, framing, piece=data.draw(st.sampled_from([None, 3, 64])))
    step = data.draw(st.sampled_from(read_sizes(len(values))))
    reader = IntRle(chopped.window(), version=version, signed=signed)
    got = [value for count in split_counts(len(values), step) for value in read(reader, count)]
    assert got == values


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=40)
@given(data=st.data())
def test_skips_and_seeks_anywhere(version: int, signed: bool, data: st.DataObject) -> None:
    """Reads, skips and seeks in any order, also backwards, return the values of the list."""
    stream = data.draw(streams(version, signed))
    content, values = stream.data, stream.values
    size = data.draw(st.sampled_from(chunk_sizes(content, len(stream.runs[0].data))))
    chopped = chop(content, size, data.draw(st.sampled_from(["NONE", "ZLIB", "MIXED"])))
    reader = IntRle(chopped.window(), version=version, signed=signed)
    at = 0
    for verb in data.draw(st.lists(st.sampled_from(["read", "skip", "seek", "start"]), max_size=12)):
        left = len(values) - at
        if verb == "read":
            count = data.draw(st.integers(0, left))
            assert read(reader, count) == values[at : at + count]
            at += count
        elif verb == "skip":
            count = data.draw(st.integers(0, left))
            reader.skip(count)
            at += count
        elif verb == "seek":
            at = data.draw(st.integers(0, len(values)))
            byte, consumed = stream.place(at)
            reader.seek(Positions(*chopped.position(byte), consumed))
        else:
            reader.seek(PositionIterator.start())
            at = 0
    assert read(reader, len(values) - at) == values[at:]


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=20)
@given(data=st.data())
def test_truncation_anywhere_is_refused(version: int, data: st.DataObject) -> None:
    stream = data.draw(streams(version, True).filter(lambda stream: len(stream.data) < 400))
    content, count = stream.data, len(stream.values)
    for end in range(len(content)):
        for framing in ("NONE", "ZLIB"):
            reader = IntRle(chop(content[:end], 50, framing).window(), version=version, signed=True)
            with pytest.raises(CorruptFile, match="ends before"):
                reader.read(np.empty(count, np.int64))
        reader = IntRle(chop(content[:end], 50, "NONE").window(), version=version, signed=True)
        with pytest.raises(CorruptFile, match="ends before"):
            reader.skip(count)


def many_runs(rng: np.random.Generator, signed: bool, bits: int) -> Stream:
    """Returns short and long runs of every kind in random order, as in a column of random values. Values have up to
    ``bits`` bits."""

    def some(count: int, most: int = bits) -> list[int]:
        drawn = [int(rng.integers(0, 2**63)) >> (63 - int(rng.integers(0, most + 1))) for _ in range(count)]
        return [-value if signed and rng.random() < 0.5 else value for value in drawn]

    runs = []
    for _ in range(150):
        count = int(rng.choice([1, 2, 3, 5, 8, 16, 17, 33, 100, 512]))
        kind = rng.integers(0, 8)
        if kind < 2:
            runs.append(encoders.short_repeat(some(1)[0], int(rng.integers(3, 11)), signed=signed))
        elif kind < 4:
            runs.append(encoders.direct(some(count, int(rng.integers(0, bits + 1))), signed=signed))
        elif kind < 6:
            runs.append(encoders.fixed_delta(some(1)[0], int(rng.choice([0, 0, 1, -3])), count, signed=signed))
        elif kind == 6:
            step = int(rng.choice([5, -5])) if signed else 5
            magnitudes = [abs(value) for value in some(count, min(bits, 25))][:510]
            runs.append(encoders.delta(some(1)[0], step, magnitudes, signed=signed))
        else:
            low = [abs(value) for value in some(count, 8)]
            runs.append(encoders.patched(0, low, [Patch(count - 1, 1)], width=8, patch_width=8))
    return Stream(tuple(runs))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [1, 4, 7, 14, 20, 29, 31, 40, 62])
def test_runs_in_a_row_at_every_width(rng: np.random.Generator, bits: int, signed: bool) -> None:
    """The kernels that decode a series of runs return the same values as kernels for single runs, at any step size."""
    stream = many_runs(rng, signed, bits)
    count = len(stream.values)
    for size, framing in ((len(stream.data), "NONE"), (len(stream.data), "ZLIB"), (1000, "MIXED")):
        for dtype in (np.int64, np.int32, np.int16):
            wanted = np.array(stream.values, np.int64).astype(dtype)
            for step in (count, 1000, 61):
                reader = IntRle(chop(stream.data, size, framing).window(), version=2, signed=signed)
                out = np.full(count + 1, 77, dtype)
                for start in range(0, count, step):
                    reader.read(out[start : start + step][: count - start])
                assert np.array_equal(out[:-1], wanted)
                assert out[-1] == 77


def many_v1_runs(rng: np.random.Generator, signed: bool, bits: int) -> Stream:
    """Returns literals with varints of many lengths, and runs between them. Values have up to ``bits`` bits, so the
    values of some streams fit into 32 bits."""
    runs: list[Run] = []
    for _ in range(300):
        wide = int(rng.integers(1, bits + 1))
        count = int(rng.choice([1, 2, 3, 4, 5, 9, 16, 17, 40, 128]))
        values = rng.integers(0, 2 ** rng.integers(0, wide + 1, count), dtype=np.int64)
        values = np.where(rng.random(count) < 0.5, values, -values) if signed else values
        if rng.random() < 0.6:
            runs.append(encoders.v1_literals(values.tolist(), signed=signed))
        else:
            step = int(rng.choice([0, 1, -1, 127, -128])) if signed else int(rng.choice([0, 1, 127]))
            runs.append(encoders.v1_run(int(values[0]), step, int(rng.integers(3, 131)), signed=signed))
    return Stream(tuple(runs))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [6, 7, 13, 14, 20, 21, 28, 31, 40, 56, 62])
def test_runs_of_version_1_in_a_row(rng: np.random.Generator, bits: int, signed: bool) -> None:
    """The kernels that decode a series of runs return the same values as kernels for single runs, at any step size."""
    stream = many_v1_runs(rng, signed, bits)
    count = len(stream.values)
    for size, framing in ((len(stream.data), "NONE"), (len(stream.data), "ZLIB"), (1000, "MIXED"), (97, "NONE")):
        for dtype in (np.int64, np.int32, np.int16):
            wanted = np.array(stream.values, np.int64).astype(dtype)
            for step in (count, 1000, 161):
                reader = IntRle(chop(stream.data, size, framing).window(), version=1, signed=signed)
                out = np.full(count + 1, 77, dtype)
                for start in range(0, count, step):
                    reader.read(out[start : start + step][: count - start])
                assert np.array_equal(out[:-1], wanted)
                assert out[-1] == 77


@pytest.mark.parametrize("size", [8, 9, 10, 11])
def test_long_varints_among_short_ones_of_version_1(size: int) -> None:
    """The kernels have separate code for varints of up to eight bytes, for varints of nine and ten bytes, and for
    longer ones."""
    literals = bytes([256 - 20, *range(9), *([255] * (size - 1)), 1, *range(10)])
    data = literals * 20
    value = sum(127 << 7 * place for place in range(size - 1)) + (1 << 7 * (size - 1))
    for dtype in (np.int64, np.int32):
        out = np.zeros(600, dtype)
        reader = IntRle(chop(data + bytes([200, 0, 0]) * 300, 10_000, "NONE").window(), version=1, signed=False)
        if size > 10:
            with pytest.raises(CorruptFile, match="more than 10 bytes"):
                reader.read(out, 400)
        else:
            reader.read(out, 400)
            wanted = np.array([*range(9), value % 2**64, *range(10)] * 20, np.uint64).astype(np.int64).astype(dtype)
            assert np.array_equal(out[:400], wanted)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16])
def test_output_larger_than_a_cache(rng: np.random.Generator, dtype: type, version: int) -> None:
    """Large output is written with stores that bypass the caches. They must write every byte of the output, at any
    alignment, and no byte outside of it."""
    if version == 2:
        stream = many_runs(rng, True, 20)
    else:
        numbers = [int(number) for number in rng.integers(-5000, 5000, 128)]
        stream = Stream((encoders.v1_literals(numbers, signed=True), encoders.v1_run(5, 3, 77, signed=True)))
    times = (2 << 20) // (len(stream.values) * np.dtype(dtype).itemsize)
    wanted = np.tile(np.array(stream.values, np.int64).astype(dtype), times)
    content = chop(stream.data * times, 10_000, "MIXED")
    for start in (0, 1, 5):
        out = np.full(len(wanted) + 20, 77, dtype)
        reader = IntRle(content.window(), version=version, signed=True)
        reader.read(out[start : start + len(wanted)], streaming=True)
        assert np.array_equal(out[start : start + len(wanted)], wanted)
        assert (out[:start] == 77).all()
        assert (out[start + len(wanted) :] == 77).all()


NOISE = st.one_of(
    st.binary(max_size=300),
    # headers of every form of run, so that decoders read more than the first byte
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=8).map(
        lambda parts: b"".join(bytes([head]) + tail for head, tail in parts)
    ),
)


def check_noise(version: int, signed: bool, data: bytes, chunk: int) -> None:
    """Checks that, for any bytes, the values before the first damage are those of the reference decoder."""
    expected, whole = decode(f"v{version}", data, signed)
    for framing in ("NONE", "ZLIB"):
        reader = IntRle(chop(data, chunk, framing).window(), version=version, signed=signed)
        assert read(reader, len(expected)) == expected
        with pytest.raises(CorruptFile) as error:
            read(reader, 1)
        assert not whole or "ends before" in str(error.value)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=150)
@given(data=NOISE, chunk=st.sampled_from([1, 7, 1000]))
def test_noise_reads_as_the_reference_reads_it(version: int, signed: bool, data: bytes, chunk: int) -> None:
    check_noise(version, signed, data, chunk)


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=5000)
@given(data=NOISE, chunk=st.sampled_from([1, 7, 1000]))
def test_much_noise(version: int, signed: bool, data: bytes, chunk: int) -> None:
    check_noise(version, signed, data, chunk)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_at_every_count(width: int, signed: bool, rng: np.random.Generator) -> None:
    raw: list[int] = [int(value) for value in rng.integers(0, 2**width - 1, 512, np.uint64, endpoint=True)]
    raw[:3] = [0, 2**width - 1, 1]
    values = [encoders.wrap(value >> 1 ^ -(value & 1) if signed else value) for value in raw]
    for count in (1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512):
        run = encoders.direct(values[:count], signed=signed, width=width)
        reader = IntRle(chop(run.data, len(run.data), "NONE").window(), version=2, signed=signed)
        assert read(reader, count) == list(run.values) == values[:count]


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_stream_takes_any_position_and_no_read(version: int) -> None:
    """This is ORC's own test seekOverEmptyPresentStream. An absent stream is read as an empty stream."""
    for framing in ("NONE", "ZLIB"):
        reader = IntRle(chop(b"", 1, framing).window("LENGTH"), version=version, signed=False)
        reader.seek(Positions(7, 3, 5) if framing == "ZLIB" else Positions(7, 5))
        reader.skip(0)
        reader.read(np.empty(0, np.int32))
        with pytest.raises(CorruptFile, match="ends before") as error:
            reader.read(np.empty(1, np.int32))
        assert error.value.stream == "LENGTH"


def test_bad_positions_are_refused() -> None:
    stream = Stream((encoders.fixed_delta(0, 1, 100, signed=True),))
    chopped = chop(stream.data, 99, "ZLIB")
    consumed = ((0, 0, 101), (0, 0, 2**70), (0, 0, -1))
    for numbers in (*consumed, (0, 99, 0), (0, -1, 0), (2**64, 0, 0), (-1, 0, 0), (1, 0, 3)):
        reader = IntRle(chopped.window(), version=2, signed=True)
        with pytest.raises(CorruptFile):
            reader.seek(Positions(*numbers))
    with pytest.raises(CorruptFile, match="too few"):
        IntRle(chopped.window(), version=2, signed=True).seek(Positions(0, 0))
    reader = IntRle(chopped.window(), version=2, signed=True)
    reader.seek(Positions(len(chopped.data), 0, 0))  # the end of the stream is a valid position
    with pytest.raises(CorruptFile):
        read(reader, 1)
    reader.seek(Positions(0, len(stream.data), 0))  # the end of a chunk is also a valid position
    reader.seek(Positions(0, 0, 99))
    assert read(reader, 1) == [99]


def test_the_caller_is_checked() -> None:
    window = chop(b"\x00\x01", 9, "NONE").window()
    with pytest.raises(ValueError, match="version"):
        IntRle(window, version=3, signed=True)
    reader = IntRle(window, version=2, signed=True)
    with pytest.raises(ValueError, match="do not fit"):
        reader.read(np.empty(2, np.int64), 3)
    with pytest.raises(ValueError, match="backwards"):
        reader.skip(-1)
    with pytest.raises((TypeError, ValueError)):
        reader.read(np.empty(2, np.float64))
    reader.read(np.empty(2, np.int64), 0)
    assert read(reader, 3) == [-1, -1, -1]


def test_skipping_runs_reads_headers_only() -> None:
    """A skip in an uncompressed stream fetches only the pieces that contain headers."""
    run = encoders.direct(list(range(512)), signed=False, width=64)
    source = PieceSource(run.data * 50, 64)
    reader = IntRle(Window(source, None, 0, name="DATA"), version=2, signed=False)
    reader.skip(49 * 512)
    assert source.fetches <= 2 * 49
    assert read(reader, 512) == list(range(512))
