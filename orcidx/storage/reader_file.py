"""``ReaderFile``: a range reader as the seekable file object that other libraries read from."""

from __future__ import annotations

import io

from orcidx.storage.ranges import RangeReader

__all__ = ["ReaderFile"]


class ReaderFile(io.RawIOBase):
    """Reads what it is asked for, except from ``tail``, the end of the object, which was read before. Does not close
    the reader."""

    def __init__(self, reader: RangeReader, *, tail: memoryview | None = None) -> None:
        self._reader = reader
        self._size = reader.size()
        self._tail = memoryview(b"") if tail is None else tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        start = min(self._at, self._size)
        stop = self._size if size < 0 else min(start + size, self._size)
        self._at = max(self._at, stop)
        behind = self._size - len(self._tail)
        before = b""
        if start < min(stop, behind):
            before = bytes(self._reader.read_ranges([(start, min(stop, behind) - start)])[0])
        return before + bytes(self._tail[max(0, start - behind) : max(0, stop - behind)])
