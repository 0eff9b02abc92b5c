"""``Sink``: one object that is written front to back and appears whole, or not at all.

    local path        a hidden temporary name beside it, renamed at the end
    object store      a multipart upload that is completed at the end
    other fsspec      a hidden temporary name, moved at the end
    file object       ``write`` only: not sought, not read, not closed; what was written before an error stays

``close`` publishes; ``abort`` leaves nothing behind.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

from orcidx.errors import InvalidQuery, OrcidxError
from orcidx.storage.failures import classify, translate
from orcidx.storage.sources import Source, describe_source, filesystem_of
from orcidx.storage.writers import is_object_store, temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Sink", "open_sink"]

JOINED_BYTES = 1 << 20
PART_BYTES = 8 << 20


class Sink(Protocol):
    """``name``: the path or URL, for messages."""

    name: str

    def write(self, data: Buffer) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def open_sink(
    where: Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    part_bytes: int = PART_BYTES,
) -> Sink:
    """Where to write: a path, a URL (fsspec), ``(store, path)`` of obstore, a path in ``filesystem``, or an object
    with ``write``. ``part_bytes``: size of the parts of an upload.

    Raises ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError``, ``StorageError``, ``InvalidQuery``.
    """
    if hasattr(where, "write") and not isinstance(where, str | os.PathLike):
        return _FileObjectSink(where)
    source = describe_source(where, storage_options=storage_options, filesystem=filesystem)
    if source.kind not in ("path", "url", "fsspec", "obstore", "arrow"):
        raise InvalidQuery(f"{source.name}: a file is written to a path, a URL or an object with write()")
    with _translated(source.name):
        if source.kind == "path":
            return _LocalSink(source.name, source.location)
        if source.kind == "obstore":
            return _UploadSink(source, part_bytes)
        if source.kind == "arrow":
            return _ArrowSink(source)
        return _FsspecSink(source, part_bytes)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except OrcidxError:
        raise
    except Exception as error:  # storage libraries raise what they like; classify() sorts it
        known = translate(error, classify(error), name=name, what="the object", doing="writing")
        if known is error:
            raise
        raise known from error


class _FileObjectSink:
    def __init__(self, file: Any) -> None:
        given = getattr(file, "name", None)
        self.name = given if isinstance(given, str) else f"<{type(file).__name__}>"
        self._file = file

    def write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            with _translated(self.name):
                written = self._file.write(view)
            if written is None or written >= len(view):  # buffered files say how much, some others nothing
                return
            if written <= 0:
                raise InvalidQuery(f"{self.name}: write() took no bytes; a blocking file is wanted")
            view = view[written:]

    def close(self) -> None:
        if hasattr(self._file, "flush"):
            with _translated(self.name):
                self._file.flush()

    def abort(self) -> None:
        pass


class _LocalSink:
    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path
        if os.path.isdir(path):
            raise IsADirectoryError(f"{name} is a directory")
        self._temporary = temporary_name(path)
        self._file = open(self._temporary, "xb", buffering=JOINED_BYTES)  # noqa: SIM115

    def write(self, data: Buffer) -> None:
        with _translated(self.name):
            self._file.write(data)

    def close(self) -> None:
        try:
            with _translated(self.name):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                os.replace(self._temporary, self._path)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        try:
            self._file.close()
        except OSError:  # what could not be flushed is thrown away anyway
            pass
        if os.path.lexists(self._temporary):
            os.unlink(self._temporary)


class _FsspecSink:
    def __init__(self, source: Source, part_bytes: int) -> None:
        self.name = source.name
        self._filesystem, self._path = source.filesystem, source.location
        if source.kind == "url":
            self._filesystem, self._path = filesystem_of(source.location, source.storage_options)
        # fsspec's memory shows a file as soon as it is opened, whatever it is told
        self._renames = not is_object_store(self._filesystem) or isinstance(self._filesystem, MemoryFileSystem)
        self._place = temporary_name(self._path) if self._renames else self._path
        options = {} if self._renames else {"block_size": part_bytes, "autocommit": False}
        self._file = self._filesystem.open(self._place, "wb", **options)

    def write(self, data: Buffer) -> None:
        with _translated(self.name):
            self._file.write(memoryview(data).cast("B"))

    def close(self) -> None:
        try:
            with _translated(self.name):
                self._file.close()
                if self._renames:
                    self._filesystem.mv(self._place, self._path)
                else:
                    self._file.commit()
        except BaseException:
            self.abort()
            raise
        self._filesystem.invalidate_cache(self._path.rpartition("/")[0] or None)

    def abort(self) -> None:
        if self._renames:
            self._file.close()
            if self._filesystem.exists(self._place):
                self._filesystem.rm_file(self._place)
            return
        self._file.discard()
        if isinstance(self._file, AbstractBufferedFile):
            self._file.closed = True  # else the garbage collector would flush what is left


class _ArrowSink:
    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._filesystem, self._path = source.filesystem, source.location
        self._place = temporary_name(self._path)
        self._stream = self._filesystem.open_output_stream(self._place, compression=None)

    def write(self, data: Buffer) -> None:
        with _translated(self.name):
            self._stream.write(data)

    def close(self) -> None:
        try:
            with _translated(self.name):
                self._stream.close()
                self._filesystem.move(self._place, self._path)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        self._stream.close()
        if self._filesystem.get_file_info(self._place).is_file:
            self._filesystem.delete_file(self._place)


class _Aborted(Exception):
    """Ends an upload without completing it."""


class _UploadSink:
    """A multipart upload of obstore's, which takes its parts out of an iterator in a thread of its own."""

    def __init__(self, source: Source, part_bytes: int) -> None:
        self.name = source.name
        self._part_bytes = part_bytes
        self._parts: queue.Queue[bytes | None] = queue.Queue(2)
        self._pending = bytearray()
        self._error: BaseException | None = None
        self._aborting = False
        self._ended = False
        self._thread = threading.Thread(target=self._upload, args=(source.filesystem, source.location), daemon=True)
        self._thread.start()

    def _upload(self, store: Any, path: str) -> None:
        import obstore

        try:
            obstore.put(store, path, self._iterate(), use_multipart=True, chunk_size=self._part_bytes)
        except Exception as error:
            self._error = error
            while not self._ended and self._parts.get() is not None:  # the writer may wait for room
                pass

    def _iterate(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None:
            yield part
        self._ended = True
        if self._aborting:
            raise _Aborted

    def write(self, data: Buffer) -> None:
        self._pending += data
        if len(self._pending) >= self._part_bytes:
            self._parts.put(bytes(self._pending))
            self._pending.clear()
        if self._error is not None:
            with _translated(self.name):
                raise self._error

    def close(self) -> None:
        if self._pending:
            self._parts.put(bytes(self._pending))
        self._finish()
        if self._error is not None:
            with _translated(self.name):
                raise self._error

    def abort(self) -> None:
        self._aborting = True
        self._finish()

    def _finish(self) -> None:
        self._parts.put(None)
        self._thread.join()
