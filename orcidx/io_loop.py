"""Loops that do the I/O for generators of ``Fetch`` requests: in the caller's thread, awaited, and ahead of time.

A step generator yields ``Fetch`` and gets the buffers sent back; whatever else it yields is a result. It never waits
by itself, so the same planning and decoding code serves all three.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

__all__ = ["Ahead", "Fetch", "RangeSource", "run", "run_async", "run_in_turn", "run_value"]

T = TypeVar("T")
Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Fetch:
    """A request for bytes: (offset, length) pairs in the file. The answer is their buffers, in order.

    ``what``: "footer", "index", "bloom" or "data"; decoding starts when data arrives.
    """

    ranges: tuple[tuple[int, int], ...]
    what: str


class RangeSource(Protocol):
    """The part of a range reader that the loops use."""

    def read_ranges(self, ranges: Ranges) -> list[Any]: ...

    async def aread_ranges(self, ranges: Ranges) -> list[Any]: ...


def run(steps: Generator[Any, Any, Any], source: RangeSource) -> Iterator[Any]:
    """The results of a step generator; requests are answered in the caller's thread."""
    answer: Any = None
    try:
        while True:
            item = steps.send(answer)
            answer = None
            if isinstance(item, Fetch):
                answer = source.read_ranges(item.ranges)
            else:
                yield item
    except StopIteration:
        return
    finally:
        steps.close()


def run_value(steps: Generator[Any, Any, T], source: RangeSource) -> T:
    """What a step generator that yields only requests returns."""
    answer: Any = None
    while True:
        try:
            item = steps.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = source.read_ranges(item.ranges)


async def run_async(steps: Generator[Any, Any, Any], source: RangeSource) -> AsyncIterator[Any]:
    """Like ``run``: requests are awaited, and the decoding between them runs in a thread, off the event loop."""
    done = object()

    def send(value: Any) -> Any:
        try:
            return steps.send(value)
        except StopIteration:
            return done

    answer: Any = None
    try:
        while (item := await asyncio.to_thread(send, answer)) is not done:
            answer = None
            if isinstance(item, Fetch):
                answer = await source.aread_ranges(item.ranges)
            else:
                yield item
    finally:
        steps.close()


class Ahead:
    """A step generator that has been started: its requests run on an I/O thread while somebody else decodes.

    ``poll`` moves it on as far as it gets without waiting and without decoding; ``run`` takes over for good.
    """

    def __init__(self, steps: Generator[Any, Any, Any], source: RangeSource, pool: ThreadPoolExecutor) -> None:
        self._steps = steps
        self._source = source
        self._pool = pool
        self._pending: Future[list[Any]] | None = None
        self._holds_data = False
        self._results: list[Any] = []
        self._ended = False
        self._send(None)

    def _send(self, answer: Any) -> None:
        try:
            item = self._steps.send(answer)
        except StopIteration:
            self._ended = True
            return
        if isinstance(item, Fetch):
            self._holds_data = item.what == "data"
            self._pending = self._pool.submit(self._source.read_ranges, item.ranges)
        else:
            self._results.append(item)

    def poll(self) -> None:
        """Sends finished answers on, but for data, whose arrival would start decoding here and now."""
        while self._pending is not None and self._pending.done() and not self._holds_data:
            pending, self._pending = self._pending, None
            self._send(pending.result())

    def run(self) -> Iterator[Any]:
        """The results, from the first on."""
        try:
            while True:
                yield from self._results
                self._results.clear()
                if self._ended:
                    return
                if self._pending is not None:
                    pending, self._pending = self._pending, None
                    self._send(pending.result())
                else:
                    self._send(None)
        finally:
            self._steps.close()

    def close(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
        self._steps.close()


StartSteps = Callable[[], Generator[Any, Any, Any]]


def run_in_turn(
    starts: Iterator[StartSteps], source: RangeSource, pool: ThreadPoolExecutor | None
) -> Iterator[Iterator[Any]]:
    """Runs step generators one after the other, yielding an iterator of results for each.

    With a ``pool`` the next generator is started, and its bytes fetched, while the results of the present one are
    taken.
    """
    if pool is None:
        for start in starts:
            yield run(start(), source)
        return
    following: Ahead | None = None
    try:
        while True:
            current = following if following is not None else _started(starts, source, pool)
            following = None
            if current is None:
                return
            following = _started(starts, source, pool)
            yield _with_polling(current, following)
    finally:
        if following is not None:
            following.close()


def _started(starts: Iterator[StartSteps], source: RangeSource, pool: ThreadPoolExecutor) -> Ahead | None:
    start = next(starts, None)
    return None if start is None else Ahead(start(), source, pool)


def _with_polling(current: Ahead, following: Ahead | None) -> Iterator[Any]:
    for item in current.run():
        if following is not None:
            following.poll()
        yield item
