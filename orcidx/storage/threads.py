"""The two thread pools of storage, made when first needed and again after a fork (a child has none of the threads).

Readers wait for requests, so the two must not share threads: a pool full of readers would leave none for requests.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["READERS", "REQUESTS", "LazyPool", "refuses_more"]

T = TypeVar("T")


class LazyPool:
    """A ``ThreadPoolExecutor`` that starts no thread before the first call."""

    def __init__(self, workers: int, name: str) -> None:
        self._workers = workers
        self._name = name
        self.forget()

    def forget(self) -> None:
        """Starts over without the old threads; the old executor is left as it is."""
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Runs ``call`` in a thread of the pool; here and now where the interpreter ends, and starts no thread."""
        try:
            with self._lock:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix=self._name)
                return self._executor.submit(call)
        except RuntimeError as error:
            if not refuses_more(error):
                raise
            future: Future[T] = Future()
            future.set_result(call())
            return future


def refuses_more(error: RuntimeError) -> bool:
    """Whether an executor takes nothing more since the interpreter ends, while a daemon thread of its reads on.

    Any other refusal, such as of a new thread, comes when the call is in the queue already and may run.
    """
    return "shutdown" in str(error)


READERS = LazyPool(8, "orcidx-reader")
"""Whole ``read_ranges`` calls, started ahead of their use."""
REQUESTS = LazyPool(16, "orcidx-request")
"""Single requests of libraries that are not asynchronous."""


def _forget_all() -> None:
    READERS.forget()
    REQUESTS.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
