from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window

cdef enum:
    BLOCK = 1024            # 16 KiB of decimals, so that a block stays in the cache until it is copied to the output
    NARROW = 18             # digits that always fit into 64 bits

# Reads the next decimals, converts them to `scale`, and returns their number, which is at most BLOCK. `left` is the
# number of decimals that are left. If `precision` is at most NARROW, the decimals are written to `narrow`, otherwise to
# `wide`. `wide` must have room for BLOCK values in both cases. `status` becomes other than 0 if a value is refused.
cdef int64_t next_decimals(Window values, IntRle scales, int64_t left, int scale, int precision, int rounding,
                           int64_t* narrow, uint8_t* wide, int* status) except -1 nogil
# Like `next_decimals`, for unscaled values that are stored as integers and have at most NARROW digits.
cdef int64_t next_short_decimals(IntRle values, int64_t left, int precision, int64_t* narrow,
                                 int* status) except -1 nogil
cdef void widen_values(const int64_t* values, int64_t count, uint8_t* out) noexcept nogil
# Returns the code of the rounding mode with this name.
cdef int rounding_of(str rounding) except -1
# Raises the error for a status other than 0. `stream` is the name of the stream of the values.
cdef int refuse_status(int status, str stream) except -1
cdef int check(uint8_t[::1] out, int64_t count, int scale, int precision) except -1
