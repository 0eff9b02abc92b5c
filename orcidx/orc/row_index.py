"""The row index of a stripe. It gives the position of each row group in each stream, and the statistics of each row
group.

A ROW_INDEX stream has one entry for each row group of its column, with positions and statistics. Row group g has the
rows from g * stride to (g + 1) * stride of the stripe. A column below a list, map or union also has one entry for each
of these row groups, but a row group may have any number of values of such a column. A damaged index does not raise an
error here. The reason is recorded, and the index is not used to skip rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts, FileTail, unframe
from orcidx.orc.statistics import RawStatistics, decode_statistics
from orcidx.orc.streams import PositionIterator, position_count, position_offsets, stream_layout
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.stripe_tables import StreamTable
from orcidx.orc.types import OrcType
from orcidx.orc.wire import read_index_entries

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from orcidx.orc.wire import Int64s

__all__ = [
    "ColumnIndex",
    "PositionTable",
    "RowIndex",
    "StreamPositions",
    "build_row_index",
    "group_count",
    "usual_bounds",
]


UNCONFIRMED_GROUPS = 1 << 16
"""The most row groups that ``usual_bounds`` assumes in a stripe whose row index was not read."""


def group_count(rows: int, stride: int) -> int:
    """The number of row groups of a stripe. The last group may be shorter. If the stride is 0, the whole stripe is one
    group."""
    return -(-rows // stride) if stride else min(rows, 1)


def usual_bounds(tail: FileTail, stripe: int, *, most: int = UNCONFIRMED_GROUPS) -> Int64s:
    """The bounds of the row groups of a stripe whose index was not read. They are computed from the file's row index
    stride. A stripe with more than ``most`` row groups is treated as one row group."""
    rows, stride = tail.footer.stripes[stripe].rows, tail.facts.row_index_stride
    groups = group_count(rows, stride)
    if groups > min(most, UNCONFIRMED_GROUPS):
        return np.array([0, rows], np.int64)
    return _group_bounds(rows, stride, groups)


@dataclass(frozen=True, eq=False)
class StreamPositions:
    """The start of each row group in one stream. Each array has one entry for each row group.

    ``offsets``: bytes from the start of the stream. In a compressed file, the offset is the position of a chunk's
    header. ``within``: the offset in the decompressed chunk. It is None in an uncompressed file. ``mid_run``: whether
    the run or the byte at this position begins with values of earlier groups.
    """

    offsets: Int64s
    within: Int64s | None
    mid_run: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PositionTable:
    """The positions of one column. The positions of row group g are ``values[bounds[g]:bounds[g + 1]]``.

    ``streams``: the positions in each stream that has positions.
    """

    bounds: Int64s
    values: Int64s
    streams: Mapping[StreamKind, StreamPositions]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def iterator(self, group: int) -> PositionIterator:
        """The positions of a row group, as an iterator. Each stream of the column takes its own numbers from the
        iterator."""
        values = self.values[self.bounds[group] : self.bounds[group + 1]].tolist()
        return PositionIterator(values) if values or group else PositionIterator.start()


@dataclass(frozen=True, eq=False)
class ColumnIndex:
    """The index of one column. ``unseekable``: the reason why its positions cannot be used. None if they can be
    used."""

    positions: PositionTable
    unseekable: str | None
    _decode: Callable[[], RawStatistics]

    @cached_property
    def statistics(self) -> RawStatistics:
        """The statistics of each row group. They are decoded only when they are used, because for most columns the
        index is only used to seek."""
        return self._decode()


@dataclass(frozen=True, eq=False)
class RowIndex:
    """The decoded row index of a stripe. ``columns``: the index of each column, by column id. ``untrusted``: by column
    id, the reason why the index of a column cannot be used."""

    stripe: int
    bounds: Int64s
    """The first row of each row group in the stripe, and then the number of rows of the stripe (int64, one more than
    groups). If no index can be used, the stripe is one group."""
    columns: Mapping[int, ColumnIndex]
    untrusted: Mapping[int, str] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        return len(self.bounds) - 1

    def positions(self, columns: Iterable[int], group: int) -> dict[int, PositionIterator]:
        """The positions of a row group in each of these columns. All of these columns must be seekable."""
        return {column: self.columns[column].positions.iterator(group) for column in columns}

    def joined(self, other: RowIndex) -> RowIndex:
        """A row index with the columns of this index and the columns of ``other``. Both must be indexes of the same
        stripe."""
        bounds = other.bounds if len(other.columns) and not self.columns else self.bounds
        columns = {**self.columns, **other.columns}
        return RowIndex(self.stripe, bounds, columns, {**self.untrusted, **other.untrusted})

    def stream_positions(self, column: int, kind: StreamKind) -> StreamPositions | None:
        """The starts of the row groups in one stream. None for a stream without positions, such as a dictionary."""
        index = self.columns.get(column)
        return index.positions.streams.get(kind) if index is not None and index.unseekable is None else None

    def unseekable(self, columns: Iterable[int]) -> str | None:
        """The reason why one of these columns cannot seek to row groups. None if all of them can."""
        for column in columns:
            index = self.columns.get(column)
            if index is None:
                return self.untrusted.get(column, f"column id {column} has no row index")
            if index.unseekable is not None:
                return index.unseekable
        return None


def build_row_index(
    tail: FileTail,
    stripe: int,
    footer: StripeFooter,
    nodes: Iterable[OrcType],
    buffers: Mapping[int, Buffer],
    *,
    only_seek: bool = False,
) -> RowIndex:
    """Decodes ROW_INDEX streams of some columns. ``buffers``: the stored bytes of these streams, by column id.

    If a stream is damaged, or does not have an entry for each row group of the stripe, its column is left out, and
    ``untrusted`` has the reason. If a column has no ROW_INDEX stream, the column is left out as well, but ``untrusted``
    has no reason for this. ``only_seek``: whether only the positions are needed. The statistics are then not checked.
    """
    rows = tail.footer.stripes[stripe].rows
    groups = group_count(rows, tail.facts.row_index_stride)
    streams = footer.streams
    columns: dict[int, ColumnIndex] = {}
    untrusted: dict[int, str] = {}
    entries_left = tail.limits.metadata_items
    bytes_left = tail.limits.bytes_of(sum(map(_stored, buffers.values())))
    bounds = np.array([0, rows] if rows else [0], np.int64)
    for node in nodes:
        if node.id not in buffers:
            continue
        if tail.facts.row_index_stride == 0:
            untrusted[node.id] = "the file has row indexes but no row index stride"
            continue
        try:
            with located(file=tail.name, stripe=stripe, column=node.dotted, stream="ROW_INDEX"):
                raw = unframe(buffers[node.id], tail.postscript, name="ROW_INDEX", most=bytes_left)
                bytes_left -= len(raw)
                entries = read_index_entries(raw, entries_left)
                entries_left -= len(entries[2])
                if len(entries[2]) != groups:
                    raise CorruptFile(
                        f"the row index has {len(entries[2])} entries, but the stripe has {groups} row groups, and "
                        "each needs one entry"
                    )
                found = _group_bounds(rows, tail.facts.row_index_stride, groups)
                rows_of = np.diff(found)
                decode = partial(
                    decode_statistics, node, "row_group", raw, entries[2:], rows=rows_of, stripes=[stripe] * groups
                )
                table, unseekable = _position_table(node, footer.encodings[node.id], tail.facts, streams, entries[:2])
                column = ColumnIndex(table, unseekable, decode)
                if not only_seek:
                    _ = column.statistics  # raises an error for damaged statistics, so that the index counts as damaged
                columns[node.id] = column
                bounds = found
        except (CorruptFile, Unsupported) as error:
            untrusted[node.id] = f"damaged row index: {error.message}"
    return RowIndex(stripe, bounds, columns, untrusted)


def _stored(buffer: Buffer) -> int:
    return memoryview(buffer).nbytes


def _group_bounds(rows: int, stride: int, groups: int) -> Int64s:
    """The bounds of the row groups. Before the call, the caller must have checked that a row index has ``groups``
    entries. Otherwise a damaged file could cause a very large array."""
    return np.append(np.arange(groups, dtype=np.int64) * min(stride, rows), rows)


def _position_table(
    node: OrcType,
    encoding: ColumnEncoding,
    facts: FileFacts,
    table: StreamTable,
    positions: tuple[Int64s, Int64s],
) -> tuple[PositionTable, str | None]:
    """Returns the positions of a column, and the reason why they cannot be used. The reason is None if they can be
    used. ``table``: the stripe's streams."""
    layout = stream_layout(node, encoding.kind, decimal64=facts.decimal64)
    present = (node.id, StreamKind.PRESENT) in table
    width = position_count(layout, has_present=present, compressed=facts.compressed)
    matrix, unseekable = _position_matrix(*positions, width)
    streams: dict[StreamKind, StreamPositions] = {}
    if unseekable is None:
        for kind, (at, spec) in position_offsets(layout, has_present=present, compressed=facts.compressed).items():
            numbers = matrix[:, at : at + spec.shape.positions(compressed=facts.compressed)]
            streams[kind] = _stream_positions(numbers, facts)
            unseekable = unseekable or _check_starts(kind, numbers, facts, table.get((node.id, kind), (0, 0))[1])
    return PositionTable(*positions, streams), unseekable


def _position_matrix(bounds: Int64s, values: Int64s, width: int) -> tuple[Int64s, str | None]:
    """Returns the positions as an array of shape (groups, width), and the reason why they cannot be used. The reason is
    None if they can be used. If the first entry is empty, the first row group begins at the start of every stream
    (ORC-569)."""
    groups = len(bounds) - 1
    counts = np.diff(bounds)
    if groups and counts[0] == 0:
        values = np.concatenate((np.zeros(width, np.int64), values))
        counts = np.concatenate(([width], counts[1:]))
    if (wrong := np.flatnonzero(counts != width)).size:
        reason = f"entry {wrong[0]} of the row index has {counts[wrong[0]]} positions instead of {width}"
        return np.zeros((groups, width), np.int64), reason
    return values.reshape(groups, width), None


def _stream_positions(numbers: Int64s, facts: FileFacts) -> StreamPositions:
    mid_run = (numbers[:, 1 + facts.compressed :] != 0).any(axis=1)
    return StreamPositions(numbers[:, 0], numbers[:, 1] if facts.compressed else None, mid_run)


def _check_starts(kind: StreamKind, numbers: Int64s, facts: FileFacts, length: int) -> str | None:
    """The reason why the positions of a stream are wrong, or None. A position may also be the very end of a stream, of
    a chunk, or of a byte (8 bits), because the rest of the stripe may be null (ORC-1304)."""
    offsets = numbers[:, 0]
    if (offsets > length).any():
        return f"the row index points beyond the {length} bytes of stream {kind.name}"
    if (np.diff(offsets) < 0).any():
        return f"the row index goes backwards in stream {kind.name}"
    if facts.compressed and (numbers[:, 1] > facts.block_size).any():
        return f"the row index points beyond a chunk of stream {kind.name}"
    bits = numbers.shape[1] == 3 + facts.compressed
    if bits and (numbers[:, -1] > 8).any():
        return f"the row index points beyond a byte of stream {kind.name}"
    return None
