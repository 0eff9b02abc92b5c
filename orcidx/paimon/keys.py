"""Keys are the form in which Paimon's indexes store, compare and order the values of a column.

A key is a Python ``int`` or ``bytes``. Keys have the same order as the values in the index:

==================================== =================================== =====================
type                                 key                                 stored as, big-endian
==================================== =================================== =====================
BOOLEAN                              0 or 1                              1 byte
TINYINT, SMALLINT, INT, BIGINT       the value                           i8, i16, i32, i64
DATE / TIME                          days / milliseconds of the day      i32
FLOAT, DOUBLE                        ordered bits, see below             IEEE 754
DECIMAL (p <= 18; any p in a BSI)    unscaled value                      i64
TIMESTAMP, TIMESTAMP_LTZ             milliseconds (p <= 3), else micros  i64
CHAR, VARCHAR, STRING                UTF-8 bytes as stored               i32 length, bytes
BINARY, VARBINARY (bloom only)       bytes                               never stored
==================================== =================================== =====================

Floating numbers have the order of Java's ``Double.compare``: -inf ... -0.0 < 0.0 ... inf < NaN, with a single NaN. To
get keys in this order, the IEEE bits are read as signed integers, and all bits of negative numbers except the sign bit
are flipped. These integers have the same order as the numbers.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.data_types import BYTE_STRINGS, TIMESTAMPS, DataType

__all__ = ["INT", "LARGEST_INT", "Key", "KeyType", "KeyValues", "integers", "key_type", "ordered_bits"]

Key = int | bytes
KeyValues = npt.NDArray[np.int64] | list[bytes]
"""Keys of several values: an int64 array, or a list of bytes for text."""

INT = struct.Struct(">i")
LARGEST_INT = (1 << 31) - 1
_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DECIMAL": 8}
_WIDTHS |= {"DATE": 4, "TIME": 4, "TIMESTAMP": 8, "TIMESTAMP_LTZ": 8}
_CANONICAL_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_INFINITY = {4: 0x7F800000, 8: 0x7FF0000000000000}


def ordered_bits(bits: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
    """Converts IEEE bits of ``width`` bytes, which are sign-extended to int64, to keys. The same function converts keys
    back to bits."""
    return bits ^ ((bits >> 63) & ((1 << (8 * width - 1)) - 1))


def integers(data: memoryview) -> list[int]:
    """Reads all i32 values of a buffer at once.

    ``struct.iter_unpack`` would still refer to the buffer when its loop raises an error. If the error is kept, it forms
    a reference cycle with its frames. CPython 3.11 crashes when it collects such a cycle together with the memoryview
    (gh-77894).
    """
    numbers: list[int] = np.frombuffer(data, ">i4").tolist()
    return numbers


@dataclass(frozen=True)
class KeyType:
    """Converts the values of one column type to keys. ``width``: the bytes of a stored key, or 0 for text."""

    data_type: DataType
    width: int
    floating: bool

    @property
    def nan(self) -> int:
        """The key of NaN."""
        return _CANONICAL_NAN[self.width]

    @property
    def infinity(self) -> int:
        """The key of +infinity, which is the largest key below NaN."""
        return _INFINITY[self.width]

    @property
    def loses_digits(self) -> bool:
        """Whether values that differ can have the same key. This is true for timestamps with more than 6 fractional
        digits, because their keys are microseconds."""
        return self.data_type.root in TIMESTAMPS and self.data_type.precision > 6

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored form of a key with fixed width."""
        return np.dtype("u1") if self.data_type.root == "BOOLEAN" else np.dtype(f">i{self.width}")

    def decode(self, stored: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Converts an array of ``dtype`` to keys. Raises ``CorruptFile`` for a boolean other than 0 and 1."""
        keys = stored.astype(np.int64)
        if self.floating:
            magnitude = keys & ((1 << (8 * self.width - 1)) - 1)
            keys = np.where(magnitude > self.infinity, self.nan, ordered_bits(keys, self.width))
        elif self.data_type.root == "BOOLEAN" and keys.size and keys.max() > 1:
            raise CorruptFile(f"a boolean key is {keys.max()}, not 0 or 1")
        return keys

    def encode(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Converts keys to an array of ``dtype``, as the inverse of ``decode``."""
        return (ordered_bits(keys, self.width) if self.floating else keys).astype(self.dtype)

    def read(self, data: memoryview, offset: int) -> tuple[Key, int]:
        """The key at ``offset`` and the position of its end. Raises ``CorruptFile`` if the key is cut off."""
        if self.width:
            end = offset + self.width
            if end > len(data):
                raise CorruptFile("a key is cut off", offset=offset)
            return int(self.decode(np.frombuffer(data[offset:end], self.dtype))[0]), end
        if offset + INT.size > len(data):
            raise CorruptFile("the field with the length of a key is cut off", offset=offset)
        (length,) = INT.unpack_from(data, offset)
        start = offset + INT.size
        if not 0 <= length <= len(data) - start:
            raise CorruptFile(f"a key has {length} bytes, but only {len(data) - start} bytes are left", offset=offset)
        return bytes(data[start : start + length]), start + length

    def write(self, key: Key) -> bytes:
        """The stored form of one key."""
        if isinstance(key, bytes):
            return INT.pack(len(key)) + key
        return self.encode(np.array([key], np.int64)).tobytes()

    def stored_sizes(self, keys: KeyValues) -> npt.NDArray[np.int64]:
        """The number of stored bytes of each key."""
        if self.width:
            return np.full(len(keys), self.width, np.int64)
        return np.fromiter((INT.size + len(key) for key in keys), np.int64, len(keys))

    def check_ascending(self, keys: Sequence[Key] | npt.NDArray[np.int64], what: str) -> None:
        """Raises ``CorruptFile`` unless the keys ascend strictly, because binary searches need this order."""
        if isinstance(keys, np.ndarray):
            ascending = bool(np.all(keys[1:] > keys[:-1]))
        else:
            ascending = all(a < b for a, b in itertools.pairwise(keys))  # type: ignore[operator]
        if not ascending:
            raise CorruptFile(f"the keys of {what} are not in strictly ascending order")


def key_type(data_type: DataType) -> KeyType:
    """The ``KeyType`` of a column type. Raises ``Unsupported`` for a type that no index supports."""
    root = data_type.root
    if root in BYTE_STRINGS:
        return KeyType(data_type, 0, False)
    if root not in _WIDTHS:
        raise Unsupported(f"no Paimon index supports values of type {data_type}")
    return KeyType(data_type, _WIDTHS[root], root in ("FLOAT", "DOUBLE"))
