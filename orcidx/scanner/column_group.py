"""``ColumnGroup``: column readers of one stripe that move in lockstep from row to row.

Going forward inside a row group skips (lazily, by run headers); going further, or backwards, seeks to the start of the
row group by the row index, when the stripe has one that can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import located
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge, open_column
from orcidx.orc.columns.nested import RootRows
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.reader import OpenStripe
from orcidx.orc.streams import PositionIterator
from orcidx.orc.stripe_streams import PlannedStream
from orcidx.orc.types import OrcType, row_bytes
from orcidx.scanner.decode_pool import run_all

__all__ = ["ColumnGroup", "read_groups"]

FEW_ROWS = 2048
"""Below this many values in all, handing columns to other threads costs more than it gains."""


class ColumnGroup:
    """Reads some columns of a stripe: ``seek`` to a row, ``read`` so many rows from there.

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
        self.use_threads = use_threads
        self.batch_bytes = stripe.limits.batch_bytes
        facts = stripe.reader.facts
        self._root: RootRows | None = None
        with self.located():
            if stripe.reader.root.kind is TypeKind.STRUCT and stripe.has(0, StreamKind.PRESENT):
                self._root = RootRows(stripe)
            self._readers = [
                open_column(column, stripe, chosen, file=facts, exact_times=exact)
                for column, chosen, exact in zip(columns, options, exact_times, strict=True)
            ]

    @property
    def row_bytes(self) -> float | None:
        """Bytes that a row of all columns takes in Arrow, where their types tell."""
        sizes = [row_bytes(column) for column in self.columns]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def located(self, *, row: int | None = None) -> AbstractContextManager[None]:
        group = None if row is None else int(np.searchsorted(self._bounds, row, "right")) - 1
        return located(file=self.stripe.reader.name, stripe=self.stripe.number, row_group=group)

    def plan(self, groups: npt.NDArray[np.bool_]) -> list[PlannedStream]:
        """Announces the row groups that will be read; returns the streams that want bytes."""
        return self.stripe.plan(self.columns, groups)

    def seek(self, row: int) -> None:
        """Makes ``row`` the next one read."""
        if row == self.row or not self._readers:
            self.row = row
            return
        group = int(np.searchsorted(self._bounds, row, "right")) - 1
        start = int(self._bounds[group])
        with self.located(row=row):
            if row < self.row or start > self.row:
                self._seek_group(group, start)
            if row > self.row:
                rows = row - self.row
                if self._root is not None:
                    rows = self._root.skip(rows)
                for reader in self._readers:
                    reader.skip(rows)
        self.row = row

    def _seek_group(self, group: int, start: int) -> None:
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
        """The next ``rows`` rows of every column; see ``read_groups``."""
        return read_groups([self], rows)[0]

    def tasks(self, rows: int) -> list[Callable[[], pa.Array]]:
        """What reads the next rows of each column; the group itself moves when its user says so."""
        parent = None if self._root is None else self._root.read(rows)
        return [partial(reader.read, rows, parent) for reader in self._readers]

    def rewind(self) -> None:
        """Back to ``row`` after a read that failed halfway."""
        row, self.row = self.row, len(self._bounds) and int(self._bounds[-1]) + 1
        self.seek(row)


def read_groups(groups: Sequence[ColumnGroup], rows: int) -> list[list[pa.Array]]:
    """The next ``rows`` rows of every column of some groups of one stripe that stand at the same row, decoded side
    by side.

    Raises ``BatchTooLarge`` when they would be too many bytes for one batch, and leaves the groups where they were. A
    single row is always read.
    """
    first = groups[0]
    limits = first.stripe.limits
    with first.located(row=first.row):
        limits.begin(first.batch_bytes)
        try:
            tasks = [one.tasks(rows) for one in groups]
            flat = [task for part in tasks for task in part]
            arrays = iter(run_all(flat, use_threads=first.use_threads and rows * len(flat) >= FEW_ROWS))
        except BatchTooLarge:
            for one in groups:
                one.rewind()
            if rows > 1:
                raise
            limits.begin(None)
            tasks = [one.tasks(1) for one in groups]
            arrays = iter([task() for part in tasks for task in part])
        found = [[next(arrays) for _ in part] for part in tasks]
    for one in groups:
        one.row += rows
    return found
