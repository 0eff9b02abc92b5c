"""Questions that are asked of each value of an Arrow array, in one pass over its buffers: 128-bit integers in a range,
and strings by their lengths and first bytes before all others.

Each function writes one byte, 0 or 1, for every value, whatever is null. Sizes are checked on entry, and the GIL is
released. A string is what lies between two offsets; those of an array that rise, and end within its data, as Arrow has
it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef unsigned __int128 orcidx_wide;

    static inline orcidx_wide orcidx_wide_of(uint64_t high, uint64_t low) {
        return ((orcidx_wide)high << 64) | low;
    }

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
    static inline int64_t orcidx_find(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) {
        const uint8_t* found = length > size ? NULL : (const uint8_t*)memmem(p, size, needle, length);
        return found ? found - p : -1;
    }
    """
    ctypedef int wide "orcidx_wide"
    wide wide_of "orcidx_wide_of"(uint64_t high, uint64_t low) nogil
    uint64_t head_of "orcidx_head"(const uint8_t* p, int64_t length, int64_t room) nogil
    int64_t find "orcidx_find"(const uint8_t* p, int64_t size, const uint8_t* needle, int64_t length) nogil

cdef enum:
    WIDE_BYTES = 16
    HEAD = 8                # bytes of a string that are compared at once

ctypedef fused offset_t:
    int32_t
    int64_t


def within_wide(const uint64_t[::1] words not None, low, span, uint8_t[::1] out not None):
    """Whether ``low <= value <= low + span`` of 128-bit integers; ``words``: the lower half of each, then the upper."""
    cdef Py_ssize_t i, rows = out.shape[0]
    cdef uint64_t mask = 0xffffffffffffffffu
    cdef wide first = wide_of((low >> 64) & mask, low & mask), most = wide_of((span >> 64) & mask, span & mask)
    if words.shape[0] != 2 * rows:
        raise ValueError("as many answers as values")
    with nogil:
        for i in range(rows):
            out[i] = wide_of(words[2 * i + 1], words[2 * i]) - first <= most


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
