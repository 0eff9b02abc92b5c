"""The local store. It reads files by ``pread`` or ``mmap``. ``local_writing`` writes files.

``create`` is exclusive because it makes a hard link to the finished temporary file, and a hard link cannot replace a
file. On Windows it renames the file, because a rename on Windows cannot replace a file either.
"""

from __future__ import annotations

import errno
import glob
import mmap
import os
import re
import stat
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery, StorageError
from orcidx.frozen import with_fields
from orcidx.options import RequestOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.given import ReaderAtHand
from orcidx.storage.listing import glob_base, is_hidden, is_pattern, is_visible, of_version
from orcidx.storage.local_file import LocalFile
from orcidx.storage.local_writing import LocalSink, create_file, put_file
from orcidx.storage.ranges import ByteRange, RangeReader, ReadMetrics, as_expected, check_inside, object_changed
from orcidx.storage.stores import Found, Sink, Source, Store, Upload, is_url
from orcidx.storage.unfinished_swaps import MARK, is_mark, settled_listing
from orcidx.threads.waiting import Mutex

__all__ = [
    "STORE",
    "LentLocalReader",
    "LocalReader",
    "LocalSink",
    "LocalStore",
    "hold",
    "lent",
    "local_path_of",
    "local_source",
    "reopened",
]

_LOCAL_URL = re.compile(r"(file|local):(//)?", re.IGNORECASE)
_LARGEST_READ = 1 << 30
"""The most bytes of one read. Linux reads at most 0x7ffff000 bytes in one call. With this limit, each read is one call
on every system."""
_NANOS_PER_SECOND = 1_000_000_000
SMALL_FILE_BYTES = 256 << 10
"""A file of at most this many bytes is read completely together with its tail. All later reads then use memory."""
_HAS_PREADV = hasattr(os, "preadv")
# O_NONBLOCK is set because opening a named pipe must not wait for a writer. The flag has no effect on a regular file.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class LocalReader(ReaderAtHand):
    """A regular local file. With ``options.mmap`` the file is mapped, otherwise each range is read by one ``pread``.

    ``read_into(offset, parts)`` fills writable buffers one after the other without copying. It is None for a mapped
    file.

    Raises the system's ``FileNotFoundError``, ``PermissionError`` and ``IsADirectoryError``. Raises ``StorageError``
    for every other error of the system, and for pipes and devices."""

    def __init__(self, path: str, *, name: str | None = None, options: RequestOptions | None = None) -> None:
        name = path if name is None else name
        try:
            fd = os.open(path, _OPEN_FLAGS)
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
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
            raise StorageError(
                "the path is not a regular file; read its contents into bytes, and give these bytes", file=name
            )
        super().__init__(name, status.st_size, options)
        self._status = status
        self._opened = time.time_ns()
        self._seeks = Mutex()
        if options is not None and options.mmap and status.st_size:
            self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._local_file = LocalFile(fd, size=self._size, mtime_ns=status.st_mtime_ns, metrics=self.metrics)

    @cached_property
    def identity(self) -> tuple[Any, ...] | None:
        """Device, inode, size and times. ``None`` if the file was changed a moment ago, because another change in the
        same moment might not change any of these values."""
        status = self._status
        # The times of a file advance in steps of some milliseconds, and on some file systems in steps of one or two
        # seconds.
        step = 2 * _NANOS_PER_SECOND if status.st_mtime_ns % _NANOS_PER_SECOND == 0 else _NANOS_PER_SECOND // 10
        if self._opened - max(status.st_mtime_ns, status.st_ctime_ns) < step:
            return None
        return _identity(status)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self._size, None, self._status.st_mtime_ns)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise StorageError("the reader is closed", file=self.name)
        return self._fd

    def _fetch(self, offset: int, length: int) -> memoryview:
        if self._map is not None:
            self._verify()  # the map of a file that became shorter must not be accessed
            return memoryview(self._map)[offset : offset + length]
        fd = self._open_fd()
        # pyarrow's pool reuses memory. With new memory, the page faults would take longer than the copy itself.
        data = memoryview(pa.allocate_buffer(length)).cast("B")
        self._fill(fd, [data], offset, length)
        return data.toreadonly()

    def whole(self) -> memoryview | None:
        """All bytes of a small file. They are read at the first call. None for a larger file or a mapped file."""
        if self._whole is None and self._size <= SMALL_FILE_BYTES and self._map is None:
            data = memoryview(pa.allocate_buffer(self._size)).cast("B")
            # ``LocalFile.read`` itself checks whether the file has changed.
            if self._local_file is not None and self._local_file.read(0, data):
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

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
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
        """The file for readers in C. If a read in C fails, the bytes are read by this Python reader. None for a mapped
        file."""
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
            raise StorageError(
                f"{length} bytes at offset {offset} could not be read: {error}", file=self.name, offset=offset
            ) from error
        if self._fd is None:  # the file was closed meanwhile, and its descriptor may now belong to another file
            raise StorageError("the reader is closed", file=self.name)
        if have != length:
            self._verify()
            raise StorageError(
                f"only {have} of {length} bytes at offset {offset} could be read", file=self.name, offset=offset
            )

    def _pread_into(self, fd: int, parts: Sequence[memoryview], offset: int, length: int) -> int:
        """Fills ``parts``, which have ``length`` bytes together, or reads to the end of the file. Returns the number of
        bytes that were read."""
        have = 0
        if _HAS_PREADV and length <= _LARGEST_READ:
            have = os.preadv(fd, parts, offset)
            if have == length:
                return have
        start = 0
        for part in parts:  # bytes that ``preadv`` did not read are read buffer by buffer
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
        found = self._seeks.run(_seek_and_read, fd, offset, len(data))  # macOS before 11, Windows
        data[: len(found)] = found
        return len(found)

    def _verify(self) -> None:
        status = os.fstat(self._open_fd())
        if (status.st_size, status.st_mtime_ns) != (self._size, self._status.st_mtime_ns):
            raise object_changed(self.name, self.fingerprint(), _stat_version(status))

    def close(self) -> None:
        fd, self._fd = self._fd, None
        self._whole = None
        self._map = None  # the map is released when the last buffer of it is released
        if fd is not None:
            if self._local_file is not None:
                self._local_file.close()
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:  # None if opening the file failed
            self.close()


def hold(storage: RangeReader, data: bytes | memoryview, mtime: int) -> None:
    """Gives the reader of a small local file the bytes that were read before, so that they are not read again.
    ``mtime``: the modification time of the file, in nanoseconds, when the bytes were read. The bytes are not used if
    the file has changed since then, if the file is mapped, or if the storage is not a local file."""
    if not isinstance(storage, LocalReader) or storage._map is not None:
        return
    if (len(data), mtime) == (storage._size, storage._status.st_mtime_ns):
        storage._whole = memoryview(data)


def reopened(storage: RangeReader, path: str, metrics: ReadMetrics) -> LocalFile | None:
    """The file of an open reader, for readers in C. It can be used as if the file was opened again at ``path``.
    ``metrics`` counts the reads. None if another file may be at ``path`` by now, and for a mapped file or another
    storage."""
    file = storage.local_file if isinstance(storage, LocalReader) else None
    if file is None or storage.identity is None:
        return None
    try:
        found = _identity(os.stat(path))
    except OSError:
        return None
    return file.counted_by(metrics) if found == storage.identity else None


class LentLocalReader(LocalReader):
    """Reads a file through a reader of the caller, with its own ``metrics``. It can read as long as the caller's reader
    is open. Closing it leaves the caller's reader open."""

    def __init__(self, owner: LocalReader, file: LocalFile, metrics: ReadMetrics) -> None:
        self.__dict__.update(owner.__dict__)
        self.metrics = metrics
        self._local_file = file
        self._owner = owner

    @property
    def _fd(self) -> int | None:  # type: ignore[override]
        return self._owner._fd

    def close(self) -> None:
        """Leaves the caller's reader open."""

    def __del__(self) -> None:
        pass


def lent(storage: RangeReader, path: str, options: RequestOptions) -> LentLocalReader | None:
    """A reader of an open reader's file. It can be used as if the file was opened again at ``path`` with these options.
    None if another file may be at ``path`` by now, and for a mapped file or another storage."""
    if not isinstance(storage, LocalReader) or not storage.merges_with(options):
        return None
    metrics = ReadMetrics()
    file = reopened(storage, path, metrics)
    return None if file is None else LentLocalReader(storage, file, metrics)


def _identity(status: os.stat_result) -> tuple[Any, ...]:
    return "file", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _seek_and_read(fd: int, offset: int, length: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, length)


class LocalStore:
    """The store for local paths. It raises the errors of the operating system."""

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        if not isinstance(given, str):
            return None
        path = local_path_of(given) if ":" in given and _LOCAL_URL.match(given) else given
        return None if path is None else local_source(given, path)

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        return None  # fsspec's local file system, for example, is recognised by the store for fsspec

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        return location

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        return _STORE, source.location

    def source(self, path: str) -> Source:
        return Source(path, "path", path)

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader:
        reader = LocalReader(path, name=name, options=options)
        return reader if expected is None else as_expected(reader, name, expected)

    def file(self, path: str) -> Found | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return None
        return Found(path, _stat_version(status))

    def walk(self, path: str) -> list[Found]:
        found = []
        for directory, _, names in os.walk(path):
            for name in names:
                place = os.path.join(directory, name)
                try:
                    found.append(Found(place, _stat_version(os.stat(place))))
                except FileNotFoundError:  # e.g. a temporary file that was renamed after it was listed
                    continue
        return found

    def expand(self, source: Source, path: str) -> list[Source]:
        """The files below a relative path. Their names are relative and begin with the same path."""
        one = self.file(path)
        if one is not None:
            return [of_version(source, one.version)]
        if not is_url(source.name) and os.path.abspath(source.name) == path:
            path = source.name
        if is_pattern(path) and not os.path.lexists(path):
            base = glob_base(path.replace(os.sep, "/"))
            found = settled_listing(lambda: _matches(path), self.read, source.name, exists=self.exists)
            kept = [one for one in found if is_visible(one.path.replace(os.sep, "/"), base, path)]
            return _sorted(kept, base)
        # If the path does not exist, FileNotFoundError is raised here, before the scan starts.
        return _sorted(settled_listing(lambda: _walk(path), self.read, source.name), path)

    def put(self, path: str, data: bytes) -> None:
        put_file(path, data)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        return create_file(path, data, single_writer=single_writer)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def delete(self, path: str) -> None:
        os.unlink(path)

    def make_parent(self, path: str) -> None:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise StorageError(f"the directory cannot be created: {error.strerror}", file=path) from error

    def uploads(self, path: str) -> list[Upload]:
        return []  # an unfinished write is a file with a temporary name, which ``list`` returns

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        return LocalSink(name, path)


_STORE = LocalStore()
_PLAIN = Source("", "path", "")
_PLAIN_VERSION = Fingerprint(0)
STORE: type[Store] = LocalStore


def local_path_of(url: str) -> str | None:
    """The path in a ``file:`` URL; ``None`` for other URLs.

    According to the standard, ``file:`` URLs are percent-encoded. But fsspec reads and writes such URLs without
    encoding. If a file exists at the path that was not decoded, this path is returned.
    """
    match = _LOCAL_URL.match(url)
    if match is None or "::" in url:
        return None
    path = url[match.end() :]
    path = path.removeprefix("localhost") if path.startswith("localhost/") else path
    return path if "%" not in path or os.path.exists(path) else urllib.parse.unquote(path)


def local_source(name: str, path: str) -> Source:
    """The source of a path. The path may also come from a file system object of the local file system."""
    if "\0" in path or not (path.isascii() or _has_encoding(path)):
        raise InvalidQuery(f"{name!r:.200} is not a path, because it has a character that no file name can have")
    if path[:2] in ("~", "~/") and not os.path.lexists(path):
        path = os.path.expanduser(path)
    return with_fields(_PLAIN, name=name, location=_absolute(path))


def _has_encoding(path: str) -> bool:
    """Whether the encoding of file names has all characters of the path."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _absolute(path: str) -> str:
    """Does the same as ``os.path.abspath``. Many paths are returned unchanged. Finding this out takes less time than
    ``abspath``, which makes four Python calls."""
    plain = os.sep == "/" and path[:1] == "/" and path[-1] != "/" and "//" not in path and "/." not in path
    return path if plain else os.path.abspath(path)


def _sorted(found: Iterable[Found], root: str) -> list[Source]:
    root = os.path.abspath(root)
    ordered = sorted(found, key=lambda one: one.path)
    below = with_fields(_PLAIN, root=root)
    return [of_version(with_fields(below, name=path, location=_absolute(path)), version) for path, version in ordered]


def _stat_version(status: os.stat_result) -> Fingerprint:
    return with_fields(_PLAIN_VERSION, size=status.st_size, mtime=status.st_mtime_ns)


def _local_file(path: str) -> Found:
    try:
        return Found(path, _stat_version(os.stat(path)))
    except FileNotFoundError:  # a dangling link, or a file deleted since it was listed: opening it raises the error
        return Found(path, None)


def _matches(pattern: str) -> tuple[list[Found], list[str]]:
    """Returns two lists: the files that match a glob, and the paths of the files that record unfinished replacements
    (``unfinished_swaps``) in the same directories."""
    found: dict[str, Found] = {}  # a dict, because ** finds files twice: it matches directories and the files in them
    marks: set[str] = set()
    for match in glob.iglob(pattern, recursive=True, include_hidden=True):
        below, inside = _walk(match) if os.path.isdir(match) else ([_local_file(match)], [])
        found.update((one.path, one) for one in below)
        marks.update(inside)
    for folder in {os.path.dirname(path) for path in found}:
        marks.update(glob.iglob(os.path.join(glob.escape(folder), f"{MARK}*.json")))
    return list(found.values()), sorted(marks)


def _walk(root: str) -> tuple[list[Found], list[str]]:
    """Returns two lists: the files below a directory, and the paths of the files that record unfinished replacements
    (``unfinished_swaps``)."""
    found: list[Found] = []
    marks: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:  # a link to a parent directory
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    if is_mark(entry.name):
                        marks.append(entry.path)
                    continue
                if entry.is_dir():
                    waiting.append(entry.path)
                elif entry.is_file() or entry.is_symlink():
                    found.append(_local_file(entry.path))
    return found, marks
