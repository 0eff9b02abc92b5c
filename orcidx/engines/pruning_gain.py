"""Decides whether a condition of an engine is pushed into the scan. The decision depends on two shares of the rows: the
share that the indexes do not exclude, and the share for which the condition is true.

An engine filters in compiled code on all cores. Filtering in the scan is faster if indexes leave out rows. With Polars,
it is also faster if few rows remain, because strings of the other rows are neither created nor passed to Polars
(decision 0012). Rows of remote files are expensive to fetch, so every condition is pushed for remote files."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

from orcidx.fetching.drive import run, run_value
from orcidx.planner.stripe_pruning import StripeDecision
from orcidx.scanner.file_queue import FileQueue, OpenFile
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.scanner.scan import Scan
from orcidx.storage import Source

__all__ = ["is_local", "is_tiny", "pays"]

LARGEST_SHARE_LEFT = 0.5
"""A condition is pushed if indexes leave at most this share of the rows."""

_LOCAL = ("path", "bytes")

TINY_BYTES = 8192
"""The number of bytes up to which files are tiny. Reading a file of 2 KB takes 0.3 ms, and ``pays`` takes 0.6 ms."""

SAMPLED_FILES = 8
"""The number of files whose indexes are evaluated. They are spread evenly over the files of a scan."""

DECIDED_STRIPES = 2
"""The number of stripes of a file whose indexes are evaluated. They are spread evenly over the stripes that the
statistics of the file and its stripes do not exclude. Each stripe takes 0.2 to 1.2 ms."""

SAMPLED_ROWS = 16_384
"""The number of rows on which the condition is evaluated. They are the first remaining rows of a stripe."""

LARGE_ROWS = 500_000
"""A sample is read only if at least this many rows remain. Reading a sample takes 0.5 to 2 ms."""


def is_local(scan: Scan) -> bool:
    """Whether all files are on this machine."""
    return all(job.source.kind in _LOCAL for job in scan.jobs)


def is_tiny(scan: Scan) -> bool:
    """Whether all files are on this machine and together have at most ``TINY_BYTES`` bytes. Reading them takes less
    time than ``pays``."""
    size = 0
    for job in scan.jobs:
        size += _local_bytes(job.source)
        if size > TINY_BYTES:
            return False
    return True


def _local_bytes(source: Source) -> int:
    """The size of a file on this machine. For other files, a size that is not tiny."""
    if source.kind == "bytes":
        return len(source.location)
    try:
        return os.stat(source.location).st_size if source.kind == "path" else TINY_BYTES + 1
    except OSError:  # the read of the file raises the error
        return 0


def pays(scan: Scan, *, most_kept: float = 0.0, metrics: ScanMetrics | None = None) -> bool:
    """Whether a scan that evaluates its condition itself is faster than filtering in the engine.

    The scan is faster if at most half of the rows remain after the indexes are used. This share is estimated from some
    of the files. The scan is also faster if the condition is true for at most the share ``most_kept`` of the rows. This
    share is estimated from a sample. The estimates read metadata, indexes and rows of local files. If the scan has a
    condition and the files are in a store, the result is True, and nothing is read. Without a condition the result is
    False. ``metrics`` counts all these reads.
    """
    if scan.request.where is None or not is_local(scan):
        return scan.request.where is not None
    jobs, request = scan.jobs, scan.resolved
    if scan.indexes is not None:
        jobs, _ = scan.indexes.plan(jobs, request, count=None if metrics is None else partial(add_reads, metrics))
        if len(jobs) <= LARGEST_SHARE_LEFT * len(scan.jobs):
            return True
    step = -(-len(jobs) // SAMPLED_FILES) or 1
    total, left = 0, 0.0
    decided: list[tuple[OpenFile, StripeDecision]] = []
    counting = replace(request.counting, options=request.options.override(use_threads=False)).as_table(SAMPLED_ROWS)
    with FileQueue(jobs[::step], counting, metrics or ScanMetrics(), open_all=True) as files:
        while (file := files.take(wait=True)) is not None:
            total += file.scan.rows.count
            numbers = file.scan.stripe_numbers()
            tried = numbers[:: -(-len(numbers) // DECIDED_STRIPES) or 1]
            for number in tried:
                decision: StripeDecision = run_value(file.scan.decide(number), file.storage)
                left += decision.rows_after * len(numbers) / len(tried)
                if decision.rows_after:
                    decided.append((file, decision))
        if left <= LARGEST_SHARE_LEFT * total:
            return True
        if most_kept == 0 or left * step < LARGE_ROWS:
            return False
        return _share_kept(*decided[len(decided) // 2]) <= most_kept


def _share_kept(file: OpenFile, decision: StripeDecision) -> float:
    """Returns the share of the rows for which the condition is true, in a sample of the remaining rows of a stripe."""
    may = decision.rows.may.limit(SAMPLED_ROWS)
    rows = replace(decision.rows, may=may, must=decision.rows.must & may)
    if rows.are_proved:
        return 1
    counts: list[int] = []
    for _ in run(file.scan.read(replace(decision, rows=rows), count=counts.append), file.storage):
        raise AssertionError("a count returned a batch")
    return sum(counts) / may.count
