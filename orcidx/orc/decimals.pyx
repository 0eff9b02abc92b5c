"""Decimals: decodes unbounded zigzag varints and their scales into Arrow's decimal128.

Each value is a zigzag varint of the unscaled number, of up to 19 bytes. Its scale comes from another stream and may
differ from the type's scale, because writers remove trailing zeros (HiveDecimal). Some writers keep these zeros. In
their files a run of scales has only the type's scale. The values of such a run are decoded directly to the output
(``decimal_varints``), and the scales of the run are not decoded. All other values are decoded a block at a time. If all
values of a block are small and their scales are at most the type's scale, they are only multiplied and widened. All
other values are rescaled in 128 bits with overflow checks.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcidx.orc.decimal_fit cimport (
    all_bits, all_scales, count_digits, count_narrow, fit, halve, lies_within, place_small, widen_integers
)
from orcidx.orc.decimal_varints cimport drop_values, is_fast, narrow_values, wide_values
from orcidx.orc.int_rle cimport IntRle, skip_same
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming
from orcidx.orc.window cimport Window

from orcidx.errors import CorruptFile, ValueOutOfRange

cdef extern from *:
    int portable "orcidx_portable"

# If ORCIDX_SIMD=none is set (in tests and comparisons), only portable code is used.
portable = os.environ.get("ORCIDX_SIMD") == "none"
# If ORCIDX_RUNS=none is set (in tests and comparisons), every scale is decoded, even in a run of equal scales.
cdef bint by_runs = os.environ.get("ORCIDX_RUNS") != "none"

_ROUNDINGS = {"half_up": 0, "truncate": 1, "error": 2}
_REASONS = {
    1: "a decimal does not fit into 128 bits at the column's scale",
    2: "a decimal has more fraction digits than its type, and they are not zero; cut them off with the option"
       " decimal_rounding='truncate' (as pyarrow) or round them with 'half_up' (as Spark)",
    3: "a decimal has more digits than its type's precision",
    4: "a decimal has more than 128 bits",
    5: "the scale of a decimal is not between -38 and 38",
}


cdef int check(uint8_t[::1] out, int64_t count, int scale, int precision) except -1:
    if count < 0 or count * 16 > out.shape[0]:
        raise ValueError("the values do not fit")
    if not 1 <= precision <= 38 or not 0 <= scale <= 38:
        raise ValueError(f"decimal({precision}, {scale})")
    return 0


cdef int64_t read_small(Window values, int64_t* block, int64_t count, uint64_t* most) except -1 nogil:
    # Reads up to `count` unscaled values. Stops before the first value whose varint has more than 62 bits. Returns
    # the number of values.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    while True:
        at = values.p
        if at != values.end:
            done += narrow_values(&at, values.end, count - done, block + done, most)
            values.p = at
        if done == count or values.end - values.p > 8:
            return done
        if not values.refill():
            values.fail_end()


cdef int read_large(Window values, uint8_t* out, int64_t count, uint64_t* most) except -1 nogil:
    # Reads `count` unscaled values of any size to `out`. Returns a status.
    cdef const uint8_t* at = NULL
    cdef int64_t done = 0
    cdef int status = 0
    while True:
        at = values.p
        if at != values.end:
            done += wide_values(&at, values.end, count - done, out + 16 * done, most, &status)
            values.p = at
        if status or done == count:
            return status
        if not values.refill():
            values.fail_end()


cdef int read_block(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                    int rounding) except -1 nogil:
    # Reads up to BLOCK decimals to `out`, and converts them to the wanted scale. Returns a status.
    cdef int64_t block[BLOCK]
    cdef int64_t scale_block[BLOCK]
    cdef int status = 0
    cdef uint64_t most = 0
    cdef int64_t small = read_small(values, block, count, &most)
    if small < count:
        status = read_large(values, out + 16 * small, count - small, &most)
        if status:
            return status
    scales.read_int64(scale_block, count)
    if small < count or not place_small(block, scale_block, count, scale, precision, most, is_fast(), out):
        widen_integers(block, small, out)
        if all_scales(scale_block, count, scale) == 0:
            return count_digits(out, count, precision, most)
        fit(out, scale_block, count, scale, precision, rounding, &status)
    return status


cdef int read_same(Window values, uint8_t* out, int64_t count, int precision) except -1 nogil:
    # Reads `count` decimals to `out`. They must have the wanted scale. Returns a status.
    cdef uint64_t most = 0
    cdef int status = read_large(values, out, count, &most)
    return status if status else count_digits(out, count, precision, most)


cdef int read_same_narrow(Window values, int64_t* out, int64_t count, int precision) except -1 nogil:
    # Reads decimals of at most NARROW digits to `out`, with 8 bytes for each. They must be stored with the wanted
    # scale. Returns a status. A small value may be stored in more bytes than it needs. ORC Java and C++ also accept
    # this.
    cdef uint8_t wide[16]
    cdef uint64_t most = 0
    cdef int64_t done = 0
    cdef int status = 0
    cdef bint fits = True
    while True:
        done += read_small(values, out + done, count - done, &most)
        if done == count:
            break
        status = read_large(values, wide, 1, &most)
        if status:
            return status
        fits = fits and lies_within(wide, precision)
        halve(wide, 1, out + done)
        done += 1
    return count_narrow(out, count, precision, most) if fits else 3


cdef int check_narrow(int64_t[::1] out, int64_t count, int scale, int precision) except -1:
    if count < 0 or count > out.shape[0]:
        raise ValueError("the values do not fit")
    if not 1 <= precision <= NARROW or not 0 <= scale <= 38:
        raise ValueError(f"decimal({precision}, {scale}) does not fit into 64 bits")
    return 0


def read_narrow_decimals(Window values not None, IntRle scales not None, int64_t[::1] out not None, int64_t count, *,
                         int scale, int precision, str rounding):
    """Does the same as ``read_decimals`` for at most 18 digits, with 8 bytes for each value."""
    cdef uint8_t near[16 * BLOCK]
    cdef int64_t done = 0, step
    cdef int mode = _ROUNDINGS[rounding], status = 0
    check_narrow(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            step = skip_same(scales, count - done, scale) if by_runs else 0
            if step:
                status = read_same_narrow(values, &out[done], step, precision)
            else:
                step = min(count - done, <int64_t> BLOCK)
                status = read_block(values, scales, near, step, scale, precision, mode)
                if not status:
                    halve(near, step, &out[done])
            done += step
    if status:
        refuse_status(status, values.name)


def read_narrow_short_decimals(IntRle values not None, int64_t[::1] out not None, int64_t count, *, int scale,
                               int precision):
    """Does the same as ``read_short_decimals``, with 8 bytes for each value."""
    cdef int64_t done = 0
    cdef int status = 0
    check_narrow(out, count, scale, precision)
    with nogil:
        while done < count and not status:
            done += next_short_decimals(values, count - done, precision, &out[done], &status)
    if status:
        refuse_status(status, values.window.name)


def widen_decimals(const int64_t[::1] values not None, uint8_t[::1] out not None):
    """Widens 64-bit values to 128 bits."""
    cdef int64_t count = values.shape[0]
    if out.shape[0] // 16 < count:
        raise ValueError("the values do not fit")
    if count:
        with nogil:
            widen_integers(&values[0], count, &out[0])


def read_decimals(Window values not None, IntRle scales not None, uint8_t[::1] out not None, int64_t count, *,
                  int scale, int precision, str rounding, bint streaming=False):
    """Reads ``count`` decimals to ``out``, with 16 bytes for each, converted to ``scale``. ``streaming``: ``out`` is
    not read soon.

    Raises ``CorruptFile`` for a value that has more than ``precision`` digits. With rounding "error", raises
    ``ValueOutOfRange`` for a value that loses digits other than zeros.
    """
    cdef uint8_t near[16 * BLOCK]
    cdef int64_t done = 0, step
    cdef int mode = _ROUNDINGS[rounding], status = 0
    check(out, count, scale, precision)
    if not (streaming and count * 16 > STREAMING_BYTES):
        if count:
            with nogil:
                status = read_all(values, scales, &out[0], count, scale, precision, mode)
        done = count
    with nogil:
        while done < count and not status:
            step = next_same(scales, count - done, scale)
            if step:
                status = read_same(values, near, step, precision)
            else:
                step = min(count - done, <int64_t> BLOCK)
                status = read_block(values, scales, near, step, scale, precision, mode)
            store_streaming(&out[16 * done], near, 16 * step)
            done += step
        fence_stores()
    if status:
        refuse_status(status, values.name)


def read_short_decimals(IntRle values not None, uint8_t[::1] out not None, int64_t count, *, int scale, int precision):
    """Reads ``count`` decimals of the decimal64 layout: integers that are the unscaled values at the type's scale."""
    cdef int status = 0
    check(out, count, scale, precision)
    if count:
        with nogil:
            status = read_all_short(values, &out[0], count, precision)
    if status:
        refuse_status(status, values.window.name)


cdef int read_all(Window values, IntRle scales, uint8_t* out, int64_t count, int scale, int precision,
                  int rounding) except -1 nogil:
    cdef int64_t done = 0, step
    cdef int status = 0
    while done < count and not status:
        step = skip_same(scales, count - done, scale) if by_runs else 0
        if step:
            status = read_same(values, out + 16 * done, step, precision)
        else:
            step = min(count - done, <int64_t> BLOCK)
            status = read_block(values, scales, out + 16 * done, step, scale, precision, rounding)
        done += step
    return status


cdef int read_all_short(IntRle values, uint8_t* out, int64_t count, int precision) except -1 nogil:
    cdef int64_t block[BLOCK]
    cdef int64_t done = 0, step
    cdef int status = 0
    while done < count and not status:
        step = min(count - done, <int64_t> BLOCK)
        values.read_int64(block, step)
        widen_integers(block, step, out + 16 * done)
        status = count_digits(out + 16 * done, step, precision, all_bits(block, step))
        done += step
    return status


cdef int64_t next_same(IntRle scales, int64_t left, int scale) except -1 nogil:
    return skip_same(scales, min(left, <int64_t> BLOCK), scale) if by_runs else 0


cdef int64_t next_narrow(Window values, IntRle scales, int64_t left, int scale, int precision, int rounding,
                         int64_t* out, int* status) except -1 nogil:
    cdef uint8_t[16 * BLOCK] wide
    cdef int64_t step = next_same(scales, left, scale)
    if step:
        status[0] = read_same_narrow(values, out, step, precision)
        return step
    step = min(left, <int64_t> BLOCK)
    status[0] = read_block(values, scales, wide, step, scale, precision, rounding)
    if not status[0]:
        halve(wide, step, out)
    return step


cdef int64_t next_short_decimals(IntRle values, int64_t left, int precision, int64_t* narrow,
                                 int* status) except -1 nogil:
    cdef int64_t step = min(left, <int64_t> BLOCK)
    values.read_int64(narrow, step)
    status[0] = count_narrow(narrow, step, precision, all_bits(narrow, step))
    return step


cdef void widen_values(const int64_t* values, int64_t count, uint8_t* out) noexcept nogil:
    widen_integers(values, count, out)


cdef int rounding_of(str rounding) except -1:
    return _ROUNDINGS[rounding]


cdef int refuse_status(int status, str stream) except -1:
    error = ValueOutOfRange if status == 2 else CorruptFile
    raise error(_REASONS[status], stream="SECONDARY" if status == 5 else stream)


def skip_varints(Window window not None, int64_t count):
    """Skips ``count`` values."""
    cdef int64_t done = 0
    cdef const uint8_t* at = NULL
    with nogil:
        while True:
            at = window.p
            if at != window.end:
                done += drop_values(&at, window.end, count - done)
                window.p = at
            if done >= count:
                break
            if not window.refill():
                window.fail_end()
