"""Decodes a stream of integers in run-length encoding, versions 1 and 2.

``IntRle`` connects the kernels with a ``Window`` and raises their errors. The kernels decode one run (``int_runs``) or
many runs (``bit_unpack``). ``signed`` streams are zigzag coded. The width of integers matters only for the output.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from orcidx.errors import CorruptFile
from orcidx.orc.bit_unpack cimport runs_int32, runs_int64
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming
from orcidx.orc.int_runs cimport (
    LONG_VARINT, NO_PATCHES, PATCH_OUTSIDE, SPARE_VALUES, WIDE_PATCH, repeated, v1_decode, v1_size, v2_decode, v2_size,
)
from orcidx.orc.v1_runs cimport v1_runs_int32, v1_runs_int64
from orcidx.orc.window cimport Window

cdef enum:
    LEAST_SAME = 64         # `skip_same` checks shorter runs only if they have all values that are left to skip

ctypedef fused out_t:
    int16_t
    int32_t
    int64_t


cdef inline void narrow(IntRle self, const int64_t* values, out_t* out, int64_t n) noexcept nogil:
    cdef int64_t i
    cdef uint64_t largest = self.largest
    cdef bint wrapped = self.wrapped
    for i in range(n):
        out[i] = <out_t> values[i]
        largest = max(largest, <uint64_t> values[i])
        if out_t is not int64_t:
            wrapped |= out[i] != values[i]
    self.largest = largest
    self.wrapped = wrapped


cdef inline int64_t many_runs(IntRle self, out_t* out, int64_t n) noexcept nogil:
    cdef int64_t count = 0
    if out_t is int64_t:
        if self.version == 2:
            count = runs_int64(&self.window.p, self.window.end, out, n, self.signed)
        else:
            count = v1_runs_int64(&self.window.p, self.window.end, out, n, self.signed)
    elif out_t is int32_t:
        if self.version == 2:
            count = runs_int32(&self.window.p, self.window.end, out, n, self.signed)
        else:
            count = v1_runs_int32(&self.window.p, self.window.end, out, n, self.signed)
    return count


cdef int64_t some(IntRle self, out_t* out, int64_t n) except -1 nogil:
    # Reads up to n values (n is at least 1), but stops at the end of the run. Returns the number of values. If it is 0,
    # the caller must call again.
    cdef int64_t size, step = min(n, <int64_t> (self.end_value - self.next_value))
    cdef int count = 0
    if step:
        narrow(self, self.values + self.next_value, out, step)
        self.next_value += <int> step
        return step
    step = many_runs(self, out, n)
    if step:
        return step
    if out_t is int64_t:
        size = self.peek_run(&count)
        if count + SPARE_VALUES <= n:       # a whole run is decoded directly to the output
            self.decode_run(size, count, out)
            return count
    self.load_run()
    return 0


cdef int fill(IntRle self, out_t* out, int64_t n) except -1 nogil:
    cdef int64_t step
    while n:
        step = some(self, out, n)
        out += step
        n -= step
    return 0


cdef int fill_far(IntRle self, out_t* out, int64_t n) except -1 nogil:
    cdef out_t[BLOCK] block
    cdef int64_t step
    while n:
        step = some(self, &block[0], min(n, <int64_t> BLOCK))
        store_streaming(out, &block[0], step * <int64_t> sizeof(out_t))
        out += step
        n -= step
    fence_stores()
    return 0


cdef int64_t some_near(IntRle self, out_t* block, int64_t n) except -1 nogil:
    # Reads up to n values (n is at least 1) into a block of size BLOCK. Stops earlier if the next run might not fit
    # into the block. Returns the number of values.
    cdef int64_t done = 0, most = min(n, <int64_t> BLOCK)
    while done < most and (done <= BLOCK - RUN_VALUES - SPARE_VALUES):
        done += some(self, block + done, most - done)
    return done


cdef int64_t near_int64(IntRle self, int64_t* block, int64_t n) except -1 nogil:
    return some_near(self, block, n)


cdef int fill_kept(IntRle self, out_t* out, const uint8_t* mask, int64_t n) except -1 nogil:
    cdef out_t[BLOCK] block
    cdef int64_t step, done = 0, kept = 0
    while done < n:
        step = some_near(self, &block[0], n - done)
        kept += keep_block(&block[0], sizeof(out_t), mask + done, step, out + kept)
        done += step
    return 0


cdef int64_t add_lengths(IntRle self, const int64_t* values, int64_t n, int64_t total) except -1 nogil:
    cdef int64_t i, sum_ = total
    cdef uint64_t any_bits = 0
    for i in range(n):
        any_bits |= <uint64_t> values[i]
    if any_bits >> 31 == 0 and total >> 62 == 0 and n >> 30 == 0:
        for i in range(n):
            sum_ += values[i]
        return sum_
    for i in range(n):
        if values[i] < 0:
            self.window.fail("a length is negative")
        if values[i] > <int64_t> 0x7FFFFFFFFFFFFFFF - sum_:
            self.window.fail("the lengths add up to more than 2**63 - 1")
        sum_ += values[i]
    return sum_


cdef class IntRle:
    """Integers in run-length encoding of ``version`` 1 or 2. ``signed``: they are zigzag coded.

    LENGTH and dictionary index streams are unsigned. A value of 2**63 or more in them is read as a negative number.
    """

    def __cinit__(self, Window window not None, *, int version, bint signed):
        if version not in (1, 2):
            raise ValueError(f"there is no run-length encoding version {version}")
        self.window = window
        self.version = version
        self.signed = signed

    def seek(self, positions):
        """Seeks to a position. It consists of the position of a run, and the number of values to skip in the run."""
        self.window.seek_positions(positions)
        self.next_value = self.end_value = 0
        count = positions.take()
        if not 0 <= count <= 1 << 32:
            raise CorruptFile(f"position {count} is outside any run", stream=self.window.name)
        if self.window.length:
            self.skip(count)

    def skip(self, n):
        """Skips ``n`` values. Raises ``CorruptFile`` if there are fewer."""
        if n < 0:
            raise ValueError("cannot skip backwards")
        cdef int64_t count = min(n, 1 << 62)
        with nogil:
            self.skip_values(count)

    def read(self, out_t[::1] out not None, n=None, *, bint streaming=False):
        """Reads exactly ``n`` values (by default as many as ``out`` holds) into int16, int32 or int64. Raises
        ``CorruptFile`` if there are fewer.

        A value that does not fit keeps its low bits, as in ORC Java and C++. ``streaming``: ``out`` is not read soon.
        """
        cdef int64_t count = out.shape[0] if n is None else n
        if not 0 <= count <= out.shape[0]:
            raise ValueError(f"{count} values do not fit into {out.shape[0]}")
        if count:
            with nogil:
                if streaming and count * <int64_t> sizeof(out_t) > STREAMING_BYTES:
                    fill_far(self, &out[0], count)
                else:
                    fill(self, &out[0], count)

    def read_kept(self, out_t[::1] out not None, Mask mask not None):
        """Reads a value for each row of ``mask``, and writes the kept values to ``out``. ``out`` must have room for one
        value more."""
        if mask.count >= out.shape[0]:
            raise ValueError("there must be room for one value more than are kept")
        with nogil:
            fill_kept(self, &out[0], mask.at, mask.rows)

    cdef int read_int64(self, int64_t* out, int64_t n) except -1 nogil:
        return fill(self, out, n)

    cdef int read_int32(self, int32_t* out, int64_t n) except -1 nogil:
        return fill(self, out, n)

    cdef int64_t some_int32(self, int32_t* out, int64_t n) except -1 nogil:
        return some(self, out, n)

    cdef int64_t near_int32(self, int32_t* block, int64_t n) except -1 nogil:
        return some_near(self, block, n)

    cdef int read_int16(self, int16_t* out, int64_t n) except -1 nogil:
        return fill(self, out, n)

    cdef int skip_values(self, int64_t n) except -1 nogil:
        cdef int64_t size, step
        cdef int count = 0
        step = min(n, <int64_t> (self.end_value - self.next_value))
        self.next_value += <int> step
        n -= step
        while n:
            size = self.peek_run(&count)
            if count > n:
                self.load_run()
                self.next_value = <int> n
                return 0
            self.window.drop(size)
            n -= count
        return 0

    cdef int64_t add_lengths(self, const int64_t* values, int64_t n, int64_t total) except -1 nogil:
        return add_lengths(self, values, n, total)

    cdef int64_t skip_lengths(self, int64_t n) except -1 nogil:
        cdef int64_t total = 0, step
        while n:
            if self.next_value == self.end_value:
                self.load_run()
            step = min(n, <int64_t> (self.end_value - self.next_value))
            total = add_lengths(self, self.values + self.next_value, step, total)
            self.next_value += <int> step
            n -= step
        return total

    cdef int64_t peek_run(self, int* count) except -1 nogil:
        cdef int size
        while True:
            if self.version == 2:
                size = v2_size(self.window.p, self.window.end, count)
            else:
                size = v1_size(self.window.p, self.window.end, count)
            if size > 0:
                return size
            if size < 0:
                refuse(self, size)
            if not self.window.refill():
                self.window.fail_end()

    cdef int decode_run(self, int64_t size, int count, int64_t* out) except -1 nogil:
        cdef int code
        while self.window.end - self.window.p < size:
            if not self.window.refill():
                self.window.fail_end()
        if self.version == 2:
            code = v2_decode(self.window.p, self.signed, count, out)
        else:
            code = v1_decode(self.window.p, self.signed, out)
        if code < 0:
            refuse(self, code)
        self.window.p += size
        return 0

    cdef int load_run(self) except -1 nogil:
        cdef int count = 0
        cdef int64_t size = self.peek_run(&count)
        self.next_value = self.end_value = 0
        self.decode_run(size, count, self.values)
        self.end_value = count
        return 0


cdef int read_far(IntRle self, void* out, int width, int64_t n) except -1 nogil:
    if width == 8:
        return fill_far(self, <int64_t*> out, n)
    if width == 4:
        return fill_far(self, <int32_t*> out, n)
    return fill_far(self, <int16_t*> out, n)


cdef void restart_numbers(IntRle self, int version, bint signed) noexcept nogil:
    self.version, self.signed = version, signed
    self.next_value = self.end_value = 0


cdef int64_t skip_same(IntRle self, int64_t n, int64_t value) except -1 nogil:
    cdef int64_t size, total = self.end_value - self.next_value
    cdef int count = 0, i
    for i in range(<int> min(n, total)):
        if self.values[self.next_value + i] != value:
            return 0
    if total >= n:
        self.next_value += <int> n
        return n
    self.next_value = self.end_value
    while total < n:
        size = self.peek_run(&count)
        if total and count > n - total:         # it is faster to begin the next call with a whole run
            break
        if (count < LEAST_SAME and count < n - total) or not repeats(self, size, value):
            break
        if count > n - total:
            self.load_run()
            self.next_value = <int> (n - total)
            count = self.next_value
        else:
            self.window.p += size
        total += count
    return total


cdef bint repeats(IntRle self, int64_t size, int64_t value) except -1 nogil:
    # Returns whether the header of the current run, which has `size` bytes, shows that all values of the run equal
    # `value`.
    cdef const uint8_t* p = self.window.p
    cdef bint short_one = self.version == 2 and p[0] >> 6 == 0
    cdef bint long_one = p[0] < 128 if self.version == 1 else p[0] >> 6 == 3 and p[0] >> 1 & 31 == 0
    if not short_one and not long_one:
        return False
    while self.window.end - self.window.p < size:
        if not self.window.refill():
            self.window.fail_end()
    return repeated(self.window.p, self.version, self.signed, value)


cdef int refuse(IntRle self, int code) except -1 with gil:
    if code == LONG_VARINT:
        return self.window.fail("a varint has more than 10 bytes")
    if code == NO_PATCHES:
        return self.window.fail("a PATCHED_BASE run has no patches")
    if code == WIDE_PATCH:
        return self.window.fail("a PATCHED_BASE run has patches of more than 64 bits")
    if code == PATCH_OUTSIDE:
        return self.window.fail("a PATCHED_BASE run patches a value outside of the run, or patches one value twice")
    return self.window.fail("a DELTA run of one value has a bit width")
