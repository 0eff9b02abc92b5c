"""Primitives of the wire format for modules that decode messages, and their errors."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef enum:
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5


cdef struct Cursor:
    const uint8_t* base
    Py_ssize_t at
    Py_ssize_t end


cdef struct Field:
    uint32_t number
    int wire_type
    uint64_t value          # varint or fixed bits; the number of bytes for LENGTH
    Py_ssize_t start        # where the bytes of a LENGTH field start


cdef inline bint read_varint(Cursor* cursor, uint64_t* value) noexcept nogil:
    """Reads a varint. Returns False if it extends past the end or past ten bytes. Bits above 64 are dropped, as in
    protobuf."""
    cdef uint64_t result = 0
    cdef uint8_t byte
    cdef int shift = 0
    while cursor.at < cursor.end and shift < 70:
        byte = cursor.base[cursor.at]
        cursor.at += 1
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return True
        shift += 7
    return False


cdef inline bint read_field(Cursor* cursor, Field* field) noexcept nogil:
    """Reads one field and moves past it. Returns False if the bytes are not a field."""
    cdef uint64_t key
    cdef uint32_t narrow = 0
    if not read_varint(cursor, &key) or key > 0xFFFFFFFFULL or key < 8:
        return False
    field.number = <uint32_t>(key >> 3)
    field.wire_type = <int>(key & 7)
    field.value = 0
    field.start = 0
    if field.wire_type == VARINT:
        return read_varint(cursor, &field.value)
    if field.wire_type == LENGTH:
        if not read_varint(cursor, &field.value) or field.value > <uint64_t>(cursor.end - cursor.at):
            return False
        field.start = cursor.at
        cursor.at += <Py_ssize_t>field.value
        return True
    if field.wire_type == FIXED64:
        if cursor.end - cursor.at < 8:
            return False
        memcpy(&field.value, cursor.base + cursor.at, 8)
        cursor.at += 8
        return True
    if field.wire_type == FIXED32:
        if cursor.end - cursor.at < 4:
            return False
        memcpy(&narrow, cursor.base + cursor.at, 4)
        field.value = narrow
        cursor.at += 4
        return True
    return False


cdef inline int64_t unzigzag(uint64_t value) noexcept nogil:
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline Cursor inner_cursor(const Cursor* cursor, const Field* field) noexcept nogil:
    """A cursor over the bytes of a LENGTH field."""
    cdef Cursor inner
    inner.base = cursor.base
    inner.at = field.start
    inner.end = field.start + <Py_ssize_t>field.value
    return inner


cdef inline Cursor open_cursor(const uint8_t[::1] data) noexcept:
    cdef Cursor cursor
    cursor.base = &data[0] if data.shape[0] else NULL
    cursor.at = 0
    cursor.end = data.shape[0]
    return cursor


# The error for bytes of the message ``name`` that are not a field.
cdef object corrupt(str name, Py_ssize_t at)
# The error for a message with more than ``most`` items.
cdef object too_many(str name, Py_ssize_t most)
# Decodes a name in a message. Raises CorruptFile for bytes that are not UTF-8, unless ``errors`` says otherwise.
cdef str text_of(bytes value, str name, str errors)
