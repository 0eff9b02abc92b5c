"""Computes totals of exactly the matching rows of one file from its Paimon indexes, without reading the data.

A bitmap index of a column in ``by`` gives the groups. A bitmap index of another column gives the totals of this column.
A BSI index gives sums, minima, maxima and quantiles. A range-bitmap gives minima, maxima and quantiles (see
``paimon.index_totals``). An index is used only if it has as many rows as the file, and if its type is the type of the
file's column. The values of such an index are the values that a scan reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap

from orcidx.aggregation.column_totals import ColumnTotals, Wanted
from orcidx.aggregation.groups import GroupTotals
from orcidx.aggregation.value_forms import Form, form_of
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.types import STRING_KINDS, OrcType, arrow_type, reads_as_timestamp
from orcidx.paimon.data_types import DataType, parse_type
from orcidx.paimon.file_index import FileIndex
from orcidx.paimon.index_totals import IndexTotals, totals_of
from orcidx.planner.columns_below import field_below
from orcidx.planner.index_evidence import paimon_types
from orcidx.planner.schema_mapping import FieldSource
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_scan import FileScan

__all__ = ["IndexedFile", "IndexedGroups", "UnitColumn", "is_char", "unit_column"]

MOST_COMBINATIONS = 10_000
"""The most combinations of values of the columns in ``by`` that are examined in a file."""

_KINDS = ("bsi", "range-bitmap", "bitmap")

Path = tuple[str, ...]


@dataclass(frozen=True)
class UnitColumn:
    """The source of the values of an aggregated column in one file. The source is a constant, or a node of the file's
    schema. The totals of a node may come from its statistics. If there is neither a constant nor a node, the column
    must be decoded."""

    constant: pa.Scalar | None = None
    node: OrcType | None = None


@dataclass(frozen=True)
class IndexedGroups:
    """The groups and totals that the indexes of a file give. ``by``: for each column of the group key, its values and
    the rows of each value. If None is given instead of rows, all rows have the value. ``totals``: the totals of each
    aggregated column that is not a constant. ``kinds``: the kinds of the indexes that are used."""

    by: Sequence[Sequence[tuple[Form, BitMap | None]]]
    totals: Mapping[str, IndexTotals]
    kinds: frozenset[str]

    @property
    def origin(self) -> str:
        """A text that says what gave the totals: indexes of some kinds, or only metadata."""
        if not self.kinds:
            return "metadata"
        return f"Paimon {' and '.join(sorted(self.kinds))} {'index' if len(self.kinds) == 1 else 'indexes'}"

    def add(self, rows: RowSelection, groups: GroupTotals, constants: Mapping[str, pa.Scalar]) -> int:
        """Adds the totals of some rows of the file. Returns the number of these rows."""
        if rows.is_empty:
            return 0
        chosen = None if rows.is_all else BitMap(rows.bitmap())
        for key, inside in self._groups(chosen):
            count = rows.count if inside is None else len(inside)
            if not count:
                continue
            group = groups.group(key)
            group.rows += count
            for name, column in group.columns.items():
                if name in constants:
                    column.add_repeated(constants[name], count)
                else:
                    _add(column, self.totals[name], inside)
        return rows.count

    def _groups(self, rows: BitMap | None, place: int = 0) -> Iterator[tuple[tuple[Form, ...], BitMap | None]]:
        if place == len(self.by):
            yield (), rows
            return
        for value, bitmap in self.by[place]:
            inside = rows if bitmap is None else bitmap if rows is None else bitmap & rows
            if inside is None or inside:
                for key, found in self._groups(inside, place + 1):
                    yield (value, *key), found


def _add(column: ColumnTotals, known: IndexTotals, rows: BitMap | None) -> None:
    count = known.count(rows)
    column.count += count
    if not count:
        return
    if column.wanted.sum:
        if pa.types.is_floating(column.kind):
            for value, times in known.counts(rows):
                column.add_float(value, times)
        else:
            column.total += known.total(rows)
    if column.wanted.ends:
        ends = known.ends(rows)
        column.has_nan |= ends.has_nan
        if ends.minimum is not None:
            column.take_bounds(ends.minimum, ends.maximum)
    if column.wanted.order:
        column.ranks.add_index(known.order(rows))


# ---------------------------------------------------------------------- which indexes are used


class IndexedFile:
    """One file and its indexes. Notes on damage are added to ``notes``."""

    def __init__(self, scan: FileScan, columns: Mapping[str, UnitColumn], notes: list[Note]) -> None:
        self._scan = scan
        self._columns = columns
        self._notes = notes
        self._opened: dict[tuple[str, str], IndexTotals | None] = {}
        self._kinds: set[str] = set()

    def groups(self, by: Sequence[str], wanted: Mapping[str, Wanted]) -> IndexedGroups | None:
        """Returns the wanted groups and totals if constants and indexes give all of them. Otherwise returns None."""
        keys: list[Sequence[tuple[Form, BitMap | None]]] = []
        combined = 1
        for name in by:
            found = self._key(name)
            if found is None or (combined := combined * max(1, len(found))) > MOST_COMBINATIONS:
                return None
            keys.append(found)
        totals = {}
        for name, one in wanted.items():
            if self._columns[name].constant is None:
                known = self._totals(name, one)
                if known is None:
                    return None
                totals[name] = known
        return IndexedGroups(keys, totals, frozenset(self._kinds))

    def _key(self, name: str) -> Sequence[tuple[Form, BitMap | None]] | None:
        constant = self._columns[name].constant
        if constant is not None:
            return [(form_of(constant), None)]
        found = self._open(name, "bitmap")
        if found is None or not found.has_groups:
            return None
        self._kinds.add("bitmap")
        return found.groups()

    def _totals(self, name: str, wanted: Wanted) -> IndexTotals | None:
        for kind in _KINDS:
            found = self._open(name, kind)
            if found is None:
                continue
            # Sums of floats are possible, because each value is added as often as it occurs.
            floats = kind == "bitmap" and found.has_groups
            if (not wanted.sum or found.adds_up or floats) and (not (wanted.ends or wanted.order) or found.has_ends):
                self._kinds.add(kind)
                return found
        return None

    def _open(self, name: str, kind: str) -> IndexTotals | None:
        key = (name, kind)
        if key not in self._opened:
            try:
                self._opened[key] = self._found(name, kind)
            except (CorruptFile, Unsupported, InvalidQuery) as error:
                if isinstance(error, CorruptFile):
                    if self._scan.options.strict_index:
                        raise
                    self._notes.append(Note(f"Paimon {kind} index", "damaged", str(error), name))
                self._opened[key] = None
        return self._opened[key]

    def _found(self, name: str, kind: str) -> IndexTotals | None:
        node = self._columns[name].node
        index: FileIndex | None = self._scan.evidence.index
        if index is None or node is None or len(node.path) != 1 or kind not in index.columns.get(node.path[0], ()):
            return None
        found = index.index(node.path[0], kind)
        rows = self._scan.reader.tail.footer.rows
        if found is None or found.rows is None or not _has_values_of(node, found.data_type, self._scan):
            return None
        if found.rows != rows:
            raise CorruptFile(f"the index is for {found.rows} rows, but the file has {rows} rows")
        return totals_of(found)


def _has_values_of(node: OrcType, data_type: DataType, scan: FileScan) -> bool:
    """Whether an index of this type has the values that a scan reads for the column."""
    options: ReadOptions = scan.options
    facts: FileFacts = scan.reader.facts
    if reads_as_timestamp(node, options) or (node.kind is TypeKind.DATE and facts.hybrid_calendar):
        return False
    if node.kind in STRING_KINDS and options.utf8 != "strict":
        return False
    sql = paimon_types(node.path, [node]).get(node.path[0])
    if sql is None:
        return False
    own = parse_type(sql)
    return (own.root, own.length, own.precision, own.scale) == (
        data_type.root, data_type.length, data_type.precision, data_type.scale,
    )  # fmt: skip


# ---------------------------------------------------------------------- columns of a file


def unit_column(scan: FileScan, sources: Mapping[str, FieldSource], path: Path, kind: pa.DataType) -> UnitColumn:
    """Finds the source of a column in a file: a constant, a column of the file, or neither."""
    source = sources[path[0]]
    if source.column is None:
        constant = scan.columns.valued(source).scalar
        for name in path[1:]:
            constant = constant[name] if constant.is_valid else pa.scalar(None, kind)
        return UnitColumn(constant=constant.cast(kind) if constant.type != kind else constant)
    node = source.column if len(path) == 1 else field_below(source.column, path[1:])
    if node is None:
        return UnitColumn()
    have = arrow_type(node, source.options or scan.options)
    alike = have == kind or (pa.types.is_integer(have) and pa.types.is_integer(kind))
    return UnitColumn(node=node if alike else None)


def is_char(sources: Mapping[str, FieldSource], path: Path) -> bool:
    """Whether the values of a column may end in spaces that are ignored in comparisons."""
    column = sources[path[0]].column
    node = column if column is None or len(path) == 1 else field_below(column, path[1:])
    return node is not None and node.kind is TypeKind.CHAR
