"""Backends over fsspec file systems, never through their file objects: those cache blocks nobody asked for.

HTTP and S3 get requests of their own (``fsspec_requests``). Every other file system is used through ``info`` and
``cat_file``.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

from fsspec.spec import AbstractFileSystem

from orcidx.errors import StorageError
from orcidx.storage.failures import OURS
from orcidx.storage.fingerprint import Fingerprint, fingerprint_of_info
from orcidx.storage.fsspec_requests import HttpBackend, S3Backend
from orcidx.storage.ranges import GapDiscardingBuffer
from orcidx.storage.remote import Answer, Backend, in_thread, shared_loop

__all__ = ["fsspec_backend"]


def fsspec_backend(filesystem: Any, path: str) -> Backend:
    """The backend that suits the file system."""
    protocols = filesystem.protocol
    protocols = {protocols} if isinstance(protocols, str) else set(protocols)
    if filesystem.async_impl:
        if protocols & {"http", "https"} and hasattr(filesystem, "set_session"):
            return HttpBackend(filesystem, path)
        if protocols & {"s3", "s3a"} and hasattr(filesystem, "_call_s3"):
            return S3Backend(filesystem, path)
        return AsyncBackend(filesystem, path)
    return BlockingBackend(filesystem, path)


def _fingerprint_of(info: dict[str, Any], path: str) -> Fingerprint:
    if info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "a directory, not a file", path)
    found = fingerprint_of_info(info)
    if found is None:
        raise StorageError("the storage does not say the object's size")
    return found


class AsyncBackend:
    """Any other asynchronous fsspec file system: ``_info`` and ``_cat_file`` on its own loop."""

    answers_identity = False
    sifts = False
    retries = OURS

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self.storage = f"{type(filesystem).__name__} {filesystem._fs_token}"

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._filesystem.loop  # type: ignore[no-any-return]

    async def stat(self) -> Fingerprint:
        self._filesystem.invalidate_cache(self._path)  # a cached listing would hide a change
        return _fingerprint_of(await self._filesystem._info(self._path), self._path)

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> Answer:
        return Answer(await self._filesystem._cat_file(self._path, start=offset, end=offset + length))

    async def get_tail(self, length: int) -> Answer:
        found = await self.stat()
        length = min(length, found.size)
        if not length:
            return Answer(b"", found)
        answer = await self.get(found.size - length, length)
        return Answer(answer.data, found)

    def close(self) -> None:
        pass


class BlockingBackend:
    """A synchronous fsspec file system, one call at a time (few are safe to share), in a thread."""

    answers_identity = False
    sifts = False
    retries = OURS

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._lock = threading.Lock()
        self._file: Any = None
        self.storage = f"{type(filesystem).__name__} {filesystem._fs_token}"
        # The base class's cat_file opens a file with a read-ahead cache for every call: hold one without instead.
        self._has_cat_file = type(filesystem).cat_file is not AbstractFileSystem.cat_file

    def loop(self) -> asyncio.AbstractEventLoop:
        return shared_loop()

    async def stat(self) -> Fingerprint:
        return await in_thread(self._stat)

    async def get(self, offset: int, length: int, buffer: GapDiscardingBuffer | None = None) -> Answer:
        return await in_thread(lambda: Answer(self._read(offset, length)))

    async def get_tail(self, length: int) -> Answer:
        return await in_thread(lambda: self._read_tail(length))

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def _stat(self) -> Fingerprint:
        with self._lock:
            self._filesystem.invalidate_cache(self._path)
            return _fingerprint_of(self._filesystem.info(self._path), self._path)

    def _read(self, offset: int, length: int) -> Any:
        with self._lock:
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
        except TypeError:  # not every file system takes the option
            return self._filesystem.open(self._path, "rb")

    def _read_tail(self, length: int) -> Answer:
        found = self._stat()
        length = min(length, found.size)
        return Answer(self._read(found.size - length, length) if length else b"", found)
