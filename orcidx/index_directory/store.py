"""``IndexStore`` has the indexes of a plain directory of ORC files. They are in ``_orcidx/`` inside this directory.

    _orcidx/rollup/00000007.catalog          the row of every file (see ``catalog``)
    _orcidx/rollup/00000008.catalog          files that were added or changed since
    _orcidx/index/<path>.<identity>.index    a file index too large to be embedded in the catalog
    _orcidx/tails/<digest>.tails             the last bytes of files in a store (see ``kept_tails``)

Spark and ``orcidx.scan`` ignore names that begin with "_". A catalog is written as a whole, by the job that gets the
next number. It says whether it is whole or adds to earlier catalogs. The last whole catalog and those after it are
valid, and ``clean`` deletes older ones. The identity in an index's name is made from the data file's version and the
spec, so an old index is never used for a changed file.

The names of catalogs do not end in ".orc", so ``**/*.orc`` finds only data. Catalogs of version 1 were Parquet files
(``00000007.parquet``). They are not read. Their files count as unknown until the indexes are refreshed, which uses the
existing index files. Their numbers are not used again.

The store is read as follows. ``path`` is the directory, and the store is None if the directory has no catalog::

    store = IndexStore.open(path, storage_options=...)
    sources = list_sources(path, storage_options=...)          # one listing, with each file's version
    plan = store.plan(sources, where, options=options)
    for i in plan.kept.tolist():                               # positions in ``sources``; the others cannot match
        FileJob(sources[i], file_index=plan.index_of(i), fingerprint=sources[i].listed)

``index_of`` returns a ``StoredIndex``, or None if the file has no index of a column in ``where``. ``plan.fresh`` says
which files the catalog has in exactly the listed version, and ``plan.rows`` says how many rows these have (-1 for other
files). ``plan.reasons(i)`` says which evidence ruled out a file, ``plan.tails`` says where the last bytes of files are
stored, and ``plan.notes`` says what was stale. No entry is used for a file that is not fresh. Columns are matched by
name. A plan takes two requests for any number of files: the listing of ``_orcidx/rollup`` and the catalog. Each further
part takes one more request, and a part above 32 MiB takes several.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, InvalidQuery, StorageError, located
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_file import CatalogFile
from orcidx.index_directory.catalog_names import CATALOGS, catalog_name, catalog_number, in_order, is_of_version_1
from orcidx.index_directory.file_pruning import FilePlan, KnownFiles, Partitions, columns_asked_of, plan_known_files
from orcidx.index_directory.file_versions import FRESH, LISTING, STALE, UNKNOWN, among, behind, later, states
from orcidx.index_directory.index_rows import IndexRows, rows_of_parts
from orcidx.index_directory.kept_tails import TAIL_FIELDS, TailPlaces
from orcidx.index_directory.listed_paths import listing_table, seen_paths
from orcidx.options import ReadOptions
from orcidx.paimon.build import columns_of
from orcidx.predicate import Where, parse
from orcidx.pruning.findings import Note
from orcidx.storage import RangeReader, Source, describe_source
from orcidx.storage.folder import Folder, Stored
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
    "memory_of",
    "stale_notes",
    "whole_object",
]

FOLDER = "_orcidx"
INDEXES = "index"
MOST_PARTS = 8
"""The maximum number of parts of a catalog. With more parts it is written again as a whole."""
REWRITTEN_AT_ONCE = 1 << 20
"""A catalog of at most this many files is written again even to remove a single file."""
READ_AT_ONCE = 32 << 20
"""The number of bytes of one request for a catalog in a store."""
COMMIT_ATTEMPTS = 16
"""The number of attempts to commit. An attempt fails if another job commits at the same time."""
MANY_FILES = 100_000
"""The number of files above which memory that Arrow has freed is returned to the system after planning (decision
0070)."""

LONGEST_CHAIN = 1000
"""The maximum number of catalogs after the last whole one. Writers write a whole catalog long before this number is
reached."""
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
    """The indexes of one directory at the time when it was opened."""

    def __init__(self, root: Source, folder: Folder, catalogs: Sequence[Stored]) -> None:
        self.root = root
        self.folder = folder
        self.opened = time.time()
        """The time when the store was opened. It is before any listing that the store is compared with."""
        self._written = tuple(catalogs)
        self._loaded: dict[tuple[Any, Any], Catalog] = {}
        self._files: dict[str, CatalogFile] = {}

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
        folder = Folder.of(root, FOLDER)
        catalogs = in_order(folder.list(CATALOGS))
        return IndexStore(root, folder, catalogs) if catalogs or create else None

    def again(self) -> IndexStore:
        """The store opened again, with the catalogs that exist now."""
        return IndexStore(self.root, self.folder, in_order(self.folder.list(CATALOGS)))

    def forgotten(self) -> IndexStore:
        """The store without the contents of its catalogs. Commits that do not need the contents use it to save
        memory."""
        found = IndexStore(self.root, self.folder, self._written)
        found.__dict__["_catalogs"] = ()
        found.opened = self.opened
        return found

    @property
    def generation(self) -> int:
        """The number of the last catalog, or 0 if there is none."""
        return catalog_number(self._written[-1].name) if self._written else 0

    @property
    def catalog_names(self) -> tuple[str, ...]:
        """The names in ``_orcidx/`` of the catalogs in use."""
        return tuple(stored.name for stored in self._catalogs)

    @cached_property
    def _catalogs(self) -> tuple[Stored, ...]:
        """The last whole catalog and those after it. They are found by reading catalogs from the last one backwards."""
        chain: list[Stored] = []
        for stored in reversed(self._written[-LONGEST_CHAIN:]):
            if is_of_version_1(stored.name):
                break
            chain.append(stored)
            if self.is_whole(stored):
                return tuple(reversed(chain))
        if not chain:
            return ()
        message = "the last whole catalog is missing; build the indexes again"
        raise CorruptFile(message, file=self.folder.source(chain[-1].name).name)

    def is_whole(self, stored: Stored) -> bool:
        """Whether a catalog needs no earlier catalogs."""
        if is_of_version_1(stored.name):
            return False
        with self._opened(stored) as source:
            return Catalog.is_whole(source)

    def catalog(
        self, *, files: Sequence[str] | None = None, columns: Iterable[str] | None = None, paths: bool = True
    ) -> Catalog:
        """The latest rows of the catalog: these columns of the files, and statistics of these data columns (None means
        all). ``paths`` says whether to include the paths, which take a third of the time.

        Raises ``CorruptFile`` for a damaged catalog.
        """
        asked = None if files is None else (*files, paths)
        key = (asked, None if columns is None else frozenset(columns))
        if key not in self._loaded:
            paths |= len(self._catalogs) > 1  # the paths are needed to find the latest rows
            names = None if files is None else list(dict.fromkeys([*(["path"] if paths else []), *files]))
            parts = [self._read(stored, names, key[1]) for stored in self._catalogs]
            whole = Catalog.concat(parts) if parts else Catalog.empty()
            self._loaded[key] = whole.latest() if len(parts) > 1 else whole
        return self._loaded[key]

    def _read(self, stored: Stored, files: Sequence[str] | None, columns: Iterable[str] | None) -> Catalog:
        with self._opened(stored) as source:
            return Catalog.read(source, files=files, columns=columns)

    @contextmanager
    def _opened(self, stored: Stored) -> Iterator[CatalogFile]:
        """Opens a catalog. Its bytes are fetched completely, because it may be deleted afterwards."""
        source = self.folder.source(stored.name)
        with located(file=source.name):
            if stored.name not in self._files:
                self._files[stored.name] = _fetched(source, stored)
            yield self._files[stored.name]

    @cached_property
    def _identities(self) -> Catalog:
        return self.catalog(files=LISTING.names, columns=())

    @property
    def listing(self) -> Catalog:
        """All known files and their versions. ``Catalog.listed`` gives the time of a listing that had exactly these
        files."""
        return self._identities

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec with which the indexes were last built."""
        return self._identities.spec

    @property
    def spec_key(self) -> str:
        """The key of the spec. Files whose row has another key were indexed with another spec."""
        return self._identities.spec_key

    def names_in(self, catalogs: Iterable[Stored]) -> set[str]:
        """The index files and tails that these catalogs name. A damaged catalog names none."""
        found: set[str] = set()
        for stored in catalogs:
            try:
                for names in self._read(stored, ["index", "tails"], ()).files.columns:
                    found |= set(names.drop_null().to_pylist())
            except CorruptFile:
                if stored.name in self.catalog_names:
                    raise
        return found

    # ------------------------------------------------------------------ planning

    def match(self, listing: pa.Table, *, unit: int | None = None) -> Match:
        """Compares a listing (``listing_table``) with the catalog. ``unit`` is the number of nanoseconds to which the
        times of the listing are rounded down."""
        known = self._identities.files
        versions = known.select(["size", "mtime", "etag"])
        # Both are sorted, so this comparison takes a third of the time of looking up each path.
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
        """Finds the files that may contain a matching row, by their partitions and statistics. Also finds where their
        indexes are.

        ``files`` has the sources of a listing of the directory, or is a table from ``listing_table``. ``schema`` has
        the types of partition columns. A partition column that is not in it rules out no file. Without a schema the
        types follow from the values. A predicate that cannot be bound here (an unknown column, a literal that does not
        fit) rules out no file, and the scan raises the error. ``totalled`` has the columns of totals, whose indexes
        help too.
        """
        listing = files if isinstance(files, pa.Table) else listing_table(self.root, files)
        seen = None if isinstance(files, pa.Table) else seen_paths(files)
        predicate = None if where is None else parse(where)
        match = self.match(listing)
        asked = columns_asked_of(predicate, totalled)
        indexed = {name.lower() for name in columns_of(self.spec.get("spec", {}))}
        has_index = asked is None or not indexed.isdisjoint(name.lower() for name in asked)
        _give_back(len(listing))
        known = self.known(listing, match, columns=asked, schema=schema, seen=seen)
        _give_back(len(listing))
        plan = plan_known_files(known, match.fresh, predicate, options or ReadOptions(), has_index=has_index)
        tails = None
        if self.root.kind != "path":
            places = partial(self.catalog, files=TAIL_FIELDS.names, columns=(), paths=False)
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
        """The known facts about the listed files: statistics of some columns, and where their indexes are. The places
        of indexes are read when they are needed.

        ``seen`` has the paths whose folders are partition columns, if the query has fewer of them than the listing.
        """
        partitions = Partitions.of(listing["path"].combine_chunks() if seen is None else seen, schema)
        _give_back(len(listing))  # paths are the largest column, so their memory is returned before statistics are read
        catalog = self.catalog(files=("rows",), columns=columns, paths=False)
        if not (match.fresh.all() and np.array_equal(match.entry, np.arange(len(catalog)))):
            catalog = catalog.take(pa.array(match.entry, mask=~match.fresh))
        rows = IndexRows(partial(_rows_of, self), np.where(match.fresh, match.entry, -1))
        return KnownFiles(catalog, partitions, self.folder, rows)

    # ------------------------------------------------------------------ writing

    def commit(self, news: Catalog, *, listed: pa.Array | None = None, single_writer: bool = False) -> IndexStore:
        """Adds rows to the catalog and returns the new store.

        ``listed`` has the paths that a listing found after this store was opened. If it is given, rows of other files
        are removed (from a very large catalog only when it is written again anyway). If another job was faster, its
        rows are kept. The new rows are added after them, except for files of which the other job has a later version. A
        damaged catalog is replaced. For ``single_writer`` see ``Folder.create``. Raises ``StorageError`` if another job
        used another spec, because the two jobs would replace each other's rows again and again.

        Each number is used once, because the object with its name is created exclusively. ``clean`` frees only numbers
        below the last whole catalog. A job that uses such a number then finds the later catalogs, and writes again.
        """
        store, gone = self, _not_listed(self._versions(), listed)
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                moved = store.generation != self.generation
                other = moved and _is_of_another_spec(store, news)
                mine = _unless_later(news, store._versions(), self._versions()) if moved else news
                content, whole = store._with_news(mine, gone)
            except (FileNotFoundError, StorageError):  # a catalog was replaced and deleted after the listing
                if attempt == COMMIT_ATTEMPTS - 1 or store.generation == (store := store.again()).generation:
                    raise
                continue
            if other:
                message = "another job has meanwhile indexed this directory with another spec; run the job again"
                raise StorageError(message, file=self.root.name)
            name = catalog_name(store.generation + 1)
            at = self._listing_time(content, store, listed, whole=whole, moved=moved)
            data, made_of = (
                content.to_bytes(whole=whole, listed=at),
                behind(store.root, mine.files, store.folder, store._written),
            )
            taken = store.folder.publish(name, data, single_writer=single_writer, made_of=made_of)
            store = store.again()
            if taken and name in store._names_in_use():
                return store
        raise StorageError(
            "other jobs write the catalog at the same time; run the job again later", file=self.root.name
        )

    def _listing_time(
        self, content: Catalog, store: IndexStore, listed: pa.Array | None, *, whole: bool, moved: bool
    ) -> float | None:
        """The time when the directory was listed, if the next catalog has exactly the files of that listing. Without a
        new listing, the listing of ``store`` is still valid."""
        try:
            before = store._identities if store._written else Catalog.empty()
        except CorruptFile:
            before = Catalog.empty()
        if listed is None or moved:
            return before.listed
        files = content.files["path"].combine_chunks()
        paths = files if whole else pc.unique(pa.concat_arrays([before.files["path"].combine_chunks(), files]))
        alike = len(paths) == len(listed) and pc.all(pc.is_in(listed, value_set=paths)).as_py()
        return self.opened if alike else None

    def _names_in_use(self) -> Sequence[str]:
        try:
            return self.catalog_names
        except CorruptFile:  # a later version wrote this catalog, which adds to the known catalogs or replaces them
            return [stored.name for stored in self._written]

    def _versions(self) -> pa.Table:
        """Paths and versions of the known files. None for a damaged catalog, which will be replaced."""
        try:
            known = self._identities.files if self._written else Catalog.empty().files
        except CorruptFile:
            known = Catalog.empty().files
        return known.select(LISTING.names)

    def _with_news(self, news: Catalog, gone: pa.Table) -> tuple[Catalog, bool]:
        """The next catalog, and whether it is whole. It has only the new rows, or all rows if there are many parts."""
        try:
            known = self._identities if self._written else None
            if known is None or not self._catalogs:
                return news, True
            if news.spec_key == self.spec_key and _is_a_part(len(news), known, gone, parts=len(self._catalogs)):
                return news, False
            whole = Catalog.concat([self.catalog(), news]).latest()
        except CorruptFile:
            return news, True
        return whole.take(np.flatnonzero(~among(whole.files, gone))) if len(gone) else whole, True


def _give_back(files: int) -> None:
    """Returns memory that Arrow has freed to the system after planning many files. This saves a tenth of the peak."""
    if files > MANY_FILES:
        pa.default_memory_pool().release_unused()


def _fetched(source: Source, stored: Stored) -> CatalogFile:
    reader = source.open(expected=stored.version)
    try:
        if not stored.version.size:
            raise CorruptFile("the catalog is empty; build the indexes again")
        return CatalogFile(_all_of(reader))
    finally:
        reader.close()


def _all_of(reader: RangeReader) -> memoryview:
    """The bytes of a catalog. They are read by one request, or by several concurrent requests whose results are
    joined."""
    if reader.is_local:
        return memoryview(reader.read_ranges([(0, reader.size())])[0])
    last, size = reader.read_tail(READ_AT_ONCE)
    if len(last) == size:
        return last
    starts = range(0, size - len(last), READ_AT_ONCE)
    parts = reader.read_ranges([(at, min(READ_AT_ONCE, size - len(last) - at)) for at in starts])
    return memoryview(b"".join([*parts, last]))


def _rows_of(store: IndexStore, rows: Int64s, names: Sequence[str]) -> pa.Table:
    """These columns of some rows of a store's catalog. The numbers of the rows must be ascending."""
    with ExitStack() as files:
        parts = [files.enter_context(store._opened(stored)) for stored in store._catalogs]
        return rows_of_parts(parts, rows if store.listing.origin is None else store.listing.origin[rows], names)


def identity_of(store: IndexStore) -> tuple[Any, ...]:
    """A key that is equal for two stores that have the same directory and the same catalogs."""
    return (getattr(store.root.filesystem, "name", None), store.folder.name, store._written)


def memory_of(store: IndexStore) -> int:
    """Bytes of memory of the catalogs that a store has read so far."""
    catalogs = store._loaded.values()
    tables = sum(one.files.nbytes + sum(array.nbytes for array in one.statistics.values()) for one in catalogs)
    return int(tables) + sum(one.size for one in store._files.values())


def _is_of_another_spec(store: IndexStore, news: Catalog) -> bool:
    try:
        return bool(store.catalog_names) and store.spec_key != news.spec_key
    except CorruptFile:
        return False


def _not_listed(known: pa.Table, listed: pa.Array | None) -> pa.Table:
    """Known files that are not in the listing. The result is empty without a listing."""
    return known.slice(0, 0) if listed is None else known.filter(pc.invert(pc.is_in(known["path"], listed)))


def _unless_later(news: Catalog, theirs: pa.Table, ours: pa.Table) -> Catalog:
    """The new rows, except rows of files of which another job has meanwhile committed a later version."""
    outdated = later(news.files, theirs.filter(pa.array(~among(theirs, ours))))
    return news.take(np.flatnonzero(~outdated)) if outdated.any() else news


def _is_a_part(changes: int, known: Catalog, gone: pa.Table, *, parts: int) -> bool:
    """Whether the new rows are so few compared with the known ones that they are written as a separate catalog."""
    if dropped := int(among(known.files, gone).sum()):
        changes = len(known) if len(known) <= REWRITTEN_AT_ONCE else changes + dropped
    return 0 < 4 * changes < len(known) and parts <= MOST_PARTS


def _refuse_pattern(root: Source) -> None:
    """Raises an error for patterns. Writing to a directory creates it, but a directory with a wildcard in its name must
    exist."""
    if not is_pattern(str(root.location)) or (root.kind == "path" and os.path.isdir(root.location)):
        return
    raise InvalidQuery("give a directory, not a pattern; the indexes are stored in the directory", file=root.name)


def whole_object(folder: Folder, name: str) -> bytes | None:
    """All bytes of an index file, or None if it is missing. An incomplete response is requested again, because a
    truncated index may look like a complete one."""
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
