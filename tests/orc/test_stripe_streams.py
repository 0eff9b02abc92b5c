"""PlannedStream returns the right bytes of the file at every position, and reuses its memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from streams.framing import compressed, deflate, original

from orcidx import CorruptFile, StorageError
from orcidx.orc.compression import open_codec
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.stripe_streams import Ahead, PlannedStream, StreamReads
from orcidx.orc.window import Window
from orcidx.storage.local import LocalReader

CONTENT = np.random.default_rng(5).bytes(300_000)
START, LENGTH = 1000, 250_000


def of_file(reader: LocalReader, *, read_ahead: int, length: int = LENGTH, framed: bool = False) -> PlannedStream:
    reads = StreamReads(
        reader.read_ranges, read_ahead, framed=framed, read_into=reader.read_into, local_file=reader.local_file
    )
    return PlannedStream(reads, offset=START, length=length)


def take(window: Window, count: int) -> bytes:
    out = bytearray(count)
    window.read_into(out)
    return bytes(out)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "stream"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize("read_ahead", [700, 4096, 10_007, 1 << 19])
def test_a_window_brings_local_pieces_by_itself(read_ahead: int, path: Path, rng: np.random.Generator) -> None:
    """The window returns the right bytes after every seek, reads only planned bytes, and counts every request."""
    reader = LocalReader(str(path))
    stream = of_file(reader, read_ahead=read_ahead)
    plan = [(0, 60_000), (100_000, LENGTH)]
    stream.plan(plan)
    window = Window(stream, None, 0, name="DATA")
    reader.metrics.log = []
    for start, stop in plan:
        window.seek(start)
        for at in range(start, stop, 500):
            assert take(window, min(500, stop - at)) == CONTENT[START + at : START + min(at + 500, stop)]
            assert stream.held_bytes <= read_ahead
    requests = [(one.offset - START, one.offset - START + one.length) for one in reader.metrics.log]
    assert all(any(start <= a and b <= stop for start, stop in plan) for a, b in requests)
    assert sum(b - a for a, b in requests) == reader.metrics.bytes_fetched == sum(stop - start for start, stop in plan)
    assert len(requests) == reader.metrics.requests == sum(-(-(stop - start) // read_ahead) for start, stop in plan)
    for at in rng.integers(0, LENGTH - 600, 300).tolist():
        window.seek(at)
        assert take(window, 600) == CONTENT[START + at : START + at + 600]
        if at % 7 == 0:
            stream.plan([(at, LENGTH)])
        elif at % 11 == 0:
            assert stream.fetch(at)[:1] == CONTENT[START + at : START + at + 1]
    reader.close()


@pytest.mark.parametrize("read_ahead", [700, 5000])
def test_local_chunks_of_every_kind(read_ahead: int, tmp_path: Path) -> None:
    parts = [CONTENT[at : at + 1000] for at in range(0, 100_000, 1000)]
    plain = [part if at % 3 else bytes(500) + part[:400] for at, part in enumerate(parts)]
    chunks = [original(part) if at % 3 else compressed(deflate(part)) for at, part in enumerate(plain)]
    data = b"".join(chunks)
    (tmp_path / "chunks").write_bytes(bytes(START) + data)
    reader = LocalReader(str(tmp_path / "chunks"))
    stream = of_file(reader, read_ahead=read_ahead, length=len(data), framed=True)
    stream.plan([(0, len(data))])
    window = Window(stream, open_codec(CompressionKind.ZLIB), 1000, name="DATA")
    for count in (1, 700, 5000):
        window.seek(0)
        content = b"".join(plain)
        for at in range(0, len(content), count):
            part = content[at : at + count]
            assert take(window, len(part)) == part
    window.seek(sum(map(len, chunks[:50])), 10)
    assert take(window, 3000) == b"".join(plain[50:])[10:3010]
    reader.close()


@pytest.mark.parametrize("damage", ["shorter", "touched", "closed"])
def test_a_file_that_changes_between_two_pieces(damage: str, path: Path) -> None:
    reader = LocalReader(str(path))
    stream = of_file(reader, read_ahead=10_000)
    stream.plan([(0, LENGTH)])
    window = Window(stream, None, 0, name="DATA")
    assert take(window, 20_500) == CONTENT[START : START + 20_500]
    if damage == "shorter":
        os.truncate(path, START + 25_000)
    elif damage == "touched":
        os.utime(path, ns=(1, 1))
    else:
        reader.close()
    with pytest.raises(StorageError, match="closed" if damage == "closed" else "changed"):
        take(window, 20_000)
    assert stream.held_bytes == 0
    with pytest.raises(StorageError, match="closed" if damage == "closed" else "changed"):
        stream.fetch(20_000)
    reader.close()


@pytest.mark.parametrize("here", [False, True])
def test_bytes_are_right_forwards_and_backwards(here: bool, path: Path, rng: np.random.Generator) -> None:
    reader = LocalReader(str(path))
    stream = of_file(reader, read_ahead=10_000)
    if not here:
        stream = PlannedStream(StreamReads(reader.read_ranges, 10_000), offset=START, length=LENGTH)
    stream.plan([(0, 60_000), (100_000, LENGTH)])
    for offset in [0, 9_999, 10_000, 5, 59_999, 61_000, 100_000, 99_999, *rng.integers(0, LENGTH, 200).tolist()]:
        data = stream.fetch(offset)
        assert 0 < len(data) <= 10_000
        assert data == CONTENT[START + offset : START + offset + len(data)]
        assert stream.held_bytes <= 10_000 if here else stream.held_bytes
    assert stream.fetch(LENGTH) == b""
    with pytest.raises(CorruptFile, match="past the end"):
        stream.fetch(LENGTH + 1)
    reader.close()


def test_pieces_of_a_local_file_share_their_memory(path: Path) -> None:
    reader = LocalReader(str(path))
    stream = of_file(reader, read_ahead=10_000)
    stream.plan([(0, LENGTH)])
    rooms = {np.frombuffer(stream.fetch(at), np.uint8).ctypes.data for at in range(0, LENGTH, 10_000)}
    assert len(rooms) == 1
    assert reader.metrics.requests == LENGTH // 10_000
    reader.close()


class Far:
    """A remote file. It records the ranges that a caller waited for, and the ranges that were requested ahead."""

    def __init__(self) -> None:
        self.waited: list[tuple[int, int]] = []
        self.asked: list[tuple[int, int]] = []
        self.futures: list[Future[list[bytes]]] = []
        self.fails = False

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.waited += ranges
        return [CONTENT[offset : offset + length] for offset, length in ranges]

    def start(self, ranges: Sequence[tuple[int, int]]) -> Future[list[bytes]]:
        self.asked += ranges
        future: Future[list[bytes]] = Future()
        if self.fails:
            future.set_exception(StorageError("made up"))
        elif ranges[0][0] < START + 100_000:  # requests for other ranges never complete
            future.set_result([CONTENT[offset : offset + length] for offset, length in ranges])
        self.futures.append(future)
        return future

    def stream(self, ahead: Ahead, read_ahead: int = 1000) -> PlannedStream:
        stream = PlannedStream(StreamReads(self.read, read_ahead, ahead=ahead), offset=START, length=LENGTH)
        stream.plan([(0, 3500), (5000, 6000), (100_000, 101_000)])
        stream.put(0, CONTENT[START : START + 1000])
        return stream


def test_the_next_piece_is_on_its_way_while_one_is_used() -> None:
    """Reading ahead starts after the reader had to wait for a piece for the first time. Only planned pieces are
    requested, and each of them once."""
    far = Far()
    stream = far.stream(Ahead(far.start, most=1000))
    assert stream.fetch(0) == CONTENT[START : START + 1000]
    assert (far.waited, far.asked) == ([], [])
    window = Window(stream, None, 0, name="DATA")
    assert take(window, 3500) == CONTENT[START : START + 3500]
    assert far.waited == [(START + 1000, 1000)]
    assert far.asked == [(START + 2000, 1000), (START + 3000, 500), (START + 5000, 1000)]
    window.seek(5000)
    assert take(window, 1000) == CONTENT[START + 5000 : START + 6000]
    assert far.waited == [(START + 1000, 1000)]
    assert far.asked[3:] == [(START + 100_000, 1000)]
    stream.close()
    assert far.futures[-1].cancelled()


def test_pieces_ahead_stay_within_their_bytes() -> None:
    far = Far()
    ahead = Ahead(far.start, most=1500)
    one, other = far.stream(ahead), far.stream(ahead)
    one.fetch(1000)
    other.fetch(1000)
    assert far.asked == [(START + 2000, 1000)]  # the limit leaves no bytes for the other stream
    other.fetch(2000)
    assert far.waited == [(START + 1000, 1000), (START + 1000, 1000), (START + 2000, 1000)]
    assert far.asked[1:] == [(START + 3000, 500)]
    one.fetch(0)  # the position moves back, so pending requests are cancelled
    other.fetch(3000)
    assert far.asked[2:] == [(START + 5000, 1000)]


def test_a_piece_that_fails_ahead_fails_where_it_is_needed() -> None:
    far = Far()
    stream = far.stream(Ahead(far.start, most=1000))
    far.fails = True
    stream.fetch(1000)
    with pytest.raises(StorageError, match="made up"):
        stream.fetch(2000)
