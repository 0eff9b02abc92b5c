from libc.stdint cimport int64_t

cdef enum:
    STREAMING_BYTES = 1048576   # more bytes go past the caches: as much as the second one of most processors has


# memcpy to memory that is not read soon. After the last call, `fence_stores` makes it visible to other threads.
cdef void store_streaming(void* out, const void* values, int64_t n) noexcept nogil
# The same for integers of 64 bits, widened to 128. Their number must be even, and `to` a multiple of 16 bytes.
cdef void widen_streaming(void* out, const int64_t* values, int64_t n) noexcept nogil
cdef void fence_stores() noexcept nogil
