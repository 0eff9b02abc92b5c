"""Decodes decimals into Arrow's decimal128 and writes only the rows that are kept.

Decimals of at most 18 digits that are stored with the type's scale are selected while they are decoded
(``decimal_varints``). If few of them are kept, the others are only skipped. All other values are decoded into a block
that stays in the processor's cache, as in ``decimals``. Then the kept values are copied. A large output is written in
whole cache lines by stores that bypass the caches.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove

from orcidx.orc.decimal_varints cimport kept_values
from orcidx.orc.decimals cimport (
    BLOCK, NARROW, check, next_same, next_short_decimals, read_block, read_same, refuse_status, rounding_of,
    widen_values,
)
from orcidx.orc.int_rle cimport IntRle
from orcidx.orc.kept_rows cimport Mask, keep_block
from orcidx.orc.streaming_store cimport STREAMING_BYTES, fence_stores, store_streaming
from orcidx.orc.window cimport Window


cdef enum:
    LINE = 4                # the number of values in a cache line


ctypedef struct Kept:
    # The kept decimals of a block are written to `place`, which is `near` if `streaming` is set, otherwise the position
    # in the output. `waiting` is their number. One decimal more may be written after them.
    uint8_t near[16 * (BLOCK + LINE + 1)]
    uint8_t* place
    uint8_t* out
    int64_t waiting
    bint streaming


cdef int begin(Kept* to, uint8_t[::1] out, Mask mask, int scale, int precision) except -1:
    check(out, 0, scale, precision)
    if mask.count >= out.shape[0] // 16:
        raise ValueError("there must be room for one value more than are kept")
    to.out, to.waiting = &out[0], 0
    to.streaming = mask.count * 16 > STREAMING_BYTES and <size_t> to.out % 64 == 0
    to.place = &to.near[0] if to.streaming else to.out
    return 0


cdef void keep(const uint8_t* block, const uint8_t* mask, int64_t rows, Kept* to) noexcept nogil:
    to.waiting += keep_block(block, 16, mask, rows, to.place + 16 * to.waiting)


cdef void store(Kept* to) noexcept nogil:
    # Moves on after a block of up to BLOCK values. Streaming stores write only whole cache lines.
    cdef int64_t lines
    if not to.streaming:
        to.place += 16 * to.waiting
        to.waiting = 0
        return
    lines = to.waiting // LINE
    store_streaming(to.out, to.near, 16 * LINE * lines)
    to.out += 16 * LINE * lines
    to.waiting -= LINE * lines
    memmove(to.near, to.near + 16 * LINE * lines, 16 * to.waiting)


cdef void end(Kept* to) noexcept nogil:
    if to.streaming:
        memcpy(to.out, to.near, 16 * to.waiting)
        fence_stores()


cdef int64_t next_kept(Window values, IntRle scales, const uint8_t* mask, int64_t rows, int scale, int precision,
                       int rounding, Kept* to, int* status) except -1 nogil:
    # Reads the next values, at most BLOCK, and keeps those of kept rows. `mask` has `rows` bytes. Returns the number of
    # values.
    cdef uint8_t[16 * BLOCK] block
    cdef const uint8_t* at = values.p
    cdef int64_t done = 0, step = next_same(scales, rows, scale)
    if step == 0:
        step = min(rows, <int64_t> BLOCK)
        status[0] = read_block(values, scales, block, step, scale, precision, rounding)
    else:
        if precision <= NARROW and at != values.end:
            done = kept_values(&at, values.end, step, mask, rows, precision, to.place, &to.waiting)
            values.p = at
        if done < step:
            status[0] = read_same(values, block, step - done, precision)
    if done < step and not status[0]:
        keep(block, mask + done, step - done, to)
    return step


def read_kept_decimals(Window values not None, IntRle scales not None, uint8_t[::1] out not None, Mask mask not None, *,
                       int scale, int precision, str rounding):
    """Reads a value for each row of ``mask``, as ``read_decimals`` does. Writes the kept values to ``out``, which must
    have room for one value more. All values are checked."""
    cdef Kept to
    cdef int64_t done = 0, rows = mask.rows
    cdef int mode = rounding_of(rounding), status = 0
    begin(&to, out, mask, scale, precision)
    with nogil:
        while done < rows and not status:
            done += next_kept(values, scales, mask.at + done, rows - done, scale, precision, mode, &to, &status)
            store(&to)
        end(&to)
    if status:
        refuse_status(status, values.name)


def read_kept_short_decimals(IntRle values not None, uint8_t[::1] out not None, Mask mask not None, *, int scale,
                             int precision):
    """Reads a value for each row of ``mask``, as ``read_short_decimals`` does. Writes the kept values to ``out``, which
    must have room for one value more."""
    cdef uint8_t[16 * BLOCK] wide
    cdef int64_t[BLOCK] block
    cdef Kept to
    cdef int64_t done = 0, step, rows = mask.rows
    cdef int status = 0
    begin(&to, out, mask, scale, precision)
    if precision > NARROW:
        raise ValueError(f"decimal({precision}, {scale}) does not fit into 64 bits")
    with nogil:
        while done < rows:
            step = next_short_decimals(values, rows - done, precision, block, &status)
            if status:
                break
            widen_values(block, step, wide)
            keep(wide, mask.at + done, step, &to)
            store(&to)
            done += step
        end(&to)
    if status:
        refuse_status(status, values.window.name)
