from libc.stdint cimport int64_t

cdef enum:
    # Output of more bytes than this bypasses the caches. Most processors have a second-level cache of this size.
    STREAMING_BYTES = 1048576


# Copies n bytes to memory that is not read soon. After the last call, `fence_stores` makes the bytes visible to other
# threads.
cdef void store_streaming(void* out, const void* values, int64_t n) noexcept nogil
# Like `store_streaming`, but copies n 64-bit integers and widens them to 128 bits. n must be even, and the address
# `out` must be a multiple of 16.
cdef void widen_streaming(void* out, const int64_t* values, int64_t n) noexcept nogil
cdef void fence_stores() noexcept nogil
