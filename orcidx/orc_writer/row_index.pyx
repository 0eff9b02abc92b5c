"""The ROW_INDEX stream of a column: for each row group the positions of its streams and its statistics.

    RowIndex        1 repeated RowIndexEntry
    RowIndexEntry   1 positions (packed varints), 2 statistics (ColumnStatistics)
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np


cdef inline Py_ssize_t varint_size(uint64_t value) noexcept nogil:
    cdef Py_ssize_t size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* out, uint64_t value) noexcept nogil:
    while value >= 128:
        out[0] = <uint8_t>(value | 128)
        out += 1
        value >>= 7
    out[0] = <uint8_t>value
    return out + 1


def row_index_message(columns, statistics):
    """``columns``: int64 arrays, each one number of all entries; ``statistics``: a message for each row group."""
    cdef Py_ssize_t groups = len(statistics)
    numbers = np.ascontiguousarray(np.array(columns, np.int64).reshape(len(columns), groups).T)
    cdef const int64_t[:, ::1] table = numbers
    cdef Py_ssize_t width = numbers.shape[1]
    cdef Py_ssize_t group, i, positions, body, length
    cdef Py_ssize_t total = 0
    cdef bytes message
    for message in statistics:
        total += PyBytes_GET_SIZE(message)
    result = bytearray(total + groups * (40 + 10 * width))
    cdef uint8_t[::1] room = result
    if not groups:
        return b""
    cdef uint8_t* out = &room[0]
    cdef uint8_t* start = out
    for group in range(groups):
        message = statistics[group]
        length = PyBytes_GET_SIZE(message)
        positions = 0
        for i in range(width):
            positions += varint_size(<uint64_t>table[group, i])
        body = 1 + varint_size(length) + length
        if width:
            body += 1 + varint_size(positions) + positions
        out[0] = 10
        out = put_varint(out + 1, body)
        if width:
            out[0] = 10
            out = put_varint(out + 1, positions)
            for i in range(width):
                out = put_varint(out, <uint64_t>table[group, i])
        out[0] = 18
        out = put_varint(out + 1, length)
        memcpy(out, PyBytes_AS_STRING(message), length)
        out += length
    return PyBytes_FromStringAndSize(<char*>start, out - start)
