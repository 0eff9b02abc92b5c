from libc.stdint cimport int64_t, uint8_t, uint32_t

from orcidx.orc_writer.source cimport Source


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
