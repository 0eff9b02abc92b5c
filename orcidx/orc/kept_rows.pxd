# Moves the values of kept rows together. A mask has one byte for each row, 0 or 1, as in NumPy.

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #ifndef ORCIDX_KEPT_ROWS
    #define ORCIDX_KEPT_ROWS
    #include <stdint.h>
    #include <string.h>

    #define ORCIDX_ONES 0x0101010101010101ull

    typedef struct { uint64_t low, high; } orcidx_pair;

    static inline uint64_t orcidx_eight(const uint8_t* mask) { uint64_t x; memcpy(&x, mask, 8); return x; }

    /* The position of the lowest byte that is 1. */
    static inline int orcidx_first_kept(uint64_t word) {
    #if defined(__GNUC__)
        return __builtin_ctzll(word) >> 3;
    #else
        return (int)((((word & (0 - word)) - 1) & ORCIDX_ONES) * ORCIDX_ONES >> 56);  /* counts the ones below it */
    #endif
    }
    #endif
    """


# Returns the number of rows that a mask keeps, or -1 if the mask has other bytes than 0 and 1.
cdef int64_t rows_kept(const uint8_t* mask, int64_t rows) noexcept nogil
# Copies the values of the kept rows, and returns their number. A value has `width` bytes (1, 2, 4, 8 or 16). The memory
# at `out` must have room for the kept values and one value more.
cdef int64_t keep_block(const void* values, int width, const uint8_t* mask, int64_t rows, void* out) noexcept nogil
# Moves the values of the kept rows to the front of the same memory. A value has `width` bytes (1, 2, 4, 8 or 16).
cdef void move_kept(void* values, int width, const uint8_t* mask, int64_t rows) noexcept nogil


cdef class Mask:
    # See `kept_rows.pyx`. `at`: the bytes of the mask. `owner` keeps them in memory.
    cdef readonly int64_t rows, count
    cdef const uint8_t* at
    cdef const uint8_t[::1] owner
