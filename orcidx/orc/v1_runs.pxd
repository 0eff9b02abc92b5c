from libc.stdint cimport int32_t, int64_t, uint8_t

# Decodes whole runs of version 1 from `at` on, as long as they end before `end` and fit into `n` values. 64 bytes after
# `end` may be loaded. Moves `at` after these runs and returns the number of decoded values. Up to `n` values
# may have been stored, even if fewer were decoded. The function stops if space or bytes run out, and at anything
# unusual. The caller then decodes one run by itself.
cdef int64_t v1_runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil
# Like `v1_runs_int64`. Also stops before a run whose values may not fit in 32 bits (signed, or unsigned without
# zigzag).
cdef int64_t v1_runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil
