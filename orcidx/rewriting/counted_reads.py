"""A reader that counts the reads of a cold scan of a file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from orcidx.errors import StorageError
from orcidx.storage import RangeReader
from orcidx.storage.given import ReaderAtHand
from orcidx.storage.local import SMALL_FILE_BYTES
from orcidx.storage.ranges import ByteRange, check_inside

__all__ = ["CountedReads"]

READ_BLOCK_BYTES = 1 << 20
MOST_BLOCKS = 64
"""A remote file is read in blocks of this many bytes, and at most this many blocks are kept in memory."""
MOST_READ = 256
"""The maximum number of blocks that are read from a remote file."""


class CountedReads(ReaderAtHand):
    """Reads a file as if it were a local file that is in no cache. So the counts of files in different storages can be
    compared, and scans of the same file do not share metadata. A remote file is read in large blocks, which takes fewer
    requests than are counted. ``StorageError`` is raised if too many of these blocks are needed."""

    def __init__(self, reader: RangeReader) -> None:
        super().__init__(reader.name, reader.size(), None)
        self._reader = reader
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()
        self._read = 0
        self._whole: memoryview | None = None

    def whole(self) -> memoryview | None:
        """All bytes of a small file. They are read at the first call. None for a larger file."""
        if self._whole is None and self._size <= SMALL_FILE_BYTES:
            (self._whole,) = super().read_ranges([(0, self._size)])
        return self._whole

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        self.whole()
        return super().read_tail(length)

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        data = self._whole
        if data is None:
            return super().read_ranges(ranges, most=most)
        check_inside(ranges, self._size, self.name)
        self.metrics.asked(len(ranges), sum(length for _, length in ranges))
        return [data[offset : offset + length] for offset, length in ranges]

    def _fetch(self, offset: int, length: int) -> memoryview:
        if self._reader.is_local:
            return self._reader.read_ranges([(offset, length)])[0]
        parts = []
        while length:
            number, start = divmod(offset, READ_BLOCK_BYTES)
            part = self._block(number)[start : start + length]
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _block(self, number: int) -> memoryview:
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return self._blocks[number]
        if self._read == MOST_READ:
            raise StorageError(
                f"the reads are counted in at most {MOST_READ} blocks of the file, but more blocks are needed",
                file=self.name,
            )
        self._read += 1
        start = number * READ_BLOCK_BYTES
        (block,) = self._reader.read_ranges([(start, min(READ_BLOCK_BYTES, self._size - start))])
        self._blocks[number] = block
        if len(self._blocks) > MOST_BLOCKS:
            self._blocks.popitem(last=False)
        return block

    def close(self) -> None:
        """Does nothing, because the caller that opened the reader closes it."""
