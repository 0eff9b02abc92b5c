"""Parses stripe footers. No object is created for each stream or column.

    StripeFooter   1 Stream* (1 kind, 2 column, 3 length)  2 ColumnEncoding* (1 kind, 2 entries, 3 bloom encoding)

All bytes of a message are checked first. ``wire`` has the rules of proto2: the last occurrence of a field counts, and a
field of another wire type is unknown.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from orcidx.orc.wire cimport (
    LENGTH, VARINT, Cursor, Field, corrupt, inner_cursor, open_cursor, read_field, too_many,
)

from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import EncodingKind, StreamKind

__all__ = ["MOST_STREAMS", "EncodingTable", "StreamTable", "split_stripe_footer"]

cdef enum:
    STREAMS_OF_A_COLUMN = 16

MOST_STREAMS = STREAMS_OF_A_COLUMN
"""The most streams of a column. The format has 13 kinds, and every writer writes at most 8 of them."""

# The kinds, as bits, of entries that are not streams, because the streams are encrypted.
cdef uint64_t PLACEHOLDERS = 1 << StreamKind.ENCRYPTED_INDEX | 1 << StreamKind.ENCRYPTED_DATA
# The kinds, as bits, of which a column may have only one stream. Higher kinds are for statistics of encrypted columns
# and do not occur in stripes.
cdef uint64_t KNOWN = sum(1 << kind for kind in StreamKind if kind < 64) & ~PLACEHOLDERS

cdef uint64_t LARGEST_ENCODING = max(EncodingKind)

cdef tuple ENCODING_KINDS = tuple(EncodingKind)
cdef tuple PLAIN = tuple(map(ColumnEncoding, EncodingKind))


# The fields of a StripeFooter. `others`: the number of fields that are neither streams nor encodings. The last of these
# fields begins at `start` and ends at `stop`.
cdef struct StripeFields:
    Py_ssize_t total
    Py_ssize_t streams
    Py_ssize_t encodings
    Py_ssize_t others
    Py_ssize_t start
    Py_ssize_t stop


def split_stripe_footer(const uint8_t[::1] data not None, Py_ssize_t most):
    """Parses a StripeFooter. Returns its streams as a ``StreamTable``, its encodings as an ``EncodingTable``, and the
    bytes of its other fields.

    The caller must call ``locate`` of the ``StreamTable`` before it looks up streams. Raises ``Unsupported`` for more
    than ``most`` fields.
    """
    cdef Cursor cursor = open_cursor(data)
    cdef StripeFields fields
    cdef Py_ssize_t wrong = count_fields(cursor, most, &fields)
    if wrong >= 0:
        raise corrupt("StripeFooter", wrong)
    if fields.total > most:
        raise too_many("StripeFooter", most)
    cdef StreamTable streams = StreamTable.__new__(StreamTable, fields.streams, fields.encodings)
    cdef EncodingTable encodings = EncodingTable.__new__(EncodingTable, fields.encodings)
    wrong = fill_numbers(cursor, 1, &streams.rows[0].kind, sizeof(StreamRow))
    if wrong >= 0:
        raise corrupt("Stream", wrong)
    wrong = fill_numbers(cursor, 2, &encodings.rows[0].kind, sizeof(EncodingRow))
    if wrong >= 0:
        raise corrupt("ColumnEncoding", wrong)
    return streams, encodings, other_fields(cursor) if fields.others else b""


cdef Py_ssize_t count_fields(Cursor cursor, Py_ssize_t most, StripeFields* fields) noexcept nogil:
    # Counts the fields of a StripeFooter, up to one more than `most`. Returns where the bytes are not a field, or -1.
    cdef Field field
    cdef Py_ssize_t before
    memset(fields, 0, sizeof(StripeFields))
    while cursor.at < cursor.end and fields.total <= most:
        before = cursor.at
        if not read_field(&cursor, &field):
            return before
        fields.total += 1
        if field.wire_type == LENGTH and field.number == 1:
            fields.streams += 1
        elif field.wire_type == LENGTH and field.number == 2:
            fields.encodings += 1
        else:
            fields.others += 1
            fields.start, fields.stop = before, cursor.at
    return -1


cdef bytes other_fields(Cursor cursor):
    # The bytes of the fields that are neither streams nor encodings. The caller has checked the message.
    cdef Field field
    cdef Py_ssize_t before
    cdef list others = []
    while cursor.at < cursor.end:
        before = cursor.at
        if not read_field(&cursor, &field):
            break
        if field.wire_type != LENGTH or not 1 <= field.number <= 2:
            others.append(PyBytes_FromStringAndSize(<const char*> cursor.base + before, cursor.at - before))
    return b"".join(others)


cdef Py_ssize_t fill_numbers(Cursor cursor, uint32_t number, uint64_t* out, size_t step) noexcept nogil:
    # Reads up to three numbers from each message of one field to `out`. The numbers of the next message are written
    # `step` bytes later. The caller has checked the outer message. Returns where the bytes of an inner message are not
    # a field, or -1.
    cdef Field field, value
    cdef Cursor inner
    cdef Py_ssize_t before
    while cursor.at < cursor.end and read_field(&cursor, &field):
        if field.number != number or field.wire_type != LENGTH:
            continue
        inner = inner_cursor(&cursor, &field)
        while inner.at < inner.end:
            before = inner.at
            if not read_field(&inner, &value):
                return before - field.start
            if value.wire_type == VARINT and 1 <= value.number <= 3:
                out[value.number - 1] = value.value
        out = <uint64_t*> (<char*> out + step)
    return -1


cdef bint read_tables(const uint8_t* data, Py_ssize_t length, Py_ssize_t columns, Py_ssize_t most, int64_t start,
                      int64_t end, StripeTables* tables) noexcept nogil:
    cdef Cursor cursor
    cdef StripeFields fields
    cdef Located found
    cursor.base, cursor.at, cursor.end = data, 0, length
    if (count_fields(cursor, most, &fields) >= 0 or fields.total > most or fields.encodings != columns
            or fields.streams > STREAMS_OF_A_COLUMN * columns or fields.others > 1):
        return False
    tables.streams, tables.columns = fields.streams, columns
    tables.start, tables.stop = fields.start, fields.stop
    tables.rows = <StreamRow*> calloc(fields.streams or 1, sizeof(StreamRow))
    tables.heads = <int64_t*> calloc(columns or 1, sizeof(int64_t))
    tables.encodings = <EncodingRow*> calloc(columns or 1, sizeof(EncodingRow))
    if (tables.rows != NULL and tables.heads != NULL and tables.encodings != NULL
            and fill_numbers(cursor, 1, &tables.rows[0].kind, sizeof(StreamRow)) < 0
            and fill_numbers(cursor, 2, &tables.encodings[0].kind, sizeof(EncodingRow)) < 0
            and largest_encoding(tables.encodings, columns) <= LARGEST_ENCODING):
        locate_streams(tables.rows, fields.streams, tables.heads, columns, start, end, &found)
        if found.wrong < 0 and not found.strangers:
            return True
    free_tables(tables)
    return False


cdef void free_tables(StripeTables* tables) noexcept nogil:
    free(tables.rows)
    free(tables.heads)
    free(tables.encodings)
    tables.rows, tables.heads, tables.encodings = NULL, NULL, NULL


cdef tuple taken_tables(StripeTables* tables):
    cdef StreamTable streams = StreamTable.__new__(StreamTable, -1, -1)
    cdef EncodingTable encodings = EncodingTable.__new__(EncodingTable, -1)
    streams.rows, streams.heads, encodings.rows = tables.rows, tables.heads, tables.encodings
    streams.streams, streams.columns, encodings.columns = tables.streams, tables.columns, tables.columns
    tables.rows, tables.heads, tables.encodings = NULL, NULL, NULL
    return streams, encodings


cdef uint64_t largest_encoding(const EncodingRow* rows, Py_ssize_t columns) noexcept nogil:
    cdef uint64_t largest = 0
    cdef Py_ssize_t column
    for column in range(columns):
        largest = max(largest, rows[column].kind)
    return largest


# The result of `locate_streams`. `wrong`: the first stream that is wrong, or -1. `at`: where it starts, if it ends too
# late, or -1 if its column has two streams of its kind. `strangers`: whether there are streams of columns that the file
# does not have.
cdef struct Located:
    Py_ssize_t wrong
    int64_t at
    bint strangers


cdef void locate_streams(StreamRow* rows, Py_ssize_t streams, int64_t* heads, Py_ssize_t columns, int64_t start,
                         int64_t end, Located* found) noexcept nogil:
    # Computes the positions of the streams, one after the other from `start`. All must end before `end`.
    cdef Py_ssize_t number
    cdef uint64_t column
    cdef int64_t other
    cdef StreamRow* row
    found.wrong, found.at, found.strangers = -1, start, False
    for number in range(columns):
        heads[number] = -1
    for number in range(streams):
        row = &rows[number]
        column = row.column
        if end < found.at or row.length > <uint64_t> (end - found.at):
            found.wrong = number
            return
        row.offset = found.at
        found.at += <int64_t> row.length
        if row.kind >= 64 or not KNOWN >> row.kind & 1:
            continue
        if column >= <uint64_t> columns:
            found.strangers = True
            continue
        other = heads[column]
        while other >= 0:
            if rows[other].kind == row.kind:
                found.wrong, found.at = number, -1
                return
            other = rows[other].following
        row.following = heads[column]
        heads[column] = number


cdef void* cleared(Py_ssize_t count, size_t size) except NULL:
    cdef void* room = calloc(count if count else 1, size)
    if room == NULL:
        raise MemoryError
    return room


cdef class EncodingTable:
    """The encodings of a stripe, by column id. ``columns``: -1 if the caller sets the rows."""

    def __cinit__(self, Py_ssize_t columns):
        if columns >= 0:
            self.rows = <EncodingRow*> cleared(columns, sizeof(EncodingRow))
            self.columns = columns

    def __dealloc__(self):
        free(self.rows)

    def __len__(self):
        return self.columns

    def __getitem__(self, Py_ssize_t column):
        cdef EncodingRow* row
        if not 0 <= column < self.columns:
            raise IndexError(column)
        row = &self.rows[column]
        if row.kind > LARGEST_ENCODING:
            raise ValueError(f"encoding kind {row.kind} is unknown")
        if not row.dictionary_size and not row.bloom_encoding:
            return PLAIN[row.kind]
        return ColumnEncoding(ENCODING_KINDS[row.kind], row.dictionary_size, row.bloom_encoding)

    @property
    def largest_kind(self):
        """The largest number of an encoding kind that occurs in the table."""
        return largest_encoding(self.rows, self.columns)


cdef class StreamTable:
    """The streams of a stripe. They can be looked up by (column id, kind) after ``locate`` has computed their
    positions. ``streams`` and ``columns``: -1 if the caller sets the rows.

    For streams of unknown kinds, and for streams of columns that the file does not have, only the length is used.
    """

    def __cinit__(self, Py_ssize_t streams, Py_ssize_t columns):
        if streams >= 0:
            self.rows = <StreamRow*> cleared(streams, sizeof(StreamRow))
            self.heads = <int64_t*> cleared(columns, sizeof(int64_t))
            self.streams, self.columns = streams, columns

    def __dealloc__(self):
        free(self.rows)
        free(self.heads)

    def __len__(self):
        return self.streams

    def numbers_of(self, Py_ssize_t stream):
        """Returns (kind, column id, length) of stream number ``stream`` in the order of the file."""
        if not 0 <= stream < self.streams:
            raise IndexError(stream)
        return self.rows[stream].kind, self.rows[stream].column, self.rows[stream].length

    def locate(self, int64_t start, int64_t end):
        """Computes the positions of the streams, one after the other from ``start``. Returns (stream, its start) for
        the first stream that ends after ``end``, or (stream, -1) for the first stream that occurs twice. Otherwise
        returns None."""
        cdef Located found
        cdef Py_ssize_t number
        locate_streams(self.rows, self.streams, self.heads, self.columns, start, end, &found)
        if found.strangers:
            strangers = set()
            for number in range(self.streams if found.wrong < 0 else found.wrong):
                kind, column = self.rows[number].kind, self.rows[number].column
                if column < <uint64_t> self.columns or kind >= 64 or not KNOWN >> kind & 1:
                    continue
                if (column, kind) in strangers:
                    return number, -1
                strangers.add((column, kind))
        return None if found.wrong < 0 else (found.wrong, found.at)

    def get(self, place, default=None):
        """Returns (offset in the file, length) of the stream for ``place``, which is (column id, kind). Returns
        ``default`` if there is no such stream."""
        cdef int64_t i = self.find(place[0], place[1])
        return default if i < 0 else (self.rows[i].offset, <int64_t>self.rows[i].length)

    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept:
        return find_stream(self.rows, self.heads, self.columns, column, kind)

    def __contains__(self, place):
        return self.get(place) is not None

    def __getitem__(self, place):
        found = self.get(place)
        if found is None:
            raise KeyError(place)
        return found

    def items(self):
        """Returns ((column id, kind), (offset, length)) of every stream that can be looked up, in file order."""
        cdef Py_ssize_t i
        found = []
        for i in range(self.streams):
            place = self.rows[i].column, self.rows[i].kind
            if self.get(place) == (self.rows[i].offset, self.rows[i].length):
                found.append((place, (self.rows[i].offset, <int64_t>self.rows[i].length)))
        return found
