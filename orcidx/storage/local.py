"""Readers that need no network: local files through ``pread`` or ``mmap``, bytes, and the caller's file objects."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa

from orcidx.errors import InvalidQuery, StorageError
from orcidx.options import ReadOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.local_file import LocalFile
from orcidx.storage.ranges import (
    Range,
    ReadMetrics,
    changed,
    check_inside,
    merge_limits,
    merge_ranges,
    scatter,
)

__all__ = ["BytesReader", "FileObjectReader", "LocalReader"]

# Linux reads at most 0x7ffff000 bytes in one call; asking for less keeps one call one read on every system.
_LARGEST_READ = 1 << 30
_SECOND = 1_000_000_000
SMALL_FILE = 256 << 10
"""Bytes of a file that is read whole with its tail: one read, and everything is served from memory."""
_HAS_PREADV = hasattr(os, "preadv")
# O_NONBLOCK: opening a named pipe must not wait for a writer. It means nothing to a regular file.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class _LocalBase:
    """Merging, bounds and counting for readers whose bytes are at hand."""

    is_local = True

    def __init__(self, name: str, size: int, options: ReadOptions | None) -> None:
        self.name = name
        self.metrics = ReadMetrics()
        self._size = size
        self._gap, self._merge_size = merge_limits(options, is_local=True)

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

    def read_ranges(self, ranges: Sequence[Range], *, most: int | None = None) -> list[memoryview]:
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

    async def aread_ranges(self, ranges: Sequence[Range], *, most: int | None = None) -> list[memoryview]:
        return await asyncio.to_thread(self.read_ranges, ranges)

    def _fetch(self, offset: int, length: int) -> memoryview:
        raise NotImplementedError

    def _verify(self) -> None:
        """Raises when the object is no longer the one that was opened, where that can be seen."""

    def close(self) -> None:
        raise NotImplementedError


class LocalReader(_LocalBase):
    """A regular local file. With ``options.mmap`` it is mapped, else each range is one ``pread``.

    ``read_into(offset, parts)`` fills writable buffers, one after the other, with no copy in between; None of a mapped
    file.

    Raises ``FileNotFoundError``, ``PermissionError`` and ``IsADirectoryError`` as they are, ``StorageError`` for
    everything else that the system refuses and for pipes and devices.
    """

    def __init__(self, path: str, *, name: str | None = None, options: ReadOptions | None = None) -> None:
        name = path if name is None else name
        try:
            fd = os.open(path, _OPEN_FLAGS)
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise StorageError(f"cannot open the file: {error}", file=name) from error
        self._fd: int | None = fd
        self._map: mmap.mmap | None = None
        self._local_file: LocalFile | None = None
        self._whole: memoryview | None = None
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise StorageError("not a regular file; read it into bytes first", file=name)
        super().__init__(name, status.st_size, options)
        self._status = status
        self._opened = time.time_ns()
        self._seek_lock = threading.Lock()
        if options is not None and options.mmap and status.st_size:
            self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._local_file = LocalFile(fd, size=self._size, mtime_ns=status.st_mtime_ns, metrics=self.metrics)

    @cached_property
    def identity(self) -> tuple[Any, ...] | None:
        """Device, inode, size and times; ``None`` for a file so young that a rewrite might leave them as they are."""
        status = self._status
        # Times advance in steps of some milliseconds, on coarse file systems of one or two seconds.
        step = 2 * _SECOND if status.st_mtime_ns % _SECOND == 0 else _SECOND // 10
        if self._opened - max(status.st_mtime_ns, status.st_ctime_ns) < step:
            return None
        return ("file", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self._size, None, self._status.st_mtime_ns)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise StorageError("the reader is closed", file=self.name)
        return self._fd

    def _fetch(self, offset: int, length: int) -> memoryview:
        if self._map is not None:
            self._verify()  # a map of a file that shrank must not be touched
            return memoryview(self._map)[offset : offset + length]
        fd = self._open_fd()
        # pyarrow's pool hands warm memory out again; fresh memory costs more in page faults than the copy itself.
        data = memoryview(pa.allocate_buffer(length)).cast("B")
        self._fill(fd, [data], offset, length)
        return data.toreadonly()

    def whole(self) -> memoryview | None:
        """All bytes of a small file, read at the first call; None of a larger or a mapped one."""
        if self._whole is None and self._size <= SMALL_FILE and self._map is None:
            data = memoryview(pa.allocate_buffer(self._size)).cast("B")
            if self._local_file is not None and self._local_file.read(0, data):  # has looked whether the file changed
                self._whole = data.toreadonly()
                return self._whole
            started = time.perf_counter()
            self._whole = self._fetch(0, self._size)
            self.metrics.read(0, self._size, time.perf_counter() - started)
        if self._whole is not None:
            self._verify()
        return self._whole

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        data = self.whole()
        return super().read_tail(length) if data is None else (data[max(0, self._size - length) :], self._size)

    def read_ranges(self, ranges: Sequence[Range], *, most: int | None = None) -> list[memoryview]:
        data = self._whole
        if data is None:
            return super().read_ranges(ranges, most=most)
        self._verify()
        check_inside(ranges, self._size, self.name)
        return [data[offset : offset + length] for offset, length in ranges]

    @property
    def read_into(self) -> Callable[[int, Sequence[memoryview]], None] | None:
        return self._read_into if self._map is None else None

    @property
    def local_file(self) -> LocalFile | None:
        """For readers in C, which come back here when it fails; None of a mapped file."""
        return self._local_file if self._map is None else None

    def _read_into(self, offset: int, parts: Sequence[memoryview]) -> None:
        length = sum(map(len, parts))
        if offset < 0 or offset + length > self._size:
            check_inside([(offset, length)], self._size, self.name)
        started = time.perf_counter()
        self._fill(self._open_fd(), parts, offset, length)
        self.metrics.read(offset, length, time.perf_counter() - started)
        self._verify()

    def _fill(self, fd: int, parts: Sequence[memoryview], offset: int, length: int) -> None:
        try:
            have = self._pread_into(fd, parts, offset, length)
        except OSError as error:
            raise StorageError(f"reading {length} bytes at {offset}: {error}", file=self.name, offset=offset) from error
        if self._fd is None:  # closed meanwhile: the number may already belong to another file
            raise StorageError("the reader is closed", file=self.name)
        if have != length:
            self._verify()
            raise StorageError(f"{have} of {length} bytes at {offset}", file=self.name, offset=offset)

    def _pread_into(self, fd: int, parts: Sequence[memoryview], offset: int, length: int) -> int:
        """Fills ``parts``, ``length`` bytes in all, as far as the file goes; returns how many bytes there were."""
        have = 0
        if _HAS_PREADV and length <= _LARGEST_READ:
            have = os.preadv(fd, parts, offset)
            if have == length:
                return have
        start = 0
        for part in parts:  # again, buffer by buffer, what one call did not bring
            while start <= have < start + len(part):
                count = self._pread_once(fd, part[have - start : have - start + _LARGEST_READ], offset + have)
                if not count:
                    return have
                have += count
            start += len(part)
        return have

    def _pread_once(self, fd: int, data: memoryview, offset: int) -> int:
        if _HAS_PREADV:
            return os.preadv(fd, [data], offset)
        with self._seek_lock:  # macOS before 11, Windows
            os.lseek(fd, offset, os.SEEK_SET)
            found = os.read(fd, len(data))
        data[: len(found)] = found
        return len(found)

    def _verify(self) -> None:
        status = os.fstat(self._open_fd())
        if (status.st_size, status.st_mtime_ns) != (self._size, self._status.st_mtime_ns):
            raise changed(self.name, self.fingerprint(), Fingerprint(status.st_size, None, status.st_mtime_ns))

    def close(self) -> None:
        fd, self._fd = self._fd, None
        self._whole = None
        self._map = None  # unmapped when the last buffer of it is gone
        if fd is not None:
            if self._local_file is not None:
                self._local_file.close()
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:  # None, too, when opening the file failed
            self.close()


class BytesReader(_LocalBase):
    """Bytes in memory: anything with the buffer protocol, not copied."""

    def __init__(self, data: Any, *, name: str = "<bytes>", options: ReadOptions | None = None) -> None:
        view = memoryview(data)
        if not view.contiguous:
            raise InvalidQuery("the buffer must be contiguous")
        self._view: memoryview | None = view.cast("B").toreadonly() if view.nbytes else memoryview(b"")
        super().__init__(name, view.nbytes, options)

    def read_ranges(self, ranges: Sequence[Range], *, most: int | None = None) -> list[memoryview]:
        view = self._view
        if view is None:
            raise StorageError("the reader is closed", file=self.name)
        check_inside(ranges, self._size, self.name)
        self.metrics.asked(len(ranges), sum(length for _, length in ranges))
        return [view[offset : offset + length] for offset, length in ranges]

    async def aread_ranges(self, ranges: Sequence[Range], *, most: int | None = None) -> list[memoryview]:
        return self.read_ranges(ranges)

    def whole(self) -> memoryview | None:
        """All bytes."""
        return self._view

    def close(self) -> None:
        self._view = None


class FileObjectReader(_LocalBase):
    """A seekable binary file object of the caller, read under a lock; its position moves, and it is never closed."""

    def __init__(self, file: BinaryIO, *, name: str | None = None, options: ReadOptions | None = None) -> None:
        self._file: BinaryIO | None = file
        self._lock = threading.Lock()
        given = getattr(file, "name", None)
        if name is None:
            name = given if isinstance(given, str) else f"<{type(file).__name__}>"
        try:
            with self._lock:
                file.seek(0, os.SEEK_END)
                size = file.tell()
        except (OSError, ValueError, AttributeError) as error:
            raise StorageError(f"the file object cannot seek ({error}); give its bytes instead", file=name) from error
        super().__init__(name, size, options)

    def _fetch(self, offset: int, length: int) -> memoryview:
        file = self._file
        if file is None:
            raise StorageError("the reader is closed", file=self.name)
        try:
            with self._lock:
                file.seek(offset)
                chunks = self._read_chunks(file, length)
        except InvalidQuery:
            raise
        except (OSError, ValueError) as error:
            raise StorageError(f"reading {length} bytes at {offset}: {error}", file=self.name, offset=offset) from error
        have = sum(map(len, chunks))
        if have != length:
            raise StorageError(f"{have} of {length} bytes at {offset}", file=self.name, offset=offset)
        return memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _read_chunks(self, file: BinaryIO, length: int) -> list[bytes]:
        """Up to ``length`` bytes from here: raw files may give less than was asked for."""
        chunks: list[bytes] = []
        while length > 0:
            chunk: Any = file.read(length)
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                kind = type(chunk).__name__
                raise InvalidQuery(f"the file object reads {kind}, not bytes; open it as binary", file=self.name)
            if not chunk:
                break
            chunks.append(bytes(chunk))
            length -= len(chunk)
        return chunks

    def close(self) -> None:
        self._file = None
