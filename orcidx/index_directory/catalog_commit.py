"""Adds rows to a directory's catalogs. Other jobs may add rows at the same time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, StorageError
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_names import catalog_name
from orcidx.index_directory.catalogs import Catalogs
from orcidx.index_directory.file_versions import LISTING, has_later_version, has_same_version, mode_sources
from orcidx.storage import Source

__all__ = ["commit_rows"]

MOST_CATALOG_PARTS = 8
"""The maximum number of parts of a catalog. With more parts it is written again as a whole."""
REWRITTEN_AT_ONCE = 1 << 20
"""A catalog of at most this many files is written again even to remove a single file."""
COMMIT_ATTEMPTS = 16
"""The number of attempts to commit. An attempt fails if another job commits at the same time."""


def commit_rows(
    root: Source, opened: Catalogs, news: Catalog, *, listed: pa.Array | None, single_writer: bool
) -> Catalogs:
    """Adds rows to the catalogs that were opened, and returns the catalogs that exist afterwards. See
    ``IndexStore.commit``.

    Each number of a catalog is used once, because an object is created only if no object has its name. ``clean`` frees
    only numbers below the number of the last complete catalog. A job that uses such a number then finds the later
    catalogs, and writes again.
    """
    now, gone = opened, _not_listed(_versions(opened), listed)
    for attempt in range(COMMIT_ATTEMPTS):
        try:
            moved = now.generation != opened.generation
            other = moved and _is_of_another_spec(now, news)
            mine = _without_outdated(news, _versions(now), _versions(opened)) if moved else news
            content, whole = _next_catalog(now, mine, gone)
        except (FileNotFoundError, StorageError):  # a listed catalog was replaced and deleted: list the catalogs again
            if attempt == COMMIT_ATTEMPTS - 1 or now.generation == (now := Catalogs.of(now.folder)).generation:
                raise
            continue
        if other:
            message = "another job has meanwhile indexed this directory with another spec; run the job again"
            raise StorageError(message, file=root.name)
        name = catalog_name(now.generation + 1)
        at = None
        if listed is None or moved:
            at = _known(now).listed
        elif _has_exactly(listed, content, now, whole=whole):
            at = opened.listed_at
        data = content.to_bytes(whole=whole, listed=at)
        made_of = mode_sources(root, mine.files, now.folder, now.written)
        taken = now.folder.publish(name, data, single_writer=single_writer, made_of=made_of)
        now = Catalogs.of(now.folder)
        if taken and name in _names_in_use(now):
            return now
    raise StorageError("other jobs write the catalog at the same time; run the job again later", file=root.name)


def _known(catalogs: Catalogs) -> Catalog:
    """The known files. A damaged catalog has no known files, because it will be replaced."""
    try:
        return catalogs.listing if catalogs.written else Catalog.empty()
    except CorruptFile:
        return Catalog.empty()


def _versions(catalogs: Catalogs) -> pa.Table:
    """Paths and versions of the known files."""
    return _known(catalogs).files.select(LISTING.names)


def _has_exactly(listed: pa.Array, content: Catalog, catalogs: Catalogs, *, whole: bool) -> bool:
    """Whether the catalogs have exactly the listed files once ``content`` is written."""
    files = content.files["path"].combine_chunks()
    known = _known(catalogs).files["path"].combine_chunks()
    paths = files if whole else pc.unique(pa.concat_arrays([known, files]))
    return len(paths) == len(listed) and bool(pc.all(pc.is_in(listed, value_set=paths)).as_py())


def _names_in_use(catalogs: Catalogs) -> tuple[str, ...]:
    try:
        return catalogs.names
    except CorruptFile:  # the catalog may be of a later version of orcidx, so all catalogs count as used
        return tuple(stored.name for stored in catalogs.written)


def _next_catalog(catalogs: Catalogs, news: Catalog, gone: pa.Table) -> tuple[Catalog, bool]:
    """The next catalog, and whether it is complete. Usually the catalog has only the new rows, and readers also need
    the earlier catalogs. If there are already many catalogs, the next catalog has all rows and is complete."""
    try:
        known = catalogs.listing if catalogs.written else None
        if known is None or not catalogs.in_use:
            return news, True
        if news.spec_key == known.spec_key and _fits_in_part(len(news), known, gone, parts=len(catalogs.in_use)):
            return news, False
        whole = Catalog.concat([catalogs.read(), news]).latest()
    except CorruptFile:
        return news, True
    return whole.take(np.flatnonzero(~has_same_version(whole.files, gone))) if len(gone) else whole, True


def _is_of_another_spec(catalogs: Catalogs, news: Catalog) -> bool:
    try:
        return bool(catalogs.names) and catalogs.listing.spec_key != news.spec_key
    except CorruptFile:
        return False


def _not_listed(known: pa.Table, listed: pa.Array | None) -> pa.Table:
    """Known files that are not in the listing. The result is empty without a listing."""
    return known.slice(0, 0) if listed is None else known.filter(pc.invert(pc.is_in(known["path"], listed)))


def _without_outdated(news: Catalog, theirs: pa.Table, ours: pa.Table) -> Catalog:
    """The new rows. If another job has committed a later version of a file in the meantime, the row of this file is
    left out."""
    outdated = has_later_version(news.files, theirs.filter(pa.array(~has_same_version(theirs, ours))))
    return news.take(np.flatnonzero(~outdated)) if outdated.any() else news


def _fits_in_part(changes: int, known: Catalog, gone: pa.Table, *, parts: int) -> bool:
    """Whether the new rows are few enough, compared with the known rows, to be written as a separate catalog."""
    if dropped := int(has_same_version(known.files, gone).sum()):
        changes = len(known) if len(known) <= REWRITTEN_AT_ONCE else changes + dropped
    return 0 < 4 * changes < len(known) and parts <= MOST_CATALOG_PARTS
