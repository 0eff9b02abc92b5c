"""Readers of bytes and file objects that the caller passes. These bytes and objects are not in any store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

from orcidx.errors import InvalidQuery, StorageError
from orcidx.options import RequestOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.ranges import ByteRange, ReadMetrics, check_inside, merge_limits, merge_ranges, scatter
from orcidx.storage.threads import READERS
from orcidx.threads.awaiting import awaited
from orcidx.threads.waiting import Mutex

__all__ = ["BytesReader", "FileObjectReader", "ReaderAtHand"]


class ReaderAtHand:
    """The base of readers whose bytes need no request. It merges ranges, checks bounds and counts reads."""

    is_local = True

    def __init__(self, name: str, size: int, options: RequestOptions | None) -> None:
        self.name = name
        self.metrics = ReadMetrics()
        self._size = size
        self._gap, self._merge_size = merge_limits(options, is_local=True)

    def merges_with(self, options: RequestOptions) -> bool:
        """Whether a reader that is opened with ``options`` merges ranges in the same way as this reader."""
        return (self._gap, self._merge_size) == merge_limits(options, is_local=True)

    @property
    def identity(self) -> tuple[Any, ...] | None:
        return None

    def size(self) -> int:
        return self._size

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self._size)

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        length = min(length, self._size)
        return self.read_ranges([(self._size - length, length)])[0], self._size

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        check_inside(ranges, self._size, self.name)
        merged = merge_ranges(ranges, gap=self._gap, size=self._merge_size)
        self.metrics.asked(len(ranges), sum(length for _, length in ranges))
        buffers = []
        for fetch in merged:
            started = time.perf_counter()
            buffers.append(self._fetch(fetch.offset, fetch.length))
            self.metrics.fetched(fetch.offset, fetch.length, time.perf_counter() - started)
        self._verify()
        return scatter(len(ranges), merged, buffers)

    async def aread_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        return await awaited(READERS.submit(lambda: self.read_ranges(ranges)))

    def _fetch(self, offset: int, length: int) -> memoryview:
        raise NotImplementedError

    def _verify(self) -> None:
        """Raises an error if the object has visibly changed since it was opened."""

    def close(self) -> None:
        raise NotImplementedError


class BytesReader(ReaderAtHand):
    """Bytes in memory: any object with the buffer protocol. They are not copied."""

    def __init__(self, data: Any, *, name: str, options: RequestOptions | None = None) -> None:
        view = memoryview(data)
        if not view.contiguous:
            raise InvalidQuery("the buffer is not contiguous; give a copy of it, such as bytes(buffer)")
        self._view: memoryview | None = view.cast("B").toreadonly() if view.nbytes else memoryview(b"")
        super().__init__(name, view.nbytes, options)

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        view = self._view
        if view is None:
            raise StorageError("the reader is closed", file=self.name)
        check_inside(ranges, self._size, self.name)
        self.metrics.asked(len(ranges), sum(length for _, length in ranges))
        return [view[offset : offset + length] for offset, length in ranges]

    async def aread_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        return self.read_ranges(ranges)

    def whole(self) -> memoryview | None:
        """Returns all bytes."""
        return self._view

    def close(self) -> None:
        self._view = None


class FileObjectReader(ReaderAtHand):
    """A seekable binary file object of the caller, read under a lock. Reading changes the position of the object. The
    object is never closed."""

    def __init__(self, file: BinaryIO, *, name: str, options: RequestOptions | None = None) -> None:
        self._file: BinaryIO | None = file
        self._turns = Mutex()
        try:
            file.seek(0, os.SEEK_END)
            size = file.tell()
        except (OSError, ValueError, AttributeError) as error:
            raise StorageError(
                f"the file object cannot seek ({error}); give the file's bytes instead", file=name
            ) from error
        found: object = size
        if not isinstance(found, int) or found < 0:
            raise StorageError(
                f"tell() of the file object returned {found!r:.40}, which is not a position; give the file's bytes "
                "instead",
                file=name,
            )
        super().__init__(name, size, options)

    def _fetch(self, offset: int, length: int) -> memoryview:
        file = self._file
        if file is None:
            raise StorageError("the reader is closed", file=self.name)
        try:
            chunks = self._turns.run(self._read_at, file, offset, length)
        except InvalidQuery:
            raise
        except (OSError, ValueError) as error:
            raise StorageError(
                f"{length} bytes at offset {offset} could not be read: {error}", file=self.name, offset=offset
            ) from error
        have = sum(map(len, chunks))
        if have != length:
            raise StorageError(
                f"only {have} of {length} bytes at offset {offset} could be read", file=self.name, offset=offset
            )
        return memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _read_at(self, file: BinaryIO, offset: int, length: int) -> list[bytes]:
        """Up to ``length`` bytes at ``offset``. One read of a raw file may return fewer bytes than were requested."""
        file.seek(offset)
        chunks: list[bytes] = []
        while length > 0:
            chunk: Any = file.read(length)
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                kind = type(chunk).__name__
                raise InvalidQuery(
                    f"read() of the file object returned {kind} instead of bytes; open the file in binary mode",
                    file=self.name,
                )
            if not chunk:
                break
            chunks.append(bytes(chunk))
            length -= len(chunk)
        return chunks

    def close(self) -> None:
        self._file = None
