"""``Folder``: a directory or prefix to which objects are written. Each object appears complete or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from orcidx.errors import InvalidQuery, StorageError, Unsupported
from orcidx.frozen import with_fields
from orcidx.storage.failures import RETRIES, classify, translating
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.local_writing import create_file, put_file
from orcidx.storage.sink import mode_of
from orcidx.storage.stores import Source, Store, Upload, store_of
from orcidx.storage.writers import is_temporary

__all__ = ["Folder", "Stored", "is_temporary"]


@dataclass(frozen=True)
class Stored:
    """An object in a folder. ``name``: its path relative to the folder. Its version comes from the listing."""

    name: str
    version: Fingerprint


def _plain(path: str) -> str:
    """Converts a path to the form in which the paths of listings are compared."""
    return path.replace(os.sep, "/").strip("/")


class Folder:
    """The objects below a directory or prefix. The directory itself need not exist.

    A folder is made from a ``Source`` (a path, a URL, or a path in a file system). ``Folder.of(source, "_orcidx")`` is
    the folder of that name inside the source. Folders can be pickled. ``made_of`` has the same meaning as in
    ``open_sink``, for every object that is written. The methods raise the same errors as reading does:
    FileNotFoundError, PermissionError, ``StorageError``.
    """

    def __init__(self, source: Source, *, made_of: Sequence[Source] = ()) -> None:
        if not source.in_store:
            raise InvalidQuery(f"{source.name}: this is not a directory; give the path or URL of a directory")
        self._source = with_fields(source, size=None, listed=None)
        self._made_of = tuple(made_of)

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
        return self._source.below(name)

    def put(self, name: str, data: bytes, *, made_of: Sequence[Source] = ()) -> None:
        """Writes an object, and replaces an existing one. ``made_of`` has the same meaning as in ``open_sink``."""
        made_of = made_of or self._made_of
        with self._failing("writing", name) as (store, path):
            if made_of and self._source.kind == "path":
                put_file(path, data, mode=mode_of(made_of))
            else:
                store.put(path, data)

    def create(self, name: str, data: bytes, *, single_writer: bool = False, made_of: Sequence[Source] = ()) -> bool:
        """Writes an object unless it exists already. Returns False if it exists.

        The call is exclusive. If it returns True, it created the object, and no other call for this name returns True
        in any process. It raises ``Unsupported`` if the storage cannot guarantee this (see ``writers``). With
        ``single_writer``, the caller guarantees that no other process creates the object, and the call checks for the
        name before it writes. ``made_of`` has the same meaning as in ``open_sink``.

        After an error the object may or may not exist. The result False may also mean that this call itself created the
        object. Storage libraries send a request again if its response is lost. The second request then finds the object
        of the first request. ``publish`` can distinguish the two cases."""
        made_of = made_of or self._made_of
        with self._failing("writing", name) as (store, path):
            if made_of and self._source.kind == "path":
                return create_file(path, data, single_writer=single_writer, mode=mode_of(made_of))
            return store.create(path, data, single_writer=single_writer)

    def publish(self, name: str, data: bytes, *, single_writer: bool = False, made_of: Sequence[Source] = ()) -> bool:
        """Like ``create``, for data that no other process writes, for example because it contains a UUID. A lost
        response does not change the result.

        Returns True if the object exists and has this data. Returns False if it has other data. After a failure the
        call reads the object. If the object does not exist, the call creates it again. This is safe because only the
        first create succeeds. If the storage keeps failing, the call raises ``StorageError``. A later call with the
        same data then finds out whether the object was created."""
        for attempt in range(1, RETRIES.attempts + 1):
            try:
                if self.create(name, data, single_writer=single_writer, made_of=made_of):
                    return True
            except (FileNotFoundError, PermissionError, IsADirectoryError, Unsupported):
                raise
            except OSError:
                if attempt == RETRIES.attempts:
                    raise
                time.sleep(RETRIES.delay(attempt))
            found = self.read(name)
            if found is not None:
                return found == data
        raise StorageError(
            "the object was created and deleted repeatedly; perhaps another job deletes files here",
            file=f"{self.name}/{name}",
        )

    def read(self, name: str) -> bytes | None:
        """Returns all bytes of an object, or None if the object does not exist."""
        with self._failing("reading", name) as (store, path):
            try:
                return store.read(path)
            except Exception as error:
                if classify(error) == "missing":
                    return None
                raise

    def delete(self, name: str) -> None:
        """Deletes an object. It is not an error if the object does not exist."""
        with self._failing("deleting", name) as (store, path):
            try:
                store.delete(path)
            except Exception as error:
                if classify(error) != "missing":
                    raise

    def list(self, below: str = "") -> list[Stored]:
        """All objects, including hidden ones, sorted by name. The list is empty if the folder does not exist."""
        with self._failing("listing", below) as (store, path):
            base = _plain(store_of(self._source)[1]) + "/"
            try:
                found = store.walk(path)
            except Exception as error:
                if classify(error) != "missing":
                    raise
                return []
            below_here = [
                Stored(_plain(one.path).removeprefix(base), one.version) for one in found if one.version is not None
            ]
            return sorted(below_here, key=lambda stored: stored.name)

    def uploads(self) -> tuple[Upload, ...]:
        """Lists unfinished uploads below the folder, with relative paths. The result is empty if the store cannot list
        uploads."""
        with self._failing("listing the uploads of", "") as (store, path):
            base = _plain(path) + "/"
            return tuple([replace(one, path=_plain(one.path).removeprefix(base)) for one in store.uploads(path)])

    @contextmanager
    def _failing(self, doing: str, name: str) -> Iterator[tuple[Store, str]]:
        shown = f"{self.name.rstrip('/')}/{name}"
        with translating(shown, what="the object" if name else "it", doing=doing):
            yield store_of(self.source(name) if name else self._source)
