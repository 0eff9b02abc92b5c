"""``OutStream``: the bytes of one stream, cut into chunks and compressed as soon as a chunk is full.

Every chunk but the last holds exactly one block before compression, so that the position of any byte follows from its
number: chunk ``n // block``, and ``n % block`` in it. A position at the very end of a compressed stream is given as
(start of the last chunk, its length): released Trino fails on (end of the stream, 0) (trino#20164).
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from orcidx.orc_writer.compressors cimport Compressor

import numpy as np

cdef enum:
    SLACK = 64                  # a kernel may store whole vectors
    FIRST_ROOM = 256            # a stream of a wide table may hold few bytes
    HEADER = 3
    STUBBORN = 2                # chunks in a row that did not shrink, until compressing is tried every eighth time only
    PROBE = 8


cdef class OutStream:
    """``block_size``: most bytes of a chunk before compression; ignored without a compressor."""

    def __cinit__(self, Compressor compressor, size_t block_size):
        self.compressor = compressor
        self.block = block_size

    def __dealloc__(self):
        free(self.raw)
        free(self.out)
        free(self.starts)

    cdef uint8_t* reserve(self, size_t length) except NULL nogil:
        cdef size_t needed = self.raw_size + length + SLACK
        cdef size_t capacity
        cdef void* grown
        if needed > self.raw_capacity:
            capacity = max(needed, self.raw_capacity + self.raw_capacity // 2, <size_t>FIRST_ROOM)
            grown = realloc(self.raw, capacity)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.raw = <uint8_t*>grown
            self.raw_capacity = capacity
        return self.raw + self.raw_size

    cdef int advance(self, size_t length) except -1 nogil:
        cdef size_t at = 0
        self.raw_size += length
        self.total += <int64_t>length
        if self.compressor is None or self.raw_size < self.block:
            return 0
        while self.raw_size - at >= self.block:
            self._write_chunk(at, self.block)
            at += self.block
        self.raw_size -= at
        memmove(self.raw, self.raw + at, self.raw_size)
        return 0

    cdef int append(self, const uint8_t* data, size_t length) except -1 nogil:
        cdef size_t part
        if self.compressor is None:
            memcpy(self.reserve(length), data, length)
            return self.advance(length)
        while length:
            part = min(length, self.block - self.raw_size)
            memcpy(self.reserve(part), data, part)
            self.advance(part)
            data += part
            length -= part
        return 0

    cdef int _write_chunk(self, size_t at, size_t length) except -1 nogil:
        cdef Py_ssize_t written = 0
        cdef size_t header
        cdef void* grown
        if self.chunks == self.starts_capacity:
            self.starts_capacity = max(<size_t>4, 2 * self.starts_capacity)
            grown = realloc(self.starts, self.starts_capacity * sizeof(int64_t))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.starts = <int64_t*>grown
        self._grow_out(length + HEADER)
        self.starts[self.chunks] = self.out_size
        self.chunks += 1
        if self.stubborn < STUBBORN or self.chunks % PROBE == 0:
            written = self.compressor.compress(self.raw + at, length, self.out + self.out_size + HEADER)
            self.stubborn = self.stubborn + 1 if written == 0 or <size_t>written > length - length // 50 else 0
        if written == 0:
            memcpy(self.out + self.out_size + HEADER, self.raw + at, length)
            header = 2 * length + 1
            written = length
        else:
            header = 2 * <size_t>written
        self.out[self.out_size] = header & 0xFF
        self.out[self.out_size + 1] = (header >> 8) & 0xFF
        self.out[self.out_size + 2] = (header >> 16) & 0xFF
        self.out_size += HEADER + written
        return 0

    cdef int _grow_out(self, size_t more) except -1 nogil:
        cdef size_t capacity
        cdef void* grown
        if self.out_size + more > self.out_capacity:
            capacity = max(self.out_size + more, self.out_capacity + self.out_capacity // 4)
            grown = realloc(self.out, capacity)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.out = <uint8_t*>grown
            self.out_capacity = capacity
        return 0

    cdef int _finish(self) except -1 nogil:
        if self.compressor is not None and self.raw_size:
            self._write_chunk(0, self.raw_size)
            self.raw_size = 0
        return 0

    @property
    def held(self):
        """Bytes of memory that the stream takes."""
        return <int64_t>self.out_size + <int64_t>self.raw_size

    def write(self, const uint8_t[::1] data not None):
        """Appends bytes."""
        cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
        cdef size_t length = data.shape[0]
        with nogil:
            if length:
                self.append(first, length)

    def finish(self):
        """All bytes of the stream as they go into the file; valid until ``clear``. Nothing more can be written."""
        with nogil:
            self._finish()
        if self.compressor is None:
            return PyMemoryView_FromMemory(<char*>self.raw, self.raw_size, PyBUF_READ) if self.raw_size else b""
        return PyMemoryView_FromMemory(<char*>self.out, self.out_size, PyBUF_READ) if self.out_size else b""

    def positions(self, offsets):
        """The numbers of a row index that stand for bytes of the stream (before compression), once it is finished: a
        list of one int64 array, or of two in a compressed file."""
        cdef Py_ssize_t i
        if self.compressor is None:
            return [offsets]
        starts = np.empty(self.chunks, np.int64)
        cdef int64_t[::1] out = starts
        for i in range(<Py_ssize_t>self.chunks):
            out[i] = self.starts[i]
        if not self.chunks:
            return [np.zeros_like(offsets), np.zeros_like(offsets)]
        chunk = offsets // <int64_t>self.block
        within = offsets % <int64_t>self.block
        behind = chunk == <int64_t>self.chunks
        chunk[behind] -= 1
        within[behind] = <int64_t>self.block
        return [starts[chunk], within]

    def clear(self):
        """Starts anew, for the next stripe."""
        free(self.out)
        self.out = NULL
        self.out_size = self.out_capacity = 0
        self.raw_size = self.chunks = 0
        self.total = 0
        self.stubborn = 0
        if self.raw_capacity > self.block:
            free(self.raw)
            self.raw = NULL
            self.raw_capacity = 0


def frame(data, Compressor compressor, size_t block_size):
    """Bytes as a stream of their own, as footers are written."""
    stream = OutStream(compressor, block_size)
    stream.write(data)
    return bytes(stream.finish())


def held_bytes(list streams):
    """Bytes of memory that many streams take."""
    cdef int64_t total = 0
    cdef OutStream stream
    for stream in streams:
        total += <int64_t>stream.out_size + <int64_t>stream.raw_size
    return total
