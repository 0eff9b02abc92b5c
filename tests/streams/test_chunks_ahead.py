"""Chunks that other threads decompress ahead. Bytes, errors, counters and requests are the same as without other
threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from streams.framing import PieceSource, compressed, deflate, original

from orcidx.errors import CorruptFile
from orcidx.orc.byte_rle import RawBytes
from orcidx.orc.chunks_ahead import ChunksAhead
from orcidx.orc.compression import open_codec
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.native_codec import NativeCodec
from orcidx.orc.stripe_streams import PlannedStream, StreamReads
from orcidx.orc.window import Window
from orcidx.storage.local import LocalReader

BLOCK = 1000
Ask = Callable[[ChunksAhead], None]


def never(_: ChunksAhead) -> None:
    """Does nothing, so no other thread decompresses chunks."""


def at_once(chunks: ChunksAhead) -> None:
    """Lets another thread decompress all staged chunks before the reader continues."""
    helper = threading.Thread(target=lambda: all(iter(lambda: chunks.help(3), False)))
    helper.start()
    helper.join()


def text(random: np.random.Generator, size: int) -> bytes:
    return bytes(random.integers(97, 103, size, dtype=np.uint8))


def usual(random: np.random.Generator, count: int) -> tuple[bytes, bytes]:
    """Returns the content and the stream. All chunks have the full block size, except the last one."""
    parts = [text(random, BLOCK) for _ in range(count - 1)] + [text(random, 77)]
    return b"".join(parts), b"".join(compressed(deflate(part)) for part in parts)


def strange(random: np.random.Generator, count: int) -> bytes:
    """Returns a stream of chunks of all kinds. Most of them are full."""
    stream = b""
    for _ in range(count):
        part = text(random, BLOCK)
        kind = random.integers(0, 24)
        if kind == 0:
            stream += original(part[: random.integers(0, BLOCK)])
        elif kind == 1:
            stream += compressed(deflate(part[: random.integers(0, BLOCK)]))
        elif kind == 2:
            stream += compressed(b"")
        elif kind == 3:
            damaged = bytearray(deflate(part))
            damaged[random.integers(0, len(damaged))] ^= 1 << int(random.integers(0, 8))
            stream += compressed(bytes(damaged))
        elif kind == 4:
            stream += compressed(deflate(part + b"x"))
        else:
            stream += compressed(deflate(part))
    return stream[: len(stream) - int(random.integers(0, 3)) * 2]


def opened(
    source: PieceSource | PlannedStream,
    ask: Ask | None,
    *,
    whole: bool = True,
    on: bool = True,
    most: int = 8,
    codec: object = None,
) -> Window:
    """Opens a window with chunks ahead. If ``on`` is True, the next chunks are decompressed before they are read."""
    zlib = open_codec(CompressionKind.ZLIB)
    window = Window(source, zlib, BLOCK, name="DATA")
    if ask is not None:
        native = zlib.native if codec is None else codec
        ahead = ChunksAhead(native, block_size=BLOCK, stream_length=source.length, most=most, whole=whole, ask=ask)
        if on:
            ahead.go_on()
        window.ahead = ahead
    return window


def outcome(window: Window, sizes: list[int], *, looks: bool = False) -> list[object]:
    """Reads ``sizes`` bytes at a time. A negative size skips bytes. Returns the results, and then either the error that
    ended the reads or the window's counters."""
    data = RawBytes(window)
    found: list[object] = []
    try:
        for size in sizes:
            if size < 0:
                data.skip(-size)
                continue
            out = bytearray(size)
            found.append(data.read_text(out) if looks else data.read_into(out))
            found.append(bytes(out))
    except CorruptFile as error:
        return [*found, str(error), error.offset]
    return [*found, window.chunks_decompressed, window.bytes_decompressed, window.offset]


@pytest.mark.parametrize("ask", [never, at_once])
@pytest.mark.parametrize("piece", [None, 1, 700, 5000])
@pytest.mark.parametrize("on", [True, False])
def test_the_same_as_by_the_reader_alone(ask: Ask, piece: int | None, on: bool, rng: np.random.Generator) -> None:
    content, stream = usual(rng, 40)
    sizes = [[len(content)], [17, 30_000, 5, len(content) - 30_022], [7000] * 5, [len(content), 1], [13] * 300]
    for reads in [*sizes, [10, -9000, 800, -1, 20_000]]:
        mine, alone = PieceSource(stream, piece), PieceSource(stream, piece)
        found = outcome(opened(mine, ask, on=on), reads)
        assert found == outcome(opened(alone, None), reads)
        if sum(map(abs, reads)) == len(content):
            assert mine.fetches == alone.fetches


def test_whatever_chunks_are(rng: np.random.Generator) -> None:
    pool = ThreadPoolExecutor(3)
    helpers: list[Future[bool]] = []

    def some(chunks: ChunksAhead) -> None:
        helpers.extend(pool.submit(chunks.help, 5) for _ in range(3))

    failed = 0
    with pool:
        for _ in range(150):
            stream = strange(rng, int(rng.integers(1, 60)))
            piece = int(rng.choice([1, 300, 2000, 9000, 1 << 20]))
            sizes = (rng.integers(1, 20 * BLOCK, 6) * rng.choice([1, 1, -1], 6)).tolist()
            looks, whole, on = (bool(number) for number in rng.integers(0, 2, 3))
            expected = outcome(opened(PieceSource(stream, piece), None), sizes, looks=looks)
            for ask in (never, at_once, some):
                window = opened(PieceSource(stream, piece), ask, whole=whole, on=on, most=int(rng.integers(4, 70)))
                assert outcome(window, sizes, looks=looks) == expected
            failed += isinstance(expected[-2], str)
    assert failed > 20
    assert all(helper.exception() is None for helper in helpers)


class Pieces:
    """A stream in a local file. All its pieces are read into one buffer."""

    def __init__(self, path: Path, stream: bytes) -> None:
        self.path = path
        path.write_bytes(stream)

    def source(self, step: int) -> PlannedStream:
        self.reader = reader = LocalReader(str(self.path))
        reader.metrics.log = []
        size = self.path.stat().st_size
        local = {"read_into": reader.read_into, "local_file": reader.local_file}
        stream = PlannedStream(StreamReads(reader.read_ranges, step, framed=True, **local), offset=0, length=size)
        stream.plan([(0, size)])
        return stream

    @property
    def requests(self) -> list[tuple[int, int]]:
        return [(request.offset, request.length) for request in self.reader.metrics.log or []]


@pytest.mark.parametrize("step", [500, 1100, 3000, 7900])
def test_pieces_of_a_local_file(step: int, tmp_path: Path, rng: np.random.Generator) -> None:
    """The requests are the same whether the reader or another thread decompresses the chunks."""
    pool = ThreadPoolExecutor(3)
    helpers: list[Future[bool]] = []

    def some(chunks: ChunksAhead) -> None:
        helpers.extend(pool.submit(chunks.help, 5) for _ in range(3))

    with pool:
        for number in range(30):
            content, usually = usual(rng, 60)
            pieces = Pieces(tmp_path / str(number), usually if number % 2 else strange(rng, 60))
            for sizes in ([len(content)], [700] * 50, [5 * BLOCK, -3 * BLOCK, 40 * BLOCK]):
                expected, requests = outcome(opened(pieces.source(step), None), sizes), pieces.requests
                for ask, most in ((never, 4), (never, 9), (at_once, 9), (some, 8), (some, 60)):
                    assert outcome(opened(pieces.source(step), ask, most=most), sizes) == expected
                    if number % 2 and len(sizes) == 1:
                        assert pieces.requests == requests
    assert all(helper.exception() is None for helper in helpers)


@pytest.mark.parametrize("ask", [never, at_once])
def test_seeks(ask: Ask, rng: np.random.Generator) -> None:
    """The reader seeks forward, to chunks that are decompressed and to chunks that are not. It also seeks backward."""
    content, stream = usual(rng, 40)
    starts, at = [], 0
    while at < len(stream):
        starts.append(at)
        at += 3 + (int.from_bytes(stream[at : at + 3], "little") >> 1)
    for piece in (None, 1300, 6000):
        window = opened(PieceSource(stream, piece), ask, whole=False)
        for number in rng.integers(0, 39, 200).tolist():
            within, size = int(rng.integers(0, BLOCK + 1)), int(rng.integers(1, 5000))
            first = number * BLOCK + within
            size = min(size, len(content) - first)
            window.seek(starts[number], within)
            out = bytearray(size)
            window.read_into(out)
            assert out == content[first : first + size]


def test_others_take_part(rng: np.random.Generator) -> None:
    """Other threads can decompress the staged chunks until the reader drops these chunks. At most ``most`` chunks are
    staged."""
    content, stream = usual(rng, 40)
    asked: list[ChunksAhead] = []
    window = opened(PieceSource(stream), asked.append, most=8)
    window.read_into(bytearray(10))
    ahead = window.ahead
    assert ahead is not None
    assert asked == [ahead]
    assert ahead.held_bytes == 8 * 2 * BLOCK
    assert [ahead.help(3), ahead.help(100), ahead.help(1)] == [True, True, False]
    out = bytearray(len(content) - 10)
    window.read_into(out)
    assert out == content[10:]
    window.seek(0)
    window.read_into(bytearray(10))
    ahead.close()
    assert not ahead.help(1)


def test_no_more_than_is_read_before_it_goes_on(rng: np.random.Generator) -> None:
    """Before ``go_on`` is called, a read of raw bytes stages only the chunks that it needs. Other reads stage none."""
    _, stream = usual(rng, 40)
    window = opened(PieceSource(stream), never, on=False, most=30)
    RawBytes(window).read_into(bytearray(4 * BLOCK))
    ahead = window.ahead
    assert ahead is not None
    assert ahead.held_bytes == 4 * 2 * BLOCK
    window.read_into(bytearray(7 * BLOCK))
    assert ahead.held_bytes == 4 * 2 * BLOCK


def test_what_cannot_be_fetched_early_is_told_when_its_turn_comes(rng: np.random.Generator) -> None:
    content, stream = usual(rng, 40)

    class Ends(PieceSource):
        def fetch(self, offset: int) -> memoryview:
            if offset + 3000 > 9000:
                raise CorruptFile("gone", offset=offset)
            return super().fetch(offset)

    def until(ask: Ask | None) -> tuple[int, str]:
        window, done = opened(Ends(stream, 3000), ask), 0
        try:
            while True:
                window.read_into(bytearray(100))
                done += 100
        except CorruptFile as error:
            return done, str(error)

    assert until(never) == until(at_once) == until(None)
    assert 3000 < until(None)[0] < len(content)


@pytest.fixture
def stuck() -> Iterator[tuple[NativeCodec, threading.Event, threading.Event]]:
    """A codec. When a thread named "stuck" decompresses its first chunk, the codec blocks this thread until the test
    releases it. Only the first such thread is blocked."""
    begun, go_on = threading.Event(), threading.Event()
    native = open_codec(CompressionKind.ZLIB).native
    sizes = ctypes.POINTER(ctypes.c_size_t)
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
        sizes,
        sizes,
    )

    def call(_: int, chunk: int, length: int, out: int, room: int, consumed: object, written: object) -> int:
        if threading.current_thread().name == "stuck" and not begun.is_set():
            begun.set()
            go_on.wait(60)
        target = (ctypes.c_ubyte * room).from_address(out)
        size = native.decompress_into(ctypes.string_at(chunk, length), target)
        written[0] = max(size, 0)  # type: ignore[index]
        return int(size < 0)

    create = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: 1)
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(lambda _: None)
    kept = [kind(call), create, destroy]
    places = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in kept]
    yield NativeCodec(library="test", create=places[1], destroy=places[2], call=places[0]), begun, go_on
    go_on.set()


def test_a_thread_that_does_not_run_is_not_waited_for(
    stuck: tuple[NativeCodec, threading.Event, threading.Event], rng: np.random.Generator
) -> None:
    """If another thread is blocked while it decompresses a chunk, the reader decompresses this chunk itself. The other
    thread may continue after the reader is done."""
    codec, begun, go_on = stuck
    content, stream = usual(rng, 40)
    helpers: list[threading.Thread] = []

    def ask(chunks: ChunksAhead) -> None:
        if not helpers:
            helpers.append(threading.Thread(target=chunks.help, args=(5,), name="stuck"))
            helpers[0].start()
            assert begun.wait(60)

    window = opened(PieceSource(stream, 5000), ask, codec=codec, most=8)
    out = bytearray(len(content))
    window.read_into(out)
    assert out == content
    assert helpers[0].is_alive()
    assert window.chunks_decompressed == 40
    window.seek(0)
    window.read_into(out)
    assert out == content
    del window
    go_on.set()
    helpers[0].join()
