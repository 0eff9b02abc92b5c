"""The store for file systems of ``pyarrow.fs``. It reads in a pool of threads. The read calls take a position and
release the GIL.

``create`` raises ``Unsupported``. These file systems check for the name first and write afterwards, so two writers
could both succeed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from orcidx.options import RequestOptions
from orcidx.storage.failures import RETRIES_AFTER_LIBRARY, ShortBody, translating
from orcidx.storage.fingerprint import Fingerprint, mtime_of, plain_etag
from orcidx.storage.listing import expand_objects
from orcidx.storage.local import local_source
from orcidx.storage.ranges import RangeReader
from orcidx.storage.remote import RemoteReader, ThreadBackend
from orcidx.storage.stores import Found, Sink, Source, Store, Upload, in_filesystem
from orcidx.storage.writers import check_then_put, discard_when_collected, refused, temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["STORE", "ArrowBackend", "ArrowSink", "ArrowStore"]

# Arrow's S3 client raises a plain OSError. The kind of the error is only in its text.
_DENIED = re.compile(r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH)|HTTP status 40[13]")
_TRANSIENT = re.compile(
    r"AWS Error (NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING)"
    r"|HTTP status (429|50[0234])"
)


def _local_path_in(filesystem: fs.FileSystem, path: str) -> str | None:
    """The local path of ``path``, if the file system is the local file system or a subtree of it."""
    while isinstance(filesystem, fs.SubTreeFileSystem):
        path = f"{filesystem.base_path.rstrip('/')}/{path.lstrip('/')}"
        filesystem = filesystem.base_fs
    return path if isinstance(filesystem, fs.LocalFileSystem) else None


class ArrowBackend(ThreadBackend):
    """One object in a ``pyarrow.fs.FileSystem``. The object's version is its etag if the file system has etags (S3),
    otherwise its modification time."""

    retries = RETRIES_AFTER_LIBRARY

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        # The open file is stored under the key 0 of a dictionary, because changing a dictionary is atomic between
        # threads.
        self._files: dict[int, Any] = {}
        self._opened: Fingerprint | None = None
        self.storage = f"pyarrow {filesystem.type_name}"

    def close(self) -> None:
        file = self._files.pop(0, None)
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

    def look(self) -> Fingerprint:
        file, found = self._open()
        if self._files.setdefault(0, file) is not file:
            file.close()
        return found

    def read(self, offset: int, length: int) -> object:
        file = self._files.get(0)
        if file is None:
            self.look()
            file = self._files[0]
        with _translated(self._path):
            data = file.read_at(length, offset)
        if len(data) != length:
            raise ShortBody(f"only {len(data)} of {length} bytes arrived")
        return data


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Some errors of pyarrow can be classified only by their text. For such an error, raises ``PermissionError`` or
    ``ConnectionError``."""
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


class ArrowStore:
    """A ``pyarrow.fs`` file system. In S3, GCS and Azure an object becomes visible when its stream is closed. The other
    file systems can rename files."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem
        self._puts_whole = filesystem.type_name in ("s3", "gcs", "abfs")

    @staticmethod
    def describe(given: object, storage_options: Mapping[str, Any]) -> Source | None:
        return None

    @staticmethod
    def in_filesystem(text: str, filesystem: object) -> Source | None:
        if not isinstance(filesystem, fs.FileSystem):
            return None
        if isinstance(filesystem, fs.PyFileSystem) and isinstance(filesystem.handler, fs.FSSpecHandler):
            return in_filesystem(text, filesystem.handler.fs)  # pyarrow would open the files with fsspec's caches
        local = _local_path_in(filesystem, text)
        return Source(text, "arrow", text, filesystem=filesystem) if local is None else local_source(text, local)

    @staticmethod
    def address(location: str, filesystem: object) -> str | None:
        return None

    @staticmethod
    def of(source: Source) -> tuple[Store, str]:
        return ArrowStore(source.filesystem), source.location

    def source(self, path: str) -> Source:
        return Source(path, "arrow", path, filesystem=self._filesystem)

    def open(
        self, path: str, *, name: str, options: RequestOptions | None, expected: Fingerprint | None
    ) -> RangeReader:
        return RemoteReader(ArrowBackend(self._filesystem, path), name=name, options=options, expected=expected)

    def file(self, path: str) -> Found | None:
        info = self._filesystem.get_file_info(path.rstrip("/"))
        return Found(info.path, _info_version(info)) if info.is_file else None

    def walk(self, path: str) -> list[Found]:
        selector = fs.FileSelector(path.rstrip("/"), recursive=True, allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return [Found(info.path, _info_version(info)) for info in found if info.is_file]

    def expand(self, source: Source, path: str) -> list[Source]:
        return expand_objects(self, source, path)

    def put(self, path: str, data: bytes) -> None:
        place = path if self._puts_whole else temporary_name(path)
        if not self._puts_whole:
            self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with self._filesystem.open_output_stream(place, compression=None) as stream:
            stream.write(data)
        if place != path:
            self._filesystem.move(place, path)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return check_then_put(self, path, data)
        what = f"pyarrow's {type(self._filesystem).__name__} cannot create an object exclusively"
        raise refused(what, "give the URL with storage_options, or an obstore store, instead")

    def exists(self, path: str) -> bool:
        return self._filesystem.get_file_info(path).type != fs.FileType.NotFound  # type: ignore[no-any-return]

    def read(self, path: str) -> bytes:
        with self._filesystem.open_input_file(path) as file:
            return bytes(file.read())

    def delete(self, path: str) -> None:
        self._filesystem.delete_file(path)

    def make_parent(self, path: str) -> None:
        self._filesystem.create_dir(path.replace(os.sep, "/").rpartition("/")[0], recursive=True)

    def uploads(self, path: str) -> list[Upload]:
        return []  # pyarrow has no function that lists uploads

    def sink(self, path: str, *, name: str, part_bytes: int) -> Sink:
        return ArrowSink(self._filesystem, path, name=name)


STORE: type[Store] = ArrowStore


def _info_version(info: Any) -> Fingerprint:
    return Fingerprint(info.size, None, info.mtime_ns)


class ArrowSink:
    def __init__(self, filesystem: fs.FileSystem, path: str, *, name: str) -> None:
        self.name = name
        self._filesystem, self._path = filesystem, path
        self._place = temporary_name(self._path)
        self._stream = self._filesystem.open_output_stream(self._place, compression=None)
        self._drop = discard_when_collected(self, _discard, self._filesystem, self._stream, self._place)

    def write(self, data: Buffer) -> None:
        with translating(self.name):
            self._stream.write(data)

    def close(self) -> None:
        try:
            with translating(self.name):
                self._stream.close()
                self._filesystem.move(self._place, self._path)
        except BaseException:
            self.abort()
            raise
        self._drop.detach()

    def abort(self) -> None:
        self._drop.detach()
        _discard(self._filesystem, self._stream, self._place)


def _discard(filesystem: fs.FileSystem, stream: Any, temporary: str) -> None:
    with suppress(OSError):  # the data is discarded anyway
        stream.close()
    if filesystem.get_file_info(temporary).is_file:
        filesystem.delete_file(temporary)
