"""Decimals: decodes unbounded zigzag varints and their scales into Arrow's decimal128.

Each value is a zigzag varint of the unscaled number, of up to 19 bytes. Its scale comes from another stream and may
differ from the type's scale, because writers remove trailing zeros (HiveDecimal). Some writers keep these zeros. In
their files a run of scales has only the type's scale. Then values are decoded directly to the output
(``decimal_varints``), and the scales of the run are not decoded. Otherwise values are decoded a block at a time. If all
values of a block are small and their scales are at most the type's scale, they are only multiplied and widened. All
other values are rescaled in 128 bits with overflow checks.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.bit_unpack cimport leading_zeros  # no-cython-lint: the C code below calls its C function
from orcidx.orc.decimal_varints cimport drop_values, is_fast, narrow_values, wide_values
from orcidx.orc.int128 cimport store_words  # no-cython-lint: the C code below calls its C function
from orcidx.orc.int_rle cimport IntRle, skip_same
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming
from orcidx.orc.window cimport Window

from orcidx.errors import CorruptFile, ValueOutOfRange

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
       and `to`. The bits of their codes must prove that all results fit. Writers remove zeros, so most columns need
       this function. */
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
    int portable "orcidx_portable"

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
portable = os.environ.get("ORCIDX_SIMD") == "none"
# If ORCIDX_RUNS=none is set (in tests and comparisons), all scales are decoded.
cdef bint by_runs = os.environ.get("ORCIDX_RUNS") != "none"

_ROUNDINGS = {"half_up": 0, "truncate": 1, "error": 2}
_REASONS = {
    1: "a decimal does not fit into 128 bits at the column's scale",
    2: "a decimal has more fraction digits than its type, and they are not zero; cut them off with the option"
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
    # Reads up to `count` unscaled values. Stops before the first value whose code has more than 62 bits. Returns the
    # number of values.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    while True:
        at = values.p
        if at != values.end:
            done += narrow_values(&at, values.end, count - done, block + done, most)
            values.p = at
        if done == count or values.end - values.p > 8:
            return done
        if not values.refill():
            values.fail_end()


cdef int read_large(Window values, uint8_t* out, int64_t count, uint64_t* most) except -1 nogil:
    # Reads `count` unscaled values of any size to `out`. Returns a status.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    cdef int status = 0
    while True:
        at = values.p
        if at != values.end:
            done += wide_values(&at, values.end, count - done, out + 16 * done, most, &status)
            values.p = at
        if status or done == count:
            return status
        if not values.refill():
            values.fail_end()


cdef int read_block(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                    int rounding) except -1 nogil:
    # Reads up to BLOCK decimals to `out`, and converts them to the wanted scale. Returns a status.
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
    if small < count or not place_small(block, scale_block, count, scale, precision, most, is_fast(), out):
        widen_integers(block, small, out)
        if all_scales(scale_block, count, scale) == 0:
            return count_digits(out, count, precision, most)
        fit(out, scale_block, count, scale, precision, rounding, &status)
    return status


cdef int read_same(Window values, uint8_t* out, int64_t count, int precision) except -1 nogil:
    # Reads `count` decimals to `out`. They must have the wanted scale. Returns a status.
    cdef uint64_t most = 0
    cdef int status = read_large(values, out, count, &most)
    return status if status else count_digits(out, count, precision, most)


cdef int read_same_narrow(Window values, int64_t* out, int64_t count, int precision) except -1 nogil:
    # Reads decimals of at most NARROW digits to `out`, with 8 bytes for each. They must be stored with the wanted
    # scale. Returns a status. A small value may be stored in more bytes than it needs. ORC Java and C++ also accept
    # this.
    cdef uint8_t wide[16]
    cdef uint64_t most = 0
    cdef int64_t done = 0
    cdef int status = 0
    cdef bint fits = True
    while True:
        done += read_small(values, out + done, count - done, &most)
        if done == count:
            break
        status = read_large(values, wide, 1, &most)
        if status:
            return status
        fits = fits and lies_within(wide, precision)
        halve(wide, 1, out + done)
        done += 1
    return count_narrow(out, count, precision, most) if fits else 3


cdef int check_narrow(int64_t[::1] out, int64_t count, int scale, int precision) except -1:
    if count < 0 or count > out.shape[0]:
        raise ValueError("the values do not fit")
    if not 1 <= precision <= NARROW or not 0 <= scale <= 38:
        raise ValueError(f"decimal({precision}, {scale}) does not fit into 64 bits")
    return 0


def read_narrow_decimals(Window values not None, IntRle scales not None, int64_t[::1] out not None, int64_t count, *,
                         int scale, int precision, str rounding):
    """Does the same as ``read_decimals`` for at most 18 digits, with 8 bytes for each value."""
    cdef uint8_t near[16 * BLOCK]
    cdef int64_t done = 0, step
    cdef int mode = _ROUNDINGS[rounding], status = 0
    check_narrow(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            step = skip_same(scales, count - done, scale) if by_runs else 0
            if step:
                status = read_same_narrow(values, &out[done], step, precision)
            else:
                step = min(count - done, <int64_t> BLOCK)
                status = read_block(values, scales, near, step, scale, precision, mode)
                if not status:
                    halve(near, step, &out[done])
            done += step
    if status:
        refuse_status(status, values.name)


def read_narrow_short_decimals(IntRle values not None, int64_t[::1] out not None, int64_t count, *, int scale,
                               int precision):
    """Does the same as ``read_short_decimals``, with 8 bytes for each value."""
    cdef int64_t done = 0
    cdef int status = 0
    check_narrow(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            done += next_short_decimals(values, count - done, precision, &out[done], &status)
    if status:
        refuse_status(status, values.window.name)


def widen_decimals(const int64_t[::1] values not None, uint8_t[::1] out not None):
    """Widens 64-bit values to 128 bits."""
    cdef int64_t count = values.shape[0]
    if out.shape[0] // 16 < count:
        raise ValueError("the values do not fit")
    if count:
        with nogil:
            widen_integers(&values[0], count, &out[0])


def read_decimals(Window values not None, IntRle scales not None, uint8_t[::1] out not None, int64_t count, *,
                  int scale, int precision, str rounding, bint streaming=False):
    """Reads ``count`` decimals to ``out``, with 16 bytes for each, converted to ``scale``. ``streaming``: ``out`` is
    not read soon.

    Raises ``CorruptFile`` for a value that has more than ``precision`` digits. With rounding "error", raises
    ``ValueOutOfRange`` for a value that loses digits other than zeros.
    """
    cdef uint8_t near[16 * BLOCK]
    cdef uint8_t* target
    cdef int64_t done = 0, step, same
    cdef int mode = _ROUNDINGS[rounding], status = 0
    check(out, count, scale, precision)
    streaming = streaming and count * 16 > STREAMING_BYTES
    with nogil:
        while done < count and not status:
            step = min(count - done, <int64_t> BLOCK)
            target = &near[0] if streaming else &out[16 * done]
            same = skip_same(scales, step if streaming else count - done, scale) if by_runs else 0
            if same:
                step = same
                status = read_same(values, target, step, precision)
            else:
                status = read_block(values, scales, target, step, scale, precision, mode)
            if streaming:
                store_streaming(&out[16 * done], near, 16 * step)
            done += step
        fence_stores()
    if status:
        refuse_status(status, values.name)


def read_short_decimals(IntRle values not None, uint8_t[::1] out not None, int64_t count, *, int scale, int precision):
    """Reads ``count`` decimals of the decimal64 layout: integers that are the unscaled values at the type's scale."""
    cdef int64_t block[BLOCK]
    cdef int64_t done = 0, step
    cdef int status = 0
    check(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            step = min(count - done, <int64_t> BLOCK)
            values.read_int64(block, step)
            widen_integers(block, step, &out[16 * done])
            status = count_digits(&out[16 * done], step, precision, all_bits(block, step))
            done += step
    if status:
        refuse_status(status, values.window.name)


cdef int64_t next_decimals(Window values, IntRle scales, int64_t left, int scale, int precision, int rounding,
                           int64_t* narrow, uint8_t* wide, int* status) except -1 nogil:
    cdef int64_t step = min(left, <int64_t> BLOCK)
    cdef int64_t same = skip_same(scales, step, scale) if by_runs else 0
    if same and precision <= NARROW:
        status[0] = read_same_narrow(values, narrow, same, precision)
    elif same:
        status[0] = read_same(values, wide, same, precision)
    else:
        status[0] = read_block(values, scales, wide, step, scale, precision, rounding)
        if precision <= NARROW and not status[0]:
            halve(wide, step, narrow)
    return same if same else step


cdef int64_t next_short_decimals(IntRle values, int64_t left, int precision, int64_t* narrow,
                                 int* status) except -1 nogil:
    cdef int64_t step = min(left, <int64_t> BLOCK)
    values.read_int64(narrow, step)
    status[0] = count_narrow(narrow, step, precision, all_bits(narrow, step))
    return step


cdef void widen_values(const int64_t* values, int64_t count, uint8_t* out) noexcept nogil:
    widen_integers(values, count, out)


cdef int rounding_of(str rounding) except -1:
    return _ROUNDINGS[rounding]


cdef int refuse_status(int status, str stream) except -1:
    error = ValueOutOfRange if status == 2 else CorruptFile
    raise error(_REASONS[status], stream="SECONDARY" if status == 5 else stream)


def skip_varints(Window window not None, int64_t count):
    """Skips ``count`` values."""
    cdef int64_t done = 0
    cdef const uint8_t* at = NULL
    with nogil:
        while True:
            at = window.p
            if at != window.end:
                done += drop_values(&at, window.end, count - done)
                window.p = at
            if done >= count:
                break
            if not window.refill():
                window.fail_end()
