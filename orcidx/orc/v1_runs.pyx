"""Whole runs of version 1 in a row (the format: ``int_runs``).

Varints are found 64 bytes at a time, one bit for each byte that ends one. With AVX2 eight such bits choose how a byte
shuffle brings four values of up to two bytes, or two of up to four, to their lanes: 1.0 ns a value of one or two bytes
where decoding varint by varint, which has to wait for the length of the one before, took 6.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from orcidx.orc.bit_unpack cimport use_avx2

cdef extern from *:
    """
    #if defined(__SSE2__) || defined(_M_X64)
    #include <emmintrin.h>
    #define ORCIDX_ENDS16(p) (uint64_t)(uint16_t)~_mm_movemask_epi8(_mm_loadu_si128((const __m128i*)(p)))
    /* A bit for each of 64 bytes: whether it is the last of a varint. */
    ORCIDX_INLINE uint64_t orcidx_varint_ends(const uint8_t* p) {
        return ORCIDX_ENDS16(p) | ORCIDX_ENDS16(p + 16) << 16 | ORCIDX_ENDS16(p + 32) << 32
            | ORCIDX_ENDS16(p + 48) << 48;
    }
    #else
    ORCIDX_INLINE uint64_t orcidx_varint_ends(const uint8_t* p) {
        uint64_t ends = 0;
        int i;
        for (i = 0; i < 64; i += 8)
            ends |= ((~orcidx_load_little(p + i) >> 7 & 0x0101010101010101ull) * 0x0102040810204080ull >> 56) << i;
        return ends;
    }
    #endif

    /* The varint of size bytes (at most 10) at p. */
    ORCIDX_INLINE uint64_t orcidx_varint(const uint8_t* p, int size) {
        uint64_t word = orcidx_load_little(p), v;
        if (size <= 4) {
            v = word & 0xffffffffull >> (32 - 8 * size);
            v = (v & 0x7f007f) | (v & 0x7f007f00) >> 1;
            return (v & 0x3fff) | (v & 0x3fff0000) >> 2;
        }
        v = (size < 8 ? word & ~(uint64_t)0 >> (64 - 8 * size) : word) & 0x7f7f7f7f7f7f7f7full;
        v = (v & 0x007f007f007f007full) | (v & 0x7f007f007f007f00ull) >> 1;
        v = (v & 0x00003fff00003fffull) | (v & 0x3fff00003fff0000ull) >> 2;
        v = (v & 0x000000000fffffffull) | (v & 0x0fffffff00000000ull) >> 4;
        if (size > 8) v |= (uint64_t)(p[8] & 127) << 56;
        return size > 9 ? v | (uint64_t)p[9] << 63 : v;
    }

    #define ORCIDX_SIGNED(v) (zigzag ? (v) >> 1 ^ (0 - ((v) & 1)) : (v))
    #define ORCIDX_ONE_BY_ONE(p, ends, count, out, zigzag, size) 0

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_V1_AVX2 __attribute__((target("avx2")))
    /* By which of eight bytes end a varint: where the bytes of the first values lie, four in 16 bits or two in 32 each,
       and how many bytes the first one to four take; 0 where one of them needs more bits. */
    typedef struct { uint8_t lanes[8], taken[4]; } orcidx_places;
    static orcidx_places orcidx_fours[256], orcidx_twos[256];
    static void orcidx_fill(orcidx_places* places, int width) {
        int ends, lane, at, i;
        for (ends = 0; ends < 256; ends++, places++) {
            memset(places->lanes, 128, 8);
            for (lane = at = 0; lane < 8 / width; lane++) {
                int before = 0;             /* the last byte */
                while (before < width && at + before < 8 && !(ends >> (at + before) & 1)) before++;
                if (before == width || at + before == 8) break;
                for (i = 0; i <= before; i++) places->lanes[width * lane + i] = (uint8_t)at++;
                places->taken[lane] = (uint8_t)at;
            }
        }
    }
    static void orcidx_fill_lanes(void) {
        orcidx_fill(orcidx_fours, 2);
        orcidx_fill(orcidx_twos, 4);
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE __m128i orcidx_lanes_of(const uint8_t* p, const orcidx_places* places) {
        return _mm_and_si128(_mm_set1_epi8(127), _mm_shuffle_epi8(
            _mm_loadl_epi64((const __m128i*)p), _mm_loadl_epi64((const __m128i*)places->lanes)));
    }
    /* The next values, count of them at most four: how many there are, and *size, their bytes; or 0. */
    #define ORCIDX_V1_SOME(NAME, T, STORE) \\
    ORCIDX_V1_AVX2 ORCIDX_INLINE int NAME( \\
            const uint8_t* p, uint64_t ends, int count, T* out, int zigzag, int* size) { \\
        const orcidx_places* places = orcidx_fours + (ends & 255); \\
        __m128i v; \\
        if ((*size = places->taken[count - 1]) != 0) { \\
            v = orcidx_lanes_of(p, places); \\
            v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(127)), \\
                _mm_srli_epi16(_mm_and_si128(v, _mm_set1_epi16(127 << 8)), 1)); \\
            if (zigzag) v = _mm_xor_si128(_mm_srli_epi16(v, 1), _mm_sub_epi16( \\
                _mm_setzero_si128(), _mm_and_si128(v, _mm_set1_epi16(1)))); \\
            STORE(out, _mm_cvtepi16_epi32(v)) \\
            return count; \\
        } \\
        places = orcidx_twos + (ends & 255); \\
        if (count > 2) count = 2; \\
        if ((*size = places->taken[count - 1]) == 0) return 0; \\
        v = orcidx_lanes_of(p, places); \\
        v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi32(0x7f007f)), \\
            _mm_srli_epi32(_mm_and_si128(v, _mm_set1_epi32(0x7f007f00)), 1)); \\
        v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi32(0x3fff)), \\
            _mm_srli_epi32(_mm_and_si128(v, _mm_set1_epi32(0x3fff0000)), 2)); \\
        if (zigzag) v = _mm_xor_si128(_mm_srli_epi32(v, 1), _mm_sub_epi32( \\
            _mm_setzero_si128(), _mm_and_si128(v, _mm_set1_epi32(1)))); \\
        STORE(out, v) \\
        return count; \\
    }
    #define ORCIDX_V1_STORE64(out, v) _mm256_storeu_si256((__m256i*)(out), _mm256_cvtepi32_epi64(v));
    #define ORCIDX_V1_STORE32(out, v) _mm_storeu_si128((__m128i*)(out), v);
    ORCIDX_V1_SOME(orcidx_some64, uint64_t, ORCIDX_V1_STORE64)
    ORCIDX_V1_SOME(orcidx_some32, uint32_t, ORCIDX_V1_STORE32)
    #else
    #define ORCIDX_V1_AVX2
    #define orcidx_some64 ORCIDX_ONE_BY_ONE
    #define orcidx_some32 ORCIDX_ONE_BY_ONE
    static void orcidx_fill_lanes(void) {}
    #endif

    /* The literals of a run, left in number: how many bytes they take, or 0 where they do not lie whole before end. */
    #define ORCIDX_V1_LITERALS(NAME, T, WIDE, SOME) \\
    ORCIDX_INLINE int64_t NAME(const uint8_t* start, const uint8_t* end, T* out, int left, int zigzag) { \\
        const uint8_t* p = start; \\
        uint64_t seen = 0; \\
        while (left) { \\
            uint64_t ends, v; \\
            int at = 0, size, i; \\
            if (p >= end) return 0; \\
            ends = orcidx_varint_ends(p); \\
            if (end - p < 64) ends &= ((uint64_t)1 << (end - p)) - 1; \\
            if (!ends) return 0; \\
            if ((ends & 0xffff) == 0xffff && left >= 16) {      /* a byte each */ \\
                for (i = 0; i < 16; i++) { \\
                    v = p[i]; \\
                    out[i] = (T)ORCIDX_SIGNED(v); \\
                } \\
                p += 16; \\
                out += 16; \\
                left -= 16; \\
                continue; \\
            } \\
            do { \\
                i = at <= 56 ? SOME(p + at, ends, left < 4 ? left : 4, out, zigzag, &size) : 0; \\
                if (!i) { \\
                    i = 1; \\
                    size = orcidx_low_bit(ends) + 1; \\
                    if (size > 10) return 0; \\
                    v = orcidx_varint(p + at, size); \\
                    seen |= v; \\
                    *out = (T)ORCIDX_SIGNED(v); \\
                } \\
                out += i; \\
                left -= i; \\
                at += size; \\
                ends = size < 64 ? ends >> size : 0; \\
            } while (ends && left); \\
            p += at; \\
        } \\
        return !(WIDE) && seen >> 32 ? 0 : p - start; \\
    }

    #define ORCIDX_V1_RUNS(NAME, T, WIDE, LITERALS, ZIGZAG) \\
    static int64_t NAME(const uint8_t** at, const uint8_t* end, T* out, int64_t n) { \\
        enum { zigzag = ZIGZAG }; \\
        const uint8_t* p = *at; \\
        T* stop = out + n; \\
        while (end - p >= 2 && stop - out >= 144) {     /* the longest run, and 16 values stored at once */ \\
            uint64_t word, ends, v; \\
            int64_t size; \\
            int count, i; \\
            T step; \\
            if (p[0] >= 128) { \\
                count = 256 - p[0]; \\
                size = LITERALS(p + 1, end, out, count, zigzag); \\
                if (!size) break; \\
                p += 1 + size; \\
                out += count; \\
                continue; \\
            } \\
            word = orcidx_load_little(p + 2); \\
            ends = ~word & 0x8080808080808080ull; \\
            if (!ends) break; \\
            size = (orcidx_low_bit(ends) >> 3) + 1; \\
            if (size > end - p - 2) break; \\
            v = orcidx_varint(p + 2, (int)size); \\
            v = ORCIDX_SIGNED(v); \\
            if (!(WIDE) && v + (1u << 29) >= 1u << 30) break; \\
            count = p[0] + 3; \\
            step = (T)(int64_t)(int8_t)p[1]; \\
            for (i = 0; i < 16; i++) out[i] = (T)v + (T)i * step; \\
            for (; i < count; i++) out[i] = (T)v + (T)i * step; \\
            p += 2 + size; \\
            out += count; \\
        } \\
        *at = p; \\
        return n - (stop - out); \\
    }
    #define ORCIDX_V1(ISA, T, SUFFIX, WIDE, SOME) \\
        ISA ORCIDX_V1_LITERALS(orcidx_v1_literals##SUFFIX, T, WIDE, SOME) \\
        ISA ORCIDX_V1_RUNS(orcidx_v1_runs##SUFFIX, T, WIDE, orcidx_v1_literals##SUFFIX, 0) \\
        ISA ORCIDX_V1_RUNS(orcidx_v1_runs##SUFFIX##_zigzag, T, WIDE, orcidx_v1_literals##SUFFIX, 1)
    ORCIDX_V1(, uint64_t, 64, 1, ORCIDX_ONE_BY_ONE)
    ORCIDX_V1(, uint32_t, 32, 0, ORCIDX_ONE_BY_ONE)
    ORCIDX_V1(ORCIDX_V1_AVX2, uint64_t, 64_avx2, 1, orcidx_some64)
    ORCIDX_V1(ORCIDX_V1_AVX2, uint32_t, 32_avx2, 0, orcidx_some32)

    typedef int64_t (*orcidx_v1_decoder64)(const uint8_t**, const uint8_t*, uint64_t*, int64_t);
    typedef int64_t (*orcidx_v1_decoder32)(const uint8_t**, const uint8_t*, uint32_t*, int64_t);
    static orcidx_v1_decoder64 orcidx_v1_decode64[2] = {orcidx_v1_runs64, orcidx_v1_runs64_zigzag};
    static orcidx_v1_decoder32 orcidx_v1_decode32[2] = {orcidx_v1_runs32, orcidx_v1_runs32_zigzag};
    static void orcidx_v1_use_avx2(void) {
        orcidx_fill_lanes();
        orcidx_v1_decode64[0] = orcidx_v1_runs64_avx2;
        orcidx_v1_decode64[1] = orcidx_v1_runs64_avx2_zigzag;
        orcidx_v1_decode32[0] = orcidx_v1_runs32_avx2;
        orcidx_v1_decode32[1] = orcidx_v1_runs32_avx2_zigzag;
    }
    """
    ctypedef int64_t (*decoder64 "orcidx_v1_decoder64")(const uint8_t** at, const uint8_t* end, uint64_t* out,
                                                        int64_t n) noexcept nogil
    ctypedef int64_t (*decoder32 "orcidx_v1_decoder32")(const uint8_t** at, const uint8_t* end, uint32_t* out,
                                                        int64_t n) noexcept nogil
    decoder64[2] decode64 "orcidx_v1_decode64"
    decoder32[2] decode32 "orcidx_v1_decode32"
    void v1_use_avx2 "orcidx_v1_use_avx2"() noexcept nogil

if use_avx2:
    v1_use_avx2()


cdef int64_t v1_runs_int64(const uint8_t** at, const uint8_t* end, int64_t* out, int64_t n, bint zigzag) noexcept nogil:
    return decode64[zigzag](at, end, <uint64_t*> out, n)


cdef int64_t v1_runs_int32(const uint8_t** at, const uint8_t* end, int32_t* out, int64_t n, bint zigzag) noexcept nogil:
    return decode32[zigzag](at, end, <uint32_t*> out, n)
