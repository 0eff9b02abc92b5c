"""TIMESTAMP: seconds since 2015, and nanoseconds. Trailing zeros of the nanoseconds are replaced by their number.

The first ORC writer rounded the seconds of times before 1970 towards zero if the nanoseconds are 1,000,000 or more.
This became a part of the format: writers add one second to these times, and readers subtract one second. Therefore a
time in the last second before 1970, but not in the first millisecond of this second, cannot be distinguished from a
time after 1970 (ORC-763). Such a time is refused.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t

from orcidx.orc_writer.columns cimport BLOCK, BaseColumn
from orcidx.orc_writer.compaction cimport compact64
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.source cimport ArraySource

from orcidx.orc.kinds import StreamKind

cdef extern from *:
    """
    #include <stdint.h>
    /* Splits n values. `per` is the number of units in a second, and `factor` turns the rest into nanoseconds.
       Returns the index of the first value that ORC cannot store, or -1. */
    static inline int timestamp_split(const int64_t* v, int n, const int64_t per, const int64_t factor,
                                      const int zeros, int64_t* seconds, int64_t* nanos) {
        int i, wrong = -1;
        for (i = 0; i < n; i++) {
            int64_t s = v[i] / per, rest = v[i] % per, below = rest < 0;
            int64_t limit = factor >= 1000000 ? 0 : 999999 / factor;
            s -= below;
            rest += below ? per : 0;
            if (s < 0 && rest > limit) {
                if (s == -1 && wrong < 0) wrong = i;
                s += 1;
            }
            seconds[i] = (int64_t)((uint64_t)s - 1420070400u);   /* since 2015-01-01 00:00:00 UTC */
            nanos[i] = rest;
        }
        for (i = 0; i < n; i++) {
            uint32_t rest = (uint32_t)nanos[i];
            int k = zeros;
            if (!rest) { nanos[i] = 0; continue; }
            while (k < 8 && rest % 10 == 0) { rest /= 10; k++; }
            /* A single zero is not counted, because its code would be the code for no zero. */
            nanos[i] = k >= 2 ? (int64_t)rest << 3 | (k - 1) : (int64_t)rest * (k ? 10 : 1) << 3;
        }
        return wrong;
    }
    static int timestamp_seconds(const int64_t* v, int n, int64_t* s, int64_t* r) {
        return timestamp_split(v, n, 1, 1000000000, 8, s, r); }
    static int timestamp_millis(const int64_t* v, int n, int64_t* s, int64_t* r) {
        return timestamp_split(v, n, 1000, 1000000, 6, s, r); }
    static int timestamp_micros(const int64_t* v, int n, int64_t* s, int64_t* r) {
        return timestamp_split(v, n, 1000000, 1000, 3, s, r); }
    static int timestamp_nanos(const int64_t* v, int n, int64_t* s, int64_t* r) {
        return timestamp_split(v, n, 1000000000, 1, 0, s, r); }
    """
    int timestamp_seconds(const int64_t* v, int n, int64_t* s, int64_t* r) noexcept nogil
    int timestamp_millis(const int64_t* v, int n, int64_t* s, int64_t* r) noexcept nogil
    int timestamp_micros(const int64_t* v, int n, int64_t* s, int64_t* r) noexcept nogil
    int timestamp_nanos(const int64_t* v, int n, int64_t* s, int64_t* r) noexcept nogil

UNITS = ("s", "ms", "us", "ns")


cdef class TimestampColumn(BaseColumn):
    """TIMESTAMP and TIMESTAMP_INSTANT. ``unit``: the unit of the values and of the statistics (least, greatest)."""

    cdef IntRuns seconds
    cdef IntRuns nanos
    cdef int unit
    cdef int64_t least
    cdef int64_t greatest

    def __init__(self, open_stream, str unit, *, bloom=None):
        self.unit = UNITS.index(unit)
        self.seconds = IntRuns(open_stream(), signed=True)
        self.nanos = IntRuns(open_stream(), signed=False)
        self.streams.append((StreamKind.DATA, self.seconds.stream, 1))
        self.streams.append((StreamKind.SECONDARY, self.nanos.stream, 1))
        self.least = INT64_MAX
        self.greatest = INT64_MIN

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t kept[BLOCK]
        cdef int64_t seconds[BLOCK]
        cdef int64_t nanos[BLOCK]
        cdef const int64_t* values
        cdef int n, m, i, wrong
        cdef int64_t at = start
        while at < stop:
            n = <int>min(stop - at, <int64_t>BLOCK)
            values = <const int64_t*>source.values + source.offset + at
            m = n
            if nulls:
                m = compact64(values, source.validity, source.offset + at, n, kept)
                values = kept
            for i in range(m):
                self.least = min(self.least, values[i])
                self.greatest = max(self.greatest, values[i])
            wrong = self._split(values, m, seconds, nanos)
            if wrong >= 0:
                with gil:
                    self._refuse_one(source, at, values[wrong])
                return 0
            self.seconds.put_many(seconds, m)
            self.nanos.put_many(nanos, m)
            if self.bloom is not None:
                self._add_to_bloom(values, m)
            at += n
        return 0

    cdef int _split(self, const int64_t* values, int n, int64_t* seconds, int64_t* nanos) noexcept nogil:
        if self.unit == 0:
            return timestamp_seconds(values, n, seconds, nanos)
        if self.unit == 1:
            return timestamp_millis(values, n, seconds, nanos)
        if self.unit == 2:
            return timestamp_micros(values, n, seconds, nanos)
        return timestamp_nanos(values, n, seconds, nanos)

    cdef int _refuse_one(self, ArraySource source, int64_t row, int64_t value) except -1:
        cdef const int64_t* values = <const int64_t*>source.values + source.offset
        while values[row] != value or not source.is_valid(row):
            row += 1
        return self._refuse(
            row,
            f"ORC has no time {value} {UNITS[self.unit]} after 1970: the last second before 1970 has only times in its "
            "first millisecond (ORC-763)",
        )

    cdef int _add_to_bloom(self, const int64_t* values, int n) except -1 nogil:
        """Adds the values to the bloom filter, in milliseconds, rounded down."""
        cdef int64_t millis
        cdef int64_t per = 1 if self.unit == 1 else 1000 if self.unit == 2 else 1000000
        cdef int i
        for i in range(n):
            if self.unit == 0:
                millis = <int64_t>(<uint64_t>values[i] * 1000)
            else:
                millis = values[i] // per - (values[i] % per < 0)
            self.bloom.add_integer(millis)
        return 0

    cdef int _end_runs(self) except -1:
        self.seconds.end_run()
        return self.nanos.end_run()

    cdef object _take_statistics(self, int64_t count):
        found = (self.least, self.greatest) if count else None
        self.least = INT64_MAX
        self.greatest = INT64_MIN
        return found
