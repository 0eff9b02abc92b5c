"""Tasks side by side, on the pool whose threads decode columns beside and ahead of the caller's (``chains``).

It is as large as ``pyarrow.cpu_count()`` says. Inside a Spark task nothing runs on it at all: Spark has given the task
one core, and the other cores to other tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from orcidx.scanner.chains import Chains

__all__ = ["run_all", "thread_count"]

T = TypeVar("T")


def _is_spark_task() -> bool:
    # Asked of the module that Spark's workers have loaded; the driver has it too, and no task.
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None


def thread_count(*, use_threads: bool) -> int:
    """Threads that may decode at a time, the caller's among them."""
    return 1 if not use_threads or _is_spark_task() else pa.cpu_count()


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
