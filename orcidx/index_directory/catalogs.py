"""``Catalogs``: the catalogs of a directory's indexes, and their latest rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, located
from orcidx.index_directory.catalog import Catalog
from orcidx.index_directory.catalog_file import CatalogFile
from orcidx.index_directory.catalog_names import CATALOGS, catalog_number, in_order, is_of_version_1
from orcidx.index_directory.file_versions import LISTING
from orcidx.index_directory.index_rows import INDEX_COLUMNS, ROWS_AT_ONCE, rows_of_parts
from orcidx.storage import RangeReader, ReadMetrics, Source
from orcidx.storage.folder import Folder, Stored

__all__ = ["Catalogs"]

READ_AT_ONCE = 32 << 20
"""The number of bytes of one request for a catalog in a store."""
SMALL_CATALOGS_BYTES = 8 << 20
"""If the catalogs have at most this many bytes, the places of all indexes and the embedded indexes are kept in
memory."""
LONGEST_CHAIN = 1000
"""The maximum number of catalogs after the last complete catalog. Writers write a complete catalog long before this
number is reached."""
Int64s = npt.NDArray[np.int64]


class Catalogs:
    """The catalogs of one directory at the time when they were listed. The contents that have been read are cached."""

    def __init__(self, folder: Folder, written: Sequence[Stored]) -> None:
        self.folder = folder
        self.listed_at = time.time()
        """The time when the catalogs were listed. Files that are compared with the catalogs are listed after this
        time."""
        self.written = tuple(written)
        """All catalogs, including the catalogs that are no longer in use."""
        self.reads = ReadMetrics()
        """The counts of what was read from the catalogs so far."""
        self._files = _FetchedFiles(folder, self.reads)
        self._loaded: dict[tuple[Any, Any], Catalog] = {}

    @staticmethod
    def of(folder: Folder) -> Catalogs:
        """The catalogs that exist now."""
        return Catalogs(folder, in_order(folder.list(CATALOGS)))

    def forgotten(self) -> Catalogs:
        """The same catalogs without their contents, for commits that do not need the contents."""
        found = Catalogs(self.folder, self.written)
        found.__dict__["in_use"] = ()
        found.listed_at = self.listed_at
        return found

    @property
    def generation(self) -> int:
        """The number of the last catalog, or 0 if there is none."""
        return catalog_number(self.written[-1].name) if self.written else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the catalogs in use. The catalogs are in ``_orcidx/``."""
        return tuple(stored.name for stored in self.in_use)

    @cached_property
    def in_use(self) -> tuple[Stored, ...]:
        """The last complete catalog, which needs no earlier catalogs, and the catalogs after it. Catalogs are read from
        the last one backwards, until a complete catalog is found."""
        chain: list[Stored] = []
        for stored in reversed(self.written[-LONGEST_CHAIN:]):
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
        with self._files.opened(stored) as file:
            return Catalog.is_whole(file)

    def read(
        self, *, files: Sequence[str] | None = None, columns: Iterable[str] | None = None, paths: bool = True
    ) -> Catalog:
        """Reads the latest rows of the catalogs. ``files`` names the file columns to read. ``columns`` names the data
        columns whose statistics are read. None means all. ``paths`` says whether to include the paths, which take a
        third of the reading time.

        Raises ``CorruptFile`` for a damaged catalog.
        """
        asked = None if files is None else (*files, paths)
        key = (asked, None if columns is None else frozenset(columns))
        if key not in self._loaded:
            paths |= len(self.in_use) > 1  # to find the row of the latest catalog for each path
            names = None if files is None else list(dict.fromkeys([*(["path"] if paths else []), *files]))
            parts = [self._files.read(stored, names, key[1]) for stored in self.in_use]
            whole = Catalog.concat(parts) if parts else Catalog.empty()
            self._loaded[key] = whole.latest() if len(parts) > 1 else whole
        return self._loaded[key]

    @cached_property
    def listing(self) -> Catalog:
        """All known files and their versions, and the spec with which the indexes were last built. If the row of a file
        has another spec key, the file was indexed with another spec. ``Catalog.listed`` is the time of the listing that
        had exactly these files."""
        return self.read(files=LISTING.names, columns=())

    def names_in(self, catalogs: Iterable[Stored]) -> set[str]:
        """The index files and tails that these catalogs name. A damaged catalog that is not in use is left out."""
        found: set[str] = set()
        for stored in catalogs:
            try:
                for names in self._files.read(stored, ["index", "tails"], ()).files.columns:
                    found |= set(names.drop_null().to_pylist())
            except CorruptFile:
                if stored.name in self.names:
                    raise
        return found

    def rows(self, rows: Int64s, names: Sequence[str]) -> pa.Table:
        """Reads the columns ``names`` of some rows of ``listing``. The numbers of the rows must be ascending. ``names``
        are among ``INDEX_COLUMNS``."""
        size = sum(stored.version.size or 0 for stored in self.in_use)
        if len(self.listing.files) <= ROWS_AT_ONCE and size <= SMALL_CATALOGS_BYTES:
            # All rows are read and kept, because reading single rows takes 2 ms for each query.
            return self.read(files=INDEX_COLUMNS, columns=(), paths=False).files.select(names).take(pa.array(rows))
        with ExitStack() as opened:
            parts = [opened.enter_context(self._files.opened(stored)) for stored in self.in_use]
            return rows_of_parts(parts, rows if self.listing.origin is None else self.listing.origin[rows], names)

    @property
    def nbytes(self) -> int:
        """The bytes of memory for the contents that have been read so far."""
        loaded = list(self._loaded.values())  # a copy, because other threads may change the dict
        tables = sum(one.files.nbytes + sum(array.nbytes for array in one.statistics.values()) for one in loaded)
        return int(tables) + self._files.nbytes


class _FetchedFiles:
    """The files of catalogs. Each file is fetched once and then cached, because a catalog may be deleted after it was
    first read."""

    def __init__(self, folder: Folder, reads: ReadMetrics) -> None:
        self._folder = folder
        self._reads = reads
        self._files: dict[str, CatalogFile] = {}

    @contextmanager
    def opened(self, stored: Stored) -> Iterator[CatalogFile]:
        """Opens the file of a catalog. Errors that are raised while the file is open name the file."""
        source = self._folder.source(stored.name)
        with located(file=source.name):
            if stored.name not in self._files:
                self._files[stored.name] = _fetched(source, stored, self._reads)
            yield self._files[stored.name]

    def read(self, stored: Stored, files: Sequence[str] | None, columns: Iterable[str] | None) -> Catalog:
        """Reads the file columns ``files`` and the statistics of the data columns ``columns`` from one catalog. None
        means all."""
        with self.opened(stored) as file:
            return Catalog.read(file, files=files, columns=columns)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the fetched files."""
        return sum(one.size for one in list(self._files.values()))


def _fetched(source: Source, stored: Stored, reads: ReadMetrics) -> CatalogFile:
    reader = source.open(expected=stored.version)
    try:
        if not stored.version.size:
            raise CorruptFile("the catalog is empty; build the indexes again")
        return CatalogFile(_all_of(reader))
    finally:
        reads.requests += reader.metrics.requests
        reads.bytes_fetched += reader.metrics.bytes_fetched
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
