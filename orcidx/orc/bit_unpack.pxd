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

    ORCIDX_INLINE int orcidx_popcount(uint64_t x) {
        x = x - ((x >> 1) & 0x5555555555555555ull);
        x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
        return (int)((((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull) >> 56);
    }

    /* Joins eight groups of seven bits. The high bit of each byte is dropped. */
    ORCIDX_INLINE uint64_t orcidx_squeeze(uint64_t word) {
        word &= 0x7f7f7f7f7f7f7f7full;
        word = ((word & 0x7f007f007f007f00ull) >> 1) | (word & 0x007f007f007f007full);
        word = ((word & 0x3fff00003fff0000ull) >> 2) | (word & 0x00003fff00003fffull);
        return ((word & 0x0fffffff00000000ull) >> 4) | (word & 0x000000000fffffffull);
    }

    #if defined(__SSE2__) || defined(_M_X64)
    #include <emmintrin.h>
    #define ORCIDX_ENDS16(p) (uint64_t)(uint16_t)~_mm_movemask_epi8(_mm_loadu_si128((const __m128i*)(p)))
    /* Bit i of the result is set if byte i of 64 bytes is the last byte of a varint. */
    ORCIDX_INLINE uint64_t orcidx_varint_ends(const uint8_t* p) {
        return ORCIDX_ENDS16(p) | ORCIDX_ENDS16(p + 16) << 16 | ORCIDX_ENDS16(p + 32) << 32
            | ORCIDX_ENDS16(p + 48) << 48;
    }
    #else
    ORCIDX_INLINE uint64_t orcidx_varint_ends(const uint8_t* p) {
        uint64_t ends = 0;
        int i;
        for (i = 0; i < 64; i += 8)
            ends |= ((~orcidx_load_little(p + i) >> 7 & 0x0101010101010101ull) * 0x0102040810204080ull >> 56) << i;
        return ends;
    }
    #endif
    """
    # Returns the position of the lowest set bit of a number other than 0.
    int low_bit "orcidx_low_bit"(uint64_t v) noexcept nogil
    # Returns the number of leading zero bits of a number other than 0.
    int leading_zeros "orcidx_leading_zeros"(uint64_t v) noexcept nogil
    # Returns the number of set bits.
    int popcount "orcidx_popcount"(uint64_t x) noexcept nogil
    # Joins eight groups of seven bits. The high bit of each byte is dropped.
    uint64_t squeeze "orcidx_squeeze"(uint64_t word) noexcept nogil
    # Loads eight bytes as one number, big-endian or little-endian.
    uint64_t load_big "orcidx_load"(const uint8_t* p) noexcept nogil
    uint64_t load_little "orcidx_load_little"(const uint8_t* p) noexcept nogil


# Whether the processor has AVX2 and ORCIDX_SIMD is not "none".
cdef bint use_avx2

# Unpacks n values of `width` bits, most significant bit first, to `out`. `width` is 1..24, 26, 28, 30, 32, 40, 48, 56
# or 64. Up to 56 bytes after the last value may be loaded, and up to 7 values after the n values may be stored.
cdef void unpack_plain(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
# Like `unpack_plain`, for zigzag-coded values.
cdef void unpack_zigzag(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil

# Decodes whole runs of version 2 from `at` on, as long as they end before `end` and fit into `n` values. 64 bytes after
# `end` may be loaded. Moves `at` after these runs and returns the number of decoded values. Up to `n` values
# may have been stored, even if fewer were decoded. The function stops if space or bytes run out, at a PATCHED_BASE run,
# and at anything unusual. The caller then decodes one run by itself.
cdef int64_t runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil
# Like `runs_int64`. Also stops before a run whose values may not fit in 32 bits (signed, or unsigned without zigzag).
cdef int64_t runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil
