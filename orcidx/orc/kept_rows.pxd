# Moves the values of kept rows together. The decoders use these functions while a block of values is in the cache, and
# `scanner/kept_values` uses them, too. A mask has one byte for each row, 0 or 1, as in NumPy. Each value is written,
# and the next value overwrites it if it is not kept. So there is no branch that can be mispredicted. If nearly all rows
# are kept, eight rows are copied at once. If few rows are kept, 32 rows that are not kept are skipped at once.

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

    /* Returns the number of rows that a mask keeps, or -1 if the mask has other bytes than 0 and 1. Each byte of
       `sum` adds up at most 255 ones, so it does not overflow. */
    static inline int64_t orcidx_kept(const uint8_t* mask, int64_t rows) {
        int64_t i = 0, total = 0;
        uint64_t any = 0;
        while (i + 8 <= rows) {
            int64_t words = (rows - i) / 8 < 255 ? (rows - i) / 8 : 255;
            uint64_t sum = 0;
            for (int64_t j = 0; j < words; j++) {
                uint64_t word = orcidx_eight(mask + i + 8 * j);
                any |= word;
                sum += word;
            }
            sum = (sum & 0x00ff00ff00ff00ffull) + ((sum >> 8) & 0x00ff00ff00ff00ffull);
            total += (int64_t)((sum * 0x0001000100010001ull) >> 48);
            i += 8 * words;
        }
        for (; i < rows; i++) { any |= mask[i]; total += mask[i]; }
        return any & ~ORCIDX_ONES ? -1 : total;
    }

    #define ORCIDX_ONE(j) out[k] = values[i + j]; k += (word >> (8 * j)) & 1;

    /* Copies the values of the `count` kept rows to memory that has room for one more value. */
    #define ORCIDX_KEEP(NAME, T) \\
    static inline void NAME(const void* from, const uint8_t* __restrict mask, int64_t rows, int64_t count, \\
                            void* to) { \\
        const T* __restrict values = (const T*)from; \\
        T* __restrict out = (T*)to; \\
        int64_t i = 0, k = 0; \\
        if (count * 16 > rows * 15) { \\
            for (; i + 8 <= rows; i += 8) { \\
                if (orcidx_eight(mask + i) == ORCIDX_ONES) { \\
                    memcpy(out + k, values + i, 8 * sizeof(T)); \\
                    k += 8; \\
                    continue; \\
                } \\
                for (int j = 0; j < 8; j++) { out[k] = values[i + j]; k += mask[i + j]; } \\
            } \\
        } else if (count * 16 < rows) { \\
            for (; i + 32 <= rows; i += 32) { \\
                if (!(orcidx_eight(mask + i) | orcidx_eight(mask + i + 8) | orcidx_eight(mask + i + 16) | \\
                      orcidx_eight(mask + i + 24))) continue; \\
                for (int64_t j = i; j < i + 32; j += 8) \\
                    for (uint64_t word = orcidx_eight(mask + j); word; word &= word - 1) \\
                        out[k++] = values[j + orcidx_first_kept(word)]; \\
            } \\
        } \\
        for (; i + 8 <= rows; i += 8) { \\
            uint64_t word = orcidx_eight(mask + i); \\
            ORCIDX_ONE(0) ORCIDX_ONE(1) ORCIDX_ONE(2) ORCIDX_ONE(3) \\
            ORCIDX_ONE(4) ORCIDX_ONE(5) ORCIDX_ONE(6) ORCIDX_ONE(7) \\
        } \\
        for (; i < rows; i++) { out[k] = values[i]; k += mask[i]; } \\
    }
    ORCIDX_KEEP(orcidx_keep1, uint8_t)
    ORCIDX_KEEP(orcidx_keep2, uint16_t)
    ORCIDX_KEEP(orcidx_keep4, uint32_t)
    ORCIDX_KEEP(orcidx_keep8, uint64_t)
    ORCIDX_KEEP(orcidx_keep16, orcidx_pair)
    #endif
    """
    # Returns the number of rows that a mask keeps, or -1 if the mask has other bytes than 0 and 1.
    int64_t rows_kept "orcidx_kept"(const uint8_t* mask, int64_t rows) noexcept nogil
    # Copies the values of the `count` kept rows to memory that has room for one more value.
    void keep1 "orcidx_keep1"(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                              void* out) noexcept nogil
    void keep2 "orcidx_keep2"(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                              void* out) noexcept nogil
    void keep4 "orcidx_keep4"(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                              void* out) noexcept nogil
    void keep8 "orcidx_keep8"(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                              void* out) noexcept nogil
    void keep16 "orcidx_keep16"(const void* values, const uint8_t* mask, int64_t rows, int64_t count,
                                void* out) noexcept nogil


# Copies the values of the kept rows, and returns their number. A value has `width` bytes (1, 2, 4, 8 or 16). The memory
# at `out` must have room for the kept values and one value more.
cdef inline int64_t keep_block(const void* values, int width, const uint8_t* mask, int64_t rows,
                               void* out) noexcept nogil:
    cdef int64_t count = rows_kept(mask, rows)
    if count == 0:
        return 0
    if width == 1:
        keep1(values, mask, rows, count, out)
    elif width == 2:
        keep2(values, mask, rows, count, out)
    elif width == 4:
        keep4(values, mask, rows, count, out)
    elif width == 8:
        keep8(values, mask, rows, count, out)
    else:
        keep16(values, mask, rows, count, out)
    return count


# Raises an error unless the mask keeps `count` rows and has only the bytes 0 and 1.
cdef inline int check_mask(const uint8_t[::1] mask, int64_t count) except -1:
    cdef int64_t rows = mask.shape[0], kept = 0
    if rows:
        with nogil:
            kept = rows_kept(&mask[0], rows)
    if kept < 0:
        raise ValueError("a mask must have only zeros and ones")
    if kept != count:
        raise ValueError(f"the mask does not keep {count} rows")
    return 0
