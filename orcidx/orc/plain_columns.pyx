"""Decodes "plain" columns of a stripe, or of many small stripes, to arrays with the rows of all of them. A column is
plain if it has one of the simplest types and is read as the usual Arrow type.

There are no seeks, skips or batches: all rows of a column are decoded, stripe by stripe, by the windows and kernels of
the column readers. If only some rows are wanted, their values are moved together while those of a stripe are in the
processor's cache. Most work is done without the GIL, so another thread can read the next files at the same time.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from orcidx.orc.buffers cimport (
    LENGTHS, SPARE, copy_selected, fill_indexes, find_lengths, place_all, place_entries,
)
from orcidx.orc.byte_rle cimport copy_bits, read_text_bytes
from orcidx.orc.column_streams cimport (
    AT_DATA, AT_DICTIONARY, AT_LENGTH, AT_PRESENT, AT_SECONDARY, ColumnStreams, StoredPart, StoredStripes, reserve,
    unusual,
)
from orcidx.orc.decimals cimport NARROW, read_all, read_all_short
from orcidx.orc.int_rle cimport read_far, restart_numbers
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.nulls cimport nest_words, spread_values
from orcidx.orc.streaming_store cimport STREAMING_BYTES
from orcidx.orc.timestamps cimport fill_days
from orcidx.orc.window cimport Window
from orcidx.threads.work cimport WorkItem

import numpy as np
import pyarrow as pa

from orcidx.errors import OrcidxError
from orcidx.orc.calendars import GREGORIAN_START, proleptic_days
from orcidx.orc.column_streams import Unusual
from orcidx.orc.kinds import EncodingKind
from orcidx.orc.streaming_store import integers_use_streaming

__all__ = ["PLAIN_ROWS", "Allowance", "PlainColumns"]

cdef extern from "Python.h":
    int PyBUF_WRITE

PLAIN_ROWS = 1 << 16
cdef int64_t MANY_ROWS = PLAIN_ROWS, MOST_OFFSET = 2147483647
cdef int64_t LONG_TEXT = 1 << 22     # the most bytes of the texts of a column in one stripe
cdef int64_t UNCOUNTED = 1 << 20     # bytes of the texts of a column that are counted only when its array is made
cdef bint STREAMING = integers_use_streaming()
cdef int32_t FIRST_GREGORIAN = GREGORIAN_START
cdef uint64_t NOT_ASCII = 0x8080808080808080

cdef uint64_t DIRECT = EncodingKind.DIRECT, DIRECT_V2 = EncodingKind.DIRECT_V2


ctypedef int (*Quiet)(PlainColumns) noexcept nogil


cdef class Allowance:
    def __cinit__(self, int64_t arrays, *, int64_t held):
        self.arrays, self.held = arrays, held


cdef class TextMemory:
    """The bytes of the texts of a column. An Arrow buffer keeps this object."""

    cdef uint8_t* data

    def __dealloc__(self):
        free(self.data)


cdef class PlainColumns(WorkItem):
    """Decodes the columns. ``columns``: for each column its id, and how it is read (``Recipe.columns``). For the other
    parameters see ``begin_stripes``."""

    def __cinit__(self, list columns, StoredStripes stripes not None, codec, block_size,
                  Allowance allowance not None, *, bint checked, bint shifted, bint decimal64, int64_t piece,
                  Mask mask):
        cdef int64_t longest
        cdef Column* wanted
        self.allowance = allowance
        self.checked, self.shifted, self.decimal64 = checked, shifted, decimal64
        self.streams = ColumnStreams(stripes, codec, block_size, piece)
        self.rows = stripes.rows
        longest = stripes.longest
        if mask is not None:
            if mask.rows != self.rows or self.rows == 0:
                raise ValueError("a mask must have an entry for each row")
            self.mask = mask
        reserve(&self.bits, longest // 8 + 16)
        reserve(&self.dense, longest // 8 + 16)
        reserve(&self.nested, longest // 8 + 16)
        self.kinds, self.bitmaps, self.buffers = [], [], []
        self.columns = <Column*> calloc(len(columns) or 1, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        for column, shape, width, kind, precision, scale, rounding in columns:
            wanted = &self.columns[self.count]
            self.count += 1
            wanted.shape, wanted.width = shape, width
            wanted.precision, wanted.scale, wanted.rounding = precision, scale, rounding
            self.kinds.append(kind)
            self.prepare(column, wanted)

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self.count):
            free(self.columns[number].parts)
            free(self.columns[number].text.data)
        free(self.columns)
        free(self.bits.data)
        free(self.dense.data)
        free(self.nested.data)
        free(self.indexes.data)
        free(self.entries.data)
        free(self.blob.data)
        free(self.block.data)

    cdef int prepare(self, Py_ssize_t column, Column* wanted) except -1:
        wanted.parts = <StoredPart*> calloc(self.streams.stripes.count or 1, sizeof(StoredPart))
        if wanted.parts == NULL:
            raise MemoryError
        locate(self, column, wanted)
        bitmap = self.bitmap(self.rows) if wanted.has_present else None
        wanted.is_kept = self.mask is not None and wanted.shape < BITS and bitmap is None
        if wanted.shape >= TEXT:
            buffer = self.allocate((self.rows + 1) * 4)
            wanted.offsets = <int32_t*> <uintptr_t> buffer.address
        elif wanted.is_kept:
            buffer = self.allocate((self.mask.count + 1) * wanted.width)  # moving the values needs room for one more
            wanted.values = <uint8_t*> <uintptr_t> buffer.address
            if self.block.size < self.streams.stripes.longest * wanted.width:
                reserve(&self.block, self.streams.stripes.longest * wanted.width)
        else:
            buffer = self.bitmap(self.rows) if wanted.shape == BITS else self.allocate(self.rows * wanted.width)
            wanted.values = <uint8_t*> <uintptr_t> buffer.address
        if bitmap is not None:
            wanted.bits = <uint8_t*> <uintptr_t> bitmap.address
        self.bitmaps.append(bitmap)
        self.buffers.append(buffer)
        return 0

    cdef int work(self) noexcept nogil:
        # Decodes all columns.
        if (<Quiet> run_columns)(self) < 0:
            return -1
        self.is_complete = True
        return 0

    def result(self):
        """Returns the columns as Arrow arrays, and the number of chunks and bytes that were decompressed. Returns None
        if column readers are needed."""
        if self.error is not None and not isinstance(self.error, (Unusual, OrcidxError)):
            raise self.error
        if not self.is_complete:
            return None
        try:
            arrays = [self.array(number) for number in range(self.count)]
        except Unusual:
            return None
        chunks = size = 0
        for window in self.streams.windows():
            chunks += (<Window> window).chunks_decompressed
            size += (<Window> window).bytes_decompressed
        return arrays, chunks, size

    cdef object array(self, Py_ssize_t number):
        cdef Column* wanted = &self.columns[number]
        cdef TextMemory owner
        buffers = [self.bitmaps[number] if wanted.nulls else None, self.buffers[number]]
        if wanted.shape >= TEXT:
            if wanted.text_bytes <= UNCOUNTED:
                self.allowance.arrays -= wanted.text_bytes
            owner = TextMemory.__new__(TextMemory)
            owner.data, wanted.text.data = wanted.text.data, NULL
            buffers.append(pa.foreign_buffer(<uintptr_t> owner.data, wanted.text_bytes, owner))
            if self.allowance.arrays < 0:
                raise Unusual
        array = pa.Array.from_buffers(self.kinds[number], self.mask.count if wanted.is_kept else self.rows, buffers,
                                      wanted.nulls)
        if wanted.shape == TEXT and self.checked and wanted.seen & NOT_ASCII:
            check_texts(array)
        return array

    cdef int check_held(self) except -1 with gil:
        cdef int64_t held = 0
        cdef Window window
        for window in self.streams.windows():
            held += window.counted
        if held > self.allowance.held:
            raise Unusual
        return 0

    cdef object allocate(self, int64_t size):
        self.allowance.arrays -= size
        if self.allowance.arrays < 0:
            raise Unusual
        return pa.allocate_buffer(size)

    cdef object bitmap(self, int64_t n):
        # A bitmap of zeros.
        buffer = self.allocate((n + 63) // 64 * 8)
        memset(<void*> <uintptr_t> buffer.address, 0, (n + 63) // 64 * 8)
        return buffer


cdef int check_texts(array) except -1:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise Unusual from None
    return 0


cdef int locate(PlainColumns self, Py_ssize_t column, Column* wanted) except -1:
    # Finds the column in each stripe, and makes room for all its dictionaries.
    cdef StoredPart* part
    cdef Py_ssize_t number
    cdef int64_t entries = 0
    self.streams.locate(column, wanted.parts)
    for number in range(self.streams.stripes.count):
        part = &wanted.parts[number]
        wanted.has_present = wanted.has_present or part.has_present
        part.first_entry = entries
        if part.encoding != DIRECT and part.encoding != DIRECT_V2:
            if wanted.shape != TEXT or not 0 <= part.entries <= MANY_ROWS:
                raise Unusual
            entries += part.entries + 1
            wanted.by_dictionary = True
    if wanted.by_dictionary:
        self.allowance.held -= 4 * entries
        if self.allowance.held < 0:
            raise Unusual
        reserve(&self.entries, 4 * entries)
        reserve(&self.indexes, 4 * self.rows)
    return 0


cdef int run_columns(PlainColumns self) except -1 nogil:
    cdef Column* wanted
    cdef Py_ssize_t number
    for number in range(self.count):
        wanted = &self.columns[number]
        if self.streams.stripes.file is not None and self.streams.piece == 0:
            self.streams.bring(wanted.parts)
        if wanted.shape >= TEXT:
            place_texts(self, wanted)
            take_text_memory(self, wanted)
            read_texts(self, wanted)
        else:
            read_values(self, wanted)
        if self.streams.has_counted():
            self.check_held()
    return 0


cdef int take_text_memory(PlainColumns self, Column* wanted) except -1 nogil:
    # Memory of a few texts is counted later, because counting needs the GIL.
    if wanted.text_bytes > UNCOUNTED:
        count_text(self, wanted.text_bytes)
    reserve(&wanted.text, wanted.text_bytes + SPARE)
    wanted.values = wanted.text.data
    return 0


cdef int count_text(PlainColumns self, int64_t size) except -1 with gil:
    self.allowance.arrays -= size
    if self.allowance.arrays < 0:
        raise Unusual
    return 0


# --- values -----------------------------------------------------------------------------------------------------------


cdef int read_present(PlainColumns self, StoredPart* part, Column* wanted) except -1 nogil:
    # Reads which rows of a part are valid, to `self.valid` and to the bitmap of all rows.
    cdef uint8_t* bits = self.bits.data
    part.count = part.rows
    self.valid = NULL
    if part.has_present:
        self.streams.aim(part, AT_PRESENT)
        self.streams.present.restart()
        part.count = self.streams.present.read_bitmap(bits, 0, part.rows)
        if part.count < part.rows:
            self.valid = bits
            wanted.nulls += part.rows - part.count
    elif wanted.has_present:
        memset(bits, 255, (part.rows + 7) // 8)
    if wanted.has_present:
        copy_bits(wanted.bits, part.first_row, bits, part.rows)
    return 0


cdef int read_values(PlainColumns self, Column* wanted) except -1 nogil:
    cdef StoredPart* part
    cdef uint8_t* to
    cdef Py_ssize_t number
    for number in range(self.streams.stripes.count):
        part = &wanted.parts[number]
        read_present(self, part, wanted)
        self.streams.aim(part, AT_DATA)
        if wanted.shape == BITS:
            read_flags(self, part, wanted.values)
            continue
        to = self.block.data if wanted.is_kept else wanted.values + part.first_row * wanted.width
        if wanted.shape == DECIMALS:
            read_decimals(self, part, wanted, to)
        elif wanted.shape == FLOATS:
            self.streams.data.take(to, part.count * wanted.width)
        elif wanted.shape == BYTES:
            self.streams.bits.restart()
            self.streams.bits.bytes.read_bytes(to, part.count)
        else:
            read_integers(self, part, wanted, to)
        if self.valid != NULL:
            spread_values(to, wanted.width, self.valid, part.rows, part.count)
        if wanted.is_kept:
            wanted.kept += keep_block(to, wanted.width, self.mask.at + part.first_row, part.rows,
                                      wanted.values + wanted.kept * wanted.width)
    return 0


cdef int read_integers(PlainColumns self, StoredPart* part, Column* wanted, uint8_t* to) except -1 nogil:
    cdef int64_t count = part.count
    cdef bint far = count > MANY_ROWS and self.valid == NULL    # a small output stays in the cache
    restart_numbers(self.streams.numbers, 2 if part.encoding == DIRECT_V2 else 1, True)
    if wanted.shape == DAYS:
        if fill_days(self.streams.numbers, <int32_t*> to, count, FIRST_GREGORIAN, far) and self.shifted:
            shift_days(to, count)
        if self.streams.numbers.wrapped:
            unusual()
    elif far and STREAMING and count * wanted.width > STREAMING_BYTES:
        read_far(self.streams.numbers, to, wanted.width, count)
    elif wanted.shape == LONGS:
        self.streams.numbers.read_int64(<int64_t*> to, count)
    elif wanted.shape == INTS:
        self.streams.numbers.read_int32(<int32_t*> to, count)
    else:
        self.streams.numbers.read_int16(<int16_t*> to, count)
    return 0


cdef int shift_days(uint8_t* to, int64_t count) except -1 with gil:
    days = np.frombuffer(PyMemoryView_FromMemory(<char*> to, 4 * count, PyBUF_WRITE), np.int32)
    days[:] = proleptic_days(days)
    return 0


cdef int read_decimals(PlainColumns self, StoredPart* part, Column* wanted, uint8_t* to) except -1 nogil:
    cdef int status
    if self.decimal64 and wanted.precision <= NARROW:
        restart_numbers(self.streams.numbers, 2, True)
        status = read_all_short(self.streams.numbers, to, part.count, wanted.precision)
    else:
        self.streams.aim(part, AT_SECONDARY)
        restart_numbers(self.streams.scales, 2 if part.encoding == DIRECT_V2 else 1, True)
        status = read_all(self.streams.data, self.streams.scales, to, part.count, wanted.scale, wanted.precision,
                          wanted.rounding)
    if status:
        unusual()
    return 0


cdef int read_flags(PlainColumns self, StoredPart* part, uint8_t* to) except -1 nogil:
    cdef const uint8_t* flags = self.dense.data
    self.streams.bits.restart()
    self.streams.bits.read_bitmap(self.dense.data, 0, part.count)
    if self.valid != NULL:
        nest_words(self.dense.data, part.count, self.valid, part.rows, self.nested.data)
        flags = self.nested.data
    copy_bits(to, part.first_row, flags, part.rows)
    return 0


# --- texts ------------------------------------------------------------------------------------------------------------


cdef int place_texts(PlainColumns self, Column* wanted) except -1 nogil:
    # Computes the offsets of all texts.
    cdef int64_t block[LENGTHS + 1]
    cdef int64_t before
    cdef StoredPart* part
    cdef Py_ssize_t number
    for number in range(self.streams.stripes.count):
        part = &wanted.parts[number]
        read_present(self, part, wanted)
        before = wanted.text_bytes
        self.streams.aim(part, AT_LENGTH)
        restart_numbers(self.streams.lengths, 2 if part.encoding >= DIRECT_V2 else 1, False)
        if part.encoding == DIRECT or part.encoding == DIRECT_V2:
            wanted.text_bytes = place_all(self.streams.lengths, self.valid, 0, part.rows, before,
                                          wanted.offsets + part.first_row, block, False)
        else:
            wanted.text_bytes = place_codes(self, part, wanted.offsets + part.first_row, before, block)
        if wanted.text_bytes - before > LONG_TEXT or wanted.text_bytes > MOST_OFFSET:
            unusual()
    return 0


cdef int64_t place_codes(PlainColumns self, StoredPart* part, int32_t* offsets, int64_t before,
                         int64_t* block) except -1 nogil:
    # Reads the dictionary's offsets and the indexes of a part. Returns the last offset of its texts.
    cdef int32_t* entries = <int32_t*> self.entries.data + part.first_entry
    cdef int32_t* indexes = <int32_t*> self.indexes.data + part.first_row
    if place_all(self.streams.lengths, NULL, 0, part.entries, 0, entries, block, False) > LONG_TEXT:
        unusual()
    self.streams.aim(part, AT_DATA)
    restart_numbers(self.streams.numbers, 2 if part.encoding >= DIRECT_V2 else 1, False)
    fill_indexes(self.streams.numbers, part.count, part.entries, indexes)
    find_lengths(entries, part.entries, &part.shortest, &part.longest)
    return place_entries(indexes, entries, self.valid, part.rows, before, length_of_all(part), offsets)


cdef int64_t length_of_all(StoredPart* part) noexcept nogil:
    # The length of the entries if all have the same length, otherwise -1.
    return part.shortest if part.shortest == part.longest else -1


cdef int read_texts(PlainColumns self, Column* wanted) except -1 nogil:
    # Reads the bytes of all texts. Their offsets are known.
    cdef StoredPart* part
    cdef const int32_t* offsets
    cdef int64_t size
    cdef Py_ssize_t number
    for number in range(self.streams.stripes.count):
        part = &wanted.parts[number]
        offsets = wanted.offsets + part.first_row
        size = offsets[part.rows] - offsets[0]
        if part.encoding == DIRECT or part.encoding == DIRECT_V2:
            self.streams.aim(part, AT_DATA)
            read_text_bytes(self.streams.data, wanted.values + offsets[0], size, &wanted.seen)
        else:
            read_entries(self, part, wanted.values + offsets[0], size)
    return 0


cdef int read_entries(PlainColumns self, StoredPart* part, uint8_t* to, int64_t size) except -1 nogil:
    # Reads the entries of a dictionary, and copies the entries that the rows of the part select.
    cdef int32_t* entries = <int32_t*> self.entries.data + part.first_entry
    cdef int32_t* indexes = <int32_t*> self.indexes.data + part.first_row
    cdef int64_t stored = entries[part.entries]
    cdef uint64_t seen = 0
    reserve(&self.blob, stored + SPARE)
    self.streams.aim(part, AT_DICTIONARY)
    read_text_bytes(self.streams.dictionary, self.blob.data, stored, &seen)
    if self.checked and seen & NOT_ASCII:
        check_entries(entries, part.entries, self.blob.data)
    if copy_selected(indexes, part.count, entries, self.blob.data, size, to, length_of_all(part), part.longest) != size:
        unusual()
    return 0


cdef int check_entries(int32_t* entries, int64_t count, uint8_t* blob) except -1 with gil:
    # Entries that no row selects are checked, too.
    buffers = [None, pa.py_buffer(PyMemoryView_FromMemory(<char*> entries, 4 * (count + 1), PyBUF_WRITE)),
               pa.py_buffer(PyMemoryView_FromMemory(<char*> blob, entries[count], PyBUF_WRITE))]
    return check_texts(pa.Array.from_buffers(pa.string(), count, buffers))
