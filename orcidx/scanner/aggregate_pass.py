"""Computes totals of the rows of files in one pass. If statistics prove the totals of some rows, these rows are not
read. All other rows that can match are decoded.

A unit is a file, a stripe or a row group. A unit in which all rows match is not read if ``orc.stored_totals`` proves
all wanted totals. A unit in which no row can match is skipped. The Paimon indexes of a file may also prove the totals
of the rows that certainly match. These rows are then not read either. The remaining rows are decoded as in any scan,
but only the columns of the aggregates and of the condition are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from orcidx.aggregation.functions import has_order, parse_aggregates, parse_groups, result_type
from orcidx.aggregation.groups import GroupTotals
from orcidx.aggregation.known_units import KnownUnit, TotalledColumn
from orcidx.aggregation.value_forms import form_of
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.fetching.drive import run, run_value
from orcidx.orc.hive_acid import is_acid_directory, is_acid_file
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import RawStatistics, file_statistics, stripe_statistics
from orcidx.orc.types import OrcType
from orcidx.planner.column_plan import StripeRows
from orcidx.planner.request import FileIndexes, FileJob, KnownTotals, ScanRequest, listing_notes, listing_time
from orcidx.planner.row_indexes import StripeIndexes
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.predicate import resolve_column
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_queue import FileQueue, OpenFile, open_job
from orcidx.scanner.file_scan import FileScan, count_groups
from orcidx.scanner.index_totals import IndexedFile, IndexedGroups
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.scanner.range_units import RangeUnits
from orcidx.scanner.unit_totals import AggregatePlan, Origins, UnitTotals

__all__ = [
    "COUNT_ALONE",
    "AggregatePlan",
    "Origins",
    "add_files",
    "aggregate_file",
    "aggregate_files",
    "asked_of_indexes",
    "plan_aggregation",
    "with_origins",
]

T = TypeVar("T")
COUNT_ALONE = AggregatePlan(parse_aggregates({"n": "count(*)"}), (), {}, {})
"""An aggregation that only counts rows."""


def plan_aggregation(
    schema: pa.Schema, asked: Mapping[str, str], groups: str | Sequence[str] | None, *, case_sensitive: bool
) -> AggregatePlan:
    """Finds the columns of the aggregates and of ``by`` in the schema of the rows. Raises ``InvalidQuery`` for an
    unknown column, and for a column whose type cannot be aggregated or grouped."""
    aggregates, by = parse_aggregates(asked), parse_groups(groups)
    names = [*by, *(one.name for one in aggregates)]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidQuery(f"two columns of the result have the name {repeated!r}: give one of them another name")
    paths, types = {}, {}
    for name in dict.fromkeys([*by, *(one.column for one in aggregates if one.column is not None)]):
        paths[name], types[name] = resolve_column((name,), schema, case_sensitive=case_sensitive)
    for one in aggregates:
        result_type(one, None if one.column is None else types[one.column])
    for name in by:
        if not has_order(types[name]):
            raise InvalidQuery(
                f"grouping by values of type {types[name]} is not supported; leave the column out of by=", column=name
            )
    return AggregatePlan(aggregates, by, paths, types)


def asked_of_indexes(
    indexes: FileIndexes | None,
    jobs: Sequence[FileJob],
    request: ScanRequest,
    plan: AggregatePlan,
    metrics: ScanMetrics,
) -> KnownTotals:
    """Returns the totals that the indexes beside the data files give, and the jobs of the files for which these indexes
    give no totals."""
    if indexes is None:
        return KnownTotals(jobs)
    with metrics.stage("open"):
        known = _known_totals(indexes, jobs, request, plan, metrics)
    metrics.skip_files(len(jobs) - len(known.jobs))
    notes, as_of = listing_notes(indexes), indexes.as_of
    return replace(known, notes=(*notes, *known.notes), as_of=as_of) if notes or as_of is not None else known


def _known_totals(
    indexes: FileIndexes,
    jobs: Sequence[FileJob],
    request: ScanRequest,
    plan: AggregatePlan,
    metrics: ScanMetrics,
) -> KnownTotals:
    """Returns the totals that the catalog of the indexes gives, and counts the reads of the catalog. The
    catalog gives totals only if every column of ``by`` is constant in each file."""
    constants = jobs[0].constants if jobs else {}
    names, count = plan.paths.items(), partial(add_reads, metrics)
    whole = all(path[0] != request.file_path for _, path in names)
    whole &= all(plan.paths[name][0] in constants for name in plan.by)
    whole &= all(len(path) == 1 for _, path in names)
    heads = frozenset(path[0] for _, path in names) - constants.keys()
    if not whole:
        jobs_left, notes = indexes.plan(jobs, request, totalled=heads, count=count)
        return KnownTotals(jobs_left, notes=notes)
    columns: dict[str, TotalledColumn] = {}
    for name in plan.totalled:
        head, wanted = plan.paths[name][0], plan.wanted[name]
        if head not in constants:
            # If names are compared without regard to case, several spellings can name the same column. The column then
            # needs the totals of all spellings.
            wanted = wanted | columns[head].wanted if head in columns else wanted
            columns[head] = TotalledColumn(plan.types[name], wanted)
    return indexes.totals(jobs, request, columns, count=count)


def aggregate_file(
    jobs: Sequence[FileJob],
    request: ScanRequest,
    indexes: FileIndexes | None,
    asked: Mapping[str, str],
    groups: str | Sequence[str] | None,
) -> pa.Table:
    """The totals of the only file of ``jobs``. The file is opened only once, to read both its schema and its rows."""
    metrics = ScanMetrics()
    with open_job(jobs[0], request, metrics) as file:
        file.scan.columns.check_condition()
        plan = plan_aggregation(file.scan.columns.schema, asked, groups, case_sensitive=request.options.case_sensitive)
        known = asked_of_indexes(indexes, jobs, request, plan, metrics)
        return aggregate_files(jobs, known, request, plan, metrics=metrics, opened=file)


def aggregate_files(
    jobs: Sequence[FileJob],
    known: KnownTotals,
    request: ScanRequest,
    plan: AggregatePlan,
    *,
    metrics: ScanMetrics,
    add: Callable[..., None] | None = None,
    opened: OpenFile | None = None,
) -> pa.Table:
    """The totals of all matching rows of files. See ``orcidx.aggregate``.

    ``known``: totals that are known before any file is opened. ``add``: a function that is called in place of
    ``add_files``. ``opened``: the file of the only job, if the file is already open. In this case the function also
    closes the file.

    The metadata of the result's schema has an entry ``orcidx``. For each kind of evidence (see ``Origin``), the entry
    has the number of rows whose totals came from this kind.
    """
    totals = plan.totals()
    origins = Origins(notes=list(known.notes), as_of=known.as_of)
    for unit in known.units:
        _add_unit(unit, jobs[unit.example].constants, plan, totals)
        origins.rows["catalog"] += unit.rows
    # If ``jobs`` is not a tuple, only ``known.jobs`` is checked here. The other jobs are checked when they are made.
    _refuse_acid_directories(jobs if isinstance(jobs, tuple) else known.jobs)
    if opened is not None and len(known.jobs) == 1 and known.jobs[0] is opened.scan.job:
        with opened:
            metrics.files += 1
            file = OpenFile(opened.storage, FileScan(opened.scan.reader, known.jobs[0], _asked(request, plan), metrics))
            _add_file(file, plan, totals, origins, {})
    else:
        (add or add_files)(known.jobs, request, plan, totals, origins, metrics=metrics)
    return with_origins(totals.table(nan=request.options.nan), origins, metrics)


def _add_unit(unit: KnownUnit, constants: Mapping[str, Any], plan: AggregatePlan, totals: GroupTotals) -> None:
    """Adds the totals of one ``KnownUnit``. All of its files have the same ``constants``."""
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
    check: Callable[[OpenFile, ScanRequest], None] | None = None,
) -> None:
    """Adds the totals of the matching rows of files.

    ``origins``: collects where the totals came from. ``constants``: columns of the plan that have the same value in
    every row, in addition to the constants of the jobs. ``check``: a function that is called with each file and the
    request before the file is read."""
    with FileQueue(jobs, _asked(request, plan), metrics, counted=False) as files:
        for file in files:
            if check is not None:
                check(file, request)
            _add_file(file, plan, totals, origins, constants or {})


def _asked(request: ScanRequest, plan: AggregatePlan) -> ScanRequest:
    """Returns the request with the columns of the plan in place of its own columns. The column of file names is left
    out, because the request adds this column by itself."""
    columns = tuple(path for path in dict.fromkeys(plan.paths.values()) if path != (request.file_path,))
    return replace(request, columns=columns, row_numbers=None)


def _add_file(
    file: OpenFile, plan: AggregatePlan, totals: GroupTotals, origins: Origins, constants: Mapping[str, pa.Scalar]
) -> None:
    if is_acid_file(file.scan.reader.root, file.scan.reader.tail.footer.user_metadata):
        raise Unsupported(_ACID, file=file.scan.reader.name)
    _FileTotals(UnitTotals(plan, file.scan, totals, origins, constants), file).add()


_ACID = (
    "this is a file of a Hive ACID table, and other files say which of its rows are valid; compact or query the table "
    "with Hive"
)


def _refuse_acid_directories(jobs: Sequence[FileJob]) -> None:
    """Raises ``Unsupported`` if a listed directory contains the files of a transactional (ACID) table of Hive."""
    for job in jobs:
        source = job.source
        if source.root is not None and source.name.count("delta_") + source.name.count("base_"):
            directory = source.name.replace("\\", "/").rpartition("/")[0]
            if is_acid_directory(directory.rpartition("/")[2]) and not directory.endswith(source.root.strip("/")):
                raise Unsupported(_ACID, file=source.name)


def with_origins(result: pa.Table, origins: Origins, metrics: ScanMetrics) -> pa.Table:
    """Adds metadata to the result. The metadata says where the totals came from, what was read, and which evidence
    could not be used."""
    facts: dict[str, Any] = {"rows": dict(origins.rows), "bytes_read": metrics.bytes_read}
    facts["requests"] = metrics.requests
    if origins.as_of is not None:
        facts["as_of"] = listing_time(origins.as_of)
    if origins.notes:
        facts["notes"] = list(dict.fromkeys(map(str, origins.notes)))
    return result.replace_schema_metadata({"orcidx": json.dumps(facts)})


class _FileTotals:
    """Adds the totals of one file to ``units``. A unit (the file, a stripe or a row group) is read only if statistics
    and indexes do not give its totals."""

    def __init__(self, units: UnitTotals, file: OpenFile) -> None:
        self.units = units
        self.file = file
        self.scan = file.scan

    def add(self) -> None:
        """Adds the totals of the whole file, or of one stripe after the other."""
        scan = self.scan
        ranges = None if self.units.key is None else RangeUnits.of(scan)
        if ranges is not None and _RangeTotals(self, ranges).add():
            return
        rows = scan.reader.tail.footer.rows
        outcome = scan.evidence.pruner.outcome
        wanted = scan.rows.takes_all or (scan.rows.wanted.is_all and (outcome is None or outcome.must.is_all))
        if wanted and rows and self.units.take_whole("file statistics", rows, self.of_file):
            return
        indexed = self._indexed()
        proved = scan.rows.wanted if outcome is None else outcome.must if outcome.proved else None
        if indexed is not None and proved is not None:
            self._take_indexed(indexed, proved)
            return
        matching = [self.add_stripe(stripe, by_index=indexed is not None) for stripe in scan.stripe_numbers()]
        if indexed is not None and matching:
            self._take_indexed(indexed, reduce(or_, matching))

    def _indexed(self) -> IndexedGroups | None:
        """Returns the wanted totals if constants and the file's indexes prove all of them. Otherwise returns None."""
        if self.scan.evidence.index is None and (self.units.plan.totalled or self.units.key is None):
            return None
        plan, notes = self.units.plan, self.units.origins.notes
        file = IndexedFile(self.scan, self.units.columns, notes)
        notes += self.scan.evidence.notes
        return file.groups(plan.by, {name: self.units.totals.wanted(name) for name in plan.totalled})

    def _take_indexed(self, indexed: IndexedGroups, rows: RowSelection) -> None:
        columns = self.units.columns
        constants = {name: column.constant for name, column in columns.items() if column.constant is not None}
        if not rows.is_empty:
            self.units.origins.rows[indexed.origin] += indexed.add(rows, self.units.totals, constants)

    def add_stripe(self, stripe: int, *, by_index: bool) -> RowSelection:
        """Adds the totals of a stripe. If statistics prove the totals of the whole stripe, nothing is read. Otherwise,
        with ``by_index``, the rows that certainly match are left out, because the file's indexes give their totals.
        Returns the rows that were left out, as a selection of the rows of the file."""
        decision = run_value(self.scan.decide(stripe), self.file.storage)
        rows = decision.rows
        file_rows = self.scan.reader.tail.footer.rows
        span = rows.must.length
        statistics = partial(stripe_statistics, self.scan.reader.tail, stripes=[decision.stripe])
        if rows.must.is_all and self.units.take_whole("stripe statistics", span, statistics):
            return RowSelection.none(file_rows)
        taken = rows.must if by_index else self._take_groups(decision)
        if taken is not None:
            left = StripeRows(rows.first_row, rows.bounds, rows.may - taken, rows.must - taken)
            decision = replace(decision, rows=left)
        if not decision.rows.may.is_empty:
            self.decode(decision)
        return rows.must.shift_into(file_rows, rows.first_row) if by_index else RowSelection.none(file_rows)

    # ------------------------------------------------------------------ evidence

    def of_file(self, node: OrcType) -> RawStatistics:
        return file_statistics(self.scan.reader.tail, node)

    def _take_groups(self, decision: StripeDecision) -> RowSelection | None:
        """Adds the totals of row groups in which all rows match, if statistics prove these totals. Returns the rows of
        these row groups. Returns None if there are no such row groups."""
        rows = decision.rows
        if self.units.key is None or rows.must.is_empty:
            return None
        if not self.units.plan.totalled:  # counting needs only the number of rows
            self.units.totals.group(self.units.key).rows += rows.must.count
            self.units.origins.rows["metadata"] += rows.must.count
            return rows.must
        columns = [self.units.columns[name] for name in self.units.plan.totalled]
        nodes = {column.node.id: column.node for column in columns if column.node}
        if decision.index is None and not rows.must.is_all:
            return None  # without a row index, a scan cannot skip row groups
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
        taken = self.units.take("row-group statistics", np.diff(rows.bounds), _statistics_of(index), whole)
        return RowSelection.from_groups(taken, rows.bounds) if taken.any() else None

    def _index(self, stripe: int, nodes: Mapping[int, OrcType]) -> RowIndex | None:
        indexes = StripeIndexes(self.scan.reader, stripe, nodes, nodes.keys())
        found: RowIndex | None = run_value(indexes.of_leaves(), self.file.storage)
        return found

    # ------------------------------------------------------------------ decoding rows

    def decode(self, decision: StripeDecision) -> None:
        count_groups(self.scan, decision)
        self.units.add_batches(run(self.scan.read(decision), self.file.storage))


class _RangeTotals:
    """Adds the totals of the rows of one file whose values are in a range of numbers. If all rows of a stripe or row
    group are in the range, its totals are taken from statistics. In a sorted file, only the rows at the two ends of the
    range are read."""

    def __init__(self, file: _FileTotals, ranges: RangeUnits) -> None:
        self.file = file
        self.units = file.units
        self.ranges = ranges
        self.reader = file.scan.reader

    def add(self) -> bool:
        """Adds the totals of the file. If its statistics are damaged, adds nothing and returns False."""
        masks = _unless_damaged(self.ranges.stripes)
        if masks is None:
            return False
        may, must = masks
        units, bounds = self.units, self.reader.stripe_bounds
        rows = bounds[1:] - bounds[:-1]
        if must.all() and units.take_whole("file statistics", int(rows.sum()), self.file.of_file):
            return True
        taken = units.take("stripe statistics", rows, partial(stripe_statistics, self.reader.tail), must)
        for stripe in (may & ~taken & (rows > 0)).nonzero()[0].tolist():
            if not self._add_groups(stripe):
                self.file.add_stripe(stripe, by_index=False)
        return True

    def _add_groups(self, stripe: int) -> bool:
        """Adds the totals of a stripe that is only partly in the range. If the row index of the stripe cannot be used,
        adds nothing and returns False."""
        index = self.ranges.index(stripe)
        masks = None if index is None else _unless_damaged(partial(self.ranges.groups, index))
        if index is None or masks is None:
            return False
        may, must = masks
        bounds = index.bounds
        rows = bounds[1:] - bounds[:-1]
        left = may & ~self.units.take("row-group statistics", rows, _statistics_of(index), must)
        if not np.count_nonzero(left):
            return True
        batches = self.ranges.batches(stripe, index, left)
        if batches is not None:
            self.units.add_batches(batches)
        else:
            some, sure = (RowSelection.from_groups(mask, bounds) for mask in (left, left & must))
            first = int(self.reader.stripe_bounds[stripe])
            self.file.decode(StripeDecision(stripe, StripeRows(first, bounds, some, sure), index))
        return True


def _statistics_of(index: RowIndex) -> Callable[[OrcType], RawStatistics]:
    return lambda node: index.columns[node.id].statistics


def _unless_damaged(ask: Callable[[], T | None]) -> T | None:
    """Returns the result of the function ``ask``. Returns None if ``ask`` finds damaged statistics. No error is raised,
    because the data itself may be undamaged."""
    try:
        return ask()
    except (CorruptFile, Unsupported):
        return None
