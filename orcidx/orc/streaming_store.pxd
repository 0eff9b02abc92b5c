from libc.stdint cimport int64_t

cdef enum:
    STREAMING_BYTES = 1048576   # larger output bypasses the caches: the size of the second cache of most processors


# memcpy to memory that is not read soon. `fence_stores`, after the last call, makes the bytes visible to other threads.
cdef void store_streaming(void* out, const void* values, int64_t n) noexcept nogil
# The same for 64-bit integers, which are widened to 128 bits. Their number must be even, and `to` a multiple of 16
# bytes.
cdef void widen_streaming(void* out, const int64_t* values, int64_t n) noexcept nogil
cdef void fence_stores() noexcept nogil
