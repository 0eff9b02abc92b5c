"""Collects the rows of small files that are returned in one turn, or counted. If the rows of several files are not
tested yet, they are tested together (``small_filter``)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from orcidx.scanner.small_files import SmallRows
from orcidx.scanner.small_filter import UntestedRows, tested_together

__all__ = ["SmallTurn", "UntestedSize"]

UNTESTED_ROWS = 1 << 16
UNTESTED_BYTES = 8 << 20
"""After so many untested rows, or bytes of their arrays, the rows are tested. The arrays then stay in the processor's
cache."""


@dataclass
class UntestedSize:
    """The numbers of rows that wait to be tested together, and of the bytes of their arrays."""

    rows: int = 0
    bytes: int = 0

    def add(self, untested: UntestedRows) -> None:
        """Adds the rows of a file."""
        self.rows += untested.rows
        for array in untested.arrays:
            self.bytes += array.get_total_buffer_size()

    @property
    def is_full(self) -> bool:
        """Whether the rows should be tested before more rows are added."""
        return self.rows >= UNTESTED_ROWS or self.bytes >= UNTESTED_BYTES


class SmallTurn:
    """The rows of small files, in the order of the files. ``most``: the most batches of one turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.tests = most > 1
        """Whether untested rows may be added."""
        self._rows: list[pa.RecordBatch | UntestedRows] = []
        self._untested = UntestedSize()

    def add(self, small: SmallRows) -> None:
        """Adds the rows of the next file."""
        self._rows += small.batches
        if small.untested is not None:
            self._rows.append(small.untested)
            self._untested.add(small.untested)

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def has_room(self) -> bool:
        """Whether the rows of another file may be added."""
        return len(self._rows) < self._most and not self._untested.is_full

    def count(self) -> int:
        """The number of matching rows. The turn is empty afterwards."""
        return sum([batch.num_rows for batch in self.batches()])

    def batches(self) -> list[pa.RecordBatch]:
        """The matching rows. The turn is empty afterwards."""
        every, self._rows = self._rows, []
        self._untested = UntestedSize()
        found: list[pa.RecordBatch] = []
        for under, rows in groupby(every, _filter_of):
            if under is None:
                found += rows
            else:
                found.append(tested_together(list(rows)))
        return found


def _filter_of(rows: pa.RecordBatch | UntestedRows) -> object:
    return rows.filter if isinstance(rows, UntestedRows) else None
