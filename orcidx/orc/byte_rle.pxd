from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.window cimport Window


cdef class RawBytes:
    cdef readonly Window window


cdef class ByteRle:
    cdef readonly Window window
    cdef int64_t left                   # values of the present run that are not yet consumed
    cdef bint repeats                   # the run repeats `value`; otherwise its bytes follow in the window
    cdef uint8_t value

    # All raise CorruptFile when the stream ends first.
    cdef int read_bytes(self, uint8_t* out, int64_t n) except -1 nogil
    cdef int skip_bytes(self, int64_t n) except -1 nogil
    cdef int next_run(self) except -1 nogil     # makes left > 0


cdef class BooleanRle:
    cdef readonly Window window
    cdef ByteRle bytes
    cdef uint8_t pending                # the bits not yet consumed of the last byte, the next one lowest
    cdef int pending_bits

    # n bits to `out`, an Arrow bitmap (least significant bit first), from bit `offset` on; other bits stay as they are.
    # Returns the number of set bits; -1 with CorruptFile when the stream ends first.
    cdef int64_t read_bitmap(self, uint8_t* out, int64_t offset, int64_t n) except -1 nogil
    # The same without output.
    cdef int64_t skip_bits(self, int64_t n) except -1 nogil
    cdef int next_byte(self) except -1 nogil
