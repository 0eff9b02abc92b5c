"""Plans the requests to a remote file, stripe by stripe. Footers and indexes are read ahead, and the number of requests
for data is limited.

A round trip takes tens of milliseconds, as long as reading one or two megabytes. A scan with a predicate or a selection
therefore takes at most ``STRIPE_REQUESTS`` requests for a stripe. One request is for the stripe's footer and index.
Stripes that are adjacent in the file share this request. Another request is for other indexes, and the remaining
requests are for the data. The storage decides how far ranges are joined to stay within this number
(``storage.ranges.join_fetches``)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Sequence
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.fetching.drive import PENDING, Fetch, Pending
from orcidx.fetching.prefetched_range import PrefetchedRange, served
from orcidx.options import ReadOptions
from orcidx.orc.reader import OrcReader
from orcidx.planner.stripe_pruning import FilePruner, StripeDecision

__all__ = ["StripeRequests"]

FILE_REQUESTS = 2
"""The number of requests for the file: one for its tail, and one for the rest of a large tail. If the second request is
not needed, the first stripe may use it."""
STRIPE_REQUESTS = 4
"""The number of requests for each stripe that the statistics of the file and the stripe do not rule out."""
FOOTERS_AHEAD = 8
"""The number of stripes whose footers are read together. Footers are small."""
LARGEST_INDEX_BYTES = 4 << 20
"""The maximum number of bytes of an index section that is read completely with the footer. Larger sections are read
stream by stream after the footer. For small sections, unneeded bytes take less time than further requests and a second
wait. All sections together stay within a quarter of ``io_bytes``."""

FetchSteps = Generator[Fetch | Pending, Any, Any]


class StripeRequests:
    """Reads footers and indexes of a remote file's stripes, and counts the requests for each stripe. ``selective`` says
    whether the scan may leave out rows. Such a scan reads indexes and limits the number of requests."""

    def __init__(self, reader: OrcReader, options: ReadOptions, *, selective: bool) -> None:
        self._reader = reader
        self._options = options
        self._selective = selective
        self._spare = max(0, FILE_REQUESTS - max(1, reader.storage.metrics.requests))
        self._spent: dict[int, int] = {}
        self._indexes: dict[int, PrefetchedRange] = {}
        self._coming: set[int] = set()

    def spend(self, stripe: int, requests: int = 1) -> None:
        """Counts the requests for a stripe."""
        self._spent[stripe] = self._spent.get(stripe, 0) + requests

    def left(self, stripe: int) -> int | None:
        """Returns the number of requests that the stripe's data may take. None means no limit."""
        if not self._selective or self._options.merge_gap is not None:
            return None
        left, self._spare = STRIPE_REQUESTS - self._spent.get(stripe, 0) + self._spare, 0
        return max(1, left)

    def decide(self, stripe: int, alive: Sequence[int], pruner: FilePruner) -> FetchSteps:
        """Prunes a stripe. ``alive`` has the numbers of all stripes to prune, in order."""
        while stripe in self._coming:
            yield PENDING
        if not self._reader.has_footer(stripe):
            yield from self._fetch_ahead(stripe, alive)
        steps = served(pruner.decide(stripe), self._indexes.pop(stripe, None))
        decision = yield from self._counted(stripe, steps, pruner)
        return decision

    # ------------------------------------------------------------------ reading footers and indexes ahead

    def _fetch_ahead(self, stripe: int, alive: Sequence[int]) -> FetchSteps:
        """Reads the footers of the next stripes that are not ruled out, in one request. Small indexes of these stripes
        are read in the same request."""
        place = bisect_left(alive, stripe)
        wanted = alive[place : place + FOOTERS_AHEAD] if stripe in alive else [stripe]
        stripes = [one for one in wanted if not self._reader.has_footer(one) and one not in self._coming]
        stripes, indexed = self._with_indexes(stripes, alive)
        places = [(one, self._reader.footer_range(one)) for one in stripes]
        for one in indexed:
            information = self._reader.stripes[one]
            places.append((one, (information.offset, information.index_length)))
        self._spend_ahead(stripes, indexed)
        self._coming.update(stripes)
        try:
            buffers = yield Fetch(tuple(extent for _, extent in places), "footer")
        finally:
            self._coming.difference_update(stripes)
        for (one, (offset, _)), buffer in zip(places, buffers, strict=True):
            if offset == self._reader.stripes[one].offset:
                self._indexes[one] = PrefetchedRange(offset, buffer)
            elif one == stripe:
                self._reader.put_footer(one, buffer)
            else:
                self._put_if_sound(one, buffer)

    def _with_indexes(self, stripes: list[int], alive: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns two lists: the stripes whose footers are read, and the stripes whose indexes are read. Only small
        indexes are read, as long as they fit in the budget. The second list may include the stripe after the last
        footer, because its index is adjacent to that footer."""
        if not self._selective:
            return stripes, []
        left = self._options.io_bytes // 4
        indexed: list[int] = []
        after = stripes[-1] + 1
        beside = after in alive and after not in self._coming
        for place, one in enumerate([*stripes, after] if beside else stripes):
            size = 0 if one in self._indexes else self._reader.stripes[one].index_length
            if not 0 < size <= LARGEST_INDEX_BYTES:
                continue
            if size > left:
                return (stripes[:place], indexed) if place else (stripes, indexed)
            left -= size
            indexed.append(one)
        return stripes, indexed

    def _spend_ahead(self, stripes: Sequence[int], indexed: Sequence[int]) -> None:
        """Counts the requests for footers and indexes that are read ahead. A footer and the index of the next stripe
        form one range, and the first index is a separate range."""
        for one in stripes:
            requests = 2 if one in indexed and one - 1 not in stripes else 1
            if requests == 2 and self._spare:
                self._spare -= 1
                requests = 1
            self.spend(one, requests)

    def _put_if_sound(self, stripe: int, buffer: memoryview) -> None:
        """Parses the footer of a later stripe. A damaged footer is ignored here. The error is raised when the stripe is
        read."""
        try:
            self._reader.put_footer(stripe, buffer)
        except (CorruptFile, Unsupported):
            self._indexes.pop(stripe, None)

    # ------------------------------------------------------------------ the remaining requests of pruning

    def _counted(self, stripe: int, steps: Generator[Fetch, Any, StripeDecision], pruner: FilePruner) -> FetchSteps:
        """Runs the steps of pruning a stripe, with one request for each step. Bloom filters that may be needed are
        fetched together with the row index."""
        most = 1 if self._options.merge_gap is None else None
        held: dict[tuple[int, int], Any] = {}
        asked = False
        answer: Any = None
        while True:
            try:
                item = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            known = [held.get(one) for one in item.ranges]
            if None not in known:
                answer = known
                continue
            beside: list[tuple[int, int]] = []
            if item.what == "index" and not asked:
                beside = [one for one in pruner.bloom_places(stripe) if one not in item.ranges]
            asked = True
            self.spend(stripe)
            found = yield Fetch((*item.ranges, *beside), item.what, most)
            held.update(zip(beside, found[len(item.ranges) :], strict=True))
            answer = found[: len(item.ranges)]
