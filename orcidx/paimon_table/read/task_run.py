"""Reads one data file in a scan of a table, in any supported format. The file's rows are converted to the table's
schema.

If a part of the predicate has no exact equivalent in the file's types, it is tested after conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

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
from orcidx.pruning.findings import Note
from orcidx.pruning.reasons import Reason
from orcidx.scanner.metrics import ScanMetrics, add_counts
from orcidx.scanner.small_filter import UntestedRows, tested_together
from orcidx.scanner.small_turn import UntestedSize

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
        """The file's rows that the scan returns, in the table's schema. ``waiting``: rows that are not tested yet are
        added to these files, and are not returned."""
        with in_planned_file(self.file):
            self._check_format()
            rows = self.rows.batches(untested=waiting is not None)
            self.metrics.files += 1
            try:
                for batch in rows:
                    if not isinstance(batch, UntestedRows):
                        yield from self._finished(batch)
                    elif waiting is not None:
                        waiting.add(self, batch)
            finally:
                add_counts(self.metrics, self.rows.kept.reads)

    def finished(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Returns rows of the file, or of files with the same mapping, in the table's schema."""
        with in_planned_file(self.file):
            return list(self._finished(batch))

    def count(self, waiting: WaitingFiles) -> int:
        """How many rows of the file match. Rows are read only where metadata and indexes do not prove the number. For
        ``waiting`` see ``batches``."""
        orc = self.whole
        if orc is None:
            return sum(batch.num_rows for batch in self.batches())
        with in_planned_file(self.file):
            found = orc.count(untested=True)
        if isinstance(found, int):
            return found
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
    """Small files whose rows wait to be tested together, in the order of the files. ``options``: the options of the
    scan, which limit the size of a batch."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._files: list[tuple[TaskRun, UntestedRows]] = []
        self._size = UntestedSize.of(options)

    def add(self, run: TaskRun, rows: UntestedRows) -> None:
        """Adds the rows of the next file."""
        self._files.append((run, rows))
        self._size.add(rows)

    @property
    def are_enough(self) -> bool:
        """Whether the rows should be tested now."""
        return self._size.is_full

    def count(self) -> int:
        """The number of matching rows. No file waits afterwards."""
        return sum([tested_together(rows).num_rows for _, rows in self._taken()])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, in the table's schema. No file waits afterwards."""
        for runs, rows in self._taken():
            try:
                batches = runs[0].finished(tested_together(rows))
            except OrcidxError:  # each file is finished separately, so that the error names the right file
                for run, one in zip(runs, rows):
                    yield from run.finished(tested_together([one]))
            else:
                yield from batches

    def _taken(self) -> Iterator[tuple[list[TaskRun], list[UntestedRows]]]:
        """Takes all files. Adjacent files with the same filter are in the same lists. They also have the same
        mapping."""
        files, self._files = self._files, []
        self._size = UntestedSize.of(self._options)
        for _, group in groupby(files, lambda file: file[1].filter):
            runs, rows = zip(*group)
            yield list(runs), list(rows)


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
