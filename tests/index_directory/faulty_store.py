"""A simulated store with the failures of real stores, and jobs that use it in turn. A seed determines all random
choices.

The store is an fsspec file system of the protocol "gs". A write with ``mode="create"`` fails if the object exists.
``World`` has the objects, the clock and the faults of the store. Each job is a thread, and only one of these threads
runs at a time. At each call of the store, ``World`` chooses the job that runs next. It also chooses whether the call
succeeds. If the call fails, it raises an error, returns too few bytes, or ends the job. A write that fails may still
have its effect.
"""

from __future__ import annotations

import errno
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fsspec.spec import AbstractFileSystem

WORLDS: dict[int, World] = {}
"""The worlds by their number, which is the storage option ``world``."""


class Died(BaseException):
    """A job's process has been killed."""


class ServerError(OSError):
    """An error with an HTTP status, as the client libraries of stores raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server answered {status}")
        self.status = status


@dataclass(frozen=True)
class Object:
    data: bytes
    etag: str
    time: int


@dataclass
class World:
    """The objects of the store by path. ``faults``: the share of calls that fail. ``deaths``: the share of calls that
    kill the job. ``change`` is called at random, and may change objects as other programs do."""

    seed: int
    faults: float = 0.0
    deaths: float = 0.0
    change: Callable[[], None] | None = None
    objects: dict[str, Object] = field(default_factory=dict)
    now: int = 1_700_000_000 * 10**9
    told: Counter[str] = field(default_factory=Counter)
    _made: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self._turn = threading.Condition()
        self._waiting: list[str] = []
        self._running: str | None = None
        self._calls: Counter[tuple[str | None, str, str]] = Counter()
        WORLDS[self.seed] = self

    # ------------------------------------------------------------------ objects

    def put(self, path: str, data: bytes) -> None:
        self._made += 1
        self.objects[path] = Object(data, f"e{self._made}", self.now)

    # ------------------------------------------------------------------ jobs

    def run(self, jobs: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        """Runs jobs, which take turns. Returns the result or the error of each job."""
        results: dict[str, Any] = {}
        self._waiting = list(jobs)
        self._running = self.random.choice(self._waiting)
        threads = [threading.Thread(target=self._job, args=(*one, results), name=one[0]) for one in jobs.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a job hangs"
        self._running = None
        return results

    def _job(self, name: str, work: Callable[[], Any], results: dict[str, Any]) -> None:
        self._await(name)
        try:
            results[name] = work()
        except (Exception, Died) as error:
            results[name] = error
        with self._turn:
            self._waiting.remove(name)
            self._running = self.random.choice(self._waiting) if self._waiting else None
            self._turn.notify_all()

    def _await(self, name: str) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._running == name, 120), "the job waited too long"

    def call(self, what: str, path: str, effect: Callable[[], Any], *, writes: bool = False) -> Any:
        """Makes one request: waits for the job's turn, decides whether the request fails, and calls ``effect`` unless
        the failure prevents it."""
        job = threading.current_thread().name
        if job in self._waiting:  # a helper thread of a job does not wait for a turn
            self._running = self.random.choice(self._waiting)
            if self._running != job:
                with self._turn:
                    self._turn.notify_all()
                self._await(job)
        self.now += 10**9
        self.told[what] += 1
        key = (self._running, what, path)
        self._calls[key] += 1
        fate = Random(zlib.crc32(repr((self.seed, key, self._calls[key])).encode()))
        if self._running is None:
            return effect()
        if self.change is not None and job in self._waiting and fate.random() < 0.04:
            self.change()
        if job in self._waiting and fate.random() < self.deaths:
            self.told["deaths"] += 1
            if writes and fate.random() < 0.5:
                effect()
            raise Died
        if fate.random() >= self.faults:
            return effect()
        self.told["faults"] += 1
        if writes and fate.random() < 0.5:
            effect()
            self.told["lost answers"] += 1
        elif what == "read" and fate.random() < 0.5:
            found = effect()
            self.told["short answers"] += 1
            return found[: fate.randrange(len(found))] if found else found
        raise fate.choice([ServerError(500), ServerError(503), ConnectionResetError(), TimeoutError()])


class FaultyFileSystem(AbstractFileSystem):
    """A ``World`` as an fsspec file system."""

    protocol = "gs"
    cachable = True

    def __init__(self, world: int, **options: Any) -> None:
        super().__init__(**options)
        self.world = WORLDS[world]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("gs://").strip("/")

    def _info(self, path: str) -> dict[str, Any]:
        found = self.world.objects[path]
        return {"name": path, "size": len(found.data), "type": "file", "etag": found.etag, "mtime": found.time / 1e9}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)

        def look() -> dict[str, Any]:
            if path in self.world.objects:
                return self._info(path)
            if any(name.startswith(path + "/") for name in self.world.objects):
                return {"name": path, "size": 0, "type": "directory"}
            raise FileNotFoundError(errno.ENOENT, "no such object", path)

        return self.world.call("info", path, look)

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        raise NotImplementedError("orcidx must list this store with find(), not with ls()")

    def find(self, path: str, maxdepth: Any = None, withdirs: bool = False, detail: bool = False, **_: Any) -> Any:
        path = self._strip_protocol(path)

        def look() -> dict[str, Any]:
            names = sorted(name for name in self.world.objects if name == path or name.startswith(path + "/"))
            return {name: self._info(name) for name in names}

        found = self.world.call("list", path, look)
        return found if detail else list(found)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)

        def look() -> bytes:
            if path not in self.world.objects:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)
            return self.world.objects[path].data[start:end]

        return self.world.call("read", path, look)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)

        def write() -> None:
            if mode == "create" and path in self.world.objects:
                raise FileExistsError(errno.EEXIST, "the precondition failed", path)
            self.world.put(path, bytes(value))

        self.world.call("write", path, write, writes=True)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)

        def remove() -> None:
            if self.world.objects.pop(path, None) is None:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)

        self.world.call("delete", path, remove, writes=True)

    def exists(self, path: str, **_: Any) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def invalidate_cache(self, path: str | None = None) -> None:
        """Does nothing, because this file system has no cache."""
