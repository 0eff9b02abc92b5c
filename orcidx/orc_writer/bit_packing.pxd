# Integers of 1 to 64 bits are packed side by side, most significant bit first. `int_runs` compiles this code for two
# kinds of processors.

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(_MSC_VER)
    #include <intrin.h>
    #include <stdlib.h>
    #define RUNS_INLINE static __forceinline
    #define RUNS_BSWAP _byteswap_uint64
    static int runs_bits(uint64_t v) { unsigned long i; return _BitScanReverse64(&i, v) ? (int)i + 1 : 0; }
    #else
    #define RUNS_INLINE static inline __attribute__((always_inline))
    #define RUNS_BSWAP __builtin_bswap64
    static inline int runs_bits(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }
    #endif
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define RUNS_BIG(word) (word)
    #else
    #define RUNS_BIG(word) RUNS_BSWAP(word)
    #endif

    /* `runs_eight` packs eight values, which take exactly `width` bytes. If the width is a constant, the shifts are
       constants, too. 8 bytes more than needed may be stored. */
    RUNS_INLINE void runs_store(uint8_t* p, uint64_t word) { word = RUNS_BIG(word); memcpy(p, &word, 8); }

    RUNS_INLINE void runs_eight(const uint64_t* v, uint8_t* out, const int width) {
        uint64_t word = 0;
        int used = 0, at = 0, k;
        #if defined(__GNUC__)
        #pragma GCC unroll 8
        #endif
        for (k = 0; k < 8; k++) {
            if (used + width <= 64) {
                word = (width == 64 ? 0 : word << (width & 63)) | v[k];
                used += width;
            } else {
                int rest = used + width - 64;
                word = (word << ((64 - used) & 63)) | v[k] >> (rest & 63);
                runs_store(out + at, word);
                at += 8;
                word = v[k];
                used = rest;
            }
            if (used == 64) {
                runs_store(out + at, word);
                at += 8;
                word = 0;
                used = 0;
            }
        }
        if (used) runs_store(out + at, word << ((64 - used) & 63));
    }

    RUNS_INLINE void runs_pack_width(const uint64_t* v, int n, uint8_t* out, const int width) {
        uint64_t last[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        int i;
        for (; n >= 8; n -= 8, v += 8, out += width) runs_eight(v, out, width);
        for (i = 0; i < n; i++) last[i] = v[i];
        if (n) runs_eight(last, out, width);
    }

    #define RUNS_WIDTH(w) case w: runs_pack_width(v, n, out, w); break;
    RUNS_INLINE void runs_pack(const uint64_t* v, int n, uint8_t* out, int width) {
        switch (width) {
            RUNS_WIDTH(1) RUNS_WIDTH(2) RUNS_WIDTH(3) RUNS_WIDTH(4) RUNS_WIDTH(5) RUNS_WIDTH(6) RUNS_WIDTH(7)
            RUNS_WIDTH(8) RUNS_WIDTH(9) RUNS_WIDTH(10) RUNS_WIDTH(11) RUNS_WIDTH(12) RUNS_WIDTH(13) RUNS_WIDTH(14)
            RUNS_WIDTH(15) RUNS_WIDTH(16) RUNS_WIDTH(17) RUNS_WIDTH(18) RUNS_WIDTH(19) RUNS_WIDTH(20) RUNS_WIDTH(21)
            RUNS_WIDTH(22) RUNS_WIDTH(23) RUNS_WIDTH(24) RUNS_WIDTH(26) RUNS_WIDTH(28) RUNS_WIDTH(30) RUNS_WIDTH(32)
            RUNS_WIDTH(40) RUNS_WIDTH(48) RUNS_WIDTH(56) RUNS_WIDTH(64)
        }
    }
    """
    int runs_bits(uint64_t value) noexcept nogil
