"""Questions that are asked of each value of an Arrow array, in one pass over its buffers: 128-bit integers in a range,
and strings by their lengths and first bytes before all others.

Each function writes one byte, 0 or 1, for every value, whatever is null. Sizes are checked on entry, and the GIL is
released. A string is what lies between two offsets; those of an array that rise, and end within its data, as Arrow has
it.
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Whether 0 <= value - first <= most, in words of two halves, the lower first: what lies before wraps around. */
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

    static inline uint64_t orcidx_reversed(uint64_t x) {
        x = ((x & 0x00ff00ff00ff00ffull) << 8) | ((x >> 8) & 0x00ff00ff00ff00ffull);
        x = ((x & 0x0000ffff0000ffffull) << 16) | ((x >> 16) & 0x0000ffff0000ffffull);
        return (x << 32) | (x >> 32);
    }

    /* The first 8 bytes as a number that is ordered as they are, with zeros behind a shorter string. */
    static inline uint64_t orcidx_head(const uint8_t* p, int64_t length, int64_t room) {
        uint64_t word = 0;
        if (room >= 8) {
            memcpy(&word, p, 8);
            word = orcidx_reversed(word);  /* little-endian, as all of this package */
            return length >= 8 ? word : length == 0 ? 0 : word & (~(uint64_t)0 << (64 - 8 * length));
        }
        for (int64_t i = 0; i < 8; i++) word = (word << 8) | (i < length ? p[i] : 0);
        return word;
    }

    /* Where `needle` of at least one byte begins within `size` bytes; -1: nowhere. */
    static int64_t orcidx_find_portable(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) {
        const uint8_t* at = p;
        const uint8_t* end = p + size - length + 1;         /* of where it may begin */
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
    #if !defined(_WIN32)                                    /* which has no memmem */
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
    uint64_t head_of "orcidx_head"(const uint8_t* p, int64_t length, int64_t room) nogil
    int portable "orcidx_portable"
    int64_t find "orcidx_find"(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) nogil

cdef enum:
    WIDE_BYTES = 16
    HEAD = 8                # bytes of a string that are compared at once

# ORCIDX_SIMD=none keeps to portable code, for tests and for comparing
portable = os.environ.get("ORCIDX_SIMD") == "none"

ctypedef fused offset_t:
    int32_t
    int64_t


def within_wide(const uint64_t[::1] words not None, low, span, uint8_t[::1] out not None):
    """Whether ``low <= value <= low + span`` of 128-bit integers; ``words``: the lower half of each, then the upper."""
    cdef Py_ssize_t rows = out.shape[0]
    cdef uint64_t mask = 0xffffffffffffffffu
    cdef uint64_t[2] first = [low & mask, (low >> 64) & mask]
    cdef uint64_t[2] most = [span & mask, (span >> 64) & mask]
    if words.shape[0] != 2 * rows:
        raise ValueError("as many answers as values")
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
        raise ValueError("as many answers as values")
    if offsets[0] < 0 or offsets[rows] < offsets[0] or offsets[rows] > data.shape[0]:
        raise ValueError("offsets beyond the data")
    return 0


def equals(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, const uint8_t[::1] literal not None,
           uint8_t[::1] out not None):
    """Which strings are the literal; others stay as they are, so that several can be asked for."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef int64_t size = data.shape[0], wanted = literal.shape[0]
    cdef const uint8_t* bytes_ = &data[0] if size else NULL
    cdef const uint8_t* other = &literal[0] if wanted else NULL
    cdef const uint8_t* p
    cdef uint64_t head = head_of(other, wanted, wanted) if wanted else 0
    _check(offsets, data, out)
    with nogil:
        for i in range(rows):
            if offsets[i + 1] - offsets[i] != wanted:
                continue
            if wanted == 0:
                out[i] = 1
                continue
            p = bytes_ + offsets[i]
            if head_of(p, wanted, size - offsets[i]) == head:
                if wanted <= HEAD or memcmp(p + HEAD, other + HEAD, wanted - HEAD) == 0:
                    out[i] = 1


def at_ends(const offset_t[::1] offsets not None, const uint8_t[::1] data not None, const uint8_t[::1] front not None,
            const uint8_t[::1] back not None, uint8_t[::1] out not None):
    """Which strings begin with ``front`` and end with ``back``, which do not overlap."""
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
    """Which strings have ``part``, of at least one byte, in them. All are searched as one."""
    cdef Py_ssize_t i = 0, rows = out.shape[0]
    cdef int64_t wanted = part.shape[0], at, found
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
    _check(offsets, data, out)
    if not wanted:
        raise ValueError("nothing to look for")
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
            i += 1  # what begins later in this string ends behind it, too


def follows(int64_t[::1] places not None, const offset_t[::1] offsets not None, const uint8_t[::1] data not None,
            const uint8_t[::1] part not None, int64_t after, uint8_t[::1] out not None):
    """Of strings for which ``out`` is 1: whether ``part``, of at least one byte, is between their place in the data and
    their last ``after`` bytes. The place goes behind it."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef int64_t wanted = part.shape[0], found, room
    cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
    _check(offsets, data, out)
    if not wanted or places.shape[0] != rows:
        raise ValueError("nothing to look for, or nowhere")
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
    """Which strings are within ``low`` and ``high`` (None: no end) as unsigned bytes; the ends are within unless they
    must be ``above`` the one, ``below`` the other."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef int64_t size = data.shape[0], length
    cdef bint has_low = low is not None, has_high = high is not None
    cdef bytes low_bytes = b"" if low is None else low, high_bytes = b"" if high is None else high
    cdef const uint8_t* least = low_bytes
    cdef const uint8_t* most = high_bytes
    cdef int64_t least_size = len(low_bytes), most_size = len(high_bytes)
    cdef uint64_t least_head = head_of(least, least_size, least_size), most_head = head_of(most, most_size, most_size)
    cdef const uint8_t* bytes_ = &data[0] if size else NULL
    cdef const uint8_t* p
    cdef uint64_t head
    cdef int order
    cdef bint fits
    _check(offsets, data, out)
    with nogil:
        for i in range(rows):
            length = offsets[i + 1] - offsets[i]
            p = bytes_ + offsets[i]
            head = head_of(p, length, size - offsets[i]) if size else 0
            fits = True
            if has_low:
                order = _order(p, length, head, least, least_size, least_head)
                fits = order > 0 or (order == 0 and not above)
            if has_high and fits:
                order = _order(p, length, head, most, most_size, most_head)
                fits = order < 0 or (order == 0 and not below)
            out[i] = fits


cdef inline int _order(const uint8_t* p, int64_t length, uint64_t head, const uint8_t* other, int64_t size,
                       uint64_t other_head) noexcept nogil:
    """Below, at or above 0 as a string is below, equal to or above another one."""
    cdef int64_t common
    cdef int order = 0
    if head != other_head:
        return -1 if head < other_head else 1
    common = min(length, size)
    if common > 0:
        order = memcmp(p, other, common)
    if order == 0:
        return -1 if length < size else length > size
    return order
