"""How each kind of storage writes, reads, lists and deletes one object: what ``Folder`` is made of.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its place,
``.name.<uuid>.tmp``, and renamed; a process that dies leaves such a file at most. Object stores get one PUT, which is
whole or nothing by itself.

``create`` is exclusive, or it is refused: of all calls for one name, by whatever thread, process or machine, one is
told True. What makes it so:

================================  ====================================================================================
local paths                       a hard link to the finished temporary file; it cannot replace anything (on Windows: a
                                  rename, which does not replace there)
``s3://`` (s3fs)                  PUT with ``If-None-Match: *``, sent by ourselves, as s3fs before 2025 drops its
                                  ``mode="create"``; needs botocore 1.35.20
``gs://``, ``abfs://`` (fsspec)   their conditional PUT, through ``mode="create"``
``memory://`` (fsspec)            a lock: all of its writers are in this process
obstore                           its ``mode="create"``: a conditional PUT, a hard link, a lock
pyarrow.fs, other fsspec          nothing: they look, then write. Refused (``Unsupported``) unless ``single_writer``
================================  ====================================================================================

A server that takes a condition and ignores it would tell everybody True. So what rests on a server's word is tried out
first, once a process and bucket: a second create of one hidden name must be denied (``_prove``).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from orcidx.errors import Unsupported
from orcidx.storage.failures import OURS, chain, classify, status_of
from orcidx.storage.fingerprint import Fingerprint, fingerprint_of_info, mtime_of, plain_etag
from orcidx.storage.sources import Source, filesystem_of

__all__ = ["Writer", "is_object_store", "is_temporary", "temporary_name", "writer_of"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "cos", "memory"})
"""fsspec's names of storages where a file appears when all of it is there, and renaming means copying."""


def is_temporary(name: str) -> bool:
    """Whether an object is what a writer that died may have left."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def is_object_store(filesystem: Any) -> bool:
    """Whether an fsspec file system shows a file when all of it is there, and renames by copying."""
    protocols = filesystem.protocol
    names = {protocols} if isinstance(protocols, str) else set(protocols)
    return not names.isdisjoint(_OBJECT_STORES)


def temporary_name(name: str) -> str:
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last[:180]}.{uuid.uuid4().hex}.tmp"


class Writer(Protocol):
    """What a storage has to do; paths are the storage's own."""

    def put(self, path: str, data: bytes) -> None: ...

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def delete(self, path: str) -> None: ...

    def list(self, path: str) -> list[tuple[str, Fingerprint]]: ...


def writer_of(source: Source, place: str) -> tuple[Writer, str]:
    if source.kind == "path":
        return _Local(), place
    if source.kind == "obstore":
        return _Obstore(source.filesystem), place
    if source.kind == "arrow":
        return _Arrow(source.filesystem), place
    filesystem = source.filesystem
    if source.kind == "url":
        filesystem, place = filesystem_of(place, source.storage_options)
    return _Fsspec(filesystem), place


def _refused(what: str, instead: str = "") -> Unsupported:
    other = f"; {instead}" if instead else ""
    return Unsupported(
        f"{what}, so two jobs that write at once could lose each other's work{other}; "
        "or make sure that no other job writes there, and say so with single_writer=True"
    )


def _look_then_put(writer: Writer, path: str, data: bytes) -> bool:
    """Creates where nobody else writes; two that do it at once would both be told True."""
    if writer.exists(path):
        return False
    writer.put(path, data)
    return True


_proven: set[Any] = set()
"""Buckets, by file system or store, that were seen to deny a second create."""


def _prove(key: Any, path: str, create: Callable[[str, bytes], bool], delete: Callable[[str], None]) -> None:
    """Raises ``Unsupported`` where a server takes the condition of a create and ignores it."""
    if key in _proven:
        return
    name = temporary_name(path)
    try:
        honoured = create(name, b"1") and not create(name, b"2")
    finally:
        try:
            delete(name)
        except Exception as error:  # who may not delete may well commit; ``clean`` takes such names away
            if classify(error) not in ("denied", "missing"):
                raise
    if not honoured:
        raise _refused("this server ignores the condition that an object must not exist yet (If-None-Match)")
    _proven.add(key)


class _Local:
    def put(self, path: str, data: bytes) -> None:
        self._write(path, data, os.replace)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if os.path.lexists(path):
            return False
        try:
            self._write(path, data, _replace_nothing if single_writer else _link)
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, data: bytes, publish: Callable[[str, str], None]) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = temporary_name(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            publish(temporary, path)
            _sync_directory(os.path.dirname(path))
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def delete(self, path: str) -> None:
        os.unlink(path)

    def list(self, path: str) -> list[tuple[str, Fingerprint]]:
        found = []
        for directory, _, names in os.walk(path):
            for name in names:
                place = os.path.join(directory, name)
                try:
                    status = os.stat(place)
                except FileNotFoundError:  # a temporary file that has got its name meanwhile
                    continue
                found.append((place, Fingerprint(status.st_size, None, status.st_mtime_ns)))
        return found


_WITHOUT_LINKS = frozenset(
    getattr(errno, name) for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK") if hasattr(errno, name)
)


def _link(temporary: str, path: str) -> None:
    """Gives a finished file its name unless that is taken."""
    if sys.platform == "win32":
        os.rename(temporary, path)  # FileExistsError where the name is taken
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        if not os.path.samefile(temporary, path):  # NFS sends a link again when the answer was lost
            raise
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        raise _refused("this file system has no hard links, and no other way to create a file exclusively") from error


def _replace_nothing(temporary: str, path: str) -> None:
    """Renames unless the name is taken, where nobody else can take it meanwhile."""
    if os.path.lexists(path):
        raise FileExistsError(path)
    os.replace(temporary, path)


def _sync_directory(path: str) -> None:
    """Makes a new name outlast a power cut; not every system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


_memory_lock = threading.Lock()
_CONDITIONAL = frozenset({"gs", "gcs", "abfs", "abfss", "az", "adl"})
"""fsspec's names of stores whose ``pipe_file(mode="create")`` is a conditional PUT (gcsfs, adlfs)."""


class _Fsspec:
    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        protocols = filesystem.protocol
        self._names = {protocols} if isinstance(protocols, str) else set(protocols)
        self._puts_whole = not self._names.isdisjoint(_OBJECT_STORES)

    def put(self, path: str, data: bytes) -> None:
        if self._puts_whole:
            self._filesystem.pipe_file(path, data)
        else:
            self._rename_into(path, data)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return _look_then_put(self, path, data)
        if "memory" in self._names:
            with _memory_lock:
                return self._pipe_new(path, data)
        if not self._names.isdisjoint({"s3", "s3a"}) and hasattr(self._filesystem, "call_s3"):
            create = self._put_if_none_match
        elif not self._names.isdisjoint(_CONDITIONAL):
            create = self._pipe_new
        else:
            raise _refused(f"{type(self._filesystem).__name__} cannot create an object exclusively")
        _prove((self._filesystem, path.strip("/").partition("/")[0]), path, create, self.delete)
        return create(path, data)

    def _pipe_new(self, path: str, data: bytes) -> bool:
        try:
            self._filesystem.pipe_file(path, data, mode="create")
        except Exception as error:
            if _is_taken(error):
                return False
            raise
        return True

    def _put_if_none_match(self, path: str, data: bytes) -> bool:
        bucket, key, _ = self._filesystem.split_path(path)
        for attempt in range(1, OURS.attempts + 1):
            try:
                self._filesystem.call_s3("put_object", Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            except Exception as error:
                if _is_taken(error):
                    return False
                if not _is_conflict(error) or attempt == OURS.attempts:
                    raise
                time.sleep(OURS.delay(attempt))
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
        return bytes(self._filesystem.cat_file(path))

    def delete(self, path: str) -> None:
        self._filesystem.rm_file(path)

    def list(self, path: str) -> list[tuple[str, Fingerprint]]:
        self._filesystem.invalidate_cache(path)
        found = self._filesystem.find(path, detail=True).items()
        return [(name, version) for name, info in found if (version := fingerprint_of_info(info)) is not None]


def _is_taken(error: BaseException) -> bool:
    """Whether a conditional PUT was denied because the object is there."""
    return any(isinstance(link, FileExistsError) for link in chain(error)) or classify(error) == "changed"


def _is_conflict(error: BaseException) -> bool:
    """S3's 409: another conditional request for the key is under way; it may fail yet, so ask again."""
    return any(status_of(link) == 409 for link in chain(error))


class _Obstore:
    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, path: str, data: bytes) -> None:
        import obstore

        obstore.put(self._store, path, data)

    def create(self, path: str, data: bytes, *, single_writer: bool) -> bool:
        if single_writer:
            return _look_then_put(self, path, data)
        if type(self._store).__name__ not in ("LocalStore", "MemoryStore"):
            bucket = (type(self._store).__name__, self._store.prefix, frozenset(self._store.config.items()))
            _prove(bucket, path, self._put_new, self.delete)
        return self._put_new(path, data)

    def _put_new(self, path: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            obstore.put(self._store, path, data, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
        except (NotImplementedError, NotSupportedError) as error:
            what = f"obstore's {type(self._store).__name__} cannot create an object exclusively as it is configured"
            raise _refused(what, 'give it conditional_put="etag" if the server can') from error
        return True

    def exists(self, path: str) -> bool:
        import obstore

        try:
            obstore.head(self._store, path)
        except Exception as error:
            if classify(error) == "missing":
                return False
            raise
        return True

    def read(self, path: str) -> bytes:
        import obstore

        return bytes(obstore.get(self._store, path).bytes())

    def delete(self, path: str) -> None:
        import obstore

        obstore.delete(self._store, path)

    def list(self, path: str) -> list[tuple[str, Fingerprint]]:
        import obstore

        batches = obstore.list(self._store, path.strip("/") or None)
        return [
            (meta["path"], Fingerprint(meta["size"], plain_etag(meta.get("e_tag")), mtime_of(meta["last_modified"])))
            for batch in batches
            for meta in batch
        ]


class _Arrow:
    """A ``pyarrow.fs`` file system: S3 and GCS put an object when its stream closes, the others can rename."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self._puts_whole = filesystem.type_name in ("s3", "gcs", "abfs")

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
            return _look_then_put(self, path, data)
        what = f"pyarrow's {type(self._filesystem).__name__} cannot create an object exclusively"
        raise _refused(what, "give the URL with storage_options, or an obstore store, instead")

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        return self._filesystem.get_file_info(path).type != fs.FileType.NotFound  # type: ignore[no-any-return]

    def read(self, path: str) -> bytes:
        with self._filesystem.open_input_file(path) as file:
            return bytes(file.read())

    def delete(self, path: str) -> None:
        self._filesystem.delete_file(path)

    def list(self, path: str) -> list[tuple[str, Fingerprint]]:
        from pyarrow import fs

        selector = fs.FileSelector(path.rstrip("/"), recursive=True, allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return [(info.path, Fingerprint(info.size, None, info.mtime_ns)) for info in found if info.is_file]
