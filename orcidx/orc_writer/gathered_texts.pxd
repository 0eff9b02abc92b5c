from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from orcidx.orc_writer.source cimport ArraySource, offset_t

cdef enum:
    AHEAD = 256  # rows whose texts are prefetched before the first text is copied
    NARROW = 32  # bytes of a slot, which are copied at once
    WIDE = 64
    SHORT = 32  # the most bytes of a text that is copied by one move of fixed size

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define text_prefetch(p) __builtin_prefetch(p)
    #else
    #define text_prefetch(p)
    #endif
    """
    void text_prefetch(const void* p) noexcept nogil


cdef inline int64_t find_texts(
    const int32_t* indexes, ArraySource rows, int64_t first, int64_t last, const offset_t* offsets, int64_t length,
    const uint8_t* data, int64_t* starts, int64_t* ends
) noexcept nogil:
    """Computes where the texts of rows begin in ``data``. Also computes where each text ends if the texts are placed
    one after the other. Earlier texts end at ``ends[0]``. Returns the first row whose index is outside the dictionary,
    or -1. Prefetches the texts."""
    cdef int64_t row, index, total = ends[0]
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
    return -1


cdef class GatheredTexts:
    cdef ArraySource source
    cdef int64_t* offsets
    cdef size_t rows  # the number of rows for which there is room
    cdef uint8_t* data
    cdef size_t size

    cdef int _grow(self, int64_t needed) except -1 nogil


cdef class KnownEntries:
    cdef ArraySource values
    cdef uint32_t* codes  # each entry's number in the file's dictionary + 1; 0 means that it has no number yet
    cdef uint32_t* groups  # the last row group that has the entry, counted from 1

    cdef bint are_of(self, ArraySource values) noexcept


cdef class Entries:
    cdef readonly ArraySource values
    cdef object places  # addresses of the dictionary's buffers, which identify the dictionary
    cdef int64_t rows  # rows that have referred to entries so far
    cdef int64_t longest  # bytes of the longest entry
    cdef bint tried
    cdef void* memory
    cdef const uint8_t* slots               # NULL: there are none
    cdef const uint8_t* slots_end
    cdef int64_t width  # bytes from one slot to the next
    cdef int64_t same  # bytes of each text; 0 means that the last byte of a slot has the length

    cdef int _fill_slots(self) except -1
