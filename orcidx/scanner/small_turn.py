"""Collects the rows of small files that are returned in one turn, or counted. If the rows of several files are not
tested yet, they are tested together (``small_filter``)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.planner.request import BATCHES_A_TURN, ScanRequest
from orcidx.scanner.small_files import SmallRows
from orcidx.scanner.small_filter import UntestedRows, tested_together

__all__ = ["SmallTurn", "UntestedSize"]

UNTESTED_ROWS = 1 << 16
"""The number of untested rows after which they are tested. Their arrays then stay in the processor's cache."""

UNTESTED_BYTES = 8 << 20
"""The number of bytes of untested arrays after which their rows are tested."""


@dataclass
class UntestedSize:
    """The number of files whose rows wait to be tested together, of these rows, and of the bytes of their arrays.
    ``most_rows`` and ``most_bytes``: from these numbers on, the rows are tested. They are also tested if there are
    ``BATCHES_A_TURN`` files."""

    most_rows: int
    most_bytes: int
    files: int = 0
    rows: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, options: ReadOptions) -> UntestedSize:
        """The size at the beginning. Rows of half a batch are tested, so that batches do not become too large, and the
        caller does not wait long for a batch."""
        return cls(min(UNTESTED_ROWS, options.batch_size // 2), min(UNTESTED_BYTES, options.batch_bytes // 2))

    def add(self, untested: UntestedRows) -> None:
        """Adds the rows of a file."""
        self.files += 1
        self.rows += untested.rows
        for array in untested.arrays:
            self.bytes += array.get_total_buffer_size()

    @property
    def is_full(self) -> bool:
        """Whether the rows should be tested before more rows are added."""
        return self.files >= BATCHES_A_TURN or self.rows >= self.most_rows or self.bytes >= self.most_bytes


class SmallTurn:
    """The rows of small files, in the order of the files. ``tests``: whether untested rows may be added. They are
    tested when the rows are taken."""

    def __init__(self, request: ScanRequest, *, tests: bool) -> None:
        self.tests = tests
        self.has_room = True
        """Whether the rows of another file may be added."""
        self._request = request
        self._rows: list[pa.RecordBatch | UntestedRows] = []
        self._tested = 0
        self._untested = UntestedSize.of(request.options)

    def add(self, small: SmallRows) -> None:
        """Adds the rows of the next file."""
        if small.untested is None:
            self._rows += small.batches
            self._tested += len(small.batches)
        else:
            self._rows.append(small.untested)
            self._untested.add(small.untested)
        self.has_room = self._tested < self._request.together and not (self._untested.files and self._untested.is_full)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def count(self) -> int:
        """The number of matching rows. The turn is empty afterwards."""
        return sum([batch.num_rows for batch in self.batches()])

    def batches(self) -> list[pa.RecordBatch]:
        """The matching rows. The turn is empty afterwards."""
        every, self._rows = self._rows, []
        self._tested, self._untested, self.has_room = 0, UntestedSize.of(self._request.options), True
        found: list[pa.RecordBatch] = []
        for under, rows in groupby(every, _filter_of):
            if under is None:
                found += rows
            else:
                found.append(tested_together(list(rows)))
        return found


def _filter_of(rows: pa.RecordBatch | UntestedRows) -> object:
    return rows.filter if isinstance(rows, UntestedRows) else None
