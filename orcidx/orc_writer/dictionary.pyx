"""``Dictionary``: the distinct texts of one column of a stripe, numbered in the order of their first occurrence.

It is a hash table with open addressing over the numbers of entries. Each process has a random seed, so an attacker
cannot choose texts that all have the same slot. The file has the texts in the order of their bytes, which does not
depend on the seed.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little") | 1
cdef uint64_t FACTOR = 0x9E3779B97F4A7C15ULL

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef struct { uint64_t first; const uint8_t* data; uint32_t length, entry; } text_key_t;
    static inline uint64_t text_first(const uint8_t* p, uint32_t n) {
        uint8_t bytes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        uint64_t word = 0;
        int i;
        memcpy(bytes, p, n < 8 ? n : 8);
        for (i = 0; i < 8; i++) word = word << 8 | bytes[i];
        return word;
    }
    static int text_compare(const void* a, const void* b) {
        const text_key_t* x = (const text_key_t*)a;
        const text_key_t* y = (const text_key_t*)b;
        int found;
        if (x->first != y->first) return x->first < y->first ? -1 : 1;
        found = memcmp(x->data, y->data, x->length < y->length ? x->length : y->length);
        if (found) return found;
        return x->length < y->length ? -1 : x->length > y->length;
    }
    """
    ctypedef struct text_key_t:
        uint64_t first
        const uint8_t* data
        uint32_t length
        uint32_t entry
    uint64_t text_first(const uint8_t* p, uint32_t n) noexcept nogil
    int text_compare(const void* a, const void* b) noexcept nogil


cdef inline uint64_t hash_text(const uint8_t* data, uint32_t length) noexcept nogil:
    cdef uint64_t hash = SEED ^ length
    cdef uint64_t word
    while length >= 8:
        memcpy(&word, data, 8)
        hash = (hash ^ word) * FACTOR
        hash ^= hash >> 32
        data += 8
        length -= 8
    if length:
        word = 0
        memcpy(&word, data, length)
        hash = (hash ^ word) * FACTOR
        hash ^= hash >> 32
    hash *= SEED
    return hash ^ hash >> 29


cdef class Dictionary:
    """Distinct texts, at most 2**32 - 2 of them."""

    def __dealloc__(self):
        free(self.arena)
        free(self.entries)
        free(self.slots)

    cdef int64_t find_or_add(self, const uint8_t* data, uint32_t length) except -1 nogil:
        """Returns the number of a text, and adds the text if it is new."""
        cdef uint64_t hash = hash_text(data, length)
        cdef size_t at
        cdef Entry* entry
        cdef void* grown
        if 2 * self.count >= self.slot_count:
            self._grow_slots()
        at = hash & (self.slot_count - 1)
        while self.slots[at]:
            entry = &self.entries[self.slots[at] - 1]
            if entry.hash == hash and entry.length == length and not memcmp(self.arena + entry.start, data, length):
                return self.slots[at] - 1
            at = (at + 1) & (self.slot_count - 1)
        if self.count == self.entries_capacity:
            self.entries_capacity = max(<size_t>32, 2 * self.entries_capacity)
            grown = realloc(self.entries, self.entries_capacity * sizeof(Entry))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.entries = <Entry*>grown
        if self.arena_size + length + 8 > self.arena_capacity:
            self.arena_capacity = max(self.arena_size + length + 8, 2 * self.arena_capacity)
            grown = realloc(self.arena, self.arena_capacity)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.arena = <uint8_t*>grown
        memcpy(self.arena + self.arena_size, data, length)
        entry = &self.entries[self.count]
        entry.hash = hash
        entry.start = self.arena_size
        entry.length = length
        self.arena_size += length
        self.slots[at] = <uint32_t>self.count + 1
        self.count += 1
        return self.count - 1

    cdef int _grow_slots(self) except -1 nogil:
        cdef size_t slot_count = max(<size_t>64, 4 * self.slot_count)
        cdef uint32_t* slots = <uint32_t*>calloc(slot_count, sizeof(uint32_t))
        cdef size_t i, at
        if slots == NULL:
            with gil:
                raise MemoryError
        for i in range(self.count):
            at = self.entries[i].hash & (slot_count - 1)
            while slots[at]:
                at = (at + 1) & (slot_count - 1)
            slots[at] = <uint32_t>i + 1
        free(self.slots)
        self.slots = slots
        self.slot_count = slot_count
        return 0

    cdef uint32_t* sorted_order(self) except NULL nogil:
        """The entries in the order of their bytes. Also sets the ``rank`` of each entry. The caller must free the
        result."""
        cdef text_key_t* keys = <text_key_t*>malloc((self.count + 1) * sizeof(text_key_t))
        cdef uint32_t* order = <uint32_t*>malloc((self.count + 1) * sizeof(uint32_t))
        cdef size_t i
        if keys == NULL or order == NULL:
            free(keys)
            free(order)
            with gil:
                raise MemoryError
        for i in range(self.count):
            keys[i].data = self.arena + self.entries[i].start
            keys[i].length = self.entries[i].length
            keys[i].first = text_first(keys[i].data, keys[i].length)
            keys[i].entry = <uint32_t>i
        qsort(keys, self.count, sizeof(text_key_t), text_compare)
        for i in range(self.count):
            order[i] = keys[i].entry
            self.entries[keys[i].entry].rank = <uint32_t>i
        free(keys)
        return order
