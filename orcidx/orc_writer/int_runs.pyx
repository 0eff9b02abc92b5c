"""``IntRuns``: integers in run-length encoding, version 2.

Runs are made from blocks of 512 values. The first block begins at the start of a row group, and the last block of a row
group may be shorter. One vectorised scan of a block (least, greatest, differences) decides between four forms:

    SHORT_REPEAT   3..10 equal values
    DELTA          equal steps, or values that only rise or only fall: the steps in bits
    DIRECT         each value in as many bits as the widest needs. All widths of the format are used, not only the
                   byte-aligned widths that other writers use by default. This makes the output 45 % smaller without a
                   codec, and 7 % smaller with zstd. Values with few distinct numbers are an exception if an entropy
                   coder follows (decision 0129).
    PATCHED_BASE   the distance from the least value in few bits, and a list of the high bits of the few distances that
                   need more bits

If at least a quarter of the neighbours are equal, the block is cut into repeats and the stretches between them. A
repeat at the end of a block is left to the next block, which may continue it.

Runs end with row groups, so row groups can be encoded in parallel. A long arithmetic sequence, such as row numbers,
takes about twice as many bytes if its runs end with row groups. So if all values of a stripe are one sequence, its runs
are written again with 512 values each (decision 0041).
"""

import os

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove

from orcidx.orc_writer.bit_packing cimport runs_bits  # no-cython-lint: the C code below calls its C function
from orcidx.orc_writer.chunks cimport OutStream
from orcidx.orc_writer.entropy cimport runs_fill_weights
from orcidx.orc_writer.even_steps cimport EvenSteps, join_steps, note_steps

import numpy as np

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef struct {
        int64_t least, greatest;
        uint64_t high, low;             /* sums of the upper and of the lower 32 bits of value + 2**63 */
        /* If a step overflows, `steps` and `rises` have no meaning. */
        uint64_t steps;                 /* bitwise or of all steps */
        int rises;                      /* values never fall */
        int even;                       /* all steps are equal */
        int equal;                      /* number of steps that are 0 */
    } runs_scan_t;

    static void runs_add(runs_totals_t* t, const runs_scan_t* s, int64_t n) {
        t->least = s->least < t->least ? s->least : t->least;
        t->greatest = s->greatest > t->greatest ? s->greatest : t->greatest;
        t->count += n;
        t->high += s->high;
        t->low += s->low;
    }

    RUNS_INLINE uint64_t runs_zigzag(int64_t v) { return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63); }

    /* Scans both halves at the same time, so that a comparison need not wait for the previous one. */
    RUNS_INLINE void runs_extremes(const int64_t* v, int n, runs_scan_t* s) {
        int64_t least = v[n - 1], greatest = v[n - 1], other_least = v[0], other_greatest = v[0];
        int half = n / 2, i;
        for (i = 0; i < half; i++) {
            least = v[i] < least ? v[i] : least;
            greatest = v[i] > greatest ? v[i] : greatest;
            other_least = v[half + i] < other_least ? v[half + i] : other_least;
            other_greatest = v[half + i] > other_greatest ? v[half + i] : other_greatest;
        }
        s->least = other_least < least ? other_least : least;
        s->greatest = other_greatest > greatest ? other_greatest : greatest;
    }

    RUNS_INLINE void runs_scan(const int64_t* v, int n, runs_scan_t* s) {
        int64_t equal = 0;
        uint64_t sum = (uint64_t)v[0], any = 0, all = ~(uint64_t)0, large = (uint64_t)(v[0] ^ v[0] >> 63);
        uint64_t high, low;
        int i;
        for (i = 1; i < n; i++) {
            uint64_t d = (uint64_t)v[i] - (uint64_t)v[i - 1];
            large |= (uint64_t)(v[i] ^ v[i] >> 63);
            sum += (uint64_t)v[i];
            any |= d;
            all &= d;
            equal += d == 0;
        }
        s->steps = any;
        s->rises = !(any >> 63);
        s->even = any == all || n < 2;
        s->equal = (int)equal;
        high = ((uint64_t)n << 31) + (uint64_t)((int64_t)sum >> 32);
        low = (uint32_t)sum;
        if (large >> 54) {                      /* a value of more than 54 bits: steps and the sum may overflow */
            high = low = 0;
            for (i = 0; i < n; i++) {
                high += ((uint64_t)v[i] ^ (uint64_t)1 << 63) >> 32;
                low += (uint32_t)v[i];
            }
        }
        s->high = high;
        s->low = low;
        s->least = v[0];
        s->greatest = v[n - 1];
        if (!s->rises || large >> 54) runs_extremes(v, n, s);
    }

    /* Sets `steps` to the bitwise or of the sizes of all steps if the values never rise, otherwise to 0. */
    RUNS_INLINE void runs_fall(const int64_t* v, int n, uint64_t* steps) {
        uint64_t any = 0;
        int i;
        for (i = 1; i < n; i++) any |= (uint64_t)v[i - 1] - (uint64_t)v[i];
        *steps = any >> 63 ? 0 : any;
    }

    RUNS_INLINE void runs_zigzag_all(const int64_t* v, int n, uint64_t* out) {
        int i;
        for (i = 0; i < n; i++) out[i] = runs_zigzag(v[i]);
    }
    RUNS_INLINE void runs_steps(const int64_t* v, int n, uint64_t* out) {
        int i;
        for (i = 0; i < n; i++) {
            uint64_t d = (uint64_t)v[i + 1] - (uint64_t)v[i];
            int64_t sign = (int64_t)d >> 63;
            out[i] = (d ^ (uint64_t)sign) - (uint64_t)sign;
        }
    }

    #define RUNS_COPIES(SUFFIX, TARGET) \\
    TARGET static void runs_scan_##SUFFIX(const int64_t* v, int n, runs_scan_t* s) { runs_scan(v, n, s); } \\
    TARGET static void runs_fall_##SUFFIX(const int64_t* v, int n, uint64_t* out) { runs_fall(v, n, out); } \\
    TARGET static void runs_steps_##SUFFIX(const int64_t* v, int n, uint64_t* out) { runs_steps(v, n, out); } \\
    TARGET static void runs_zigzag_all_##SUFFIX(const int64_t* v, int n, uint64_t* out) { \\
        runs_zigzag_all(v, n, out); } \\
    TARGET static void runs_pack_##SUFFIX(const uint64_t* v, int n, uint8_t* out, int width) { \\
        runs_pack(v, n, out, width); } \\
    TARGET static void runs_pack_signed_##SUFFIX(const int64_t* v, int n, uint8_t* out, int width) { \\
        uint64_t coded[512]; runs_zigzag_all(v, n, coded); runs_pack(coded, n, out, width); }

    RUNS_COPIES(portable, )
    #if defined(__x86_64__) && defined(__GNUC__)
    RUNS_COPIES(avx2, __attribute__((target("avx2"))))
    static int runs_has_avx2(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2"); }
    #define RUNS_CALL(NAME, ARGS) do { if (runs_avx2) NAME##_avx2 ARGS; else NAME##_portable ARGS; } while (0)
    #else
    static int runs_has_avx2(void) { return 0; }
    #define RUNS_CALL(NAME, ARGS) NAME##_portable ARGS
    #endif
    static int runs_avx2 = 0;

    static const uint8_t runs_widths[65] = {
        1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 26, 28, 28, 30,
        30, 32, 32, 40, 40, 40, 40, 40, 40, 40, 40, 48, 48, 48, 48, 48, 48, 48, 48, 56, 56, 56, 56, 56, 56, 56, 56, 64,
        64, 64, 64, 64, 64, 64, 64};
    static int runs_code(int width) {
        return width <= 24 ? width - 1 : width <= 32 ? (width - 26) / 2 + 24 : width / 8 + 23;
    }
    static uint8_t* runs_header(uint8_t* p, int form, int code, int n) {
        *p++ = (uint8_t)(form << 6 | code << 1 | (n - 1) >> 8);
        *p++ = (uint8_t)(n - 1);
        return p;
    }
    static uint8_t* runs_varint(uint8_t* p, uint64_t v) {
        while (v >= 0x80) { *p++ = (uint8_t)(v | 0x80); v >>= 7; }
        *p++ = (uint8_t)v;
        return p;
    }
    static uint64_t runs_coded(int64_t v, int is_signed) { return is_signed ? runs_zigzag(v) : (uint64_t)v; }

    static uint8_t* runs_direct(const int64_t* v, int n, int is_signed, int width, uint8_t* p) {
        p = runs_header(p, 1, runs_code(width), n);
        if (is_signed) RUNS_CALL(runs_pack_signed, (v, n, p, width));
        else RUNS_CALL(runs_pack, ((const uint64_t*)v, n, p, width));
        return p + ((n * width + 7) >> 3);
    }

    static uint8_t* runs_constant(int64_t value, int n, int is_signed, uint8_t* p) {
        uint64_t coded = runs_coded(value, is_signed);
        if (n >= 3 && n <= 10) {
            int bytes = (runs_bits(coded | 1) + 7) >> 3, i;
            *p++ = (uint8_t)((bytes - 1) << 3 | (n - 3));
            for (i = bytes - 1; i >= 0; i--) *p++ = (uint8_t)(coded >> (8 * i));
            return p;
        }
        if (n < 3) {
            int64_t pair[2] = {value, value};
            return runs_direct(pair, n, is_signed, runs_widths[runs_bits(coded)], p);
        }
        p = runs_varint(runs_header(p, 3, 0, n), coded);
        *p++ = 0;
        return p;
    }

    /* Writes one run of values with equal steps. No value may be beyond 64 bits. */
    static uint8_t* runs_even(int64_t first, int64_t step, int n, int is_signed, uint8_t* p) {
        if (n < 4) {                            /* other writers write no DELTA runs of fewer than 4 values */
            int64_t few[3];
            uint64_t bits = 0;
            int i;
            for (i = 0; i < n; i++) {
                few[i] = (int64_t)((uint64_t)first + (uint64_t)i * (uint64_t)step);
                bits |= runs_coded(few[i], is_signed);
            }
            return runs_direct(few, n, is_signed, runs_widths[runs_bits(bits)], p);
        }
        p = runs_varint(runs_header(p, 3, 0, n), runs_coded(first, is_signed));
        return runs_varint(p, runs_zigzag(step));
    }

    /* `runs_find_patch` finds the patched form with the lowest `cost` (in bits). Most values have `width` bits, and up
       to 31 patches have the bits above these. Returns 0 if there is no such form. */
    typedef struct { int width, patch; int64_t cost; } runs_patch_t;

    static int runs_find_patch(const int64_t* v, int n, int64_t least, int top, runs_patch_t* best) {
        int counts[65], above = 0, w;
        int i;
        memset(counts, 0, sizeof counts);
        for (i = 0; i < n; i++) counts[runs_bits((uint64_t)v[i] - (uint64_t)least)]++;
        best->cost = INT64_MAX;
        for (w = top - 1; w >= 1; w--) {
            int width, patch, gap;
            int64_t cost;
            above += counts[w + 1];
            if (runs_widths[w] != w) continue;
            if (above > 31) break;              /* the length of the list has only five bits */
            if (!above) continue;
            width = w;
            patch = runs_widths[top - w];
            /* Gap and patch have at most 64 bits together. Some readers also require this of width and patch. */
            if (patch > 56 || patch + width > 64) continue;
            gap = 8;
            cost = (int64_t)n * width + (int64_t)(above + 2) * runs_widths[gap + patch];
            if (cost < best->cost) {
                best->cost = cost;
                best->width = width;
                best->patch = patch;
            }
        }
        return best->cost != INT64_MAX;
    }

    /* Writes the patched form. Returns NULL if the list of patches becomes too long. */
    static uint8_t* runs_patched(const int64_t* v, int n, int64_t least, runs_patch_t* f, uint8_t* p) {
        uint64_t low[512], list[64], highs[40];
        int places[40], gaps[40];
        uint64_t mask = ~(uint64_t)0 >> (64 - f->width), size;
        int count = 0, entries = 0, widest = 0, last = 0, base_bytes, gap_bits, entry_bits, i;
        for (i = 0; i < n; i++) {
            uint64_t d = (uint64_t)v[i] - (uint64_t)least;
            low[i] = d & mask;
            if (d > mask) {
                if (count >= 31) return NULL;
                places[count] = i;
                highs[count++] = d >> f->width;
            }
        }
        if (!count) return NULL;
        for (i = 0; i < count; i++) {
            gaps[i] = places[i] - last;
            last = places[i];
            if (gaps[i] > widest) widest = gaps[i];
        }
        gap_bits = widest > 255 ? 8 : widest ? runs_bits((uint64_t)widest) : 1;
        for (i = 0; i < count; i++) {
            int gap = gaps[i];
            while (gap > 255) {                 /* an entry without a patch only moves the position */
                if (entries >= 31) return NULL;
                list[entries++] = (uint64_t)255 << f->patch;
                gap -= 255;
            }
            if (entries >= 31) return NULL;
            list[entries++] = (uint64_t)gap << f->patch | highs[i];
        }
        entry_bits = runs_widths[gap_bits + f->patch];
        size = least < 0 ? 0 - (uint64_t)least : (uint64_t)least;
        base_bytes = (runs_bits(size) + 1 + 7) >> 3;
        if (base_bytes > 8) return NULL;
        p = runs_header(p, 2, runs_code(f->width), n);
        *p++ = (uint8_t)((base_bytes - 1) << 5 | runs_code(f->patch));
        *p++ = (uint8_t)((gap_bits - 1) << 5 | entries);
        if (least < 0) size |= (uint64_t)1 << (8 * base_bytes - 1);
        for (i = base_bytes - 1; i >= 0; i--) *p++ = (uint8_t)(size >> (8 * i));
        RUNS_CALL(runs_pack, (low, n, p, f->width));
        p += (n * f->width + 7) >> 3;
        RUNS_CALL(runs_pack, (list, entries, p, entry_bits));
        return p + ((entries * entry_bits + 7) >> 3);
    }

    static uint8_t* runs_block(const int64_t* v, int n, int is_signed, uint8_t* p, runs_totals_t* totals);

    /* Writes a block in which many neighbours are equal. Repeats that save bytes become separate runs. */
    static uint8_t* runs_split(const int64_t* v, int n, int flags, int width, uint8_t* p) {
        int is_signed = flags & 1, at = 0, start = 0, pay = (8 * 6 + width - 1) / width;
        if (pay < 3) pay = 3;
        while (at < n) {
            int stop = at + 1;
            while (stop < n && v[stop] == v[at]) stop++;
            if (stop - at >= pay) {
                if (start < at) p = runs_block(v + start, at - start, flags | 2, p, NULL);
                p = runs_constant(v[at], stop - at, is_signed, p);
                start = stop;
            }
            at = stop;
        }
        return start < n ? runs_block(v + start, n - start, flags | 2, p, NULL) : p;
    }

    static int runs_is_odd(int width) { return width == 3 || (width > 4 && width < 8); }

    static uint8_t* runs_delta(const int64_t* v, int n, int flags, int width, uint8_t* p) {
        int is_signed = flags & 1;
        uint64_t steps[512];
        RUNS_CALL(runs_steps, (v + 1, n - 2, steps));
        if (flags & 4 && runs_is_odd(width)) width = runs_whole_width(steps, n - 2, width);
        p = runs_header(p, 3, runs_code(width), n);
        p = runs_varint(p, runs_coded(v[0], is_signed));
        p = runs_varint(p, runs_zigzag((int64_t)((uint64_t)v[1] - (uint64_t)v[0])));
        RUNS_CALL(runs_pack, (steps, n - 2, p, width));
        return p + (((n - 2) * width + 7) >> 3);
    }

    /* Writes values in as many bits as the widest needs, or in more bits if an entropy coder then makes the result
       smaller. */
    static uint8_t* runs_plain(const int64_t* v, int n, int flags, int width, uint8_t* p) {
        if (flags & 4 && runs_is_odd(width)) {
            uint64_t coded[512];
            if (flags & 1) RUNS_CALL(runs_zigzag_all, (v, n, coded));
            width = runs_whole_width(flags & 1 ? coded : (const uint64_t*)v, n, width);
        }
        return runs_direct(v, n, flags & 1, width, p);
    }

    /* Writes one block of n (1..512) values at p. There must be room for 8 * n + 80 bytes. Flag 1: the values are
       signed. Flag 2: the block must not be split again. Flag 4: an entropy coder follows. So the widths 15, 23 and 30
       become 16, 24 and 32. A width below 8 becomes larger if that saves bytes after the coding. */
    static uint8_t* runs_block(const int64_t* v, int n, int flags, uint8_t* p, runs_totals_t* totals) {
        runs_scan_t s;
        runs_patch_t patch;
        int is_signed = flags & 1, width, reach, same;
        uint64_t steps = 0;
        uint8_t* end;
        RUNS_CALL(runs_scan, (v, n, &s));
        if (totals) runs_add(totals, &s, n);
        /* The extremes need the most bits. */
        width = runs_widths[runs_bits(runs_coded(s.least, is_signed) | runs_coded(s.greatest, is_signed))];
        if (flags & 4) width = width == 15 || width == 23 ? width + 1 : width == 30 ? 32 : width;
        if (s.least == s.greatest) return runs_constant(v[0], n, is_signed, p);
        if (n <= 3) return runs_direct(v, n, is_signed, width, p);
        /* If the range overflows, steps and distances have no meaning. */
        if (s.least < 0 && s.greatest > INT64_MAX + s.least) return runs_direct(v, n, is_signed, width, p);
        if (s.even) return runs_even(v[0], v[1] - v[0], n, is_signed, p);
        if (s.rises) steps = s.steps;
        else if (v[0] == s.greatest && v[n - 1] == s.least) RUNS_CALL(runs_fall, (v, n, &steps));
        if (steps) {
            int step = runs_widths[runs_bits(steps)];
            if (step < 2) step = 2;             /* width code 0 means that all steps are equal */
            for (same = 1; v[same] == v[0]; same++) {}
            if (same > 1) {                     /* the first step gives the direction, so it must not be 0 */
                if (n - same > 8 && step < width) {
                    p = runs_constant(v[0], same - 1, is_signed, p);
                    return runs_block(v + same - 1, n - same + 1, flags, p, NULL);
                }
            } else if ((n - 2) * step + 64 < n * width) {
                return runs_delta(v, n, flags, step, p);
            }
        }
        if (!(flags & 2) && s.equal * 4 >= n) return runs_split(v, n, flags, width, p);
        reach = runs_bits((uint64_t)s.greatest - (uint64_t)s.least);
        if (width > 4 && n >= 32 && runs_bits(s.least < 0 ? 0 - (uint64_t)s.least : (uint64_t)s.least) <= 56
                && runs_find_patch(v, n, s.least, reach, &patch)
                && patch.cost + 96 < (int64_t)n * width * 9 / 10
                && (end = runs_patched(v, n, s.least, &patch, p))) return end;
        return runs_plain(v, n, flags, width, p);
    }

    static void runs_set_avx2(int on) { runs_avx2 = on && runs_has_avx2(); }
    """
    void runs_set_avx2(int on)
    uint8_t* runs_block(const int64_t* v, int n, int flags, uint8_t* p, Totals* totals) noexcept nogil
    uint8_t* runs_constant(int64_t value, int n, int is_signed, uint8_t* p) noexcept nogil
    uint8_t* runs_even(int64_t first, int64_t step, int n, int is_signed, uint8_t* p) noexcept nogil

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
runs_set_avx2(os.environ.get("ORCIDX_SIMD") != "none")
runs_fill_weights()

cdef enum:
    ROOM = 8 * RUN + 256        # the most bytes of a block: the widest values with headers


cdef inline bint ends_in_three(const int64_t* values, int n) noexcept nogil:
    """Whether the last three of the values are equal."""
    return n >= 3 and values[n - 1] == values[n - 2] and values[n - 1] == values[n - 3]


cdef class IntRuns:
    """``signed``: the values are zigzag coded. Unsigned values must not be negative."""

    def __cinit__(self, OutStream stream, *, bint signed):
        self.stream = stream
        self.signed = signed
        self.flags = signed
        if stream.compressor is not None and stream.compressor.name in ("ZSTD", "ZLIB"):
            # ZSTD and ZLIB find repetitions in values of 16 bits, but not in values of 15 bits. With 16 bits, dates
            # become 10 % smaller.
            self.flags |= 4
            if stream.compressor.for_numbers is not None:
                stream.compressor = stream.compressor.for_numbers
        self.forget_totals()
        self.forget_sequence()

    cdef int put_many(self, const int64_t* values, int64_t n) except -1 nogil:
        cdef int part
        while n:
            part = <int>min(n, <int64_t>(RUN - self.filled))
            if part == RUN:
                part -= self._encode(values, RUN, False)  # a whole block is encoded without copying it
            else:
                memcpy(&self.values[self.filled], values, part * sizeof(int64_t))
                self.filled += part
                if self.filled == RUN:
                    self.filled = self._encode(self.values, RUN, False)
                    memmove(self.values, &self.values[RUN - self.filled], self.filled * sizeof(int64_t))
            values += part
            n -= part
        return 0

    cdef int put_same(self, int64_t value, int64_t n) except -1 nogil:
        cdef int part
        cdef int64_t one = value
        cdef uint8_t* start
        while n and (self.filled or n < 3):
            self.put_many(&one, 1)
            n -= 1
        if n:
            self.totals.least = min(self.totals.least, value)
            self.totals.greatest = max(self.totals.greatest, value)
            self.totals.count += n
            self.totals.high += ((<uint64_t>value ^ (<uint64_t>1 << 63)) >> 32) * <uint64_t>n
            self.totals.low += (<uint64_t>value & 0xFFFFFFFFU) * <uint64_t>n
        while n:
            part = <int>min(n, <int64_t>RUN)
            start = self.stream.reserve(ROOM)
            self.stream.advance(runs_constant(value, part, self.signed, start) - start)
            n -= part
        return 0

    cdef int end_run(self) except -1 nogil:
        if self.filled:
            self._encode(self.values, self.filled, True)
            self.filled = 0
        return 0

    cdef int _encode(self, const int64_t* values, int n, bint last) except -1 nogil:
        """Writes a block. Returns how many equal values at its end are left to the next block."""
        cdef int kept = 0
        cdef uint8_t* start
        if not last:
            kept = 1
            while kept < n and values[n - 1 - kept] == values[n - 1]:
                kept += 1
            if kept == n or (kept < 3 and not ends_in_three(values, n - kept)):
                kept = 0  # the equal values are the whole block, or too few for a separate run
            n -= kept
        start = self.stream.reserve(ROOM)
        cdef uint8_t* end = runs_block(values, n, self.flags, start, &self.totals)
        if not self.sequence.broken:
            note_steps(&self.sequence, values, n, start)
        self.stream.advance(end - start)
        return kept

    cdef void join_sequence(self, IntRuns other) noexcept nogil:
        """Updates ``sequence`` (whether all values have equal steps) for the values of another stream, which follow the
        values of this stream."""
        join_steps(&self.sequence, &other.sequence)

    cdef bint is_sequence(self, int64_t count) noexcept nogil:
        """Whether exactly ``count`` values were written, all with equal steps."""
        return not self.sequence.broken and self.sequence.count == count and not self.filled

    cdef object write_sequence(self):
        """Writes the whole stream again, in runs of 512 values. Returns where each run begins, and where the last run
        ends."""
        cdef EvenSteps known = self.sequence
        cdef int64_t[::1] starts = np.empty((known.count + RUN - 1) // RUN + 1, np.int64)
        cdef Py_ssize_t run
        cdef uint8_t* start
        self.stream.clear()
        with nogil:
            for run in range(starts.shape[0] - 1):
                starts[run] = self.stream.total
                start = self.stream.reserve(ROOM)
                self.stream.advance(runs_even(
                    <int64_t>(<uint64_t>known.first + <uint64_t>(run * RUN) * <uint64_t>known.step), known.step,
                    <int>min(known.count - run * RUN, <int64_t>RUN), self.signed, start,
                ) - start)
            starts[starts.shape[0] - 1] = self.stream.total
        return np.asarray(starts)

    cdef void forget_sequence(self) noexcept nogil:
        self.sequence.count = 0
        self.sequence.broken = False

    cdef void forget_totals(self) noexcept nogil:
        self.totals.least = INT64_MAX
        self.totals.greatest = INT64_MIN
        self.totals.count = 0
        self.totals.high = self.totals.low = 0

    cdef object sum(self):
        return (<object>self.totals.high << 32) + self.totals.low - (<object>self.totals.count << 63)

    def write(self, values):
        """Appends integers."""
        cdef const int64_t[::1] numbers = np.ascontiguousarray(values, np.int64)
        cdef int64_t n = numbers.shape[0]
        if n:
            with nogil:
                self.put_many(&numbers[0], n)

    def end(self):
        """Ends the open run, for example at the end of a row group."""
        with nogil:
            self.end_run()
