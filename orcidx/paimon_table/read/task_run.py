"""Reads one data file in a scan of a table, in any supported format. The file's rows are converted to the table's
schema.

If a part of the predicate has no exact equivalent in the file's types, it is tested after conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, OrcidxError, Unsupported, located
from orcidx.explain.model import FileExplanation
from orcidx.options import ReadOptions
from orcidx.paimon_table.metadata.schema import FieldMapping
from orcidx.paimon_table.read.char_values import in_char_form
from orcidx.paimon_table.read.evolution import in_table_type
from orcidx.paimon_table.read.file_rows import FileRows
from orcidx.paimon_table.read.jvm_instants import moves, put_back
from orcidx.paimon_table.read.orc_rows import OrcRows
from orcidx.paimon_table.read.parquet_rows import ParquetRows
from orcidx.paimon_table.read.plan import FileTask, TableFile, in_planned_file
from orcidx.paimon_table.read.row_evidence import RowEvidence
from orcidx.paimon_table.read.shared_reading import ScanFacts, Shared, shared_reading
from orcidx.planner.request import FileJob
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason
from orcidx.scanner.jobs_left import JobsLeft
from orcidx.scanner.metrics import ScanMetrics, add_counts
from orcidx.scanner.small_files import SmallFiles
from orcidx.scanner.small_groups import LANES, SmallGroups, WaitingFile

__all__ = ["TaskRun", "WaitingFiles", "unopened_file"]


class TaskRun:
    """Reads one file for a scan. ``shared``: values that files of the same schema share while the scan is read."""

    def __init__(
        self, task: FileTask, scan: ScanFacts, metrics: ScanMetrics, notes: list[Note], shared: Shared
    ) -> None:
        self.task = task
        self.file = task.file
        self.columns = scan.columns
        self.metrics = metrics
        self.notes = notes
        self._is_counted = False
        is_orc = self.file.format == "orc"
        self.moved_by = scan.jvm_zone if task.moves_instants and moves(scan.jvm_zone) else None
        # The scan's tasks keep all mappings alive, so within one scan each mapping has its own id. The key is not used
        # outside of the scan.
        alike = id(task.mapping), is_orc, self.moved_by
        if alike not in shared:
            moved = self.moved_by is not None
            shared[alike] = shared_reading(scan, task.mapping, metrics, is_orc=is_orc, instants_moved=moved)
        self.reading = shared[alike]
        kept = RowEvidence(task, scan, self.reading, notes)
        self.rows: FileRows = (OrcRows if is_orc else ParquetRows)(kept, self.reading, metrics)

    @property
    def whole(self) -> OrcRows | None:
        """The file's rows, if the file is an ORC file and the whole predicate can be pushed to the file. Otherwise the
        result is None."""
        return self.rows if isinstance(self.rows, OrcRows) and self.reading.rest is None else None

    def batches(self, waiting: WaitingFiles | None = None) -> Iterator[pa.RecordBatch]:
        """The file's rows that the scan returns, in the table's schema. ``waiting``: if the file's rows can be decoded
        together with those of other files, it is added to these files, and no rows are returned."""
        with in_planned_file(self.file):
            self._check_format()
            rows = self.rows.batches(together=waiting is not None and waiting.take_files)
            self.metrics.files += not self._is_counted
            self._is_counted = True
            try:
                for batch in rows:
                    if not isinstance(batch, WaitingFile):
                        yield from self._finished(batch)
                    elif waiting is not None:
                        waiting.add(self, batch)
            finally:
                add_counts(self.metrics, self.rows.kept.reads)

    def finished(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Returns rows of the file, or of files with the same mapping, in the table's schema."""
        with in_planned_file(self.file):
            return list(self._finished(batch))

    def count(self, waiting: WaitingFiles | None = None) -> int:
        """How many rows of the file match. Rows are read only where metadata and indexes do not prove the number. For
        ``waiting`` see ``batches``."""
        orc = self.whole
        if orc is None:
            return sum(batch.num_rows for batch in self.batches())
        with in_planned_file(self.file):
            found = orc.count(together=waiting is not None and waiting.take_files)
        if isinstance(found, int):
            return found
        assert waiting is not None
        waiting.add(self, found)
        return 0

    def explain(self) -> FileExplanation:
        """Explains which parts of the file are read, and why the other parts are not read. For a Parquet file, only the
        numbers of rows and bytes are explained."""
        with in_planned_file(self.file):
            found = self.rows.explain()
            reads = self.rows.kept.reads.bytes_read
            indexes, size = found.index_bytes + reads, found.read_bytes + reads
            return replace(found, notes=(*self.notes, *found.notes), index_bytes=indexes, read_bytes=size)

    def places(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the positions in the file of the rows that the scan returns. The predicate is tested on each of these
        rows. So a wrong index or wrong statistics can hide a matching row, but cannot add a row that does not match.
        Like the scan, this method tests the stored values. The values that a scan returns may be coarser."""
        reading = self.reading
        with in_planned_file(self.file):
            self._check_format()
            for batch, rows in self.rows.places():
                if reading.rest is not None:
                    converted = _converted(batch, reading.entries, reading.schema, self.moved_by)
                    rows = rows[reading.rest.evaluate(converted)]
                yield rows

    def _check_format(self) -> None:
        if self.file.format not in ("orc", "parquet"):
            raise Unsupported(
                f"data files of format {self.file.format!r} are not supported; only orc and parquet are supported"
            )

    def _finished(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows in the table's schema, without the rows for which the rest of the predicate is not true."""
        reading = self.reading
        batch = _converted(batch, reading.entries, reading.schema, self.moved_by)
        if reading.rest is not None:
            batch = batch.filter(pa.array(reading.rest.evaluate(batch)))
        if batch.num_rows:
            types = {entry.field.name: entry.field.type for entry in reading.entries}
            yield in_char_form(batch.select(list(self.columns)), types, reading.options.char)


class WaitingFiles:
    """Small files whose rows wait to be decoded together, in the order of the files. ``tasks``: all files of the scan.
    ``options``: the options of the scan."""

    def __init__(self, tasks: Sequence[FileTask], options: ReadOptions) -> None:
        self._tasks = tasks
        self._readers: list[SmallFiles] = []
        """The readers that read files ahead."""
        self._groups: SmallGroups[TaskRun] = SmallGroups(use_threads=options.use_threads)
        self._alone = False
        """Whether a group could not be decoded. Later files do not wait."""
        self._has_returned = False

    @property
    def take_files(self) -> bool:
        """Whether files may be added."""
        return not self._alone

    def add(self, run: TaskRun, file: WaitingFile) -> None:
        """Adds the next file. Threads decode a group, and read the next files, while files are added to the next
        group."""
        if run.reading.small not in self._readers:
            self._read_ahead(run)
        if not self._groups.has_room_for(file):
            self._groups.start()
        self._groups.current.add(run, file)
        if self._groups.current.is_full:
            self._groups.start()

    def _read_ahead(self, run: TaskRun) -> None:
        """Lets threads read the files after this one that have the same mapping."""
        small, mapping = run.reading.small, run.task.mapping
        if small is None:
            return
        self._readers.append(small)
        later = dropwhile(lambda task: task is not run.task, self._tasks)
        next(later, None)
        jobs = (FileJob(task.file.source) for task in later if task.mapping is mapping and task.file.deletion is None)
        small.reads.read_ahead(JobsLeft(jobs), self._groups.queue)

    def count(self, *, rest: bool = False) -> int:
        """The number of matching rows of all groups that were started, except the last ones, which threads decode while
        more files are added. ``rest``: the number for all files."""
        return sum([_counted(*found) for found in self._taken(rest=rest)])

    def batches(self, *, rest: bool = False) -> Iterator[pa.RecordBatch]:
        """The matching rows, in the table's schema. For the files and ``rest`` see ``count``."""
        for runs, batch in self._taken(rest=rest):
            try:
                batches = None if batch is None else runs[0].finished(batch)
            except OrcidxError:
                batches = None
            if batches is None:
                # Each file is read alone, so that the rows of earlier files are returned, and an error names its file.
                try:
                    for run in runs:
                        yield from run.batches()
                except Exception:
                    self._groups.drop()  # the rows of later files must not be returned
                    raise
            else:
                yield from batches

    def _taken(self, *, rest: bool) -> Iterator[tuple[list[TaskRun], pa.RecordBatch | None]]:
        """Takes groups of files with their matching rows. The rows are None if a file cannot be decoded in this way.
        All files of a group have the same mapping."""
        groups = self._groups
        if rest:
            groups.start()
        while len(groups.started) > (LANES - 1 if self._has_returned and not rest else 0):
            self._has_returned = True
            group, batch = groups.take()
            self._alone = self._alone or batch is None
            yield group.owners, batch

    def close(self) -> None:
        """Waits for the threads that read and decode."""
        self._groups.close()
        for one in self._readers:
            one.reads.close()


def _counted(runs: Sequence[TaskRun], batch: pa.RecordBatch | None) -> int:
    return sum([run.count() for run in runs]) if batch is None else batch.num_rows


def unopened_file(file: TableFile, reasons: tuple[Reason, ...]) -> FileExplanation:
    """The explanation of a file that the scan does not open. ``reasons``: why it is not opened."""
    return FileExplanation(file.path, file.rows, (), reasons=reasons, size=file.size, opened=False)


def _converted(
    batch: pa.RecordBatch, entries: Sequence[FieldMapping], schema: pa.Schema, moved_by: str | None
) -> pa.RecordBatch:
    """The wanted columns in the table's types. ``moved_by``: the zone of the JVM that shifted the file's instants."""
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
                    arrays.append(in_table_type(array, entry.file_field.type, entry.field.type, wanted.type))
                except pa.ArrowNotImplementedError:
                    expected = entry.file_field.type
                    raise CorruptFile(
                        f"the column has the type {array.type} in the file, but the schema of the file says {expected}"
                    ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch
