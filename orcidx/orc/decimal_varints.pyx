"""Decodes varints of decimals: the zigzag codes of unscaled numbers, to 64 or 128 bits.

First the ends of all values in a block of 64 bytes are found together. Otherwise each value would have to wait for the
end of the previous value. After that, four values at a time are loaded, cut at their ends and widened together. If all
values of a block have 1 or 2 bytes, the whole block is decoded together. Values of more than 8 bytes are decoded one by
one.

``kept_values`` writes only the values of kept rows. Each value is written, and the next value overwrites it if it is
not kept. If few rows are kept, only their values are decoded. The ends of all values are known, so the other values are
only counted.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.bit_unpack cimport leading_zeros, low_bit  # no-cython-lint: the C code below calls its C function
from orcidx.orc.int128 cimport store_words  # no-cython-lint: the C code below calls its C function

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define ORCIDX_STOPS 0x8080808080808080ull
    #define ORCIDX_LONG ((uint64_t)1 << 62)

    static inline uint64_t orcidx_load64(const uint8_t* p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return word;
    }

    static inline uint64_t orcidx_low_bytes(uint64_t word, int64_t count) {  /* 1 <= count <= 8 */
        return word & ~(uint64_t)0 >> (64 - 8 * count);
    }

    #define ORCIDX_GROUPS(word, count) orcidx_squeeze(orcidx_low_bytes(word, count))

    /* Decodes up to `count` varints from `*at` on, as long as they end before `end`. 64 bytes after `end` may be
       loaded. Returns their number. With WIDE each value takes 16 bytes, and *status becomes 4 if a value has more than
       128 bits. Otherwise each value takes 8 bytes, and decoding stops before the first value of more than 62 bits. The
       codes of up to 62 bits are or-ed into *most. A code of 63 to 112 bits sets ORCIDX_LONG in *most, and a code of
       more bits sets all bits. */
    #define ORCIDX_DECIMALS(NAME, TARGET, GROUPS, WIDE, TOGETHER) \\
    TARGET static int64_t NAME(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out, uint64_t* most, \\
                               int* status) { \\
        const uint8_t* p = *at; \\
        uint64_t seen = *most; \\
        int64_t done = 0; \\
        int halted = 0; \\
        *status = 0; \\
        while (done < count && p < end && !halted) { \\
            uint64_t stops = orcidx_varint_ends(p); \\
            int64_t start = 0; \\
            TOGETHER \\
            if (end - p < 64) stops &= ((uint64_t)1 << (end - p)) - 1; \\
            if (!stops) { \\
                if (WIDE && end - p >= 19) *status = 4; \\
                break; \\
            } \\
            for (; stops && done < count; stops &= stops - 1, done++) { \\
                int64_t stop = orcidx_low_bit(stops), size = stop + 1 - start; \\
                uint64_t code; \\
                if (size <= 8) { \\
                    code = GROUPS(orcidx_load64(p + start), size); \\
                } else { \\
                    code = GROUPS(orcidx_load64(p + start), 8); \\
                    if (size == 9 && p[stop] < 64) { \\
                        code |= (uint64_t)p[stop] << 56; \\
                    } else if (WIDE) { \\
                        int64_t second = size < 16 ? size - 8 : 8; \\
                        uint64_t more = GROUPS(orcidx_load64(p + start + 8), second), high = more >> 8; \\
                        uint64_t low = code | more << 56, sign = 0 - (low & 1); \\
                        if (size > 16) { \\
                            if (size > 19 || (size == 19 && p[stop] > 3)) { \\
                                *status = 4; \\
                                halted = 1; \\
                                break; \\
                            } \\
                            high |= GROUPS(orcidx_load64(p + start + 16), size - 16) << 48; \\
                        } \\
                        seen |= size <= 16 ? ORCIDX_LONG : ~(uint64_t)0; \\
                        orcidx_store_words(out + 16 * done, (low >> 1 | high << 63) ^ sign, (high >> 1) ^ sign); \\
                        start = stop + 1; \\
                        continue; \\
                    } else { \\
                        halted = 1; \\
                        break; \\
                    } \\
                } \\
                seen |= code; \\
                code = (code >> 1) ^ -(code & 1); \\
                if (WIDE) \\
                    orcidx_store_words(out + 16 * done, code, (uint64_t)((int64_t)code >> 63)); \\
                else \\
                    memcpy(out + 8 * done, &code, 8); \\
                start = stop + 1; \\
            } \\
            p += start; \\
        } \\
        *at = p; \\
        *most = seen; \\
        return done; \\
    }
    ORCIDX_DECIMALS(orcidx_wide, , ORCIDX_GROUPS, 1, )
    ORCIDX_DECIMALS(orcidx_narrow, , ORCIDX_GROUPS, 0, )

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_FAST __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
    #define ORCIDX_NARROW 0         /* forms of the output: 8 bytes for each value, */
    #define ORCIDX_WIDE 1           /* 16 bytes for each value, */
    #define ORCIDX_KEPT 2           /* 16 bytes for each value whose bit is set in `kept` */
    #define ORCIDX_SO_INLINE ORCIDX_FAST ORCIDX_INLINE
    #define ORCIDX_FAST_GROUPS(word, count) _pext_u64(_bzhi_u64(word, (unsigned)(8 * (count))), 0x7f7f7f7f7f7f7f7full)

    /* ORCIDX_TWO widens two signed numbers of SIZE bytes, number i and number i + 1, to 128 bits. The first eight
       bytes of `both` have the numbers, and the next eight bytes have their signs. */
    #define ORCIDX_S(SIZE, i, k) ((k) < (SIZE) ? (char)((SIZE) * (i) + (k)) : (char)(8 + (SIZE) * (i)))
    #define ORCIDX_EIGHT(SIZE, i, k) ORCIDX_S(SIZE, i, k), ORCIDX_S(SIZE, i, k + 1), ORCIDX_S(SIZE, i, k + 2), \\
        ORCIDX_S(SIZE, i, k + 3), ORCIDX_S(SIZE, i, k + 4), ORCIDX_S(SIZE, i, k + 5), ORCIDX_S(SIZE, i, k + 6), \\
        ORCIDX_S(SIZE, i, k + 7)
    #define ORCIDX_TWO(both, SIZE, i) _mm256_shuffle_epi8(both, \\
        _mm256_setr_epi8(ORCIDX_EIGHT(SIZE, i, 0), ORCIDX_EIGHT(SIZE, i, 8), ORCIDX_EIGHT(SIZE, (i) + 1, 0), \\
                         ORCIDX_EIGHT(SIZE, (i) + 1, 8)))

    /* Writes two values of 128 bits, or the kept ones among them. Returns the position after the last value. */
    ORCIDX_SO_INLINE uint8_t* orcidx_put_two(__m256i two, int form, uint64_t kept, uint8_t* out) {
        if (form == ORCIDX_KEPT) {
            _mm_storeu_si128((__m128i*)out, _mm256_castsi256_si128(two));
            out += (kept & 1) << 4;
            _mm_storeu_si128((__m128i*)out, _mm256_extracti128_si256(two, 1));
            return out + ((kept & 2) << 3);
        }
        _mm256_storeu_si256((__m256i*)out, two);
        return out + 32;
    }

    /* Decodes 64 values of one byte each. */
    ORCIDX_SO_INLINE void orcidx_ones(const uint8_t* p, uint8_t* out, int form, uint64_t kept) {
        int i;
        for (i = 0; i < 64; i += 8) {
            __m128i code = _mm_loadl_epi64((const __m128i*)(p + i));
            __m128i sign = _mm_sub_epi8(_mm_setzero_si128(), _mm_and_si128(code, _mm_set1_epi8(1)));
            __m128i value = _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(code, 1), _mm_set1_epi8(63)), sign);
            if (form != ORCIDX_NARROW) {
                __m256i both = _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(value, sign));
                out = orcidx_put_two(ORCIDX_TWO(both, 1, 0), form, kept >> i, out);
                out = orcidx_put_two(ORCIDX_TWO(both, 1, 2), form, kept >> i >> 2, out);
                out = orcidx_put_two(ORCIDX_TWO(both, 1, 4), form, kept >> i >> 4, out);
                out = orcidx_put_two(ORCIDX_TWO(both, 1, 6), form, kept >> i >> 6, out);
            } else {
                _mm256_storeu_si256((__m256i*)(out + 8 * i), _mm256_cvtepi8_epi64(value));
                _mm256_storeu_si256((__m256i*)(out + 8 * i + 32), _mm256_cvtepi8_epi64(_mm_srli_si128(value, 4)));
            }
        }
    }

    /* Decodes 32 values of two bytes each. */
    ORCIDX_SO_INLINE void orcidx_pairs(const uint8_t* p, uint8_t* out, int form, uint64_t kept) {
        int i;
        for (i = 0; i < 32; i += 8) {
            __m128i word = _mm_and_si128(_mm_loadu_si128((const __m128i*)(p + 2 * i)), _mm_set1_epi8(127));
            __m128i code = _mm_maddubs_epi16(_mm_set1_epi16((short)0x8001), word);
            __m128i sign = _mm_sub_epi16(_mm_setzero_si128(), _mm_and_si128(code, _mm_set1_epi16(1)));
            __m128i value = _mm_xor_si128(_mm_srli_epi16(code, 1), sign);
            if (form != ORCIDX_NARROW) {
                __m256i low = _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(value, sign));
                __m256i high = _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(value, sign));
                out = orcidx_put_two(ORCIDX_TWO(low, 2, 0), form, kept >> i, out);
                out = orcidx_put_two(ORCIDX_TWO(low, 2, 2), form, kept >> i >> 2, out);
                out = orcidx_put_two(ORCIDX_TWO(high, 2, 0), form, kept >> i >> 4, out);
                out = orcidx_put_two(ORCIDX_TWO(high, 2, 2), form, kept >> i >> 6, out);
            } else {
                _mm256_storeu_si256((__m256i*)(out + 8 * i), _mm256_cvtepi16_epi64(value));
                _mm256_storeu_si256((__m256i*)(out + 8 * i + 32), _mm256_cvtepi16_epi64(_mm_srli_si128(value, 8)));
            }
        }
    }

    /* Decodes `four` groups of four values of at most 8 bytes. The lowest bits of stops mark the ends of the values.
       Returns the position after the last value. */
    ORCIDX_SO_INLINE int64_t orcidx_fours(const uint8_t* p, uint64_t stops, int64_t four, uint8_t* out, int form,
                                       uint64_t kept, __m256i* codes) {
        const __m256i sevens = _mm256_set1_epi8(127), thousands = _mm256_set1_epi64x(0x0fffffffll);
        const uint8_t* from = p;
        for (; four; four--) {
            const uint8_t* second = p + 1 + _tzcnt_u64(stops);
            const uint8_t* third = p + 1 + _tzcnt_u64(stops = _blsr_u64(stops));
            const uint8_t* fourth = p + 1 + _tzcnt_u64(stops = _blsr_u64(stops));
            /* Values 1 and 3 go into the lower half of a register, values 2 and 4 into the upper half. In this order,
               unpacklo returns values 1 and 2, and unpackhi returns values 3 and 4. */
            __m128i even = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i*)from),
                                              _mm_loadl_epi64((const __m128i*)third));
            __m128i odd = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i*)second),
                                             _mm_loadl_epi64((const __m128i*)fourth));
            __m256i word = _mm256_inserti128_si256(_mm256_castsi128_si256(even), odd, 1), code, sign, value;
            __m256i stop = _mm256_andnot_si256(word, _mm256_set1_epi8((char)128));
            /* keeps only the bytes up to the end of the value */
            word = _mm256_and_si256(word, _mm256_xor_si256(stop, _mm256_add_epi64(stop, _mm256_set1_epi64x(-1))));
            word = _mm256_maddubs_epi16(_mm256_set1_epi16((short)0x8001), _mm256_and_si256(word, sevens));
            word = _mm256_madd_epi16(word, _mm256_set1_epi32(0x40000001));
            code = _mm256_or_si256(_mm256_and_si256(word, thousands),
                                   _mm256_andnot_si256(thousands, _mm256_srli_epi64(word, 4)));
            *codes = _mm256_or_si256(*codes, code);
            sign = _mm256_sub_epi64(_mm256_setzero_si256(), _mm256_and_si256(code, _mm256_set1_epi64x(1)));
            value = _mm256_xor_si256(_mm256_srli_epi64(code, 1), sign);
            if (form != ORCIDX_NARROW) {
                out = orcidx_put_two(_mm256_unpacklo_epi64(value, sign), form, kept, out);
                out = orcidx_put_two(_mm256_unpackhi_epi64(value, sign), form, kept >> 2, out);
                kept >>= 4;
            } else {
                _mm256_storeu_si256((__m256i*)out, _mm256_permute4x64_epi64(value, 0xd8));
                out += 32;
            }
            stops = _blsr_u64(stops);
            from = p + 1 + _tzcnt_u64(stops);
            stops = _blsr_u64(stops);
        }
        return from - p;
    }

    /* Whether a number has `length` (1 to 8) set bits, one after the other. */
    ORCIDX_SO_INLINE int orcidx_has_run(uint64_t bits, int length) {
        int found = 1;
        for (; 2 * found <= length; found *= 2) bits &= bits >> found;
        return (bits & bits >> (length - found)) != 0;
    }

    ORCIDX_SO_INLINE uint64_t orcidx_or(__m256i words) {
        __m128i half = _mm_or_si128(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        return (uint64_t)_mm_cvtsi128_si64(half) | (uint64_t)_mm_extract_epi64(half, 1);
    }

    /* Decodes the small values of a block, in groups of four. The next block begins with the values that are left. */
    ORCIDX_SO_INLINE int64_t orcidx_together(const uint8_t** at, const uint8_t* end, uint64_t stops, int64_t left,
                                          uint8_t* out, int form, uint64_t* most) {
        const uint8_t* p = *at;
        uint64_t gaps;
        int64_t four;
        __m256i codes;
        if (end - p >= 64) {
            if (stops == ~(uint64_t)0 && left >= 64) {
                orcidx_ones(p, out, form, 0);
                *most |= 127;
                *at = p + 64;
                return 64;
            }
            if (stops == 0xaaaaaaaaaaaaaaaaull && left >= 32) {
                orcidx_pairs(p, out, form, 0);
                *most |= 0x3fff;
                *at = p + 64;
                return 32;
            }
        } else {
            stops &= ((uint64_t)1 << (end - p)) - 1;
        }
        four = _mm_popcnt_u64(stops);
        four = (four < left ? four : left) >> 2;
        if (!four) return 0;
        gaps = _bzhi_u64(~stops, 63 - (unsigned)_lzcnt_u64(stops));     /* bytes that are not ends */
        if (orcidx_has_run(gaps, 8)) return 0;                          /* a value of more than 8 bytes */
        codes = _mm256_setzero_si256();
        *at = p + orcidx_fours(p, stops, four, out, form, 0, &codes);
        *most |= orcidx_or(codes);
        return 4 * four;
    }

    /* Has a bit for each of up to 64 rows: whether it is kept. */
    ORCIDX_SO_INLINE uint64_t orcidx_kept_bits(const uint8_t* mask, int64_t rows) {
        uint8_t some[64];
        __m256i low, high;
        if (rows < 64) {
            memset(some, 0, 64);
            memcpy(some, mask, (size_t)rows);
            mask = some;
        }
        low = _mm256_slli_epi16(_mm256_loadu_si256((const __m256i*)mask), 7);
        high = _mm256_slli_epi16(_mm256_loadu_si256((const __m256i*)(mask + 32)), 7);
        return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
    }

    /* The position of the end of value i. */
    ORCIDX_SO_INLINE int64_t orcidx_end(uint64_t stops, int64_t i) {
        return (int64_t)_tzcnt_u64(_pdep_u64((uint64_t)1 << i, stops));
    }

    /* Decodes the values whose bits are set in `kept`. All values have at most 8 bytes. Returns their number. */
    ORCIDX_SO_INLINE int64_t orcidx_picked(const uint8_t* p, uint64_t stops, uint64_t kept, uint8_t* out) {
        int64_t done = 0;
        for (; kept; kept = _blsr_u64(kept), done++) {
            int64_t i = (int64_t)_tzcnt_u64(kept), start = i ? orcidx_end(stops, i - 1) + 1 : 0;
            uint64_t code = ORCIDX_FAST_GROUPS(orcidx_load64(p + start), orcidx_end(stops, i) + 1 - start);
            code = (code >> 1) ^ -(code & 1);
            orcidx_store_words(out + 16 * done, code, (uint64_t)((int64_t)code >> 63));
        }
        return done;
    }

    /* See `kept_values`. The code of a value that surely has few enough digits has at most `bits` bits (4 to 60). */
    ORCIDX_FAST static int64_t orcidx_kept_fast(const uint8_t** at, const uint8_t* end, int64_t count,
                                                const uint8_t* mask, int64_t rows, int bits, uint8_t* to,
                                                int64_t* kept_count) {
        const uint8_t* p = *at;
        uint8_t* out = to + 16 * *kept_count;
        const __m256i beyond = _mm256_set1_epi64x((long long)(~(uint64_t)0 << bits));
        __m256i codes = _mm256_setzero_si256();
        int64_t done = 0;
        int sure = bits / 7 < 8 ? bits / 7 : 8;             /* values of so many bytes surely have few enough digits */
        while (done < count && p < end) {
            uint64_t stops = orcidx_varint_ends(p), kept, gaps;
            int64_t values, last, few;
            if (end - p < 64) stops = _bzhi_u64(stops, (unsigned)(end - p));
            values = _mm_popcnt_u64(stops);
            last = 63 - (int64_t)_lzcnt_u64(stops);
            if (values > count - done) {
                values = count - done;
                last = orcidx_end(stops, values - 1);
            }
            if (!values) break;
            gaps = _bzhi_u64(~stops, (unsigned)last);       /* bytes that are not ends */
            kept = _bzhi_u64(orcidx_kept_bits(mask + done, rows - done), (unsigned)values);
            few = _mm_popcnt_u64(kept);
            if ((8 * few <= values || values < 4) && sure && !orcidx_has_run(gaps, sure)) {
                out += 16 * orcidx_picked(p, stops, kept, out);
            } else if (values == 64) {
                if (bits < 7) break;
                if (few == 64) orcidx_ones(p, out, ORCIDX_WIDE, 0);
                else orcidx_ones(p, out, ORCIDX_KEPT, kept);
                out += 16 * few;
            } else if (values == 32 && stops == 0xaaaaaaaaaaaaaaaaull) {
                if (bits < 14) break;
                if (few == 32) orcidx_pairs(p, out, ORCIDX_WIDE, 0);
                else orcidx_pairs(p, out, ORCIDX_KEPT, kept);
                out += 16 * few;
            } else {
                if (values < 4 || orcidx_has_run(gaps, 8)) break;
                if (few == values) last = orcidx_fours(p, stops, values >> 2, out, ORCIDX_WIDE, 0, &codes) - 1;
                else last = orcidx_fours(p, stops, values >> 2, out, ORCIDX_KEPT, kept, &codes) - 1;
                if (!_mm256_testz_si256(codes, beyond)) break;
                values &= ~(int64_t)3;
                out += 16 * _mm_popcnt_u64(_bzhi_u64(kept, (unsigned)values));
            }
            p += last + 1;
            done += values;
        }
        *at = p;
        *kept_count = (out - to) >> 4;
        return done;
    }

    #define ORCIDX_TOGETHER(WIDE) { \\
            int64_t some = orcidx_together(&p, end, stops, count - done, out + (WIDE ? 16 : 8) * done, WIDE, &seen); \\
            done += some; \\
            if (some) continue; \\
        }
    ORCIDX_DECIMALS(orcidx_wide_fast, ORCIDX_FAST, ORCIDX_FAST_GROUPS, 1, ORCIDX_TOGETHER(1))
    ORCIDX_DECIMALS(orcidx_narrow_fast, ORCIDX_FAST, ORCIDX_FAST_GROUPS, 0, ORCIDX_TOGETHER(0))

    /* Processors with a slow pext do not use this code. */
    static int orcidx_is_fast(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1")
            && !__builtin_cpu_is("znver2") && !__builtin_cpu_is("bdver4");
    }
    #else
    #define orcidx_wide_fast orcidx_wide
    #define orcidx_narrow_fast orcidx_narrow
    #define orcidx_kept_fast(at, end, count, mask, rows, bits, out, kept) 0     /* not called without AVX2 */
    static int orcidx_is_fast(void) { return 0; }
    #endif

    static int64_t orcidx_drop_varints(const uint8_t** at, const uint8_t* end, int64_t count) {
        const uint8_t* p = *at;
        int64_t done = 0;
        while (count - done >= 8 && end - p >= 8) {
            uint64_t stops = ~orcidx_load64(p) & ORCIDX_STOPS;
            done += (int64_t)(((stops >> 7) * 0x0101010101010101ull) >> 56);
            p += 8;
        }
        while (done < count && p < end) done += *p++ < 0x80;
        *at = p;
        return done;
    }
    """
    int64_t c_wide "orcidx_wide"(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out, uint64_t* most,
                                 int* status) noexcept nogil
    int64_t c_wide_fast "orcidx_wide_fast"(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out,
                                           uint64_t* most, int* status) noexcept nogil
    int64_t c_narrow "orcidx_narrow"(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out,
                                     uint64_t* most, int* status) noexcept nogil
    int64_t c_narrow_fast "orcidx_narrow_fast"(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out,
                                               uint64_t* most, int* status) noexcept nogil
    int64_t c_kept_fast "orcidx_kept_fast"(const uint8_t** at, const uint8_t* end, int64_t count, const uint8_t* mask,
                                           int64_t rows, int bits, uint8_t* out, int64_t* kept) noexcept nogil
    const uint64_t* pow10_low "orcidx_pow10_low"
    int64_t c_drop "orcidx_drop_varints"(const uint8_t** at, const uint8_t* end, int64_t count) noexcept nogil
    bint c_is_fast "orcidx_is_fast"() noexcept nogil

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
cdef bint fast = c_is_fast() and os.environ.get("ORCIDX_SIMD") != "none"


cdef bint is_fast() noexcept nogil:
    return fast


cdef int64_t wide_values(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out, uint64_t* most,
                         int* status) noexcept nogil:
    if fast:
        return c_wide_fast(at, end, count, out, most, status)
    return c_wide(at, end, count, out, most, status)


cdef int64_t narrow_values(const uint8_t** at, const uint8_t* end, int64_t count, int64_t* out,
                           uint64_t* most) noexcept nogil:
    cdef int status = 0
    if fast:
        return c_narrow_fast(at, end, count, <uint8_t*> out, most, &status)
    return c_narrow(at, end, count, <uint8_t*> out, most, &status)


cdef int64_t kept_values(const uint8_t** at, const uint8_t* end, int64_t count, const uint8_t* mask, int64_t rows,
                         int precision, uint8_t* out, int64_t* kept) noexcept nogil:
    # A code of this many bits has at most 2**(bits - 1) as its value, which is less than 10**precision.
    cdef int bits = 64 - leading_zeros(pow10_low[precision] - 1)
    return c_kept_fast(at, end, count, mask, rows, bits, out, kept) if fast else 0


cdef int64_t drop_values(const uint8_t** at, const uint8_t* end, int64_t count) noexcept nogil:
    return c_drop(at, end, count)
