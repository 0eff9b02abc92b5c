from libc.stdint cimport int32_t, int64_t, uint8_t

from orcidx.orc.int_rle cimport IntRle

cdef enum:
    LENGTHS = 4096          # values of a stream that are processed at a time, a multiple of 64
    SPARE = 32              # bytes after string data, so that a short string is copied in one move

# These functions work on memory whose size the caller has checked. `bits` is the bitmap of `n` rows, of which `count`
# are valid, or NULL if all rows are valid.

# Writes the offsets of rows `start` to `n`, and after them the last offset. The first offset is `total`. `block` has
# room for `LENGTHS + 1` lengths. `is_read`: whether `block` already contains the lengths of the first block. Returns
# the last offset. If it would exceed 2**31 - 1, stops and returns the offset that exceeds it.
cdef int64_t place_all(IntRle lengths, const uint8_t* bits, int64_t start, int64_t n, int64_t total, int32_t* out,
                       int64_t* block, bint is_read) except -1 nogil
# Reads `count` dictionary indexes, which must be below `size`.
cdef int fill_indexes(IntRle indexes, int64_t count, int64_t size, int32_t* out) except -1 nogil
# The lengths of the shortest and the longest of `size` entries.
cdef void find_lengths(const int32_t* entries, int64_t size, int32_t* shortest, int32_t* longest) noexcept nogil
# Writes the offsets of n strings, which the indexes select from a dictionary, and after them the last offset. The first
# offset is `total`. `uniform`: the length of the entries if all have the same length, otherwise -1. Returns the last
# offset. If it exceeds 2**31 - 1, the offsets are incomplete.
cdef int64_t place_entries(const int32_t* indexes, const int32_t* entries, const uint8_t* bits, int64_t n,
                           int64_t total, int64_t uniform, int32_t* out) noexcept nogil
# Copies the selected entries, with `total` bytes, one after the other. Stops before an entry that would exceed `total`.
# SPARE bytes after the entries may be read, and SPARE bytes after the copied bytes may be written. Returns the number
# of copied bytes.
cdef int64_t copy_selected(const int32_t* indexes, int64_t count, const int32_t* entries, const uint8_t* blob,
                           int64_t total, uint8_t* out, int64_t uniform, int64_t longest) noexcept nogil
