"""``Lane``: column readers of one stripe that move in lockstep from row to row.

Going forward inside a row group skips (lazily, by run headers); going further, or backwards, seeks to the start of the
row group by the row index, when the stripe has one that can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import located
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge, open_column
from orcidx.orc.columns.nested import RootRows
from orcidx.orc.decode_pool import run_all
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.reader import OpenStripe
from orcidx.orc.streams import PositionIterator
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
        exact_times: Sequence[bool],
        bounds: npt.NDArray[np.int64],
        use_threads: bool,
    ) -> None:
        self.stripe = stripe
        self.columns = tuple(columns)
        self.row = 0
        self._bounds = bounds
        self._use_threads = use_threads
        self._batch_bytes = stripe.limits.batch_bytes
        facts = stripe.reader.facts
        self._root: RootRows | None = None
        with self._located():
            if stripe.reader.root.kind is TypeKind.STRUCT and stripe.has(0, StreamKind.PRESENT):
                self._root = RootRows(stripe)
            self._readers = [
                open_column(column, stripe, chosen, file=facts, exact_times=exact)
                for column, chosen, exact in zip(columns, options, exact_times, strict=True)
            ]

    def _located(self, *, row: int | None = None) -> AbstractContextManager[None]:
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
                rows = row - self.row
                if self._root is not None:
                    rows = self._root.skip(rows)
                for reader in self._readers:
                    reader.skip(rows)
        self.row = row

    def _seek(self, group: int, start: int) -> None:
        index = self.stripe.index
        if index is not None and self._root is None:
            for reader in self._readers:
                reader.seek(index.positions(reader.node.ids, group))
            self.row = start
        elif self.row > start:
            self._restart()

    def _restart(self) -> None:
        """To the first row of the stripe, which needs no index."""
        if self._root is not None:
            self._root.seek(PositionIterator.start())
        for reader in self._readers:
            reader.seek({column: PositionIterator.start() for column in reader.node.ids})
        self.row = 0

    def read(self, rows: int) -> list[pa.Array]:
        """The next ``rows`` rows of every column.

        Raises ``BatchTooLarge`` when they would be too many bytes for one batch, and stays where it was. A single row
        is always read.
        """
        with self._located(row=self.row):
            self.stripe.limits.begin(self._batch_bytes)
            threads = self._use_threads and rows * len(self._readers) >= FEW_ROWS
            parent = None if self._root is None else self._root.read(rows)
            try:
                arrays = run_all([partial(reader.read, rows, parent) for reader in self._readers], use_threads=threads)
            except BatchTooLarge:
                self._rewind()
                if rows > 1:
                    raise
                arrays = self._read_one()
        self.row += rows
        return arrays

    def _rewind(self) -> None:
        """Back to ``row`` after a read that failed halfway."""
        row, self.row = self.row, len(self._bounds) and int(self._bounds[-1]) + 1
        self.go(row)

    def _read_one(self) -> list[pa.Array]:
        self.stripe.limits.begin(None)
        parent = None if self._root is None else self._root.read(1)
        return [reader.read(1, parent) for reader in self._readers]
