"""The messages of footers that grow with the columns of a file, walked without an object for each column.

    Footer         3 StripeInformation*  4 Type*  7 ColumnStatistics*
    StripeFooter   1 Stream* (1 kind, 2 column, 3 length)  2 ColumnEncoding* (1 kind, 2 entries, 3 bloom encoding)
    Type           1 kind  2 subtypes  3 names  4 length  5 precision  6 scale  7 attributes  8 CRS  9 edge algorithm

What is asked for is looked up, or made, then; everything was checked before. Rules of proto2 as in ``wire``: the last
occurrence of a field counts, a field of another wire type is unknown.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from orcidx.orc.wire cimport LENGTH, VARINT, Cursor, Field, open_cursor, read_field, read_varint

import numpy as np

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.wire import Message

__all__ = ["EncodingTable", "StreamTable", "count_types", "read_types", "split_footer", "split_stripe_footer"]


cdef object corrupt(str name, Py_ssize_t at):
    return CorruptFile(f"the {name} breaks off or holds no protobuf field at its byte {at}")


cdef object too_many(str name, Py_ssize_t most):
    return Unsupported(f"the {name} lists more than {most} items; the option metadata_items allows more")


cdef object blob_of(Cursor* cursor, Field* field):
    return PyBytes_FromStringAndSize(<const char*>cursor.base + field.start, <Py_ssize_t>field.value)


cdef Cursor inner_cursor(Cursor* cursor, Field* field) noexcept nogil:
    cdef Cursor inner
    inner.base = cursor.base
    inner.at = field.start
    inner.end = field.start + <Py_ssize_t>field.value
    return inner


cdef str text_of(bytes value, str name):
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(f"a name in the {name} is not UTF-8: {error.reason}") from error


def split_footer(const uint8_t[::1] data not None, Py_ssize_t most):
    """The parts of a Footer: (five numbers for each stripe, the type fields, the other fields without statistics).

    The type fields are the raw bytes of field 4, one after the other: files of one schema have the same. The other
    fields are a message as well. More than ``most`` fields are ``Unsupported``.
    """
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t before, types = 0, others = 0, fields = 0
    stripes = []
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("Footer", before)
        fields += 1
        if fields > most:
            raise too_many("Footer", most)
        if field.wire_type == LENGTH and field.number == 3:
            stripes.append(stripe_numbers(inner_cursor(&cursor, &field), field.start))
        elif field.wire_type == LENGTH and field.number == 4:
            types += cursor.at - before
        elif field.wire_type != LENGTH or field.number != 7:
            others += cursor.at - before
    cdef bytes type_bytes = PyBytes_FromStringAndSize(NULL, types)
    cdef bytes other_bytes = PyBytes_FromStringAndSize(NULL, others)
    fill_parts(open_cursor(data), <uint8_t*><char*>type_bytes, <uint8_t*><char*>other_bytes)
    return stripes, type_bytes, other_bytes


cdef void fill_parts(Cursor cursor, uint8_t* types, uint8_t* others) noexcept:
    # The message was checked, and the room counted. Both bytes objects are new, and nobody else's yet.
    cdef Field field
    cdef Py_ssize_t before = cursor.at
    while cursor.at < cursor.end and read_field(&cursor, &field):
        if field.wire_type == LENGTH and field.number == 4:
            memcpy(types, cursor.base + before, cursor.at - before)
            types += cursor.at - before
        elif field.wire_type != LENGTH or field.number not in (3, 7):
            memcpy(others, cursor.base + before, cursor.at - before)
            others += cursor.at - before
        before = cursor.at


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
    """How many Type messages there are in a footer's type fields (see ``split_footer``)."""
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t found = 0
    while cursor.at < cursor.end and read_field(&cursor, &field):
        found += 1
    return found


def read_types(const uint8_t[::1] data not None, Py_ssize_t most):
    """The Type messages of a footer's type fields (see ``split_footer``), a tuple of the nine fields for each.

    ``most``: children, names and attributes of all together; more are ``Unsupported``.
    """
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t left = most
    found = []
    while cursor.at < cursor.end and read_field(&cursor, &field):
        found.append(read_type(inner_cursor(&cursor, &field), field.start, &left))
        if left < 0:
            raise Unsupported(f"children, names and attributes of types: more than {most} for a file of this size; "
                              "the option metadata_items allows more")
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
            add_numbers(&cursor, &field, subtypes, left)
        elif field.wire_type == LENGTH:
            left[0] -= field.number == 3 or field.number == 7
            if field.number == 3:
                names.append(text_of(blob_of(&cursor, &field), "Type"))
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


cdef int add_numbers(Cursor* cursor, Field* field, list out, Py_ssize_t* left) except -1:
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
            raise CorruptFile("field 2 of the Type breaks off in a packed number")
        out.append(value)
    return 0


cdef tuple attribute_of(bytes raw):
    pair = Message(raw, "StringPair")
    return pair.text(1, "replace"), pair.text(2, "replace")


# ---------------------------------------------------------------------- stripe footers


def split_stripe_footer(const uint8_t[::1] data not None, Py_ssize_t most):
    """(streams as a ``StreamTable`` that is not located yet, encodings as an ``EncodingTable``, the other fields).

    More than ``most`` fields are ``Unsupported``.
    """
    cdef Cursor cursor = open_cursor(data)
    cdef Field field
    cdef Py_ssize_t before, streams = 0, encodings = 0, fields = 0
    others = []
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            raise corrupt("StripeFooter", before)
        fields += 1
        if fields > most:
            raise too_many("StripeFooter", most)
        if field.wire_type == LENGTH and field.number == 1:
            streams += 1
        elif field.wire_type == LENGTH and field.number == 2:
            encodings += 1
        else:
            others.append(PyBytes_FromStringAndSize(<const char*>cursor.base + before, cursor.at - before))
    numbers = np.zeros((streams, 3), np.uint64)
    kinds = np.zeros((encodings, 3), np.uint64)
    fill_numbers(open_cursor(data), 1, "Stream", numbers)
    fill_numbers(open_cursor(data), 2, "ColumnEncoding", kinds)
    return StreamTable(numbers, encodings), EncodingTable(kinds), b"".join(others)


cdef int fill_numbers(Cursor cursor, uint32_t number, str name, uint64_t[:, ::1] out) except -1:
    # The three numbers of each message of one field; the outer message was checked.
    cdef Field field, value
    cdef Cursor inner
    cdef Py_ssize_t before, at = 0
    while cursor.at < cursor.end and read_field(&cursor, &field):
        if field.number != number or field.wire_type != LENGTH:
            continue
        inner = inner_cursor(&cursor, &field)
        while inner.at < inner.end:
            before = inner.at
            if not read_field(&inner, &value):
                raise corrupt(name, before - field.start)
            if value.wire_type == VARINT and 1 <= value.number <= 3:
                out[at, value.number - 1] = value.value
        at += 1
    return 0


cdef class EncodingTable:
    """The encodings of a stripe's columns: ``table[column]`` is (kind, dictionary size, bloom encoding)."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return self.numbers.shape[0]

    def __getitem__(self, Py_ssize_t column):
        if not 0 <= column < self.numbers.shape[0]:
            raise IndexError(column)
        return self.numbers[column, 0], self.numbers[column, 1], self.numbers[column, 2]

    @property
    def largest_kind(self):
        """The largest kind of all."""
        cdef uint64_t largest = 0
        cdef Py_ssize_t i
        for i in range(self.numbers.shape[0]):
            largest = max(largest, self.numbers[i, 0])
        return largest


cdef class StreamTable:
    """The streams of a stripe, looked up by (column id, kind) once ``locate`` has placed them.

    Those of kinds that are not known, or of columns that the file does not have, only take their room.
    """

    def __init__(self, numbers, Py_ssize_t columns):
        self.numbers = numbers
        self.columns = columns
        self.offsets = np.zeros(len(numbers), np.int64)
        self.heads = np.full(columns, -1, np.int64)
        self.following = np.full(len(numbers), -1, np.int64)

    def __len__(self):
        return self.numbers.shape[0]

    def numbers_of(self, Py_ssize_t stream):
        """(kind, column id, length) of a stream by its place in the file."""
        if not 0 <= stream < self.numbers.shape[0]:
            raise IndexError(stream)
        return self.numbers[stream, 0], self.numbers[stream, 1], self.numbers[stream, 2]

    def locate(self, int64_t start, int64_t end, uint64_t known, uint64_t placeholders):
        """Places the streams one after the other from ``start``; called once.

        ``known`` and ``placeholders``: kinds as bits, of which a column has one of each, and which are no streams.
        Returns (stream, where it would start) of the first that ends behind ``end``, (stream, -1) of the first that is
        there twice, else None.
        """
        cdef Py_ssize_t i, count = self.numbers.shape[0]
        cdef uint64_t kind, column
        cdef int64_t at = start, other
        strangers = set()
        for i in range(count):
            kind, column = self.numbers[i, 0], self.numbers[i, 1]
            if end < at or self.numbers[i, 2] > <uint64_t>(end - at):
                return i, at
            self.offsets[i] = at
            at += <int64_t>self.numbers[i, 2]
            if kind >= 64 or known >> kind & 1 == 0 or placeholders >> kind & 1:
                continue
            if column >= <uint64_t>self.columns:
                if (column, kind) in strangers:
                    return i, -1
                strangers.add((column, kind))
                continue
            other = self.heads[column]
            while other >= 0:
                if self.numbers[other, 0] == kind:
                    return i, -1
                other = self.following[other]
            self.following[i] = self.heads[column]
            self.heads[column] = i
        return None

    def get(self, place, default=None):
        """(offset in the file, length) of the stream of ``place``: (column id, kind); ``default`` without one."""
        cdef int64_t i = self.find(place[0], place[1])
        return default if i < 0 else (self.offsets[i], <int64_t>self.numbers[i, 2])

    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept:
        cdef int64_t i = self.heads[column] if 0 <= column < self.columns else -1
        while i >= 0 and self.numbers[i, 0] != kind:
            i = self.following[i]
        return i

    def __contains__(self, place):
        return self.get(place) is not None

    def __getitem__(self, place):
        found = self.get(place)
        if found is None:
            raise KeyError(place)
        return found

    def items(self):
        """((column id, kind), (offset, length)) of every stream that can be looked up, in file order."""
        cdef Py_ssize_t i
        found = []
        for i in range(self.numbers.shape[0]):
            place = self.numbers[i, 1], self.numbers[i, 0]
            if self.get(place) == (self.offsets[i], self.numbers[i, 2]):
                found.append((place, (self.offsets[i], <int64_t>self.numbers[i, 2])))
        return found
