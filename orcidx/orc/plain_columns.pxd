from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from orcidx.orc.column_streams cimport ColumnStreams, Memory, StoredPart
from orcidx.orc.kept_rows cimport Mask
from orcidx.threads.work cimport WorkItem

cdef enum Shape:
    SHORTS, INTS, LONGS, DAYS, FLOATS, BYTES, DECIMALS, BITS, TEXT, BINARY


# How many bytes may still be allocated: for Arrow arrays, and for windows and dictionaries. Threads that read different
# columns of a stripe share the counts.
cdef class Allowance:
    cdef readonly int64_t arrays, held


cdef struct Column:
    StoredPart* parts   # the column in each stripe
    int shape, width
    int precision, scale, rounding      # of decimals
    bint by_dictionary  # whether a part has a dictionary
    bint has_present    # whether a part has a PRESENT stream
    bint is_kept        # whether only the rows of the mask are returned
    int64_t kept        # the number of rows that were kept so far
    int64_t nulls
    uint8_t* bits       # the bitmap of valid rows; NULL if no part has a PRESENT stream
    uint8_t* values     # values of fixed width, bits, or texts
    int32_t* offsets    # of texts
    int64_t text_bytes
    Memory text
    uint64_t seen       # the bytes of direct texts, or-ed together


cdef class PlainColumns(WorkItem):
    cdef ColumnStreams streams
    cdef Column* columns
    cdef Py_ssize_t count       # the number of columns
    cdef list kinds, bitmaps, buffers   # of each column: the Arrow type, the bitmap of valid rows, values or offsets
    cdef Allowance allowance
    cdef bint checked, shifted, decimal64
    cdef bint is_complete       # whether all columns were decoded
    cdef int64_t rows           # of all stripes
    cdef Mask mask              # the rows that are kept; None: all rows
    # Memory for one part, or for all parts: bitmaps, indexes of dictionaries, offsets of entries, entries, values.
    cdef Memory bits, dense, nested, indexes, entries, blob, block
    cdef const uint8_t* valid   # which rows of the current part are valid; NULL: all

    cdef int prepare(self, Py_ssize_t column, Column* wanted) except -1
    cdef object array(self, Py_ssize_t number)
    cdef int check_held(self) except -1 with gil
    cdef object allocate(self, int64_t size)
    cdef object bitmap(self, int64_t n)
