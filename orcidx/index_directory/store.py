"""``IndexStore`` has the indexes of a directory of ORC files. The indexes are in ``_orcidx/`` inside this directory.

    _orcidx/rollup/00000007.catalog          the row of every file (see ``catalog``)
    _orcidx/rollup/00000008.catalog          the rows of files that were added or changed later
    _orcidx/index/<path>.<identity>.index    a file index that is too large to be embedded in the catalog
    _orcidx/tails/<digest>.tails             the last bytes of files in a store (see ``kept_tails``)

Spark and ``orcidx.scan`` ignore names that begin with "_". A catalog is written as a whole, by the job that gets the
next number. Each catalog says whether it is complete or adds to earlier catalogs. The last complete catalog and the
catalogs after it are valid, and ``clean`` deletes older catalogs. The identity in an index's name is made from the data
file's version and the spec, so an old index is never used for a changed file.

The names of catalogs do not end in ".orc", so ``**/*.orc`` finds only data. Catalogs of version 1 were Parquet files
(``00000007.parquet``). These catalogs are not read, and their numbers are not used again. The files in such a catalog
count as unknown until the indexes are refreshed. The refresh uses the existing index files.

The store is read as follows. ``path`` is the directory, and the store is None if the directory has no catalog::

    store = IndexStore.open(path, storage_options=...)
    sources = list_sources(path, storage_options=...)          # one listing, with each file's version
    plan = store.plan(sources, where, options=options)
    for i in plan.kept.tolist():                               # positions in ``sources``; other files cannot match
        FileJob(sources[i], file_index=plan.index_of(i), fingerprint=sources[i].listed)

``index_of`` returns a ``StoredIndex``, or None if the file has no index of a column in ``where``. ``plan.fresh`` says
which files the catalog has in exactly the listed version. ``plan.rows`` says how many rows these files have, and is -1
for other files. ``plan.reasons(i)`` says which evidence ruled out a file, ``plan.tails`` says where the last bytes of
files are stored, and ``plan.notes`` says what was stale. No entry is used for a file that is not fresh. Columns are
matched by name. A plan takes two requests for any number of files: the listing of ``_orcidx/rollup`` and the catalog.
Each further catalog with a part of the rows takes one more request, and a part above 32 MiB takes several requests.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_commit import commit_rows
from orcidx.index_directory.catalogs import Catalogs
from orcidx.index_directory.directory_partitions import Partitions
from orcidx.index_directory.file_pruning import FilePlan, KnownFiles, columns_asked_of, plan_known_files
from orcidx.index_directory.file_versions import FRESH, LISTING, STALE, UNKNOWN, states
from orcidx.index_directory.index_rows import IndexRows
from orcidx.index_directory.kept_tails import TAIL_FIELDS, TailPlaces
from orcidx.index_directory.listed_paths import listing_table, paths_below_root
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.paimon.build import columns_of
from orcidx.predicate import Where, parse
from orcidx.pruning.findings import Note
from orcidx.storage import Source, describe_source
from orcidx.storage.folder import Folder
from orcidx.storage.listing import is_pattern

__all__ = [
    "FOLDER",
    "FRESH",
    "STALE",
    "UNKNOWN",
    "IndexStore",
    "Match",
    "identity_of",
    "listing_table",
    "stale_notes",
    "whole_object",
]

FOLDER = "_orcidx"
MANY_FILES = 100_000
"""The number of files above which memory that Arrow has freed is returned to the system after planning (decision
0070)."""
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Match:
    """For each listed file, its row in the catalog (-1 if there is none), and whether that row has the listed
    version."""

    entry: Int64s
    state: npt.NDArray[np.int8]

    @property
    def fresh(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.state == FRESH, np.bool_)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """The files that have a row, possibly of another version."""
        return np.asarray(self.state != UNKNOWN, np.bool_)


class IndexStore:
    """The indexes of one directory at the time when the store was opened. The store finds the files that may hold a
    matching row, and adds rows to the catalog."""

    def __init__(self, root: Source, catalogs: Catalogs) -> None:
        self.root = root
        self.catalogs = catalogs

    @staticmethod
    def open(
        path: Any, *, storage_options: Mapping[str, Any] | None = None, filesystem: object = None, create: bool = False
    ) -> IndexStore | None:
        """Opens the store of a directory. If there is no catalog, the result is None, or an empty store with
        ``create``."""
        root = describe_source(path, storage_options=storage_options, filesystem=filesystem)
        if not root.in_store:
            return None
        if create:
            _refuse_pattern(root)
        catalogs = Catalogs.of(Folder.of(root, FOLDER))
        return IndexStore(root, catalogs) if catalogs.written or create else None

    @property
    def folder(self) -> Folder:
        """``_orcidx/``."""
        return self.catalogs.folder

    def again(self) -> IndexStore:
        """The store opened again, with the catalogs that exist now."""
        return IndexStore(self.root, Catalogs.of(self.folder))

    def forgotten(self) -> IndexStore:
        """The store without the contents of its catalogs. Commits that do not need the contents use it to save
        memory."""
        return IndexStore(self.root, self.catalogs.forgotten())

    # ------------------------------------------------------------------ planning

    def match(self, listing: pa.Table, *, unit: int | None = None) -> Match:
        """Compares a listing (``listing_table``) with the catalog. ``unit`` is the number of nanoseconds to which the
        times of the listing are rounded down."""
        known = self.catalogs.listing.files
        versions = known.select(LISTING.names[1:])
        # Both tables are sorted by path. If they have the same paths, one comparison finds this in a third of the time
        # of looking up each path.
        if listing["path"].equals(known["path"]):
            entry = np.arange(len(listing), dtype=np.int64)
            return Match(entry, states(listing, versions, entry >= 0, unit=unit))
        found = pc.index_in(listing["path"].combine_chunks(), value_set=known["path"].combine_chunks())
        entry = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Match(entry, states(listing, versions.take(found), entry >= 0, unit=unit))

    def plan(
        self,
        files: pa.Table | Sequence[Source],
        where: Where | None = None,
        *,
        schema: pa.Schema | None = None,
        options: ReadOptions | None = None,
        totalled: Collection[str] = (),
    ) -> FilePlan:
        """Finds the files that may contain a matching row, by their partitions and statistics. Also finds the places of
        these files' indexes.

        ``files`` has the sources of a listing of the directory, or is a table from ``listing_table``. ``schema`` has
        the types of partition columns. A partition column that is not in ``schema`` rules out no file. Without a schema
        the types follow from the values. A predicate that cannot be bound here (an unknown column, a literal that does
        not fit) rules out no file, and the scan raises the error. ``totalled`` has the columns of totals. The indexes
        of these columns are also found.
        """
        listing = files if isinstance(files, pa.Table) else listing_table(self.root, files)
        seen = None if isinstance(files, pa.Table) else paths_below_root(files)
        predicate = None if where is None else parse(where)
        match = self.match(listing)
        asked = columns_asked_of(predicate, totalled)
        spec = self.catalogs.listing.spec.get("spec", {})
        # A name such as ``a[b]`` can be a column in one file, and a key of the map ``a`` in another file. So both
        # ``a[b]`` and ``a`` count as indexed.
        exact = {name for columns in spec.values() for name in columns}
        indexed = {name.lower() for name in exact.union(columns_of(spec, ()))}
        has_index = asked is None or not indexed.isdisjoint(name.lower() for name in asked)
        _give_back(len(listing))
        known = self.known(listing, match, columns=asked, schema=schema, seen=seen)
        _give_back(len(listing))
        plan = plan_known_files(known, match.fresh, predicate, options or USUAL_OPTIONS, has_index=has_index)
        tails = None
        if self.root.kind != "path":
            places = partial(self.catalogs.read, files=TAIL_FIELDS.names, columns=(), paths=False)
            tails = TailPlaces(self.folder, match.entry, match.fresh, lambda: places().files)
        return replace(plan, notes=(*stale_notes(listing, match), *plan.notes), tails=tails)

    def known(
        self,
        listing: pa.Table,
        match: Match,
        *,
        columns: Iterable[str] | None,
        schema: pa.Schema | None = None,
        seen: pa.Array | None = None,
    ) -> KnownFiles:
        """The known facts about the listed files: the statistics of some columns, and the places of the files' indexes.
        The places of indexes are read when they are needed.

        ``seen`` has the paths whose ``key=value`` folders become partition columns. It is given if the query sees fewer
        of these folders than the listing.
        """
        partitions = Partitions.of(listing["path"].combine_chunks() if seen is None else seen, schema)
        _give_back(len(listing))  # paths are the largest column, so their memory is returned before statistics are read
        catalog = self.catalogs.read(files=("rows",), columns=columns, paths=False)
        if not (match.fresh.all() and np.array_equal(match.entry, np.arange(len(catalog)))):
            catalog = catalog.take(pa.array(match.entry, mask=~match.fresh))
        rows = IndexRows(self.catalogs.rows, np.where(match.fresh, match.entry, -1))
        return KnownFiles(catalog, partitions, self.folder, rows)

    # ------------------------------------------------------------------ writing

    def commit(self, news: Catalog, *, listed: pa.Array | None = None, single_writer: bool = False) -> IndexStore:
        """Adds rows to the catalog and returns the new store.

        ``listed`` has the paths that a listing found after this store was opened. If ``listed`` is given, rows of other
        files are removed. From a very large catalog, these rows are removed only when the catalog is written again for
        another reason. If another job has added rows in the meantime, the rows of that job are kept. The new rows are
        added after the rows of that job, except for files of which that job has a later version. A damaged catalog is
        replaced. For ``single_writer`` see ``Folder.create``. Raises ``StorageError`` if another job used another spec,
        because the two jobs would replace each other's rows again and again.
        """
        catalogs = commit_rows(self.root, self.catalogs, news, listed=listed, single_writer=single_writer)
        return IndexStore(self.root, catalogs)


def _give_back(files: int) -> None:
    """Releases unused memory of Arrow to the operating system if many files were planned. This reduces the peak of the
    memory by a tenth."""
    if files > MANY_FILES:
        pa.default_memory_pool().release_unused()


def identity_of(store: IndexStore) -> tuple[Any, ...]:
    """A key that is equal for two stores that have the same directory and the same catalogs."""
    return (getattr(store.root.filesystem, "name", None), store.folder.name, store.catalogs.written)


def _refuse_pattern(root: Source) -> None:
    """Raises an error for a pattern. When something is written to a directory that does not exist, the directory is
    created. But a directory with a wildcard in its name must already exist."""
    if not is_pattern(str(root.location)) or (root.kind == "path" and os.path.isdir(root.location)):
        return
    raise InvalidQuery(
        "the path is a pattern, but indexes are stored in one directory; give the path of this directory",
        file=root.name,
    )


def whole_object(folder: Folder, name: str) -> bytes | None:
    """All bytes of an index file, or None if it is missing. An incomplete response is requested again, because a
    truncated index may look like a complete index."""
    try:
        reader = folder.source(name).open()
        try:
            return bytes(reader.read_ranges([(0, reader.size())])[0])
        finally:
            reader.close()
    except FileNotFoundError:
        return None


def stale_notes(listing: pa.Table, match: Match) -> list[Note]:
    """Notes on entries of the catalog that could not be used. There are at most two notes."""
    found = []
    for state, kind, text in (
        (STALE, "stale", "changed after the catalog was made"),
        (UNKNOWN, "absent", "are not in the catalog"),
    ):
        files = np.flatnonzero(match.state == state)
        if len(files):
            first = listing["path"][int(files[0])].as_py()
            message = f"{len(files):,} of {len(listing):,} files {text}, such as {first}: refresh the catalog"
            found.append(Note("catalog", kind, message))  # type: ignore[arg-type]
    return found
