"""Fetches the bytes of a stripe's streams according to a plan, and holds them in pieces.

A ``PlannedStream`` has a list of the byte ranges that will be needed from its stream, and loads these ranges piece by
piece. For a stripe of any size, it holds at most two pieces at a time: the current piece (``read_ahead`` bytes) and the
previous piece. ``StripeBytes`` opens the streams of one stripe and fetches the first pieces of many streams by one
request. So a small stripe, or a few row groups of a large stripe, need only one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile
from orcidx.orc.compression import CHUNK_HEADER
from orcidx.orc.footers import StreamTable
from orcidx.storage.local_file import LocalFile, PieceRun
from orcidx.threads.tasks import Task
from orcidx.threads.waiting import Tally

__all__ = ["Ahead", "PlannedStream", "StripeBytes", "planned_bytes", "priming_request"]

Range = tuple[int, int]
ReadRanges = Callable[[Sequence[Range]], Sequence[object]]
ReadInto = Callable[[int, Sequence[memoryview]], None]

DEMAND_BYTES = 8 << 10
"""The bytes of a read that was not planned. Such a read fetches the rest of a run, which is short. The number equals
the default ``merge_gap`` of local files."""


@dataclass(slots=True)
class _Piece:
    start: int
    data: memoryview

    @property
    def stop(self) -> int:
        return self.start + len(self.data)


class Ahead:
    """Starts requests for the next pieces of a stripe's streams. At any time, at most ``most`` bytes are requested and
    not used yet.

    ``start``: a function that requests a list of (offset, length) pairs and returns a future of the buffers.
    """

    def __init__(self, start: Callable[[Sequence[Range]], Task[Any]], *, most: int) -> None:
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


class PlannedStream:
    """One stream of a stripe as a source for a ``Window``. Offsets count from the start of the stream.

    ``framed``: whether the stream has compression chunks and each planned range ends where a chunk begins. If so, bytes
    after the range are read one chunk at a time, and the chunk's header gives the length. In an uncompressed stream,
    bytes after the range are read ``demand`` bytes at a time. ``read_into`` and ``local_file`` are both given for a
    local file. ``ahead`` is given for any other storage. After each read, ``ahead`` requests the next piece before that
    piece is needed.
    """

    def __init__(
        self,
        read_ranges: ReadRanges,
        *,
        offset: int,
        length: int,
        read_ahead: int,
        framed: bool = False,
        demand: int = DEMAND_BYTES,
        read_into: ReadInto | None = None,
        local_file: LocalFile | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.length = length
        # The pieces of a local file are read into one buffer. Inside the range that the source has planned, the window
        # itself reads the next piece into this buffer.
        self.run = None if local_file is None else PieceRun(local_file, file_offset=offset, step=read_ahead)
        self._framed = framed
        self._demand = demand
        self._read_ranges = read_ranges
        self._read_into = read_into
        self._offset = offset
        self._read_ahead = read_ahead
        self._plan: list[Range] = []
        self._pieces: list[_Piece] = []
        self._room = memoryview(b"")
        self._ahead = ahead
        self._coming: tuple[Range, Task[Any]] | None = None

    def plan(self, ranges: Iterable[Range]) -> None:
        """Replaces the plan. ``ranges``: the ranges (start, stop) that will be needed next, in order, relative to the
        stream."""
        self._plan = list(ranges)
        if self.run is not None:
            self.run.forbid()

    def first_piece(self) -> Range | None:
        """The range (start, stop) that the first request should fetch. None if the bytes are in memory or if nothing is
        planned."""
        if not self._plan:
            return None
        start, stop = self._plan[0]
        if any(piece.start <= start < piece.stop for piece in self._pieces):
            return None
        return start, min(stop, start + self._read_ahead)

    def first_pieces(self, budget: int) -> list[Range]:
        """All planned ranges if they fit into ``budget`` bytes together, otherwise only the first piece."""
        if sum(stop - start for start, stop in self._plan) <= budget:
            return [
                (start, stop)
                for start, stop in self._plan
                if not any(piece.start <= start and stop <= piece.stop for piece in self._pieces)
            ]
        first = self.first_piece()
        return [first] if first else []

    def absolute(self, piece: Range) -> Range:
        """Converts a range (start, stop) of the stream to (offset, length) in the file."""
        return self._offset + piece[0], piece[1] - piece[0]

    def put(self, start: int, data: object) -> None:
        """Stores fetched bytes of the stream. ``start``: their offset in the stream."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        self._pieces.append(_Piece(start, view))
        if self.run is not None:
            self.run.forbid()

    @property
    def planned(self) -> list[Range]:
        """The planned (start, stop) pairs, relative to the stream."""
        return self._plan

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
        if self.run is not None and self._read_into is not None:
            return self._from_room(offset, self.run, self._read_into)
        self._pieces = [piece for piece in self._pieces if piece.start > offset]
        start, data = self._arrived(offset)
        if data is None:
            (data,) = self._read_ranges([(self._offset + offset, self._piece_end(offset) - offset)])
        self.put(start, data)
        self._ask_ahead(self._pieces[-1].stop)
        return self._pieces[-1].data[offset - start :]

    def _arrived(self, offset: int) -> tuple[int, Any]:
        """Returns the start and the bytes of the piece that was requested ahead, if the piece contains ``offset``.
        Otherwise cancels the request, and returns None for the bytes."""
        if self._coming is None or self._ahead is None:
            return offset, None
        (start, stop), future = self._coming
        if not start <= offset < stop:
            self.close()
            return offset, None
        self._coming = None
        self._ahead.take(stop - start)
        return start, future.result()[0]

    def _ask_ahead(self, after: int) -> None:
        """Requests the next planned piece from offset ``after`` on, unless this piece was already read."""
        if self._ahead is None or self._coming is not None:
            return
        start, stop = next(((max(a, after), b) for a, b in self._plan if after < b), (0, 0))
        stop = min(stop, start + self._read_ahead)
        if start >= stop or any(piece.start < stop and start < piece.stop for piece in self._pieces):
            return
        future = self._ahead.start(self._offset + start, stop - start)
        if future is not None:
            self._coming = (start, stop), future

    def close(self) -> None:
        """Drops the pieces that were requested ahead."""
        if self._coming is not None and self._ahead is not None:
            (start, stop), future = self._coming
            self._coming = None
            future.cancel()
            self._ahead.take(stop - start)

    def _from_room(self, offset: int, run: PieceRun, read_into: ReadInto) -> memoryview:
        """The bytes from ``offset`` in the reused buffer. If these bytes are not in the buffer, a piece is first read
        into the buffer. The buffer is reused because its memory is still in the processor's cache."""
        if run.at <= offset < run.at + run.held:
            return self._room[offset - run.at : run.held]
        self._pieces.clear()
        length = self._piece_end(offset) - offset
        if len(self._room) < length:
            self._room = memoryview(pa.allocate_buffer(length)).cast("B")
        view = self._room[:length]
        run.allow(0, 0, room=self._room, at=0, held=0)  # if reading fails, the buffer has no bytes
        if not run.read(offset, view):
            read_into(self._offset + offset, [view])  # raises the error
        for start, stop in self._plan:
            if start <= offset < stop:
                run.allow(start, stop, room=self._room, at=offset, held=length)
                return view
        run.allow(0, 0, room=self._room, at=offset, held=length)
        return view

    def read_into(self, offset: int, parts: Sequence[memoryview]) -> int:
        """Fills ``parts`` one after the other from ``offset``, without keeping the bytes.

        Returns the number of bytes that were read. Returns 0 if the storage does not support such reads, or if a held
        piece already has the bytes. All of the bytes must be inside the stream.
        """
        size = sum(map(len, parts))
        if self._read_into is None or any(piece.stop >= offset + size for piece in self._pieces):
            return 0
        if self.run is not None and self.run.at <= offset and offset + size <= self.run.at + self.run.held:
            return 0
        self._pieces.clear()
        self._read_into(self._offset + offset, parts)
        return size

    def _piece_end(self, offset: int) -> int:
        for start, stop in self._plan:
            if start <= offset < stop:
                end = min(stop, offset + self._read_ahead)
                break
        else:  # A run or a chunk ends after the planned range.
            end = min(self.length, offset + (self._chunk_bytes(offset) if self._framed else self._demand))
        for piece in self._pieces:
            if piece.start > offset:
                end = min(end, piece.start)
        return end

    def _chunk_bytes(self, offset: int) -> int:
        """The size of the chunk whose header is at ``offset``, including the header. The header has 3 bytes, which
        contain a flag and twice the length of the rest of the chunk."""
        if self.length - offset < CHUNK_HEADER:
            return CHUNK_HEADER
        header: Any = bytearray(CHUNK_HEADER)
        if self.run is None or not self.run.read(offset, header):
            (header,) = self._read_ranges([(self._offset + offset, CHUNK_HEADER)])
        return CHUNK_HEADER + (int.from_bytes(bytes(header), "little") >> 1)


@dataclass(frozen=True)
class StripeBytes:
    """The streams of one stripe by (column id, stream kind).

    ``extents``: absolute offset and length of each existing stream. ``read_into(offset, parts)`` fills buffers, one
    after the other, from the file. It is given only for storage where a small read takes little time. ``local_file``:
    the same file for readers in C. ``ahead``: starts requests to a remote file before the bytes are needed.
    """

    read_ranges: ReadRanges
    extents: StreamTable
    read_ahead: int
    framed: bool = False
    demand: int = DEMAND_BYTES
    read_into: ReadInto | None = None
    local_file: LocalFile | None = None
    ahead: Ahead | None = None

    def stream(self, column: int, kind: int) -> PlannedStream:
        """A source for one stream. It is empty if the stream does not exist."""
        offset, length = self.extents.get((column, kind), (0, 0))
        return PlannedStream(
            self.read_ranges,
            offset=offset,
            length=length,
            read_ahead=self.read_ahead,
            framed=self.framed,
            demand=self.demand,
            read_into=self.read_into,
            local_file=self.local_file,
            ahead=self.ahead,
        )


def priming_request(streams: Sequence[PlannedStream], *, budget: int) -> list[tuple[PlannedStream, Range]]:
    """The byte ranges to fetch from all streams before decoding starts. They are fetched in one round trip.

    If all planned ranges together fit into ``budget`` bytes, all of them are fetched. Otherwise each stream gets an
    equal share of ``budget``.
    """
    share = budget if planned_bytes(streams) <= budget else budget // len(streams)
    return [(stream, piece) for stream in streams for piece in stream.first_pieces(share)]


def planned_bytes(streams: Iterable[PlannedStream]) -> int:
    """The number of bytes in the plans of these streams."""
    return sum(stop - start for stream in streams for start, stop in stream.planned)
