"""``Window``: the bytes of one stream, decompressed, always contiguous from ``p`` to ``end``.

There are three classes, each based on the previous one. ``StoredStream`` handles chunks and the pieces in which the
storage gives bytes. ``PlainStream`` holds the decompressed bytes of one chunk, which are called the extent. ``Window``
gives them to decoders as contiguous bytes, even across chunks and pieces. The memory looks like this::

      buffer                             a chunk, decompressed straight to its place
      | CARRY ............ [unread tail] | extent ....................... | SLACK |
                           p                                              end

``refill`` moves the unread tail to just before the next chunk, so that a run that is in both of them is contiguous.
Bytes that are stored uncompressed (codec NONE, and chunks stored as *original*) are read in place without a copy. Only
two parts are copied: the tail of a run in two chunks, and the last ``SLACK`` bytes if no readable bytes follow them.
``take`` also avoids copies. A chunk that is wanted completely is decompressed directly to its destination. If the
source supports it, uncompressed bytes are also read directly to their destination: all bytes with codec NONE, otherwise
series of uncompressed chunks.
"""

from cpython.buffer cimport PyBuffer_Release
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from orcidx.errors import CorruptFile


cdef class PlainStream(StoredStream):
    """A decompressed stream, one extent after the other. An extent is a chunk, or with codec NONE a piece."""

    def __cinit__(self):
        self.chunk_start = -1

    def __dealloc__(self):
        free(self.buffer)

    cdef void forget(self) noexcept nogil:
        self.chunk_start = -1
        self.extent = NULL
        self.extent_length = self.extent_given = self.extent_direct = 0

    cdef void lose_piece(self) noexcept nogil:
        if self.extent_direct >= 0:             # the current extent is in the piece
            self.chunk_start = -1
            self.extent_length = self.extent_given = 0

    cdef int reserve(self, int64_t n) except -1 nogil:
        # Makes room for n bytes after the first CARRY bytes. The first CARRY bytes are kept.
        cdef uint8_t* memory
        if self.framed and n < self.block_size:
            n = self.block_size
        n = max(n, <int64_t> CARRY)
        if n <= self.capacity:
            return 0
        memory = <uint8_t*> malloc(CARRY + n + SLACK)
        if memory == NULL:
            with gil:
                raise MemoryError
        if self.buffer != NULL:
            memcpy(memory, self.buffer, CARRY)
        memset(memory + CARRY + n, 0, SLACK)
        free(self.buffer)
        self.buffer = memory
        self.capacity = n
        return 0

    cdef int load_chunk(self) except -1 nogil:
        # Loads the chunk at next_chunk as the current extent. The decoder has not read any byte of this chunk yet. The
        # unread tail of the previous extent must be in the first CARRY bytes of the buffer.
        cdef int64_t length, start = self.next_chunk + 3
        cdef bint original
        if not self.framed:
            if not self.holds(self.next_chunk):
                self.fetch_piece(self.next_chunk)
            return self.load_piece()
        self.chunk_start = -1  # until a chunk is loaded, there is no extent to go back to
        self.read_header(&length, &original)
        if length == 0:
            self.extent_length = self.extent_direct = 0
        elif original:
            self.load_plain(start, length)
        else:
            self.load_compressed(start, length)
        self.extent_given = 0
        self.chunk_start = self.next_chunk
        self.next_chunk = start + length
        return 0

    cdef int load_piece(self) except -1 nogil:
        # Without a codec, the rest of the piece from next_chunk on becomes the extent.
        cdef int64_t skipped = self.next_chunk - self.piece.start
        self.extent = <const uint8_t*> self.piece.view.buf + skipped
        self.extent_length = self.piece.length - skipped
        self.extent_direct = max(min(self.extent_length, self.piece.readable - skipped - SLACK), <int64_t> 0)
        self.extent_given = 0
        self.chunk_start = self.next_chunk
        self.next_chunk += self.extent_length
        return 0

    cdef int load_plain(self, int64_t start, int64_t length) except -1 nogil:
        cdef int64_t skipped
        if not self.holds(start):
            self.fetch_piece(start)
        skipped = start - self.piece.start
        self.extent_length = length
        if skipped + length <= self.piece.length:
            self.extent = <const uint8_t*> self.piece.view.buf + skipped
            self.extent_direct = max(min(length, self.piece.readable - skipped - SLACK), <int64_t> 0)
        else:
            self.reserve(length)
            self.extent = self.buffer + CARRY
            self.extent_direct = -1
            self.gather(start, self.buffer + CARRY, length)
        return 0

    cdef int load_compressed(self, int64_t start, int64_t length) except -1 nogil:
        if self.counted == 0 and self.limits is not None:
            count_held(self, 0)                 # fails if the other windows of the stripe already hold too many bytes
        self.reserve(0)
        self.extent_length = self.decompress(start, length, self.buffer + CARRY, self.block_size)
        self.extent = self.buffer + CARRY
        self.extent_direct = -1
        if self.extent_length > self.counted + COUNTED:
            count_held(self, self.extent_length)
        return 0


cdef class Window(PlainStream):
    """Decompressed bytes of one stream.

    ``source`` is a ``StreamSource`` with ``length`` and ``fetch(offset)``. It also has ``read_into(offset, parts)`` if
    it can fill buffers from its storage, one after the other, and return the number of bytes. ``codec`` is a
    ``Codec`` or ``None``. ``block_size`` is the file's compression block size, which is not used without a codec.
    ``name``, such as ``"PRESENT"``, is in every error. ``limits`` gets the size of the buffer. A window is used by one
    thread at a time, and decompresses without the GIL.
    """

    def __cinit__(self, source, codec, block_size, *, str name, limits=None):
        self.begin(source, codec, block_size, name)
        self.limits = limits

    @property
    def offset(self) -> int:
        """Bytes from the start of the stored stream to the current chunk's header. With codec NONE, to the next
        byte."""
        return self.place()

    def seek(self, chunk, within=0):
        """Goes to byte ``within`` of the decompressed chunk whose header is at byte ``chunk`` (codec NONE: to byte
        ``chunk``).

        The end of the stream and the end of a chunk are allowed positions. A stream without bytes accepts every
        position. Raises ``CorruptFile`` for a position outside the stream or outside the chunk.
        """
        if self.length == 0:
            return
        if not 0 <= chunk <= self.length or not 0 <= within <= max(self.length, 1 << 24):
            raise CorruptFile(f"position {chunk}, {within} is outside the stream of {self.length} bytes",
                              stream=self.name)
        self.seek_to(chunk, within)

    @property
    def loaded(self) -> tuple[int, int]:
        """The position of the decompressed chunk (-1: none), and of the next chunk."""
        return self.chunk_start, self.next_chunk

    def unload(self, counted_from, counted_to):
        """Drops the decompressed chunk. The next call must be a seek. After this seek, the chunks from ``counted_from``
        to ``counted_to`` are not counted again, until another chunk was decompressed."""
        self.forget()
        self.then_counted_from, self.then_counted_to = counted_from, counted_to

    def seek_positions(self, positions):
        """Takes the position of a byte stream from a ``PositionIterator`` (two numbers, or one with codec NONE), and
        seeks."""
        chunk = positions.take()
        self.seek(chunk, positions.take() if self.framed else 0)

    def read_into(self, uint8_t[::1] out not None, n=None):
        """Reads exactly ``n`` bytes (by default as many as ``out`` holds) into ``out``. Raises ``CorruptFile`` if there
        are fewer."""
        cdef int64_t count = out.shape[0] if n is None else n
        if not 0 <= count <= out.shape[0]:
            raise ValueError(f"{count} bytes do not fit into {out.shape[0]}")
        if count:
            with nogil:
                self.take(&out[0], count)

    def skip(self, n):
        """Skips exactly ``n`` bytes. Raises ``CorruptFile`` if there are fewer."""
        if n < 0:
            raise ValueError("cannot skip backwards")
        if n >> 62:
            self.fail_end()
        cdef int64_t count = n
        with nogil:
            self.drop(count)

    # --- called by kernels and decoders -------------------------------------------------------------------------------

    cdef int refill(self) except -1 nogil:
        cdef int64_t tail = self.end - self.p
        cdef uint8_t* area
        cdef int64_t n
        if self.chunk_start >= 0 and self.give(tail):
            return 1
        if tail > CARRY:
            self.fail("a run is longer than the format allows")
        self.reserve(0)
        area = self.buffer + CARRY
        if tail:
            memmove(area - tail, self.p, tail)
        self.p = area - tail
        self.end = area
        while self.chunk_start < 0 or self.extent_given == self.extent_length:
            if self.next_chunk == self.length:
                return 0
            self.load_chunk()
            area = self.buffer + CARRY          # a long stored chunk may have moved the memory together with the tail
            self.p = area - tail
            self.end = area
        if self.extent_direct < 0:              # the extent is in the buffer; after a skip there is no unread tail
            self.p = area + self.extent_given - tail
            self.end = area + self.extent_length
            self.extent_given = self.extent_length
        elif tail or not self.give(0):
            n = min(self.extent_length - self.extent_given, <int64_t> CARRY)
            self.reserve(n)
            area = self.buffer + CARRY
            memcpy(area, self.extent + self.extent_given, n)
            self.p = area - tail
            self.end = area + n
            self.extent_given += n
        return 1

    cdef bint give(self, int64_t tail) noexcept nogil:
        # Gives the decoder more bytes of an extent that lies in the piece, without copying them. This is only possible
        # if the unread tail is in the piece, too.
        if tail > self.extent_given or self.extent_given >= self.extent_direct:
            return False
        self.p = self.extent + self.extent_given - tail
        self.end = self.extent + self.extent_direct
        self.extent_given = self.extent_direct
        return True

    cdef int take(self, uint8_t* out, int64_t n) except -1 nogil:
        cdef int64_t step
        while n:
            step = self.take_some(out, n)
            out += step
            n -= step
        return 0

    cdef int64_t take_some(self, uint8_t* out, int64_t n) except -1 nogil:
        cdef int64_t step = min(n, <int64_t> (self.end - self.p))
        if step:
            memcpy(out, self.p, step)
            self.p += step
        else:
            step = self.take_whole(out, n)
            if step == 0 and not self.refill():
                self.fail_end()
        return step

    cdef int64_t take_whole(self, uint8_t* out, int64_t n) except -1 nogil:
        # Reads bytes directly to `out`, and returns their number. Returns 0 if the bytes must be read through the
        # buffer. The caller must first read all bytes that are left in the buffer.
        if self.chunk_start >= 0 and self.extent_given < self.extent_length:
            return 0
        cdef int64_t step = 0
        if not self.framed:
            if n < DIRECT or self.read_stored is None or self.holds(self.next_chunk):
                return 0
            self.forget()
            return self.take_plain(out, min(n, self.length - self.next_chunk))
        if 0 < self.stored_length <= n and self.read_stored is not None and not (
                self.holds(self.next_chunk)
                and self.next_chunk + 3 + self.stored_length <= self.piece.start + self.piece.length):
            self.forget()
            step = self.take_stored(out, n)
        if step == 0 and n >= self.block_size and self.next_chunk < self.length:
            self.forget()
            step = self.take_chunk(out, n)
        return step

    cdef int drop(self, int64_t n) except -1 nogil:
        cdef int64_t step, length
        cdef bint original
        step = min(n, <int64_t> (self.end - self.p))
        self.p += step
        n -= step
        while n:
            if self.chunk_start >= 0 and self.extent_given < self.extent_length:
                step = min(n, self.extent_length - self.extent_given)
                self.extent_given += step
                self.p = self.end = NULL
                n -= step
            elif not self.framed:
                if n > self.length - self.next_chunk:
                    self.fail_end()
                self.forget()
                self.next_chunk += n
                n = 0
            elif self.next_chunk == self.length:
                self.fail_end()
            else:
                self.p = self.end = NULL
                self.read_header(&length, &original)
                if original and length <= n:
                    self.forget()
                    self.next_chunk += 3 + length
                    n -= length
                else:
                    self.load_chunk()
        return 0

    cdef int seek_to(self, int64_t chunk, int64_t within) except -1 nogil:
        self.p = self.end = NULL
        self.counted_from, self.counted_to = self.then_counted_from, self.then_counted_to
        self.then_counted_to = 0
        if self.length == 0:
            return 0
        if not self.framed and self.holds(chunk):
            within = chunk - self.piece.start
            self.next_chunk = self.piece.start
            self.load_piece()
        elif chunk != self.chunk_start or not self.framed:
            self.forget()
            self.next_chunk = chunk
            # At the end of the stream there is no chunk to load. A read at this position fails (ORC-1304, ORC-1711).
            if within == 0 or chunk == self.length:
                return 0
            self.load_chunk()
        if within > self.extent_length:
            self.fail("a position is after the end of its chunk")
        self.extent_given = within
        if self.extent_direct < 0:              # the extent is in the buffer and can be read
            self.p = self.extent + within
            self.end = self.extent + self.extent_length
            self.extent_given = self.extent_length
        return 0

    cdef int fail_end(self) except -1 nogil:
        return self.fail("the stream ends before its values do")

    cdef void forget(self) noexcept nogil:
        self.p = self.end = NULL
        PlainStream.forget(self)

    cdef int64_t place(self) noexcept nogil:
        if self.chunk_start < 0:
            return self.next_chunk
        if self.framed:
            return self.chunk_start
        return self.chunk_start + self.extent_given - (self.end - self.p)

    cdef int fail(self, str message) except -1 with gil:
        raise CorruptFile(message, stream=self.name, offset=self.place())


cdef void aim(Window self, const uint8_t* stored, int64_t length, int64_t readable) noexcept nogil:
    # The piece has no exporter, so releasing its buffer does nothing.
    self.forget()
    self.piece.view.buf = <void*> stored
    self.piece.held = True
    self.piece.start = 0
    self.piece.length = self.length = length
    self.piece.readable = readable
    self.next_chunk = self.stored_length = 0
    self.stored_run = 1


cdef int reopen(Window self, source) except -1:
    self.forget()
    if self.piece.held:
        self.piece.held = False
        PyBuffer_Release(&self.piece.view)
    self.next_chunk = self.stored_length = 0
    return self.begin(source, self.codec, self.block_size, self.name)
