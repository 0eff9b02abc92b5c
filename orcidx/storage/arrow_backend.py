"""Backend over ``pyarrow.fs`` file systems: positioned reads, which release the GIL, in a pool of threads."""

from __future__ import annotations

import asyncio
import errno
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

from orcidx.storage.failures import AFTER_THEIRS, ShortBody
from orcidx.storage.fingerprint import Fingerprint, mtime_of, plain_etag
from orcidx.storage.ranges import GapDiscardingBuffer
from orcidx.storage.remote import Answer, in_thread, shared_loop

__all__ = ["ArrowBackend", "local_path_in"]

# Arrow's S3 client puts everything into the text of a plain OSError.
_DENIED = re.compile(r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH)|HTTP status 40[13]")
_TRANSIENT = re.compile(
    r"AWS Error (NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING)"
    r"|HTTP status (429|50[0234])"
)


def local_path_in(filesystem: Any, path: str) -> str | None:
    """The local path of ``path``, if the file system is the local one or a subtree of it."""
    while isinstance(filesystem, fs.SubTreeFileSystem):
        path = f"{filesystem.base_path.rstrip('/')}/{path.lstrip('/')}"
        filesystem = filesystem.base_fs
    return path if isinstance(filesystem, fs.LocalFileSystem) else None


class ArrowBackend:
    """One object of a ``pyarrow.fs.FileSystem``; its etag where the file system tells (S3), else its time."""

    answers_identity = False
    sifts = False
    retries = AFTER_THEIRS

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._lock = threading.Lock()
        self._file: Any = None
        self._opened: Fingerprint | None = None
        self.storage = f"pyarrow {filesystem.type_name}"

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

    def _open(self) -> tuple[Any, Fingerprint]:
        with _translated(self._path):
            file = self._filesystem.open_input_file(self._path)
            size, headers = file.size(), {str(k).lower(): v for k, v in (file.metadata() or {}).items()}
            etag = plain_etag(headers.get("etag", b"").decode("latin-1"))
            mtime = mtime_of(headers.get("last-modified", b"").decode("latin-1"))
            if etag is None and mtime is None:
                mtime = self._filesystem.get_file_info(self._path).mtime_ns
        return file, Fingerprint(size, etag, mtime)

    def _stat(self) -> Fingerprint:
        file, found = self._open()
        with self._lock:
            if self._file is None:
                self._file = file
                return found
        file.close()
        return found

    def _read(self, offset: int, length: int) -> Any:
        file = self._file
        if file is None:
            self._stat()
            file = self._file
        with _translated(self._path):
            data = file.read_at(length, offset)
        if len(data) != length:
            raise ShortBody(f"{len(data)} of {length} bytes")
        return data

    def _read_tail(self, length: int) -> Answer:
        found = self._stat()
        length = min(length, found.size)
        return Answer(self._read(found.size - length, length) if length else b"", found)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Gives an error whose kind is only in its text the type that says so."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise
        text = str(error)
        if _DENIED.search(text):
            raise PermissionError(errno.EACCES, text, path) from error
        if _TRANSIENT.search(text):
            raise ConnectionError(text) from error
        raise
