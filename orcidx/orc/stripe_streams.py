"""Fetches the bytes of a stripe's streams according to a plan, and holds them in pieces.

A ``PlannedStream`` has a list of the byte ranges that will be needed from its stream, and loads these ranges piece by
piece. For a stripe of any size, it holds at most two pieces at a time: the current piece (``read_ahead`` bytes) and the
previous piece. ``StreamReads`` says how the streams of a stripe are read. A ``PieceRoom`` holds the current piece of a
local file, and a ``NextPiece`` is requested from remote storage before it is needed. ``priming_request`` fetches the
first pieces of many streams by one request. So a small stripe, or a few row groups of a large stripe, need only one
round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile
from orcidx.orc.compression import CHUNK_HEADER
from orcidx.storage.local_file import LocalFile, PieceRun
from orcidx.threads.tasks import Task
from orcidx.threads.waiting import Tally

__all__ = ["Ahead", "PlannedStream", "StreamReads", "planned_bytes", "priming_request"]

ByteRange = tuple[int, int]
ReadRanges = Callable[[Sequence[ByteRange]], Sequence[object]]
ReadInto = Callable[[int, Sequence[memoryview]], None]

DEMAND_BYTES = 8 << 10
"""The bytes of a read that was not planned. Such a read fetches the rest of a run, which is short. The number equals
the default ``merge_gap`` of local files."""


@dataclass(slots=True)
class _Piece:
    start: int
    stop: int
    data: memoryview


class Ahead:
    """Starts requests for the next pieces of a stripe's streams. At any time, at most ``most`` bytes are requested and
    not used yet.

    ``start``: a function that requests a list of (offset, length) pairs and returns a future of the buffers.
    """

    def __init__(self, start: Callable[[Sequence[ByteRange]], Task[Any]], *, most: int) -> None:
        self._start = start
        self._most = most
        self._asked = Tally()

    def start(self, offset: int, length: int) -> Task[Any] | None:
        """Starts a request for ``length`` bytes. Returns None if more than ``most`` bytes would then be requested but
        not used yet. The caller must call ``take`` when it uses or drops the bytes."""
        if self._asked.add(length) > self._most:
            self._asked.add(-length)
            return None
        return self._start([(offset, length)])

    def take(self, length: int) -> None:
        self._asked.add(-length)


@dataclass(frozen=True, slots=True)
class StreamReads:
    """How the streams of one stripe are read.

    ``read_ahead``: the most bytes of a piece. ``framed``: whether the streams have compression chunks and each planned
    range ends where a chunk begins. If so, bytes after the range are read one chunk at a time, and the chunk's header
    gives the length. In uncompressed streams, bytes after the range are read ``demand`` bytes at a time.
    ``read_into(offset, parts)`` fills buffers, one after the other, from the file. It is given only for storage where a
    small read takes little time. ``local_file``: the same file for readers in C. ``ahead``: starts requests to a remote
    file before the bytes are needed.
    """

    read_ranges: ReadRanges
    read_ahead: int
    framed: bool = False
    demand: int = DEMAND_BYTES
    read_into: ReadInto | None = None
    local_file: LocalFile | None = None
    ahead: Ahead | None = None


class PieceRoom:
    """The buffer for the pieces of one stream of a local file. It is reused because its memory is still in the
    processor's cache.

    ``run`` knows which bytes the buffer has. Inside the range that is planned, a window lets ``run`` read the next
    piece into the buffer by itself.
    """

    def __init__(self, file: LocalFile, read_into: ReadInto, *, offset: int, step: int) -> None:
        self.run = PieceRun(file, file_offset=offset, step=step)
        self.data = memoryview(b"")
        self._read_into = read_into
        self._offset = offset

    def fill(self, offset: int, length: int, planned: ByteRange) -> memoryview:
        """Reads ``length`` bytes of the stream from ``offset`` on. ``planned``: the range in which ``run`` may read
        further pieces."""
        if len(self.data) < length:
            self.data = memoryview(pa.allocate_buffer(length)).cast("B")
        data, run = self.data, self.run
        view = data[:length]
        run.allow(0, 0, room=data, at=0, held=0)  # so that the buffer counts as empty if reading fails
        if not run.read(offset, view):
            self._read_into(self._offset + offset, [view])  # raises the error
        run.allow(planned[0], planned[1], room=data, at=offset, held=length)
        return view


class NextPiece:
    """The next piece of one stream of a remote file, which is requested before it is needed. ``offset``: where the
    stream begins in the file."""

    def __init__(self, ahead: Ahead, offset: int) -> None:
        self._ahead = ahead
        self._offset = offset
        self._coming: tuple[ByteRange, Task[Any]] | None = None

    def ask(self, start: int, stop: int) -> None:
        """Requests the bytes from ``start`` to ``stop`` of the stream, if there is room for them."""
        future = self._ahead.start(self._offset + start, stop - start)
        if future is not None:
            self._coming = (start, stop), future

    def take(self, offset: int) -> tuple[int, Any]:
        """Returns the start and the bytes of the piece, if it contains ``offset``. Otherwise cancels the request, and
        returns None for the bytes."""
        if self._coming is None:
            return offset, None
        (start, stop), future = self._coming
        if not start <= offset < stop:
            self.close()
            return offset, None
        self._coming = None
        self._ahead.take(stop - start)
        return start, future.result()[0]

    def close(self) -> None:
        """Cancels the request."""
        if self._coming is not None:
            (start, stop), future = self._coming
            self._coming = None
            future.cancel()
            self._ahead.take(stop - start)


class PlannedStream:
    """One stream of a stripe as a source for a ``Window``. ``planned``: the ranges (start, stop) that will be needed
    next, in order. Offsets count from the start of the stream. ``offset``: where the stream begins in the file."""

    def __init__(self, reads: StreamReads, *, offset: int, length: int) -> None:
        self.length = length
        self.run: PieceRun | None = None
        self.planned: list[ByteRange] = []
        self._reads = reads
        self._offset = offset
        self._pieces: list[_Piece] = []
        self._room: PieceRoom | None = None
        if reads.local_file is not None and reads.read_into is not None:
            self._room = PieceRoom(reads.local_file, reads.read_into, offset=offset, step=reads.read_ahead)
            self.run = self._room.run
        self._next = None if reads.ahead is None else NextPiece(reads.ahead, offset)

    def plan(self, ranges: Iterable[ByteRange]) -> None:
        """Replaces the plan."""
        self.planned = list(ranges)
        if self.run is not None:
            self.run.forbid()

    def first_pieces(self, budget: int) -> list[ByteRange]:
        """The ranges (start, stop) that the first request should fetch. These are all planned ranges if they fit into
        ``budget`` bytes together, otherwise only the first piece. Bytes in memory are left out."""
        whole = planned_bytes((self,)) <= budget
        found = []
        for start, stop in self.planned if whole else self.planned[:1]:
            last = stop if whole else start + 1
            for piece in self._pieces:
                if piece.start <= start and last <= piece.stop:
                    break
            else:
                found.append((start, stop if whole else min(stop, start + self._reads.read_ahead)))
        return found

    def absolute(self, piece: ByteRange) -> ByteRange:
        """Converts a range (start, stop) of the stream to (offset, length) in the file."""
        return self._offset + piece[0], piece[1] - piece[0]

    def put(self, start: int, data: object) -> None:
        """Stores fetched bytes of the stream. ``start``: their offset in the stream."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        self._pieces.append(_Piece(start, start + len(view), view))
        if self.run is not None:
            self.run.forbid()

    @property
    def held_bytes(self) -> int:
        return sum(len(piece.data) for piece in self._pieces) + (0 if self.run is None else self.run.held)

    def fetch(self, offset: int) -> memoryview:
        """Returns contiguous bytes from ``offset`` on. At the end of the stream, the result is b"". Otherwise it has at
        least one byte.

        The bytes are valid until the next call.
        """
        if offset >= self.length:
            if offset > self.length:
                raise CorruptFile(f"offset {offset} is past the end of the stream ({self.length} bytes)")
            return memoryview(b"")
        for piece in self._pieces:
            if piece.start <= offset < piece.stop:
                return piece.data[offset - piece.start :]
        if self._room is not None:
            run = self._room.run
            if run.at <= offset < run.at + run.held:
                return self._room.data[offset - run.at : run.held]
            self._pieces.clear()
            stop, planned = self._piece_end(offset)
            return self._room.fill(offset, stop - offset, planned)
        self._pieces = [piece for piece in self._pieces if piece.start > offset]
        start, data = (offset, None) if self._next is None else self._next.take(offset)
        if data is None:
            (data,) = self._reads.read_ranges([(self._offset + offset, self._piece_end(offset)[0] - offset)])
        self.put(start, data)
        if self._next is not None:
            self._ask_ahead(self._next)
        return self._pieces[-1].data[offset - start :]

    def read_into(self, offset: int, parts: Sequence[memoryview]) -> int:
        """Fills ``parts`` one after the other from ``offset``, without keeping the bytes.

        Returns the number of bytes that were read. Returns 0 if the storage does not support such reads, or if a held
        piece already has the bytes. All of the bytes must be inside the stream.
        """
        stop = offset + sum(map(len, parts))
        if self._reads.read_into is None or any(piece.stop >= stop for piece in self._pieces):
            return 0
        if self.run is not None and self.run.at <= offset and stop <= self.run.at + self.run.held:
            return 0
        self._pieces.clear()
        self._reads.read_into(self._offset + offset, parts)
        return stop - offset

    def close(self) -> None:
        """Drops the piece that was requested ahead."""
        if self._next is not None:
            self._next.close()

    def _ask_ahead(self, coming: NextPiece) -> None:
        """Requests the first planned piece after the newest piece, unless a held piece has some of its bytes."""
        after = self._pieces[-1].stop
        start, stop = next(((max(a, after), b) for a, b in self.planned if after < b), (0, 0))
        stop = min(stop, start + self._reads.read_ahead)
        if start < stop and not any(piece.start < stop and start < piece.stop for piece in self._pieces):
            coming.ask(start, stop)

    def _piece_end(self, offset: int) -> tuple[int, ByteRange]:
        """Where the piece that begins at ``offset`` ends, and the planned range of the piece. The range is (0, 0) if
        ``offset`` is not planned."""
        planned = (0, 0)
        for start, stop in self.planned:
            if start <= offset < stop:
                end, planned = min(stop, offset + self._reads.read_ahead), (start, stop)
                break
        else:  # The offset is after a planned range, because the range ends inside a run or a chunk.
            end = min(self.length, offset + (self._chunk_bytes(offset) if self._reads.framed else self._reads.demand))
        for piece in self._pieces:
            if piece.start > offset:
                end = min(end, piece.start)
        return end, planned

    def _chunk_bytes(self, offset: int) -> int:
        """The size of the chunk whose header is at ``offset``, including the header. The header has 3 bytes, which
        contain a flag and twice the length of the rest of the chunk."""
        if self.length - offset < CHUNK_HEADER:
            return CHUNK_HEADER
        header: Any = bytearray(CHUNK_HEADER)
        if self.run is None or not self.run.read(offset, header):
            (header,) = self._reads.read_ranges([(self._offset + offset, CHUNK_HEADER)])
        return CHUNK_HEADER + (int.from_bytes(bytes(header), "little") >> 1)


def priming_request(streams: Sequence[PlannedStream], *, budget: int) -> list[tuple[PlannedStream, ByteRange]]:
    """The byte ranges to fetch from all streams before decoding starts. They are fetched in one round trip.

    If all planned ranges together fit into ``budget`` bytes, all of them are fetched. Otherwise each stream gets an
    equal share of ``budget``.
    """
    share = budget if planned_bytes(streams) <= budget else budget // len(streams)
    return [(stream, piece) for stream in streams for piece in stream.first_pieces(share)]


def planned_bytes(streams: Iterable[PlannedStream]) -> int:
    """The number of bytes in the plans of these streams."""
    size = 0
    for stream in streams:
        for start, stop in stream.planned:
            size += stop - start
    return size
