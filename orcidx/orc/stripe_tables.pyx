"""Parses stripe footers. No object is created for each stream or column.

    StripeFooter   1 Stream* (1 kind, 2 column, 3 length)  2 ColumnEncoding* (1 kind, 2 entries, 3 bloom encoding)

All bytes of a message are checked first. ``wire`` has the rules of proto2: the last occurrence of a field counts, and a
field of another wire type is unknown.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from orcidx.orc.wire cimport (
    LENGTH, VARINT, Cursor, Field, corrupt, inner_cursor, open_cursor, read_field, too_many,
)

__all__ = ["EncodingTable", "StreamTable", "split_stripe_footer"]


def split_stripe_footer(const uint8_t[::1] data not None, Py_ssize_t most):
    """Parses a StripeFooter. Returns its streams as a ``StreamTable``, its encodings as an ``EncodingTable``, and the
    bytes of its other fields.

    The caller must call ``locate`` of the ``StreamTable`` before it looks up streams. Raises ``Unsupported`` for more
    than ``most`` fields.
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
    cdef StreamTable table = StreamTable.__new__(StreamTable, streams, encodings)
    cdef EncodingTable kinds = EncodingTable.__new__(EncodingTable, encodings)
    fill_numbers(open_cursor(data), 1, "Stream", &table.rows[0].kind, sizeof(StreamRow))
    fill_numbers(open_cursor(data), 2, "ColumnEncoding", &kinds.rows[0].kind, sizeof(EncodingRow))
    return table, kinds, b"".join(others) if others else b""


cdef int fill_numbers(Cursor cursor, uint32_t number, str name, uint64_t* out, size_t step) except -1:
    # Reads up to three numbers from each message of one field to `out`. The numbers of the next message are written
    # `step` bytes later. The caller has checked the outer message.
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
                raise corrupt(name, before - field.start)
            if value.wire_type == VARINT and 1 <= value.number <= 3:
                out[value.number - 1] = value.value
        out = <uint64_t*> (<char*> out + step)
    return 0


cdef void* cleared(Py_ssize_t count, size_t size) except NULL:
    cdef void* room = calloc(count if count else 1, size)
    if room == NULL:
        raise MemoryError
    return room


cdef class EncodingTable:
    """The encodings of a stripe's columns. ``table[column]`` is (kind, dictionary size, bloom encoding)."""

    def __cinit__(self, Py_ssize_t columns):
        self.rows = <EncodingRow*> cleared(columns, sizeof(EncodingRow))
        self.columns = columns

    def __dealloc__(self):
        free(self.rows)

    def __len__(self):
        return self.columns

    def __getitem__(self, Py_ssize_t column):
        if not 0 <= column < self.columns:
            raise IndexError(column)
        return self.rows[column].kind, self.rows[column].dictionary_size, self.rows[column].bloom_encoding

    @property
    def largest_kind(self):
        """The largest number of an encoding kind that occurs in the table."""
        cdef uint64_t largest = 0
        cdef Py_ssize_t i
        for i in range(self.columns):
            largest = max(largest, self.rows[i].kind)
        return largest


cdef class StreamTable:
    """The streams of a stripe. They can be looked up by (column id, kind) after ``locate`` has computed their
    positions.

    For streams of unknown kinds, and for streams of columns that the file does not have, only the length is used.
    """

    def __cinit__(self, Py_ssize_t streams, Py_ssize_t columns):
        cdef Py_ssize_t i
        self.rows = <StreamRow*> cleared(streams, sizeof(StreamRow))
        self.streams = streams
        self.heads = <int64_t*> cleared(columns, sizeof(int64_t))
        self.columns = columns
        for i in range(columns):
            self.heads[i] = -1

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

    def locate(self, int64_t start, int64_t end, uint64_t known, uint64_t placeholders):
        """Computes the positions of the streams, one after the other from ``start``. Must be called once.

        ``known``: the kinds, as bits, of which a column may have only one stream. ``placeholders``: the kinds, as bits,
        that are not streams. Returns (stream, its start) for the first stream that ends after ``end``, or (stream, -1)
        for the first stream that occurs twice. Otherwise returns None.
        """
        cdef Py_ssize_t i
        cdef uint64_t kind, column
        cdef int64_t at = start, other
        cdef StreamRow* row
        strangers = None
        for i in range(self.streams):
            row = &self.rows[i]
            kind, column = row.kind, row.column
            if end < at or row.length > <uint64_t>(end - at):
                return i, at
            row.offset = at
            at += <int64_t>row.length
            if kind >= 64 or known >> kind & 1 == 0 or placeholders >> kind & 1:
                continue
            if column >= <uint64_t>self.columns:
                strangers = strangers or set()
                if (column, kind) in strangers:
                    return i, -1
                strangers.add((column, kind))
                continue
            other = self.heads[column]
            while other >= 0:
                if self.rows[other].kind == kind:
                    return i, -1
                other = self.rows[other].following
            row.following = self.heads[column]
            self.heads[column] = i
        return None

    def get(self, place, default=None):
        """Returns (offset in the file, length) of the stream for ``place``, which is (column id, kind). Returns
        ``default`` if there is no such stream."""
        cdef int64_t i = self.find(place[0], place[1])
        return default if i < 0 else (self.rows[i].offset, <int64_t>self.rows[i].length)

    cdef int64_t find(self, Py_ssize_t column, uint64_t kind) noexcept:
        cdef int64_t i = self.heads[column] if 0 <= column < self.columns else -1
        while i >= 0 and self.rows[i].kind != kind:
            i = self.rows[i].following
        return i

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
