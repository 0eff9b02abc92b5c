"""Decimals: unbounded zigzag varints and their scales, into Arrow's decimal128.

A value of up to 19 bytes is a zigzag varint of the unscaled number; its scale comes from another stream and may differ
from the type's, since writers strip trailing zeros (HiveDecimal). All arithmetic is in 128 bits with overflow checks.
"""

from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.window cimport Window

from orcidx.errors import CorruptFile

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef __int128 orcidx_i128;
    typedef unsigned __int128 orcidx_u128;

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

    static inline uint64_t orcidx_squeeze(uint64_t word) {  /* eight 7-bit groups side by side */
        word &= 0x7f7f7f7f7f7f7f7full;
        word = ((word & 0x7f007f007f007f00ull) >> 1) | (word & 0x007f007f007f007full);
        word = ((word & 0x3fff00003fff0000ull) >> 2) | (word & 0x00003fff00003fffull);
        return ((word & 0x0fffffff00000000ull) >> 4) | (word & 0x000000000fffffffull);
    }

    /* Varints from *at on, at most count. Returns how many were decoded; *status 1: one has more than 128 bits. A varint
       that reaches past end is left alone. */
    static int64_t orcidx_decimal_varints(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out,
                                          int* status) {
        const uint8_t* p = *at;
        int64_t done = 0;
        *status = 0;
        while (done < count) {
            orcidx_u128 value = 0;
            int shift = 0;
            const uint8_t* q = p;
            if (end - p >= 8) {
                uint64_t word, stops;
                memcpy(&word, p, 8);
                stops = ~word & 0x8080808080808080ull;
                if (stops) {
                    int bits = __builtin_ctzll(stops) + 1;  /* 8, 16, ... 64 */
                    uint64_t low = orcidx_squeeze(bits == 64 ? word : word & ((1ull << bits) - 1));
                    int64_t small = (int64_t)(low >> 1) ^ -(int64_t)(low & 1);
                    orcidx_store(out + 16 * done, (orcidx_u128)(orcidx_i128)small);
                    p += bits >> 3;
                    done++;
                    continue;
                }
            }
            for (;;) {
                uint8_t byte;
                if (q == end) goto stop;
                byte = *q++;
                if (shift == 126 && byte > 3) { *status = 1; goto stop; }
                value |= (orcidx_u128)(byte & 0x7f) << shift;
                if (byte < 0x80) break;
                shift += 7;
            }
            value = (value >> 1) ^ -(value & 1);
            orcidx_store(out + 16 * done, value);
            p = q;
            done++;
        }
    stop:
        *at = p;
        return done;
    }

    static int64_t orcidx_drop_varints(const uint8_t** at, const uint8_t* end, int64_t count) {
        const uint8_t* p = *at;
        int64_t done = 0;
        while (done < count && p < end) done += *p++ < 0x80;
        *at = p;
        return done;
    }

    /* Brings a value from one scale to another. 1: it does not fit 128 bits; 2: digits would be lost (rounding 2). */
    static inline int orcidx_rescale(orcidx_i128* value, int64_t from, int to, int rounding) {
        int64_t up = from < -1000 ? 1000 : from > 1000 ? -1000 : to - from;
        if (up == 0 || *value == 0) return 0;
        if (up > 0) {
            orcidx_i128 result;
            if (up > 38 || __builtin_mul_overflow(*value, (orcidx_i128)orcidx_pow10((int)up), &result)) return 1;
            *value = result;
            return 0;
        }
        if (rounding == 2) {
            if (up < -38 || *value % (orcidx_i128)orcidx_pow10((int)-up)) return 2;
            *value /= (orcidx_i128)orcidx_pow10((int)-up);
            return 0;
        }
        if (up < -38) {
            *value = 0;  /* at most 0.17 of a unit: rounds to nothing */
            return 0;
        }
        {
            orcidx_i128 divisor = (orcidx_i128)orcidx_pow10((int)-up);
            orcidx_i128 quotient = *value / divisor, rest = *value % divisor;
            if (rounding == 0) {
                orcidx_i128 magnitude = rest < 0 ? -rest : rest;
                if (magnitude >= divisor - magnitude) quotient += *value < 0 ? -1 : 1;
            }
            *value = quotient;
        }
        return 0;
    }

    /* Rescales and checks the digits of count values in place. -1: all good; else the index of a bad one, *status as
       above or 3: more digits than the precision. */
    static int64_t orcidx_fit(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                              int rounding, int* status) {
        orcidx_i128 bound = (orcidx_i128)orcidx_pow10(precision) - 1;
        int64_t i;
        for (i = 0; i < count; i++) {
            orcidx_i128 value = orcidx_fetch(values + 16 * i);
            if (scales && scales[i] != to) {
                *status = orcidx_rescale(&value, scales[i], to, rounding);
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

    static void orcidx_widen(const int64_t* in, int64_t count, uint8_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) orcidx_store(out + 16 * i, (orcidx_u128)(orcidx_i128)in[i]);
    }
    """
    int64_t decimal_varints "orcidx_decimal_varints"(const uint8_t** at, const uint8_t* end, int64_t count,
                                                     uint8_t* out, int* status) nogil
    int64_t drop_varints "orcidx_drop_varints"(const uint8_t** at, const uint8_t* end, int64_t count) nogil
    int64_t fit "orcidx_fit"(uint8_t* values, const int64_t* scales, int64_t count, int to, int precision,
                             int rounding, int* status) nogil
    void widen_integers "orcidx_widen"(const int64_t* values, int64_t count, uint8_t* out) nogil

_ROUNDINGS = {"half_up": 0, "truncate": 1, "error": 2}
_REASONS = {1: "does not fit 128 bits at the column's scale", 2: "has more fraction digits than its type",
            3: "has more digits than its type's precision"}


def read_varints(Window window not None, uint8_t[::1] out not None, int64_t count):
    """``count`` unscaled values to ``out``, 16 bytes each. Raises ``CorruptFile`` for more than 128 bits."""
    if count < 0 or count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    cdef int64_t done = 0
    cdef int status = 0
    cdef const uint8_t* at = NULL
    if not count:
        return
    with nogil:
        while True:
            at = window.p
            done += decimal_varints(&at, window.end, count - done, &out[16 * done], &status)
            window.p = at
            if done == count or status:
                break
            if not window.refill():
                window.fail_end()
    if status:
        window.fail("a decimal of more than 128 bits")


def skip_varints(Window window not None, int64_t count):
    """Passes over ``count`` values."""
    cdef int64_t done = 0
    cdef const uint8_t* at = NULL
    with nogil:
        while True:
            at = window.p
            done += drop_varints(&at, window.end, count - done)
            window.p = at
            if done == count:
                break
            if not window.refill():
                window.fail_end()


def fit_values(uint8_t[::1] values not None, const int64_t[::1] scales, int64_t count, *, int scale, int precision,
               str rounding):
    """Brings ``count`` values to ``scale``, in place; ``scales`` None when they all have it.

    Raises ``CorruptFile`` for a value that does not fit ``precision`` digits, or, with rounding "error", loses digits.
    """
    if count < 0 or count * 16 > values.shape[0] or (scales is not None and scales.shape[0] < count):
        raise ValueError("the values do not fit")
    if not 1 <= precision <= 38:
        raise ValueError(f"precision {precision}")
    cdef int status = 0, mode = _ROUNDINGS[rounding]
    cdef int64_t bad
    if not count:
        return
    with nogil:
        bad = fit(&values[0], NULL if scales is None else &scales[0], count, scale, precision, mode, &status)
    if bad >= 0:
        raise CorruptFile(f"decimal number {bad} of the batch {_REASONS[status]}")


def widen_values(const int64_t[::1] values not None, uint8_t[::1] out not None, int64_t count):
    """64-bit unscaled values as 128-bit ones."""
    if count < 0 or count > values.shape[0] or count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    if count:
        with nogil:
            widen_integers(&values[0], count, &out[0])
