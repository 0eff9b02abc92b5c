from libc.stdint cimport int64_t, uint64_t


cdef class EncodingTable:
    cdef uint64_t[:, ::1] numbers   # of a column: kind, dictionary size, bloom encoding


cdef class StreamTable:
    cdef uint64_t[:, ::1] numbers   # of a stream: kind, column, length
    cdef int64_t[::1] offsets
    cdef int64_t[::1] heads         # of a column: its first stream, -1 without one
    cdef int64_t[::1] following     # of a stream: the next one of its column
    cdef Py_ssize_t columns

    # The place of a stream in the tables above, -1 without one.
    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept
