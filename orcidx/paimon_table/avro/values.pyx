"""Computes how much memory the values of an Avro block will take as Python objects, before they are created.

A few bytes can become many objects: a record of one byte becomes a dict, a null takes no byte, and with each level of
nested records the number of objects can double. So ``ValueSizes`` first walks over the block by its schema, without
creating objects. The walk ends when the values would take more memory than a limit.

    null nothing | boolean a byte | int, long varint | float 4 | double 8 | bytes, string: long length, bytes
    array, map: blocks of long count, items; after a negative count comes the block's byte size, a long; 0 is the end
    union: long number of the branch, its value | record: its fields, in order
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

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

# Sizes of objects of CPython 3.11 in bytes. Each value counts at least as much as a pointer.
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


def read_avro_metadata(const unsigned char[::1] data, Py_ssize_t at):
    """Reads the metadata map at the beginning of a file, from position ``at``. Returns the map from texts to bytes, and
    the position of its end. Raises ``CorruptFile``."""
    cdef long long count, _i
    metadata = {}
    while True:
        count = next_long(data, &at)
        if count == 0:
            return metadata, at
        if count < 0:  # a negative count is followed by the block's size in bytes
            count = -count
            next_long(data, &at)
        if not 0 < count <= data.shape[0] - at:
            raise CorruptFile(f"the Avro metadata cannot have {count} entries", offset=at)
        for _i in range(count):
            key = next_bytes(data, &at)
            metadata[key.decode("utf-8", "replace")] = next_bytes(data, &at)


def read_long(const unsigned char[::1] data, Py_ssize_t at):
    """The value of a zigzag varint of at most 64 bits, and the position of its end. Raises ``CorruptFile``."""
    cdef long long value = next_long(data, &at)
    return value, at


cdef bytes next_bytes(const unsigned char[::1] data, Py_ssize_t *at):
    cdef long long length = next_long(data, at)
    cdef Py_ssize_t start = at[0]
    if not 0 <= length <= data.shape[0] - start:
        raise CorruptFile(f"an Avro text of {length} bytes does not fit into the file", offset=start)
    at[0] = start + <Py_ssize_t> length
    return PyBytes_FromStringAndSize(<const char*> &data[start], <Py_ssize_t> length) if length else b""


cdef long long next_long(const unsigned char[::1] data, Py_ssize_t *at) except? -1:
    cdef unsigned long long raw = 0
    cdef Py_ssize_t start = at[0]
    cdef int shift = 0
    cdef unsigned char byte
    while shift < 70 and 0 <= at[0] < data.shape[0]:
        byte = data[at[0]]
        at[0] += 1
        if shift == 63 and byte > 1:
            break
        raw |= (<unsigned long long> (byte & 0x7F)) << shift
        if byte < 0x80:
            return <long long> (raw >> 1) ^ -<long long> (raw & 1)
        shift += 7
    raise CorruptFile("an Avro integer is cut off or too long", offset=start)


cdef struct Walk:
    const unsigned char *data
    Py_ssize_t at
    Py_ssize_t end
    long long left


cdef class ValueSizes:
    """Computes the memory that the values of a block will take. The schema was checked before, so no type contains
    itself. Many threads may use the same object."""

    cdef int[::1] kinds
    cdef int[::1] firsts
    cdef int[::1] counts
    cdef int[::1] children
    cdef int root

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

        Raises ``CorruptFile`` if the block ends before or after its records.
        """
        cdef int outcome = SOUND
        cdef long long i = 0
        cdef Walk walk
        walk.data = &block[0] if block.shape[0] else NULL
        walk.at, walk.end, walk.left = 0, block.shape[0], most
        with nogil:
            while i < records and outcome == SOUND:
                outcome = self._value(&walk, self.root)
                i += 1
        if outcome == TOO_MUCH:
            return -1
        if outcome != SOUND:
            wrong = "is cut off" if outcome == CUT else "has a union branch or a length that is not valid"
            raise CorruptFile(f"an Avro record {wrong}")
        if walk.at != walk.end:
            raise CorruptFile(f"an Avro block has {walk.end - walk.at} bytes after its last record")
        return most - walk.left

    cdef int _value(self, Walk *walk, int node) noexcept nogil:
        cdef int kind = self.kinds[node], first = self.firsts[node], count = self.counts[node], i, outcome
        cdef long long number = 0
        cdef Py_ssize_t start = walk.at
        if kind == RECORD:
            walk.left -= DICT + SLOT * count
            for i in range(count):
                if walk.left < 0:
                    return TOO_MUCH
                outcome = self._value(walk, self.children[first + i])
                if outcome != SOUND:
                    return outcome
        elif kind == UNION:
            if not _long(walk, &number):
                return CUT
            if not 0 <= number < count:
                return WRONG
            return self._value(walk, self.children[first + number])
        elif kind == ARRAY or kind == MAP:
            walk.left -= LIST if kind == ARRAY else DICT
            return self._items(walk, self.children[first], kind == MAP)
        elif kind == LONG:
            if not _long(walk, &number):
                return CUT
            walk.left -= POINTER if walk.at - start == 1 else NUMBER
        elif kind == BYTES:
            return _bytes(walk)
        else:
            walk.at += 1 if kind == BOOLEAN else 4 if kind == FLOAT else 8 if kind == DOUBLE else 0
            walk.left -= NUMBER if kind >= FLOAT else POINTER
            if walk.at > walk.end:
                return CUT
        return TOO_MUCH if walk.left < 0 else SOUND

    cdef int _items(self, Walk *walk, int child, bint keyed) noexcept nogil:
        cdef long long count = 0, size = 0
        cdef int outcome
        while True:
            if not _long(walk, &count):
                return CUT
            if count == 0:
                return TOO_MUCH if walk.left < 0 else SOUND
            if count < 0:
                if not _long(walk, &size):
                    return CUT
                if count < -walk.end:
                    return CUT
                count = -count
            while count > 0:
                count -= 1
                walk.left -= SLOT if keyed else POINTER
                if walk.left < 0:
                    return TOO_MUCH
                if keyed:
                    outcome = _bytes(walk)
                    if outcome != SOUND:
                        return outcome
                outcome = self._value(walk, child)
                if outcome != SOUND:
                    return outcome


cdef int _bytes(Walk *walk) noexcept nogil:
    cdef long long length = 0
    if not _long(walk, &length):
        return CUT
    if length < 0:
        return WRONG
    if length > walk.end - walk.at:
        return CUT
    walk.at += <Py_ssize_t> length
    walk.left -= TEXT + length
    return TOO_MUCH if walk.left < 0 else SOUND


cdef bint _long(Walk *walk, long long *value) noexcept nogil:
    """Reads a zigzag varint of at most ten bytes. Returns False if the varint is cut off or longer."""
    cdef unsigned long long raw = 0
    cdef int shift = 0
    cdef unsigned char byte
    while shift < 70 and walk.at < walk.end:
        byte = walk.data[walk.at]
        walk.at += 1
        raw |= (<unsigned long long> (byte & 0x7F)) << shift if shift < 64 else 0
        if byte < 0x80:
            value[0] = <long long> (raw >> 1) ^ -<long long> (raw & 1)
            return True
        shift += 7
    return False


def _node(schema, list nodes, list children, dict named):
    """Appends the node of a type, and the nodes of the types in it, to ``nodes``. Returns the index of the node. A
    named type has one node, even if the schema uses the type several times."""
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
