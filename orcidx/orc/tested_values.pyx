"""Decodes numbers and tests whether they are in a range. The values are not written to memory.

A block of values is decoded, and tested while it is in the processor's cache. For each value one byte is written, 0 or
1. All values are checked as if they were read. A range is a pair of a smallest and a largest number. It is empty if
``low`` exceeds ``high``.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from orcidx.orc.decimals cimport BLOCK as DECIMALS
from orcidx.orc.decimals cimport NARROW, next_narrow, next_short_decimals, refuse_status, rounding_of
from orcidx.orc.int_rle cimport BLOCK, IntRle, near_int64
from orcidx.orc.window cimport Window
from orcidx.predicate.compares cimport mark_int32, mark_int64

from orcidx.orc.timestamps import beyond_32_bits


cdef int check(int scale, int precision) except -1:
    if not 1 <= precision <= NARROW or not 0 <= scale <= 38:
        raise ValueError(f"decimal({precision}, {scale}) does not fit into 64 bits")
    return 0


def integers_within(IntRle values not None, uint8_t[::1] out not None, int width, int64_t low, int64_t high):
    """Tests an integer for each byte of ``out``. Integers of ``width`` 4 keep their low 32 bits, as in
    ``IntRle.read``."""
    cdef int32_t[BLOCK] short
    cdef int64_t[BLOCK] block
    cdef int64_t step, done = 0, rows = out.shape[0]
    if width not in (4, 8) or (width == 4 and (low < -0x80000000 or high > 0x7fffffff)):
        raise ValueError(f"a range of integers of {width} bytes")
    with nogil:
        while done < rows:
            if width == 4:
                step = values.near_int32(short, rows - done)
                mark_int32(short, step, <int32_t> low, <int32_t> high, &out[done])
            else:
                step = near_int64(values, block, rows - done)
                mark_int64(block, step, low, high, &out[done])
            done += step


def days_within(IntRle days not None, uint8_t[::1] out not None, int32_t low, int32_t high, int32_t first, move):
    """Tests a date for each byte of ``out``. If a block has dates before ``first``, ``move`` gets this block and may
    change its dates. Raises the errors of ``read_days``."""
    cdef int32_t[BLOCK] block
    cdef int64_t i, step, done = 0, rows = out.shape[0]
    cdef int32_t before
    cdef bint moves = move is not None
    days.wrapped = False
    with nogil:
        while done < rows:
            step = days.near_int32(block, rows - done)
            if moves:
                before = 0
                for i in range(step):
                    before |= block[i] < first
                if before:
                    with gil:
                        move(<int32_t[:step]> block)
            mark_int32(block, step, low, high, &out[done])
            done += step
    if days.wrapped:
        raise beyond_32_bits()


def decimals_within(Window values not None, IntRle scales not None, uint8_t[::1] out not None, int64_t low,
                    int64_t high, *, int scale, int precision, str rounding):
    """Tests a decimal of at most 18 digits for each byte of ``out``, by its unscaled value. Raises the errors of
    ``read_decimals``."""
    cdef int64_t block[DECIMALS]
    cdef int64_t step, done = 0, rows = out.shape[0]
    cdef int mode = rounding_of(rounding), status = 0
    check(scale, precision)
    with nogil:
        while done < rows:
            step = next_narrow(values, scales, rows - done, scale, precision, mode, block, &status)
            if status:
                break
            mark_int64(block, step, low, high, &out[done])
            done += step
    if status:
        refuse_status(status, values.name)


def short_decimals_within(IntRle values not None, uint8_t[::1] out not None, int64_t low, int64_t high, *, int scale,
                          int precision):
    """Tests a decimal for each byte of ``out``. The unscaled values are stored as integers. Raises the errors of
    ``read_short_decimals``."""
    cdef int64_t block[DECIMALS]
    cdef int64_t step, done = 0, rows = out.shape[0]
    cdef int status = 0
    check(scale, precision)
    with nogil:
        while done < rows:
            step = next_short_decimals(values, rows - done, precision, block, &status)
            if status:
                break
            mark_int64(block, step, low, high, &out[done])
            done += step
    if status:
        refuse_status(status, values.window.name)
