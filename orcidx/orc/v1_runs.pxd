from libc.stdint cimport int32_t, int64_t, uint8_t

# Decodes whole runs of version 1 from `at` on, while they end before `end` (64 bytes after it may be loaded) and fit
# `n` values. Moves `at` after them and returns the number of decoded values; more values, up to n, may have been
# stored. Stops where room or bytes run short, and at anything unusual; the caller then decodes one run by itself.
cdef int64_t v1_runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil
# The same. It also stops before a run whose values may not fit 32 bits (signed, or unsigned without zigzag).
cdef int64_t v1_runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil
