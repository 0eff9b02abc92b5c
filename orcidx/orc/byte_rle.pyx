"""Decodes byte run-length encoding, booleans in that encoding, and raw bytes.

A byte run is a header byte and its data. A header of 0..127 repeats the next byte ``header + 3`` times. A header of
128..255 is followed by ``256 - header`` literal bytes. Booleans are packed into bytes, with the first value in the most
significant bit, and these bytes are run-length encoded. The last byte is padded with zeros. Arrow bitmaps have the
first value in the least significant bit, so the bits of every byte are reversed.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcidx.errors import CorruptFile
from orcidx.orc.bit_unpack cimport popcount
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.window cimport Window

cdef enum:
    BLOCK = 512         # bytes of bits that are processed at a time
    TEXT = 1 << 18      # bytes of text that are checked while they are in the cache


cdef inline uint64_t reverse_bits_of_bytes(uint64_t x) noexcept nogil:
    x = (x >> 1) & <uint64_t> 0x5555555555555555 | (x & <uint64_t> 0x5555555555555555) << 1
    x = (x >> 2) & <uint64_t> 0x3333333333333333 | (x & <uint64_t> 0x3333333333333333) << 2
    return (x >> 4) & <uint64_t> 0x0F0F0F0F0F0F0F0F | (x & <uint64_t> 0x0F0F0F0F0F0F0F0F) << 4


cdef int64_t count_set_bits(const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i, total = 0
    cdef uint64_t word
    for i in range(n // 8):
        memcpy(&word, p + 8 * i, 8)
        total += popcount(word)
    word = 0
    memcpy(&word, p + n // 8 * 8, n % 8)
    return total + popcount(word)


cdef uint64_t or_of_bytes(const uint8_t* p, int64_t n) noexcept nogil:
    # Computes the bitwise OR of all bytes, word by word.
    cdef int64_t i
    cdef uint64_t word = 0, seen = 0
    for i in range(n // 8):
        memcpy(&word, p + 8 * i, 8)
        seen |= word
    word = 0
    memcpy(&word, p + n // 8 * 8, n % 8)
    return seen | word


cdef void put_bits(uint8_t* out, int64_t offset, uint64_t bits, int n) noexcept nogil:
    # Writes n bits (n is at most 8) to a bitmap, from bit `offset` on. The lowest bit comes first.
    cdef int shift = offset & 7
    cdef int mask = ((1 << n) - 1) << shift
    cdef int value = <int> bits << shift
    out += offset >> 3
    out[0] = out[0] & ~mask | value & mask
    if mask >> 8:
        out[1] = out[1] & ~(mask >> 8) | (value & mask) >> 8


cdef void put_bytes(uint8_t* out, int64_t offset, const uint8_t* block, int64_t n) noexcept nogil:
    # Writes the bits of n bytes to a bitmap, from bit `offset` on. In each byte of the block, the first bit is the
    # least significant one.
    cdef int shift = offset & 7
    cdef int64_t i
    cdef int keep
    out += offset >> 3
    if shift == 0:
        memcpy(out, block, n)
        return
    if n == 0:
        return
    keep = (1 << shift) - 1
    out[0] = out[0] & keep | <uint8_t> (block[0] << shift)
    for i in range(1, n):
        out[i] = block[i - 1] >> (8 - shift) | <uint8_t> (block[i] << shift)
    out[n] = out[n] & ~keep | block[n - 1] >> (8 - shift)


cdef void copy_bits(uint8_t* out, int64_t offset, const uint8_t* bits, int64_t n) noexcept nogil:
    put_bytes(out, offset, bits, n >> 3)
    if n & 7:
        put_bits(out, offset + (n & ~7), bits[n >> 3], n & 7)


cdef int read_text_bytes(Window window, uint8_t* out, int64_t n, uint64_t* seen) except -1 nogil:
    cdef int64_t step
    if window.ahead is not None:
        window.ahead.expect(n)
    while n:
        step = window.take_some(out, n if window.framed else min(n, <int64_t> TEXT))
        seen[0] |= or_of_bytes(out, step)
        out += step
        n -= step
    return 0


cdef void reverse_bytes(uint8_t* block, int64_t n) noexcept nogil:
    # Reverses the bits in each of n bytes. n is rounded up to whole words, and the block must be large enough for these
    # words.
    cdef int64_t i
    cdef uint64_t word
    for i in range((n + 7) // 8):
        memcpy(&word, block + 8 * i, 8)
        word = reverse_bits_of_bytes(word)
        memcpy(block + 8 * i, &word, 8)


cdef object take_count(positions, str name, limit):
    """Takes a number of values or bits from ``positions``. Raises ``CorruptFile`` if it exceeds ``limit``."""
    count = positions.take()
    if not 0 <= count <= limit:
        raise CorruptFile(f"position {count} is not between 0 and {limit}", stream=name)
    return count


cdef int64_t checked(n) except -1:
    if n < 0:
        raise ValueError("cannot skip backwards")
    return min(n, 1 << 62)


cdef class RawBytes:
    """The unencoded bytes of a stream: FLOAT, DOUBLE, string data, decimal varints."""

    cdef readonly Window window

    def __cinit__(self, Window window not None):
        self.window = window

    def seek(self, positions):
        """Seeks to the position that the next numbers of ``positions`` (a ``PositionIterator``) describe."""
        self.window.seek_positions(positions)

    def skip(self, n):
        """Skips ``n`` bytes. Raises ``CorruptFile`` if there are fewer."""
        self.window.skip(n)

    def read_into(self, uint8_t[::1] out not None, n=None):
        """Reads exactly ``n`` bytes (by default as many as ``out`` holds). Raises ``CorruptFile`` if there are
        fewer."""
        cdef int64_t left = out.shape[0] if n is None else n, done = 0, step
        if not 0 <= left <= out.shape[0]:
            raise ValueError(f"{left} bytes do not fit into {out.shape[0]}")
        with nogil:
            if self.window.ahead is not None:
                self.window.ahead.expect(left)
            while left:
                step = self.window.take_some(&out[done], left)
                done += step
                left -= step

    def read_kept(self, uint8_t[::1] out not None, int width, Mask mask not None, uint8_t[::1] block not None):
        """Reads values of ``width`` bytes, one for each row of ``mask``, block by block through ``block``. Writes the
        kept values to ``out``, which must have room for one value more."""
        cdef int64_t rows = mask.rows, most, step, at, done = 0, kept = 0
        if width not in (1, 2, 4, 8, 16):
            raise ValueError(f"values of {width} bytes are not supported")
        most = block.shape[0] // width
        if mask.count >= out.shape[0] // width or (rows and not most):
            raise ValueError("the block must have room for a value, and the output for one value more than are kept")
        with nogil:
            if self.window.ahead is not None:
                self.window.ahead.expect(rows * width)
            while done < rows:
                step = min(most, rows - done)
                at = 0
                while at < step * width:
                    at += self.window.take_some(&block[at], step * width - at)
                kept += keep_block(&block[0], width, mask.at + done, step, &out[kept * width])
                done += step

    def read_text(self, uint8_t[::1] out not None, n=None):
        """Like ``read_into``. Also returns whether all bytes are below 0x80."""
        cdef int64_t left = out.shape[0] if n is None else n
        cdef uint64_t seen = 0
        if not 0 <= left <= out.shape[0]:
            raise ValueError(f"{left} bytes do not fit into {out.shape[0]}")
        if left:
            with nogil:
                read_text_bytes(self.window, &out[0], left, &seen)
        return seen & <uint64_t> 0x8080808080808080 == 0


cdef class ByteRle:
    """Bytes in run-length encoding, in BYTE columns (signed) and union tags (unsigned)."""

    def __cinit__(self, Window window not None):
        self.window = window

    def seek(self, positions):
        """Seeks to a position. It consists of the position of a run, and the number of values to skip in the run."""
        self.window.seek_positions(positions)
        count = take_count(positions, self.window.name, 1 << 32)
        self.left = 0
        if self.window.length:
            self.skip(count)

    def skip(self, n):
        """Skips ``n`` values. Raises ``CorruptFile`` if there are fewer."""
        cdef int64_t count = checked(n)
        with nogil:
            self.skip_bytes(count)

    def read(self, out, n=None):
        """Reads exactly ``n`` values into a uint8 or int8 buffer (by default as many as ``out`` holds). Raises
        ``CorruptFile`` if there are fewer."""
        cdef uint8_t[::1] view = memoryview(out).cast("B")
        cdef int64_t count = view.shape[0] if n is None else n
        if not 0 <= count <= view.shape[0]:
            raise ValueError(f"{count} values do not fit into {view.shape[0]}")
        if count:
            with nogil:
                self.read_bytes(&view[0], count)

    cdef int next_run(self) except -1 nogil:
        cdef int header
        while self.window.end - self.window.p < 2:      # a header and at least one byte
            if not self.window.refill():
                self.window.fail_end()
        header = self.window.p[0]
        self.repeats = header < 128
        if self.repeats:
            self.left = header + 3
            self.value = self.window.p[1]
            self.window.p += 2
        else:
            self.left = 256 - header
            self.window.p += 1
        return 0

    cdef int read_bytes(self, uint8_t* out, int64_t n) except -1 nogil:
        cdef int64_t step
        while n:
            if self.left == 0:
                self.next_run()
            step = min(n, self.left)
            if self.repeats:
                memset(out, self.value, step)
            else:
                self.window.take(out, step)
            self.left -= step
            out += step
            n -= step
        return 0

    cdef int skip_bytes(self, int64_t n) except -1 nogil:
        cdef int64_t step
        while n:
            if self.left == 0:
                self.next_run()
            step = min(n, self.left)
            if not self.repeats:
                self.window.drop(step)
            self.left -= step
            n -= step
        return 0


cdef class BooleanRle:
    """Bits in run-length encoded bytes, in PRESENT streams and BOOLEAN columns."""

    def __cinit__(self, Window window not None):
        self.window = window
        self.bytes = ByteRle(window)

    def seek(self, positions):
        """Seeks to a position. It consists of the position of a byte in the run-length encoding, and the number of bits
        to skip in this byte (0..8)."""
        self.bytes.seek(positions)
        cdef int bits = take_count(positions, self.window.name, 8)
        self.pending_bits = 0
        if bits and self.window.length:
            with nogil:
                self.next_byte()
            self.pending >>= bits
            self.pending_bits = 8 - bits

    def skip(self, n):
        """Skips ``n`` bits and returns how many of them are set. Raises ``CorruptFile`` if there are fewer."""
        cdef int64_t count = checked(n)
        with nogil:
            count = self.skip_bits(count)
        return count

    def read_bits(self, uint8_t[::1] out not None, bit_offset, n):
        """Writes ``n`` bits to an Arrow bitmap, from bit ``bit_offset`` on. Returns how many of them are set."""
        cdef int64_t offset = bit_offset, count = n
        if offset < 0 or count < 0 or offset + count > 8 * <int64_t> out.shape[0]:
            raise ValueError(f"bits {offset} to {offset + count} are outside a bitmap of {out.shape[0]} bytes")
        if count:
            with nogil:
                count = self.read_bitmap(&out[0], offset, count)
        return count

    cdef void restart(self) noexcept nogil:
        self.bytes.left = 0
        self.pending_bits = 0

    cdef int next_byte(self) except -1 nogil:
        cdef uint8_t byte = 0
        self.bytes.read_bytes(&byte, 1)
        self.pending = <uint8_t> reverse_bits_of_bytes(byte)
        self.pending_bits = 8
        return 0

    cdef int64_t read_bitmap(self, uint8_t* out, int64_t offset, int64_t n) except -1 nogil:
        cdef uint8_t block[BLOCK + 8]
        cdef int64_t set_bits = 0, step
        cdef int few
        while n:
            if self.pending_bits or n < 8:
                if self.pending_bits == 0:
                    self.next_byte()
                few = <int> min(n, <int64_t> self.pending_bits)
                set_bits += popcount(self.pending & ((1 << few) - 1))
                put_bits(out, offset, self.pending, few)
                self.pending >>= few
                self.pending_bits -= few
                offset += few
                n -= few
                continue
            if self.bytes.left == 0:
                self.bytes.next_run()
            if self.bytes.repeats and offset & 7 == 0:      # long runs of equal bits are written directly
                step = min(n // 8, self.bytes.left)
                block[0] = <uint8_t> reverse_bits_of_bytes(self.bytes.value)
                memset(out + (offset >> 3), block[0], step)
                set_bits += step * popcount(block[0])
                self.bytes.left -= step
            else:
                step = min(n // 8, <int64_t> BLOCK)
                self.bytes.read_bytes(block, step)
                reverse_bytes(block, step)
                set_bits += count_set_bits(block, step)
                put_bytes(out, offset, block, step)
            offset += 8 * step
            n -= 8 * step
        return set_bits

    cdef int64_t skip_bits(self, int64_t n) except -1 nogil:
        cdef uint8_t block[BLOCK]
        cdef int64_t set_bits = 0, step
        cdef int few
        while n:
            if self.pending_bits or n < 8:
                if self.pending_bits == 0:
                    self.next_byte()
                few = <int> min(n, <int64_t> self.pending_bits)
                set_bits += popcount(self.pending & ((1 << few) - 1))
                self.pending >>= few
                self.pending_bits -= few
                n -= few
                continue
            if self.bytes.left == 0:
                self.bytes.next_run()
            step = min(n // 8, self.bytes.left)
            if self.bytes.repeats:
                set_bits += step * popcount(self.bytes.value)
                self.bytes.left -= step
            else:
                self.bytes.read_bytes(block, step)          # a literal run has at most 128 bytes
                set_bits += count_set_bits(block, step)
            n -= 8 * step
        return set_bits
