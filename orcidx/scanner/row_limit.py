"""A limit on the number of rows of a scan. The limit applies to all stripes and files together. Stripes are read one
after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from orcidx.errors import FileGone
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.pruning.findings import Note
from orcidx.scanner.arrow_stream import limited
from orcidx.scanner.file_queue import OpenFile, open_job
from orcidx.scanner.metrics import ScanMetrics

__all__ = ["RowsLeft", "limit_note", "open_in_turn"]


class RowsLeft:
    """The number of rows that the stripes of a scan may still return. The returned rows are subtracted from the limit.
    If a stripe is read again, the rows that it returned before are added to the limit again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[object, int] = {}

    @property
    def rows(self) -> int:
        return self._limit - sum(self._taken.values())

    def of(self, stripe: object, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of a stripe, cut off at the limit."""
        self._taken[stripe] = 0
        for batch in limited(batches, self.rows):
            self._taken[stripe] += batch.num_rows
            yield batch


def open_in_turn(
    jobs: Iterable[FileJob],
    request: ScanRequest,
    limit: int,
    *,
    to_the_end: bool,
    gone: Callable[[FileGone], object] | None = None,
) -> Generator[OpenFile, None, None]:
    """Yields the files of a scan without a predicate, one after the other. The rows of earlier files are subtracted
    from the limit of each file.

    ``to_the_end``: whether files are returned even after the limit is reached. ``gone``: a function that is called for
    each missing file. Without ``gone`` a missing file raises an error. A file is closed when the next file is
    requested.
    """
    left = limit
    for number, job in enumerate(jobs):
        if number and not left and not to_the_end:
            return
        try:
            file = open_job(job, replace(request, limit=left), ScanMetrics())
        except FileGone as error:
            if gone is None:
                raise
            gone(error)
            continue
        with file:
            yield file
            left -= file.scan.rows.wanted.count


def limit_note(limit: int, request: ScanRequest) -> Note:
    """The note about a limit, for an explanation."""
    if request.where is None:
        return Note("limit", "off", f"rows after the first {limit} are not read")
    text = (
        f"the scan ends after {limit} matching rows; which rows these are depends on the data, so the scan "
        "may read less than this explanation says"
    )
    return Note("limit", "silent", text)
