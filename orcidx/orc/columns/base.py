"""Column readers: a tree that has the shape of the type tree and decodes streams into Arrow arrays.

There are three operations. ``seek`` goes to a row-index position, in every node of the tree. ``skip`` skips rows
lazily. The next read does the work, so a skip at the end of a scan takes no time. ``read`` decodes rows. A node has the
same rows as its parent. Where a struct is null, its children have no values, and their PRESENT streams have no bits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, OrcidxError, Unsupported
from orcidx.options import ReadOptions
from orcidx.orc import nulls
from orcidx.orc.byte_rle import BooleanRle
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kept_rows import Mask
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.streams import PositionIterator, rle_version, stream_layout
from orcidx.orc.types import OrcType, arrow_type
from orcidx.orc.window import Window
from orcidx.threads.waiting import Held, Tally

__all__ = [
    "KEPT_WIDTHS",
    "LARGEST_ARRAY",
    "BatchTooLarge",
    "Claims",
    "ColumnReader",
    "Fixed",
    "KeepsWhileDecoding",
    "Limits",
    "Pick",
    "Present",
    "StripeStreams",
    "allocate",
    "bitmap_size",
    "tested",
]

KEEPS = True
"""Some tests set this to False. Kept rows are then selected from arrays of all rows."""

FULL_SIZE_SHARE = 0.9
"""If more than this share of the rows is kept, memory for all rows is allocated for the output. pyarrow's pool reuses
blocks of one size. Memory of other sizes comes from the system, which must clear its pages (decision 0379)."""

KEPT_WIDTHS = (1, 2, 4, 8, 16)
"""The sizes in bytes of the values, and the lengths of the strings, that compiled loops select by a mask (``kept_rows``
and ``scanner/kept_values``)."""

LARGEST_ARRAY = (1 << 31) - 1
"""The most bytes of strings, or elements of lists, that one Arrow array can address with 32-bit offsets."""
HELD_BYTES = 128 << 20
"""The default of the option ``held_bytes``. If a length in a file needs more memory, the length is probably damaged."""
MOST_SKIPPED = 1 << 60
"""The most rows that can be skipped at once. A larger number is damage, because no stripe has so many elements."""


class BatchTooLarge(Exception):
    """The rows of a read need more bytes than a batch may have. The position of the readers is then undefined. The
    caller must seek, and read fewer rows."""


class Pick(Protocol):
    """A function that selects the kept rows of an array of all rows. The array may have another form than the column in
    Arrow, for example strings of one length without offsets. ``size`` is then the number of bytes that all rows of the
    column take in Arrow."""

    def __call__(self, array: pa.Array, size: int | None = None) -> pa.Array: ...

    def counts(self, size: int) -> None:
        """Records the number of bytes that all rows take in Arrow, for a reader that selects the rows itself."""


Claims = Tally
"""The bytes that one read has claimed for all its columns."""


class Limits:
    """Limits the memory that one read may allocate. The readers of a stripe share one object, and may run in several
    threads.

    The bytes of every buffer are claimed before the buffer is allocated. The claims of all columns are added up and
    compared with the limit. So a wrong number in the file cannot cause a large allocation. Whether a batch is too large
    does not depend on the order of the threads.

    ``batch_bytes``: the maximum number of bytes of one read. None means that there is no such maximum, because a single
    row is read, which cannot be split. ``held_bytes``: the maximum number of bytes that the stripe's readers may keep
    between reads (dictionaries, and chunks of open streams). If ``batch_bytes`` is None, the bytes of the row count
    towards this maximum as well.
    """

    def __init__(self, batch_bytes: int | None, *, held_bytes: int = HELD_BYTES) -> None:
        self.batch_bytes = batch_bytes
        self.held_bytes = held_bytes
        self._claims = Claims()
        self._kept = Held()

    def apart(self) -> Limits:
        """Makes limits for readers that are at other rows than the other readers of the stripe. The held bytes of all
        these readers are added up."""
        apart = Limits(self.batch_bytes, held_bytes=self.held_bytes)
        apart._kept = self._kept
        return apart

    def begin(self, batch_bytes: int | None, claims: Claims | None = None) -> None:
        """Begins a new read of at most ``batch_bytes`` bytes. If several reads are given the same ``claims``, their
        bytes are added up."""
        self.batch_bytes = batch_bytes
        self._claims = claims or Claims()

    def claim(self, size: int) -> None:
        """Claims ``size`` bytes before they are allocated. Raises ``BatchTooLarge`` if the read exceeds
        ``batch_bytes``. A read of a single row has no such limit. For such a read, this method raises ``Unsupported``
        if the row and the bytes that are kept for its stripe exceed ``held_bytes``."""
        claimed = self._claims.add(size)
        if self.batch_bytes is None:
            together = claimed + self._kept.sum
            if together > self.held_bytes:
                raise _too_much(
                    "one row, together with the dictionaries and open streams of its stripe, takes at least "
                    f"{together} bytes of memory",
                    self.held_bytes,
                )
        elif claimed > self.batch_bytes:
            raise BatchTooLarge

    def hold(self, owner: Hashable, size: int) -> None:
        """Records that ``owner`` holds ``size`` bytes. Must be called before or immediately after the owner allocates
        these bytes. The new size replaces the size that the owner held before.

        Raises ``Unsupported`` if all owners together hold too many bytes.
        """
        held = self._kept.set(owner, size)
        if held > self.held_bytes:
            raise _too_much(
                f"the dictionaries and open streams of a stripe take at least {held} bytes of memory", self.held_bytes
            )

    def claim_text(self, size: int) -> None:
        """Claims the ``size`` bytes of the strings of one array before they are allocated. Raises an error for more
        bytes than Arrow can address."""
        if size > LARGEST_ARRAY:
            if self.batch_bytes is None:
                raise Unsupported(
                    f"a row has {size} bytes of strings, but an Arrow array holds at most {LARGEST_ARRAY} bytes"
                )
            raise BatchTooLarge
        self.claim(size)

    def check_elements(self, count: int) -> None:
        """Checks the number of elements of lists before the elements are read. Does not claim their bytes. Raises an
        error for more elements than 32-bit offsets can address."""
        if count > LARGEST_ARRAY:
            if self.batch_bytes is None:
                raise Unsupported(
                    f"the lists of a row have {count} elements, but an Arrow array can address at "
                    f"most {LARGEST_ARRAY} elements"
                )
            raise BatchTooLarge


def _too_much(what: str, most: int) -> Unsupported:
    return Unsupported(
        f"{what}, but at most {most} bytes are allowed for a stripe of this size; raise the option held_bytes to read "
        "the stripe"
    )


class StripeStreams(Protocol):
    """The object from which a column reader opens its streams. There is one such object for each stripe."""

    rows: int
    limits: Limits
    dictionaries: frozenset[int]

    @property
    def writer_timezone(self) -> str | None: ...

    def window(self, column: int, kind: StreamKind) -> Window: ...

    def has(self, column: int, kind: StreamKind) -> bool: ...

    def encoding(self, column: int) -> ColumnEncoding: ...


@dataclass(frozen=True, slots=True)
class Present:
    """The validity of ``rows`` rows. ``count``: the number of valid rows. ``bits``: an Arrow bitmap, or None if all
    rows are valid."""

    rows: int
    count: int
    bits: pa.Buffer | None

    @property
    def view(self) -> memoryview | None:
        return None if self.bits is None else memoryview(self.bits).cast("B")

    @property
    def mask(self) -> npt.NDArray[np.bool_] | None:
        """A bool for each row. None if all rows are valid."""
        if self.view is None:
            return None
        bits = np.frombuffer(self.view, np.uint8)
        return np.unpackbits(bits, count=self.rows, bitorder="little").view(np.bool_)

    @property
    def nulls(self) -> int:
        return self.rows - self.count


def bitmap_size(rows: int) -> int:
    """The bytes of a bitmap, rounded up to whole words of 64 bits."""
    return (rows + 63) // 64 * 8


def allocate(size: int) -> tuple[pa.Buffer, memoryview]:
    """Allocates a buffer from pyarrow's pool. Returns it with a writable view of its bytes. ``ColumnReader.allocate``
    claims the bytes first."""
    buffer = pa.allocate_buffer(size)
    return buffer, memoryview(buffer).cast("B")


class ColumnReader:
    """The base class of all readers. It handles PRESENT streams, lazy skips, and positions in errors. Subclasses read
    the values."""

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

    # ------------------------------------------------------------------ seeking, skipping and reading

    def seek(self, positions: Mapping[int, PositionIterator]) -> None:
        """Seeks to the start of a row group, in this node and all nodes below. ``positions``: the row-index positions
        of the row group, by column id."""
        try:
            self._pending = 0
            mine = positions[self.node.id]
            if self._present is not None:
                self._present.seek(mine)
            self._seek_values(mine, positions)
        except OrcidxError as error:
            error.at(column=self.node.dotted)
            raise

    def skip(self, n: int) -> None:
        """Skips ``n`` rows of the parent."""
        self._pending += n

    def read(self, n: int, parent: Present | None = None) -> pa.Array:
        """Reads the next ``n`` rows. ``parent``: the validity of these rows in the struct that contains the column.
        Rows in which the struct is null have no value in the column."""
        try:
            if self._pending:
                self._pay_skips()
            if self._present is None and parent is None:
                return self._read_values(Present(n, n, None))
            return self._read_values(self._read_present(n, parent))
        except OrcidxError as error:
            error.at(column=self.node.dotted)
            raise

    def read_kept(self, n: int, mask: Mask, pick: Pick) -> pa.Array:
        """Reads the rows that ``mask`` keeps among the next ``n`` rows of a top-level column.

        All rows are decoded and checked, and the same number of bytes is claimed as in ``read``. Some readers cannot
        select rows during decoding. They use ``pick``, which selects the kept rows from an array of all rows.
        """
        try:
            if self._pending:
                self._pay_skips()
            return self._read_kept(self._read_present(n, None), mask, pick)
        except OrcidxError as error:
            error.at(column=self.node.dotted)
            raise

    @property
    def run_length_version(self) -> int:
        """The version, 1 or 2, of the run-length encoding of this column's integer streams."""
        return rle_version(self.encoding.kind)

    def allocate(self, size: int) -> tuple[pa.Buffer, memoryview]:
        """Allocates a buffer for a part of the read, and returns it with a view of its bytes. Raises the same errors as
        ``Limits.claim``."""
        self.limits.claim(size)
        buffer = pa.allocate_buffer(size)
        return buffer, memoryview(buffer).cast("B")

    # ------------------------------------------------------------------ methods that subclasses implement

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        raise NotImplementedError

    def _skip_values(self, count: int) -> None:
        raise NotImplementedError

    def _read_values(self, present: Present) -> pa.Array:
        raise NotImplementedError

    def _read_kept(self, present: Present, mask: Mask, pick: Pick) -> pa.Array:
        return pick(self._read_values(present))

    # ------------------------------------------------------------------ nulls

    def _pay_skips(self) -> None:
        rows, self._pending = self._pending, 0
        if rows > MOST_SKIPPED:
            raise CorruptFile(
                f"the lengths of the column are damaged: {rows} elements would have to be skipped, but a stripe has at "
                f"most {MOST_SKIPPED} elements"
            )
        self._skip_values(rows if self._present is None else self._present.skip(rows))

    def _read_present(self, n: int, parent: Present | None) -> Present:
        if self._present is None:
            return Present(n, n, None) if parent is None else parent
        covered = n if parent is None else parent.count
        bits, view = self.allocate(bitmap_size(covered))
        count = self._present.read_bits(view, 0, covered)
        if count == covered:
            return Present(n, n, None) if parent is None else parent
        if parent is None or parent.bits is None:
            return Present(n, count, bits)
        nested, out = self.allocate(bitmap_size(n))
        nulls.nest_bits(view, parent.view, n, out)
        return Present(n, count, nested)


def tested(reader: ColumnReader, present: Present, test: Callable[[memoryview], None]) -> pa.Array:
    """Returns a byte for each row: the result of ``test`` for its value, or 0 for a null row. ``test`` decodes a value
    for each byte of its argument, and writes its result there."""
    buffer, found = reader.allocate(present.rows)
    if present.count:
        test(found[: present.count])
    if present.view is not None:
        nulls.spread(found, 1, present.view, present.rows, present.count)
    return pa.Array.from_buffers(pa.uint8(), present.rows, [None, buffer])


class Fixed(ColumnReader):
    """Reads values of a fixed width. The stream has only the values that are not null. After they are read, they are
    moved to their rows.

    ``within``: a range (smallest, largest) or None. If it is set, reads return a byte for each row instead of its
    value. The byte is 1 if the stored number is in the range, and 0 for any other number and for a null row. No number
    is in the range if the smallest number exceeds the largest."""

    width: int
    within: tuple[int, int] | None = None

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        """Reads ``count`` values to ``view``. ``streaming``: whether large output may bypass the processor's caches,
        because the values are not moved again."""
        raise NotImplementedError

    def _dense_within(self, found: memoryview, low: int, high: int) -> None:
        """Decodes a value for each byte of ``found``, and writes whether it is in a range."""
        raise NotImplementedError

    def _read_values(self, present: Present) -> pa.Array:
        if self.within is not None:
            low, high = self.within
            return tested(self, present, partial(self._dense_within, low=low, high=high))
        buffer, view = self.allocate(present.rows * self.width)
        if present.count:
            self._read_dense(view[: present.count * self.width], present.count, streaming=present.bits is None)
        if present.bits is not None:
            nulls.spread(view, self.width, present.view, present.rows, present.count)
        without = present.rows - present.count  # as ``present.nulls``, but without a call
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, buffer], without)


class KeepsWhileDecoding(Fixed):
    """Reads values of a fixed width. If there are no nulls, only the wanted values are kept during decoding. A block is
    decoded and stays in the processor's cache, and its wanted values are copied to the output (decision 0379)."""

    def _read_dense_kept(self, view: memoryview, mask: Mask) -> None:
        """Reads a value for each row of ``mask``, and writes the kept values to ``view``. ``view`` has room
        for one more value."""
        raise NotImplementedError

    def _read_kept(self, present: Present, mask: Mask, pick: Pick) -> pa.Array:
        if present.bits is not None or not KEEPS:
            return super()._read_kept(present, mask, pick)
        self.limits.claim(present.rows * self.width)
        count = mask.count
        rows = present.rows if count > present.rows * FULL_SIZE_SHARE else count + 1
        buffer, view = allocate(rows * self.width)
        self._read_dense_kept(view, mask)
        return pa.Array.from_buffers(self.arrow_type, count, [None, buffer.slice(0, count * self.width)], 0)
