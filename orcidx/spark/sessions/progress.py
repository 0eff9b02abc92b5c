"""The progress of a job over files: a bar on the driver's terminal. The bar advances when a task has ended."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orcidx.extras import installed, needed
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.threads.tasks import Task, spawn
from orcidx.threads.waiting import Flag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Counters", "Progress"]

_INTERVAL_SECONDS = 0.2
"""Seconds between two updates of a progress bar."""


@dataclass(frozen=True)
class Counters:
    """Spark accumulators to which tasks add. Each is None if no bar is shown."""

    files: Any = None
    bytes: Any = None
    errors: Any = None

    def add(self, *, bytes: int, failed: bool) -> None:
        """Counts one file as finished."""
        if self.files is not None:
            self.files.add(1)
            self.bytes.add(bytes)
            self.errors.add(int(failed))


class Progress:
    """A context manager around a job. Its ``counters`` are sent to the tasks.

    ``shown``: whether the bar is shown. None: only if standard error is a terminal and rich is installed. Spark Connect
    has no accumulators, so there is no bar with Spark Connect."""

    def __init__(self, spark: SparkSession, title: str, *, files: int, bytes: int, shown: bool | None = None) -> None:
        wanted = installed("rich") and sys.stderr.isatty() if shown is None else shown
        self.counters = Counters()
        self._total = files, bytes
        self._title = title
        self._end = Flag()
        self._thread: Task[None] | None = None
        self._bar: Any = None
        if wanted and files and not is_connect(spark):
            context = spark.sparkContext
            self.counters = Counters(context.accumulator(0), context.accumulator(0), context.accumulator(0))

    def __enter__(self) -> Progress:
        if self.counters.files is not None:
            self._bar = _open_bar()
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total[0], bytes=0, errors=0)
            self._thread = spawn(self._poll)
        return self

    def _poll(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            self._show()

    def _show(self) -> None:
        files, total_bytes = self._total
        done = min(self.counters.files.value, files)  # if a task runs twice, its files are counted twice
        read = min(self.counters.bytes.value, total_bytes)
        self._bar.update(self._task, completed=done, bytes=read, errors=self.counters.errors.value)

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._end.set()
            self._thread.wait()
            self._show()
            self._bar.stop()


def _open_bar() -> Any:
    with needed("rich"):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[bytes]:,} bytes, {task.fields[errors]} errors"),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=Console(stderr=True))
