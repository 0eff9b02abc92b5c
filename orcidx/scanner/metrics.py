"""``ScanMetrics``: counts of the work of one iteration over the rows of a scan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from orcidx.scanner.stage_timer import StageTimer
from orcidx.spellings import counted, size_text
from orcidx.storage import ReadMetrics

__all__ = ["ScanMetrics", "add_counts", "add_reads"]


@dataclass
class ScanMetrics:
    """Counters of the work of one iteration over the rows of a scan. They increase while the iteration runs. Sizes are
    in bytes. Times are in seconds of wall clock time.

    ``requests`` and ``bytes_read`` count what was read from storage for this iteration. The first iteration also counts
    the read that found the schema of the scan. Tails, footers and indexes that are already in memory are not read and
    not counted. An example is the tail of a file that ``orcidx.open`` has opened."""

    files: int = 0
    files_skipped: int = 0
    requests: int = 0
    bytes_read: int = 0
    stripes: int = 0
    stripes_skipped: int = 0
    row_groups: int = 0
    row_groups_kept: int = 0
    chunks_decompressed: int = 0
    bytes_decompressed: int = 0
    rows_considered: int = 0
    rows_returned: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by stage: "open", "plan", "read", "decode"."""

    def stage(self, name: str) -> StageTimer:
        """Returns a context manager that adds the time of its body to a stage."""
        return StageTimer(self.seconds, name)

    def skip_files(self, count: int) -> None:
        """Counts files that are not opened."""
        self.files += count
        self.files_skipped += count

    @property
    def work(self) -> str:
        """A sentence about what was read."""
        groups = f"{self.row_groups_kept:,} of {counted(self.row_groups, 'row group')}"
        return f"read {groups}, {size_text(self.bytes_read)} in {counted(self.requests, 'request')}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def add_reads(metrics: ScanMetrics, reads: ReadMetrics) -> None:
    """Adds the counts of what a reader has read."""
    metrics.requests += reads.requests
    metrics.bytes_read += reads.bytes_fetched


def add_counts(metrics: ScanMetrics, other: ScanMetrics) -> None:
    """Adds the counts of a part of an iteration. The seconds of the part are not added."""
    for name, value in other.__dict__.items():
        if name != "seconds":
            setattr(metrics, name, getattr(metrics, name) + value)
