from libc.stdint cimport int64_t, uint8_t

from orcidx.orc_writer.bloom_filters cimport BloomBuilder
from orcidx.orc_writer.byte_runs cimport Bits, ByteRuns
from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.positions cimport WrittenPositions
from orcidx.orc_writer.source cimport ArraySource

cdef enum:
    BLOCK = 512  # rows that a kernel processes at once


cdef class BaseColumn:
    cdef readonly list streams  # (kind, OutStream, how many numbers of a position follow the byte position)
    cdef readonly BloomBuilder bloom        # or None
    cdef Bits present
    cdef bint keeps_present  # whether some row of the stripe is null
    cdef bint group_is_open
    cdef int64_t rows                       # rows of the stripe
    cdef int64_t group_rows
    cdef int64_t group_nulls
    cdef bint null_parents                  # whether rows of the open row group have a null parent
    cdef list group_starts                  # for each row group: its first row, then its offset in each stream
    cdef int64_t wrong_row  # the row that the last call of `_put` refused
    cdef str wrong

    cdef int64_t _begin_rows(self, ArraySource source, int64_t start, int64_t stop) except -1 nogil
    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil
    cdef int _end_runs(self) except -1
    cdef object _take_statistics(self, int64_t count)
    cdef int _refuse(self, int64_t row, str reason) except -1
    cdef int _open_group(self) except -1
    cdef _start_group(self)
    cdef int _take_present(self, BaseColumn other) except -1
    cdef int _add_positions(self, WrittenPositions table) except -1
    cdef int _add_present(self, WrittenPositions table) except -1
    cdef int _add_stream(self, WrittenPositions table, Py_ssize_t number) except -1
    cdef int64_t* _starts(self, Py_ssize_t groups, Py_ssize_t number) except NULL
