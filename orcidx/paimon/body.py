"""``Body``: the bytes of one index, which are fetched in ranges when they are needed.

Few requests are needed to read an index inside a file on object storage. The first read fetches a whole small body, or
the beginning of a large body. Everything else is fetched range by range.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyroaring import BitMap

from orcidx.errors import CorruptFile
from orcidx.paimon.roaring import read_bitmap

__all__ = ["Body", "IndexSource", "checked_rows", "is_within", "rows_of"]

WHOLE_BELOW_BYTES = 64 << 10
"""An index of fewer bytes is read whole, because a round trip costs as much as reading one or two megabytes (decision
0017)."""
FIRST_READ_BYTES = 16 << 10
"""The number of bytes in the first read of a larger index."""


class IndexSource(Protocol):
    """An object that returns ranges of bytes, such as the readers of ``orcidx.storage``."""

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """The bytes of each (offset, length), in the order of ``ranges``."""


class Body:
    """The ``length`` bytes of an index. A damaged file may have only the first ``available`` bytes. Offsets count from
    the start of the index."""

    def __init__(self, source: IndexSource | None, start: int, length: int, *, front: memoryview | None = None) -> None:
        self.length = length
        self.available = length if source is not None else len(front or b"")
        self._source = source
        self._start = start
        self._front = front

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview | Body) -> Body:
        """Makes a body from a whole buffer."""
        if isinstance(data, Body):
            return data
        view = memoryview(data).cast("B").toreadonly()
        return cls(None, 0, len(view), front=view)

    def part(self, start: int, length: int) -> Body:
        """Returns a part of this body as another ``Body``. If the part is longer than the rest of this body, the part
        ends where this body ends."""
        front = self._front
        if front is not None and (self._source is None or start + length <= len(front)):
            return Body(None, 0, length, front=front[start : start + length])
        part = Body(self._source, self._start + start, length)
        part.available = max(0, min(length, self.available - start))
        return part

    def check(self, offset: int, length: int) -> None:
        """Raises ``CorruptFile`` unless the range is within the body."""
        if offset < 0 or length < 0 or offset + length > self.available:
            cut = "" if self.available == self.length else ", which is cut off"
            raise CorruptFile(
                f"{length} bytes do not fit into the {self.available} bytes of the index{cut}", offset=offset
            )

    def check_apart(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Raises ``CorruptFile`` if all ranges together are longer than the body, because they then overlap. Reading
        overlapping ranges of a small body could take much memory."""
        if sum(length for _, length in ranges) > self.length:
            raise CorruptFile(
                f"the {len(ranges)} parts of the index overlap, because together they have more than its "
                f"{self.length} bytes"
            )

    def read(self, offset: int, length: int) -> memoryview:
        """``length`` bytes from ``offset``. Raises ``CorruptFile`` if the body is too short."""
        return self.read_many([(offset, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes of several ranges. They are read with one request to the source."""
        for offset, length in ranges:
            self.check(offset, length)
        ahead = [] if self._front is not None else [(0, self._ahead())]
        known = len(self._front) if self._front is not None else ahead[0][1]
        missing = [(offset, length) for offset, length in ranges if offset + length > known]
        fetched = self._fetch(ahead + missing) if ahead or missing else []
        if ahead:
            self._front = fetched.pop(0)
        front, rest = self._front, iter(fetched)
        assert front is not None
        return [front[o : o + n] if o + n <= known else next(rest) for o, n in ranges]

    def _ahead(self) -> int:
        return self.available if self.available <= WHOLE_BELOW_BYTES else FIRST_READ_BYTES

    def all(self) -> memoryview:
        """Every byte."""
        self.check(0, self.length)
        if self._front is None or len(self._front) < self.length:
            self._front = self._fetch([(0, self.length)])[0]
        return self._front

    def unpack(self, layout: struct.Struct, offset: int) -> tuple[Any, ...]:
        """Unpacks the fields of a fixed layout at ``offset``."""
        return layout.unpack(self.read(offset, layout.size))

    def parse_growing(self, offset: int, parse: Callable[[memoryview], Any], *, guess: int) -> Any:
        """Runs ``parse`` on the first ``guess`` bytes from ``offset``. If ``parse`` raises ``CorruptFile`` because the
        bytes are too few, ``parse`` runs again on twice as many bytes. This is repeated until ``parse`` succeeds or the
        body ends."""
        self.check(offset, 0)
        while True:
            rest = self.available - offset
            try:
                return parse(self.read(offset, min(guess, rest)))
            except CorruptFile:
                if guess >= rest:
                    raise
            guess = 2 * max(guess, 1)

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        assert self._source is not None
        buffers = self._source.read_ranges([(self._start + offset, length) for offset, length in ranges])
        views = [memoryview(buffer).cast("B").toreadonly() for buffer in buffers]
        for view, (offset, length) in zip(views, ranges):
            if len(view) != length:
                raise CorruptFile(
                    f"the source returned {len(view)} bytes, but {length} bytes were requested", offset=offset
                )
        return views


def rows_of(data: memoryview, rows: int, what: str) -> BitMap:
    """Reads the bitmap that fills ``data``. Raises ``CorruptFile`` if the bitmap is damaged or has a row that is not
    below ``rows``."""
    bitmap, end = read_bitmap(data, 0)
    if end != len(data):
        raise CorruptFile(f"{what}: the bitmap ends after {end} of its {len(data)} bytes")
    return checked_rows(bitmap, rows, what)


def checked_rows(bitmap: BitMap, rows: int, what: str) -> BitMap:
    """Returns the bitmap. Raises ``CorruptFile`` if it has a row that is not below ``rows``."""
    if bitmap and bitmap.max() >= rows:
        raise CorruptFile(f"{what}: the bitmap has row {bitmap.max()}, but the file has only {rows} rows")
    return bitmap


def is_within(bitmap: BitMap, existence: BitMap, rows: int) -> bool:
    """Whether all rows of the bitmap are in ``existence``. Usually ``existence`` contains all ``rows`` rows.

    If ``existence`` contains all rows, this function takes almost no time. The expression ``bitmap <= existence`` would
    test each bit, which takes 4 ms for 10 million rows.
    """
    if len(existence) == rows:
        return not bitmap or bitmap.max() < rows
    return bitmap.intersection_cardinality(existence) == len(bitmap)
