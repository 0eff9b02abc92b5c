"""Roaring bitmaps in the portable format. They are checked before a library reads them.

    cookie u32        12346: no run containers, a count follows | low half 12347: high half = containers - 1
    count u32         only after 12346; at most 65536
    run flags         only after 12347: one bit per container, least significant first, ceil(count / 8) bytes
    {key u16, cardinality - 1 u16} per container, keys ascending
    {offset u32} per container                     absent after 12347 when there are fewer than 4 containers
    containers        run: count u16, {start u16, length - 1 u16}*; array: u16 ascending, up to 4096 values;
                      bitset: 8192 bytes, above 4096 values

All integers are little-endian (RoaringFormatSpec). The walk over the containers finds the end of a bitmap, which the
library does not report. It also checks everything that the library's operations need: order, counts, and gaps between
runs.
"""

from pyroaring import BitMap

from orcidx.errors import CorruptFile

cdef enum:
    LARGEST_KEY = 0xFFFF

EMPTY_BITMAP = b"\x3a\x30\x00\x00\x00\x00\x00\x00"


cdef inline unsigned int _u16(const unsigned char *at) noexcept nogil:
    return at[0] | (<unsigned int> at[1] << 8)


cdef inline unsigned long long _u32(const unsigned char *at) noexcept nogil:
    return _u16(at) | (<unsigned long long> _u16(at + 2) << 16)


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Counts the bits that are set in a bitset container, which has 1024 words. */
    #define ORCIDX_COUNT(name, attribute, ones) \\
        attribute static int name(const unsigned char* at) { \\
            uint64_t word; \\
            int i, total = 0; \\
            for (i = 0; i < 8192; i += 8) { memcpy(&word, at + i, 8); total += ones(word); } \\
            return total; \\
        }
    static inline int orcidx_ones(uint64_t x) {
        x = x - ((x >> 1) & 0x5555555555555555ull);
        x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
        return (int)((((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull) >> 56);
    }
    ORCIDX_COUNT(orcidx_count_plain, , orcidx_ones)
    #if defined(__x86_64__) && defined(__GNUC__)
    ORCIDX_COUNT(orcidx_count_fast, __attribute__((target("popcnt"))), __builtin_popcountll)
    static int orcidx_count(const unsigned char* at) {
        return __builtin_cpu_supports("popcnt") ? orcidx_count_fast(at) : orcidx_count_plain(at);
    }
    #else
    #define orcidx_count orcidx_count_plain
    #endif

    /* Whether u16 values ascend strictly. The loop has no branch for a value, so several values are
       compared at once. */
    static int orcidx_ascend(const unsigned char* at, int count) {
        int i, bad = 0;
        for (i = 0; i + 1 < count; i++) {
            uint16_t a, b;
            memcpy(&a, at + 2 * i, 2);
            memcpy(&b, at + 2 * i + 2, 2);
            bad |= b <= a;
        }
        return !bad;
    }
    """
    int _ones_of_bitset "orcidx_count"(const unsigned char *at) noexcept nogil
    bint _ascend "orcidx_ascend"(const unsigned char *at, int count) noexcept nogil


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
    """The position of the end of the bitmap at ``offset`` of ``data``. Raises ``CorruptFile`` for an invalid bitmap."""
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
        at += 4 * <Py_ssize_t> containers  # skips the offsets, which are only for random access
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
            ok = end - at >= need and _ascend(base + at, <int> count)
        else:
            need = BITSET_BYTES
            ok = end - at >= need and _ones_of_bitset(base + at) == <int> count
        if not ok:
            raise _corrupt("container is cut off" if end - at < need else "container has a wrong order or count", at)
        at += need
    return at


def read_bitmap(data, Py_ssize_t offset=0):
    """Reads the bitmap that starts at ``offset`` of ``data`` (a buffer of bytes). Returns the bitmap and the position
    of its end.

    Raises ``CorruptFile`` if the bitmap is cut off or invalid. The bitmap need not be run-optimised.
    """
    end = portable_end(data, offset)
    return BitMap.deserialize(memoryview(data)[offset:end]), end


def write_bitmap(bitmap):
    """The bytes of a ``pyroaring`` bitmap after run optimisation. All formats of Paimon store bitmaps in this form."""
    bitmap = BitMap(bitmap)
    bitmap.run_optimize()
    return bitmap.serialize()
