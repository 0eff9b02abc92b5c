from libc.stdint cimport int32_t, int64_t

from orcidx.orc.int_rle cimport IntRle

# Reads `count` dates. Returns 1 if one of them is before `first`, otherwise 0. Sets `days.wrapped` if the days of one
# do not fit into 32 bits. `streaming`: `out` is not read soon.
cdef int fill_days(IntRle days, int32_t* out, int64_t count, int32_t first, bint streaming) except -1 nogil
