from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from orcidx.orc.int_runs cimport SPARE_VALUES
from orcidx.orc.window cimport Window

cdef enum:
    RUN_VALUES = 512        # the most values of one run (130 in version 1, 512 in version 2)
    BLOCK = 2064            # values of a block that stays in the cache: four of the longest runs, and spare values


cdef class IntRle:
    cdef readonly Window window
    cdef readonly int version           # 1: DIRECT and DICTIONARY, 2: DIRECT_V2 and DICTIONARY_V2
    cdef readonly bint signed           # zigzag coded
    cdef int next_value  # values[next_value:end_value] are decoded but not consumed yet
    cdef int end_value
    cdef int64_t values[RUN_VALUES + SPARE_VALUES]
    # The largest value, as unsigned, that was copied from `values`. Every value that does not fit into the output's
    # type is copied from `values`.
    cdef uint64_t largest
    cdef bint wrapped  # a narrowed value did not fit into the narrower type

    # Reads n values. A narrower type keeps the low bits, as in ORC Java and C++. Raises CorruptFile if the stream has
    # fewer values.
    cdef int read_int64(self, int64_t* out, int64_t n) except -1 nogil
    cdef int read_int32(self, int32_t* out, int64_t n) except -1 nogil
    cdef int read_int16(self, int16_t* out, int64_t n) except -1 nogil
    # Reads up to n values (n >= 1), and may stop at the end of a run. Returns the number of values. If it is 0, the
    # caller must call again.
    cdef int64_t some_int32(self, int32_t* out, int64_t n) except -1 nogil
    # Reads up to n values (n >= 1) into a block of size BLOCK. Stops earlier if the next run might not fit into the
    # block. Returns the number of values.
    cdef int64_t near_int32(self, int32_t* block, int64_t n) except -1 nogil
    # Skips n values. For runs that are skipped completely, only the headers are read.
    cdef int skip_values(self, int64_t n) except -1 nogil
    # Returns `total` plus the sum of n lengths. Raises CorruptFile for a negative length or a sum beyond int64.
    cdef int64_t add_lengths(self, const int64_t* values, int64_t n, int64_t total) except -1 nogil
    # Skips n lengths and returns their sum. Raises the same errors as `add_lengths`.
    cdef int64_t skip_lengths(self, int64_t n) except -1 nogil

    # Returns the size in bytes of the current run, and writes its number of values to `count`. Refills the window until
    # the header is complete.
    cdef int64_t peek_run(self, int* count) except -1 nogil
    # Decodes the run at the window's position to `out`. The run has `count` values, and `out` must have room for these
    # and SPARE_VALUES more.
    cdef int decode_run(self, int64_t size, int count, int64_t* out) except -1 nogil
    # Decodes the next run to `values`.
    cdef int load_run(self) except -1 nogil


# Skips up to n values that are all equal to this value. Uses only the headers of long runs. Returns the number of
# skipped values. If it is 0, the caller must decode the next values.
cdef int64_t skip_same(IntRle self, int64_t n, int64_t value) except -1 nogil
# Reads n values, of 8, 4 or 2 bytes, to memory that is not read soon.
cdef int read_far(IntRle self, void* out, int width, int64_t n) except -1 nogil
# Begins with another stream, on which the window is already. `version` is 1 or 2.
cdef void restart_numbers(IntRle self, int version, bint signed) noexcept nogil
# Like `near_int32`, for 64 bits.
cdef int64_t near_int64(IntRle self, int64_t* block, int64_t n) except -1 nogil
