"""Takes rows of a scan by their row numbers in the result. Finds the file of each row, and the row number in this
file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from orcidx.errors import InvalidQuery
from orcidx.pruning.selection import RowSelection
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan

__all__ = ["row_numbers_of", "scan_of_rows"]


def row_numbers_of(indices: object) -> npt.NDArray[np.int64]:
    """Reads row numbers from a list, or from an array of NumPy or pyarrow. Raises ``InvalidQuery`` for any other
    value."""
    given = np.asarray(indices)
    if given.ndim != 1:
        raise InvalidQuery(f"rows must be given as a list of row numbers, not as {type(indices).__name__}")
    if given.size == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise InvalidQuery(f"rows must be given as integers without nulls, not as values of {given.dtype}")
    if (lowest := int(given.min())) < 0:
        raise InvalidQuery(f"there is no row {lowest}: rows are numbered from 0, and the last row is count_rows() - 1")
    return given.astype(np.int64)


def scan_of_rows(scan: Scan, numbers: npt.NDArray[np.int64]) -> Scan:
    """Returns a scan of only these rows, in the order of the given scan. The given scan must have no predicate and no
    limit. ``numbers`` must be ascending.

    Opens the files up to the file of the last row. Raises ``InvalidQuery`` if the scan has no row with one of the
    numbers.
    """
    request = scan.resolved
    jobs = []
    seen = done = 0
    with FileQueue(scan.jobs, request, ScanMetrics()) as files:
        for job in scan.jobs:
            file = files.take(wait=True) if done < len(numbers) else None
            if file is None:
                break
            with file:
                wanted = file.scan.rows.wanted
            end = int(np.searchsorted(numbers, seen + wanted.count))
            if end > done:
                chosen = RowSelection.from_positions(numbers[done:end] - seen, wanted.count)
                jobs.append(replace(job, selection=wanted.and_then(chosen)))
            seen, done = seen + wanted.count, end
    if done < len(numbers):
        raise InvalidQuery(f"there is no row {numbers[done]}: the result has {seen} rows, numbered from 0")
    return Scan(tuple(jobs), request, scan.row_limit)
