"""``BloomBuilder``: the bloom filters of one column of a stripe, one for each row group.

    BloomFilterIndex   repeated BloomFilter, parallel to the entries of ROW_INDEX
    BloomFilter        1 numHashFunctions (varint), 3 utf8bitset (bytes; words of 64 bits, little endian)

The size of a filter depends on the number of distinct values in its row group. Readers take the size and the number of
hash functions from the filter itself. Other writers make each filter large enough for a full row group of distinct
values. Such a filter has 12 KB even if 32 bytes are enough.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from orcidx.orc.bloom cimport murmur, wang

from orcidx.orc_writer.messages import blob, uint

cdef double LN2 = 0.6931471805599453


cdef class BloomBuilder:
    """``fpp``: the share of absent values for which a filter gives a false positive."""

    def __cinit__(self, double fpp):
        self.fpp = fpp
        self.filters = []

    def __dealloc__(self):
        free(self.hashes)

    cdef uint64_t* room(self, size_t n) except NULL nogil:
        cdef size_t capacity
        cdef void* grown
        if self.hashes == NULL or self.size + n > self.capacity:    # a result of NULL would mean an error
            capacity = max(self.size + n, 2 * self.capacity, <size_t>64)
            grown = realloc(self.hashes, capacity * sizeof(uint64_t))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.hashes = <uint64_t*>grown
            self.capacity = capacity
        return self.hashes + self.size

    cdef int add_integers(self, const int64_t* values, int64_t n) except -1 nogil:
        cdef uint64_t* out = self.room(n)
        cdef int64_t i
        for i in range(n):
            out[i] = wang(<uint64_t>values[i])
        self.size += n
        return 0

    cdef int add_integer(self, int64_t value) except -1 nogil:
        self.room(1)[0] = wang(<uint64_t>value)
        self.size += 1
        return 0

    cdef int add_bytes(self, const uint8_t* data, int64_t length) except -1 nogil:
        self.room(1)[0] = murmur(data, length)
        self.size += 1
        return 0

    cdef int _keep_distinct(self) except -1 nogil:
        """Removes repeated hashes."""
        cdef size_t slots = 16
        cdef size_t i, at
        cdef size_t kept = 0
        cdef bint zero = False
        cdef uint64_t hash
        cdef uint64_t* table
        while slots < 2 * self.size:
            slots *= 2
        table = <uint64_t*>calloc(slots, sizeof(uint64_t))
        if table == NULL:
            with gil:
                raise MemoryError
        for i in range(self.size):
            hash = self.hashes[i]
            if hash == 0:                           # 0 marks a free slot
                if zero:
                    continue
                zero = True
            else:
                at = (hash ^ hash >> 29) & (slots - 1)
                while table[at] != 0 and table[at] != hash:
                    at = (at + 1) & (slots - 1)
                if table[at] == hash:
                    continue
                table[at] = hash
            self.hashes[kept] = hash
            kept += 1
        free(table)
        self.size = kept
        return 0

    def end_group(self):
        """Makes the filter of the open row group."""
        cdef size_t i
        cdef int _k, hashes
        cdef int32_t place
        cdef uint32_t high, combined
        cdef uint64_t bits, bit
        with nogil:
            self._keep_distinct()
        count = self.size or 1
        wanted = int(-count * log(self.fpp) / (LN2 * LN2))
        bits = wanted + (64 - wanted % 64)
        hashes = max(1, round(bits / count * LN2))
        filter_ = bytearray(bits // 8)
        cdef uint8_t[::1] out = filter_
        with nogil:
            for i in range(self.size):
                combined = <uint32_t>self.hashes[i]
                high = <uint32_t>(self.hashes[i] >> 32)
                for _k in range(hashes):
                    combined += high
                    place = <int32_t>combined
                    if place < 0:
                        place = ~place
                    bit = <uint64_t>place % bits
                    out[bit >> 3] |= <uint8_t>(1 << (bit & 7))
        self.size = 0
        self.filters.append(uint(1, hashes) + blob(3, bytes(filter_)))

    def message(self):
        """The BloomFilterIndex of the stripe."""
        return b"".join([blob(1, entry) for entry in self.filters])

    def clear(self):
        """Clears everything for the next stripe."""
        self.filters = []
        self.size = 0

    @property
    def held(self):
        """The bytes of memory that the filters take."""
        return sum(map(len, self.filters)) + 8 * <int64_t>self.size
