from libc.stdint cimport int64_t, uint8_t


cdef class LocalFile:
    cdef int fd                     # -1: closed, or a system without pread
    cdef int64_t size
    cdef int64_t mtime_ns
    cdef object metrics

    # Whether n bytes at `offset` of the file, unchanged since it was opened, are at `out`; if not, what is there is of
    # no use, and the usual way to read says why.
    cdef bint fill(self, uint8_t* out, int64_t n, int64_t offset) except -1


cdef class PieceRun:
    cdef LocalFile file
    cdef int64_t base               # where the stream begins in the file
    cdef int64_t step               # most bytes of a piece
    cdef int64_t start              # the planned range, in the stream; empty: nothing may be read
    cdef int64_t stop
    cdef uint8_t* room              # whoever calls `refill` with its address holds its buffer
    cdef int64_t capacity
    cdef readonly int64_t at        # what the room holds, in the stream
    cdef readonly int64_t held

    # How many bytes at `offset` of the stream went to `piece`; 0: that is not the room, or it holds nothing any more.
    cdef int64_t refill(self, void* piece, int64_t offset) except -1


# How many bytes at `offset` a source's `read_into` put into `parts`, writable memoryviews: all of them, or 0. The views
# are released, since they must not outlive their memory.
cdef int64_t fill_parts(read_into, int64_t offset, list parts) except -1
