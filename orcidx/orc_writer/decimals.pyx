"""DECIMAL: unscaled values as zigzag varints, and for each value its scale, which is always the scale of the column.

Arrow has 128 bits for each value, as two words. Values of up to 18 digits fit into the low word. Shifts distribute its
bits to the bytes of the varint, with seven bits in each. Values of more digits are written by a loop. Arrow does not
guarantee that values fit the precision, so this is checked.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

from orcidx.orc_writer.bit_packing cimport runs_bits  # no-cython-lint: the C code below calls its C function
from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.columns cimport BLOCK, BaseColumn
from orcidx.orc_writer.int_runs cimport IntRuns
from orcidx.orc_writer.source cimport ArraySource

from orcidx.orc.kinds import StreamKind

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Writes a zigzag-coded number as a varint at p (at most ten bytes). Returns its length. Stores at least eight
       bytes. */
    static inline int decimal_varint(uint64_t v, uint8_t* p) {
        int bits = runs_bits(v | 1), i, n = (bits + 6) / 7;
        if (bits <= 56) {
            uint64_t x = v, more;
            x = ((x & 0x00FFFFFFF0000000ULL) << 4) | (x & 0x000000000FFFFFFFULL);
            x = ((x & 0x0FFFC0000FFFC000ULL) << 2) | (x & 0x00003FFF00003FFFULL);
            x = ((x & 0x3F803F803F803F80ULL) << 1) | (x & 0x007F007F007F007FULL);
            more = 0x8080808080808080ULL & (((uint64_t)1 << (8 * (n - 1))) - 1);
            x |= more;
            #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            x = __builtin_bswap64(x);
            #endif
            memcpy(p, &x, 8);
            return n;
        }
        for (i = 0; v >= 0x80; i++) { p[i] = (uint8_t)(v | 0x80); v >>= 7; }
        p[i] = (uint8_t)v;
        return i + 1;
    }

    /* Does the same as decimal_varint for a number of two words. Stores no bytes after the varint. */
    static inline int decimal_wide_varint(uint64_t low, uint64_t high, uint8_t* p) {
        int i = 0;
        while (high || low >= 0x80) {
            p[i++] = (uint8_t)(low | 0x80);
            low = low >> 7 | high << 57;
            high >>= 7;
        }
        p[i] = (uint8_t)low;
        return i + 1;
    }

    typedef struct { uint64_t low; int64_t high; } decimal_t;
    static inline int decimal_less(decimal_t a, decimal_t b) {
        return a.high < b.high || (a.high == b.high && a.low < b.low);
    }
    """
    int decimal_varint(uint64_t v, uint8_t* p) noexcept nogil
    int decimal_wide_varint(uint64_t low, uint64_t high, uint8_t* p) noexcept nogil
    ctypedef struct decimal_t:
        uint64_t low
        int64_t high
    bint decimal_less(decimal_t a, decimal_t b) noexcept nogil


cdef class DecimalColumn(BaseColumn):
    """decimal128 values. Statistics: (least, greatest, sum), all unscaled."""

    cdef OutStream data
    cdef IntRuns scales
    cdef int scale
    cdef int precision
    cdef object most                        # the largest value, unscaled
    cdef decimal_t limit  # no value may be beyond this limit
    cdef decimal_t negative_limit
    cdef decimal_t least
    cdef decimal_t greatest
    cdef uint64_t sums[4]  # sums of the four 32-bit parts of value + 2**127
    cdef int64_t scales_due
    cdef int64_t summed

    def __init__(self, open_stream, int precision, int scale, *, bloom=None):
        self.data = open_stream()
        self.scales = IntRuns(open_stream(), signed=True)
        self.streams.append((StreamKind.DATA, self.data, 0))
        self.streams.append((StreamKind.SECONDARY, self.scales.stream, 1))
        self.scale = scale
        self.precision = precision
        self.most = 10 ** <object>precision - 1
        self.limit = words(self.most)
        self.negative_limit = words(-self.most)
        self._forget()

    cdef void _forget(self) noexcept nogil:
        cdef int i
        self.least.high = INT64_MAX
        self.least.low = <uint64_t>-1
        self.greatest.high = INT64_MIN
        self.greatest.low = 0
        for i in range(4):
            self.sums[i] = 0
        self.summed = 0

    cdef int _put(self, ArraySource source, int64_t start, int64_t stop, int64_t nulls) except -1 nogil:
        cdef decimal_t kept[BLOCK]
        cdef const decimal_t* values
        cdef int n, m, i
        cdef int64_t at = start
        while at < stop:
            n = <int>min(stop - at, <int64_t>BLOCK)
            values = <const decimal_t*>source.values + source.offset + at
            if nulls:
                m = 0
                for i in range(n):
                    kept[m] = values[i]
                    m += source.is_valid(at + i)
                values = kept
            else:
                m = n
            if m:
                if self._fits_a_word(values, m):
                    self._put_narrow(values, m)
                else:
                    self._put_wide(values, m)
                if decimal_less(self.limit, self.greatest) or decimal_less(self.least, self.negative_limit):
                    with gil:
                        self._refuse_one(source, at, n)
                    return 0
                if self.bloom is not None:
                    self._add_to_bloom(values, m)
            at += n
            self.scales_due += m
        return 0

    cdef bint _fits_a_word(self, const decimal_t* values, int n) noexcept nogil:
        cdef int64_t other = 0
        cdef int i
        for i in range(n):
            other |= values[i].high ^ (<int64_t>values[i].low >> 63)
        return other == 0

    cdef int _put_narrow(self, const decimal_t* values, int n) except -1 nogil:
        cdef int64_t least = INT64_MAX
        cdef int64_t greatest = INT64_MIN
        cdef int64_t value
        cdef uint64_t low = 0
        cdef uint64_t high = 0
        cdef int i
        cdef decimal_t bound
        cdef uint8_t* start = self.data.reserve(n * 10)
        cdef uint8_t* out = start
        for i in range(n):
            value = <int64_t>values[i].low
            least = min(least, value)
            greatest = max(greatest, value)
            low += <uint64_t>value & 0xFFFFFFFFU
            high += (<uint64_t>value ^ (<uint64_t>1 << 63)) >> 32
        for i in range(n):
            value = <int64_t>values[i].low
            out += decimal_varint((<uint64_t>value << 1) ^ <uint64_t>(value >> 63), out)
        self.data.advance(out - start)
        # The sums need each value plus 2**127, but only 2**63 was added above. So the difference of 2**127 - 2**63 for
        # each value is added here.
        self.sums[0] += low
        self.sums[1] += high
        self.sums[2] += <uint64_t>n * 0xFFFFFFFFU
        self.sums[3] += <uint64_t>n * 0x7FFFFFFFU
        self.sums[1] += <uint64_t>n * 0x80000000U
        bound.low = <uint64_t>least
        bound.high = least >> 63
        if decimal_less(bound, self.least):
            self.least = bound
        bound.low = <uint64_t>greatest
        bound.high = greatest >> 63
        if decimal_less(self.greatest, bound):
            self.greatest = bound
        self.summed += n
        return 0

    cdef int _put_wide(self, const decimal_t* values, int n) except -1 nogil:
        cdef uint8_t* start = self.data.reserve(n * 20)
        cdef uint8_t* out = start
        cdef uint64_t sign, high
        cdef int i
        for i in range(n):
            if decimal_less(values[i], self.least):
                self.least = values[i]
            if decimal_less(self.greatest, values[i]):
                self.greatest = values[i]
            self.sums[0] += values[i].low & 0xFFFFFFFFU
            self.sums[1] += values[i].low >> 32
            high = <uint64_t>values[i].high ^ (<uint64_t>1 << 63)
            self.sums[2] += high & 0xFFFFFFFFU
            self.sums[3] += high >> 32
            sign = <uint64_t>(values[i].high >> 63)
            out += decimal_wide_varint(
                (values[i].low << 1) ^ sign,
                ((<uint64_t>values[i].high << 1) | (values[i].low >> 63)) ^ sign,
                out,
            )
        self.data.advance(out - start)
        self.summed += n
        return 0

    cdef int _refuse_one(self, ArraySource source, int64_t start, int n) except -1:
        cdef const decimal_t* values = <const decimal_t*>source.values + source.offset
        cdef int64_t row
        for row in range(start, start + n):
            if source.is_valid(row):
                value = unscaled(values[row])
                if abs(value) > self.most:
                    return self._refuse(
                        row, f"the unscaled value {value} has more digits than decimal({self.precision},{self.scale})"
                    )
        return 0

    cdef int _add_to_bloom(self, const decimal_t* values, int n) except -1 nogil:
        """Adds values to the bloom filter as texts without trailing zeros, as Java and C++ do."""
        cdef uint8_t text[64]
        cdef int i, length
        for i in range(n):
            length = plain_text(values[i], self.scale, text)
            self.bloom.add_bytes(text + 64 - length, length)
        return 0

    cdef int _end_runs(self) except -1:
        self.scales.put_same(self.scale, self.scales_due)
        self.scales_due = 0
        return self.scales.end_run()

    cdef object _take_statistics(self, int64_t count):
        if not count:
            return None
        total = sum([<object>self.sums[i] << (32 * i) for i in range(4)]) - (<object>self.summed << 127)
        found = unscaled(self.least), unscaled(self.greatest), total
        self._forget()
        return found


cdef int plain_text(decimal_t value, int scale, uint8_t* end) noexcept nogil:
    """Writes the number without exponent and without trailing zeros after the point. The text ends at end[63]. Returns
    its length."""
    cdef bint negative = value.high < 0
    cdef uint64_t low = value.low
    cdef uint64_t high = <uint64_t>value.high
    cdef uint64_t rest, part
    cdef int at = 64
    cdef int digits = 0
    cdef bint significant = False
    if negative:
        low = ~low + 1
        high = ~high + (low == 0)
    while low or high or digits <= scale:
        part = high // 10
        rest = high % 10
        high = part
        # Divides rest * 2**64 + low by 10, in two steps of 32 bits.
        part = (rest << 32) | (low >> 32)
        rest = part % 10
        part = part // 10
        low = (rest << 32) | (low & 0xFFFFFFFFU)
        rest = low % 10
        low = (part << 32) | (low // 10)
        if digits == scale and significant and scale:
            at -= 1
            end[at] = 46
        if rest or digits >= scale or significant:
            significant = True
            at -= 1
            end[at] = <uint8_t>(48 + rest)
        digits += 1
    if negative:
        at -= 1
        end[at] = 45
    return 64 - at


cdef object unscaled(decimal_t value):
    return (<object>value.high << 64) + value.low


cdef decimal_t words(value):
    cdef decimal_t found
    found.low = value & 0xFFFFFFFFFFFFFFFF
    found.high = value >> 64
    return found
