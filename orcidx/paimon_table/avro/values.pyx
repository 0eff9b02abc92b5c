"""Computes how much memory the values of an Avro block will take as Python objects, before they are created.

A few bytes can become many objects: a record of one byte becomes a dict, a null takes no byte, and with each level of
nested records the number of objects can double. So ``ValueSizes`` first walks over the block by its schema, without
creating objects. The walk ends when the values would take more memory than a limit.

    null nothing | boolean a byte | int, long varint | float 4 | double 8 | bytes, string: long length, bytes
    array, map: blocks of long count (negative: its byte size, a long, follows), items; a count of 0 ends it
    union: long number of the branch, its value | record: its fields, in order
"""

import numpy as np

from orcidx.errors import CorruptFile

cdef enum:
    NOTHING = 0
    BOOLEAN = 1
    LONG = 2
    FLOAT = 3
    DOUBLE = 4
    BYTES = 5
    RECORD = 6
    ARRAY = 7
    MAP = 8
    UNION = 9

cdef enum:  # outcomes
    SOUND = 0
    CUT = 1
    WRONG = 2
    TOO_MUCH = 3

# Sizes of objects of CPython 3.11 in bytes. Each value is counted with at least the size of a pointer.
cdef enum:
    POINTER = 8
    NUMBER = 32
    TEXT = 56
    LIST = 88
    DICT = 200
    SLOT = 40

_PRIMITIVES = {
    "null": NOTHING, "boolean": BOOLEAN, "int": LONG, "long": LONG, "float": FLOAT, "double": DOUBLE, "bytes": BYTES,
    "string": BYTES,
}


def read_bytes(const unsigned char[::1] data, Py_ssize_t at):
    """The bytes behind a length at position ``at``, and the position of their end. Raises ``CorruptFile``."""
    length, at = read_long(data, at)
    if not 0 <= length <= data.shape[0] - at:
        raise CorruptFile(f"Avro text of {length} bytes does not fit into the file", offset=at)
    return bytes(data[at:at + length]), at + length


def read_long(const unsigned char[::1] data, Py_ssize_t at):
    """The value of a zigzag varint of at most 64 bits, and the position of its end. Raises ``CorruptFile``."""
    cdef unsigned long long raw = 0
    cdef Py_ssize_t start = at
    cdef int shift = 0
    cdef unsigned char byte
    while shift < 70 and 0 <= at < data.shape[0]:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            break
        raw |= (<unsigned long long> (byte & 0x7F)) << shift
        if byte < 0x80:
            return <long long> (raw >> 1) ^ -<long long> (raw & 1), at
        shift += 7
    raise CorruptFile("Avro integer is cut off or too long", offset=start)


cdef class ValueSizes:
    """Walks values of a checked schema, in which no type contains itself."""

    cdef int[::1] kinds
    cdef int[::1] firsts
    cdef int[::1] counts
    cdef int[::1] children
    cdef int root
    cdef const unsigned char *data
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef long long left

    def __init__(self, schema):
        nodes = []  # (kind, first of children, children)
        children = []
        self.root = _node(schema, nodes, children, {})
        table = np.array(nodes, np.int32).reshape(-1, 3)
        self.kinds, self.firsts, self.counts = (np.ascontiguousarray(table[:, i]) for i in range(3))
        self.children = np.array([*children, 0], np.int32)

    def check(self, const unsigned char[::1] block, long long records, long long most):
        """Walks the ``records`` records that fill ``block``. Returns the bytes of memory that they will take, or -1 if
        that is more than ``most``.

        Raises ``CorruptFile`` if the block ends before or after its records. Not thread-safe.
        """
        cdef int outcome = SOUND
        cdef long long i = 0
        self.data = &block[0] if block.shape[0] else NULL
        self.at, self.end, self.left = 0, block.shape[0], most
        with nogil:
            while i < records and outcome == SOUND:
                outcome = self._value(self.root)
                i += 1
        if outcome == TOO_MUCH:
            return -1
        if outcome != SOUND:
            raise CorruptFile("Avro record is cut off" if outcome == CUT else "Avro record has a union branch or a length that is not valid")
        if self.at != self.end:
            raise CorruptFile(f"Avro block has {self.end - self.at} bytes after its last record")
        return most - self.left

    cdef int _value(self, int node) noexcept nogil:
        cdef int kind = self.kinds[node], first = self.firsts[node], count = self.counts[node], i, outcome
        cdef long long number = 0
        cdef Py_ssize_t start = self.at
        if kind == RECORD:
            self.left -= DICT + SLOT * count
            for i in range(count):
                if self.left < 0:
                    return TOO_MUCH
                outcome = self._value(self.children[first + i])
                if outcome != SOUND:
                    return outcome
        elif kind == UNION:
            if not self._long(&number):
                return CUT
            if not 0 <= number < count:
                return WRONG
            return self._value(self.children[first + number])
        elif kind == ARRAY or kind == MAP:
            self.left -= LIST if kind == ARRAY else DICT
            return self._items(self.children[first], kind == MAP)
        elif kind == LONG:
            if not self._long(&number):
                return CUT
            self.left -= POINTER if self.at - start == 1 else NUMBER
        elif kind == BYTES:
            return self._bytes()
        else:
            self.at += 1 if kind == BOOLEAN else 4 if kind == FLOAT else 8 if kind == DOUBLE else 0
            self.left -= NUMBER if kind >= FLOAT else POINTER
            if self.at > self.end:
                return CUT
        return TOO_MUCH if self.left < 0 else SOUND

    cdef int _items(self, int child, bint keyed) noexcept nogil:
        cdef long long count = 0, size = 0
        cdef int outcome
        while True:
            if not self._long(&count):
                return CUT
            if count == 0:
                return TOO_MUCH if self.left < 0 else SOUND
            if count < 0:
                if not self._long(&size):
                    return CUT
                if count < -self.end:
                    return CUT
                count = -count
            while count > 0:
                count -= 1
                self.left -= SLOT if keyed else POINTER
                if self.left < 0:
                    return TOO_MUCH
                if keyed:
                    outcome = self._bytes()
                    if outcome != SOUND:
                        return outcome
                outcome = self._value(child)
                if outcome != SOUND:
                    return outcome

    cdef int _bytes(self) noexcept nogil:
        cdef long long length = 0
        if not self._long(&length):
            return CUT
        if length < 0:
            return WRONG
        if length > self.end - self.at:
            return CUT
        self.at += <Py_ssize_t> length
        self.left -= TEXT + length
        return TOO_MUCH if self.left < 0 else SOUND

    cdef bint _long(self, long long *value) noexcept nogil:
        """A zigzag varint of at most ten bytes. False if it is cut off or longer."""
        cdef unsigned long long raw = 0
        cdef int shift = 0
        cdef unsigned char byte
        while shift < 70 and self.at < self.end:
            byte = self.data[self.at]
            self.at += 1
            raw |= (<unsigned long long> (byte & 0x7F)) << shift if shift < 64 else 0
            if byte < 0x80:
                value[0] = <long long> (raw >> 1) ^ -<long long> (raw & 1)
                return True
            shift += 7
        return False


def _node(schema, list nodes, list children, dict named):
    """The number of the node of a type. All mentions of a named type share one node."""
    if isinstance(schema, str):
        if schema in named:
            return named[schema]
        kind, parts = _PRIMITIVES[schema], []
    elif isinstance(schema, list):
        kind, parts = UNION, [_node(branch, nodes, children, named) for branch in schema]
    elif schema["type"] == "record":
        kind, parts = RECORD, [_node(field["type"], nodes, children, named) for field in schema["fields"]]
    elif schema["type"] == "array":
        kind, parts = ARRAY, [_node(schema["items"], nodes, children, named)]
    else:
        kind, parts = MAP, [_node(schema["values"], nodes, children, named)]
    nodes.append((kind, len(children), len(parts)))
    children.extend(parts)
    if kind == RECORD:
        named[schema["name"]] = len(nodes) - 1
    return len(nodes) - 1
