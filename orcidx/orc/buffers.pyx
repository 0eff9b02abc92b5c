"""From decoded values to Arrow buffers: spreading over nulls, offsets, dictionary gather, decimals, timestamps.

Every function works on whole buffers without the GIL; sizes are checked on entry. Validity is an Arrow bitmap (least
significant bit first); "dense" values are those of valid rows only.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window

from orcidx.errors import CorruptFile

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef __int128 orcidx_int128;
    typedef unsigned __int128 orcidx_uint128;
    static inline int orcidx_popcount(uint64_t x) { return __builtin_popcountll(x); }
    static inline uint64_t orcidx_word(const uint8_t* p) { uint64_t x; memcpy(&x, p, 8); return x; }
    """
    ctypedef int int128 "orcidx_int128"
    ctypedef int uint128 "orcidx_uint128"
    int popcount64 "orcidx_popcount"(uint64_t x) nogil
    uint64_t load_word "orcidx_word"(const uint8_t* p) nogil

cdef enum:
    MOST_STRING_BYTES = 2147483647

ctypedef struct wide:
    uint64_t low
    uint64_t high


cdef inline bint bit_at(const uint8_t* bits, int64_t i) noexcept nogil:
    return (bits[i >> 3] >> (i & 7)) & 1


cdef inline uint64_t word_at(const uint8_t* bits, int64_t i, int64_t n) noexcept nogil:
    """The up to 64 bits from bit ``i`` (a multiple of 64) of a bitmap of ``n`` bits."""
    cdef uint64_t word = 0
    cdef int64_t left = n - i
    if left >= 64:
        return load_word(bits + (i >> 3))
    memcpy(&word, bits + (i >> 3), (left + 7) >> 3)
    return word & ((<uint64_t> 1 << left) - 1)


cdef int check_bits(const uint8_t[::1] bits, int64_t n) except -1:
    if n < 0 or (n + 7) >> 3 > bits.shape[0]:
        raise ValueError("the bitmap is too short")
    return 0


def count_bits(const uint8_t[::1] bits not None, int64_t n):
    """Set bits among the first ``n``."""
    cdef int64_t i, total = 0
    check_bits(bits, n)
    with nogil:
        for i in range(0, n, 64):
            total += popcount64(word_at(&bits[0], i, n))
    return total


def nest_bits(const uint8_t[::1] dense not None, const uint8_t[::1] parent not None, int64_t n,
              uint8_t[::1] out not None):
    """``out[i] = parent[i] and the next bit of dense``, over ``n`` rows; ``dense`` has a bit for each set parent bit.

    Returns the number of set bits of ``out``.
    """
    cdef int64_t i, at = 0, total = 0, j, end
    cdef uint64_t word
    check_bits(parent, n)
    check_bits(out, n)
    if n <= 0:
        return 0
    memset(&out[0], 0, <size_t> (n + 7) >> 3)
    cdef int64_t limit = dense.shape[0] * 8
    with nogil:
        for i in range(0, n, 64):
            word = word_at(&parent[0], i, n)
            end = min(i + 64, n)
            if not word:
                continue
            if at + popcount64(word) > limit:
                at = -1
                break
            for j in range(i, end):
                if (word >> (j - i)) & 1:
                    if bit_at(&dense[0], at):
                        out[j >> 3] |= <uint8_t> 1 << (j & 7)
                        total += 1
                    at += 1
    if at < 0:
        raise ValueError("fewer dense bits than set parent bits")
    return total


cdef void spread_values(uint8_t* values, int width, const uint8_t* valid, int64_t n, int64_t count) noexcept nogil:
    """Moves ``count`` dense values to the places of the set bits, from the end, zeros elsewhere."""
    cdef int64_t start = ((n - 1) >> 6) << 6
    cdef int64_t i, left = count, stop = n
    cdef uint64_t word, full
    cdef int ones
    while start >= 0:
        if left == stop and left == 0:
            return
        word = word_at(valid, start, n)
        ones = popcount64(word)
        if ones == stop - start:
            if left != stop:
                memmove(values + start * width, values + (left - ones) * width, ones * width)
            left -= ones
        elif ones == 0:
            memset(values + start * width, 0, (stop - start) * width)
        elif width == 8:
            for i in range(stop - 1, start - 1, -1):
                if (word >> (i - start)) & 1:
                    left -= 1
                    (<uint64_t*> values)[i] = (<uint64_t*> values)[left]
                else:
                    (<uint64_t*> values)[i] = 0
        elif width == 4:
            for i in range(stop - 1, start - 1, -1):
                if (word >> (i - start)) & 1:
                    left -= 1
                    (<uint32_t*> values)[i] = (<uint32_t*> values)[left]
                else:
                    (<uint32_t*> values)[i] = 0
        else:
            for i in range(stop - 1, start - 1, -1):
                if (word >> (i - start)) & 1:
                    left -= 1
                    if left != i:
                        memcpy(values + i * width, values + left * width, width)
                else:
                    memset(values + i * width, 0, width)
        stop = start
        start -= 64


def spread(uint8_t[::1] values not None, int width, const uint8_t[::1] valid not None, int64_t n, int64_t count):
    """Spreads ``count`` dense values of ``width`` bytes at the start of ``values`` over ``n`` rows, in place."""
    check_bits(valid, n)
    if not 0 <= count <= n or n * width > values.shape[0] or width < 1:
        raise ValueError("the values do not fit")
    if n:
        with nogil:
            spread_values(&values[0], width, &valid[0], n, count)


# --- strings, lists, maps ---------------------------------------------------------------------------------------------


def read_lengths(IntRle lengths not None, int64_t[::1] out not None, int64_t count):
    """``count`` lengths to ``out``; returns their sum. Raises ``CorruptFile`` for a negative one."""
    if not 0 <= count <= out.shape[0]:
        raise ValueError("the lengths do not fit")
    cdef int64_t total = 0
    if count:
        with nogil:
            total = lengths.read_lengths(&out[0], count)
    return total


def fill_offsets(const int64_t[::1] lengths not None, const uint8_t[::1] valid, int64_t n, int32_t[::1] out not None):
    """``n + 1`` offsets from the lengths of the valid rows, which sum to less than 2**31; null rows are empty."""
    cdef int64_t i, at = 0
    cdef int32_t offset = 0
    if out.shape[0] < n + 1:
        raise ValueError("the offsets do not fit")
    if valid is None:
        if lengths.shape[0] < n:
            raise ValueError("too few lengths")
        with nogil:
            for i in range(n):
                out[i] = offset
                offset += <int32_t> lengths[i]
            out[n] = offset
        return
    check_bits(valid, n)
    if count_bits(valid, n) > lengths.shape[0]:
        raise ValueError("too few lengths")
    with nogil:
        for i in range(n):
            out[i] = offset
            if bit_at(&valid[0], i):
                offset += <int32_t> lengths[at]
                at += 1
        out[n] = offset


def gather_offsets(const int64_t[::1] indexes not None, const int32_t[::1] entries not None, const uint8_t[::1] valid,
                   int64_t n, int32_t[::1] out not None):
    """Offsets of ``n`` strings that are picked from a dictionary by the indexes of the valid rows.

    ``entries``: offsets of the dictionary's entries. Returns the sum of the lengths, and leaves ``out`` unfinished when
    it is 2**31 or more. Raises ``CorruptFile`` for an index past the dictionary.
    """
    cdef int64_t i, at = 0, total = 0, count = indexes.shape[0]
    cdef uint64_t size = entries.shape[0] - 1, index
    cdef uint64_t worst = 0
    if out.shape[0] < n + 1 or (valid is None and count < n):
        raise ValueError("the offsets do not fit")
    if valid is not None:
        check_bits(valid, n)
        if count_bits(valid, n) > count:
            raise ValueError("too few indexes")
    with nogil:
        for i in range(count):
            index = <uint64_t> indexes[i]
            worst = index if index > worst else worst
    if count and worst >= size:
        raise CorruptFile(f"dictionary index {worst} in a dictionary of {size} entries")
    with nogil:
        for i in range(n):
            out[i] = <int32_t> total
            if valid is None or bit_at(&valid[0], i):
                index = <uint64_t> indexes[at]
                total += entries[index + 1] - entries[index]
                at += 1
                if total > MOST_STRING_BYTES:
                    break
        else:
            out[n] = <int32_t> total
    return total


def gather_bytes(const int64_t[::1] indexes not None, const int32_t[::1] entries not None,
                 const uint8_t[::1] blob not None, int64_t total, uint8_t[::1] out not None):
    """The bytes of the picked entries, one after the other. The indexes have passed ``gather_offsets``.

    ``blob`` and ``out`` have 16 spare bytes behind what is used, so that short entries are copied in one move.
    """
    cdef int64_t i, at = 0, start
    cdef int64_t length
    cdef int64_t used = entries[entries.shape[0] - 1]
    if blob.shape[0] < used + 16 or out.shape[0] < total + 16:
        raise ValueError("no spare bytes")
    with nogil:
        for i in range(indexes.shape[0]):
            start = entries[indexes[i]]
            length = entries[indexes[i] + 1] - start
            if at + length > total:
                break
            if length <= 16:
                memcpy(&out[at], &blob[start], 16)
            else:
                memcpy(&out[at], &blob[start], length)
            at += length
    if at != total:
        raise ValueError("the indexes do not give the total")


def is_ascii(const uint8_t[::1] data not None, int64_t n):
    """Whether the first ``n`` bytes are all below 0x80."""
    cdef int64_t i = 0
    cdef uint64_t seen = 0
    if n > data.shape[0]:
        raise ValueError("too few bytes")
    with nogil:
        while i + 8 <= n:
            seen |= load_word(&data[i])
            i += 8
        while i < n:
            seen |= data[i]
            i += 1
    return not (seen & <uint64_t> 0x8080808080808080)


def skip_lengths(IntRle lengths not None, int64_t count):
    """Passes over ``count`` lengths and returns their sum. Raises ``CorruptFile`` for a negative one."""
    cdef int64_t total = 0
    if count:
        with nogil:
            total = lengths.skip_lengths(count)
    return total


def narrow_indexes(const int64_t[::1] indexes not None, int64_t count, int64_t size, int32_t[::1] out not None):
    """``count`` dictionary indexes as 32-bit ones. Raises ``CorruptFile`` for one that is not below ``size``."""
    cdef int64_t i
    cdef uint64_t worst = 0
    if count > indexes.shape[0] or count > out.shape[0]:
        raise ValueError("the indexes do not fit")
    with nogil:
        for i in range(count):
            worst = <uint64_t> indexes[i] if <uint64_t> indexes[i] > worst else worst
            out[i] = <int32_t> indexes[i]
    if count and worst >= <uint64_t> size:
        raise CorruptFile(f"dictionary index {worst} in a dictionary of {size} entries")
