"""The columns of a file as a tree that takes Arrow arrays. Each node writes its own streams and passes child arrays to
its child nodes.

A ``Piece`` is a range of rows of one array within one row group. Lists and unions turn pieces of their rows into pieces
of their children. Structs leave out the children of null rows, because ORC does not store them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import EncodingKind, StreamKind, TypeKind
from orcidx.orc_writer.array_layouts import is_list_view
from orcidx.orc_writer.arrow_types import WriteNode
from orcidx.orc_writer.bloom_filters import BloomBuilder
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.columns import BadValue, BaseColumn, StructColumn
from orcidx.orc_writer.decimals import DecimalColumn
from orcidx.orc_writer.file_layout import StreamData
from orcidx.orc_writer.gathered_texts import Entries, GatheredTexts
from orcidx.orc_writer.messages import row_index_message
from orcidx.orc_writer.numbers import (
    BooleanColumn,
    ByteColumn,
    FloatColumn,
    IntegerColumn,
    LengthColumn,
    TagColumn,
)
from orcidx.orc_writer.source import ArraySource
from orcidx.orc_writer.statistics import NO_STATISTICS, ColumnMessages, ColumnSummary, statistics_message
from orcidx.orc_writer.text import TextColumn
from orcidx.orc_writer.timestamps import TimestampColumn

__all__ = ["ColumnWriter", "Piece", "StripeColumn", "open_column_writer"]

_DIRECT = frozenset({TypeKind.STRUCT, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.BOOLEAN, TypeKind.BYTE, TypeKind.UNION})
_WIDTHS = {TypeKind.SHORT: 2, TypeKind.INT: 4, TypeKind.DATE: 4, TypeKind.LONG: 8}


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``start`` to ``stop`` of an array. ``ends_group``: whether the row group ends after these rows.
    ``hides_nulls``: whether an enclosing struct is null in some of these rows."""

    start: int
    stop: int
    ends_group: bool
    hides_nulls: bool = False


@dataclass(frozen=True, kw_only=True)
class StripeColumn:
    """What the writer of one column returns at the end of a stripe: streams, encoding and statistics."""

    id: int
    streams: Sequence[StreamData]
    encoding: ColumnEncoding
    summary: ColumnSummary
    data_size: int


class ColumnWriter:
    """One column, and its ``children``. ``has_index``: whether row groups and their statistics are kept. ``is_lane``:
    whether another writer takes over what this writer encodes."""

    def __init__(
        self, node: WriteNode, column: BaseColumn, children: Sequence[ColumnWriter], *, has_index: bool, is_lane: bool
    ) -> None:
        self.node = node
        self.column = column
        self.children = children
        self._has_index = has_index
        self._messages: list[bytes] = []
        self._groups: list[ColumnSummary] | None = [] if is_lane else None
        self._stripe = NO_STATISTICS
        self._file = NO_STATISTICS
        self._file_size = 0
        self._statistics = ColumnMessages(node.kind, scale=node.scale, unit=node.unit)

    # ---- writing rows

    def write(self, array: pa.Array, pieces: Sequence[Piece]) -> None:
        """Appends rows of an array. Raises ``BadValue`` with the row of the wrong value."""
        for convert in self.node.convert:
            array = _converted(array, convert)
        if not self.node.nullable and array.null_count:
            raise BadValue(
                int(np.argmin(_validity(array))), "the column is declared without nulls, but a value is null"
            )
        self._write(array, pieces)

    def _write(self, array: Any, pieces: Sequence[Piece]) -> None:
        source = ArraySource(array)
        for piece in pieces:
            self.column.write(source, piece.start, piece.stop)
            self._end_piece(piece)

    def _end_piece(self, piece: Piece) -> None:
        if piece.hides_nulls:
            self.column.note_null_parents()
        if piece.ends_group:
            self._end_group()

    def _end_group(self) -> None:
        summary = ColumnSummary(*self.column.end_group())
        if self._has_index:
            self._messages.append(self._statistics.message(summary))
        if self.column.bloom is not None:
            self.column.bloom.end_group()
        if self._groups is None:
            self._stripe = self._stripe.merge(summary)
        else:
            self._groups.append(summary)

    # ---- ending row groups and stripes

    def walk(self) -> list[ColumnWriter]:
        """This column and all columns below it, in the order of their ids."""
        found = [self]
        for child in self.children:
            found += child.walk() if child.children else [child]
        return found

    def end_group(self) -> None:
        """Ends a row group before it is full, at the end of a stripe."""
        for one in self.walk():
            one._end_group()

    def take_over(self, other: ColumnWriter) -> None:
        """Appends whole row groups that a writer of the same column has encoded."""
        self.column.take_over(other.column)
        self._messages += other._messages
        for summary in other._groups or ():  # one by one, because sums of floats depend on the order
            self._stripe = self._stripe.merge(summary)
        for child, below in zip(self.children, other.children, strict=True):
            child.take_over(below)

    def finish_stripe(self, frame: Callable[[bytes], bytes]) -> StripeColumn:
        """The streams of this column, without the streams of its children. They are valid until ``clear``."""
        column, own = self.column, self.node.id
        column.finish()
        positions = column.positions(len(self._messages))
        streams = []
        if self._has_index:
            index = row_index_message(positions, self._messages)
            streams.append(StreamData(own, StreamKind.ROW_INDEX, frame(index)))
            if column.bloom is not None:
                streams.append(StreamData(own, StreamKind.BLOOM_FILTER_UTF8, frame(column.bloom.message())))
        size = 0
        for kind, stream in sorted(column.all_streams(), key=itemgetter(0)):
            stored = stream.finish()
            size += len(memoryview(stored))
            streams.append(StreamData(own, kind, stored))
        stripe = StripeColumn(id=own, streams=streams, encoding=self._encoding(), summary=self._stripe, data_size=size)
        self._file = self._file.merge(self._stripe)
        self._file_size += stripe.data_size
        return stripe

    def _encoding(self) -> ColumnEncoding:
        blooms = int(self.column.bloom is not None)
        if self.node.kind in _DIRECT:
            return ColumnEncoding(EncodingKind.DIRECT, 0, blooms)
        if self.column.is_dictionary:
            return ColumnEncoding(EncodingKind.DICTIONARY_V2, self.column.dictionary_size, blooms)
        return ColumnEncoding(EncodingKind.DIRECT_V2, 0, blooms)

    def stripe_statistics(self, stripe: StripeColumn) -> bytes:
        """The ColumnStatistics message of a finished stripe."""
        return self._statistics.message(stripe.summary, size=stripe.data_size)

    def file_statistics(self) -> bytes:
        """The ColumnStatistics message of the whole file."""
        has_rows = self._file.count or self._file.has_null
        return self._statistics.message(self._file, size=self._file_size) if has_rows else _NONE

    def clear(self) -> None:
        """Clears everything for the next stripe."""
        self.column.clear()
        if self.column.bloom is not None:
            self.column.bloom.clear()
        self._messages = []
        self._groups = None if self._groups is None else []
        self._stripe = NO_STATISTICS

    @property
    def held(self) -> int:
        """Bytes of memory that this column's part of the stripe takes."""
        held = self.column.held + sum(map(len, self._messages))
        return held + (self.column.bloom.held if self.column.bloom is not None else 0)


_NONE = statistics_message(NO_STATISTICS, TypeKind.STRUCT)
"""The statistics of a column in a file without rows."""


FEW_ENTRIES = 4096
"""The most entries of an Arrow dictionary whose texts stay in the processor's cache."""

ROWS_GATHERED = 2048
"""The rows of an Arrow dictionary whose texts are gathered at a time. This number of texts stays in the first-level
cache until they are written. Gathering whole row groups takes 1.05 times as long (decision 0129)."""


class _TextWriter(ColumnWriter):
    column: TextColumn
    _entries: Entries | None = None

    def _write(self, array: Any, pieces: Sequence[Piece]) -> None:
        if not pa.types.is_dictionary(array.type):
            super()._write(array, pieces)
            return
        dictionary = array.dictionary
        # A dictionary with a null entry is decoded first, because every row with this entry is null. A dictionary of
        # fixed-size values is decoded first, because it has no offsets.
        if dictionary.null_count or pa.types.is_fixed_size_binary(dictionary.type):
            super()._write(array.dictionary_decode(), pieces)
            return
        if self._entries is None or not self._entries.are_of(dictionary):
            self._entries = Entries(dictionary)
        entries = self._entries
        entries.note(len(array))
        source = ArraySource(array.indices)
        gathered = GatheredTexts()
        for piece in pieces:
            # In the first row group of a stripe, the entries of the dictionary have no codes yet. The entries of a
            # large dictionary are far apart in memory. So the texts of the rows are copied into one buffer first.
            if not self.column.is_dictionary:
                self.column.write_entries(source, entries, piece.start, piece.stop)
            elif len(dictionary) < FEW_ENTRIES or self.column.knows_entries:
                self.column.write_indexes(source, entries.values, piece.start, piece.stop)
            else:
                self._write_gathered(gathered, source, entries.values, piece)
            self._end_piece(piece)

    def _write_gathered(self, gathered: GatheredTexts, source: ArraySource, values: ArraySource, piece: Piece) -> None:
        for start in range(piece.start, piece.stop, ROWS_GATHERED):
            stop = min(start + ROWS_GATHERED, piece.stop)
            texts = gathered.bring(source, values, start, stop)
            try:
                self.column.write(texts, 0, stop - start)
            except BadValue as error:
                raise BadValue(error.row + start, error.reason) from None


class _StructWriter(ColumnWriter):
    def _write(self, array: Any, pieces: Sequence[Piece]) -> None:
        super()._write(array, pieces)
        children = [array.field(i) for i in range(len(self.children))]
        rows = np.arange(len(array))
        if array.null_count:
            valid = _validity(array)
            before = np.concatenate(([0], np.cumsum(valid)))
            mask = pa.array(valid)
            children = [child.filter(mask) for child in children]
            rows = np.flatnonzero(valid)
            pieces = [
                Piece(
                    int(before[p.start]),
                    int(before[p.stop]),
                    p.ends_group,
                    p.hides_nulls or before[p.stop] - before[p.start] < p.stop - p.start,
                )
                for p in pieces
            ]
        for writer, child in zip(self.children, children, strict=True):
            _write_below(writer, child, pieces, rows)


class RootWriter(ColumnWriter):
    """The struct of all fields. Its rows are never null."""

    def write_rows(self, pieces: Sequence[Piece]) -> None:
        """Appends rows to the root, but not to its children. The caller distributes the fields to threads or writes
        them one by one."""
        for piece in pieces:
            self.column.write_valid(piece.stop - piece.start)
            self._end_piece(piece)


class _ListWriter(ColumnWriter):
    column: LengthColumn

    def _write(self, array: Any, pieces: Sequence[Piece]) -> None:
        source = ArraySource(array)
        lengths, *elements = _list_parts(array)
        if array.null_count:
            valid = _validity(array)
            before = np.concatenate(([0], np.cumsum(valid)))
            kept = np.ascontiguousarray(lengths[valid])
            lengths = np.where(valid, lengths, 0)
        else:
            before, kept = np.arange(len(array) + 1), lengths
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(np.arange(len(array)), lengths)
        if self.node.kind is TypeKind.MAP and elements[0].null_count:
            raise BadValue(int(rows[np.argmin(_validity(elements[0]))]), "a map key is null")
        for piece in pieces:
            self.column.write(source, piece.start, piece.stop)
            self.column.write_lengths(kept[before[piece.start] : before[piece.stop]])
            self._end_piece(piece)
        below = [Piece(int(bounds[p.start]), int(bounds[p.stop]), p.ends_group) for p in pieces]
        for writer, child in zip(self.children, elements, strict=True):
            _write_below(writer, child, below, rows)


class _UnionWriter(ColumnWriter):
    column: TagColumn

    def _write(self, array: Any, pieces: Sequence[Piece]) -> None:
        codes = np.frombuffer(array.buffers()[1], np.int8, len(array), array.offset) if len(array) else _NO_CODES
        places = {code: tag for tag, code in enumerate(array.type.type_codes)}
        tags = np.array([places.get(code, 0) for code in range(-128, 128)], np.uint8)[codes.astype(np.int64) + 128]
        for piece in pieces:
            self.column.write_valid(piece.stop - piece.start)
            self.column.write_tags(tags[piece.start : piece.stop])
            self._end_piece(piece)
        dense = array.type.mode == "dense"
        if dense:
            offsets = np.frombuffer(array.buffers()[2], np.int32)[array.offset : array.offset + len(array)]
        for tag, writer in enumerate(self.children):
            chosen = tags == tag
            before = np.concatenate(([0], np.cumsum(chosen)))
            child = array.field(tag).take(pa.array(offsets[chosen] if dense else np.flatnonzero(chosen)))
            below = [Piece(int(before[p.start]), int(before[p.stop]), p.ends_group) for p in pieces]
            _write_below(writer, child, below, np.flatnonzero(chosen))


_NO_CODES = np.zeros(0, np.int8)


def _write_below(writer: ColumnWriter, array: Any, pieces: Sequence[Piece], rows: Any) -> None:
    """Writes the rows of a child. ``rows``: the row of the parent for each row of the child."""
    try:
        writer.write(array, pieces)
    except BadValue as error:
        raise _placed(error, writer, int(rows[error.row])) from error


def _placed(error: BadValue, writer: ColumnWriter, row: int) -> BadValue:
    placed = BadValue(row, error.reason)
    placed.path = error.path or writer.node.dotted
    return placed


def _validity(array: Any) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _list_parts(array: Any) -> tuple[Any, ...]:
    """The length of each row (including null rows), and the elements of the rows that are not null, in order. The
    elements are one array for a list, and keys and values for a map."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        lengths = np.full(len(array), kind.list_size, np.int64)
        return lengths, _flattened(array, lengths)
    if not len(array):
        empty = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
        return (np.zeros(0, np.int64), *(values.slice(0, 0) for values in empty))
    wide = pa.types.is_large_list(kind) or str(kind).startswith("large_list_view")
    number = np.int64 if wide else np.int32
    offsets = np.frombuffer(array.buffers()[1], number)[array.offset :]
    if is_list_view(kind):
        lengths = np.frombuffer(array.buffers()[2], number)[array.offset : array.offset + len(array)].astype(np.int64)
        return lengths, _flattened(array, lengths)
    bounds = offsets[: len(array) + 1].astype(np.int64)
    lengths = np.diff(bounds)
    children = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
    if (lengths < 0).any() or bounds[0] < 0 or bounds[-1] > len(children[0]):
        raise BadValue(0, "the offsets of a list array do not fit its elements")
    if array.null_count and lengths[~_validity(array)].any():
        chosen = np.repeat(_validity(array), lengths)
        places = pa.array(np.flatnonzero(chosen) + bounds[0])
        return (lengths, *(child.take(places) for child in children))
    return (lengths, *(child.slice(bounds[0], bounds[-1] - bounds[0]) for child in children))


def _flattened(array: Any, lengths: Any) -> Any:
    """The elements of the rows that are not null. pyarrow's ``flatten`` cannot make an empty array of a nested type
    that contains an extension type."""
    kept = lengths[_validity(array)] if array.null_count else lengths
    return array.flatten() if kept.any() else array.values.slice(0, 0)


def _converted(array: Any, convert: Callable[[Any], Any]) -> Any:
    """The array in the form that the encoders need. If pyarrow raises an error, ``BadValue`` is raised with the first
    row that causes it."""
    try:
        return convert(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        good, bad = 0, len(array)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                convert(array.slice(good, middle - good))
                good = middle
            except pa.ArrowInvalid:
                bad = middle
        raise BadValue(good, f"{_shown(array, good)}: {error}") from error


def _shown(array: Any, row: int) -> str:
    try:
        return repr(array[row].as_py())[:80] if row < len(array) else "the array"
    except (ValueError, OverflowError, pa.ArrowException):
        return "a value"


def open_column_writer(
    node: WriteNode,
    open_stream: Callable[[], OutStream],
    *,
    blooms: frozenset[int],
    fpp: float,
    threshold: float,
    has_index: bool,
    is_lane: bool = False,
) -> ColumnWriter:
    """Makes the writer of a column and of all columns below it. ``threshold``: see ``TextColumn``. ``is_lane``: whether
    another writer takes over what this writer encodes."""
    children = [
        open_column_writer(
            child, open_stream, blooms=blooms, fpp=fpp, threshold=threshold, has_index=has_index, is_lane=is_lane
        )
        for child in node.children
    ]
    bloom = BloomBuilder(fpp) if node.id in blooms else None
    column = _open_column(node, open_stream, bloom, threshold, is_lane)
    writer = _WRITERS.get(node.kind, ColumnWriter) if node.path else RootWriter
    return writer(node, column, children, has_index=has_index, is_lane=is_lane)


_WRITERS: dict[TypeKind, type[ColumnWriter]] = {
    TypeKind.STRING: _TextWriter,
    TypeKind.VARCHAR: _TextWriter,
    TypeKind.CHAR: _TextWriter,
    TypeKind.BINARY: _TextWriter,
    TypeKind.STRUCT: _StructWriter,
    TypeKind.LIST: _ListWriter,
    TypeKind.MAP: _ListWriter,
    TypeKind.UNION: _UnionWriter,
}


def _open_column(
    node: WriteNode, open_stream: Callable[[], OutStream], bloom: BloomBuilder | None, threshold: float, is_lane: bool
) -> BaseColumn:
    kind = node.kind
    if kind in _WIDTHS:
        return IntegerColumn(open_stream, _WIDTHS[kind], bloom=bloom)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return FloatColumn(open_stream, 4 if kind is TypeKind.FLOAT else 8, bloom=bloom)
    if kind is TypeKind.DECIMAL:
        return DecimalColumn(open_stream, node.precision, node.scale, bloom=bloom)
    if kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return TimestampColumn(open_stream, node.unit, bloom=bloom)
    if kind in (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY):
        text = kind is not TypeKind.BINARY
        return TextColumn(
            open_stream,
            threshold=threshold if text else 0,
            checks_utf8=text,
            bounds=text,
            bloom=bloom,
            trims_for_bloom=kind is TypeKind.CHAR,
            decides=not is_lane,
        )
    if kind is TypeKind.BYTE:
        return ByteColumn(open_stream, bloom=bloom)
    simple: dict[TypeKind, Callable[[Any], BaseColumn]] = {
        TypeKind.BOOLEAN: BooleanColumn,
        TypeKind.LIST: LengthColumn,
        TypeKind.MAP: LengthColumn,
        TypeKind.UNION: TagColumn,
        TypeKind.STRUCT: StructColumn,
    }
    return simple[kind](open_stream)
