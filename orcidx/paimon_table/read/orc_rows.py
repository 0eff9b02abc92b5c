"""The rows of an ORC data file of a table. ``OrcFile.scan`` reads them with all its pruning. The columns have the names
that they have in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile
from orcidx.explain.model import FileExplanation
from orcidx.paimon_table.read.file_rows import FileRows
from orcidx.paimon_table.read.shared_reading import small_files, with_coarse_units
from orcidx.planner.request import FileJob
from orcidx.scanner.file import open_file
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.small_files import SmallFiles, SmallRows
from orcidx.scanner.small_groups import WaitingFile
from orcidx.scanner.small_reads import SmallReads
from orcidx.storage import Source
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["OrcRows"]


class OrcRows(FileRows):
    """The remaining rows of an ORC file."""

    def batches(self, *, together: bool = False) -> Iterator[pa.RecordBatch | WaitingFile]:
        """See ``FileRows.batches``."""
        files = self.reading.small
        small = self._small(files, together=together)
        if small is not None:
            yield from small.batches if small.waiting is None else (small.waiting,)
            return
        with self.scan(read_by=files) as scan, scan.to_batches() as batches:
            try:
                yield from batches
            finally:
                _add(self.metrics, batches.metrics)

    def count(self, *, together: bool = False) -> int | WaitingFile:
        """The number of rows that satisfy the predicate that is pushed to the file. Rows of a large file are read only
        where metadata and indexes do not prove the number. ``together``: see ``batches``."""
        files = self.reading.small
        small = self._small(files, together=together)
        if small is not None:
            return small.rows if small.waiting is None else small.waiting
        with self.scan(read_by=files) as scan:
            return scan.count_rows()

    def explain(self) -> FileExplanation:
        """Explains which parts of the file are read, and why the other parts are not read."""
        with self._scan(self.file.source) as scan:
            return scan.explain().files[0]

    def places(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Batches of rows with their positions in the file. Every row was tested with the predicate."""
        names = {entry.file_field.name for entry in self.kept.task.mapping if entry.file_field is not None}
        numbers = "row_number"
        while numbers in names:
            numbers += "_"
        with self._numbered(numbers) as batches:
            for batch in batches:
                places = batch.column(numbers).to_numpy(zero_copy_only=False)
                yield batch.drop_columns([numbers]), places

    @contextmanager
    def _numbered(self, numbers: str) -> Iterator[Iterable[pa.RecordBatch]]:
        files = small_files(self.reading, self.metrics, row_numbers=numbers)
        small = self._small(files)
        if small is not None:  # every row of a small file is tested when the file is read
            yield small.batches
            return
        with self.scan(numbers, read_by=files) as scan:
            tested = replace(scan, request=replace(scan.request, tests_each=True))
            with tested.to_batches() as batches:
                yield batches

    def scan(
        self, row_numbers: str | None = None, *, indexed: bool = False, read_by: SmallFiles | None = None
    ) -> AbstractContextManager[Scan]:
        """The scan of an ORC file. Columns have the names that they have in the file. The file index stays open as long
        as the scan may use it.

        ``row_numbers``: the name of the added column with the rows' positions. ``indexed``: whether the file index may
        be used even without a predicate. ``read_by``: the reader of small files, which may already have read the bytes
        of the file."""
        return self._scan(self._read_once(read_by), row_numbers, indexed=indexed)

    def _read_once(self, files: SmallFiles | None) -> Source:
        """The source of the file. If the file is small and local, all its bytes are read now. Otherwise opening the
        file and scanning it would both read them."""
        source = self.file.source
        if files is not None and files.reads.held is not None:
            return files.reads.to_open(source)
        reads = SmallReads(self.metrics, SMALL_FILE_BYTES)
        if source.kind == "path" and not self.reading.options.mmap:
            reads.read(source.location)
        return reads.to_open(source)

    @contextmanager
    def _scan(self, source: Source, row_numbers: str | None = None, *, indexed: bool = False) -> Iterator[Scan]:
        with self.kept.index() as index, open_file(source, options=self.reading.options) as opened:
            self._check_rows(opened.num_rows)
            tail = opened.reader.storage.metrics  # the metrics of a scan do not include the read of the tail
            self.metrics.requests += tail.requests
            self.metrics.bytes_read += tail.bytes_fetched
            deleted = self.kept.deleted()
            top = self.kept.among(index) if self.kept.scan.top else None
            pushed = self.kept.pushed
            numbers = row_numbers or False
            asked = self.kept.index_without_predicate() if indexed and index is None else index
            yield opened.scan(
                self.reading.names,
                pushed,
                limit=self.kept.limit,
                selection=top,
                deletion_vector=deleted,
                file_index=asked,
                row_numbers=numbers,
                schema=with_coarse_units(opened.schema, self.reading.kinds) if self.reading.has_coarse_units else None,
            )

    def _small(self, files: SmallFiles | None, *, together: bool = False) -> SmallRows | None:
        """The rows of a small file that can be read without opening an ``OrcFile``. The result is None if the file must
        be opened. ``together``: see ``batches``."""
        indexed = self.file.embedded_index is not None or self.file.index is not None
        if files is None or self.file.deletion is not None or (indexed and self.kept.pushed is not None):
            return None
        skipped = self.metrics.files_skipped
        found = files.take(FileJob(self.file.source), together=together)
        # For a table, ``files_skipped`` counts only the files that the plan skipped. ``take`` also counts a file in
        # which no row can match, so this line undoes the count.
        self.metrics.files_skipped = skipped
        if found is not None:
            self._check_rows(found.stored)
        return found

    def _check_rows(self, stored: int) -> None:
        if stored != self.file.rows:
            raise CorruptFile(f"the file has {stored} rows, but the manifest says {self.file.rows}")


def _add(total: ScanMetrics, part: ScanMetrics) -> None:
    """Adds the metrics of one file. The numbers of files and of returned rows are left out, because they are counted
    for the whole table."""
    for name in ("requests", "bytes_read", "stripes", "stripes_skipped", "row_groups", "row_groups_kept"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for name in ("chunks_decompressed", "bytes_decompressed", "rows_considered"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for stage, seconds in part.seconds.items():
        total.seconds[stage] = total.seconds.get(stage, 0.0) + seconds
