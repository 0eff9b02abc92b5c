from libc.stdint cimport uint8_t

from orcidx.orc.context_slots cimport CONTEXT_SLOTS


cdef class NativeCodec:
    cdef readonly str library               # name of the Python package whose shared library is called
    cdef bint has_error_check               # True for zstd, whose functions report errors in the returned size
    cdef void* create
    cdef void* destroy
    cdef void* call
    cdef void* is_error
    cdef void* slots[CONTEXT_SLOTS]  # contexts that are not in use

    # Returns the number of bytes written to `out`, -1 if the chunk is damaged or longer than `capacity`, or -2 if
    # memory runs out. Any thread may call it.
    cdef Py_ssize_t decompress(self, const uint8_t* chunk, size_t length, uint8_t* out, size_t capacity) noexcept nogil
