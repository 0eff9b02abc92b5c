"""Roaring bitmaps in the portable format, checked before a library touches them.

    cookie u32        12346: no run containers, a count follows | low half 12347: high half = containers - 1
    count u32         only after 12346; at most 65536
    run flags         only after 12347: one bit per container, least significant first, ceil(count / 8) bytes
    {key u16, cardinality - 1 u16} per container, keys ascending
    {offset u32} per container                     absent after 12347 when there are fewer than 4 containers
    containers        run: count u16, {start u16, length - 1 u16}*; array: u16 ascending, up to 4096 values;
                      bitset: 8192 bytes, above 4096 values

All little-endian (RoaringFormatSpec). The walk over the containers finds where a bitmap ends, which the library does
not tell, and checks everything that its operations rely on: order, counts, and that runs do not touch.
"""

from pyroaring import BitMap

from orcidx.errors import CorruptFile

cdef enum:
    COOKIE_WITHOUT_RUNS = 12346
    COOKIE_WITH_RUNS = 12347
    OFFSETS_FROM = 4  # containers; a run cookie with fewer carries no offsets
    LARGEST_ARRAY = 4096
    BITSET_BYTES = 8192
    LARGEST_KEY = 0xFFFF

EMPTY_BITMAP = b"\x3a\x30\x00\x00\x00\x00\x00\x00"


cdef inline unsigned int _u16(const unsigned char *at) noexcept nogil:
    return at[0] | (<unsigned int> at[1] << 8)


cdef inline unsigned long long _u32(const unsigned char *at) noexcept nogil:
    return _u16(at) | (<unsigned long long> _u16(at + 2) << 16)


cdef inline unsigned int _ones(unsigned long long word) noexcept nogil:
    word = word - ((word >> 1) & 0x5555555555555555ULL)
    word = (word & 0x3333333333333333ULL) + ((word >> 2) & 0x3333333333333333ULL)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0FULL
    return <unsigned int> ((word * 0x0101010101010101ULL) >> 56)


cdef inline bint _array_ok(const unsigned char *at, unsigned int count) noexcept nogil:
    cdef unsigned int i
    cdef bint ok = True
    for i in range(1, count):
        ok = ok and _u16(at + 2 * i) > _u16(at + 2 * i - 2)
    return ok


cdef inline bint _bitset_ok(const unsigned char *at, unsigned int count) noexcept nogil:
    cdef unsigned int ones = 0
    cdef int i
    for i in range(BITSET_BYTES // 4):
        ones += _ones(_u32(at + 4 * i))
    return ones == count


cdef inline bint _runs_ok(const unsigned char *at, unsigned int runs, unsigned int count) noexcept nogil:
    cdef unsigned int i, start, stop, previous = 0, total = 0
    for i in range(runs):
        start = _u16(at + 4 * i)
        stop = start + _u16(at + 4 * i + 2) + 1
        if stop > LARGEST_KEY + 1 or (i and start <= previous):
            return False
        total += stop - start
        previous = stop
    return total == count


cdef object _corrupt(str what, Py_ssize_t offset):
    return CorruptFile(f"roaring bitmap: {what}", offset=offset)


def portable_end(const unsigned char[::1] data, Py_ssize_t offset=0):
    """Where the bitmap that starts at ``offset`` of ``data`` ends; raises ``CorruptFile`` unless it is sound."""
    cdef Py_ssize_t end = data.shape[0], at = offset, headers, flags = -1, need
    cdef unsigned long long cookie
    cdef unsigned int containers, count, runs, i
    cdef int key, last_key = -1
    cdef bint ok
    cdef const unsigned char *base
    if offset < 0 or end - at < 4:
        raise _corrupt("cut off", offset)
    base = &data[0]
    cookie = _u32(base + at)
    at += 4
    if cookie == COOKIE_WITHOUT_RUNS:
        if end - at < 4:
            raise _corrupt("cut off", at)
        if _u32(base + at) > LARGEST_KEY + 1:
            raise _corrupt("more than 65536 containers", at)
        containers = <unsigned int> _u32(base + at)
        at += 4
    elif cookie & 0xFFFF == COOKIE_WITH_RUNS:
        containers = <unsigned int> (cookie >> 16) + 1
        flags = at
        at += (containers + 7) // 8
    else:
        raise _corrupt(f"cookie {cookie} is neither 12346 nor 12347", offset)
    headers = at
    at += 4 * <Py_ssize_t> containers
    if flags < 0 or containers >= OFFSETS_FROM:
        at += 4 * <Py_ssize_t> containers  # offsets serve random access; the containers follow each other anyway
    if at > end:
        raise _corrupt("cut off in its header", offset)
    for i in range(containers):
        key = _u16(base + headers + 4 * i)
        if key <= last_key:
            raise _corrupt("container keys do not ascend", headers + 4 * i)
        last_key = key
        count = _u16(base + headers + 4 * i + 2) + 1
        if flags >= 0 and (base[flags + (i >> 3)] >> (i & 7)) & 1:
            if end - at < 2:
                raise _corrupt("cut off", at)
            runs = _u16(base + at)
            at += 2
            need = 4 * runs
            ok = end - at >= need and _runs_ok(base + at, runs, count)
        elif count <= LARGEST_ARRAY:
            need = 2 * count
            ok = end - at >= need and _array_ok(base + at, count)
        else:
            need = BITSET_BYTES
            ok = end - at >= need and _bitset_ok(base + at, count)
        if not ok:
            raise _corrupt("container is cut off" if end - at < need else "container breaks its order or count", at)
        at += need
    return at


def read_bitmap(data, Py_ssize_t offset=0):
    """The bitmap that starts at ``offset`` of ``data`` (a buffer of bytes), and where it ends.

    Raises ``CorruptFile`` when it is cut off or breaks the format. Bitmaps that were not run-optimised are fine.
    """
    end = portable_end(data, offset)
    return BitMap.deserialize(memoryview(data)[offset:end]), end


def write_bitmap(bitmap):
    """Bytes of a ``pyroaring`` bitmap after run optimisation, as every Paimon format stores it."""
    bitmap = BitMap(bitmap)
    bitmap.run_optimize()
    return bitmap.serialize()
