from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.stored_stream cimport StoredStream

cdef enum:
    SLACK = 64          # bytes behind `end` that may be read (never used), so that kernels load whole words
    DIRECT = 65536      # from so many bytes on, `take` reads stored bytes straight to their destination
    COUNTED = 65536     # bytes of a buffer that nobody counts: those of a few hundred streams are little
    CARRY = 8192        # longest unread tail that `refill` keeps; the longest legal run has 4,356 bytes


cdef class PlainStream(StoredStream):
    cdef object limits  # the stripe's limits, which count what its windows hold; or None
    cdef int64_t counted  # bytes of the buffer that were reported to `limits`

    # --- extent: one chunk's plain bytes, in `buffer` or in the piece; with codec NONE the piece itself ---------------
    cdef const uint8_t* extent
    cdef int64_t extent_length
    cdef int64_t extent_given  # how much of it was in `p..end` before
    cdef int64_t extent_direct  # how much of it may be read in place, with SLACK readable after it; -1: none
    cdef int64_t chunk_start            # stream offset of its chunk header (or of its first byte); -1: no extent

    # --- memory: CARRY bytes, room for a chunk, SLACK -----------------------------------------------------------------
    cdef uint8_t* buffer
    cdef int64_t capacity

    cdef void forget(self) noexcept nogil
    cdef int reserve(self, int64_t n) except -1 nogil
    cdef int load_chunk(self) except -1 nogil
    cdef int load_piece(self) except -1 nogil
    cdef int load_plain(self, int64_t start, int64_t length) except -1 nogil
    cdef int load_compressed(self, int64_t start, int64_t length) except -1 nogil


cdef class Window(PlainStream):
    # --- for kernels: the unread bytes, always contiguous. Move `p` up to `end` freely. -----------------------------
    cdef const uint8_t* p
    cdef const uint8_t* end

    # 1: at least one more byte behind the unread ones, which stay (they may move: take `p` and `end` anew).
    # 0: the stream has no more bytes. Raises CorruptFile. May be called with unread bytes left (a run that straddles).
    cdef int refill(self) except -1 nogil
    # Exactly n bytes to `out`, or CorruptFile.
    cdef int take(self, uint8_t* out, int64_t n) except -1 nogil
    # Up to n (at least 1) bytes to `out`, and how many: those at hand, or of one chunk. 0: call again.
    cdef int64_t take_some(self, uint8_t* out, int64_t n) except -1 nogil
    # Skips exactly n bytes, or raises CorruptFile; stored chunks are not read.
    cdef int drop(self, int64_t n) except -1 nogil
    # Seeks; raises CorruptFile for an impossible position. Within the current chunk nothing is decompressed.
    cdef int seek_to(self, int64_t chunk, int64_t within) except -1 nogil
    # Stream offset for messages: of the chunk that `p` lies in, or of `p` with codec NONE.
    cdef int64_t place(self) noexcept nogil
    # Raises CorruptFile with this stream's name and place.
    cdef int fail(self, str message) except -1 with gil
    cdef int fail_end(self) except -1 nogil

    cdef int64_t take_whole(self, uint8_t* out, int64_t n) except -1 nogil
    cdef bint give(self, int64_t tail) noexcept nogil


cdef inline int count_held(PlainStream stream, int64_t size) except -1 with gil:
    """Reports to the stripe's limits how many bytes of its buffer a stream has used. The limits may raise."""
    stream.counted = size
    if stream.limits is not None:
        stream.limits.hold(id(stream), size, "the dictionaries and open streams")
    return 0
