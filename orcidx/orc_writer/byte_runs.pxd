from libc.stdint cimport int64_t, uint8_t

from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.positions cimport WrittenPositions


cdef class ByteRuns:
    cdef readonly OutStream stream
    cdef uint8_t* pending                   # bytes of the open row group
    cdef size_t size
    cdef size_t capacity

    cdef uint8_t* room(self, size_t length) except NULL nogil
    cdef int end_run(self) except -1 nogil


cdef class Bits:
    cdef readonly OutStream stream
    cdef uint8_t* bytes                     # bits of the stripe, most significant bit first
    cdef size_t capacity                    # in bytes
    cdef readonly int64_t count             # number of bits

    # Appends `n` bits of a validity bitmap (least significant bit first), from bit `offset` on. If `bitmap` is NULL,
    # all appended bits are 1.
    cdef int put_bitmap(self, const uint8_t* bitmap, int64_t offset, int64_t n) except -1 nogil
    cdef int put_same(self, bint value, int64_t n) except -1 nogil
    cdef int put_bits(self, Bits other) except -1 nogil
    cdef int put_all(self, WrittenPositions table, const int64_t* bits) except -1  # see `encode`
    cdef int _grow(self, int64_t bits) except -1 nogil
    cdef void _put_bit(self, bint bit) noexcept nogil
