"""Evaluates a leaf of a predicate with ORC's own indexes. The indexes are statistics of files, stripes and row groups,
bloom filters, and dictionaries.

A unit is the file, a stripe or a row group. The same code evaluates units of all three levels. ``pruning.bounds``
decides what minima and maxima prove.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.options import ValueOptions
from orcidx.orc.bloom import BloomFilters
from orcidx.orc.bloom_keys import MAY_WRAP, literal_hashes, many_hashes
from orcidx.orc.bounds import StatisticsColumn
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.statistics_text import UnitText
from orcidx.orc.timezones import Zone
from orcidx.orc.types import INTEGER_KINDS, TIMESTAMP_KINDS, OrcType, reads_as_timestamp
from orcidx.predicate import BoundLeaf, Domain, Op, matching_values
from orcidx.predicate.nodes import EQUALITIES
from orcidx.pruning.bounds import FEW_LITERALS, ColumnBounds, leaf_in_bounds
from orcidx.pruning.findings import Finding, Note, NoteKind
from orcidx.pruning.reasons import Fact
from orcidx.pruning.selection import RowSelection

__all__ = [
    "BloomEvidence",
    "DictionaryEvidence",
    "StatisticsEvidence",
    "bloom_answers",
    "compares_alike",
    "proved_of_units",
]

Path = tuple[str, ...]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

_NOT_IN_FILTER = Fact("the filter does not contain the value")

_DOMAINS: dict[TypeKind, tuple[Domain, ...]] = {
    TypeKind.BOOLEAN: (Domain.BOOL,),
    TypeKind.BYTE: (Domain.INT, Domain.DECIMAL, Domain.FLOAT),
    TypeKind.SHORT: (Domain.INT, Domain.DECIMAL, Domain.FLOAT),
    TypeKind.INT: (Domain.INT, Domain.DECIMAL, Domain.FLOAT),
    TypeKind.LONG: (Domain.INT, Domain.DECIMAL),
    TypeKind.FLOAT: (Domain.FLOAT,),
    TypeKind.DOUBLE: (Domain.FLOAT,),
    TypeKind.STRING: (Domain.STRING,),
    TypeKind.VARCHAR: (Domain.STRING,),
    TypeKind.CHAR: (Domain.STRING,),
    TypeKind.DECIMAL: (Domain.DECIMAL,),
    TypeKind.DATE: (Domain.DATE,),
    TypeKind.TIMESTAMP: (Domain.TIMESTAMP,),
    TypeKind.TIMESTAMP_INSTANT: (Domain.TIMESTAMP,),
    TypeKind.BINARY: (Domain.BINARY,),
}
"""The domains to which a column's values can be widened without a change of their order or equality."""


def compares_alike(leaf: BoundLeaf, node: OrcType, options: ValueOptions) -> bool:
    """Whether the leaf compares values in the same way as the column's indexes. Both must have values of the same
    ``Domain`` and use the same time zone, and must compare CHAR without trailing spaces.

    A schema that the caller gives may change the type of the column. The indexes then show only which values are null.
    """
    if leaf.domain is Domain.STRING and (leaf.char_length is not None) is not (node.kind is TypeKind.CHAR):
        return False
    if leaf.domain is Domain.TIMESTAMP:
        if reads_as_timestamp(node, options):
            return bool(leaf.type.tz is None)
        instants = node.kind is TypeKind.TIMESTAMP_INSTANT or options.wall_clock_zone is not None
        return node.kind in TIMESTAMP_KINDS and (leaf.type.tz is not None) is instants
    if leaf.domain is Domain.FLOAT and node.kind in (TypeKind.INT, TypeKind.DOUBLE):
        return bool(leaf.type == pa.float64())  # float32 would round the values
    if node.attributes and reads_as_timestamp(node, options):
        return False
    return leaf.domain in _DOMAINS.get(node.kind, ())


class _Noted:
    """The base class of evidence. Collects notes that say why an index gave no result. No note occurs twice."""

    name: str
    notes: list[Note]
    _stripe: int | None

    def _note(self, leaf: BoundLeaf, kind: Any, text: str) -> None:
        note = Note(self.name, kind, text, leaf.column, self._stripe)
        if note not in self.notes:
            self.notes.append(note)


# ---------------------------------------------------------------------- statistics


@dataclass(frozen=True, eq=False)
class _LazyUnitText:
    """The ``UnitText`` of a column. It is created when the text is needed."""

    columns: Mapping[Path, StatisticsColumn]
    leaf: BoundLeaf
    bounds: Int64s

    def __call__(self, rows: Int64s) -> list[str]:
        return UnitText(self.columns[self.leaf.path], self.leaf, self.bounds)(rows)


class StatisticsEvidence(_Noted):
    """Statistics of one level for some units.

    ``columns``: the statistics of each column, by the path of the column. The statistics have one entry for each unit.
    ``bounds``: an int64 array with the first row of each unit, and the end of the last unit. ``missing``: the reasons
    why columns have no statistics at this level, by path. ``keeps``: whether results keep references to the statistics.
    If not, a result takes the statistics from ``columns`` again when its text is needed.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[Path, StatisticsColumn],
        bounds: Int64s,
        options: ValueOptions,
        *,
        stripe: int | None = None,
        missing: Mapping[Path, str] | None = None,
        keeps: bool = True,
    ) -> None:
        self.name = name
        self._keeps = keeps
        self.notes = []
        self._stripe = stripe
        self._columns = columns
        self._bounds = bounds
        self._options = options
        self._missing = missing or {}

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Tests the file, all stripes, or all row groups at once. See ``pruning.Evidence``."""
        column = self._columns.get(leaf.path)
        if column is None:
            reason = self._missing.get(leaf.path)
            self._note(leaf, "damaged" if reason else "absent", reason or "the column has no statistics")
            return None
        alike = compares_alike(leaf, column.node, self._options)
        may, must = _proved(leaf, column, alike=alike)
        if may.all() and not must.any():
            self._explain_no_result(leaf, column, alike=alike)
            return None
        if column.distrusted or column.reasons:
            self._explain_distrust(leaf, column)
        return Finding(
            RowSelection.from_groups(may, self._bounds),
            RowSelection.from_groups(must, self._bounds),
            self.name,
            UnitText(column, leaf, self._bounds) if self._keeps else _LazyUnitText(self._columns, leaf, self._bounds),
        )

    def _explain_distrust(self, leaf: BoundLeaf, column: StatisticsColumn) -> None:
        if column.distrusted:
            self._note(leaf, "distrusted", column.distrusted)
        for reason, units in column.reasons:
            count = int(units.sum())
            where = "" if len(column) == 1 else f" in {count} of {len(column)} units"
            self._note(leaf, "distrusted", f"{reason}{where}")

    def _explain_no_result(self, leaf: BoundLeaf, column: StatisticsColumn, *, alike: bool) -> None:
        if column.distrusted or column.reasons:
            self._explain_distrust(leaf, column)
        elif not alike:
            text = (
                f"the file's {column.node} column is read as {leaf.type}, "
                "and values of this type have another order than the statistics"
            )
            self._note(leaf, "silent", text)
        elif leaf.op in (Op.ENDS_WITH, Op.CONTAINS):
            self._note(leaf, "silent", f"minimum and maximum prove nothing for {leaf.op.value}")
        elif leaf.op not in (Op.IS_NULL, Op.IS_NAN) and not (column.lower.valid & column.upper.valid).any():
            self._note(leaf, "absent", "there are no minimum and maximum")


def proved_of_units(leaf: BoundLeaf, column: StatisticsColumn, options: ValueOptions) -> tuple[Bools, Bools]:
    """Decides for each unit whether some row may match, and whether every row matches. If the column and the leaf
    compare values differently, only a leaf that tests for null can be decided."""
    return _proved(leaf, column, alike=compares_alike(leaf, column.node, options))


def _proved(leaf: BoundLeaf, column: StatisticsColumn, *, alike: bool) -> tuple[Bools, Bools]:
    known = ColumnBounds(
        lower=column.lower if alike else None,
        upper=column.upper if alike else None,
        may_null=column.may_null,
        all_null=column.all_null,
        may_nan=column.may_nan if alike else np.full(len(column), leaf.domain is Domain.FLOAT),
    )
    return leaf_in_bounds(leaf, known)


# ---------------------------------------------------------------------- bloom filters


def bloom_answers(leaf: BoundLeaf, node: OrcType, options: ValueOptions) -> bool:
    """Whether a bloom filter of the column could rule out rows for the leaf. A filter that cannot rule out rows need
    not be fetched."""
    if leaf.op not in EQUALITIES or leaf.negated or not compares_alike(leaf, node, options):
        return False
    # The bloom filter of an integer column has hashes of integers. An equal DECIMAL or FLOAT value has another hash.
    return not (node.kind in INTEGER_KINDS and leaf.domain in (Domain.DECIMAL, Domain.FLOAT))


class BloomEvidence(_Noted):
    """Bloom filters of the row groups of one stripe.

    ``filters``: the type and the filters of each column, by path. ``bounds``: the first row of each row group, and the
    end of the last row group. ``zone``: the writer's time zone. ``believed``: by path, an array with one bool for each
    row group. It is True if the filter was built from the same values that are read. If a column is not in
    ``believed``, all its filters were built from the values that are read. ``ignored``: the reason why the filters of a
    column are not used, as text for the explanation of the scan. A column that is neither in ``filters`` nor in
    ``ignored`` has no filters.
    """

    name = "bloom filter"

    def __init__(
        self,
        filters: Mapping[Path, tuple[OrcType, BloomFilters]],
        bounds: Int64s,
        facts: FileFacts,
        options: ValueOptions,
        *,
        stripe: int | None = None,
        zone: Zone | None = None,
        believed: Mapping[Path, Bools] | None = None,
        ignored: Mapping[Path, tuple[NoteKind, str]] | None = None,
    ) -> None:
        self.notes = []
        self._stripe = stripe
        self._filters = filters
        self._bounds = bounds
        self._facts = facts
        self._options = options
        self._zone = zone
        self._believed = believed or {}
        self._ignored = ignored or {}

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Tests the filters of all row groups at once. See ``pruning.Evidence``."""
        if leaf.op not in EQUALITIES or leaf.negated:
            return None
        found = self.filters_for(leaf)
        hashes = None if found is None else self._hashes(leaf, found[0])
        if found is None or hashes is None:
            return None
        _, filters, usable = found
        may = np.asarray(filters.may_contain_any(hashes) | ~usable, np.bool_)
        return None if may.all() else self._finding(may)

    def filters_for(self, leaf: BoundLeaf) -> tuple[OrcType, BloomFilters, Bools] | None:
        """Returns the column of an equality leaf, the filters of the column, and a mask of the filters that can be
        used. If the filters cannot be used for this leaf, adds the reason to the explanation of the scan and returns
        None."""
        if leaf.path not in self._filters:
            self._note(leaf, *self._ignored.get(leaf.path, ("absent", "the column has no bloom filter")))
            return None
        node, filters = self._filters[leaf.path]
        if len(filters) != len(self._bounds) - 1:
            self._note(leaf, "damaged", f"there are {len(filters)} filters for {len(self._bounds) - 1} row groups")
            return None
        if not bloom_answers(leaf, node, self._options):
            self._note(leaf, "silent", f"the file's {node} column is read as {leaf.type}")
            return None
        for reason in dict.fromkeys(reason for reason in filters.reasons if reason):
            self._note(leaf, "damaged", reason)
        usable = np.array([reason is None for reason in filters.reasons], np.bool_)
        believed = self._believed.get(leaf.path)
        if believed is not None and not believed.all():
            self._note(leaf, "distrusted", f"{MAY_WRAP} (in {int((~believed).sum())} of {len(believed)} row groups)")
            usable &= believed
        return node, filters, usable

    def _hashes(self, leaf: BoundLeaf, node: OrcType) -> Int64s | None:
        """The hashes of all literals. None if the filters cannot be used for one of the literals."""
        if len(leaf.literals) > FEW_LITERALS:
            at_once = many_hashes(node, leaf.literals, self._options)
            if at_once is not None:
                return at_once
        hashes: list[int] = []
        for literal in leaf.literals:
            keys = literal_hashes(node, literal, self._facts, self._options, zone=self._zone)
            if keys is None:
                self._note(leaf, "silent", f"the filters cannot show whether they contain {literal!r}")
                return None
            hashes += keys
        return np.array(hashes, np.int64)

    def _finding(self, may: Bools) -> Finding:
        bounds = self._bounds
        nothing = RowSelection.none(int(bounds[-1]))
        return Finding(RowSelection.from_groups(may, bounds), nothing, self.name, _NOT_IN_FILTER)


# ---------------------------------------------------------------------- dictionaries


class DictionaryEvidence:
    """Dictionaries of the columns of one stripe. Every non-null value in the stripe is an entry of its column's
    dictionary.

    ``read`` returns the dictionary of a column as an Arrow array of the column's type. It returns None if the column
    has no dictionary in this stripe, or if the dictionary is too large. ``read`` is called only for a leaf that no
    other evidence has decided.
    """

    name = "dictionary"

    def __init__(self, read: Callable[[Path], pa.Array | None], rows: int) -> None:
        self.notes: list[Note] = []
        self._read = read
        self._rows = rows

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Tests the entries of the dictionary. See ``pruning.Evidence``."""
        if leaf.op is Op.IS_NULL or (leaf.op is Op.EQ_NULL_SAFE and leaf.negated):
            return None
        entries = self._read(leaf.path)
        if entries is None:
            return None
        matches = matching_values(leaf, entries)
        if matches.any():
            return None
        nothing = RowSelection.none(self._rows)
        return Finding(nothing, nothing, self.name, Fact(f"none of its {len(entries)} entries matches"))
