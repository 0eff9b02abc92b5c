"""Stores that bypass the caches. They are for output that is too large to stay in a cache until it is read.

An ordinary store first fetches the cache line that it overwrites. If the output is larger than a cache, these fetches
are half of the memory traffic. For example, 96 MB of decimals are written at 9 GB/s with ordinary stores, and at 25
GB/s with stores that do not fetch. Output that fits into a cache is written faster with ordinary stores. For larger
output, values are decoded into a block that stays in the cache, and the block is then copied past the caches.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SSE2__) || defined(_M_X64)
    #include <emmintrin.h>

    static inline void orcidx_store_streaming(void* to, const void* from, int64_t n) {
        uint8_t* out = (uint8_t*)to;
        const uint8_t* in = (const uint8_t*)from;
        int64_t head = -(intptr_t)out & 63;      /* whole lines only, because each partial line takes a memory access */
        if (n < head + 64) {
            memcpy(out, in, n);
            return;
        }
        memcpy(out, in, head);
        for (out += head, in += head, n -= head; n >= 64; out += 64, in += 64, n -= 64) {
            __m128i a = _mm_loadu_si128((const __m128i*)in), b = _mm_loadu_si128((const __m128i*)(in + 16));
            __m128i c = _mm_loadu_si128((const __m128i*)(in + 32)), d = _mm_loadu_si128((const __m128i*)(in + 48));
            _mm_stream_si128((__m128i*)out, a);
            _mm_stream_si128((__m128i*)(out + 16), b);
            _mm_stream_si128((__m128i*)(out + 32), c);
            _mm_stream_si128((__m128i*)(out + 48), d);
        }
        memcpy(out, in, n);
    }
    /* Widens n 64-bit integers to 128 bits. n must be even, and the address `to` must be a multiple of 16. */
    static inline void orcidx_widen_streaming(void* to, const int64_t* values, int64_t n) {
        __m128i* out = (__m128i*)to;
        for (int64_t i = 0; i < n; i += 2) {
            __m128i both = _mm_loadu_si128((const __m128i*)(values + i));
            __m128i sign = _mm_shuffle_epi32(_mm_srai_epi32(both, 31), 0xf5);
            _mm_stream_si128(out + i, _mm_unpacklo_epi64(both, sign));
            _mm_stream_si128(out + i + 1, _mm_unpackhi_epi64(both, sign));
        }
    }
    static inline void orcidx_fence_stores(void) { _mm_sfence(); }
    #else
    static inline void orcidx_widen_streaming(void* to, const int64_t* values, int64_t n) {
        uint8_t* out = (uint8_t*)to;
        for (int64_t i = 0; i < n; i++) {
            int64_t sign = values[i] >> 63;
            memcpy(out + 16 * i, values + i, 8);
            memcpy(out + 16 * i + 8, &sign, 8);
        }
    }
    #define orcidx_store_streaming memcpy
    #define orcidx_fence_stores()
    #endif
    #if defined(__x86_64__) && defined(__GNUC__)
    static int orcidx_is_amd(void) {
        __builtin_cpu_init();
        return __builtin_cpu_is("amd") != 0;
    }
    #else
    static int orcidx_is_amd(void) { return 0; }
    #endif
    """
    void c_store_streaming "orcidx_store_streaming"(void* out, const void* values, int64_t n) noexcept nogil
    void c_widen_streaming "orcidx_widen_streaming"(void* out, const int64_t* values, int64_t n) noexcept nogil
    void c_fence_stores "orcidx_fence_stores"() noexcept nogil
    bint is_amd "orcidx_is_amd"() noexcept nogil


cdef void store_streaming(void* out, const void* values, int64_t n) noexcept nogil:
    c_store_streaming(out, values, n)


cdef void widen_streaming(void* out, const int64_t* values, int64_t n) noexcept nogil:
    c_widen_streaming(out, values, n)


cdef void fence_stores() noexcept nogil:
    c_fence_stores()


def integers_use_streaming() -> bool:
    """Whether this processor decodes integers faster if they are stored past the caches.

    AMD processors do not decode them faster in this way. They overlap ordinary stores with decoding, but they wait for
    stores that bypass the caches (decision 0002).
    """
    return not is_amd()
