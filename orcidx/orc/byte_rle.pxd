from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.window cimport Window


cdef class ByteRle:
    cdef readonly Window window
    cdef int64_t left  # values of the current run that were not consumed yet
    cdef bint repeats  # whether the run repeats `value`; if not, its bytes are in the window
    cdef uint8_t value

    cdef int next_run(self) except -1 nogil
    # Reads exactly n values.
    cdef int read_bytes(self, uint8_t* out, int64_t n) except -1 nogil
    cdef int skip_bytes(self, int64_t n) except -1 nogil


cdef class BooleanRle:
    cdef readonly Window window
    cdef ByteRle bytes
    cdef uint8_t pending  # the bits of the last byte that were not consumed yet; the next bit is the lowest
    cdef int pending_bits

    # Begins with another stream, on which the window is already.
    cdef void restart(self) noexcept nogil
    cdef int next_byte(self) except -1 nogil
    # Writes n bits to a bitmap, from bit `offset` on. Returns how many of them are set.
    cdef int64_t read_bitmap(self, uint8_t* out, int64_t offset, int64_t n) except -1 nogil
    cdef int64_t skip_bits(self, int64_t n) except -1 nogil


# Reads exactly n bytes, and ors them into `seen`, eight at a time.
cdef int read_text_bytes(Window window, uint8_t* out, int64_t n, uint64_t* seen) except -1 nogil
# Writes the first n bits of `bits` to the bitmap `out`, from bit `offset` on.
cdef void copy_bits(uint8_t* out, int64_t offset, const uint8_t* bits, int64_t n) noexcept nogil
