"""Which files of Spark's listing are proven to hold no row that matches, by the indexes of their directory.

A file falls only where Spark, the listing of the directory and the catalog of its indexes agree on its size and time;
whatever is unknown is read. Spark's listing is asked for where something falls by the other two. Statistics of a column
count where the file has the type that the relation has, or one that widens to it without changing a value.
"""

from __future__ import annotations

import datetime as dt
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, OrcidxError, Unsupported
from orcidx.index_directory.catalog import StatisticsKey
from orcidx.index_directory.file_pruning import (
    KnownFiles,
    asked_columns,
    files_with_index_of,
    open_questions,
    plan_files,
    stored_index,
)
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.paimon.file_index import read_file_index
from orcidx.planner.index_evidence import StoredIndex, bind_to_index
from orcidx.predicate import BoundPredicate, Constant, Leaf, Op, Predicate, any_of
from orcidx.predicate.fold import Part, rewritten
from orcidx.predicate.nodes import ExactTime
from orcidx.spark.conditions.kept_stores import KeptStores
from orcidx.spark.conditions.listed_files import ListedFiles, Listing, SparkFiles
from orcidx.spark.types.spark_types import arrow_schema_of, struct_json
from orcidx.storage import Source
from orcidx.threads.tasks import side_by_side

__all__ = ["PartitionColumns", "Survivors", "find_survivors", "with_old_times"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

FIRST = 8
"""So many file indexes are asked before it is clear that none rules anything out, and no more are."""
SCAN_BYTES = 200_000_000
"""Stored bytes that a core reads a second, about what Spark's reader does."""
FILE_SECONDS = 0.002
"""What a core takes to open a file, about what Spark's reader does of small ones."""
SHARE = 0.5
"""Leaving files out by their indexes may cost this share of the scan that it is expected to save, by the files that
have been asked: those of 2,000 files of 60 kB with bloom filters of 240 kB took longer than the files. Of local files
that is processor time: a busy machine is slow for the scan, too."""
ASKERS = 8
"""Indexes in a store that are asked at a time: most of it is waiting."""
OPENINGS = 3
"""A file in a store costs Spark's reader at least so many answers of the store (the tail, a stripe's footer, columns),
where an index costs one. How long that takes at least is measured by the indexes that are asked."""
PATIENCE = 0.03
"""Seconds of asking that need not pay: of few files nobody feels it, and expects what is left out to be left out."""
FAR_PATIENCE = 0.1
"""The same, of files in a store."""
RELATION_SECONDS = 0.02
"""What a second relation, of the files that are left, costs Spark's planning."""
_WIDENS = {
    "short": ("byte",),
    "integer": ("byte", "short"),
    "long": ("byte", "short", "integer"),
    "double": ("float",),
}
_OF_ORC = {
    TypeKind.BOOLEAN: "boolean",
    TypeKind.BYTE: "byte",
    TypeKind.SHORT: "short",
    TypeKind.INT: "integer",
    TypeKind.LONG: "long",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.STRING: "string",
    TypeKind.VARCHAR: "string",
    TypeKind.DATE: "date",
    TypeKind.TIMESTAMP: "timestamp",
}
_OF_PAIMON = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "DATE": "date",
}

_OLD = {"date": dt.date(1902, 1, 2), "timestamp": ExactTime(-2_145_830_400_000_000_000, "UTC")}
"""1902-01-02; before it calendars and zones of writers and readers may differ (docs/decisions/0014)."""
_STORES = KeptStores()


@dataclass(frozen=True)
class PartitionColumns:
    """Columns of Spark's relation whose values are not those of the files: what is known of files' columns of these
    ``names`` proves nothing. ``infer``: whether their types are inferred; ``by_directory``: whether the values are what
    the directories are called, and not what a catalog says."""

    names: frozenset[str] = frozenset()
    infer: bool = True
    by_directory: bool = True


@dataclass(frozen=True)
class Survivors:
    """``fallen``: of the files as they were listed, those proven to have no row, by the version that was listed;
    ``by``: how many fell by what; ``keyed``: columns with a bloom filter; ``notes``: why no more fell."""

    fallen: Bools
    by: Mapping[str, int]
    keyed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def with_other(self, other: Survivors) -> Survivors:
        """Together with what another directory's indexes say of the same files."""
        by = {name: self.by.get(name, 0) + other.by.get(name, 0) for name in (*self.by, *other.by)}
        return Survivors(self.fallen | other.fallen, by, self.keyed | other.keyed, self.notes + other.notes)

    def kept_of(self, listing: Listing, files: ListedFiles) -> Bools:
        """Which files of Spark's own listing are read."""
        kept = np.ones(len(listing.names), np.bool_)
        if not self.fallen.any():
            return kept
        if isinstance(files, SparkFiles):
            return ~self.fallen
        place = _places(listing, files.sources)
        kept[place[self.fallen & (place >= 0)]] = False
        return kept


def find_survivors(
    store: IndexStore,
    files: ListedFiles,
    positions: Int64s,
    where: Predicate,
    *,
    types: Mapping[str, str],
    options: ReadOptions,
    slots: int,
    partitions: PartitionColumns,
    share: float = 1.0,
) -> Survivors:
    """``files``: of a scan; ``positions``: of those that the store is about; ``types``:
    Spark's, of the relation's columns by name; ``share``: of the rows' bytes, in the columns that are read."""
    nothing = np.zeros(len(files), np.bool_)
    store = _STORES.known(store)
    known_of = files.some(positions)
    try:
        known, fresh, plan = _planned(store, known_of, where, types, options, partitions=partitions)
        by = {"file statistics": len(known_of) - len(plan.kept)}
        sizes = known_of.sizes[plan.kept]
        seconds = (share * int(sizes.sum()) / SCAN_BYTES + len(sizes) * FILE_SECONDS) / slots
        question = _Question(where, open_questions(known, where, options), types, options)
        once = RELATION_SECONDS if len(sizes) == len(known_of) else 0.0
        price = _Price(seconds / max(1, len(sizes)), once, slots, remote=store.root.kind != "path")
        left, fell, notes = _asked(known, fresh, plan.kept, question, price)
    except (CorruptFile, Unsupported, OSError) as error:  # also of a later version, not ours to read, or not reached
        warnings.warn(f"the directory's indexes are not used: {error}", RuntimeWarning, stacklevel=2)
        state = "are damaged" if isinstance(error, CorruptFile) else "cannot be read"
        return Survivors(nothing, {}, notes=(f"the indexes {state}: {error}",))
    _STORES.keep(store)
    by["file indexes"] = fell
    out = np.ones(len(known_of), np.bool_)
    out[left] = False
    fallen = nothing.copy()
    fallen[positions[out & fresh]] = True
    keyed = frozenset(store.spec.get("spec", {}).get("bloom-filter", {}))
    return Survivors(fallen, {name: count for name, count in by.items() if count}, keyed, tuple(notes))


def with_old_times(
    store: IndexStore,
    files: ListedFiles,
    positions: Int64s,
    columns: Sequence[str],
    *,
    types: Mapping[str, str],
    options: ReadOptions,
    partitions: PartitionColumns,
) -> Bools:
    """Which files may have a date or time in some of the columns that Spark reads otherwise than orcidx does."""
    nothing = np.zeros(len(files), np.bool_)
    old = any_of(*(Leaf((name,), Op.LT, (_OLD[types[name]],)) for name in columns))
    plan = _planned(_STORES.known(store), files.some(positions), old, types, options, partitions=partitions)[2]
    nothing[positions[plan.kept]] = True
    return nothing


def _places(listing: Listing, sources: Sequence[Source]) -> npt.NDArray[np.int64]:
    """For each source its number in Spark's listing, of the very same size and time; -1 where that has none."""
    by_path = {re.sub(r"^file:/+", "/", name): number for number, name in enumerate(listing.names)}
    found = np.full(len(sources), -1, np.int64)
    for i, source in enumerate(sources):
        number, version = by_path.get(str(source.location)), source.listed
        if number is None or version is None or version.mtime is None or version.size != listing.sizes[number]:
            continue
        if version.mtime // 1_000_000 == listing.times[number]:
            found[i] = number
    return found


def _planned(
    store: IndexStore,
    files: ListedFiles,
    where: Predicate,
    types: Mapping[str, str],
    options: ReadOptions,
    *,
    partitions: PartitionColumns,
) -> tuple[KnownFiles, Bools, Any]:
    """What the catalog says, by statistics and by the values of directories."""
    table, match = files.match(store)
    kinds = [
        (key, kind)
        for key, kind in files.partition_types(infer=partitions.infer).items()
        if partitions.by_directory and kind != "timestamp" and types.get(key) == kind
    ]
    known = store.known(table, match, columns=asked_columns(where), schema=arrow_schema_of(struct_json(kinds)))
    hidden = replace(known.partitions, keys=known.partitions.keys | partitions.names)
    known = replace(known, partitions=hidden)
    statistics = {key: one for key, one in known.catalog.statistics.items() if _same_values(key, types)}
    known = replace(known, catalog=replace(known.catalog, statistics=statistics))
    plan = plan_files(known, match.fresh, where, options, has_index=True, ask_indexes=False)
    return known, match.fresh, plan


def _same_values(key: StatisticsKey, types: Mapping[str, str]) -> bool:
    """Whether Spark reads the very values of a file's column that its statistics are of."""
    node, wanted = key.node, types.get(key.column)
    if node.kind is TypeKind.DECIMAL:
        return wanted == f"decimal({node.precision},{node.scale})"
    own = _OF_ORC.get(node.kind)
    return own is not None and (own == wanted or own in _WIDENS.get(wanted or "", ()))


# ---------------------------------------------------------------------- file indexes


@dataclass(frozen=True)
class _Question:
    """``open_in``: what of it is open in each file; ``types``: Spark's, of the columns by name."""

    where: Predicate
    open_in: Sequence[Predicate]
    types: Mapping[str, str]
    options: ReadOptions
    _bound: dict[tuple[int, tuple[tuple[str, str], ...]], BoundPredicate] = field(default_factory=dict)

    def rules_out(self, stored: StoredIndex, file: int, rows: int) -> bool | None:
        """Whether an index proves its file to be without rows that match; None where it has none of the columns that
        are asked for, and is not read."""
        asked = asked_columns(self.where) or ()
        types = {
            name: kind
            for name, kind in stored.types.items()
            if name in asked and _same_index(kind, self.types.get(name))
        }
        if not types:
            return None
        try:
            index = read_file_index(stored.data, types=types, rows=rows)
            return bool(index.evaluate(self._bound_to(self.open_in[file], types)).is_empty)
        except (OrcidxError, OSError):  # damaged or gone: it proves nothing
            return False

    def _bound_to(self, where: Predicate, types: Mapping[str, str]) -> BoundPredicate:
        """What is open, bound once to the types that the indexes of most files share."""
        key = id(where), tuple(types.items())
        if key not in self._bound:
            self._bound[key] = bind_to_index(where, types, self.options)
        return self._bound[key]


@dataclass
class _Price:
    """What asking costs so far, and what it gains. ``saved``: seconds, by a file that falls; ``once``: seconds that it
    costs to leave out the first; ``slots``: files that Spark reads at a time; ``remote``: each question waits for a
    store."""

    saved: float
    once: float
    slots: int
    remote: bool
    spent: float = 0.0
    asked: int = 0
    fell: int = 0
    _least: float = float("inf")

    @property
    def askers(self) -> int:
        """So many indexes are asked at a time."""
        return ASKERS if self.remote else 1

    def ask(self, questions: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
        """The answers; what they cost is added."""
        clock = time.perf_counter if self.remote else time.thread_time

        def timed(question: Callable[[], bool | None]) -> tuple[bool | None, float]:
            began = clock()
            return question(), clock() - began

        began = clock()
        told = side_by_side(timed, questions, self.askers) if self.remote else [timed(one) for one in questions]
        self.spent += clock() - began
        self._least = min([self._least, *(took for out, took in told if out is not None)])
        self.asked += sum(out is not None for out, _ in told)
        self.fell += sum(out is True for out, _ in told)
        return [out for out, _ in told]

    @property
    def _saved(self) -> float:
        """By a file that falls, since asking has told how soon the store answers."""
        return self.saved + (OPENINGS * self._least / self.slots if self.remote and self.asked else 0.0)

    def is_too_high(self, rest: int) -> bool:
        """Whether asking the rest would cost too much, if as many of them fall as of those that have been asked."""
        expected = SHARE * self._saved * (self.fell + self.fell / self.asked * rest) - self.once
        return self.spent / self.asked * rest > max(expected, FAR_PATIENCE if self.remote else PATIENCE)

    @property
    def is_worth(self) -> bool:
        """Whether the files that fell save what it costs to leave them out."""
        return self.fell > 0 and self.fell * self._saved > self.once


def _asked(
    known: KnownFiles, fresh: Bools, kept: npt.NDArray[np.int64], question: _Question, price: _Price
) -> tuple[list[int], int, list[str]]:
    """The files that their indexes leave, how many fell, and why no more were asked."""
    rows = known.rows
    rest = kept[(fresh & files_with_index_of(known, _columns_of_indexes(question.where)))[kept]].tolist()
    fallen: set[int] = set()
    notes: list[str] = []

    def answer(number: int) -> bool | None:
        stored = stored_index(known, number)
        return None if stored is None else question.rules_out(stored, number, int(rows[number]))

    while rest and not notes:
        now, rest = rest[: price.askers], rest[price.askers :]
        answers = price.ask([partial(answer, number) for number in now])
        fallen.update(number for number, out in zip(now, answers, strict=True) if out)
        if price.asked < FIRST or not rest:
            continue
        if not fallen:
            notes.append(f"the first {price.asked} file indexes rule nothing out, and no more were asked")
        elif price.is_too_high(len(rest)):
            told = f"{price.fell} of {price.asked} files fell by their indexes"
            notes.append(f"{told}, and asking more would cost too much")
    if notes and not price.is_worth:
        fallen.clear()
    return [number for number in kept.tolist() if number not in fallen], len(fallen), notes


def _columns_of_indexes(where: Predicate) -> set[str] | None:
    """The columns whose indexes may rule something out that statistics do not; None: any. Spark asks that a key of a
    join is not null, which statistics answer for a whole file."""
    return asked_columns(rewritten(where, lambda part: Constant(True) if _is_not_null(part) else part))


def _is_not_null(part: Part) -> bool:
    return isinstance(part, Leaf) and part.op is Op.IS_NULL and part.negated


def _same_index(kind: str, wanted: str | None) -> bool:
    """Whether the keys of an index are the values that Spark reads. Times are typed by a clock, and prove nothing."""
    kind = kind.upper()
    if match := re.match(r"DECIMAL\((\d+), ?(\d+)\)", kind):
        return wanted == f"decimal({match[1]},{match[2]})"
    base = "STRING" if kind.startswith("VARCHAR") else kind.split("(")[0].split(" ")[0]
    own = _OF_PAIMON.get(base)
    return own is not None and (own == wanted or own in _WIDENS.get(wanted or "", ()))
