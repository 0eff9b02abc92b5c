from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from orcidx.orc_writer.source cimport Source, offset_t

cdef enum:
    AHEAD = 256                             # rows whose texts are asked of memory before the first is copied
    NARROW = 32                             # bytes of a slot of an entry, and of what is copied at once
    WIDE = 64
    SHORT = 32                              # bytes of a text that is copied by one move of a known size

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
    const int32_t* indexes, Source rows, int64_t first, int64_t last, const offset_t* offsets, int64_t length,
    const uint8_t* data, int64_t* starts, int64_t* ends
) noexcept nogil:
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


cdef class GatheredTexts:
    cdef Source source
    cdef int64_t* offsets
    cdef size_t rows                        # that there is room for
    cdef uint8_t* data
    cdef size_t size

    cdef int _grow(self, int64_t needed) except -1 nogil


cdef class KnownEntries:
    cdef Source values
    cdef uint32_t* codes                    # each entry's number in the file's dictionary + 1; 0: not yet
    cdef uint32_t* groups                   # the last row group that has it, from 1 on

    cdef bint are_of(self, Source values) noexcept


cdef class Entries:
    cdef readonly Source values
    cdef object places                      # of the dictionary's buffers, which tell whether it comes again
    cdef int64_t rows                       # that named the entries so far
    cdef int64_t longest                    # bytes of an entry
    cdef bint tried
    cdef void* memory
    cdef const uint8_t* slots               # NULL: there are none
    cdef const uint8_t* slots_end
    cdef int64_t width                      # bytes from one slot to the next
    cdef int64_t same                       # bytes of each text; 0: a slot's last byte says how many

    cdef int _fill_slots(self) except -1
