from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.stored_stream cimport StoredStream

cdef enum:
    SLACK = 64          # bytes after `end` that may be loaded but are not used, so kernels can load whole words
    DIRECT = 65536      # for at least this many bytes, `take` reads stored bytes directly to their destination
    COUNTED = 65536     # bytes of a buffer that are not counted, because a few hundred streams take little memory
    CARRY = 8192        # longest unread tail that `refill` keeps; the longest legal run has 4,356 bytes


cdef class PlainStream(StoredStream):
    cdef object limits  # the stripe's limits, which count what its windows hold; or None
    cdef int64_t counted  # bytes of the buffer that were reported to `limits`

    # --- extent: the plain bytes of one chunk, in `buffer` or in the piece; with codec NONE the piece itself ----------
    cdef const uint8_t* extent
    cdef int64_t extent_length
    cdef int64_t extent_given  # how many bytes of the extent were already in `p..end`
    # the number of bytes of the extent that may be read in place, with SLACK readable bytes after them; -1: the
    # extent is in `buffer`
    cdef int64_t extent_direct
    cdef int64_t chunk_start            # stream offset of its chunk header (or of its first byte); -1: no extent

    # --- memory: CARRY bytes, space for a chunk, and SLACK ------------------------------------------------------------
    cdef uint8_t* buffer
    cdef int64_t capacity

    cdef void forget(self) noexcept nogil
    cdef int reserve(self, int64_t n) except -1 nogil
    cdef int load_chunk(self) except -1 nogil
    cdef int load_piece(self) except -1 nogil
    cdef int load_plain(self, int64_t start, int64_t length) except -1 nogil
    cdef int load_compressed(self, int64_t start, int64_t length) except -1 nogil


cdef class Window(PlainStream):
    # --- for kernels: the unread bytes, always contiguous. Kernels may move `p` up to `end`. ------------------------
    cdef const uint8_t* p
    cdef const uint8_t* end

    # Returns 1 if there is at least one more byte after the unread bytes. The unread bytes are kept, but may move, so
    # read `p` and `end` again. Returns 0 if the stream has no more bytes. Raises CorruptFile. May be called while bytes
    # are unread, because a run may be in two chunks.
    cdef int refill(self) except -1 nogil
    # Copies exactly n bytes to `out`, or raises CorruptFile.
    cdef int take(self, uint8_t* out, int64_t n) except -1 nogil
    # Copies up to n bytes (n >= 1) to `out`, from the unread bytes or from one chunk. Returns the number of bytes. If
    # it is 0, the caller must call again.
    cdef int64_t take_some(self, uint8_t* out, int64_t n) except -1 nogil
    # Skips exactly n bytes, or raises CorruptFile. Stored chunks are not read.
    cdef int drop(self, int64_t n) except -1 nogil
    # Seeks, or raises CorruptFile for an impossible position. A seek within the current chunk decompresses nothing.
    cdef int seek_to(self, int64_t chunk, int64_t within) except -1 nogil
    # Returns the stream offset for messages: the offset of the chunk that contains `p`, or with codec NONE the offset
    # of `p`.
    cdef int64_t place(self) noexcept nogil
    # Raises CorruptFile with the name and the position of this stream.
    cdef int fail(self, str message) except -1 with gil
    cdef int fail_end(self) except -1 nogil

    cdef int64_t take_whole(self, uint8_t* out, int64_t n) except -1 nogil
    cdef bint give(self, int64_t tail) noexcept nogil


# Begins with another stream of the same codec, all of whose bytes are in memory. The first `length` of the `readable`
# bytes belong to the stream.
cdef void aim(Window self, const uint8_t* stored, int64_t length, int64_t readable) noexcept nogil
# Begins with another stream of the same codec. `source` is as in `Window.__cinit__`.
cdef int reopen(Window self, source) except -1


cdef inline int count_held(PlainStream stream, int64_t size) except -1 with gil:
    """Reports to the stripe's limits how many bytes the buffer of a stream has. The limits may raise an error."""
    stream.counted = size
    if stream.limits is not None:
        stream.limits.hold(id(stream), size)
    return 0
