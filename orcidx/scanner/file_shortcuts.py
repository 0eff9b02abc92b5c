"""Methods of an open file that have the same names as similar methods of pyarrow's ``ORCFile`` and ``ParquetFile``, and
of data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orcidx.errors import Unsupported
from orcidx.spellings import FILE, missing_attribute

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["FileShortcuts"]

GivenColumns = Sequence[str | Sequence[str]] | None


class FileShortcuts:
    """Each method is one call of ``scan``. Each property is another name for a property of the file."""

    if TYPE_CHECKING:
        scan: Any

        @property
        def num_rows(self) -> int: ...
        @property
        def stripes(self) -> tuple[Any, ...]: ...
        @property
        def user_metadata(self) -> Mapping[str, bytes]: ...

    @property
    def nrows(self) -> int:
        """The same number as ``num_rows``. ``nrows`` is pyarrow's name."""
        return self.num_rows

    @property
    def nstripes(self) -> int:
        """The number of stripes."""
        return len(self.stripes)

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The same as ``user_metadata``. ``metadata`` is pyarrow's name."""
        return self.user_metadata

    def head(self, n: int = 5, columns: GivenColumns = None) -> pa.Table:
        """The first rows as one table.

        Parameters
        ----------
        n : int
            The maximum number of rows.
        columns : sequence of str or of sequences of str, optional
            As in ``scan``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InvalidQuery
            ``n`` is negative, or a column is unknown.
        """
        found: pa.Table = self.scan(columns).head(n)
        return found

    def iter_batches(self, batch_size: int = 65536, columns: GivenColumns = None) -> Iterator[pa.RecordBatch]:
        """The batches of ``scan(columns, batch_size=batch_size)``.

        Parameters
        ----------
        batch_size : int
            The maximum number of rows of a batch.
        columns : sequence of str or of sequences of str, optional
            As in ``scan``.

        Returns
        -------
        iterator of pyarrow.RecordBatch

        Raises
        ------
        InvalidQuery
            ``batch_size`` is less than 1, or a column is unknown.
        """
        batches: Iterator[pa.RecordBatch] = self.scan(columns, batch_size=batch_size).to_batches()
        return batches

    def read_stripe(self, n: int, columns: GivenColumns = None) -> pa.RecordBatch:
        """The rows of one stripe as one batch. ``scan(stripes=[n])`` gives smaller batches.

        Parameters
        ----------
        n : int
            The number of the stripe, counted from 0.
        columns : sequence of str or of sequences of str, optional
            As in ``scan``.

        Returns
        -------
        pyarrow.RecordBatch

        Raises
        ------
        InvalidQuery
            The stripe does not exist.
        Unsupported
            The values of the stripe are too large for one batch.
        """
        table = self.scan(columns, stripes=[n]).to_table()
        batches = table.combine_chunks().to_batches()
        if len(batches) > 1:
            raise Unsupported(f"stripe {n} is too large for one batch: call read(stripes=[{n}])")
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

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
        frame: pd.DataFrame = self.scan().to_pandas(**options)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame.

        Returns
        -------
        polars.DataFrame
        """
        frame: pl.DataFrame = self.scan().to_polars()
        return frame

    if not TYPE_CHECKING:  # hidden from type checkers, so they can find misspelt names

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # the property exists, but raised an error: raise the same error again
                return object.__getattribute__(self, name)
            raise missing_attribute(f"an {type(self).__name__}", name, FILE)

        def __getitem__(self, key: object) -> Any:
            raise TypeError(f"an {type(self).__name__} does not support [{key!r:.80}]; call read(columns=[...])")
