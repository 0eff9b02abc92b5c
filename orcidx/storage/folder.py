"""``Folder``: a directory or prefix that is written to, every object whole or not at all.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its place,
``.name.<uuid>.tmp``, and renamed; a process that dies leaves such a file at most. Object stores get one PUT, which is
whole or nothing by itself; there ``create`` is a conditional PUT.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from orcidx.errors import InvalidQuery
from orcidx.storage.failures import classify, translate
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.sources import Source, filesystem_of
from orcidx.storage.writers import Writer, is_temporary, writer_of

__all__ = ["Folder", "Stored", "is_temporary"]

@dataclass(frozen=True)
class Stored:
    """An object in a folder: its ``name`` below the folder, and its version as the listing tells it."""

    name: str
    version: Fingerprint


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
    def _failing(self, doing: str, name: str) -> Iterator[tuple[Writer, str]]:
        place = self.source(name).location if name else self._source.location
        try:
            yield writer_of(self._source, place)
        except Exception as error:  # storage libraries raise what they like; classify() sorts it
            shown = f"{self.name.rstrip('/')}/{name}"
            known = translate(error, classify(error), name=shown, what="the object" if name else "it", doing=doing)
            if known is error:
                raise
            raise known from error


