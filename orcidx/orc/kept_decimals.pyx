"""Decodes decimals into Arrow's decimal128 and writes only the rows that are kept.

A block of values is decoded into memory that stays in the processor's cache, as in ``decimals``. Then the kept values
are copied to the output. Values of at most 18 digits take 64 bits until they are copied, and 128 bits in the output. A
large output is written in whole cache lines by stores that bypass the caches.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memmove

from orcidx.orc.bit_unpack cimport use_avx2
from orcidx.orc.decimals cimport (
    BLOCK, NARROW, check, next_decimals, next_short_decimals, refuse_status, rounding_of, widen_values,
)
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.kept_rows cimport check_mask, keep_block
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, widen_streaming
from orcidx.orc.window cimport Window

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    /* For each set of kept values among four: the numbers of the 32-bit halves, first of the kept values, then of the
       others. */
    #define ORCIDX_FOUR(a, b, c, d) {2 * a, 2 * a + 1, 2 * b, 2 * b + 1, 2 * c, 2 * c + 1, 2 * d, 2 * d + 1}
    static const int32_t orcidx_places[16][8] = {
        ORCIDX_FOUR(0, 1, 2, 3), ORCIDX_FOUR(0, 1, 2, 3), ORCIDX_FOUR(1, 0, 2, 3), ORCIDX_FOUR(0, 1, 2, 3),
        ORCIDX_FOUR(2, 0, 1, 3), ORCIDX_FOUR(0, 2, 1, 3), ORCIDX_FOUR(1, 2, 0, 3), ORCIDX_FOUR(0, 1, 2, 3),
        ORCIDX_FOUR(3, 0, 1, 2), ORCIDX_FOUR(0, 3, 1, 2), ORCIDX_FOUR(1, 3, 0, 2), ORCIDX_FOUR(0, 1, 3, 2),
        ORCIDX_FOUR(2, 3, 0, 1), ORCIDX_FOUR(0, 2, 3, 1), ORCIDX_FOUR(1, 2, 3, 0), ORCIDX_FOUR(0, 1, 2, 3),
    };
    /* Moves the kept values among four values to the front of `out`, which has room for four. Returns their number. */
    __attribute__((target("avx2,popcnt"))) static inline int orcidx_keep_four(
            const int64_t* values, uint32_t mask, int64_t* out) {
        uint32_t set = (mask * 0x01020408u >> 24) & 15;
        __m256i order = _mm256_loadu_si256((const __m256i*)orcidx_places[set]);
        __m256i four = _mm256_loadu_si256((const __m256i*)values);
        _mm256_storeu_si256((__m256i*)out, _mm256_permutevar8x32_epi32(four, order));
        return __builtin_popcount(set);
    }
    /* Copies the kept values to memory that has room for all values. Returns their number. */
    __attribute__((target("avx2,popcnt"))) static int64_t orcidx_keep_fours(
            const int64_t* values, const uint8_t* mask, int64_t rows, int64_t* out) {
        int64_t i = 0, k = 0;
        for (; i + 8 <= rows; i += 8) {
            uint64_t word;
            memcpy(&word, mask + i, 8);
            if (!word) continue;
            if (word == ORCIDX_ONES) {
                __m256i low = _mm256_loadu_si256((const __m256i*)(values + i));
                __m256i high = _mm256_loadu_si256((const __m256i*)(values + i + 4));
                _mm256_storeu_si256((__m256i*)(out + k), low);
                _mm256_storeu_si256((__m256i*)(out + k + 4), high);
                k += 8;
                continue;
            }
            k += orcidx_keep_four(values + i, (uint32_t)word, out + k);
            k += orcidx_keep_four(values + i + 4, (uint32_t)(word >> 32), out + k);
        }
        for (; i < rows; i++) { out[k] = values[i]; k += mask[i]; }
        return k;
    }
    #else
    #define orcidx_keep_fours(values, mask, rows, out) 0     /* not called without AVX2 */
    #endif
    """
    int64_t keep_fours "orcidx_keep_fours"(const int64_t* values, const uint8_t* mask, int64_t rows,
                                           int64_t* out) noexcept nogil


cdef enum:
    LINE = 4                # the number of values in a cache line


ctypedef struct Kept:
    # A buffer for the 64-bit decimals of kept rows. `waiting` is the number of decimals in the buffer.
    int64_t near[BLOCK + LINE + 1]
    int64_t waiting
    uint8_t* out
    bint streaming


cdef int64_t begin(Kept* to, uint8_t[::1] out, const uint8_t[::1] mask, int64_t count, int scale,
                   int precision) except -1:
    check(out, 0, scale, precision)
    check_mask(mask, count)
    if count >= out.shape[0] // 16:
        raise ValueError("there must be room for one value more than are kept")
    to.out, to.waiting = &out[0], 0
    to.streaming = count * 16 > STREAMING_BYTES and <size_t> to.out % 64 == 0
    return mask.shape[0]


cdef int put(const int64_t* block, const uint8_t* mask, int64_t step, Kept* to) noexcept nogil:
    # Stores the kept values of a block of up to BLOCK values, widened to 128 bits. Streaming stores write only whole
    # cache lines.
    cdef int64_t whole
    if use_avx2:
        to.waiting += keep_fours(block, mask, step, to.near + to.waiting)
    else:
        to.waiting += keep_block(block, 8, mask, step, to.near + to.waiting)
    if not to.streaming:
        widen_values(to.near, to.waiting, to.out)
        to.out += 16 * to.waiting
        to.waiting = 0
        return 0
    whole = to.waiting & ~<int64_t> (LINE - 1)
    widen_streaming(to.out, to.near, whole)
    to.out += 16 * whole
    to.waiting -= whole
    memmove(to.near, to.near + whole, 8 * to.waiting)
    return 0


cdef int end(Kept* to) noexcept nogil:
    widen_values(to.near, to.waiting, to.out)
    if to.streaming:
        fence_stores()
    return 0


def read_kept_decimals(Window values not None, IntRle scales not None, uint8_t[::1] out not None,
                       const uint8_t[::1] mask not None, int64_t count, *, int scale, int precision, str rounding):
    """Reads a value for each byte of ``mask``, as ``read_decimals`` does. Writes the ``count`` kept values to ``out``,
    which must have room for ``count + 1`` values. All values are checked."""
    cdef uint8_t wide[16 * BLOCK]
    cdef int64_t block[BLOCK]
    cdef Kept to
    cdef int64_t done = 0, kept = 0, step, rows = begin(&to, out, mask, count, scale, precision)
    cdef int mode = rounding_of(rounding), status = 0
    with nogil:
        while done < rows:
            step = next_decimals(values, scales, rows - done, scale, precision, mode, block, wide, &status)
            if status:
                break
            if precision <= NARROW:
                put(block, &mask[done], step, &to)
            else:
                kept += keep_block(wide, 16, &mask[done], step, &out[16 * kept])
            done += step
        end(&to)
    if status:
        refuse_status(status, values.name)


def read_kept_short_decimals(IntRle values not None, uint8_t[::1] out not None, const uint8_t[::1] mask not None,
                             int64_t count, *, int scale, int precision):
    """Reads a value for each byte of ``mask``, as ``read_short_decimals`` does. Writes the ``count`` kept values to
    ``out``, which must have room for ``count + 1`` values."""
    cdef int64_t block[BLOCK]
    cdef Kept to
    cdef int64_t done = 0, step, rows = begin(&to, out, mask, count, scale, precision)
    cdef int status = 0
    if precision > NARROW:
        raise ValueError(f"decimal({precision}, {scale}) does not fit into 64 bits")
    with nogil:
        while done < rows:
            step = next_short_decimals(values, rows - done, precision, block, &status)
            if status:
                break
            put(block, &mask[done], step, &to)
            done += step
        end(&to)
    if status:
        refuse_status(status, values.window.name)
