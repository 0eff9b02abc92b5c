"""Runs tasks in parallel on the thread pool that decodes columns (``chains``).

The pool has ``pyarrow.cpu_count()`` threads. It is not used inside a Spark task, because Spark assigns one core to the
task and the other cores to other tasks.
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
    # Spark's workers import pyspark.taskcontext. The driver imports it too, but the driver is not a task.
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None


def thread_count(*, use_threads: bool) -> int:
    """Returns the number of threads that may decode at the same time, including the caller's thread."""
    return 1 if not use_threads or _is_spark_task() else pa.cpu_count()


def run_all(tasks: Sequence[Callable[[], T]], *, use_threads: bool) -> list[T]:
    """The results of all tasks, in order. The tasks run in parallel if ``use_threads`` is set and there are several
    threads, but not in a Spark task.

    If several tasks fail, the error of the first one is raised after all tasks have ended.
    """
    threads = thread_count(use_threads=use_threads)
    if threads < 2 or len(tasks) < 2:
        return [task() for task in tasks]
    chains = Chains([0] * len(tasks), threads)
    one = chains.add(range(len(tasks)), tasks)
    try:
        chains.finish(one)
    finally:  # also runs after an interrupt
        chains.close()
    if one.errors:
        try:
            raise one.errors.pop(min(one.errors)) or RuntimeError("a task did not run")
        finally:
            del one
    return one.results
