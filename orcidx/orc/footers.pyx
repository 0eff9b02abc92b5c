"""Parses footers. Their messages may have fields for each column, but no object is created for each column.

    Footer         3 StripeInformation*  4 Type*  5 UserMetadataItem*  7 ColumnStatistics*  8 row index stride
                   9 writer  10 Encryption  11 calendar  12 software version
    PostScript     1 footer length  2 codec  3 block size  4 version*  5 metadata length  6 writer version
                   7 length of the encrypted statistics of stripes
    Type           1 kind  2 subtypes  3 names  4 length  5 precision  6 scale  7 attributes  8 CRS  9 edge algorithm

All bytes of a message are checked first. Later a value is looked up, and an object is created for it, only when it is
used. ``wire`` has the rules of proto2: the last occurrence of a field counts, and a field of another wire type is
unknown.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcidx.orc.wire cimport (
    LENGTH, VARINT, Cursor, Field, corrupt, inner_cursor, open_cursor, read_field, read_varint, text_of, too_many,
    unzigzag,
)

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.wire import Message

__all__ = [
    "FooterParts",
    "count_types",
    "integer_extremes",
    "read_types",
    "split_footer",
    "split_postscript",
]


cdef enum:
    PLAIN_TYPE = 32         # Type messages of more bytes are not compared with earlier ones


cdef object blob_of(Cursor* cursor, Field* field):
    return PyBytes_FromStringAndSize(<const char*>cursor.base + field.start, <Py_ssize_t>field.value)


cdef class FooterParts:
    """The parts of a Footer. ``stripes``: five numbers for each stripe. ``types``: the number of types. ``type_bytes``:
    the raw bytes of all fields number 4, one after the other. They are equal in files of one schema. ``items``: the
    messages of user metadata. ``software`` and ``encryption``: the bytes of these fields, or None for a missing field.
    ``stride``, ``writer`` and ``calendar``: the numbers in these fields."""

    cdef readonly list stripes, items
    cdef readonly bytes type_bytes, software, encryption
    cdef readonly Py_ssize_t types
    cdef readonly uint64_t stride, writer, calendar


def split_footer(const uint8_t[::1] data not None, Py_ssize_t most):
    """The ``FooterParts`` of a Footer, without the statistics. Raises ``Unsupported`` for more than ``most`` fields."""
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t before, first = -1, last = 0, length = 0, fields = 0
    cdef FooterParts parts = FooterParts.__new__(FooterParts)
    parts.stripes, parts.items = [], []
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("Footer", before)
        fields += 1
        if fields > most:
            raise too_many("Footer", most)
        if field.wire_type == LENGTH:
            if field.number == 3:
                parts.stripes.append(stripe_numbers(inner_cursor(&cursor, &field), field.start))
            elif field.number == 4:
                first, last = before if first < 0 else first, cursor.at
                length += cursor.at - before
                parts.types += 1
            elif field.number == 5:
                parts.items.append(blob_of(&cursor, &field))
            elif field.number == 10:
                parts.encryption = blob_of(&cursor, &field)
            elif field.number == 12:
                parts.software = blob_of(&cursor, &field)
        elif field.wire_type == VARINT:
            if field.number == 8:
                parts.stride = field.value
            elif field.number == 9:
                parts.writer = field.value
            elif field.number == 11:
                parts.calendar = field.value
    parts.type_bytes = PyBytes_FromStringAndSize(<const char*>cursor.base + first if length == last - first else NULL,
                                                 length) if length else b""
    if length and length != last - first:
        fill_types(open_cursor(data), <uint8_t*><char*>parts.type_bytes)
    return parts


cdef void fill_types(Cursor cursor, uint8_t* types) noexcept:
    # The caller has checked the message and counted its types. `types` points into a new bytes object that no other
    # code uses yet, so its bytes may still be written.
    cdef Field field
    cdef Py_ssize_t before = cursor.at
    while cursor.at < cursor.end and read_field(&cursor, &field):
        if field.wire_type == LENGTH and field.number == 4:
            memcpy(types, cursor.base + before, cursor.at - before)
            types += cursor.at - before
        before = cursor.at


def integer_extremes(const uint8_t[::1] data not None, Py_ssize_t column):
    """Returns (count, minimum, maximum) of a column from a Footer's IntegerStatistics. Returns None if one of them is
    missing, or if the bytes are not statistics."""
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef uint64_t count = 0
    cdef int64_t ends[2]
    cdef int seen = 0
    while cursor.at < cursor.end and read_field(&cursor, &field):
        if field.wire_type == LENGTH and field.number == 7:
            if column == 0:
                return (count, ends[0], ends[1]) if read_extremes(inner_cursor(&cursor, &field), &count, ends, &seen) \
                    and seen == 7 and count <= <uint64_t> INT64_MAX else None
            column -= 1
    return None


cdef bint read_extremes(Cursor cursor, uint64_t* count, int64_t* ends, int* seen) noexcept nogil:
    # Reads the count, the minimum and the maximum of statistics of integers. Sets bit 0 of `seen` if there is a count,
    # bit 1 for a minimum, and bit 2 for a maximum. Returns False if the bytes are not a message.
    cdef Field field
    cdef Cursor inner
    while cursor.at < cursor.end:
        if not read_field(&cursor, &field):
            return False
        if field.wire_type == VARINT and field.number == 1:
            count[0] = field.value
            seen[0] |= 1
        elif field.wire_type == LENGTH and field.number == 2:
            inner = inner_cursor(&cursor, &field)
            while inner.at < inner.end:
                if not read_field(&inner, &field):
                    return False
                if field.wire_type == VARINT and 1 <= field.number <= 2:
                    ends[field.number - 1] = unzigzag(field.value)
                    seen[0] |= 1 << field.number
    return True


def split_postscript(const uint8_t[::1] data not None, uint64_t block_size):
    """Returns (length of the Footer, codec, block size, version, length of the Metadata, version of the writer, length
    of the encrypted statistics of stripes). ``block_size``: used if the PostScript has none."""
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t before, left = data.shape[0]
    cdef uint64_t numbers[8]
    cdef list version = []
    numbers[:] = [0, 0, 0, block_size, 0, 0, 0, 0]
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("PostScript", before)
        if field.number == 4 and field.wire_type in (VARINT, LENGTH):
            add_numbers(&cursor, &field, version, &left, "PostScript")
        elif field.wire_type == VARINT and field.number < 8:
            numbers[field.number] = field.value
    return numbers[1], numbers[2], numbers[3], tuple(version), numbers[5], numbers[6], numbers[7]


cdef tuple stripe_numbers(Cursor cursor, Py_ssize_t start):
    cdef uint64_t numbers[5]
    cdef Field field
    cdef Py_ssize_t before
    numbers[0] = numbers[1] = numbers[2] = numbers[3] = numbers[4] = 0
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("StripeInformation", before - start)
        if field.wire_type == VARINT and 1 <= field.number <= 5:
            numbers[field.number - 1] = field.value
    return numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]


# ---------------------------------------------------------------------- types


def count_types(const uint8_t[::1] data not None):
    """The number of Type messages in a footer's type fields (see ``split_footer``)."""
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t found = 0
    while cursor.at < cursor.end and read_field(&cursor, &field):
        found += 1
    return found


def read_types(const uint8_t[::1] data not None, Py_ssize_t most, make):
    """Calls ``make(column id, fields)`` with the nine fields of each Type message of a footer's type fields (see
    ``split_footer``) and returns the results. Many types without children may have equal messages. ``make`` is called
    only once for all of these.

    ``most``: the most children, names and attributes of all types together. Raises ``Unsupported`` for more.
    """
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t left = most, before
    cdef list found = []
    cdef dict plain = {}
    while cursor.at < cursor.end and read_field(&cursor, &field):
        message = blob_of(&cursor, &field) if field.value <= PLAIN_TYPE else None
        made = None if message is None else plain.get(message)
        if made is None:
            before = left
            made = make(len(found), read_type(inner_cursor(&cursor, &field), field.start, &left))
            if message is not None and left == before:
                plain[message] = made
        found.append(made)
        if left < 0:
            raise Unsupported(f"the types have more than {most} children, names and attributes; "
                              "raise the option metadata_items to read them")
    return found


cdef tuple read_type(Cursor cursor, Py_ssize_t start, Py_ssize_t* left):
    cdef Field field
    cdef Py_ssize_t before
    cdef uint64_t kind = 0, length = 0, precision = 0, scale = 0
    cdef list subtypes = [], names = [], attributes = []
    crs = edge = None
    while cursor.at < cursor.end and left[0] >= 0:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("Type", before - start)
        if field.number == 2 and field.wire_type in (VARINT, LENGTH):
            add_numbers(&cursor, &field, subtypes, left, "Type")
        elif field.wire_type == LENGTH:
            left[0] -= field.number == 3 or field.number == 7
            if field.number == 3:
                names.append(text_of(blob_of(&cursor, &field), "Type", "strict"))
            elif field.number == 7:
                attributes.append(attribute_of(blob_of(&cursor, &field)))
            elif field.number == 8:
                crs = blob_of(&cursor, &field).decode("utf-8", "replace")
        elif field.wire_type == VARINT:
            if field.number == 1:
                kind = field.value
            elif field.number == 4:
                length = field.value
            elif field.number == 5:
                precision = field.value
            elif field.number == 6:
                scale = field.value
            elif field.number == 9:
                edge = field.value
    return kind, tuple(subtypes), tuple(names), length, precision, scale, tuple(attributes), crs, edge


cdef int add_numbers(Cursor* cursor, Field* field, list out, Py_ssize_t* left, str name) except -1:
    cdef Cursor packed
    cdef uint64_t value
    if field.wire_type == VARINT:
        left[0] -= 1
        out.append(field.value)
        return 0
    packed = inner_cursor(cursor, field)
    while packed.at < packed.end and left[0] >= 0:
        left[0] -= 1
        if not read_varint(&packed, &value):
            raise CorruptFile(f"field {field.number} of the {name} is truncated inside a packed number")
        out.append(value)
    return 0


cdef tuple attribute_of(bytes raw):
    pair = Message(raw, "StringPair")
    return pair.text(1, "replace"), pair.text(2, "replace")
