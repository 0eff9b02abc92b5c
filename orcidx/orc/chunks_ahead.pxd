from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.native_codec cimport NativeCodec

cdef enum:
    NO_CHUNK = -3


# A compressed chunk, and memory for its decompressed bytes. The thread that changes `state` from STAGED to BUSY
# decompresses the chunk.
cdef struct Slot:
    int state
    int64_t start               # stream offset after the chunk's header
    int64_t length              # number of stored bytes
    int64_t written             # size after decompression; negative: the chunk is damaged, or memory ran out
    uint8_t* stored             # memory for two blocks: the stored bytes, then the decompressed bytes


cdef class ChunksAhead:
    cdef NativeCodec codec
    cdef object ask
    cdef int64_t block_size
    cdef int64_t stream_length
    cdef bint whole
    cdef int room                       # number of slots
    cdef Slot* slots                    # chunk number n is in slot n % (number of slots)
    cdef int first  # number of the next chunk that the reader may take
    cdef int last  # number of the chunk that is being staged now
    cdef int unbegun  # number of staged chunks that no thread has started to decompress
    cdef int asked  # whether other threads were called, and no thread has returned from `help` since then
    cdef int64_t at                     # stream offset of the next byte that is staged
    cdef int64_t left  # bytes that are still missing in the chunk that is being staged
    cdef bint stopped  # staging stopped at data that the window must handle
    cdef int64_t allowed  # number of chunks that may be staged

    # Tells the ring that the reader is going to read n bytes. Until `go_on` is called, other threads do not decompress
    # more than these bytes.
    cdef void expect(self, int64_t n) noexcept nogil
    # Whether the reader's next chunk is in the ring.
    cdef bint has(self, int64_t start) noexcept nogil
    # Whether a chunk is in the ring. Chunks before it are dropped. If the chunk is not in the ring, it is staged next.
    cdef bint goes_to(self, int64_t start, int64_t length) noexcept nogil
    # Whether the chunk with its header at `offset` is in the ring or being staged. If so, writes the header.
    cdef bint header_at(self, int64_t offset, uint8_t* header) noexcept nogil
    # Returns the stream offset of the bytes that `put` needs next, or NO_CHUNK if it needs none.
    cdef int64_t wants(self) noexcept nogil
    cdef void put(self, const uint8_t* bytes, int64_t n) noexcept nogil
    # Calls other threads for help if there is a chunk to decompress.
    cdef int call(self) except -1 nogil
    # Writes the decompressed chunk to `out` and returns its size. The result is negative for a damaged chunk, and
    # NO_CHUNK if the chunk is not in the ring.
    cdef int64_t take(self, int64_t start, uint8_t* out, int64_t capacity) noexcept nogil

    cdef void give_up(self) noexcept nogil
    cdef void leave(self, Slot* slot) noexcept nogil
    cdef bint take_header(self, Slot* slot, const uint8_t* header, int64_t n) noexcept nogil
    cdef bint work(self, int first, int distance) noexcept nogil
    cdef bint work_at(self, Slot* slot) noexcept nogil
    cdef bint begin(self, Slot* slot) noexcept nogil
