from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.native_codec cimport NativeCodec

cdef enum:
    NO_CHUNK = -3


# A compressed chunk and the memory for its decompressed bytes. The thread that changes `state` from STAGED to BUSY
# decompresses it.
cdef struct Slot:
    int state
    int64_t start               # stream offset behind the header
    int64_t length              # as stored
    int64_t written             # bytes that it became; negative: it is damaged, or memory ran out
    uint8_t* stored             # room for a block; what it becomes is behind that


cdef class ChunksAhead:
    cdef NativeCodec codec
    cdef object ask
    cdef int64_t block_size
    cdef int64_t stream_length
    cdef bint whole
    cdef int room                       # slots
    cdef Slot* slots                    # chunk number n is in slot n % room
    cdef int first  # number of the next chunk that the reader may take
    cdef int last  # number of the chunk that is being staged
    cdef int unbegun  # how many of those between have not been begun
    cdef int asked  # whether other threads were asked and have not reported yet that nothing is left
    cdef int64_t at                     # stream offset of the next byte to be staged
    cdef int64_t left  # bytes of the chunk being staged that are still missing
    cdef bint stopped  # stopped at something that the window must handle
    cdef int64_t allowed  # number of chunks that may be staged

    # The reader is going to read n bytes; before `go_on` that is as far as others go.
    cdef void expect(self, int64_t n) noexcept nogil
    # Whether the reader's next chunk is in the ring.
    cdef bint has(self, int64_t start) noexcept nogil
    # Whether a chunk is in the ring; chunks before it are dropped. If it is not, it is staged next.
    cdef bint goes_to(self, int64_t start, int64_t length) noexcept nogil
    # Whether the chunk with its header at `offset` is here or being staged; if so, the header.
    cdef bint header_at(self, int64_t offset, uint8_t* header) noexcept nogil
    # Stream offset of the bytes that `put` should get; NO_CHUNK: none.
    cdef int64_t wants(self) noexcept nogil
    cdef void put(self, const uint8_t* bytes, int64_t n) noexcept nogil
    # Asks other threads for help if there is something to decompress.
    cdef int call(self) except -1 nogil
    # Puts the decompressed chunk into `out` and returns its size; negative for a damaged one; NO_CHUNK if it is not in
    # the ring.
    cdef int64_t take(self, int64_t start, uint8_t* out, int64_t capacity) noexcept nogil

    cdef void give_up(self) noexcept nogil
    cdef void leave(self, Slot* slot) noexcept nogil
    cdef bint take_header(self, Slot* slot, const uint8_t* header, int64_t n) noexcept nogil
    cdef bint work(self, int first, int distance) noexcept nogil
    cdef bint work_at(self, Slot* slot) noexcept nogil
    cdef bint begin(self, Slot* slot) noexcept nogil
