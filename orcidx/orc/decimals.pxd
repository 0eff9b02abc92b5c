from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window

cdef enum:
    BLOCK = 1024            # 16 KiB of decimals, so that a block stays in the cache until it is copied to the output
    NARROW = 18             # digits that always fit into 64 bits

# Skips the scales of the next decimals that are stored with this scale, and returns their number, which is at most
# BLOCK and at most `left`. If it is 0, the next decimal may have another scale.
cdef int64_t next_same(IntRle scales, int64_t left, int scale) except -1 nogil
# Reads `count` decimals to `out`, with 16 bytes for each. The caller has skipped their scales by `next_same`. Returns a
# status, which is other than 0 if a value is refused.
cdef int read_same(Window values, uint8_t* out, int64_t count, int precision) except -1 nogil
# Reads up to BLOCK decimals to `out`, with 16 bytes for each, and converts them to `scale`. Returns a status.
cdef int read_block(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                    int rounding) except -1 nogil
# Reads the next decimals to `out`, with 8 bytes for each, converts them to `scale`, and returns their number, which is
# at most BLOCK and at most `left`. They have at most NARROW digits. `status` becomes other than 0 if a value is
# refused.
cdef int64_t next_narrow(Window values, IntRle scales, int64_t left, int scale, int precision, int rounding,
                         int64_t* out, int* status) except -1 nogil
# Like `next_narrow`, for unscaled values that are stored as integers and have at most NARROW digits.
cdef int64_t next_short_decimals(IntRle values, int64_t left, int precision, int64_t* narrow,
                                 int* status) except -1 nogil
# Reads `count` decimals to `out`, with 16 bytes for each, and converts them to `scale`. Returns a status.
cdef int read_all(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                  int rounding) except -1 nogil
# Does the same for unscaled values that are stored as integers.
cdef int read_all_short(IntRle values, uint8_t* out, int64_t count, int precision) except -1 nogil
# Widens 64-bit values to 128 bits.
cdef void widen_values(const int64_t* values, int64_t count, uint8_t* out) noexcept nogil
# Returns the code of the rounding mode with this name.
cdef int rounding_of(str rounding) except -1
# Raises the error for a status other than 0. `stream` is the name of the stream of the values.
cdef int refuse_status(int status, str stream) except -1
cdef int check(uint8_t[::1] out, int64_t count, int scale, int precision) except -1
