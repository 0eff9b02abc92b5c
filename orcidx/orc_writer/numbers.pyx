"""Columns of booleans, integers, dates and floating-point numbers, and the lengths and tags of lists, maps and unions.

``_take_statistics`` returns (least, greatest, sum) for integers, floats and lengths, and the number of true values for
booleans.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcidx.orc_writer.byte_runs cimport Bits, ByteRuns
from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.columns cimport BLOCK, BaseColumn
from orcidx.orc_writer.compaction cimport compact8, compact16, compact32, compact64
from orcidx.orc_writer.int_runs cimport RUN, IntRuns
from orcidx.orc_writer.positions cimport WrittenPositions
from orcidx.orc_writer.source cimport ArraySource

import numpy as np

from orcidx.orc.kinds import StreamKind

cdef uint64_t PLAIN_NAN = 0x7FF8000000000000ULL
cdef uint64_t MINUS_ZERO = 0x8000000000000000ULL


cdef class RunsColumn(BaseColumn):
    """A column whose rows are written as runs of integers. The totals of the runs are its statistics."""

    cdef IntRuns runs

    cdef int _end_runs(self) except -1:
        return self.runs.end_run()

    cdef object _take_statistics(self, int64_t count):
        if not count:
            return None
        found = (self.runs.totals.least, self.runs.totals.greatest, self.runs.sum())
        self.runs.forget_totals()
        return found


cdef class IntegerColumn(RunsColumn):
    """SHORT, INT, LONG and DATE. ``width``: the bytes of a value, which are 2, 4 or 8."""

    cdef int width
    cdef object run_starts  # where each run begins, if the runs cross row groups (see `write_sequence`); otherwise None

    def __init__(self, open_stream, int width, *, bloom=None):
        self.width = width
        self.runs = IntRuns(open_stream(), signed=True)
        self.streams.append((StreamKind.DATA, self.runs.stream, 1))

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t wide[BLOCK]
        cdef int n, m
        cdef int64_t at = start
        cdef int64_t row
        cdef const uint8_t* validity = source.validity if nulls else NULL
        if self.width == 8 and not nulls:
            if self.bloom is not None:
                self.bloom.add_integers(<const int64_t*>source.values + source.offset + start, stop - start)
            return self.runs.put_many(<const int64_t*>source.values + source.offset + start, stop - start)
        while at < stop:
            n = <int>min(stop - at, <int64_t>BLOCK)
            row = source.offset + at
            if self.width == 8:
                m = compact64(<const int64_t*>source.values + row, validity, row, n, wide)
            elif self.width == 4:
                m = compact32(<const int32_t*>source.values + row, validity, row, n, wide)
            else:
                m = compact16(<const int16_t*>source.values + row, validity, row, n, wide)
            if self.bloom is not None:
                self.bloom.add_integers(wide, m)
            self.runs.put_many(wide, m)
            at += n
        return 0

    def take_over(self, BaseColumn other not None):
        cdef IntegerColumn more = other
        self.runs.join_sequence(more.runs)
        BaseColumn.take_over(self, other)

    def finish(self):
        if not self.keeps_present and len(self.group_starts) > 1 and self.runs.is_sequence(self.rows):
            self.run_starts = self.runs.write_sequence()
        else:
            self.runs.stream.values = self.rows
        BaseColumn.finish(self)

    cdef int _add_positions(self, WrittenPositions table) except -1:
        if self.run_starts is None:
            return BaseColumn._add_positions(self, table)
        rows = np.array([starts[0] for starts in self.group_starts[:table.groups]], np.int64)
        self.runs.stream.add_positions(table, self.run_starts[rows // RUN])
        table.append(rows % RUN)
        return 0

    def clear(self):
        BaseColumn.clear(self)
        self.runs.forget_sequence()
        self.run_starts = None


cdef struct FloatTotals:
    double least
    double greatest
    double sum
    bint has_nan


cdef inline void total_doubles(const double* values, int n, FloatTotals* totals) noexcept nogil:
    """Computes four partial sums. They are added in a fixed order that compilers do not change."""
    cdef double least[4]
    cdef double greatest[4]
    cdef double sums[4]
    cdef int i, lane
    cdef int has_nan = 0
    for lane in range(4):
        least[lane] = totals.least
        greatest[lane] = totals.greatest
        sums[lane] = 0
    i = 0
    while i + 4 <= n:
        for lane in range(4):
            least[lane] = values[i + lane] if values[i + lane] < least[lane] else least[lane]
            greatest[lane] = values[i + lane] if values[i + lane] > greatest[lane] else greatest[lane]
            sums[lane] += values[i + lane]
            has_nan |= values[i + lane] != values[i + lane]
        i += 4
    while i < n:
        least[0] = values[i] if values[i] < least[0] else least[0]
        greatest[0] = values[i] if values[i] > greatest[0] else greatest[0]
        sums[0] += values[i]
        has_nan |= values[i] != values[i]
        i += 1
    for lane in range(4):
        totals.least = min(totals.least, least[lane])
        totals.greatest = max(totals.greatest, greatest[lane])
    totals.sum += (sums[0] + sums[1]) + (sums[2] + sums[3])
    totals.has_nan |= has_nan


cdef class FloatColumn(BaseColumn):
    """FLOAT and DOUBLE. ``width``: 4 or 8. NaNs keep their bits."""

    cdef OutStream data
    cdef int width
    cdef FloatTotals totals

    def __init__(self, open_stream, int width, *, bloom=None):
        self.width = width
        self.data = open_stream()
        self.streams.append((StreamKind.DATA, self.data, 0))
        self._forget()

    cdef void _forget(self) noexcept nogil:
        self.totals.least = INFINITY
        self.totals.greatest = -INFINITY
        self.totals.sum = 0
        self.totals.has_nan = False

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t kept[BLOCK]
        cdef int32_t narrow[BLOCK]
        cdef double wide[BLOCK]
        cdef const double* numbers
        cdef const float* singles
        cdef int n, i
        cdef int64_t at = start
        cdef int64_t row
        while at < stop:
            n = <int>min(stop - at, <int64_t>BLOCK)
            row = source.offset + at
            at += n
            if self.width == 8:
                numbers = <const double*>source.values + row
                if nulls:
                    n = compact64(<const int64_t*>numbers, source.validity, row, n, kept)
                    numbers = <const double*>kept
                self.data.append(<const uint8_t*>numbers, n * 8)
            else:
                singles = <const float*>source.values + row
                if nulls:
                    n = compact_singles(<const int32_t*>singles, source.validity, row, n, narrow)
                    singles = <const float*>narrow
                self.data.append(<const uint8_t*>singles, n * 4)
                for i in range(n):
                    wide[i] = singles[i]
                numbers = wide
            total_doubles(numbers, n, &self.totals)
            if self.bloom is not None:
                self._add_to_bloom(numbers, n)
        return 0

    cdef int _add_to_bloom(self, const double* numbers, int n) except -1 nogil:
        """Adds hashes. 0.0 and -0.0 are equal, so the hashes of both are added if one of them occurs. Every NaN is
        added as the canonical NaN."""
        cdef uint64_t bits
        cdef int i
        for i in range(n):
            memcpy(&bits, &numbers[i], 8)
            if numbers[i] != numbers[i]:
                bits = PLAIN_NAN
            elif numbers[i] == 0:
                self.bloom.add_integer(<int64_t>(bits ^ MINUS_ZERO))
            self.bloom.add_integer(<int64_t>bits)
        return 0

    cdef object _take_statistics(self, int64_t count):
        cdef FloatTotals totals = self.totals
        self._forget()
        if not count:
            return None
        if totals.has_nan:
            # If there are NaN values, the maximum is infinity and the sum is NaN. All current readers understand this,
            # and skip no row that may match (decision 0041).
            return (totals.least if totals.least < INFINITY else -INFINITY), INFINITY, NAN
        # In Java -0.0 is less than 0.0. So if a bound is zero, the statistics must include both zeros.
        return (
            -0.0 if totals.least == 0 else totals.least,
            0.0 if totals.greatest == 0 else totals.greatest,
            totals.sum,
        )


cdef int compact_singles(
    const int32_t* values, const uint8_t* validity, int64_t bit, int n, int32_t* out
) noexcept nogil:
    cdef int i
    cdef int m = 0
    for i in range(n):
        out[m] = values[i]
        m += (validity[(bit + i) >> 3] >> ((bit + i) & 7)) & 1
    return m


cdef class BooleanColumn(BaseColumn):
    """BOOLEAN: the bits of rows that are not null."""

    cdef Bits bits
    cdef OutStream data
    cdef int64_t trues
    cdef list bit_starts

    def __init__(self, open_stream):
        self.data = open_stream()
        self.bits = Bits(self.data)
        self.bit_starts = []

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t row, bit
        cdef int value
        for row in range(start, stop):
            bit = source.offset + row
            self.trues += (source.values[bit >> 3] >> (bit & 7)) & source.is_valid(row)
        if not nulls:
            return self.bits.put_bitmap(source.values, source.offset + start, stop - start)
        self.bits._grow(stop - start)
        for row in range(start, stop):
            if source.is_valid(row):
                bit = source.offset + row
                value = (source.values[bit >> 3] >> (bit & 7)) & 1
                self.bits._put_bit(value)
        return 0

    cdef object _take_statistics(self, int64_t count):
        found = self.trues
        self.trues = 0
        return found

    cdef _start_group(self):
        BaseColumn._start_group(self)
        self.bit_starts.append(self.bits.count)

    def take_over(self, BaseColumn other not None):
        cdef BooleanColumn bools = other
        before = self.bits.count
        self.bit_starts += [before + start for start in bools.bit_starts]
        self.bits.put_bits(bools.bits)
        BaseColumn.take_over(self, other)

    def finish(self):
        pass

    cdef int _add_positions(self, WrittenPositions table) except -1:
        BaseColumn._add_positions(self, table)
        self.bits.encode(table, np.array(self.bit_starts[:table.groups], np.int64))
        return 0

    def all_streams(self):
        return [*BaseColumn.all_streams(self), (int(StreamKind.DATA), self.data)]

    @property
    def held(self):
        return BaseColumn.held.__get__(self) + self.bits.held

    def clear(self):
        BaseColumn.clear(self)
        self.bits.clear()
        self.data.clear()
        self.bit_starts = []


cdef class ByteColumn(BaseColumn):
    """BYTE, which is written as byte runs."""

    cdef ByteRuns runs
    cdef int64_t least
    cdef int64_t greatest
    cdef int64_t sum

    def __init__(self, open_stream, *, bloom=None):
        self.runs = ByteRuns(open_stream())
        self.streams.append((StreamKind.DATA, self.runs.stream, 1))
        self.least = INT64_MAX
        self.greatest = INT64_MIN

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef int64_t wide[BLOCK]
        cdef int n, m, i
        cdef int64_t at = start
        cdef uint8_t* out
        while at < stop:
            n = <int>min(stop - at, <int64_t>BLOCK)
            m = compact8(<const int8_t*>source.values + source.offset + at, source.validity if nulls else NULL,
                         source.offset + at, n, wide)
            out = self.runs.room(m)
            for i in range(m):
                out[i] = <uint8_t>wide[i]
                self.least = min(self.least, wide[i])
                self.greatest = max(self.greatest, wide[i])
                self.sum += wide[i]
            self.runs.size += m
            if self.bloom is not None:
                self.bloom.add_integers(wide, m)
            at += n
        return 0

    cdef int _end_runs(self) except -1:
        return self.runs.end_run()

    cdef object _take_statistics(self, int64_t count):
        found = (self.least, self.greatest, self.sum) if count else None
        self.least = INT64_MAX
        self.greatest = INT64_MIN
        self.sum = 0
        return found

    @property
    def held(self):
        return BaseColumn.held.__get__(self) + <int64_t>self.runs.size


cdef class LengthColumn(RunsColumn):
    """LIST and MAP: the lengths of rows that are not null."""

    def __init__(self, open_stream):
        self.runs = IntRuns(open_stream(), signed=False)
        self.streams.append((StreamKind.LENGTH, self.runs.stream, 1))

    def write_lengths(self, lengths):
        """Writes the lengths (int64) of the rows of the last ``write`` call that are not null."""
        cdef const int64_t[::1] numbers = lengths
        cdef int64_t n = numbers.shape[0]
        if n:
            with nogil:
                self.runs.put_many(&numbers[0], n)


cdef class TagColumn(BaseColumn):
    """UNION: the variant of each row. Rows are never null, because Arrow's unions have no validity bitmap of their
    own."""

    cdef ByteRuns runs

    def __init__(self, open_stream):
        self.runs = ByteRuns(open_stream())
        self.streams.append((StreamKind.DATA, self.runs.stream, 1))

    def write_tags(self, tags):
        """Writes the variants (uint8) of the rows of the last ``write_valid`` call."""
        self.runs.write(tags)

    cdef int _end_runs(self) except -1:
        return self.runs.end_run()
