from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(_MSC_VER)
    #include <intrin.h>
    #include <stdlib.h>
    #define ORCIDX_INLINE static __forceinline
    #define ORCIDX_BSWAP _byteswap_uint64
    ORCIDX_INLINE int orcidx_low_bit(uint64_t v) { unsigned long i; _BitScanForward64(&i, v); return (int)i; }
    ORCIDX_INLINE int orcidx_leading_zeros(uint64_t v) {
        unsigned long i;
        _BitScanReverse64(&i, v);
        return 63 - (int)i;
    }
    #else
    #define ORCIDX_INLINE static inline __attribute__((always_inline))
    #define ORCIDX_BSWAP __builtin_bswap64
    ORCIDX_INLINE int orcidx_low_bit(uint64_t v) { return __builtin_ctzll(v); }
    ORCIDX_INLINE int orcidx_leading_zeros(uint64_t v) { return __builtin_clzll(v); }
    #endif

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define ORCIDX_BIG(word) (word)
    #define ORCIDX_LITTLE(word) ORCIDX_BSWAP(word)
    #else
    #define ORCIDX_BIG(word) ORCIDX_BSWAP(word)
    #define ORCIDX_LITTLE(word) (word)
    #endif

    ORCIDX_INLINE uint64_t orcidx_load(const uint8_t* p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return ORCIDX_BIG(word);
    }

    ORCIDX_INLINE uint64_t orcidx_load_little(const uint8_t* p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return ORCIDX_LITTLE(word);
    }
    """
    # Returns the position of the lowest set bit of a number other than 0.
    int low_bit "orcidx_low_bit"(uint64_t v) noexcept nogil
    # Returns the number of leading zero bits of a number other than 0.
    int leading_zeros "orcidx_leading_zeros"(uint64_t v) noexcept nogil
    # Loads eight bytes as one number, big-endian or little-endian.
    uint64_t load_big "orcidx_load"(const uint8_t* p) noexcept nogil
    uint64_t load_little "orcidx_load_little"(const uint8_t* p) noexcept nogil


# Whether the processor has AVX2 and ORCIDX_SIMD is not "none".
cdef bint use_avx2

# Unpacks n values of `width` bits, most significant bit first, to `out`. `width` is 1..24, 26, 28, 30, 32, 40, 48, 56
# or 64. Up to 56 bytes after the last value may be loaded, and up to 7 values after the n values may be stored.
cdef void unpack_plain(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
# The same for zigzag-coded values.
cdef void unpack_zigzag(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil

# Decodes whole runs of version 2 from `at` on, as long as they end before `end` and fit into `n` values. 64 bytes after
# `end` may be loaded. Moves `at` after these runs and returns the number of decoded values. More values, up to n, may
# have been stored. The function stops if space or bytes run out, at a PATCHED_BASE run, and at anything unusual. The
# caller then decodes one run by itself.
cdef int64_t runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil
# The same. It also stops before a run whose values may not fit into 32 bits (signed, or unsigned without zigzag).
cdef int64_t runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil
