"""Computes the Murmur3-32 hash of BinaryRow keys from columns, without building the bytes of rows.

A BinaryRow is little-endian. It has a null area of ceil((fields + 8) / 64) * 8 bytes (bit i + 8 is set if field i is
null; the first byte, the row kind, is 0), then 8 bytes per field, then the variable part. Each piece of the variable
part is padded with zeros to 8 bytes.

    fixed      the value in the low bytes of the field's 8 bytes        null: 0
    bytes      up to 7: the data, and 0x80 | length in the last byte; longer: offset << 32 | length    null: 0
    timestamp  precision above 3: offset << 32 | nanoseconds of the millisecond; variable part: 8 bytes of milliseconds
    decimal    precision above 18: offset << 32 | length; variable part: 16 bytes with the unscaled value in its
               shortest big-endian form, then zeros

A null timestamp or decimal of these kinds still takes its space in the variable part, filled with zeros.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef enum:
    _FIXED = 0
    _BYTES = 1
    _TIMESTAMP = 2
    _DECIMAL = 3
    INLINE = 7  # the largest number of bytes that are stored in the field's own 8 bytes

FIXED, BYTES, TIMESTAMP, DECIMAL = _FIXED, _BYTES, _TIMESTAMP, _DECIMAL

cdef struct Field:
    int kind
    const uint8_t *nulls     # 1 where the row is null
    const int64_t *values    # fixed: 8 bytes; timestamp: milliseconds; bytes: offsets; decimal: (low, high) pairs
    const uint8_t *data      # bytes only
    const int32_t *nanos     # timestamp only


cdef inline uint32_t _mix(uint32_t h, uint32_t word) noexcept nogil:
    word *= <uint32_t> 0xCC9E2D51
    word = (word << 15) | (word >> 17)
    h ^= word * <uint32_t> 0x1B873593
    h = (h << 13) | (h >> 19)
    return h * 5 + <uint32_t> 0xE6546B64


cdef inline uint32_t _mix8(uint32_t h, uint64_t word) noexcept nogil:
    return _mix(_mix(h, <uint32_t> word), <uint32_t> (word >> 32))


cdef inline uint64_t _load(const uint8_t *at, int64_t length) noexcept nogil:
    """Reads ``length`` bytes (at most 8) as a little-endian number. The remaining high bytes of the number are
    zeros."""
    cdef uint64_t word = 0
    cdef int64_t i
    for i in range(length):
        word |= <uint64_t> at[i] << (8 * i)
    return word


cdef inline int _decimal_length(uint64_t low, uint64_t high) noexcept nogil:
    """The number of bytes of the shortest two's complement form of an integer."""
    cdef int length = 16, at
    cdef uint64_t sign = high >> 63, fill = 0xFF if sign else 0, byte, below
    while length > 1:
        at = length - 1
        byte = (high >> (8 * (at - 8)) if at >= 8 else low >> (8 * at)) & 0xFF
        at -= 1
        below = (high >> (8 * (at - 8)) if at >= 8 else low >> (8 * at)) & 0xFF
        if byte != fill or below >> 7 != sign:
            break
        length -= 1
    return length


cdef uint32_t _mix_decimal(uint32_t h, uint64_t low, uint64_t high, int length) noexcept nogil:
    cdef uint64_t first = 0, second = 0, byte
    cdef int i, at
    for i in range(length):
        at = length - 1 - i
        byte = (high >> (8 * (at - 8)) if at >= 8 else low >> (8 * at)) & 0xFF
        if i < 8:
            first |= byte << (8 * i)
        else:
            second |= byte << (8 * (i - 8))
    return _mix8(_mix8(h, first), second)


cdef uint32_t _hash_row(const Field *fields, int n, int64_t row) noexcept nogil:
    cdef uint32_t h = 42
    cdef uint64_t word = 0
    cdef int64_t null_bytes = ((n + 63 + 8) // 64) * 8
    cdef int64_t cursor = null_bytes + 8 * n, length, at
    cdef int i
    cdef const Field *field
    for i in range(n):
        word |= <uint64_t> fields[i].nulls[row] << ((i + 8) & 63)
        if (i + 8) & 63 == 63:
            h = _mix8(h, word)
            word = 0
    if (n + 8) & 63:
        h = _mix8(h, word)
    for i in range(n):
        field = &fields[i]
        if field.kind == _FIXED:
            h = _mix8(h, 0 if field.nulls[row] else <uint64_t> field.values[row])
        elif field.kind == _BYTES:
            length = 0 if field.nulls[row] else field.values[row + 1] - field.values[row]
            if field.nulls[row]:
                h = _mix8(h, 0)
            elif length <= INLINE:
                h = _mix8(h, _load(field.data + field.values[row], length) | <uint64_t> (0x80 | length) << 56)
            else:
                h = _mix8(h, <uint64_t> cursor << 32 | <uint64_t> length)
                cursor += (length + 7) & ~7
        elif field.kind == _TIMESTAMP:
            h = _mix8(h, <uint64_t> cursor << 32 | <uint64_t> (0 if field.nulls[row] else field.nanos[row]))
            cursor += 8
        else:
            length = 0
            if not field.nulls[row]:
                length = _decimal_length(<uint64_t> field.values[2 * row], <uint64_t> field.values[2 * row + 1])
            h = _mix8(h, <uint64_t> cursor << 32 | <uint64_t> length)
            cursor += 16
    for i in range(n):
        field = &fields[i]
        if field.kind == _BYTES and not field.nulls[row]:
            length = field.values[row + 1] - field.values[row]
            if length > INLINE:
                at = field.values[row]
                while length > 0:
                    h = _mix8(h, _load(field.data + at, 8 if length > 8 else length))
                    at += 8
                    length -= 8
        elif field.kind == _TIMESTAMP:
            h = _mix8(h, 0 if field.nulls[row] else <uint64_t> field.values[row])
        elif field.kind == _DECIMAL and field.nulls[row]:
            h = _mix8(_mix8(h, 0), 0)
        elif field.kind == _DECIMAL:
            length = _decimal_length(<uint64_t> field.values[2 * row], <uint64_t> field.values[2 * row + 1])
            h = _mix_decimal(h, <uint64_t> field.values[2 * row], <uint64_t> field.values[2 * row + 1], <int> length)
    h ^= <uint32_t> cursor
    h ^= h >> 16
    h *= <uint32_t> 0x85EBCA6B
    h ^= h >> 13
    h *= <uint32_t> 0xC2B2AE35
    return h ^ (h >> 16)


def hash_rows(list columns, int64_t rows):
    """One int32 hash per row. A column is (kind, nulls uint8, values int64, data uint8 or None, nanos int32 or None).

    Raises ``ValueError`` if an array is too short for ``rows``, or if an offset is outside of its data.
    """
    cdef int n = len(columns), i
    cdef int64_t row
    cdef int32_t[::1] out = np.empty(rows, dtype=np.int32)
    cdef const uint8_t[::1] nulls, data
    cdef const int64_t[::1] values
    cdef const int32_t[::1] nanos
    cdef Field *fields = <Field *> malloc((n + 1) * sizeof(Field))
    if not fields:
        raise MemoryError
    try:
        for i in range(n):
            kind, nulls, values, data, nanos = columns[i]
            fields[i].kind = kind
            _check(kind, nulls, values, data, nanos, rows)
            fields[i].nulls = &nulls[0] if rows else NULL
            fields[i].values = &values[0] if values.shape[0] else NULL
            fields[i].data = &data[0] if data is not None and data.shape[0] else NULL
            fields[i].nanos = &nanos[0] if nanos is not None and rows else NULL
        with nogil:
            for row in range(rows):
                out[row] = <int32_t> _hash_row(fields, n, row)
    finally:
        free(fields)
    return np.asarray(out)


cdef _check(int kind, const uint8_t[::1] nulls, const int64_t[::1] values, const uint8_t[::1] data,
            const int32_t[::1] nanos, int64_t rows):
    cdef int64_t need = rows + 1 if kind == _BYTES else 2 * rows if kind == _DECIMAL else rows
    cdef int64_t i
    if nulls.shape[0] < rows or values.shape[0] < need or (kind == _TIMESTAMP and nanos.shape[0] < rows):
        raise ValueError(f"a column is shorter than {rows} rows")
    if kind == _BYTES:
        for i in range(rows):
            if not 0 <= values[i] <= values[i + 1]:
                raise ValueError(f"offset {values[i]} of row {i} is not in order")
        if values[rows] > (data.shape[0] if data is not None else 0):
            raise ValueError(f"offset {values[rows]} is outside the data")
