from libc.stdint cimport int64_t, uint64_t


cdef struct EncodingRow:
    uint64_t kind
    uint64_t dictionary_size
    uint64_t bloom_encoding


cdef struct StreamRow:
    uint64_t kind
    uint64_t column
    uint64_t length
    int64_t offset              # in the file
    int64_t following           # the next stream of its column, -1 if there is none


cdef class EncodingTable:
    cdef EncodingRow* rows
    cdef Py_ssize_t columns


cdef class StreamTable:
    cdef StreamRow* rows
    cdef int64_t* heads         # for each column its first stream, -1 if there is none
    cdef Py_ssize_t streams, columns

    # Returns the index of a stream in `rows`, or -1 if there is no such stream.
    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept
