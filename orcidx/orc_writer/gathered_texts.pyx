"""Rows of an Arrow dictionary: their texts side by side, and what is known of its entries.

Entries lie anywhere in memory. They are asked for some hundred rows ahead, and come to a place that stays in the cache;
Arrow's take of all rows at once takes up to four times as long (decision 0300).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from orcidx.orc_writer.source cimport Source

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define text_prefetch(p) __builtin_prefetch(p)
    #else
    #define text_prefetch(p)
    #endif
    """
    void text_prefetch(const void* p) noexcept nogil

cdef enum:
    AHEAD = 256                             # rows whose texts are asked of memory before the first is copied
    SHORT = 32                              # bytes of a text that is copied by one move of a known size

ctypedef fused offset_t:
    int32_t
    int64_t


cdef int64_t find_texts(const int32_t* indexes, Source rows, int64_t first, int64_t last, const offset_t* offsets,
                        int64_t length, const uint8_t* data, int64_t* starts, int64_t* ends) noexcept nogil:
    """Where the texts of rows begin, and where each ends once they lie side by side, after what was there before
    (``ends[0]``). The first row whose index is outside the dictionary, or -1. Memory is asked for them."""
    cdef int64_t row, index, total = ends[0], wrong = -1
    cdef bint nulls = rows.validity != NULL
    cdef int64_t far = rows.length - 64
    for row in range(first, last):
        ends += 1
        if row < far and not nulls:
            index = indexes[row + 64]
            if 0 <= index < length:
                text_prefetch(offsets + index)
        if not nulls or rows.is_valid(row):
            index = indexes[row]
            if not 0 <= index < length:
                return row
            starts[row - first] = offsets[index]
            text_prefetch(data + offsets[index])
            total += offsets[index + 1] - offsets[index]
            text_prefetch(data + offsets[index + 1])
        ends[0] = total
    return wrong


cdef void copy_texts(const int64_t* starts, const int64_t* ends, int64_t rows, const uint8_t* data, int64_t data_size,
                     uint8_t* out) noexcept nogil:
    """Brings texts to where they end, behind which there is room for one more short one."""
    cdef int64_t i, length
    for i in range(rows):
        length = ends[i + 1] - ends[i]
        if 0 < length <= SHORT and starts[i] + SHORT <= data_size:
            memcpy(out + ends[i], data + starts[i], SHORT)
        elif length:
            memcpy(out + ends[i], data + starts[i], length)


cdef class GatheredTexts:
    """Brings texts of a row group together, one row group after the other, into the same memory."""

    def __dealloc__(self):
        free(self.offsets)
        free(self.data)

    def bring(self, Source source not None, Source values not None, int64_t start, int64_t stop):
        """The texts of some rows as an array of their own, until the next call.

        ``source`` has int32 indexes, ``values`` the texts. Raises ``IndexError`` for an index outside of them."""
        cdef const int32_t* indexes = (<const int32_t*>source.values) + source.offset
        cdef int64_t first, last, total = 0, wrong = -1
        cdef size_t rows = stop - start
        cdef int64_t starts[AHEAD]
        cdef int64_t* ends
        cdef int64_t* here
        cdef void* grown
        if rows + 1 > self.rows:
            grown = realloc(self.offsets, (rows + 1) * sizeof(int64_t))
            if grown == NULL:
                raise MemoryError
            self.offsets = <int64_t*>grown
            self.rows = rows + 1
        ends = self.offsets
        ends[0] = 0
        with nogil:
            first = start
            while first < stop:
                last = min(stop, first + AHEAD)
                here = ends + (first - start)
                if values.offsets32 != NULL:
                    wrong = find_texts[int32_t](indexes, source, first, last, values.offsets32, values.length,
                                                values.data, starts, here)
                else:
                    wrong = find_texts[int64_t](indexes, source, first, last, values.offsets64, values.length,
                                                values.data, starts, here)
                if wrong >= 0:
                    break
                total = ends[last - start]
                if <size_t>total + SHORT > self.size:
                    self._grow(total + SHORT)
                copy_texts(starts, here, last - first, values.data, values.data_size, self.data)
                first = last
        if wrong >= 0:
            raise IndexError(f"dictionary index {indexes[wrong]} of row {wrong} is outside the dictionary")
        if self.source is None:
            self.source = Source.__new__(Source)
        self.source.length = rows
        self.source.validity = source.validity
        self.source.offset = source.offset + start
        self.source.offsets64 = ends
        self.source.data = self.data
        self.source.data_size = total
        return self.source

    cdef int _grow(self, int64_t needed) except -1 nogil:
        cdef size_t size = max(<size_t>needed, 2 * self.size)
        cdef void* grown = realloc(self.data, size)
        if grown == NULL:
            with gil:
                raise MemoryError
        self.data = <uint8_t*>grown
        self.size = size
        return 0


cdef class KnownEntries:
    """What is known of the entries of one Arrow dictionary, whose buffers are kept as long."""

    def __init__(self, Source values not None):
        self.values = values
        self.codes = <uint32_t*>calloc(values.length + 1, sizeof(uint32_t))
        self.groups = <uint32_t*>calloc(values.length + 1, sizeof(uint32_t))
        if self.codes == NULL or self.groups == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.codes)
        free(self.groups)

    cdef bint are_of(self, Source values) noexcept:
        """Whether this is the dictionary, as the buffers say."""
        return values.data == self.values.data and values.length == self.values.length and (
            values.offsets32 == self.values.offsets32 and values.offsets64 == self.values.offsets64
        )
