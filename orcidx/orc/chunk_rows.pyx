"""Chunks of one stream that several threads decompress side by side, each to where its bytes belong.

Of a column that is read alone one thread does all the work, and most of that is decompression. A chunk's header says
how long it is as stored, so that the next ones are found without decompressing any. Where the bytes of a chunk belong
is known if those before it fill their blocks, as writers make them: that is a bet. The thread that reads takes chunks
from the front of such a row, others from its end, until they meet. What comes after the first chunk that is damaged,
or shorter than a block, is given up; the window goes on there by itself, and finds what there is to say. A chunk of
which only the beginning is wanted is the last of its row, and goes to the window's buffer.

No row index is asked, nothing is read that would not be read in order, and nothing is decompressed to memory of its
own. A chunk that is decompressed in vain is not counted.
"""

from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock, PyThread_type_lock,
    WAIT_LOCK,
)
from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.native_codec cimport NativeCodec
from orcidx.orc.window cimport CARRY, COUNTED, Window, count_held

cdef enum:
    HEADER = 3
    MOST = 64               # chunks of a row
    WORTH = 2               # chunks of a row from which on others are asked: asking takes as long as half of a chunk
    BETS = 3                # lost ones after which a stream's chunks are not taken in rows any more


cdef struct Chunk:
    const uint8_t* stored
    uint8_t* out
    int64_t length              # as stored
    int64_t after               # stream offset of what follows
    int64_t written             # bytes that it became; negative: it is damaged, or memory ran out


cdef class ChunkRow:
    """Chunks to be decompressed, block behind block. One thread owns it; others may ``help`` until it is closed."""

    cdef NativeCodec codec
    cdef int64_t block_size
    cdef int count
    cdef int first              # chunks[first:last] were not begun
    cdef int last
    cdef int helping
    cdef bint waiting           # the owner does, for those who help
    cdef PyThread_type_lock changing
    cdef PyThread_type_lock left
    cdef Chunk[MOST] chunks

    def __cinit__(self):
        self.changing = PyThread_allocate_lock()
        self.left = PyThread_allocate_lock()
        if self.changing == NULL or self.left == NULL:
            raise MemoryError
        PyThread_acquire_lock(self.left, WAIT_LOCK)

    def __dealloc__(self):
        if self.changing != NULL:
            PyThread_free_lock(self.changing)
        if self.left != NULL:
            PyThread_free_lock(self.left)

    def help(self):
        """Decompresses chunks from the end of the row, as long as there are some. Any thread may."""
        with nogil:
            self.work(False)

    cdef void work(self, bint owner) noexcept nogil:
        cdef int place
        PyThread_acquire_lock(self.changing, WAIT_LOCK)
        self.helping += not owner
        while self.first < self.last:
            if owner:
                place = self.first
                self.first += 1
            else:
                self.last -= 1
                place = self.last
            PyThread_release_lock(self.changing)
            self.decompress(place)
            PyThread_acquire_lock(self.changing, WAIT_LOCK)
        self.helping -= not owner
        if self.waiting and self.helping == 0:
            self.waiting = False
            PyThread_release_lock(self.left)
        PyThread_release_lock(self.changing)

    cdef void decompress(self, int place) noexcept nogil:
        # The room ends with the block: what lies behind it is another thread's.
        cdef Chunk* chunk = &self.chunks[place]
        chunk.written = self.codec.decompress(chunk.stored, chunk.length, chunk.out, self.block_size)

    cdef void close(self) noexcept nogil:
        # Nothing more begins; returns when nobody works.
        PyThread_acquire_lock(self.changing, WAIT_LOCK)
        self.last = self.first
        self.waiting = self.helping > 0
        if self.waiting:
            PyThread_release_lock(self.changing)
            PyThread_acquire_lock(self.left, WAIT_LOCK)
            return
        PyThread_release_lock(self.changing)

    cdef void add(self, const uint8_t* stored, uint8_t* out, int64_t length, int64_t after) noexcept nogil:
        self.chunks[self.count] = Chunk(stored, out, length, after, -1)
        self.count += 1
        self.last = self.count


def share(Window window not None, ask):
    """Has a window take chunks in rows: ``ask(row)`` has other threads call ``row.help()``, or not. None: no more."""
    window.ask = ask


cdef int64_t compressed_length(Window window, int64_t at) noexcept nogil:
    # Bytes of the compressed chunk whose header, at stream offset `at`, lies in the piece; else 0.
    cdef const uint8_t* header = <const uint8_t*> window.piece.view.buf + (at - window.piece.start)
    cdef int64_t length
    if window.piece.start + window.piece.length - at < HEADER or header[0] & 1:
        return 0
    length = (header[0] | header[1] << 8 | header[2] << 16) >> 1
    return length if length <= window.block_size and length <= window.length - at - HEADER else 0


cdef int64_t take_row(Window window, uint8_t* out, int64_t n) except -1 nogil:
    if window.ask is None or window.native is None or n < WORTH * window.block_size:
        return 0
    if window.p != window.end or (window.chunk_start >= 0 and window.extent_given < window.extent_length):
        return 0                # bytes at hand come first
    if window.length - window.next_chunk <= HEADER:
        return 0
    with gil:
        return take_shared(window, out, n)


cdef int64_t take_shared(Window window, uint8_t* out, int64_t n) except -1:
    cdef ChunkRow row = ChunkRow()
    cdef int64_t length, at = window.next_chunk
    cdef const uint8_t* stored
    window.fetch_piece(at)
    length = compressed_length(window, at)
    if length == 0:
        return 0
    row.codec, row.block_size = window.native, window.block_size
    window.p = window.end = NULL
    while length and row.count < MOST and n > 0:
        at += HEADER
        if at + length <= window.piece.start + window.piece.length:
            stored = <const uint8_t*> window.piece.view.buf + (at - window.piece.start)
        elif row.count == 0:    # over the end of the piece: the others lie in the next one
            stored = window.gather_chunk(at, length)
        else:
            break
        row.add(stored, out if n >= window.block_size else own_room(window), length, at + length)
        out += window.block_size
        n -= window.block_size
        at += length
        length = compressed_length(window, at) if window.holds(at) else 0
    try:
        if row.count >= WORTH:
            window.ask(row)
        with nogil:
            row.work(True)
    finally:
        with nogil:
            row.close()
    return settle(window, row)


cdef uint8_t* own_room(Window window) except NULL:
    # The window's buffer, with room for a block, when nothing of it is unread.
    if window.counted == 0:
        count_held(window, 0)
    window.reserve(0)
    return window.buffer + CARRY


cdef int64_t settle(Window window, ChunkRow row) except -1:
    # Takes what came as it would have come one after the other: the bytes that are where they belong.
    cdef int64_t total = 0, start = window.next_chunk, written
    cdef Chunk* chunk
    cdef bint last = False
    cdef int place
    window.forget()
    window.stored_length = 0
    for place in range(row.count):
        chunk = &row.chunks[place]
        written = chunk.written
        if last or not 0 <= written <= row.block_size:
            lose_bet(window)
            break
        last = written < row.block_size
        window.chunks_decompressed += 1
        window.bytes_decompressed += written
        window.next_chunk = chunk.after
        if window.buffer != NULL and chunk.out == window.buffer + CARRY:
            show(window, start, written)
        else:
            total += written
        start = chunk.after
    return total


cdef void lose_bet(Window window):
    window.lost_bets += 1
    if window.lost_bets == BETS:
        window.ask = None


cdef int show(Window window, int64_t start, int64_t length) except -1:
    # The chunk in the buffer, whose header is at stream offset `start`, is the present one, of which nothing is read.
    window.chunk_start = start
    window.extent = window.buffer + CARRY
    window.extent_length = length
    window.extent_given = 0
    window.extent_direct = -1
    if length > window.counted + COUNTED:
        count_held(window, length)
    return 0
