"""The store for the Hadoop file systems of a Spark session: HDFS, s3a, and every other file system that the session
has.

A source is a URL as Hadoop writes it, without escapes. On the driver, the file system of such a source is
``HadoopFiles``, which calls the JVM (``orcidx.spark.sessions.hadoop_files``). ``HadoopFiles`` is pickled as
``TaskFiles``. With ``TaskFiles`` a task reads the same files without a JVM.

The table says how ``create`` is made exclusive:

============  ==========================================================================================================
``hdfs://``   a rename in the namenode, which raises an error if the new name exists
``s3a://``    a PUT with ``If-None-Match: *``. Hadoop's file system sends the PUT if this file system has the option
              ``fs.option.create.conditional.overwrite`` (Hadoop 3.4.2). Otherwise the PUT is sent by s3fs or obstore,
              as in tasks.
others        ``create`` raises an error, because these file systems check for the name and then write
============  ==========================================================================================================
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from orcidx.errors import StorageError, Unsupported
from orcidx.options import RequestOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.listing import expand_objects
from orcidx.storage.ranges import RangeReader
from orcidx.storage.remote import RemoteReader, StoreAnswer, ThreadBackend
from orcidx.storage.stores import Found, Sink, Source, Store, Upload, store_of
from orcidx.storage.writers import check_then_put, prove, refused, temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "STORE",
    "AccessByAuthority",
    "FileAccess",
    "Files",
    "HadoopStore",
    "TaskFiles",
    "authority_of",
    "hadoop_source",
    "install",
    "scheme_of",
]

_LARGEST_ANSWER = 16 << 20
"""The most bytes that one call to the JVM returns. The JVM holds these bytes in memory until Python has read them."""
_S3 = frozenset({"s3a", "s3n", "s3"})
_ATOMIC_SCHEMES = _S3 | frozenset({"gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"})
"""Schemes of object stores in which a file appears only when it is closed."""


class Files(Protocol):
    """The file systems of a session. Each method takes the URL of a file or directory."""

    name: str
    """A name of this session's file systems, used in the keys of caches."""

    def list(self, url: str) -> list[Found]: ...
    def status(self, url: str) -> Found | None:
        """Raises ``IsADirectoryError`` for a directory."""

    def read(self, url: str, offset: int, length: int, *, size: int | None) -> bytes:
        """``size``: the size of the file in bytes, if it is known."""

    def write(self, url: str, data: bytes, how: str, temporary: str | None) -> bool: ...
    def rename(self, url: str, to: str) -> None: ...
    def delete(self, url: str) -> None: ...
    def make_directory(self, url: str) -> None: ...
    def refuses_second(self, url: str) -> bool: ...
    def in_tasks(self, url: str) -> Source | None:
        """The source through which a task reads a URL. None if only the JVM can read the URL."""


@dataclass(frozen=True)
class TaskFiles:
    """The file systems in a task. ``token`` identifies their settings, which Spark sends with the function of the
    task."""

    token: str

    def reached(self, source: Source) -> Source:
        """Returns a source that this process can open for the same file. Raises ``StorageError`` if this process does
        not have the settings of the file systems."""
        sources = _TASK_SOURCES.get(self.token)
        if sources is None:
            raise StorageError(
                "this process cannot open the file, because only orcidx's own tasks receive the settings of Spark's "
                "file systems",
                file=source.name,
            )
        return replace(sources.source(str(source.location)), name=source.name, size=source.size, listed=source.listed)


class TaskSources(Protocol):
    """The libraries that read the files of a session in a process without the session's JVM."""

    def source(self, url: str) -> Source: ...


class FileAccess(Protocol):
    """A library that reads files of a session in a process without a JVM."""

    @property
    def shown(self) -> str:
        """The name of the library that reads the files, for messages."""

    @property
    def problem(self) -> str | None:
        """The reason why the process cannot read the files, and the setting that is missing. None if this process finds
        no reason."""

    def source(self, url: str) -> Source: ...


@dataclass(frozen=True)
class AccessByAuthority:
    """The libraries that read files, by scheme and authority (``authority_of``)."""

    by_authority: Mapping[str, FileAccess]

    def source(self, url: str) -> Source:
        access = self.by_authority.get(authority_of(url))
        if access is None:
            raise StorageError("this task does not have the settings of the bucket or server in the URL", file=url)
        if access.problem is not None:
            raise Unsupported(access.problem, file=url)
        return access.source(url)


_TASK_SOURCES: dict[str, TaskSources] = {}


def install(token: str, sources: TaskSources) -> None:
    """Stores the libraries with which ``TaskFiles(token)`` reads files in this process."""
    known = _TASK_SOURCES.get(token)
    if isinstance(sources, AccessByAuthority) and isinstance(known, AccessByAuthority):
        sources = AccessByAuthority({**known.by_authority, **sources.by_authority})
    _TASK_SOURCES[token] = sources


def authority_of(url: str) -> str:
    """The scheme and the authority of a URL. The authority is a bucket or a server."""
    scheme, _, rest = url.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0]}"


def scheme_of(url: str) -> str:
    return url.partition("://")[0].lower()


def hadoop_source(url: str, files: Files, *, name: str | None = None) -> Source:
    """The source of a URL in the file systems of a session."""
    return Source(name or url, "hadoop", url.rstrip("/"), filesystem=files)


class HadoopBackend(ThreadBackend):
    """One file, read by blocking calls to the JVM. ``size``: the size of the file in bytes, if it is known and if the
    version of the file is not needed. The tail is then read without a request for the file's status."""

    def __init__(self, files: Files, url: str, *, size: int | None = None) -> None:
        self._files = files
        self._url = url
        self.storage = f"hadoop {files.name}"
        self._size = size
        self._is_known = size is not None

    def look(self) -> Fingerprint:
        found = self._files.status(self._url)
        if found is None or found.version is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", self._url)
        self._size = found.version.size
        return found.version

    def read(self, offset: int, length: int) -> bytes:
        if length <= _LARGEST_ANSWER:
            return self._files.read(self._url, offset, length, size=self._size)
        pieces = []
        for at in range(offset, offset + length, _LARGEST_ANSWER):
            length_of_piece = min(_LARGEST_ANSWER, offset + length - at)
            pieces.append(self._files.read(self._url, at, length_of_piece, size=self._size))
        return b"".join(pieces)

    def _read_tail(self, length: int) -> StoreAnswer:
        if not self._is_known or not self._size:
            return super()._read_tail(length)
        length = min(length, self._size)
        data = self.read(self._size - length, length)
        return StoreAnswer(data, Fingerprint(self._size)) if len(data) == length else super()._read_tail(length)


class HadoopStore:
    """The file systems of a Spark session."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        return None  # only orcidx.spark makes sources of this store

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        return None

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        return None  # a process without the Spark session cannot open the URL

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        if isinstance(source.filesystem, TaskFiles):
            return store_of(source.filesystem.reached(source))
        return HadoopStore(source.filesystem), str(source.location)

    def source(self, path: str) -> Source:
        return hadoop_source(path, self._files)

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader:
        size = expected.size if expected is not None and not expected.is_version else None
        return RemoteReader(HadoopBackend(self._files, path, size=size), name=name, options=options, expected=expected)

    def file(self, path: str) -> Found | None:
        try:
            return self._files.status(path)
        except IsADirectoryError:
            return None

    def walk(self, path: str) -> list[Found]:
        return self._files.list(path)

    def expand(self, source: Source, path: str) -> list[Source]:
        return expand_objects(self, source, path)

    def is_directory(self, path: str) -> bool:
        try:
            self._files.status(path)
        except IsADirectoryError:
            return True
        return False

    def put(self, path: str, data: bytes) -> None:
        self._files.write(path, data, "put", self._temporary(path))

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return check_then_put(self, path, data)
        scheme = scheme_of(path)
        if scheme == "hdfs":
            return self._files.write(path, data, "rename", temporary_name(path))
        if scheme not in _S3:
            raise refused(f"Hadoop's file system of {scheme}:// cannot create a file exclusively")
        if self._files.refuses_second(path):
            prove((self._files.name, authority_of(path)), path, self._create_conditionally, self.delete)
            return self._create_conditionally(path, data)
        found = self._files.in_tasks(path)
        if found is None:
            raise refused(
                "to create a file in S3 without replacing an existing file, s3a 3.4.2, s3fs or obstore is needed, but "
                "none of them is installed"
            )
        store, place = store_of(found)
        return store.create(place, data, single_writer=False)

    def _create_conditionally(self, path: str, data: bytes) -> bool:
        return self._files.write(path, data, "conditional", None)

    @staticmethod
    def _temporary(path: str) -> str | None:
        return None if scheme_of(path) in _ATOMIC_SCHEMES else temporary_name(path)

    def exists(self, path: str) -> bool:
        try:
            return self._files.status(path) is not None
        except IsADirectoryError:
            return True

    def read(self, path: str) -> bytes:
        backend = HadoopBackend(self._files, path)
        return backend.read(0, backend.look().size)

    def delete(self, path: str) -> None:
        self._files.delete(path)

    def rename(self, path: str, to: str) -> None:
        """Renames a file. If a file with the new name exists, it is replaced."""
        self._files.rename(path, to)

    def make_parent(self, path: str) -> None:
        self._files.make_directory(path.rpartition("/")[0])

    def uploads(self, path: str) -> list[Upload]:
        return []  # Hadoop has no function that lists uploads

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        return _HeldSink(self, path, name)


STORE: type[Store] = HadoopStore


class _HeldSink:
    """Holds the data in memory until the sink is closed. Only the driver uses this sink, and the driver writes little
    data."""

    def __init__(self, store: HadoopStore, path: str, name: str) -> None:
        self.name = name
        self._store, self._path = store, path
        self._data = bytearray()

    def write(self, data: Buffer) -> None:
        self._data += data

    def close(self) -> None:
        self._store.put(self._path, bytes(self._data))

    def abort(self) -> None:
        self._data.clear()
