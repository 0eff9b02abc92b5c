"""Calls the C functions of a decompression library, so decompressing chunks never needs the GIL.

The functions are in the shared libraries of Python packages (libdeflate in ``deflate``, libzstd in ``zstandard``).
``compression`` finds their addresses. Two threads must never use a context at the same time. So a caller takes a
context from a slot by an atomic exchange and puts it back afterwards. There is no lock, so a fork during a call loses
one context but blocks no thread.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from orcidx.orc.context_slots cimport orcidx_exchange, put_context, take_context

ctypedef void* (*create_t)() noexcept nogil
ctypedef void (*destroy_t)(void*) noexcept nogil
ctypedef int (*deflate_t)(void*, const void*, size_t, void*, size_t, size_t*, size_t*) noexcept nogil
ctypedef size_t (*zstd_t)(void*, void*, size_t, const void*, size_t) noexcept nogil
ctypedef unsigned int (*is_error_t)(size_t) noexcept nogil


cdef enum:
    LARGEST_ROOM = 1 << 18      # bytes; the usual block sizes are 64 and 256 KiB

# A buffer for decompressing metadata. A thread takes it by swapping in NULL, and puts it back afterwards.
cdef void* ROOM = NULL


cdef class NativeCodec:
    """The decompressor of one library. The addresses are those of C functions that stay loaded until the process ends.

    With ``is_error`` the functions are those of zstd (``ZSTD_decompressDCtx`` and related ones). Without it they are
    those of libdeflate (``libdeflate_deflate_decompress_ex`` and related ones).
    """

    def __cinit__(self, *, str library, size_t create, size_t destroy, size_t call, size_t is_error=0):
        self.library = library
        self.create = <void*> create
        self.destroy = <void*> destroy
        self.call = <void*> call
        self.is_error = <void*> is_error
        self.has_error_check = is_error != 0

    def __dealloc__(self):
        cdef int i
        for i in range(CONTEXT_SLOTS):
            if self.slots[i] != NULL:
                (<destroy_t> self.destroy)(self.slots[i])

    cdef Py_ssize_t decompress(self, const uint8_t* chunk, size_t length, uint8_t* out, size_t capacity) noexcept nogil:
        cdef void* context = NULL
        cdef size_t consumed = 0, written = 0
        cdef bint failed
        context = take_context(self.slots)
        if context == NULL:
            context = (<create_t> self.create)()
            if context == NULL:
                return -2
        if self.has_error_check:
            written = (<zstd_t> self.call)(context, out, capacity, chunk, length)
            failed = (<is_error_t> self.is_error)(written) != 0
        else:
            # libdeflate writes the numbers of read and written bytes to `consumed` and `written`. With these pointers
            # it accepts bytes after the compressed data, and output that is shorter than `capacity`.
            failed = (<deflate_t> self.call)(context, chunk, length, out, capacity, &consumed, &written) != 0
        context = put_context(self.slots, context)
        if context != NULL:
            (<destroy_t> self.destroy)(context)
        return -1 if failed else <Py_ssize_t> written

    def decompress_into(self, const uint8_t[::1] chunk not None, uint8_t[::1] out not None):
        """Returns the number of bytes written, or -1 if the chunk is damaged or longer than ``out``. Raises
        ``MemoryError`` if no context can be created."""
        cdef const uint8_t* source = &chunk[0] if chunk.shape[0] else NULL
        cdef uint8_t* target = &out[0] if out.shape[0] else NULL
        cdef size_t length = chunk.shape[0], capacity = out.shape[0]
        cdef Py_ssize_t written
        with nogil:
            written = self.decompress(source, length, target, capacity)
        if written == -2:
            raise MemoryError
        return written

    def unframe(self, const uint8_t[::1] data not None, Py_ssize_t block_size, Py_ssize_t most):
        """Returns the decompressed bytes of the only chunk of ``data``. Most footers have one chunk. Returns None if
        there are several chunks, if an error occurs, or if there are more than ``most`` bytes.
        ``compression.read_framed`` handles these cases."""
        cdef Py_ssize_t length
        cdef uint8_t* room
        if data.shape[0] == 0:
            return None
        room = take_room()
        if room == NULL:
            raise MemoryError
        length = self.unframe_into(&data[0], data.shape[0], block_size, room)
        found = PyBytes_FromStringAndSize(<const char*> room, length) if 0 <= length <= most else None
        put_room(room)
        return found

    cdef Py_ssize_t unframe_into(self, const uint8_t* data, Py_ssize_t length, Py_ssize_t block_size,
                                 uint8_t* room) noexcept nogil:
        cdef Py_ssize_t stored = length - 3
        cdef int64_t header
        if stored <= 0:
            return -1
        header = data[0] | data[1] << 8 | data[2] << 16
        if header >> 1 != stored or stored > LARGEST_ROOM:
            return -1
        if header & 1:
            memcpy(room, &data[3], stored)
            return stored
        return self.decompress(&data[3], stored, room, block_size) if stored <= block_size <= LARGEST_ROOM else -1


cdef uint8_t* take_room() noexcept nogil:
    cdef void* room = orcidx_exchange(&ROOM, NULL)
    return <uint8_t*> (malloc(LARGEST_ROOM) if room == NULL else room)


cdef void put_room(uint8_t* room) noexcept nogil:
    free(orcidx_exchange(&ROOM, room))


cdef int64_t lzo_length(const uint8_t** p, const uint8_t* end, int64_t length, int bits) noexcept nogil:
    # Reads a length of `bits` bits. If these bits are 0, more bytes follow. The length is then the largest value of
    # `bits` bits, plus 255 for every zero byte, plus the byte after the zero bytes.
    if length:
        return length
    length = (1 << bits) - 1
    while p[0] < end and p[0][0] == 0:
        length += 255
        p[0] += 1
    if p[0] >= end:
        return -1
    length += p[0][0]
    p[0] += 1
    return length


cdef int64_t count_lzo(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int64_t total = 0, length
    cdef int token, literals
    cdef int state = 0              # how many literals the last token copied: 0, 1..3, or 4 for four and more
    if end - p > 0 and p[0] > 17:
        literals = p[0] - 17
        if end - p - 1 < literals:
            return -1
        p += 1 + literals
        total = literals
        state = min(literals, 4)
    while p < end:
        token = p[0]
        p += 1
        if token < 16 and state == 0:
            length = lzo_length(&p, end, token, 4)
            if length < 0 or end - p < length + 3:
                return -1
            p += length + 3
            total += length + 3
            state = 4
            continue
        if token < 16 or token >= 64:
            if end - p < 1:
                return -1
            if token < 16:
                total += 3 if state == 4 else 2
            else:
                total += (token >> 5) + 1
            state = token & 3
            p += 1
        else:
            length = lzo_length(&p, end, token & (31 if token >= 32 else 7), 5 if token >= 32 else 3)
            if length < 0 or end - p < 2:
                return -1
            if token < 32 and token & 8 == 0 and p[0] < 4 and p[1] == 0:
                return total        # a match at distance 16384 ends the block
            total += length + 2
            state = p[0] & 3
            p += 2
        if end - p < state:
            return -1
        p += state
        total += state
    return -1


def lzo_size(const uint8_t[::1] chunk not None):
    """Returns the size of an LZO1X block after decompression, without decompressing the block. Returns -1 if the block
    does not end properly."""
    cdef int64_t total
    if chunk.shape[0] == 0:
        return -1
    with nogil:
        total = count_lzo(&chunk[0], &chunk[0] + chunk.shape[0])
    return total
