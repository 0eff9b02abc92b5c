"""``ColumnGroup``: column readers of one stripe that are always at the same row.

To go forward inside a row group, the readers skip values. They read only the headers of the skipped runs. To go to a
later row group, or backwards, the readers first seek to the start of the wanted row group. Such a seek needs a row
index that can be trusted.

In a stripe of many rows each column has its own ``ColumnCursor``. So threads can decode one column further ahead than
other columns. ``read_groups`` then takes rows from ``DecodeAhead``, which may have decoded these rows already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import OrcidxError, located
from orcidx.options import ReadOptions
from orcidx.orc.column_readers import BatchTooLarge, Claims, ColumnReader, open_column
from orcidx.orc.columns.nested import RootRows
from orcidx.orc.columns.numbers import Decimals
from orcidx.orc.kinds import StreamKind, TypeKind
from orcidx.orc.reader import OpenStripe
from orcidx.orc.streams import PositionIterator
from orcidx.orc.stripe_streams import PlannedStream
from orcidx.orc.types import OrcType
from orcidx.scanner.column_cursor import ColumnCursor
from orcidx.scanner.decode_ahead import DecodeAhead
from orcidx.scanner.decode_pool import run_all
from orcidx.scanner.kept_arrays import KeptRows
from orcidx.scanner.kept_columns import KeptColumn, array_bytes
from orcidx.scanner.survivors import picked

__all__ = ["ColumnGroup", "read_groups"]

FEW_ROWS = 2048
"""Below this number of values, decoding columns in other threads takes longer than it saves."""

MANY_ROWS = 1 << 15
"""In a stripe of at least this many rows the columns have their own cursors, for every number of threads."""


class ColumnGroup:
    """Reads some columns of a stripe: ``seek`` goes to a row, ``read`` reads the next rows.

    ``bounds``: the numbers of the first rows of all row groups, followed by the number of rows of the stripe.
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
        self.cursors: list[ColumnCursor] = []
        self.batch_bytes = stripe.limits.batch_bytes
        self.readers: list[ColumnReader] = []
        self._root: RootRows | None = None
        facts = stripe.reader.facts
        try:
            if stripe.reader.root.kind is TypeKind.STRUCT and stripe.has(0, StreamKind.PRESENT):
                self._root = RootRows(stripe)
            apart = self._root is None and stripe.rows >= MANY_ROWS
            first = len(stripe.windows)
            for column, chosen, exact in zip(columns, options, exact_times, strict=True):
                source = stripe.apart() if apart else stripe
                reader = open_column(column, source, chosen, file=facts, exact_times=exact)
                self.readers.append(reader)
                if apart:
                    windows, first = stripe.windows[first:], len(stripe.windows)
                    self.cursors.append(ColumnCursor(reader, source, windows, bounds))
        except OrcidxError as error:
            error.at(file=stripe.reader.name, stripe=stripe.number)
            raise

    def narrow(self, decimals: Collection[int]) -> None:
        """Makes later reads decode some decimal columns in 64 bits. ``decimals``: ids of these columns. They must have
        at most 18 digits."""
        for column, reader in zip(self.columns, self.readers):
            if column.id in decimals and isinstance(reader, Decimals):
                reader.narrow()

    def located(self, row: int) -> AbstractContextManager[None]:
        """Adds the file, the stripe and the row group of ``row`` to each error of this package."""
        group = int(self._bounds.searchsorted(row, "right")) - 1
        return located(file=self.stripe.reader.name, stripe=self.stripe.number, row_group=group)

    def plan(self, groups: npt.NDArray[np.bool_]) -> list[PlannedStream]:
        """Announces the row groups that will be read. Returns the streams whose bytes must be fetched."""
        return self.stripe.plan(self.columns, groups)

    def seek(self, row: int) -> None:
        """Makes ``row`` the next row that is read."""
        if row == self.row or self.cursors or not self.readers:
            self.row = row
            return
        group = int(self._bounds.searchsorted(row, "right")) - 1
        start = int(self._bounds[group])
        try:
            if row < self.row or start > self.row:
                self._seek_group(group, start)
            if row > self.row:
                rows = row - self.row
                if self._root is not None:
                    rows = self._root.skip(rows)
                for reader in self.readers:
                    reader.skip(rows)
        except OrcidxError:
            self.lose_place()
            with self.located(row):
                raise
        self.row = row

    def _seek_group(self, group: int, start: int) -> None:
        index = self.stripe.index
        if index is not None and self._root is None:
            for reader in self.readers:
                reader.seek(index.positions(reader.node.ids, group))
            self.row = start
        elif self.row > start:
            self._restart()

    def _restart(self) -> None:
        """Goes to the first row of the stripe. This needs no index."""
        if self._root is not None:
            self._root.seek(PositionIterator.start())
        for reader in self.readers:
            reader.seek({column: PositionIterator.start() for column in reader.node.ids})
        self.row = 0

    def read(self, rows: int, ahead: DecodeAhead | None = None) -> list[pa.Array]:
        """Reads the next ``rows`` rows of every column. See ``read_groups``."""
        return read_groups([self], rows, ahead)[0]

    def read_kept(self, kept: KeptRows, ahead: DecodeAhead | None = None) -> tuple[list[pa.Array], int]:
        """Reads the next rows of every column. Returns only the kept rows, and the number of bytes of all rows that
        were read.

        Raises ``BatchTooLarge`` if all the next rows together are too large, including the rows that are not kept. The
        group then stays at its row. After any other error the caller must seek.
        """
        row = self.row
        try:
            found = _read_kept(self, kept, ahead)
        except BatchTooLarge:
            self.lose_place()
            self.seek(row)
            raise
        except OrcidxError:
            self.lose_place()
            with self.located(row):
                raise
        self.row += len(kept)
        return [array for array, _ in found], sum(size for _, size in found)

    def tasks(self, rows: int) -> list[Callable[[], pa.Array]]:
        """The tasks that read the next rows of each column. The tasks do not change the current row of the group. The
        caller must set it."""
        parent = None if self._root is None else self._root.read(rows)
        return [partial(reader.read, rows, parent) for reader in self.readers]

    def lose_place(self) -> None:
        """Makes the next ``seek`` go to the start of a row group, also for the current row. This is needed after an
        error, because the columns may then be at different rows."""
        for cursor in self.cursors:
            cursor.lose_place()
        if not self.cursors:
            self.row = len(self._bounds) and int(self._bounds[-1]) + 1

    def read_in_order(self, rows: int, batch_bytes: int | None, claims: Claims) -> list[pa.Array]:
        """Reads the next rows of one column after the other in the caller's thread. ``claims`` counts the bytes of all
        columns together."""
        arrays = []
        for cursor in self.cursors:
            arrays.append(cursor.read(self.row, rows, batch_bytes, claims))
        return arrays


def read_groups(
    groups: Sequence[ColumnGroup],
    rows: int,
    ahead: DecodeAhead | None = None,
    *,
    joint: Sequence[ColumnCursor] | None = None,
) -> list[list[pa.Array]]:
    """Reads the next ``rows`` rows of every column of some groups of one stripe. All groups must be at the same row.
    The columns are decoded in parallel. If ``ahead`` has already decoded the rows, they are taken from ``ahead``.
    ``joint``: the cursors of all groups together, for ``ahead``.

    Raises ``BatchTooLarge`` if the rows have too many bytes for one batch. The groups then stay at their row. A single
    row is always read. After any other error the caller must seek.
    """
    first = groups[0]
    row = first.row
    try:
        try:
            found = _read(groups, rows, ahead, first.batch_bytes, joint)
        except BatchTooLarge:
            for one in groups:
                one.lose_place()
                one.seek(row)
            if rows > 1:
                raise
            found = _read(groups, 1, None, None, None)
    except OrcidxError:
        for one in groups:
            one.lose_place()
        with first.located(row):  # the row group is looked up only for an error
            raise
    for one in groups:
        one.row += rows
    return found


def _read(
    groups: Sequence[ColumnGroup],
    rows: int,
    ahead: DecodeAhead | None,
    batch_bytes: int | None,
    joint: Sequence[ColumnCursor] | None,
) -> list[list[pa.Array]]:
    if not groups[0].cursors and not any(one.cursors for one in groups):
        return _read_in_lockstep(groups, rows, batch_bytes)
    if ahead is not None:
        found = ahead.take([one.cursors for one in groups] if joint is None else [joint], groups[0].row, rows)
        if found is not None and joint is not None:
            arrays = iter(found[0])
            return [[next(arrays) for _ in one.cursors] for one in groups]
        if found is not None:
            return found
    # The columns are read in order, even after a failure in a thread. So the error of the first failing column is
    # raised.
    claims = Claims()
    if len(groups) == 1:
        return [groups[0].read_in_order(rows, batch_bytes, claims)]
    return [one.read_in_order(rows, batch_bytes, claims) for one in groups]


def _read_kept(group: ColumnGroup, kept: KeptRows, ahead: DecodeAhead | None) -> list[KeptColumn]:
    rows = len(kept)
    if group.cursors:
        found = None if ahead is None else ahead.take([group.cursors], group.row, rows, kept)
        if found is not None:
            return found[0]
        claims = Claims()  # the columns are read in order, even after a failure in a thread; see ``_read``
        return [cursor.read_kept(group.row, kept, group.batch_bytes, claims) for cursor in group.cursors]
    # Stripes without cursors have few rows. So all rows are decoded, and the kept rows are picked from the CPU cache.
    (arrays,) = _read_in_lockstep([group], rows, group.batch_bytes)
    sizes = [array_bytes(array) for array in arrays]
    return list(zip(picked(arrays, kept, owned=True), sizes))


def _read_in_lockstep(groups: Sequence[ColumnGroup], rows: int, batch_bytes: int | None) -> list[list[pa.Array]]:
    first = groups[0]
    first.stripe.limits.begin(batch_bytes)
    tasks = [one.tasks(rows) for one in groups]
    flat = [task for part in tasks for task in part]
    threads = first.use_threads and batch_bytes is not None and rows * len(flat) >= FEW_ROWS
    arrays = iter(run_all(flat, use_threads=threads))
    return [[next(arrays) for _ in part] for part in tasks]
