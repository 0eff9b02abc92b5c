"""Writes the data files of an append table. Each row is written to a file of its partition and bucket. Each file gets
statistics and a file index.

A file is encoded in memory and stored as a whole, under a unique name, before any manifest names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orcidx.paimon.build import FileIndexBuilder
from orcidx.paimon.file_index_options import FileIndexOptions, for_every_reader
from orcidx.paimon.registry import parse_size
from orcidx.paimon_table.data_files.column_statistics import ManifestStatistics, stats_modes, stored_stats
from orcidx.paimon_table.data_files.data_file_formats import as_stored, check_writable, open_encoder
from orcidx.paimon_table.metadata.option_values import parse_whole
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.table_paths import bucket_path, schema_file
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["DataFiles", "WrittenFile"]

_MOST_BUFFERED = 256 << 20
"""The maximum number of bytes in all open files together. Above this limit the largest open file is finished, even if
the file is smaller than the target size."""


@dataclass(frozen=True)
class WrittenFile:
    """A data file that has been stored. ``stats``: its statistics in the form of manifests. The object can be
    pickled."""

    partition: bytes
    bucket: int
    directory: str
    name: str
    size: int
    rows: int
    stats: dict[str, Any] = field(repr=False)
    stats_columns: list[str] | None
    container: bytes | None = field(repr=False)
    sidecar: str | None
    sidecar_size: int


class NewFiles:
    """New files of a table, with unique names. ``paths``: the stored files' paths within the table."""

    def __init__(self, root: Source, schema: TableSchema, form: str) -> None:
        self.folder = Folder(root, made_of=schema_file(root, schema))
        self.paths: list[str] = []
        self._prefix = f"{schema.options.get('data-file.prefix', 'data-')}{uuid.uuid4()}"
        self._form = form
        self._number = 0

    def name(self) -> str:
        """The name of the next data file."""
        name = f"{self._prefix}-{self._number}.{self._form}"
        self._number += 1
        return name

    def store(self, path: str, data: bytes) -> None:
        self.paths.append(path)
        self.folder.put(path, data)


class DataFiles:
    """The data files for rows of one schema: the files that are still open, and the files that have been written."""

    def __init__(self, root: Source, schema: TableSchema, *, dense: bool) -> None:
        self.dense = dense
        self.schema = schema
        self.form = check_writable(schema)
        self.new = NewFiles(root, schema, self.form)
        self.index = FileIndexOptions.parse(schema.options)
        self.target = parse_size("target-file-size", schema.options.get("target-file-size", "256 mb"))
        most_rows = schema.options.get("target-file-row-num", str((1 << 63) - 1))
        self.most_rows = parse_whole("target-file-row-num", most_rows, least=1)
        self.written: list[WrittenFile] = []
        self._open: dict[tuple[bytes, int], _OpenFile] = {}

    def write(self, partition: bytes, values: tuple[Any, ...], bucket: int, rows: pa.RecordBatch) -> None:
        """Appends rows that are all of one partition and bucket."""
        place = (partition, bucket)
        while rows.num_rows:
            current = self._open.get(place)
            if current is None:
                directory = bucket_path(self.schema, bucket, values)
                current = self._open[place] = _OpenFile(self, partition, bucket, directory)
            fits = min(rows.num_rows, self.most_rows - current.rows)
            current.write(rows.slice(0, fits))
            rows = rows.slice(fits)
            if current.rows >= self.most_rows or current.bytes >= self.target:
                self._finish(place)
        while sum(file.bytes for file in self._open.values()) > _MOST_BUFFERED:
            self._finish(max(self._open, key=lambda place: self._open[place].bytes))

    def close(self) -> list[WrittenFile]:
        """Finishes all files."""
        for place in list(self._open):
            self._finish(place)
        return self.written

    def _finish(self, place: tuple[bytes, int]) -> None:
        self.written.append(self._open.pop(place).finish())


class _OpenFile:
    def __init__(self, files: DataFiles, partition: bytes, bucket: int, directory: str) -> None:
        self.files = files
        self.place = (partition, bucket)
        self.directory = directory
        self.rows = 0
        schema = files.schema
        modes = stats_modes(schema.fields, schema.options)
        self.statistics = {f.name: ManifestStatistics(f.type, modes[f.name]) for f in schema.fields}
        types = {f.name: f.type for f in schema.fields}
        spec = for_every_reader(files.index.spec)
        self.index = FileIndexBuilder(spec, schema.arrow_schema, types) if any(spec.values()) else None
        self.encoder = open_encoder(schema, files.form)

    @property
    def bytes(self) -> int:
        """The size of the file in bytes, including rows that are not encoded yet."""
        return self.encoder.size

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        if self.index is not None:
            self.index.add(rows)  # the index gets CHAR values without padding
        rows = as_stored(rows, self.files.schema, self.files.form)
        for name, statistics in self.statistics.items():
            statistics.add(rows.column(name))
        self.encoder.write(rows)

    def finish(self) -> WrittenFile:
        files, schema = self.files, self.files.schema
        data = self.encoder.finish()
        name = files.new.name()
        files.new.store(f"{self.directory}/{name}", data)
        container = None if self.index is None else self.index.finish().to_bytes()
        sidecar, size = None, len(container or b"")
        if container is not None and not files.index.is_embedded(size):
            sidecar = f"{name}.index"
            files.new.store(f"{self.directory}/{sidecar}", container)
            container = None
        stats, columns = stored_stats(schema.fields, self.statistics, dense=files.dense)
        partition, bucket = self.place
        return WrittenFile(
            partition,
            bucket,
            self.directory,
            name,
            len(data),
            self.rows,
            stats,
            columns,
            container,
            sidecar,
            size,
        )


def pieces(files: list[WrittenFile]) -> Iterator[str]:
    """The paths of the data files and of their index files within the table."""
    for file in files:
        yield f"{file.directory}/{file.name}"
        if file.sidecar is not None:
            yield f"{file.directory}/{file.sidecar}"
