"""The files of a directory, taken from its catalog (``fresh="catalog"``). The directory is not listed, and no object is
created for each file.

A listing takes one request for every 1,000 names, but a catalog takes only one request. A catalog can replace a listing
only if the catalog was made from a listing and has all files of that listing (``Catalog.listed``). A scan compares each
file that it opens with the catalog. The scan raises an error if the file is missing or has another version. Files that
were added later are not seen. ``explain`` and the metadata of totals show the time of the listing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.known_units import TotalledColumn
from orcidx.errors import InvalidQuery, StorageError
from orcidx.index_directory.catalog_totals import known_units
from orcidx.index_directory.directory_partitions import Partitions
from orcidx.index_directory.file_pruning import FilePlan, Int64s
from orcidx.index_directory.file_versions import LISTING
from orcidx.index_directory.lookup import unused_notes
from orcidx.index_directory.store import IndexStore
from orcidx.orc.hive_acid import ACID_FOLDER
from orcidx.planner.request import FileJob, KnownTotals, ScanRequest, as_spelled
from orcidx.pruning.findings import Note
from orcidx.storage import Fingerprint, ReadMetrics, Source, Sources, describe_source
from orcidx.storage.folder import Folder

__all__ = ["CatalogFiles", "CatalogIndexes", "listed_by_catalog"]


def listed_by_catalog(
    path: Sources,
    *,
    schema: pa.Schema | None,
    storage_options: Mapping[str, Any] | None,
    filesystem: object,
    hive_partitions: bool,
    case_sensitive: bool,
) -> tuple[CatalogFiles, CatalogIndexes]:
    """The files of one directory. Raises ``InvalidQuery`` if no catalog has all of them, and ``CorruptFile`` for a
    damaged catalog."""
    if not isinstance(path, Source) and isinstance(path, (list, set, frozenset)):
        raise InvalidQuery(
            'fresh="catalog" needs the path of one directory, but a list of paths is given; give the path itself, or '
            'use fresh="listing"'
        )
    store = IndexStore.open(path, storage_options=storage_options, filesystem=filesystem)
    name = describe_source(path, storage_options=storage_options, filesystem=filesystem).name
    if store is None:
        message = 'fresh="catalog": the directory has no catalog; make it with orcidx.spark.build_file_index'
        raise InvalidQuery(message, file=name)
    if store.catalogs.listing.listed is None:
        raise InvalidQuery(
            'fresh="catalog": the catalog lists only some files of the directory; build the indexes for all files, '
            'or use fresh="listing"',
            file=name,
        )
    files = store.catalogs.listing.files.select(LISTING.names).combine_chunks()
    files = files.filter(pc.not_equal(files["size"], 0))
    order = pc.sort_indices(files["path"])
    places = np.asarray(order)
    if not (places[:-1] < places[1:]).all():
        files = files.take(order)
    paths = files["path"].combine_chunks()
    partitions = Partitions.none(len(paths))
    if hive_partitions:
        partitions = Partitions.as_columns(paths, schema, case_sensitive=case_sensitive)
    made = CatalogFiles(store.root, files, partitions)
    return made, CatalogIndexes(store.root, store.catalogs.listing.listed, store)


@dataclass(frozen=True, eq=False)
class CatalogFiles(Sequence[FileJob]):
    """Jobs for the files of a directory. Each job is made when it is needed. ``listing`` is the result of
    ``listing_table``."""

    root: Source
    listing: pa.Table
    partitions: Partitions

    def __len__(self) -> int:
        return int(self.listing.num_rows)

    @overload
    def __getitem__(self, number: int) -> FileJob: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[FileJob, ...]: ...

    def __getitem__(self, number: int | slice) -> FileJob | tuple[FileJob, ...]:
        if isinstance(number, slice):
            return tuple(self._jobs(range(*number.indices(len(self)))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return next(self._jobs([number % len(self)]))

    def __iter__(self) -> Iterator[FileJob]:
        return self._jobs(range(len(self)))

    def some(self, numbers: Int64s) -> tuple[FileJob, ...]:
        """The jobs of the files at these positions in the listing."""
        return tuple(self._jobs(numbers.tolist()))

    def _jobs(self, numbers: Sequence[int]) -> Iterator[FileJob]:
        folder = Folder(self.root)
        rows = self.listing.take(pa.array(numbers, pa.int64()))
        for number, row in zip(numbers, rows.to_pylist()):
            version = Fingerprint(row["size"], row["etag"], row["mtime"])
            source = folder.source(row["path"])
            source = replace(source, root=str(self.root.location), size=row["size"], listed=version)
            yield FileJob(source, constants=self.partitions.constants_of(number), fingerprint=version)

    @cached_property
    def has_acid_folders(self) -> bool:
        """Whether some files are in directories of Hive's ACID transactions."""
        return bool(pc.any(pc.match_substring_regex(self.listing["path"], ACID_FOLDER)).as_py())


@dataclass(frozen=True)
class CatalogIndexes:
    """The indexes of the directory (see ``planner.request.FileIndexes``). A copy in another process opens the store
    again."""

    root: Source
    as_of: float
    store: IndexStore | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "store": None}

    def _opened(self) -> IndexStore:
        store = IndexStore.open(self.root) if self.store is None else self.store
        if store is None:
            raise StorageError("the catalog of the directory was deleted; build the indexes again", file=self.root.name)
        return store

    def _plan(self, jobs: Sequence[FileJob], request: ScanRequest, totalled: Collection[str]) -> FilePlan:
        files = jobs.listing if isinstance(jobs, CatalogFiles) else [job.source for job in jobs]
        constants = jobs[0].constants if jobs else {}
        request = as_spelled(request)
        schema = pa.schema([(name, value.type) for name, value in constants.items()])
        return self._opened().plan(files, request.where, schema=schema, options=request.options, totalled=totalled)

    def plan(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        *,
        totalled: Collection[str] = (),
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> tuple[Sequence[FileJob], tuple[Note, ...]]:
        """The jobs of the files that the catalog does not rule out, and notes. The reads of the catalog belong to the
        listing, so they are not counted."""
        if request.match != "name" or not jobs:
            return jobs, unused_notes(request)
        plan = self._plan(jobs, request, totalled)
        return _jobs_of(jobs, plan.kept, plan), plan.notes

    def totals(
        self,
        jobs: Sequence[FileJob],
        request: ScanRequest,
        columns: Mapping[str, TotalledColumn],
        *,
        count: Callable[[ReadMetrics], None] | None = None,
    ) -> KnownTotals:
        """The totals that the catalog has for files in which every row matches. Also returns the jobs of the other
        files that the catalog does not rule out. The reads of the catalog are not counted, as in ``plan``."""
        if request.match != "name" or not jobs:
            return KnownTotals(tuple(jobs), notes=unused_notes(request))
        if isinstance(jobs, CatalogFiles) and jobs.has_acid_folders:
            return KnownTotals(tuple(jobs))  # all files are read, because reading an ACID file must raise an error
        plan = self._plan(jobs, request, tuple(columns))
        eligible = None
        if not isinstance(jobs, CatalogFiles):
            eligible = np.array([job.is_whole for job in jobs], np.bool_)
        units, taken = known_units(plan, columns, request.options, eligible)
        return KnownTotals(_jobs_of(jobs, plan.kept[~taken[plan.kept]], plan), tuple(units), plan.notes)


def _jobs_of(jobs: Sequence[FileJob], numbers: Int64s, plan: FilePlan) -> tuple[FileJob, ...]:
    """The jobs at the positions in ``numbers``, with the file indexes and the stored tails of their files."""
    chosen = jobs.some(numbers) if isinstance(jobs, CatalogFiles) else [jobs[one] for one in numbers.tolist()]
    indexes = (plan.index_of(number) for number in numbers.tolist())
    tails = plan.tails_of(numbers)
    return tuple(
        job if index is None and tail is None else replace(job, file_index=job.file_index or index, tail=tail)
        for job, index, tail in zip(chosen, indexes, tails)
    )
