"""Decodes all rows of a stripe in one call, without column readers. This works for "plain" columns: columns of the
simplest types, which are read as the usual Arrow types.

A column reader takes some forty Python calls besides decoding. This is little for a million rows but much for a
hundred. Here there are no seeks, skips or batches: all rows of a column are decoded at once, one column after the
other, by the same windows and kernels. The stripe is in memory or in a local file. From a file each column is read by
one call, always into the same memory, which stays in the processor's cache. Streams of a large stripe are read piece by
piece instead, as a column reader reads them. For columns that are not plain, and for every error, ``read_stripe``
returns None. Column readers then decode the stripe and raise their errors.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free

from orcidx.orc.footers cimport EncodingTable, StreamTable
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window
from orcidx.storage.local_file cimport LocalFile, PieceRun

import numpy as np
import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported, ValueOutOfRange
from orcidx.orc.buffers import (
    SPARE_BYTES, gather_bytes, gather_offsets, length_range, nest_bits, read_indexes, read_offsets, spread,
)
from orcidx.orc.byte_rle import BooleanRle, ByteRle, RawBytes
from orcidx.orc.calendars import GREGORIAN_START, proleptic_days
from orcidx.orc.kinds import STREAM_NAMES, EncodingKind, StreamKind, TypeKind
from orcidx.orc.streaming_store import integers_use_streaming
from orcidx.orc.timestamps import read_days

__all__ = ["PLAIN_ROWS", "Allowance", "FileStream", "HeldStream", "Recipe", "read_stripe", "recipe_of"]

PLAIN_ROWS = 1 << 16
MOST_TEXT = 1 << 22
cdef int64_t MOST_STORED = 1 << 19  # limit of the stored bytes of a column; they fit into the processor's cache
cdef bint STREAMING = integers_use_streaming()
cdef int64_t EXPANDED = 8  # texts are assumed to have this many bytes for each stored byte

cdef int PRESENT = StreamKind.PRESENT, DATA = StreamKind.DATA, LENGTH = StreamKind.LENGTH
cdef int DICTIONARY_DATA = StreamKind.DICTIONARY_DATA
cdef uint64_t DIRECT = EncodingKind.DIRECT, DIRECT_V2 = EncodingKind.DIRECT_V2
cdef uint64_t DICTIONARY_V2 = EncodingKind.DICTIONARY_V2

cdef enum:
    MOST_ROOMS = 4          # streams of a column: PRESENT, DATA, LENGTH, DICTIONARY_DATA

cdef enum Shape:
    SHORTS, INTS, LONGS, DAYS, FLOATS, BYTES, BITS, TEXT, BINARY

_SHAPES = {
    TypeKind.SHORT: (SHORTS, 2, pa.int16()),
    TypeKind.INT: (INTS, 4, pa.int32()),
    TypeKind.LONG: (LONGS, 8, pa.int64()),
    TypeKind.DATE: (DAYS, 4, pa.date32()),
    TypeKind.FLOAT: (FLOATS, 4, pa.float32()),
    TypeKind.DOUBLE: (FLOATS, 8, pa.float64()),
    TypeKind.BYTE: (BYTES, 1, pa.int8()),
    TypeKind.BOOLEAN: (BITS, 0, pa.bool_()),
    TypeKind.STRING: (TEXT, 0, pa.string()),
    TypeKind.VARCHAR: (TEXT, 0, pa.string()),
    TypeKind.BINARY: (BINARY, 0, pa.binary()),
}


cdef class HeldStream:
    """One stream of a file in memory. ``data`` has all of it. Bytes after the stream may be loaded but are not used."""

    cdef object data
    cdef int64_t offset
    cdef readonly int64_t length

    # A window looks up these attributes. They exist and are None, because a failed lookup would create an exception
    # each time.
    read_into = None
    run = None

    def __cinit__(self, data, int64_t offset, int64_t length):
        self.data = data
        self.offset = offset
        self.length = length

    def fetch(self, int64_t offset):
        """Contiguous bytes from ``offset`` on. See ``PlannedStream.fetch``."""
        if offset >= self.length:
            if offset > self.length:
                raise CorruptFile(f"offset {offset} is past the end of the stream ({self.length} bytes)")
            return memoryview(b"")
        return self.data[self.offset + offset:]


cdef class FileStream:
    """One stream of a local file. Its bytes are read piece by piece into one buffer, which stays in the processor's
    cache. The pieces are the same as those of a ``PlannedStream`` that plans the whole stream."""

    cdef readonly PieceRun run
    cdef readonly int64_t length
    cdef LocalFile file
    cdef object room
    cdef int64_t offset, step

    def __cinit__(self, LocalFile file not None, int64_t offset, int64_t length, int64_t step, room):
        self.run = PieceRun(file, file_offset=offset, step=step)
        self.file, self.offset, self.length, self.step, self.room = file, offset, length, step, room

    def fetch(self, int64_t offset):
        """Contiguous bytes from ``offset`` on. See ``PlannedStream.fetch``."""
        cdef int64_t n = min(self.step, self.length - offset)
        if offset >= self.length:
            if offset > self.length:
                raise CorruptFile(f"offset {offset} is past the end of the stream ({self.length} bytes)")
            return memoryview(b"")
        if self.run.at <= offset < self.run.at + self.run.held:
            return self.room[offset - self.run.at : self.run.held]
        if len(self.room) < n:
            self.room = memoryview(pa.allocate_buffer(n)).cast("B")
        view = self.room[:n]
        self.run.allow(0, 0, room=self.room, at=0, held=0)
        if not self.run.read(offset, view):
            raise Unusual
        self.run.allow(0, self.length, room=self.room, at=offset, held=n)
        return view

    def read_into(self, int64_t offset, list parts):
        """See ``PlannedStream.read_into``."""
        cdef int64_t size = sum(map(len, parts))
        if self.run.at <= offset and offset + size <= self.run.at + self.run.held:
            return 0
        return size if self.file.read_parts(self.offset + offset, parts) else 0


class Unusual(Exception):
    """Raised for everything that column readers must handle."""


cdef class Allowance:
    """How many bytes may still be allocated for a stripe: for Arrow arrays, and for windows and dictionaries. Threads
    that read different columns of the stripe share the counts."""

    cdef readonly int64_t arrays, held

    def __cinit__(self, int64_t arrays, *, int64_t held):
        self.arrays, self.held = arrays, held


cdef struct Stretch:
    int64_t start, stop, stored     # where the streams of a column are in the file, and their length in all


cdef Stretch stretch_of(StreamTable streams, Py_ssize_t column) noexcept:
    cdef Stretch found
    cdef int64_t at
    cdef int kind
    found.start = found.stop = found.stored = 0
    for kind in (PRESENT, DATA, LENGTH, DICTIONARY_DATA):
        at = streams.find(column, kind)
        if at >= 0 and streams.rows[at].length:
            length = <int64_t> streams.rows[at].length
            if not found.stored or streams.rows[at].offset < found.start:
                found.start = streams.rows[at].offset
            found.stop = max(found.stop, streams.rows[at].offset + length)
            found.stored += length
    return found


cdef class Recipe:
    """How to read some columns. A recipe is the same for every stripe of a schema. ``checked``: texts must be UTF-8."""

    cdef list columns  # (column id, shape, width, Arrow type) of each plain column
    cdef readonly tuple others  # positions of the columns that need readers
    cdef bint checked

    def is_for_a_file(self, footer, int64_t rows, int64_t most) -> bool:
        """Whether reading a stripe from a file will probably succeed: all columns are plain, their streams are adjacent
        and not large, and arrays of ``most`` bytes are enough."""
        cdef StreamTable streams = footer.streams
        cdef EncodingTable encodings = footer.encodings.table
        cdef Stretch stretch
        cdef Py_ssize_t column
        cdef int shape, width
        cdef int64_t room = 0
        if self.others:
            return False
        for column, shape, width, _ in self.columns:
            stretch = stretch_of(streams, column)
            if stretch.stored > MOST_STORED or stretch.stop - stretch.start != stretch.stored:
                return False
            if shape != TEXT and encodings.rows[column].kind > DIRECT and encodings.rows[column].kind != DIRECT_V2:
                return False
            room += rows * (width or 4) + (EXPANDED * stretch.stored if shape >= TEXT else 0)
        return 0 < rows <= PLAIN_ROWS and room <= most

    @property
    def row_bytes(self) -> float | None:
        """The number of bytes that a row takes in the Arrow arrays, without validity bits. None if this number depends
        on the values, or if column readers are needed."""
        cdef int shape, width
        cdef double size = 0
        for _, shape, width, _ in self.columns:
            if shape >= TEXT:
                return None
            size += width or 1 / 8
        return None if self.others else size

    def parts(self, Py_ssize_t count) -> list:
        """The recipe divided into at most ``count`` parts, in order."""
        cdef Recipe part
        cdef Py_ssize_t start, step = (len(self.columns) + count - 1) // count
        parts = []
        for start in range(0, len(self.columns), step):
            part = Recipe.__new__(Recipe)
            part.columns, part.others, part.checked = self.columns[start : start + step], (), self.checked
            parts.append(part)
        return parts


def recipe_of(columns, types, *, bint checked):
    """The recipe for reading columns as these Arrow types. None if there are no columns."""
    cdef Recipe recipe = Recipe.__new__(Recipe)
    cdef list others = []
    cdef Py_ssize_t place
    recipe.columns = []
    recipe.checked = checked
    for place, (node, wanted) in enumerate(zip(columns, types)):
        shape, width, plain = _SHAPES.get(node.kind, (None, 0, None))
        if plain is None or wanted != plain:
            others.append(place)
        else:
            recipe.columns.append((node.id, shape, width, plain))
    recipe.others = tuple(others)
    return recipe if recipe.columns or others else None


def read_stripe(Recipe recipe not None, source, footer, int64_t rows, codec, block_size, *,
                Allowance allowance not None, bint shifted, int64_t piece=0):
    """Returns all rows of each plain column as an Arrow array, and the number of chunks and bytes that were
    decompressed. None if column readers are needed.

    ``source``: all streams as (offset in the file, bytes), or a ``LocalFile``. ``footer``: the ``StripeFooter``.
    ``shifted``: dates before the Gregorian calendar must be converted. ``piece``: the most bytes of a stream that are
    read from a file at once. If ``piece`` is 0, the streams of each column are read together. They must then be
    adjacent, and the stripe must have few rows.
    """
    cdef Stripe stripe = Stripe.__new__(Stripe)
    if isinstance(source, LocalFile):
        stripe.file = source
    else:
        stripe.first, stripe.data = source
    stripe.rows = rows
    stripe.streams, stripe.encodings = footer.streams, footer.encodings.table
    stripe.codec, stripe.block_size = codec, block_size
    stripe.allowance = allowance
    stripe.checked, stripe.shifted = recipe.checked, shifted
    stripe.piece = 0 if stripe.file is None else piece
    if rows <= 0 or (rows > PLAIN_ROWS and recipe.row_bytes is None):
        return None
    try:
        arrays = [stripe.column(*column) for column in recipe.columns]
    except (Unusual, CorruptFile, Unsupported, ValueOutOfRange):
        return None
    return arrays, stripe.chunks, stripe.plain_bytes


cdef class Stripe:
    cdef object data, codec, block_size
    cdef LocalFile file  # None if `data` is the stripe, which starts at offset `first` of the file
    cdef int64_t capacity  # size of `data`, if there is a file
    cdef int64_t first, rows
    cdef Allowance allowance
    cdef StreamTable streams
    cdef EncodingTable encodings
    cdef bint checked, shifted
    cdef int64_t piece  # the most bytes of a stream that are read at once; 0: streams of a column are read together
    cdef int64_t chunks, plain_bytes
    # The next three attributes describe the current column: its windows, the number of its valid rows, and which rows
    # are valid.
    cdef list windows
    cdef int64_t count
    cdef object bits
    # Memory of the windows of previous columns. It is reused, because allocating memory for a block takes longer than
    # decompressing a small block.
    cdef uint8_t* rooms[MOST_ROOMS]
    cdef int64_t sizes[MOST_ROOMS]
    cdef int free_rooms

    def __dealloc__(self):
        while self.free_rooms:
            self.free_rooms -= 1
            free(self.rooms[self.free_rooms])

    cdef int bring(self, Py_ssize_t column) except -1:
        cdef Stretch stretch = stretch_of(self.streams, column)
        cdef int64_t size = stretch.stop - stretch.start
        cdef uint8_t[::1] room
        if size > self.capacity:
            self.capacity = 2 * size
            self.data = memoryview(pa.allocate_buffer(self.capacity)).cast("B")
        if size:
            room = self.data
            if not self.file.fill(&room[0], size, stretch.start):
                raise Unusual
        self.first = stretch.start
        return 0

    def column(self, Py_ssize_t column, int shape, int width, kind):
        cdef uint64_t encoding = self.encodings.rows[column].kind
        cdef Window window
        self.windows = []
        if self.file is not None and not self.piece:
            self.bring(column)
        self.read_present(column)
        if encoding == DIRECT or encoding == DIRECT_V2:
            if shape == BITS:
                array = self.booleans(column, kind)
            elif shape >= TEXT:
                array = self.direct(column, shape == TEXT and self.checked, kind)
            else:
                array = self.fixed(column, shape, width, kind)
        elif shape == TEXT:
            array = self.dictionary(column, kind)
        else:
            raise Unusual
        for window in self.windows:
            self.chunks += window.chunks_decompressed
            self.plain_bytes += window.bytes_decompressed
            self.allowance.held -= window.counted
            if window.buffer != NULL and self.free_rooms < MOST_ROOMS:
                self.rooms[self.free_rooms], self.sizes[self.free_rooms] = window.buffer, window.capacity
                self.free_rooms += 1
                window.buffer, window.capacity = NULL, 0
                window.p = window.end = NULL
        self.windows = []
        if self.allowance.held < 0:
            raise Unusual
        return array

    cdef Window window(self, Py_ssize_t column, int kind):
        cdef int64_t at = self.streams.find(column, kind), offset = 0, length = 0
        if at >= 0:
            offset, length = self.streams.rows[at].offset - self.first, <int64_t> self.streams.rows[at].length
        if self.piece:
            source = FileStream(self.file, offset, length, self.piece, memoryview(b""))
        else:
            source = HeldStream(self.data, offset, length)
        window = Window(source, self.codec, self.block_size, name=STREAM_NAMES[kind])
        if self.free_rooms:
            self.free_rooms -= 1
            window.buffer, window.capacity = self.rooms[self.free_rooms], self.sizes[self.free_rooms]
        self.windows.append(window)
        return window

    cdef IntRle integers(self, Py_ssize_t column, int kind, bint signed):
        version = 2 if self.encodings.rows[column].kind >= DIRECT_V2 else 1
        return IntRle(self.window(column, kind), version=version, signed=signed)

    cdef object allocate(self, int64_t size):
        self.allowance.arrays -= size
        if self.allowance.arrays < 0:
            raise Unusual
        return pa.allocate_buffer(size)

    cdef object bitmap(self, int64_t n):
        return self.allocate((n + 63) // 64 * 8)

    cdef int read_present(self, Py_ssize_t column) except -1:
        self.bits, self.count = None, self.rows
        if self.streams.find(column, PRESENT) < 0:
            return 0
        bits = self.bitmap(self.rows)
        self.count = BooleanRle(self.window(column, PRESENT)).read_bits(memoryview(bits).cast("B"), 0, self.rows)
        if self.count < self.rows:
            self.bits = bits
        return 0

    cdef object made(self, kind, buffers):
        return pa.Array.from_buffers(kind, self.rows, [self.bits, *buffers], self.rows - self.count)

    cdef object fixed(self, Py_ssize_t column, int shape, int width, kind):
        cdef int64_t count = self.count
        cdef IntRle runs
        cdef Window window
        cdef uintptr_t to
        cdef bint streaming = count > PLAIN_ROWS and self.bits is None  # a small output stays in the cache
        buffer = self.allocate(self.rows * width)
        to = buffer.address
        if shape == DAYS:
            runs = self.integers(column, DATA, True)
            view = memoryview(buffer).cast("B").cast("i")
            if read_days(runs, view, count, GREGORIAN_START, streaming=streaming) and self.shifted:
                days = np.frombuffer(view, np.int32, count)
                days[:] = proleptic_days(days)
        elif shape <= LONGS:
            runs = self.integers(column, DATA, True)
            if streaming and STREAMING:
                view = memoryview(buffer).cast("B").cast("q" if shape == LONGS else "i" if shape == INTS else "h")
                runs.read(view, count, streaming=True)
                return self.made(kind, [buffer])
            with nogil:
                if shape == LONGS:
                    runs.read_int64(<int64_t*> to, count)
                elif shape == INTS:
                    runs.read_int32(<int32_t*> to, count)
                else:
                    runs.read_int16(<int16_t*> to, count)
        elif shape == FLOATS:
            window = self.window(column, DATA)
            if count:
                with nogil:
                    window.take(<unsigned char*> to, count * width)
        else:
            ByteRle(self.window(column, DATA)).read(buffer, count)
        if self.bits is not None:
            spread(memoryview(buffer).cast("B"), width, memoryview(self.bits).cast("B"), self.rows, count)
        return self.made(kind, [buffer])

    cdef object booleans(self, Py_ssize_t column, kind):
        buffer = self.bitmap(self.count)
        dense = memoryview(buffer).cast("B")
        BooleanRle(self.window(column, DATA)).read_bits(dense, 0, self.count)
        if self.bits is not None:
            buffer = self.bitmap(self.rows)
            nest_bits(dense, memoryview(self.bits).cast("B"), self.rows, memoryview(buffer).cast("B"))
        return self.made(kind, [buffer])

    cdef object valid(self):
        return None if self.bits is None else memoryview(self.bits).cast("B")

    cdef object direct(self, Py_ssize_t column, bint checked, kind):
        cdef int64_t total
        offsets = self.allocate((self.rows + 1) * 4)
        view = memoryview(offsets).cast("B").cast("i")
        total = read_offsets(self.integers(column, LENGTH, False), self.valid(), self.rows, self.count, view)
        if total > MOST_TEXT:
            raise Unusual
        data = self.allocate(total)
        ascii_only = RawBytes(self.window(column, DATA)).read_text(memoryview(data).cast("B"))
        return self.text(self.made(kind, [offsets, data]), checked and not ascii_only)

    cdef object text(self, array, bint look):
        if look:
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                raise Unusual from None
        return array

    cdef object dictionary(self, Py_ssize_t column, kind):
        cdef uint64_t size = self.encodings.rows[column].dictionary_size
        cdef int64_t entry_bytes, total
        if size > <uint64_t> PLAIN_ROWS:
            raise Unusual
        entry_offsets = pa.allocate_buffer((size + 1) * 4)
        entries = memoryview(entry_offsets).cast("B").cast("i")
        entry_bytes = read_offsets(self.integers(column, LENGTH, False), None, size, size, entries)
        self.allowance.held -= entry_bytes + 4 * <int64_t> size
        if entry_bytes > MOST_TEXT or self.allowance.held < 0:
            raise Unusual
        blob = pa.allocate_buffer(entry_bytes + SPARE_BYTES)
        room = memoryview(blob).cast("B")
        ascii_only = RawBytes(self.window(column, DICTIONARY_DATA)).read_text(room, entry_bytes)
        if self.checked and not ascii_only:
            self.text(pa.Array.from_buffers(kind, size, [None, entry_offsets, blob.slice(0, entry_bytes)], 0), True)
        shortest, longest = length_range(entries)
        uniform = shortest if shortest == longest else -1
        indexes = memoryview(pa.allocate_buffer(self.count * 4)).cast("B").cast("i")
        read_indexes(self.integers(column, DATA, False), self.count, size, indexes)
        offsets = self.allocate((self.rows + 1) * 4)
        view = memoryview(offsets).cast("B").cast("i")
        total = gather_offsets(indexes, entries, self.valid(), self.rows, self.count, view, uniform=uniform)
        if total > MOST_TEXT:
            raise Unusual
        data = self.allocate(total + SPARE_BYTES)
        gather_bytes(indexes, self.count, entries, room, total, memoryview(data).cast("B"), uniform=uniform,
                     longest=longest)
        return self.made(kind, [offsets, data.slice(0, total)])
