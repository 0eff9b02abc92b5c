"""``Window``: the bytes of one stream, decompressed, always contiguous from ``p`` to ``end``.

Everything that has to do with chunks, with the pieces in which the storage delivers, and with values that straddle
either, is solved here; decoders know bytes only. The memory looks like this::

      buffer                             a chunk, decompressed straight to its place
      | CARRY ............ [unread tail] | extent ....................... | SLACK |
                           p                                              end

``refill`` moves the unread tail to just before the place of the next chunk, so a straddling run is contiguous again.
Bytes that the storage delivered plain (codec NONE, and chunks stored as *original*) are read where they lie and never
copied, but for the tail of a straddling run and the last ``SLACK`` bytes when nothing readable follows them.
``take`` goes further: a chunk that is wanted whole is decompressed where it belongs, and plain bytes are read straight
to there by a source that can: all of them with codec NONE, and rows of stored chunks otherwise.

Chunk rules (ORC specification, "Compression", and what the writers and readers really do): empty chunks are legal and
skipped; an original chunk may exceed the block size (ORC C++ writes and reads that); a compressed one may not, neither
before nor after decompression; a chunk that runs past the end of its stream is corrupt.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from orcidx.errors import CorruptFile
from orcidx.orc.compression import BLOCK_SIZE_LIMIT as MOST, check_block_size
from orcidx.storage.local_file cimport fill_parts

cdef extern from "Python.h":
    int PyBUF_READ
    int PyBUF_WRITE


cdef class Window:
    """Decompressed bytes of one stream.

    ``source`` is a ``StreamSource`` (``length``, ``fetch(offset)``, and ``read_into(offset, parts)`` if it can fill
    buffers, one after the other, from its storage, returning how many bytes it did); ``codec`` a ``Codec`` or ``None``;
    ``block_size`` the file's compression block size (not looked at without a codec); ``name`` such as ``"PRESENT"``
    goes into errors; ``limits`` hears what the buffer holds. One thread at a time; it decompresses without the GIL.
    """

    def __cinit__(self, source, codec, block_size, *, str name, limits=None):
        self.source = source
        self.codec = codec
        self.native = None if codec is None else codec.native
        self.framed = codec is not None
        self.block_size = 0 if codec is None else block_size if 0 < block_size <= MOST else check_block_size(block_size)
        self.name = name
        self.length = source.length
        self.read_stored = getattr(source, "read_into", None)
        self.run = getattr(source, "run", None)
        self.chunk_start = -1
        self.stored_run = 1
        self.limits = limits

    def __dealloc__(self):
        if self.piece.held:
            PyBuffer_Release(&self.piece.view)
        free(self.buffer)
        free(self.scratch)

    # --- Python face --------------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Bytes from the start of the stream as stored: of the present chunk's header, or exact with codec NONE."""
        return self.place()

    def seek_start(self):
        """Back to the first byte."""
        self.seek_to(0, 0)

    def seek(self, chunk, within=0):
        """To byte ``within`` of the decompressed chunk whose header is at byte ``chunk`` (codec NONE: byte ``chunk``).

        The end of the stream and the end of a chunk are legal places. A stream without bytes accepts every place.
        Raises ``CorruptFile`` for a place outside the stream or outside the chunk.
        """
        if self.length == 0:
            return
        if not 0 <= chunk <= self.length or not 0 <= within <= max(self.length, 1 << 24):
            raise CorruptFile(f"position {chunk}, {within} is outside the stream of {self.length} bytes",
                              stream=self.name)
        self.seek_to(chunk, within)

    def seek_positions(self, positions):
        """Takes what a byte stream needs from a ``PositionIterator`` (two numbers, one with codec NONE) and seeks."""
        chunk = positions.take()
        self.seek(chunk, positions.take() if self.framed else 0)

    def read_into(self, uint8_t[::1] out not None, n=None):
        """Exactly ``n`` bytes (all of ``out`` unless told) into ``out``; ``CorruptFile`` if there are fewer."""
        cdef int64_t count = out.shape[0] if n is None else n
        if not 0 <= count <= out.shape[0]:
            raise ValueError(f"{count} bytes do not fit into {out.shape[0]}")
        if count:
            with nogil:
                self.take(&out[0], count)

    def skip(self, n):
        """Passes over exactly ``n`` bytes; ``CorruptFile`` if there are fewer."""
        if n < 0:
            raise ValueError("cannot skip backwards")
        if n >> 62:
            self.fail_end()
        cdef int64_t count = n
        with nogil:
            self.drop(count)

    # --- kernels' face ------------------------------------------------------------------------------------------------

    cdef int refill(self) except -1 nogil:
        cdef int64_t tail = self.end - self.p
        cdef uint8_t* area
        cdef int64_t n
        if self.chunk_start >= 0 and self.give(tail):
            return 1
        if tail > CARRY:
            self.fail("a run is longer than any legal one")
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
            area = self.buffer + CARRY          # a long stored chunk may have moved the memory, with the tail in it
            self.p = area - tail
            self.end = area
        if self.extent_direct < 0:              # in the buffer; what a skip has passed over comes without a tail
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
        # Shows more of an extent that lies in the piece, in place, when the unread tail lies in it too.
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
        # Bytes that went straight to `out`; 0 where the usual way is due. Nothing unread is at hand.
        if self.chunk_start >= 0 and self.extent_given < self.extent_length:
            return 0
        cdef int64_t step = 0
        if not self.framed:
            if n < DIRECT or self.read_stored is None or self.holds(self.next_chunk):
                return 0
            return self.take_plain(out, min(n, self.length - self.next_chunk))
        if 0 < self.stored_length <= n and self.read_stored is not None and not (
                self.holds(self.next_chunk)
                and self.next_chunk + 3 + self.stored_length <= self.piece.start + self.piece.length):
            step = self.take_stored(out, n)
        if step == 0 and n >= self.block_size and self.next_chunk < self.length:
            step = self.take_chunk(out, n)
        return step

    cdef int64_t take_plain(self, uint8_t* out, int64_t n) except -1 with gil:
        # Up to n bytes of a stream without chunks.
        cdef int64_t done
        done = fill_parts(self.read_stored, self.next_chunk, [PyMemoryView_FromMemory(<char*> out, n, PyBUF_WRITE)])
        if done:
            self.forget()
            self.next_chunk += done
        return done

    cdef int64_t take_stored(self, uint8_t* out, int64_t n) except -1 with gil:
        # A row of stored chunks that are as long as the last one was, if the bet holds. Each lands behind the other,
        # its header in `headers`; what follows the first surprise is given up.
        cdef uint8_t headers[3 * STORED_RUN]
        cdef int64_t size = self.stored_length, left = self.length - self.next_chunk, length, done = 0
        cdef int i, count = <int> min(<int64_t> self.stored_run, n // size, left // (size + 3))
        parts = []
        for i in range(count):
            parts.append(PyMemoryView_FromMemory(<char*> headers + 3 * i, 3, PyBUF_WRITE))
            parts.append(PyMemoryView_FromMemory(<char*> out + i * size, size, PyBUF_WRITE))
        if count == 0 or fill_parts(self.read_stored, self.next_chunk, parts) == 0:
            return 0
        self.forget()
        for i in range(count):
            length = (headers[3 * i] | headers[3 * i + 1] << 8 | headers[3 * i + 2] << 16) >> 1
            if headers[3 * i] & 1 == 0 or length > size:
                break
            self.next_chunk += 3 + length
            done += length
            if length < size:
                break
        self.stored_run = min(2 * self.stored_run, <int> STORED_RUN) if done == count * size else 1
        return done

    cdef int64_t take_chunk(self, uint8_t* out, int64_t n) except -1 nogil:
        # The next chunk, decompressed to `out`, where n bytes have room; 0 of a chunk that needs no decompressing.
        cdef int64_t length, written, start = self.next_chunk + 3
        cdef bint original
        self.p = self.end = NULL
        self.read_header(&length, &original)
        if original or length == 0:
            return 0
        self.forget()                           # an error is at this chunk, not at the one before
        written = self.decompress(start, length, out, min(n, self.block_size + LITERALS))
        self.next_chunk = start + length
        return written

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
        if self.length == 0:
            return 0
        if not self.framed and self.piece.held and self.piece.start <= chunk < self.piece.start + self.piece.length:
            within = chunk - self.piece.start
            self.next_chunk = self.piece.start
            self.load_piece()
        elif chunk != self.chunk_start or not self.framed:
            self.forget()
            self.next_chunk = chunk
            # at the end of the stream no chunk can be loaded; whoever reads there fails (ORC-1304, ORC-1711)
            if within == 0 or chunk == self.length:
                return 0
            self.load_chunk()
        if within > self.extent_length:
            self.fail("a position points behind the end of its chunk")
        self.extent_given = within
        if self.extent_direct < 0:              # in the buffer, ready to read
            self.p = self.extent + within
            self.end = self.extent + self.extent_length
            self.extent_given = self.extent_length
        return 0

    cdef int64_t place(self) noexcept nogil:
        if self.chunk_start < 0:
            return self.next_chunk
        if self.framed:
            return self.chunk_start
        return self.chunk_start + self.extent_given - (self.end - self.p)

    cdef int fail(self, str message) except -1 with gil:
        raise CorruptFile(message, stream=self.name, offset=self.place())

    cdef int fail_end(self) except -1 nogil:
        return self.fail("the stream ends before its values do")

    # --- loading ------------------------------------------------------------------------------------------------------

    cdef void forget(self) noexcept nogil:
        self.p = self.end = NULL
        self.chunk_start = -1
        self.extent = NULL
        self.extent_length = self.extent_given = self.extent_direct = 0

    cdef int reserve(self, int64_t n) except -1 nogil:
        # Room for n bytes behind the carry; what the carry holds stays.
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

    cdef bint holds(self, int64_t offset) noexcept nogil:
        return self.piece.held and self.piece.start <= offset < self.piece.start + self.piece.length

    cdef int fetch_piece(self, int64_t offset) except -1 with gil:
        # The piece that holds the byte at `offset`, kept until another one is needed.
        cdef int64_t n = 0
        if self.holds(offset):
            return 0
        if self.piece.held:                     # goes first, so that its memory may serve again while it is warm
            if self.extent_direct >= 0:         # the present extent lies in the piece that goes
                self.chunk_start = -1
                self.extent_length = self.extent_given = 0
            if self.run is not None:
                n = self.run.refill(self.piece.view.buf, offset)
            if n == 0:
                self.piece.held = False
                PyBuffer_Release(&self.piece.view)
        if n == 0:
            data = self.source.fetch(offset)
            PyObject_GetBuffer(data, &self.piece.view, PyBUF_SIMPLE)
            self.piece.held = True
            n = self.piece.view.len
        self.piece.start = offset
        self.piece.readable = n
        self.piece.length = min(self.piece.readable, self.length - offset)
        if self.piece.length <= 0:
            self.piece.length = 0
            raise CorruptFile(f"the stream of {self.length} bytes ends early", stream=self.name, offset=offset)
        return 0

    cdef int gather(self, int64_t offset, uint8_t* out, int64_t n) except -1 nogil:
        # Stored bytes, over as many pieces as it takes. The caller has checked that they lie in the stream.
        cdef int64_t step
        while n:
            if not self.holds(offset):
                self.fetch_piece(offset)
            step = min(n, self.piece.start + self.piece.length - offset)
            memcpy(out, <const uint8_t*> self.piece.view.buf + (offset - self.piece.start), step)
            out += step
            offset += step
            n -= step
        return 0

    cdef int read_header(self, int64_t* length, bint* original) except -1 nogil:
        cdef uint8_t header[3]
        cdef int64_t left = self.length - self.next_chunk - 3
        if left < 0:
            self.forget()
            self.fail("the stream ends inside a chunk header")
        self.gather(self.next_chunk, header, 3)
        original[0] = header[0] & 1
        length[0] = (header[0] | header[1] << 8 | header[2] << 16) >> 1
        self.stored_length = length[0] if original[0] else 0
        if length[0] > left:
            self.forget()
            self.fail("a chunk runs past the end of its stream")
        if not original[0] and length[0] > self.block_size:
            self.forget()
            self.fail("a compressed chunk exceeds the block size")
        return 0

    cdef int load_chunk(self) except -1 nogil:
        # Makes the chunk at next_chunk the extent, nothing of it given yet. The unread tail must be in the carry.
        cdef int64_t length, start = self.next_chunk + 3
        cdef bint original
        if not self.framed:
            self.fetch_piece(self.next_chunk)
            return self.load_piece()
        self.read_header(&length, &original)
        self.chunk_start = -1                   # until loaded, there is no extent to return to
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
        # Codec NONE: the piece, from next_chunk on, is the extent.
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
        if self.counted == 0:
            count_held(self, 0)                 # fails where the stripe's other windows hold too much already
        self.reserve(0)
        self.extent_length = self.decompress(start, length, self.buffer + CARRY, self.block_size)
        self.extent = self.buffer + CARRY
        self.extent_direct = -1
        if self.extent_length > self.counted + COUNTED:
            count_held(self, self.extent_length)
        return 0

    cdef int64_t decompress(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -1 nogil:
        # The stored chunk of `length` bytes at `start` to `out`. Room for more than a block serves as scratch.
        cdef const uint8_t* chunk
        cdef int64_t written
        if not self.holds(start):
            self.fetch_piece(start)
        if start - self.piece.start + length <= self.piece.length:
            chunk = <const uint8_t*> self.piece.view.buf + (start - self.piece.start)
        else:
            chunk = self.gather_chunk(start, length)
        if self.native is None:
            written = self.decompress_with_gil(chunk, length, out)
        else:
            written = self.native.decompress(chunk, length, out, room)
        if written == -2:
            with gil:
                raise MemoryError
        if not 0 <= written <= self.block_size:
            self.fail("a chunk does not decompress to at most one block")
        self.chunks_decompressed += 1
        self.bytes_decompressed += written
        return written

    cdef const uint8_t* gather_chunk(self, int64_t start, int64_t length) except NULL nogil:
        # A chunk that straddles pieces, in `scratch`.
        if length > self.scratch_capacity:
            free(self.scratch)
            self.scratch_capacity = 0
            self.scratch = <uint8_t*> malloc(length)
            if self.scratch == NULL:
                with gil:
                    raise MemoryError
            self.scratch_capacity = length
        self.gather(start, self.scratch, length)
        return self.scratch

    cdef int64_t decompress_with_gil(self, const uint8_t* chunk, int64_t length, uint8_t* out) except -1 with gil:
        data = PyMemoryView_FromMemory(<char*> chunk, length, PyBUF_READ)
        room = PyMemoryView_FromMemory(<char*> out, self.block_size, PyBUF_WRITE)
        try:
            return self.codec.decompress_into(data, room)
        except CorruptFile as error:
            raise error.at(stream=self.name, offset=self.next_chunk) from error.__cause__
        finally:                                # neither may outlive this memory
            data.release()
            room.release()
