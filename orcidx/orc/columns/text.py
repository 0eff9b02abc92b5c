"""Readers of strings and binaries, which are stored directly or in a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, Unsupported
from orcidx.options import ReadOptions
from orcidx.orc import buffers, nulls
from orcidx.orc.buffers import SPARE_BYTES
from orcidx.orc.byte_rle import RawBytes
from orcidx.orc.columns import base
from orcidx.orc.columns.base import (
    KEPT_WIDTHS,
    LARGEST_ARRAY,
    ColumnReader,
    Pick,
    Present,
    StripeStreams,
    allocate,
    bitmap_size,
    tested,
)
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts, TypeKind
from orcidx.orc.streams import PositionIterator
from orcidx.orc.string_views import make_uniform_views, make_views
from orcidx.orc.tested_strings import strings_among
from orcidx.orc.types import STRING_KINDS, OrcType

__all__ = ["VIEW_BYTES", "DictionaryStrings", "DirectStrings"]

EntryTest = Callable[[pa.Array], npt.NDArray[np.bool_]]
"""Tests each entry of a dictionary."""

FIRST_PIECE_BYTES = 32 << 20
"""The most bytes that are allocated merely because a LENGTH stream requires them. More bytes are allocated only after
this many bytes have been read."""
MOST_ENTRIES = 1 << 26
ENTRIES_AT_ONCE = 1 << 16
"""The number of entries whose offsets are allocated first. For a larger dictionary the number doubles with each
read."""
VIEW_BYTES = 16
"""The size of a view of a string in Arrow's format."""
INLINE_BYTES = 12
"""A view of a string of at most this many bytes contains the string."""
SHARED_BYTES = 1 << 16
"""Views refer to the bytes of the dictionary if the dictionary has at most this many bytes. Arrow's ``nbytes`` counts
these bytes in every batch, so the batches of a larger dictionary would seem too large."""
VIEWS_WITH_CONTENT = hasattr(pa.DataType, "has_variadic_buffers")
"""Whether this version of pyarrow can make arrays of views that refer to further buffers."""
LONGEST_CHAR = 1 << 16
"""The most characters of a CHAR type whose values are padded. Hive allows 255."""


def read_bytes(data: RawBytes, total: int, spare: int = 0, *, text: bool) -> tuple[pa.Buffer, bool]:
    """Reads ``total`` bytes of a stream, with room for ``spare`` bytes after them. Also returns whether all of the read
    bytes are ASCII text.

    If ``total`` is large, memory is allocated in steps while the bytes are read. So a wrong ``total`` cannot cause a
    large allocation.
    """
    read = data.read_text if text else data.read_into
    if total <= FIRST_PIECE_BYTES:
        buffer, view = allocate(total + spare)
        return buffer, bool(read(view, total))
    have = 0
    ascii_only = text
    buffer = pa.allocate_buffer(FIRST_PIECE_BYTES, resizable=True)
    while have < total:
        size = min(total, max(FIRST_PIECE_BYTES, have * 2))
        buffer.resize(size + spare)
        ascii_only = bool(read(memoryview(buffer).cast("B")[have:size])) and ascii_only
        have = size
    return buffer, ascii_only


def _views_of(array: pa.Array) -> tuple[pa.Buffer, list[pa.Buffer]]:
    """The views of the strings of an array without an offset, and the buffers to which the views refer."""
    _, offsets, data = array.buffers()
    places = memoryview(offsets).cast("B").cast("i")[: len(array) + 1] if len(array) else memoryview(bytes(4)).cast("i")
    views, out = allocate(len(array) * VIEW_BYTES)
    longest = make_views(places, memoryview(data or b"").cast("B"), out)
    return views, [data] if longest > INLINE_BYTES else []


class Strings(ColumnReader):
    """The common part of direct and dictionary strings: validation, padding of CHAR, and the Arrow type."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._is_text = node.kind in STRING_KINDS
        self._looks = self._is_text and options.utf8 != "unchecked"
        self._plain_type = pa.string() if self._is_text else pa.binary()
        self._pads = node.kind is TypeKind.CHAR and options.char == "padded"
        if self._pads and node.max_length > LONGEST_CHAR:
            raise Unsupported(
                f"char({node.max_length}) is too long to be padded, because the limit is {LONGEST_CHAR} characters; "
                'read it with char="stored" or char="trimmed"',
                column=node.dotted,
            )

    def _plain(
        self, rows: int, bits: pa.Buffer | None, offsets: pa.Buffer, data: pa.Buffer, nulls: int, *, ascii_only: bool
    ) -> pa.Array:
        """Makes a string or binary array. If the options request it, checks that text is valid UTF-8."""
        array = pa.Array.from_buffers(self._plain_type, rows, [bits, offsets, data], nulls)
        if not self._is_text:
            return array
        if self._looks and not ascii_only:
            array = self._checked(array)
        if self.node.kind is TypeKind.CHAR and self.options.char != "stored":
            array = pc.ascii_rtrim(array, characters=" ")  # trims bytes, so the text need not be valid UTF-8
            if self._pads:
                array = self._padded(array)
        return array

    def _checked(self, array: pa.Array) -> pa.Array:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            if self.options.utf8 == "strict":
                raise CorruptFile('a string is not UTF-8; read with utf8="replace" or utf8="unchecked"') from error
            return self._rewritten(array, lambda text: text.decode("utf-8", "replace").encode())
        return array

    def _padded(self, array: pa.Array) -> pa.Array:
        width = self.node.max_length
        try:
            return pc.utf8_rpad(array, width, padding=" ")
        except pa.ArrowInvalid:  # the text was not checked, and is not valid UTF-8
            return self._rewritten(array, lambda text: text + b" " * (width - len(text.decode("utf-8", "replace"))))

    @staticmethod
    def _rewritten(array: pa.Array, change: Callable[[bytes], bytes]) -> pa.Array:
        """Replaces each value by the result of ``change``. Used for the few arrays that no kernel supports."""
        texts = [None if value is None else change(value) for value in array.view(pa.binary()).to_pylist()]
        size = sum(len(text) for text in texts if text is not None)
        if size > LARGEST_ARRAY:
            raise Unsupported(
                f"the strings of a batch have {size} bytes after invalid UTF-8 is replaced or CHAR values are padded, "
                f"but an Arrow array holds at most {LARGEST_ARRAY} bytes"
            )
        return pa.array(texts, pa.binary()).view(pa.string())

    def _typed(self, array: pa.Array) -> pa.Array:
        if array.type == self.arrow_type:
            return array
        if self.arrow_type == pa.string_view():
            views, content = _views_of(array)
            if VIEWS_WITH_CONTENT or not content:
                bits = array.buffers()[0] if array.null_count else None
                return pa.Array.from_buffers(self.arrow_type, len(array), [bits, views, *content], array.null_count)
        return array.cast(self.arrow_type)


class DirectStrings(Strings):
    """STRING, CHAR, VARCHAR, BINARY and geometry in direct form: lengths, and the bytes of all values one after the
    other.

    ``wanted``: different literals, or None. If it is set, reads return a byte for each row instead of its string. The
    byte is the number of the literal that the string equals, counted from 1. It is 0 for any other string and for a
    null row.

    ``wanted_lengths``: lengths in bytes, or None. If it is set, and no string of a read has one of these lengths, the
    read returns a null for every row and leaves out the bytes of its strings. These bytes are only decompressed if a
    later read, without a seek before it, needs the bytes after them."""

    wanted: tuple[bytes, ...] | None = None
    wanted_lengths: tuple[int, ...] | None = None

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._lengths = IntRle(
            streams.window(node.id, StreamKind.LENGTH), version=self.run_length_version, signed=False
        )
        self._data = RawBytes(streams.window(node.id, StreamKind.DATA))
        self._unread = 0

    @property
    def keeps_bytes(self) -> bool:
        """Whether the options do not change the bytes of strings."""
        return self.node.kind is not TypeKind.CHAR and not (self._is_text and self.options.utf8 == "replace")

    @property
    def has_nulls_for_lengths(self) -> bool:
        """Whether reads can return nulls for ``wanted_lengths``, in the column's form of Arrow."""
        return self.arrow_type == self._plain_type or (VIEWS_WITH_CONTENT and self.arrow_type == pa.string_view())

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._unread = 0
        self._data.seek(mine)
        self._lengths.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._unread += buffers.skip_lengths(self._lengths, count)

    def _read_bytes(self, total: int) -> tuple[pa.Buffer, bool]:
        """Reads the bytes of the next strings. See ``read_bytes``."""
        if self._unread:
            unread, self._unread = self._unread, 0
            self._data.skip(unread)
        return read_bytes(self._data, total, text=self._looks)

    def _read_values(self, present: Present) -> pa.Array:
        if self.wanted is not None:
            return tested(self, present, partial(self._dense_among, literals=self.wanted))
        offsets, view = self.allocate((present.rows + 1) * 4)
        places, length = view.cast("i"), -1
        if present.bits is None:
            total, length = buffers.read_lengths(self._lengths, present.rows, places)
        else:
            total = buffers.read_offsets(self._lengths, present.view, present.rows, present.count, places)
        self.limits.claim_text(total + present.count * self.node.max_length * self._pads)
        if length >= 0:
            buffers.fill_offsets(places, length)
        if self.wanted_lengths is not None and total <= FIRST_PIECE_BYTES and not self._has_wanted(places):
            self._unread += total
            return self._nulls(present.rows, offsets, total)
        data, ascii_only = self._read_bytes(total)
        is_valid = ascii_only or not self._looks
        if 0 <= length <= INLINE_BYTES and is_valid and self.keeps_bytes and self.arrow_type == pa.string_view():
            buffer, view = allocate(present.rows * VIEW_BYTES)
            make_uniform_views(memoryview(data).cast("B"), length, view)
            return pa.Array.from_buffers(self.arrow_type, present.rows, [None, buffer], 0)
        plain = self._plain(present.rows, present.bits, offsets, data, present.nulls, ascii_only=ascii_only)
        return self._typed(plain)

    def _dense_among(self, found: memoryview, literals: tuple[bytes, ...]) -> None:
        """Decodes a string for each byte of ``found``, and writes which literal it equals. See ``wanted``."""
        self._unread = strings_among(self._lengths, self._data.window, found, literals, unread=self._unread)

    def _has_wanted(self, offsets: memoryview) -> bool:
        """Whether a string has one of the wanted lengths."""
        lengths = np.diff(np.frombuffer(offsets, np.int32))
        return any((lengths == wanted).any() for wanted in self.wanted_lengths or ())

    def _nulls(self, rows: int, offsets: pa.Buffer, total: int) -> pa.Array:
        """Returns ``rows`` nulls. The array has memory for the ``total`` bytes of the strings, because the next reads
        are planned by its size. The memory is not used, so it takes no time and no pages."""
        data, _ = allocate(total)
        bits = pa.py_buffer(np.zeros(bitmap_size(rows), np.uint8))
        if self.arrow_type == self._plain_type:
            return pa.Array.from_buffers(self.arrow_type, rows, [bits, offsets, data], rows)
        views = pa.py_buffer(np.zeros(rows * VIEW_BYTES, np.uint8))
        return pa.Array.from_buffers(self.arrow_type, rows, [bits, views, data], rows)

    def _read_kept(self, present: Present, mask: Mask, pick: Pick) -> pa.Array:
        """Selects the bytes of the kept rows without making offsets for all rows, if all strings have the same
        length."""
        rows, count = present.rows, mask.count
        is_plain = self.arrow_type == self._plain_type and self.node.kind is not TypeKind.CHAR
        if present.bits is not None or not base.KEEPS or not is_plain:
            return super()._read_kept(present, mask, pick)
        size = (rows + 1) * 4
        offsets, view = self.allocate(size)
        total, length = buffers.read_lengths(self._lengths, rows, view.cast("i"))
        self.limits.claim_text(total)
        data, ascii_only = self._read_bytes(total)
        if length not in KEPT_WIDTHS or (self._looks and not ascii_only):
            if length >= 0:
                buffers.fill_offsets(view.cast("i"), length)
            return pick(self._plain(rows, None, offsets, data, 0, ascii_only=ascii_only))
        kept = pick(pa.Array.from_buffers(pa.binary(length), rows, [None, data]), size + total)
        if count <= rows * base.FULL_SIZE_SHARE:
            offsets, view = allocate((count + 1) * 4)
        buffers.fill_offsets(view.cast("i")[: count + 1], length)
        content = kept.buffers()[1].slice(kept.offset * length, count * length)
        return pa.Array.from_buffers(self._plain_type, count, [None, offsets.slice(0, (count + 1) * 4), content], 0)


class DictionaryStrings(Strings):
    """STRING, CHAR and VARCHAR in dictionary form: indexes of entries. The entries are decoded once for each stripe.

    ``entry_test``: returns which entries pass a test, or None. If it is set, reads return a byte for each row instead
    of its string. The byte is 1 if the row's entry passes, and 0 for any other row and for a null row."""

    entry_test: EntryTest | None = None

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        version = self.run_length_version
        self._data = IntRle(streams.window(node.id, StreamKind.DATA), version=version, signed=False)
        self._entry_lengths = IntRle(streams.window(node.id, StreamKind.LENGTH), version=version, signed=False)
        self._blob = RawBytes(streams.window(node.id, StreamKind.DICTIONARY_DATA))
        self._entries: tuple[pa.Array, memoryview, memoryview] | None = None
        self._longest = 0
        self._uniform = -1
        self._begun = False
        self._views: tuple[pa.Buffer, list[pa.Buffer]] | None = None
        self._marks: npt.NDArray[np.uint8] | None = None

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def dictionary(self) -> pa.Array:
        """The entries, as a string array."""
        return self._dictionary()[0]

    def _dictionary(self) -> tuple[pa.Array, memoryview, memoryview]:
        """The entries as an array, their offsets, and their bytes. Some spare bytes follow the bytes of the entries."""
        if self._entries is None:
            self._rewind_entries()
            size = self.encoding.dictionary_size
            if self._pads and size * self.node.max_length > LARGEST_ARRAY:
                raise Unsupported(
                    f"a dictionary of {size} entries, padded to {self.node.max_length} characters, does not fit into "
                    'an Arrow array; read the column with char="stored" or char="trimmed"'
                )
            offsets, total = self._read_entry_offsets(size)
            blob, ascii_only = read_bytes(self._blob, total, SPARE_BYTES, text=self._looks)
            array = self._plain(size, None, offsets, blob.slice(0, total), 0, ascii_only=ascii_only)
            # Some options change the entries. The changed entries are in other buffers, without spare bytes. So they
            # are copied.
            _, offsets, data = array.buffers()
            if data is None or data.address != blob.address:
                blob, room = allocate((0 if data is None else data.size) + SPARE_BYTES)
                room[: len(room) - SPARE_BYTES] = memoryview(b"" if data is None else data).cast("B")
            entries = memoryview(offsets).cast("B").cast("i")[: size + 1]
            shortest, self._longest = buffers.length_range(entries)
            if shortest == self._longest:
                self._uniform = shortest
            self._entries = array, entries, memoryview(blob).cast("B")
        return self._entries

    def _rewind_entries(self) -> None:
        """Goes back to the first entry after a failed read, so a second read raises the same error."""
        if self._begun:
            self._entry_lengths.seek(PositionIterator.start())
            self._blob.seek(PositionIterator.start())
        self._begun = True

    def _read_entry_offsets(self, size: int) -> tuple[pa.Buffer, int]:
        """Reads the entries' offsets in pieces, because the stream may have fewer lengths than the footer says."""
        if size > MOST_ENTRIES:
            raise Unsupported(f"a dictionary has {size} entries, but at most {MOST_ENTRIES} are supported")
        buffer = pa.allocate_buffer(4, resizable=True)
        memoryview(buffer).cast("B").cast("i")[0] = 0
        have = total = 0
        while have < size:
            stop = min(size, max(have * 2, ENTRIES_AT_ONCE))
            self.limits.hold(self.node.id, 4 * stop + total)
            buffer.resize((stop + 1) * 4)
            piece = memoryview(buffer).cast("B")[have * 4 :].cast("i")
            count = stop - have
            total = buffers.read_offsets(self._entry_lengths, None, count, count, piece, first=total)
            if total > LARGEST_ARRAY - SPARE_BYTES:
                raise Unsupported(
                    f"a dictionary has at least {total} bytes, but an Arrow array holds at most {LARGEST_ARRAY} bytes"
                )
            have = stop
        self.limits.hold(self.node.id, 4 * size + total)
        return buffer, total

    def _read_values(self, present: Present) -> pa.Array:
        array, entries, _ = self._dictionary()
        if self.entry_test is not None:
            if self._marks is None:
                self._marks = self.entry_test(array).view(np.uint8)
            return tested(self, present, partial(buffers.read_marks, self._data, self._marks))
        if pa.types.is_dictionary(self.arrow_type):
            return self._indexed(present, array)
        if self.arrow_type == pa.string_view():
            self._views = self._views or _views_of(array)
            views, content = self._views
            if not content or (VIEWS_WITH_CONTENT and content[0].size <= SHARED_BYTES):
                return self._viewed(present, views, content)
        offsets, view = self.allocate((present.rows + 1) * 4)
        _, scratch = allocate(present.count * 4)
        indexes = scratch.cast("i")
        buffers.read_indexes(self._data, present.count, len(array), indexes)
        total = buffers.gather_offsets(
            indexes, entries, present.view, present.rows, present.count, view.cast("i"), uniform=self._uniform
        )
        self.limits.claim_text(total)
        data = self._gathered(indexes, present.count, total)
        plain = pa.Array.from_buffers(self._plain_type, present.rows, [present.bits, offsets, data], present.nulls)
        return self._typed(plain)

    def _viewed(self, present: Present, views: pa.Buffer, content: list[pa.Buffer]) -> pa.Array:
        buffer, out = self.allocate(present.rows * VIEW_BYTES)
        buffers.read_views(self._data, present.count, memoryview(views).cast("B"), out)
        if present.bits is not None:
            nulls.spread(out, VIEW_BYTES, present.view, present.rows, present.count)
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, buffer, *content], present.nulls)

    def _gathered(self, indexes: memoryview, count: int, total: int) -> pa.Buffer:
        """The bytes of the entries that ``count`` indexes select. ``total``: the number of these bytes."""
        _, entries, blob = self._dictionary()
        data, out = allocate(total + SPARE_BYTES)
        buffers.gather_bytes(indexes, count, entries, blob, total, out, uniform=self._uniform, longest=self._longest)
        return data.slice(0, total)

    def _read_kept(self, present: Present, mask: Mask, pick: Pick) -> pa.Array:
        """Selects the indexes of the kept rows. So strings are only made for these rows."""
        rows, count = present.rows, mask.count
        if present.bits is not None or not base.KEEPS or self.arrow_type != self._plain_type:
            return super()._read_kept(present, mask, pick)
        _, entries, _ = self._dictionary()
        self.limits.claim((rows + 1) * 4)
        size = ((rows if count > rows * base.FULL_SIZE_SHARE else count) + 1) * 4
        _, scratch = allocate(size)
        indexes = scratch.cast("i")
        whole = buffers.read_kept_indexes(self._data, entries, mask, indexes, uniform=self._uniform)
        self.limits.claim_text(whole)
        pick.counts((rows + 1) * 4 + whole)
        offsets, view = allocate(size)
        total = buffers.gather_offsets(indexes, entries, None, count, count, view.cast("i"), uniform=self._uniform)
        data = self._gathered(indexes, count, total)
        return pa.Array.from_buffers(self._plain_type, count, [None, offsets.slice(0, (count + 1) * 4), data], 0)

    def _indexed(self, present: Present, entries: pa.Array) -> pa.Array:
        buffer, view = self.allocate(present.rows * 4)
        buffers.read_indexes(self._data, present.count, len(entries), view.cast("i"))
        if present.bits is not None:
            nulls.spread(view, 4, present.view, present.rows, present.count)
        picked = pa.Array.from_buffers(pa.int32(), present.rows, [present.bits, buffer], present.nulls)
        return pa.DictionaryArray.from_arrays(picked, entries, safe=False)
