"""``ChunksAhead``: other threads decompress the next chunks of one stream before its reader needs them.

If a column is read alone, one thread does all the work, and most of this work is decompression. The reader's window
copies ("stages") the next stored chunks to a ring of bounded memory. Threads without other work decompress them into
memory of the ring. The window takes the decompressed chunks from there. This is the order in which the chunks of the
ring are taken::

      first                first + CHUNKS_APART                                last
      | taken next ......  | others begin here, and go on to the end ......... | staged next

No thread ever waits. If no other thread has started a chunk that the reader needs, the reader decompresses the chunk
directly to its destination. If another thread is decompressing the chunk that the reader needs, the reader first
decompresses a different chunk. If the other thread has still not finished then, it is probably not running, and the
reader decompresses the chunk itself. The memory of the other thread's chunk is not reused until that thread has
finished the chunk.

The counters do not include chunks that are decompressed but not used. If a chunk is damaged, the reader decompresses it
again. So errors, their positions and the counters are the same as with one thread. The ring has no references to the
window, its stream or its file. It is not freed while a thread uses it.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from orcidx.orc.context_slots cimport CONTEXT_SLOTS, put_context, take_context
from orcidx.orc.native_codec cimport NativeCodec

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static int orcidx_load(int* at) { return (int)_InterlockedOr((volatile long*)at, 0); }
    static void orcidx_store(int* at, int value) { _InterlockedExchange((volatile long*)at, value); }
    static int orcidx_add(int* at, int n) { return (int)_InterlockedExchangeAdd((volatile long*)at, n); }
    static int orcidx_change(int* at, int from, int to) {
        return _InterlockedCompareExchange((volatile long*)at, to, from) == from;
    }
    #else
    static int orcidx_load(int* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
    static void orcidx_store(int* at, int value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
    static int orcidx_add(int* at, int n) { return __atomic_fetch_add(at, n, __ATOMIC_ACQ_REL); }
    static int orcidx_change(int* at, int from, int to) {
        return __atomic_compare_exchange_n(at, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    #endif
    """
    int orcidx_load(int* at) noexcept nogil
    void orcidx_store(int* at, int value) noexcept nogil
    int orcidx_add(int* at, int n) noexcept nogil
    bint orcidx_change(int* at, int before, int after) noexcept nogil

cdef int64_t ALL = 1LL << 62

cdef enum:
    HEADER_BYTES = 3
    MOST_SLOTS = 64
    USUAL_SLOT_BYTES = 1 << 17      # two blocks of 64 KiB, one stored and one decompressed
    CHUNKS_APART = 8                # distance between the first chunk and the chunks with which other threads start
    LEAST_UNBEGUN = 3               # chunks; with fewer, calling other threads takes longer than it saves

cdef enum:
    FREE = 0
    STAGED = 1
    BUSY = 2
    DONE = 3
    LEFT = 4                # the thread that uses the slot frees it


# Memory of former slots, each with room for two blocks. Later rings reuse this memory. Mapping and clearing new memory
# for each stripe takes longer than decompressing a column of integers (decision 0060).
cdef void* SPARE[CONTEXT_SLOTS]


cdef void* spare_room(int64_t size) noexcept nogil:
    cdef void* room = take_context(SPARE) if size == USUAL_SLOT_BYTES else NULL
    return malloc(size) if room == NULL else room


cdef void leave_room(void* room, int64_t size) noexcept nogil:
    if size == USUAL_SLOT_BYTES and room != NULL:
        room = put_context(SPARE, room)
    free(room)


cdef class ChunksAhead:
    """The ring of chunks of one stream, for one reader and any number of other threads. It holds up to ``most`` chunks,
    each in memory for two blocks. ``whole``: whether the stream will be read to its end, so that its next piece may be
    fetched early. ``ask``: the reader calls it with the ring when other threads should call ``help``."""

    def __cinit__(self, NativeCodec codec not None, *, int64_t block_size, int64_t stream_length, int most,
                  bint whole, ask):
        self.codec = codec
        self.block_size = block_size
        self.stream_length = stream_length
        self.whole = whole
        self.ask = ask
        self.stopped = True
        self.room = min(most, <int> MOST_SLOTS)
        self.slots = <Slot*> calloc(self.room, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int i
        for i in range(self.room):
            leave_room(self.slots[i].stored, 2 * self.block_size)
        free(self.slots)

    def help(self, int most):
        """Decompresses up to ``most`` chunks, in any thread. Returns whether there was at least one chunk."""
        cdef int done = 0
        with nogil:
            while done < most and self.work(orcidx_load(&self.first), min(<int> CHUNKS_APART, self.room // 4)):
                done += 1
            orcidx_store(&self.asked, False)
        return done > 0

    def go_on(self):
        """The reader calls this method. From then on, other threads may decompress chunks that the reader has not
        requested yet."""
        self.allowed = ALL

    def close(self):
        """The reader calls this method. After this call, other threads find no more chunks."""
        with nogil:
            self.give_up()
            self.stopped = True

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that chunks have taken so far."""
        cdef int i
        return sum([2 * self.block_size for i in range(self.room) if self.slots[i].stored != NULL])

    # --- called by the reader -----------------------------------------------------------------------------------------

    cdef void expect(self, int64_t n) noexcept nogil:
        if self.allowed < ALL // 2:
            self.allowed = (n + self.block_size - 1) // self.block_size

    cdef bint goes_to(self, int64_t start, int64_t length) noexcept nogil:
        cdef Slot* slot
        while self.first != self.last:
            if self.slots[self.first % self.room].start == start:
                return True
            self.leave(&self.slots[self.first % self.room])
        slot = &self.slots[self.last % self.room]
        if self.left == 0 or slot.start != start:       # otherwise the chunk is still being staged
            self.stopped = orcidx_load(&slot.state) != FREE
            if not self.stopped:
                self.at, self.left = start, length
                slot.start, slot.length = start, length
        return False

    cdef void give_up(self) noexcept nogil:
        self.left = 0
        while self.first != self.last:
            self.leave(&self.slots[self.first % self.room])

    cdef void leave(self, Slot* slot) noexcept nogil:
        # Removes the first chunk from the ring. If another thread is using the chunk's memory, that thread frees the
        # memory later.
        if self.begin(slot) or not orcidx_change(&slot.state, BUSY, LEFT):
            orcidx_store(&slot.state, FREE)
        orcidx_store(&self.first, self.first + 1)

    cdef bint has(self, int64_t start) noexcept nogil:
        return self.first != self.last and self.slots[self.first % self.room].start == start

    cdef bint header_at(self, int64_t offset, uint8_t* header) noexcept nogil:
        cdef int number, last = self.last + (self.left > 0)
        cdef int64_t length
        for number in range(self.first, last):
            if self.slots[number % self.room].start == offset + HEADER_BYTES:
                length = self.slots[number % self.room].length
                header[0], header[1], header[2] = length << 1 & 0xFF, length >> 7 & 0xFF, length >> 15 & 0xFF
                return True
        return False

    cdef int64_t wants(self) noexcept nogil:
        if self.stopped or self.allowed <= 0 or self.at >= self.stream_length or self.last - self.first >= self.room:
            return NO_CHUNK
        return self.at if orcidx_load(&self.slots[self.last % self.room].state) == FREE else NO_CHUNK

    cdef void put(self, const uint8_t* bytes, int64_t n) noexcept nogil:
        cdef Slot* slot
        cdef int64_t step
        while n > 0 and self.wants() >= 0:
            slot = &self.slots[self.last % self.room]
            if self.left == 0:
                if not self.take_header(slot, bytes, n):
                    self.stopped = True
                    return
                bytes += HEADER_BYTES
                n -= HEADER_BYTES
            if slot.stored == NULL:
                slot.stored = <uint8_t*> spare_room(2 * self.block_size)
                if slot.stored == NULL:
                    self.left = 0
                    self.stopped = True
                    return
            step = min(n, self.left)
            memcpy(slot.stored + (slot.length - self.left), bytes, step)
            bytes += step
            n -= step
            self.at += step
            self.left -= step
            if self.left == 0:
                orcidx_store(&slot.state, STAGED)
                orcidx_add(&self.unbegun, 1)
                self.allowed -= 1
                orcidx_store(&self.last, self.last + 1)

    cdef bint take_header(self, Slot* slot, const uint8_t* header, int64_t n) noexcept nogil:
        # Returns whether the header is complete and is the header of a compressed chunk. The window handles all other
        # cases, including a header in two pieces.
        cdef int64_t length
        if n < HEADER_BYTES or header[0] & 1:
            return False
        length = (header[0] | header[1] << 8 | header[2] << 16) >> 1
        if not 0 < length <= min(self.block_size, self.stream_length - self.at - HEADER_BYTES):
            return False
        self.at += HEADER_BYTES
        self.left = length
        slot.start, slot.length = self.at, length
        return True

    cdef int call(self) except -1 nogil:
        if orcidx_load(&self.unbegun) < LEAST_UNBEGUN or orcidx_load(&self.asked):
            return 0
        orcidx_store(&self.asked, True)
        with gil:
            self.ask(self)
        return 0

    cdef int64_t take(self, int64_t start, uint8_t* out, int64_t capacity) noexcept nogil:
        cdef Slot* slot = &self.slots[self.first % self.room]
        cdef int64_t written
        cdef bint mine
        if not self.has(start):
            return NO_CHUNK
        mine = self.begin(slot)
        if not mine:
            if orcidx_load(&slot.state) == BUSY:
                self.work(self.first, 1)
            mine = orcidx_change(&slot.state, BUSY, LEFT)
            if not mine and slot.written >= 0:
                written = slot.written
                memcpy(out, slot.stored + self.block_size, written)
            else:
                written = self.codec.decompress(slot.stored, slot.length, out, capacity)
            if not mine:
                orcidx_store(&slot.state, FREE)
        else:
            written = self.codec.decompress(slot.stored, slot.length, out, capacity)
            orcidx_store(&slot.state, FREE)
        orcidx_store(&self.first, self.first + 1)
        return written

    # --- called by any thread -----------------------------------------------------------------------------------------

    cdef bint work(self, int first, int distance) noexcept nogil:
        # Decompresses one chunk that no thread has begun. Chunks at a distance of at least `distance` from the first
        # chunk are tried first, in ascending order. Then the nearer chunks are tried, in descending order.
        cdef int number, last = orcidx_load(&self.last)
        for number in range(first + distance, last):
            if self.work_at(&self.slots[number % self.room]):
                return True
        for number in range(min(first + distance, last) - 1, first - 1, -1):
            if self.work_at(&self.slots[number % self.room]):
                return True
        return False

    cdef bint begin(self, Slot* slot) noexcept nogil:
        if not orcidx_change(&slot.state, STAGED, BUSY):
            return False
        orcidx_add(&self.unbegun, -1)
        return True

    cdef bint work_at(self, Slot* slot) noexcept nogil:
        if not self.begin(slot):
            return False
        slot.written = self.codec.decompress(slot.stored, slot.length, slot.stored + self.block_size, self.block_size)
        if not orcidx_change(&slot.state, BUSY, DONE):
            orcidx_store(&slot.state, FREE)     # the reader has dropped the chunk
        return True
