"""Checks INT96 timestamps of Parquet files.

pyarrow reads INT96 in a unit that the caller chooses. If a value does not fit 64 bits in this unit, pyarrow returns
another value and raises no error. So the columns are also read in milliseconds, and the values are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from orcidx.errors import CorruptFile, ValueOutOfRange
from orcidx.predicate.nodes import NANOS

__all__ = ["Int96Columns", "MillisecondRows", "check_range"]


class Int96Columns:
    """The INT96 columns of a file, read in milliseconds. In milliseconds, every INT96 value fits 64 bits. ``unit``: the
    unit of the values that will be checked."""

    def __init__(
        self, file: pa.NativeFile, parquet: pyarrow.parquet.ParquetFile, columns: Iterable[str], unit: str
    ) -> None:
        leaves = range(len(parquet.schema))
        self.names: list[str] = []
        if unit in ("us", "ns") and any(parquet.schema.column(leaf).physical_type == "INT96" for leaf in leaves):
            self.file = pyarrow.parquet.ParquetFile(
                file, metadata=parquet.metadata, pre_buffer=False, coerce_int96_timestamp_unit="ms"
            )
            both = zip(parquet.schema_arrow, self.file.schema_arrow)
            differ = {read.name for read, other in both if read.type != other.type}
            self.names = [name for name in dict.fromkeys(columns) if name in differ]

    def rows(self, groups: Sequence[int], batch_size: int) -> MillisecondRows | None:
        """The rows of some row groups. The result is None if no column needs a check."""
        if not self.names:
            return None
        return MillisecondRows(self.file.iter_batches(batch_size, row_groups=groups, columns=self.names))


class MillisecondRows:
    """Rows of INT96 columns in milliseconds, in order."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> pa.Table:
        """Returns the next ``count`` rows. If ``count`` is 0, the table has no columns."""
        taken: list[pa.RecordBatch] = []
        while count:
            batch = next(self._batches, None) if self._left is None else self._left
            if batch is None:
                raise CorruptFile("the columns of a row group have different numbers of rows")
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            self._left = batch.slice(taken[-1].num_rows)
            if not self._left.num_rows:
                self._left = None
        return pa.Table.from_batches(taken) if taken else pa.table({})


def check_range(rows: pa.RecordBatch, milliseconds: pa.Table) -> None:
    """Raises ``ValueOutOfRange`` if a timestamp in ``rows`` was read as another timestamp. ``milliseconds``: the INT96
    columns of the same rows, in milliseconds."""
    names = rows.schema.names
    # Several columns may have the same name. They have the same order in both arguments.
    for name in dict.fromkeys(milliseconds.column_names):
        read = chain.from_iterable(_timestamps(rows.column(at)) for at, one in enumerate(names) if one == name)
        checked = (milliseconds.column(at) for at, one in enumerate(milliseconds.column_names) if one == name)
        wanted = chain.from_iterable(_timestamps(column.combine_chunks()) for column in checked)
        for (unit, values), (other, exact) in zip(read, wanted):
            if unit == other:  # a field that is not INT96
                continue
            wrong = np.flatnonzero(values // (NANOS["ms"] // NANOS[unit]) != exact)
            if len(wrong):
                raise ValueOutOfRange(
                    f"column {name!r} has a timestamp that does not fit 64 bits of {unit}: it is "
                    f"{int(exact[wrong[0]])} ms after 1970-01-01"
                )


def _timestamps(array: pa.Array) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Yields the unit and the values of the timestamps in an array, also of nested timestamps. Nulls become 0."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        yield kind.unit, array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _timestamps(array.field(place))
    elif pa.types.is_map(kind):
        first, last = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        for entries in (array.keys, array.items):
            yield from _timestamps(entries.slice(first, last - first))
    elif hasattr(array, "flatten"):
        yield from _timestamps(array.flatten())
