"""The kernels for runs of integers, versions 1 and 2.

There are two functions for each form. ``*_size`` reads only a run's header (its bytes and its number of values), so
skipping is fast. ``*_decode`` decodes a run that is complete in memory. A negative result of a function is an error
code. ``v1_runs`` and ``bit_unpack`` decode several simple runs by one call.

Version 1: a header of 0..127 is a run of ``header + 3`` values: a signed byte (the delta) and a varint (the first
value). A header of 128..255 is followed by ``256 - header`` varints.

Version 2: the two high bits of the first byte select the form:

    00 SHORT_REPEAT   001wwwccc                  1 value of w + 1 bytes, c + 3 times
    01 DIRECT         01wwwwwc cccccccc          c + 1 values of width(w) bits
    10 PATCHED_BASE   10wwwwwc cccccccc bbbppppp gggnnnnn   base of b + 1 bytes (sign and magnitude), c + 1 values of
                      width(w) bits, n patches of g + 1 bits gap and width(p) bits, padded to a usual width
    11 DELTA          11wwwwwc cccccccc          varint base, signed varint delta, c - 1 magnitudes of width(w) bits;
                      w = 0: none, the delta is the same throughout

Arithmetic is modulo 2**64, as in ORC Java and C++. If these two return different or meaningless values, the run is
refused. This applies to varints of more than 10 bytes, to PATCHED_BASE without patches or with a patch outside the run,
to patches that are wider than 64 bits together with their gap, and to DELTA runs of one value with a bit width.
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t

from orcidx.orc.bit_unpack cimport load_big, load_little, low_bit, squeeze, unpack_plain, unpack_zigzag

cdef uint64_t HIGH_BITS = 0x8080808080808080

cdef inline uint64_t unzigzag(uint64_t v) noexcept nogil:
    return v >> 1 ^ (0 - (v & 1))


cdef inline int width_of(int code) noexcept nogil:
    # The 5-bit codes stand for the widths 1..24, 26, 28, 30, 32, 40, 48, 56 and 64.
    if code < 24:
        return code + 1
    if code < 28:
        return 26 + 2 * (code - 24)
    return 40 + 8 * (code - 28)


cdef inline int width_up(int bits) noexcept nogil:
    # Returns the smallest width of the format that has at least this many bits (at most 64).
    if bits <= 24:
        return bits
    if bits <= 32:
        return bits + (bits & 1)
    return (bits + 7) // 8 * 8


cdef inline int64_t packed(int64_t count, int width) noexcept nogil:
    return (count * width + 7) >> 3


cdef inline int varint_size(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int i = 0
    while i < 10:
        if p + i >= end:
            return NEED_MORE
        if p[i] < 128:
            return i + 1
        i += 1
    return LONG_VARINT


cdef inline int read_varint(const uint8_t* p, uint64_t* value) noexcept nogil:
    # Reads a varint that ends within the window. Returns its size, or LONG_VARINT if it has more than 10 bytes. Up to
    # 10 bytes are loaded from memory.
    cdef uint64_t word = load_little(p)
    cdef uint64_t stops = ~word & HIGH_BITS
    if stops == 0:
        if p[8] < 128:
            value[0] = squeeze(word) | <uint64_t> p[8] << 56
            return 9
        if p[9] < 128:
            value[0] = squeeze(word) | <uint64_t> (p[8] & 127) << 56 | <uint64_t> p[9] << 63
            return 10
        return LONG_VARINT
    value[0] = squeeze(word & (stops ^ (stops - 1)))
    return (low_bit(stops) >> 3) + 1


cdef void ramp(int64_t* out, uint64_t value, uint64_t step, int n) noexcept nogil:
    # Computes `value`, `value + step`, ... with additions, because some processors have no multiplication
    # of vectors of 64-bit integers.
    cdef int i
    for i in range(n):
        out[i] = <int64_t> value
        value += step


cdef void add_up(int64_t* out, uint64_t value, int n, bint down) noexcept nogil:
    # Replaces the sizes of the steps in `out` by running sums that begin at `value`. If `down` is set, the steps are
    # subtracted.
    cdef int i
    if down:
        for i in range(n):
            value -= <uint64_t> out[i]
            out[i] = <int64_t> value
    else:
        for i in range(n):
            value += <uint64_t> out[i]
            out[i] = <int64_t> value


# --- version 1 --------------------------------------------------------------------------------------------------------


cdef int v1_size(const uint8_t* p, const uint8_t* end, int* count) noexcept nogil:
    cdef const uint8_t* start = p
    cdef uint64_t stops
    cdef int n, left
    if end - p < 2:                             # every run has at least 2 bytes
        return NEED_MORE
    if p[0] < 128:
        count[0] = p[0] + 3
        n = varint_size(p + 2, end)
        return n if n <= 0 else n + 2
    left = count[0] = 256 - p[0]
    p += 1
    while p < end:                              # counts the last bytes of varints, eight bytes at a time
        stops = ~load_little(p) & HIGH_BITS
        n = <int> ((stops >> 7) * <uint64_t> 0x0101010101010101 >> 56)
        if n < left:
            left -= n
            p += 8
            continue
        while left > 1:
            stops &= stops - 1
            left -= 1
        p += (low_bit(stops) >> 3) + 1
        return <int> (p - start) if p <= end else NEED_MORE
    return NEED_MORE


cdef int v1_decode(const uint8_t* p, bint zigzag, int64_t* out) noexcept nogil:
    # Decodes one run, which must be complete in memory. Returns 1, or a negative error code.
    cdef uint64_t value = 0
    cdef int i, n, count
    if p[0] < 128:
        read_varint(p + 2, &value)
        ramp(out, unzigzag(value) if zigzag else value, <uint64_t> <int64_t> <int8_t> p[1], p[0] + 3)
        return 1
    count = 256 - p[0]
    p += 1
    for i in range(count):
        if p[0] < 128:
            value = p[0]
            p += 1
        else:
            n = read_varint(p, &value)
            if n < 0:
                return n
            p += n
        out[i] = <int64_t> (unzigzag(value) if zigzag else value)
    return 1


# --- version 2 --------------------------------------------------------------------------------------------------------


cdef int v2_size(const uint8_t* p, const uint8_t* end, int* count) noexcept nogil:
    cdef int kind, width, n, m, patch_width
    if end - p < 2:                             # every run has at least 2 bytes
        return NEED_MORE
    kind = p[0] >> 6
    if kind == 0:
        count[0] = (p[0] & 7) + 3
        return 2 + (p[0] >> 3)
    width = width_of(p[0] >> 1 & 31)
    count[0] = ((p[0] & 1) << 8 | p[1]) + 1
    if kind == 1:
        return 2 + <int> packed(count[0], width)
    if kind == 2:
        if end - p < 4:
            return NEED_MORE
        if p[3] & 31 == 0:
            return NO_PATCHES
        patch_width = (p[3] >> 5) + 1 + width_of(p[2] & 31)
        if patch_width > 64:
            return WIDE_PATCH
        return <int> (5 + (p[2] >> 5) + packed(count[0], width) + packed(p[3] & 31, width_up(patch_width)))
    n = varint_size(p + 2, end)
    if n <= 0:
        return n
    m = varint_size(p + 2 + n, end)
    if m <= 0:
        return m
    if p[0] >> 1 & 31 == 0:
        return 2 + n + m
    if count[0] == 1:
        return ONE_DELTA
    return <int> (2 + n + m + packed(count[0] - 2, width))


cdef int v2_decode(const uint8_t* p, bint zigzag, int count, int64_t* out) noexcept nogil:
    # Decodes one run, which must be complete in memory. Returns 1, or a negative error code.
    cdef int kind = p[0] >> 6
    cdef int i, width
    cdef uint64_t value
    if kind == 0:
        value = load_big(p + 1) >> (56 - 8 * (p[0] >> 3))
        if zigzag:
            value = unzigzag(value)
        for i in range(count):
            out[i] = <int64_t> value
        return 1
    width = width_of(p[0] >> 1 & 31)
    if kind == 1:
        if zigzag:
            unpack_zigzag(p + 2, <uint64_t*> out, count, width)
        else:
            unpack_plain(p + 2, <uint64_t*> out, count, width)
        return 1
    if kind == 2:
        return v2_patched(p, count, width, out)
    v2_delta(p, zigzag, count, width, out)
    return 1


cdef void v2_delta(const uint8_t* p, bint zigzag, int count, int width, int64_t* out) noexcept nogil:
    cdef uint64_t first = 0, second = 0, value, step
    cdef bint fixed = p[0] >> 1 & 31 == 0
    p += 2
    p += read_varint(p, &first)
    p += read_varint(p, &second)
    value = unzigzag(first) if zigzag else first
    step = unzigzag(second)
    if fixed:
        ramp(out, value, step, count)
        return
    unpack_plain(p, <uint64_t*> out + 2, count - 2, width)
    out[0] = <int64_t> value
    value += step
    out[1] = <int64_t> value
    add_up(out + 2, value, count - 2, <int64_t> step < 0)


cdef int v2_patched(const uint8_t* p, int count, int width, int64_t* out) noexcept nogil:
    cdef int base_bytes = (p[2] >> 5) + 1
    cdef int patch_width = width_of(p[2] & 31)
    cdef int patches = p[3] & 31
    cdef int entry_width = width_up((p[3] >> 5) + 1 + patch_width)
    cdef uint64_t base = load_big(p + 4) >> (64 - 8 * base_bytes)
    cdef uint64_t sign = <uint64_t> 1 << (8 * base_bytes - 1)
    cdef uint64_t mask = ~(<uint64_t> 0) >> (64 - patch_width)
    cdef uint64_t entries[32 + SPARE_VALUES]
    cdef uint64_t gap, patch
    cdef int64_t at = 0, last = -1
    cdef int i
    if base & sign:                             # sign and magnitude, not two's complement
        base = 0 - (base & ~sign)
    p += 4 + base_bytes
    unpack_plain(p, <uint64_t*> out, count, width)
    unpack_plain(p + packed(count, width), entries, patches, entry_width)
    for i in range(patches):
        patch = entries[i] & mask
        gap = entries[i] >> patch_width if patch_width < 64 else 0
        if gap > 255:                           # padding bits are set, but must not be
            return PATCH_OUTSIDE
        at += <int64_t> gap
        if gap == 255 and patch == 0:           # the entry only makes the gap longer
            continue
        if at >= count or at == last:
            return PATCH_OUTSIDE
        last = at
        if width < 64:
            out[at] |= <int64_t> (patch << width)
    for i in range(count):
        out[i] = <int64_t> (<uint64_t> out[i] + base)
    return 1


# --- runs of one value ------------------------------------------------------------------------------------------------


cdef bint repeated(const uint8_t* p, int version, bint zigzag, int64_t wanted) noexcept nogil:
    cdef uint64_t value = 0, step = 0
    cdef int size
    if version == 1:
        if p[1] != 0 or read_varint(p + 2, &value) < 0:
            return False
    elif p[0] >> 6 == 0:
        value = load_big(p + 1) >> (56 - 8 * (p[0] >> 3))
    else:
        size = read_varint(p + 2, &value)
        if size < 0 or read_varint(p + 2 + size, &step) < 0 or step != 0:
            return False
    return <int64_t> (unzigzag(value) if zigzag else value) == wanted
