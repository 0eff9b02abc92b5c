"""Tests each value of an Arrow array in one pass over its buffers. Some functions test whether numbers are in a range.
The other functions test strings, and compare the lengths and first bytes of strings before the rest.

Each function writes one byte, 0 or 1, for every value, including null values. Sizes are checked on entry, and the GIL
is released. A string is the bytes between two offsets. The offsets must ascend and end within the data, as in every
valid Arrow array.
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef enum:
    TWO_WORDS = 16

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Tests whether 0 <= value - first <= most. Each number has two halves, the lower half first. For a value below
       `first`, the difference wraps around to a large number. */
    static void orcidx_within_halves(const uint64_t* words, int64_t rows, const uint64_t* first, const uint64_t* most,
                                     uint8_t* out) {
        uint64_t first_low = first[0], first_high = first[1], most_low = most[0], most_high = most[1];
        int64_t i;
        for (i = 0; i < rows; i++) {
            uint64_t low = words[2 * i] - first_low;
            uint64_t high = words[2 * i + 1] - first_high - (words[2 * i] < first_low);
            out[i] = (high < most_high) | ((high == most_high) & (low <= most_low));
        }
    }

    #if defined(__SIZEOF_INT128__) && !defined(_MSC_VER) && !defined(ORCIDX_HALVES)
    static inline unsigned __int128 orcidx_wide(const uint64_t* words) {
        return ((unsigned __int128)words[1] << 64) | words[0];
    }
    static void orcidx_within_native(const uint64_t* words, int64_t rows, const uint64_t* first, const uint64_t* most,
                                     uint8_t* out) {
        unsigned __int128 start = orcidx_wide(first), span = orcidx_wide(most);
        int64_t i;
        for (i = 0; i < rows; i++) out[i] = orcidx_wide(words + 2 * i) - start <= span;
    }
    #else
    #define orcidx_within_native orcidx_within_halves
    #endif

    /* Returns a number below, equal to or above 0 if the first string is below, equal to or above the other string.
       Compares words of 8 bytes. The last word may overlap bytes that were compared before. A call of memcmp takes as
       long as ten words. */
    static inline int orcidx_order(const uint8_t* p, int64_t length, const uint8_t* other, int64_t size) {
        int64_t common = length < size ? length : size, at = 0;
        uint64_t one = 0, two = 0;
        if (common >= 8) {
            for (; at + 8 <= common; at += 8)
                if ((one = orcidx_raw(p + at)) != (two = orcidx_raw(other + at))) break;
            if (one == two) one = orcidx_raw(p + common - 8), two = orcidx_raw(other + common - 8);
            one = orcidx_reversed8(one), two = orcidx_reversed8(two);
        } else if (common > 0) {
            one = orcidx_few(p, common), two = orcidx_few(other, common);
        }
        if (one != two) return one < two ? -1 : 1;
        return length < size ? -1 : length > size;
    }

    /* The ends of a range of strings. A size of -1 means that there is no such end. For most strings, one word of 8
       bytes decides whether the string is in the range. It is the first word in which the two ends differ. If there is
       only one end, it is the first word in which this end and the first string differ. `words` is the number of words
       before this word. */
    typedef struct {
        const uint8_t *low, *high;
        int64_t low_size, high_size, words;
        uint64_t least, most;
        int above, below, by_word;
    } orcidx_ends;

    static int64_t orcidx_words_alike(const uint8_t* p, int64_t length, const uint8_t* other, int64_t size) {
        int64_t at = 0;
        while (at + 16 <= length && at + 16 <= size && orcidx_raw(p + at) == orcidx_raw(other + at)) at += 8;
        return at / 8;
    }

    static void orcidx_prepare(orcidx_ends* ends, const uint8_t* p, int64_t length) {
        const uint8_t* one = ends->low_size < 0 ? ends->high : ends->low;
        int64_t size = ends->low_size < 0 ? ends->high_size : ends->low_size;
        ends->by_word = (ends->low_size < 0 || ends->low_size >= 8) && (ends->high_size < 0 || ends->high_size >= 8)
            && size >= 8;
        if (!ends->by_word) return;
        if (ends->low_size >= 0 && ends->high_size >= 0) p = ends->high, length = ends->high_size;
        ends->words = orcidx_words_alike(one, size, p, length);
        ends->least = ends->low_size < 0 ? 0 : orcidx_reversed8(orcidx_raw(ends->low + 8 * ends->words));
        ends->most = ends->high_size < 0 ? ~(uint64_t)0 : orcidx_reversed8(orcidx_raw(ends->high + 8 * ends->words));
    }

    static inline int orcidx_between_whole(const orcidx_ends* ends, const uint8_t* p, int64_t length) {
        if (ends->low_size >= 0 && orcidx_order(p, length, ends->low, ends->low_size) < ends->above) return 0;
        return ends->high_size < 0 || orcidx_order(p, length, ends->high, ends->high_size) <= -ends->below;
    }

    #define ORCIDX_BETWEEN_TEXTS(NAME, T) \\
    static void NAME(orcidx_ends* ends, const T* offsets, int64_t rows, const uint8_t* data, uint8_t* out) { \\
        const uint8_t* one = ends->low_size < 0 ? ends->high : ends->low; \\
        int64_t i, k, words, least_size; \\
        if (!rows) return; \\
        orcidx_prepare(ends, data + offsets[0], offsets[1] - offsets[0]); \\
        words = ends->words, least_size = ends->by_word ? 8 * words + 8 : INT64_MAX; \\
        for (i = 0; i < rows; i++) { \\
            const uint8_t* p = data + offsets[i]; \\
            int64_t length = offsets[i + 1] - offsets[i]; \\
            uint64_t word, other = 0; \\
            if (length >= least_size) { \\
                for (k = 0; k < words; k++) other |= orcidx_raw(p + 8 * k) ^ orcidx_raw(one + 8 * k); \\
                word = orcidx_reversed8(orcidx_raw(p + 8 * words)); \\
                if (!other && word != ends->least && word != ends->most) { \\
                    out[i] = (word > ends->least) & (word < ends->most); \\
                    continue; \\
                } \\
            } \\
            out[i] = (uint8_t)orcidx_between_whole(ends, p, length); \\
        } \\
    }
    ORCIDX_BETWEEN_TEXTS(orcidx_between_texts4, int32_t)
    ORCIDX_BETWEEN_TEXTS(orcidx_between_texts8, int64_t)

    /* Sets the output to 1 for strings that equal a literal of at most 16 bytes. `words` has its bytes, and `masks` has
       255 for each of them. 16 bytes are read for every string, so there is no branch that can be mispredicted. */
    #define ORCIDX_EQUALS(NAME, T) \\
    static void NAME(const T* offsets, int64_t rows, const uint8_t* data, int64_t size, const uint64_t* words, \\
                     const uint64_t* masks, uint8_t* out) { \\
        int64_t i; \\
        for (i = 0; i < rows; i++) { \\
            const uint8_t* p = data + offsets[i]; \\
            uint64_t first = (orcidx_raw(p) & masks[0]) ^ words[0]; \\
            uint64_t second = (orcidx_raw(p + 8) & masks[1]) ^ words[1]; \\
            out[i] |= (offsets[i + 1] - offsets[i] == size) & !(first | second); \\
        } \\
    }
    ORCIDX_EQUALS(orcidx_equals4, int32_t)
    ORCIDX_EQUALS(orcidx_equals8, int64_t)

    #define ORCIDX_WITHIN(NAME, TARGET, T, U) \\
        TARGET static void NAME(const T* __restrict values, int64_t rows, T low, U span, uint8_t* __restrict out) { \\
            for (int64_t i = 0; i < rows; i++) out[i] = (U)values[i] - (U)low <= span; \\
        }
    #define ORCIDX_BETWEEN(NAME, TARGET) \\
        TARGET static void NAME(const double* __restrict values, int64_t rows, double low, double high, \\
                                uint8_t* __restrict out) { \\
            for (int64_t i = 0; i < rows; i++) out[i] = (values[i] >= low) & (values[i] <= high); \\
        }
    ORCIDX_BETWEEN(orcidx_between8, )
    ORCIDX_WITHIN(orcidx_within4, , int32_t, uint32_t)
    ORCIDX_WITHIN(orcidx_within8, , int64_t, uint64_t)
    #if defined(__x86_64__) && defined(__GNUC__)
    #define ORCIDX_WITH_AVX2 __attribute__((target("avx2")))
    ORCIDX_BETWEEN(orcidx_between8_avx2, ORCIDX_WITH_AVX2)
    ORCIDX_WITHIN(orcidx_within4_avx2, ORCIDX_WITH_AVX2, int32_t, uint32_t)
    ORCIDX_WITHIN(orcidx_within8_avx2, ORCIDX_WITH_AVX2, int64_t, uint64_t)
    static int orcidx_compares_by_avx2(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2"); }
    #else
    #define orcidx_between8_avx2 orcidx_between8
    #define orcidx_within4_avx2 orcidx_within4
    #define orcidx_within8_avx2 orcidx_within8
    static int orcidx_compares_by_avx2(void) { return 0; }
    #endif

    /* Returns the position of `needle` (at least one byte) within `size` bytes, or -1 if `needle` does not occur. */
    static int64_t orcidx_find_portable(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) {
        const uint8_t* at = p;
        const uint8_t* end = p + size - length + 1;         /* `needle` must begin before `end` */
        while (at < end && (at = (const uint8_t*)memchr(at, needle[0], (size_t)(end - at)))) {
            if (memcmp(at, needle, (size_t)length) == 0) return at - p;
            at++;
        }
        return -1;
    }

    static int orcidx_portable = 0;

    static inline int64_t orcidx_find(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) {
        const uint8_t* found;
        if (length > size) return -1;
    #if !defined(_WIN32)                                    /* Windows has no memmem */
        if (!orcidx_portable) {
            found = (const uint8_t*)memmem(p, (size_t)size, needle, (size_t)length);
            return found ? found - p : -1;
        }
    #endif
        (void)found;
        return orcidx_find_portable(p, size, needle, length);
    }
    """
    void within_halves "orcidx_within_halves"(const uint64_t* words, int64_t rows, const uint64_t* first,
                                              const uint64_t* most, uint8_t* out) nogil
    void within_native "orcidx_within_native"(const uint64_t* words, int64_t rows, const uint64_t* first,
                                              const uint64_t* most, uint8_t* out) nogil
    int portable "orcidx_portable"
    ctypedef struct text_ends "orcidx_ends":
        const uint8_t* low
        const uint8_t* high
        int64_t low_size
        int64_t high_size
        int64_t words
        uint64_t least
        uint64_t most
        int above
        int below
        int by_word
    void between_texts4 "orcidx_between_texts4"(text_ends* ends, const int32_t* offsets, int64_t rows,
                                                const uint8_t* data, uint8_t* out) nogil
    void between_texts8 "orcidx_between_texts8"(text_ends* ends, const int64_t* offsets, int64_t rows,
                                                const uint8_t* data, uint8_t* out) nogil
    void equals4 "orcidx_equals4"(const int32_t* offsets, int64_t rows, const uint8_t* data, int64_t size,
                                  const uint64_t* words, const uint64_t* masks, uint8_t* out) nogil
    void equals8 "orcidx_equals8"(const int64_t* offsets, int64_t rows, const uint8_t* data, int64_t size,
                                  const uint64_t* words, const uint64_t* masks, uint8_t* out) nogil
    void within4 "orcidx_within4"(const int32_t* values, int64_t rows, int32_t low, uint32_t span, uint8_t* out) nogil
    void within8 "orcidx_within8"(const int64_t* values, int64_t rows, int64_t low, uint64_t span, uint8_t* out) nogil
    void within4_avx2 "orcidx_within4_avx2"(const int32_t* values, int64_t rows, int32_t low, uint32_t span,
                                            uint8_t* out) nogil
    void within8_avx2 "orcidx_within8_avx2"(const int64_t* values, int64_t rows, int64_t low, uint64_t span,
                                            uint8_t* out) nogil
    void between8 "orcidx_between8"(const double* values, int64_t rows, double low, double high, uint8_t* out) nogil
    void between8_avx2 "orcidx_between8_avx2"(const double* values, int64_t rows, double low, double high,
                                              uint8_t* out) nogil
    int has_avx2 "orcidx_compares_by_avx2"() nogil
    int64_t find "orcidx_find"(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) nogil

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
cdef bint use_avx2 = has_avx2() and os.environ.get("ORCIDX_SIMD") != "none"
portable = os.environ.get("ORCIDX_SIMD") == "none"

ctypedef fused offset_t:
    int32_t
    int64_t


def is_within_fast():
    """Whether ``within`` is faster than two comparisons by NumPy even for 64-bit integers."""
    return use_avx2


cdef void mark_int32(const int32_t* values, int64_t rows, int32_t low, int32_t high, uint8_t* out) noexcept nogil:
    if low > high:
        memset(out, 0, rows)
    elif use_avx2:
        within4_avx2(values, rows, low, <uint32_t> high - <uint32_t> low, out)
    else:
        within4(values, rows, low, <uint32_t> high - <uint32_t> low, out)


cdef void mark_int64(const int64_t* values, int64_t rows, int64_t low, int64_t high, uint8_t* out) noexcept nogil:
    if low > high:
        memset(out, 0, rows)
    elif use_avx2:
        within8_avx2(values, rows, low, <uint64_t> high - <uint64_t> low, out)
    else:
        within8(values, rows, low, <uint64_t> high - <uint64_t> low, out)


def within(const offset_t[::1] values not None, offset_t low, offset_t high, uint8_t[::1] out not None):
    """Computes ``low <= value <= high`` for integers. ``low`` must not exceed ``high``."""
    cdef Py_ssize_t rows = out.shape[0]
    if values.shape[0] != rows or low > high:
        raise ValueError("the output must have one byte for each value, and low must not exceed high")
    if not rows:
        return
    with nogil:
        if offset_t is int32_t:
            mark_int32(&values[0], rows, low, high, &out[0])
        else:
            mark_int64(&values[0], rows, low, high, &out[0])


def within_doubles(const double[::1] values not None, double low, double high, uint8_t[::1] out not None):
    """Computes ``low <= value <= high`` for doubles. The result is 0 for NaN."""
    cdef Py_ssize_t rows = out.shape[0]
    if values.shape[0] != rows:
        raise ValueError("the output must have one byte for each value")
    if not rows:
        return
    with nogil:
        if use_avx2:
            between8_avx2(&values[0], rows, low, high, &out[0])
        else:
            between8(&values[0], rows, low, high, &out[0])


def within_wide(const uint64_t[::1] words not None, low, span, uint8_t[::1] out not None):
    """Computes ``low <= value <= low + span`` for 128-bit integers. ``words`` has the lower and then the upper half of
    each integer."""
    cdef Py_ssize_t rows = out.shape[0]
    cdef uint64_t mask = 0xffffffffffffffffu
    cdef uint64_t[2] first = [low & mask, (low >> 64) & mask]
    cdef uint64_t[2] most = [span & mask, (span >> 64) & mask]
    if words.shape[0] != 2 * rows:
        raise ValueError("the output must have one byte for each value")
    if not rows:
        return
    with nogil:
        if portable:
            within_halves(&words[0], rows, first, most, &out[0])
        else:
            within_native(&words[0], rows, first, most, &out[0])


cdef int _check(const offset_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] out) except -1:
    cdef Py_ssize_t rows = out.shape[0]
    if offsets.shape[0] != rows + 1:
        raise ValueError("the output must have one byte for each value")
    if offsets[0] < 0 or offsets[rows] < offsets[0] or offsets[rows] > data.shape[0]:
        raise ValueError("the offsets are beyond the end of the data")
    return 0


def equals(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, const uint8_t[::1] literal not None,
           uint8_t[::1] out not None):
    """Sets the output to 1 for strings that equal the literal. Other output stays unchanged, so several literals can be
    tested in turn."""
    cdef Py_ssize_t i, rows = out.shape[0], short_ = 0
    cdef int64_t wanted = literal.shape[0], size = data.shape[0]
    cdef const uint8_t* bytes_ = &data[0] if size else NULL
    cdef const uint8_t* other = &literal[0] if wanted else NULL
    cdef uint64_t words[2]
    cdef uint64_t masks[2]
    _check(offsets, data, out)
    if not rows:
        return
    with nogil:
        if 0 < wanted <= TWO_WORDS and offsets[rows] - offsets[0] <= rows * TWO_WORDS:
            short_ = rows
            while short_ and offsets[short_ - 1] + TWO_WORDS > size:    # the data ends too soon after the last strings
                short_ -= 1
            memset(words, 0, TWO_WORDS)
            memset(masks, 0, TWO_WORDS)
            memset(masks, 255, wanted)
            memcpy(words, other, wanted)
            if offset_t is int32_t:
                equals4(&offsets[0], short_, bytes_, wanted, words, masks, &out[0])
            else:
                equals8(&offsets[0], short_, bytes_, wanted, words, masks, &out[0])
        for i in range(short_, rows):
            if offsets[i + 1] - offsets[i] == wanted and are_same(bytes_ + offsets[i], other, wanted):
                out[i] = 1


def at_ends(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, const uint8_t[::1] front not None,
            const uint8_t[::1] back not None, uint8_t[::1] out not None):
    """Writes for each string whether it begins with ``front`` and ends with ``back``. The two parts must not overlap in
    the string."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef int64_t size = data.shape[0], before = front.shape[0], after = back.shape[0], length
    cdef const uint8_t* bytes_ = &data[0] if size else NULL
    cdef const uint8_t* first = &front[0] if before else NULL
    cdef const uint8_t* last = &back[0] if after else NULL
    _check(offsets, data, out)
    with nogil:
        for i in range(rows):
            length = offsets[i + 1] - offsets[i]
            out[i] = (
                length >= before + after
                and (before == 0 or memcmp(bytes_ + offsets[i], first, before) == 0)
                and (after == 0 or memcmp(bytes_ + offsets[i + 1] - after, last, after) == 0)
            )


def contains(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, const uint8_t[::1] part not None,
             uint8_t[::1] out not None):
    """Writes for each string whether it contains ``part``, which has at least one byte. The bytes of all strings are
    searched as one text."""
    cdef Py_ssize_t i = 0, rows = out.shape[0]
    cdef int64_t wanted = part.shape[0], at, found
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
    _check(offsets, data, out)
    if not wanted:
        raise ValueError("part is empty")
    with nogil:
        for i in range(rows):
            out[i] = 0
        i = 0
        while i < rows:
            at = offsets[i]
            found = find(bytes_ + at, offsets[rows] - at, &part[0], wanted)
            if found < 0:
                break
            at += found
            while i < rows and offsets[i + 1] <= at:
                i += 1
            if i < rows and at + wanted <= offsets[i + 1]:
                out[i] = 1
            i += 1  # a match that begins later in this string also ends after the string


def follows(int64_t[::1] places not None, const offset_t[::1] offsets not None, const uint8_t[::1] data not None,
            const uint8_t[::1] part not None, int64_t after, uint8_t[::1] out not None):
    """For each string for which ``out`` is 1, writes whether ``part`` (at least one byte) occurs in a range of the
    string.

    The range begins at the string's position in ``places``, and ends before the last ``after`` bytes of the string. If
    ``part`` is found, the position becomes the end of the found part."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef int64_t wanted = part.shape[0], found, room
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
    _check(offsets, data, out)
    if not wanted or places.shape[0] != rows:
        raise ValueError("part is empty, or places does not have one position for each string")
    with nogil:
        for i in range(rows):
            if not out[i]:
                continue
            room = offsets[i + 1] - after - places[i]
            found = -1
            if offsets[i] <= places[i] and room >= wanted:
                found = find(bytes_ + places[i], room, &part[0], wanted)
            out[i] = found >= 0
            places[i] += found + wanted


def between(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, low, high,
            uint8_t[::1] out not None, *, bint above=False, bint below=False):
    """Writes for each string whether it is between ``low`` and ``high`` (None: no end), compared as unsigned bytes. The
    ends are included, except ``low`` if ``above`` is set and ``high`` if ``below`` is set."""
    cdef Py_ssize_t rows = out.shape[0]
    cdef bytes low_bytes = b"" if low is None else low, high_bytes = b"" if high is None else high
    cdef text_ends ends
    # `bytes_` must not be NULL, because an offset must not be added to NULL.
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else <const uint8_t*> low_bytes
    _check(offsets, data, out)
    ends.low, ends.low_size = low_bytes, -1 if low is None else len(low_bytes)
    ends.high, ends.high_size = high_bytes, -1 if high is None else len(high_bytes)
    ends.above, ends.below, ends.words, ends.least, ends.most = above, below, 0, 0, 0
    if rows:
        with nogil:
            if offset_t is int32_t:
                between_texts4(&ends, &offsets[0], rows, bytes_, &out[0])
            else:
                between_texts8(&ends, &offsets[0], rows, bytes_, &out[0])
