from libc.stdint cimport int64_t

cdef enum:
    FAR_BYTES = 1048576     # output of more bytes is far: as much as the second cache of most processors


# memcpy to memory that nobody reads soon; after the last one, `settle_far` shows it to other threads.
cdef void copy_far(void* out, const void* values, int64_t n) noexcept nogil
cdef void settle_far() noexcept nogil
