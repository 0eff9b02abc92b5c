"""Copies the values of rows that are not null, widened to 64 bits. It is inlined into every column of numbers."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #define COMPACT(NAME, T) \\
    static inline int NAME(const T* v, const uint8_t* validity, int64_t bit, int n, int64_t* out) { \\
        int i, m = 0; \\
        if (!validity) { \\
            for (i = 0; i < n; i++) out[i] = v[i]; \\
            return n; \\
        } \\
        for (i = 0; i < n; i++) { \\
            out[m] = v[i]; \\
            m += validity[(bit + i) >> 3] >> ((bit + i) & 7) & 1; \\
        } \\
        return m; \\
    }
    COMPACT(orcidx_compact8, int8_t)
    COMPACT(orcidx_compact16, int16_t)
    COMPACT(orcidx_compact32, int32_t)
    COMPACT(orcidx_compact64, int64_t)
    """
    # Copies the values of the valid rows among n rows, and returns their number. Bit `bit` of the validity belongs to
    # the first row. If the validity is NULL, all rows are valid.
    int compact8 "orcidx_compact8"(const int8_t* v, const uint8_t* validity, int64_t bit, int n,
                                   int64_t* out) noexcept nogil
    int compact16 "orcidx_compact16"(const int16_t* v, const uint8_t* validity, int64_t bit, int n,
                                     int64_t* out) noexcept nogil
    int compact32 "orcidx_compact32"(const int32_t* v, const uint8_t* validity, int64_t bit, int n,
                                     int64_t* out) noexcept nogil
    int compact64 "orcidx_compact64"(const int64_t* v, const uint8_t* validity, int64_t bit, int n,
                                     int64_t* out) noexcept nogil
