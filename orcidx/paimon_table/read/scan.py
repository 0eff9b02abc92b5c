"""``TableScan``: the rows of a planned table, file by file, in the table's current schema.

``OrcFile.scan`` reads ORC files with all its pruning. pyarrow reads Parquet files, but only the rows that the file
index and the deletion vector do not exclude.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.explain.explanation import Explanation
from orcidx.fetching.drive import off_loop
from orcidx.options import ReadOptions
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.first_rows import FirstOfTable
from orcidx.paimon_table.read.plan import FileTask, TablePlan, in_planned_file
from orcidx.paimon_table.read.replanning import Unpinned, on_some_snapshot, retried_on_newest
from orcidx.paimon_table.read.shared_reading import Shared, table_arrow_schema, table_bound
from orcidx.paimon_table.read.task_run import TaskRun, WaitingFiles, unopened_file
from orcidx.planner.request import ScanRequest
from orcidx.predicate import Predicate, all_of
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import UNASKED
from orcidx.scanner.arrow_stream import ArrowStream, Batches, limited
from orcidx.scanner.batches import join_batches
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.row_limit import limit_note
from orcidx.scanner.top_rows import SortKey
from orcidx.scanner.top_scan import top_note
from orcidx.spellings import counted

if TYPE_CHECKING:
    from orcidx.explain.model import FileExplanation

__all__ = ["TableBatches", "TableScan", "matching_rows", "rows_left"]


@dataclass(frozen=True)
class TableScan(ArrowStream):
    """The rows of a table as record batches. ``Table.scan`` returns this object. A scan holds no open file, and can be
    iterated many times.

    ``plan`` says which files are read, and why the other files are skipped. ``top`` is a sort order. If ``top`` is
    given, the scan returns the first ``limit`` rows in this order. ``unpinned``: the data for planning the scan again
    when files are gone. ``unpinned`` is None if the scan is bound to a snapshot.
    """

    plan: TablePlan
    table_schema: TableSchema
    columns: tuple[str, ...]
    where: Predicate | None
    options: ReadOptions
    row_limit: int | None = None
    top: tuple[SortKey, ...] = ()
    jvm_zone: str | None = None
    unpinned: Unpinned | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        where = "" if self.where is None else f", where {self.where!r:.200}"
        return f"<TableScan of {counted(len(self.plan.tasks), 'file')}, columns {', '.join(self.columns):.200}{where}>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches. It has the table's types. The unit of a timestamp follows from its precision."""
        return table_arrow_schema([self.table_schema.by_name[name] for name in self.columns], self.options)

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes that are known before rows are read. The notes name statistics that could not be used, options and
        fields that orcidx does not know, and instants that are returned as stored."""
        return (*self.plan.notes, *_instant_notes(self))

    def restricted(self, bound: Predicate | None) -> TableScan:
        """The same scan with one more condition."""
        if bound is None:
            return self
        return replace(self, where=bound if self.where is None else all_of(self.where, bound))

    # ------------------------------------------------------------------ rows

    def to_batches(self) -> TableBatches:
        """An iterator over the batches. Each call reads the rows again. The iterator has ``close()``, and its own
        ``metrics`` and ``notes``."""
        return TableBatches(self)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Iterates over the batches. Files are read and decoded outside of the event loop."""
        batches = self.to_batches()
        try:
            while (batch := await off_loop(partial(next, batches, None))) is not None:
                yield batch
        finally:
            await off_loop(batches.close)

    def count_rows(self) -> int:
        """The number of rows. Without a condition only metadata is read."""
        total = retried_on_newest(self, _count)
        return total if self.row_limit is None else min(total, self.row_limit)

    def explain(self) -> Explanation:
        """Explains what the scan will read, and why it can skip the rest. Reads only metadata and indexes."""
        return retried_on_newest(self, _explained)


def _count(scan: TableScan) -> int:
    if scan.where is None:
        return sum(rows_left(task) for task in scan.plan.tasks)
    asked = table_bound(scan.where, scan.table_schema, scan.options).columns
    narrow = (asked[0][0] if asked else scan.table_schema.arrow_schema.names[0],)
    counting = replace(_without_views(scan), columns=narrow, row_limit=None, top=())
    shared: Shared = {}
    total = 0
    with closing(WaitingFiles(scan.plan.tasks, scan.options)) as waiting:
        for task in scan.plan.tasks:
            total += TaskRun(task, counting, ScanMetrics(), [], shared).count(waiting)
            total += waiting.count()
        return total + waiting.count(rest=True)


def _explained(scan: TableScan) -> Explanation:
    shared: Shared = {}
    files: list[FileExplanation] = []
    taken: list[int] = []
    for task, wanted in _tasks_in_turn(_with_keys(scan), taken):
        files.append(TaskRun(task, wanted, ScanMetrics(), [], shared).explain())
        taken.append(files[-1].kept_rows)
    files += [unopened_file(task.file, (UNASKED,)) for task in scan.plan.tasks[len(files) :]]
    files += [unopened_file(skipped.file, skipped.reasons) for skipped in scan.plan.skipped]
    notes = scan.notes
    if scan.row_limit is not None:
        request = ScanRequest(where=scan.where)
        note = top_note(scan.top, scan.row_limit) if scan.top else limit_note(scan.row_limit, request)
        notes = (note, *notes)
    if files and notes:
        files[0] = replace(files[0], notes=(*notes, *files[0].notes))
    return Explanation(
        None if scan.where is None else repr(scan.where), scan.columns, tuple(files), unlisted=scan.plan.unlisted
    )


def _tasks_in_turn(scan: TableScan, taken: Sequence[int]) -> Iterator[tuple[FileTask, TableScan]]:
    """Yields the files that the scan reads, each with the scan of its rows. If there is a limit and no condition, the
    scan of a file has the number of rows that are left as its limit. Files after the limit are not yielded. The caller
    adds the numbers of rows that it took from a file to ``taken``."""
    if scan.row_limit is None or scan.where is not None or scan.top:
        yield from ((task, scan) for task in scan.plan.tasks)
        return
    for task in scan.plan.tasks:
        left = scan.row_limit - sum(taken)
        if left <= 0:
            return
        yield task, replace(scan, row_limit=left)


def _instant_notes(scan: TableScan) -> list[Note]:
    """A note that Paimon's Java shifts TIMESTAMP WITH LOCAL TIME ZONE in ORC files by the zone of its JVM. The result
    is empty if the scan does not use such values, or if ``jvm_zone`` was given."""
    schema = scan.table_schema
    if scan.jvm_zone is not None:
        return []
    asked = [] if scan.where is None else [path[0] for path in table_bound(scan.where, schema, scan.options).columns]
    names = dict.fromkeys([*scan.columns, *asked])
    zoned = [name for name in names if schema.by_name[name].type.has_instants]
    if not zoned or not any(task.moves_instants for task in scan.plan.tasks):
        return []
    text = (
        f"{', '.join(zoned)}: the instants are returned as they are in the ORC files. They are right if every JVM that "
        "wrote them ran in UTC, because Paimon's Java shifts them by its zone unless orc.timestamp-ltz.legacy.type is "
        "false. Otherwise give the zone by jvm_zone="
    )
    return [Note("ORC files", "distrusted", text)]


def rows_left(task: FileTask) -> int:
    """The number of rows in a file, without deleted rows. It is computed from metadata."""
    deletion = task.file.deletion
    if deletion is None:
        return task.file.rows
    if deletion.cardinality is not None:
        return task.file.rows - deletion.cardinality
    with in_planned_file(task.file):
        return task.file.rows - len(deletion.read())


class TableBatches(Batches):
    """An iterator over the record batches of a table. ``metrics`` and ``notes`` are updated while batches are read.

    ``notes``: indexes that could not be used, and why. No row was skipped by such an index.
    """

    def __init__(self, scan: TableScan) -> None:
        self.notes: list[Note] = list(scan.notes)
        metrics = ScanMetrics(files_skipped=len(scan.plan.skipped))
        super().__init__(on_some_snapshot(scan, lambda one: _batches(one, metrics, self.notes), self.notes), metrics)


def _without_views(scan: TableScan) -> TableScan:
    """The same scan with plain strings, because pyarrow cannot filter, sort or take string views."""
    return replace(scan, options=scan.options.override(strings="string")) if scan.options.strings == "view" else scan


def _batches(scan: TableScan, metrics: ScanMetrics, notes: list[Note]) -> Generator[pa.RecordBatch, None, None]:
    with closing(_plain_batches(_without_views(scan), metrics, notes)) as batches:
        if scan.options.strings != "view":
            yield from batches
            return
        schema = scan.schema
        for batch in batches:
            arrays = [array.cast(kind) for array, kind in zip(batch.columns, schema.types)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain_batches(scan: TableScan, metrics: ScanMetrics, notes: list[Note]) -> Generator[pa.RecordBatch, None, None]:
    if scan.top:
        every = _with_keys(scan)
        first = FirstOfTable(every.schema, scan.top, scan.row_limit or 0, table=scan.table_schema, options=scan.options)
        for task in scan.plan.tasks if scan.row_limit else ():
            for batch in TaskRun(task, every.restricted(first.bound()), metrics, notes, {}).batches():
                first.add(batch)
        pieces: Iterator[pa.RecordBatch] = iter(first.table().select(list(scan.columns)).to_batches())
    else:
        pieces = limited(_rows_in_turn(scan, metrics, notes), scan.row_limit)
    yield from join_batches(pieces, batch_size=scan.options.batch_size, batch_bytes=scan.options.batch_bytes)


def _with_keys(scan: TableScan) -> TableScan:
    """The scan with the columns that it reads: the wanted columns and the sort keys."""
    return replace(scan, columns=tuple(dict.fromkeys((*scan.columns, *(key.column for key in scan.top)))))


def _rows_in_turn(scan: TableScan, metrics: ScanMetrics, notes: list[Note]) -> Iterator[pa.RecordBatch]:
    shared: Shared = {}
    taken: list[int] = []
    waiting = WaitingFiles(scan.plan.tasks, scan.options)
    together = waiting if scan.row_limit is None else None  # with a limit, later files may not be needed
    try:
        for task, wanted in _tasks_in_turn(scan, taken):
            taken.append(0)
            for batch in TaskRun(task, wanted, metrics, notes, shared).batches(together):
                yield from waiting.batches(rest=True)  # rows of earlier files
                yield batch
                taken[-1] += batch.num_rows
            yield from waiting.batches()
        yield from waiting.batches(rest=True)
    except Exception:
        yield from waiting.batches(rest=True)
        raise
    finally:
        waiting.close()


def matching_rows(task: FileTask, scan: TableScan) -> Iterator[npt.NDArray[np.int64]]:
    """Yields the positions of the rows for which the scan's predicate is true, including deleted rows. The positions
    count from the start of the file. They are yielded in arrays, in ascending order."""
    bare = replace(task, file=replace(task.file, deletion=None))
    return TaskRun(bare, replace(scan, columns=(), row_limit=None, top=()), ScanMetrics(), [], {}).places()
