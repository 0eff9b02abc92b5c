"""The store for fsspec's file systems. It never uses their file objects, because these fetch and cache blocks that are
not needed.

For HTTP and S3, orcidx sends requests itself (``fsspec_requests``). All other file systems are used through ``info``
and ``cat_file``.

The table says how ``create`` is made exclusive:

================================  ====================================================================================
``s3://`` (s3fs)                  a PUT with ``If-None-Match: *``. orcidx sends the PUT itself, because s3fs before 2025
                                  ignores ``mode="create"``. The PUT needs botocore 1.35.20.
``gs://``, ``abfs://``            the conditional PUT of the file system, through ``mode="create"``
``memory://``                     a lock, which is enough because all writers are in this process
others                            ``create`` raises an error, because these file systems check for the name and
                                  then write
================================  ====================================================================================
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import fsspec.core
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from orcidx.errors import InvalidQuery, StorageError, Unsupported
from orcidx.extras import installed, what_to_install
from orcidx.options import RequestOptions
from orcidx.storage.failures import RETRIES, chain, classify, showable, status_of, translating
from orcidx.storage.fingerprint import Fingerprint, fingerprint_of_info, mtime_of
from orcidx.storage.fsspec_requests import HttpBackend, S3Backend
from orcidx.storage.listing import expand_objects
from orcidx.storage.local import local_source
from orcidx.storage.ranges import GapDiscardingBuffer, RangeReader
from orcidx.storage.remote import Backend, RemoteReader, StoreAnswer, ThreadBackend
from orcidx.storage.secrets import shown, without_secrets
from orcidx.storage.stores import Found, Sink, Source, Store, Upload, in_filesystem
from orcidx.storage.writers import check_then_put, discard_when_collected, prove, refused, temporary_name
from orcidx.threads.waiting import Mutex

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["STORE", "FsspecSink", "FsspecStore", "filesystem_of", "fsspec_backend"]

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "cos", "memory"})
"""fsspec's names of storages in which a file appears only when it is complete. In these storages, renaming copies the
file."""
_PACKAGE_OF_SCHEME = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "s3a": "s3fs"}
_memory_lock = Mutex()
_CONDITIONAL = frozenset({"gs", "gcs", "abfs", "abfss", "az", "adl"})
"""fsspec's names of stores whose ``pipe_file(mode="create")`` is a conditional PUT (gcsfs, adlfs)."""


def fsspec_backend(filesystem: AbstractFileSystem, path: str) -> Backend:
    """The backend that suits the file system."""
    protocols = _protocols_of(filesystem)
    if filesystem.async_impl:
        if protocols & {"http", "https"} and hasattr(filesystem, "set_session"):
            return HttpBackend(filesystem, path)
        if protocols & {"s3", "s3a"} and hasattr(filesystem, "_call_s3"):
            return S3Backend(filesystem, path)
        return AsyncBackend(filesystem, path)
    return BlockingBackend(filesystem, path)


def _fingerprint_of(info: dict[str, Any] | None, path: str) -> Fingerprint:
    if info is not None and info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "the path is a directory, but a file is expected", path)
    # ``info`` is None if the file system does not implement ``info()``.
    found = None if info is None else fingerprint_of_info(info)
    if found is None:
        raise StorageError("the storage does not report the object's size; download the object first")
    return found


class AsyncBackend:
    """An asynchronous fsspec file system other than HTTP and S3. ``_info`` and ``_cat_file`` are called on the event
    loop of the file system."""

    answers_identity = False
    discards_gaps = False
    retries = RETRIES

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self.storage = f"{type(filesystem).__name__} {filesystem._fs_token}"

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._filesystem.loop  # type: ignore[no-any-return]

    async def stat(self) -> Fingerprint:
        self._filesystem.invalidate_cache(self._path)  # a cached listing would hide a change
        return _fingerprint_of(await self._filesystem._info(self._path), self._path)

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> StoreAnswer:
        return StoreAnswer(await self._filesystem._cat_file(self._path, start=offset, end=offset + length))

    async def get_tail(self, length: int) -> StoreAnswer:
        found = await self.stat()
        length = min(length, found.size)
        if not length:
            return StoreAnswer(b"", found)
        answer = await self.get(found.size - length, length)
        return StoreAnswer(answer.data, found)

    def close(self) -> None:
        pass


class BlockingBackend(ThreadBackend):
    """A synchronous fsspec file system. Its calls run in a thread, one at a time, because few of these file systems are
    thread-safe."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._turns = Mutex()
        self._file: Any = None
        self.storage = f"{type(filesystem).__name__} {filesystem._fs_token}"
        # The cat_file of the base class opens the file with a read-ahead cache at every call. If the file system does
        # not override cat_file, orcidx keeps one file open instead, without a cache.
        self._has_cat_file = type(filesystem).cat_file is not AbstractFileSystem.cat_file

    def close(self) -> None:
        self._turns.run(self._close_file)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def look(self) -> Fingerprint:
        return self._turns.run(self._look)

    def _look(self) -> Fingerprint:
        self._filesystem.invalidate_cache(self._path)
        return _fingerprint_of(self._filesystem.info(self._path), self._path)

    def read(self, offset: int, length: int) -> object:
        return self._turns.run(self._read_file, offset, length)

    def _read_file(self, offset: int, length: int) -> Any:
        if self._has_cat_file:
            return self._filesystem.cat_file(self._path, start=offset, end=offset + length)
        if self._file is None:
            self._file = self._open()
        self._file.seek(offset)
        chunks, have = [], 0
        while have < length and (chunk := self._file.read(length - have)):
            chunks.append(chunk)
            have += len(chunk)
        return b"".join(chunks)

    def _open(self) -> Any:
        try:
            return self._filesystem.open(self._path, "rb", cache_type="none")
        except TypeError:  # some file systems do not have the option cache_type
            return self._filesystem.open(self._path, "rb")


class FsspecStore:
    """The store for fsspec's file systems, and for all URLs that no other store supports."""

    def __init__(self, filesystem: AbstractFileSystem) -> None:
        self._filesystem = filesystem
        self._names = _protocols_of(filesystem)
        self._puts_whole = not self._names.isdisjoint(_OBJECT_STORES)
        self._is_web = "http" in filesystem.protocol

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        if isinstance(given, str):
            return Source(shown(given), "url", given, dict(storage_options))
        if isinstance(given, (fsspec.core.OpenFile, AbstractBufferedFile)):
            return in_filesystem(given.path, given.fs)  # orcidx opens the file again, without fsspec's cache
        return None

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        if not isinstance(filesystem, AbstractFileSystem):
            return None
        ours: AbstractFileSystem = filesystem
        # An asynchronous file system belongs to the caller's event loop, so blocking calls would fail. So a file system
        # with the same options, but not asynchronous, is used.
        if getattr(ours, "asynchronous", False):
            keywords = {k: v for k, v in ours.storage_options.items() if k not in ("asynchronous", "loop")}
            ours = type(ours)(*ours.storage_args, **keywords)
        path = str(ours._strip_protocol(text))
        if "file" in _protocols_of(ours):
            return local_source(text, path)
        return Source(shown(text), "fsspec", path, filesystem=ours)

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        if isinstance(filesystem, AbstractFileSystem):
            return str(filesystem.unstrip_protocol(location))
        return location  # a URL

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        filesystem, path = source.filesystem, source.location
        if source.kind == "url":
            filesystem, path = filesystem_of(path, source.storage_options)
        return FsspecStore(filesystem), path

    def source(self, path: str) -> Source:
        name = shown(self._filesystem.unstrip_protocol(path))
        return Source(name, "fsspec", path, filesystem=self._filesystem)

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader:
        return RemoteReader(fsspec_backend(self._filesystem, path), name=name, options=options, expected=expected)

    def file(self, path: str) -> Found | None:
        # For web URLs, this method is called only if the URL has a final slash or a wildcard. Such a URL is not a file.
        if self._is_web:
            return None
        self._filesystem.invalidate_cache(path)  # a cached listing would hide changes
        try:
            info = self._filesystem.info(path)
        except FileNotFoundError:
            return None
        return None if info["type"] == "directory" else Found(path, fingerprint_of_info(info))

    def walk(self, path: str) -> list[Found]:
        self._filesystem.invalidate_cache(path)  # a cached listing would hide changes
        found = self._filesystem.find(path, detail=True)
        return [Found(name, fingerprint_of_info(info)) for name, info in found.items()]

    def expand(self, source: Source, path: str) -> list[Source]:
        if self._is_web and not source.location.endswith("/") and "*" not in path:
            # "?" begins the query of a URL. orcidx does not check whether the URL is a file, because this would take a
            # request.
            return [source]
        return expand_objects(self, source, path)

    def put(self, path: str, data: bytes) -> None:
        if self._puts_whole:
            self._filesystem.pipe_file(path, data)
        else:
            self._rename_into(path, data)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return check_then_put(self, path, data)
        if "memory" in self._names:
            return _memory_lock.run(check_then_put, self, path, data)  # fsspec before 2024.10 has no mode="create"
        if not self._names.isdisjoint({"s3", "s3a"}) and hasattr(self._filesystem, "call_s3"):
            create = self._put_if_none_match
        elif not self._names.isdisjoint(_CONDITIONAL):
            create = self._pipe_new
        else:
            raise refused(f"{type(self._filesystem).__name__} cannot create an object exclusively")
        prove((self._filesystem, path.strip("/").partition("/")[0]), path, create, self.delete)
        return create(path, data)

    def _pipe_new(self, path: str, data: bytes) -> bool:
        # A cached listing may not contain an object that another writer has created since. So the cache is cleared
        # first.
        self._filesystem.invalidate_cache(path)
        try:
            self._filesystem.pipe_file(path, data, mode="create")
        except Exception as error:
            if _is_taken(error):
                return False
            raise
        return True

    def _put_if_none_match(self, path: str, data: bytes) -> bool:
        bucket, key, _ = self._filesystem.split_path(path)
        for attempt in range(1, RETRIES.attempts + 1):
            try:
                self._filesystem.call_s3("put_object", Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            except Exception as error:
                if _is_taken(error):
                    return False
                if not _is_conflict(error) or attempt == RETRIES.attempts:
                    raise
                time.sleep(RETRIES.delay(attempt))
            else:
                break
        self._filesystem.invalidate_cache(path)
        return True

    def _rename_into(self, path: str, data: bytes) -> None:
        temporary = temporary_name(path)
        self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            self._filesystem.pipe_file(temporary, data)
            self._filesystem.mv(temporary, path)
        except BaseException:
            if self._filesystem.exists(temporary):
                self._filesystem.rm_file(temporary)
            raise

    def exists(self, path: str) -> bool:
        self._filesystem.invalidate_cache(path)
        return bool(self._filesystem.exists(path))

    def read(self, path: str) -> bytes:
        # s3fs since 2026.6 takes the size of an object from a cached listing. Another writer may have changed the
        # object since the listing.
        self._filesystem.invalidate_cache(path)
        return bytes(self._filesystem.cat_file(path))

    def delete(self, path: str) -> None:
        self._filesystem.rm_file(path)

    def make_parent(self, path: str) -> None:
        self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)

    def uploads(self, path: str) -> list[Upload]:
        if self._names.isdisjoint({"s3", "s3a"}) or not hasattr(self._filesystem, "call_s3"):
            return []
        bucket, key, _ = self._filesystem.split_path(path)
        wanted = {"Bucket": bucket, "Prefix": f"{key.rstrip('/')}/"}
        found: list[Upload] = []
        while True:
            answer = self._filesystem.call_s3("list_multipart_uploads", **wanted)
            found += [_upload_of(bucket, one) for one in answer.get("Uploads") or ()]
            if not answer.get("IsTruncated"):
                return found
            wanted |= {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        return FsspecSink(self._filesystem, path, name=name, part_bytes=part_bytes)


STORE: type[Store] = FsspecStore


def filesystem_of(url: str, storage_options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """The fsspec file system of a URL, and the path in it."""
    try:
        with translating(shown(url), what="the file system", doing="opening"):
            filesystem, path = _file_system_and_path(url, storage_options)
    except OSError as error:
        if "libjvm" not in str(error) and "libhdfs" not in str(error):
            raise
        raise StorageError(
            "HDFS is read through Hadoop's own library, which was not found. Set JAVA_HOME to a JDK, HADOOP_HOME to "
            "Hadoop, ARROW_LIBHDFS_DIR to the folder of libhdfs.so, and CLASSPATH to the output of `hadoop classpath "
            "--glob`. Or read through WebHDFS, with a URL webhdfs://",
            file=shown(url),
        ) from error
    return filesystem, path


def _file_system_and_path(url: str, storage_options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **storage_options)
    except ImportError as error:
        package = _PACKAGE_OF_SCHEME.get(url.partition(":")[0].lower())
        why = error if package is None or installed(package) else what_to_install(package)
        raise Unsupported(f"{shown(url)}: {why}") from error
    except (ValueError, TypeError) as error:
        raise InvalidQuery(f"{shown(url)}: {without_secrets(str(error))}") from showable(error)
    return filesystem, path


def _protocols_of(filesystem: AbstractFileSystem) -> set[str]:
    protocols = filesystem.protocol
    return {protocols} if isinstance(protocols, str) else set(protocols)


def _upload_of(bucket: str, upload: Mapping[str, Any]) -> Upload:
    began = upload.get("Initiated")
    return Upload(f"{bucket}/{upload['Key']}", upload["UploadId"], None if began is None else mtime_of(began))


def _is_taken(error: BaseException) -> bool:
    """Whether a conditional PUT was denied because the object exists."""
    return any(isinstance(link, FileExistsError) for link in chain(error)) or classify(error) == "changed"


def _is_conflict(error: BaseException) -> bool:
    """Whether S3 returned the status 409, because another conditional request for the same key is in progress. The
    other request may still fail, so orcidx sends its own request again."""
    return any(status_of(link) == 409 for link in chain(error))


class FsspecSink:
    def __init__(self, filesystem: AbstractFileSystem, path: str, *, name: str, part_bytes: int) -> None:
        from fsspec.implementations.memory import MemoryFileSystem

        self.name = name
        self._filesystem, self._path = filesystem, path
        whole = not _protocols_of(filesystem).isdisjoint(_OBJECT_STORES)
        # A file in fsspec's memory file system is visible as soon as it is opened, with any options. So it gets a
        # temporary name.
        self._renames = not whole or isinstance(filesystem, MemoryFileSystem)
        self._place = temporary_name(self._path) if self._renames else self._path
        options = {} if self._renames else {"block_size": part_bytes, "autocommit": False}
        self._file: Any = self._filesystem.open(self._place, "wb", **options)
        if self._file is None:
            raise StorageError("open() of the file system returned None instead of a file to write to", file=name)
        self._drop = discard_when_collected(
            self, _discard, self._filesystem, self._file, self._place if self._renames else None
        )

    def write(self, data: Buffer) -> None:
        with translating(self.name):
            self._file.write(memoryview(data).cast("B"))

    def close(self) -> None:
        try:
            with translating(self.name):
                self._file.close()
                if self._renames:
                    self._filesystem.mv(self._place, self._path)
                else:
                    self._file.commit()
        except BaseException:
            self.abort()
            raise
        self._drop.detach()
        self._filesystem.invalidate_cache(self._path.rpartition("/")[0] or None)

    def abort(self) -> None:
        self._drop.detach()
        _discard(self._filesystem, self._file, self._place if self._renames else None)


def _discard(filesystem: AbstractFileSystem, file: Any, temporary: str | None) -> None:
    """Discards a write. Removes its temporary file, or aborts its upload if there is no temporary file."""
    if temporary is not None:
        with suppress(OSError):  # the data is discarded anyway
            file.close()
        if filesystem.exists(temporary):
            filesystem.rm_file(temporary)
        return
    file.discard()
    if isinstance(file, AbstractBufferedFile):
        file.closed = True  # if it were not closed, the garbage collector would flush the rest
