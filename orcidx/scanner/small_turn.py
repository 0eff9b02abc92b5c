"""Collects the rows of small files that are returned in one turn, or counted. If the rows of several files are not
tested yet, they are tested together (``small_filter``).

Some tests set ``ENABLED`` to False. The rows of each file are then tested separately.
"""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa

from orcidx.scanner.small_files import SmallRows
from orcidx.scanner.small_filter import UntestedRows, tested_together

__all__ = ["SmallTurn"]

ENABLED = True

UNTESTED_ROWS = 1 << 16
UNTESTED_BYTES = 8 << 20
"""After so many untested rows, or bytes of their arrays, the rows are tested. The arrays then stay in the processor's
cache."""


class SmallTurn:
    """The rows of small files, in the order of the files. ``most``: the most batches of one turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.tests = ENABLED and most > 1
        """Whether untested rows may be added."""
        self._rows: list[pa.RecordBatch | UntestedRows] = []
        self._untested_rows = self._untested_bytes = 0

    def add(self, small: SmallRows) -> None:
        """Adds the rows of the next file."""
        self._rows += small.batches
        untested = small.untested
        if untested is not None:
            self._rows.append(untested)
            self._untested_rows += untested.rows
            for array in untested.arrays:
                self._untested_bytes += array.get_total_buffer_size()

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def has_room(self) -> bool:
        """Whether the rows of another file may be added."""
        fits = self._untested_rows < UNTESTED_ROWS and self._untested_bytes < UNTESTED_BYTES
        return fits and len(self._rows) < self._most

    def count(self) -> int:
        """The number of matching rows. The turn is empty afterwards."""
        return sum([batch.num_rows for batch in self.batches()])

    def batches(self) -> list[pa.RecordBatch]:
        """The matching rows. The turn is empty afterwards."""
        every, self._rows = self._rows, []
        self._untested_rows = self._untested_bytes = 0
        found: list[pa.RecordBatch] = []
        for under, rows in groupby(every, _filter_of):
            if under is None:
                found += rows
            else:
                found.append(tested_together(list(rows)))
        return found


def _filter_of(rows: pa.RecordBatch | UntestedRows) -> object:
    return rows.filter if isinstance(rows, UntestedRows) else None
