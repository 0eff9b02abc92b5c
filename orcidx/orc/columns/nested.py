"""Readers of structs, lists, maps and unions. They read lengths or tags, and have readers for their child columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from orcidx.errors import CorruptFile
from orcidx.options import ReadOptions
from orcidx.orc import buffers, nulls
from orcidx.orc.byte_rle import BooleanRle, ByteRle
from orcidx.orc.columns.base import ColumnReader, Present, StripeStreams, allocate, bitmap_size
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.streams import PositionIterator
from orcidx.orc.types import OrcType, list_type, map_type, struct_type, union_type

__all__ = ["Lists", "Maps", "RootRows", "Structs", "Unions"]

TAGS_AT_ONCE = 1 << 16
"""The number of tags that are examined together when rows are skipped."""

OpenChild = Callable[[OrcType], ColumnReader]


class Structs(ColumnReader):
    """A STRUCT has only a PRESENT stream. This stream shows in which rows the struct is null. The reader of the struct
    passes these rows on to the readers of the fields."""

    def __init__(
        self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts, open_child: OpenChild
    ) -> None:
        super().__init__(node, streams, options, facts)
        self._fields = [open_child(child) for child in node.children]
        self.arrow_type = struct_type(node, [field.arrow_type for field in self._fields])

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        for field in self._fields:
            field.seek(positions)

    def _skip_values(self, count: int) -> None:
        for field in self._fields:
            field.skip(count)

    def _read_values(self, present: Present) -> pa.Array:
        below = present if present.bits is not None else None
        children = [field.read(present.rows, below) for field in self._fields]
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits], present.nulls, children=children)


class RootRows:
    """Shows which rows of the file are null as a whole. ORC C++ can write such rows. They have no values in any column,
    so all their columns are null."""

    def __init__(self, streams: StripeStreams) -> None:
        self._present = BooleanRle(streams.window(0, StreamKind.PRESENT))

    def seek(self, positions: PositionIterator) -> None:
        """Goes to the start of a row group. ``positions``: the positions of the PRESENT stream in this row group."""
        self._present.seek(positions)

    def skip(self, n: int) -> int:
        """Skips ``n`` rows and returns how many of them are not null as a whole."""
        return self._present.skip(n)

    def read(self, n: int) -> Present | None:
        """Reads which of the next ``n`` rows are not null as a whole. Returns None if no row is null as a whole."""
        bits, view = allocate(bitmap_size(n))
        count = self._present.read_bits(view, 0, n)
        return None if count == n else Present(n, count, bits)


class _Repeated(ColumnReader):
    """Reads LIST and MAP. Both have a length for each row, and the elements of all rows one after the other."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._lengths = IntRle(
            streams.window(node.id, StreamKind.LENGTH), version=self.run_length_version, signed=False
        )
        self._below: list[ColumnReader] = []

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._lengths.seek(mine)
        for child in self._below:
            child.seek(positions)

    def _skip_values(self, count: int) -> None:
        elements = buffers.skip_lengths(self._lengths, count)
        for child in self._below:
            child.skip(elements)

    def _read_offsets(self, present: Present) -> tuple[pa.Buffer, int]:
        offsets, view = self.allocate((present.rows + 1) * 4)
        elements = buffers.read_offsets(self._lengths, present.view, present.rows, present.count, view.cast("i"))
        self.limits.check_elements(elements)
        return offsets, elements


class Lists(_Repeated):
    """Reads LIST: the items of all rows one after the other, and a length for each row."""

    def __init__(
        self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts, open_child: OpenChild
    ) -> None:
        super().__init__(node, streams, options, facts)
        self._below = [open_child(node.children[0])]
        self.arrow_type = list_type(node, [self._below[0].arrow_type])

    def _read_values(self, present: Present) -> pa.Array:
        offsets, elements = self._read_offsets(present)
        items = self._below[0].read(elements)
        return pa.Array.from_buffers(
            self.arrow_type, present.rows, [present.bits, offsets], present.nulls, children=[items]
        )


class Maps(_Repeated):
    """Reads MAP: the keys and the values of all rows, and a length for each row. Arrow does not allow null keys.
    Repeated keys are kept."""

    def __init__(
        self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts, open_child: OpenChild
    ) -> None:
        super().__init__(node, streams, options, facts)
        self._below = [open_child(child) for child in node.children]
        self.arrow_type = map_type(node, [child.arrow_type for child in self._below])

    def _read_values(self, present: Present) -> pa.Array:
        offsets, elements = self._read_offsets(present)
        keys, values = (child.read(elements) for child in self._below)
        if keys.null_count:
            raise CorruptFile(f"{keys.null_count} map keys are null, which Arrow does not allow")
        entries = pa.StructArray.from_arrays(
            [keys, values], fields=[self.arrow_type.key_field, self.arrow_type.item_field]
        )
        return pa.Array.from_buffers(
            self.arrow_type, present.rows, [present.bits, offsets], present.nulls, children=[entries]
        )


class Unions(ColumnReader):
    """UNION: a tag for each row. The variant with this tag has a value for the row. The other variants have no value
    for the row.

    Arrow unions have no validity bitmap of their own, so a null row becomes a null of the first variant.
    """

    def __init__(
        self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts, open_child: OpenChild
    ) -> None:
        super().__init__(node, streams, options, facts)
        self._tags = ByteRle(streams.window(node.id, StreamKind.DATA))
        self._variants = [open_child(child) for child in node.children]
        self.arrow_type = union_type(node, [child.arrow_type for child in self._variants])

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._tags.seek(mine)
        for variant in self._variants:
            variant.seek(positions)

    def _read_tags(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        tags = np.empty(count, np.uint8)
        if count:
            self._tags.read(tags, count)
            if tags.max() >= len(self._variants):
                raise CorruptFile(
                    f"a value of the union has the tag {tags.max()}, but the tags must go from 0 to "
                    f"{len(self._variants) - 1}",
                    stream="DATA",
                )
        return tags

    def _skip_values(self, count: int) -> None:
        for start in range(0, count, TAGS_AT_ONCE):
            tags = self._read_tags(min(TAGS_AT_ONCE, count - start))
            for variant, rows in zip(self._variants, np.bincount(tags, minlength=len(self._variants)).tolist()):
                variant.skip(rows)

    def _read_values(self, present: Present) -> pa.Array:
        ids, view = self.allocate(present.rows)
        tags = self._read_tags(present.count)
        np.frombuffer(view, np.uint8)[: present.count] = tags
        if present.bits is not None:
            nulls.spread(view, 1, present.view, present.rows, present.count)
        spread = np.frombuffer(view, np.uint8, present.rows)
        valid = present.mask
        children = []
        for number, variant in enumerate(self._variants):
            chosen = spread == number
            if valid is not None:
                chosen &= valid
            count = int(np.count_nonzero(chosen))
            bits = pa.py_buffer(np.packbits(chosen, bitorder="little").tobytes() + bytes(8))
            children.append(variant.read(present.rows, Present(present.rows, count, bits)))
        return pa.Array.from_buffers(self.arrow_type, present.rows, [None, ids], children=children)
