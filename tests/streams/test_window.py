"""Window: chunks of every kind, positions, counters, and streams whose chunks do not follow the format."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard
from streams.framing import BLOCK_SIZE, PieceSource, compressed, deflate, original

from orcidx.errors import CorruptFile, StorageError
from orcidx.orc.compression import Codec, open_codec
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.window import Window

ZLIB = open_codec(CompressionKind.ZLIB)


def window(data: bytes, *, block_size: int = BLOCK_SIZE, piece: int | None = None, native: bool = True) -> Window:
    return Window(PieceSource(data, piece), open_codec(CompressionKind.ZLIB, native=native), block_size, name="DATA")


def plain(data: bytes, piece: int | None = None) -> Window:
    return Window(PieceSource(data, piece), None, 0, name="DATA")


def read(window: Window, count: int) -> bytes:
    out = bytearray(count)
    window.read_into(out)
    return bytes(out)


@pytest.mark.parametrize("piece", [None, 1, 4])
@pytest.mark.parametrize(
    ("data", "content"),
    [
        ("0b0000 0001020304", bytes(range(5))),  # one original chunk
        ("190000 000102030405060708090a0b 0b0000 0c0d0e0f10", bytes(range(17))),  # two original chunks
        ("0e0000 63606462c08d00", bytes([0, 1, 2] * 10)),  # one compressed chunk
    ],
)
def test_vectors(data: str, content: bytes, piece: int | None) -> None:
    for native in (True, False):
        assert read(window(bytes.fromhex(data), piece=piece, native=native), len(content)) == content


def test_chunk_headers() -> None:
    """The headers of 100 000 compressed bytes and of 5 original bytes are those in the specification."""
    assert compressed(bytes(100_000))[:3] == bytes.fromhex("400d03")
    assert original(bytes(5))[:3] == bytes.fromhex("0b0000")


@pytest.mark.parametrize("piece", [None, 1, 50])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("data", "block_size", "message"),
    [
        (compressed(bytes(100)), 5, "exceeds the block size"),  # vector 104
        (compressed(deflate(bytes(101))), 100, "one block|more than 100"),
        (compressed(deflate(bytes(100))[:-1]), 100, "one block|more than 100"),
        (compressed(b"\x78\x9c" + deflate(bytes(100))), 200, "one block|more than 200"),  # a zlib header
        (compressed(b"\xff" * 10), 100, "one block|more than 100"),
        (original(bytes(100))[:-1], 100, "past the end"),
        (compressed(deflate(bytes(100)))[:-1], 100, "past the end"),
        (b"\x01", 100, "inside a chunk header"),
        (b"\x01\x00", 100, "inside a chunk header"),
        (original(b"")[:2], 100, "inside a chunk header"),
        (original(b""), 100, "ends before"),
        (compressed(b""), 100, "ends before"),
        (compressed(deflate(b"")) * 3, 100, "ends before"),
        (b"", 100, "ends before"),
    ],
)
def test_what_is_refused(data: bytes, block_size: int, message: str, native: bool, piece: int | None) -> None:
    for verb in ("read", "skip"):
        source = window(data, block_size=block_size, native=native, piece=piece)
        with pytest.raises(CorruptFile, match=message) as error:
            read(source, 1) if verb == "read" else source.skip(200)
        assert error.value.stream == "DATA"
        assert error.value.offset is not None


def test_the_offset_is_that_of_the_chunk() -> None:
    data = original(b"abc") + compressed(deflate(b"def")) + compressed(b"\xff\xff")
    source = window(data)
    assert read(source, 6) == b"abcdef"
    assert source.offset == 6
    with pytest.raises(CorruptFile) as error:
        read(source, 1)
    assert error.value.offset == len(data) - 5
    source = plain(b"abcdef")
    read(source, 4)
    assert source.offset == 4
    with pytest.raises(CorruptFile) as error:
        read(source, 3)
    assert error.value.offset == 6


def test_legal_oddities() -> None:
    # In the first stream, the last chunk has bytes after the end of its deflate data, and a single byte follows this
    # chunk. In the second stream, an original chunk is longer than a block.
    data = original(bytes(range(12))) + compressed(deflate(b"xyz") + b"junk") + b"\x05"
    source = window(data, block_size=20)
    assert read(source, 15) == bytes(range(12)) + b"xyz"
    source = window(original(bytes(range(200))) + original(b"end"), block_size=5, piece=3)
    assert read(source, 203) == bytes(range(200)) + b"end"
    # The compressed chunk has the maximum length, which is the block size.
    deflated = bytes([1, 95, 0, 160, 255]) + bytes(range(95))  # deflate without compression
    assert read(window(compressed(deflated), block_size=100), 95) == bytes(range(95))


def test_block_sizes_that_nobody_writes() -> None:
    for block_size in (0, -1, (1 << 23) + 1, 1 << 40):
        with pytest.raises(CorruptFile, match="block size"):
            window(b"", block_size=block_size)
    assert plain(b"abc").block_size == 0  # without a codec, the block size is not used


@pytest.mark.parametrize("native", [True, False])
def test_seeking_inside_a_chunk_decompresses_nothing(native: bool) -> None:
    parts = [bytes([i]) * 1000 for i in range(4)]
    chunks = [compressed(deflate(part)) for part in parts]
    starts = [sum(map(len, chunks[:i])) for i in range(4)]
    source = window(b"".join(chunks), native=native)
    for chunk, within, count, decompressed in (
        (0, 10, 5, 1), (0, 500, 100, 1), (0, 0, 1000, 1), (2, 7, 3, 2), (2, 0, 1, 2), (0, 1, 1, 3), (3, 1000, 0, 4),
    ):  # fmt: skip
        source.seek(starts[chunk], within)
        assert read(source, count) == parts[chunk][within : within + count]
        assert source.chunks_decompressed == decompressed
    source.seek(starts[1], 999)
    assert read(source, 2) == b"\x01\x02"  # the read crosses the end of the chunk
    source.seek(starts[1], 1000)  # the end of a chunk is a valid position
    assert read(source, 1) == b"\x02"
    source.seek(starts[2], 5)
    assert source.bytes_decompressed == 1000 * source.chunks_decompressed


def test_seeking_to_an_end_and_past_it() -> None:
    data = original(b"abc") + compressed(deflate(b"def"))
    source = window(data)
    source.seek(len(data), 0)
    source.skip(0)
    with pytest.raises(CorruptFile, match="ends before"):
        read(source, 1)
    source.seek(len(data), 65536)  # some C++ writers store this position (ORC-1711); it is valid if nothing is read
    for chunk, within in ((len(data) + 1, 0), (-1, 0), (0, -1), (0, 4), (6, 4), (0, 2**70), (2**70, 0), (1, 5)):
        with pytest.raises(CorruptFile):
            source.seek(chunk, within)
    source.seek(6, 3)
    source.seek(0, 3)
    assert read(source, 3) == b"def"
    source.seek(0)
    assert read(source, 6) == b"abcdef"


def test_skipping_stored_chunks_reads_only_their_headers() -> None:
    chunks = [original(bytes([i]) * 1000) for i in range(10)]
    source = PieceSource(b"".join(chunks), 16)
    stream = Window(source, ZLIB, BLOCK_SIZE, name="DATA")
    stream.skip(8000)
    assert source.fetches <= 10
    stream.skip(500)
    assert read(stream, 501) == b"\x08" * 500 + b"\x09"
    source = PieceSource(bytes(100_000), 16)
    stream = Window(source, None, 0, name="DATA")
    stream.skip(99_000)
    assert source.fetches == 0


def test_plain_bytes_are_read_where_they_lie() -> None:
    """Without a codec, the stream is fetched once. Seeks within the fetched bytes need no further fetch."""
    content = np.random.default_rng(1).bytes(100_000)
    source = PieceSource(content)
    stream = Window(source, None, 0, name="DATA")
    for offset in (0, 99_990, 5, 50_000, 99_999):
        stream.seek(offset)
        assert read(stream, min(1000, 100_000 - offset)) == content[offset : offset + 1000]
    stream.seek(100_000)
    with pytest.raises(CorruptFile):
        read(stream, 1)
    assert source.fetches == 1


def test_the_storage_fails_in_between() -> None:
    """An error of the storage is raised unchanged, and the window can still be used."""

    class Flaky(PieceSource):
        fail_at: int | None = None

        def fetch(self, offset: int) -> memoryview:
            if offset == self.fail_at:
                raise StorageError("down")
            return super().fetch(offset)

    data = original(b"a" * 100) + original(b"b" * 100) + compressed(deflate(b"c" * 100))
    source = Flaky(data, 60)
    stream = Window(source, ZLIB, BLOCK_SIZE, name="DATA")
    read(stream, 90)

    def seek_and_read(position: tuple[int, int]) -> None:
        stream.seek(*position)
        read(stream, 301)

    for fail_at in range(len(data)):
        source.fail_at = fail_at
        for position in ((103, 40), (0, 20), (206, 1), (0, 0)):
            with pytest.raises((StorageError, CorruptFile), match=r"down|ends before"):
                seek_and_read(position)
        source.fail_at = None
        stream.seek(103, 40)
        assert read(stream, 70) == b"b" * 60 + b"c" * 10


def test_a_source_that_lies() -> None:
    class Short(PieceSource):
        @property
        def length(self) -> int:
            return len(self.data) + 10

    stream = Window(Short(b"abc"), None, 0, name="DATA")
    assert read(stream, 3) == b"abc"
    with pytest.raises(CorruptFile, match="ends early"):
        read(stream, 1)

    class Text(PieceSource):
        def fetch(self, offset: int) -> memoryview:
            return "text"  # type: ignore[return-value]

    with pytest.raises(TypeError):
        read(Window(Text(b"abc"), None, 0, name="DATA"), 1)


def test_bytes_that_follow_the_stream_are_not_part_of_it() -> None:
    """A source may return more bytes than the stream has, for example if it returns a slice of a larger read."""

    class Longer(PieceSource):
        @property
        def length(self) -> int:
            return 200

    content = bytes(range(256)) * 2
    stream = Window(Longer(content), None, 0, name="DATA")
    assert read(stream, 200) == content[:200]
    with pytest.raises(CorruptFile, match="ends before"):
        read(stream, 1)


def test_threads_share_a_codec() -> None:
    """Each call has its own context, so windows of one codec can decompress in several threads at once."""
    for kind in ("ZLIB", "ZSTD"):
        codec = open_codec(CompressionKind[kind])
        assert codec is not None
        contents = [np.random.default_rng(i).integers(0, 7, 300_000, np.uint8).tobytes() for i in range(4)]
        if kind == "ZSTD":
            zstandard = pytest.importorskip("zstandard")
            pack = zstandard.ZstdCompressor().compress
        else:
            pack = deflate
        stored = [
            b"".join(compressed(pack(content[i : i + 10_000])) for i in range(0, len(content), 10_000))
            for content in contents
        ]

        def same(number: int, codec: Codec = codec, stored: list[bytes] = stored) -> list[bytes]:
            return [read(Window(PieceSource(stored[number]), codec, 10_000, name="DATA"), 300_000) for _ in range(5)]

        with ThreadPoolExecutor(4) as pool:
            for number, results in enumerate(pool.map(same, range(4))):
                assert results == [contents[number]] * 5


def test_garbage_collection_of_a_window_in_a_cycle() -> None:
    """The object that exported a buffer must not be cleared while the buffer is in use. The autouse fixture finds
    "Exception ignored" in the output."""

    class Node:
        pass

    for _ in range(3):
        node = Node()
        node.me = node  # type: ignore[attr-defined]
        node.window = plain(bytes(1000))  # type: ignore[attr-defined]
        read(node.window, 10)  # type: ignore[attr-defined]
        del node
        gc.collect()


class FillingSource(PieceSource):
    """A source that also reads directly into buffers, unless more than ``most`` bytes are requested at once. ``filled``
    counts the bytes that were read in this way."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(data, 1000)
        self.content = data
        self.most = most
        self.filled = 0

    def read_into(self, offset: int, parts: Sequence[memoryview]) -> int:
        count = sum(map(len, parts))
        assert offset + count <= len(self.content)
        if count > self.most:
            return 0
        for part in parts:
            part[:] = self.content[offset : offset + len(part)]
            offset += len(part)
        self.filled += count
        return count


@pytest.mark.parametrize("most", [1 << 30, 100_000, 0])
def test_stored_bytes_go_straight_to_their_place(most: int) -> None:
    content = np.random.default_rng(7).bytes(1_000_000)
    source = FillingSource(content, most)
    opened = Window(source, None, 0, name="DATA")
    at = 0
    for kind, count in [("r", 10), ("r", 300_000), ("r", 5), ("s", 70_000), ("r", 200_000), ("s", 3), ("r", 65_536)]:
        if kind == "r":
            assert read(opened, count) == content[at : at + count]
        else:
            opened.skip(count)
        at += count
        assert opened.offset == at
    assert bool(source.filled) == bool(most)
    opened.seek(123)
    assert read(opened, 200_000) == content[123:200_123]
    with pytest.raises(CorruptFile, match="ends before"):
        read(opened, 900_000)


@pytest.mark.parametrize("most", [1 << 30, 5000])
@pytest.mark.parametrize("lengths", [[1000] * 60, [1000, 999, 1000, 1001, 0, 7] * 8, [2500] * 9], ids=str)
def test_rows_of_stored_chunks_go_straight_to_their_place(lengths: list[int], most: int) -> None:
    """The window assumes that the next chunks have the same length. The values are right even if lengths change, or if
    compressed or empty chunks are between the original chunks."""
    content = bytes(range(256)) * 250
    for every in (0, 2, 5, 17):
        data, plain_bytes = b"", b""
        for number, length in enumerate(lengths):
            part = content[len(plain_bytes) : len(plain_bytes) + length]
            is_compressed = every and number % every == 1 and length <= 1000
            data += compressed(deflate(part)) if is_compressed else original(part)
            plain_bytes += part
        source = FillingSource(data, most)
        opened = Window(source, open_codec(CompressionKind.ZLIB), 1000, name="DATA")
        at = 0
        for count in (10, 3000, 990, 9999, 1, 1 << 30):
            count = min(count, len(plain_bytes) - at)
            assert read(opened, count) == plain_bytes[at : at + count]
            at += count
        opened.seek(0)
        assert read(opened, len(plain_bytes)) == plain_bytes
        if every == 0 and most > 5000:
            # Both reads fill buffers directly, except in the first chunks and where the length of chunks changes.
            assert source.filled > len(plain_bytes)
        cut = Window(FillingSource(data[:-1], most), open_codec(CompressionKind.ZLIB), 1000, name="DATA")
        with pytest.raises(CorruptFile, match="past the end"):
            read(cut, len(plain_bytes))


@pytest.mark.parametrize("shift", range(3))
def test_behind_a_shorter_stored_chunk_nothing_of_the_row_counts(shift: int) -> None:
    """After the chunk of 500 bytes, the expected position of the next header is inside a chunk. The bytes there look
    like a header, but must not be used as one."""
    content = (bytes([1, 0, 0]) * 20_000)[shift:]
    data, at = b"", 0
    for length in [1000] * 20 + [500] + [1000] * 20:
        data += original(content[at : at + length])
        at += length
    assert (
        read(Window(FillingSource(data, 1 << 30), open_codec(CompressionKind.ZLIB), 1000, name="DATA"), at)
        == content[:at]
    )


def test_chunks_wanted_whole_are_decompressed_in_place() -> None:
    """A read starts at every position in a chunk, and continues with whole chunks. Then the window seeks back to a
    chunk that was never in its buffer."""
    content = bytes(range(256)) * 40
    parts = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    data = b"".join(
        original(part) if number % 4 == 3 else compressed(deflate(part)) for number, part in enumerate(parts)
    )
    second = len(compressed(deflate(parts[0])))
    for native in (True, False):
        for first in (0, 1, 999, 1000, 1001):
            opened = window(data, block_size=1000, piece=777, native=native)
            assert read(opened, first) + read(opened, len(content) - first) == content
            opened.seek(second, 10)
            assert read(opened, 5000) == content[1010:6010]
    damaged = bytearray(data)
    damaged[second + 3 : second + 9] = bytes([255] * 6)
    with pytest.raises(CorruptFile, match=r"one block|more than 1000") as caught:
        read(window(bytes(damaged), block_size=1000), len(content))
    assert caught.value.offset == second


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("codec", ["ZLIB", "ZSTD"])
def test_room_behind_a_block_allows_no_more_than_a_block(codec: str, native: bool) -> None:
    """A chunk that is decompressed directly into the output may have at most the block size, even if more bytes are
    requested. No bytes after it are changed."""
    squeeze = deflate if codec == "ZLIB" else zstandard.ZstdCompressor().compress
    content = np.random.default_rng(5).integers(0, 40, 160_000).astype(np.uint8).tobytes()
    parts = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    data = b"".join(compressed(squeeze(part)) for part in parts)
    opened = Window(PieceSource(data, 777), open_codec(CompressionKind[codec], native=native), 1000, name="DATA")
    out = bytearray(b"\xee" * (len(content) + 5000))
    opened.read_into(out, len(content) - 1)
    assert out == content[:-1] + b"\xee" * 5001
    assert opened.chunks_decompressed == len(parts)
    longer = data + compressed(squeeze(content[:1001]))
    opened = Window(PieceSource(longer, None), open_codec(CompressionKind[codec], native=native), 1000, name="DATA")
    with pytest.raises(CorruptFile, match=r"one block|more than 1000") as caught:
        read(opened, len(content) + 5000)
    assert caught.value.offset == len(data)
