"""``DecodeAhead``: decodes the columns of a stripe in several threads. The rows are decoded in spans. A span is a range
of consecutive rows.

While the caller waits for a span or uses it, threads decode the following spans. There is one task for each column of
each span. The tasks of a column run one after the other, but columns do not wait for each other. Decoding ahead never
changes the result, because the size of a span depends only on the rows before the span (``stripe_reader``). If a task
fails, or if the columns of a span are too large together, everything that was decoded ahead is dropped. The caller's
thread then reads the columns of the failed span one after the other.

The matching rows of a span are known after the predicate has been evaluated. Decoding of the columns that are not in
the predicate then starts (``begin``). These columns have priority over later spans of the predicate's columns, which
are not needed yet.

If there are fewer columns than threads, the threads without a column first decompress the next chunks of the columns
(``orc/chunks_ahead``). These threads start to decode a span only when no chunk is left to decompress. This happens only
if the caller is slower than these threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import pyarrow as pa

from orcidx.orc.column_readers import Claims
from orcidx.scanner.chains import Chains, Round
from orcidx.scanner.column_cursor import ColumnCursor, CursorPlace, Work
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.kept_columns import KeptColumn

__all__ = ["DecodeAhead"]

RESERVE_FACTOR = 2
LEAST_RESERVED_BYTES = 1 << 18
"""A span reserves ``RESERVE_FACTOR`` times its expected bytes, but at least ``LEAST_RESERVED_BYTES``. Small spans get
more, because the sizes of few rows vary more. If a span takes more than its reservation, it is read in order, and no
further span of its stripe is decoded ahead."""

FEW_VALUES = 1 << 16
"""If the last span has fewer values than this number, the caller decodes the span itself. Decoding so few values takes
less than a millisecond."""

CHUNK_BYTES = 4 << 20
"""The largest part of the memory for decoding ahead that threads without a column may use for chunks. For texts, 2 MiB
are 2 % slower, 1 MiB is 15 % slower, and 8 MiB are no faster (decision 0060)."""

Cursors = Sequence[ColumnCursor]


@dataclass(eq=False)
class _Span:
    """A range of rows of some columns, and the state of its decoding. ``reserved``: the maximum number of bytes that
    the rows may take. ``places``: where each column was before its task began. ``kept``: the rows that are kept.
    None means that all rows are kept."""

    columns: Cursors
    start: int
    rows: int
    reserved: int
    claims: Claims
    done: list[Work]
    places: list[CursorPlace | None]
    kept: KeptRows | None = None
    round: Round | None = None


class DecodeAhead:
    """Decodes spans of a stripe's columns. ``most``: the maximum number of bytes that are decoded but not used yet. The
    span that the caller takes next is not counted. ``batch_bytes``: the maximum number of bytes of one span. The object
    must be used by one thread only, and must be closed before the file."""

    def __init__(self, columns: Cursors, *, threads: int, most: int, batch_bytes: int) -> None:
        self._numbers = {cursor: number for number, cursor in enumerate(columns)}
        self._chains = Chains([cursor.stored_bytes for cursor in columns], threads)
        self._most = most
        self._batch_bytes = batch_bytes
        self._spans: deque[_Span] = deque()
        self._behind: list[_Span] = []
        self._goes_on = False
        self._threads = threads
        self.wasted: Work = (0, 0)
        """After ``close``: the chunks and bytes that were decompressed but not used."""

    def expect(self, columns: Cursors, spans: Sequence[tuple[int, int]], row_bytes: float) -> None:
        """Announces the spans (start, stop) for which ``take`` will be called. The caller must call ``take`` for the
        first of these spans immediately. Threads start to decode as many spans as fit into the memory.

        ``row_bytes``: the expected number of bytes of a row of these columns.
        """
        if not self._goes_on:
            self._goes_on = True
            for cursor in columns:  # safe, because no thread reads these columns now
                for chunks in cursor.chunks_ahead:
                    chunks.go_on()
        ahead = [(span.start, span.start + span.rows) for span in self._spans if span.columns is columns]
        if len(ahead) != len(self._spans) or ahead != list(spans)[: len(ahead)]:
            self.drop()
        if self._is_alone and not self._chains.caller_is_back():
            return
        known = len(self._spans)
        used = sum(span.reserved for span in [*list(self._spans)[1:], *self._behind])
        for number, (start, stop) in enumerate(spans):
            reserved = min(self._batch_bytes, _reserved(stop - start, row_bytes)) if number else self._batch_bytes
            if number < known:
                continue
            if number and used + reserved > self._most:
                break
            used += reserved if number else 0
            self._begin(columns, start, stop - start, reserved)
        self._chains.start_early()

    def begin(self, columns: Cursors, start: int, kept: KeptRows, row_bytes: float) -> None:
        """Starts decoding the kept rows of some other columns, for which no spans were announced. Does nothing if there
        is not enough memory. ``take`` returns these rows later."""
        reserved = min(self._batch_bytes, _reserved(len(kept), row_bytes))
        if sum(span.reserved for span in self._behind) + reserved <= self._most and not self._is_alone:
            self._behind.append(self._begin(columns, start, len(kept), reserved, kept))
            self._spans.pop()
            self._chains.start_early()

    def decompress(self, columns: Cursors, *, whole: bool) -> None:
        """Lets threads without a column decompress the next chunks. ``whole``: whether all rows of the stripe will be
        read."""
        if self._threads <= len(columns):
            return
        memory = min(CHUNK_BYTES, self._most // 4)
        for cursor in columns:
            cursor.decompress_ahead(self._chains.ask, memory=memory // len(columns), whole=whole)
        self._chains.chunks = [one for cursor in columns for one in cursor.chunks_ahead]
        if self._chains.chunks:
            self._most -= memory

    @property
    def has_room(self) -> bool:
        return self._most > 0

    def take(
        self, groups: Sequence[Cursors], start: int, rows: int, kept: KeptRows | None = None
    ) -> list[list[pa.Array | KeptColumn]] | None:
        """Returns the rows of all columns, as one list for each group of columns. Returns None if the caller must read
        the columns one after the other. Nothing is then decoded ahead.

        ``kept``: the wanted rows. They are returned as ``KeptColumn``. These rows are decoded now unless ``begin`` was
        called for them. If spans of other columns were decoded ahead, these spans are not dropped."""
        if not (self._spans or self._behind) and rows * sum(map(len, groups)) < FEW_VALUES:
            return None
        if not self._spans and self._is_alone and kept is None:
            return self._read_here(groups, start, rows)
        parts = [self._of(columns, start, rows, kept) for columns in groups]
        rounds = [part.round for part in parts if part.round is not None]
        for one in rounds:
            self._chains.finish(one)
        if any(one.errors for one in rounds) or sum(part.claims.sum for part in parts) > self._batch_bytes:
            # These spans are dropped, and the caller reads their rows again. Nothing more is decoded ahead, so that the
            # rows of the following spans are not decoded twice either.
            self._most = 0
            self._spans.extend(parts)
            self.drop()
            return None
        for part in parts:
            part.round = None
        return [one.results for one in rounds]

    @property
    def _is_alone(self) -> bool:
        return len(self._numbers) == 1

    def _read_here(self, groups: Sequence[Cursors], start: int, rows: int) -> list[list[pa.Array]]:
        """Reads in the caller's thread without creating tasks. In a measurement with one column of integers, a single
        task took a sixth of the whole time (decision 0060)."""
        claims = Claims()
        try:
            return [[cursor.read(start, rows, self._batch_bytes, claims) for cursor in columns] for columns in groups]
        finally:
            self._chains.caller_leaves()

    def _of(self, columns: Cursors, start: int, rows: int, kept: KeptRows | None) -> _Span:
        """Returns the span for these rows. This is the next announced span, or a span that ``begin`` has started. If
        neither has these rows, a new span is started."""
        for place, span in enumerate(self._behind):
            if kept is not None and span.kept is kept:
                return self._behind.pop(place)
        if any(span.columns is columns for span in self._behind):  # the caller reads half of a span that was too large
            self.drop()
        if kept is None and self._spans and self._spans[0].columns is columns:
            span = self._spans[0]
            if (span.start, span.rows) == (start, rows):
                self._spans.popleft()
                return span
            self.drop()
        span = self._begin(columns, start, rows, self._batch_bytes, kept)
        self._spans.pop()
        return span

    def _begin(self, columns: Cursors, start: int, rows: int, reserved: int, kept: KeptRows | None = None) -> _Span:
        span = _Span(columns, start, rows, reserved, Claims(), [(0, 0)] * len(columns), [None] * len(columns), kept)
        tasks: list[Callable[[], pa.Array | KeptColumn]] = [
            partial(self._decode, span, place, cursor) for place, cursor in enumerate(columns)
        ]
        urgent = kept is not None  # the caller waits for these few columns, so they are decoded first
        span.round = self._chains.add([self._numbers[cursor] for cursor in columns], tasks, urgent=urgent)
        self._spans.append(span)
        return span

    @staticmethod
    def _decode(span: _Span, place: int, cursor: ColumnCursor) -> pa.Array | KeptColumn:
        chunks, size = cursor.work
        span.places[place] = cursor.place
        try:
            if span.kept is not None:
                return cursor.read_kept(span.start, span.kept, span.reserved, span.claims)
            return cursor.read(span.start, span.rows, span.reserved, span.claims)
        finally:
            after = cursor.work
            span.done[place] = after[0] - chunks, after[1] - size

    def drop(self) -> None:
        """Waits until all running tasks have ended, and drops everything that was decoded ahead. Each column goes back
        to where it was before."""
        self._chains.close()
        places: dict[ColumnCursor, CursorPlace] = {}
        spans = sorted((*self._spans, *self._behind), key=attrgetter("start"))  # in the order of their rows
        for span in spans:
            for cursor, place, work in zip(span.columns, span.places, span.done):
                if place is not None:
                    cursor.go_back(places.setdefault(cursor, place), work)
            if span.round is not None:
                span.round.errors.clear()
                span.round = None  # breaks a reference cycle: the chain holds the tasks, and the tasks hold the span
        self._spans.clear()
        self._behind.clear()

    def close(self) -> None:
        """Ends decoding. The caller must call this method when the stripe is finished or abandoned."""
        self.drop()
        self._chains.chunks = ()
        for cursor in self._numbers:
            cursor.close()
        done = [cursor.wasted for cursor in self._numbers]
        self.wasted = sum(chunks for chunks, _ in done), sum(size for _, size in done)


def _reserved(rows: int, row_bytes: float) -> int:
    return max(LEAST_RESERVED_BYTES, int(rows * row_bytes * RESERVE_FACTOR))
