from libc.stdint cimport int64_t, uint8_t

from orcidx.orc_writer.compressors cimport Compressor


cdef class OutStream:
    cdef Compressor compressor              # None: no chunks, the bytes as they are
    cdef size_t block                       # most bytes of a chunk
    cdef uint8_t* raw                       # the open chunk; without a codec the whole stream
    cdef size_t raw_size
    cdef size_t raw_capacity
    cdef uint8_t* out                       # finished chunks with their headers
    cdef size_t out_size
    cdef size_t out_capacity
    cdef int64_t* starts                    # where in `out` each chunk begins
    cdef size_t chunks
    cdef size_t starts_capacity
    cdef readonly int64_t total             # bytes before compression
    cdef int stubborn                       # chunks in a row that did not shrink

    # Room for `length` bytes (plus 64 that may be overwritten); `advance` says how many of them were used.
    cdef uint8_t* reserve(self, size_t length) except NULL nogil
    cdef int advance(self, size_t length) except -1 nogil
    cdef int append(self, const uint8_t* data, size_t length) except -1 nogil
    cdef int _write_chunk(self, size_t at, size_t length) except -1 nogil
    cdef int _grow_out(self, size_t more) except -1 nogil
    cdef int _finish(self) except -1 nogil
