"""Chunks decompressed side by side: the same bytes, errors, counters and requests as one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from streams.framing import PieceSource, compressed, deflate, original

from orcidx.errors import CorruptFile
from orcidx.orc.byte_rle import RawBytes
from orcidx.orc.chunk_rows import ChunkRow, share
from orcidx.orc.compression import open_codec
from orcidx.orc.window import Window

BLOCK = 1000
Ask = Callable[[ChunkRow], None]


def never(row: ChunkRow) -> None:
    """Nobody comes."""


def at_once(row: ChunkRow) -> None:
    """Somebody else is so fast that nothing is left."""
    helper = threading.Thread(target=row.help)
    helper.start()
    helper.join()


def text(random: np.random.Generator, size: int) -> bytes:
    return bytes(random.integers(97, 103, size, dtype=np.uint8))


def usual(random: np.random.Generator, count: int) -> tuple[bytes, bytes]:
    """Full blocks, the last one shorter: content, and the stream."""
    parts = [text(random, BLOCK) for _ in range(count - 1)] + [text(random, 77)]
    return b"".join(parts), b"".join(compressed(deflate(part)) for part in parts)


def strange(random: np.random.Generator, count: int) -> bytes:
    """Chunks of any kind, most of them full."""
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


def outcome(stream: bytes, piece: int | None, sizes: list[int], ask: Ask | None, *, looks: bool) -> list[object]:
    """What reads of so many bytes give, the error that ends them, and the work it took."""
    source = PieceSource(stream, piece)
    window = Window(source, open_codec("ZLIB"), BLOCK, name="DATA")
    share(window, ask)
    data = RawBytes(window)
    found: list[object] = []
    try:
        for size in sizes:
            out = bytearray(size)
            found.append(data.read_text(out) if looks else data.read_into(out))
            found.append(bytes(out))
    except CorruptFile as error:
        return [*found, str(error), error.offset]
    return [*found, source.fetches, window.chunks_decompressed, window.bytes_decompressed, window.offset]


@pytest.mark.parametrize("ask", [never, at_once])
@pytest.mark.parametrize("piece", [None, 1, 700, 5000])
def test_the_same_as_one_after_the_other(ask: Ask, piece: int | None, rng: np.random.Generator) -> None:
    content, stream = usual(rng, 40)
    for sizes in ([len(content)], [17, 30_000, 5, len(content) - 30_022], [7000] * 5, [len(content), 1]):
        assert outcome(stream, piece, sizes, ask, looks=False) == outcome(stream, piece, sizes, None, looks=False)
    assert outcome(stream, piece, [len(content)], ask, looks=True)[1] == content


def test_whatever_chunks_are(rng: np.random.Generator) -> None:
    pool = ThreadPoolExecutor(3)
    helpers: list[Future[None]] = []

    def some(row: ChunkRow) -> None:
        helpers.extend(pool.submit(row.help) for _ in range(3))

    failed = 0
    with pool:
        for _ in range(150):
            stream = strange(rng, int(rng.integers(1, 60)))
            piece = int(rng.choice([1, 300, 2000, 9000, 1 << 20]))
            sizes = rng.integers(1, 20 * BLOCK, 6).tolist()
            looks = bool(rng.integers(0, 2))
            expected = outcome(stream, piece, sizes, None, looks=looks)
            for ask in (never, at_once, some):
                assert outcome(stream, piece, sizes, ask, looks=looks) == expected
            failed += isinstance(expected[-2], str)
    assert failed > 20
    assert all(helper.exception() is None for helper in helpers)


def test_others_take_part(rng: np.random.Generator) -> None:
    """Nothing is left for the reader where others are faster, and all is where nobody comes."""
    content, stream = usual(rng, 40)
    rows: list[ChunkRow] = []
    outcome(stream, None, [len(content)], rows.append, looks=False)
    assert len(rows) == 1
    rows[0].help()  # too late, which is no harm
    assert outcome(stream, 4000, [len(content)], never, looks=True)[1] == content


def test_few_chunks_are_left_to_the_reader(rng: np.random.Generator) -> None:
    _, stream = usual(rng, 40)
    rows: list[ChunkRow] = []
    outcome(stream, None, [2 * BLOCK - 1] * 15, rows.append, looks=False)
    assert not rows


def test_lost_bets_end_it(rng: np.random.Generator) -> None:
    """A writer that fills no block is not asked for more than a few rows in vain."""
    stream = b"".join(compressed(deflate(text(rng, BLOCK - 1))) for _ in range(100))
    rows: list[ChunkRow] = []
    outcome(stream, None, [50 * BLOCK], rows.append, looks=False)
    assert len(rows) == 3


def test_the_reader_waits_for_those_who_help(rng: np.random.Generator) -> None:
    """Memory that others write to is not given away."""
    content, stream = usual(rng, 60)
    with ThreadPoolExecutor(4) as pool:

        def crowd(row: ChunkRow) -> None:
            for _ in range(4):
                pool.submit(row.help)

        for _ in range(100):
            assert outcome(stream, None, [len(content)], crowd, looks=False)[1] == content
