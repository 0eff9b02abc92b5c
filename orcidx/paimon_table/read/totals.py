"""Computes totals of the rows of a table. If the statistics of an ORC file prove the totals of the file, the statistics
are used. Otherwise the rows of the file are read.

The statistics of a file describe the values as they are stored in the file. So statistics are used only under three
conditions: the column was not widened to another kind, no instant is shifted, and the whole condition can be pushed to
the file. The rows of any other file are decoded and converted as in a scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from orcidx.aggregation.groups import GroupTotals
from orcidx.aggregation.value_forms import comparable, restored
from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import INTEGERS, DataType
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.plan import FileTask, in_planned_file
from orcidx.paimon_table.read.replanning import retried_on_newest
from orcidx.paimon_table.read.scan import TableScan, rows_left
from orcidx.paimon_table.read.shared_reading import Shared
from orcidx.paimon_table.read.task_run import TaskRun
from orcidx.predicate import resolve_column
from orcidx.scanner.aggregate_pass import AggregatePlan, Origins, add_files, plan_aggregation, with_origins
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.unit_totals import add_decoded

__all__ = ["aggregate_scan"]

_KNOWN_PARTITIONS = (*INTEGERS, "BOOLEAN", "DATE", "VARCHAR")
"""Types of partition columns whose values in a BinaryRow already have the form that ``value_forms`` compares."""


def aggregate_scan(scan: TableScan, aggregates: Mapping[str, str], by: str | Sequence[str] | None) -> pa.Table:
    """The totals of the rows of a scan. The scan must read complete top-level columns and must have no limit. See
    ``Table.aggregate``."""
    return retried_on_newest(scan, lambda found: _totals(found, aggregates, by))


def _totals(scan: TableScan, aggregates: Mapping[str, str], by: str | Sequence[str] | None) -> pa.Table:
    scan = replace(scan, options=scan.options.override(strings="string"))
    schema = scan.table_schema.arrow_schema
    sensitive = scan.options.case_sensitive
    plan = plan_aggregation(schema, aggregates, by, case_sensitive=sensitive)
    names = tuple(dict.fromkeys(path[0] for path in plan.paths.values()))
    narrow = replace(scan, columns=names or scan.columns[:1])
    totals = _TableTotals(plan, narrow)
    for task in scan.plan.tasks:
        totals.add(task)
    result = totals.groups.table(nan=scan.options.nan)
    totals.origins.notes[:0] = narrow.notes
    return with_origins(result, totals.origins, totals.metrics)


class _TableTotals:
    """Adds up the totals of the files."""

    def __init__(self, plan: AggregatePlan, scan: TableScan) -> None:
        self.plan = plan
        self.scan = scan
        self.groups: GroupTotals = plan.totals()
        self.origins = Origins()
        self.metrics = ScanMetrics(files_skipped=len(scan.plan.skipped))
        self._shared: Shared = {}
        self._types = {name: _leaf(scan.table_schema, path) for name, path in plan.paths.items()}
        self._char = {name for name, kind in self._types.items() if kind.root == "CHAR"}

    def add(self, task: FileTask) -> None:
        """Adds the rows of a file."""
        constants = self._constants(task)
        if self.scan.where is None and not self.plan.totalled and len(constants) == len(self.plan.by):
            self._count(task, constants)
            return
        run = TaskRun(task, self.scan, self.metrics, self.origins.notes, self._shared)
        if not self._add_proved(run, constants):
            add_decoded(run.batches(), self.plan, self.groups, self.origins, char=self._char)

    def _count(self, task: FileTask, constants: Mapping[str, pa.Scalar]) -> None:
        """Adds the number of rows of a file. The number is computed from the manifests and the deletion vectors."""
        rows = rows_left(task)
        if not rows and self.plan.by:  # a group without rows is left out
            return
        values = [_key_form(constants[name]) for name in self.plan.by]
        self.groups.group(tuple(values)).rows += rows
        self.origins.rows["metadata"] += rows

    def _constants(self, task: FileTask) -> dict[str, pa.Scalar]:
        """The partition columns that the totals use. Each of them has a single value in the file."""
        known = dict(zip((field.name for field in self.scan.table_schema.partition_fields), task.file.partition_values))
        found = {}
        for name, path in self.plan.paths.items():
            kind = self._types[name]
            if len(path) == 1 and path[0] in known and kind.root in _KNOWN_PARTITIONS:
                value = known[path[0]]
                if not isinstance(value, bytes) or _is_text(value):
                    found[name] = restored([value], self.plan.types[name])[0]
        return found

    # ------------------------------------------------------------------ statistics of ORC files

    def _add_proved(self, run: TaskRun, constants: Mapping[str, pa.Scalar]) -> bool:
        """Adds the totals of a file from its statistics, if the file's values are the table's values. Returns whether
        the totals were added."""
        orc = run.whole
        paths = None if orc is None else self._paths_in_file(run)
        if orc is None or paths is None:
            return False
        plan = replace(self.plan, paths=paths)
        with in_planned_file(run.file), orc.scan(indexed=True) as scan:
            if not self._gives_values(scan, plan):
                return False
            add_files(
                scan.jobs, scan.request, plan, self.groups, self.origins, metrics=self.metrics, constants=constants
            )
        return True

    def _paths_in_file(self, run: TaskRun) -> dict[str, tuple[str, ...]] | None:
        """The columns with the names that they have in the file. The result is None if the file lacks a column, or if
        the file's values differ from the table's values."""
        entries = {entry.field.name: entry for entry in run.task.mapping}
        found = {}
        for name, path in self.plan.paths.items():
            entry = entries[path[0]]
            if entry.file_field is None or name in self._char:
                return None
            if len(path) > 1 and not entry.is_same:
                return None
            if run.moved_by is not None and entry.file_field.type.has_instants:
                return None
            found[name] = (entry.file_field.name, *path[1:])
        return found

    def _gives_values(self, scan: Scan, plan: AggregatePlan) -> bool:
        """Whether the file's values are the table's values without conversion. This is true if the types are the same,
        or if integers were widened."""
        for name, path in plan.paths.items():
            _, have = resolve_column(path, scan.schema)
            want = plan.types[name]
            wider = pa.types.is_integer(have) and pa.types.is_integer(want) and have.bit_width <= want.bit_width
            if have != want and not wider:
                return False
        return True


def _key_form(constant: pa.Scalar) -> object:
    """Converts a constant to the form that it has in the key of a group."""
    return comparable(pa.array([constant], constant.type))[0].as_py()


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _leaf(schema: TableSchema, path: Sequence[str]) -> DataType:
    """The table's type of a column, or of a field inside a column. Raises ``InvalidQuery`` for a field in an array or
    map."""
    kind = schema.by_name[path[0]].type
    for name in path[1:]:
        inner = next((field for field in kind.fields if field.name == name), None)
        if inner is None:
            raise InvalidQuery(
                "the path is not a field of a ROW column; give the name of a column, or of a field of a ROW column",
                column=".".join(path),
            )
        kind = inner.type
    return kind
