"""Bloom filters of row groups. The module has ORC's two hash functions, and tests all filters of a column at once.

    BloomFilterIndex   repeated BloomFilter, one per row group, parallel to the entries of ROW_INDEX
    BloomFilter        1 numHashFunctions (varint), 2 bitset (fixed64 words), 3 utf8bitset (bytes; words little-endian)

Text and bytes are hashed with a 64-bit, single-lane variant of Murmur3 (seed 104729). This is not the upper half of the
standard 128-bit output. Numbers are hashed with Thomas Wang's 64-bit hash with arithmetic right shifts. The halves of
the hash, as signed 32-bit numbers h1 (low) and h2 (high), give k bits. Bit number i, for i = 1..k, is c = h1 + i * h2,
or ~c if c is negative, modulo the number of bits.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from orcidx.orc.wire cimport FIXED64, LENGTH, VARINT, Cursor, Field, corrupt, open_cursor, read_field

import numpy as np

from orcidx.orc.wire import split_messages

__all__ = ["BloomFilters", "hash_byte_strings", "hash_integers"]

cdef uint64_t SEED = 104729
cdef uint64_t C1 = 0x87C37B91114253D5ULL
cdef uint64_t C2 = 0x4CF5AD432745937FULL

MOST_HASHES = 64
"""The most hash functions of a valid filter. A filter with more hash functions is not used."""


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t mix_block(uint64_t block) noexcept nogil:
    return rotate(block * C1, 31) * C2


cdef uint64_t murmur(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef uint64_t hash = SEED
    cdef uint64_t block = 0
    cdef Py_ssize_t at = 0
    while length - at >= 8:
        memcpy(&block, data + at, 8)
        hash = rotate(hash ^ mix_block(block), 27) * 5 + 0x52DCE729
        at += 8
    if at < length:
        block = 0
        memcpy(&block, data + at, length - at)
        hash ^= mix_block(block)
    hash ^= <uint64_t>length
    hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDULL
    hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53ULL
    return hash ^ (hash >> 33)


cdef inline uint64_t arithmetic_shift(uint64_t value, int bits) noexcept nogil:
    return <uint64_t>(<int64_t>value >> bits)


cdef uint64_t wang(uint64_t key) noexcept nogil:
    key = ~key + (key << 21)
    key ^= arithmetic_shift(key, 24)
    key = key + (key << 3) + (key << 8)
    key ^= arithmetic_shift(key, 14)
    key = key + (key << 2) + (key << 4)
    key ^= arithmetic_shift(key, 28)
    return key + (key << 31)


def hash_integers(values):
    """Returns the Wang hashes of int64 values as an int64 array. Doubles are hashed by their bits."""
    cdef const int64_t[::1] keys = np.ascontiguousarray(values, np.int64)
    result = np.empty(keys.shape[0], np.int64)
    cdef int64_t[::1] out = result
    cdef Py_ssize_t i
    with nogil:
        for i in range(keys.shape[0]):
            out[i] = <int64_t>wang(<uint64_t>keys[i])
    return result


def hash_byte_strings(offsets, data):
    """Returns the Murmur hashes of n byte strings as an int64 array.

    ``offsets``: n + 1 integers. String i is data[offsets[i]:offsets[i + 1]], as in Arrow's binary layout.
    """
    cdef const int64_t[::1] bounds = np.ascontiguousarray(offsets, np.int64)
    cdef const uint8_t[::1] raw = memoryview(data).cast("B")
    cdef const uint8_t* base = &raw[0] if raw.shape[0] else NULL
    cdef Py_ssize_t count = max(bounds.shape[0] - 1, 0)
    result = np.empty(count, np.int64)
    cdef int64_t[::1] out = result
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= bounds[i] <= bounds[i + 1] <= raw.shape[0]:
            raise ValueError("an offset is outside the data")
    with nogil:
        for i in range(count):
            out[i] = <int64_t>murmur(base + bounds[i], bounds[i + 1] - bounds[i])
    return result


cdef bint test_bits(const uint8_t* bits, uint64_t size, int hashes, uint64_t hash) noexcept nogil:
    """Whether a filter has all bits of a hash. ``size`` is the number of the filter's bits, and must not be 0."""
    cdef uint32_t low = <uint32_t>hash
    cdef uint32_t high = <uint32_t>(hash >> 32)
    cdef uint32_t combined = low
    cdef int32_t place
    cdef uint64_t bit
    cdef int _i
    for _i in range(hashes):
        combined += high
        place = <int32_t>combined
        if place < 0:
            place = ~place
        bit = <uint64_t>place % size
        if not (bits[bit >> 3] >> (bit & 7)) & 1:
            return False
    return True


cdef class BloomFilters:
    """The filters of one column of a stripe, one for each row group.

    ``reasons``: for each filter the reason why it cannot be used, or None if it can be used. A filter that cannot be
    used is treated as if it may contain every key.
    """

    cdef const uint8_t[::1] _bits
    cdef int64_t[::1] _starts
    cdef int64_t[::1] _sizes  # in bits; 0 if the filter cannot be used
    cdef int32_t[::1] _hashes
    cdef bytearray _packed
    cdef readonly list reasons

    def __init__(self, buffer):
        """Parses a BloomFilterIndex message. Raises ``CorruptFile`` for bytes that are not such a message."""
        cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
        starts, stops = split_messages(buffer, 1, "BloomFilterIndex")
        cdef int64_t[::1] first = starts
        cdef int64_t[::1] last = stops
        cdef Py_ssize_t count = first.shape[0]
        cdef Py_ssize_t i
        cdef Cursor cursor = open_cursor(data)
        self._starts = np.zeros(count, np.int64)
        self._sizes = np.zeros(count, np.int64)
        self._hashes = np.zeros(count, np.int32)
        self.reasons = []
        self._bits = data
        for i in range(count):
            cursor.at = first[i]
            cursor.end = last[i]
            self.reasons.append(self._read(cursor, i))
        if self._packed is not None:
            self._bits = self._packed

    cdef object _read(self, Cursor cursor, Py_ssize_t i):
        """Records where filter ``i`` is. Returns the reason why it cannot be used, or None. If the bitset is stored as
        separate words, they are moved together in a copy of the buffer, to the start of the filter's message."""
        cdef Field field
        cdef uint64_t hashes = 0
        cdef int64_t start = cursor.at
        cdef int64_t packed = 0             # bytes of `bitset` moved to the front of the message
        cdef int64_t utf8_start = -1
        cdef int64_t utf8_size = 0
        while cursor.at < cursor.end:
            if not read_field(&cursor, &field):
                raise corrupt("BloomFilterIndex", cursor.at)
            if field.number == 1 and field.wire_type == VARINT:
                hashes = field.value
            elif field.number == 2 and field.wire_type in (FIXED64, LENGTH) and utf8_start < 0:
                packed += self._pack(field, start + packed)
            elif field.number == 3 and field.wire_type == LENGTH:
                utf8_start = field.start
                utf8_size = <int64_t>field.value
            elif field.number == 3:
                return "the filter has a layout from before the format was final"
        if not 0 < hashes <= MOST_HASHES:
            return f"{hashes} hash functions are impossible"
        if utf8_start < 0:
            utf8_start, utf8_size = start, packed
        if utf8_size == 0 or utf8_size % 8:
            return f"a bitset of {utf8_size} bytes is impossible"
        self._starts[i] = utf8_start
        self._sizes[i] = utf8_size * 8
        self._hashes[i] = <int32_t>hashes
        return None

    cdef int64_t _pack(self, Field field, int64_t at):
        """Copies the words of a field to position ``at``, which is never after the field. Returns their number of
        bytes."""
        cdef uint8_t[::1] out
        if self._packed is None:
            self._packed = bytearray(self._bits)
        out = self._packed
        if field.wire_type == FIXED64:
            memcpy(&out[at], &field.value, 8)
            return 8
        if field.value:
            memmove(&out[at], &out[field.start], field.value)
        return <int64_t>field.value

    def __len__(self):
        return len(self.reasons)

    def may_contain(self, hashes):
        """Returns whether each filter may contain each key, as a bool array of shape (filters, hashes). ``hashes``:
        int64."""
        cdef const int64_t[::1] keys = np.ascontiguousarray(hashes, np.int64)
        cdef Py_ssize_t filters = self._sizes.shape[0]
        cdef Py_ssize_t i, j
        result = np.ones((filters, keys.shape[0]), np.uint8)
        cdef uint8_t[:, ::1] out = result
        with nogil:
            for i in range(filters):
                if self._sizes[i] == 0:
                    continue
                for j in range(keys.shape[0]):
                    out[i, j] = test_bits(
                        &self._bits[0] + self._starts[i], <uint64_t>self._sizes[i], self._hashes[i], <uint64_t>keys[j]
                    )
        return result.view(np.bool_)

    def may_contain_any(self, hashes):
        """Returns for each filter whether it may contain at least one of the keys. ``hashes``: int64."""
        cdef const int64_t[::1] keys = np.ascontiguousarray(hashes, np.int64)
        cdef Py_ssize_t filters = self._sizes.shape[0]
        cdef Py_ssize_t i, j
        result = np.zeros(filters, np.uint8)
        cdef uint8_t[::1] out = result
        with nogil:
            for i in range(filters):
                if self._sizes[i] == 0:
                    out[i] = keys.shape[0] != 0
                    continue
                for j in range(keys.shape[0]):
                    if test_bits(
                        &self._bits[0] + self._starts[i], <uint64_t>self._sizes[i], self._hashes[i], <uint64_t>keys[j]
                    ):
                        out[i] = 1
                        break
        return result.view(np.bool_)
