"""Finding the indexes that a listing of files may be pruned by, however the files were named.

An index belongs to a directory, and a query may name that directory, a partition's folder in it, a glob, single files,
or a list of these. So it is looked for from each place upwards: at the table's directory first (without the
``key=value`` folders at the end), then at the place itself, then above that, up to ``LEVELS``. The first one wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.errors import CorruptFile
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.planner.index_evidence import StoredIndex
from orcidx.pruning.evaluate import Note
from orcidx.pruning.reasons import Reason
from orcidx.storage import Source

__all__ = ["ListingPlan", "plan_listing", "stores_of"]

LEVELS = 8
"""Directories above a place that are asked, each with one listing where the storage is remote."""
_ASKERS = 8


@dataclass(frozen=True)
class ListingPlan:
    """What indexes say of a listing.

    ``kept``: positions of the files that may hold a row that matches, in order; ``indexes``: the file index of some of
    them; ``reasons``: why each other file holds none; ``covered``: how many files lie below an indexed directory;
    ``notes``: what was stale, damaged or missing.
    """

    kept: tuple[int, ...]
    indexes: dict[int, StoredIndex] = field(default_factory=dict)
    reasons: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    covered: int = 0
    notes: tuple[Note, ...] = ()


def plan_listing(
    sources: Sequence[Source], where: Any, *, schema: pa.Schema | None = None, options: ReadOptions | None = None
) -> ListingPlan:
    """Which of the files ``where`` leaves, by the indexes of their directories; ``schema`` as for ``IndexStore.plan``.

    An index that is damaged rules nothing out, and a note says so.
    """
    kept = np.ones(len(sources), np.bool_)
    indexes: dict[int, StoredIndex] = {}
    reasons: dict[int, tuple[Reason, ...]] = {}
    notes: list[Note] = []
    covered = 0
    for store, positions in stores_of(sources):
        covered += len(positions)
        try:
            plan = store.plan([sources[one] for one in positions], where, schema=schema, options=options)
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
    return ListingPlan(tuple(np.flatnonzero(kept).tolist()), indexes, reasons, covered, tuple(notes))


def stores_of(sources: Sequence[Source]) -> list[tuple[IndexStore, list[int]]]:
    """The indexed directories that the files lie in, each with the positions of its files."""
    starts: dict[tuple[Any, ...], tuple[Source, list[int]]] = {}
    for position, source in enumerate(sources):
        start = _start(source)
        if start is not None:
            key = (start.kind, id(start.filesystem), str(start.location))
            starts.setdefault(key, (start, []))[1].append(position)
    asked: dict[tuple[Any, ...], IndexStore | None] = {}
    found: dict[int, tuple[IndexStore, list[int]]] = {}
    for start, positions in starts.values():
        store = _search(start, asked)
        if store is not None:
            found.setdefault(id(store), (store, []))[1].extend(positions)
    return [(store, sorted(positions)) for store, positions in found.values()]


def _start(source: Source) -> Source | None:
    """The directory that a file was found in, or that it lies in; None where nothing can be beside it."""
    if source.kind not in ("path", "url", "fsspec", "obstore", "arrow") or source.listed is None:
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
    name = str(like.filesystem.unstrip_protocol(location)) if like.kind == "fsspec" else location
    return replace(like, name=name, location=location, root=None, size=None, listed=None)


def _search(start: Source, asked: dict[tuple[Any, ...], IndexStore | None]) -> IndexStore | None:
    first, *above = _candidates(start)

    def ask(directory: Source) -> IndexStore | None:
        key = (directory.kind, id(directory.filesystem), directory.location)
        if key not in asked:
            asked[key] = IndexStore.open(directory)
        return asked[key]

    if (store := ask(first)) is not None:
        return store
    if start.kind == "path":
        return next((store for one in above if (store := ask(one)) is not None), None)
    with ThreadPoolExecutor(_ASKERS, thread_name_prefix="orcidx-lookup") as pool:
        return next((store for store in pool.map(ask, above) if store is not None), None)


def _candidates(start: Source) -> list[Source]:
    """Directories in the order in which they are asked."""
    upwards = list(_upwards(start))[: LEVELS + 1]
    table = next((n for n, one in enumerate(upwards) if "=" not in str(one.location).rpartition("/")[2]), 0)
    return [upwards[table], *upwards[:table], *upwards[table + 1 :]]


def _upwards(start: Source) -> Iterator[Source]:
    location = str(start.location)
    top = location.index("://") + 3 if "://" in location else 0
    yield start
    while (cut := location.rfind("/", top)) > 0:
        location = location[:cut]
        if len(location) <= top:
            return
        yield _directory(start, location)
