"""Data files of an append table: rows into files of their partition and bucket, statistics and file index with them.

A file is encoded by pyarrow in memory and stored whole, under a name of its own, before any manifest names it.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet

from orcidx.errors import Unsupported
from orcidx.paimon.build import FileIndexBuilder
from orcidx.paimon.file_index_options import FileIndexOptions
from orcidx.paimon.registry import parse_size
from orcidx.paimon_table.column_statistics import ColumnStatistics, stats_modes, stored_stats
from orcidx.paimon_table.schema import TableSchema
from orcidx.paimon_table.table_paths import bucket_path
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["DataFiles", "WrittenFile", "check_writable"]

_ORC_CODECS = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "zlib": "zlib", "none": "uncompressed"}
_PARQUET_CODECS = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "gzip": "gzip", "none": "none"}
_FLAT = """BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP
TIMESTAMP_LTZ"""
_WRITTEN_TYPES = frozenset(_FLAT.split())
_FINEST_IN_PARQUET = 6
_MOST_BUFFERED = 256 << 20
"""Encoded bytes of all open files; beyond, the largest is finished, though it is smaller than the target."""


def check_writable(schema: TableSchema) -> str:
    """The format of new data files; raises ``Unsupported`` for a format, codec or type that is not written."""
    options = schema.options
    form = options.get("file.format", "parquet").strip().lower()
    codecs = _ORC_CODECS if form == "orc" else _PARQUET_CODECS
    codec = options.get("file.compression", "zstd").strip().lower()
    if codec not in codecs:
        raise Unsupported(f"{form} files are not written with file.compression {codec!r}; {', '.join(codecs)} are")
    for column in schema.fields:
        if column.type.root not in _WRITTEN_TYPES:
            raise Unsupported(f"{column.type} is not written here; append with Paimon", column=column.name)
        fine = column.type.root.startswith("TIMESTAMP") and column.type.precision > _FINEST_IN_PARQUET
        if form == "parquet" and fine:
            raise Unsupported(f"{column.type} is not written to parquet; append with Paimon", column=column.name)
    return form


@dataclass(frozen=True)
class WrittenFile:
    """A data file that is stored; ``stats`` as a manifest has them. Picklable."""

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


class DataFiles:
    """The files that rows of one schema go to. ``stored``: paths in the table of what has been written so far."""

    def __init__(self, root: Source, schema: TableSchema, *, dense: bool) -> None:
        self.dense = dense
        self.schema = schema
        self.folder = Folder(root)
        self.form = check_writable(schema)
        self.index = FileIndexOptions.parse(schema.options)
        self.target = parse_size("target-file-size", schema.options.get("target-file-size", "256 mb"))
        self.most_rows = int(schema.options.get("target-file-row-num", str((1 << 63) - 1)))
        self.uuid = uuid.uuid4()
        self.stored: list[str] = []
        self.written: list[WrittenFile] = []
        self._open: dict[tuple[bytes, int], _OpenFile] = {}
        self._number = 0

    def write(self, partition: bytes, values: tuple[Any, ...], bucket: int, rows: pa.RecordBatch) -> None:
        """Appends rows, all of one partition and bucket."""
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

    def new_name(self) -> str:
        prefix = self.schema.options.get("data-file.prefix", "data-")
        name = f"{prefix}{self.uuid}-{self._number}.{self.form}"
        self._number += 1
        return name

    def store(self, path: str, data: bytes) -> None:
        self.stored.append(path)
        self.folder.put(path, data)


class _OpenFile:
    def __init__(self, files: DataFiles, partition: bytes, bucket: int, directory: str) -> None:
        self.files = files
        self.place = (partition, bucket)
        self.directory = directory
        self.rows = 0
        self.sink = io.BytesIO()
        schema = files.schema
        modes = stats_modes(schema.fields, schema.options)
        self.statistics = {f.name: ColumnStatistics(f.type, modes[f.name]) for f in schema.fields}
        self.schema = pa.schema([pa.field(f.name, stored_type(f.type, files.form)) for f in schema.fields])
        types = {f.name: f.type for f in schema.fields}
        spec = files.index.spec
        self.index = FileIndexBuilder(spec, schema.arrow_schema, types) if any(spec.values()) else None
        self.writer = _writer(self.sink, self.schema, files.form, schema.options)

    @property
    def bytes(self) -> int:
        """Encoded so far."""
        return self.sink.tell()

    def write(self, rows: pa.RecordBatch) -> None:
        if self.files.form == "orc":
            for name in self.schema.names:
                check_times(rows.column(name), name)
        self.rows += rows.num_rows
        if self.index is not None:
            self.index.add(rows)
        if self.files.form == "orc":
            rows = _padded(rows, self.files.schema)
        for name, statistics in self.statistics.items():
            statistics.add(rows.column(name))
        arrays = [_stored(rows.column(field.name), field.type) for field in self.schema]
        self.writer.write(pa.Table.from_arrays(arrays, schema=self.schema))

    def finish(self) -> WrittenFile:
        files, schema = self.files, self.files.schema
        self.writer.close()
        data = self.sink.getvalue()
        name = files.new_name()
        files.store(f"{self.directory}/{name}", data)
        container = None if self.index is None else self.index.finish().to_bytes()
        sidecar, size = None, len(container or b"")
        if container is not None and not files.index.is_embedded(size):
            sidecar = f"{name}.index"
            files.store(f"{self.directory}/{sidecar}", container)
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


def _writer(sink: Any, schema: pa.Schema, form: str, options: Mapping[str, str]) -> Any:
    codec = options.get("file.compression", "zstd").strip().lower()
    if form == "orc":
        return pyarrow.orc.ORCWriter(sink, compression=_ORC_CODECS[codec], compression_block_size=256 << 10)
    # Java looks for a wide decimal in a dictionary with bytes of another width, and misses it.
    plain = [field.name for field in schema if pa.types.is_decimal(field.type) and field.type.precision > 18]
    dictionaries = [field.name for field in schema if field.name not in plain]
    level = int(options.get("file.compression.zstd-level", "1")) if codec == "zstd" else None
    return pyarrow.parquet.ParquetWriter(
        sink,
        schema,
        compression=_PARQUET_CODECS[codec],
        compression_level=level,
        use_dictionary=dictionaries,
        store_decimal_as_integer=True,
    )


def stored_type(data_type: Any, form: str) -> pa.DataType:
    """The Arrow type of a column in a file: ORC has no times of day, which Paimon stores as milliseconds."""
    return pa.int32() if data_type.root == "TIME" and form == "orc" else data_type.arrow_type


def _stored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _padded(rows: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """CHAR in ORC is padded, in statistics, too, as Java's ORC does it; the file index has it as it was given."""
    for i, column in enumerate(schema.fields):
        if column.type.root == "CHAR":
            padded = pc.utf8_rpad(rows.column(i), column.type.length, " ")
            rows = rows.set_column(i, rows.schema.field(i), padded)
    return rows


def check_times(array: pa.Array, name: str) -> None:
    """Raises ``Unsupported`` for times that pyarrow writes to ORC so that Paimon's Java cannot read the file.

    Its nanoseconds are negative before 1970, and Paimon takes only milliseconds of such (IllegalArgumentException).
    """
    per_milli = {"us": 1_000, "ns": 1_000_000}.get(array.type.unit) if pa.types.is_timestamp(array.type) else None
    if per_milli is None:
        return
    values = array.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False)
    if ((values < 0) & (values % per_milli != 0)).any():
        raise Unsupported(
            "times before 1970 with parts of a millisecond are not written to ORC: Paimon's Java could not read them; "
            "use a table with file.format = parquet, or append with Paimon",
            column=name,
        )


def pieces(files: list[WrittenFile]) -> Iterator[str]:
    """The paths in the table of everything that the files are."""
    for file in files:
        yield f"{file.directory}/{file.name}"
        if file.sidecar is not None:
            yield f"{file.directory}/{file.sidecar}"
