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
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

__all__ = ["run_all"]

T = TypeVar("T")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)


def _shared_pool(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size != size:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(size, thread_name_prefix="orcidx-decode")
            _pool_size = size
        return _pool


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
    pool = _shared_pool(threads)
    futures = [pool.submit(task) for task in tasks[1:]]
    results: list[T] = []
    failure: BaseException | None = None
    try:
        results.append(tasks[0]())
    except BaseException as error:
        failure = error
    for future in futures:
        try:
            results.append(future.result())
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results
