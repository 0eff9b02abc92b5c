"""Encodes row groups of one column in parallel. Each lane encodes some row groups, and the column takes over their
results in order.

Runs end with row groups, so the bytes of a row group do not depend on the row groups before it. Lanes keep their
encoded bytes uncompressed. The column's streams join the bytes of all lanes. Then the chunks are also compressed in
parallel. The file has the same bytes as without lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from orcidx.orc.kinds import TypeKind
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.column_tree import ColumnWriter, Piece
from orcidx.orc_writer.text import TextColumn
from orcidx.threads.tasks import Pool

__all__ = ["Lanes", "SplitRows", "split_rows"]

LARGE_DICTIONARY = 4096
"""The most entries of a dictionary for which lanes are used. With more entries, joining dictionaries takes more time
than lanes save. Each lane looks up its texts, and the column looks them up again (decision 0041)."""

_SLOW = frozenset(
    {
        TypeKind.STRING,
        TypeKind.CHAR,
        TypeKind.VARCHAR,
        TypeKind.BINARY,
        TypeKind.DOUBLE,
        TypeKind.DECIMAL,
        TypeKind.TIMESTAMP,
        TypeKind.TIMESTAMP_INSTANT,
    }
)
"""Types for which encoding a row group takes longer than switching threads under the GIL (decision 0041)."""


@dataclass(frozen=True)
class SplitRows:
    """The parts of a slice: the rest of an open row group, shares of whole row groups, and the beginning of a row
    group."""

    head: Sequence[Piece]
    shares: Sequence[Sequence[Piece]]
    tail: Sequence[Piece]


def split_rows(pieces: Sequence[Piece], *, first_alone: bool, shares: int) -> SplitRows:
    """Divides whole row groups into shares of about equal size. ``first_alone``: the first row group is written by
    itself. This is needed if a row group is open. It is also needed at the beginning of a stripe, because the first row
    group of a stripe decides whether texts have a dictionary."""
    head = pieces[:1] if first_alone else pieces[:0]
    tail = pieces[-1:] if len(pieces) > len(head) and not pieces[-1].ends_group else pieces[:0]
    whole = pieces[len(head) : len(pieces) - len(tail)]
    count = min(shares, len(whole))
    bounds = [len(whole) * i // max(1, count) for i in range(count + 1)]
    return SplitRows(head, [whole[bounds[i] : bounds[i + 1]] for i in range(count)], tail)


class Lanes:
    """The lanes of one column. ``open_lane`` makes a writer whose streams keep their bytes uncompressed."""

    def __init__(self, writer: ColumnWriter, open_lane: Callable[[], ColumnWriter]) -> None:
        self.writer = writer
        self._open_lane = open_lane
        self._lanes: list[ColumnWriter] = []

    @property
    def pays(self) -> bool:
        """Whether lanes are faster than the column alone. The result depends on the column's type and on the size of
        its dictionary so far."""
        columns = self.writer.walk()
        texts = [one.column for one in columns if isinstance(one.column, TextColumn)]
        if any(column.dictionary_size > LARGE_DICTIONARY for column in texts):
            return False
        return any(one.node.kind in _SLOW for one in columns)

    def encode(
        self, array: pa.Array, shares: Sequence[Sequence[Piece]], write: Callable[..., None]
    ) -> list[Callable[[], None]]:
        """Returns one task for each share. A task calls ``write(writer, array, pieces, first)``. ``first`` is the
        number of the share's first row."""
        while len(self._lanes) < len(shares):
            self._lanes.append(self._open_lane())
        tasks: list[Callable[[], None]] = []
        for lane, pieces in zip(self._lanes, shares, strict=False):
            _follow(lane, self.writer)
            start, stop = pieces[0].start, pieces[-1].stop
            moved = [replace(piece, start=piece.start - start, stop=piece.stop - start) for piece in pieces]
            tasks.append(partial(write, lane, array.slice(start, stop - start), moved, start))
        return tasks

    def join(self, count: int) -> None:
        """Appends the row groups that the first ``count`` lanes encoded to the column."""
        for lane in self._lanes[:count]:
            self.writer.take_over(lane)
            for one in lane.walk():
                one.clear()

    def streams(self) -> list[OutStream]:
        """Returns the streams whose chunks must still be compressed."""
        return [stream for one in self.writer.walk() for _, stream, _ in one.column.streams]


def _follow(lane: ColumnWriter, writer: ColumnWriter) -> None:
    for one, other in zip(lane.walk(), writer.walk(), strict=True):
        if isinstance(one.column, TextColumn) and isinstance(other.column, TextColumn):
            one.column.follow(other.column)


def compress_waiting(streams: Sequence[OutStream], pool: Pool, threads: int) -> None:
    """Compresses the full chunks of several streams in several threads, and ends these chunks. The chunks contain
    encoded bytes that were added to the streams without compression."""
    counts = [(stream, stream.waiting_chunks()) for stream in streams]
    waiting = [(stream, number) for stream, count in counts for number in range(count)]
    for probes in (True, False):
        chosen = [one for one in waiting if one[0].is_probe(one[1]) is probes]
        pool.run_all([partial(_compress_chunks, chosen[i::threads]) for i in range(min(threads, len(chosen)))])
    for stream in streams:
        stream.cut()


def _compress_chunks(chunks: Sequence[tuple[OutStream, int]]) -> None:
    for stream, number in chunks:
        stream.squeeze(number)
