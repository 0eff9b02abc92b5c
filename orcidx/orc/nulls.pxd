from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t orcidx_word(const void* p) { uint64_t x; memcpy(&x, p, 8); return x; }
    """
    uint64_t load_word "orcidx_word"(const void* p) nogil


cdef inline bint bit_at(const uint8_t* bits, int64_t i) noexcept nogil:
    return (bits[i >> 3] >> (i & 7)) & 1


cdef inline uint64_t word_at(const uint8_t* bits, int64_t i, int64_t n) noexcept nogil:
    """Up to 64 bits of a bitmap of ``n`` bits, from bit ``i`` (a multiple of 64)."""
    cdef uint64_t word = 0
    cdef int64_t left = n - i
    if left >= 64:
        return load_word(bits + (i >> 3))
    memcpy(&word, bits + (i >> 3), (left + 7) >> 3)
    return word & ((<uint64_t> 1 << left) - 1)


# The number of set bits from `start` (a multiple of 64) to `stop`.
cdef int64_t ones_between(const uint8_t* bits, int64_t start, int64_t stop) noexcept nogil
# The bitmap of `n` rows, of which `count` must be valid. NULL if all rows are valid.
cdef const uint8_t* bits_of(const uint8_t[::1] valid, int64_t n, int64_t count) except? NULL

# The next two functions work on memory whose size the caller has checked.
# `out[i] = parent[i] and the next bit of dense`, for n rows. `dense` has `limit` bits. Returns the number of set bits.
cdef int64_t nest_words(const uint8_t* dense, int64_t limit, const uint8_t* parent, int64_t n,
                        uint8_t* out) noexcept nogil
# Moves the `count` dense values at the start of `values` to the positions of the set bits. All other positions become
# 0.
cdef void spread_values(uint8_t* values, int width, const uint8_t* bits, int64_t n, int64_t count) noexcept nogil
