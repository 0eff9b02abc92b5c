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
    # Decompresses the only chunk of `data` to `room`, and returns its length. `room` has LARGEST_ROOM bytes. Returns -1
    # if there are several chunks, if the chunk is damaged or too long, and -2 if memory runs out.
    cdef Py_ssize_t unframe_into(self, const uint8_t* data, Py_ssize_t length, Py_ssize_t block_size,
                                 uint8_t* room) noexcept nogil


# Memory of LARGEST_ROOM bytes for decompressing metadata, and NULL if memory runs out. `put_room` gives it back.
cdef uint8_t* take_room() noexcept nogil
cdef void put_room(uint8_t* room) noexcept nogil
