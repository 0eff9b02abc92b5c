from libc.stdint cimport int64_t, uint8_t

from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.window cimport Window

cdef enum:
    BLOCK = 1024            # 16 KiB of them, so that they stay in the cache on their way past the caches
    NARROW = 18             # digits that fit 64 bits

# Reads the next decimals at a scale, at most BLOCK of the `left` ones, and returns their number. They are in `narrow`
# if they have at most NARROW digits, else in `wide`, which is used in both cases. `status` is not 0 if one is refused.
cdef int64_t next_decimals(Window values, IntRle scales, int64_t left, int scale, int precision, int rounding,
                           int64_t* narrow, uint8_t* wide, int* status) except -1 nogil
# The same for integers that are the unscaled values, of at most NARROW digits.
cdef int64_t next_short_decimals(IntRle values, int64_t left, int precision, int64_t* narrow,
                                 int* status) except -1 nogil
cdef void widen_values(const int64_t* values, int64_t count, uint8_t* out) noexcept nogil
# A rounding by its name, and the error for a status in a stream.
cdef int rounding_of(str rounding) except -1
cdef int refuse_status(int status, str stream) except -1
cdef int check(uint8_t[::1] out, int64_t count, int scale, int precision) except -1
