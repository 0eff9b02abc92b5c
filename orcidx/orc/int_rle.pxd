from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from orcidx.orc.int_runs cimport SPARE_VALUES
from orcidx.orc.window cimport Window

cdef enum:
    RUN_VALUES = 512        # most values of one run, v1 (130) and v2 (512)
    BLOCK = 2064            # values that are in the cache on their way: four of the longest runs, and room


cdef class IntRle:
    cdef readonly Window window
    cdef readonly int version           # 1: DIRECT and DICTIONARY, 2: DIRECT_V2 and DICTIONARY_V2
    cdef readonly bint signed           # zigzag coded
    cdef int next_value  # values[next_value:end_value] are decoded and not consumed yet
    cdef int end_value
    cdef int64_t values[RUN_VALUES + SPARE_VALUES]
    cdef uint64_t largest  # the largest of the values that passed through `values`, which include all narrowed ones
    cdef bint wrapped  # one of these did not fit the narrower type

    # n values; a narrower type keeps the low bits, as every other reader does. CorruptFile when the stream ends first.
    cdef int read_int64(self, int64_t* out, int64_t n) except -1 nogil
    cdef int read_int32(self, int32_t* out, int64_t n) except -1 nogil
    cdef int read_int16(self, int16_t* out, int64_t n) except -1 nogil
    # Up to n (at least 1) values, as many as come at once, and how many; 0: call again.
    cdef int64_t some_int32(self, int32_t* out, int64_t n) except -1 nogil
    # Up to n (at least 1) values to a block of BLOCK, as many as there is room for whole runs; how many.
    cdef int64_t near_int32(self, int32_t* block, int64_t n) except -1 nogil
    # Skips n values; whole runs are skipped by their headers.
    cdef int skip_values(self, int64_t n) except -1 nogil
    # The sum of a total and n lengths that were read; CorruptFile for a negative one or a sum beyond int64.
    cdef int64_t add_lengths(self, const int64_t* values, int64_t n, int64_t total) except -1 nogil
    # Skips n lengths and returns their sum, with the same errors.
    cdef int64_t skip_lengths(self, int64_t n) except -1 nogil

    # The current run's size in bytes and its number of values; refills until the header is complete.
    cdef int64_t peek_run(self, int* count) except -1 nogil
    # Decodes the run at the window's position to `out`, which has room for its `count` values and SPARE_VALUES.
    cdef int decode_run(self, int64_t size, int count, int64_t* out) except -1 nogil
    # Decodes the next run to `values`.
    cdef int load_run(self) except -1 nogil


# Skips up to n values that all equal this one, using only headers of long runs; returns their number. 0: decode
# instead.
cdef int64_t skip_same(IntRle self, int64_t n, int64_t value) except -1 nogil
