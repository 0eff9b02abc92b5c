"""``ReaderFile``: a range reader as a seekable file object, for other libraries."""

from __future__ import annotations

import io

from orcidx.storage.ranges import RangeReader

__all__ = ["ReaderFile"]


class ReaderFile(io.RawIOBase):
    """A range reader as a seekable binary file. Closing the file does not close the reader.

    Parameters
    ----------
    reader : RangeReader
        The reader.
    tail : memoryview, optional
        The end of the object, if it was read before. It is not read again.

    Examples
    --------
    >>> from orcidx.storage import ReaderFile, open_reader
    >>> file = ReaderFile(open_reader(b"0123456789"))
    >>> file.seek(-2, 2), file.read()
    (8, b'89')
    """

    def __init__(self, reader: RangeReader, *, tail: memoryview | None = None) -> None:
        self._reader = reader
        self._size = reader.size()
        self._tail = memoryview(b"") if tail is None else tail
        self._at = 0

    def readable(self) -> bool:
        """Whether the file can be read.

        Returns
        -------
        bool
            Always True.
        """
        return True

    def seekable(self) -> bool:
        """Whether the position can be changed.

        Returns
        -------
        bool
            Always True.
        """
        return True

    def tell(self) -> int:
        """The position.

        Returns
        -------
        int
            Bytes from the start of the object.
        """
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Changes the position. A position before the start becomes 0.

        Parameters
        ----------
        offset : int
            Bytes from the position that ``whence`` names.
        whence : int
            ``io.SEEK_SET``, ``io.SEEK_CUR`` or ``io.SEEK_END``.

        Returns
        -------
        int
            The new position, in bytes from the start of the object.
        """
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Reads from the current position.

        Parameters
        ----------
        size : int
            The maximum number of bytes to read. A negative number reads up to the end.

        Returns
        -------
        bytes
            The bytes from the current position. There are fewer than ``size`` bytes only at the end of the object.

        Raises
        ------
        StorageError
            As from ``RangeReader.read_ranges``.
        """
        start = min(self._at, self._size)
        stop = self._size if size < 0 else min(start + size, self._size)
        self._at = max(self._at, stop)
        behind = self._size - len(self._tail)
        before = b""
        if start < min(stop, behind):
            before = bytes(self._reader.read_ranges([(start, min(stop, behind) - start)])[0])
        return before + bytes(self._tail[max(0, start - behind) : max(0, stop - behind)])
