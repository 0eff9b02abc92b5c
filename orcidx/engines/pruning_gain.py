"""Decides whether a condition of an engine is pushed into the scan. The decision depends on two shares of the rows: the
share that the indexes do not exclude, and the share for which the condition is true.

An engine filters in compiled code on all cores. Filtering in the scan is faster if indexes leave out rows. With Polars,
it is also faster if few rows remain, because strings of the other rows are neither created nor passed to Polars
(decision 0012). Rows of remote files are expensive to fetch, so every condition is pushed for remote files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from orcidx.fetching.drive import run_value
from orcidx.planner.request import FileJob
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.metrics import ScanMetrics, add_reads
from orcidx.scanner.scan import Scan

__all__ = ["is_local", "pays"]

LARGEST_SHARE_LEFT = 0.5
"""A condition is pushed if indexes leave at most this share of the rows."""

_LOCAL = ("path", "bytes")

SAMPLED_FILES = 8
"""The number of files whose indexes are evaluated. They are spread evenly over the files of a scan."""

SAMPLED_STRIPES = 2
SAMPLED_ROWS = 16_384
"""The number of rows in each sampled stripe on which the condition is evaluated."""

LARGE_ROWS = 500_000
"""A sample is read only if at least this many rows remain. Reading a sample takes one to three milliseconds."""


def is_local(scan: Scan) -> bool:
    """Whether all files are on this machine."""
    return all(job.source.kind in _LOCAL for job in scan.jobs)


def pays(scan: Scan, *, most_kept: float = 0.0, metrics: ScanMetrics | None = None) -> bool:
    """Whether a scan that evaluates its condition itself is faster than filtering in the engine.

    The scan is faster if at most half of the rows remain after the indexes are used. This share is estimated from some
    of the files. The scan is also faster if the condition is true for at most the share ``most_kept`` of the rows. This
    share is estimated from a sample. The estimates read metadata, indexes and rows of local files. If the scan has a
    condition and the files are in a store, the result is True, and nothing is read. Without a condition the result is
    False. ``metrics`` counts the reads of catalogs, metadata and indexes.
    """
    if scan.request.where is None or not is_local(scan):
        return scan.request.where is not None
    jobs, request = scan.jobs, scan.resolved
    if scan.indexes is not None:
        jobs, _ = scan.indexes.plan(jobs, request, count=None if metrics is None else partial(add_reads, metrics))
        if len(jobs) <= LARGEST_SHARE_LEFT * len(scan.jobs):
            return True
    step = -(-len(jobs) // SAMPLED_FILES) or 1
    total = left = 0
    samples: list[FileJob] = []
    with FileQueue(jobs[::step], replace(request, columns=()), metrics or ScanMetrics(), open_all=True) as files:
        for file in files:
            total += file.scan.rows.count
            for number in file.scan.stripe_numbers():
                rows = run_value(file.scan.decide(number), file.storage).rows
                left += rows.may.count
                if most_kept > 0 and rows.may.count:
                    some = rows.may.limit(SAMPLED_ROWS).shift_into(file.scan.reader.tail.footer.rows, rows.first_row)
                    samples.append(replace(file.scan.job, selection=some, deleted=None, row_range=None, stripes=None))
    if left <= LARGEST_SHARE_LEFT * total:
        return True
    return most_kept > 0 and left * step >= LARGE_ROWS and _share_kept(scan, samples) <= most_kept


def _share_kept(scan: Scan, samples: Sequence[FileJob]) -> float:
    """Returns the share of the rows for which the condition is true. Only some of the samples are read. They are chosen
    at regular intervals."""
    step = -(-len(samples) // SAMPLED_STRIPES) or 1
    tried = samples[step // 2 :: step]
    kept = replace(scan, jobs=tried, request=replace(scan.resolved, columns=()), indexes=None, row_limit=None)
    rows: int = sum(job.selection.count for job in tried)
    return kept.count_rows() / max(1, rows)
