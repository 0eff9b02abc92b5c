from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.chunks_ahead cimport ChunksAhead, NO_CHUNK
from orcidx.orc.native_codec cimport NativeCodec
from orcidx.storage.local_file cimport PieceRun

cdef enum:
    STORED_RUN = 16     # most stored chunks that are read at once, directly to their destination
    # The size of two zstd blocks and some slack. With this much memory after a block, zstd decodes literals to
    # this memory, which the next block needs in the cache anyway. This saves 4 % of the time of a column of doubles.
    LITERALS = 262208


# The bytes that the source gave last. The struct hides the buffer from Cython's garbage collection support, which would
# clear the exporter while the buffer is still exported.
cdef struct Piece:
    Py_buffer view
    bint held
    int64_t start               # stream offset of its first byte
    int64_t length              # up to the end of the stream; `readable` may go beyond
    int64_t readable


cdef class StoredStream:
    # --- set when the stream is opened --------------------------------------------------------------------------------
    cdef readonly str name  # such as "DATA"; every error contains it
    cdef readonly int64_t length  # number of stored bytes
    cdef readonly int64_t block_size  # the most bytes of one chunk after decompression
    cdef object source
    cdef object codec                   # None: codec NONE, without chunk headers
    cdef readonly NativeCodec native    # may be None
    cdef bint framed
    cdef object read_stored             # the source's `read_into`, or None
    cdef PieceRun run  # the source's `run`, or None; it reads pieces without a call to the source
    cdef public ChunksAhead ahead  # the chunks of the stream that other threads decompress; or None

    # --- counters -----------------------------------------------------------------------------------------------------
    cdef readonly int64_t chunks_decompressed
    cdef readonly int64_t bytes_decompressed
    # The chunks whose headers are in this range of stream offsets are not counted, because they were counted before.
    cdef int64_t counted_from
    cdef int64_t counted_to
    cdef int64_t then_counted_from      # the values of `counted_from` and `counted_to` after the next seek
    cdef int64_t then_counted_to

    cdef Piece piece
    cdef int64_t next_chunk  # stream offset of the next chunk

    # A chunk that is not compressed is often followed by more such chunks. `stored_length` is the length of the last
    # chunk, or 0 if it was compressed. `stored_run` is the number of uncompressed chunks that are expected next.
    cdef int64_t stored_length
    cdef int stored_run

    cdef uint8_t* scratch  # a compressed chunk that is in two or more pieces
    cdef int64_t scratch_capacity

    cdef int begin(self, source, codec, block_size, str name) except -1
    cdef void lose_piece(self) noexcept nogil
    cdef int fail_chunk(self, str message) except -1 with gil
    cdef bint holds(self, int64_t offset) noexcept nogil
    cdef int fetch_piece(self, int64_t offset) except -1 with gil
    cdef int gather(self, int64_t offset, uint8_t* out, int64_t n) except -1 nogil
    cdef int read_header(self, int64_t* length, bint* original) except -1 nogil
    cdef int64_t decompress(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -1 nogil
    cdef int64_t decompress_with_gil(self, const uint8_t* chunk, int64_t length, uint8_t* out) except -1 with gil
    cdef int64_t take_ahead(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -4 nogil
    cdef bint fetch_early(self, int64_t offset) except -1 with gil
    cdef const uint8_t* gather_chunk(self, int64_t start, int64_t length) except NULL nogil

    # Each of these functions reads up to n of the next plain bytes directly to `out`, and moves `next_chunk`. It
    # returns the number of bytes, or 0 if the bytes cannot be read directly.
    cdef int64_t take_plain(self, uint8_t* out, int64_t n) except -1 with gil
    cdef int64_t take_stored(self, uint8_t* out, int64_t n) except -1 with gil
    cdef int64_t take_chunk(self, uint8_t* out, int64_t n) except -1 nogil
