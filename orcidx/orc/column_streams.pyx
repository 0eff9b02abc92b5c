"""``ColumnStreams``: the windows and decoders of one column, which are moved from stripe to stripe and from column to
column. Creating them for each stream of a small file would take longer than decoding it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from orcidx.orc.byte_rle cimport BooleanRle
from orcidx.orc.stripe_tables cimport EncodingTable, StreamRow, StreamTable, find_stream
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window, aim as aim_window, reopen
from orcidx.storage.local_file cimport LocalFile

from orcidx.orc.kinds import StreamKind
from orcidx.orc.stream_sources import FileStream, HeldStream

__all__ = ["StoredStripes", "Unusual"]

cdef extern from "Python.h":
    int PyBUF_WRITE

cdef int[MOST_STREAMS] KINDS
KINDS[AT_PRESENT], KINDS[AT_DATA], KINDS[AT_LENGTH] = StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH
KINDS[AT_DICTIONARY], KINDS[AT_SECONDARY] = StreamKind.DICTIONARY_DATA, StreamKind.SECONDARY


class Unusual(Exception):
    """Raised for everything that column readers must handle."""


cdef int unusual() except -1 with gil:
    raise Unusual


cdef int reserve(Memory* memory, int64_t size) except -1 nogil:
    if size > memory.size:
        free(memory.data)
        memory.size = 0
        memory.data = <uint8_t*> malloc(size)
        if memory.data == NULL:
            with gil:
                raise MemoryError
        memory.size = size
    return 0


cdef Stretch stretch_of(const StreamRow* rows, const int64_t* heads, Py_ssize_t columns,
                        Py_ssize_t column) noexcept nogil:
    cdef Stretch found
    cdef int64_t at, length
    cdef int place
    found.start = found.stop = found.stored = 0
    for place in range(MOST_STREAMS):
        at = find_stream(rows, heads, columns, column, KINDS[place])
        if at >= 0 and rows[at].length:
            length = <int64_t> rows[at].length
            if not found.stored or rows[at].offset < found.start:
                found.start = rows[at].offset
            found.stop = max(found.stop, rows[at].offset + length)
            found.stored += length
    return found


cdef class StoredStripes:
    """The streams of some stripes. ``stripes``: for each stripe its streams, its ``StripeFooter`` and its number of
    rows. The streams are bytes, given as (offset in the file, bytes). The streams of a single stripe may also be a
    ``LocalFile``."""

    def __cinit__(self, stripes):
        cdef StreamTable streams
        cdef EncodingTable encodings
        cdef StoredPart* part
        cdef Py_buffer* view
        cdef int64_t rows
        self.parts = <StoredPart*> calloc(len(stripes) or 1, sizeof(StoredPart))
        self.views = <Py_buffer*> calloc(len(stripes) or 1, sizeof(Py_buffer))
        if self.parts == NULL or self.views == NULL:
            raise MemoryError
        self.footers, self.held = [], []
        for source, footer, rows in stripes:
            part = &self.parts[self.count]
            part.number, part.rows, part.first_row = self.count, rows, self.rows
            if isinstance(source, LocalFile):
                self.file = source
            else:
                part.first, data = source
                view = &self.views[self.viewed]
                PyObject_GetBuffer(data, view, PyBUF_SIMPLE)    # the memory stays as it is until this object is freed
                self.viewed += 1
                self.held.append(data)
                part.stored, part.size = <const uint8_t*> view.buf, view.len
            streams, encodings, _ = footer
            part.streams, part.heads, part.columns = streams.rows, streams.heads, streams.columns
            part.encodings = encodings.rows
            if encodings.columns != streams.columns:
                raise ValueError("there must be an encoding for each column")
            self.has_null_rows |= streams.find(0, KINDS[AT_PRESENT]) >= 0
            self.footers.append(footer)     # keeps the tables
            self.count += 1
            self.rows += rows
            self.longest = max(self.longest, rows)

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self.viewed):
            PyBuffer_Release(&self.views[number])
        free(self.views)
        free(self.parts)

    def __len__(self):
        return self.count


cdef class ColumnStreams:
    """For ``piece`` and the form of the streams see ``begin_stripes``."""

    def __cinit__(self, StoredStripes stripes not None, codec, block_size, int64_t piece):
        self.stripes, self.held = stripes, stripes.held
        if stripes.file is not None:
            self.piece = piece
        nothing = HeldStream(memoryview(b""), 0, 0)
        self.present = BooleanRle(Window(nothing, codec, block_size, name="PRESENT"))
        self.data = Window(nothing, codec, block_size, name="DATA")
        self.numbers = IntRle(self.data, version=2, signed=True)
        self.bits = BooleanRle(self.data)
        self.lengths = IntRle(Window(nothing, codec, block_size, name="LENGTH"), version=2, signed=False)
        self.dictionary = Window(nothing, codec, block_size, name="DICTIONARY_DATA")
        self.scales = IntRle(Window(nothing, codec, block_size, name="SECONDARY"), version=2, signed=True)
        # A codec without a C function is called with the GIL, and may keep references to the bytes.
        self.in_memory = self.piece == 0 and (codec is None or self.data.native is not None)

    def __dealloc__(self):
        free(self.room.data)

    cdef int locate(self, Py_ssize_t column, StoredPart* parts) except -1 nogil:
        cdef StoredPart* part
        cdef Stretch stretch
        cdef Py_ssize_t number
        memcpy(parts, self.stripes.parts, self.stripes.count * sizeof(StoredPart))
        for number in range(self.stripes.count):
            part = &parts[number]
            if not 0 <= column < part.columns:
                unusual()
            part.encoding = part.encodings[column].kind
            part.entries = <int64_t> part.encodings[column].dictionary_size
            if self.stripes.file is not None and self.piece == 0:
                stretch = stretch_of(part.streams, part.heads, part.columns, column)
                part.first, part.size = stretch.start, stretch.stop - stretch.start
            self.find(part, column)
        return 0

    cdef int find(self, StoredPart* part, Py_ssize_t column) except -1 nogil:
        cdef int64_t at, offset, length
        cdef int place
        for place in range(MOST_STREAMS):
            at = find_stream(part.streams, part.heads, part.columns, column, KINDS[place])
            if place == AT_PRESENT:
                part.has_present = at >= 0
            offset = length = 0
            if at >= 0 and part.streams[at].length:
                offset, length = part.streams[at].offset - part.first, <int64_t> part.streams[at].length
                if self.piece == 0 and not (0 <= offset <= part.size and 0 <= length <= part.size - offset):
                    unusual()
            part.offsets[place], part.lengths[place] = offset, length
        return 0

    cdef int bring(self, StoredPart* part) except -1 with gil:
        if part.size > self.room.size:
            reserve(&self.room, 2 * part.size)
        if part.size and not self.stripes.file.fill(self.room.data, part.size, part.first):
            raise Unusual
        self.held = [PyMemoryView_FromMemory(<char*> self.room.data, part.size, PyBUF_WRITE)]
        part.stored = self.room.data
        return 0

    cdef int aim(self, StoredPart* part, int place) except -1 nogil:
        cdef const uint8_t* stored
        cdef int64_t length = part.lengths[place], readable = part.size - part.offsets[place]
        if not self.in_memory:
            return self.open(part, place)
        stored = part.stored + part.offsets[place] if length else part.stored
        if place == AT_PRESENT:
            aim_window(self.present.window, stored, length, readable)
        elif place == AT_DATA:
            aim_window(self.data, stored, length, readable)
        elif place == AT_LENGTH:
            aim_window(self.lengths.window, stored, length, readable)
        elif place == AT_DICTIONARY:
            aim_window(self.dictionary, stored, length, readable)
        else:
            aim_window(self.scales.window, stored, length, readable)
        return 0

    cdef int open(self, StoredPart* part, int place) except -1 with gil:
        cdef int64_t offset = part.offsets[place], length = part.lengths[place]
        if self.piece:
            source = FileStream(self.stripes.file, offset, length, self.piece, memoryview(b""))
        else:
            source = HeldStream(self.held[part.number], offset, length)
        return reopen(self.window(place), source)

    cdef Window window(self, int place):
        if place == AT_PRESENT:
            return self.present.window
        if place == AT_DATA:
            return self.data
        if place == AT_LENGTH:
            return self.lengths.window
        return self.dictionary if place == AT_DICTIONARY else self.scales.window

    cdef tuple windows(self):
        return self.present.window, self.data, self.lengths.window, self.dictionary, self.scales.window

    cdef bint has_counted(self) noexcept nogil:
        return (self.present.window.counted | self.data.counted | self.lengths.window.counted
                | self.dictionary.counted | self.scales.window.counted) != 0
