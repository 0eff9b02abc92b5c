"""Deleting what jobs left behind in a directory's ``_orcidx/``: half-written files, and indexes that nothing names."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from orcidx.errors import InvalidQuery
from orcidx.explain.render import size_text
from orcidx.explain.summary import Section, Summary
from orcidx.index_directory.store import CATALOGS, FOLDER, INDEXES, IndexStore
from orcidx.storage import describe_source
from orcidx.storage.folder import Folder, Stored, is_temporary

__all__ = ["Cleaning", "clean_indexes"]

_SHOWN = 20


@dataclass(frozen=True)
class Removed:
    """An object that is no longer needed: its name in ``_orcidx/``, its bytes, and why."""

    name: str
    size: int
    reason: str


@dataclass(frozen=True)
class Cleaning(Summary):
    """What ``clean`` deleted, or would delete in a dry run; ``kept``: leftovers that are too young."""

    directory: str
    removed: tuple[Removed, ...]
    kept: int
    dry_run: bool

    @property
    def headline(self) -> str:
        done = "would delete" if self.dry_run else "deleted"
        size = size_text(sum(one.size for one in self.removed))
        young = f"; {self.kept:,} younger leftovers stay" if self.kept else ""
        return f"{self.directory}: {done} {len(self.removed):,} leftovers, {size}{young}"

    def sections(self) -> Iterator[Section]:
        rows = [(one.name, one.size, one.reason) for one in self.removed[:_SHOWN]]
        yield Section("leftovers", rows, ("name", "bytes", "why"))

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        removed = [{"name": one.name, "bytes": one.size, "reason": one.reason} for one in self.removed]
        return {"directory": self.directory, "removed": removed, "kept": self.kept, "dry_run": self.dry_run}


def clean_indexes(
    path: Any,
    *,
    older_than: timedelta | float = timedelta(days=1),
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Cleaning:
    """Deletes leftovers that are older than ``older_than`` (seconds, or a timedelta) in a directory's ``_orcidx/``.

    Leftovers are temporary files of writers that died, catalogs that a later one replaced, and indexes that the catalog
    does not name. Younger ones may belong to a job that runs, or to a query that was planned a moment ago.
    """
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than)
    if seconds < 0:
        raise InvalidQuery(f"older_than is {older_than!r}; an age cannot be negative")
    root = describe_source(path, storage_options=storage_options)
    folder = Folder.of(root, FOLDER)
    stored = folder.list()  # before the catalog is read: what is written after this is not in it
    before = time.time_ns() - round(seconds * 1e9)
    removed, kept = [], 0
    for one, reason in _leftovers(stored, IndexStore.open(path, storage_options=storage_options)):
        if one.version.mtime is None or one.version.mtime >= before:
            kept += 1
            continue
        removed.append(Removed(one.name, one.version.size, reason))
        if not dry_run:
            folder.delete(one.name)
    return Cleaning(root.name, tuple(removed), kept, dry_run)


def _leftovers(stored: list[Stored], store: IndexStore | None) -> Iterator[tuple[Stored, str]]:
    in_use = set() if store is None else {*store.catalog_names}
    if store is not None:
        in_use |= set(store.catalog(files=["index"], columns=()).files["index"].drop_null().to_pylist())
    last = 0 if store is None else store.generation
    for one in stored:
        if is_temporary(one.name):
            yield one, "its writer died"
        elif one.name in in_use:
            continue
        elif one.name.startswith(f"{CATALOGS}/") and _generation(one.name) <= last:
            yield one, "a later catalog replaced it"
        elif one.name.startswith(f"{INDEXES}/"):
            yield one, "no catalog names it"


def _generation(name: str) -> float:
    """The number of a catalog; what has none is none of ours, and later than all."""
    digits = name.removeprefix(f"{CATALOGS}/").partition("-")[0]
    return int(digits) if digits.isdecimal() else float("inf")
