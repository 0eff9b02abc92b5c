"""Decimals: unbounded zigzag varints and their scales, into Arrow's decimal128.

A value of up to 19 bytes is a zigzag varint of the unscaled number; its scale comes from another stream and may differ
from the type's, since writers strip trailing zeros (HiveDecimal). A block at a time is decoded; when all its values are
small and of scales up to the type's, as most are, they are multiplied and widened, and that is all. Otherwise each is
rescaled and checked, in 128 bits with overflow checks.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window

from orcidx.errors import CorruptFile, ValueOutOfRange

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif

    typedef __int128 orcidx_i128;
    typedef unsigned __int128 orcidx_u128;

    #define ORCIDX_STOPS 0x8080808080808080ull
    #define ORCIDX_LONG ((uint64_t)1 << 62)

    static const uint64_t orcidx_pow10_low[20] = {1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull,
        10000000ull, 100000000ull, 1000000000ull, 10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull,
        100000000000000ull, 1000000000000000ull, 10000000000000000ull, 100000000000000000ull, 1000000000000000000ull,
        10000000000000000000ull};

    static inline orcidx_u128 orcidx_pow10(int n) {  /* 0 <= n <= 38 */
        return n < 20 ? (orcidx_u128)orcidx_pow10_low[n] : (orcidx_u128)orcidx_pow10_low[19] * orcidx_pow10_low[n - 19];
    }

    static inline void orcidx_store(uint8_t* out, orcidx_u128 value) {
        uint64_t low = (uint64_t)value, high = (uint64_t)(value >> 64);
        memcpy(out, &low, 8);
        memcpy(out + 8, &high, 8);
    }

    static inline orcidx_i128 orcidx_fetch(const uint8_t* in) {
        uint64_t low, high;
        memcpy(&low, in, 8);
        memcpy(&high, in + 8, 8);
        return (orcidx_i128)(((orcidx_u128)high << 64) | low);
    }

    static inline uint64_t orcidx_load64(const uint8_t* p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return word;
    }

    static inline uint64_t orcidx_squeeze(uint64_t word) {  /* eight 7-bit groups side by side */
        word &= 0x7f7f7f7f7f7f7f7full;
        word = ((word & 0x7f007f007f007f00ull) >> 1) | (word & 0x007f007f007f007full);
        word = ((word & 0x3fff00003fff0000ull) >> 2) | (word & 0x00003fff00003fffull);
        return ((word & 0x0fffffff00000000ull) >> 4) | (word & 0x000000000fffffffull);
    }

    /* Bit i: byte i of the 64 from p on is the last of a varint. */
    static inline uint64_t orcidx_stop_bits(const uint8_t* p) {
        uint64_t bits = 0;
        int i;
    #ifdef __SSE2__
        for (i = 0; i < 4; i++)
            bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_loadu_si128((const __m128i*)(p + 16 * i))) << (16 * i);
        return ~bits;
    #else
        for (i = 0; i < 8; i++) {
            uint64_t stops = (~orcidx_load64(p + 8 * i) & ORCIDX_STOPS) >> 7;
            bits |= (stops * 0x0102040810204080ull >> 56) << (8 * i);
        }
        return bits;
    #endif
    }

    static inline uint64_t orcidx_low_bytes(uint64_t word, int count) {  /* 1 <= count <= 8 */
        return word & ~(uint64_t)0 >> (64 - 8 * count);
    }

    /* A varint of 9 bytes and more, whose size is known. 1: it has more than 128 bits. */
    static inline int orcidx_long_varint(const uint8_t* p, int size, orcidx_u128* value) {
        orcidx_u128 low = orcidx_squeeze(orcidx_load64(p));
        if (size <= 16) {
            *value = low | (orcidx_u128)orcidx_squeeze(orcidx_low_bytes(orcidx_load64(p + 8), size - 8)) << 56;
            return 0;
        }
        if (size > 19 || (size == 19 && p[18] > 3)) return 1;
        *value = low | (orcidx_u128)orcidx_squeeze(orcidx_load64(p + 8)) << 56
            | (orcidx_u128)orcidx_squeeze(orcidx_low_bytes(orcidx_load64(p + 16), size - 16)) << 112;
        return 0;
    }

    /* Up to count varints from *at on, those that end before end, behind which 64 bytes may be loaded. Returns how
       many. *status 4: one has more than 128 bits. *most: or-ed with the zigzag codes, ORCIDX_LONG for those of 57 to
       112 bits, all ones beyond. The ends of many varints are found first: were each sought from the end of the one
       before, every value would wait for it. */
    static int64_t orcidx_decimal_varints(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out,
                                          uint64_t* most, int* status) {
        const uint8_t* p = *at;
        uint64_t seen = *most;
        int64_t done = 0;
        *status = 0;
        while (done < count && p < end) {
            uint64_t stops = orcidx_stop_bits(p);
            int start = 0;
            if (end - p < 64) stops &= ((uint64_t)1 << (end - p)) - 1;
            if (!stops) {
                if (end - p >= 19) *status = 4;
                break;
            }
            for (; stops && done < count; stops &= stops - 1, done++) {
                int stop = __builtin_ctzll(stops), size = stop + 1 - start;
                if (size <= 8) {
                    uint64_t code = orcidx_squeeze(orcidx_low_bytes(orcidx_load64(p + start), size));
                    int64_t value = (int64_t)(code >> 1) ^ -(int64_t)(code & 1);
                    seen |= code;
                    orcidx_store(out + 16 * done, (orcidx_u128)(orcidx_i128)value);
                } else {
                    orcidx_u128 value = 0;
                    *status = orcidx_long_varint(p + start, size, &value) ? 4 : 0;
                    if (*status) break;
                    seen |= size <= 16 ? ORCIDX_LONG : ~(uint64_t)0;
                    orcidx_store(out + 16 * done, (value >> 1) ^ -(value & 1));
                }
                start = stop + 1;
            }
            p += start;
            if (*status) break;
        }
        *at = p;
        *most = seen;
        return done;
    }

    /* Up to count varints of at most 8 bytes, those that end before end, behind which 64 bytes may be loaded. Returns
       how many; fewer than asked for when the bytes end or before a longer one. *most: or-ed with the zigzag codes. */
    #define ORCIDX_SMALL_VARINTS(NAME, TARGET, CODE, SINGLES) \\
    TARGET static int64_t NAME(const uint8_t** at, const uint8_t* end, int64_t count, int64_t* out, uint64_t* most) { \\
        const uint8_t* p = *at; \\
        uint64_t seen = *most; \\
        int64_t done = 0; \\
        while (done < count && p < end) { \\
            uint64_t stops = orcidx_stop_bits(p); \\
            int64_t start = 0; \\
            SINGLES \\
            if (end - p < 64) stops &= ((uint64_t)1 << (end - p)) - 1; \\
            for (; stops && done < count; stops &= stops - 1, done++) { \\
                int64_t stop = __builtin_ctzll(stops), size = stop + 1 - start; \\
                uint64_t code; \\
                if (size > 8) break; \\
                code = CODE(orcidx_load64(p + start), size); \\
                seen |= code; \\
                out[done] = (int64_t)(code >> 1) ^ -(int64_t)(code & 1); \\
                start = stop + 1; \\
            } \\
            if (!start) break; \\
            p += start; \\
        } \\
        *at = p; \\
        *most = seen; \\
        return done; \\
    }
    #define ORCIDX_CODE(word, size) orcidx_squeeze(orcidx_low_bytes(word, size))
    ORCIDX_SMALL_VARINTS(orcidx_small_varints, , ORCIDX_CODE, )

    /* What all scales are: 0 the wanted one, 1 between 0 and that, 2 anything. */
    static int orcidx_scales(const int64_t* scales, int64_t count, int64_t to) {
        uint64_t different = 0, outside = 0;
        int64_t i;
        for (i = 0; i < count; i++) {
            different |= (uint64_t)(scales[i] ^ to);
            outside |= (uint64_t)scales[i] | ((uint64_t)to - (uint64_t)scales[i]);
        }
        return !different ? 0 : !(outside >> 63) ? 1 : 2;
    }

    /* Small values brought up to a scale, which fit the precision, as their bits have proved. */
    static void orcidx_place(const int64_t* values, const int64_t* scales, int64_t count, int to, uint8_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) {
            int64_t value = scales ? values[i] * (int64_t)orcidx_pow10_low[to - scales[i]] : values[i];
            orcidx_store(out + 16 * i, (orcidx_u128)(orcidx_i128)value);
        }
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_FAST __attribute__((target("avx2,bmi,bmi2")))
    #define ORCIDX_FAST_CODE(word, size) _pext_u64(_bzhi_u64(word, (unsigned)(8 * (size))), 0x7f7f7f7f7f7f7f7full)
    /* 64 values of a byte each */
    #define ORCIDX_SINGLES \\
        if (stops == ~(uint64_t)0 && end - p >= 64 && count - done >= 64) { \\
            int i; \\
            for (i = 0; i < 64; i += 4) { \\
                int four; \\
                __m256i code, value; \\
                memcpy(&four, p + i, 4); \\
                code = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)); \\
                value = _mm256_xor_si256(_mm256_srli_epi64(code, 1), _mm256_sub_epi64(_mm256_setzero_si256(), \\
                    _mm256_and_si256(code, _mm256_set1_epi64x(1)))); \\
                _mm256_storeu_si256((__m256i*)(out + done + i), value); \\
            } \\
            seen |= 127; \\
            done += 64; \\
            p += 64; \\
            continue; \\
        }
    ORCIDX_SMALL_VARINTS(orcidx_small_varints_fast, ORCIDX_FAST, ORCIDX_FAST_CODE, ORCIDX_SINGLES)

    /* Values within 32 bits, for a scale of at most 7. */
    ORCIDX_FAST static void orcidx_place_fast(const int64_t* values, const int64_t* scales, int64_t count, int to,
                                              uint8_t* out) {
        const __m256i powers = _mm256_setr_epi32(1, 10, 100, 1000, 10000, 100000, 1000000, 10000000);
        const __m256i wanted = _mm256_set1_epi64x(to);
        int64_t i;
        for (i = 0; i + 4 <= count; i += 4) {
            __m256i value = _mm256_loadu_si256((const __m256i*)(values + i)), sign, low, high;
            if (scales) {
                __m256i up = _mm256_sub_epi64(wanted, _mm256_loadu_si256((const __m256i*)(scales + i)));
                value = _mm256_mul_epi32(value, _mm256_permutevar8x32_epi32(powers, up));
            }
            sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), value);
            low = _mm256_unpacklo_epi64(value, sign);
            high = _mm256_unpackhi_epi64(value, sign);
            _mm256_storeu_si256((__m256i*)(out + 16 * i), _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_storeu_si256((__m256i*)(out + 16 * i + 32), _mm256_permute2x128_si256(low, high, 0x31));
        }
        orcidx_place(values + i, scales ? scales + i : scales, count - i, to, out + 16 * i);
    }

    /* Those processors whose pext is slow do without. */
    static int orcidx_is_fast(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1")
            && !__builtin_cpu_is("znver2") && !__builtin_cpu_is("bdver4");
    }
    #else
    #define orcidx_small_varints_fast orcidx_small_varints
    #define orcidx_place_fast orcidx_place
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

    /* Brings a value from one scale to another. 1: it does not fit 128 bits; 2: digits would be lost (rounding 2). */
    static inline int orcidx_rescale(orcidx_i128* value, int from, int to, int rounding) {
        int up = to - from;
        orcidx_i128 factor, quotient, rest;
        if (up >= 0) {
            if (*value == 0) return 0;
            return up > 38 || __builtin_mul_overflow(*value, (orcidx_i128)orcidx_pow10(up), value);
        }
        factor = (orcidx_i128)orcidx_pow10(-up);
        quotient = *value / factor;
        rest = *value % factor;
        if (rest && rounding == 2) return 2;
        if (rounding == 0) {
            orcidx_i128 magnitude = rest < 0 ? -rest : rest;
            if (magnitude >= factor - magnitude) quotient += *value < 0 ? -1 : 1;
        }
        *value = quotient;
        return 0;
    }

    /* Rescales and checks the digits of count values in place. -1: all good; else the index of a bad one, *status as
       above, 3: more digits than the precision, 5: an impossible scale. Without scales, all have the wanted one. */
    static int64_t orcidx_fit(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                              int rounding, int* status) {
        orcidx_i128 bound = (orcidx_i128)orcidx_pow10(precision) - 1;
        int64_t i;
        for (i = 0; i < count; i++) {
            orcidx_i128 value = orcidx_fetch(values + 16 * i);
            if (scales && scales[i] != to) {
                *status = scales[i] < -38 || scales[i] > 38 ? 5 : orcidx_rescale(&value, (int)scales[i], to, rounding);
                if (*status) return i;
                orcidx_store(values + 16 * i, (orcidx_u128)value);
            }
            if (value > bound || value < -bound) {
                *status = 3;
                return i;
            }
        }
        return -1;
    }

    /* Whether codes that or to most are all within the precision, seen from their bits alone. */
    static inline int orcidx_surely_fits(uint64_t most, int precision) {
        if (most & ORCIDX_LONG) return most != ~(uint64_t)0 && precision >= 34;  /* 2**111 has 34 digits */
        if (precision > 18) return 1;
        return (~(uint64_t)0 >> __builtin_clzll(most | 1)) >> 1 < orcidx_pow10_low[precision] - 1;
    }

    /* Whether values may be multiplied up to a scale in 64 bits, whatever theirs is between 0 and that, and all fit: as
       the bits of their codes prove. Writers strip zeros, so most columns need it. */
    static inline int orcidx_surely_rises(uint64_t most, int to, int precision) {
        uint64_t bound = ((~(uint64_t)0 >> __builtin_clzll(most | 1)) >> 1) + 1;
        return to <= 18 && bound < orcidx_pow10_low[precision < 18 ? precision : 18] / orcidx_pow10_low[to];
    }

    /* Values of at most 8 bytes each to out, at the scale. 0, and nothing done, unless it is sure that all fit. */
    static int orcidx_place_small(const int64_t* values, const int64_t* scales, int64_t count, int to, int precision,
                                  uint64_t most, int fast, uint8_t* out) {
        int kind = orcidx_scales(scales, count, to);
        if (kind == 0 ? !orcidx_surely_fits(most, precision) : kind == 2 || !orcidx_surely_rises(most, to, precision))
            return 0;
        if (kind == 0) scales = NULL;
        if (fast && (!scales || (to <= 7 && most >> 32 == 0)))
            orcidx_place_fast(values, scales, count, to, out);
        else
            orcidx_place(values, scales, count, to, out);
        return 1;
    }

    static void orcidx_widen(const int64_t* in, int64_t count, uint8_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) orcidx_store(out + 16 * i, (orcidx_u128)(orcidx_i128)in[i]);
    }
    """
    int64_t decimal_varints "orcidx_decimal_varints"(const uint8_t** at, const uint8_t* end, int64_t count,
                                                     uint8_t* out, uint64_t* most, int* status) nogil
    int64_t drop_varints "orcidx_drop_varints"(const uint8_t** at, const uint8_t* end, int64_t count) nogil
    int64_t fit "orcidx_fit"(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                             int rounding, int* status) nogil
    int64_t small_varints "orcidx_small_varints"(const uint8_t** at, const uint8_t* end, int64_t count, int64_t* out,
                                                 uint64_t* most) nogil
    int64_t small_varints_fast "orcidx_small_varints_fast"(const uint8_t** at, const uint8_t* end, int64_t count,
                                                           int64_t* out, uint64_t* most) nogil
    bint place_small "orcidx_place_small"(const int64_t* values, const int64_t* scales, int64_t count, int to,
                                          int precision, uint64_t most, int fast, uint8_t* out) nogil
    bint surely_fits "orcidx_surely_fits"(uint64_t most, int precision) nogil
    int all_scales "orcidx_scales"(const int64_t* scales, int64_t count, int64_t to) nogil
    int is_fast "orcidx_is_fast"() nogil
    void widen_integers "orcidx_widen"(const int64_t* values, int64_t count, uint8_t* out) nogil

cdef enum:
    BLOCK = 1024            # 16 KiB of them, so that they stay in the cache on their way past the caches

# ORCIDX_SIMD=none keeps to portable code, for tests and for comparing
cdef bint fast = is_fast() and os.environ.get("ORCIDX_SIMD") != "none"

_ROUNDINGS = {"half_up": 0, "truncate": 1, "error": 2}
_REASONS = {
    1: "a decimal does not fit 128 bits at the column's scale",
    2: "a decimal has more fraction digits than its type, and they are not zero; cut them with the option"
       " decimal_rounding='truncate' (as pyarrow) or round them with 'half_up' (as Spark)",
    3: "a decimal has more digits than its type's precision",
    4: "a decimal has more than 128 bits",
    5: "the scale of a decimal is not between -38 and 38",
}


cdef int check(uint8_t[::1] out, int64_t count, int scale, int precision) except -1:
    if count < 0 or count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    if not 1 <= precision <= 38 or not 0 <= scale <= 38:
        raise ValueError(f"decimal({precision}, {scale})")
    return 0


cdef int64_t read_small(Window values, int64_t* block, int64_t count, uint64_t* most) except -1 nogil:
    # Up to count unscaled values, those before the first of more than 8 bytes; how many.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    while True:
        at = values.p
        if at != values.end:
            if fast:
                done += small_varints_fast(&at, values.end, count - done, block + done, most)
            else:
                done += small_varints(&at, values.end, count - done, block + done, most)
            values.p = at
        if done == count or values.end - values.p > 8:
            return done
        if not values.refill():
            values.fail_end()


cdef int read_large(Window values, uint8_t* out, int64_t count, uint64_t* most) except -1 nogil:
    # count unscaled values of any size to out; a status.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    cdef int status = 0
    while True:
        at = values.p
        if at != values.end:
            done += decimal_varints(&at, values.end, count - done, out + 16 * done, most, &status)
            values.p = at
        if status or done == count:
            return status
        if not values.refill():
            values.fail_end()


cdef int read_block(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                    int rounding) except -1 nogil:
    # Up to BLOCK decimals to out, at the scale; a status.
    cdef int64_t block[BLOCK]
    cdef int64_t scale_block[BLOCK]
    cdef int status = 0
    cdef uint64_t most = 0
    cdef int64_t small = read_small(values, block, count, &most)
    if small < count:
        status = read_large(values, out + 16 * small, count - small, &most)
        if status:
            return status
    scales.read_int64(scale_block, count)
    if small < count or not place_small(block, scale_block, count, scale, precision, most, fast, out):
        widen_integers(block, small, out)
        if not (surely_fits(most, precision) and all_scales(scale_block, count, scale) == 0):
            fit(out, scale_block, count, scale, precision, rounding, &status)
    return status


def read_decimals(Window values not None, IntRle scales not None, uint8_t[::1] out not None, int64_t count, *,
                  int scale, int precision, str rounding, bint streaming=False):
    """``count`` decimals to ``out``, 16 bytes each, brought to ``scale``. ``streaming``: nobody reads them soon.

    Raises ``CorruptFile`` for a value that does not fit ``precision`` digits, and with rounding "error"
    ``ValueOutOfRange`` for one that loses digits other than zeros.
    """
    cdef uint8_t near[16 * BLOCK]
    cdef uint8_t* target
    cdef int64_t done = 0, step
    cdef int mode = _ROUNDINGS[rounding], status = 0
    check(out, count, scale, precision)
    streaming = streaming and count * 16 > STREAMING_BYTES
    with nogil:
        while done < count and not status:
            step = min(count - done, <int64_t> BLOCK)
            target = &near[0] if streaming else &out[16 * done]
            status = read_block(values, scales, target, step, scale, precision, mode)
            if streaming:
                store_streaming(&out[16 * done], near, 16 * step)
            done += step
        fence_stores()
    if status:
        error = ValueOutOfRange if status == 2 else CorruptFile
        raise error(_REASONS[status], stream="SECONDARY" if status == 5 else values.name)


def read_short_decimals(IntRle values not None, uint8_t[::1] out not None, int64_t count, *, int scale, int precision):
    """``count`` decimals of the decimal64 layout: integers that are the unscaled values at the type's scale."""
    cdef int64_t block[BLOCK]
    cdef int64_t done = 0, step
    cdef int status = 0
    check(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            step = min(count - done, <int64_t> BLOCK)
            values.read_int64(block, step)
            widen_integers(block, step, &out[16 * done])
            fit(&out[16 * done], NULL, step, scale, precision, 0, &status)
            done += step
    if status:
        raise CorruptFile(_REASONS[status], stream=values.window.name)


def skip_varints(Window window not None, int64_t count):
    """Passes over ``count`` values."""
    cdef int64_t done = 0
    cdef const uint8_t* at = NULL
    with nogil:
        while True:
            at = window.p
            if at != window.end:
                done += drop_varints(&at, window.end, count - done)
                window.p = at
            if done >= count:
                break
            if not window.refill():
                window.fail_end()
