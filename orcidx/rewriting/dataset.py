"""``orcidx.write_dataset`` writes rows into a directory of ORC files, with partitions as in Hive. If a call is killed,
a second call can complete the directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.keywords import lists_options
from orcidx.orc_writer.options import EncodingOptionsByName, WriteOptions
from orcidx.orc_writer.writer import OrcWriter, batches_of, schema_of_rows
from orcidx.rewriting.dataset_job import DatasetJob, JobFile, Mode, spec_of
from orcidx.rewriting.partitions import PartitionKey, check_partition_columns, hive_path, split_batch
from orcidx.rewriting.progress import RowProgress
from orcidx.rewriting.row_hashes import RowsSeen
from orcidx.storage import OneSource
from orcidx.storage.folder import Folder
from orcidx.storage.sink import open_sink, sources_of
from orcidx.storage.sources import describe_target
from orcidx.storage.stores import store_of

__all__ = ["DatasetFile", "WrittenDataset", "write_dataset"]

PENDING_ROWS = 1 << 14
PENDING_BYTES = 1 << 20
"""The rows of a partition are collected until there are this many rows or bytes, and are then written together. The
reason is that a batch may contain only a few rows of each of many partitions."""


@dataclass(frozen=True)
class DatasetFile:
    """``path`` is relative to the directory. ``partition`` has the partition values as text, by column name.
    ``written`` says whether this call wrote the file."""

    path: str
    partition: Mapping[str, str | None] = field(hash=False)
    rows: int
    bytes: int
    written: bool


@dataclass(frozen=True)
class WrittenDataset:
    """All files of the job, including the files of earlier calls.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> written = orcidx.write_dataset(pa.table({"id": [1, 2, 3]}), "ids")
    >>> written.rows, len(written.files)
    (3, 1)
    """

    directory: str
    job: str
    files: tuple[DatasetFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(one.rows for one in self.files)

    @property
    def bytes(self) -> int:
        """The number of bytes of all files."""
        return sum(one.bytes for one in self.files)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values.

        Returns
        -------
        dict
        """
        return asdict(self)


class _DatasetOptions(EncodingOptionsByName, total=False):
    spark: bool


@lists_options(WriteOptions)
def write_dataset(
    source: object,
    directory: OneSource,
    *,
    partition_by: str | Sequence[str] = (),
    max_file_bytes: int = 256 << 20,
    mode: Mode = "error",
    job: str | None = None,
    max_memory: int = 512 << 20,
    max_partitions: int = 1024,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object = None,
    options: WriteOptions | None = None,
    **overrides: Unpack[_DatasetOptions],
) -> WrittenDataset:
    """Writes many ORC files of about ``max_file_bytes`` into a directory.

    A file is visible only when it is complete. Only one call at a time may work on a job.

    Parameters
    ----------
    source : pyarrow.Table, RecordBatchReader, Scan or data frame
        With a Table, the files of each partition have about the same size. With a stream, the last file is smaller.
    directory : path or URL
        The directory for the files.
    partition_by : str or sequence of str
        Columns whose values become directories ``column=value``. Values are escaped as in Spark, and null becomes
        ``__HIVE_DEFAULT_PARTITION__``. The files do not contain these columns. ``orcidx.scan`` restores the columns and
        prunes files by them.
    max_file_bytes : int
        Size of a file in bytes, at least 64 KiB.
    mode : {"error", "append", "overwrite"}
        What to do if the directory already has ORC files. "error": the call raises an error. "append": the files stay.
        "overwrite": the old files are deleted after all new files are written. In the meantime, a reader may see both
        the old and the new files. Files that were added or changed after the call began are not deleted.
    job : str, optional
        A name for the call. If a call is killed, the same call with the same rows completes the directory. If the job
        is already done, the call only compares the rows. With mode="overwrite", only the files are deleted that existed
        at the first call of the job. Without a name, each call writes all its rows, and deletes its files after an
        error.
    max_memory : int
        Maximum bytes that open files may buffer, at least 1 MiB. Above this, the file with the largest buffer ends its
        stripe.
    max_partitions : int
        Maximum number of partitions whose files are open at once.
    progress : bool, optional
        Shows a bar on standard error. None: only if standard error is a terminal.
    storage_options : dict, optional
        Options that are given to fsspec for a URL.
    filesystem : fsspec, pyarrow.fs or obstore file system, optional
        The file system in which ``directory`` is a path.
    options : WriteOptions, optional
        Options for writing the files.
    **overrides
        Single fields of ``WriteOptions`` by name.

    Returns
    -------
    WrittenDataset
        The files with their rows and bytes.

    Raises
    ------
    InvalidQuery
        For a partition column that does not exist, whose type cannot be a directory name, or that has an empty string.
        For existing files if ``mode`` is "error". For rows that differ from the rows of the job. Other errors are the
        same as in ``write_table``.
    StorageError
        If an old file changes while mode="overwrite" writes the new files. No old file is deleted then.

    Examples
    --------
    >>> import orcidx, pyarrow as pa
    >>> table = pa.table({"city": ["Oslo", "Rom"], "n": [1, 2]})
    >>> result = orcidx.write_dataset(table, "cities", partition_by="city")
    >>> orcidx.scan("cities", where="city = 'Rom'").to_table().to_pylist()
    [{'n': 2, 'city': 'Rom'}]
    """
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    chosen = (options or WriteOptions()).override(**overrides)
    if max_file_bytes < 1 << 16:
        raise InvalidQuery(f"max_file_bytes must be at least 65,536 (64 KiB), but is {max_file_bytes}")
    if max_memory < 1 << 20:
        raise InvalidQuery(f"max_memory must be at least 1,048,576 (1 MiB), but is {max_memory}")
    if max_partitions < 1:
        raise InvalidQuery(f"max_partitions must be at least 1, but is {max_partitions}")
    schema, batches = _opened(source)
    check_partition_columns(schema, names)
    folder = Folder(describe_target(directory, storage_options=storage_options, filesystem=filesystem))
    held = pa.schema([schema.field(name) for name in schema.names if name not in names])
    settings = sorted((name, repr(value)) for name, value in vars(chosen).items() if name != "use_threads")
    known = DatasetJob.open(folder, job, spec_of(schema.to_string(), names, max_file_bytes, settings), mode)
    sizes = _FileSizes(max_file_bytes, _expected(source, names))
    writing = _Writing(folder, known, held, names, chosen, sizes, max_memory, max_partitions)
    known.made_of = [*sources_of(source), *map(folder.source, known.replaced_data)]
    rows = source.num_rows if isinstance(source, pa.Table | pa.RecordBatch) else None
    with RowProgress(folder.name, rows, progress) as shown:
        try:
            for batch in batches:
                writing.write(batch)
                shown.advance(batch.num_rows)
            return writing.finish()
        except BaseException:
            writing.abort()
            raise


def _opened(source: Any) -> tuple[pa.Schema, Any]:
    batches = batches_of(source)
    schema = schema_of_rows(source, batches)
    if schema is None:
        raise InvalidQuery(
            f"a {type(source).__name__} is not supported as source; give a Table, a reader, a scan or a data frame"
        )
    return schema, batches


def _expected(source: Any, names: Sequence[str]) -> Counter[PartitionKey] | None:
    """The number of rows of each partition. The result is None if not all rows are in memory."""
    if not isinstance(source, pa.Table | pa.RecordBatch):
        return None
    found: Counter[PartitionKey] = Counter()
    if not names:
        found[()] = source.num_rows
        return found
    marked = pa.table({**{name: source[name] for name in names}, "": pa.nulls(source.num_rows)})
    for batch in marked.to_batches():
        for key, rows in split_batch(batch, names):
            found[key] += rows.num_rows
    return found


@dataclass
class _Partition:
    """One directory, with its waiting rows and its open file. ``earlier``: files of an earlier call in this directory.
    A file is removed from the list when this call has received all rows of the file again."""

    key: PartitionKey
    folder: str
    earlier: list[JobFile]
    sequence: int = 0
    rows_seen: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_rows: int = 0
    pending_bytes: int = 0
    passing: RowsSeen = field(default_factory=RowsSeen)
    writer: OrcWriter | None = None
    path: str = ""
    seen: RowsSeen = field(default_factory=RowsSeen)

    @property
    def held(self) -> int:
        return self.pending_bytes + (self.writer.bytes_buffered if self.writer is not None else 0)


class _EarlierCall:
    """The files that an earlier call of the same job has written."""

    def __init__(self, job: DatasetJob, folder: Folder) -> None:
        self.paths = {one.path for one in job.files}
        self._is_done = job.done
        self._job = job
        self._folder = folder

    def without(self, part: _Partition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Removes the rows that an earlier call has written. Raises an error if these rows differ from the written
        rows."""
        while part.earlier and batch.num_rows:
            file = part.earlier[0]
            taken = min(batch.num_rows, file.rows - part.passing.rows)
            part.passing = part.passing.with_batch(batch.slice(0, taken))
            batch = batch.slice(taken)
            part.rows_seen += taken
            if part.passing.rows == file.rows:
                if part.passing != file.seen:
                    raise self.rows_differ(f"the rows given for {file.path} are not the rows in this file")
                part.earlier.pop(0)
                part.passing = RowsSeen()
        if batch.num_rows and self._is_done:
            raise self.rows_differ("more rows are given than the job wrote")
        return batch

    def rows_differ(self, what: str) -> InvalidQuery:
        return InvalidQuery(
            f"the rows differ from the rows that the job {self._job.name!r} wrote: {what}; "
            "give another name as job= to add them",
            file=self._folder.name,
        )


class _FileSizes:
    """Computes how many rows go into a file of about ``file_bytes``. ``expected`` has the number of rows of each
    partition, if it is known."""

    def __init__(self, file_bytes: int, expected: Counter[PartitionKey] | None) -> None:
        self._file_bytes = file_bytes
        self._expected = expected

    def is_full(self, part: _Partition) -> bool:
        """Whether the open file of a partition has reached its target size and must be finished."""
        return part.seen.rows >= self._target_rows(part) or _bytes_of(part) >= self._file_bytes

    def room(self, part: _Partition) -> int:
        """The number of rows to write before the size is checked again."""
        if part.seen.rows < 1000:
            return 1000
        left = (self._file_bytes - _bytes_of(part)) * part.seen.rows // max(1, _bytes_of(part))
        return max(1, min(PENDING_ROWS, left, self._target_rows(part) - part.seen.rows))

    def _target_rows(self, part: _Partition) -> int:
        """The number of rows of each file, if the rows of the partition are spread evenly over its files."""
        if self._expected is None or part.seen.rows < 1000:
            return 1 << 62
        left = self._expected[part.key] - part.rows_seen + part.seen.rows
        files = -(-left * _bytes_of(part) // (part.seen.rows * self._file_bytes))
        return -(-left // max(1, files))


def _bytes_of(part: _Partition) -> int:
    """The bytes of a partition's open file so far."""
    return 0 if part.writer is None else part.writer.bytes_written + part.writer.bytes_buffered


class _Writing:
    """The open files of a call."""

    def __init__(
        self,
        folder: Folder,
        job: DatasetJob,
        schema: pa.Schema,
        names: Sequence[str],
        options: WriteOptions,
        sizes: _FileSizes,
        *limits: int,
    ) -> None:
        self._folder = folder
        self._job = job
        self._schema = schema
        self._names = names
        self._options = options
        self._sizes = sizes
        self._memory, self._most = limits
        self._open: dict[PartitionKey, _Partition] = {}
        self._earlier = _EarlierCall(job, folder)

    def write(self, batch: pa.RecordBatch) -> None:
        for key, rows in split_batch(batch, self._names):
            part = self._open.get(key) or self._enter(key)
            part.pending.append(rows)
            part.pending_rows += rows.num_rows
            part.pending_bytes += rows.nbytes
            if part.pending_rows >= PENDING_ROWS or part.pending_bytes >= PENDING_BYTES:
                self._flush(part)
        while sum(part.held for part in self._open.values()) > self._memory:
            largest = max(self._open.values(), key=lambda part: part.held)
            self._flush(largest)
            if largest.writer is not None:
                largest.writer.end_stripe()

    def _enter(self, key: PartitionKey) -> _Partition:
        if len(self._open) >= self._most:
            raise InvalidQuery(
                f"the rows have more than {self._most} partitions; partition by fewer columns, or raise max_partitions="
            )
        folder = hive_path(self._names, key)
        part = self._open[key] = _Partition(key, folder, self._job.of_partition(key))
        part.sequence = len(part.earlier)
        return part

    def _flush(self, part: _Partition) -> None:
        if not part.pending:
            return
        rows = pa.Table.from_batches(part.pending).combine_chunks().to_batches()
        part.pending, part.pending_rows, part.pending_bytes = [], 0, 0
        for batch in rows:
            self._append(part, self._earlier.without(part, batch))

    def _append(self, part: _Partition, batch: pa.RecordBatch) -> None:
        at = 0
        while at < batch.num_rows:
            if part.writer is None:
                self._begin(part)
            assert part.writer is not None
            rest = batch.slice(at, self._sizes.room(part))
            part.writer.write(rest)
            part.seen = part.seen.with_batch(rest)
            part.rows_seen += rest.num_rows
            at += rest.num_rows
            if self._sizes.is_full(part):
                self._end(part)

    def _begin(self, part: _Partition) -> None:
        part.path = f"{part.folder}part-{part.sequence:05}-{self._job.token}.orc"
        place = self._folder.source(part.path)
        store, path = store_of(place)
        store.make_parent(path)
        private = self._job.made_of and place.kind == "path"
        target = open_sink(place, made_of=self._job.made_of) if private else place
        part.writer = OrcWriter(target, self._schema, options=self._options)
        part.seen = RowsSeen()

    def _end(self, part: _Partition) -> None:
        assert part.writer is not None
        result = part.writer.close()
        part.writer = None
        part.sequence += 1
        self._job.add(JobFile(part.path, part.key, result.rows, result.bytes, part.seen))

    def finish(self) -> WrittenDataset:
        for part in self._open.values():
            self._flush(part)
            if part.writer is not None:
                self._end(part)
            if any(one.rows for one in part.earlier):
                raise self._earlier.rows_differ(f"not all rows of {part.earlier[0].path} are given")
        gone = {one.partition for one in self._job.files if one.rows} - self._open.keys()
        if gone:
            folder = hive_path(self._names, min(gone, key=str))
            where = f" of the partition {folder}" if folder else ""
            raise self._earlier.rows_differ(f"no rows{where} are given")
        if not self._job.files and not self._names:
            self._begin(part := self._enter(()))
            self._end(part)
        self._job.finish()
        before = self._earlier.paths
        files = tuple(
            DatasetFile(one.path, dict(zip(self._names, one.partition)), one.rows, one.bytes, one.path not in before)
            for one in sorted(self._job.files, key=lambda one: one.path)
        )
        return WrittenDataset(self._folder.name, self._job.name, files)

    def abort(self) -> None:
        for part in self._open.values():
            if part.writer is not None:
                part.writer.abort()
        self._job.drop()
