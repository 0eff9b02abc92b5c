# Signed integers of 128 bits. The same functions exist in two forms: `native_*` with the compiler's `__int128`, if
# there is one, and `halves_*` with two words, for MSVC. If ORCIDX_HALVES is set, the first form is not compiled. Code
# that needs no product and no division works directly on the words.

from libc.stdint cimport uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static const uint64_t orcidx_pow10_low[20] = {1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull,
        10000000ull, 100000000ull, 1000000000ull, 10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull,
        100000000000000ull, 1000000000000000ull, 10000000000000000ull, 100000000000000000ull, 1000000000000000000ull,
        10000000000000000000ull};

    /* Little-endian, as everywhere in this package. */
    static inline void orcidx_store_words(uint8_t* out, uint64_t low, uint64_t high) {
        memcpy(out, &low, 8);
        memcpy(out + 8, &high, 8);
    }

    typedef struct { uint64_t low, high; } halves_t;     /* two's complement */

    static inline halves_t halves_load(const uint8_t* in) {
        halves_t value;
        memcpy(&value.low, in, 8);
        memcpy(&value.high, in + 8, 8);
        return value;
    }

    static inline void halves_store(uint8_t* out, halves_t value) { orcidx_store_words(out, value.low, value.high); }

    static inline halves_t halves_minus(halves_t value) {
        halves_t minus;
        minus.low = 0 - value.low;
        minus.high = ~value.high + (value.low == 0);
        return minus;
    }

    static inline halves_t halves_size(halves_t value) { return value.high >> 63 ? halves_minus(value) : value; }

    /* Compares unsigned numbers. */
    static inline int halves_less(halves_t a, halves_t b) {
        return a.high < b.high || (a.high == b.high && a.low < b.low);
    }

    static inline halves_t halves_product(uint64_t a, uint64_t b) {
        uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
        uint64_t low = a0 * b0, one = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)one;
        halves_t product;
        product.low = other << 32 | (uint32_t)low;
        product.high = a1 * b1 + (one >> 32) + (other >> 32);
        return product;
    }

    static inline halves_t halves_pow10(int n) {  /* 0 <= n <= 38 */
        return halves_product(orcidx_pow10_low[n < 20 ? 0 : 19], orcidx_pow10_low[n < 20 ? n : n - 19]);
    }

    /* Multiplies `value` by 10**n. Returns 1 if the result does not fit. */
    static inline int halves_raise(halves_t* value, int n) {
        halves_t size = halves_size(*value), power = halves_pow10(n), product, upper = {0, 0};
        int negative = (int)(value->high >> 63);
        if (size.high && power.high) return 1;
        product = halves_product(size.low, power.low);
        if (size.high) upper = halves_product(size.high, power.low);
        else if (power.high) upper = halves_product(size.low, power.high);
        product.high += upper.low;
        if (upper.high || product.high < upper.low) return 1;
        *value = negative ? halves_minus(product) : product;
        return (product.low || product.high) && (int)(value->high >> 63) != negative;
    }

    /* Divides `value`, which has no sign, by a number of up to 32 bits. Returns the remainder. */
    static inline uint32_t halves_divide(halves_t* value, uint32_t by) {
        uint64_t words[4], rest = 0;
        int i;
        words[0] = value->high >> 32, words[1] = (uint32_t)value->high;
        words[2] = value->low >> 32, words[3] = (uint32_t)value->low;
        for (i = 0; i < 4; i++) {
            uint64_t word = rest << 32 | words[i];
            words[i] = word / by;
            rest = word % by;
        }
        value->high = words[0] << 32 | words[1];
        value->low = words[2] << 32 | words[3];
        return (uint32_t)rest;
    }

    /* Divides `value` by 10**n, 1 <= n <= 38. `*cut` becomes 1 if digits other than 0 are lost. `*half` becomes 1 if at
       least half of a unit is lost. */
    static inline void halves_lower(halves_t* value, int n, int* cut, int* half) {
        halves_t size = halves_size(*value);
        int negative = (int)(value->high >> 63);
        uint32_t last = 0;
        *cut = 0;
        for (n--; n; n -= n < 9 ? n : 9) *cut |= halves_divide(&size, (uint32_t)orcidx_pow10_low[n < 9 ? n : 9]) != 0;
        last = halves_divide(&size, 10);  /* the first lost digit decides whether at least half of a unit is lost */
        *cut |= last != 0;
        *half = last >= 5;
        *value = negative ? halves_minus(size) : size;
    }

    /* Subtracts 1 if `like` is negative, otherwise adds 1. */
    static inline void halves_step(halves_t* value, halves_t like) {
        if (like.high >> 63) {
            value->high -= value->low == 0;
            value->low--;
        } else {
            value->low++;
            value->high += value->low == 0;
        }
    }

    /* Whether the absolute value is at least a power of ten. */
    static inline int halves_reaches(halves_t value, halves_t power) { return !halves_less(halves_size(value), power); }

    /* Stores `a * b + more`. `b` and `more` are from 0 to 2**31. */
    static inline void halves_store_sum(uint8_t* out, int64_t a, int64_t b, int64_t more) {
        uint64_t lower = (uint64_t)(uint32_t)a * (uint64_t)b + (uint64_t)more;
        int64_t upper = (a >> 32) * b + (int64_t)(lower >> 32);
        orcidx_store_words(out, (uint64_t)upper << 32 | (uint32_t)lower, (uint64_t)(upper >> 32));
    }

    #if defined(__SIZEOF_INT128__) && !defined(_MSC_VER) && !defined(ORCIDX_HALVES)
    #define ORCIDX_NATIVE 1
    typedef __int128 native_t;

    static inline native_t native_load(const uint8_t* in) {
        uint64_t low, high;
        memcpy(&low, in, 8);
        memcpy(&high, in + 8, 8);
        return (native_t)(((unsigned __int128)high << 64) | low);
    }

    static inline void native_store(uint8_t* out, native_t value) {
        orcidx_store_words(out, (uint64_t)value, (uint64_t)((unsigned __int128)value >> 64));
    }

    static inline native_t native_pow10(int n) {
        return n < 20 ? (native_t)orcidx_pow10_low[n] : (native_t)orcidx_pow10_low[19] * orcidx_pow10_low[n - 19];
    }

    static inline int native_raise(native_t* value, int n) {
        return __builtin_mul_overflow(*value, native_pow10(n), value);
    }

    static inline void native_lower(native_t* value, int n, int* cut, int* half) {
        native_t power = native_pow10(n), rest = *value % power;
        *value /= power;
        *cut = rest != 0;
        if (rest < 0) rest = -rest;
        *half = rest >= power - rest;
    }

    static inline void native_step(native_t* value, native_t like) { *value += like < 0 ? -1 : 1; }

    static inline int native_reaches(native_t value, native_t power) { return value >= power || value <= -power; }
    static inline void native_store_sum(uint8_t* out, int64_t a, int64_t b, int64_t more) {
        native_store(out, (native_t)a * b + more);
    }
    #else
    #define ORCIDX_NATIVE 0
    #endif
    """
    void store_words "orcidx_store_words"(uint8_t* out, uint64_t low, uint64_t high) noexcept nogil
