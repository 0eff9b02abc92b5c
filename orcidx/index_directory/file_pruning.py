"""Finds the files of a directory that may contain a matching row, by the directory's catalog. All files are tested at
once, without an object for each file.

The evidence in this module treats the list of files as if each file were one row. So the evidence for files and the
evidence for rows are combined in the same way, for each leaf of a predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile
from orcidx.index_directory.catalog import STATISTICS_OPTIONS, Catalog, StatisticsKey, statistics_column
from orcidx.index_directory.directory_partitions import PartitionEvidence, Partitions
from orcidx.index_directory.index_rows import IndexRows
from orcidx.index_directory.kept_tails import TailPlaces
from orcidx.options import ReadOptions
from orcidx.orc.bounds import StatisticsColumn
from orcidx.orc.evidence import StatisticsEvidence
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import STRING_KINDS, arrow_type
from orcidx.paimon import bloom_filter
from orcidx.paimon.data_types import TEXTS, parse_type
from orcidx.paimon.file_index import read_file_index
from orcidx.planner.index_evidence import StoredIndex, bind_to_index
from orcidx.predicate import (
    Bound,
    BoundPredicate,
    Constant,
    External,
    Leaf,
    Predicate,
    bind,
    keep_bindable,
)
from orcidx.predicate.fold import fold, leaves, parts, rewritten
from orcidx.pruning.evaluate import Outcome, evaluate
from orcidx.pruning.findings import Evidence, Note
from orcidx.pruning.reasons import Reason
from orcidx.pruning.selection import RowSelection
from orcidx.storage.folder import Folder
from orcidx.storage.kept_tails import KeptTail

__all__ = [
    "FilePlan",
    "KnownFiles",
    "changed_statistics",
    "columns_asked_of",
    "files_with_index_of",
    "open_questions",
    "plan_known_files",
    "stored_index",
]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Path = tuple[str, ...]

MOST_EVALUATED = 20_000
"""The maximum number of embedded indexes that a plan evaluates. An evaluation takes about 0.05 ms. If there are more
embedded indexes, the tasks evaluate them."""
MOST_PARTS = 16
"""If more than this number of leaves are below an OR, statistics do not test these leaves one by one. One test takes
some milliseconds for a thousand files."""
FEW_FILES = 10_000
"""Up to this number of files, converted statistics are kept for the whole predicate. The statistics of one column then
take half a megabyte."""
_TIMES = (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_CHANGING_OPTIONS = {
    "timezone": _TIMES,
    "utf8": STRING_KINDS,
    "timestamp_ntz": (TypeKind.LONG,),
    "calendar": _TIMES,
    "decimal_zero_precision": (TypeKind.DECIMAL,),
}
"""Options that change how values of these types are read. If an option differs from its default,
the statistics of columns of its types cannot be used."""


@dataclass(frozen=True)
class KnownFiles:
    """The known facts about the files of a listing. ``catalog`` has a row for each file of the listing. The row is null
    if the catalog of the directory lacks the file, or describes another version of it. ``index_rows`` says where
    the indexes are."""

    catalog: Catalog
    partitions: Partitions
    folder: Folder
    index_rows: IndexRows = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.catalog)

    @cached_property
    def rows(self) -> Int64s:
        """The number of rows of each file. The number is -1 if it is not known."""
        rows: Int64s = self.catalog.files["rows"].combine_chunks().fill_null(-1).to_numpy()
        return rows

    def types_of(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Paimon's types of the columns in the index of a file. ``row`` is the file's row in the catalog."""
        types = {one["column"]: one["type"] for one in row["indexes"] or ()}
        return {name: kind for name, kind in types.items() if not self.partitions.hides(name)}

    @cached_property
    def _texts(self) -> list[tuple[StatisticsKey, Bools]]:
        """The text columns with their types, and the files that have them."""
        statistics = self.catalog.statistics.items()
        texts = ((key, kept) for key, kept in statistics if key.node.kind in STRING_KINDS)
        return [(key, kept.is_valid().to_numpy(zero_copy_only=False)) for key, kept in texts]

    def compared_types(self, types: Mapping[str, str], file: int) -> dict[str, str]:
        """The types in which the columns of a file's index are compared. ``types``: the types of these columns in the
        index.

        The index of a CHAR column has the type STRING, and its keys have trailing spaces. A scan ignores these spaces.
        So the type of a text column is taken from the statistics. A text column without statistics is left out.
        """
        nodes = {key.column: key.node for key, has in self._texts if has[file]}
        found = {}
        for name, kind in types.items():
            node = nodes.get(name)
            if node is not None:
                found[name] = f"CHAR({node.max_length})" if node.kind is TypeKind.CHAR else "STRING"
            elif name.endswith("]") or parse_type(kind).root not in TEXTS:  # a map's key, such as a[b]
                found[name] = kind
        return found


@dataclass(frozen=True)
class FilePlan:
    """The files and rows that a query reads from a listing.

    ``kept`` has the positions of the files that may contain a matching row. ``fresh`` has the files whose listed
    version is in the catalog. ``rows`` is the number of rows of each file, or -1 if it is not known. ``outcomes`` has
    the results of pruning. Each result is for some of the files. Without a predicate there are no results. ``by_index``
    has the files that were ruled out afterwards by an index embedded in the catalog. ``notes`` says what was stale or
    missing. ``tails`` says where tails of files are kept.
    """

    kept: Int64s
    fresh: Bools
    known: KnownFiles = field(repr=False)
    has_index: bool
    predicate: Predicate | None = None
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    by_index: frozenset[int] = frozenset()
    notes: tuple[Note, ...] = ()
    tails: TailPlaces | None = field(default=None, repr=False)

    @cached_property
    def matching(self) -> Bools:
        """The files in which every row certainly matches. Without a predicate these are all files."""
        if self.predicate is None:
            return np.ones(self.known.count, np.bool_)
        found = np.zeros(self.known.count, np.bool_)
        for outcome in self.outcomes:
            found |= outcome.must.mask()
        return found

    @property
    def rows(self) -> Int64s:
        return self.known.rows

    def reasons(self, file: int) -> tuple[Reason, ...]:
        """The reasons why a file contains no matching row. The result is empty for a file that is kept."""
        if file in self.by_index:
            return (Reason("Paimon file index", "", "no row of the file matches by its index in the catalog"),)
        for outcome in self.outcomes:
            if not outcome.span.slice(file, file + 1).is_empty:
                return outcome.reasons(file, file + 1)
        return (Reason("catalog", "", "the file has no rows"),) if self.rows[file] == 0 else ()

    def index_of(self, file: int) -> StoredIndex | None:
        """The file index of a file, for ``FileJob.file_index``. The result is None if the file has no index that may
        help."""
        return stored_index(self.known, file, self.kept) if self.has_index and self.fresh[file] else None

    def tails_of(self, files: Int64s) -> list[KeptTail | None]:
        """The stored tails of the files, in the order in which the files will be opened."""
        return [None] * len(files) if self.tails is None or not len(files) else self.tails.of(files)


def stored_index(known: KnownFiles, file: int, then: Int64s) -> StoredIndex | None:
    """The index of a file, or None if it has no index. ``then`` has the files that will probably be needed next, in
    their order."""
    row = known.index_rows.row(file, then)
    types = known.types_of(row)
    if row["embedded"] is not None:
        return StoredIndex(row["embedded"], row["tail"], types)
    if row["index"] is None:
        return None
    source = replace(known.folder.source(row["index"]), size=row["index_size"])
    return StoredIndex(source, row["tail"], types)


def files_with_index_of(known: KnownFiles, files: Int64s, columns: set[str] | None, keys: set[str] | None) -> Int64s:
    """The files with an index that may help: a bloom filter of one of the ``keys``, or an index of another kind on one
    of the ``columns``. None means any column."""
    found = [np.zeros(0, np.int64)]
    for some, rows in known.index_rows.parts(files, ["indexes"]):
        indexes = rows["indexes"].combine_chunks()
        entries = pc.list_flatten(indexes)
        names, kinds = pc.struct_field(entries, "column"), pc.struct_field(entries, "kind")
        is_filter = pc.equal(kinds, bloom_filter.KIND)
        wanted = pc.if_else(is_filter, _are_among(names, keys, known), _are_among(names, columns, known))
        has = np.zeros(len(some), np.bool_)
        has[pc.list_parent_indices(indexes).filter(wanted).to_numpy()] = True
        found.append(some[has])
    return np.concatenate(found)


def _are_among(names: pa.Array, columns: set[str] | None, known: KnownFiles) -> pa.Array:
    """A mask of the names that are requested columns."""
    if columns is None:
        return pa.repeat(pa.scalar(True), len(names))
    shown = sorted(name for name in columns if not known.partitions.hides(name))
    return pc.is_in(names, pa.array(shown, pa.string()))


def columns_asked_of(predicate: Predicate | None, totalled: Collection[str] = ()) -> set[str] | None:
    """The names of top-level columns that a predicate may refer to, and the columns of totals. The path ``a.b.c`` may
    refer to a column ``a``, ``a.b`` or ``a.b.c``. None means any column."""
    if predicate is None:
        return set(totalled)
    if any(isinstance(part, External) and part.columns is None for part in parts(predicate)):
        return None
    names = {leaf.path[0] for leaf in leaves(predicate)}
    return names.union(totalled) | {name[:end] for name in names for end, letter in enumerate(name) if letter == "."}


# ---------------------------------------------------------------------- the plan


def plan_known_files(
    known: KnownFiles,
    fresh: Bools,
    predicate: Predicate | None,
    options: ReadOptions,
    *,
    has_index: bool,
    ask_indexes: bool = True,
) -> FilePlan:
    """Prunes all files. Without a predicate only files without rows are left out.

    ``has_index`` says whether there are indexes of some columns of the predicate. ``ask_indexes`` says whether to
    evaluate embedded indexes.
    """
    span = known.rows != 0
    if predicate is None:
        return FilePlan(np.flatnonzero(span), fresh, known, has_index)
    outcomes = prune_files(known, predicate, options, span)
    kept = np.zeros(known.count, np.bool_)
    for outcome in outcomes:
        kept |= outcome.may.mask()
    notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    left = np.flatnonzero(kept)
    out = _ruled_out(known, left, predicate, options) if has_index and ask_indexes else frozenset()
    if out:
        left = left[~np.isin(left, list(out))]
    return FilePlan(left, fresh, known, has_index, predicate, tuple(outcomes), out, notes)


def _ruled_out(known: KnownFiles, files: Int64s, predicate: Predicate, options: ReadOptions) -> frozenset[int]:
    """Files that their embedded indexes rule out. The indexes are read only if at most ``MOST_EVALUATED`` files have an
    embedded index."""
    indexed = known.index_rows.embedded(files, most=MOST_EVALUATED)
    if not indexed:
        return frozenset()
    open_in = open_questions(known, predicate, options)
    bound: dict[tuple[Any, tuple[tuple[str, str], ...]], BoundPredicate] = {}
    out = []
    for file, row in indexed:
        types = known.types_of(row)
        compared = known.compared_types(types, file)
        asked = open_in[file]
        key = (id(asked), tuple(compared.items()))
        if key not in bound:
            bound[key] = bind_to_index(asked, compared, options)
        try:
            index = read_file_index(row["embedded"], types=types, rows=int(known.rows[file]))
        except CorruptFile:  # the scan reports the damage later
            continue
        if index.evaluate(bound[key]).is_empty:
            out.append(file)
    return frozenset(out)


def open_questions(known: KnownFiles, predicate: Predicate, options: ReadOptions) -> list[Predicate]:
    """For each file, the part of the predicate that is still undecided. This part does not contain branches of an OR
    that statistics rule out in the file.

    An index of ``a`` does not help with ``a = 1 OR b = 2``, unless it is known that ``b`` has no 2. Files with the same
    undecided part share one object.
    """
    asked = list(dict.fromkeys(_leaves_below_or(predicate)))
    if not 0 < len(asked) <= MOST_PARTS:
        return [predicate] * known.count
    span = known.rows != 0
    alive = np.zeros((known.count, len(asked)), np.bool_)
    for number, leaf in enumerate(asked):
        for outcome in prune_files(known, leaf, options, span):
            alive[:, number] |= outcome.may.mask()
    patterns, of_file = np.unique(alive, axis=0, return_inverse=True)
    left = [
        _with_false(predicate, {leaf for leaf, lives in zip(asked, pattern) if not lives})
        for pattern in patterns.tolist()
    ]
    return [left[number] for number in of_file.reshape(-1).tolist()]


def _leaves_below_or(predicate: Predicate) -> Iterator[Leaf]:
    """The leaves that are below at least one OR. Conditions that pyarrow evaluates are left out."""
    found = fold(
        predicate,
        lambda part: [(part, False)] if isinstance(part, Leaf) else [],
        both=lambda children: [one for child in children for one in child],
        either=lambda children: [(leaf, True) for child in children for leaf, _ in child],
    )
    return (leaf for leaf, is_below in found if is_below)


def _with_false(predicate: Predicate, gone: set[Leaf]) -> Any:
    return rewritten(predicate, lambda part: Constant(False) if isinstance(part, Leaf) and part in gone else part)


def prune_files(known: KnownFiles, predicate: Predicate, options: ReadOptions, span: Bools) -> list[Outcome]:
    """Evaluates a predicate with partitions and statistics. Files whose columns have the same types share one outcome.

    A leaf is evaluated in the file's type. For example, ``x = 7.5`` is never true if ``x`` is an integer in the file.
    """
    off = changed_statistics(known.catalog, options)
    reading = replace(STATISTICS_OPTIONS, wall_clock_zone=options.wall_clock_zone)
    usable = [
        key
        for key in known.catalog.statistics
        if options.row_index and key not in off and not known.partitions.hides(key.column)
    ]
    bounds = np.arange(known.count + 1, dtype=np.int64)
    partitions = [PartitionEvidence(known.partitions)] if known.partitions.values else []
    outcomes = []
    for keys, files in _alike(known, usable):
        own = _KnownColumns(known, {(key.column,): key for key in keys}, reading)
        evidence: list[Evidence] = [*partitions]
        if keys:
            evidence.append(StatisticsEvidence("file statistics", own, bounds, reading, keeps=False))
        root, is_whole = _bound(predicate, known.partitions, keys, options)
        outcome = evaluate(root, evidence, RowSelection.from_mask(files & span))
        if not is_whole:  # a leaf that could not be bound may be false, so no row is certain to match
            outcome = replace(outcome, must=RowSelection.none(known.count))
        outcomes.append(replace(outcome, notes=(*outcome.notes, *off.values())))
    return outcomes


class _KnownColumns(Mapping[Path, StatisticsColumn]):
    """The statistics of columns of all files, in the form that tests of leaves use. For few files this form is kept for
    the whole predicate. For many files the form is kept only while one leaf is tested, because it takes as much memory
    as the stored statistics."""

    def __init__(self, known: KnownFiles, keys: Mapping[Path, StatisticsKey], reading: ReadOptions) -> None:
        self._known = known
        self._keys = keys
        self._reading = reading
        self._made: dict[Path, StatisticsColumn] = {}

    def __getitem__(self, path: Path) -> StatisticsColumn:
        if path in self._made:
            return self._made[path]
        key = self._keys[path]
        made = statistics_column(key, self._known.catalog.statistics[key], self._known.rows, self._reading)
        if self._known.count <= FEW_FILES:
            self._made[path] = made
        return made

    def __iter__(self) -> Iterator[Path]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def changed_statistics(catalog: Catalog, options: ReadOptions) -> dict[StatisticsKey, Note]:
    """The columns whose statistics cannot be used with these options, each with a note."""
    changed = [name for name in _CHANGING_OPTIONS if getattr(options, name) != getattr(STATISTICS_OPTIONS, name)]
    if options.utf8 != "replace" and "utf8" in changed:
        changed.remove("utf8")
    return {
        key: Note(
            "file statistics", "off", f"the catalog's statistics cannot be used with the option {name}", key.column
        )
        for key in catalog.statistics
        for name in changed
        if key.node.kind in _CHANGING_OPTIONS[name] and (name != "decimal_zero_precision" or not key.node.precision)
    }


def _alike(known: KnownFiles, keys: Sequence[StatisticsKey]) -> Iterator[tuple[list[StatisticsKey], Bools]]:
    """Groups of files in which each column has the same type or is unknown. Each group comes with these types."""
    if not known.count:
        return
    if all(known.catalog.statistics[key].null_count == 0 for key in keys):
        yield list(keys), np.ones(known.count, np.bool_)
        return
    has = np.zeros((known.count, len(keys)), np.bool_)
    for number, key in enumerate(keys):
        has[:, number] = known.catalog.statistics[key].is_valid().to_numpy(zero_copy_only=False)
    packed = np.packbits(has, axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    for number, example in enumerate(first.tolist()):
        yield [key for key, present in zip(keys, has[example].tolist()) if present], group.reshape(-1) == number


def _bound(
    predicate: Predicate, partitions: Partitions, keys: Sequence[StatisticsKey], options: ReadOptions
) -> tuple[Bound, bool]:
    """The root of the predicate, and whether it is complete. Leaves that refer to unknown columns or do not fit the
    type of their column are replaced by True. The scan reports errors in these leaves."""
    fields = [pa.field(name, values.type) for name, values in partitions.values.items()]
    reading = replace(STATISTICS_OPTIONS, wall_clock_zone=options.wall_clock_zone)
    fields += [pa.field(key.column, arrow_type(key.node, reading)) for key in keys]
    schema = pa.schema(fields)
    nodes = {key.column: key.node for key in keys}
    chars: dict[Path, int] = {(name,): node.max_length for name, node in nodes.items() if node.kind is TypeKind.CHAR}
    known = keep_bindable(predicate, schema, case_sensitive=options.case_sensitive)
    bound = bind(known, schema, nan=options.nan, case_sensitive=options.case_sensitive, char_lengths=chars)
    return bound.root, known == predicate
