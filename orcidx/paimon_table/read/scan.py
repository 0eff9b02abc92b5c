"""``TableScan``: the rows of a planned table, file by file, in the table's current schema.

ORC files go through ``OrcFile.scan`` with all its pruning; parquet files through pyarrow, with the rows that the file
index and the deletion vector leave. What a file cannot be asked in its own words is tested after conversion.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.explain.model import Explanation, FileExplanation, StripeExplanation
from orcidx.fetching.drive import off_loop
from orcidx.options import ReadOptions
from orcidx.paimon.data_types import DataType, arrow_field
from orcidx.paimon.file_index import FileIndex, read_file_index
from orcidx.paimon_table.metadata.schema import FieldMapping, TableSchema, char_lengths, is_carried
from orcidx.paimon_table.read.evolution import convert
from orcidx.paimon_table.read.first_rows import FirstOfTable
from orcidx.paimon_table.read.jvm_instants import moves, put_back
from orcidx.paimon_table.read.parquet_rows import read_parquet
from orcidx.paimon_table.read.plan import FileTask, TablePlan, in_planned_file
from orcidx.paimon_table.read.replanning import Unpinned, asked_again, on_some_snapshot
from orcidx.paimon_table.read.shared_reading import Shared, shared_reading, table_arrow_schema, table_bound
from orcidx.planner.index_evidence import StoredIndex
from orcidx.planner.request import FileJob
from orcidx.predicate import BoundPredicate, Predicate, all_of, bind
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.arrow_stream import ArrowStream, Batches, limited
from orcidx.scanner.batches import join_batches
from orcidx.scanner.file import open_file
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.small_files import SmallRows
from orcidx.scanner.top_rows import SortKey
from orcidx.spellings import counted

__all__ = ["TableBatches", "TableScan", "TaskRun", "matching_rows", "rows_left"]


@dataclass(frozen=True)
class TableScan(ArrowStream):
    """Rows of a table as record batches; made by ``Table.scan``. Holds no open file, and may be iterated many times.

    ``plan`` says which files are read, and why the others are not. With ``top``, the first ``limit`` rows come in that
    order. ``unpinned``: of a scan of no snapshot in particular, for when files of its plan are gone.
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
        """The schema of the batches: the table's own types, timestamps in the unit of their precision."""
        return table_arrow_schema([self.table_schema.by_name[name] for name in self.columns], self.options)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is known before a row is read: evidence that could not be used, and instants that come as stored."""
        return (*self.plan.notes, *_instant_notes(self))

    def restricted(self, bound: Predicate | None) -> TableScan:
        """The same for rows that meet a condition as well."""
        if bound is None:
            return self
        return replace(self, where=bound if self.where is None else all_of(self.where, bound))

    # ------------------------------------------------------------------ rows

    def to_batches(self) -> TableBatches:
        """An iterator over the batches, with ``.metrics`` and ``.notes`` of its own pass and ``.close()``."""
        return TableBatches(self)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Batches; files are read and decoded off the event loop."""
        batches = self.to_batches()
        try:
            while (batch := await off_loop(partial(next, batches, None))) is not None:
                yield batch
        finally:
            await off_loop(batches.close)

    def count_rows(self) -> int:
        """The number of rows; from metadata alone where nothing is asked."""
        total = asked_again(self, _count)
        return total if self.row_limit is None else min(total, self.row_limit)

    def explain(self) -> Explanation:
        """What the scan will read and why it can skip the rest; reads metadata and indexes only."""
        return asked_again(self, _explained)


def _count(scan: TableScan) -> int:
    if scan.where is None:
        return sum(rows_left(task) for task in scan.plan.tasks)
    asked = table_bound(scan.where, scan.table_schema, scan.options).columns
    narrow = (asked[0][0] if asked else scan.table_schema.arrow_schema.names[0],)
    counting = replace(scan, columns=narrow, row_limit=None, top=())
    shared: Shared = {}
    return sum(TaskRun(task, counting, ScanMetrics(), [], shared).count() for task in scan.plan.tasks)


def _explained(scan: TableScan) -> Explanation:
    shared: Shared = {}
    files = [TaskRun(task, scan, ScanMetrics(), [], shared).explain() for task in scan.plan.tasks]
    files += [
        FileExplanation(skipped.file.path, skipped.file.rows, (), (), skipped.reasons) for skipped in scan.plan.skipped
    ]
    if files and (notes := scan.notes):
        files[0] = replace(files[0], notes=(*notes, *files[0].notes))
    return Explanation(None if scan.where is None else repr(scan.where), scan.columns, tuple(files))


def _instant_notes(scan: TableScan) -> list[Note]:
    """Says of TIMESTAMP WITH LOCAL TIME ZONE in ORC files that Paimon's Java moves it by the zone of its JVM."""
    schema = scan.table_schema
    if scan.jvm_zone is not None:
        return []
    asked = [] if scan.where is None else [path[0] for path in table_bound(scan.where, schema, scan.options).columns]
    names = dict.fromkeys([*scan.columns, *asked])
    zoned = [name for name in names if schema.by_name[name].type.has_instants]
    if not zoned or not any(task.moves_instants for task in scan.plan.tasks):
        return []
    text = (
        f"{', '.join(zoned)}: instants as the ORC files have them, right where every JVM that wrote ran in UTC, for "
        "Paimon's Java moves them by its zone unless orc.timestamp-ltz.legacy.type is false; say the zone by jvm_zone="
    )
    return [Note("ORC files", "distrusted", text)]


def rows_left(task: FileTask) -> int:
    """The rows of a file that are not deleted, by the metadata."""
    deletion = task.file.deletion
    if deletion is None:
        return task.file.rows
    if deletion.cardinality is not None:
        return task.file.rows - deletion.cardinality
    with in_planned_file(task.file):
        return task.file.rows - len(deletion.read())


class TableBatches(Batches):
    """One pass over a table: an iterator of record batches. ``metrics`` and ``notes`` grow while it runs.

    ``notes``: indexes that could not be used, and why; their rows were kept.
    """

    def __init__(self, scan: TableScan) -> None:
        self.notes: list[Note] = list(scan.notes)
        metrics = ScanMetrics(files_skipped=len(scan.plan.skipped))
        super().__init__(on_some_snapshot(scan, lambda one: _batches(one, metrics, self.notes), self.notes), metrics)


def _batches(scan: TableScan, metrics: ScanMetrics, notes: list[Note]) -> Generator[pa.RecordBatch, None, None]:
    shared: Shared = {}

    def rows_of(task: FileTask, wanted: TableScan) -> Iterator[pa.RecordBatch]:
        return TaskRun(task, wanted, metrics, notes, shared if wanted is scan else {}).batches()

    if scan.top:
        columns = tuple(dict.fromkeys((*scan.columns, *(key.column for key in scan.top))))
        every = replace(scan, columns=columns)
        first = FirstOfTable(every.schema, scan.top, scan.row_limit or 0, table=scan.table_schema, options=scan.options)
        for task in scan.plan.tasks if scan.row_limit else ():
            for batch in rows_of(task, every.restricted(first.bound())):
                first.add(batch)
        pieces: Iterator[pa.RecordBatch] = iter(first.table().select(list(scan.columns)).to_batches())
    else:
        every_row = (batch for task in scan.plan.tasks for batch in rows_of(task, scan))
        pieces = limited(every_row, scan.row_limit)
    yield from join_batches(pieces, batch_size=scan.options.batch_size, batch_bytes=scan.options.batch_bytes)


class TaskRun:
    """One file during one pass. ``shared``: what the files of the pass have in common that are alike."""

    def __init__(
        self, task: FileTask, scan: TableScan, metrics: ScanMetrics, notes: list[Note], shared: Shared
    ) -> None:
        self.task = task
        self.scan = scan
        self.metrics = metrics
        self.notes = notes
        self.file = task.file
        self.is_orc = self.file.format == "orc"
        self.moved_by = scan.jvm_zone if task.moves_instants and moves(scan.jvm_zone) else None
        alike = id(task.mapping), self.is_orc, self.moved_by  # of one scan; its tasks keep the mappings
        if alike not in shared:
            moved = self.moved_by is not None
            shared[alike] = shared_reading(scan, task.mapping, metrics, is_orc=self.is_orc, instants_moved=moved)
        reading = shared[alike]
        self.where, self.rest = reading.where, reading.rest
        self.entries, self.schema, self.options = reading.entries, reading.schema, reading.options
        self.small = reading.small

    def batches(self) -> Iterator[pa.RecordBatch]:
        with in_planned_file(self.file):
            if self.is_orc:
                rows = self._orc()
            elif self.file.format == "parquet":
                rows = self._parquet()
            else:
                raise Unsupported(f"data files of format {self.file.format!r} are not read; orc and parquet are")
            self.metrics.files += 1
            for batch in rows:
                yield from self._finished(batch)

    # ------------------------------------------------------------------ evidence

    def _kept(self) -> RowSelection:
        """Rows that are not deleted."""
        deletion = self.file.deletion
        return RowSelection.all(self.file.rows) if deletion is None else deletion.read().kept_rows(self.file.rows)

    @contextmanager
    def _index(self) -> Iterator[FileIndex | None]:
        """The file index; None when there is none, or it is damaged: then every row is kept, and a note says so."""
        index = self._open_index()
        try:
            yield index
        finally:
            if index is not None:
                index.close()

    def _open_index(self) -> FileIndex | None:
        source = self.file.embedded_index if self.file.index is None else self.file.index
        if source is None or (self.where.pushed is None and not self.scan.top):
            return None
        if not self.scan.table_schema.is_on("file-index.read.enabled", default=True) or self._asks_instants():
            return None
        types = self.types_in_file
        strict = self.scan.options.strict_index
        try:
            return read_file_index(source, types=types, strict=strict, rows=self.file.rows)
        except (CorruptFile, Unsupported, FileNotFoundError) as error:
            if strict:
                raise
            missing = isinstance(error, FileNotFoundError)
            self.notes.append(Note("file index", "absent" if missing else "damaged", f"{self.file.path}: {error}"))
            return None

    @property
    def types_in_file(self) -> dict[str, DataType]:
        """The types of the file's columns, by its names."""
        return {entry.file_field.name: entry.file_field.type for entry in self.task.mapping if entry.file_field}

    def _asks_instants(self) -> bool:
        """Whether the index has other instants than the file: those of before its writer's JVM moved them."""
        schema = self.scan.table_schema
        if not self.task.moves_instants or self.scan.jvm_zone == "UTC":
            return False
        if any(schema.by_name[key.column].type.has_instants for key in self.scan.top):
            return True
        if self.where.pushed is None:
            return False
        return any(
            self.types_in_file[path[0]].has_instants for path in self._bound_in_file(self.where.pushed, None).columns
        )

    def _selected(self, index: FileIndex | None) -> RowSelection:
        """Rows that are not deleted; with ``top``, of those only rows that can be among the first."""
        kept = self._kept()
        limit = self.scan.row_limit
        if index is None or not self.scan.top or limit is None or self.rest is not None:
            return kept
        if self.where.pushed is not None:
            verdict = index.evaluate(self.where.pushed, nan=self.scan.options.nan)
            if verdict.rows is None or not verdict.exact:
                return kept
            kept = kept & RowSelection.from_bitmap(verdict.rows, self.file.rows)
        return self._first(index, kept, limit)

    def _first(self, index: FileIndex, kept: RowSelection, k: int) -> RowSelection:
        """By the range-bitmap of the first sort key, all that tie for the last place included."""
        key = self.scan.top[0]
        entry = next(entry for entry in self.task.mapping if entry.field.name == key.column)
        if entry.file_field is None or not entry.is_same or kept.count <= k or entry.field.type.root == "CHAR":
            return kept  # the index orders a CHAR with the blanks that it was given with
        verdict = index.top_k(
            entry.file_field.name,
            k,
            descending=key.descending,
            nulls_first=key.nulls_first,
            selection=kept,
            strict=False,
        )
        return kept if verdict.rows is None else RowSelection.from_bitmap(verdict.rows, self.file.rows) & kept

    # ------------------------------------------------------------------ reading

    def count(self) -> int:
        """Rows of the file that match; from metadata and indexes where they prove it."""
        if self.is_orc and self.rest is None:
            with in_planned_file(self.file), self.orc_scan() as scan:
                return scan.count_rows()
        return sum(batch.num_rows for batch in self.batches())

    def explain(self) -> FileExplanation:
        """What is read of the file, and why the rest is not; of a parquet file only how many rows."""
        with in_planned_file(self.file):
            if self.is_orc:
                with self.orc_scan() as scan:
                    found = scan.explain().files[0]
            else:
                rows = self._parquet_rows()
                only = StripeExplanation(0, 0, self.file.rows, rows.count, self.file.size, self.file.size, ())
                found = FileExplanation(self.file.path, self.file.rows, (only,))
            return replace(found, notes=(*self.notes, *found.notes))

    def _orc(self) -> Iterator[pa.RecordBatch]:
        small = self._small()
        if small is not None:
            yield from small.batches
            return
        with self.orc_scan() as scan, scan.to_batches() as batches:
            try:
                yield from batches
            finally:
                _add(self.metrics, batches.metrics)

    def _small(self) -> SmallRows | None:
        """All that a small file has to give, where it need not be opened for that."""
        indexed = self.file.embedded_index is not None or self.file.index is not None
        if self.small is None or self.file.deletion is not None or (indexed and self.where.pushed is not None):
            return None
        skipped = self.metrics.files_skipped
        found = self.small.take(FileJob(self.file.source))
        self.metrics.files_skipped = skipped  # of a table those that its plan leaves out
        if found is not None:
            self._check_rows(found.stored)
        return found

    def _check_rows(self, stored: int) -> None:
        if stored != self.file.rows:
            raise CorruptFile(f"has {stored} rows, where the manifest says {self.file.rows}")

    @contextmanager
    def orc_scan(self, row_numbers: str | None = None, *, indexed: bool = False) -> Iterator[Scan]:
        """The scan of an ORC file in its own names, with its file index open as long as it may be asked.

        ``row_numbers``: a column of this name with the rows' places; ``indexed``: the file index may be asked though
        there is no predicate."""
        with self._index() as index, open_file(self.file.source, options=self.options) as opened:
            self._check_rows(opened.num_rows)
            wanted = [entry.file_field.name for entry in self.entries if entry.file_field is not None]
            names = [(name,) for name in dict.fromkeys(wanted)]
            deleted = None if self.file.deletion is None else self.file.deletion.read()
            top = self._selected(index) if self.scan.top else None
            pushed = self.where.pushed
            numbers = row_numbers or False
            asked = _unopened_index(self) if indexed and index is None else index
            yield opened.scan(
                names, pushed, selection=top, deletion_vector=deleted, file_index=asked, row_numbers=numbers
            )

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        for batch, truth in self._parquet_tested(self._parquet_rows()):
            yield batch if truth is None else batch.filter(pa.array(truth))

    def _parquet_tested(self, selection: RowSelection) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.bool_] | None]]:
        """Batches of the selected rows, and for which of them the pushed predicate is true; None: for all."""
        if selection.is_empty:
            return
        pushed = self.where.pushed
        asked = [] if pushed is None else [path[0] for path in self._bound_in_file(pushed, None).columns]
        names = [entry.file_field.name for entry in self.entries if entry.file_field is not None]
        columns = list(dict.fromkeys([*names, *asked]))
        for batch in read_parquet(self.file.source, columns, selection, batch_size=self.scan.options.batch_size):
            self.metrics.rows_considered += batch.num_rows
            yield batch, None if pushed is None else self._bound_in_file(pushed, batch.schema).evaluate(batch)

    def _parquet_rows(self) -> RowSelection:
        """What deletion vector and file index leave."""
        with self._index() as index:
            rows = self._selected(index)
            if index is None or self.where.pushed is None:
                return rows
            verdict = index.evaluate(self.where.pushed, nan=self.scan.options.nan)
            self.notes.extend(Note("file index", "damaged", f"{self.file.path}: {text}") for text in index.notes)
            return rows if verdict.rows is None else rows & RowSelection.from_bitmap(verdict.rows, self.file.rows)

    def _bound_in_file(self, pushed: Predicate, schema: pa.Schema | None) -> BoundPredicate:
        """The predicate bound to the file's own columns, in the types that were read."""
        fields = [entry.file_field for entry in self.task.mapping if entry.file_field is not None]
        if schema is None:
            schema = pa.schema([arrow_field(field) for field in fields if is_carried(field.type)])
        return bind(pushed, schema, nan=self.scan.options.nan, char_lengths=char_lengths(fields))

    # ------------------------------------------------------------------ places of rows

    def places(self) -> Iterator[npt.NDArray[np.int64]]:
        """Places in the file of the rows that the scan gives. Each row is tested itself: an index or statistics that
        are wrong can keep a row from being found, and cannot make one match. The test is the scan's own, which sees
        the values as they are stored; those that a scan without columns hands out may be coarser."""
        with in_planned_file(self.file):
            if not self.is_orc and self.file.format != "parquet":
                raise Unsupported(f"data files of format {self.file.format!r} are not read; orc and parquet are")
            for batch, rows in self._orc_places() if self.is_orc else self._parquet_places():
                if self.rest is not None:
                    rows = rows[self.rest.evaluate(_converted(batch, self.entries, self.schema, self.moved_by))]
                yield rows

    def _orc_places(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        names = {entry.file_field.name for entry in self.task.mapping if entry.file_field is not None}
        numbers = "row_number"
        while numbers in names:
            numbers += "_"
        with self.orc_scan(numbers) as scan:
            tested = replace(scan, request=replace(scan.request, tests_each=True))
            with tested.to_batches() as batches:
                for batch in batches:
                    places = batch.column(numbers).to_numpy(zero_copy_only=False)
                    yield batch.drop_columns([numbers]), places

    def _parquet_places(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        selection = self._parquet_rows()
        places, at = selection.positions(), 0
        for batch, truth in self._parquet_tested(selection):
            rows = places[at : at + batch.num_rows]
            at += batch.num_rows
            yield (batch, rows) if truth is None else (batch.filter(pa.array(truth)), rows[truth])

    def _finished(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """In the table's schema, without what the rest of the predicate denies."""
        batch = _converted(batch, self.entries, self.schema, self.moved_by)
        if self.rest is not None:
            batch = batch.filter(pa.array(self.rest.evaluate(batch)))
        if batch.num_rows:
            yield batch.select(list(self.scan.columns))


def _unopened_index(run: TaskRun) -> StoredIndex | None:
    """The file index of a scan without a predicate, to be opened only where something is asked of it."""
    source = run.file.embedded_index if run.file.index is None else run.file.index
    is_on = run.scan.table_schema.is_on("file-index.read.enabled", default=True)
    if source is None or run.where.pushed is not None or not is_on:
        return None
    return StoredIndex(source, None, {name: str(kind) for name, kind in run.types_in_file.items()})


def _converted(
    batch: pa.RecordBatch, entries: Sequence[FieldMapping], schema: pa.Schema, moved_by: str | None
) -> pa.RecordBatch:
    """The wanted columns, in the table's types. ``moved_by``: the zone of the JVM that moved the file's instants."""
    arrays = []
    for entry, wanted in zip(entries, schema):
        if entry.file_field is None:
            arrays.append(pa.nulls(batch.num_rows, wanted.type))
        else:
            with located(column=entry.field.name):
                array = batch.column(entry.file_field.name)
                if moved_by is not None and entry.file_field.type.has_instants:
                    array = put_back(array, moved_by)
                try:
                    arrays.append(convert(array, entry.file_field.type, entry.field.type, wanted.type))
                except pa.ArrowNotImplementedError:
                    expected = entry.file_field.type
                    raise CorruptFile(f"the file has {array.type}, where its schema says {expected}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def matching_rows(task: FileTask, scan: TableScan) -> Iterator[npt.NDArray[np.int64]]:
    """Places in the file of the rows for which the scan's predicate is true, deleted ones too, in ascending pieces."""
    bare = replace(task, file=replace(task.file, deletion=None))
    return TaskRun(bare, replace(scan, columns=(), row_limit=None, top=()), ScanMetrics(), [], {}).places()


def _add(total: ScanMetrics, part: ScanMetrics) -> None:
    """What one file cost; files and returned rows are counted by the table's pass itself."""
    for name in ("requests", "bytes_read", "stripes", "stripes_skipped", "row_groups", "row_groups_kept"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for name in ("chunks_decompressed", "bytes_decompressed", "rows_considered"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for stage, seconds in part.seconds.items():
        total.seconds[stage] = total.seconds.get(stage, 0.0) + seconds
