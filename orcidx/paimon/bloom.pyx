"""Kernels of the bloom filter: the 64-bit hashes of values, and the bits that they set (see ``bloom_filter``).

XXH64 with seed 0 follows the algorithm's public description (xxHash, doc/xxhash_spec.md). Integers are hashed with
Thomas Wang's 64-bit mix, which uses arithmetic right shifts, as in Java. Adding a value and testing it use the same
hash function, so they always agree.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # The number of values that are hashed before their bits are set. The cache misses of a large filter then overlap.
    BLOCK = 256

cdef extern from *:
    """
    static const uint64_t PRIME1 = 0x9E3779B185EBCA87ULL, PRIME2 = 0xC2B2AE3D27D4EB4FULL,
        PRIME3 = 0x165667B19E3779F9ULL, PRIME4 = 0x85EBCA77C2B2AE63ULL, PRIME5 = 0x27D4EB2F165667C5ULL;
    """
    const uint64_t PRIME1, PRIME2, PRIME3, PRIME4, PRIME5


cdef inline uint64_t _rotated(uint64_t x, int n) noexcept nogil:
    return (x << n) | (x >> (64 - n))


cdef inline uint64_t _load64(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint32_t _load32(const uint8_t *at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint64_t _round(uint64_t lane, uint64_t word) noexcept nogil:
    return _rotated(lane + word * PRIME2, 31) * PRIME1


cdef inline uint64_t _xxh64(const uint8_t *at, Py_ssize_t length) noexcept nogil:
    cdef const uint8_t *end = at + length
    cdef uint64_t lane1, lane2, lane3, lane4, h
    if length >= 32:
        lane1, lane2, lane3, lane4 = PRIME1 + PRIME2, PRIME2, 0, 0 - PRIME1
        while end - at >= 32:
            lane1 = _round(lane1, _load64(at))
            lane2 = _round(lane2, _load64(at + 8))
            lane3 = _round(lane3, _load64(at + 16))
            lane4 = _round(lane4, _load64(at + 24))
            at += 32
        h = _rotated(lane1, 1) + _rotated(lane2, 7) + _rotated(lane3, 12) + _rotated(lane4, 18)
        h = (h ^ _round(0, lane1)) * PRIME1 + PRIME4
        h = (h ^ _round(0, lane2)) * PRIME1 + PRIME4
        h = (h ^ _round(0, lane3)) * PRIME1 + PRIME4
        h = (h ^ _round(0, lane4)) * PRIME1 + PRIME4
    else:
        h = PRIME5
    h += <uint64_t> length
    while end - at >= 8:
        h = _rotated(h ^ _round(0, _load64(at)), 27) * PRIME1 + PRIME4
        at += 8
    if end - at >= 4:
        h = _rotated(h ^ (_load32(at) * PRIME1), 23) * PRIME2 + PRIME3
        at += 4
    while at < end:
        h = _rotated(h ^ (at[0] * PRIME5), 11) * PRIME1
        at += 1
    h = (h ^ (h >> 33)) * PRIME2
    h = (h ^ (h >> 29)) * PRIME3
    return h ^ (h >> 32)


cdef inline uint64_t _arithmetic(uint64_t x, int n) noexcept nogil:
    return <uint64_t> ((<int64_t> x) >> n)


cdef inline uint64_t _wang(uint64_t k) noexcept nogil:
    k = ~k + (k << 21)
    k ^= _arithmetic(k, 24)
    k = k + (k << 3) + (k << 8)
    k ^= _arithmetic(k, 14)
    k = k + (k << 2) + (k << 4)
    k ^= _arithmetic(k, 28)
    return k + (k << 31)


cdef inline uint32_t _bit(uint64_t h, uint32_t i, uint32_t bits) noexcept nogil:
    cdef uint32_t combined = <uint32_t> h + i * <uint32_t> (h >> 32)
    if combined >> 31:
        combined = ~combined
    return combined % bits


cdef void _set_bits(uint8_t *filter_bits, uint32_t bits, uint32_t k, const uint64_t *hashes, int count) noexcept nogil:
    cdef int n
    cdef uint32_t i, bit
    for n in range(count):
        for i in range(1, k + 1):
            bit = _bit(hashes[n], i, bits)
            filter_bits[bit >> 3] |= <uint8_t> (1 << (bit & 7))


cdef uint32_t _bits_of(Py_ssize_t size) except 0:
    if not 0 < size < (1 << 28):
        raise ValueError(f"a filter has 1 to {(1 << 28) - 1} bytes, not {size}")
    return <uint32_t> (8 * size)


def add_integers(uint8_t[::1] filter_bytes, unsigned int k, const int64_t[::1] values):
    """Adds integers, which the caller has widened to int64."""
    cdef uint64_t hashes[BLOCK]
    cdef uint32_t bits = _bits_of(filter_bytes.shape[0])
    cdef Py_ssize_t at = 0, size = values.shape[0], count, i
    with nogil:
        while at < size:
            count = min(<Py_ssize_t> BLOCK, size - at)
            for i in range(count):
                hashes[i] = _wang(<uint64_t> values[at + i])
            _set_bits(&filter_bytes[0], bits, k, hashes, <int> count)
            at += count


def add_bytes(uint8_t[::1] filter_bytes, unsigned int k, const int64_t[::1] offsets, const uint8_t[::1] data):
    """Adds ``len(offsets) - 1`` values. Value i is ``data[offsets[i]:offsets[i + 1]]``."""
    cdef uint64_t hashes[BLOCK]
    cdef uint32_t bits = _bits_of(filter_bytes.shape[0])
    cdef Py_ssize_t at = 0, size = offsets.shape[0] - 1, count, i
    cdef const uint8_t *base = &data[0] if data.shape[0] else NULL
    cdef int64_t last = 0
    for i in range(size + 1):
        if not last <= offsets[i] <= data.shape[0]:
            raise ValueError(f"offset {offsets[i]} of value {i} does not ascend, or is above {data.shape[0]}")
        last = offsets[i]
    with nogil:
        while at < size:
            count = min(<Py_ssize_t> BLOCK, size - at)
            for i in range(count):
                hashes[i] = _xxh64(base + offsets[at + i], offsets[at + i + 1] - offsets[at + i])
            _set_bits(&filter_bytes[0], bits, k, hashes, <int> count)
            at += count


def may_hold(const uint8_t[::1] filter_bytes, unsigned int k, unsigned long long value_hash):
    """Whether a value with this hash may have been added."""
    cdef uint32_t bits = _bits_of(filter_bytes.shape[0])
    cdef uint32_t i, bit
    for i in range(1, k + 1):
        bit = _bit(value_hash, i, bits)
        if not filter_bytes[bit >> 3] >> (bit & 7) & 1:
            return False
    return True


def hash_integer(long long value):
    """The 64-bit hash of an integer, which the caller has widened to int64."""
    return _wang(<uint64_t> value)


def hash_bytes(const uint8_t[::1] value):
    """The 64-bit hash of text or bytes."""
    return _xxh64(&value[0] if value.shape[0] else NULL, value.shape[0])
