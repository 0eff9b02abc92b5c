"""Reads the wire format of Protocol Buffers (proto2), as far as ORC's messages need it.

A message is a series of fields. Each field is a varint key ``number << 3 | wire type`` and a value:

    0 varint            1..10 bytes, seven bits each, low bits first
    1 fixed 64 bits     little-endian
    2 length            varint length, then that many bytes (nested message, text, packed scalars)
    5 fixed 32 bits     little-endian

ORC does not use groups (wire types 3 and 4), so they are refused. Every read is checked against the end of its message.
A field whose wire type is not the expected one is unknown, and unknown fields are skipped.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int8_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from orcidx.errors import CorruptFile, Unsupported

__all__ = [
    "Message",
    "TypedPart",
    "read_index_entries",
    "read_statistics",
    "split_messages",
    "split_nested_messages",
]


cdef Py_ssize_t MOST_FIELDS = 250_000


cdef object corrupt(str name, Py_ssize_t at):
    return CorruptFile(f"the {name} is truncated or has no protobuf field at its byte {at}")


cdef object too_many(str name, Py_ssize_t most):
    return Unsupported(f"the {name} has more than {most} items; raise the option metadata_items to read them")


cdef str text_of(bytes value, str name, str errors):
    try:
        return value.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise CorruptFile(f"a name in the {name} is not UTF-8: {error.reason}") from error


cdef class Message:
    """The fields of one message, by number. A lookup returns the last occurrence, as proto2 requires.

    ``name``: what is being read, for errors. Raises ``CorruptFile`` with the offset of bytes that are not a field.
    Raises ``Unsupported`` for more than ``most`` fields, because each field takes some hundred bytes of memory.
    """

    cdef dict _fields
    cdef readonly str name
    cdef Py_ssize_t _most

    def __init__(self, buffer, str name not None, Py_ssize_t most=MOST_FIELDS):
        cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
        cdef Cursor cursor
        cdef Field field
        cdef Py_ssize_t before, found = 0
        cdef object value
        cdef list values
        self.name = name
        self._fields = {}
        self._most = most
        cursor = open_cursor(data)
        while cursor.at < cursor.end:
            before = cursor.at
            if not read_field(&cursor, &field):
                raise corrupt(name, before)
            found += 1
            if found > most:
                raise too_many(name, most)
            if field.wire_type == LENGTH:
                value = PyBytes_FromStringAndSize(<const char*>cursor.base + field.start, <Py_ssize_t>field.value)
            else:
                value = field.value
            values = self._fields.get(field.number)
            if values is None:
                values = self._fields[field.number] = []
            values.append((field.wire_type, value))

    cdef object _last(self, int number, int wire_type):
        cdef list values = self._fields.get(number)
        if values is not None:
            for kind, value in reversed(values):
                if kind == wire_type:
                    return value
        return None

    def has(self, int number):
        """Whether the field occurs, with any wire type."""
        return number in self._fields

    def uint(self, int number, default=0):
        """Returns a field of type uint64, uint32 or enum, or ``default`` if it is absent."""
        value = self._last(number, VARINT)
        return default if value is None else value

    def blob(self, int number, default=b""):
        """Returns a field of bytes or a nested message, or ``default`` if it is absent."""
        value = self._last(number, LENGTH)
        return default if value is None else value

    def double(self, int number):
        """Returns a field of type double, or None if it is absent."""
        cdef uint64_t bits
        cdef double result
        value = self._last(number, FIXED64)
        if value is None:
            return None
        bits = value
        memcpy(&result, &bits, 8)
        return result

    def text(self, int number, str errors="strict"):
        """Returns a field of type string, or "" if it is absent. ``errors`` has the same meaning as in
        ``bytes.decode``. With "strict", raises ``CorruptFile`` for bytes that are not UTF-8."""
        return text_of(self.blob(number), self.name, errors)

    def blobs(self, int number):
        """Returns a repeated field of bytes or messages as a list of bytes."""
        return [value for kind, value in self._fields.get(number, ()) if kind == LENGTH]

    def uints(self, int number):
        """Returns a repeated field of unsigned numbers, packed or not, as a list."""
        cdef list result = []
        cdef Cursor cursor
        cdef uint64_t element
        for kind, value in self._fields.get(number, ()):
            if kind == VARINT:
                result.append(value)
            elif kind == LENGTH:
                cursor = open_cursor(value)
                while cursor.at < cursor.end:
                    if not read_varint(&cursor, &element):
                        raise CorruptFile(f"field {number} of the {self.name} is truncated inside a packed number")
                    result.append(element)
                    if len(result) > self._most:
                        raise too_many(self.name, self._most)
        return result


# The following functions decode messages into columns. Extents are (start, stop) byte offsets into the buffer that was
# read. No bytes of this buffer are copied.


cdef Py_ssize_t count_field(Cursor cursor, uint32_t number) noexcept nogil:
    """Returns how often a LENGTH field occurs. If some bytes are not a field, returns -1 minus their offset."""
    cdef Field field
    cdef Py_ssize_t found = 0
    cdef Py_ssize_t before
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            return -1 - before
        found += field.number == number and field.wire_type == LENGTH
    return found


def split_messages(buffer, int number, str name not None, Py_ssize_t most=MOST_FIELDS):
    """Extents of a repeated message field: int64 arrays of starts and stops. Raises ``Unsupported`` for more than
    ``most`` messages."""
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef Cursor cursor = open_cursor(data)
    cdef Py_ssize_t found = count_field(cursor, number)
    if found < 0:
        raise corrupt(name, -1 - found)
    if found > most:
        raise too_many(name, most)
    starts, stops = np.empty(found, np.int64), np.empty(found, np.int64)
    fill_extents(&cursor, number, starts, stops, 0)
    return starts, stops


cdef Py_ssize_t fill_extents(Cursor* cursor, uint32_t number, int64_t[::1] starts, int64_t[::1] stops, Py_ssize_t at):
    """Writes the extents of a field from index ``at`` on. Returns the index after them. The message must have been
    checked."""
    cdef Field field
    while cursor.at < cursor.end and read_field(cursor, &field):
        if field.number == number and field.wire_type == LENGTH:
            starts[at] = field.start
            stops[at] = field.start + <Py_ssize_t>field.value
            at += 1
    return at


def split_nested_messages(buffer, int outer, int inner, str name not None, Py_ssize_t most=MOST_FIELDS):
    """Extents of a repeated message inside a repeated message. Raises ``Unsupported`` for more than ``most`` messages.

    Returns int64 arrays: ``bounds`` (outer message i has the inner messages bounds[i]..bounds[i + 1]), starts, stops.
    """
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef Cursor cursor = open_cursor(data)
    cdef Py_ssize_t i, found
    outer_starts, outer_stops = split_messages(buffer, outer, name, most)
    cdef int64_t[::1] first = outer_starts
    cdef int64_t[::1] last = outer_stops
    bounds = np.zeros(len(outer_starts) + 1, np.int64)
    cdef int64_t[::1] bound = bounds
    for i in range(first.shape[0]):
        cursor.at = first[i]
        cursor.end = last[i]
        found = count_field(cursor, inner)
        if found < 0:
            raise corrupt(name, -1 - found)
        bound[i + 1] = bound[i] + found
    found = bound[first.shape[0]]
    if found > most:
        raise too_many(name, most)
    starts, stops = np.empty(found, np.int64), np.empty(found, np.int64)
    for i in range(first.shape[0]):
        cursor.at = first[i]
        cursor.end = last[i]
        fill_extents(&cursor, inner, starts, stops, bound[i])
    return bounds, starts, stops


# The largest accepted mean count of positions in the entries of a row index. Valid entries have at most 16 positions,
# because a column has at most four streams, with at most four positions each.
cdef Py_ssize_t MOST_POSITIONS = 64


def read_index_entries(buffer, Py_ssize_t most=MOST_FIELDS):
    """Decodes a RowIndex message into columns. Raises ``Unsupported`` for more than ``most`` entries.

    Returns int64 arrays: ``bounds`` (the positions of entry i are bounds[i]..bounds[i + 1]), positions, and starts and
    stops of the entries' ColumnStatistics messages. If an entry has no such message, its start equals its stop. Raises
    ``CorruptFile`` for bytes that are not a RowIndex, and for positions of 2**63 and more.
    """
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t entry, at = 0
    entry_starts, entry_stops = split_messages(buffer, 1, "RowIndex", most)
    cdef Py_ssize_t entries = len(entry_starts)
    cdef int64_t[::1] first = entry_starts
    cdef int64_t[::1] last = entry_stops
    bounds, starts, stops = np.zeros(entries + 1, np.int64), np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    # Each position takes at least one byte. So there are at most as many positions as bytes.
    positions = np.empty(min(data.shape[0], entries * MOST_POSITIONS), np.int64)
    cdef int64_t[::1] bound = bounds
    cdef int64_t[::1] start = starts
    cdef int64_t[::1] stop = stops
    cdef int64_t[::1] position = positions
    for entry in range(entries):
        cursor.at = first[entry]
        cursor.end = last[entry]
        while cursor.at < cursor.end:
            if not read_field(&cursor, &field):
                raise corrupt("RowIndex", cursor.at)
            if field.number == 1 and field.wire_type in (VARINT, LENGTH):
                at = read_positions(cursor, field, position, at)
                if at == -2:
                    raise CorruptFile(f"the row index has more than {MOST_POSITIONS} positions for each entry")
                if at < 0:
                    raise CorruptFile(f"a position of row index entry {entry} is not a number below 2**63")
            elif field.number == 2 and field.wire_type == LENGTH:
                start[entry] = field.start
                stop[entry] = field.start + <Py_ssize_t>field.value
        bound[entry + 1] = at
    return bounds, positions[:at].copy(), starts, stops


cdef Py_ssize_t read_positions(Cursor cursor, Field field, int64_t[::1] out, Py_ssize_t at) noexcept nogil:
    """Appends one position, or several packed positions, and returns the new length. Returns -1 for bytes that are not
    positions, and -2 if ``out`` is full."""
    cdef uint64_t value = field.value
    if field.wire_type == VARINT:
        if at == out.shape[0]:
            return -2
        if value > <uint64_t>INT64_MAX:
            return -1
        out[at] = <int64_t>value
        return at + 1
    cursor = inner_cursor(&cursor, &field)
    while cursor.at < cursor.end:
        if not read_varint(&cursor, &value) or value > <uint64_t>INT64_MAX:
            return -1
        if at == out.shape[0]:
            return -2
        out[at] = <int64_t>value
        at += 1
    return at


cpdef enum TypedPart:
    """The typed parts of ColumnStatistics, by field number."""
    NOTHING = 0
    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BUCKET = 5
    DECIMAL = 6
    DATE = 7
    BINARY = 8
    TIMESTAMP = 9
    COLLECTION = 12


cdef struct Columns:
    int64_t* count
    int8_t* has_null
    int64_t* bytes_on_disk
    uint32_t* fields
    int64_t* integers           # rows of `entries` values; row f - 1 is for field number f
    double* doubles
    int64_t* spans
    Py_ssize_t entries


# For each typed part: the highest field number of its integers, of its doubles, and of its byte spans.
_ROWS = {
    TypedPart.NOTHING: (0, 0, 0),
    TypedPart.INTEGER: (3, 0, 0),
    TypedPart.DOUBLE: (0, 3, 0),
    TypedPart.STRING: (3, 0, 5),
    TypedPart.BUCKET: (1, 0, 0),
    TypedPart.DECIMAL: (0, 0, 3),
    TypedPart.DATE: (2, 0, 0),
    TypedPart.BINARY: (1, 0, 0),
    TypedPart.TIMESTAMP: (6, 0, 0),
    TypedPart.COLLECTION: (3, 0, 0),
}


def read_statistics(buffer, starts, stops, TypedPart part):
    """Decodes ColumnStatistics messages, with their typed part ``part``, into columns.

    ``starts`` and ``stops``: int64 extents of the n messages in the buffer. Returns a dict of arrays with an entry for
    each message:

    count           int64, -1 if absent or beyond 2**63
    has_null        int8: 1, 0, or -1 if absent
    bytes_on_disk   int64, -1 if absent or beyond 2**63
    fields          uint32, bit f is set if the typed part has field f; bit 0 is set if there is a typed part
    integers        int64 (rows, n): row f - 1 has field f, as in the next two arrays
    doubles         float64 (rows, n)
    spans           int64 (rows, n, 2): start and stop in the buffer
    """
    cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
    cdef const int64_t[::1] first = np.ascontiguousarray(starts, np.int64)
    cdef const int64_t[::1] last = np.ascontiguousarray(stops, np.int64)
    cdef Py_ssize_t entries = first.shape[0]
    cdef Py_ssize_t entry
    cdef Cursor cursor = open_cursor(data)
    cdef Columns out
    integer_rows, double_rows, span_rows = _ROWS[part]
    count, has_null = np.full(entries, -1, np.int64), np.full(entries, -1, np.int8)
    bytes_on_disk, fields = np.full(entries, -1, np.int64), np.zeros(entries, np.uint32)
    integers, doubles = np.zeros((integer_rows, entries), np.int64), np.zeros((double_rows, entries), np.float64)
    spans = np.zeros((span_rows, entries, 2), np.int64)
    if last.shape[0] != entries:
        raise ValueError("starts and stops differ in length")
    out.count = <int64_t*>start_of(count)
    out.has_null = <int8_t*>start_of(has_null)
    out.bytes_on_disk = <int64_t*>start_of(bytes_on_disk)
    out.fields = <uint32_t*>start_of(fields)
    out.integers = <int64_t*>start_of(integers)
    out.doubles = <double*>start_of(doubles)
    out.spans = <int64_t*>start_of(spans)
    out.entries = entries
    for entry in range(entries):
        if not 0 <= first[entry] <= last[entry] <= data.shape[0]:
            raise ValueError("an extent is outside the buffer")
        cursor.at = first[entry]
        cursor.end = last[entry]
        if not decode_statistics(&cursor, part, entry, &out):
            raise corrupt("ColumnStatistics", cursor.at)
    return {
        "count": count,
        "has_null": has_null,
        "bytes_on_disk": bytes_on_disk,
        "fields": fields,
        "integers": integers,
        "doubles": doubles,
        "spans": spans,
    }


cdef void* start_of(array) except? NULL:
    """Returns the address of a contiguous array, which the caller keeps alive. ``array.ctypes`` takes ten times as
    long."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return view.buf


cdef inline int64_t bounded(uint64_t value) noexcept nogil:
    return -1 if value > <uint64_t>INT64_MAX else <int64_t>value


cdef bint decode_statistics(Cursor* cursor, TypedPart part, Py_ssize_t entry, Columns* out) noexcept nogil:
    """Decodes one ColumnStatistics message into row ``entry``. Returns False if its bytes are not a message."""
    cdef Field field
    cdef Cursor inner
    while cursor.at < cursor.end:
        if not read_field(cursor, &field):
            return False
        if field.wire_type == VARINT:
            if field.number == 1:
                out.count[entry] = bounded(field.value)
            elif field.number == 10:
                out.has_null[entry] = field.value != 0
            elif field.number == 11:
                out.bytes_on_disk[entry] = bounded(field.value)
        elif field.wire_type == LENGTH and part != TypedPart.NOTHING and field.number == <uint32_t>part:
            out.fields[entry] |= 1
            inner = inner_cursor(cursor, &field)
            if not decode_typed(&inner, part, entry, out):
                return False
    return True


cdef bint decode_typed(Cursor* cursor, TypedPart part, Py_ssize_t entry, Columns* out) noexcept nogil:
    """Decodes the typed part of a ColumnStatistics message. Fields of an unexpected wire type count as unknown."""
    cdef Field field
    cdef uint64_t value
    cdef Py_ssize_t slot
    while cursor.at < cursor.end:
        if not read_field(cursor, &field):
            return False
        if field.number > 6:
            continue
        slot = (field.number - 1) * out.entries + entry
        if part == TypedPart.DOUBLE:
            if field.number <= 3 and field.wire_type == FIXED64:
                memcpy(&out.doubles[slot], &field.value, 8)
                out.fields[entry] |= <uint32_t>1 << field.number
        elif part == TypedPart.BUCKET:
            if field.number == 1 and not out.fields[entry] & 2 and first_count(cursor, field, &value):
                out.integers[slot] = bounded(value)
                out.fields[entry] |= 2
        elif is_span(part, field):
            out.spans[2 * slot] = field.start
            out.spans[2 * slot + 1] = field.start + <Py_ssize_t>field.value
            out.fields[entry] |= <uint32_t>1 << field.number
        elif field.wire_type == VARINT and is_integer(part, field.number):
            if part == TypedPart.COLLECTION:
                out.integers[slot] = bounded(field.value)
            elif part == TypedPart.TIMESTAMP and field.number >= 5:
                out.integers[slot] = <int64_t>field.value
            else:
                out.integers[slot] = unzigzag(field.value)
            out.fields[entry] |= <uint32_t>1 << field.number
    return True


cdef inline bint is_span(TypedPart part, Field field) noexcept nogil:
    if field.wire_type != LENGTH:
        return False
    return (part == TypedPart.STRING and field.number in (1, 2, 4, 5)) or (
        part == TypedPart.DECIMAL and field.number <= 3
    )


cdef inline bint is_integer(TypedPart part, uint32_t number) noexcept nogil:
    if part == TypedPart.STRING:
        return number == 3
    if part == TypedPart.DECIMAL:
        return False
    if part == TypedPart.DATE:
        return number <= 2
    if part == TypedPart.BINARY:
        return number == 1
    return number <= 3 or part == TypedPart.TIMESTAMP


cdef inline bint first_count(Cursor* cursor, Field field, uint64_t* value) noexcept nogil:
    """Reads the first of the bucket counts, packed or not."""
    cdef Cursor packed
    if field.wire_type == VARINT:
        value[0] = field.value
        return True
    packed = inner_cursor(cursor, &field)
    return field.wire_type == LENGTH and read_varint(&packed, value)
