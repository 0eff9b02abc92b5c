from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct Entry:
    uint64_t hash
    uint64_t start                          # position in the arena
    uint32_t length
    uint32_t rank  # the position of the entry in sorted order; set by `sorted_order`


cdef class Dictionary:
    cdef uint8_t* arena
    cdef size_t arena_size
    cdef size_t arena_capacity
    cdef Entry* entries
    cdef readonly size_t count
    cdef size_t entries_capacity
    cdef uint32_t* slots  # entry number + 1; 0 means that the slot is free
    cdef size_t slot_count                  # a power of two

    cdef int64_t find_or_add(self, const uint8_t* data, uint32_t length) except -1 nogil
    cdef int _grow_slots(self) except -1 nogil
    cdef uint32_t* sorted_order(self) except NULL nogil
