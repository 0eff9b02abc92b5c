# The kernels of decimals: the values of one block are rescaled, and their numbers of digits are checked.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.bit_unpack cimport leading_zeros  # no-cython-lint: the C code below calls its C function
from orcidx.orc.int128 cimport store_words  # no-cython-lint: the C code below calls its C function

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define ORCIDX_LONG ((uint64_t)1 << 62)

    static inline void orcidx_store_int64(uint8_t* out, int64_t value) {
        orcidx_store_words(out, (uint64_t)value, (uint64_t)(value >> 63));
    }

    /* Compares all scales with the scale `to`. Returns 0 if all are equal to `to`, 1 if all are between 0 and `to`,
       otherwise 2. */
    static int orcidx_scales(const int64_t* scales, int64_t count, int64_t to) {
        uint64_t different = 0, outside = 0;
        int64_t i;
        for (i = 0; i < count; i++) {
            different |= (uint64_t)(scales[i] ^ to);
            outside |= (uint64_t)scales[i] | ((uint64_t)to - (uint64_t)scales[i]);
        }
        return !different ? 0 : !(outside >> 63) ? 1 : 2;
    }

    /* Multiplies small values up to a scale. The caller has proved that the results fit the precision. */
    static void orcidx_place(const int64_t* values, const int64_t* scales, int64_t count, int to, uint8_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) {
            int64_t value = scales ? values[i] * (int64_t)orcidx_pow10_low[to - scales[i]] : values[i];
            orcidx_store_int64(out + 16 * i, value);
        }
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_FAST __attribute__((target("avx2")))

    ORCIDX_FAST static int orcidx_scales_fast(const int64_t* scales, int64_t count, int64_t to) {
        const __m256i wanted = _mm256_set1_epi64x(to);
        __m256i different = _mm256_setzero_si256(), outside = different;
        int64_t i;
        for (i = 0; i + 4 <= count; i += 4) {
            __m256i scale = _mm256_loadu_si256((const __m256i*)(scales + i));
            different = _mm256_or_si256(different, _mm256_xor_si256(scale, wanted));
            outside = _mm256_or_si256(outside, _mm256_or_si256(scale, _mm256_sub_epi64(wanted, scale)));
        }
        int rest = orcidx_scales(scales + i, count - i, to);
        if (_mm256_movemask_pd(_mm256_castsi256_pd(outside))) return 2;
        return rest || _mm256_testz_si256(different, different) ? rest : 1;
    }

    /* Does the same as orcidx_place, for values within 32 bits and a scale of at most 7. */
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

    #else
    #define orcidx_place_fast orcidx_place
    #define orcidx_scales_fast orcidx_scales
    #endif

    /* Rescales `count` values in place and checks their digits. Returns -1 if all are valid, otherwise the index of an
       invalid one. `*status` says why: 1: the value does not fit into 128 bits; 2: digits would be lost (rounding 2);
       3: it has more digits than the precision; 5: its scale is impossible. Without scales, all values have the wanted
       scale. FORM names the implementation of 128-bit integers. */
    #define ORCIDX_FIT(FORM) \\
    static inline int orcidx_rescale_##FORM(FORM##_t* value, int from, int to, int rounding) { \\
        int up = to - from, cut, half; \\
        FORM##_t before = *value; \\
        if (up > 38) return FORM##_reaches(before, FORM##_pow10(0)); \\
        if (up >= 0) return FORM##_raise(value, up); \\
        FORM##_lower(value, -up, &cut, &half); \\
        if (cut && rounding == 2) return 2; \\
        if (half && rounding == 0) FORM##_step(value, before); \\
        return 0; \\
    } \\
    static int64_t orcidx_fit_##FORM(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision, \\
                                     int rounding, int* status) { \\
        FORM##_t beyond = FORM##_pow10(precision); \\
        int64_t i; \\
        for (i = 0; i < count; i++) { \\
            FORM##_t value = FORM##_load(values + 16 * i); \\
            if (scales && scales[i] != to) { \\
                *status = scales[i] < -38 || scales[i] > 38 ? 5 \\
                    : orcidx_rescale_##FORM(&value, (int)scales[i], to, rounding); \\
                if (*status) return i; \\
                FORM##_store(values + 16 * i, value); \\
            } \\
            if (FORM##_reaches(value, beyond)) { \\
                *status = 3; \\
                return i; \\
            } \\
        } \\
        return -1; \\
    }
    ORCIDX_FIT(halves)
    #if ORCIDX_NATIVE
    ORCIDX_FIT(native)
    #else
    #define orcidx_fit_native orcidx_fit_halves
    #endif
    static int orcidx_portable = 0;

    static int64_t orcidx_fit(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                              int rounding, int* status) {
        return (orcidx_portable ? orcidx_fit_halves : orcidx_fit_native)(values, scales, count, to, precision, rounding,
                                                                         status);
    }

    /* The bitwise or of the zigzag codes of all values. */
    static uint64_t orcidx_all_bits(const int64_t* values, int64_t count) {
        uint64_t bits = 0;
        int64_t i;
        for (i = 0; i < count; i++) bits |= ((uint64_t)values[i] << 1) ^ (uint64_t)(values[i] >> 63);
        return bits;
    }

    /* Whether `most` proves that all values are within the precision. `most` is the bitwise or of the codes of the
       values. */
    static inline int orcidx_surely_fits(uint64_t most, int precision) {
        if (most & ORCIDX_LONG) return most != ~(uint64_t)0 && precision >= 34;  /* 2**111 has 34 digits */
        if (precision > 18) return 1;
        return (~(uint64_t)0 >> orcidx_leading_zeros(most | 1)) >> 1 < orcidx_pow10_low[precision] - 1;
    }

    /* Whether all values may be multiplied up to the scale `to` in 64 bits. The values may have any scale between 0
       and `to`. The bits of their codes must prove that all results fit. Writers remove trailing zeros, so the values
       of most columns have several scales, and this function is needed. */
    static inline int orcidx_surely_rises(uint64_t most, int to, int precision) {
        uint64_t bound = ((~(uint64_t)0 >> orcidx_leading_zeros(most | 1)) >> 1) + 1;
        return to <= 18 && bound < orcidx_pow10_low[precision < 18 ? precision : 18] / orcidx_pow10_low[to];
    }

    /* Writes values of at most 8 bytes to out, at the scale `to`. Returns 0 and does nothing unless all values
       certainly fit. */
    static int orcidx_place_small(const int64_t* values, const int64_t* scales, int64_t count, int to, int precision,
                                  uint64_t most, int fast, uint8_t* out) {
        int kind = fast ? orcidx_scales_fast(scales, count, to) : orcidx_scales(scales, count, to);
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
        for (i = 0; i < count; i++) orcidx_store_int64(out + 16 * i, in[i]);
    }

    /* Whether all values have at most `precision` digits (18 or fewer). No value may have more than 62 bits, so only
       the low halves are read. */
    static int orcidx_within(const uint8_t* values, int64_t count, int precision) {
        int64_t bound = (int64_t)orcidx_pow10_low[precision] - 1, beyond = 0, i;
        for (i = 0; i < count; i++) {
            int64_t value;
            memcpy(&value, values + 16 * i, 8);
            beyond |= (bound - value) | (bound + value);
        }
        return beyond >= 0;
    }

    /* Whether a 128-bit value has at most `precision` digits (18 or fewer). */
    static int orcidx_lies_within(const uint8_t* value, int precision) {
        int64_t bound = (int64_t)orcidx_pow10_low[precision], low, high;
        memcpy(&low, value, 8);
        memcpy(&high, value + 8, 8);
        return high == low >> 63 && -bound < low && low < bound;
    }

    /* Writes the low halves of values that fit into 64 bits. */
    static void orcidx_halve(const uint8_t* in, int64_t count, int64_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) memcpy(out + i, in + 16 * i, 8);
    }

    /* Returns 0 if 64-bit values have at most `precision` digits (18 or fewer), otherwise 3. `most` is the bitwise
       or of their codes. */
    static int orcidx_count_narrow(const int64_t* values, int64_t count, int precision, uint64_t most) {
        int64_t bound = (int64_t)orcidx_pow10_low[precision] - 1, beyond = 0, i;
        if (!(most & ORCIDX_LONG) && orcidx_surely_fits(most, precision)) return 0;
        for (i = 0; i < count; i++) beyond |= (values[i] > bound) | (values[i] < -bound);
        return beyond ? 3 : 0;
    }

    /* Returns 0 if values at their scale have at most `precision` digits, otherwise 3. `most` is the bitwise or of
       their codes. */
    static int orcidx_count_digits(uint8_t* values, int64_t count, int precision, uint64_t most) {
        int status = 0;
        if (orcidx_surely_fits(most, precision)) return 0;
        if (!(most & ORCIDX_LONG) && precision <= 18) return orcidx_within(values, count, precision) ? 0 : 3;
        orcidx_fit(values, NULL, count, 0, precision, 0, &status);
        return status;
    }
    """
    int64_t fit "orcidx_fit"(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                             int rounding, int* status) nogil
    bint place_small "orcidx_place_small"(const int64_t* values, const int64_t* scales, int64_t count, int to,
                                          int precision, uint64_t most, int fast, uint8_t* out) nogil
    int count_digits "orcidx_count_digits"(uint8_t* values, int64_t count, int precision, uint64_t most) nogil
    int count_narrow "orcidx_count_narrow"(const int64_t* values, int64_t count, int precision, uint64_t most) nogil
    bint lies_within "orcidx_lies_within"(const uint8_t* value, int precision) nogil
    void halve "orcidx_halve"(const uint8_t* values, int64_t count, int64_t* out) nogil
    int all_scales "orcidx_scales"(const int64_t* scales, int64_t count, int64_t to) nogil
    void widen_integers "orcidx_widen"(const int64_t* values, int64_t count, uint8_t* out) nogil
    uint64_t all_bits "orcidx_all_bits"(const int64_t* values, int64_t count) nogil
