# Estimates how well an entropy coder will compress the values of a run. `int_runs` includes this code.

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    static double runs_weights[513];            /* c * log2(c) */
    static void runs_fill_weights(void) {
        int c;
        for (c = 2; c <= 512; c++) runs_weights[c] = c * log2((double)c);
    }

    /* Returns the width for n (1..512) codes of 3, 5, 6 or 7 bits: this width or the next power of two. With the
       larger width, every byte has only whole codes, and an entropy coder can make the bytes smaller. Codes that
       cross bytes look like noise to an entropy coder and do not become smaller. So the larger width is used if the
       estimated result has fewer bits than the codes of this width. With 8 bits in place of 5, the entropy coder has
       to read 1.6 times as many bytes, so the result must be smaller by an eighth. */
    static int runs_whole_width(const uint64_t* codes, int n, int width) {
        uint16_t counts[2][128];
        double bits = 0, fewest;
        int distinct = 0, size = 1 << width, step = n < 256 ? 1 : 2, sample = 0, i;
        if (n < 64) return width;
        memset(counts[0], 0, size * sizeof(uint16_t));
        memset(counts[1], 0, size * sizeof(uint16_t));
        for (i = 0; i + step < n; i += 2 * step) {  /* with two tables, equal neighbours need not wait for each other */
            counts[0][codes[i]]++;
            counts[1][codes[i + step]]++;
            sample += 2;
        }
        for (i = 0; i < size; i++) {
            int count = counts[0][i] + counts[1][i];
            bits -= runs_weights[count];
            distinct += count != 0;
        }
        /* The entropy of so few values is too small, by (distinct - 1) / (2 ln 2) bits in all (Miller 1955). A Huffman
           code is slightly longer than the entropy. */
        bits += runs_weights[sample] + 0.72 * distinct + 0.15 * sample;
        fewest = (double)sample * (width == 5 ? 5 * 7.0 / 8 : width);
        return bits < fewest ? (width == 3 ? 4 : 8) : width;
    }
    """
    void runs_fill_weights()
