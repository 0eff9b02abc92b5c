"""How each kind of storage writes, reads, lists and deletes one object: what ``Folder`` is made of.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its place,
``.name.<uuid>.tmp``, and renamed; a process that dies leaves such a file at most. Object stores get one PUT, which is
whole or nothing by itself.
"""

from __future__ import annotations

import os
import re
import uuid
from typing import Any, Protocol

from orcidx.storage.failures import classify
from orcidx.storage.fingerprint import Fingerprint, fingerprint_of_info, mtime_of, plain_etag
from orcidx.storage.sources import Source, filesystem_of

__all__ = ["Writer", "is_temporary", "temporary_name", "writer_of"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "cos", "memory"})
"""fsspec's names of storages where a file appears when all of it is there, and renaming means copying."""


def is_temporary(name: str) -> bool:
    """Whether an object is what a writer that died may have left."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def temporary_name(name: str) -> str:
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last[:180]}.{uuid.uuid4().hex}.tmp"


class Writer(Protocol):
    """What a storage has to do; paths are the storage's own."""

    def put(self, path: str, data: bytes) -> None: ...

    def create(self, path: str, data: bytes) -> bool: ...

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


class _Local:
    def put(self, path: str, data: bytes) -> None:
        self._write(path, data, os.replace)

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._write(path, data, _link)
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, data: bytes, publish: Any) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = temporary_name(path)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            publish(temporary, path)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

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


def _link(temporary: str, path: str) -> None:
    """Renames unless the name is taken: a hard link cannot replace anything."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the best that is left
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.replace(temporary, path)


class _Fsspec:
    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        protocols = filesystem.protocol
        names = {protocols} if isinstance(protocols, str) else set(protocols)
        self._puts_whole = not names.isdisjoint(_OBJECT_STORES)

    def put(self, path: str, data: bytes) -> None:
        if self._puts_whole:
            self._filesystem.pipe_file(path, data)
        else:
            self._rename_into(path, data)

    def create(self, path: str, data: bytes) -> bool:
        if self._puts_whole:
            try:
                self._filesystem.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except Exception as error:
                if classify(error) == "changed":  # the answer 412 of some stores
                    return False
                raise
            return True
        self._filesystem.invalidate_cache(path)
        if self._filesystem.exists(path):
            return False
        self._rename_into(path, data)
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

    def read(self, path: str) -> bytes:
        return bytes(self._filesystem.cat_file(path))

    def delete(self, path: str) -> None:
        self._filesystem.rm_file(path)

    def list(self, path: str) -> list[tuple[str, Fingerprint]]:
        self._filesystem.invalidate_cache(path)
        found = self._filesystem.find(path, detail=True).items()
        return [(name, version) for name, info in found if (version := fingerprint_of_info(info)) is not None]


class _Obstore:
    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, path: str, data: bytes) -> None:
        import obstore

        obstore.put(self._store, path, data)

    def create(self, path: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, path, data, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
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

    def create(self, path: str, data: bytes) -> bool:
        if self._filesystem.get_file_info(path).is_file:
            return False
        self.put(path, data)
        return True

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
