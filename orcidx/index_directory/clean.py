"""Deletes files that jobs left in a directory's ``_orcidx/``: incomplete files, and indexes that are not in use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from orcidx.errors import CorruptFile, InvalidQuery, StorageError
from orcidx.explain.summary import Section, Summary
from orcidx.index_directory.catalog import INDEX_FOLDER
from orcidx.index_directory.catalog_names import catalog_number
from orcidx.index_directory.kept_tails import TAILS
from orcidx.index_directory.store import FOLDER, IndexStore
from orcidx.spellings import size_text
from orcidx.storage import OneSource, Source, describe_source, list_sources
from orcidx.storage.folder import Folder, Stored, is_temporary
from orcidx.storage.stores import Upload

__all__ = ["Cleaning", "clean_indexes"]

_SHOWN_FILES = 20
"""At most this many files are listed one by one, and at most this many unfinished uploads."""


@dataclass(frozen=True)
class Removed:
    """An object that is no longer needed. It has a name in ``_orcidx/``, a size in bytes, and a reason."""

    name: str
    size: int
    reason: str


@dataclass(frozen=True)
class Cleaning(Summary):
    """The files that ``clean`` deleted, or would delete in a dry run. ``kept`` is the number of leftovers that are too
    young to be deleted. ``uploads`` has the unfinished uploads of all writers below the directory. ``clean`` lists
    these uploads, but does not delete them."""

    directory: str
    removed: tuple[Removed, ...]
    kept: int
    dry_run: bool
    uploads: tuple[Upload, ...] = ()

    @property
    def headline(self) -> str:
        done = "would delete" if self.dry_run else "deleted"
        size = size_text(sum(one.size for one in self.removed))
        young = f"; {self.kept:,} younger leftovers stay" if self.kept else ""
        return f"{self.directory}: {done} {len(self.removed):,} leftovers, {size}{young}{self._unfinished}"

    @property
    def _unfinished(self) -> str:
        return f"; {len(self.uploads):,} unfinished uploads" if self.uploads else ""

    def sections(self) -> Iterator[Section]:
        rows = [(one.name, one.size, one.reason) for one in self.removed[:_SHOWN_FILES]]
        yield Section("leftovers", rows, ("name", "bytes", "why"))
        begun = [(one.path, _time_text(one.began), one.id) for one in self.uploads[:_SHOWN_FILES]]
        yield Section("unfinished uploads", begun, ("for", "began", "upload id"))
        if self.uploads:
            yield Section(
                "what to do",
                [("the store charges for their parts until they are aborted, for example by a lifecycle rule",)],
            )

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        removed = [{"name": one.name, "bytes": one.size, "reason": one.reason} for one in self.removed]
        uploads = [{"path": one.path, "id": one.id, "began": _time_text(one.began)} for one in self.uploads]
        found: dict[str, Any] = {"directory": self.directory, "removed": removed, "kept": self.kept}
        return {**found, "dry_run": self.dry_run, "uploads": uploads}


def _time_text(nanoseconds: int | None) -> str | None:
    if nanoseconds is None:
        return None
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).isoformat()


def clean_indexes(
    path: OneSource,
    *,
    older_than: timedelta | float = timedelta(days=1),
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Cleaning:
    """Deletes leftovers that are older than ``older_than`` (seconds, or a timedelta) in a directory's ``_orcidx/``.

    Leftovers are temporary files of killed writers, catalogs that a later catalog replaced, and indexes and tails that
    the catalog does not name. Younger leftovers may belong to a running job, or to a query that was planned a short
    time ago. Unfinished uploads below the directory are listed if the store supports this (S3, given as a URL). They
    are not deleted, because they may belong to another program. Raises ``FileNotFoundError`` if the directory does not
    exist, and ``CorruptFile`` if the catalog cannot be read.
    """
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than)
    if not seconds >= 0:
        raise InvalidQuery(f"older_than is {older_than!r}, but an age cannot be negative")
    root = describe_source(path, storage_options=storage_options)
    folder = Folder.of(root, FOLDER)
    # The folder is listed before the catalog is read. So a file that is written in between is not in the listing, and
    # is not deleted.
    stored = folder.list()
    if not stored:
        list_sources(path, storage_options=storage_options)  # raises FileNotFoundError if there is no such directory
    before = time.time_ns() - round(seconds * 1e9)
    removed, kept = [], 0
    for one, since, reason in _leftovers(stored, IndexStore.open(path, storage_options=storage_options), before):
        if since is None or since >= before:
            kept += 1
            continue
        removed.append(Removed(one.name, one.version.size, reason))
        if not dry_run:
            folder.delete(one.name)
    return Cleaning(root.name, tuple(removed), kept, dry_run, _uploads(root, before))


def _uploads(root: Source, before: int) -> tuple[Upload, ...]:
    try:
        found = Folder(root).uploads()
    # A user who may write and delete may lack the right to list uploads, and some servers do not support listing them.
    except (PermissionError, StorageError):
        return ()
    return tuple(one for one in found if one.began is None or one.began < before)


def _leftovers(stored: list[Stored], store: IndexStore | None, before: int) -> Iterator[tuple[Stored, int | None, str]]:
    """The objects that are no longer needed, each with a time and a reason. The time (ns) is the time since which the
    object has not been needed, or None if this is not known.

    Queries use a catalog until a later complete catalog is written. From that time, the earlier catalog is not needed.
    An index or an object of tails is not needed if only deleted catalogs name it. It is also not needed if later rows
    in the current catalogs name another object for the same files. In this case the time is the modification time of
    the last catalog.
    """
    replaced = {} if store is None else _replaced(stored, store)
    named: set[str] = set()
    outdated: set[str] = set()
    last: int | None = None
    if store is not None:
        in_use = [one for one in stored if one.name in store.catalogs.names]
        last = max((one.version.mtime for one in in_use if one.version.mtime is not None), default=None)
        files = store.catalogs.read(files=["index", "tails"], columns=()).files
        latest = {name for column in ("index", "tails") for name in files[column].drop_null().to_pylist()}
        named = latest | store.catalogs.names_in([one for one in stored if replaced.get(one.name, 0) >= before])
        outdated = store.catalogs.names_in(in_use) - named
    for one in stored:
        if is_temporary(one.name):
            yield one, one.version.mtime, "its writer was killed"
        elif one.name in replaced:
            yield one, replaced[one.name], "a later catalog replaced it"
        elif one.name.startswith((f"{INDEX_FOLDER}/", f"{TAILS}/")) and one.name not in named:
            yield one, last if one.name in outdated else one.version.mtime, "no catalog names it"


def _replaced(stored: list[Stored], store: IndexStore) -> dict[str, int]:
    """Catalogs that are no longer in use, each with the time at which a later catalog replaced it."""
    numbers = {catalog_number(one.name): one for one in stored if catalog_number(one.name)}
    in_use = store.catalogs.names
    first = catalog_number(in_use[0]) if in_use else 0
    found: dict[str, int] = {}
    since: int | None = None
    for number in sorted(numbers, reverse=True):
        one = numbers[number]
        if number < first and since is not None:
            found[one.name] = since
        if number <= first and _is_whole(store, one) and one.version.mtime is not None:
            since = one.version.mtime
    return found


def _is_whole(store: IndexStore, catalog: Stored) -> bool:
    try:
        return store.catalogs.is_whole(catalog)
    except CorruptFile:
        return False
