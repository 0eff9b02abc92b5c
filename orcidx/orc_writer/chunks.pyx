"""``OutStream``: the bytes of one stream. They are cut into chunks, and each chunk is compressed as soon as it is full.

Every chunk except the last has exactly one block of bytes before compression. So the position of byte ``n`` follows
from its number: byte ``n % block`` of chunk ``n // block``. The position at the very end of a compressed stream is
written as (start of the last chunk, its length), because released versions of Trino fail for (end of the stream, 0)
(trino#20164).
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove

from orcidx.orc_writer.compressors cimport Compressor
from orcidx.orc_writer.positions cimport WrittenPositions

cdef enum:
    SLACK = 64                  # a kernel may store whole vectors
    FIRST_ROOM = 256            # streams of a wide table may have few bytes
    HEADER = 3
    # Of every sixteen chunks, the first is always compressed. If it does not become smaller, the other fifteen are
    # stored uncompressed.
    STRETCH = 16
    LEAST_TRIED = 1024  # the least bytes of a chunk for which several levels are tried
    SAMPLE = 1 << 16  # for longer chunks the levels are tried only on this many bytes at the beginning
    ALLOWED = 45  # the faster level is used if its output is larger by less than 1/45
    MANY_A_BYTE = 32  # the thorough level is tried if a byte represents this many values; it takes 1 ns a value
    LONGEST_THOROUGH = 1 << 16  # the longest stream, in bytes, on which the thorough level is tried
    LEAST_TO_GAIN = 512  # with fewer compressed bytes the thorough level would save little


cdef inline int64_t size_of(Py_ssize_t written, size_t length) noexcept nogil:
    """The number of bytes that a chunk of ``length`` bytes takes in the file, without its header. ``written``: its
    number of bytes after compression. 0 means that the chunk is stored uncompressed."""
    return written if written else <int64_t>length


cdef inline bint is_smaller(Py_ssize_t written, size_t length) noexcept nogil:
    """Whether a chunk of ``length`` bytes became so much smaller that the chunks after it are compressed, too."""
    return written != 0 and <size_t>written <= length - length // 50


cdef inline Py_ssize_t keep_shorter(
    const uint8_t* packed, Py_ssize_t other, uint8_t* out, Py_ssize_t written
) noexcept nogil:
    """Replaces the kept result by another result if the other result is shorter, or if no result is kept."""
    if not other or (written and written <= other):
        return written
    memcpy(out, packed, other)
    return other


cdef Py_ssize_t try_thorough(
    Compressor compressor, int64_t values, const uint8_t* raw, size_t length, uint8_t* out, Py_ssize_t written
) except -1 nogil:
    """Compresses the only chunk of a stream once more, at the thorough level. This is done only if the bytes represent
    so many values that this level takes little time compared with encoding the values. An example is a column of long
    repeats, whose runs take few bytes and are cut at the ends of row groups. Returns the number of bytes of the shorter
    result, which is in ``out``."""
    cdef uint8_t* packed
    if (
        compressor.thorough is None
        or values < MANY_A_BYTE * <int64_t>length
        or length > LONGEST_THOROUGH
        or written < LEAST_TO_GAIN
    ):
        return written
    packed = <uint8_t*>malloc(length)
    if packed == NULL:
        with gil:
            raise MemoryError
    written = keep_shorter(packed, compressor.thorough.compress(raw, length, packed), out, written)
    free(packed)
    return written


cdef class ChunkedStream:
    """Bytes that are cut into chunks as they arrive.

    The first chunk of each stretch of sixteen chunks is a probe. Its result decides how the other chunks of the stretch
    are compressed. ``joined``: ``raw`` may hold more than one full chunk (see ``OutStream``)."""

    def __cinit__(self, Compressor compressor, size_t block_size, *, bint keeps_raw=False):
        self.compressor = compressor
        self.block = block_size
        self.keeps_raw = keeps_raw

    def __dealloc__(self):
        free(self.raw)
        free(self.out)
        free(self.starts)

    cdef uint8_t* reserve(self, size_t length) except NULL nogil:
        cdef size_t needed = self.raw_size + length + SLACK
        cdef size_t capacity
        cdef void* grown
        if needed > self.raw_capacity:
            # Large buffers grow only by an eighth, because a wide table has thousands of streams.
            capacity = max(needed, self.raw_capacity + (self.raw_capacity >> (3 if needed > 1 << 15 else 1)),
                           <size_t>FIRST_ROOM)
            grown = realloc(self.raw, capacity)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.raw = <uint8_t*>grown
            self.raw_capacity = capacity
        return self.raw + self.raw_size

    cdef int advance(self, size_t length) except -1 nogil:
        cdef size_t at = 0
        self.raw_size += length
        self.total += <int64_t>length
        if self.compressor is None or self.raw_size < self.block or self.keeps_raw or self.joined:
            return 0
        while self.raw_size - at >= self.block:
            self._write_chunk(at, self.block)
            at += self.block
        self.raw_size -= at
        memmove(self.raw, self.raw + at, self.raw_size)
        return 0

    cdef int append(self, const uint8_t* data, size_t length) except -1 nogil:
        cdef size_t part
        if length == 0:  # a stream without bytes has no address for memcpy
            return 0
        if self.compressor is None or self.keeps_raw or self.joined:
            memcpy(self.reserve(length), data, length)
            return self.advance(length)
        while length:
            part = min(length, self.block - self.raw_size)
            memcpy(self.reserve(part), data, part)
            self.advance(part)
            data += part
            length -= part
        return 0

    cdef int _write_chunk(self, size_t at, size_t length) except -1 nogil:
        cdef Py_ssize_t written = 0
        cdef Favour favour = Favour(0, 0)
        self._grow_out(length + HEADER)
        if self.chunks % STRETCH == 0:
            written = self._try_levels(self.raw + at, length, self.out + self.out_size + HEADER, &favour)
        elif self.shrinks:
            written = self._compress(self.raw + at, length, self.out + self.out_size + HEADER, self.favour)
        return self._put_chunk(NULL, written, at, length, favour)

    cdef Py_ssize_t _compress(self, const uint8_t* raw, size_t length, uint8_t* out, Favour favour) except -1 nogil:
        """Compresses a chunk at the level that was best for the probe of its stretch (see ``ChunkedStream``)."""
        if favour.faster >= 0 and favour.narrow >= 0:
            return self.compressor.compress(raw, length, out)
        if favour.narrow < favour.faster:
            return self.compressor.narrow.compress(raw, length, out)
        return self.compressor.faster.compress(raw, length, out)

    cdef Py_ssize_t _try_levels(self, const uint8_t* raw, size_t length, uint8_t* out, Favour* favour) except -1 nogil:
        """Compresses the beginning of a probe at each level (if there are several). The beginning may be the whole
        probe, and then the shortest result is kept. Otherwise the whole probe is compressed at the best level."""
        cdef size_t sample = min(length, <size_t>SAMPLE)
        cdef uint8_t* packed
        cdef Py_ssize_t written, other
        cdef int64_t limit
        if self.compressor.faster is None or length < LEAST_TRIED:
            return self.compressor.compress(raw, length, out)
        packed = <uint8_t*>malloc(sample)
        if packed == NULL:
            with gil:
                raise MemoryError
        written = self.compressor.compress(raw, sample, out)
        limit = size_of(written, sample)
        limit += limit // ALLOWED + 1
        other = self.compressor.faster.compress(raw, sample, packed)
        favour.faster = favour.narrow = size_of(other, sample) - limit
        written = keep_shorter(packed, other, out, written)
        if favour.faster < 0 and self.compressor.narrow is not None:
            other = self.compressor.narrow.compress(raw, sample, packed)
            favour.narrow = size_of(other, sample) - limit
            written = keep_shorter(packed, other, out, written)
        free(packed)
        return written if sample == length else self._compress(raw, length, out, favour[0])

    cdef int _put_chunk(
        self, const uint8_t* packed, Py_ssize_t written, size_t at, size_t length, Favour favour
    ) except -1 nogil:
        """Ends a chunk. Its ``written`` compressed bytes are in ``packed``, or already in their place in ``out`` if
        ``packed`` is NULL. If ``written`` is 0, the chunk is stored uncompressed."""
        self._grow_out(length + HEADER)
        if self.chunks % STRETCH == 0:
            self.favour = favour
            self.shrinks = is_smaller(written, length)
        if written == 0:
            memcpy(self.out + self.out_size + HEADER, self.raw + at, length)
        elif packed != NULL:
            memcpy(self.out + self.out_size + HEADER, packed, written)
        return self._put_header(length, written)

    cdef int _put_header(self, size_t length, Py_ssize_t written) except -1 nogil:
        """Writes the header of a chunk whose bytes are in place. If ``written`` is 0, they are uncompressed."""
        cdef size_t header = 2 * <size_t>written if written else 2 * length + 1
        cdef void* grown
        if self.chunks == self.starts_capacity:
            self.starts_capacity = max(<size_t>1, 2 * self.starts_capacity)
            grown = realloc(self.starts, self.starts_capacity * sizeof(int64_t))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.starts = <int64_t*>grown
        self.starts[self.chunks] = self.out_size
        self.chunks += 1
        self.out[self.out_size] = header & 0xFF
        self.out[self.out_size + 1] = (header >> 8) & 0xFF
        self.out[self.out_size + 2] = (header >> 16) & 0xFF
        self.out_size += HEADER + (<size_t>written if written else length)
        return 0

    cdef int _write_in_place(self) except -1 nogil:
        """Compresses the only chunk of a stream into the stream's own buffer. In a wide table most streams have only
        one chunk, and all of them end together. The spare bytes after the chunk leave room for the header."""
        cdef size_t length = self.raw_size
        cdef uint8_t* packed = <uint8_t*>malloc(length)
        cdef Py_ssize_t written
        cdef Favour favour = Favour(0, 0)
        if packed == NULL:
            with gil:
                raise MemoryError
        written = self._try_levels(self.raw, length, packed, &favour)
        written = try_thorough(self.compressor, self.values, self.raw, length, packed, written)
        if written:
            memcpy(self.raw + HEADER, packed, written)
        else:
            memmove(self.raw + HEADER, self.raw, length)
        free(packed)
        self.out, self.out_capacity = self.raw, self.raw_capacity
        self.raw = NULL
        self.raw_capacity = 0
        return self._put_header(length, written)

    cdef int _grow_out(self, size_t more) except -1 nogil:
        cdef size_t capacity
        cdef void* grown
        if self.out_size + more > self.out_capacity:
            capacity = max(self.out_size + more, self.out_capacity + self.out_capacity // 4)
            grown = realloc(self.out, capacity)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.out = <uint8_t*>grown
            self.out_capacity = capacity
        return 0

    cdef void _shrink(self, uint8_t** buffer, size_t* capacity, size_t needed) noexcept nogil:
        cdef void* smaller
        if needed < capacity[0]:
            smaller = realloc(buffer[0], needed)
            if smaller != NULL:
                buffer[0] = <uint8_t*>smaller
                capacity[0] = needed

    cdef int _finish(self) except -1 nogil:
        if self.compressor is not None and self.raw_size:
            self.joined = False
            self.advance(0)
            if self.raw_size and not self.chunks:
                self._write_in_place()
            elif self.raw_size:
                self._write_chunk(0, self.raw_size)
            self.raw_size = 0
            free(self.raw)                      # the stream has no more chunks
            self.raw = NULL
            self.raw_capacity = 0
            self._shrink(&self.out, &self.out_capacity, self.out_size)
        return 0

    @property
    def held(self):
        """The bytes of memory that the stream takes. Bytes in an unfinished chunk count twice, because buffers are
        larger than their contents and many buffers fragment memory. In a wide table these bytes are most of the
        memory."""
        return <int64_t>self.out_size + <int64_t>self.raw_size * (1 if self.compressor is None else 2)

    def write(self, const uint8_t[::1] data not None):
        """Appends bytes."""
        cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
        cdef size_t length = data.shape[0]
        with nogil:
            if length:
                self.append(first, length)

    def finish(self):
        """Ends the stream and returns all its bytes for the file. They are valid until ``clear``."""
        with nogil:
            self._finish()
        if self.compressor is None:
            return PyMemoryView_FromMemory(<char*>self.raw, self.raw_size, PyBUF_READ) if self.raw_size else b""
        return PyMemoryView_FromMemory(<char*>self.out, self.out_size, PyBUF_READ) if self.out_size else b""

    def add_positions(self, WrittenPositions table not None, const int64_t[::1] offsets not None):
        """Adds the position of each row group in the finished stream to the table. ``offsets``: the byte offset of each
        row group before compression. A position is one number, or two numbers in a compressed file."""
        if offsets.shape[0] != table.groups:
            raise ValueError("a stream needs a position for each row group")
        self.put_positions(table, &offsets[0] if table.groups else NULL)

    cdef int put_positions(self, WrittenPositions table, const int64_t* offsets) except -1:
        cdef Py_ssize_t group
        cdef size_t chunk
        cdef int64_t last
        cdef int64_t* out = table.add()
        if self.compressor is None:
            # Row groups without values at the end of a stripe would begin at the end of the stream. Java cannot seek to
            # this position if it has not read bytes of the stream. So these row groups begin at the last byte, although
            # nothing is read from it.
            last = max(<int64_t>0, self.total - 1)
            for group in range(table.groups):
                out[group] = min(offsets[group], last)
            return 0
        cdef int64_t* within = table.add()
        out = within - table.groups
        if not self.chunks:
            return 0
        for group in range(table.groups):
            if not 0 <= offsets[group] <= self.total:
                raise ValueError("the position is outside the stream")
            # At the end of the stream the position is the end of its last chunk.
            chunk = min(<size_t>offsets[group] // self.block, self.chunks - 1)
            out[group] = self.starts[chunk]
            within[group] = offsets[group] - <int64_t>(chunk * self.block)
        return 0

    def clear(self):
        """Clears everything for the next stripe."""
        free(self.out)
        self.out = NULL
        self.out_size = self.out_capacity = self.raw_size = self.chunks = 0
        self.favour = Favour(0, 0)
        self.total = self.values = 0
        self.joined = False
        free(self.raw)
        self.raw = NULL
        self.raw_capacity = 0


cdef class OutStream(ChunkedStream):
    """``block_size``: the most bytes of a chunk before compression. It is ignored without a compressor. ``keeps_raw``:
    another stream takes over the bytes of this stream, and any thread may then compress its full chunks."""

    def __dealloc__(self):
        self._forget_waiting()

    def clear(self):
        """Clears everything for the next stripe."""
        ChunkedStream.clear(self)
        self._forget_waiting()

    cdef int take_over(self, OutStream other) except -1 nogil:
        """Appends all bytes of a stream with ``keeps_raw``. ``cut`` then makes chunks of them."""
        self.joined = True
        return self.append(other.raw, other.raw_size)

    cdef void _forget_waiting(self) noexcept nogil:
        cdef size_t i
        for i in range(self.waiting_count):
            free(self.waiting[i])
        free(self.waiting)
        free(self.waiting_sizes)
        free(self.waiting_favours)
        self.waiting = NULL
        self.waiting_sizes = NULL
        self.waiting_favours = NULL
        self.waiting_count = 0

    def waiting_chunks(self):
        """The number of full chunks among the bytes that were taken over. ``squeeze`` must be called once for each
        chunk, by any thread, and for all probes before the other chunks. Then ``cut`` ends the chunks."""
        cdef size_t count = 0 if self.compressor is None or not self.joined else self.raw_size // self.block
        self._forget_waiting()
        if count:
            self.waiting = <uint8_t**>calloc(count, sizeof(void*))
            self.waiting_sizes = <Py_ssize_t*>calloc(count, sizeof(Py_ssize_t))
            self.waiting_favours = <Favour*>calloc(count, sizeof(Favour))
            if self.waiting == NULL or self.waiting_sizes == NULL or self.waiting_favours == NULL:
                raise MemoryError
            self.waiting_count = count
        return count

    def is_probe(self, size_t number):
        """Whether a waiting chunk is a probe. The result of a probe decides on the chunks after it."""
        return (self.chunks + number) % STRETCH == 0

    def squeeze(self, size_t number):
        """Compresses a waiting chunk, unless the probe of its stretch did not become smaller. Several threads may call
        this for different chunks."""
        cdef size_t chunk = self.chunks + number
        cdef size_t first = chunk - chunk % STRETCH
        cdef bint probe = chunk == first
        cdef bint tries = True
        cdef Favour favour = self.favour
        cdef Py_ssize_t written
        cdef uint8_t* packed
        cdef const uint8_t* raw
        if number >= self.waiting_count:
            raise IndexError(number)
        if first < self.chunks:  # the probe is already written
            tries = self.shrinks
        elif not probe:
            tries = is_smaller(self.waiting_sizes[first - self.chunks], self.block)
            favour = self.waiting_favours[first - self.chunks]
        if not tries:
            return
        with nogil:
            packed = <uint8_t*>malloc(self.block)
            if packed == NULL:
                with gil:
                    raise MemoryError
            self.waiting[number] = packed
            raw = self.raw + number * self.block
            if probe:
                written = self._try_levels(raw, self.block, packed, &self.waiting_favours[number])
            else:
                written = self._compress(raw, self.block, packed, favour)
            self.waiting_sizes[number] = written

    def cut(self):
        """Makes chunks of all bytes that fill a whole chunk."""
        cdef size_t at = 0
        cdef size_t number = 0
        cdef size_t ready = self.waiting_count
        with nogil:
            if self.joined and self.compressor is not None and self.raw_size >= self.block:
                while self.raw_size - at >= self.block:
                    if number < ready:
                        self._put_chunk(
                            self.waiting[number],
                            self.waiting_sizes[number],
                            at,
                            self.block,
                            self.waiting_favours[number],
                        )
                    else:
                        self._write_chunk(at, self.block)
                    number += 1
                    at += self.block
                self.raw_size -= at
                memmove(self.raw, self.raw + at, self.raw_size)
                self._shrink(&self.raw, &self.raw_capacity, self.raw_size + SLACK)
            self.joined = False
            self._forget_waiting()


def frame(data, Compressor compressor, size_t block_size):
    """Compresses bytes as a separate stream. Footers are written in this way."""
    stream = OutStream(compressor, block_size)
    stream.write(data)
    return bytes(stream.finish())
