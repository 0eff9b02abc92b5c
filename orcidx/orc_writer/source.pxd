from libc.stdint cimport int32_t, int64_t, uint8_t

ctypedef fused offset_t:
    int32_t
    int64_t


cdef inline int64_t find_lengths(const offset_t* offsets, int64_t count, int64_t* longest) noexcept nogil:
    """Returns the number of bytes of the shortest text. Sets ``longest`` to the number of bytes of the longest text."""
    cdef int64_t entry
    cdef offset_t most = 0
    cdef offset_t least = offsets[1] - offsets[0]
    for entry in range(count):
        most = max(most, offsets[entry + 1] - offsets[entry])
        least = min(least, offsets[entry + 1] - offsets[entry])
    longest[0] = most
    return least


cdef class ArraySource:
    cdef readonly object array
    cdef readonly int64_t length
    cdef const uint8_t* validity            # NULL: no row is null
    cdef int64_t offset  # position of row 0 in the validity and in the values
    cdef const uint8_t* values
    cdef const int32_t* offsets32           # offsets of texts, from row 0 on
    cdef const int64_t* offsets64
    cdef int64_t fixed  # bytes of each value, if there are no offsets
    cdef const uint8_t* data
    cdef int64_t data_size

    cdef inline int64_t begin(self, int64_t row) noexcept nogil:
        if self.offsets32 != NULL:
            return self.offsets32[row]
        if self.offsets64 != NULL:
            return self.offsets64[row]
        return row * self.fixed

    cdef inline bint is_valid(self, int64_t row) noexcept nogil:
        return self.validity == NULL or (self.validity[(self.offset + row) >> 3] >> ((self.offset + row) & 7)) & 1

    cdef int64_t nulls(self, int64_t start, int64_t stop) noexcept nogil
    cdef int _take_texts(self, list buffers, bint wide) except -1
