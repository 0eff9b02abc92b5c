"""A deletion vector lists the deleted rows of a data file. This module reads, writes and combines 32-bit vectors,
64-bit vectors and the vectors of Iceberg.

An index file starts with one version byte (1). The entries follow without gaps. A file may have 32-bit and 64-bit
entries. An entry has this layout:

    size   i32 big-endian       bytes of magic and bitmap
    magic  4 bytes              32-bit: 1581511376 big-endian; 64-bit: 1681511377 little-endian
    bitmap                      32-bit: one portable roaring bitmap
                                64-bit: i64 count, then {key i32, portable bitmap}* with ascending keys, little-endian;
                                        the key is the upper half of the positions
    crc    i32 big-endian       CRC-32 of magic and bitmap

A manifest has the offset and the length of an entry. The offset is the position of the size field. The length is the
size value for a 32-bit vector, and the size of the whole entry (size + 8) for a 64-bit vector. A Puffin blob of type
``deletion-vector-v1`` (Iceberg) has the bytes of a 64-bit entry. Any damage raises ``CorruptFile``, because deleted
rows would be returned if a damaged vector were ignored.
"""

from __future__ import annotations

import operator
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from orcidx.errors import CorruptFile, ValueOutOfRange
from orcidx.paimon.roaring import EMPTY_BITMAP, portable_end, read_bitmap, write_bitmap
from orcidx.pruning.row_forms import bitmap_of_rows
from orcidx.pruning.selection import RowSelection

__all__ = [
    "DeletionVector",
    "read_entry",
    "shifted",
]

MAGIC32 = struct.pack(">i", 1581511376)
MAGIC64 = struct.pack("<i", 1681511377)
FRAME_BYTES = 8  # 4 bytes of size before a vector, and 4 bytes of CRC after it
LARGEST_POSITION32 = (1 << 31) - 1
LARGEST_KEY64 = (1 << 31) - 2
LARGEST_POSITION64 = (LARGEST_KEY64 << 32) | 0x80000000
LARGEST_SIZE = (1 << 31) - 1
MOST_KEYS64 = 1 << 22
"""The maximum number of bitmaps that are written for one vector. If most of these bitmaps are empty, they take 50 MB.
Java's reader needs some 500 MB for them."""
_KEY = struct.Struct("<i")
_COUNT = struct.Struct("<q")
_SIZE = struct.Struct(">i")
_SMALLEST_KEYED = _KEY.size + len(EMPTY_BITMAP)


class DeletionVector:
    """Positions of deleted rows, counted from 0 over the whole data file. Immutable, hashable and picklable.

    ``&`` and ``|`` return a 64-bit vector if at least one operand is a 64-bit vector. Vectors of different kinds are
    never equal.

    Parameters
    ----------
    positions : iterable of int
        The deleted rows, in any order.
    bitmap64 : bool
        Whether the vector is stored as the 64-bit kind. The largest allowed position is 9223372030412324864 (True) or
        2^31 - 1 (False).

    Raises
    ------
    ValueOutOfRange
        A position is negative, or above the limit of the kind.

    Examples
    --------
    >>> from orcidx.paimon import DeletionVector
    >>> vector = DeletionVector([7, 2]) | DeletionVector([3])
    >>> vector.positions.tolist()
    [2, 3, 7]
    >>> DeletionVector.from_bytes(vector.to_bytes()) == vector
    True
    >>> vector.kept_rows(10).count
    7
    """

    __slots__ = ("_bitmap", "_bitmap64")
    _bitmap: Any  # BitMap64 for the 64-bit kind, else BitMap
    _bitmap64: bool

    def __init__(self, positions: Iterable[int] = (), *, bitmap64: bool = False) -> None:
        limit = LARGEST_POSITION64 if bitmap64 else LARGEST_POSITION32
        self._bitmap = _checked_bitmap(positions, BitMap64 if bitmap64 else BitMap, limit)
        self._bitmap64 = bitmap64

    @classmethod
    def from_bytes(cls, entry: bytes | bytearray | memoryview) -> Self:
        """Reads the vector of a whole entry: size, magic, bitmap, CRC.

        Parameters
        ----------
        entry : bytes, bytearray or memoryview
            The bytes of the entry, and no other bytes.

        Returns
        -------
        DeletionVector

        Raises
        ------
        CorruptFile
            The entry is damaged, bytes are missing, or more bytes follow.
        """
        vector, end = read_entry(memoryview(entry), 0)
        if end != len(entry):
            raise CorruptFile(
                f"the deletion vector has {end} bytes, but {len(entry) - end} unexpected bytes follow", offset=end
            )
        return cls._of(vector._bitmap, vector._bitmap64)

    @classmethod
    def _of(cls, bitmap: Any, bitmap64: bool) -> Self:
        vector = cls.__new__(cls)
        vector._bitmap = bitmap
        vector._bitmap64 = bitmap64
        return vector

    def to_bytes(self) -> bytes:
        """The whole entry. It has the same bytes as an entry written by Paimon's Java code: bitmaps are run-optimised,
        and 64-bit keys have no gaps.

        Returns
        -------
        bytes

        Raises
        ------
        ValueOutOfRange
            A 64-bit position is 2^54 or more. The entry would be too large, because it has at least 12 bytes for every
            2^32 positions up to the largest position. Java's readers also create one object for every 2^32 positions.
        """
        body = _dense_bytes(self._bitmap) if self._bitmap64 else write_bitmap(self._bitmap)
        checked = (MAGIC64 if self._bitmap64 else MAGIC32) + body
        return b"".join((_SIZE.pack(len(checked)), checked, zlib.crc32(checked).to_bytes(4, "big")))

    @property
    def bitmap64(self) -> bool:
        """Whether the vector is stored as the 64-bit kind."""
        return self._bitmap64

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The positions in ascending order."""
        return np.asarray(self._bitmap.to_array(), dtype=np.uint64).view(np.int64)

    @property
    def bitmap(self) -> BitMap | BitMap64:
        """A copy as a ``pyroaring`` bitmap: ``BitMap64`` for the 64-bit kind, ``BitMap`` for the 32-bit kind."""
        copy: BitMap | BitMap64 = self._bitmap.copy()
        return copy

    def kept_rows(self, rows: int) -> RowSelection:
        """The rows of a data file that are not deleted.

        Parameters
        ----------
        rows : int
            The number of rows in the file.

        Returns
        -------
        RowSelection
            A selection that spans ``rows`` rows.

        Raises
        ------
        CorruptFile
            A position is not below ``rows``.
        """
        return ~self.deleted_rows(rows)

    def deleted_rows(self, rows: int) -> RowSelection:
        """The deleted rows of a data file.

        Parameters
        ----------
        rows : int
            The number of rows in the file.

        Returns
        -------
        RowSelection
            A selection that spans ``rows`` rows.

        Raises
        ------
        CorruptFile
            A position is not below ``rows``.
        """
        if self._bitmap and self._bitmap.max() >= rows:
            raise CorruptFile(f"the deletion vector deletes row {self._bitmap.max()}, but the file has {rows} rows")
        narrow = self._bitmap64 and rows <= LARGEST_POSITION32
        return RowSelection.from_bitmap(_narrowed(self._bitmap) if narrow else self._bitmap, rows)

    def as_kind(self, bitmap64: bool) -> DeletionVector:
        """The same positions as a vector of the given kind.

        Parameters
        ----------
        bitmap64 : bool
            True for the 64-bit kind, False for the 32-bit kind.

        Returns
        -------
        DeletionVector
            A vector of the given kind. If this vector already has this kind, the result is the same object.

        Raises
        ------
        ValueOutOfRange
            A position is above 2^31 - 1, which the 32-bit kind cannot hold.
        """
        if bitmap64 == self._bitmap64:
            return self
        if bitmap64:
            return DeletionVector._of(_widened(self._bitmap), True)
        return DeletionVector(self.positions)

    def __len__(self) -> int:
        return len(self._bitmap)

    def __bool__(self) -> bool:
        return bool(self._bitmap)

    def __iter__(self) -> Iterator[int]:
        return iter(self._bitmap)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and 0 <= position <= LARGEST_POSITION64 and position in self._bitmap

    def __and__(self, other: DeletionVector) -> DeletionVector:
        return self._combined(other, operator.and_)

    def __or__(self, other: DeletionVector) -> DeletionVector:
        return self._combined(other, operator.or_)

    def _combined(self, other: DeletionVector, combine: Any) -> DeletionVector:
        if not isinstance(other, DeletionVector):
            return NotImplemented
        wide = self._bitmap64 or other._bitmap64
        return DeletionVector._of(combine(self.as_kind(wide)._bitmap, other.as_kind(wide)._bitmap), wide)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeletionVector):
            return NotImplemented
        return self._bitmap64 == other._bitmap64 and bool(self._bitmap == other._bitmap)

    def __hash__(self) -> int:
        return hash((self._bitmap64, len(self), self._bitmap.max() if self._bitmap else -1))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._bitmap, self._bitmap64)

    def __repr__(self) -> str:
        return f"<DeletionVector {len(self)} positions, {64 if self._bitmap64 else 32} bit>"


def _checked_bitmap(positions: Iterable[int], kind: type[BitMap | BitMap64], limit: int) -> BitMap | BitMap64:
    values: Any
    if isinstance(positions, BitMap | BitMap64):
        values, extremes = positions, [positions.min(), positions.max()] if positions else []
    elif isinstance(positions, np.ndarray) and positions.dtype.kind in "iu":
        values, extremes = positions, [int(positions.min()), int(positions.max())] if positions.size else []
    else:
        values = [operator.index(position) for position in positions]
        extremes = [min(values), max(values)] if values else []
    for extreme in extremes:
        if not 0 <= extreme <= limit:
            advice = "; bitmap64=True allows larger positions" if limit < extreme <= LARGEST_POSITION64 else ""
            raise ValueOutOfRange(f"position {extreme} is not from 0 to {limit}{advice}")
    return bitmap_of_rows(values, kind) if isinstance(values, np.ndarray) else kind(values)  # type: ignore[type-var]


def _narrowed(bitmap: BitMap64) -> BitMap:
    """Converts a bitmap to a 32-bit bitmap, whose operations are faster. All positions must have the key 0."""
    return BitMap.deserialize(bitmap.serialize()[_COUNT.size + _KEY.size :]) if bitmap else BitMap()


def _widened(bitmap: BitMap) -> BitMap64:
    return BitMap64.deserialize(_COUNT.pack(1) + _KEY.pack(0) + bitmap.serialize())


def _dense_bytes(bitmap: BitMap64) -> bytes:
    """The bitmaps of all keys up to the highest key. Keys without positions have empty bitmaps, as in Java's array of
    bitmaps."""
    if not bitmap:
        return _COUNT.pack(0)
    highest = bitmap.max() >> 32
    if highest >= MOST_KEYS64:
        size = (highest * _SMALLEST_KEYED) >> 20
        raise ValueOutOfRange(
            f"position {bitmap.max()} is too large: positions must be below {MOST_KEYS64 << 32}, because the vector "
            f"would need {size} MB of empty bitmaps, one for each 2^32 positions; leave out positions that are not "
            "rows of the data file"
        )
    optimised = bitmap.copy()
    optimised.run_optimize()
    sparse = memoryview(optimised.serialize())
    parts = [_COUNT.pack(highest + 1)]
    at, expected = _COUNT.size, 0
    while at < len(sparse):
        (key,) = _KEY.unpack_from(sparse, at)
        parts.append(_empty_keys(expected, key))
        end = portable_end(sparse, at + _KEY.size)
        parts.append(bytes(sparse[at:end]))
        at, expected = end, key + 1
    dense = b"".join(parts)
    if len(dense) + len(MAGIC64) > LARGEST_SIZE:
        raise ValueOutOfRange(
            f"the deletion vector has {len(dense)} bytes, but the format allows only less than 2^31 bytes"
        )
    return dense


def _empty_keys(start: int, stop: int) -> bytes:
    gaps = np.empty(stop - start, dtype=[("key", "<i4"), ("bitmap", f"V{len(EMPTY_BITMAP)}")])
    gaps["key"] = np.arange(start, stop)
    gaps["bitmap"] = np.void(EMPTY_BITMAP)
    return gaps.tobytes()


def read_entry(data: memoryview, at: int) -> tuple[DeletionVector, int]:
    """Reads the entry at ``at``. Returns the vector and the position of the entry's end."""
    if len(data) - at < _SIZE.size:
        raise CorruptFile("the deletion vector is cut off", offset=at)
    (size,) = _SIZE.unpack_from(data, at)
    start = at + _SIZE.size
    end = start + size
    if size < len(MAGIC32):
        raise CorruptFile(
            f"the stored length of the deletion vector is {size}, less than the {len(MAGIC32)} bytes of the magic",
            offset=at,
        )
    if end + 4 > len(data):
        left = len(data) - start
        raise CorruptFile(
            f"the deletion vector and its CRC should have {size + 4} bytes, but only {left} bytes are left", offset=at
        )
    checked = data[start:end]
    if zlib.crc32(checked) != int.from_bytes(data[end : end + 4], "big"):
        raise CorruptFile("the CRC of the deletion vector does not match its content", offset=at)
    magic = checked[: len(MAGIC32)]
    with shifted(start + len(MAGIC32)):
        if magic == MAGIC32:
            vector = DeletionVector._of(_read_body32(checked[len(MAGIC32) :]), False)
        elif magic == MAGIC64:
            vector = DeletionVector._of(_read_body64(checked[len(MAGIC64) :]), True)
        else:
            raise CorruptFile(f"the magic {magic.hex()} belongs to no kind of deletion vector", offset=-len(MAGIC32))
    return vector, end + 4


def _read_body32(body: memoryview) -> BitMap:
    bitmap, end = read_bitmap(body)
    if end != len(body):
        raise CorruptFile(
            f"there are {len(body) - end} unexpected bytes after the bitmap of the deletion vector", offset=end
        )
    if bitmap and bitmap.max() > LARGEST_POSITION32:
        raise CorruptFile(f"position {bitmap.max()} is not from 0 to {LARGEST_POSITION32}", offset=0)
    return bitmap


def _read_body64(body: memoryview) -> BitMap64:
    if len(body) < _COUNT.size:
        raise CorruptFile("the 64-bit deletion vector is cut off", offset=0)
    (count,) = _COUNT.unpack_from(body)
    if not 0 <= count <= (len(body) - _COUNT.size) // _SMALLEST_KEYED:
        raise CorruptFile(f"{count} bitmaps do not fit into the {len(body)} bytes of the deletion vector", offset=0)
    at, last = _COUNT.size, -1
    for _ in range(count):
        if len(body) - at < _KEY.size:
            raise CorruptFile("the 64-bit deletion vector is cut off", offset=at)
        (key,) = _KEY.unpack_from(body, at)
        if not last < key <= LARGEST_KEY64:
            raise CorruptFile(
                f"the keys of the 64-bit deletion vector must ascend, but key {key} follows key {last}", offset=at
            )
        at, last = portable_end(body, at + _KEY.size), key
    if at != len(body):
        raise CorruptFile(
            f"there are {len(body) - at} unexpected bytes after the bitmaps of the deletion vector", offset=at
        )
    bitmap = BitMap64.deserialize(bytes(body))
    if bitmap and bitmap.max() > LARGEST_POSITION64:
        raise CorruptFile(f"position {bitmap.max()} is not from 0 to {LARGEST_POSITION64}", offset=0)
    return bitmap


@contextmanager
def shifted(base: int) -> Iterator[None]:
    """A context manager for reading the part of a buffer that starts at ``base``. The offset in a raised error counts
    from the start of this part. It is converted to an offset from the start of the buffer."""
    try:
        yield
    except CorruptFile as error:
        error.offset = base + (error.offset or 0)
        raise


def _rebuild(bitmap: BitMap | BitMap64, bitmap64: bool) -> DeletionVector:
    return DeletionVector._of(bitmap, bitmap64)
