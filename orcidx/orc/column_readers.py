"""Column readers: a tree that mirrors the type tree and turns streams into Arrow arrays.

Three verbs. ``seek`` goes to a row-index position, on every node of the tree; ``skip`` passes over rows, lazily: it is
paid at the next read, so that skips at the end of a scan cost nothing; ``read`` decodes. A node counts rows of its
parent: a child of a struct has no values for rows in which the struct is null, and its PRESENT stream does not cover
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from orcidx.errors import CorruptFile, located
from orcidx.options import ReadOptions
from orcidx.orc import buffers
from orcidx.orc.byte_rle import BooleanRle, ByteRle, RawBytes
from orcidx.orc.int_rle import IntRle
from orcidx.orc.metadata import ColumnEncoding, FileFacts, StreamKind, TypeKind
from orcidx.orc.streams import PositionIterator, is_dictionary, rle_version, stream_layout
from orcidx.orc.types import OrcType, arrow_type
from orcidx.orc.window import Window

__all__ = ["ColumnReader", "Present", "StripeStreams", "open_column"]

MOST_STRING_BYTES = (1 << 31) - 1
SPARE = 16
"""Bytes behind string buffers, so that short strings are copied in one move."""


class StripeStreams(Protocol):
    """What a column reader opens its streams from; one per stripe."""

    writer_timezone: str | None
    rows: int

    def window(self, column: int, kind: StreamKind) -> Window: ...

    def has(self, column: int, kind: StreamKind) -> bool: ...

    def encoding(self, column: int) -> ColumnEncoding: ...


@dataclass(frozen=True, slots=True)
class Present:
    """Which of ``rows`` rows are valid: ``count`` of them; ``bits`` is an Arrow bitmap, None when all are."""

    rows: int
    count: int
    bits: pa.Buffer | None

    @property
    def view(self) -> memoryview | None:
        return None if self.bits is None else memoryview(self.bits).cast("B")

    @property
    def nulls(self) -> int:
        return self.rows - self.count


def allocate(size: int) -> tuple[pa.Buffer, memoryview]:
    """A buffer from pyarrow's pool and a writable view of its bytes."""
    buffer = pa.allocate_buffer(size)
    return buffer, memoryview(buffer).cast("B")


class ColumnReader:
    """Base of all readers: PRESENT, lazy skips and error places. Subclasses have the values."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        self.node = node
        self.options = options
        self.facts = facts
        self.encoding = streams.encoding(node.id)
        self.layout = stream_layout(node, self.encoding.kind, decimal64=facts.decimal64)
        self.arrow_type = arrow_type(node, options, dictionaries=(node.id,))
        self._pending = 0
        has_present = streams.has(node.id, StreamKind.PRESENT)
        self._present = BooleanRle(streams.window(node.id, StreamKind.PRESENT)) if has_present else None

    # ------------------------------------------------------------------ verbs

    def seek(self, positions: Mapping[int, PositionIterator]) -> None:
        """To the row-group start that ``positions`` describe, by column id, for this node and all below it."""
        with located(column=self.node.dotted):
            self._pending = 0
            mine = positions[self.node.id]
            if self._present is not None:
                self._present.seek(mine)
            self._seek_values(mine, positions)

    def skip(self, n: int) -> None:
        """Passes over ``n`` rows of the parent."""
        self._pending += n

    def read(self, n: int, parent: Present | None = None) -> pa.Array:
        """The next ``n`` rows; ``parent``: which of them exist (rows of a null struct do not)."""
        with located(column=self.node.dotted):
            self._pay_skips()
            return self._read_values(self._read_present(n, parent))

    # ------------------------------------------------------------------ what subclasses have

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        raise NotImplementedError

    def _skip_values(self, count: int) -> None:
        raise NotImplementedError

    def _read_values(self, present: Present) -> pa.Array:
        raise NotImplementedError

    # ------------------------------------------------------------------ nulls

    def _pay_skips(self) -> None:
        if self._pending:
            rows, self._pending = self._pending, 0
            self._skip_values(rows if self._present is None else self._present.skip(rows))

    def _read_present(self, n: int, parent: Present | None) -> Present:
        if self._present is None:
            return Present(n, n, None) if parent is None else parent
        covered = n if parent is None else parent.count
        bits, view = allocate((covered + 63) // 64 * 8)
        count = self._present.read_bits(view, 0, covered)
        if count == covered:
            return Present(n, n, None) if parent is None else parent
        if parent is None or parent.bits is None:
            return Present(n, count, bits)
        nested, out = allocate((n + 63) // 64 * 8)
        buffers.nest_bits(view, parent.view, n, out)
        return Present(n, count, nested)


class _Fixed(ColumnReader):
    """Values of one width, dense in their stream, spread over the nulls."""

    width: int

    def _read_dense(self, view: memoryview, count: int) -> None:
        raise NotImplementedError

    def _read_values(self, present: Present) -> pa.Array:
        buffer, view = allocate(present.rows * self.width)
        if present.count:
            self._read_dense(view[: present.count * self.width], present.count)
        if present.bits is not None:
            buffers.spread(view, self.width, present.view, present.rows, present.count)
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, buffer], present.nulls)


class Integers(_Fixed):
    """SHORT, INT, LONG and DATE: a signed run-length stream. Values wrap to the type's width, as in every reader."""

    _WIDTHS = {TypeKind.SHORT: (2, "h"), TypeKind.INT: (4, "i"), TypeKind.LONG: (8, "q"), TypeKind.DATE: (4, "i")}

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self.width, self._format = self._WIDTHS[node.kind]
        window = streams.window(node.id, StreamKind.DATA)
        self._data = IntRle(window, version=rle_version(self.encoding.kind), signed=True)

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_dense(self, view: memoryview, count: int) -> None:
        self._data.read(view.cast(self._format), count)


class Bytes(_Fixed):
    """BYTE: byte runs."""

    width = 1

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._data = ByteRle(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_dense(self, view: memoryview, count: int) -> None:
        self._data.read(view, count)


class Floats(_Fixed):
    """FLOAT and DOUBLE: IEEE values, little-endian, without runs."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self.width = 4 if node.kind is TypeKind.FLOAT else 8
        self._data = RawBytes(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count * self.width)

    def _read_dense(self, view: memoryview, count: int) -> None:
        self._data.read_into(view)


class Booleans(ColumnReader):
    """BOOLEAN: bits over byte runs."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._data = BooleanRle(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_values(self, present: Present) -> pa.Array:
        buffer, view = allocate((present.count + 63) // 64 * 8)
        if present.count:
            self._data.read_bits(view, 0, present.count)
        if present.bits is not None:
            buffer, out = allocate((present.rows + 63) // 64 * 8)
            buffers.nest_bits(view, present.view, present.rows, out)
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, buffer], present.nulls)


class Structs(ColumnReader):
    """STRUCT: only PRESENT of its own; hands the rows in which it is null down to its fields."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._fields = [open_column(child, streams, options, file=facts) for child in node.children]
        self.arrow_type = pa.struct([pa.field(name, f.arrow_type) for name, f in zip(node.names, self._fields)])

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        for field in self._fields:
            field.seek(positions)

    def _skip_values(self, count: int) -> None:
        for field in self._fields:
            field.skip(count)

    def _read_values(self, present: Present) -> pa.Array:
        below = present if present.bits is not None else None
        children = [field.read(present.rows, below) for field in self._fields]
        return pa.Array.from_buffers(
            self.arrow_type, present.rows, [present.bits], present.nulls, children=children
        )


class DirectStrings(ColumnReader):
    """STRING, CHAR, VARCHAR and BINARY, direct: lengths, and the bytes one after the other."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._lengths = IntRle(
            streams.window(node.id, StreamKind.LENGTH), version=rle_version(self.encoding.kind), signed=False
        )
        self._data = RawBytes(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)
        self._lengths.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(buffers.skip_lengths(self._lengths, count))

    def _read_values(self, present: Present) -> pa.Array:
        _, scratch = allocate(present.count * 8)
        lengths = scratch.cast("q")
        total = buffers.read_lengths(self._lengths, lengths, present.count)
        if total > MOST_STRING_BYTES:
            raise CorruptFile(f"{present.rows} strings of {total} bytes in one batch", stream="LENGTH")
        offsets, view = allocate((present.rows + 1) * 4)
        buffers.fill_offsets(lengths, present.view, present.rows, view.cast("i"))
        data, out = allocate(total)
        self._data.read_into(out)
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, offsets, data], present.nulls)


class DictionaryStrings(ColumnReader):
    """STRING, CHAR and VARCHAR, dictionary: indexes into entries that are decoded once per stripe."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        version = rle_version(self.encoding.kind)
        self._data = IntRle(streams.window(node.id, StreamKind.DATA), version=version, signed=False)
        self._entry_lengths = IntRle(streams.window(node.id, StreamKind.LENGTH), version=version, signed=False)
        self._blob = RawBytes(streams.window(node.id, StreamKind.DICTIONARY_DATA))
        self._entries: tuple[memoryview, memoryview] | None = None

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _dictionary(self) -> tuple[memoryview, memoryview]:
        if self._entries is None:
            size = self.encoding.dictionary_size
            _, scratch = allocate(size * 8)
            lengths = scratch.cast("q")
            total = buffers.read_lengths(self._entry_lengths, lengths, size)
            _, offsets = allocate((size + 1) * 4)
            buffers.fill_offsets(lengths, None, size, offsets.cast("i"))
            _, blob = allocate(total + SPARE)
            self._blob.read_into(blob, total)
            self._entries = offsets.cast("i"), blob
        return self._entries

    def _read_values(self, present: Present) -> pa.Array:
        _, scratch = allocate(present.count * 8)
        indexes = scratch.cast("q")
        if present.count:
            self._data.read(indexes, present.count)
        entries, blob = self._dictionary()
        offsets, view = allocate((present.rows + 1) * 4)
        total = buffers.gather_offsets(indexes, entries, present.view, present.rows, view.cast("i"))
        data, out = allocate(total + SPARE)
        buffers.gather_bytes(indexes, entries, blob, total, out)
        return pa.Array.from_buffers(
            self.arrow_type, present.rows, [present.bits, offsets, data.slice(0, total)], present.nulls
        )


_READERS: dict[TypeKind, Callable[..., ColumnReader]] = {
    TypeKind.BOOLEAN: Booleans,
    TypeKind.BYTE: Bytes,
    TypeKind.SHORT: Integers,
    TypeKind.INT: Integers,
    TypeKind.LONG: Integers,
    TypeKind.DATE: Integers,
    TypeKind.FLOAT: Floats,
    TypeKind.DOUBLE: Floats,
    TypeKind.STRUCT: Structs,
}


def open_column(node: OrcType, streams: StripeStreams, options: ReadOptions, *, file: FileFacts) -> ColumnReader:
    """The reader of a column, with readers for all below it. Raises ``CorruptFile`` for an impossible encoding."""
    if node.kind in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.BINARY):
        kind: Any = DictionaryStrings if is_dictionary(streams.encoding(node.id).kind) else DirectStrings
    else:
        kind = _READERS[node.kind]
    reader = kind(node, streams, options, file)
    assert isinstance(reader, ColumnReader)
    return reader
