from libc.stdint cimport int64_t, uint8_t, uint64_t

# Whether this processor has AVX2 and BMI2, and ORCIDX_SIMD permits them.
cdef bint is_fast() noexcept nogil
# Reads up to `count` unscaled values from `at` on, moves `at` after them, and returns their number. The values must end
# before `end`. 64 bytes after `end` may be loaded. Writes 16 bytes for each value. The zigzag codes of up to 62 bits
# are or-ed into `most`. A code of 63 to 112 bits sets bit 62 of `most`, and a code of more bits sets all bits. `status`
# becomes 4 if a value has more than 128 bits.
cdef int64_t wide_values(const uint8_t** at, const uint8_t* end, int64_t count, uint8_t* out, uint64_t* most,
                         int* status) noexcept nogil
# Like `wide_values`, but writes 8 bytes for each value, and stops at the first code of more than 62 bits.
cdef int64_t narrow_values(const uint8_t** at, const uint8_t* end, int64_t count, int64_t* out,
                           uint64_t* most) noexcept nogil
# Reads up to `count` values of at most 18 digits, and writes the values of the kept rows to `out`, with 16 bytes for
# each. `mask` has a byte, 0 or 1, for each of `rows` rows, of which there are at least `count`. `kept` is the number of
# values in `out`, which must have room for `count` values more and one value after them. Moves `at` and `kept`, and
# returns the number of values. It stops before a value that may have more than `precision` digits, and before the last
# values of the window. The caller reads those in another way. Returns 0 if the processor does not support this.
cdef int64_t kept_values(const uint8_t** at, const uint8_t* end, int64_t count, const uint8_t* mask, int64_t rows,
                         int precision, uint8_t* out, int64_t* kept) noexcept nogil
# Skips up to `count` values, and returns their number.
cdef int64_t drop_values(const uint8_t** at, const uint8_t* end, int64_t count) noexcept nogil
