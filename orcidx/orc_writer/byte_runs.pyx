"""Byte run-length encoding, and streams of bits in this encoding.

    repeat     count - 3 (0..127), the byte             3..130 equal bytes
    literals   -count (as int8), the bytes              1..128 bytes

``ByteRuns`` ends a run at the end of each row group. ``Bits`` cannot do this, because bits are padded to bytes only at
the end of the stripe. So ``Bits`` collects a stripe's bits and encodes them at the end. The position of a row group's
first bit consists of the run, the byte within the run, and the bit within the byte.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.positions cimport WrittenPositions

cdef enum:
    MOST_REPEATS = 130
    MOST_LITERALS = 128

cdef uint8_t MIRRORED[256]

cdef int _fill_mirror():
    cdef int byte, bit
    for byte in range(256):
        MIRRORED[byte] = 0
        for bit in range(8):
            if byte >> bit & 1:
                MIRRORED[byte] |= <uint8_t>(128 >> bit)
    return 0

_fill_mirror()


cdef struct Run:
    size_t start
    size_t length
    bint repeat


cdef Run next_run(const uint8_t* data, size_t at, size_t size) noexcept nogil:
    """The run that begins at ``at``: a repeat of three or more bytes, or literals up to the next such repeat."""
    cdef Run run
    cdef size_t stop = at + 1
    run.start = at
    while stop < size and stop - at < MOST_REPEATS and data[stop] == data[at]:
        stop += 1
    run.repeat = stop - at >= 3
    if not run.repeat:
        stop = at + 1
        while stop < size and stop - at < MOST_LITERALS:
            if stop + 2 < size and data[stop] == data[stop + 1] and data[stop] == data[stop + 2]:
                break
            stop += 1
    run.length = stop - at
    return run


cdef int put_run(OutStream stream, const uint8_t* data, Run run) except -1 nogil:
    cdef uint8_t* out = stream.reserve(run.length + 2)
    if run.repeat:
        out[0] = <uint8_t>(run.length - 3)
        out[1] = data[run.start]
        return stream.advance(2)
    out[0] = <uint8_t>(256 - run.length)
    memcpy(out + 1, data + run.start, run.length)
    return stream.advance(run.length + 1)


cdef int grow(uint8_t** buffer, size_t* capacity, size_t needed) except -1 nogil:
    cdef size_t wanted
    cdef void* grown
    if needed > capacity[0]:
        wanted = max(needed, capacity[0] + capacity[0] // 2, <size_t>64)
        grown = realloc(buffer[0], wanted)
        if grown == NULL:
            with gil:
                raise MemoryError
        buffer[0] = <uint8_t*>grown
        capacity[0] = wanted
    return 0


cdef class ByteRuns:
    """Bytes in run-length encoding. They are written one row group at a time."""

    def __cinit__(self, OutStream stream):
        self.stream = stream

    def __dealloc__(self):
        free(self.pending)

    cdef uint8_t* room(self, size_t length) except NULL nogil:
        """Makes room for ``length`` bytes and returns its address. The caller must then increase ``size``."""
        grow(&self.pending, &self.capacity, self.size + length + 1)
        return self.pending + self.size

    cdef int end_run(self) except -1 nogil:
        cdef size_t at = 0
        cdef Run run
        while at < self.size:
            run = next_run(self.pending, at, self.size)
            put_run(self.stream, self.pending, run)
            at += run.length
        self.size = 0
        return 0

    def write(self, const uint8_t[::1] data not None):
        """Appends bytes."""
        if data.shape[0]:
            memcpy(self.room(data.shape[0]), &data[0], data.shape[0])
            self.size += data.shape[0]

    def end(self):
        """Ends the open run, for example at the end of a row group."""
        with nogil:
            self.end_run()


cdef class Bits:
    """The bits of one column in one stripe."""

    def __cinit__(self, OutStream stream):
        self.stream = stream

    def __dealloc__(self):
        free(self.bytes)

    cdef int _grow(self, int64_t bits) except -1 nogil:
        return grow(&self.bytes, &self.capacity, <size_t>((self.count + bits + 7) >> 3) + 16)

    cdef int put_bitmap(self, const uint8_t* bitmap, int64_t offset, int64_t n) except -1 nogil:
        cdef int64_t i = 0
        cdef int shift
        cdef unsigned int two
        cdef const uint8_t* source
        cdef uint8_t* out
        if bitmap == NULL:
            return self.put_same(True, n)
        self._grow(n)
        while i < n and self.count & 7:                 # the last byte of this stream is filled first
            self._put_bit(bitmap[(offset + i) >> 3] >> ((offset + i) & 7) & 1)
            i += 1
        source = bitmap + ((offset + i) >> 3)
        shift = (offset + i) & 7
        out = self.bytes + (self.count >> 3)
        while n - i >= 8:
            two = source[0]
            if shift:
                two = (two | <unsigned int>source[1] << 8) >> shift
            out[0] = MIRRORED[two & 0xFF]
            out += 1
            source += 1
            i += 8
            self.count += 8
        while i < n:
            self._put_bit(bitmap[(offset + i) >> 3] >> ((offset + i) & 7) & 1)
            i += 1
        return 0

    cdef void _put_bit(self, bint bit) noexcept nogil:
        cdef size_t at = self.count >> 3
        cdef int place = self.count & 7
        if place == 0:
            self.bytes[at] = 0
        if bit:
            self.bytes[at] |= <uint8_t>(128 >> place)
        self.count += 1

    cdef int put_same(self, bint value, int64_t n) except -1 nogil:
        cdef int64_t whole
        self._grow(n)
        while n and self.count & 7:
            self._put_bit(value)
            n -= 1
        whole = n >> 3
        memset(self.bytes + (self.count >> 3), 0xFF if value else 0, whole)
        self.count += whole << 3
        n &= 7
        while n:
            self._put_bit(value)
            n -= 1
        return 0

    cdef int put_bits(self, Bits other) except -1 nogil:
        """Appends all bits of another ``Bits``."""
        cdef int place = self.count & 7
        cdef int64_t whole = (other.count + 7) >> 3
        cdef int64_t i
        cdef uint8_t* out
        if not other.count:
            return 0
        self._grow(other.count + 8)
        out = self.bytes + (self.count >> 3)
        if place == 0:
            memcpy(out, other.bytes, whole)
        else:
            for i in range(whole):
                out[i] |= other.bytes[i] >> place
                out[i + 1] = <uint8_t>(other.bytes[i] << (8 - place))
        self.count += other.count
        return 0

    def write(self, const uint8_t[::1] bitmap not None, int64_t offset, int64_t n):
        """Appends n bits of an Arrow bitmap, from bit ``offset`` on."""
        if offset < 0 or n < 0 or offset + n > bitmap.shape[0] * 8:
            raise ValueError("the bitmap is too short")
        if n:
            with nogil:
                self.put_bitmap(&bitmap[0], offset, n)

    def encode(self, WrittenPositions table not None, const int64_t[::1] bits not None):
        """Writes all bits to the stream and ends it. Adds the position of each of ``bits`` (one for each row group, in
        order) to the table. A position has three parts: where the run begins in the stream, the number of the run's
        bytes before the bit's byte, and the number of bits before the bit in that byte."""
        if bits.shape[0] != table.groups:
            raise ValueError("a bit is needed for each row group")
        self.put_all(table, &bits[0] if table.groups else NULL)

    cdef int put_all(self, WrittenPositions table, const int64_t* bits) except -1:
        cdef Py_ssize_t asked = table.groups
        cdef size_t size = (self.count + 7) >> 3
        cdef size_t at = 0
        cdef Py_ssize_t i = 0
        cdef Run run
        cdef int64_t* out
        cdef int64_t* starts = <int64_t*>malloc((2 * asked + 1) * sizeof(int64_t))
        if starts == NULL:
            raise MemoryError
        cdef int64_t* before = starts + asked
        try:
            with nogil:
                while at < size:
                    run = next_run(self.bytes, at, size)
                    while i < asked and <size_t>(bits[i] >> 3) < at + run.length:
                        starts[i] = self.stream.total
                        before[i] = (bits[i] >> 3) - at
                        i += 1
                    put_run(self.stream, self.bytes, run)
                    at += run.length
                while i < asked:  # positions after the last bit
                    starts[i] = self.stream.total
                    before[i] = 0
                    i += 1
                self.stream._finish()
            self.stream.put_positions(table, starts)
            memcpy(table.add(), before, asked * sizeof(int64_t))
            out = table.add()
            for i in range(asked):
                out[i] = bits[i] & 7
        finally:
            free(starts)
        return 0

    def clear(self):
        """Clears everything for the next stripe."""
        free(self.bytes)
        self.bytes = NULL
        self.capacity = 0
        self.count = 0

    @property
    def held(self):
        """The bytes of memory that the bits take."""
        return self.count >> 3
