"""Finds the indexes for pruning a listing of files. The files may be given in any way.

An index belongs to a directory. A query may name that directory, a folder of a partition in it, a glob, single files,
or a list of these. So several directories are searched for each place that the query names. The first directory is the
table's directory (the path without the ``key=value`` folders at its end). The next directories are the place itself and
up to ``LEVELS_ABOVE`` directories above it. The first index that is found is used.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.aggregation.known_units import KnownUnit, TotalledColumn
from orcidx.errors import CorruptFile, Unsupported
from orcidx.index_directory.catalog_totals import known_units
from orcidx.index_directory.store import FOLDER, IndexStore
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.planner.index_evidence import StoredIndex
from orcidx.planner.request import ScanRequest
from orcidx.predicate import Where, col
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason
from orcidx.storage import ReadMetrics, Source, describe_source
from orcidx.storage.kept_tails import KeptTail
from orcidx.storage.stores import store_class, store_of
from orcidx.threads.tasks import side_by_side

__all__ = ["ListingPlan", "index_of_file", "plan_listing", "store_above", "stores_of", "unused_notes"]

LEVELS_ABOVE = 8
"""The maximum number of directories that are searched for indexes above the directory in which the search starts. In
remote storage each directory takes one listing."""
_LISTED_AT_ONCE = 8
"""The number of directories that are listed at the same time."""


@dataclass(frozen=True)
class ListingPlan:
    """The results that indexes give for a listing of files.

    ``kept`` has the positions of the files that may contain a matching row, in order. ``indexes`` has the file indexes
    of some of these files. ``reasons`` says why each of the other files contains no matching row. ``covered`` is the
    number of files below an indexed directory. ``tails`` has stored tails of some files. ``notes`` says what was stale,
    damaged or missing. ``totalled`` has the positions of the files with known totals. In these files every row matches.
    ``units`` has the totals of these files. ``reads`` has the counts of what was read from the catalogs.
    """

    kept: tuple[int, ...]
    indexes: dict[int, StoredIndex] = field(default_factory=dict)
    reasons: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    covered: int = 0
    notes: tuple[Note, ...] = ()
    units: tuple[KnownUnit, ...] = ()
    totalled: frozenset[int] = frozenset()
    tails: dict[int, KeptTail] = field(default_factory=dict)
    reads: tuple[ReadMetrics, ...] = ()


def plan_listing(
    sources: Sequence[Source],
    where: Where | None,
    *,
    schema: pa.Schema | None = None,
    options: ReadOptions | None = None,
    everywhere: bool = True,
    totalled: Collection[str] = (),
    totals: Mapping[str, TotalledColumn] | None = None,
    eligible: npt.NDArray[np.bool_] | None = None,
) -> ListingPlan:
    """Finds the files that may contain a row that matches ``where``. The indexes of the files' directories are used.

    For ``schema`` and ``totalled`` see ``IndexStore.plan``, for ``everywhere`` see ``stores_of``, and for ``eligible``
    see ``known_units``. ``totals`` has the columns whose totals are wanted. If it is empty, only rows are counted.

    A damaged index rules out no file, and a note reports it.
    """
    stores = stores_of(sources, everywhere=everywhere)
    if not stores:
        return ListingPlan(tuple(range(len(sources))))
    kept = np.ones(len(sources), np.bool_)
    indexes: dict[int, StoredIndex] = {}
    reasons: dict[int, tuple[Reason, ...]] = {}
    notes: list[Note] = []
    units: list[KnownUnit] = []
    known: list[int] = []
    tails: dict[int, KeptTail] = {}
    covered = 0
    for store, positions in stores:
        covered += len(positions)
        try:
            files = [sources[one] for one in positions]
            plan = store.plan(files, where, schema=schema, options=options, totalled=totalled)
        except CorruptFile as error:
            notes.append(Note("catalog", "damaged", f"{error.message}; build the indexes again"))
            continue
        left = frozenset(plan.kept.tolist())
        for number, position in enumerate(positions):
            if number not in left:
                kept[position] = False
                reasons[position] = plan.reasons(number)
            elif (index := plan.index_of(number)) is not None:
                indexes[position] = index
        notes += plan.notes
        opened = plan.kept
        if totals is not None:
            wanted = None if eligible is None else eligible[positions]
            found, taken = known_units(plan, totals, options or USUAL_OPTIONS, wanted)
            units += [replace(unit, example=positions[unit.example]) for unit in found]
            known += np.asarray(positions)[taken].tolist()
            opened = opened[~taken[opened]]
        for number, tail in zip(opened.tolist(), plan.tails_of(opened)):
            if tail is not None:
                tails[positions[number]] = tail
    kept_files = tuple(np.flatnonzero(kept).tolist())
    reads = tuple(store.catalogs.reads for store, _ in stores)
    return ListingPlan(
        kept_files, indexes, reasons, covered, tuple(notes), tuple(units), frozenset(known), tails, reads
    )


def unused_notes(request: ScanRequest) -> tuple[Note, ...]:
    """Returns a note if a request has a condition, but does not find columns by their names. The note says that indexes
    of directories are not used. These indexes cannot be used, because they only store the names of columns."""
    if request.match == "name" or request.where is None:
        return ()
    text = f'indexes of directories are not used, because match="{request.match}" does not find columns by their names'
    return (Note("catalog", "off", text),)


def index_of_file(source: Source, column: Sequence[str]) -> tuple[StoredIndex | None, tuple[Note, ...]]:
    """Finds the index of one file in its directory's indexes. Returns the index, and notes on indexes that were stale
    or damaged or could not be read. The index is None if there is no index for this column and this version of the
    file."""
    asked = col(*column)
    try:
        found = plan_listing([source], asked.is_null() | asked.is_not_null())
    except (OSError, Unsupported) as error:
        return None, (Note("catalog", "silent", f"the indexes beside the file cannot be read: {error}"),)
    return found.indexes.get(0), found.notes


def stores_of(sources: Sequence[Source], *, everywhere: bool = True) -> list[tuple[IndexStore, list[int]]]:
    """The indexed directories that contain the files, each with the positions of its files.

    Without ``everywhere``, two limits apply to remote storage. The directories above the listed directory are not
    searched, except for the table's directory if a partition was listed. For files that were given by their own paths,
    no directory is searched.
    """
    starts: dict[tuple[Any, ...], tuple[Source, int | None, list[int]]] = {}
    of_root: dict[tuple[Any, ...], list[int]] = {}
    for position, source in enumerate(sources):
        root: tuple[Any, ...] | None = None
        alone = source.root is None and source.kind != "path"
        if not (alone or source.kind == "url" or source.listed is None):
            # The search for an index starts in the same directory for all files from one listing, and for all local
            # files in one directory. So there is one search for all these files.
            place = str(source.location).rpartition(os.sep)[0] if source.root is None else source.root
            root = (source.kind, id(source.filesystem), source.root is None, place)
            if root in of_root:
                of_root[root].append(position)
                continue
        start, positions = _start(source), [position]
        if start is not None and (everywhere or source.kind == "path" or source.root is not None):
            key = (start.kind, id(start.filesystem), str(start.location))
            if key in starts:
                positions = starts[key][2]
                positions.append(position)
            else:
                levels = None if everywhere or source.kind == "path" else _levels_listed(start, source)
                starts[key] = (start, levels, positions)
        if root is not None:
            of_root[root] = positions
    asked: dict[tuple[Any, ...], IndexStore | None] = {}
    found: dict[int, tuple[IndexStore, list[int]]] = {}
    for start, levels, positions in starts.values():
        store = _search(start, asked, levels)
        if store is not None:
            found.setdefault(id(store), (store, []))[1].extend(positions)
    return [(store, sorted(positions)) for store, positions in found.values()]


def store_above(directory: str | Source) -> IndexStore | None:
    """The indexes for the files of a directory, found without listing it. The result is None if there are no indexes.
    ``directory`` is the path of a local directory, or a source that has a store."""
    if isinstance(directory, Source):
        return _search(_directory(directory, str(directory.location)), {}, None)
    return _search(_directory(describe_source(directory), os.path.abspath(directory)), {}, None)


def _start(source: Source) -> Source | None:
    """The directory from which the search for a file's indexes starts. It is the directory whose listing found the
    file, or the directory that contains the file. The result is None if this directory cannot contain other files."""
    if source.listed is None or not source.in_store:
        return None
    location = str(source.location)
    if source.kind == "url" and (location.startswith(("http:", "https:")) or "::" in location):
        return None
    if source.root is not None and source.kind != "url":
        return _directory(source, source.root)
    return _directory(source, location.replace(os.sep, "/").rpartition("/")[0])


def _directory(like: Source, location: str) -> Source:
    location = location.replace(os.sep, "/") if like.kind == "path" else location
    location = location.rstrip("/") or ("/" if like.kind == "path" else "")
    name = store_class(like.kind).address(location, like.filesystem) or location
    return replace(like, name=name, location=location, root=None, size=None, listed=None)


def _levels_listed(start: Source, source: Source) -> int:
    """The number of levels from the start of the search up to the listed directory. The number can be more than 0 only
    for URLs, because the search for a URL starts in the directory of the file."""
    if start.kind != "url" or source.root is None:
        return 0
    below = store_of(start)[1].strip("/")
    return max(0, below.count("/") - source.root.strip("/").count("/"))


def _search(start: Source, asked: dict[tuple[Any, ...], IndexStore | None], levels: int | None) -> IndexStore | None:
    first, *above = _candidates(str(start.location), levels)

    def ask(location: str) -> IndexStore | None:
        key = (start.kind, id(start.filesystem), location)
        if key not in asked:
            asked[key] = IndexStore.open(_directory(start, location))
        return asked[key]

    if start.kind == "path":
        there = (one for one in (first, *above) if os.path.isdir(f"{one}/{FOLDER}"))
        return next((store for one in there if (store := ask(one)) is not None), None)
    if (store := ask(first)) is not None or not above:
        return store
    return next((store for store in side_by_side(ask, above, _LISTED_AT_ONCE) if store is not None), None)


def _candidates(location: str, levels: int | None) -> list[str]:
    """Directories in the order in which they are searched. ``levels`` is the number of levels above ``location`` that
    are searched. More levels are searched only if they are needed to reach the table's directory."""
    upwards = _with_parents(location)[: LEVELS_ABOVE + 1]
    plain = [n for n, one in enumerate(upwards) if "=" not in one.rpartition("/")[2]]
    table = plain[0] if plain else 0
    if levels is not None:
        upwards = upwards[: 1 + next((n for n in plain if n >= levels), levels)]
        table = min(table, len(upwards) - 1)
    return [upwards[table], *upwards[:table], *upwards[table + 1 :]]


def _with_parents(location: str) -> list[str]:
    top = location.index("://") + 3 if "://" in location else 0
    found = [location]
    while (cut := location.rfind("/", top)) > top:
        location = location[:cut]
        found.append(location)
    return found
