"""Parquet data files of a Paimon table, through pyarrow, restricted to a selection of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet

from orcidx.errors import CorruptFile, OrcidxError
from orcidx.pruning.selection import RowSelection
from orcidx.storage import ReaderFile, Source

__all__ = ["read_parquet"]


def read_parquet(
    source: Source, columns: Sequence[str], kept: RowSelection, *, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of ``kept`` in these columns (in this order); row groups without any are not read.

    Raises ``CorruptFile`` when the file is damaged or has not as many rows as ``kept`` spans.
    """
    with closing(source.open()) as reader:
        try:
            yield from _rows(pa.PythonFile(ReaderFile(reader), mode="r"), columns, kept, batch_size)
        except (OrcidxError, FileNotFoundError, PermissionError):
            raise
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise CorruptFile(f"parquet: {error}", file=source.name) from None


def _rows(file: pa.NativeFile, columns: Sequence[str], kept: RowSelection, batch_size: int) -> Iterator[pa.RecordBatch]:
    parquet = pyarrow.parquet.ParquetFile(file, pre_buffer=False)
    if parquet.metadata.num_rows != kept.length:
        raise CorruptFile(f"has {parquet.metadata.num_rows} rows, where the manifest says {kept.length}")
    if missing := [name for name in columns if name not in parquet.schema_arrow.names]:
        raise CorruptFile(f"lacks the column {missing[0]!r} of its schema")
    columns = list(columns) or parquet.schema_arrow.names[:1]  # batches without a column would lose their rows
    start = 0
    for group in range(parquet.num_row_groups):
        count = parquet.metadata.row_group(group).num_rows
        if not 0 <= count <= kept.length - start:
            raise CorruptFile(
                f"row group {group} claims {count} rows, and {kept.length - start} are left of the file's"
            )
        at, stop = start, start + count
        wanted = kept.slice(start, stop)
        start = stop
        if wanted.is_empty:
            continue
        for batch in parquet.iter_batches(batch_size, row_groups=[group], columns=columns):
            if batch.num_rows > stop - at:
                raise CorruptFile(f"row group {group} has more rows than it claims")
            chosen = kept.slice(at, at + batch.num_rows)
            at += batch.num_rows
            if chosen.is_empty:
                continue
            rows = batch if chosen.is_all else batch.filter(pa.array(chosen.mask()))
            yield rows.select(columns)
        if at != stop:
            raise CorruptFile(f"row group {group} has {stop - at} rows less than it claims")
    if start != kept.length:
        raise CorruptFile(f"its row groups have {start} rows, and its footer says {kept.length}")
