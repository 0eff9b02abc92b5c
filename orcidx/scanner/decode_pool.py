"""The one thread pool on which the columns of a batch decode while the caller waits.

Sized by ``pyarrow.cpu_count()`` and made anew after a fork, since threads do not survive one. Nothing runs on it behind
the caller's back: a decompressor called through Python starves behind a consumer that holds the GIL. Inside a Spark
task nothing runs on it at all: Spark has given the task one core, and the other cores to other tasks.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import pyarrow as pa

from orcidx.storage.threads import refuses_more

__all__ = ["run_all"]

T = TypeVar("T")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forget_pool)


def _submit_all(tasks: Sequence[Callable[[], T]], size: int) -> list[Future[T]]:
    """Hands the tasks to a pool of this size. Fewer futures than tasks: the interpreter ends, and starts no more."""
    global _pool, _pool_size
    with _lock:  # as long as it submits: another caller may want the pool of another size
        if _pool is None or _pool_size != size:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(size, thread_name_prefix="orcidx-decode")
            _pool_size = size
        futures: list[Future[T]] = []
        try:
            for task in tasks:
                futures.append(_pool.submit(task))
        except RuntimeError as error:
            if not refuses_more(error):
                wait(futures)
                raise
        return futures


def _is_spark_task() -> bool:
    # Asked of the module that Spark's workers have loaded; the driver has it too, and no task.
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None


def run_all(tasks: Sequence[Callable[[], T]], *, use_threads: bool) -> list[T]:
    """The results of all tasks in order; in parallel when asked for and when it can help, but not in a Spark task.

    The caller's own thread takes the first task. All tasks have ended when an error leaves.
    """
    threads = pa.cpu_count() if use_threads else 1
    if threads < 2 or len(tasks) < 2 or _is_spark_task():
        return [task() for task in tasks]
    futures = _submit_all(tasks[1:], threads)
    own = [tasks[0], *tasks[1 + len(futures) :]]
    try:
        mine = [task() for task in own]
        others = [future.result() for future in futures]
    finally:  # when an error or an interrupt leaves, too
        wait(futures)
    return [mine[0], *others, *mine[1:]]
