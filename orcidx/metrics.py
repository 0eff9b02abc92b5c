"""``ScanMetrics``: the work that one pass over a scan did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ScanMetrics"]


@dataclass
class ScanMetrics:
    """Counters of one pass, growing while it runs. Bytes are bytes, times are seconds of wall clock."""

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
    """By stage: "open", "plan", "read", "decode"."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time spent inside to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
