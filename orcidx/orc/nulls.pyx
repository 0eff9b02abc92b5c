"""Nulls in Arrow buffers: spreads values over null rows, and combines bitmaps of valid rows.

Every function works on whole buffers without the GIL. Sizes are checked on entry. Validity is an Arrow bitmap (least
significant bit first). "Dense" values are only the values of valid rows.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from orcidx.orc.bit_unpack cimport popcount

ctypedef fused word_t:
    uint32_t
    uint64_t


cdef int64_t ones_between(const uint8_t* bits, int64_t start, int64_t stop) noexcept nogil:
    """The number of set bits from ``start`` (a multiple of 64) to ``stop``."""
    cdef int64_t i, total = 0
    for i in range(start, stop, 64):
        total += popcount(word_at(bits, i, stop))
    return total


cdef int check_bits(const uint8_t[::1] bits, int64_t n) except -1:
    if n < 0 or (n + 7) >> 3 > bits.shape[0]:
        raise ValueError("the bitmap is too short")
    return 0


cdef const uint8_t* bits_of(const uint8_t[::1] valid, int64_t n, int64_t count) except? NULL:
    """Returns the bitmap of ``n`` rows, of which ``count`` must be valid. Returns NULL if all rows are valid."""
    if valid is None:
        if n != count:
            raise ValueError(f"there are {count} values for {n} rows without nulls")
        return NULL
    check_bits(valid, n)
    if n == 0:
        return NULL
    if ones_between(&valid[0], 0, n) != count:
        raise ValueError(f"there are {count} values, but a different number of valid rows")
    return &valid[0]


cdef int64_t nest_words(const uint8_t* dense, int64_t limit, const uint8_t* parent, int64_t n,
                        uint8_t* out) noexcept nogil:
    cdef int64_t i, j, at = 0, total = 0
    cdef uint64_t word, bit, result
    for i in range(0, n, 64):
        word = word_at(parent, i, n)
        result = 0
        if word:
            for j in range(min(n - i, <int64_t> 64)):
                bit = (word >> j) & 1
                if at < limit:                          # false only after the last dense bit
                    result |= (bit & bit_at(dense, at)) << j
                at += <int64_t> bit
        memcpy(out + (i >> 3), &result, 8)
        total += popcount(result)
    return total


def nest_bits(const uint8_t[::1] dense not None, const uint8_t[::1] parent not None, int64_t n,
              uint8_t[::1] out not None):
    """``out[i] = parent[i] and the next bit of dense``, for ``n`` rows. ``dense`` has a bit for each set parent bit.

    ``out`` must consist of whole words of 64 bits. Returns the number of its set bits.
    """
    cdef int64_t total = 0, limit = dense.shape[0] * 8
    check_bits(parent, n)
    if (n + 63) // 64 * 8 > out.shape[0]:
        raise ValueError("the bitmap is too short")
    if n == 0:
        return 0
    if ones_between(&parent[0], 0, n) > limit:
        raise ValueError("there are fewer dense bits than set parent bits")
    with nogil:
        total = nest_words(&dense[0] if limit else NULL, limit, &parent[0], n, &out[0])
    return total


cdef void spread_word(word_t* values, uint64_t word, int64_t start, int64_t stop, int64_t left) noexcept nogil:
    # A value is read even if its bit is not set, and is then masked to zero. This avoids a branch that the processor
    # could predict wrongly. The address that is read is always inside the buffer.
    cdef int64_t i
    cdef word_t bit
    for i in range(stop - 1, start - 1, -1):
        bit = <word_t> ((word >> (i - start)) & 1)
        left -= <int64_t> bit
        values[i] = values[left] & (0 - bit)


cdef void spread_wide(uint8_t* values, int width, uint64_t word, int64_t start, int64_t stop,
                      int64_t left) noexcept nogil:
    cdef int64_t i
    for i in range(stop - 1, start - 1, -1):
        if (word >> (i - start)) & 1:
            left -= 1
            memmove(values + i * width, values + left * width, width)
        else:
            memset(values + i * width, 0, width)


cdef void spread_values(uint8_t* values, int width, const uint8_t* valid, int64_t n, int64_t count) noexcept nogil:
    # From the last value to the first.
    cdef int64_t start = ((n - 1) >> 6) << 6
    cdef int64_t left = count, stop = n
    cdef uint64_t word
    cdef int ones
    while start >= 0 and left < stop:           # if left == stop, all remaining rows are valid and in place
        word = word_at(valid, start, n)
        ones = popcount(word)
        if ones == stop - start:
            memmove(values + start * width, values + (left - ones) * width, ones * width)
        elif ones == 0:
            memset(values + start * width, 0, (stop - start) * width)
        elif width == 8:
            spread_word[uint64_t](<uint64_t*> values, word, start, stop, left)
        elif width == 4:
            spread_word[uint32_t](<uint32_t*> values, word, start, stop, left)
        else:
            spread_wide(values, width, word, start, stop, left)
        left -= ones
        stop = start
        start -= 64


def spread(uint8_t[::1] values not None, int width, const uint8_t[::1] valid not None, int64_t n, int64_t count):
    """Spreads the ``count`` dense values at the start of ``values`` over ``n`` rows, in place. A value has ``width``
    bytes."""
    cdef const uint8_t* bits = bits_of(valid, n, count)
    if width < 1 or n * width > values.shape[0]:
        raise ValueError("the values do not fit")
    if n:
        with nogil:
            spread_values(&values[0], width, bits, n, count)
