from libc.stdint cimport int64_t, uint8_t


# The last bytes of a file, and the file's size and modification time.
cdef struct FileEnd:
    uint8_t* data               # from malloc
    int64_t held                # the number of bytes in `data`
    int64_t size
    int64_t mtime_ns


# Opens a file, reads its last `last` bytes and closes it. Returns False, and reads nothing, for a file that is empty or
# larger than `most` bytes, and for every error.
cdef bint read_end(const char* path, int64_t most, int64_t last, FileEnd* end) noexcept nogil
# A view of the bytes. It frees them, and takes them away from `end`.
cdef object end_view(FileEnd* end)


cdef class LocalFile:
    cdef int fd  # -1: the file is closed, or the system has no pread
    cdef int64_t size
    cdef int64_t mtime_ns
    cdef object metrics
    cdef LocalFile opened  # the object whose descriptor this object uses; None: this object has its own

    cdef int descriptor(self) noexcept
    # Whether `out` now has the n bytes at `offset` of the file, and the file has not changed since it was opened. If
    # not, the data in `out` is not valid. The normal way to read then raises the error.
    cdef bint fill(self, uint8_t* out, int64_t n, int64_t offset) except -1


cdef class PieceRun:
    cdef LocalFile file
    cdef int64_t base               # where the stream begins in the file
    cdef int64_t step  # the most bytes of a piece
    cdef int64_t start  # the planned range in the stream; if it is empty, nothing may be read
    cdef int64_t stop
    cdef uint8_t* room  # the buffer; a caller that passes its address to `refill` must keep it alive
    cdef int64_t capacity
    cdef readonly int64_t at  # position in the stream of the bytes in `room`
    cdef readonly int64_t held

    # The number of bytes at `offset` of the stream that were copied to `piece`. It is 0 if `piece` is not `room`, or if
    # `room` is empty.
    cdef int64_t refill(self, void* piece, int64_t offset) except -1


# The number of bytes at `offset` that a source's `read_into` wrote to `parts` (writable memoryviews): all of them, or
# 0. The views are released, because they must not exist longer than their memory.
cdef int64_t fill_parts(read_into, int64_t offset, list parts) except -1
