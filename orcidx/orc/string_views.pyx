"""Makes views of strings, in Arrow's format.

A view has 16 bytes. The first four bytes are the length of the string. If the string has at most 12 bytes, all its
bytes follow. Otherwise the first four bytes of the string follow, then the number of the buffer that has the string,
and the offset of the string in this buffer.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t orcidx_text(const void* p) { uint64_t x; memcpy(&x, p, 8); return x; }
    static const uint64_t orcidx_low_mask[16] = {
        0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffffull, 0xffffffffffffull, 0xffffffffffffffull,
        ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
    static const uint32_t orcidx_high_mask[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xffff, 0xffffff, 0xffffffff};
    /* Writes the view of the string at `start`. 12 bytes from there can be read. */
    static inline void orcidx_view(const uint8_t* content, int32_t start, int32_t length, uint8_t* out) {
        uint64_t low = 0;
        uint32_t high = (uint32_t)start, prefix;
        if (length > 12) {
            memcpy(&prefix, content + start, 4);
            low = prefix;
        } else {
            low = orcidx_text(content + start) & orcidx_low_mask[length & 15];
            memcpy(&high, content + start + 8, 4);
            high &= orcidx_high_mask[length & 15];
        }
        memcpy(out, &length, 4);
        memcpy(out + 4, &low, 8);
        memcpy(out + 12, &high, 4);
    }
    """
    void write_view "orcidx_view"(const uint8_t* content, int32_t start, int32_t length, uint8_t* out) nogil
    uint64_t load_text "orcidx_text"(const void* p) nogil

cdef enum:
    VIEW = 16               # bytes of a view
    INLINE = 12             # the longest string that a view contains


def make_views(const int32_t[::1] offsets not None, const uint8_t[::1] data not None, uint8_t[::1] out not None) -> int:
    """Writes the view of each string, and returns the length of the longest string. The offsets must be ascending. The
    views refer to buffer 0."""
    cdef int64_t i, n = offsets.shape[0] - 1, size = data.shape[0]
    cdef int32_t start, length, longest = 0
    cdef const uint8_t* content = &data[0] if size else NULL
    cdef uint8_t* at
    cdef uint8_t[INLINE] last
    if n < 0 or n * VIEW > out.shape[0] or offsets[0] < 0 or offsets[n] > size:
        raise ValueError("the views do not fit")
    if n == 0:
        return 0
    at = &out[0]
    with nogil:
        for i in range(n):
            start = offsets[i]
            length = offsets[i + 1] - start
            longest = max(longest, length)
            if start + INLINE <= size:
                write_view(content, start, length, at)
            else:                           # at the end of the data
                memset(last, 0, INLINE)
                if 0 < length <= size - start:
                    memcpy(last, content + start, length)
                write_view(last, 0, length, at)
            at += VIEW
    return longest


def make_uniform_views(const uint8_t[::1] data not None, int64_t length, uint8_t[::1] out not None):
    """Writes a view for each 16 bytes of ``out``. All strings have ``length`` bytes, at most 12, and follow each other
    in ``data``."""
    cdef int64_t i, n = out.shape[0] // VIEW, size = data.shape[0], whole
    cdef uint64_t mask
    cdef uint64_t[2] view
    cdef uint8_t[INLINE] last
    if not 0 <= length <= INLINE or n * length > size:
        raise ValueError(f"{n} strings of {length} bytes do not fit")
    if n == 0:
        return
    whole = 0                               # strings from whose start 12 bytes can be read
    if size >= INLINE:
        whole = n if length == 0 else min(n, (size - INLINE) // length + 1)
    with nogil:
        if length <= 4:
            mask = ((<uint64_t> 1 << (8 * length)) - 1) << 32
            view[1] = 0
            for i in range(whole):
                view[0] = <uint64_t> length | (load_text(&data[i * length]) << 32 & mask)
                memcpy(&out[i * VIEW], view, VIEW)
        else:
            for i in range(whole):
                write_view(&data[i * length], 0, <int32_t> length, &out[i * VIEW])
        for i in range(whole, n):
            memset(last, 0, INLINE)
            if length:
                memcpy(last, &data[i * length], length)
            write_view(last, 0, <int32_t> length, &out[i * VIEW])
