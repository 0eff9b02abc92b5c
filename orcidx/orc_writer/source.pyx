"""``ArraySource``: the buffers of one Arrow array, for kernels that work on plain memory."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import pyarrow as pa

from orcidx.errors import InvalidQuery

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define source_ones(v) ((int)__popcnt64(v))
    #else
    #define source_ones(v) __builtin_popcountll(v)
    #endif
    """
    int source_ones(uint64_t v) noexcept nogil


cdef const char* EMPTY = ""


cdef bint offsets_are_broken(const offset_t* offsets, int64_t count, int64_t size) noexcept nogil:
    """Whether offsets decrease, or point outside the data."""
    cdef int64_t row
    cdef int falls = 0
    for row in range(count):
        falls |= offsets[row + 1] < offsets[row]
    return falls or offsets[0] < 0 or offsets[count] > size


def longest_text(array):
    """Returns the number of bytes of the longest string or binary of an array, including null rows."""
    cdef int64_t count = len(array)
    cdef int64_t first = array.offset
    cdef size_t address
    cdef bint wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    cdef int64_t found = 0
    buffers = array.buffers()
    if not count or buffers[1] is None:
        return 0
    address = buffers[1].address
    with nogil:
        if wide:
            find_lengths(<const int64_t*>address + first, count, &found)
        else:
            find_lengths(<const int32_t*>address + first, count, &found)
    return found


cdef class ArraySource:
    """The buffers of an array of booleans, numbers, decimals, dates, timestamps, texts or binaries. For other types it
    has only the validity.

    Raises ``InvalidQuery`` for offsets that do not fit the array's own buffers. Offsets are not trusted, because they
    may come from any program through Arrow's C interface.
    """

    def __init__(self, array):
        cdef size_t address
        buffers = array.buffers()
        self.array = array
        self.length = len(array)
        self.offset = array.offset
        self.fixed = 0
        self.data = <const uint8_t*>EMPTY
        if buffers[0] is not None and array.null_count:
            address = buffers[0].address
            self.validity = <const uint8_t*>address
        kind = array.type
        if pa.types.is_nested(kind) or len(buffers) < 2:
            return
        if buffers[1] is not None:
            address = buffers[1].address
            self.values = <const uint8_t*>address
        if pa.types.is_fixed_size_binary(kind):
            self.fixed = kind.byte_width
            if self.values != NULL:
                self.data = self.values + self.offset * self.fixed
            self.data_size = self.length * self.fixed
        elif len(buffers) == 3:
            self._take_texts(buffers, pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))

    cdef int _take_texts(self, list buffers, bint wide) except -1:
        cdef size_t address
        cdef bint broken = False
        if buffers[2] is not None:
            address = buffers[2].address
            self.data = <const uint8_t*>address
            self.data_size = buffers[2].size
        if self.length == 0:
            return 0
        if wide:
            self.offsets64 = (<const int64_t*>self.values) + self.offset
        else:
            self.offsets32 = (<const int32_t*>self.values) + self.offset
        with nogil:
            if wide:
                broken = offsets_are_broken(self.offsets64, self.length, self.data_size)
            else:
                broken = offsets_are_broken(self.offsets32, self.length, self.data_size)
        if broken:
            raise InvalidQuery("the offsets of an array do not fit its data")
        return 0

    cdef int64_t nulls(self, int64_t start, int64_t stop) noexcept nogil:
        """The number of null rows in a range."""
        cdef int64_t ones = 0
        cdef int64_t at = self.offset + start
        cdef int64_t end = self.offset + stop
        cdef uint64_t word
        if self.validity == NULL:
            return 0
        while at < end and at & 7:
            ones += (self.validity[at >> 3] >> (at & 7)) & 1
            at += 1
        while end - at >= 64:
            memcpy(&word, self.validity + (at >> 3), 8)
            ones += source_ones(word)
            at += 64
        while at < end:
            ones += (self.validity[at >> 3] >> (at & 7)) & 1
            at += 1
        return stop - start - ones
