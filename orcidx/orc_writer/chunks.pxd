from libc.stdint cimport int64_t, uint8_t

from orcidx.orc_writer.compressors cimport Compressor
from orcidx.orc_writer.positions cimport WrittenPositions


# A stretch is a series of chunks. The first chunk of a stretch is its probe, which is compressed at each level.
ctypedef struct Favour:
    int64_t faster  # extra bytes of the probes at the faster level, minus the allowed extra bytes
    int64_t narrow  # extra bytes with the smaller window, minus the allowed extra bytes


cdef class ChunkedStream:
    cdef Compressor compressor  # None: no chunks, the bytes are stored unchanged
    cdef size_t block  # the most bytes of a chunk
    cdef uint8_t* raw                       # the open chunk; without a codec the whole stream
    cdef size_t raw_size
    cdef size_t raw_capacity
    cdef uint8_t* out                       # finished chunks with their headers
    cdef size_t out_size
    cdef size_t out_capacity
    cdef int64_t* starts  # where each chunk begins in `out`
    cdef size_t chunks
    cdef size_t starts_capacity
    cdef readonly int64_t total             # bytes before compression
    cdef bint shrinks  # whether the probe of the current stretch became smaller when it was compressed
    cdef Favour favour
    cdef bint joined  # whether more than one chunk of bytes from other streams may wait here
    cdef int64_t values  # how many values the bytes represent, if the column gives this number; otherwise 0
    cdef bint keeps_raw  # whether nothing is compressed here, because another stream takes over the bytes

    # Makes room for `length` bytes (plus 64 that may be overwritten). `advance` must then be called with the number
    # of used bytes.
    cdef uint8_t* reserve(self, size_t length) except NULL nogil
    cdef int advance(self, size_t length) except -1 nogil
    cdef int append(self, const uint8_t* data, size_t length) except -1 nogil
    cdef Py_ssize_t _compress(self, const uint8_t* raw, size_t length, uint8_t* out, Favour favour) except -1 nogil
    cdef Py_ssize_t _try_levels(self, const uint8_t* raw, size_t length, uint8_t* out, Favour* favour) except -1 nogil
    cdef int _write_chunk(self, size_t at, size_t length) except -1 nogil
    cdef int _put_chunk(
        self, const uint8_t* packed, Py_ssize_t written, size_t at, size_t length, Favour favour
    ) except -1 nogil
    cdef int _put_header(self, size_t length, Py_ssize_t written) except -1 nogil
    cdef int _write_in_place(self) except -1 nogil
    cdef void _shrink(self, uint8_t** buffer, size_t* capacity, size_t needed) noexcept nogil
    cdef int _grow_out(self, size_t more) except -1 nogil
    cdef int _finish(self) except -1 nogil

    # See `add_positions`. `offsets` has a byte position for each row group.
    cdef int put_positions(self, WrittenPositions table, const int64_t* offsets) except -1


cdef class OutStream(ChunkedStream):
    # The full chunks that are not in `out` yet, as `squeeze` compressed them. Index 0 is the chunk that follows the
    # last chunk in `out`.
    cdef uint8_t** waiting
    cdef Py_ssize_t* waiting_sizes
    cdef Favour* waiting_favours
    cdef size_t waiting_count

    cdef int take_over(self, OutStream other) except -1 nogil
    cdef void _forget_waiting(self) noexcept nogil
