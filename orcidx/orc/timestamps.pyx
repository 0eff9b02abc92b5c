"""Timestamps: turns seconds and coded nanoseconds into instants or local times, and then into Arrow's units.

    sec = DATA + start of 2015 in the writer's zone
    z = SECONDARY & 7; n = SECONDARY >> 3 (arithmetic); z != 0: n *= 10 ** (z + 1)
    sec < 0 and n > 999999: sec -= 1        (the Java writer truncates milliseconds: ORC-306, ORC-346, ORC-763)
    wall = sec + offset of the writer's zone at sec                            (after the -1: ORC-2151)

pyarrow's writer stores negative nanoseconds before 1970. They count backwards from the second.
"""

import os

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcidx.errors import CorruptFile, ValueOutOfRange
from orcidx.orc.int128 cimport store_words  # no-cython-lint: the C code below calls its C function
from orcidx.orc.int_rle cimport BLOCK, IntRle
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define ORCIDX_SECOND 1000000000ll
    #define ORCIDX_LATEST ((int64_t)1 << 61)  /* 70 billion years; up to this limit no sum below overflows */

    static const int64_t orcidx_zeros[8] = {1, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

    /* Turns stored numbers into seconds since 1970 (UTC) and nanoseconds 0..999999999, in place. Returns 1 if
       nanoseconds are not a fraction of a second, and 2 if seconds are beyond ORCIDX_LATEST. *earliest becomes a
       lower bound of the seconds. The code has no branches. */
    static int orcidx_decode_times(int64_t* seconds, int64_t* nanos, int64_t count, int64_t start, int64_t* earliest) {
        uint64_t bad_nanos = 0, bad_seconds = 0;
        uint64_t any_nanos = 0, any_second = 0;
        int64_t least = INT64_MAX, i;
        for (i = 0; i < count; i++) {
            any_nanos |= (uint64_t)nanos[i];
            any_second |= (uint64_t)seconds[i] + (uint64_t)start;
        }
        if (!(any_second >> 60) && !(any_nanos >> 33)) {  /* nearly all values are since 1970 and need few checks */
            *earliest = 0;
            for (i = 0; i < count; i++) seconds[i] += start;
            for (i = 0; i < count && any_nanos; i++) {
                nanos[i] = (nanos[i] >> 3) * orcidx_zeros[nanos[i] & 7];
                bad_nanos |= (uint64_t)(ORCIDX_SECOND - 1 - nanos[i]);
            }
            return (int)(bad_nanos >> 63);
        }
        for (i = 0; i < count; i++) {
            int64_t digits = nanos[i] >> 3;
            int64_t n = (int64_t)((uint64_t)digits * (uint64_t)orcidx_zeros[nanos[i] & 7]);
            int64_t second = (int64_t)((uint64_t)seconds[i] + (uint64_t)start);
            int64_t back;
            bad_nanos |= (uint64_t)(digits + (ORCIDX_SECOND - 1)) > 2 * (uint64_t)(ORCIDX_SECOND - 1);
            bad_nanos |= (uint64_t)n + (ORCIDX_SECOND - 1) > 2 * (uint64_t)(ORCIDX_SECOND - 1);
            bad_seconds |= (uint64_t)seconds[i] + ORCIDX_LATEST > 2 * (uint64_t)ORCIDX_LATEST;
            back = n < 0;
            second = (int64_t)((uint64_t)second - (uint64_t)((second < 0) & (n > 999999)) - (uint64_t)back);
            n += -back & ORCIDX_SECOND;
            least = second < least ? second : least;
            seconds[i] = second;
            nanos[i] = n;
        }
        *earliest = least;
        return bad_nanos ? 1 : bad_seconds ? 2 : 0;
    }

    static void orcidx_whole_nanos(const int64_t* seconds, const int64_t* nanos, int64_t count, int64_t* out) {
        int64_t i;
        for (i = 0; i < count; i++) out[i] = (int64_t)((uint64_t)seconds[i] * ORCIDX_SECOND + (uint64_t)nanos[i]);
    }

    static void orcidx_whole_micros(const int64_t* seconds, const int64_t* nanos, int64_t count, int64_t* out) {
        int64_t i;
        for (i = 0; i < count; i++)
            out[i] = (int64_t)((uint64_t)seconds[i] * 1000000 + (uint64_t)((uint32_t)nanos[i] / 1000));
    }

    /* Converts to any unit, with a check. Returns the index of the first value that does not fit into 64 bits, or
       -1. The first and the last second within the bounds may overflow, too. The value then has the wrong sign. */
    static int64_t orcidx_whole_units(const int64_t* seconds, const int64_t* nanos, int64_t count, int64_t per_second,
                                      int64_t* out) {
        int64_t i, divisor = ORCIDX_SECOND / per_second, most = INT64_MAX / per_second, least = -most - 1;
        for (i = 0; i < count; i++) {
            int64_t value = (int64_t)((uint64_t)seconds[i] * (uint64_t)per_second + (uint64_t)(nanos[i] / divisor));
            out[i] = value;
            if (seconds[i] > most || seconds[i] < least || (value ^ seconds[i]) < 0) return i;
        }
        return -1;
    }

    #define ORCIDX_EXACT(FORM) \\
    static void orcidx_exact_##FORM(const int64_t* seconds, const int64_t* nanos, int64_t count, uint8_t* out) { \\
        int64_t i; \\
        for (i = 0; i < count; i++) FORM##_store_sum(out + 16 * i, seconds[i], ORCIDX_SECOND, nanos[i]); \\
    }
    ORCIDX_EXACT(halves)
    #if ORCIDX_NATIVE
    ORCIDX_EXACT(native)
    #else
    #define orcidx_exact_native orcidx_exact_halves
    #endif
    static int orcidx_portable = 0;

    static void orcidx_exact_nanos(const int64_t* seconds, const int64_t* nanos, int64_t count, uint8_t* out) {
        (orcidx_portable ? orcidx_exact_halves : orcidx_exact_native)(seconds, nanos, count, out);
    }
    """
    int decode_times "orcidx_decode_times"(int64_t* seconds, int64_t* nanos, int64_t count, int64_t start,
                                           int64_t* earliest) nogil
    void whole_nanos "orcidx_whole_nanos"(const int64_t* seconds, const int64_t* nanos, int64_t count,
                                          int64_t* out) nogil
    void whole_micros "orcidx_whole_micros"(const int64_t* seconds, const int64_t* nanos, int64_t count,
                                            int64_t* out) nogil
    int64_t whole_units "orcidx_whole_units"(const int64_t* seconds, const int64_t* nanos, int64_t count,
                                             int64_t per_second, int64_t* out) nogil
    void exact_nanos "orcidx_exact_nanos"(const int64_t* seconds, const int64_t* nanos, int64_t count,
                                          uint8_t* out) nogil
    int portable "orcidx_portable"

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
portable = os.environ.get("ORCIDX_SIMD") == "none"

_BEYOND = "a date is millions of years away, and its days do not fit into the 32 bits of date32"

# After this many seconds the Gregorian calendar repeats, and so do the rules of time zones.
cdef int64_t FOUR_CENTURIES = 12622780800


cdef int check_pairs(const int64_t[::1] seconds, const int64_t[::1] nanos, int64_t count) except -1:
    if count < 1 or count > seconds.shape[0] or count > nanos.shape[0]:
        raise ValueError("too few values")
    return 0


def beyond_32_bits():
    """The error for dates whose days do not fit into 32 bits."""
    return ValueOutOfRange(_BEYOND, stream="DATA")


cdef int fill_days(IntRle days, int32_t* out, int64_t count, int32_t first, bint streaming) except -1 nogil:
    cdef int32_t block[BLOCK]
    cdef int64_t i, step, done = 0
    cdef int32_t before = 0
    streaming = streaming and count * 4 > STREAMING_BYTES
    days.wrapped = False
    while done < count:
        step = days.some_int32(block, min(count - done, <int64_t> BLOCK))
        for i in range(step):
            before |= block[i] < first
        if streaming:
            store_streaming(out + done, block, 4 * step)
        else:
            memcpy(out + done, block, 4 * step)
        done += step
    fence_stores()
    return before != 0


def read_days(IntRle days not None, int32_t[::1] out not None, int64_t count, int32_t first, *, bint streaming=False):
    """Reads ``count`` dates to ``out``. Returns whether one of them is before ``first``. ``streaming``: ``out`` is
    not read soon.

    Raises ``ValueOutOfRange`` for days beyond 32 bits. If they were truncated to 32 bits instead, they would be read as
    other dates. Bloom filters that ORC C++ wrote contain the days before truncation. So a search for a truncated date
    would not find its rows.
    """
    cdef int before = 0
    if not 0 <= count <= out.shape[0]:
        raise ValueError("the values do not fit")
    days.wrapped = False
    if count:
        with nogil:
            before = fill_days(days, &out[0], count, first, streaming)
    if days.wrapped:
        raise beyond_32_bits()
    return before != 0


def read_kept_days(IntRle days not None, int32_t[::1] out not None, Mask mask not None, int32_t first):
    """Reads a date for each row of ``mask``, as ``read_days`` does. Writes the kept dates to ``out``, which must have
    room for one date more. All dates are checked."""
    cdef int32_t block[BLOCK]
    cdef int64_t i, step, done = 0, kept = 0, rows = mask.rows
    cdef int32_t before = 0
    if mask.count >= out.shape[0]:
        raise ValueError("there must be room for one value more than are kept")
    days.wrapped = False
    with nogil:
        while done < rows:
            step = days.near_int32(block, rows - done)
            for i in range(step):
                before |= block[i] < first
            kept += keep_block(block, 4, mask.at + done, step, &out[kept])
            done += step
    if days.wrapped:
        raise beyond_32_bits()
    return before != 0


def decode(int64_t[::1] seconds not None, int64_t[::1] nanos not None, int64_t count, int64_t start):
    """Turns ``count`` (>= 1) pairs of stored numbers into seconds since 1970 and nanoseconds 0..999999999.

    The conversion is in place. ``start``: the time from which DATA counts, in seconds since 1970. Returns a lower bound
    of the seconds. Raises ``CorruptFile`` for nanoseconds that are not a fraction of a second, and for seconds beyond
    2**61.
    """
    cdef int64_t earliest = 0
    cdef int status
    check_pairs(seconds, nanos, count)
    with nogil:
        status = decode_times(&seconds[0], &nanos[0], count, start, &earliest)
    if status == 1:
        raise CorruptFile("nanoseconds are not within a second", stream="SECONDARY")
    if status == 2:
        raise CorruptFile("a timestamp is more than 2**61 seconds from 2015", stream="DATA")
    return earliest


def to_wall_clock(int64_t[::1] seconds not None, int64_t count, *, const int64_t[::1] transitions not None,
                  const int64_t[::1] offsets not None, const int32_t[::1] hints not None, int64_t hints_from,
                  int64_t hint_seconds, int64_t repeats_from):
    """Adds the zone's offset to each of ``count`` instants, in place.

    ``transitions``: instants at which the offset changes, ascending. ``offsets``: seconds east of UTC before, between
    and after the transitions, so there is one offset more than transitions. ``hints[i]``: how many transitions are at
    or before ``hints_from`` plus ``i`` times ``hint_seconds``. For instants from ``repeats_from`` on, the offset is
    looked up a multiple of 400 years earlier.
    """
    cdef int64_t n = transitions.shape[0], hinted = hints.shape[0]
    cdef int64_t i, at, number, low = 1, high = 0, offset = 0
    if offsets.shape[0] != n + 1 or hint_seconds < 1 or hinted < 1:
        raise ValueError("a zone must have one offset more than transitions, and hints")
    if not 0 <= count <= seconds.shape[0]:
        raise ValueError("too few values")
    with nogil:
        for i in range(count):
            at = seconds[i]
            if at >= repeats_from:
                at = repeats_from - FOUR_CENTURIES + (at - repeats_from) % FOUR_CENTURIES
            if not low <= at < high:
                number = 0
                if at >= hints_from:
                    number = hints[min((at - hints_from) // hint_seconds, hinted - 1)]
                    while number < n and transitions[number] <= at:
                        number += 1
                low = transitions[number - 1] if number else INT64_MIN
                high = transitions[number] if number < n else INT64_MAX
                offset = offsets[number]
            seconds[i] += offset


def combine(const int64_t[::1] seconds not None, const int64_t[::1] nanos not None, int64_t count,
            int64_t per_second, int64_t[::1] out not None):
    """Converts seconds (as ``decode`` returns them) and nanoseconds to units of ``1 / per_second`` s, rounded down.

    Returns the index of the first value that does not fit into 64 bits, or -1.
    """
    cdef int64_t i, bound, bad = -1
    cdef uint64_t outside = 0
    check_pairs(seconds, nanos, count)
    if count > out.shape[0] or per_second not in (1, 1000, 1000000, 1000000000):
        raise ValueError("the values do not fit")
    bound = INT64_MAX // per_second - 1         # within this range nothing can overflow
    with nogil:
        if per_second >= 1000000:
            for i in range(count):
                outside |= <uint64_t> (bound - seconds[i]) | <uint64_t> (bound + seconds[i])
            outside >>= 63                      # the sign bit, which is set if a second is out of bounds
        if per_second < 1000000 or outside:
            bad = whole_units(&seconds[0], &nanos[0], count, per_second, &out[0])
        elif per_second == 1000000:
            whole_micros(&seconds[0], &nanos[0], count, &out[0])
        else:
            whole_nanos(&seconds[0], &nanos[0], count, &out[0])
    return bad


def combine_exactly(const int64_t[::1] seconds not None, const int64_t[::1] nanos not None, int64_t count,
                    uint8_t[::1] out not None):
    """Converts seconds and nanoseconds to nanoseconds since 1970, as 128-bit integers."""
    check_pairs(seconds, nanos, count)
    if count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    with nogil:
        exact_nanos(&seconds[0], &nanos[0], count, &out[0])
