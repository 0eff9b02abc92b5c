"""Decides when the parts of a stripe's data are fetched, and in how many requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from orcidx.fetching.byte_budget import Share
from orcidx.fetching.drive import PENDING, Fetch, Pending
from orcidx.options import ReadOptions
from orcidx.orc.reader import OpenStripe
from orcidx.orc.stripe_streams import PlannedStream, planned_bytes, priming_request
from orcidx.storage.ranges import over_read_bytes

__all__ = ["LOCAL_PIECE_BYTES", "DataFetches", "piece_bytes"]

JOINED_BYTES = 1 << 20
"""At most this many bytes of other columns are fetched from a remote file together with the predicate's columns,
instead of by a separate request."""
JOINED_OVER_READ_BYTES = 4 << 20
"""The other columns are fetched together with the predicate's columns only if at most this many bytes between the
ranges are also read."""

SMALLEST_PIECE_BYTES = 64 << 10
LARGEST_PIECE_BYTES = 1 << 19
"""The minimum and the maximum number of bytes of one stream that are fetched at a time, if a stripe is too large to be
fetched completely."""

LOCAL_PIECE_BYTES = 1 << 18
LOCAL_BYTES = 1 << 20
"""The maximum number of bytes of one stream of a local file that are read at a time. A piece may have more than
``LOCAL_PIECE_BYTES`` bytes only if the pieces of all columns together have at most ``LOCAL_BYTES`` bytes. Small pieces
stay in the processor's cache, which saves more time than fewer reads. If a column is read alone, its pieces may have
``LOCAL_BYTES`` bytes, because threads share the chunks of one piece (docs/decisions/0060)."""

DataSteps = Generator[Fetch | Pending, Sequence[object] | None, None]


def piece_bytes(columns: int, options: ReadOptions, *, is_local: bool) -> int:
    """Returns the number of bytes of one stream to fetch at a time. With this number, the pieces of all columns
    together stay within the budget."""
    largest = LARGEST_PIECE_BYTES
    if is_local:
        largest = max(LOCAL_PIECE_BYTES, LOCAL_BYTES // max(1, columns))
    return max(SMALLEST_PIECE_BYTES, min(largest, options.io_bytes // (4 * max(1, columns))))


@dataclass
class DataFetches:
    """Fetches the planned data of one stripe.

    ``requests`` is the number of requests that are left for the stripe. None means no limit. Some of these requests are
    for the predicate's columns, and the rest are for the other columns. The last request fetches all data that may
    still be needed. ``share`` is the part of the scan's byte budget that this stripe may use."""

    stripe: OpenStripe
    options: ReadOptions
    requests: int | None
    share: Share

    def fetch_first(self, first: list[PlannedStream], others: Callable[[], list[PlannedStream]] | None) -> DataSteps:
        """Fetches the predicate's columns. The other columns, planned by ``others``, are fetched in the same request in
        two cases: the larger request takes less time than a later round trip, or this is the last request. If
        ``others`` is None, there are no other columns."""
        if self.stripe.is_local or others is None:
            yield from self.fetch(first)
            return
        rest = others()
        most = self._share_of(first, rest)
        yield from self.fetch(first, most=most) if most else self.fetch(first + rest)

    def _share_of(self, first: list[PlannedStream], rest: list[PlannedStream]) -> int:
        """Returns how many requests for the predicate's columns lead to the fewest unneeded bytes. The result is 0 if
        all columns are fetched together."""
        needed = planned_bytes(rest)
        if self.requests is None:
            return 0 if needed <= JOINED_BYTES else 1
        left = self.requests
        together = self._over_read(first + rest, left)
        if left == 1 or (needed <= JOINED_BYTES and together <= JOINED_OVER_READ_BYTES):
            return 0
        alone = {most: self._over_read(first, most) for most in range(1, left)}
        share = min(alone, key=lambda most: alone[most] + self._over_read(rest, left - most))
        return 0 if together + needed <= alone[share] else share

    def _over_read(self, streams: list[PlannedStream], most: int) -> int:
        """Returns the number of bytes between the planned ranges that are also read if the ranges are read in at most
        ``most`` requests."""
        places = [stream.absolute(piece) for stream in streams for piece in stream.planned]
        return over_read_bytes(places, most=most, options=self.options)

    def fetch(self, streams: list[PlannedStream], *, most: int | None = None) -> DataSteps:
        """Fetches the planned ranges, in at most ``most`` requests. If ``most`` is None, all remaining requests may be
        used."""
        # A local file is read piece by piece, because a small piece stays in the processor's cache. A remote file is
        # read in few requests, because fewer round trips save more time.
        if self.stripe.is_local:
            return
        needed = planned_bytes(streams)
        while (budget := self.share.room(needed, whole=self.requests is not None)) is None:
            yield PENDING
        wanted = priming_request(streams, budget=budget)
        if not wanted:
            return
        self.share.held += sum(stop - start for _, (start, stop) in wanted)
        if self.requests is not None:
            most = min(most or self.requests, self.requests) or 1
            self.requests = max(0, self.requests - most)
        # If the budget is too small, only the first piece of each stream is fetched now. With a limit on the number of
        # requests, the bytes between these pieces would be fetched, too. They would be dropped now and fetched again
        # later. So there is no limit in this case.
        limit = None if self.requests is None or needed > budget else most
        buffers = yield Fetch(tuple(stream.absolute(piece) for stream, piece in wanted), "data", limit)
        assert buffers is not None
        for (stream, piece), buffer in zip(wanted, buffers, strict=True):
            stream.put(piece[0], buffer)
