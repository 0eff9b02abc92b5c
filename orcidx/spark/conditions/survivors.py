"""Determines which files of Spark's listing are proven to have no matching row, by the indexes of their directory.

A file is skipped only if its size and time are the same in Spark's listing, in orcidx's listing of the directory, and
in the catalog of the indexes. Every other file is read. Spark's listing is fetched only if orcidx's listing and the
catalog allow a file to be skipped. Statistics of a column are used if the column's type in the file is the type in the
relation, or widens to the type in the relation without changing a value.
"""

from __future__ import annotations

import datetime as dt
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, OrcidxError, Unsupported
from orcidx.index_directory.catalog import StatisticsKey
from orcidx.index_directory.file_pruning import (
    KnownFiles,
    columns_asked_of,
    files_with_index_of,
    open_questions,
    plan_known_files,
    stored_index,
)
from orcidx.index_directory.store import IndexStore
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.paimon.file_index import read_file_index
from orcidx.planner.index_evidence import StoredIndex, bind_to_index
from orcidx.predicate import BoundPredicate, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import Part, parts
from orcidx.spark.conditions.kept_stores import KeptStores
from orcidx.spark.conditions.listed_files import ListedFiles, Listing, SparkFiles, local_name
from orcidx.spark.types.spark_types import ORC_NAMES, PAIMON_NAMES, arrow_schema_of, struct_json
from orcidx.storage import Source
from orcidx.threads.tasks import side_by_side

__all__ = ["PartitionColumns", "SurvivingFiles", "find_survivors", "misplaced", "with_old_times"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

FUTILE_INDEXES = 8
"""If this many file indexes have excluded no file, no more indexes are used."""
SCAN_BYTES = 200_000_000
"""The assumed rate of a scan, in stored bytes per second and core. It is about the rate of Spark's reader."""
FILE_SECONDS = 0.002
"""The assumed time to open a file, in seconds. It is about the time that Spark's reader needs for a small file."""
COST_SHARE = 0.5
"""Using file indexes may take at most this share of the scan time that they are expected to save. The expected saving
is estimated from the indexes used so far. (For 2,000 files of 60 kB with bloom filters of 240 kB, reading the indexes
took longer than reading the files.) For local files the cost is processor time, because a busy machine also slows down
the scan."""
ASKED_AT_ONCE = 8
"""How many indexes in a remote store are read at the same time. Most of the time is spent waiting for the store."""
REQUESTS_OF_SPARK = 3
"""The minimum number of requests of Spark's reader for a file in a store (the tail, a stripe's footer, columns). An
index needs one request. The time of a request is measured while indexes are read."""
UNNOTICED_SECONDS = 0.03
"""Seconds that using indexes may take even if no time is saved. Users do not notice this time, and they expect that
files are skipped where possible."""
FAR_UNNOTICED_SECONDS = 0.1
"""The same limit as ``UNNOTICED_SECONDS``, for files in a remote store."""
RELATION_SECONDS = 0.02
"""Seconds that Spark needs to plan a second relation, with the remaining files."""
_WIDENS = {
    "short": ("byte",),
    "integer": ("byte", "short"),
    "long": ("byte", "short", "integer"),
    "double": ("float",),
}
_ORC_UNUSED = frozenset({TypeKind.CHAR, TypeKind.BINARY, TypeKind.TIMESTAMP_INSTANT})
"""Types whose statistics are not used."""
_PAIMON_UNUSED = frozenset({"CHAR", "BINARY", "VARBINARY", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
"""Types whose indexes are not used."""

_OLD = {"date": dt.date(1902, 1, 2), "timestamp": ExactTime(-2_145_830_400_000_000_000, "UTC")}
"""1902-01-02. Before this date, calendars and zones of writers and readers may differ (docs/decisions/0014)."""
_KEY_OPERATORS = (Op.EQ, Op.IN, Op.EQ_NULL_SAFE)
_STORES = KeptStores()


@dataclass(frozen=True)
class PartitionColumns:
    """The columns of Spark's relation whose values do not come from the files' columns of the same name.

    ``names``: the names of these columns. They are the partition columns and the columns that ``misplaced`` returns. A
    file may have columns with these names, but the statistics of such columns prove nothing. ``infer``: whether the
    types are inferred. ``by_directory``: whether the values come from the directories' names, not from a catalog."""

    names: frozenset[str] = frozenset()
    infer: bool = True
    by_directory: bool = True


@dataclass(frozen=True)
class SurvivingFiles:
    """The result of evaluating indexes. ``ruled_out``: for each listed file, whether it is proven to have no matching
    row in the listed version. ``by``: how many files were ruled out by statistics, by partition values, by file
    indexes, and so on. ``keyed``: columns with a bloom filter. ``notes``: reasons why no more files are skipped.
    ``failed``: whether some indexes could not be read. Another attempt may succeed."""

    ruled_out: Bools
    by: Mapping[str, int]
    keyed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    failed: bool = False

    def with_other(self, other: SurvivingFiles) -> SurvivingFiles:
        """Combines the results of this object with the results of another directory's indexes for the same files."""
        by = {name: self.by.get(name, 0) + other.by.get(name, 0) for name in (*self.by, *other.by)}
        return SurvivingFiles(
            self.ruled_out | other.ruled_out,
            by,
            self.keyed | other.keyed,
            self.notes + other.notes,
            self.failed or other.failed,
        )

    def kept_of(self, listing: Listing, files: ListedFiles) -> Bools:
        """Returns a mask of Spark's own listing. It is True for each file that Spark still has to read."""
        kept = np.ones(len(listing.names), np.bool_)
        if not self.ruled_out.any():
            return kept
        if isinstance(files, SparkFiles):
            return ~self.ruled_out
        place = _places(listing, files.sources)
        kept[place[self.ruled_out & (place >= 0)]] = False
        return kept


def misplaced(columns: Sequence[str]) -> frozenset[str]:
    """The columns of a relation that may have the values of a column with another name. If all names of a file begin
    with ``_col``, Spark finds the file's columns by position (``OrcUtils.requestedColumnIds``)."""
    return frozenset(one for place, one in enumerate(columns) if one.startswith("_col") and one != f"_col{place}")


def joined(parts: Iterable[SurvivingFiles], files: int) -> SurvivingFiles:
    """The combined results of the indexes of several directories. ``files`` is the number of files."""
    return reduce(SurvivingFiles.with_other, parts, SurvivingFiles(np.zeros(files, np.bool_), {}))


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
) -> SurvivingFiles:
    """Finds the files that can be skipped. ``files``: the files of a scan. ``positions``: the positions, in ``files``,
    of the files below the directory of ``store``. ``types``: Spark's types of the relation's columns, by name.
    ``share``: the share of the files' bytes that belongs to the columns to read."""
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
        cost = _IndexCost(seconds / max(1, len(sizes)), once, slots, remote=store.root.kind != "path")
        left, excluded, notes = _ask_file_indexes(known, fresh, plan.kept, question, cost)
    # A catalog may be damaged or have a later format. The user may also have no permission to read it, or its store may
    # be unreachable.
    except (CorruptFile, Unsupported, OSError) as error:
        warnings.warn(f"the directory's indexes are not used: {error}", RuntimeWarning, stacklevel=2)
        state = "are damaged" if isinstance(error, CorruptFile) else "cannot be read"
        return SurvivingFiles(nothing, {}, notes=(f"the indexes {state}: {error}",), failed=True)
    _STORES.keep(store)
    by["file indexes"] = excluded
    out = np.ones(len(known_of), np.bool_)
    out[left] = False
    ruled_out = nothing.copy()
    ruled_out[positions[out & fresh]] = True
    keyed = frozenset(store.catalogs.listing.spec.get("spec", {}).get("bloom-filter", {}))
    return SurvivingFiles(ruled_out, {name: count for name, count in by.items() if count}, keyed, tuple(notes))


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
    """Determines which files may contain a date or time before the limit in ``_OLD``, in one of ``columns``. Spark and
    orcidx decode such values differently."""
    nothing = np.zeros(len(files), np.bool_)
    old = any_of(*(Leaf((name,), Op.LT, (_OLD[types[name]],)) for name in columns))
    plan = _planned(_STORES.known(store), files.some(positions), old, types, options, partitions=partitions)[2]
    nothing[positions[plan.kept]] = True
    return nothing


def _places(listing: Listing, sources: Sequence[Source]) -> npt.NDArray[np.int64]:
    """Returns for each source the position of the file with the same size and time in Spark's listing. The position is
    -1 if there is no such file."""
    by_path = {local_name(name): number for number, name in enumerate(listing.names)}
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
    """Excludes files by the statistics in the catalog, and by the partition values in directory names."""
    table, match = files.match(store)
    kinds = [
        (key, kind)
        for key, kind in files.partition_types(infer=partitions.infer).items()
        if partitions.by_directory and kind != "timestamp" and types.get(key) == kind
    ]
    known = store.known(table, match, columns=columns_asked_of(where), schema=arrow_schema_of(struct_json(kinds)))
    hidden = replace(known.partitions, keys=known.partitions.keys | partitions.names)
    known = replace(known, partitions=hidden)
    statistics = {key: one for key, one in known.catalog.statistics.items() if _same_values(key, types)}
    known = replace(known, catalog=replace(known.catalog, statistics=statistics))
    plan = plan_known_files(known, match.fresh, where, options, has_index=True, ask_indexes=False)
    return known, match.fresh, plan


def _same_values(key: StatisticsKey, types: Mapping[str, str]) -> bool:
    """Whether the statistics of a file's column describe the same values that Spark reads from the column."""
    node, wanted = key.node, types.get(key.column)
    if node.kind is TypeKind.DECIMAL:
        return wanted == f"decimal({node.precision},{node.scale})"
    return node.kind not in _ORC_UNUSED and _is_read_as(ORC_NAMES.get(node.kind), wanted)


def _is_read_as(stored: str | None, wanted: str | None) -> bool:
    """Whether Spark reads a stored type as the wanted type without changing a value."""
    return stored is not None and (stored == wanted or stored in _WIDENS.get(wanted or "", ()))


# ---------------------------------------------------------------------- file indexes


@dataclass(frozen=True)
class _Question:
    """A condition to evaluate with the indexes of files. ``open_in``: for each file, the parts of the predicate that
    are still undecided. ``types``: Spark's types of the columns, by name."""

    where: Predicate
    open_in: Sequence[Predicate]
    types: Mapping[str, str]
    options: ReadOptions
    _bound: dict[tuple[int, tuple[tuple[str, str], ...]], BoundPredicate] = field(default_factory=dict)

    def rules_out(self, stored: StoredIndex, file: int, rows: int) -> bool | None:
        """Whether an index proves that its file has no matching rows. The result is None if the index has no column
        that the predicate uses. In this case the index is not read."""
        asked = columns_asked_of(self.where) or ()
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
        except (OrcidxError, OSError):  # a file with a damaged or missing index is not excluded
            return False

    def _bound_to(self, where: Predicate, types: Mapping[str, str]) -> BoundPredicate:
        """Returns the undecided part of the predicate, bound to the types of an index. Most files have the same types,
        so the part is bound only once for these types."""
        key = id(where), tuple(types.items())
        if key not in self._bound:
            self._bound[key] = bind_to_index(where, types, self.options)
        return self._bound[key]


@dataclass
class _IndexCost:
    """The cost of the indexes that were used so far, and the time that they save. ``saved``: seconds saved by a skipped
    file. ``once``: seconds that skipping the first file costs. ``slots``: how many files Spark reads at a time.
    ``remote``: whether each index must be fetched from a remote store."""

    saved: float
    once: float
    slots: int
    remote: bool
    spent: float = 0.0
    asked: int = 0
    excluded: int = 0
    _least_seconds: float = float("inf")

    @property
    def concurrent(self) -> int:
        """The number of indexes that are evaluated at the same time."""
        return ASKED_AT_ONCE if self.remote else 1

    def ask(self, questions: Sequence[Callable[[], bool | None]]) -> list[bool | None]:
        """Evaluates indexes, adds the cost to the total, and returns the results."""
        clock = time.perf_counter if self.remote else time.thread_time

        def timed(question: Callable[[], bool | None]) -> tuple[bool | None, float]:
            began = clock()
            return question(), clock() - began

        began = clock()
        told = side_by_side(timed, questions, self.concurrent) if self.remote else [timed(one) for one in questions]
        self.spent += clock() - began
        self._least_seconds = min([self._least_seconds, *(took for out, took in told if out is not None)])
        self.asked += sum(out is not None for out, _ in told)
        self.excluded += sum(out is True for out, _ in told)
        return [out for out, _ in told]

    @property
    def _saved(self) -> float:
        """The seconds that one skipped file saves. For a remote store, they include the requests that Spark would make,
        with the response time that was measured."""
        return self.saved + (
            REQUESTS_OF_SPARK * self._least_seconds / self.slots if self.remote and self.asked else 0.0
        )

    def is_too_high(self, rest: int) -> bool:
        """Whether using the remaining indexes would cost too much. It is assumed that the remaining indexes exclude the
        same share of files as the indexes used so far."""
        expected = COST_SHARE * self._saved * (self.excluded + self.excluded / self.asked * rest) - self.once
        return self.spent / self.asked * rest > max(
            expected, FAR_UNNOTICED_SECONDS if self.remote else UNNOTICED_SECONDS
        )

    @property
    def is_worth(self) -> bool:
        """Whether the time that the skipped files save is longer than the time that skipping them takes."""
        return self.excluded > 0 and self.excluded * self._saved > self.once


def _ask_file_indexes(
    known: KnownFiles, fresh: Bools, kept: npt.NDArray[np.int64], question: _Question, cost: _IndexCost
) -> tuple[list[int], int, list[str]]:
    """Evaluates the indexes of files. Returns the files that remain, the number of excluded files, and the reasons why
    no more indexes were used."""
    rows = known.rows
    where = question.where
    columns, keys = _columns_of_indexes(where, _is_not_null), _columns_of_indexes(where, _names_no_key)
    indexed = files_with_index_of(known, kept[fresh[kept]], columns, keys)
    rest = indexed.tolist()
    ruled_out: set[int] = set()
    notes: list[str] = []

    def answer(number: int) -> bool | None:
        stored = stored_index(known, number, indexed)
        if stored is None:
            return None
        # The index of a CHAR column has the type STRING. It is replaced by CHAR, which ignores trailing spaces.
        stored = replace(stored, types=known.compared_types(stored.types, number))
        return question.rules_out(stored, number, int(rows[number]))

    while rest and not notes:
        now, rest = rest[: cost.concurrent], rest[cost.concurrent :]
        answers = cost.ask([partial(answer, number) for number in now])
        ruled_out.update(number for number, out in zip(now, answers, strict=True) if out)
        if cost.asked < FUTILE_INDEXES or not rest:
            continue
        if not ruled_out:
            notes.append(f"the first {cost.asked} file indexes excluded no file, so no more indexes were used")
        elif cost.is_too_high(len(rest)):
            told = f"{cost.excluded} of {cost.asked} files were excluded by their indexes"
            notes.append(f"{told}, but using more indexes would cost too much")
    if notes and not cost.is_worth:
        ruled_out.clear()
    return [number for number in kept.tolist() if number not in ruled_out], len(ruled_out), notes


def _columns_of_indexes(where: Predicate, has_no_result: Callable[[Part], bool]) -> set[str] | None:
    """The columns that an index can test, for the parts of a condition. None means any column. A single part of an OR
    counts as well, because in some files statistics may exclude the other parts of the OR."""
    testable: list[Any] = [part for part in parts(where) if not has_no_result(part)]
    return columns_asked_of(all_of(*testable))


def _is_not_null(part: Part) -> bool:
    """Whether a part of a condition is IS NOT NULL. For such a part, the statistics of a file prove as much as an
    index. Spark adds IS NOT NULL on the key to every join."""
    return isinstance(part, Leaf) and part.op is Op.IS_NULL and part.negated


def _names_no_key(part: Part) -> bool:
    """Whether a bloom filter gives no result for a part of a condition, because the part does not compare with single
    values."""
    return isinstance(part, Leaf) and (part.negated or part.op not in _KEY_OPERATORS)


def _same_index(kind: str, wanted: str | None) -> bool:
    """Whether the keys of an index are the same values that Spark reads. This is false for times, because these keys
    depend on a time zone."""
    kind = kind.upper()
    if match := re.match(r"DECIMAL\((\d+), ?(\d+)\)", kind):
        return wanted == f"decimal({match[1]},{match[2]})"
    base = kind.split("(")[0].split(" ")[0]
    name = "VARCHAR" if base == "STRING" else base
    return name not in _PAIMON_UNUSED and _is_read_as(PAIMON_NAMES.get(name), wanted)
