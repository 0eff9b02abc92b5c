"""Counts the reads that find the schema of a scan. The next iteration of the scan adds them to its metrics. Otherwise
the tail of the first file would be counted nowhere, because it is in memory when the iteration begins."""

from __future__ import annotations

from orcidx.scanner.metrics import ScanMetrics

__all__ = ["SCHEMA_READS", "count_schema_reads", "schema_reads"]

SCHEMA_READS = "_schema_reads"
"""The attribute of a scan that has the counts."""


def schema_reads(scan: object) -> ScanMetrics:
    """Returns the counts of the reads that find the schema of a scan. A caller may add the counts of other reads that
    come before an iteration."""
    reads: ScanMetrics = scan.__dict__.setdefault(SCHEMA_READS, ScanMetrics())
    return reads


def count_schema_reads(scan: object, metrics: ScanMetrics) -> None:
    """Adds the reads that found the schema to ``metrics``, unless they were already added to other metrics."""
    reads = scan.__dict__.pop(SCHEMA_READS, None)
    if reads is not None:
        metrics.requests += reads.requests
        metrics.bytes_read += reads.bytes_read
