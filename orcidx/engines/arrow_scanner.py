"""``OrcScanner`` is a ``pyarrow.dataset.Scanner`` of the rows of a scan. It reads only the requested columns and rows.

``Scanner.from_batches`` reads ahead on a thread of Arrow. If Python makes the batches, this thread needs the
interpreter's lock. If a script ends before all batches were read, the thread still waits for the lock, and the process
aborts or hangs (``docs/decisions/0012``). This class reads only while a caller waits. Columns and filters are applied
to each batch in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.planner.query_words import asked_limit
from orcidx.predicate import Constant, External
from orcidx.predicate.adapters import from_expression
from orcidx.predicate.external import evaluate_expression
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Batches, Scan
from orcidx.scanner.take import row_numbers_of, scan_of_rows
from orcidx.spellings import counted

__all__ = ["OrcScanner", "ScannerColumns"]

ScannerColumns = Sequence[str] | Mapping[str, pc.Expression] | None
"""The columns of the result: all columns, some of them, or expressions by name."""


class OrcScanner(ds.Scanner):  # type: ignore[misc]
    """Rows of a scan, with the interface of pyarrow's scanners. Made by the ``scanner`` method of a dataset or a
    fragment.

    pyarrow applies ``filter`` to the rows of the scan. So the result is exact even if the scan evaluates only a part of
    the filter. The class never calls the ``__init__`` of its base, because it has no C++ object. Only one thread may
    use an iterator. The scanner may be used any number of times."""

    def __init__(
        self,
        scan: Scan,
        schema: pa.Schema,
        columns: ScannerColumns,
        filter: pc.Expression | None,
        begin: Callable[[ScanMetrics], None],
    ) -> None:
        self._scan = scan
        self._schema = schema
        self._columns = columns if columns is None or isinstance(columns, Mapping) else list(columns)
        self._filter = filter
        self._begin = begin
        self._projected = _projected(schema, self._columns, filter)
        used = None if filter is None else from_expression(filter).columns
        self._test = None if filter is None else External(filter, Constant(True), Constant(True), False, used)

    def __repr__(self) -> str:
        return f"<OrcScanner of {counted(len(self._scan.jobs), 'file')}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the columns that are read: requested columns, and columns that the filter uses."""
        return self._schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._projected

    # ------------------------------------------------------------------ the rows of the result

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches. Each batch is read when it is requested. Closing or dropping the iterator ends
        the reading."""
        return self._finished(self._scan)

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the rows as a ``pyarrow.RecordBatchReader``, which reads each batch when it is requested."""
        return pa.RecordBatchReader.from_batches(self._projected, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows as a table."""
        if not self._schema.names and not self._projected.names:
            return self._scan.to_table().select([])
        return pa.Table.from_batches(self.to_batches(), self._projected)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows as a table. Later rows are not read."""
        num_rows = asked_limit(num_rows, "num_rows of head")
        pieces = []
        left = num_rows
        scan = self._scan.limit(num_rows) if self._test is None else self._scan
        batches = self._finished(scan)
        try:
            while left and (batch := next(batches, None)) is not None:
                pieces.append(batch.slice(0, left))
                left -= pieces[-1].num_rows
        finally:
            batches.close()
        return pa.Table.from_batches(pieces, self._projected)

    def take(self, indices: object) -> pa.Table:
        """Rows by their number in the result, in the given order. Without a filter, only row groups with requested rows
        are read. With a filter, no rows after the last requested row are read. Raises ``InvalidQuery`` for a number
        that is not the number of a row."""
        wanted = row_numbers_of(indices)
        numbers, order = np.unique(wanted, return_inverse=True)
        if self._test is None and self._scan.request.where is None:
            rows = pa.Table.from_batches(self._finished(scan_of_rows(self._scan, numbers)), self._projected)
        else:
            rows = self._found(numbers)
        return rows.take(pa.array(order.reshape(-1)))

    def _found(self, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """Returns the rows with these row numbers, which must be ascending. The rows of the result are counted as they
        are read."""
        pieces = []
        seen = done = 0
        batches = self._finished(self._scan)
        try:
            while done < len(numbers) and (batch := next(batches, None)) is not None:
                end = int(np.searchsorted(numbers, seen + batch.num_rows))
                if end > done:
                    pieces.append(batch.take(pa.array(numbers[done:end] - seen)))
                seen, done = seen + batch.num_rows, end
        finally:
            batches.close()
        if done < len(numbers):
            raise InvalidQuery(f"there is no row {numbers[done]}: the result has {seen} rows, numbered from 0")
        return pa.Table.from_batches(pieces, self._projected)

    def count_rows(self) -> int:
        """The number of rows. Without a filter, no rows are read if metadata and indexes prove the number."""
        if self._test is None:
            return self._scan.count_rows()
        return sum(batch.num_rows for batch in self._finished(self._scan))

    def scan_batches(self) -> NoReturn:
        """Raises an error. pyarrow's method returns the file of each batch, but here a batch may have rows of several
        files."""
        raise Unsupported(
            "scan_batches is not supported by an orcidx dataset; use to_batches(), or to_batches() of each fragment"
        )

    # ------------------------------------------------------------------ filtering and projecting the batches of a scan

    def _finished(self, scan: Scan) -> Generator[pa.RecordBatch, None, None]:
        """Yields the batches of a scan, filtered and projected."""
        batches = scan.to_early_batches()
        self._begin(batches.metrics)
        return self._finish(batches)

    def _finish(self, batches: Batches) -> Generator[pa.RecordBatch, None, None]:
        with batches:
            for batch in batches:
                if self._test is not None:
                    batch = batch.filter(pa.array(evaluate_expression(self._test, batch, self._schema)))
                    if not batch.num_rows:
                        continue
                if isinstance(self._columns, Mapping):
                    yield from _computed(batch, self._columns)
                else:
                    # The scan may also return the column of file names, if only the condition uses it.
                    yield batch.select(self._schema.names if self._columns is None else self._columns)


def _projected(schema: pa.Schema, columns: ScannerColumns, filter: pc.Expression | None) -> pa.Schema:
    """The schema of the result. Raises ``InvalidQuery`` with pyarrow's message for expressions that pyarrow cannot
    bind."""
    # The table has no batches, because pyarrow raises an error for an empty batch if the filter's columns include a
    # union.
    nothing = ds.InMemoryDataset(pa.Table.from_batches([], schema))
    try:
        return nothing.scanner(columns=columns, filter=filter, use_threads=False).projected_schema
    except (pa.ArrowException, TypeError, KeyError) as error:
        raise InvalidQuery(f"pyarrow cannot use the columns or the filter: {error}") from error


def _computed(batch: pa.RecordBatch, columns: Mapping[str, pc.Expression]) -> Iterator[pa.RecordBatch]:
    """Yields batches with the columns that pyarrow computes from a batch. ``columns`` has the expressions by name."""
    whole = ds.InMemoryDataset(pa.Table.from_batches([batch]))
    yield from whole.scanner(columns=dict(columns), use_threads=False).to_table().to_batches()
