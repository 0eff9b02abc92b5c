"""The BinaryRow format, in which manifests store partitions, keys, minima and maxima. Rows are read one field at a
time, and written as a whole.

field count  i32 big-endian
null area    ceil((fields + 8) / 64) * 8 bytes: row kind, then bit i + 8 set when field i is null
slots        8 bytes per field, little-endian
variable     values that do not fit a slot, at the offset in the slot, which counts from the start of the null area
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Sequence
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.data_types import BYTE_STRINGS, TIMESTAMPS, DataType
from orcidx.predicate.nodes import NANOS

__all__ = ["BinaryRow", "write_binary_row"]

_FIXED = {
    "BOOLEAN": "<?",
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "DATE": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
}
_NANOS_PER_MILLI = NANOS["ms"]
_EXACT = decimal.Context(prec=60)


class BinaryRow:
    """A row in the bytes of a manifest. Its values have the form in which predicates compare values.

    A value is an ``int``, ``bool``, ``float`` or ``decimal.Decimal``. Text and binary values are ``bytes``. A DATE is a
    number of days. TIME and timestamps are numbers of nanoseconds.
    """

    __slots__ = ("_data", "_slots", "fields")

    def __init__(self, data: bytes) -> None:
        if len(data) < 4:
            raise CorruptFile("a BinaryRow is cut off")
        (self.fields,) = struct.unpack_from(">i", data)
        self._data = memoryview(data)[4:]
        self._slots = _null_area(self.fields)
        if self.fields < 0 or self._slots + 8 * self.fields > len(self._data):
            raise CorruptFile(f"a BinaryRow of {self.fields} fields does not fit into {len(data)} bytes")

    def value(self, i: int, data_type: DataType) -> Any:
        """The value of field ``i``. The result is ``None`` for null and for nested types. Raises ``CorruptFile`` for a
        damaged row."""
        if not 0 <= i < self.fields:
            raise CorruptFile(f"a BinaryRow of {self.fields} fields has no field {i}")
        if self._data[(i + 8) // 8] >> (i % 8) & 1:
            return None
        at = self._slots + 8 * i
        root = data_type.root
        if root in _FIXED:
            return struct.unpack_from(_FIXED[root], self._data, at)[0]
        if root in BYTE_STRINGS:
            return self._bytes(at)
        if root == "TIME":
            return struct.unpack_from("<i", self._data, at)[0] * _NANOS_PER_MILLI
        if root in TIMESTAMPS:
            return self._timestamp(at, data_type.precision)
        if root == "DECIMAL":
            return self._decimal(at, data_type)
        return None

    def values(self, types: Sequence[DataType]) -> tuple[Any, ...]:
        """The values of all fields. Raises ``CorruptFile`` if the row does not have exactly one field for each type."""
        if len(types) != self.fields:
            raise CorruptFile(f"a BinaryRow has {self.fields} fields, but should have {len(types)}")
        return tuple(self.value(i, data_type) for i, data_type in enumerate(types))

    def _bytes(self, at: int) -> bytes:
        if (inline := self._data[at + 7]) & 0x80:
            if inline & 0x7F > 7:
                raise CorruptFile(
                    f"a BinaryRow has a value of {inline & 0x7F} bytes in a slot, but a slot can hold only 7 bytes"
                )
            return bytes(self._data[at : at + (inline & 0x7F)])
        length, offset = struct.unpack_from("<II", self._data, at)
        return bytes(self._part(offset, length))

    def _part(self, offset: int, length: int) -> memoryview:
        if offset + length > len(self._data):
            raise CorruptFile(
                f"a BinaryRow refers to {length} bytes at offset {offset}, but has {len(self._data)} bytes"
            )
        return self._data[offset : offset + length]

    def _timestamp(self, at: int, precision: int) -> int:
        if precision <= 3:
            return int(struct.unpack_from("<q", self._data, at)[0]) * _NANOS_PER_MILLI
        nanos, offset = struct.unpack_from("<II", self._data, at)
        (millis,) = struct.unpack("<q", self._part(offset, 8))
        return int(millis) * _NANOS_PER_MILLI + int(nanos)

    def _decimal(self, at: int, data_type: DataType) -> decimal.Decimal:
        if data_type.precision <= 18:
            (unscaled,) = struct.unpack_from("<q", self._data, at)
        else:
            length, offset = struct.unpack_from("<II", self._data, at)
            if length > 16:
                raise CorruptFile(f"a BinaryRow has a decimal of {length} bytes, but a decimal has at most 16 bytes")
            unscaled = int.from_bytes(self._part(offset, length), "big", signed=True)
        return decimal.Decimal(unscaled).scaleb(-data_type.scale, _EXACT)


def _null_area(fields: int) -> int:
    """The size of the null area in bytes. The slots follow it."""
    return (fields + 71) // 64 * 8


def write_binary_row(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The bytes of a row. Values have the form of ``BinaryRow``. ``None`` means null.

    Decimals of more than 18 digits and timestamps of more than 3 fractional digits take space in the variable part even
    if they are null, as in Java. Nested types can only be null. Raises ``Unsupported`` for a value that its type cannot
    store.
    """
    slots = _null_area(len(types))
    row = bytearray(slots + 8 * len(types))
    for i, (data_type, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            row[(i + 8) // 8] |= 1 << i % 8
        try:
            row[slots + 8 * i : slots + 8 * (i + 1)] = _slot(row, data_type, value)
        except (struct.error, OverflowError, TypeError, decimal.InvalidOperation) as error:
            raise Unsupported(f"{value!r:.60} is not a valid {data_type}: {error}") from None
    return struct.pack(">i", len(types)) + bytes(row)


def _slot(row: bytearray, data_type: DataType, value: Any) -> bytes:
    """The 8 bytes of a field. A value that does not fit into 8 bytes is appended to ``row``."""
    root = data_type.root
    if root in TIMESTAMPS:
        millis, nanos = divmod(value or 0, _NANOS_PER_MILLI)
        if data_type.precision <= 3:
            return struct.pack("<q", millis)
        slot = len(row) << 32 | nanos
        row += struct.pack("<q", millis)
        return struct.pack("<Q", slot)
    if root == "DECIMAL":
        unscaled = 0 if value is None else int(value.scaleb(data_type.scale, _EXACT))
        if data_type.precision <= 18:
            return struct.pack("<q", unscaled)
        length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        data = b"" if value is None else unscaled.to_bytes(length, "big", signed=True)
        slot = len(row) << 32 | len(data)
        row += data.ljust(16, b"\x00")
        return struct.pack("<Q", slot)
    if value is None:
        return bytes(8)
    if root in _FIXED:
        return struct.pack(_FIXED[root], value).ljust(8, b"\x00")
    if root == "TIME":
        return struct.pack("<i", value // _NANOS_PER_MILLI).ljust(8, b"\x00")
    if root not in BYTE_STRINGS:
        raise Unsupported(f"orcidx cannot write values of type {data_type} into a manifest")
    if len(value) <= 7:
        return bytes(value).ljust(7, b"\x00") + bytes([0x80 | len(value)])
    slot = len(row) << 32 | len(value)
    row += bytes(value) + bytes(-len(value) % 8)
    return struct.pack("<Q", slot)
