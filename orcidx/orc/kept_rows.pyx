"""Moves the values of kept rows together. A mask has one byte for each row, 0 or 1, as in NumPy.

The decoders use these functions while a block of values is in the cache, and ``scanner/kept_values`` uses them, too.
With AVX2 and BMI2 the kept ones among eight values are moved together by one shuffle. In portable code each value is
written, and the next value overwrites it if it is not kept. Both have no branch that can be mispredicted. If few rows
are kept, 32 rows that are not kept are skipped at once.
"""

from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.bit_unpack cimport low_bit  # no-cython-lint: the C code below uses its macros
from orcidx.orc.decimal_varints cimport is_fast

cdef extern from *:
    """
    /* Returns the number of rows that a mask keeps, or -1 if the mask has other bytes than 0 and 1. Each byte of
       `sum` adds up at most 255 ones, so it does not overflow. */
    static int64_t orcidx_kept(const uint8_t* mask, int64_t rows) {
        int64_t i = 0, total = 0;
        uint64_t any = 0;
        while (i + 8 <= rows) {
            int64_t words = (rows - i) / 8 < 255 ? (rows - i) / 8 : 255;
            uint64_t sum = 0;
            for (int64_t j = 0; j < words; j++) {
                uint64_t word = orcidx_eight(mask + i + 8 * j);
                any |= word;
                sum += word;
            }
            sum = (sum & 0x00ff00ff00ff00ffull) + ((sum >> 8) & 0x00ff00ff00ff00ffull);
            total += (int64_t)((sum * 0x0001000100010001ull) >> 48);
            i += 8 * words;
        }
        for (; i < rows; i++) { any |= mask[i]; total += mask[i]; }
        return any & ~ORCIDX_ONES ? -1 : total;
    }

    #define ORCIDX_ONE(j) out[k] = values[i + j]; k += (word >> (8 * j)) & 1;

    /* Copies the values of the `count` kept rows to memory that has room for one more value. */
    #define ORCIDX_KEEP(NAME, T) \\
    static void NAME(const void* from, const uint8_t* __restrict mask, int64_t rows, int64_t count, \\
                            void* to) { \\
        const T* __restrict values = (const T*)from; \\
        T* __restrict out = (T*)to; \\
        int64_t i = 0, k = 0; \\
        if (count * 16 > rows * 15) { \\
            for (; i + 8 <= rows; i += 8) { \\
                if (orcidx_eight(mask + i) == ORCIDX_ONES) { \\
                    memcpy(out + k, values + i, 8 * sizeof(T)); \\
                    k += 8; \\
                    continue; \\
                } \\
                for (int j = 0; j < 8; j++) { out[k] = values[i + j]; k += mask[i + j]; } \\
            } \\
        } else if (count * 16 < rows) { \\
            for (; i + 32 <= rows; i += 32) { \\
                if (!(orcidx_eight(mask + i) | orcidx_eight(mask + i + 8) | orcidx_eight(mask + i + 16) | \\
                      orcidx_eight(mask + i + 24))) continue; \\
                for (int64_t j = i; j < i + 32; j += 8) \\
                    for (uint64_t word = orcidx_eight(mask + j); word; word &= word - 1) \\
                        out[k++] = values[j + orcidx_first_kept(word)]; \\
            } \\
        } \\
        for (; i + 8 <= rows; i += 8) { \\
            uint64_t word = orcidx_eight(mask + i); \\
            ORCIDX_ONE(0) ORCIDX_ONE(1) ORCIDX_ONE(2) ORCIDX_ONE(3) \\
            ORCIDX_ONE(4) ORCIDX_ONE(5) ORCIDX_ONE(6) ORCIDX_ONE(7) \\
        } \\
        for (; i < rows; i++) { out[k] = values[i]; k += mask[i]; } \\
    }
    ORCIDX_KEEP(orcidx_keep1, uint8_t)
    ORCIDX_KEEP(orcidx_keep2, uint16_t)
    ORCIDX_KEEP(orcidx_keep4, uint32_t)
    ORCIDX_KEEP(orcidx_keep8, uint64_t)
    ORCIDX_KEEP(orcidx_keep16, orcidx_pair)

    /* Moves the kept values to the front of the same buffer. It is meant for masks that keep nearly all values. */
    #define ORCIDX_KEEP_HERE(NAME, T) \\
    static void NAME(void* of, const uint8_t* mask, int64_t rows) { \\
        T* values = (T*)of; \\
        int64_t i = 0, k = 0; \\
        for (; i + 8 <= rows && orcidx_eight(mask + i) == ORCIDX_ONES; i += 8) k += 8; \\
        for (; i + 8 <= rows; i += 8) { \\
            T block[8]; \\
            memcpy(block, values + i, sizeof block); \\
            if (orcidx_eight(mask + i) == ORCIDX_ONES) { \\
                memcpy(values + k, block, sizeof block); \\
                k += 8; \\
                continue; \\
            } \\
            for (int j = 0; j < 8; j++) { values[k] = block[j]; k += mask[i + j]; } \\
        } \\
        for (; i < rows; i++) { values[k] = values[i]; k += mask[i]; } \\
    }
    ORCIDX_KEEP_HERE(orcidx_keep_here1, uint8_t)
    ORCIDX_KEEP_HERE(orcidx_keep_here2, uint16_t)
    ORCIDX_KEEP_HERE(orcidx_keep_here4, uint32_t)
    ORCIDX_KEEP_HERE(orcidx_keep_here8, uint64_t)
    ORCIDX_KEEP_HERE(orcidx_keep_here16, orcidx_pair)

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_FAST __attribute__((target("avx2,bmi,bmi2,popcnt")))
    #define ORCIDX_FAST_INLINE ORCIDX_FAST ORCIDX_INLINE

    ORCIDX_FAST static int64_t orcidx_count_fast(const uint8_t* mask, int64_t rows) {
        __m256i any = _mm256_setzero_si256(), sums = any;
        int64_t i = 0, rest;
        for (; i + 32 <= rows; i += 32) {
            __m256i bytes = _mm256_loadu_si256((const __m256i*)(mask + i));
            any = _mm256_or_si256(any, bytes);
            sums = _mm256_add_epi64(sums, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
        }
        rest = orcidx_kept(mask + i, rows - i);
        if (rest < 0 || !_mm256_testz_si256(any, _mm256_set1_epi8((char)0xfe))) return -1;
        return rest + _mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) + _mm256_extract_epi64(sums, 2)
            + _mm256_extract_epi64(sums, 3);
    }

    /* The numbers of the kept ones among eight rows, one in each byte. `word` has the eight bytes of the mask. */
    ORCIDX_FAST_INLINE __m128i orcidx_places(uint64_t word) {
        return _mm_cvtsi64_si128((long long)_pext_u64(0x0706050403020100ull, (word << 8) - word));
    }

    /* Each of these functions writes the kept ones among eight values, and then undefined values, to memory that has
       room for eight values. `out` may be the memory of the values, or memory before it. */
    ORCIDX_FAST_INLINE void orcidx_eight_kept1(const uint8_t* values, uint64_t word, uint8_t* out) {
        uint64_t kept = _pext_u64(orcidx_eight(values), (word << 8) - word);
        memcpy(out, &kept, 8);
    }
    ORCIDX_FAST_INLINE void orcidx_eight_kept2(const uint16_t* values, uint64_t word, uint16_t* out) {
        __m128i some = _mm_loadu_si128((const __m128i*)values), from = orcidx_places(word);
        from = _mm_unpacklo_epi8(_mm_add_epi8(from, from), _mm_add_epi8(from, from));
        _mm_storeu_si128((__m128i*)out, _mm_shuffle_epi8(some, _mm_or_si128(from, _mm_set1_epi16(256))));
    }
    ORCIDX_FAST_INLINE void orcidx_eight_kept4(const uint32_t* values, uint64_t word, uint32_t* out) {
        __m256i some = _mm256_loadu_si256((const __m256i*)values), from = _mm256_cvtepu8_epi32(orcidx_places(word));
        _mm256_storeu_si256((__m256i*)out, _mm256_permutevar8x32_epi32(some, from));
    }
    ORCIDX_FAST_INLINE void orcidx_eight_kept8(const uint64_t* values, uint64_t word, uint64_t* out) {
        /* Each value is two halves of 32 bits, and each row of the mask stands for both. */
        __m128i mask = _mm_cvtsi64_si128((long long)word), rows = _mm_unpacklo_epi8(mask, mask);
        __m256i low = _mm256_loadu_si256((const __m256i*)values);
        __m256i high = _mm256_loadu_si256((const __m256i*)(values + 4));
        __m256i first = _mm256_cvtepu8_epi32(orcidx_places((uint64_t)_mm_cvtsi128_si64(rows)));
        __m256i second = _mm256_cvtepu8_epi32(orcidx_places((uint64_t)_mm_extract_epi64(rows, 1)));
        _mm256_storeu_si256((__m256i*)out, _mm256_permutevar8x32_epi32(low, first));
        out += _mm_popcnt_u64(word & 0xffffffffull);
        _mm256_storeu_si256((__m256i*)out, _mm256_permutevar8x32_epi32(high, second));
    }

    /* Copies the values of the `count` kept rows to memory that has room for one more value, as ORCIDX_KEEP does. */
    #define ORCIDX_KEEP_FAST(NAME, PLAIN, EIGHT, T) \\
    ORCIDX_FAST static void NAME(const void* from, const uint8_t* __restrict mask, int64_t rows, int64_t count, \\
                                 void* to) { \\
        const T* __restrict values = (const T*)from; \\
        T* __restrict out = (T*)to; \\
        int64_t i = 0, k = 0; \\
        if (count * 16 >= rows) \\
            for (; i + 8 <= rows && k + 7 <= count; i += 8) { \\
                uint64_t word = orcidx_eight(mask + i); \\
                EIGHT(values + i, word, out + k); \\
                k += _mm_popcnt_u64(word); \\
            } \\
        PLAIN(values + i, mask + i, rows - i, count - k, out + k); \\
    }
    ORCIDX_KEEP_FAST(orcidx_keep1_fast, orcidx_keep1, orcidx_eight_kept1, uint8_t)
    ORCIDX_KEEP_FAST(orcidx_keep2_fast, orcidx_keep2, orcidx_eight_kept2, uint16_t)
    ORCIDX_KEEP_FAST(orcidx_keep4_fast, orcidx_keep4, orcidx_eight_kept4, uint32_t)
    ORCIDX_KEEP_FAST(orcidx_keep8_fast, orcidx_keep8, orcidx_eight_kept8, uint64_t)

    /* Moves the kept values to the front of the same memory. Eight values are loaded before they are overwritten. */
    #define ORCIDX_MOVE_FAST(NAME, EIGHT, T) \\
    ORCIDX_FAST static void NAME(void* of, const uint8_t* mask, int64_t rows) { \\
        T* values = (T*)of; \\
        int64_t i = 0, k = 0; \\
        for (; i + 8 <= rows; i += 8) { \\
            uint64_t word = orcidx_eight(mask + i); \\
            EIGHT(values + i, word, values + k); \\
            k += _mm_popcnt_u64(word); \\
        } \\
        for (; i < rows; i++) { values[k] = values[i]; k += mask[i]; } \\
    }
    ORCIDX_MOVE_FAST(orcidx_keep_here1_fast, orcidx_eight_kept1, uint8_t)
    ORCIDX_MOVE_FAST(orcidx_keep_here2_fast, orcidx_eight_kept2, uint16_t)
    ORCIDX_MOVE_FAST(orcidx_keep_here4_fast, orcidx_eight_kept4, uint32_t)
    ORCIDX_MOVE_FAST(orcidx_keep_here8_fast, orcidx_eight_kept8, uint64_t)
    #else
    #define orcidx_count_fast orcidx_kept
    #define orcidx_keep1_fast orcidx_keep1
    #define orcidx_keep2_fast orcidx_keep2
    #define orcidx_keep4_fast orcidx_keep4
    #define orcidx_keep8_fast orcidx_keep8
    #define orcidx_keep_here1_fast orcidx_keep_here1
    #define orcidx_keep_here2_fast orcidx_keep_here2
    #define orcidx_keep_here4_fast orcidx_keep_here4
    #define orcidx_keep_here8_fast orcidx_keep_here8
    #endif

    typedef void (*orcidx_keeper)(const void* from, const uint8_t* mask, int64_t rows, int64_t count, void* to);
    typedef void (*orcidx_mover)(void* of, const uint8_t* mask, int64_t rows);
    static const orcidx_keeper orcidx_keepers[2][5] = {
        {orcidx_keep1, orcidx_keep2, orcidx_keep4, orcidx_keep8, orcidx_keep16},
        {orcidx_keep1_fast, orcidx_keep2_fast, orcidx_keep4_fast, orcidx_keep8_fast, orcidx_keep16}};
    static const orcidx_mover orcidx_movers[2][5] = {
        {orcidx_keep_here1, orcidx_keep_here2, orcidx_keep_here4, orcidx_keep_here8, orcidx_keep_here16},
        {orcidx_keep_here1_fast, orcidx_keep_here2_fast, orcidx_keep_here4_fast, orcidx_keep_here8_fast,
         orcidx_keep_here16}};
    """
    int64_t c_kept "orcidx_kept"(const uint8_t* mask, int64_t rows) noexcept nogil
    int64_t c_kept_fast "orcidx_count_fast"(const uint8_t* mask, int64_t rows) noexcept nogil
    ctypedef void (*keeper "orcidx_keeper")(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                                            void* out) noexcept nogil
    ctypedef void (*mover "orcidx_mover")(void* values, const uint8_t* mask, int64_t rows) noexcept nogil
    const keeper[2][5] keepers "orcidx_keepers"
    const mover[2][5] movers "orcidx_movers"

cdef bint fast = is_fast()


cdef inline int power(int width) noexcept nogil:
    # The position in a table by width: 1, 2, 4, 8, 16.
    return (width > 1) + (width > 2) + (width > 4) + (width > 8)


cdef int64_t rows_kept(const uint8_t* mask, int64_t rows) noexcept nogil:
    return c_kept_fast(mask, rows) if fast else c_kept(mask, rows)


cdef int64_t keep_block(const void* values, int width, const uint8_t* mask, int64_t rows, void* out) noexcept nogil:
    cdef int64_t count = rows_kept(mask, rows)
    if count > 0:
        keepers[fast][power(width)](values, mask, rows, count, out)
    return count


cdef void move_kept(void* values, int width, const uint8_t* mask, int64_t rows) noexcept nogil:
    movers[fast][power(width)](values, mask, rows)


cdef class Mask:
    """Which rows are kept, with one byte for each row. It is checked once that each byte is 0 or 1, and how many rows
    are kept (``count``), because writes rely on it. So the bytes must not be changed afterwards."""

    def __cinit__(self, const uint8_t[::1] mask not None):
        self.owner, self.rows = mask, mask.shape[0]
        if self.rows:
            self.at = &mask[0]
            with nogil:
                self.count = rows_kept(self.at, self.rows)
        if self.count < 0:
            raise ValueError("a mask must have only zeros and ones")
