"""Protocol Buffers wire format, proto2, as far as ORC's messages need it: bytes to fields.

A message is a row of fields, each a varint key ``number << 3 | wire type`` and a value:

    0 varint            1..10 bytes, seven bits each, low bits first
    1 fixed 64 bits     little-endian
    2 length            varint length, then that many bytes (nested message, text, packed scalars)
    5 fixed 32 bits     little-endian

Groups (wire types 3 and 4) are not used by ORC and refused. Every read is checked against the end of its message; a
field whose wire type is not the expected one is unknown, and unknown fields are stepped over.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from orcidx.errors import CorruptFile

__all__ = ["Message"]


cdef int VARINT = 0
cdef int FIXED64 = 1
cdef int LENGTH = 2
cdef int FIXED32 = 5


cdef struct Cursor:
    const uint8_t* base
    Py_ssize_t at
    Py_ssize_t end


cdef struct Field:
    uint32_t number
    int wire_type
    uint64_t value          # varint or fixed bits; for LENGTH the number of bytes
    Py_ssize_t start        # of the bytes of a LENGTH field


cdef inline bint read_varint(Cursor* cursor, uint64_t* value) noexcept nogil:
    """False when the varint runs past the end or past ten bytes; bits above 64 are dropped, as protobuf does."""
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
    """Reads one field and moves past it; False when the bytes are no field."""
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


cdef class Message:
    """The fields of one message, by number. Lookups answer with the last occurrence, as proto2 wants.

    ``name`` says in errors what was being read. Raises ``CorruptFile`` with the offset of the bytes that are no field.
    """

    cdef dict _fields
    cdef readonly str name

    def __init__(self, buffer, str name not None):
        cdef const uint8_t[::1] data = memoryview(buffer).cast("B")
        cdef Cursor cursor
        cdef Field field
        cdef Py_ssize_t before
        cdef object value
        cdef list values
        self.name = name
        self._fields = {}
        cursor.base = &data[0] if data.shape[0] else NULL
        cursor.at = 0
        cursor.end = data.shape[0]
        while cursor.at < cursor.end:
            before = cursor.at
            if not read_field(&cursor, &field):
                raise CorruptFile(f"the {name} breaks off or holds no protobuf field at its byte {before}")
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
        """Whether the field occurs, with whatever wire type."""
        return number in self._fields

    def uint(self, int number, default=0):
        """A uint64, uint32 or enum; ``default`` when absent."""
        value = self._last(number, VARINT)
        return default if value is None else value

    def blob(self, int number, default=b""):
        """Bytes or a nested message."""
        value = self._last(number, LENGTH)
        return default if value is None else value

    def text(self, int number, str errors="strict"):
        """A string, "" when absent. Bytes that are not UTF-8 raise ``CorruptFile`` unless ``errors`` says otherwise."""
        return self._decode(self.blob(number), errors)

    def blobs(self, int number):
        """A repeated field of bytes or messages, as a list of bytes."""
        return [value for kind, value in self._fields.get(number, ()) if kind == LENGTH]

    def texts(self, int number, str errors="strict"):
        """A repeated string."""
        return [self._decode(value, errors) for value in self.blobs(number)]

    def uints(self, int number):
        """A repeated unsigned scalar, packed or not, as a list."""
        cdef list result = []
        cdef Cursor cursor
        cdef uint64_t element
        cdef const uint8_t[::1] packed
        for kind, value in self._fields.get(number, ()):
            if kind == VARINT:
                result.append(value)
            elif kind == LENGTH and len(value):
                packed = value
                cursor.base = &packed[0]
                cursor.at = 0
                cursor.end = packed.shape[0]
                while cursor.at < cursor.end:
                    if not read_varint(&cursor, &element):
                        raise CorruptFile(f"field {number} of the {self.name} breaks off in a packed number")
                    result.append(element)
        return result

    cdef str _decode(self, bytes value, str errors):
        try:
            return value.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise CorruptFile(f"a name in the {self.name} is not UTF-8: {error.reason}") from error
