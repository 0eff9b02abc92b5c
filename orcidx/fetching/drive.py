"""Runs generators that request bytes with ``Fetch``. A generator can run in the caller's thread, asynchronously, or
ahead of time.

A step generator yields a ``Fetch``, and the function that runs it sends the buffers back. Every other value that the
generator yields is a result. The generator itself never waits. So the same code for planning and decoding works in all
three ways.

A *turn* is one part of the work of a scan, usually the work for one stripe. Turns run one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from orcidx.storage import RangeReader, start_read
from orcidx.threads.awaiting import arrival
from orcidx.threads.tasks import Pool, Task

__all__ = [
    "PENDING",
    "Fetch",
    "Pending",
    "RangeSource",
    "Turn",
    "Turns",
    "arun_in_turn",
    "off_loop",
    "run",
    "run_in_turn",
    "run_value",
]

T = TypeVar("T")
ByteRanges = Sequence[tuple[int, int]]
StartStage = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fetch:
    """A request for bytes: (offset, length) pairs in the file. The result is a list with a buffer for each pair, in
    order.

    ``what``: the kind of the bytes, which is "footer", "index", "bloom" or "data". Decoding starts when bytes of the
    kind "data" arrive. ``most``: the largest number of requests to remote storage. None means that the storage decides.
    """

    ranges: tuple[tuple[int, int], ...]
    what: str
    most: int | None = None

    @property
    def limit(self) -> dict[str, int]:
        """A dictionary with the keyword argument ``most``. The dictionary is empty if ``most`` is None."""
        return {} if self.most is None else {"most": self.most}


class Pending:
    """The type of ``PENDING``. A step generator yields ``PENDING`` if it has to wait for the previous turn. The
    previous turn may have requested bytes that this generator needs, or may hold too many bytes. The generator is
    continued later."""


PENDING = Pending()
_OFF_LOOP = Pool(32)
"""Threads for calls that would block an event loop. asyncio's own pool also has at most 32 threads."""


class RangeSource(Protocol):
    """The part of a range reader that ``run`` and ``run_value`` need."""

    def read_ranges(self, ranges: ByteRanges, *, most: int | None = None) -> list[Any]: ...


def run(steps: Generator[Any, Any, Any], source: RangeSource) -> Iterator[Any]:
    """Yields the results of a step generator. The requested bytes are read in the caller's thread."""
    answer: Any = None
    try:
        while True:
            item = steps.send(answer)
            answer = None
            if isinstance(item, Fetch):
                answer = source.read_ranges(item.ranges, **item.limit)
            elif item is not PENDING:
                yield item
    except StopIteration:
        return
    finally:
        steps.close()


def run_value(steps: Generator[Any, Any, T], source: RangeSource) -> T:
    """Returns the result of a step generator that yields only requests."""
    answer: Any = None
    while True:
        try:
            item = steps.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = None if item is PENDING else source.read_ranges(item.ranges, **item.limit)


# ---------------------------------------------------------------------- running turns in order


@dataclass(frozen=True)
class Turn:
    """One part of the work of a scan. Its step generator runs after the generators of earlier turns. ``start`` creates
    the generator. ``source`` is the file that the generator reads. A turn without ``source`` makes no requests.

    ``finish`` is called after all results were taken. If a turn needs neither reads nor waits, ``at_once`` returns its
    results, which is faster than running the generator. For any other turn ``at_once`` returns None."""

    start: Callable[[], Generator[Any, Any, Any]]
    source: RangeReader | None
    finish: Callable[[], None] | None = None
    at_once: Callable[[], Sequence[Any] | None] | None = None

    @property
    def is_local(self) -> bool:
        """Whether the bytes of the turn can be read without waiting."""
        return self.source is None or self.source.is_local


class Turns(Protocol):
    """The source of turns."""

    def take(self, *, wait: bool) -> Turn | None:
        """The next turn, or None if there are no more turns. Without ``wait``, the result is also None if the next turn
        is not ready."""


class _Running:
    """An active turn. While another turn decodes, the threads of the storage read the bytes that this turn has
    requested. A local file is read in the thread that makes the request, because passing the request to another thread
    takes longer than the read.

    ``poll`` continues the turn as far as possible without waiting and decoding. ``step`` continues the turn until it
    requests bytes or has a result."""

    def __init__(self, turn: Turn, stage: StartStage) -> None:
        self.turn = turn
        self.coming: Task[list[Any]] | None = None
        self.results: list[Any] = []
        self.waits = False
        self._stage = stage
        self._steps: Generator[Any, Any, Any] | None = None
        self._wanted: Fetch | None = None
        self._fetched = "plan"
        self._failed: Exception | None = None
        self._ended = False

    def _send(self, answer: Any) -> None:
        if self._steps is None:
            self._steps = self.turn.start()
        with self._stage(self._fetched):
            try:
                item = self._steps.send(answer)
            except StopIteration:
                self._ended = True
                return
        self.waits = item is PENDING
        if self.waits:
            return
        if isinstance(item, Fetch):
            self._fetched = "decode" if item.what == "data" else self._fetched
            if self.turn.source is None or self.turn.source.is_local:
                self._wanted = item
            else:
                self.coming = start_read(self.turn.source, item.ranges, most=item.most)
        else:
            self._fetched = "decode"
            self.results.append(item)

    def poll(self) -> None:
        """Starts the turn. If requested bytes have arrived, sends them to the turn's generator. Bytes of the kind
        "data" are not sent, because they would start decoding. A local file is read later, because its bytes can be
        read without waiting. An error is kept, and is raised when the turn becomes the current turn."""
        if self.turn.is_local or self._failed is not None or self._ended or self.results:
            return
        try:
            if self._steps is None or self.waits:
                self._send(None)
            while self.coming is not None and self.coming.done() and self._fetched != "decode":
                if self.coming.exception() is not None:
                    return
                self._answer()
        except Exception as error:  # raised after the rows of earlier turns have been returned
            self._failed = error

    def _answer(self) -> None:
        assert self.coming is not None
        coming, self.coming = self.coming, None
        with self._stage("read"):
            buffers = coming.result()
        self._send(buffers)

    def step(self) -> bool:
        """Continues the turn until it requests bytes or has a result. Waits for bytes that were requested before.
        Returns False at the end."""
        if self._failed is not None:
            raise self._failed
        if self._ended:
            return False
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            assert self.turn.source is not None
            with self._stage("read"):
                buffers = self.turn.source.read_ranges(wanted.ranges)
            self._send(buffers)
        elif self.coming is not None:
            self._answer()
        elif self._steps is not None or not self._is_done_at_once():
            self._send(None)
        return True

    def _is_done_at_once(self) -> bool:
        if self.turn.at_once is None:
            return False
        with self._stage("decode"):
            results = self.turn.at_once()
        if results is None:
            return False
        self.results.extend(results)
        self._ended = True
        return True

    def take_results(self) -> list[Any]:
        taken, self.results = self.results, []
        return taken

    def close(self) -> None:
        """Ends the turn. If all results were taken, calls ``finish``."""
        if self.coming is not None:
            self.coming.cancel()
        if self._steps is not None:
            self._steps.close()
        if self._ended and self.turn.finish is not None:
            self.turn.finish()


class _Lookahead:
    """Takes the turns in order. Starts the requests of the next turn while the current turn runs."""

    def __init__(self, turns: Turns, stage: StartStage) -> None:
        self._turns = turns
        self._stage = stage
        self._following: _Running | None = None
        self._failed: Exception | None = None

    def next(self) -> _Running | None:
        following, self._following = self._following, None
        if following is not None:
            return following
        if self._failed is not None:
            raise self._failed
        turn = self._turns.take(wait=True)
        return None if turn is None else _Running(turn, self._stage)

    def look_ahead(self) -> None:
        if self._following is None:
            if self._failed is not None:
                return
            try:
                turn = self._turns.take(wait=False)
            except Exception as error:  # raised after the rows of earlier files have been returned
                self._failed = error
                return
            if turn is None:
                return
            self._following = _Running(turn, self._stage)
        self._following.poll()

    def close(self) -> None:
        if self._following is not None:
            self._following.close()


def _no_stage(name: str) -> AbstractContextManager[None]:
    return nullcontext()


def run_in_turn(turns: Turns, *, stage: StartStage = _no_stage) -> Generator[Any, None, None]:
    """Yields the results of all turns in order. While one turn runs, the bytes of the next turn are fetched. The
    context manager ``stage(name)`` is entered for each kind of work: "plan", "read", "decode"."""
    lookahead = _Lookahead(turns, stage)
    current: _Running | None = None
    try:
        while (current := lookahead.next()) is not None:
            if current.turn.is_local:
                while current.step():
                    if current.results:
                        yield from current.take_results()
            else:
                current.poll()  # the current turn makes its requests before the next turn does
                lookahead.look_ahead()
                yield from current.take_results()
                while current.step():
                    lookahead.look_ahead()
                    yield from current.take_results()
            current.close()
    finally:
        if current is not None:
            current.close()
        lookahead.close()


async def arun_in_turn(turns: Turns, *, stage: StartStage = _no_stage) -> AsyncGenerator[Any, None]:
    """Like ``run_in_turn``, for event loops. Requests are awaited, and decoding runs in a thread."""
    lookahead = _Lookahead(turns, stage)
    current: _Running | None = None
    try:
        while (current := await off_loop(lookahead.next)) is not None:
            await off_loop(current.poll)
            await off_loop(lookahead.look_ahead)
            more = True
            while more:
                for result in current.take_results():
                    yield result
                if current.coming is not None:
                    await arrival(current.coming)
                more = await off_loop(current.step)
                await off_loop(lookahead.look_ahead)
            await off_loop(current.close)
    finally:
        if current is not None:
            await off_loop(current.close)
        await off_loop(lookahead.close)


async def off_loop(call: Callable[[], T]) -> T:
    """Runs ``call`` in a thread. If the caller is cancelled, even several times, this function still waits until the
    call has ended. So no object is closed while the call uses it."""
    task = Task(call)
    try:
        _OFF_LOOP.take(task)
        await arrival(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await arrival(task)
        raise
    finally:
        if not task.cancel():  # the call still runs, so an interrupt is raised only after the call has ended
            task.wait()
    return task.result()
