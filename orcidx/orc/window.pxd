from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.native_codec cimport NativeCodec
from orcidx.storage.local_file cimport PieceRun

cdef enum:
    SLACK = 64          # bytes behind `end` that may be read (never used), so that kernels load whole words
    DIRECT = 65536      # from so many bytes on, `take` reads stored bytes straight to their destination
    COUNTED = 65536     # bytes of a buffer that nobody counts: those of a few hundred streams are little
    CARRY = 8192        # longest unread tail that `refill` keeps; the longest legal run has 4,356 bytes
    STORED_RUN = 16     # most stored chunks that are read at once, straight to their destination
    # Two blocks of zstd's and slack: with so much room behind a block it decodes literals there, to memory that the
    # next block needs warm anyway (4 % of the time of a column of doubles).
    LITERALS = 262208


# What the source handed over last. In a struct, where Cython's garbage collection support does not see the buffer: it
# would clear the exporter while it is still exported.
cdef struct Piece:
    Py_buffer view
    bint held
    int64_t start               # stream offset of its first byte
    int64_t length              # up to the end of the stream; `readable` may go beyond
    int64_t readable


cdef class Window:
    # --- for kernels: the unread bytes, always contiguous. Move `p` up to `end` freely. -----------------------------
    cdef const uint8_t* p
    cdef const uint8_t* end

    # --- set once -----------------------------------------------------------------------------------------------------
    cdef readonly str name              # such as "DATA"; goes into every error
    cdef readonly int64_t length        # bytes of the stream as stored
    cdef readonly int64_t block_size    # most bytes of one chunk when decompressed
    cdef object source
    cdef object codec                   # None: codec NONE, no chunk headers
    cdef NativeCodec native             # may be None
    cdef bint framed
    cdef object read_stored             # the source's `read_into`, or None
    cdef object limits                  # of the stripe, which counts what its windows hold; or None
    cdef int64_t counted                # bytes of the buffer that `limits` knows of
    cdef PieceRun run                   # the source's, or None: brings pieces without asking it
    cdef object ask                     # has other threads decompress, see chunk_rows; or None
    cdef int lost_bets

    # --- counters -----------------------------------------------------------------------------------------------------
    cdef readonly int64_t chunks_decompressed
    cdef readonly int64_t bytes_decompressed

    cdef Piece piece

    # --- extent: one chunk's plain bytes, in `buffer` or in the piece; with codec NONE the piece itself ---------------
    cdef const uint8_t* extent
    cdef int64_t extent_length
    cdef int64_t extent_given           # how much of it `p..end` has covered
    cdef int64_t extent_direct          # how much of it may be read in place, with SLACK readable behind
    cdef int64_t chunk_start            # stream offset of its chunk header (or of its first byte); -1: no extent
    cdef int64_t next_chunk             # stream offset of what follows

    # --- stored chunks tend to come in rows: the last one's length, 0 after a compressed one; how many to bet on ------
    cdef int64_t stored_length
    cdef int stored_run

    # --- memory: CARRY bytes, room for a chunk, SLACK -----------------------------------------------------------------
    cdef uint8_t* buffer
    cdef int64_t capacity
    cdef uint8_t* scratch               # a compressed chunk that straddles pieces
    cdef int64_t scratch_capacity

    # 1: at least one more byte behind the unread ones, which stay (they may move: take `p` and `end` anew).
    # 0: the stream has no more bytes. Raises CorruptFile. May be called with unread bytes left (a run that straddles).
    cdef int refill(self) except -1 nogil
    # Exactly n bytes to `out`, or CorruptFile.
    cdef int take(self, uint8_t* out, int64_t n) except -1 nogil
    # Up to n (at least 1) bytes to `out`, and how many: those at hand, or of one chunk. 0: call again.
    cdef int64_t take_some(self, uint8_t* out, int64_t n) except -1 nogil
    # Passes over exactly n bytes, or CorruptFile; stored chunks are not touched.
    cdef int drop(self, int64_t n) except -1 nogil
    # Repositions; raises CorruptFile for a place that cannot be. Inside the present chunk nothing is decompressed.
    cdef int seek_to(self, int64_t chunk, int64_t within) except -1 nogil
    # Stream offset for messages: of the chunk that `p` lies in, or of `p` with codec NONE.
    cdef int64_t place(self) noexcept nogil
    # Raises CorruptFile with this stream's name and place.
    cdef int fail(self, str message) except -1 with gil
    cdef int fail_end(self) except -1 nogil

    cdef int64_t take_whole(self, uint8_t* out, int64_t n) except -1 nogil
    cdef int64_t take_plain(self, uint8_t* out, int64_t n) except -1 with gil
    cdef int64_t take_stored(self, uint8_t* out, int64_t n) except -1 with gil
    cdef int64_t take_chunk(self, uint8_t* out, int64_t n) except -1 nogil
    cdef bint holds(self, int64_t offset) noexcept nogil
    cdef int fetch_piece(self, int64_t offset) except -1 with gil
    cdef int gather(self, int64_t offset, uint8_t* out, int64_t n) except -1 nogil
    cdef int reserve(self, int64_t n) except -1 nogil
    cdef bint give(self, int64_t tail) noexcept nogil
    cdef int read_header(self, int64_t* length, bint* original) except -1 nogil
    cdef int load_chunk(self) except -1 nogil
    cdef int load_piece(self) except -1 nogil
    cdef int load_plain(self, int64_t start, int64_t length) except -1 nogil
    cdef int load_compressed(self, int64_t start, int64_t length) except -1 nogil
    cdef int64_t decompress(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -1 nogil
    cdef int64_t decompress_with_gil(self, const uint8_t* chunk, int64_t length, uint8_t* out) except -1 with gil
    cdef const uint8_t* gather_chunk(self, int64_t start, int64_t length) except NULL nogil
    cdef void forget(self) noexcept nogil


cdef inline int count_held(Window window, int64_t size) except -1 with gil:
    """Tells the stripe's limits, which may refuse, how many bytes of its buffer a window has used."""
    window.counted = size
    if window.limits is not None:
        window.limits.hold(id(window), size, "the dictionaries and open streams")
    return 0
