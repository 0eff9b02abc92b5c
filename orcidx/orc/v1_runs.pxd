from libc.stdint cimport int32_t, int64_t, uint8_t

# Whole runs of version 1 from `at` on (moved behind them), while they end before `end`, behind which 64 bytes may be
# loaded, and fit `n` values: the number of values decoded. Values behind those may have been stored, up to n. Stops,
# for the caller to decode one run by itself, where room or bytes get short, and at anything unusual.
cdef int64_t v1_runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil
# The same. Stops also before a run of values that 32 bits, signed or (without zigzag) unsigned, may not hold.
cdef int64_t v1_runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil
