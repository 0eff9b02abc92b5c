"""Jobs over files that only Spark's own readers can reach. Spark gives the bytes of each file to a task. The files that
the task writes are returned with its rows, and the driver writes these files to the storage.

These jobs are for file systems that Python cannot read on the executors, such as viewfs, or HDFS without WebHDFS and
Hadoop's library.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx.errors import Unsupported
from orcidx.spark.conditions.relation import escaped
from orcidx.spark.jobs.file_jobs import FileJobTask
from orcidx.spark.sessions.arrow_tables import table_of
from orcidx.storage import Fingerprint, Source
from orcidx.storage.folder import Folder
from orcidx.storage.hadoop_store import hadoop_source, install
from orcidx.storage.stores import Found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LARGEST_FILE_BYTES", "run_over_whole_files"]

LARGEST_FILE_BYTES = 256 << 20
"""The largest size of one file in bytes. A file is held twice in the JVM's memory and once in the worker's."""
JOB_BYTES = 1 << 30
"""The maximum number of bytes of all files of one job. This limits the results that are returned to the driver, because
an index is rarely larger than its file."""
_WRITTEN = pa.field("written", pa.list_(pa.struct([("name", pa.string()), ("data", pa.binary())])))
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass
class HeldFiles:
    """The file system of a task that cannot open files itself. It contains the file that Spark gave to the task, and
    the files that the task has written."""

    held: dict[str, tuple[bytes, Fingerprint]] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    name = "held"

    def source(self, url: str) -> Source:
        return hadoop_source(url, self)

    def list(self, url: str) -> list[Found]:
        return []

    def status(self, url: str) -> Found | None:
        if url in self.written:
            return Found(url, Fingerprint(len(self.written[url])))
        return Found(url, self.held[url][1]) if url in self.held else None

    def read(self, url: str, offset: int, length: int, *, size: int | None = None) -> bytes:
        data = self.written.get(url) if url in self.written else self.held[url][0]
        assert data is not None
        return data[offset : offset + length]

    def write(self, url: str, data: bytes, how: str, temporary: str | None) -> bool:
        self.written[url] = data
        return True

    def rename(self, url: str, to: str) -> None:
        raise Unsupported("a task that reads whole files cannot rename files", file=url)

    def delete(self, url: str) -> None:
        self.written.pop(url, None)

    def make_directory(self, url: str) -> None:
        pass

    def refuses_second(self, url: str) -> bool:
        return False

    def in_tasks(self, url: str) -> Source | None:
        return None


@dataclass(frozen=True)
class _OverBytes:
    """For ``mapInArrow``: the input has the files' paths, times and bytes. The output has the task's rows and the files
    that the task wrote."""

    task: FileJobTask
    token: str
    rows: Mapping[str, Mapping[str, Any]]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        base = f"{self.task.root.location}/"
        for batch in batches:
            for path, changed, content in zip(*batch.columns):
                url, data = path.as_py(), content.as_buffer()
                millis = (changed.as_py() - _EPOCH) // dt.timedelta(milliseconds=1)
                held = HeldFiles({url: (data.to_pybytes(), Fingerprint(data.size, None, millis * 1_000_000))})
                install(self.token, held)
                asked = pa.Table.from_pylist([self.rows[url]])
                (made,) = [row for one in self.task(asked.to_batches()) for row in one.to_pylist()]
                written = [{"name": name.removeprefix(base), "data": one} for name, one in held.written.items()]
                yield pa.RecordBatch.from_pylist([{**made, _WRITTEN.name: written}], schema=self.schema)


def run_over_whole_files(spark: SparkSession, files: pa.Table, task: FileJobTask, problem: str) -> pa.Table:
    """Does the same as ``run_over_files``, but Spark reads the files. ``problem``: the reason why tasks do not open the
    files themselves. Raises ``Unsupported`` for files above ``LARGEST_FILE_BYTES`` bytes."""
    base, rows = str(task.root.location), files.to_pylist()
    large = [row["path"] for row in rows if row["size"] > LARGEST_FILE_BYTES]
    if large:
        raise Unsupported(
            f"Spark can give a whole file to a task only if it has at most {LARGEST_FILE_BYTES >> 20} MiB, but "
            f"{len(large):,} files are larger; {problem}",
            file=f"{base}/{large[0]}",
        )
    found = [_job(spark, some, task) for some in _batched(rows)]
    return pa.concat_tables(found) if found else task.schema.empty_table()


def _batched(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    waiting: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        if waiting and size + row["size"] > JOB_BYTES:
            yield waiting
            waiting, size = [], 0
        waiting.append(row)
        size += row["size"]
    if waiting:
        yield waiting


def _job(spark: SparkSession, rows: Sequence[Mapping[str, Any]], task: FileJobTask) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema

    base, files = str(task.root.location), task.root.filesystem
    by_path = {f"{base}/{row['path']}": row for row in rows}
    schema = task.schema.append(_WRITTEN)
    run = _OverBytes(task, files.token, by_path, schema)
    frame = spark.read.format("binaryFile").load([escaped(one) for one in by_path])
    frame = frame.select("path", "modificationTime", "content")
    found = table_of(frame.mapInArrow(run, from_arrow_schema(schema)), schema)
    folder = Folder(task.root)
    for written in found[_WRITTEN.name].to_pylist():
        for one in written or ():
            folder.put(one["name"], one["data"])
    return found.select(task.schema.names)
