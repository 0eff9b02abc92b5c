"""Compares texts by their bytes, and uses only the first sixteen bytes if these differ. Also checks whether bytes are
UTF-8."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(_MSC_VER)
    #include <stdlib.h>
    #define TEXT_BSWAP _byteswap_uint64
    #else
    #define TEXT_BSWAP __builtin_bswap64
    #endif
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define TEXT_BIG(word) (word)
    #else
    #define TEXT_BIG(word) TEXT_BSWAP(word)
    #endif

    /* Returns up to eight bytes as a number. The numbers have the same order as the bytes. */
    static inline uint64_t text_word(const uint8_t* p, int64_t n, const uint8_t* end) {
        uint64_t word = 0;
        if (n <= 0) return 0;
        if (end - p >= 8) memcpy(&word, p, 8);
        else memcpy(&word, p, (size_t)(n < 8 ? n : 8));
        word = TEXT_BIG(word);
        return n >= 8 ? word : word & ~(~(uint64_t)0 >> (8 * n));
    }

    static inline uint64_t text_big(const uint8_t* p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return TEXT_BIG(word);
    }

    static inline int text_is_ascii(const uint8_t* p, int64_t n) {
        uint64_t word, any = 0;
        int64_t i = 0;
        for (; i + 8 <= n; i += 8) { memcpy(&word, p + i, 8); any |= word; }
        for (; i < n; i++) any |= p[i];
        return !(any & 0x8080808080808080ULL);
    }

    /* Checks by RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF. */
    static inline int text_is_utf8(const uint8_t* p, int64_t n) {
        const uint8_t* end = p + n;
        while (p < end) {
            uint8_t a = *p++;
            int more;
            if (a < 0x80) continue;
            if (a < 0xC2 || a > 0xF4) return 0;
            more = a < 0xE0 ? 1 : a < 0xF0 ? 2 : 3;
            if (end - p < more) return 0;
            if ((a == 0xE0 && *p < 0xA0) || (a == 0xED && *p > 0x9F) || (a == 0xF0 && *p < 0x90)
                || (a == 0xF4 && *p > 0x8F)) return 0;
            while (more--) if ((*p++ & 0xC0) != 0x80) return 0;
        }
        return 1;
    }
    """
    uint64_t text_word(const uint8_t* p, int64_t n, const uint8_t* end) noexcept nogil
    uint64_t text_big(const uint8_t* p) noexcept nogil
    bint text_is_ascii(const uint8_t* p, int64_t n) noexcept nogil
    bint text_is_utf8(const uint8_t* p, int64_t n) noexcept nogil


cdef struct Bound:
    const uint8_t* data
    int64_t length
    uint64_t first
    uint64_t second


cdef inline Bound bound_of(const uint8_t* data, int64_t length, const uint8_t* end) noexcept nogil:
    cdef Bound found
    found.data = data
    found.length = length
    found.first = text_word(data, length, end)
    found.second = text_word(data + 8, length - 8, end) if length > 8 else 0
    return found


cdef inline bint is_less(const Bound* a, const Bound* b) noexcept nogil:
    cdef int order
    if a.first != b.first:
        return a.first < b.first
    if a.second != b.second:
        return a.second < b.second
    if a.length <= 8 or b.length <= 8:
        return a.length < b.length
    order = memcmp(a.data + 8, b.data + 8, min(a.length, b.length) - 8)
    return order < 0 or (order == 0 and a.length < b.length)


cdef inline bint is_within(const Bound* value, const Bound* least, const Bound* greatest) noexcept nogil:
    """Whether the first sixteen bytes prove that a text is between two others."""
    return (
        (value.first > least.first) | ((value.first == least.first) & (value.second > least.second))
    ) & ((value.first < greatest.first) | ((value.first == greatest.first) & (value.second < greatest.second)))
