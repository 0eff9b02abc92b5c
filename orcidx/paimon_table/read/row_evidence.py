"""The rows of a data file, without the rows that the file's deletion vector and file index exclude."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.data_types import DataType, arrow_field_of
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.paimon.file_index import FileIndex, read_file_index
from orcidx.paimon_table.metadata.schema import char_lengths, is_convertible
from orcidx.paimon_table.read.plan import FileTask
from orcidx.paimon_table.read.shared_reading import ScanFacts, SharedReading, reads_other_values
from orcidx.planner.index_evidence import StoredIndex
from orcidx.predicate import BoundPredicate, Predicate, bind
from orcidx.pruning.findings import Note
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.storage import Source

__all__ = ["RowEvidence"]


class RowEvidence:
    """Finds out which rows of one file a scan must read. It uses the file's deletion vector and its file index.
    Problems with the file index are added to ``notes``."""

    def __init__(self, task: FileTask, scan: ScanFacts, reading: SharedReading, notes: list[Note]) -> None:
        self.task = task
        self.file = task.file
        self.scan = scan
        self.pushed = reading.where.pushed
        self.whole = reading.rest is None
        self.notes = notes
        self.limit = None if scan.where is not None or scan.top else scan.row_limit
        """The largest number of rows that are read from the file. None means no limit: with a condition or an order,
        all rows may be needed."""
        self.reads = ScanMetrics()
        """The requests and bytes of reading the file index and the deletion vector so far."""

    def deleted(self) -> DeletionVector | None:
        """The deletion vector of the file, if it has one."""
        deletion = self.file.deletion
        return None if deletion is None else deletion.read(partial(add_reads, self.reads))

    def _kept(self) -> RowSelection:
        """Rows that are not deleted."""
        deleted = self.deleted()
        return RowSelection.all(self.file.rows) if deleted is None else deleted.kept_rows(self.file.rows)

    @contextmanager
    def index(self) -> Iterator[FileIndex | None]:
        """The file index. The result is None if there is no index, or if the index is damaged. In both cases every row
        is kept. A note reports a damaged index."""
        index = self._open_index()
        try:
            yield index
        finally:
            if index is not None:
                if index.reads is not None:
                    add_reads(self.reads, index.reads)
                index.close()

    def _index_source(self) -> bytes | Source | None:
        """The file index. The result is None if there is no index, or if an option of the table turns indexes off."""
        source = self.file.embedded_index if self.file.index is None else self.file.index
        is_on = source is not None and self.scan.table_schema.is_on("file-index.read.enabled", default=True)
        return source if is_on else None

    def _open_index(self) -> FileIndex | None:
        source = self._index_source()
        if source is None or (self.pushed is None and not self.scan.top) or self._compares_shifted_instants():
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
        """The types of the file's columns, by their names in the file."""
        return {entry.file_field.name: entry.file_field.type for entry in self.task.mapping if entry.file_field}

    def _compares_shifted_instants(self) -> bool:
        """Whether the scan compares instants that are not the same in the file and in its index. The index was built
        before the writer's JVM shifted the instants."""
        schema = self.scan.table_schema
        if not self.task.moves_instants or self.scan.jvm_zone == "UTC":
            return False
        if any(schema.by_name[key.column].type.has_instants for key in self.scan.top):
            return True
        if self.pushed is None:
            return False
        return any(self.types_in_file[path[0]].has_instants for path in self.bound(self.pushed).columns)

    def among(self, index: FileIndex | None) -> RowSelection:
        """The rows that are not deleted. With ``top``, only the rows that can be among the first rows."""
        kept = self._kept()
        limit = self.scan.row_limit
        if index is None or not self.scan.top or limit is None or not self.whole:
            return kept
        if any(reads_other_values(kind, self.scan.options) for kind in self.types_in_file.values()):
            return kept
        if self.pushed is not None:
            verdict = index.evaluate(self.pushed, nan=self.scan.options.nan)
            if verdict.rows is None or not verdict.exact:
                return kept
            kept = kept & RowSelection.from_bitmap(verdict.rows, self.file.rows)
        return self._first_by_index(index, kept, limit)

    def _first_by_index(self, index: FileIndex, kept: RowSelection, k: int) -> RowSelection:
        """The first ``k`` rows according to the range-bitmap of the first sort key, and all further rows with the same
        key as the last of these rows."""
        key = self.scan.top[0]
        entry = next(entry for entry in self.task.mapping if entry.field.name == key.column)
        if entry.file_field is None or not entry.is_same or kept.count <= k:
            return kept
        # The index orders CHAR values with their trailing blanks, and -0.0 before 0.0. A sort treats such values as
        # equal, so the index could choose other rows.
        if entry.field.type.root in ("CHAR", "FLOAT", "DOUBLE"):
            return kept
        verdict = index.top_k(
            entry.file_field.name,
            k,
            descending=key.descending,
            nulls_first=key.nulls_first,
            selection=kept,
            strict=False,
        )
        return kept if verdict.rows is None else RowSelection.from_bitmap(verdict.rows, self.file.rows) & kept

    def rows(self) -> RowSelection:
        """The rows that are not deleted, up to the limit. Rows are also left out if the file index proves that they do
        not satisfy the predicate."""
        with self.index() as index:
            rows = self.among(index)
            rows = rows if self.limit is None else rows.limit(self.limit)
            if index is None or self.pushed is None:
                return rows
            verdict = index.evaluate(self.pushed, nan=self.scan.options.nan)
            self.notes.extend(Note("file index", "damaged", f"{self.file.path}: {text}") for text in index.notes)
            return rows if verdict.rows is None else rows & RowSelection.from_bitmap(verdict.rows, self.file.rows)

    def bound(self, pushed: Predicate, schema: pa.Schema | None = None) -> BoundPredicate:
        """Binds the predicate to the file's own columns. ``schema``: the types in which the columns were read. None:
        the types that follow from the file's schema."""
        fields = [entry.file_field for entry in self.task.mapping if entry.file_field is not None]
        if schema is None:
            schema = pa.schema([arrow_field_of(field) for field in fields if is_convertible(field.type)])
        return bind(pushed, schema, nan=self.scan.options.nan, char_lengths=char_lengths(fields))

    def index_without_predicate(self) -> StoredIndex | None:
        """The file index for a scan without a predicate. The index is opened only when it is used."""
        source = self._index_source()
        if source is None or self.pushed is not None:
            return None
        return StoredIndex(source, None, {name: str(kind) for name, kind in self.types_in_file.items()})
