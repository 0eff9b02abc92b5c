"""One pass over files for totals of their rows: from statistics where those prove them, by decoding where not.

A unit is a file, a stripe or a row group. One that matches whole, and of which ``orc.stored_totals`` proves every total
that is asked for, is not read; one that surely does not match counts for nothing. Where the file has Paimon indexes
that prove the totals of the rows that surely match, these are not read either. What is left is decoded, the columns of
the aggregates and of the condition only, as any scan decodes it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.column_totals import ColumnTotals
from orcidx.aggregation.exact_sums import numbers_sum
from orcidx.aggregation.functions import Aggregate, has_order, parse_aggregates, parse_groups, result_type
from orcidx.aggregation.groups import GroupTotals
from orcidx.aggregation.known_units import KnownUnit, TotalledColumn
from orcidx.aggregation.value_forms import form_of
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.fetching.drive import run, run_value
from orcidx.orc.hive_acid import is_acid_directory, is_acid_file
from orcidx.orc.kinds import TypeKind
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import RawStatistics, file_statistics, stripe_statistics
from orcidx.orc.stored_totals import StoredTotals, stored_totals
from orcidx.orc.types import OrcType, arrow_type
from orcidx.planner.column_plan import StripeRows
from orcidx.planner.request import FileIndexes, FileJob, KnownTotals, ScanRequest, listing_notes, listing_time
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.planner.schema_mapping import FieldSource
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.predicate import resolve_column
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_queue import FileQueue, OpenFile
from orcidx.scanner.file_scan import FileScan, count_groups
from orcidx.scanner.index_totals import IndexedFile, IndexedGroups, UnitColumn
from orcidx.scanner.metrics import ScanMetrics

__all__ = [
    "COUNT_ALONE",
    "AggregatePlan",
    "Origins",
    "add_files",
    "aggregate_files",
    "asked_of_indexes",
    "plan_aggregation",
    "with_origins",
]

Path = tuple[str, ...]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Origin = Literal["catalog", "metadata", "file statistics", "stripe statistics", "row-group statistics", "decoded"]


@dataclass
class Origins:
    """Rows by where their totals came from, and why some evidence could not speak; ``as_of`` as in ``KnownTotals``."""

    rows: Counter[str] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)
    as_of: float | None = None


@dataclass(frozen=True)
class AggregatePlan:
    """An aggregation over a schema. ``paths``: of every column that is named, by that name; ``types``: theirs."""

    aggregates: tuple[Aggregate, ...]
    by: tuple[str, ...]
    paths: Mapping[str, Path]
    types: Mapping[str, pa.DataType]

    @property
    def totalled(self) -> tuple[str, ...]:
        """The columns of the aggregates."""
        return tuple(dict.fromkeys(one.column for one in self.aggregates if one.column is not None))

    def totals(self) -> GroupTotals:
        """Totals over no row yet."""
        columns = {name: self.types[name] for name in self.totalled}
        return GroupTotals(self.aggregates, {name: self.types[name] for name in self.by}, columns)


COUNT_ALONE = AggregatePlan(parse_aggregates({"n": "count(*)"}), (), {}, {})
"""Nothing but the number of rows."""


def plan_aggregation(
    schema: pa.Schema, asked: Mapping[str, str], groups: str | Sequence[str] | None, *, case_sensitive: bool
) -> AggregatePlan:
    """Finds the columns in the schema of the rows. Raises ``InvalidQuery`` for one that is unknown or of a type that
    the function does not take."""
    aggregates, by = parse_aggregates(asked), parse_groups(groups)
    names = [*by, *(one.name for one in aggregates)]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidQuery(f"two columns of the result are called {repeated!r}: give one of them another name")
    paths, types = {}, {}
    for name in dict.fromkeys([*by, *(one.column for one in aggregates if one.column is not None)]):
        paths[name], types[name] = resolve_column((name,), schema, case_sensitive=case_sensitive)
    for one in aggregates:
        result_type(one, None if one.column is None else types[one.column])
    for name in by:
        if not has_order(types[name]):
            raise InvalidQuery(f"rows cannot be grouped by values of type {types[name]}", column=name)
    return AggregatePlan(aggregates, by, paths, types)


def asked_of_indexes(
    indexes: FileIndexes | None,
    jobs: Sequence[FileJob],
    request: ScanRequest,
    plan: AggregatePlan,
    metrics: ScanMetrics,
) -> KnownTotals:
    """What the indexes beside the files know of the totals, and the files that are left."""
    if indexes is None:
        return KnownTotals(jobs)
    with metrics.stage("open"):
        known = _known_totals(indexes, jobs, request, plan)
    metrics.skip_files(len(jobs) - len(known.jobs))
    return replace(known, notes=(*listing_notes(indexes), *known.notes), as_of=indexes.as_of)


def _known_totals(
    indexes: FileIndexes, jobs: Sequence[FileJob], request: ScanRequest, plan: AggregatePlan
) -> KnownTotals:
    """The catalog knows groups of constants of the files, and totals of other columns."""
    constants = jobs[0].constants if jobs else {}
    names = plan.paths.items()
    whole = all(path[0] != request.file_path for _, path in names)
    whole &= all(plan.paths[name][0] in constants for name in plan.by)
    whole &= all(len(path) == 1 for _, path in names)
    heads = frozenset(path[0] for _, path in names) - constants.keys()
    if not whole:
        jobs_left, notes = indexes.plan(jobs, request, totalled=heads)
        return KnownTotals(jobs_left, notes=notes)
    totals = plan.totals()
    columns = {
        plan.paths[name][0]: TotalledColumn(plan.types[name], totals.wanted(name))
        for name in plan.totalled
        if plan.paths[name][0] not in constants
    }
    return indexes.totals(jobs, request, columns)


def aggregate_files(
    jobs: Sequence[FileJob],
    known: KnownTotals,
    request: ScanRequest,
    plan: AggregatePlan,
    *,
    metrics: ScanMetrics,
    add: Callable[..., None] | None = None,
) -> pa.Table:
    """The totals of all matching rows of files; see ``orcidx.aggregate``. ``known``: before any is opened; ``add``:
    does what ``add_files`` does.

    The metadata of the result's schema says under ``orcidx`` how many rows came from where (see ``Origin``).
    """
    totals = plan.totals()
    origins = Origins(notes=list(known.notes), as_of=known.as_of)
    for unit in known.units:
        _add_unit(unit, jobs[unit.example].constants, plan, totals)
        origins.rows["catalog"] += unit.rows
    _refuse_acid_directories(jobs if isinstance(jobs, tuple) else known.jobs)  # of others whoever makes them looks
    (add or add_files)(known.jobs, request, plan, totals, origins, metrics=metrics)
    return with_origins(totals.table(nan=request.options.nan), origins, metrics)


def _add_unit(unit: KnownUnit, constants: Mapping[str, Any], plan: AggregatePlan, totals: GroupTotals) -> None:
    """Adds the totals of files whose ``constants`` are the same."""
    values = {
        name: constants[path[0]].cast(plan.types[name]) for name, path in plan.paths.items() if path[0] in constants
    }
    group = totals.group(tuple(form_of(values[name]) for name in plan.by))
    group.rows += unit.rows
    for name, column in group.columns.items():
        if name in values:
            column.add_repeated(values[name], unit.rows)
        else:
            unit.columns[plan.paths[name][0]].add_to(column)


def add_files(
    jobs: Iterable[FileJob],
    request: ScanRequest,
    plan: AggregatePlan,
    totals: GroupTotals,
    origins: Origins,
    *,
    metrics: ScanMetrics,
    constants: Mapping[str, pa.Scalar] | None = None,
) -> None:
    """Adds the totals of the matching rows of files. ``origins``: gets where their totals came from;
    ``constants``: values that columns of the plan have in every row, beside those that the jobs know."""
    asked = replace(request, columns=tuple(dict.fromkeys(plan.paths.values())), row_numbers=None)
    with FileQueue(jobs, asked, metrics) as files:
        for file in files:
            if is_acid_file(file.scan.reader.root, file.scan.reader.tail.footer.user_metadata):
                raise Unsupported(_ACID, file=file.scan.reader.name)
            _FileTotals(plan, file, totals, origins, constants or {}).add()


_ACID = "a file of a Hive ACID table: which of its rows count, other files tell; let Hive compact it, or ask Hive"


def _refuse_acid_directories(jobs: Sequence[FileJob]) -> None:
    """Raises ``Unsupported`` where a listed directory holds those of Hive's transactions."""
    for job in jobs:
        source = job.source
        if source.root is not None and source.name.count("delta_") + source.name.count("base_"):
            directory = source.name.replace("\\", "/").rpartition("/")[0]
            if is_acid_directory(directory.rpartition("/")[2]) and not directory.endswith(source.root.strip("/")):
                raise Unsupported(_ACID, file=source.name)


def with_origins(result: pa.Table, origins: Origins, metrics: ScanMetrics) -> pa.Table:
    """The result, whose metadata says where its rows came from, what was read, and which evidence could not be used."""
    facts: dict[str, Any] = {"rows": dict(origins.rows), "bytes_read": metrics.bytes_read}
    facts["requests"] = metrics.requests
    if origins.as_of is not None:
        facts["as_of"] = listing_time(origins.as_of)
    if origins.notes:
        facts["notes"] = list(dict.fromkeys(map(str, origins.notes)))
    return result.replace_schema_metadata({"orcidx": json.dumps(facts)})


class _FileTotals:
    """Adds the totals of one file."""

    def __init__(
        self,
        plan: AggregatePlan,
        file: OpenFile,
        totals: GroupTotals,
        origins: Origins,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        self.plan = plan
        self.file = file
        self.scan = file.scan
        self.totals = totals
        self.origins = origins
        sources = {source.field.name: source for source in self.scan.schema_plan.fields}
        self.columns = {name: _column(self.scan, sources, plan.paths[name], plan.types[name]) for name in plan.paths}
        self.columns.update({name: UnitColumn(constant=value) for name, value in constants.items()})
        self.char = frozenset(name for name in plan.paths if _is_char(sources, plan.paths[name]))

    @cached_property
    def key(self) -> tuple[Any, ...] | None:
        """The key of all rows of the file, where constants give it."""
        constants = [self.columns[name].constant for name in self.plan.by]
        known = tuple(form_of(value) for value in constants if value is not None)
        return known if len(known) == len(constants) else None

    def add(self) -> None:
        """Adds the file: whole, or stripe by stripe."""
        scan = self.scan
        rows = scan.reader.tail.footer.rows
        outcome = scan.pruner.outcome
        wanted = scan.takes_all or (scan.wanted_rows.is_all and (outcome is None or outcome.must.is_all))
        if wanted and rows and self._take_whole("file statistics", rows, self._of_file):
            return
        indexed = self._indexed()
        proved = scan.wanted_rows if outcome is None else outcome.must if outcome.proved else None
        if indexed is not None and proved is not None:
            self._take_indexed(indexed, proved)
            return
        matching = [
            self._add_stripe(run_value(scan.decide(stripe), self.file.storage), by_index=indexed is not None)
            for stripe in scan.stripe_numbers()
        ]
        if indexed is not None and matching:
            self._take_indexed(indexed, reduce(or_, matching))

    def _indexed(self) -> IndexedGroups | None:
        """What constants and the file's indexes prove of the totals that are asked for; None where that is not all."""
        if self.scan.file_index is None and (self.plan.totalled or self.key is None):
            return None
        file = IndexedFile(self.scan, self.columns, self.origins.notes)
        self.origins.notes += self.scan.index_notes
        return file.groups(self.plan.by, {name: self.totals.wanted(name) for name in self.plan.totalled})

    def _take_indexed(self, indexed: IndexedGroups, rows: RowSelection) -> None:
        constants = {name: column.constant for name, column in self.columns.items() if column.constant is not None}
        if not rows.is_empty:
            self.origins.rows[indexed.origin] += indexed.add(rows, self.totals, constants)

    def _add_stripe(self, decision: StripeDecision, *, by_index: bool) -> RowSelection:
        """Adds a stripe, but for rows that are left to the file's indexes: these, as rows of the file."""
        rows = decision.rows
        file_rows = self.scan.reader.tail.footer.rows
        span = rows.must.length
        if rows.must.is_all and self._take_whole("stripe statistics", span, partial(self._of_stripe, decision.stripe)):
            return RowSelection.none(file_rows)
        taken = rows.must if by_index else self._take_groups(decision)
        if taken is not None:
            left = StripeRows(rows.first_row, rows.bounds, rows.may - taken, rows.must - taken)
            decision = replace(decision, rows=left)
        if not decision.rows.may.is_empty:
            self._decode(decision)
        return rows.must.shift_into(file_rows, rows.first_row) if by_index else RowSelection.none(file_rows)

    # ------------------------------------------------------------------ evidence

    def _of_file(self, node: OrcType) -> RawStatistics:
        return file_statistics(self.scan.reader.tail, node)

    def _of_stripe(self, stripe: int, node: OrcType) -> RawStatistics:
        return stripe_statistics(self.scan.reader.tail, node, stripes=[stripe])

    def _take_whole(self, origin: Origin, rows: int, statistics: Any) -> bool:
        """Adds a unit all of whose rows match, if its totals are proved; whether it did."""
        known = self._known(statistics)
        if known is None or self.key is None:
            return False
        return bool(self._take_units(origin, np.array([rows], np.int64), known, np.array([True]))[0])

    def _known(self, statistics: Any) -> dict[str, StoredTotals] | None:
        """The stored totals of every column that is totalled and no constant; None where one has none."""
        found: dict[str, StoredTotals] = {}
        for name in self.plan.totalled:
            column = self.columns[name]
            if column.constant is not None:
                continue
            if column.node is None or not self.scan.options.row_index:
                return None
            wanted = self.totals.wanted(name)
            try:
                raw = statistics(column.node)
                ends = wanted.minimum or wanted.maximum
                found[name] = stored_totals(raw, self.scan.reader.facts, self.scan.options, ends=ends)
            except (CorruptFile, Unsupported):  # the data may be sound
                return None
        return found

    def _take_units(self, origin: Origin, rows: Int64s, known: Mapping[str, StoredTotals], asked: Bools) -> Bools:
        """Adds those of the units (``asked``: one bool each) whose totals are proved, all at once; which they are."""
        assert self.key is not None
        taken = asked.copy()
        for name, totals in known.items():
            wanted = self.totals.wanted(name)
            taken &= totals.prove(sums=wanted.sum, ends=wanted.minimum or wanted.maximum)
        if not taken.any():
            return taken
        count = int(rows[taken].sum())
        self.origins.rows[origin if known else "metadata"] += count
        group = self.totals.group(self.key)
        group.rows += count
        for name, column in group.columns.items():
            constant = self.columns[name].constant
            if constant is not None:
                column.add_repeated(constant, count)
            else:
                _add_units(column, known[name], taken)
        return taken

    def _take_groups(self, decision: StripeDecision) -> RowSelection | None:
        """Adds the row groups that match whole and whose totals are proved; their rows, None where there are none."""
        rows = decision.rows
        if self.key is None or rows.must.is_empty:
            return None
        if not self.plan.totalled:  # counting needs nothing but the rows
            self.totals.group(self.key).rows += rows.must.count
            self.origins.rows["metadata"] += rows.must.count
            return rows.must
        nodes = {column.node.id: column.node for name in self.plan.totalled if (column := self.columns[name]).node}
        if decision.index is None and not rows.must.is_all:
            return None  # rows cannot be skipped
        whole = rows.must.count_in(rows.bounds) == np.diff(rows.bounds)
        if len(whole) < 2 or not whole.any():
            return None
        index = decision.index
        if index is None or not nodes.keys() <= index.columns.keys():
            index = self._index(decision.stripe, nodes)
        if index is None or not np.array_equal(index.bounds, rows.bounds):
            return None
        if any(node not in index.columns for node in nodes):
            return None
        known = self._known(lambda node: index.columns[node.id].statistics)
        if known is None:
            return None
        taken = self._take_units("row-group statistics", np.diff(rows.bounds), known, whole)
        return RowSelection.from_groups(taken, rows.bounds) if taken.any() else None

    def _index(self, stripe: int, nodes: Mapping[int, OrcType]) -> RowIndex | None:
        indexes = StripeIndexes(self.scan.reader, stripe, nodes, nodes.keys())
        found: RowIndex | None = run_value(indexes.of_leaves(), self.file.storage)
        return found

    # ------------------------------------------------------------------ rows

    def _decode(self, decision: StripeDecision) -> None:
        count_groups(self.scan, decision)
        batches: Iterator[pa.RecordBatch] = run(self.scan.read(decision), self.file.storage)
        for batch in batches:
            self.origins.rows["decoded"] += batch.num_rows
            keys = [self._values(batch, name) for name in self.plan.by]
            values = {name: self._values(batch, name) for name in self.plan.totalled}
            self.totals.add(batch.num_rows, keys, values)

    def _values(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        head, *below = self.plan.paths[name]
        values = batch.column(head)
        if below:
            values = pc.struct_field(values, below)
        return pc.ascii_rtrim(values, " ") if name in self.char else values


def _add_units(column: ColumnTotals, known: StoredTotals, units: Bools) -> None:
    """Adds the totals of some units, which prove what the column wants."""
    column.count += int(known.count[units].sum())
    if column.wanted.sum:
        column.total += numbers_sum(known.sums.of_units(units))
    minima, maxima = known.minima.of_units(units), known.maxima.of_units(units)
    if len(minima):
        column.take_bounds(min(minima.tolist()), max(maxima.tolist()))


# ---------------------------------------------------------------------- columns of a file


def _column(scan: FileScan, sources: Mapping[str, FieldSource], path: Path, kind: pa.DataType) -> UnitColumn:
    source = sources[path[0]]
    if source.column is None:
        constant = scan.valued(source).scalar
        for name in path[1:]:
            constant = constant[name] if constant.is_valid else pa.scalar(None, kind)
        return UnitColumn(constant=constant.cast(kind) if constant.type != kind else constant)
    node = _below(source.column, path[1:])
    if node is None:
        return UnitColumn()
    have = arrow_type(node, source.options or scan.options)
    alike = have == kind or (pa.types.is_integer(have) and pa.types.is_integer(kind))
    return UnitColumn(node=node if alike else None)


def _below(column: OrcType, path: Sequence[str]) -> OrcType | None:
    for name in path:
        found = [child for other, child in zip(column.names, column.children) if other == name]
        if column.kind is not TypeKind.STRUCT or not found:
            return None
        column = found[0]
    return column


def _is_char(sources: Mapping[str, FieldSource], path: Path) -> bool:
    column = sources[path[0]].column
    node = None if column is None else _below(column, path[1:])
    return node is not None and node.kind is TypeKind.CHAR
