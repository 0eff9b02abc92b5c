"""Spark jobs over files. The driver packs the files into bins by bytes. One task processes each bin and returns Arrow
rows.

A task reports the failure of a file as a row, or it stops. If it stops, the driver raises the same error with the
file's name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx import errors
from orcidx.errors import OrcidxError, StorageError
from orcidx.options import ReadOptions
from orcidx.spark.query.parts import pack_sizes
from orcidx.spark.query.placement import place
from orcidx.spark.sessions.arrow_tables import table_of
from orcidx.spark.sessions.hadoop_files import shipped
from orcidx.storage import Fingerprint, Source
from orcidx.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TASK_OPTIONS",
    "FileJobTask",
    "TaskFailure",
    "error_from",
    "listed_sources",
    "raising_what_tasks_raised",
    "rows_of_tasks",
    "run_over_files",
    "weigh",
]

TASK_OPTIONS = ReadOptions(use_threads=False)
"""The options for a task, which has one core."""
OPENING_BYTES = 1 << 20
"""The estimated cost of opening a file, in bytes read."""
LARGEST_TASK_BYTES = 1 << 30
SMALLEST_JOB_TASK = 8 << 20
TASKS_PER_SLOT = 4
FILES_PER_TASK = 128
"""The maximum number of files of one task, whatever their size. When files were packed only by bytes, 10,000 files of a
few KB became ten tasks of a thousand files. On an object store each task took minutes without visible progress, and had
to start again if an executor was lost. With this limit there are 79 tasks, and starting each task costs some 30 ms."""
_BATCH_FILES = 64
"""The number of files whose results a task returns in one batch."""

_FAILURE = re.compile(r"orcidx-failure:(\{.*\})")


class TaskFailure(OrcidxError):
    """A failure of a task. Spark reports the text of the failure to the driver."""

    @classmethod
    def of(cls, error: str, file: str) -> TaskFailure:
        """Makes a failure from the error text of a row. The text has the type of the error, a colon, and the
        message."""
        return cls("orcidx-failure:" + json.dumps({"error": error, "file": file}))


@contextmanager
def raising_what_tasks_raised() -> Iterator[None]:
    """Raises the error of orcidx with which a task stopped. Any other error is raised as Spark reports it."""
    try:
        yield
    except Exception as error:
        match = _FAILURE.search(str(error))
        if match is None:
            raise
        raise error_from(**json.loads(match[1])) from error


def error_from(error: str, file: str) -> OrcidxError:
    """The error that a row reports. An error of another package is converted to a ``StorageError``."""
    name, _, message = error.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, OrcidxError):
        return kind(message.removesuffix(f" (file {file})"), file=file)
    return StorageError(error, file=file)


@dataclass(frozen=True)
class FileJobTask:
    """For ``mapInArrow``: makes a row of ``schema`` for each file. ``make`` gets the file and the file's row in the
    table of the job.

    The paths of the files are relative to the directory ``root``. ``settle`` is called with the rows of each batch
    before the batch is returned."""

    root: Source
    schema: pa.Schema
    make: Callable[[Source, Mapping[str, Any]], Mapping[str, Any]]
    settle: Callable[[list[Any]], None] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[Mapping[str, Any]] = []
        for batch in batches:
            for row, source in listed_sources(self.root, batch):
                waiting.append(self.make(source, row))
                if len(waiting) == _BATCH_FILES:
                    yield self._batch(waiting)
                    waiting = []
        yield self._batch(waiting)

    def _batch(self, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
        if self.settle is not None:
            self.settle(rows)
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)


def listed_sources(root: Source, files: pa.RecordBatch | pa.Table) -> Iterator[tuple[Mapping[str, Any], Source]]:
    """The rows of a table with the columns of ``LISTING``. Each row comes with the source of its file, in the listed
    version."""
    folder = Folder(root)
    for row in files.to_pylist():
        version = Fingerprint(row["size"], row["etag"], row["mtime"])
        yield row, replace(folder.source(row["path"]), size=row["size"], listed=version)


def weigh(sizes: Sequence[int], slots: int, target_bytes: int | None) -> list[int]:
    """The bin of each file. Files are packed by their bytes and by the cost of opening them.

    Without a target there are several tasks for each slot (the place for one running task), so a slow task does not
    leave the other slots idle. A task gets at most 1 GiB, except for a single larger file, and at most
    ``FILES_PER_TASK`` files."""
    weights = [size + OPENING_BYTES for size in sizes]
    if target_bytes is None:
        target_bytes = min(LARGEST_TASK_BYTES, max(SMALLEST_JOB_TASK, sum(weights) // (TASKS_PER_SLOT * slots)))
    return _within(pack_sizes(weights, target_bytes), FILES_PER_TASK)


def _within(bins: Sequence[int], most: int) -> list[int]:
    """Returns the bin of each member, numbered from 0. Each bin with more than ``most`` members is cut into several
    bins of about equal size."""
    members: dict[int, list[int]] = {}
    for one, number in enumerate(bins):
        members.setdefault(number, []).append(one)
    cut = [0] * len(bins)
    parts = 0
    for number in sorted(members):
        count = -(-len(members[number]) // most)
        for position, one in enumerate(members[number]):
            cut[one] = parts + position % count
        parts += count
    return cut


def run_over_files(spark: SparkSession, files: pa.Table, bins: Sequence[int], task: FileJobTask) -> pa.Table:
    """Runs a task over the bins and collects its rows. ``files`` has the columns of ``LISTING``, and may have other
    columns.

    Raises the errors that ``raising_what_tasks_raised`` describes.
    """
    if not files.num_rows:
        return task.schema.empty_table()
    placed = place(spark, files, bins, max(bins) + 1)
    return rows_of_tasks(placed, shipped(task, task.root), task.schema)


def rows_of_tasks(placed: DataFrame, task: Callable[[Any], Any], schema: pa.Schema) -> pa.Table:
    """Runs a task (for ``mapInArrow``) over the parts of a DataFrame, and collects its rows.

    Raises the errors that ``raising_what_tasks_raised`` describes.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    with raising_what_tasks_raised():
        return table_of(placed.mapInArrow(task, from_arrow_schema(schema)), schema)
