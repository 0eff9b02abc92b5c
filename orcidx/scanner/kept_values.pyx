"""Moves the values of kept rows together, in one pass over Arrow buffers without the GIL.

A mask has one byte for each row, 0 or 1, as in NumPy (``orc/kept_rows``). Sizes are checked on entry.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from orcidx.orc.kept_rows cimport Mask, keep_block, move_kept

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Writes the numbers of the kept rows. It is meant for masks that keep few rows: 32 rows that are not kept are
       skipped at once. Returns the number of kept rows, but at most room + 1. */
    static int64_t orcidx_rows(const uint8_t* mask, int64_t rows, int64_t room, int32_t* out) {
        int64_t i = 0, k = 0;
        for (; i + 32 <= rows; i += 32) {
            if (!(orcidx_eight(mask + i) | orcidx_eight(mask + i + 8) | orcidx_eight(mask + i + 16) |
                  orcidx_eight(mask + i + 24))) continue;
            for (int64_t j = i; j < i + 32; j += 8)
                for (uint64_t word = orcidx_eight(mask + j) & ORCIDX_ONES; word; word &= word - 1) {
                    if (k == room) return room + 1;
                    out[k++] = (int32_t)(j + orcidx_first_kept(word));
                }
        }
        for (; i < rows; i++)
            if (mask[i]) {
                if (k == room) return room + 1;
                out[k++] = (int32_t)i;
            }
        return k;
    }

    /* Returns the first kept row from i on. If `flip` is all ones, returns the first row that is not kept. */
    static inline int64_t orcidx_next(const uint8_t* mask, int64_t i, int64_t rows, uint64_t flip) {
        for (; i + 32 <= rows; i += 32)
            if ((orcidx_eight(mask + i) ^ flip) | (orcidx_eight(mask + i + 8) ^ flip) |
                (orcidx_eight(mask + i + 16) ^ flip) | (orcidx_eight(mask + i + 24) ^ flip)) break;
        for (; i + 8 <= rows; i += 8) {
            uint64_t word = (orcidx_eight(mask + i) ^ flip) & ORCIDX_ONES;
            if (word) return i + orcidx_first_kept(word);
        }
        for (; i < rows; i++)
            if ((mask[i] ^ flip) & 1) break;
        return i;
    }

    /* Writes the runs (start, stop) of kept rows, at most as many as `room`. Returns the number of runs, but at most
       room + 1. *stop becomes the row after the last kept row. */
    static int64_t orcidx_runs(const uint8_t* mask, int64_t rows, int64_t room, int64_t* out, int64_t* stop) {
        int64_t found = 0, i = 0;
        *stop = rows;
        while (1) {
            i = orcidx_next(mask, i, rows, 0);
            if (i == rows) {
                *stop = found ? out[2 * found - 1] : 0;
                return found;
            }
            if (found == room) break;
            out[2 * found] = i;
            i = orcidx_next(mask, i, rows, ORCIDX_ONES);
            out[2 * found + 1] = i;
            found++;
        }
        while (*stop && !mask[*stop - 1]) {
            if (*stop >= 8 && !orcidx_eight(mask + *stop - 8)) *stop -= 8;
            else --*stop;
        }
        return room + 1;
    }

    /* Copies values by the numbers of their rows. Returns the position of the first number that has no value. */
    #define ORCIDX_TAKE(NAME, T) \\
    static int64_t NAME(const void* from, int64_t size, const int32_t* rows, int64_t count, void* to) { \\
        const T* values = (const T*)from; \\
        T* out = (T*)to; \\
        for (int64_t k = 0; k < count; k++) { \\
            int32_t row = rows[k]; \\
            if (row < 0 || row >= size) return k; \\
            out[k] = values[row]; \\
        } \\
        return count; \\
    }
    ORCIDX_TAKE(orcidx_take1, uint8_t)
    ORCIDX_TAKE(orcidx_take2, uint16_t)
    ORCIDX_TAKE(orcidx_take4, uint32_t)
    ORCIDX_TAKE(orcidx_take8, uint64_t)
    ORCIDX_TAKE(orcidx_take16, orcidx_pair)

    /* Writes the start of each kept string, and the offset of its end after the kept strings were copied together. Both
       arrays have room for one more entry. */
    #define ORCIDX_PLACES(NAME, T) \\
    static void NAME(const void* from, const uint8_t* mask, int64_t rows, void* to, void* ends) { \\
        const T* offsets = (const T*)from; \\
        T* starts = (T*)to; \\
        T* places = (T*)ends + 1; \\
        int64_t i = 0, k = 0; \\
        T total = 0; \\
        places[-1] = 0; \\
        for (; i < rows; i++) { \\
            starts[k] = offsets[i]; \\
            total += (offsets[i + 1] - offsets[i]) & -(T)mask[i]; \\
            places[k] = total; \\
            k += mask[i]; \\
        } \\
    }
    ORCIDX_PLACES(orcidx_places4, int32_t)
    ORCIDX_PLACES(orcidx_places8, int64_t)

    /* Returns the length that all strings have, or -1 if their lengths differ. The lengths are compared in blocks, so
       that the function can end early. */
    #define ORCIDX_LENGTH(NAME, T, U) \\
    static int64_t NAME(const void* of, int64_t rows) { \\
        const T* offsets = (const T*)of; \\
        T length = offsets[1] - offsets[0]; \\
        if (length < 0 || (offsets[rows] - offsets[0]) / rows != length) return -1; \\
        for (int64_t i = 0; i < rows; i += 1024) { \\
            int64_t stop = rows < i + 1024 ? rows : i + 1024; \\
            U different = 0; \\
            for (int64_t j = i; j < stop; j++) different |= ((U)offsets[j + 1] - (U)offsets[j]) ^ (U)length; \\
            if (different) return -1; \\
        } \\
        return length; \\
    }
    ORCIDX_LENGTH(orcidx_length4, int32_t, uint32_t)
    ORCIDX_LENGTH(orcidx_length8, int64_t, uint64_t)
    """
    int64_t rows_of "orcidx_rows"(const uint8_t* mask, int64_t rows, int64_t room, int32_t* out) nogil
    int64_t runs_in "orcidx_runs"(const uint8_t* mask, int64_t rows, int64_t room, int64_t* out, int64_t* stop) nogil
    int64_t take1 "orcidx_take1"(const void* values, int64_t size, const int32_t* rows, int64_t count, void* out) nogil
    int64_t take2 "orcidx_take2"(const void* values, int64_t size, const int32_t* rows, int64_t count, void* out) nogil
    int64_t take4 "orcidx_take4"(const void* values, int64_t size, const int32_t* rows, int64_t count, void* out) nogil
    int64_t take8 "orcidx_take8"(const void* values, int64_t size, const int32_t* rows, int64_t count, void* out) nogil
    int64_t take16 "orcidx_take16"(const void* values, int64_t size, const int32_t* rows, int64_t count,
                                   void* out) nogil
    void places4 "orcidx_places4"(const void* offsets, const uint8_t* mask, int64_t rows, void* starts,
                                  void* places) nogil
    void places8 "orcidx_places8"(const void* offsets, const uint8_t* mask, int64_t rows, void* starts,
                                  void* places) nogil
    int64_t length4 "orcidx_length4"(const void* offsets, int64_t rows) nogil
    int64_t length8 "orcidx_length8"(const void* offsets, int64_t rows) nogil

cdef enum:
    SHORT_BYTES = 16  # the longest string that is copied in one move
    SPARE_BYTES = 32  # unused bytes after the copied strings, because a move of a short string may write more bytes

ctypedef fused offset_t:
    int32_t
    int64_t


cdef int check_width(int width) except -1:
    if width not in (1, 2, 4, 8, 16):
        raise ValueError(f"values of {width} bytes are not supported")
    return 0


def keep_rows(const uint8_t[::1] mask not None, int32_t[::1] out not None):
    """Writes the numbers of the rows that a mask keeps into ``out``. ``out`` must have exactly one entry for each of
    these rows."""
    cdef int64_t rows = mask.shape[0], room = out.shape[0], found = 0
    if rows > 2147483647:
        raise ValueError("more rows than 32 bits can number")
    if rows and room:
        with nogil:
            found = rows_of(&mask[0], rows, room, &out[0])
    if found != room:
        raise ValueError(f"there is room for {room} rows, but the mask keeps a different number")


def runs_of(const uint8_t[::1] mask not None, int64_t[:, ::1] out not None):
    """Writes the runs (start, stop) of rows that a mask keeps into ``out``, as many runs as ``out`` can hold. Returns
    the number of runs, at most one more than ``out`` can hold, and the row after the last kept row."""
    cdef int64_t rows = mask.shape[0], room = out.shape[0], found = 0, stop = 0
    if room < 1 or out.shape[1] != 2:
        raise ValueError("out must have room for at least one run of two numbers")
    if rows:
        with nogil:
            found = runs_in(&mask[0], rows, room, &out[0, 0], &stop)
    return found, stop


def take_fixed(const uint8_t[::1] values not None, int width, const int32_t[::1] rows not None,
               uint8_t[::1] out not None):
    """Copies the values of some rows by the numbers of the rows. A value has ``width`` bytes."""
    cdef int64_t count = rows.shape[0], size, done = 0
    cdef const void* source
    cdef void* target
    check_width(width)
    size = values.shape[0] // width
    if out.shape[0] // width < count:
        raise ValueError("out has no room for the values")
    if not count:
        return
    if size:
        source, target = &values[0], &out[0]
        with nogil:
            if width == 1:
                done = take1(source, size, &rows[0], count, target)
            elif width == 2:
                done = take2(source, size, &rows[0], count, target)
            elif width == 4:
                done = take4(source, size, &rows[0], count, target)
            elif width == 8:
                done = take8(source, size, &rows[0], count, target)
            else:
                done = take16(source, size, &rows[0], count, target)
    if done != count:
        raise ValueError(f"row {rows[done]} does not exist: there are {size} values")


def keep_fixed(const uint8_t[::1] values not None, int width, Mask mask not None, uint8_t[::1] out not None):
    """Copies the values of the rows that ``mask`` keeps. A value has ``width`` bytes. ``out`` must have room for one
    value more."""
    cdef const void* source
    cdef void* target
    check_width(width)
    if mask.rows > values.shape[0] // width or mask.count >= out.shape[0] // width:
        raise ValueError("there must be as many values as rows, and room for one value more than are kept")
    if not mask.rows:
        return
    source, target = &values[0], &out[0]
    with nogil:
        keep_block(source, width, mask.at, mask.rows, target)


def keep_here(uint8_t[::1] values not None, int width, Mask mask not None):
    """Moves the values of the rows that ``mask`` keeps to the front of ``values``. A value has ``width`` bytes."""
    cdef void* of
    check_width(width)
    if mask.rows > values.shape[0] // width:
        raise ValueError("there must be as many values as rows")
    if not mask.rows:
        return
    of = &values[0]
    with nogil:
        move_kept(of, width, mask.at, mask.rows)


def keep_offsets(const offset_t[::1] offsets not None, Mask mask not None, offset_t[::1] starts not None,
                 offset_t[::1] places not None):
    """Writes the start of each kept string into ``starts``. Writes into ``places`` the offsets that the strings have
    after they were copied together. Both arrays must have room for one more entry. Returns the number of bytes of the
    kept strings."""
    cdef int64_t rows = mask.rows, count = mask.count
    if offsets.shape[0] != rows + 1 or starts.shape[0] <= count or places.shape[0] <= count + 1:
        raise ValueError("there must be one offset more than rows, and room for one entry more than are kept")
    with nogil:
        if not rows:
            places[0] = 0
        elif offset_t is int32_t:
            places4(&offsets[0], mask.at, rows, &starts[0], &places[0])
        else:
            places8(&offsets[0], mask.at, rows, &starts[0], &places[0])
    return places[count]


def equal_length(const offset_t[::1] offsets not None):
    """Returns the length that all strings have, or -1 if their lengths differ. There must be at least one string."""
    cdef int64_t rows = offsets.shape[0] - 1, length = -1
    if rows < 1:
        raise ValueError("there must be the offsets of at least one string")
    with nogil:
        length = length4(&offsets[0], rows) if offset_t is int32_t else length8(&offsets[0], rows)
    return length


def keep_bytes(const uint8_t[::1] data not None, const offset_t[::1] starts not None,
               const offset_t[::1] places not None, int64_t count, bint merged, uint8_t[::1] out not None):
    """Copies the bytes of ``count`` strings. ``out`` must have ``SPARE_BYTES`` more bytes than the strings. ``merged``:
    whether many of the strings are adjacent in ``data``."""
    cdef int64_t k = 0, last, size, begin, to, length = data.shape[0], room = out.shape[0]
    cdef bint fits = True
    if count < 0 or starts.shape[0] < count or places.shape[0] <= count or places[0] != 0:
        raise ValueError("there must be a start of each string, and one offset more")
    if places[count] < 0 or room < SPARE_BYTES or places[count] > room - SPARE_BYTES:
        raise ValueError("out has no room for the strings")
    if not count:
        return
    with nogil:
        while k < count:
            begin, to, last = starts[k], places[k], k + 1
            if merged:
                while last < count and starts[last] == begin + (places[last] - to):
                    last += 1
            size = places[last] - to
            if size < 0 or begin < 0 or begin + size > length or to + size > room - SPARE_BYTES:
                fits = False
                break
            if size <= SHORT_BYTES and begin + SHORT_BYTES <= length:
                memcpy(&out[to], &data[begin], SHORT_BYTES)
            elif size <= 2 * SHORT_BYTES and begin + 2 * SHORT_BYTES <= length:
                memcpy(&out[to], &data[begin], 2 * SHORT_BYTES)
            elif size:
                memcpy(&out[to], &data[begin], size)
            k = last
    if not fits:
        raise ValueError("some strings are outside the data")
