"""Timestamps: seconds and coded nanoseconds into instants or wall-clock times, and those into Arrow's units.

    sec = DATA + start of 2015 in the writer's zone
    z = SECONDARY & 7; n = SECONDARY >> 3 (arithmetic); z != 0: n *= 10 ** (z + 1)
    sec < 0 and n > 999999: sec -= 1        (the Java writer truncates milliseconds: ORC-306, ORC-346, ORC-763)
    wall = sec + offset of the writer's zone at sec                            (after the -1: ORC-2151)
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

from orcidx.errors import CorruptFile

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef __int128 orcidx_nanos;
    static inline void orcidx_store_nanos(uint8_t* out, int64_t seconds, int64_t nanos) {
        orcidx_nanos value = (orcidx_nanos)seconds * 1000000000 + nanos;
        memcpy(out, &value, 16);
    }
    static inline int orcidx_to_unit(int64_t seconds, int64_t part, int64_t per_second, int64_t* out) {
        orcidx_nanos value = (orcidx_nanos)seconds * per_second + part;
        *out = (int64_t)value;
        return value != (orcidx_nanos)*out;
    }
    """
    void store_nanos "orcidx_store_nanos"(uint8_t* out, int64_t seconds, int64_t nanos) nogil
    int to_unit "orcidx_to_unit"(int64_t seconds, int64_t part, int64_t per_second, int64_t* out) nogil

cdef int64_t NANOS = 1000000000

cdef int64_t POWERS[8]
POWERS[0] = 1
POWERS[1] = 100
POWERS[2] = 1000
POWERS[3] = 10000
POWERS[4] = 100000
POWERS[5] = 1000000
POWERS[6] = 10000000
POWERS[7] = 100000000

cdef int64_t FARTHEST = <int64_t> 1 << 60       # seconds: so far out no arithmetic with offsets overflows

cdef int64_t FOUR_CENTURIES = 12622780800       # seconds: the Gregorian calendar, and so every rule, repeats


cdef int64_t segment_of(const int64_t* transitions, int64_t n, int64_t second) noexcept nogil:
    """Number of transitions at or before ``second``."""
    cdef int64_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) >> 1
        if transitions[middle] <= second:
            low = middle + 1
        else:
            high = middle
    return low


def decode(int64_t[::1] seconds not None, int64_t[::1] nanos not None, int64_t count, *, int64_t start,
           const int64_t[::1] transitions, const int64_t[::1] offsets, int64_t repeats_from):
    """Turns ``count`` pairs of stored numbers into wall-clock (or UTC) seconds since 1970 and nanoseconds 0..999999999.

    In place. ``start``: what DATA counts from, in seconds since 1970. ``transitions``: instants at which the zone's
    offset changes, ``offsets`` (one more): seconds east of UTC before, between and after them; None for no shift.
    Instants from ``repeats_from`` on look their offset up a multiple of 400 years earlier. Raises ``CorruptFile`` for
    nanoseconds that are no fraction of a second, and for seconds that are no date (36 thousand million years).
    """
    if count < 0 or count > seconds.shape[0] or count > nanos.shape[0]:
        raise ValueError("too few values")
    cdef int64_t zones = 0 if transitions is None else transitions.shape[0]
    if transitions is not None and offsets.shape[0] != zones + 1:
        raise ValueError("a zone has one offset more than transitions")
    cdef int64_t i, second, n, raw, at, low = 1, high = 0, offset = 0, bad = -1, far = -1
    cdef bint shifted = transitions is not None
    cdef const int64_t* changes = &transitions[0] if zones else NULL
    with nogil:
        for i in range(count):
            raw = nanos[i]
            n = (raw >> 3) * POWERS[raw & 7] if raw >> 3 < NANOS and raw >> 3 > -NANOS else NANOS
            if n >= NANOS or n <= -NANOS:
                bad = i
                break
            second = seconds[i]
            if not -FARTHEST < second < FARTHEST:
                far = i
                break
            second += start
            if second < 0 and n > 999999:
                second -= 1
            if n < 0:
                second -= 1
                n += NANOS
            if shifted:
                at = second
                if at >= repeats_from:
                    at = repeats_from - FOUR_CENTURIES + (at - repeats_from) % FOUR_CENTURIES
                if not low <= at < high:
                    offset = segment_of(changes, zones, at)
                    low = changes[offset - 1] if offset else INT64_MIN
                    high = changes[offset] if offset < zones else INT64_MAX
                    offset = offsets[offset]
                second += offset
            seconds[i] = second
            nanos[i] = n
    if bad >= 0:
        raise CorruptFile("nanoseconds that are not within a second", stream="SECONDARY")
    if far >= 0:
        raise CorruptFile(f"a timestamp {seconds[far]} seconds from 2015", stream="DATA")


def lowest(const int64_t[::1] values not None, int64_t count):
    """The least of the first ``count`` values; 0 of none."""
    cdef int64_t i, least = 0
    if count > values.shape[0]:
        raise ValueError("too few values")
    with nogil:
        for i in range(count):
            least = values[i] if values[i] < least else least
    return least


def combine(const int64_t[::1] seconds not None, const int64_t[::1] nanos not None, int64_t count,
            int64_t per_second, int64_t[::1] out not None):
    """Seconds and nanoseconds in units of ``1 / per_second`` s, finer digits floored.

    Returns the index of the first value that does not fit 64 bits, or -1.
    """
    if count < 0 or count > seconds.shape[0] or count > nanos.shape[0] or count > out.shape[0]:
        raise ValueError("the values do not fit")
    cdef int64_t i, bad = -1, divisor = NANOS // per_second
    with nogil:
        if divisor == 1:
            for i in range(count):
                if to_unit(seconds[i], nanos[i], NANOS, &out[i]):
                    bad = i
                    break
        elif divisor == 1000:
            for i in range(count):
                if to_unit(seconds[i], nanos[i] // 1000, 1000000, &out[i]):
                    bad = i
                    break
        else:
            for i in range(count):
                if to_unit(seconds[i], nanos[i] // divisor, per_second, &out[i]):
                    bad = i
                    break
    return bad


def combine_exactly(const int64_t[::1] seconds not None, const int64_t[::1] nanos not None, int64_t count,
                    uint8_t[::1] out not None):
    """Nanoseconds since 1970 as 128-bit integers."""
    if count < 0 or count > seconds.shape[0] or count > nanos.shape[0] or count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    cdef int64_t i
    with nogil:
        for i in range(count):
            store_nanos(&out[16 * i], seconds[i], nanos[i])
