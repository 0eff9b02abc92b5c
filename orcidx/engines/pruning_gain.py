"""Whether a condition of an engine is worth pushing: what share of rows the indexes, and the condition, leave.

An engine filters in compiled code on all cores. A scan that filters too gains where indexes leave out rows, and in
Polars also where few rows remain: no strings are made of the others, and they are not handed over (decision 0012). Rows
that come over a network are expensive, so there every condition is pushed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orcidx.fetching.drive import run_value
from orcidx.planner.request import FileJob
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan

__all__ = ["is_local", "pays"]

LARGEST_SHARE_LEFT = 0.5
"""The largest share of rows that indexes may leave for a condition to be pushed."""

_LOCAL = ("path", "bytes")

SAMPLED_FILES = 8
"""The number of files whose indexes are asked, spread evenly over the files of a scan."""

SAMPLED_STRIPES = 2
SAMPLED_ROWS = 16_384
"""Rows of each sampled stripe that the condition is tried on."""

LARGE_ROWS = 500_000
"""The fewest remaining rows for which a sample is worth its time, one to three milliseconds."""


def is_local(scan: Scan) -> bool:
    """Whether all files are on this machine."""
    return all(job.source.kind in _LOCAL for job in scan.jobs)


def pays(scan: Scan, *, most_kept: float = 0.0) -> bool:
    """Whether it is worth giving the scan its condition.

    So it is where indexes leave at most half of the rows, judged by some of the files, and where the condition keeps at
    most ``most_kept`` of them, judged by a sample. Metadata, indexes and the sample are read of local files; for files
    in a store the answer is yes, without reading.
    """
    if scan.request.where is None or not is_local(scan):
        return scan.request.where is not None
    jobs, request = scan.jobs, scan.resolved
    if scan.indexes is not None:
        jobs, _ = scan.indexes.plan(jobs, request)
        if len(jobs) <= LARGEST_SHARE_LEFT * len(scan.jobs):
            return True
    step = -(-len(jobs) // SAMPLED_FILES) or 1
    total = left = 0
    samples: list[FileJob] = []
    with FileQueue(jobs[::step], replace(request, columns=()), ScanMetrics(), open_all=True) as files:
        for file in files:
            total += file.scan.wanted_count
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
    """The share of the rows for which the condition is true, in some of the samples, spread evenly."""
    step = -(-len(samples) // SAMPLED_STRIPES) or 1
    tried = samples[step // 2 :: step]
    kept = replace(scan, jobs=tried, request=replace(scan.resolved, columns=()), indexes=None, row_limit=None)
    rows: int = sum(job.selection.count for job in tried)
    return kept.count_rows() / max(1, rows)
