"""The one thread pool on which columns decode, beside the caller and ahead of him.

Sized by ``pyarrow.cpu_count()`` and made anew after a fork, since threads do not survive one. A fork waits until no
thread of the pool is inside a task, so that the child finds every reader between two reads and goes on by itself.
Inside a Spark task nothing runs on it at all: Spark has given the task one core, and the other cores to other tasks.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from orcidx.orc.chunks_ahead import ChunksAhead
from orcidx.storage.threads import refuses_more

__all__ = ["Chains", "Round", "run_all", "thread_count"]

T = TypeVar("T")

CHUNKS = 64
"""That a thread decompresses before it lets a fork come between: a few milliseconds."""

AWAY = 3e-4
"""Seconds; a thread of the pool comes some 5e-5 after it was asked."""

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_forks = 0


class _ForkGate:
    """What a thread of the pool is inside of while it works; who forks closes it and waits until all are out."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._closed = False

    def __enter__(self) -> None:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._closed:
                self._changed.notify_all()

    def close(self) -> None:
        self._changed.acquire()
        while self._inside:
            self._closed = True
            self._changed.wait()

    def open(self) -> None:
        self._closed = False
        self._changed.notify_all()
        self._changed.release()


_gate = _ForkGate()


def _before_fork() -> None:
    _gate.close()


def _after_fork() -> None:
    _gate.open()


def _start_over() -> None:
    """In the child: none of the threads are here."""
    global _pool, _lock, _gate, _forks
    _pool = None
    _lock = threading.Lock()
    _gate = _ForkGate()
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_start_over)


def _submit(work: Callable[[], None], size: int) -> bool:
    """Hands work to a pool of this size; False where the interpreter ends, and starts no more."""
    global _pool, _pool_size
    with _lock:  # as long as it submits: another caller may want the pool of another size
        if _pool is None or _pool_size != size:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(size, thread_name_prefix="orcidx-decode")
            _pool_size = size
        try:
            _pool.submit(work)
        except RuntimeError as error:
            if not refuses_more(error):
                raise
            return False
        return True


def _is_spark_task() -> bool:
    # Asked of the module that Spark's workers have loaded; the driver has it too, and no task.
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None


def thread_count(*, use_threads: bool) -> int:
    """Threads that may decode at a time, the caller's among them."""
    return 1 if not use_threads or _is_spark_task() else pa.cpu_count()


class Round:
    """Tasks of different chains that are wanted together. ``results`` in the tasks' order, of those that have ended;
    ``errors`` by the task's place."""

    def __init__(self, chains: Sequence[int], tasks: Sequence[Callable[[], Any]], begin: Sequence[int]) -> None:
        self.chains = chains
        self.tasks = tasks
        self.begin = list(begin)
        """Places of the tasks that have not begun, in the order in which they should."""
        self.left = len(tasks)
        self.results: list[Any] = [None] * len(tasks)
        self.errors: dict[int, BaseException | None] = {}


class Chains:
    """Chains of tasks: those of one chain run one after the other, those of different chains side by side.

    ``weights``: of the chains; the tasks of a heavy one begin first, since the last to begin is waited for. Threads of
    the pool take what can begin, older rounds first; ``finish`` has the caller take part until its round is done. No
    task waits for another one. After an error a chain runs no more.

    ``chunks``: those that come next in streams of the chains. Threads of the pool decompress them before they begin a
    task. Where there are some, or one chain alone, the caller begins with the tasks of his round, and others begin
    those of later rounds only while he takes ``AWAY`` or more between two: handing a short task over takes longer.
    """

    chunks: Sequence[ChunksAhead] = ()

    def __init__(self, weights: Sequence[int], threads: int) -> None:
        self._threads = threads
        self._changed = threading.Condition(threading.Lock())
        self._weights = weights
        self._busy = [False] * len(weights)
        self._broken = [False] * len(weights)
        self._rounds: list[Round] = []
        self._helpers = 0
        self._running = 0
        self._asked = False
        self._inside = False
        self._left = 0.0
        self._away = 0.0
        self._forks = _forks

    def add(self, chains: Sequence[int], tasks: Sequence[Callable[[], Any]]) -> Round:
        """Adds a task to each of some chains, behind those that it has."""
        begin = sorted(range(len(tasks)), key=lambda place: -self._weights[chains[place]])
        added = Round(chains, tasks, begin)
        with self._changed:
            self._rounds.append(added)
        return added

    @property
    def _caller_first(self) -> bool:
        return bool(self.chunks) or len(self._weights) == 1

    def start_early(self) -> None:
        """Before the caller asks for a round; where he is not to begin it."""
        if not self._caller_first:
            self.start()

    def start(self) -> None:
        """Has threads of the pool take part, as many as find something to do."""
        with self._changed:
            if not self._may_help():
                return
            chains = {one.chains[place] for one in self._rounds for place in one.begin}
            self._call(sum(not self._busy[chain] for chain in chains))

    def caller_is_back(self) -> bool:
        """Notes how long the caller was away; whether that was long enough for others to begin what is his."""
        self._away = time.perf_counter() - self._left
        return self._away >= AWAY

    def caller_leaves(self) -> None:
        """Notes that the caller goes, with what he asked for."""
        self._left = time.perf_counter()

    def _may_help(self) -> bool:
        return self._inside or self._away >= AWAY or not self._caller_first

    def ask(self, _: ChunksAhead) -> None:
        """Has threads of the pool decompress chunks, those that have nothing to do now, and others when they do not."""
        with self._changed:
            self._asked = True
            self._changed.notify_all()
            self._call(self._threads)

    def _call(self, most: int) -> None:
        if self._forks != _forks:
            self._forks, self._helpers = _forks, 0
        wanted = min(self._threads - 1, most) - self._helpers
        for _ in range(wanted):
            self._helpers += 1
            if not _submit(self._help, self._threads):
                self._helpers -= 1
                return

    def finish(self, wanted: Round) -> None:
        """Runs what has not begun until all tasks of a round have ended; errors are in the round."""
        self.caller_is_back()
        self.start_early()
        while True:
            with self._changed:
                found, self._inside = None, True
                while wanted.left and (found := self._pick()) is None and not self._asked:
                    self._changed.wait()
                if found is None and not wanted.left:
                    self._rounds.remove(wanted)
                    self._inside = False
                    break
                if found is None:
                    self._asked = False
            if found is None:
                while wanted.left and any(one.help(1) for one in self.chunks):
                    pass
                continue
            if self._caller_first:
                self.start()  # for the other chains of the round
            self._run(*found, mine=True)
        self.caller_leaves()
        self.start()  # what the end of this thread's last task made possible

    def close(self) -> None:
        """Nothing of what was added begins any more; returns when nothing runs. Chains that failed may go on."""
        with self._changed:
            for one in self._rounds:
                one.begin.clear()
            while self._running:
                self._changed.wait()
            self._rounds.clear()
            self._broken = [False] * len(self._broken)

    def _pick(self) -> tuple[Round, int] | None:
        for one in self._rounds:
            for at, place in enumerate(one.begin):
                if not self._busy[one.chains[place]]:
                    del one.begin[at]
                    self._busy[one.chains[place]] = True
                    self._running += 1
                    return one, place
        return None

    def _run(self, one: Round, place: int, *, mine: bool) -> None:
        chain = one.chains[place]
        error: BaseException | None = None
        ended = self._broken[chain]
        try:
            if not ended:
                one.results[place] = one.tasks[place]()
                ended = True
        except BaseException as failure:  # whatever a task raises is for who finishes the round
            error = failure
            if mine and not isinstance(failure, Exception):
                raise
        finally:
            with self._changed:
                if error is not None or not ended or self._broken[chain]:
                    one.errors[place] = error
                    self._broken[chain] = True
                one.left -= 1
                self._busy[chain] = False
                self._running -= 1
                self._changed.notify_all()
            del error, one  # an error that reaches itself over its frames would keep all that those hold

    def _help(self) -> None:
        while True:
            with _gate:
                if any(one.help(CHUNKS) for one in self.chunks):
                    continue
                with self._changed:
                    found = self._pick() if self._may_help() else None
                    if found is None and not self._asked:
                        self._helpers -= 1
                        return
                    self._asked = False
                if found is None:
                    continue
                self._run(*found, mine=False)


def run_all(tasks: Sequence[Callable[[], T]], *, use_threads: bool) -> list[T]:
    """The results of all tasks in order; in parallel when asked for and when it can help, but not in a Spark task.

    The first task's error leaves, of those that fail; all tasks have ended then.
    """
    threads = thread_count(use_threads=use_threads)
    if threads < 2 or len(tasks) < 2:
        return [task() for task in tasks]
    chains = Chains([0] * len(tasks), threads)
    one = chains.add(range(len(tasks)), tasks)
    try:
        chains.finish(one)
    finally:  # when an interrupt leaves, too
        chains.close()
    if one.errors:
        try:
            raise one.errors.pop(min(one.errors)) or RuntimeError("a task did not run")
        finally:
            del one
    return one.results
