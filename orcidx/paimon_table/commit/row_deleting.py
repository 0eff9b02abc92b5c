"""``Table.delete``: deletes rows of an append table by deletion vectors and commits them as OVERWRITE.

The rows of a file never change. So each file is scanned at most once, even if the commit is tried several times. On
each try the new vectors are merged with the existing vectors, so an earlier delete is never undone. If a file has been
compacted since it was scanned, its rows are in other files. Then the whole delete is planned again on the newest
snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from orcidx.errors import CommitConflict, CorruptFile, FileGone, InvalidQuery, Unsupported, ValueOutOfRange, located
from orcidx.options import ReadOptions
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.paimon_table.commit.candidate import Change
from orcidx.paimon_table.commit.changed import Changed
from orcidx.paimon_table.commit.commit_options import CommitOptionsByName
from orcidx.paimon_table.commit.committing import Committer
from orcidx.paimon_table.commit.deletion_files import merged_index
from orcidx.paimon_table.commit.snapshot_creation import Attempt
from orcidx.paimon_table.commit.table_change import begin, changed, check_instants, check_own_file, check_table
from orcidx.paimon_table.commit.table_state import TableState, view_of
from orcidx.paimon_table.metadata.manifest import FilePlace, file_place
from orcidx.paimon_table.read.plan import FileTask
from orcidx.paimon_table.read.scan import TableScan, matching_rows
from orcidx.paimon_table.read.shared_reading import table_bound
from orcidx.paimon_table.read.table_view import TableView
from orcidx.predicate import External, Predicate, Where, parse

__all__ = ["DeletePlan", "DeleteTask", "commit_delete", "delete_rows", "plan_delete", "without_gone"]

KIND = "OVERWRITE"
MOST_FILE_ROWS = (1 << 31) - 1
"""The maximum number of rows of a file with a deletion vector. Java's readers store positions in an int."""

_AS_READ = ReadOptions()
Isolation = Literal["snapshot", "serializable"]
Find = Callable[[list["DeleteTask"]], Iterable[tuple[FilePlace, DeletionVector | None]]]
"""A function that searches files. It yields each file with its matching rows, or None if the file is gone."""
_DRY_RUN_PLANS = 4
"""The largest number of plans of a dry run. A dry run is planned again if files have expired."""


@dataclass(frozen=True)
class DeleteTask:
    """A task that finds the rows to delete in one file. It can be pickled. ``scan`` is None if every row is deleted."""

    place: FilePlace
    rows: int
    file: FileTask = field(repr=False)
    scan: TableScan | None = field(repr=False)

    def find(self) -> DeletionVector | None:
        """Positions of the rows for which the predicate is true, including rows that are already deleted. The result is
        None if a compaction and an expiry have deleted the file."""
        if self.scan is None:
            return DeletionVector(np.arange(self.rows))
        try:
            pieces = list(matching_rows(self.file, self.scan))
        except FileGone:
            return None
        positions = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        if len(positions) and int(positions.max()) >= self.rows:
            raise CorruptFile(
                f"the scan returned row {positions.max()}, but the manifest says that the file has {self.rows} rows",
                file=self.file.file.path,
            )
        return DeletionVector(positions)


@dataclass
class DeletePlan:
    """The plan of a delete. ``tasks``: one task for each file that can have rows to delete. ``planned_on``: the number
    of the snapshot that was used for planning."""

    committer: Committer
    table: TableView
    where: Predicate | None
    options: ReadOptions
    tasks: list[DeleteTask]
    planned_on: int
    schema_id: int

    def again(self, state: TableState) -> None:
        """Plans the delete on another snapshot."""
        self.tasks = _tasks(view_of(self.table, state), self.where, self.options, self.committer.options.jvm_zone)
        self.planned_on = state.snapshot_id


def plan_delete(
    table: TableView, where: Where, *, everything: bool, given: CommitOptionsByName, options: ReadOptions = _AS_READ
) -> DeletePlan:
    """Plans which files can have rows to delete. Only metadata is read. ``options`` say how values and names are
    compared."""
    if (where is None) != everything:
        raise InvalidQuery(
            "where and everything=True are both given or both missing; give either where to select rows, or "
            "everything=True to delete all rows"
        )
    committer = begin(table, "delete", given)
    predicate = None if where is None else _deterministic(parse(where))
    plan = DeletePlan(committer, table, predicate, options, [], 0, committer.state.schema.id)
    _check(committer.state, plan)
    plan.again(committer.state)
    return plan


def _check(state: TableState, plan: DeletePlan) -> None:
    """Raises ``Unsupported`` for tables from which orcidx cannot delete."""
    options = plan.committer.options
    check_table(state, "delete", options)
    if state.schema.primary_keys:
        raise Unsupported("orcidx deletes only from append tables; delete from a primary-key table with Spark or Flink")
    if not state.schema.is_on("deletion-vectors.enabled"):
        raise Unsupported(
            "the table has no deletion vectors, and orcidx cannot delete without them: set deletion-vectors.enabled "
            "(ALTER TABLE ... SET TBLPROPERTIES), or delete the rows with Spark"
        )
    if plan.where is not None:
        _check_instants(state, plan, plan.where)


def _check_instants(state: TableState, plan: DeletePlan, where: Predicate) -> None:
    """Raises ``Unsupported`` if the predicate compares instants that depend on the zone of the JVM that wrote a
    file."""
    schema = state.schema
    bound = table_bound(where, schema, plan.options)
    fields = {schema.by_name[path[0]].id for path in bound.columns if schema.by_name[path[0]].type.has_instants}
    orc = [file.entry for file in state.live.values() if file.entry.name.lower().endswith(".orc")]
    for number in sorted({entry.schema_id for entry in orc}) if fields else ():
        written_with = plan.table.schema_of(number)
        names = [field.name for field in written_with.fields if field.id in fields]
        check_instants(written_with, names, "orc", plan.committer.options, "comparing values")


def _deterministic(where: Predicate) -> Predicate:
    """Raises ``Unsupported`` if an expression may give another result when it is evaluated again."""
    waiting: list[Any] = [where]
    while waiting:
        node = waiting.pop()
        waiting.extend(getattr(node, "children", ()))
        if isinstance(node, External) and "random(" in str(node.expression):
            raise Unsupported(
                f"{node.expression} is random, so a second attempt of the delete would delete other rows; give a "
                "condition that always selects the same rows"
            )
    return where


def _tasks(table: TableView, where: Predicate | None, options: ReadOptions, jvm_zone: str | None) -> list[DeleteTask]:
    plan = table.plan(where, nan=options.nan, case_sensitive=options.case_sensitive, jvm_zone=jvm_zone)
    scan = None if where is None else TableScan(plan, table.schema, (), where, options, jvm_zone=jvm_zone)
    tasks = []
    for task in plan.tasks:
        check_own_file(task.file.entry)
        if task.file.rows > MOST_FILE_ROWS:
            raise Unsupported(
                f"the file has {task.file.rows} rows, but rows can be deleted only in files of at most "
                f"{MOST_FILE_ROWS} rows",
                file=task.file.path,
            )
        tasks.append(DeleteTask(file_place(task.file.entry), task.file.rows, task, scan))
    return tasks


# ---------------------------------------------------------------------- commit


@dataclass
class _Outcome:
    files: tuple[str, ...] = ()
    rows: int = 0
    size: int = 0


def commit_delete(
    plan: DeletePlan,
    found: dict[FilePlace, DeletionVector],
    *,
    isolation: Isolation,
    find: Find,
) -> Changed:
    """Commits deletion vectors. ``found``: the rows to delete in each file. ``find``: a function that searches files.
    It is called if files have to be searched that were not in the plan."""
    outcome = _Outcome()

    def change(attempt: Attempt) -> Change | None:
        _check(attempt.state, plan)
        _update_plan(attempt.state, plan, found, isolation=isolation, find=find)
        wanted = {task.place: found[task.place] for task in plan.tasks if found[task.place]}
        return _change(attempt, wanted, outcome)

    committed = plan.committer.commit(KIND, change)
    facts = {"files": {"done": outcome.files}, "rows": outcome.rows, "bytes": outcome.size}
    if committed is None or committed.repeated:
        facts = {"files": {}, "rows": 0, "bytes": 0}
    return changed(plan.committer, committed, KIND, plan.planned_on, **facts)


def _update_plan(
    state: TableState,
    plan: DeletePlan,
    found: dict[FilePlace, DeletionVector],
    *,
    isolation: Isolation,
    find: Find,
) -> None:
    """Adapts the plan and ``found`` to the newest snapshot. If there is a newer snapshot than ``planned_on``, the
    delete is planned again in two cases: with "serializable", or if a file that may have rows to delete is gone.
    Planned files that have not been searched yet are then searched."""
    if state.schema.id != plan.schema_id:
        raise CommitConflict(
            "the table's schema has changed since the delete was planned; run the delete again",
            snapshot_id=state.snapshot_id,
        )
    live = state.by_place
    gone = any(task.place not in live for task in plan.tasks if task.place not in found or found[task.place])
    if state.snapshot_id != plan.planned_on and (gone or isolation == "serializable"):
        plan.again(state)
    missing = [task for task in plan.tasks if task.place not in found]
    found.update(without_gone(find(missing)))
    for task in missing:
        if task.place not in found:
            raise _gone_error(task, state.snapshot_id)


def without_gone(found: Iterable[tuple[FilePlace, DeletionVector | None]]) -> dict[FilePlace, DeletionVector]:
    """Returns the found rows by file, without the files that a compaction and an expiry have deleted. If a file is
    missing in the result, the commit plans the delete again."""
    return {place: vector for place, vector in found if vector is not None}


def _gone_error(task: DeleteTask, snapshot_id: int | None) -> FileGone:
    text = (
        f"the file is missing, although snapshot {snapshot_id} refers to it; if this was the newest snapshot, run the "
        "delete again"
    )
    return FileGone(text, file=task.file.file.path)


def _change(attempt: Attempt, wanted: Mapping[FilePlace, DeletionVector], outcome: _Outcome) -> Change | None:
    live = attempt.state.by_place
    for place, vector in wanted.items():
        if place not in live:
            raise CommitConflict(
                f"data file {place[2]} was compacted or overwritten while the delete ran; run the delete again",
                files=(place[2],),
            )
        rows = live[place].entry.rows
        if int(vector.positions[-1]) >= rows:
            raise ValueOutOfRange(
                f"row {vector.positions[-1]} of {place[2]} cannot be deleted, because the file has only {rows} rows"
            )
    merged = merged_index(attempt, wanted)
    if merged is None:
        return None
    outcome.files, outcome.rows, outcome.size = merged.files, merged.rows, merged.size
    return Change(KIND, index_records=merged.records, new_files=merged.new_files)


def delete_rows(
    table: TableView,
    where: Where,
    *,
    everything: bool,
    isolation: Isolation,
    dry_run: bool,
    given: CommitOptionsByName,
    options: ReadOptions = _AS_READ,
) -> Changed:
    """Implements ``Table.delete``, which describes the arguments. ``options`` say how values and names are compared."""
    if isolation not in ("snapshot", "serializable"):
        raise InvalidQuery(f'isolation must be "snapshot" or "serializable", not {isolation!r}')
    for left in reversed(range(_DRY_RUN_PLANS if dry_run else 1)):
        plan = plan_delete(table, where, everything=everything, given=given, options=options)
        if earlier := plan.committer.earlier(KIND):
            return changed(plan.committer, earlier, KIND, plan.planned_on)
        found = without_gone(_find(plan.committer.options.counted(plan.tasks)))
        gone = [task for task in plan.tasks if task.place not in found]
        if not gone:
            break
        if dry_run and not left:
            raise _gone_error(gone[0], plan.planned_on)
    if dry_run:
        counts = {task.place[2]: _count(task, found[task.place]) for task in plan.tasks}
        names = tuple(name for name, count in counts.items() if count)
        return Changed(None, KIND, {"done": names}, sum(counts.values()), planned_on=plan.planned_on, dry_run=True)
    return commit_delete(
        plan, found, isolation=isolation, find=lambda tasks: _find(plan.committer.options.counted(tasks))
    )


def _count(task: DeleteTask, found: DeletionVector) -> int:
    """The number of found rows that are not deleted yet."""
    deletion = task.file.file.deletion
    if deletion is None or not found:
        return len(found)
    before = deletion.read()
    return len(found | before) - len(before)


def _find(tasks: Iterable[DeleteTask]) -> Iterable[tuple[FilePlace, DeletionVector | None]]:
    for task in tasks:
        with located(file=task.file.file.path):
            yield task.place, task.find()
