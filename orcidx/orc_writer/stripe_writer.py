"""Writes rows into stripes. Batches are cut into slices, which end at the ends of row groups. A slice is encoded column
by column.

A slice has at most 8 MiB of Arrow data. The whole slice is encoded, and full chunks are compressed. Then the size of
the stripe is checked. So the size of a stripe is measured in compressed bytes, and the stripe stays near its limit even
if rows are large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

import pyarrow as pa

from orcidx.orc.kinds import TypeKind
from orcidx.orc_writer.arrow_types import WriteNode
from orcidx.orc_writer.bloom_columns import bloom_columns
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.column_encoding import ENCODERS, SMALLEST_TASK_BYTES, ColumnEncoder, batch_bytes
from orcidx.orc_writer.column_tree import ColumnWriter, Piece, RootWriter, StripeColumn, open_column_writer
from orcidx.orc_writer.file_layout import StripeData
from orcidx.orc_writer.framing import Framing
from orcidx.orc_writer.lanes import Lanes
from orcidx.orc_writer.memory import WriterMemory
from orcidx.orc_writer.options import WriteOptions

__all__ = ["StripeWriter"]

SLICE_BYTES = 8 << 20
"""Bytes of Arrow data that are encoded at once. Slices of 1 MiB take 1.23 times as long, and slices of 2 MiB 1.11
times. Slices of 32 MiB take 0.94 of the time, with four times the memory (decision 0113)."""
SMALLEST_SLICE_BYTES = 4 << 10
"""A slice may always have this many bytes, even if ``max_memory`` is small or the stripe is nearly full."""


@dataclass
class _RowGroups:
    """Cuts slices where row groups of ``stride`` rows end. ``open_rows``: the number of rows in the last row group,
    which is not complete yet."""

    stride: int
    open_rows: int = 0

    def pieces(self, rows: int) -> list[Piece]:
        """Splits the next rows into pieces. Each piece is inside one row group."""
        pieces = []
        at = 0
        while at < rows:
            stop = min(rows, at + self.stride - self.open_rows)
            self.open_rows += stop - at
            ends = self.open_rows == self.stride
            if ends:
                self.open_rows = 0
            pieces.append(Piece(at, stop, ends))
            at = stop
        return pieces


class StripeWriter:
    """Encodes rows. ``finish`` returns the stripe. ``name``: the name of the file, for messages."""

    def __init__(self, root: WriteNode, options: WriteOptions, framing: Framing, *, name: str) -> None:
        self.rows = 0
        """Rows of the stripe so far."""
        self._options = options
        self._framing = framing
        shared = options.max_memory
        limit = shared.limit if isinstance(shared, WriterMemory) else shared
        self._most = min(options.stripe_size, limit or options.stripe_size)
        nodes = root.all_nodes
        filtered = options.bloom_filter_columns or ()
        found = bloom_columns(nodes, filtered, option="bloom_filter_columns") if len(filtered) else ()
        self._blooms = frozenset([node.id for node in found])
        self._writer = cast(RootWriter, self._open(root))
        lanes = [Lanes(child, partial(self._open, child.node, is_lane=True)) for child in self._writer.children]
        self.encoder = ColumnEncoder(lanes, name=name, use_threads=options.use_threads)
        self._columns = self._writer.walk()
        self._groups = _RowGroups(options.row_index_stride or (1 << 62))
        self._has_times = TypeKind.TIMESTAMP in [node.kind for node in nodes]

    def _open(self, node: WriteNode, *, is_lane: bool = False) -> ColumnWriter:
        threshold = self._options.dictionary_key_size_threshold
        return open_column_writer(
            node,
            partial(OutStream, self._framing.compressor, self._framing.block_size, keeps_raw=is_lane),
            blooms=self._blooms,
            fpp=self._options.bloom_filter_fpp,
            threshold=-1 if threshold == "auto" else threshold,
            has_index=self._options.row_index_stride > 0,
            is_lane=is_lane,
        )

    @property
    def held(self) -> int:
        """The bytes of memory that the stripe takes."""
        return sum([column.held for column in self._columns])

    def slice_rows(self, batch: pa.RecordBatch) -> int:
        """The number of the batch's first rows that go into one slice. A slice has at least one row. It has at most 8
        MiB, and at most a quarter of a stripe's limit. When the stripe is nearly full, the slice is smaller, so the
        limit is hardly exceeded."""
        if batch.num_rows < 2:
            return int(batch.num_rows)
        left = max(self._most - self.held, self._most // 16) // 2  # bytes in unfinished chunks count twice
        limit = max(SMALLEST_SLICE_BYTES, min(SLICE_BYTES, self._most // 4, left))
        rows: int = batch.num_rows
        while rows > 1 and (size := batch_bytes(batch.slice(0, rows))) > limit:
            rows = max(1, min(rows * limit // size, rows - 1))
        return rows

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Appends a slice. ``first_row``: the number of its first row in the file, for messages."""
        first_alone = self._groups.open_rows > 0 or not self.rows
        pieces = self._groups.pieces(batch.num_rows)
        self._writer.write_rows(pieces)
        self.encoder.write(batch, pieces, first_row, first_alone=first_alone)
        self.rows += batch.num_rows

    def finish(self) -> StripeData:
        """Ends the open row group, and returns the stripe. The stripe is valid until ``clear``."""
        if self._groups.open_rows or not self.rows:
            self._writer.end_group()
            self._groups.open_rows = 0

        done = self._finish_columns()
        return StripeData(
            rows=self.rows,
            streams=[stream for column in done for stream in column.streams],
            encodings=[column.encoding for column in done],
            statistics=[writer.stripe_statistics(column) for writer, column in zip(self._columns, done, strict=True)],
            writer_timezone="UTC" if self._has_times else None,
        )

    def _finish_columns(self) -> list[StripeColumn]:
        """Compresses the last chunks of each column. In a wide table these are most of the chunks."""
        threads = pa.cpu_count() if self._options.use_threads and self.held > SMALLEST_TASK_BYTES else 1
        done: dict[int, StripeColumn] = {}

        def finish(numbers: range) -> None:
            for number in numbers:
                done[number] = self._columns[number].finish_stripe(self._framing.frame)

        count = len(self._columns)
        threads = min(threads, max(1, count - 1))  # the root has almost no data
        ENCODERS.run_all([partial(finish, range(i, count, threads)) for i in range(threads)])
        return [done[number] for number in range(count)]

    def clear(self) -> None:
        """Clears everything for the next stripe."""
        for column in self._columns:
            column.clear()
        self.rows = 0

    def file_statistics(self) -> list[bytes]:
        """ColumnStatistics messages of all finished stripes, by column id."""
        return [column.file_statistics() for column in self._columns]
