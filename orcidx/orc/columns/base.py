"""Column readers: a tree that mirrors the type tree and turns streams into Arrow arrays.

Three verbs. ``seek`` goes to a row-index position, on every node of the tree; ``skip`` passes over rows, lazily: it is
paid at the next read, so that skips at the end of a scan cost nothing; ``read`` decodes. A node counts rows of its
parent: a child of a struct has no values for rows in which the struct is null, and its PRESENT stream does not cover
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.options import ReadOptions
from orcidx.orc import buffers
from orcidx.orc.byte_rle import BooleanRle
from orcidx.orc.metadata import ColumnEncoding, FileFacts, StreamKind
from orcidx.orc.streams import PositionIterator, rle_version, stream_layout
from orcidx.orc.types import OrcType, arrow_type
from orcidx.orc.window import Window

__all__ = ["BatchTooLarge", "ColumnReader", "Fixed", "Limits", "Present", "StripeStreams", "allocate"]

LARGEST_ARRAY = (1 << 31) - 1
"""Bytes of strings, or elements of lists, that one Arrow array addresses with 32-bit offsets."""
LARGEST_LIST = 512 << 20
"""Bytes that the elements of a single row may take; a damaged length is more likely than a longer list."""
MOST_SKIPPED = 1 << 60
"""Rows that may be passed over at once. More is damage: no stripe has so many elements."""


class BatchTooLarge(Exception):
    """A read would give more bytes than a batch may have. The readers are left anywhere: seek, read fewer rows."""


@dataclass
class Limits:
    """What one read may give, shared by the readers of a stripe. ``batch_bytes`` None: a single row is being read,
    which cannot be split."""

    batch_bytes: int | None

    def check_bytes(self, size: int) -> None:
        """Before ``size`` bytes of strings are read. Raises ``BatchTooLarge``, for a single row ``Unsupported``."""
        if self.batch_bytes is None:
            if size > LARGEST_ARRAY:
                raise Unsupported(f"a row with {size} bytes of strings; an Arrow array holds {LARGEST_ARRAY}")
        elif size > min(self.batch_bytes, LARGEST_ARRAY):
            raise BatchTooLarge

    def check_elements(self, count: int) -> None:
        """Before ``count`` elements of lists or maps are read; see ``check_bytes``."""
        if self.batch_bytes is None:
            if count * 8 > LARGEST_LIST:
                raise Unsupported(f"a row whose lists have {count} elements; at most {LARGEST_LIST // 8} are read")
        elif count * 8 > self.batch_bytes or count > LARGEST_ARRAY:
            raise BatchTooLarge


class StripeStreams(Protocol):
    """What a column reader opens its streams from; one per stripe."""

    writer_timezone: str | None
    rows: int
    limits: Limits
    dictionaries: frozenset[int]

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
        self.arrow_type = arrow_type(node, options, dictionaries=streams.dictionaries)
        self.limits = streams.limits
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

    @property
    def run_length_version(self) -> int:
        """1 or 2: the code of this column's integer streams."""
        return rle_version(self.encoding.kind)

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
            if rows > MOST_SKIPPED:
                raise CorruptFile(f"{rows} elements to pass over, from lengths that cannot be")
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


class Fixed(ColumnReader):
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
