"""Writes rows into stripes: batches are cut into slices that end where row groups end, and encoded column by column.

A slice has at most 8 MiB of Arrow data. It is encoded as a whole, full chunks are compressed, and then the size of the
stripe is checked. So a stripe is measured by its compressed bytes, and it ends in time for rows of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa

from orcidx.errors import ValueOutOfRange
from orcidx.orc.footer_records import TypeRecord
from orcidx.orc.kinds import TypeKind
from orcidx.orc_writer.array_layouts import written_bytes
from orcidx.orc_writer.arrow_types import WriteNode
from orcidx.orc_writer.bloom_columns import bloom_columns
from orcidx.orc_writer.chunks import OutStream, frame
from orcidx.orc_writer.column_tree import ColumnWriter, Piece, RootWriter, StripeColumn, open_column_writer
from orcidx.orc_writer.columns import BadValue
from orcidx.orc_writer.compressors import Compressor
from orcidx.orc_writer.file_layout import StripeData
from orcidx.orc_writer.lanes import Lanes, SplitRows, compress_waiting, split_rows
from orcidx.orc_writer.memory import WriterMemory
from orcidx.orc_writer.options import WriteOptions
from orcidx.threads.tasks import Pool

__all__ = ["StripeWriter", "type_records"]

SLICE_BYTES = 8 << 20
"""Bytes of Arrow data that are encoded at once. Slices of 1 MiB take 1.23 times as long, slices of 2 MiB 1.11 times.
Slices of 32 MiB take 0.94 of the time, with four times the memory (decision 0113)."""
SMALLEST_SLICE = 4 << 10
"""The least bytes of a slice, so that wide rows are written for any value of ``max_memory``."""
SMALLEST_TASK = 64 << 10
"""Below this many bytes of Arrow data a slice is encoded without threads. It takes less than a millisecond, and a
thread starts 50 us after it was notified."""

ENCODERS = Pool(pa.cpu_count())


class StripeWriter:
    """Encodes rows; ``finish`` returns the stripe. ``name``: the name of the file, for messages."""

    def __init__(self, root: WriteNode, options: WriteOptions, compressor: Compressor | None, *, name: str) -> None:
        self.name = name
        self.rows = 0
        """Rows of the stripe so far."""
        self._root = root
        self._options = options
        self._compressor = compressor
        self._block = options.compression_block_size
        shared = options.max_memory
        limit = shared.limit if isinstance(shared, WriterMemory) else shared
        self._most = min(options.stripe_size, limit or options.stripe_size)
        nodes = root.all_nodes
        filtered = bloom_columns(nodes, options.bloom_filter_columns or (), option="bloom_filter_columns")
        self._blooms = frozenset(node.id for node in filtered)
        self._writer = cast(RootWriter, self._open(root))
        self._lanes = [Lanes(child, partial(self._open, child.node, is_lane=True)) for child in self._writer.children]
        self._columns = self._writer.walk()
        self._stride = options.row_index_stride or (1 << 62)
        self._group_rows = 0
        self._has_times = TypeKind.TIMESTAMP in [node.kind for node in nodes]

    def _open(self, node: WriteNode, *, is_lane: bool = False) -> ColumnWriter:
        threshold = self._options.dictionary_key_size_threshold
        return open_column_writer(
            node,
            partial(OutStream, self._compressor, self._block, keeps_raw=is_lane),
            blooms=self._blooms,
            fpp=self._options.bloom_filter_fpp,
            threshold=-1 if threshold == "auto" else threshold,
            has_index=self._options.row_index_stride > 0,
            is_lane=is_lane,
        )

    @property
    def held(self) -> int:
        """Bytes of memory that the stripe takes."""
        return sum([column.held for column in self._columns])

    def slice_rows(self, batch: pa.RecordBatch) -> int:
        """How many of the batch's first rows go into one slice: at least one row, and at most 8 MiB or a quarter of a
        stripe's limit. When the stripe is nearly full it is fewer rows, so that the limit is hardly exceeded."""
        if batch.num_rows < 2:
            return int(batch.num_rows)
        left = max(self._most - self.held, self._most // 16) // 2  # bytes in unfinished chunks count twice
        limit = max(SMALLEST_SLICE, min(SLICE_BYTES, self._most // 4, left))
        rows: int = batch.num_rows
        while rows > 1 and (size := batch_bytes(batch.slice(0, rows))) > limit:
            rows = max(1, min(rows * limit // size, rows - 1))
        return rows

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Appends a slice. ``first_row``: the number of its first row in the file, for messages."""
        first_alone = self._group_rows > 0 or not self.rows
        pieces = self._pieces(batch.num_rows)
        self._writer.write_rows(pieces)
        threads = pa.cpu_count() if self._options.use_threads and batch_bytes(batch) > SMALLEST_TASK else 1
        tasks = list(zip(self._writer.children, batch.columns, strict=True))
        if threads > 1 and tasks:
            shares = threads if len(tasks) < 2 * threads and any(lanes.pays for lanes in self._lanes) else 1
            split = split_rows(pieces, first_alone=first_alone, shares=shares)
            if len(split.shares) > 1:
                self._write_in_lanes(batch.columns, split, first_row, threads)
            else:
                self._write_in_threads(tasks, pieces, first_row)
        else:
            for writer, array in tasks:
                self._write_column(writer, array, pieces, first_row)
        self.rows += batch.num_rows

    def _write_in_threads(self, tasks: Sequence[tuple[ColumnWriter, Any]], pieces: Sequence[Piece], first: int) -> None:
        """Encodes the largest columns first, each in the next free thread. If there are several errors, that of the
        first column is raised, as without threads."""
        waiting = sorted(range(len(tasks)), key=lambda i: written_bytes(tasks[i][1]))
        errors: dict[int, BaseException] = {}

        def work() -> None:
            while waiting:
                try:
                    number = waiting.pop()
                except IndexError:  # another thread has taken the column
                    return
                try:
                    self._write_column(*tasks[number], pieces, first)
                except BaseException as error:  # raised below, after it is known whether an earlier column has an error
                    errors[number] = error

        ENCODERS.run_all([work] * min(pa.cpu_count(), len(tasks)))
        if errors:
            raise errors[min(errors)]

    def _write_in_lanes(self, arrays: Sequence[Any], split: SplitRows, first: int, threads: int) -> None:
        """Encodes row groups of each column in parallel, for tables of few columns."""
        tasks: list[Callable[[], None]] = []
        for lanes, array in zip(self._lanes, arrays, strict=True):
            if split.head:
                self._write_column(lanes.writer, array.slice(0, split.head[0].stop), split.head, first)

            def write(lane: ColumnWriter, part: Any, pieces: Sequence[Piece], start: int) -> None:
                self._write_column(lane, part, pieces, first + start)

            tasks += lanes.encode(array, split.shares, write)
        ENCODERS.run_all(tasks)
        ENCODERS.run_all([partial(lanes.join, len(split.shares)) for lanes in self._lanes])
        compress_waiting([stream for lanes in self._lanes for stream in lanes.streams()], ENCODERS, threads)
        for lanes, array in zip(self._lanes, arrays, strict=True):
            for piece in split.tail:
                moved = Piece(0, piece.stop - piece.start, piece.ends_group)
                self._write_column(lanes.writer, array.slice(piece.start), [moved], first + piece.start)

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
        """The stripe, which is valid until ``clear``. Also ends its open row group."""
        if self._group_rows or not self.rows:
            self._writer.end_group()
            self._group_rows = 0

        def framed(data: bytes) -> bytes:
            return frame(data, self._compressor, self._block)

        done = self._finish_columns(framed)
        return StripeData(
            rows=self.rows,
            streams=[stream for column in done for stream in column.streams],
            encodings=[column.encoding for column in done],
            statistics=[writer.stripe_statistics(column) for writer, column in zip(self._columns, done, strict=True)],
            writer_timezone="UTC" if self._has_times else None,
        )

    def _finish_columns(self, framed: Callable[[bytes], bytes]) -> list[StripeColumn]:
        """Compresses the last chunks; in a wide table these are most chunks."""
        threads = pa.cpu_count() if self._options.use_threads and self.held > SMALLEST_TASK else 1
        done: dict[int, StripeColumn] = {}

        def finish(numbers: range) -> None:
            for number in numbers:
                done[number] = self._columns[number].finish_stripe(framed)

        count = len(self._columns)
        threads = min(threads, max(1, count - 1))  # the root has almost no data
        ENCODERS.run_all([partial(finish, range(i, count, threads)) for i in range(threads)])
        return [done[number] for number in range(count)]

    def clear(self) -> None:
        """Resets everything for the next stripe."""
        for column in self._columns:
            column.clear()
        self.rows = 0

    def file_statistics(self) -> list[bytes]:
        """ColumnStatistics messages of all finished stripes, by column id."""
        return [column.file_statistics() for column in self._columns]


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of a batch, with views and dictionaries expanded."""
    return sum(map(written_bytes, batch.columns))


def type_records(root: WriteNode) -> list[TypeRecord]:
    """The types of the footer."""
    return [
        TypeRecord(
            kind=node.kind,
            subtypes=tuple([child.id for child in node.children]),
            field_names=node.names,
            max_length=node.max_length,
            precision=node.precision,
            scale=node.scale,
            attributes=node.attributes,
        )
        for node in root.all_nodes
    ]
