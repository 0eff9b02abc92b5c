"""Streams for tests. They are cut into pieces that a storage can return, and into chunks, and have positions for
seeks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from orcidx.errors import CorruptFile
from orcidx.orc.compression import open_codec
from orcidx.orc.kinds import CompressionKind
from orcidx.orc.window import Window

BLOCK_SIZE = 1 << 18


@dataclass
class PieceSource:
    """A ``StreamSource`` that returns at most ``piece`` bytes at a time and counts the calls."""

    data: bytes
    piece: int | None = None
    fetches: int = 0

    @property
    def length(self) -> int:
        return len(self.data)

    def fetch(self, offset: int) -> memoryview:
        self.fetches += 1
        if offset > len(self.data):
            raise CorruptFile(f"offset {offset} is past the end of the stream ({len(self.data)} bytes)")
        end = len(self.data) if self.piece is None else offset + self.piece
        # The result is a copy, so that a sanitizer detects reads behind its end.
        return memoryview(bytes(memoryview(self.data)[offset:end]))


class Positions:
    """A ``PositionIterator`` over the given numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def take(self) -> int:
        if not self.numbers:
            raise CorruptFile("too few positions")
        return self.numbers.pop(0)


def original(data: bytes) -> bytes:
    """Returns an original (not compressed) chunk."""
    return (len(data) * 2 + 1).to_bytes(3, "little") + data


def compressed(chunk: bytes) -> bytes:
    """Returns a chunk of compressed bytes with its header."""
    return (len(chunk) * 2).to_bytes(3, "little") + chunk


def deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush()


@dataclass(frozen=True)
class Chopped:
    """A stream in chunks. ``window()`` opens it, and ``position(n)`` returns the position of byte ``n`` of the
    content."""

    content: bytes
    data: bytes
    starts: tuple[tuple[int, int], ...]  # for each chunk: (offset of its content, offset of its header)
    framing: str
    piece: int | None
    native: bool = True

    def window(self, name: str = "DATA") -> Window:
        codec = None if self.framing == "NONE" else open_codec(CompressionKind.ZLIB, native=self.native)
        return Window(PieceSource(self.data, self.piece), codec, BLOCK_SIZE, name=name)

    def position(self, n: int) -> tuple[int, ...]:
        if self.framing == "NONE":
            return (n,)
        content, chunk = max(start for start in self.starts if start[0] <= n)
        return chunk, n - content


def chop(content: bytes, size: int, framing: str, *, piece: int | None = None, native: bool = True) -> Chopped:
    """Cuts ``content`` into chunks of ``size`` bytes.

    With framing NONE, the chunks are the pieces of the storage. With ZLIB, each chunk is deflated. With MIXED, deflated
    and original chunks alternate. Before each chunk is an empty chunk. Three kinds of empty chunks take turns: an
    original chunk without bytes, a compressed chunk without bytes, and a chunk that deflates to nothing.
    """
    if framing == "NONE":
        return Chopped(content, content, (), framing, size)
    data = bytearray()
    starts = []
    for number, start in enumerate(range(0, len(content), size)):
        part = content[start : start + size]
        if framing == "MIXED":
            data += (original(b""), compressed(b""), compressed(deflate(b"")))[number % 3]
        starts.append((start, len(data)))
        data += original(part) if framing == "MIXED" and number % 2 else compressed(deflate(part))
    return Chopped(content, bytes(data), tuple(starts), framing, piece, native)


def chunk_sizes(content: bytes, run: int) -> list[int]:
    """Returns the chunk sizes for tests of decoders: 1, 2, 7, run - 1, run, whole. Zeros and duplicates are left
    out."""
    return sorted({size for size in (1, 2, 7, run - 1, run, len(content)) if size > 0})


def read_sizes(count: int) -> list[int]:
    """Returns the read sizes for tests of decoders: 1, 3, 7, all."""
    return sorted({1, 3, 7, max(count, 1)})


def split_counts(count: int, size: int) -> Iterable[int]:
    """Splits ``count`` into steps of ``size`` and a remainder."""
    full, rest = divmod(count, size)
    return [size] * full + ([rest] if rest else [])
