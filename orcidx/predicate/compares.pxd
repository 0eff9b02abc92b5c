from libc.stdint cimport int32_t, int64_t, uint8_t

# Writes one byte, 0 or 1, for each of `rows` values: whether `low <= value <= high`. No value is in the range if `low`
# exceeds `high`.
cdef void mark_int32(const int32_t* values, int64_t rows, int32_t low, int32_t high, uint8_t* out) noexcept nogil
cdef void mark_int64(const int64_t* values, int64_t rows, int64_t low, int64_t high, uint8_t* out) noexcept nogil
