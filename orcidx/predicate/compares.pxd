from libc.stdint cimport int32_t, int64_t, uint8_t

# Compares strings in words of 8 bytes. `orc/tested_strings` uses this function, too.
cdef extern from *:
    """
    #ifndef ORCIDX_STRING_WORDS
    #define ORCIDX_STRING_WORDS
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__)
    #define orcidx_reversed4 __builtin_bswap32
    #define orcidx_reversed8 __builtin_bswap64
    #else
    static uint32_t orcidx_reversed4(uint32_t x) {
        x = ((x & 0x00ff00ffu) << 8) | ((x >> 8) & 0x00ff00ffu);
        return (x << 16) | (x >> 16);
    }
    static uint64_t orcidx_reversed8(uint64_t x) {
        return ((uint64_t)orcidx_reversed4((uint32_t)x) << 32) | orcidx_reversed4((uint32_t)(x >> 32));
    }
    #endif

    static inline uint64_t orcidx_raw(const uint8_t* p) { uint64_t x; memcpy(&x, p, 8); return x; }

    /* Converts 1 to 7 bytes to a number. The numbers of strings of equal length have the order of the strings. */
    static inline uint64_t orcidx_few(const uint8_t* p, int64_t size) {
        uint32_t first, last;
        if (size < 4) return ((uint64_t)p[0] << 16) | ((uint64_t)p[size >> 1] << 8) | p[size - 1];
        memcpy(&first, p, 4);
        memcpy(&last, p + size - 4, 4);
        return ((uint64_t)orcidx_reversed4(first) << 32) | orcidx_reversed4(last);  /* the words may overlap */
    }

    /* Whether two strings of equal length are the same. */
    static inline int orcidx_same(const uint8_t* p, const uint8_t* other, int64_t size) {
        if (size < 8) return !size || orcidx_few(p, size) == orcidx_few(other, size);
        if (orcidx_raw(p + size - 8) != orcidx_raw(other + size - 8)) return 0;
        for (int64_t at = 0; at + 8 <= size; at += 8)
            if (orcidx_raw(p + at) != orcidx_raw(other + at)) return 0;
        return 1;
    }
    #endif
    """
    bint are_same "orcidx_same"(const uint8_t* p, const uint8_t* other, int64_t size) nogil

# Writes one byte, 0 or 1, for each of `rows` values: whether `low <= value <= high`. No value is in the range if `low`
# exceeds `high`.
cdef void mark_int32(const int32_t* values, int64_t rows, int32_t low, int32_t high, uint8_t* out) noexcept nogil
cdef void mark_int64(const int64_t* values, int64_t rows, int64_t low, int64_t high, uint8_t* out) noexcept nogil
