"""The reader of all remote storage. One class contains the common code. A small asynchronous backend makes the requests
of each kind of storage.

``RemoteReader`` merges ranges, sends several requests at the same time, repeats failed requests, counts requests, and
detects changed objects. A backend makes one request for one range. Backends run on an event loop in another thread.
This loop comes from ``event_loop``. The asynchronous file systems of fsspec use fsspec's loop. A backend of a
synchronous storage library uses a pool of threads.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from orcidx.errors import StorageError
from orcidx.options import RequestOptions
from orcidx.storage.event_loop import shared_loop
from orcidx.storage.failures import RETRIES, Retries, ShortBody, classify, gone, showable, translated_error
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.ranges import (
    ByteRange,
    GapDiscardingBuffer,
    JoinedFetch,
    MergedRange,
    ReadMetrics,
    check_inside,
    join_fetches,
    merge_limits,
    merge_ranges,
    object_changed,
    scatter,
)
from orcidx.storage.threads import REQUESTS
from orcidx.threads.awaiting import awaited, start_on
from orcidx.threads.tasks import Task

__all__ = ["Backend", "RemoteReader", "StoreAnswer", "ThreadBackend"]

T = TypeVar("T")

_MOST_IN_FLIGHT = 16
"""The most requests that run at the same time: four for each of two stripes, and the requests for the tails of the next
files (decision 0017)."""
# The ranges of one call are read in this many requests if these requests read at most _MOST_OVER_READ unneeded bytes.
# If the caller limits the number of requests, more unneeded bytes may be read to keep the limit.
_FEW_REQUESTS = 2
_MOST_OVER_READ = 4 << 20
# A request may read unneeded bytes. If a request reads at most this many unneeded bytes, they are kept in memory.
# Otherwise all unneeded bytes of the request are dropped as they arrive.
_HELD_OVER_READ = 1 << 20
# If more than half of a response is unneeded, the whole response is kept for later reads. For example, footers of small
# stripes are read together with the data between them, and this data may be needed later. A reader keeps at most this
# many bytes.
_MOST_KEPT = 8 << 20
# A request counts as lost after this many seconds, plus the time that its bytes take at _SLOWEST_BYTES_PER_SECOND.
_PATIENCE_SECONDS = 60.0
_SLOWEST_BYTES_PER_SECOND = 256 << 10


@dataclass(frozen=True)
class StoreAnswer:
    """Bytes, and the object's version from the same response (``None`` if the response has no version)."""

    data: Any
    fingerprint: Fingerprint | None = None


class Backend(Protocol):
    """One object in one storage. Its methods run on ``loop()``. They may raise any exception of the library."""

    answers_identity: bool
    """Whether every response has a fingerprint. If not, the reader calls ``stat`` with each group of reads."""
    discards_gaps: bool
    """Whether ``get`` passes the body to ``buffer`` as it arrives and returns a ``StoreAnswer`` without data."""
    retries: Retries
    storage: str
    """A name of this storage for cache keys, because other storages may have objects with the same names."""

    def loop(self) -> asyncio.AbstractEventLoop: ...

    async def stat(self) -> Fingerprint: ...

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer: ...

    async def get_tail(self, length: int) -> StoreAnswer:
        """The last ``min(length, size)`` bytes, with a fingerprint."""

    def close(self) -> None: ...


class ThreadBackend:
    """The base of backends for synchronous libraries. Each of these backends has ``look`` and ``read``, which run in a
    thread."""

    answers_identity = False
    discards_gaps = False
    retries = RETRIES

    def look(self) -> Fingerprint:
        """The version of the object that exists now."""
        raise NotImplementedError

    def read(self, offset: int, length: int) -> object:
        """The bytes of the object in this range."""
        raise NotImplementedError

    def loop(self) -> asyncio.AbstractEventLoop:
        return shared_loop()

    async def stat(self) -> Fingerprint:
        return await in_thread(self.look)

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        return await in_thread(lambda: StoreAnswer(self.read(offset, length)))

    async def get_tail(self, length: int) -> StoreAnswer:
        return await in_thread(lambda: self._read_tail(length))

    def _read_tail(self, length: int) -> StoreAnswer:
        found = self.look()
        length = min(length, found.size)
        return StoreAnswer(self.read(found.size - length, length) if length else b"", found)

    def close(self) -> None:
        """Frees what the backend has opened. Most backends have nothing to free."""


async def in_thread(call: Callable[[], T]) -> T:
    """Runs a blocking request of a library that is not asynchronous."""
    return await awaited(REQUESTS.submit(call))


_NOTHING = memoryview(b"")


@dataclass
class BytesAtHand:
    """Bytes of an object that earlier requests returned, and that later reads need not request again.

    ``tail``: the end of the object, from the offset ``tail_start`` on. ``stored_tail``: a function that is called at
    the first read of the tail. It may return a stored copy of the tail of the expected version. ``responses``: the
    offsets and bytes of other responses. Together these responses have at most ``room`` bytes."""

    room: int
    tail_start: int = 0
    tail: memoryview = _NOTHING
    stored_tail: Callable[[], memoryview | None] | None = None
    responses: deque[tuple[int, memoryview]] = field(default_factory=deque)

    def find(self, offset: int, length: int) -> memoryview | None:
        """The bytes of a range, if all of them are at hand. Otherwise None."""
        for start, data in ((self.tail_start, self.tail), *self.responses):
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def keep(self, offset: int, data: memoryview) -> None:
        """Keeps a response. The oldest responses are dropped if there is no room for all of them."""
        self.responses.append((offset, data))
        while sum(len(one) for _, one in self.responses) > self.room:
            self.responses.popleft()


class RemoteReader:
    """A ``RangeReader`` over a ``Backend``. Ranges inside the tail, or inside another response that is kept, need no
    further request."""

    is_local = False

    def __init__(
        self,
        backend: Backend,
        *,
        name: str,
        options: RequestOptions | None = None,
        expected: Fingerprint | None = None,
    ) -> None:
        self.name = name
        self.metrics = ReadMetrics()
        self._backend: Backend | None = backend
        self._retries = backend.retries
        self._gap, self._merge_size = merge_limits(options, is_local=False)
        self._joins = options is None or options.merge_gap is None
        self._budget = (options or RequestOptions()).io_bytes
        self._largest = None if options is None else options.merge_size
        # Whatever the limit of bytes is, it allows two requests at the same time.
        if self._largest is None:
            self._merge_size = min(self._merge_size, self._budget // 2)
        self._fingerprint = expected
        self.at_hand = BytesAtHand(min(_MOST_KEPT, self._budget // 4))

    @property
    def identity(self) -> tuple[Any, ...] | None:
        known = self._fingerprint
        if known is None or self._backend is None or not known.is_version:
            return None
        return (self._backend.storage, self.name, known)

    def size(self) -> int:
        return self.fingerprint().size

    def fingerprint(self) -> Fingerprint:
        if self._fingerprint is None:
            self._run(self._stat)
        assert self._fingerprint is not None
        return self._fingerprint

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        stored, self.at_hand = self.at_hand.stored_tail, BytesAtHand(self.at_hand.room)
        if stored is not None and self._fingerprint is not None:
            data, size = stored(), self._fingerprint.size
            if data is not None and 0 < len(data) <= size:
                self.at_hand.tail_start, self.at_hand.tail = size - len(data), data
                return data, size
        return self._run(partial(self._read_tail, length))

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        return self._run(partial(self._read_ranges, ranges, most))

    def start_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> Task[list[memoryview]]:
        """Starts ``read_ranges`` in a task, and returns the task without waiting. If the task is cancelled, its
        requests are cancelled."""
        return start_on(self._loop(), partial(self._read_ranges, ranges, most))

    async def aread_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        if asyncio.get_running_loop() is self._loop():
            return await self._read_ranges(ranges, most)
        return await awaited(self.start_ranges(ranges, most=most))

    def close(self) -> None:
        backend, self._backend = self._backend, None
        self.at_hand = BytesAtHand(0)
        if backend is not None:
            backend.close()

    def _open_backend(self) -> Backend:
        if self._backend is None:
            raise StorageError("the reader is closed", file=self.name)
        return self._backend

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return _run_on(self._loop(), make, self.name)

    def _loop(self) -> asyncio.AbstractEventLoop:
        try:
            return self._open_backend().loop()
        except RuntimeError as error:  # the fsspec file system was created before a fork
            raise StorageError(
                f"the source cannot be read in this process: {error}; open it again in this process", file=self.name
            ) from error

    async def _stat(self) -> None:
        self._learn(await self._attempt("its size", None, self._open_backend().stat, 0))

    async def _read_tail(self, length: int) -> tuple[memoryview, int]:
        backend = self._open_backend()
        started = time.perf_counter()

        async def once() -> StoreAnswer:
            return _with_bytes(await backend.get_tail(length))

        answer = await self._attempt(f"the last {length} bytes", None, once, length)
        data = memoryview(answer.data).cast("B").toreadonly() if len(answer.data) else memoryview(b"")
        if answer.fingerprint is None:
            raise StorageError("the storage did not report the object's size; download it first", file=self.name)
        self._learn(answer.fingerprint)
        size = answer.fingerprint.size
        if len(data) != min(length, size):
            raise StorageError(
                f"the storage returned {len(data)} bytes, but the last {min(length, size)} bytes of the object were "
                "requested",
                file=self.name,
            )
        self.metrics.asked(1, len(data))
        self.metrics.fetched(size - len(data), len(data), time.perf_counter() - started)
        if len(data) > len(self.at_hand.tail):
            self.at_hand.tail_start, self.at_hand.tail = size - len(data), data
        return data, size

    async def _read_ranges(self, ranges: Sequence[ByteRange], most: int | None) -> list[memoryview]:
        backend = self._open_backend()
        if self._fingerprint is not None:
            check_inside(ranges, self._fingerprint.size, self.name)
        self.metrics.asked(len(ranges), sum(length for _, length in ranges))
        known = [self.at_hand.find(offset, length) for offset, length in ranges]
        wanted = [(offset, length if held is None else 0) for (offset, length), held in zip(ranges, known, strict=True)]
        merged = merge_ranges(wanted, gap=self._gap, size=self._merge_size)
        found = scatter(len(ranges), merged, await self._fetch(backend, self._join(backend, merged, most)))
        return [fetched if held is None else held for fetched, held in zip(found, known, strict=True)]

    def _join(self, backend: Backend, merged: Sequence[MergedRange], most: int | None) -> list[JoinedFetch]:
        """The requests that fetch these ranges. Some backends cannot drop the unneeded bytes of a request when these
        bytes arrive. Such a backend holds all bytes of the request in memory. So the requests of a stripe may use at
        most half of the byte limit, because requests of the next stripe may be running as well."""
        if not self._joins:
            return [JoinedFetch((fetch,)) for fetch in merged]
        few = join_fetches(
            merged, most=min(_FEW_REQUESTS, most or _FEW_REQUESTS), over_read=_MOST_OVER_READ, size=self._merge_size
        )
        if most is None or len(few) <= most:
            return few
        room = self._budget if backend.discards_gaps else self._budget // 2
        over_read = max(0, room - sum(fetch.length for fetch in merged))
        return join_fetches(merged, most=most, over_read=over_read, size=self._largest or room)

    async def _fetch(self, backend: Backend, joined: Sequence[JoinedFetch]) -> list[memoryview]:
        """Fetches the bytes of each merged range, in order."""
        if not joined:
            return []
        weights = [one.needed if backend.discards_gaps else one.length for one in joined]
        in_flight = len(joined) if sum(weights) <= self._budget else max(1, self._budget // max(weights))
        places = asyncio.Semaphore(min(_MOST_IN_FLIGHT, in_flight))

        async def one(fetch: JoinedFetch) -> tuple[list[memoryview], memoryview | None]:
            async with places:
                return await self._get(backend, fetch)

        tasks: list[asyncio.Task[Any]] = [asyncio.ensure_future(one(fetch)) for fetch in joined]
        if not backend.answers_identity:
            tasks.append(asyncio.ensure_future(self._stat()))
        try:
            answers = (await asyncio.gather(*tasks))[: len(joined)]
            # Responses are kept only after all tasks have finished, because one of them checks the object's version.
            for fetch, (_, whole) in zip(joined, answers, strict=True):
                if whole is not None:
                    self.at_hand.keep(fetch.offset, whole)
            return [buffer for buffers, _ in answers for buffer in buffers]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _get(self, backend: Backend, fetch: JoinedFetch) -> tuple[list[memoryview], memoryview | None]:
        """Makes one request. Returns the bytes of each range, and the whole response if it is worth keeping."""
        offset, length = fetch.offset, fetch.length
        stretches = [(one.offset - offset, one.length) for one in fetch.fetches]
        keeps = 2 * sum(size for one in fetch.fetches for *_, size in one.parts) < length <= self.at_hand.room

        async def once() -> tuple[list[memoryview], memoryview | None]:
            started = time.perf_counter()
            drops = length - fetch.needed > _HELD_OVER_READ and not keeps
            buffer = GapDiscardingBuffer(stretches) if drops else None
            answer = _with_bytes(await backend.get(offset, length, buffer))
            if buffer is not None and len(answer.data):
                buffer.take(answer.data)
            arrived = len(answer.data) if buffer is None else buffer.seen
            self.metrics.fetched(offset, arrived, time.perf_counter() - started)
            if answer.fingerprint is not None:
                self._learn(answer.fingerprint)
            if arrived != length:
                if self._fingerprint is not None:
                    check_inside([(offset, length)], self._fingerprint.size, self.name)
                raise ShortBody(f"only {arrived} of {length} bytes arrived")
            if buffer is not None:
                return buffer.kept, None
            data = memoryview(answer.data).cast("B").toreadonly()
            return [data[start : start + size] for start, size in stretches], data if keeps else None

        return await self._attempt(f"{length} bytes at {offset}", offset, once, length)

    async def _attempt(
        self, what: str, offset: int | None, once: Callable[[], Coroutine[Any, Any, T]], length: int
    ) -> T:
        attempt = 1
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS + length / _SLOWEST_BYTES_PER_SECOND):
                    return await once()
            except StorageError as error:
                raise error.at(file=self.name, offset=offset) from error.__cause__
            except Exception as error:  # libraries raise exceptions of any type; classify() sorts them
                failure = classify(error)
                if failure != "transient" or attempt >= self._retries.attempts:
                    known = translated_error(error, failure, name=self.name, what=what, offset=offset)
                    if failure == "missing" and self._fingerprint is not None:
                        known = gone(self.name)
                    if known is error:
                        raise
                    raise known from showable(error)
            self.metrics.retried()
            await asyncio.sleep(self._retries.delay(attempt))
            attempt += 1

    def _learn(self, seen: Fingerprint) -> None:
        """Keeps the fingerprint of the first response. Every later fingerprint is compared with the first one."""
        if self._fingerprint is None:
            self._fingerprint = seen
        elif not self._fingerprint.matches(seen):
            raise object_changed(self.name, self._fingerprint, seen)


def _with_bytes(answer: StoreAnswer) -> StoreAnswer:
    """Returns ``answer``, or raises an error if its data is not bytes. Some incomplete file systems of fsspec return
    None or text."""
    data: object = answer.data
    if data is None or isinstance(data, str):
        raise StorageError(f"the storage returned {'None' if data is None else 'text'} instead of bytes")
    return answer


def _run_on(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Runs a coroutine on the loop of another thread and waits for it. An interrupt (Ctrl-C) cancels the coroutine."""
    try:
        inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        inside = False
    if inside:
        raise StorageError(
            "a blocking read cannot be used inside the storage's own event loop, because it would wait forever; use "
            "await aread_ranges",
            file=name,
        )
    task = start_on(loop, make)
    try:
        return task.result()
    finally:
        task.cancel()
