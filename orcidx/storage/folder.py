"""``Folder``: a directory or prefix that is written to, every object whole or not at all.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its place,
``.name.<uuid>.tmp``, and renamed; a process that dies leaves such a file at most. Object stores get one PUT, which is
whole or nothing by itself; there ``create`` is a conditional PUT.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from orcidx.errors import InvalidQuery
from orcidx.storage.failures import classify, translate
from orcidx.storage.fingerprint import Fingerprint, fingerprint_of_info, mtime_of, plain_etag
from orcidx.storage.sources import Source, filesystem_of

__all__ = ["Folder", "Stored", "is_temporary"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "cos", "memory"})
"""fsspec's names of storages where a file appears when all of it is there, and renaming means copying."""


@dataclass(frozen=True)
class Stored:
    """An object in a folder: its ``name`` below the folder, and its version as the listing tells it."""

    name: str
    version: Fingerprint


def is_temporary(name: str) -> bool:
    """Whether an object is what a writer that died may have left."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def _temporary(name: str) -> str:
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last[:180]}.{uuid.uuid4().hex}.tmp"


class _Writer(Protocol):
    """What a storage has to do; paths are the storage's own."""

    def put(self, path: str, data: bytes) -> None: ...

    def create(self, path: str, data: bytes) -> bool: ...

    def read(self, path: str) -> bytes: ...

    def delete(self, path: str) -> None: ...

    def list(self, path: str) -> list[tuple[str, Fingerprint]]: ...


class Folder:
    """The objects below a directory or prefix; the folder itself need not exist.

    Made of the ``Source`` of a path, URL, or a path in a file system; ``Folder.of(source, "_orcidx")`` is the folder of
    that name inside it. Pickles. Errors are those of reading: FileNotFoundError, PermissionError, ``StorageError``.
    """

    def __init__(self, source: Source) -> None:
        if source.kind not in ("path", "url", "fsspec", "obstore", "arrow"):
            raise InvalidQuery(f"{source.name}: a directory is wanted; give its path or URL")
        self._source = replace(source, size=None, listed=None)

    @staticmethod
    def of(source: Source, name: str) -> Folder:
        """The folder ``name`` inside a directory."""
        return Folder(Folder(source).source(name))

    @property
    def name(self) -> str:
        """The path or URL, for messages."""
        return self._source.name

    def source(self, name: str) -> Source:
        """One object, to be opened for reading."""
        ours = self._source
        joined = f"{str(ours.location).rstrip('/')}/{name}"
        return replace(ours, name=f"{ours.name.rstrip('/')}/{name}", location=joined)

    def put(self, name: str, data: bytes) -> None:
        """Writes an object; where one is there with the same bytes, nothing happens."""
        with self._failing("writing", name) as (writer, path):
            if not writer.create(path, data) and writer.read(path) != data:
                writer.put(path, data)

    def create(self, name: str, data: bytes) -> bool:
        """Writes an object unless there is one already; then False. Of several at once one wins, where it can."""
        with self._failing("writing", name) as (writer, path):
            return writer.create(path, data)

    def read(self, name: str) -> bytes | None:
        """All of an object; None where there is none."""
        with self._failing("reading", name) as (writer, path):
            try:
                return writer.read(path)
            except Exception as error:
                if classify(error) == "missing":
                    return None
                raise

    def delete(self, name: str) -> None:
        """Deletes an object; one that is gone already is no error."""
        with self._failing("deleting", name) as (writer, path):
            try:
                writer.delete(path)
            except Exception as error:
                if classify(error) != "missing":
                    raise

    def list(self, below: str = "") -> list[Stored]:
        """Every object, hidden ones too, sorted by name; none where the folder does not exist."""
        with self._failing("listing", below) as (writer, path):
            base = str(self._prefix()).strip("/") + "/"
            try:
                found = writer.list(path)
            except Exception as error:
                if classify(error) != "missing":
                    raise
                return []
            inside = [(path.replace(os.sep, "/").strip("/"), version) for path, version in found]
            return sorted((Stored(path.removeprefix(base), version) for path, version in inside), key=lambda s: s.name)

    def _prefix(self) -> Any:
        ours = self._source
        if ours.kind == "url":
            return filesystem_of(ours.location, ours.storage_options)[1]
        return ours.location.replace(os.sep, "/") if ours.kind == "path" else ours.location

    @contextmanager
    def _failing(self, doing: str, name: str) -> Iterator[tuple[_Writer, str]]:
        place = self.source(name).location if name else self._source.location
        try:
            yield _writer(self._source, place)
        except Exception as error:  # storage libraries raise what they like; classify() sorts it
            shown = f"{self.name.rstrip('/')}/{name}"
            known = translate(error, classify(error), name=shown, what="the object" if name else "it", doing=doing)
            if known is error:
                raise
            raise known from error


def _writer(source: Source, place: str) -> tuple[_Writer, str]:
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
        temporary = _temporary(path)
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
        temporary = _temporary(path)
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
        place = path if self._puts_whole else _temporary(path)
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
