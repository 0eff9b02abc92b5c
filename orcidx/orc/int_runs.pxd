from libc.stdint cimport int64_t, uint8_t

cdef enum:
    SPARE_VALUES = 8        # kernels may store whole vectors after the last value
    # results of kernels that are not sizes in bytes
    NEED_MORE = 0
    LONG_VARINT = -1
    NO_PATCHES = -2
    WIDE_PATCH = -3
    PATCH_OUTSIDE = -4
    ONE_DELTA = -5

# Returns the size of the run at p in bytes, and writes its number of values to `count`. Returns NEED_MORE if the header
# does not end before `end`.
cdef int v1_size(const uint8_t* p, const uint8_t* end, int* count) noexcept nogil
cdef int v2_size(const uint8_t* p, const uint8_t* end, int* count) noexcept nogil
# Decodes the run at p to `out`. The run must be complete in memory, and `out` must have room for its values and
# SPARE_VALUES more. Returns 1 or an error code.
cdef int v1_decode(const uint8_t* p, bint zigzag, int64_t* out) noexcept nogil
cdef int v2_decode(const uint8_t* p, bint zigzag, int count, int64_t* out) noexcept nogil
# Whether all values of the run at p equal this value. The run must repeat a value or have a fixed delta.
cdef bint repeated(const uint8_t* p, int version, bint zigzag, int64_t wanted) noexcept nogil
