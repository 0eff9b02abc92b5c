"""The common interface of all scans: the rows as Arrow batches. A *pass* is one iteration over the rows of a scan.
Every pass starts at the first row.

``ArrowStream`` is the base class of scans of files and of tables. ``Batches`` is one pass over a scan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from orcidx.planner.query_words import asked_limit
from orcidx.scanner.batches import without_fields
from orcidx.scanner.frames import duckdb_relation, pandas_frame, polars_frame
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.narrowing import Narrowing

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

__all__ = ["ArrowStream", "Batches", "limited"]


class Batches:
    """One pass over a scan: an iterator of record batches. The counts in ``metrics`` grow while the pass runs."""

    def __init__(self, batches: Generator[pa.RecordBatch, None, None], metrics: ScanMetrics) -> None:
        self.metrics = metrics
        self._batches = batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self.metrics.rows_returned += batch.num_rows
        return batch

    def close(self) -> None:
        """Ends the iteration and closes its files."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArrowStream(Narrowing):
    """Rows as record batches (by iterating), as a table, or through the Arrow stream interface.

    A subclass is a frozen dataclass with the field ``row_limit``. An iterator may be used by one thread only. The scan
    may be used by several threads.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the batches."""

    @abstractmethod
    def to_batches(self) -> Batches:
        """An iterator over the batches. It has the method ``close()``. Its ``metrics`` count only the work of this
        iterator.

        Returns
        -------
        Batches
        """

    def __iter__(self) -> Batches:
        return self.to_batches()

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Returns an asynchronous iterator over the batches, which does not block the event loop."""

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader of the batches. Every call returns a new reader, which starts at the first row.

        Returns
        -------
        pyarrow.RecordBatchReader
        """
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """All rows as one table.

        Returns
        -------
        pyarrow.Table
        """
        return self._as_table(self.to_batches())

    def _as_table(self, batches: Batches | Generator[pa.RecordBatch, None, None]) -> pa.Table:
        """The batches as one table. If there are no columns, no batches are read, because only the number of rows is
        needed."""
        found = []
        for batch in batches:
            if not batch.num_columns:
                batches.close()
                rows = without_fields(self.count_rows())
                return pa.Table.from_batches([rows.replace_schema_metadata(self.schema.metadata)], self.schema)
            found.append(batch)
        return pa.Table.from_batches(found, self.schema)

    def head(self, n: int = 5) -> pa.Table:
        """The first rows as one table.

        Parameters
        ----------
        n : int
            The maximum number of rows.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            ``n`` is negative.
        """
        return self.limit(asked_limit(n, "n of head")).to_table()

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a pandas DataFrame.

        Parameters
        ----------
        **options
            Options of ``pyarrow.Table.to_pandas``.

        Returns
        -------
        pandas.DataFrame
        """
        return pandas_frame(self.to_table(), options)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame. ``orcidx.scan_polars`` gives a LazyFrame, which reads only the data that its
        query needs.

        Returns
        -------
        polars.DataFrame
        """
        return polars_frame(self.to_table())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation. If you pass the result of ``orcidx.dataset`` to DuckDB instead, DuckDB can
        push columns and filters down.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection, optional
            None means DuckDB's default connection.

        Returns
        -------
        duckdb.DuckDBPyRelation
        """
        return duckdb_relation(self.to_table(), connection)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first ``limit`` rows, or all rows if ``limit`` is None. No batch is requested after the limit is reached."""
    left = limit
    for batch in batches if left != 0 else ():
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= min(left, batch.num_rows)
            if not left:
                return
