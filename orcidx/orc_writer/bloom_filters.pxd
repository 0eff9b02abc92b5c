from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef class BloomBuilder:
    cdef double fpp
    cdef uint64_t* hashes  # hashes of the open row group, including repeated ones
    cdef size_t size
    cdef size_t capacity
    cdef readonly list filters              # a BloomFilter message for each row group of the stripe

    cdef uint64_t* room(self, size_t n) except NULL nogil
    cdef int add_integers(self, const int64_t* values, int64_t n) except -1 nogil
    cdef int add_integer(self, int64_t value) except -1 nogil
    cdef int add_bytes(self, const uint8_t* data, int64_t length) except -1 nogil
    cdef int _keep_distinct(self) except -1 nogil
