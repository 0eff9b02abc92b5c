"""Kernels that group rows by code and write portable roaring bitmaps directly from row numbers.

The bytes are the same as the bytes that a bitmap library writes after run optimisation. A container spans 65536 row
numbers. It is stored as runs if the runs take fewer bytes than an array and fewer bytes than a bitset. Otherwise it is
stored as an array if it has at most 4096 rows, and as a bitset if it has more rows (RoaringFormatSpec; see
``roaring``).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

import numpy as np

from orcidx.paimon.roaring cimport BITSET_BYTES, COOKIE_WITH_RUNS, COOKIE_WITHOUT_RUNS, LARGEST_ARRAY, OFFSETS_FROM

cdef enum:
    CONTAINER = 1 << 16
    MOST_SLICES = 64

cdef struct Head:
    uint16_t key
    uint16_t last  # cardinality - 1
    uint32_t size
    bint is_run


cdef inline uint8_t *_put16(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t> value
    at[1] = <uint8_t> (value >> 8)
    return at + 2


cdef inline uint8_t *_put32(uint8_t *at, uint32_t value) noexcept nogil:
    return _put16(_put16(at, value), value >> 16)


cdef class _Buffer:
    """A growing buffer of bytes."""

    cdef uint8_t *data
    cdef size_t size
    cdef size_t capacity

    def __dealloc__(self):
        free(self.data)

    cdef uint8_t *reserve(self, size_t more) except NULL nogil:
        """Makes room for ``more`` bytes behind the existing bytes. ``size`` does not change."""
        cdef uint8_t *moved
        if self.size + more > self.capacity:
            self.capacity = max(2 * self.capacity, self.size + more, <size_t> 64)
            moved = <uint8_t *> realloc(self.data, self.capacity)
            if moved is NULL:
                with gil:
                    raise MemoryError()
            self.data = moved
        return self.data + self.size


cdef class _Bitmap:
    """A bitmap under construction. Containers are added with ascending keys."""

    cdef _Buffer payload
    cdef _Buffer heads
    cdef size_t containers
    cdef bint has_runs

    def __cinit__(self):
        self.payload = _Buffer()
        self.heads = _Buffer()

    cdef void clear(self) noexcept nogil:
        self.payload.size = self.heads.size = 0
        self.containers = 0
        self.has_runs = False

    cdef int add(self, uint32_t key, const uint16_t *low, uint32_t count) except -1 nogil:
        """Adds a container of ``count`` ascending rows. ``count`` is at least 1."""
        cdef uint32_t i, runs = 1, size
        cdef uint8_t *at
        cdef Head *head
        for i in range(1, count):
            runs += low[i] != <uint16_t> (low[i - 1] + 1)
        size = min(2 * count, <uint32_t> BITSET_BYTES)
        self.heads.reserve(sizeof(Head))
        head = <Head *> (self.heads.data + self.heads.size)
        self.heads.size += sizeof(Head)
        self.containers += 1
        head.key, head.last, head.is_run = <uint16_t> key, <uint16_t> (count - 1), 2 + 4 * runs < size
        if head.is_run:
            size = 2 + 4 * runs
            self.has_runs = True
        head.size = size
        at = self.payload.reserve(size)
        self.payload.size += size
        if head.is_run:
            at = _put16(at, runs)
            _put_runs(at, low, count)
        elif count <= LARGEST_ARRAY:
            for i in range(count):
                at = _put16(at, low[i])
        else:
            memset(at, 0, BITSET_BYTES)
            for i in range(count):
                at[low[i] >> 3] |= <uint8_t> (1 << (low[i] & 7))
        return 0

    cdef int write(self, _Buffer out) except -1 nogil:
        """Appends the whole bitmap to ``out``."""
        cdef size_t i, n = self.containers, flags = (n + 7) // 8 if self.has_runs else 0
        cdef bint offsets = not self.has_runs or n >= OFFSETS_FROM
        cdef size_t head_size = (4 + flags if self.has_runs else 8) + (8 if offsets else 4) * n
        cdef uint8_t *at = out.reserve(head_size + self.payload.size)
        cdef uint8_t *bits
        cdef const Head *heads = <const Head *> self.heads.data
        cdef uint32_t offset = <uint32_t> head_size
        if self.has_runs:
            bits = at = _put32(at, COOKIE_WITH_RUNS | <uint32_t> ((n - 1) << 16))
            memset(bits, 0, flags)
            for i in range(n):
                bits[i >> 3] |= <uint8_t> (heads[i].is_run << (i & 7))
            at += flags
        else:
            at = _put32(_put32(at, COOKIE_WITHOUT_RUNS), <uint32_t> n)
        for i in range(n):
            at = _put16(_put16(at, heads[i].key), heads[i].last)
        if offsets:
            for i in range(n):
                at = _put32(at, offset)
                offset += heads[i].size
        for i in range(self.payload.size):
            at[i] = self.payload.data[i]
        out.size += head_size + self.payload.size
        return 0


cdef void _put_runs(uint8_t *at, const uint16_t *low, uint32_t count) noexcept nogil:
    cdef uint32_t i, start = 0
    for i in range(1, count + 1):
        if i == count or low[i] != <uint16_t> (low[i - 1] + 1):
            at = _put16(_put16(at, low[start]), low[i - 1] - low[start])
            start = i


def write_groups(const uint32_t[::1] rows, const int64_t[::1] starts):
    """Writes one bitmap for each group. Returns the bytes of all bitmaps without gaps, and the size of each bitmap as
    an int64 array.

    Group i has the rows ``rows[starts[i]:starts[i + 1]]``. Raises ``ValueError`` if a group has no rows, or if its rows
    do not ascend.
    """
    cdef Py_ssize_t group, groups = max(starts.shape[0] - 1, 0)
    cdef int64_t i, stop
    cdef uint32_t key, count
    cdef size_t before
    cdef _Bitmap bitmap = _Bitmap()
    cdef _Buffer out = _Buffer()
    sizes_array = np.empty(groups, np.int64)
    cdef int64_t[::1] sizes = sizes_array
    low_array = np.empty(CONTAINER, np.uint16)
    cdef uint16_t[::1] low = low_array
    with nogil:
        for group in range(groups):
            i, stop = starts[group], starts[group + 1]
            if not 0 <= i < stop <= rows.shape[0]:
                with gil:
                    raise ValueError(f"group {group} has no rows, or its range is outside of rows")
            bitmap.clear()
            before = out.size
            while i < stop:
                key, count = rows[i] >> 16, 0
                while i < stop and rows[i] >> 16 == key:
                    if count and rows[i] <= rows[i - 1]:
                        with gil:
                            raise ValueError(f"the rows of group {group} do not ascend")
                    low[count] = <uint16_t> rows[i]
                    count += 1
                    i += 1
                bitmap.add(key, &low[0], count)
            bitmap.write(out)
            sizes[group] = <int64_t> (out.size - before)
    return (<const char *> out.data)[:out.size] if out.size else b"", sizes_array


def write_slices(const int64_t[::1] numbers, const uint32_t[::1] rows, int count):
    """The bytes of ``count`` bitmaps. Bitmap b has the rows ``rows[i]`` whose ``numbers[i]`` have bit b.

    Raises ``ValueError`` unless the rows ascend and the numbers are from 0 to ``2 ** count - 1``.
    """
    cdef Py_ssize_t i = 0, size = rows.shape[0]
    cdef uint32_t key, row, last = 0
    cdef uint64_t number
    cdef int bit
    cdef uint32_t counts[MOST_SLICES]
    if not 0 <= count <= MOST_SLICES or numbers.shape[0] != size:
        raise ValueError(f"there cannot be {count} slices of {numbers.shape[0]} numbers in {size} rows")
    cdef list slices = [_Bitmap() for _ in range(count)]
    low_array = np.empty(CONTAINER * max(count, 1), np.uint16)
    cdef uint16_t[::1] low = low_array
    cdef _Bitmap bitmap
    while i < size:
        memset(counts, 0, sizeof(counts))
        with nogil:
            key = rows[i] >> 16
            while i < size and rows[i] >> 16 == key:
                row, number = rows[i], <uint64_t> numbers[i]
                if (i and row <= last) or (count < 64 and number >> count):
                    with gil:
                        raise ValueError(f"row {row} does not ascend, or {number} does not fit {count} bits")
                last = row
                bit = 0
                while number:
                    low[bit * CONTAINER + counts[bit]] = <uint16_t> row
                    counts[bit] += number & 1
                    number >>= 1
                    bit += 1
                i += 1
        for bit in range(count):
            if counts[bit]:
                bitmap = slices[bit]
                bitmap.add(key, &low[bit * CONTAINER], counts[bit])
    cdef _Buffer out
    stored = []
    for bitmap in slices:
        out = _Buffer()
        bitmap.write(out)
        stored.append((<const char *> out.data)[:out.size])
    return stored


def group_rows(const int32_t[::1] codes, const uint32_t[::1] rows, int groups):
    """Sorts ``rows`` by their codes. Rows with the same code keep their order. Also returns the position of the first
    row of each code.

    Raises ``ValueError`` for a code outside ``[0, groups)``.
    """
    cdef Py_ssize_t i, size = codes.shape[0]
    if rows.shape[0] != size:
        raise ValueError(f"there are {size} codes, but {rows.shape[0]} rows")
    starts_array = np.zeros(groups + 1, np.int64)
    grouped_array = np.empty(size, np.uint32)
    cdef int64_t[::1] starts = starts_array
    cdef uint32_t[::1] grouped = grouped_array
    cdef int32_t code
    for i in range(size):
        code = codes[i]
        if not 0 <= code < groups:
            raise ValueError(f"code {code} is not below {groups}, the number of groups")
        starts[code + 1] += 1
    for i in range(groups):
        starts[i + 1] += starts[i]
    cursor_array = starts_array[:groups].copy()
    cdef int64_t[::1] cursor = cursor_array
    with nogil:
        for i in range(size):
            grouped[cursor[codes[i]]] = rows[i]
            cursor[codes[i]] += 1
    return grouped_array, starts_array
