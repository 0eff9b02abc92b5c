"""``Lane``: column readers of one stripe that move in lockstep from row to row.

Going forward inside a row group skips (lazily, by run headers); going further, or backwards, seeks to the start of the
row group by the row index, when the stripe has one that can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, located
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import open_column
from orcidx.orc.decode_pool import run_all
from orcidx.orc.reader import OpenStripe
from orcidx.orc.stripe_streams import PlannedStream
from orcidx.orc.types import OrcType

__all__ = ["Lane"]

FEW_ROWS = 2048
"""Below this many values in all, handing columns to other threads costs more than it gains."""


class Lane:
    """Reads some columns of a stripe: ``go`` to a row, ``read`` so many rows from there.

    ``bounds``: first rows of the row groups and the stripe's number of rows at the end.
    """

    def __init__(
        self,
        stripe: OpenStripe,
        columns: Sequence[OrcType],
        options: Sequence[ReadOptions],
        *,
        bounds: npt.NDArray[np.int64],
        use_threads: bool,
    ) -> None:
        self.stripe = stripe
        self.columns = tuple(columns)
        self.row = 0
        self._bounds = bounds
        self._use_threads = use_threads
        facts = stripe.reader.facts
        with self._located():
            self._readers = [
                open_column(column, stripe, chosen, file=facts) for column, chosen in zip(columns, options, strict=True)
            ]
        self._ids = sorted({node.id for column in columns for node in column.walk()})

    def _located(self, *, row: int | None = None):  # type: ignore[no-untyped-def]
        group = None if row is None else int(np.searchsorted(self._bounds, row, "right")) - 1
        return located(file=self.stripe.reader.name, stripe=self.stripe.number, row_group=group)

    def plan(self, groups: npt.NDArray[np.bool_]) -> list[PlannedStream]:
        """Announces the row groups that will be read; returns the streams that want bytes."""
        return self.stripe.plan(self.columns, groups)

    def go(self, row: int) -> None:
        """Makes ``row`` the next one read."""
        if row == self.row or not self._readers:
            self.row = row
            return
        group = int(np.searchsorted(self._bounds, row, "right")) - 1
        start = int(self._bounds[group])
        with self._located(row=row):
            if row < self.row or start > self.row:
                self._seek(group, start)
            if row > self.row:
                for reader in self._readers:
                    reader.skip(row - self.row)
        self.row = row

    def _seek(self, group: int, start: int) -> None:
        index = self.stripe.index
        if index is not None:
            positions = [index.positions(self._ids, group) for _ in self._readers]
            for reader, places in zip(self._readers, positions):
                reader.seek(places)
            self.row = start
        elif self.row > start:
            raise CorruptFile("cannot go back without a row index")

    def read(self, rows: int) -> list[pa.Array]:
        """The next ``rows`` rows of every column."""
        with self._located(row=self.row):
            threads = self._use_threads and rows * len(self._readers) >= FEW_ROWS
            arrays = run_all([partial(reader.read, rows) for reader in self._readers], use_threads=threads)
        self.row += rows
        return arrays
