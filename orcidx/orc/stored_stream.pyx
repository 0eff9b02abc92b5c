"""``StoredStream``: one stream as it is stored. It handles the pieces in which a source gives the stream, the headers
of its chunks, and their decompression. ``Window`` is built on it. Nothing else reads stored bytes of a stream.

These are the rules for chunks, from the ORC specification ("Compression") and from what writers and readers really do.
Empty chunks are allowed and skipped. An original chunk may exceed the block size, because ORC C++ writes and reads such
chunks. A compressed chunk may not exceed the block size, neither before nor after decompression. A chunk that extends
past the end of its stream is corrupt.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from orcidx.errors import CorruptFile, OrcidxError
from orcidx.orc.compression import BLOCK_SIZE_LIMIT, check_block_size
from orcidx.storage.local_file cimport fill_parts

cdef extern from "Python.h":
    int PyBUF_READ
    int PyBUF_WRITE


cdef class StoredStream:
    """Stored bytes, which are read forwards from ``next_chunk``. Errors about chunks contain this position."""

    def __dealloc__(self):
        if self.piece.held:
            PyBuffer_Release(&self.piece.view)
        free(self.scratch)

    cdef int begin(self, source, codec, block_size, str name) except -1:
        self.source = source
        self.codec = codec
        self.native = None if codec is None else codec.native
        self.framed = codec is not None
        self.block_size = 0
        if codec is not None:
            self.block_size = block_size if 0 < block_size <= BLOCK_SIZE_LIMIT else check_block_size(block_size)
        self.name = name
        self.length = source.length
        self.read_stored = getattr(source, "read_into", None)
        self.run = getattr(source, "run", None)
        self.stored_run = 1
        return 0

    cdef void lose_piece(self) noexcept nogil:
        # Drops the piece. After this, its bytes must not be read any more.
        pass

    cdef int fail_chunk(self, str message) except -1 with gil:
        raise CorruptFile(message, stream=self.name, offset=self.next_chunk)

    # --- pieces -------------------------------------------------------------------------------------------------------

    cdef bint holds(self, int64_t offset) noexcept nogil:
        return self.piece.held and self.piece.start <= offset < self.piece.start + self.piece.length

    cdef int fetch_piece(self, int64_t offset) except -1 with gil:
        # Gets the piece that contains the byte at `offset`. The piece is kept until another piece is needed.
        cdef int64_t n = 0
        if self.holds(offset):
            return 0
        if self.piece.held:                     # dropped first, so that its memory is reused while it is in the cache
            self.lose_piece()
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
        # Copies n stored bytes. They may be in several pieces. The caller has checked that the bytes are in the stream.
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

    # --- chunks -------------------------------------------------------------------------------------------------------

    cdef int read_header(self, int64_t* length, bint* original) except -1 nogil:
        cdef uint8_t header[3]
        cdef int64_t left = self.length - self.next_chunk - 3
        if left < 0:
            self.fail_chunk("the stream ends inside a chunk header")
        if self.ahead is None or not self.ahead.header_at(self.next_chunk, header):
            self.gather(self.next_chunk, header, 3)
        original[0] = header[0] & 1
        length[0] = (header[0] | header[1] << 8 | header[2] << 16) >> 1
        self.stored_length = length[0] if original[0] else 0
        if length[0] > left:
            self.fail_chunk("a chunk runs past the end of its stream")
        if not original[0] and length[0] > self.block_size:
            self.fail_chunk("a compressed chunk exceeds the block size")
        return 0

    cdef int64_t decompress(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -1 nogil:
        # Decompresses the stored chunk of `length` bytes at `start` to `out`, which has `room` bytes. The bytes after
        # the decompressed block may be overwritten.
        cdef const uint8_t* chunk
        cdef int64_t written = NO_CHUNK if self.ahead is None else self.take_ahead(start, length, out, room)
        if written == NO_CHUNK:
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
            self.fail_chunk("a chunk does not decompress to at most one block")
        if not self.counted_from <= start - 3 < self.counted_to:
            self.counted_to = 0
            self.chunks_decompressed += 1
            self.bytes_decompressed += written
        return written

    cdef int64_t take_ahead(self, int64_t start, int64_t length, uint8_t* out, int64_t room) except -4 nogil:
        # Passes the chunk at `start` and the next chunks to other threads. Then takes the decompressed chunk at
        # `start`. Returns NO_CHUNK if this is not possible. The ring copies the stored bytes, so the piece is not
        # needed afterwards. If the piece of a later chunk cannot be read early, the later chunk is requested again when
        # it is taken.
        cdef bint needed = not self.ahead.goes_to(start, length)
        cdef int64_t offset = self.ahead.wants()
        while offset >= 0:
            if not self.holds(offset):
                if needed:
                    self.fetch_piece(offset)
                elif not self.ahead.whole or not self.fetch_early(offset):
                    break
            self.ahead.put(<const uint8_t*> self.piece.view.buf + (offset - self.piece.start),
                           self.piece.start + self.piece.length - offset)
            needed = needed and not self.ahead.has(start)
            offset = self.ahead.wants()
        self.ahead.call()
        return self.ahead.take(start, out, room)

    cdef bint fetch_early(self, int64_t offset) except -1 with gil:
        # Reads the piece. Returns whether this succeeded.
        try:
            self.fetch_piece(offset)
        except (OrcidxError, OSError):
            return False
        return True

    cdef const uint8_t* gather_chunk(self, int64_t start, int64_t length) except NULL nogil:
        # Copies a chunk that lies in several pieces to `scratch`, where its bytes are contiguous.
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
        finally:  # neither object may outlive this memory
            data.release()
            room.release()

    # --- reading directly into the destination ------------------------------------------------------------------------

    cdef int64_t take_plain(self, uint8_t* out, int64_t n) except -1 with gil:
        # Reads up to n bytes of a stream that has no chunks.
        cdef int64_t done
        done = fill_parts(self.read_stored, self.next_chunk, [PyMemoryView_FromMemory(<char*> out, n, PyBUF_WRITE)])
        self.next_chunk += done
        return done

    cdef int64_t take_stored(self, uint8_t* out, int64_t n) except -1 with gil:
        # Reads several uncompressed chunks at once. The size of each chunk is assumed to be the size of the last chunk.
        # The data goes to `out` without gaps, and the headers go to `headers`. A longer chunk or a compressed chunk is
        # dropped, with everything after it. After a shorter chunk, everything is dropped.
        cdef uint8_t headers[3 * STORED_RUN]
        cdef int64_t size = self.stored_length, left = self.length - self.next_chunk, length, done = 0
        cdef int i, count = <int> min(<int64_t> self.stored_run, n // size, left // (size + 3))
        parts = []
        for i in range(count):
            parts.append(PyMemoryView_FromMemory(<char*> headers + 3 * i, 3, PyBUF_WRITE))
            parts.append(PyMemoryView_FromMemory(<char*> out + i * size, size, PyBUF_WRITE))
        if count == 0 or fill_parts(self.read_stored, self.next_chunk, parts) == 0:
            return 0
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
        # Decompresses the next chunk to `out`, which has n bytes. Returns 0 if the chunk is not compressed.
        cdef int64_t length, written, start = self.next_chunk + 3
        cdef bint original
        self.read_header(&length, &original)
        if original or length == 0:
            return 0
        written = self.decompress(start, length, out, min(n, self.block_size + LITERALS))
        self.next_chunk = start + length
        return written
