"""Decodes several whole runs of version 1 in a row. ``int_runs`` describes the format.

Varints are found 64 bytes at a time, with one bit for each byte that ends a varint. With AVX2 these bits select the
method. Sixteen values of one byte each are only widened. Up to eight values of one or two bytes are moved to their
lanes by a byte shuffle from a table. Other values are loaded four at a time from the positions that the bits give, and
two multiplications join their groups of seven bits. A value waits only for the bits, not for the previous value. This
takes 0.5 ns for a value of one byte, 1.1 ns for a value of two bytes, and 3.3 ns for a value if literals of three and
four bytes alternate with runs of three. With shuffles for each width it takes 0.8, 1.2 and 3.6 ns. Reading the varints
one by one takes 6 ns (on a shared machine).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from orcidx.orc.bit_unpack cimport use_avx2

cdef extern from *:
    """
    /* Reads the varint of `size` bytes (at most 10) at p. */
    ORCIDX_INLINE uint64_t orcidx_varint(const uint8_t* p, int size) {
        uint64_t word = orcidx_load_little(p), v;
        if (size <= 4) {
            v = word & 0xffffffffull >> (32 - 8 * size);
            v = (v & 0x7f007f) | (v & 0x7f007f00) >> 1;
            return (v & 0x3fff) | (v & 0x3fff0000) >> 2;
        }
        v = orcidx_squeeze(size < 8 ? word & ~(uint64_t)0 >> (64 - 8 * size) : word);
        if (size > 8) v |= (uint64_t)(p[8] & 127) << 56;
        return size > 9 ? v | (uint64_t)p[9] << 63 : v;
    }

    #define ORCIDX_SIGNED(v) (zigzag ? (v) >> 1 ^ (0 - ((v) & 1)) : (v))

    /* Decodes the `left` literals of a run. Returns how many bytes they take, or 0 if a literal extends past `end`. */
    #define ORCIDX_V1_ONE_BY_ONE(NAME, T, WIDE) \\
    ORCIDX_INLINE int64_t NAME(const uint8_t* start, const uint8_t* end, T* out, int left, int zigzag) { \\
        const uint8_t* p = start; \\
        uint64_t seen = 0; \\
        while (left) { \\
            uint64_t ends, v; \\
            int at = 0, size; \\
            if (p >= end) return 0; \\
            ends = orcidx_varint_ends(p); \\
            if (end - p < 64) ends &= ((uint64_t)1 << (end - p)) - 1; \\
            if (!ends) return 0; \\
            do { \\
                size = orcidx_low_bit(ends) + 1; \\
                if (size > 10) return 0; \\
                v = orcidx_varint(p + at, size); \\
                seen |= v; \\
                *out++ = (T)ORCIDX_SIGNED(v); \\
                left--; \\
                at += size; \\
                ends >>= size; \\
            } while (ends && left); \\
            p += at; \\
        } \\
        return !(WIDE) && seen >> 32 ? 0 : p - start; \\
    }
    ORCIDX_V1_ONE_BY_ONE(orcidx_literals64, uint64_t, 1)
    ORCIDX_V1_ONE_BY_ONE(orcidx_literals32, uint32_t, 0)
    /* Stores `count` values: `value`, `value + step`, ... Up to 16 values more may be stored. */
    #define ORCIDX_V1_RAMP(NAME, T) \\
    ORCIDX_INLINE void NAME(T* out, T value, T step, int count) { \\
        int i; \\
        for (i = 0; i < 16; i++) out[i] = value + (T)i * step; \\
        for (; i < count; i++) out[i] = value + (T)i * step; \\
    }
    ORCIDX_V1_RAMP(orcidx_ramp64, uint64_t)
    ORCIDX_V1_RAMP(orcidx_ramp32, uint32_t)

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORCIDX_V1_AVX2 __attribute__((target("avx2,bmi,popcnt,lzcnt")))
    /* A table for eight bytes. Bit i of the index is set if byte i ends a varint. `lanes` has the positions of the
       bytes of values of one or two bytes, with 16 bits for each value. `taken` has the number of bytes that the
       first one to eight values take. */
    typedef struct { uint8_t lanes[16], taken[8]; } orcidx_places;
    static orcidx_places orcidx_pairs[256];
    static const int64_t orcidx_first_lanes[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
    static void orcidx_fill_pairs(void) {
        int ends, lane, at, i;
        for (ends = 0; ends < 256; ends++) {
            orcidx_places* places = orcidx_pairs + ends;
            memset(places->lanes, 128, 16);
            for (lane = at = i = 0; i < 8; i++) {
                if (!(ends >> i & 1)) continue;
                if (i - at < 2) places->lanes[2 * lane] = (uint8_t)at;
                if (i - at == 1) places->lanes[2 * lane + 1] = (uint8_t)i;
                at = i + 1;
                places->taken[lane++] = (uint8_t)at;
            }
        }
    }

    /* Decodes sixteen values of one byte each. */
    ORCIDX_V1_AVX2 ORCIDX_INLINE __m128i orcidx_bytes(const uint8_t* p, int zigzag) {
        __m128i v = _mm_loadu_si128((const __m128i*)p);
        return zigzag ? _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(v, 1), _mm_set1_epi8(63)),
            _mm_sub_epi8(_mm_setzero_si128(), _mm_and_si128(v, _mm_set1_epi8(1)))) : v;
    }
    /* Decodes up to eight values of one or two bytes, to 16 bits each. */
    ORCIDX_V1_AVX2 ORCIDX_INLINE __m128i orcidx_words(const uint8_t* p, const orcidx_places* places, int zigzag) {
        __m128i v = _mm_shuffle_epi8(
            _mm_loadl_epi64((const __m128i*)p), _mm_loadu_si128((const __m128i*)places->lanes));
        v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(127)),
            _mm_srli_epi16(_mm_and_si128(v, _mm_set1_epi16(127 << 8)), 1));
        return zigzag ? _mm_xor_si128(_mm_srli_epi16(v, 1), _mm_sub_epi16(
            _mm_setzero_si128(), _mm_and_si128(v, _mm_set1_epi16(1)))) : v;
    }
    /* Decodes the varints of up to eight bytes at four positions. Pairs of groups of 7 bits become 14 bits, then 28,
       then 56. */
    ORCIDX_V1_AVX2 ORCIDX_INLINE __m256i orcidx_four_varints(const uint8_t* p, int second, int third, int fourth) {
        const __m256i high = _mm256_set1_epi8((char)128), halves = _mm256_set1_epi64x(0xffffffff);
        __m256i v = _mm256_setr_epi64x((long long)orcidx_load_little(p), (long long)orcidx_load_little(p + second),
            (long long)orcidx_load_little(p + third), (long long)orcidx_load_little(p + fourth));
        __m256i stops = _mm256_andnot_si256(v, high);
        v = _mm256_and_si256(v, _mm256_xor_si256(stops, _mm256_add_epi64(stops, _mm256_set1_epi64x(-1))));
        v = _mm256_maddubs_epi16(_mm256_set1_epi16((short)0x8001), _mm256_andnot_si256(high, v));
        v = _mm256_madd_epi16(v, _mm256_set1_epi32(0x40000001));
        return _mm256_or_si256(_mm256_and_si256(v, halves), _mm256_srli_epi64(_mm256_andnot_si256(halves, v), 4));
    }

    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_bytes64(uint64_t* out, __m128i v) {
        __m128i w = _mm_unpackhi_epi64(v, v);
        _mm256_storeu_si256((__m256i*)out, _mm256_cvtepi8_epi64(v));
        _mm256_storeu_si256((__m256i*)(out + 4), _mm256_cvtepi8_epi64(_mm_srli_si128(v, 4)));
        _mm256_storeu_si256((__m256i*)(out + 8), _mm256_cvtepi8_epi64(w));
        _mm256_storeu_si256((__m256i*)(out + 12), _mm256_cvtepi8_epi64(_mm_srli_si128(w, 4)));
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_bytes32(uint32_t* out, __m128i v) {
        _mm256_storeu_si256((__m256i*)out, _mm256_cvtepi8_epi32(v));
        _mm256_storeu_si256((__m256i*)(out + 8), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v)));
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_words64(uint64_t* out, __m128i v) {
        _mm256_storeu_si256((__m256i*)out, _mm256_cvtepi16_epi64(v));
        _mm256_storeu_si256((__m256i*)(out + 4), _mm256_cvtepi16_epi64(_mm_unpackhi_epi64(v, v)));
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_words32(uint32_t* out, __m128i v) {
        _mm256_storeu_si256((__m256i*)out, _mm256_cvtepi16_epi32(v));
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_four64(uint64_t* out, __m256i v, int zigzag) {
        if (zigzag) v = _mm256_xor_si256(_mm256_srli_epi64(v, 1), _mm256_sub_epi64(
            _mm256_setzero_si256(), _mm256_and_si256(v, _mm256_set1_epi64x(1))));
        _mm256_storeu_si256((__m256i*)out, v);
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_put_four32(uint32_t* out, __m256i v, int zigzag) {
        __m128i w = _mm256_castsi256_si128(
            _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
        if (zigzag) w = _mm_xor_si128(_mm_srli_epi32(w, 1), _mm_sub_epi32(
            _mm_setzero_si128(), _mm_and_si128(w, _mm_set1_epi32(1))));
        _mm_storeu_si128((__m128i*)out, w);
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_ramp64_avx2(uint64_t* out, uint64_t value, uint64_t step, int count) {
        __m256i v = _mm256_setr_epi64x((long long)value, (long long)(value + step),
            (long long)(value + 2 * step), (long long)(value + 3 * step));
        __m256i four = _mm256_set1_epi64x((long long)(4 * step));
        int i;
        for (i = 0; i < count; i += 8) {
            _mm256_storeu_si256((__m256i*)(out + i), v);
            v = _mm256_add_epi64(v, four);
            _mm256_storeu_si256((__m256i*)(out + i + 4), v);
            v = _mm256_add_epi64(v, four);
        }
    }
    ORCIDX_V1_AVX2 ORCIDX_INLINE void orcidx_ramp32_avx2(uint32_t* out, uint32_t value, uint32_t step, int count) {
        __m256i v = _mm256_add_epi32(_mm256_set1_epi32((int)value), _mm256_mullo_epi32(
            _mm256_set1_epi32((int)step), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
        __m256i eight = _mm256_set1_epi32((int)(8 * step));
        int i;
        for (i = 0; i < count; i += 8, v = _mm256_add_epi32(v, eight)) _mm256_storeu_si256((__m256i*)(out + i), v);
    }

    /* Does the same as ORCIDX_V1_ONE_BY_ONE. Up to 15 values more may be stored. Bit i of `ends` is set if byte at + i
       ends a varint. Bit i of `longer` is set if neither this byte nor the next byte ends a varint. */
    #define ORCIDX_V1_LITERALS(NAME, T, WIDE, SUFFIX) \\
    ORCIDX_V1_AVX2 ORCIDX_INLINE int64_t NAME( \\
            const uint8_t* start, const uint8_t* end, T* out, int left, int zigzag) { \\
        const uint8_t* p = start; \\
        __m256i seen = _mm256_setzero_si256(); \\
        while (left > 0) { \\
            uint64_t ends, longer, eight; \\
            int at = 0, size, count; \\
            ends = orcidx_varint_ends(p); \\
            longer = ~ends & ~ends >> 1; \\
            eight = longer & longer >> 2; \\
            if (end - p < 80 || (eight & eight >> 4)) { \\
                int64_t rest = orcidx_literals##SUFFIX(p, end, out, left, zigzag); \\
                if (!rest) return 0; \\
                p += rest; \\
                break; \\
            } \\
            do { \\
                uint64_t bytes = left < 16 ? ((uint64_t)1 << left) - 1 : 0xffff; \\
                if ((ends & bytes) == bytes) {              /* one byte each */ \\
                    orcidx_put_bytes##SUFFIX(out, orcidx_bytes(p + at, zigzag)); \\
                    count = size = left < 16 ? left : 16; \\
                } else if (!(longer & 127)) {               /* one or two bytes */ \\
                    const orcidx_places* places = orcidx_pairs + (ends & 255); \\
                    orcidx_put_words##SUFFIX(out, orcidx_words(p + at, places, zigzag)); \\
                    count = __builtin_popcountll(ends & 255); \\
                    size = 64 - __builtin_clzll(ends & 255); \\
                    if (count > left) { \\
                        count = left; \\
                        size = places->taken[left - 1]; \\
                    } \\
                } else { \\
                    uint64_t two = _blsr_u64(ends), three = _blsr_u64(two), four = _blsr_u64(three); \\
                    uint64_t a = _tzcnt_u64(ends) + 1, b = _tzcnt_u64(two) + 1, c = _tzcnt_u64(three) + 1; \\
                    uint64_t sizes = a | b << 8 | c << 16 | (_tzcnt_u64(four) + 1) << 24; \\
                    __m256i v = orcidx_four_varints(p + at, (int)a, (int)b, (int)c); \\
                    orcidx_put_four##SUFFIX(out, v, zigzag); \\
                    count = __builtin_popcountll(ends); \\
                    count = count < left ? count : left; \\
                    count = count < 4 ? count : 4; \\
                    size = (int)(sizes >> (8 * count - 8) & 255); \\
                    if (!(WIDE)) seen = _mm256_or_si256(seen, _mm256_and_si256(v, \\
                        _mm256_loadu_si256((const __m256i*)(orcidx_first_lanes + 4 - count)))); \\
                } \\
                out += count; \\
                left -= count; \\
                at += size; \\
                ends >>= size; \\
                longer >>= size; \\
            } while (ends && left); \\
            p += at; \\
        } \\
        return (WIDE) || _mm256_testz_si256(seen, _mm256_set1_epi64x((long long)0xffffffff00000000ull)) \\
            ? p - start : 0; \\
    }
    ORCIDX_V1_LITERALS(orcidx_literals64_avx2, uint64_t, 1, 64)
    ORCIDX_V1_LITERALS(orcidx_literals32_avx2, uint32_t, 0, 32)
    static int orcidx_v1_may_use_avx2(void) {      /* a processor with BMI also has LZCNT */
        return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
    }
    #else
    #define ORCIDX_V1_AVX2
    #define orcidx_literals64_avx2 orcidx_literals64
    #define orcidx_literals32_avx2 orcidx_literals32
    #define orcidx_ramp64_avx2 orcidx_ramp64
    #define orcidx_ramp32_avx2 orcidx_ramp32
    static void orcidx_fill_pairs(void) {}
    static int orcidx_v1_may_use_avx2(void) { return 0; }
    #endif

    #define ORCIDX_V1_RUNS(NAME, T, WIDE, LITERALS, RAMP, ZIGZAG) \\
    static int64_t NAME(const uint8_t** at, const uint8_t* end, T* out, int64_t n) { \\
        enum { zigzag = ZIGZAG }; \\
        const uint8_t* p = *at; \\
        T* stop = out + n; \\
        while (end - p >= 2 && stop - out >= 144) {     /* space for the longest run and 14 values more */ \\
            uint64_t word, ends, v; \\
            int64_t size; \\
            int count; \\
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
            RAMP(out, (T)v, (T)(int64_t)(int8_t)p[1], count); \\
            p += 2 + size; \\
            out += count; \\
        } \\
        *at = p; \\
        return n - (stop - out); \\
    }
    #define ORCIDX_V1(ISA, T, SUFFIX, WIDE) \\
        ISA ORCIDX_V1_RUNS(orcidx_v1_runs##SUFFIX, T, WIDE, orcidx_literals##SUFFIX, orcidx_ramp##SUFFIX, 0) \\
        ISA ORCIDX_V1_RUNS(orcidx_v1_runs##SUFFIX##_zigzag, T, WIDE, orcidx_literals##SUFFIX, orcidx_ramp##SUFFIX, 1)
    ORCIDX_V1(, uint64_t, 64, 1)
    ORCIDX_V1(, uint32_t, 32, 0)
    ORCIDX_V1(ORCIDX_V1_AVX2, uint64_t, 64_avx2, 1)
    ORCIDX_V1(ORCIDX_V1_AVX2, uint32_t, 32_avx2, 0)

    typedef int64_t (*orcidx_v1_decoder64)(const uint8_t**, const uint8_t*, uint64_t*, int64_t);
    typedef int64_t (*orcidx_v1_decoder32)(const uint8_t**, const uint8_t*, uint32_t*, int64_t);
    static orcidx_v1_decoder64 orcidx_v1_decode64[2] = {orcidx_v1_runs64, orcidx_v1_runs64_zigzag};
    static orcidx_v1_decoder32 orcidx_v1_decode32[2] = {orcidx_v1_runs32, orcidx_v1_runs32_zigzag};
    static void orcidx_v1_use_avx2(void) {
        if (!orcidx_v1_may_use_avx2()) return;
        orcidx_fill_pairs();
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
