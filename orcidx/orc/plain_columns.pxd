from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.column_streams cimport ColumnStreams, Memory

cdef enum Shape:
    SHORTS, INTS, LONGS, DAYS, FLOATS, BYTES, DECIMALS, BITS, TEXT, BINARY


# How many bytes may still be allocated: for Arrow arrays, and for windows and dictionaries. Threads that read different
# columns of a stripe share the counts.
cdef class Allowance:
    cdef readonly int64_t arrays, held


cdef class PlainColumns:
    cdef ColumnStreams streams
    cdef Allowance allowance
    cdef bint checked, shifted, decimal64
    cdef int64_t rows           # of all stripes
    # Memory for one part, or for all parts: bitmaps, indexes of dictionaries, offsets of entries, entries.
    cdef Memory bits, dense, nested, indexes, entries, blob
    cdef const uint8_t* valid   # which rows of the current part are valid; NULL: all

    cdef int check_held(self) except -1
    cdef object allocate(self, int64_t size)
    cdef object bitmap(self, int64_t n)
