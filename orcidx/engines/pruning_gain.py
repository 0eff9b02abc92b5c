"""Whether a condition of an engine is worth pushing: what share of rows the indexes leave for it.

An engine filters in compiled code on all cores. A scan that filters too gains only if indexes leave out rows: TPC-H,
whose conditions rule out none, took 1.4 times as long in DuckDB with its conditions pushed (decision 0012). Rows that
come over a network are expensive, so there every condition is pushed."""

from __future__ import annotations

from dataclasses import replace

from orcidx.fetching.drive import run_value
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan

__all__ = ["is_local", "pays"]

LARGEST_SHARE_LEFT = 0.5
"""The largest share of rows that may remain. A scan with a condition takes up to twice as long for a row as one
without."""

_LOCAL = ("path", "bytes")

SAMPLED_FILES = 8
"""The number of files whose indexes are asked, spread evenly over the files of a scan."""


def is_local(scan: Scan) -> bool:
    """Whether all files are on this machine."""
    return all(job.source.kind in _LOCAL for job in scan.jobs)


def pays(scan: Scan) -> bool:
    """Whether indexes leave at most half of the rows for the scan's condition, judged by some of its files. Metadata
    and indexes of local files are read; for files in a store the answer is yes, without reading."""
    if scan.request.where is None or not is_local(scan):
        return scan.request.where is not None
    jobs, request = scan.jobs, scan.resolved
    if scan.indexes is not None:
        jobs, _ = scan.indexes.plan(jobs, request)
        if len(jobs) <= LARGEST_SHARE_LEFT * len(scan.jobs):
            return True
    step = -(-len(jobs) // SAMPLED_FILES) or 1
    total = left = 0
    with FileQueue(jobs[::step], replace(request, columns=()), ScanMetrics(), open_all=True) as files:
        for file in files:
            total += file.scan.wanted_count
            for number in file.scan.stripe_numbers():
                left += run_value(file.scan.decide(number), file.storage).rows.may.count
    return left <= LARGEST_SHARE_LEFT * total
