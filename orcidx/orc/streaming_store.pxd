from libc.stdint cimport int64_t

cdef enum:
    STREAMING_BYTES = 1048576   # more bytes go past the caches: as much as the second one of most processors has


# memcpy to memory that nobody reads soon; after the last one, `fence_stores` shows it to other threads.
cdef void store_streaming(void* out, const void* values, int64_t n) noexcept nogil
# The same of integers of 64 bits, an even number of them, widened to 128, to a multiple of 16 bytes.
cdef void widen_streaming(void* out, const int64_t* values, int64_t n) noexcept nogil
cdef void fence_stores() noexcept nogil
