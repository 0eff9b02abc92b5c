from libc.stdint cimport int64_t, uint8_t, uint64_t

# Whether this processor has AVX2 and BMI2, and ORCIDX_SIMD does not forbid them.
cdef bint is_fast() noexcept nogil
# Up to count unscaled values from `at` on, which moves: those that end before `end`, behind which 64 bytes may be
# loaded. How many. `most` is or-ed with their zigzag codes, or with more bits: bit 62 where one has 63 to 112 bits, all
# ones where one has more. 16 bytes each; `status` 4: one has more than 128 bits.
cdef int64_t wide_values(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out, uint64_t* most,
                         int* status) noexcept nogil
# 8 bytes each: those before the first whose code has more than 62 bits.
cdef int64_t narrow_values(const uint8_t** at, const uint8_t* end, int64_t count, int64_t* out,
                           uint64_t* most) noexcept nogil
# Passes over up to count values; how many.
cdef int64_t drop_values(const uint8_t** at, const uint8_t* end, int64_t count) noexcept nogil
