"""Counts the rows of files that satisfy a predicate."""

from __future__ import annotations

from collections.abc import Sequence

from orcidx.fetching.drive import run, run_value
from orcidx.planner.request import FileJob, ScanRequest
from orcidx.scanner.file_queue import FileQueue, OpenFile
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.stripes_together import stripes_together

__all__ = ["count_jobs"]


def count_jobs(
    jobs: Sequence[FileJob], request: ScanRequest, metrics: ScanMetrics, limit: int | None, *, known: int
) -> int:
    """Returns the number of rows of all files, but at most ``limit``. ``known``: the number of rows of other files,
    which are counted, too. If the request has no predicate, only tails are read."""
    tails_alone = request.where is None
    total = known
    with FileQueue(jobs, request, metrics, tails_alone=tails_alone) as files:
        while limit is None or total < limit:
            small = files.take_small(together=limit is None)
            if small is not None:
                total += small.rows
                continue
            file = files.take(wait=True)
            if file is None:
                break
            with file:
                total += _count_file(file, None if limit is None else limit - total, tails_alone)
    return total if limit is None else min(total, limit)


def _count_file(file: OpenFile, limit: int | None, tails_alone: bool) -> int:
    """Returns the number of rows of a file. If the file has at least ``limit`` rows, the result may be too low, but it
    is at least ``limit``."""
    if tails_alone:
        return file.scan.rows.count
    numbers = file.scan.stripe_numbers()
    together = stripes_together(file, counts=True) if limit is None and len(numbers) > 1 else None
    total = 0
    for number in numbers:
        if limit is not None and total >= limit:
            break
        if together is not None and number in together:
            total += together.count(number)
        else:
            total += _count_stripe(file, number)
    return total


def _count_stripe(file: OpenFile, number: int) -> int:
    decision = run_value(file.scan.decide(number), file.storage)
    rows = decision.rows
    if rows.may is rows.must or (rows.may - rows.must).is_empty:
        return rows.may.count
    counts: list[int] = []
    for _ in run(file.scan.read(decision, count=counts.append), file.storage):
        raise AssertionError("a count returned a batch")
    return sum(counts)
