"""Loops over byte spans: compares and parses texts of statistics without copying them.

A span is a start and a stop in a buffer. n spans are an int64 array of shape (n, 2).
"""

from libc.stdint cimport int8_t, int64_t, uint8_t
from libc.string cimport memcmp

import numpy as np

__all__ = ["compare_spans", "order_spans", "parse_decimals", "spans_with_byte"]


def compare_spans(buffer, spans, bytes literal not None):
    """Compares spans with a literal by unsigned byte order.

    Returns int8: -1 if the span is less, 0 if it is equal, 1 if it is greater.
    """
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef const int64_t[:, :] span = spans
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* wanted = literal
    cdef Py_ssize_t length = len(literal)
    cdef Py_ssize_t i
    result = np.empty(span.shape[0], np.int8)
    cdef int8_t[::1] out = result
    check_spans(span, data.shape[0])
    for i in range(span.shape[0]):
        out[i] = order(base + span[i, 0], span[i, 1] - span[i, 0], wanted, length)
    return result


def order_spans(buffer, spans, other_buffer, other_spans):
    """Compares each span with the other span at the same index. Returns int8 like ``compare_spans``."""
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef const uint8_t[::1] other_data = memoryview(other_buffer).cast("B")
    cdef const int64_t[:, :] span = spans
    cdef const int64_t[:, :] other = other_spans
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* other_base = &other_data[0] if other_data.shape[0] else NULL
    cdef Py_ssize_t i
    result = np.empty(span.shape[0], np.int8)
    cdef int8_t[::1] out = result
    check_spans(span, data.shape[0])
    check_spans(other, other_data.shape[0])
    if span.shape[0] != other.shape[0]:
        raise ValueError("the numbers of spans differ")
    for i in range(span.shape[0]):
        out[i] = order(
            base + span[i, 0], span[i, 1] - span[i, 0], other_base + other[i, 0], other[i, 1] - other[i, 0]
        )
    return result


cdef inline int8_t order(const uint8_t* one, Py_ssize_t length, const uint8_t* other, Py_ssize_t other_length) noexcept:
    cdef Py_ssize_t common = min(length, other_length)
    cdef int sign = memcmp(one, other, common) if common else 0
    if sign == 0:
        return (length > other_length) - (length < other_length)
    return 1 if sign > 0 else -1


def spans_with_byte(buffer, spans, int low, int high):
    """A bool for each span: whether it has a byte between ``low`` and ``high``, both included."""
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef const int64_t[:, :] span = spans
    cdef Py_ssize_t i, at
    result = np.zeros(span.shape[0], np.uint8)
    cdef uint8_t[::1] out = result
    check_spans(span, data.shape[0])
    for i in range(span.shape[0]):
        for at in range(span[i, 0], span[i, 1]):
            if low <= data[at] <= high:
                out[i] = 1
                break
    return result.view(np.bool_)


cdef int check_spans(const int64_t[:, :] span, Py_ssize_t size) except -1:
    cdef Py_ssize_t i
    if span.shape[1] != 2:
        raise ValueError("spans must have two columns")
    for i in range(span.shape[0]):
        if not 0 <= span[i, 0] <= span[i, 1] <= size:
            raise ValueError("a span is outside the buffer")
    return 0

cdef int MOST_DIGITS = 18


def parse_decimals(buffer, spans, int scale, bint upwards):
    """Parses decimal texts such as "-12.50" as integers of ``scale`` fraction digits, rounded up or down.

    Returns three arrays. The first has the int64 values. The second is True for spans that are such texts and fit into
    18 digits. The value of any other span is 0. The third is True for spans that needed no rounding.
    """
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef const int64_t[:, :] span = spans
    cdef Py_ssize_t i
    values = np.zeros(span.shape[0], np.int64)
    parsed, unrounded = np.zeros(span.shape[0], np.uint8), np.zeros(span.shape[0], np.uint8)
    cdef int64_t[::1] out = values
    cdef uint8_t[::1] known = parsed
    cdef uint8_t[::1] exact = unrounded
    cdef bint rounded
    check_spans(span, data.shape[0])
    for i in range(span.shape[0]):
        if span[i, 0] < span[i, 1]:
            rounded = upwards
            known[i] = parse_decimal(&data[0] + span[i, 0], span[i, 1] - span[i, 0], scale, &rounded, &out[i])
            exact[i] = known[i] and not rounded
    return values, parsed.view(np.bool_), unrounded.view(np.bool_)


cdef bint parse_decimal(const uint8_t* text, Py_ssize_t length, int scale, bint* round_up, int64_t* out) noexcept nogil:
    """Returns False for bytes that are not a short decimal. ``round_up``: the direction of rounding. Afterwards it says
    whether the value was rounded."""
    cdef bint negative = text[0] == ord("-")
    cdef Py_ssize_t at = negative
    cdef int64_t value = 0
    cdef int digits = 0             # significant digits
    cdef int after_point = -1       # number of fraction digits so far; -1 before the decimal point
    cdef bint rest = False          # whether a fraction digit beyond the scale is not 0
    cdef bint any_digit = False
    while at < length:
        if text[at] == ord(".") and after_point < 0:
            after_point = 0
        elif not ord("0") <= text[at] <= ord("9"):
            return False
        else:
            any_digit = True
            if after_point == scale:
                rest = rest or text[at] != ord("0")
            else:
                value = value * 10 + (text[at] - ord("0"))
                digits += value != 0
                after_point += after_point >= 0
                if digits > MOST_DIGITS:
                    return False
        at += 1
    if not any_digit:
        return False
    for _ in range(scale - max(after_point, 0)):
        value *= 10
        digits += value != 0
        if digits > MOST_DIGITS:
            return False
    if negative:
        value = -value
    if rest and round_up[0] != negative:        # the digits that were cut off increase the absolute value
        value += 1 if round_up[0] else -1
    round_up[0] = rest
    out[0] = value
    return True
