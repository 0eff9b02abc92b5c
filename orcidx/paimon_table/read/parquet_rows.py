"""Parquet data files of a Paimon table. pyarrow reads a selection of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from orcidx.errors import CorruptFile, OrcidxError
from orcidx.explain.model import FileExplanation, StripeExplanation
from orcidx.paimon.data_types import DataType
from orcidx.paimon_table.read.file_rows import FileRows
from orcidx.paimon_table.read.parquet_times import with_zones
from orcidx.paimon_table.read.shared_reading import finest_unit
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.metrics import ScanMetrics
from orcidx.storage import RangeReader, ReaderFile, Source
from orcidx.storage.int96 import Int96Columns, check_range

__all__ = ["ParquetRows", "read_parquet"]


class ParquetRows(FileRows):
    """The remaining rows of a Parquet file."""

    def batches(self, *, together: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``FileRows.batches``. All returned rows are tested."""
        for batch, truth in self._tested(self.kept.rows()):
            yield batch if truth is None else batch.filter(pa.array(truth))

    def places(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Batches of rows with their positions in the file. Every row was tested with the predicate."""
        selection = self.kept.rows()
        places, at = selection.positions(), 0
        for batch, truth in self._tested(selection):
            rows = places[at : at + batch.num_rows]
            at += batch.num_rows
            yield (batch, rows) if truth is None else (batch.filter(pa.array(truth)), rows[truth])

    def explain(self) -> FileExplanation:
        """Explains how many rows of the file are read, and how many bytes of the columns. The file is explained as one
        stripe. If no row is left, a scan does not open the file and reads no bytes of it."""
        rows = self.kept.rows()
        size, kept, footer = self.file.size, self.file.size, 0  # if the file is not Parquet, all of its bytes count
        if self.file.format == "parquet":
            size, kept, footer = _column_bytes(self.file.source, self._columns(), rows)
        only = StripeExplanation(0, 0, self.file.rows, rows.count, size, kept, ())
        read = 0 if rows.is_empty else footer + kept
        return FileExplanation(self.file.path, self.file.rows, (only,), read_bytes=read, size=self.file.size)

    def _columns(self) -> dict[str, DataType]:
        """The names and types of the columns that a scan reads from the file: the wanted columns, and the columns of
        the pushed predicate."""
        pushed = self.kept.pushed
        asked = [] if pushed is None else [path[0] for path in self.kept.bound(pushed).columns]
        names = [entry.file_field.name for entry in self.reading.entries if entry.file_field is not None]
        types = self.kept.types_in_file
        return {name: types[name] for name in [*names, *asked]}

    def _tested(self, selection: RowSelection) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.bool_] | None]]:
        """Batches of the selected rows, with a mask of the rows for which the pushed predicate is true. A mask of None
        means all rows."""
        if selection.is_empty:
            return
        pushed, size = self.kept.pushed, self.kept.scan.options.batch_size
        rows = read_parquet(self.file.source, self._columns(), selection, batch_size=size, metrics=self.metrics)
        for batch in rows:
            self.metrics.rows_considered += batch.num_rows
            yield batch, None if pushed is None else self.kept.bound(pushed, batch.schema).evaluate(batch)


def read_parquet(
    source: Source,
    columns: Mapping[str, DataType],
    kept: RowSelection,
    *,
    batch_size: int,
    metrics: ScanMetrics | None = None,
) -> Iterator[pa.RecordBatch]:
    """Reads the rows in ``kept``, with the given columns in the given order. Row groups without a row in ``kept`` are
    not read. ``columns``: the names and types of the columns. The types determine the time zones of timestamps and the
    unit of INT96 timestamps. ``metrics``: the requests and bytes are added here.

    Raises ``CorruptFile`` if the file is damaged, or if its number of rows differs from ``kept.length``. Raises
    ``ValueOutOfRange`` if an INT96 timestamp does not fit 64 bits in this unit.
    """
    with _opened(source) as reader:
        try:
            yield from _rows(pa.PythonFile(ReaderFile(reader), mode="r"), columns, kept, batch_size)
        finally:
            if metrics is not None:
                metrics.requests += reader.metrics.requests
                metrics.bytes_read += reader.metrics.bytes_fetched


@contextmanager
def _opened(source: Source) -> Iterator[RangeReader]:
    """Opens a Parquet file. Errors of pyarrow in the ``with`` block become ``CorruptFile``."""
    with closing(source.open()) as reader:
        try:
            yield reader
        except (OrcidxError, FileNotFoundError, PermissionError):
            raise
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise CorruptFile(f"the file is not a valid Parquet file: {error}", file=source.name) from None


def _column_bytes(source: Source, types: Mapping[str, DataType], kept: RowSelection) -> tuple[int, int, int]:
    """Returns three numbers of bytes. The first is for the columns in all row groups, and the second for the columns in
    the row groups with rows in ``kept``. The third is for the footer, which is read to compute the first two."""
    with _opened(source) as reader:
        parquet = _parquet_file(pa.PythonFile(ReaderFile(reader), mode="r"), types, kept)
        footer = reader.metrics.bytes_fetched
        prefixes = tuple(f"{name}." for name in _read_names(parquet, types))
        leaves = [i for i in range(len(parquet.schema)) if f"{parquet.schema.column(i).path}.".startswith(prefixes)]
        size = planned = 0
        for group, _, wanted in _kept_groups(parquet, kept):
            facts = parquet.metadata.row_group(group)
            stored = sum(facts.column(leaf).total_compressed_size for leaf in leaves)
            size += stored
            planned += 0 if wanted.is_empty else stored
    return size, planned, footer


def _parquet_file(
    file: pa.NativeFile, types: Mapping[str, DataType], kept: RowSelection
) -> pyarrow.parquet.ParquetFile:
    """Reads the footer. Raises ``CorruptFile`` if the file has not as many rows as ``kept``, or lacks a column."""
    unit = finest_unit(pa.schema([(name, kind.arrow_type) for name, kind in types.items()]))
    parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False, coerce_int96_timestamp_unit=unit)
    if parquet.metadata.num_rows != kept.length:
        raise CorruptFile(f"the file has {parquet.metadata.num_rows} rows, but the manifest says {kept.length}")
    if missing := [name for name in types if name not in parquet.schema_arrow.names]:
        raise CorruptFile(f"the file lacks the column {missing[0]!r} of its schema")
    return parquet


def _read_names(parquet: pyarrow.parquet.ParquetFile, types: Mapping[str, DataType]) -> list[str]:
    # If no column is needed, one column is read anyway, because a batch without columns has no row count.
    return list(types) or parquet.schema_arrow.names[:1]


def _kept_groups(parquet: pyarrow.parquet.ParquetFile, kept: RowSelection) -> Iterator[tuple[int, int, RowSelection]]:
    """Yields, for each row group, its number, the number of its first row, and which of its rows are kept."""
    start = 0
    for group in range(parquet.num_row_groups):
        count = parquet.metadata.row_group(group).num_rows
        if not 0 <= count <= kept.length - start:
            raise CorruptFile(
                f"row group {group} should have {count} rows, but only {kept.length - start} of the file's rows are "
                "left"
            )
        yield group, start, kept.slice(start, start + count)
        start += count
    if start != kept.length:
        raise CorruptFile(f"the row groups have {start} rows, but the footer of the file says {kept.length}")


def _rows(
    file: pa.NativeFile, types: Mapping[str, DataType], kept: RowSelection, batch_size: int
) -> Iterator[pa.RecordBatch]:
    parquet = _parquet_file(file, types, kept)
    columns = _read_names(parquet, types)
    unit = finest_unit(pa.schema([(name, kind.arrow_type) for name, kind in types.items()]))
    int96 = Int96Columns(file, parquet, types, unit)
    for group, at, wanted in _kept_groups(parquet, kept):
        if wanted.is_empty:
            continue
        stop = at + wanted.length
        exact = int96.rows([group], batch_size)
        for batch in parquet.iter_batches(batch_size, row_groups=[group], columns=columns):
            if batch.num_rows > stop - at:
                raise CorruptFile(f"row group {group} has more rows than its metadata says")
            chosen = kept.slice(at, at + batch.num_rows)
            at += batch.num_rows
            milliseconds = None if exact is None else exact.take(batch.num_rows)
            if chosen.is_empty:
                continue
            mask = None if chosen.is_all else pa.array(chosen.mask())
            rows = batch if mask is None else batch.filter(mask)
            if milliseconds is not None:
                check_range(rows, milliseconds if mask is None else milliseconds.filter(mask))
            yield with_zones(rows.select(columns), types)
        if at != stop:
            raise CorruptFile(f"row group {group} has {stop - at} rows fewer than its metadata says")
