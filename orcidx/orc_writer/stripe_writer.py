"""Rows into stripes: batches are cut into slices that end where row groups end, encoded column by column.

A slice holds at most 8 MiB of Arrow data, and is encoded (and compressed, as far as chunks get full) at once; then it
is looked whether the stripe is large enough. So a stripe holds compressed bytes, and rows of any size end it in time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import pyarrow as pa

from orcidx.errors import ValueOutOfRange
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata import TypeRecord
from orcidx.orc_writer.array_layouts import written_bytes
from orcidx.orc_writer.arrow_types import WriteNode, bloom_columns
from orcidx.orc_writer.chunks import OutStream, frame
from orcidx.orc_writer.column_tree import ColumnWriter, Piece, RootWriter, open_column_writer
from orcidx.orc_writer.columns import BadValue
from orcidx.orc_writer.compressors import Compressor
from orcidx.orc_writer.file_layout import StripeData
from orcidx.orc_writer.options import WriteOptions
from orcidx.storage.threads import LazyPool

__all__ = ["StripeWriter", "type_records"]

SLICE_BYTES = 8 << 20
SMALLEST_SLICE = 4 << 10
SMALLEST_TASK = 64 << 10
"""Bytes of Arrow data below which a slice is encoded without threads."""

ENCODERS = LazyPool(pa.cpu_count(), "orcidx-encoder")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENCODERS.forget)


class StripeWriter:
    """Encodes rows; ``finish`` hands out the stripe. ``name`` of the file, for messages."""

    def __init__(self, root: WriteNode, options: WriteOptions, compressor: Compressor | None, *, name: str) -> None:
        self.name = name
        self.rows = 0
        """Rows of the stripe so far."""
        self._root = root
        self._options = options
        self._compressor = compressor
        self._block = options.compression_block_size
        threshold = options.dictionary_key_size_threshold
        self._writer = cast(
            RootWriter,
            open_column_writer(
                root,
                lambda: OutStream(compressor, self._block),
                blooms=bloom_columns(root, options.bloom_filter_columns),
                fpp=options.bloom_filter_fpp,
                threshold=-1 if threshold == "auto" else threshold,
                has_index=options.row_index_stride > 0,
            ),
        )
        self._columns = self._writer.walk()
        self._stride = options.row_index_stride or (1 << 62)
        self._group_rows = 0
        self._has_times = any(node.kind is TypeKind.TIMESTAMP for node in root.walk())

    @property
    def held(self) -> int:
        """Bytes of memory that the stripe takes."""
        return sum(column.held for column in self._columns)

    def slice_rows(self, batch: pa.RecordBatch) -> int:
        """How many of the batch's first rows go into one slice: such as take 8 MiB, or one row that is larger."""
        limit = max(SMALLEST_SLICE, min(SLICE_BYTES, self._options.stripe_size // 2))
        rows: int = batch.num_rows
        while rows > 1 and (size := batch_bytes(batch.slice(0, rows))) > limit:
            rows = max(1, min(rows * limit // size, rows - 1))
        return rows

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Appends a slice; ``first_row``: its number in the file, for messages."""
        pieces = self._pieces(batch.num_rows)
        self._writer.write_rows(pieces)
        threads = (
            self._options.use_threads
            and len(self._writer.children) > 1
            and pa.cpu_count() > 1
            and batch_bytes(batch) > SMALLEST_TASK
        )
        tasks = list(zip(self._writer.children, batch.columns, strict=True))
        if threads:
            self._write_in_threads(tasks, pieces, first_row)
        else:
            for writer, array in tasks:
                self._write_column(writer, array, pieces, first_row)
        self.rows += batch.num_rows

    def _write_in_threads(self, tasks: Sequence[tuple[ColumnWriter, Any]], pieces: Sequence[Piece], first: int) -> None:
        """The largest columns first. Of several errors the first column's is raised, as without threads."""
        order = sorted(range(len(tasks)), key=lambda i: -tasks[i][1].nbytes)
        running: dict[int, Future[None]] = {}
        for i in order:
            writer, array = tasks[i]
            running[i] = ENCODERS.submit(partial(self._write_column, writer, array, pieces, first))
        errors = [running[i].exception() for i in range(len(tasks))]
        for error in errors:
            if error is not None:
                raise error

    def _write_column(self, writer: ColumnWriter, array: Any, pieces: Sequence[Piece], first: int) -> None:
        try:
            writer.write(array, pieces)
        except BadValue as error:
            place = error.path or writer.node.dotted
            raise ValueOutOfRange(f"row {first + error.row}: {error.reason}", file=self.name, column=place) from error

    def _pieces(self, rows: int) -> list[Piece]:
        pieces = []
        at = 0
        while at < rows:
            stop = min(rows, at + self._stride - self._group_rows)
            self._group_rows += stop - at
            ends = self._group_rows == self._stride
            if ends:
                self._group_rows = 0
            pieces.append(Piece(at, stop, ends))
            at = stop
        return pieces

    def finish(self) -> StripeData:
        """The stripe, valid until ``clear``. Its open row group ends here."""
        if self._group_rows or not self.rows:
            self._writer.end_group()
            self._group_rows = 0

        def framed(data: bytes) -> bytes:
            return frame(data, self._compressor, self._block)

        done = [column.finish_stripe(framed) for column in self._columns]
        return StripeData(
            rows=self.rows,
            streams=[stream for column in done for stream in column.streams],
            encodings=[column.encoding for column in done],
            statistics=[writer.stripe_statistics(column) for writer, column in zip(self._columns, done, strict=True)],
            writer_timezone="UTC" if self._has_times else None,
        )

    def clear(self) -> None:
        """Starts anew, for the next stripe."""
        for column in self._columns:
            column.clear()
        self.rows = 0

    def file_statistics(self) -> list[bytes]:
        """ColumnStatistics messages of all finished stripes, by column id."""
        return [column.file_statistics() for column in self._columns]


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch, with what views and dictionaries name for each row."""
    return sum(map(written_bytes, batch.columns))


def type_records(root: WriteNode) -> list[TypeRecord]:
    """The types of the footer."""
    return [
        TypeRecord(
            kind=node.kind,
            subtypes=tuple(child.id for child in node.children),
            field_names=node.names,
            max_length=node.max_length,
            precision=node.precision,
            scale=node.scale,
            attributes=node.attributes,
        )
        for node in root.walk()
    ]
