from libc.stdint cimport uint8_t, uint64_t

# The hashes of bloom filters, for bytes and for numbers.
cdef uint64_t murmur(const uint8_t* data, Py_ssize_t length) noexcept nogil
cdef uint64_t wang(uint64_t key) noexcept nogil
