"""Bit unpacking, and decoding of several whole runs of version 2 in a row.

Values of one width are packed most significant bit first. In portable C each value needs one unaligned load of 8 bytes,
a shift and a mask. One load is enough, because the bit offset in the byte plus the width never exceeds 64. With AVX2
one byte shuffle moves eight values to their lanes, or four values of a width that needs 64 bits. The loops are compiled
once for each width. When the module is loaded, it chooses between portable C and AVX2.

``runs_int32`` and ``runs_int64`` decode one run after the other in the simple case. In this case the run and the bytes
that may be loaded after it are in memory, whole vectors fit into the output, and the values fit into 32 bits. The
functions stop before the first run for which one of these conditions is false, and ``int_rle`` decodes that run.
Writers cut random data into runs of about five values, because a run ends when three equal values occur by chance. For
such data a branch for each kind of run takes longer than decoding the values. So the same instructions decode short
repeats, short literals and repeats of a small value. These instructions shift one word of 64 bits by the position of
each value in it. The values of a repetition are all at the same position. Decoding takes 9 ns a run in this way, and 35
ns with a branch for each kind.
"""

import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    /* The width is a constant at every call. The bit offset in the byte plus the width is at most 64, so one load
       contains every value. */
    #define ORCIDX_BYTE(k) ((k) * width >> 3)
    #define ORCIDX_BIT(k) ((k) * width & 7)
    #define ORCIDX_MASK (~(uint64_t)0 >> ((64 - width) & 63))

    ORCIDX_INLINE void orcidx_unpack(const uint8_t* p, uint64_t* out, int n, int width, int zigzag) {
        int i = 0, k;
        for (; i < n; i += 8, p += width)
            for (k = 0; k < 8 && i + k < n; k++) {
                uint64_t v = orcidx_load(p + ORCIDX_BYTE(k)) >> ((64 - width - ORCIDX_BIT(k)) & 63) & ORCIDX_MASK;
                out[i + k] = zigzag ? v >> 1 ^ -(v & 1) : v;
            }
    }

    #define ORCIDX_WIDTH(F, w) case w: F(p, out, n, w, zigzag); break;
    #define ORCIDX_WIDTHS_32(F) \\
        ORCIDX_WIDTH(F, 1) ORCIDX_WIDTH(F, 2) ORCIDX_WIDTH(F, 3) ORCIDX_WIDTH(F, 4) ORCIDX_WIDTH(F, 5) \\
        ORCIDX_WIDTH(F, 6) ORCIDX_WIDTH(F, 7) ORCIDX_WIDTH(F, 8) ORCIDX_WIDTH(F, 9) ORCIDX_WIDTH(F, 10) \\
        ORCIDX_WIDTH(F, 11) ORCIDX_WIDTH(F, 12) ORCIDX_WIDTH(F, 13) ORCIDX_WIDTH(F, 14) ORCIDX_WIDTH(F, 15) \\
        ORCIDX_WIDTH(F, 16) ORCIDX_WIDTH(F, 17) ORCIDX_WIDTH(F, 18) ORCIDX_WIDTH(F, 19) ORCIDX_WIDTH(F, 20) \\
        ORCIDX_WIDTH(F, 21) ORCIDX_WIDTH(F, 22) ORCIDX_WIDTH(F, 23) ORCIDX_WIDTH(F, 24) ORCIDX_WIDTH(F, 26) \\
        ORCIDX_WIDTH(F, 28) ORCIDX_WIDTH(F, 30) ORCIDX_WIDTH(F, 32)
    #define ORCIDX_WIDTHS(F) ORCIDX_WIDTHS_32(F) \\
        ORCIDX_WIDTH(F, 40) ORCIDX_WIDTH(F, 48) ORCIDX_WIDTH(F, 56) ORCIDX_WIDTH(F, 64)

    #define ORCIDX_BY_WIDTH(NAME, T, WIDTHS, F, ZIGZAG) \\
        static void NAME(const uint8_t* p, T* out, int n, int width) { \\
            enum { zigzag = ZIGZAG }; \\
            switch (width) { WIDTHS(F) } \\
        }
    ORCIDX_BY_WIDTH(orcidx_unpack_plain, uint64_t, ORCIDX_WIDTHS, orcidx_unpack, 0)
    ORCIDX_BY_WIDTH(orcidx_unpack_zigzag, uint64_t, ORCIDX_WIDTHS, orcidx_unpack, 1)

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_AVX2 __attribute__((target("avx2")))
    #define ORCIDX_BYTES4(b) (b) + 3, (b) + 2, (b) + 1, (b)
    #define ORCIDX_BYTES8(b) (b) + 7, (b) + 6, (b) + 5, (b) + 4, (b) + 3, (b) + 2, (b) + 1, (b)
    /* The bit offset in the byte plus the width is at most 32. */
    #define ORCIDX_NARROW(width) ((width) <= 28 || (width) == 32)

    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_two_loads(const uint8_t* p, int first, int second) {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i*)(p + first))),
            _mm_loadu_si128((const __m128i*)(p + second)), 1);
    }
    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_unzigzag32(__m256i v) {
        return _mm256_xor_si256(_mm256_srli_epi32(v, 1), _mm256_sub_epi32(
            _mm256_setzero_si256(), _mm256_and_si256(v, _mm256_set1_epi32(1))));
    }
    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_unzigzag64(__m256i v) {
        return _mm256_xor_si256(_mm256_srli_epi64(v, 1), _mm256_sub_epi64(
            _mm256_setzero_si256(), _mm256_and_si256(v, _mm256_set1_epi64x(1))));
    }

    /* Unpacks eight values of a narrow width into eight lanes of 32 bits. */
    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_eight(const uint8_t* p, int width, int zigzag) {
        const int half = ORCIDX_BYTE(4), top = 32 - width;
        __m256i v = _mm256_shuffle_epi8(orcidx_two_loads(p, 0, half), _mm256_setr_epi8(
            ORCIDX_BYTES4(ORCIDX_BYTE(0)), ORCIDX_BYTES4(ORCIDX_BYTE(1)),
            ORCIDX_BYTES4(ORCIDX_BYTE(2)), ORCIDX_BYTES4(ORCIDX_BYTE(3)),
            ORCIDX_BYTES4(ORCIDX_BYTE(4) - half), ORCIDX_BYTES4(ORCIDX_BYTE(5) - half),
            ORCIDX_BYTES4(ORCIDX_BYTE(6) - half), ORCIDX_BYTES4(ORCIDX_BYTE(7) - half)));
        if (width < 32) {
            v = _mm256_srlv_epi32(v, _mm256_setr_epi32(
                top - ORCIDX_BIT(0), top - ORCIDX_BIT(1), top - ORCIDX_BIT(2), top - ORCIDX_BIT(3),
                top - ORCIDX_BIT(4), top - ORCIDX_BIT(5), top - ORCIDX_BIT(6), top - ORCIDX_BIT(7)));
            v = _mm256_and_si256(v, _mm256_set1_epi32((int)ORCIDX_MASK));
        }
        return zigzag ? orcidx_unzigzag32(v) : v;
    }
    /* Loads four values of any width, with 64 bits for each. The first one is value k of a group of eight. */
    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_four(const uint8_t* p, int k, int width, int zigzag) {
        const int low = ORCIDX_BYTE(k + 1) - ORCIDX_BYTE(k), high = ORCIDX_BYTE(k + 3) - ORCIDX_BYTE(k + 2);
        const int top = 64 - width;
        __m256i v = _mm256_shuffle_epi8(orcidx_two_loads(p, ORCIDX_BYTE(k), ORCIDX_BYTE(k + 2)), _mm256_setr_epi8(
            ORCIDX_BYTES8(0), ORCIDX_BYTES8(low), ORCIDX_BYTES8(0), ORCIDX_BYTES8(high)));
        v = _mm256_srlv_epi64(v, _mm256_setr_epi64x(
            top - ORCIDX_BIT(k), top - ORCIDX_BIT(k + 1), top - ORCIDX_BIT(k + 2), top - ORCIDX_BIT(k + 3)));
        v = _mm256_and_si256(v, _mm256_set1_epi64x((long long)ORCIDX_MASK));
        return zigzag ? orcidx_unzigzag64(v) : v;
    }
    ORCIDX_AVX2 ORCIDX_INLINE __m256i orcidx_low_halves(__m256i a, __m256i b) {
        return _mm256_permute4x64_epi64(_mm256_castps_si256(
            _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88)), 0xd8);
    }

    ORCIDX_AVX2 ORCIDX_INLINE void orcidx_unpack64(const uint8_t* p, uint64_t* out, int n, int width, int zigzag) {
        for (; n > 0; n -= 8, p += width, out += 8) {
            __m256i a, b;
            if (ORCIDX_NARROW(width)) {
                __m256i v = orcidx_eight(p, width, zigzag);
                __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
                a = zigzag ? _mm256_cvtepi32_epi64(low) : _mm256_cvtepu32_epi64(low);
                b = zigzag ? _mm256_cvtepi32_epi64(high) : _mm256_cvtepu32_epi64(high);
            } else {
                a = orcidx_four(p, 0, width, zigzag);
                b = orcidx_four(p, 4, width, zigzag);
            }
            _mm256_storeu_si256((__m256i*)out, a);
            _mm256_storeu_si256((__m256i*)(out + 4), b);
        }
    }
    ORCIDX_AVX2 ORCIDX_INLINE void orcidx_unpack32(const uint8_t* p, uint32_t* out, int n, int width, int zigzag) {
        for (; n > 0; n -= 8, p += width, out += 8)
            _mm256_storeu_si256((__m256i*)out, ORCIDX_NARROW(width) ? orcidx_eight(p, width, zigzag) :
                orcidx_low_halves(orcidx_four(p, 0, width, zigzag), orcidx_four(p, 4, width, zigzag)));
    }
    ORCIDX_AVX2 ORCIDX_BY_WIDTH(orcidx_plain64, uint64_t, ORCIDX_WIDTHS, orcidx_unpack64, 0)
    ORCIDX_AVX2 ORCIDX_BY_WIDTH(orcidx_zigzag64, uint64_t, ORCIDX_WIDTHS, orcidx_unpack64, 1)
    ORCIDX_AVX2 ORCIDX_BY_WIDTH(orcidx_plain32, uint32_t, ORCIDX_WIDTHS_32, orcidx_unpack32, 0)
    ORCIDX_AVX2 ORCIDX_BY_WIDTH(orcidx_zigzag32, uint32_t, ORCIDX_WIDTHS_32, orcidx_unpack32, 1)

    /* Takes sixteen values from one word. Value k is k * stride bits below the top. */
    ORCIDX_AVX2 ORCIDX_INLINE void orcidx_sixteen(uint64_t bits, int width, int stride, int zigzag, __m256i* v) {
        __m256i word = _mm256_set1_epi64x((long long)bits);
        __m256i mask = _mm256_set1_epi64x((long long)ORCIDX_MASK);
        __m256i step = _mm256_set1_epi64x(4 * stride);
        __m256i shift = _mm256_sub_epi64(_mm256_set1_epi64x(64 - width), _mm256_mul_epu32(
            _mm256_set1_epi64x(stride), _mm256_setr_epi64x(0, 1, 2, 3)));
        int i;
        for (i = 0; i < 4; i++, shift = _mm256_sub_epi64(shift, step)) {
            v[i] = _mm256_and_si256(_mm256_srlv_epi64(word, shift), mask);
            if (zigzag) v[i] = orcidx_unzigzag64(v[i]);
        }
    }

    /* Reads a varint of up to 8 bytes. Returns its size, or 0 if it is longer. */
    ORCIDX_INLINE int orcidx_short_varint(const uint8_t* p, uint64_t* value) {
        uint64_t word = orcidx_load_little(p), stops = ~word & 0x8080808080808080ull;
        int i, size;
        if (!stops) return 0;
        size = (orcidx_low_bit(stops) >> 3) + 1;
        *value = 0;
        for (i = 0; i < size; i++) *value |= (uint64_t)(p[i] & 127) << (7 * i);
        return size;
    }

    static const uint8_t orcidx_widths[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
        17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56, 64};

    /* Decodes the DELTA run at p. Returns its size in bytes, or 0 if this function cannot decode it. */
    #define ORCIDX_DELTA(NAME, T, WIDE, PLAIN) \\
    ORCIDX_AVX2 static int64_t NAME(const uint8_t* p, const uint8_t* end, T* out, int64_t room, int zigzag) { \\
        int code = p[0] >> 1 & 31, count = ((p[0] & 1) << 8 | p[1]) + 1, width = orcidx_widths[code], i, n, m; \\
        uint64_t first = 0, step = 0; \\
        int64_t size; \\
        T value, by; \\
        n = orcidx_short_varint(p + 2, &first); \\
        m = n ? orcidx_short_varint(p + 2 + n, &step) : 0; \\
        if (!m || (code && count < 2)) return 0; \\
        size = 2 + n + m + (code ? ((int64_t)(count - 2) * width + 7) >> 3 : 0); \\
        if (size > end - p || count + 8 > room) return 0; \\
        if (zigzag) first = first >> 1 ^ -(first & 1); \\
        step = step >> 1 ^ -(step & 1); \\
        if (!(WIDE) && (first + (1u << 29) >= 1u << 30 || step + (1u << 20) >= 1u << 21 || (code && width > 20))) \\
            return 0; \\
        value = (T)first; \\
        by = (T)step; \\
        if (!code) { \\
            for (i = 0; i < count; i++) out[i] = value + (T)i * by; \\
            return size; \\
        } \\
        PLAIN(p + 2 + n + m, out + 2, count - 2, width); \\
        out[0] = value; \\
        out[1] = value += by; \\
        if ((int64_t)step < 0) \\
            for (i = 2; i < count; i++) out[i] = value -= out[i]; \\
        else \\
            for (i = 2; i < count; i++) out[i] = value += out[i]; \\
        return size; \\
    }
    ORCIDX_DELTA(orcidx_delta64, uint64_t, 1, orcidx_plain64)
    ORCIDX_DELTA(orcidx_delta32, uint32_t, 0, orcidx_plain32)

    #define ORCIDX_STORE64(out, v) \\
        for (i = 0; i < 4; i++) _mm256_storeu_si256((__m256i*)((out) + 4 * i), v[i]);
    #define ORCIDX_STORE32(out, v) \\
        for (i = 0; i < 2; i++) \\
            _mm256_storeu_si256((__m256i*)((out) + 8 * i), orcidx_low_halves(v[2 * i], v[2 * i + 1]));

    /* Decodes runs from `*at` on, as long as they end before `end`, and as long as the values and the extra values that
       are stored after them fit into n values. */
    #define ORCIDX_RUNS(NAME, T, ZIGZAG, WIDEST, UNPACK, DELTA, STORE) \\
    ORCIDX_AVX2 static int64_t NAME(const uint8_t** at, const uint8_t* end, T* out, int64_t n) { \\
        const uint8_t* p = *at; \\
        T* stop = out + n; \\
        while (end - p >= 2 && stop - out >= 16) { \\
            int kind = p[0] >> 6, code = p[0] >> 1 & 31, bytes = (p[0] >> 3) + 1, i; \\
            int count = ((p[0] & 1) << 8 | p[1]) + 1, width, stride, head; \\
            int64_t size; \\
            if (kind <= 1) {                /* a short repeat or a direct run, without a branch */ \\
                int direct = orcidx_widths[code]; \\
                width = kind ? direct : 8 * bytes; \\
                stride = kind ? direct : 0; \\
                count = kind ? count : (p[0] & 7) + 3; \\
                head = 1 + kind; \\
                size = head + (kind ? (count * direct + 7) >> 3 : bytes); \\
            } else if (kind == 3 && code == 0 && p[2] < 128 && p[3] == 0) {  /* a repeated small value */ \\
                width = 8; \\
                stride = 0; \\
                head = 2; \\
                size = 4; \\
            } else { \\
                size = kind == 3 ? DELTA(p, end, out, stop - out, ZIGZAG) : 0; \\
                if (!size) break; \\
                p += size; \\
                out += count; \\
                continue; \\
            } \\
            if (size > end - p || count + 7 > stop - out || width > WIDEST) break; \\
            if (count * stride <= 64 && (count <= 16 || !stride)) { \\
                __m256i v[4]; \\
                orcidx_sixteen(orcidx_load(p + head), width, stride, ZIGZAG, v); \\
                STORE(out, v) \\
                if (count > 16) { \\
                    T value = out[0]; \\
                    for (i = 16; i < count; i++) out[i] = value; \\
                } \\
            } else { \\
                UNPACK(p + 2, out, count, width); \\
            } \\
            p += size; \\
            out += count; \\
        } \\
        *at = p; \\
        return n - (stop - out); \\
    }
    ORCIDX_RUNS(orcidx_runs64, uint64_t, 0, 64, orcidx_plain64, orcidx_delta64, ORCIDX_STORE64)
    ORCIDX_RUNS(orcidx_runs64z, uint64_t, 1, 64, orcidx_zigzag64, orcidx_delta64, ORCIDX_STORE64)
    ORCIDX_RUNS(orcidx_runs32, uint32_t, 0, 32, orcidx_plain32, orcidx_delta32, ORCIDX_STORE32)
    ORCIDX_RUNS(orcidx_runs32z, uint32_t, 1, 32, orcidx_zigzag32, orcidx_delta32, ORCIDX_STORE32)
    static int orcidx_has_avx2(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2"); }
    #else
    #define orcidx_plain64 orcidx_unpack_plain
    #define orcidx_zigzag64 orcidx_unpack_zigzag
    #define orcidx_runs64(at, end, out, n) 0
    #define orcidx_runs64z(at, end, out, n) 0
    #define orcidx_runs32(at, end, out, n) 0
    #define orcidx_runs32z(at, end, out, n) 0
    static int orcidx_has_avx2(void) { return 0; }
    #endif
    """
    void portable_plain "orcidx_unpack_plain"(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
    void portable_zigzag "orcidx_unpack_zigzag"(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
    void avx2_plain "orcidx_plain64"(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
    void avx2_zigzag "orcidx_zigzag64"(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil
    int64_t avx2_runs64 "orcidx_runs64"(const uint8_t** at, const uint8_t* end, uint64_t* out, int64_t n) noexcept nogil
    int64_t avx2_runs64z "orcidx_runs64z"(const uint8_t** at, const uint8_t* end, uint64_t* out,
                                          int64_t n) noexcept nogil
    int64_t avx2_runs32 "orcidx_runs32"(const uint8_t** at, const uint8_t* end, uint32_t* out, int64_t n) noexcept nogil
    int64_t avx2_runs32z "orcidx_runs32z"(const uint8_t** at, const uint8_t* end, uint32_t* out,
                                          int64_t n) noexcept nogil
    int has_avx2 "orcidx_has_avx2"() noexcept nogil

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
use_avx2 = has_avx2() and os.environ.get("ORCIDX_SIMD") != "none"


cdef void unpack_plain(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil:
    if use_avx2:
        avx2_plain(p, out, n, width)
    else:
        portable_plain(p, out, n, width)


cdef void unpack_zigzag(const uint8_t* p, uint64_t* out, int n, int width) noexcept nogil:
    if use_avx2:
        avx2_zigzag(p, out, n, width)
    else:
        portable_zigzag(p, out, n, width)


cdef int64_t runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil:
    if not use_avx2:
        return 0
    if zigzag:
        return avx2_runs64z(at, end, <uint64_t*> out, n)
    return avx2_runs64(at, end, <uint64_t*> out, n)


cdef int64_t runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil:
    if not use_avx2:
        return 0
    if zigzag:
        return avx2_runs32z(at, end, <uint32_t*> out, n)
    return avx2_runs32(at, end, <uint32_t*> out, n)
