"""``Prefetcher``: the next ranges are on their way while the caller works on the last ones."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from orcidx.options import ReadOptions
from orcidx.storage.ranges import Range, RangeReader, merge_limits, merge_ranges, start_read

__all__ = ["Fetch", "Prefetcher"]


@dataclass(frozen=True)
class Fetch:
    """Ranges of one reader that are needed together; ``tag`` is the caller's own."""

    reader: RangeReader
    ranges: tuple[Range, ...]
    tag: Any = None


@dataclass
class _Started:
    fetch: Fetch
    weight: int
    future: Future[list[memoryview]]


class Prefetcher:
    """Iterates over ``(fetch, buffers)`` in the order of ``fetches``, reading ahead within ``options.io_bytes``.

    The budget holds everything that is on its way, waiting to be taken, or taken last (it counts as used until the next
    one is asked for), in bytes after merging. A fetch larger than the budget goes alone. Besides the one being waited
    for or worked on, at most ``ahead`` are under way or waiting; 0 reads nothing ahead. ``fetches`` is consumed lazily,
    in the caller's thread.

    Use it in one thread or in one event loop (``async for``). An error surfaces when its turn comes and ends the
    iteration. ``close`` (or leaving the ``with`` block) cancels what is under way; readers are left open.
    ``seconds_waiting`` is the time that the caller had to wait for the storage.
    """

    def __init__(self, fetches: Iterable[Fetch], *, options: ReadOptions | None = None, ahead: int = 4) -> None:
        self._options = options or ReadOptions()
        self._fetches = iter(fetches)
        self._ahead = ahead
        self._held: tuple[Fetch, int] | None = None  # taken from fetches, but there is no room yet
        self._started: deque[_Started] = deque()
        self._failed: Exception | None = None  # what fetches raised, until the ones before it have been taken
        self._weight = 0
        self._used = 0
        self._closed = False
        self.seconds_waiting = 0.0

    def __iter__(self) -> Iterator[tuple[Fetch, list[memoryview]]]:
        return self

    def __next__(self) -> tuple[Fetch, list[memoryview]]:
        started = self._advance()
        if started is None:
            raise StopIteration
        before = time.perf_counter()
        try:
            buffers = started.future.result()
        except BaseException:
            self.close()
            raise
        self.seconds_waiting += time.perf_counter() - before
        return started.fetch, buffers

    def __aiter__(self) -> Prefetcher:
        return self

    async def __anext__(self) -> tuple[Fetch, list[memoryview]]:
        started = self._advance()
        if started is None:
            raise StopAsyncIteration
        before = time.perf_counter()
        try:
            buffers = await asyncio.wrap_future(started.future)
        except BaseException:
            self.close()
            raise
        self.seconds_waiting += time.perf_counter() - before
        return started.fetch, buffers

    def _advance(self) -> _Started | None:
        """The fetch whose turn it is, after the ones behind it have been started."""
        self._weight -= self._used
        self._used = 0
        try:
            self._fill(max(self._ahead, 1), taken=False)
            if not self._started:
                self._closed = True
                if self._failed is not None:
                    raise self._failed
                return None
            first = self._started.popleft()
            self._used = first.weight
            self._fill(self._ahead, taken=True)
        except BaseException:
            self.close()
            raise
        return first

    def _fill(self, most: int, *, taken: bool) -> None:
        while not self._closed and len(self._started) < most:
            if self._held is None:
                if self._failed is not None:
                    return
                try:
                    fetch = next(self._fetches, None)
                except Exception as error:  # the caller's own planning, whatever it raises
                    if not self._started and not taken:
                        raise
                    self._failed = error  # its turn comes after those that were planned before
                    return
                if fetch is None:
                    return
                self._held = fetch, self._weigh(fetch)
            fetch, weight = self._held
            if self._weight and self._weight + weight > self._options.io_bytes:
                return
            self._held = None
            self._started.append(_Started(fetch, weight, start_read(fetch.reader, fetch.ranges)))
            self._weight += weight

    def _weigh(self, fetch: Fetch) -> int:
        gap, size = merge_limits(self._options, is_local=fetch.reader.is_local)
        return sum(merged.length for merged in merge_ranges(fetch.ranges, gap=gap, size=size))

    def close(self) -> None:
        """Cancels everything under way and waits for what cannot be cancelled."""
        self._closed = True
        self._held = self._failed = None
        started, self._started = self._started, deque()
        self._weight = self._used = 0
        wait([one.future for one in started if not one.future.cancel()])

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        for one in getattr(self, "_started", ()):
            one.future.cancel()
