"""``FileRows``: the rows of one data file of a table, in any supported format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.explain.model import FileExplanation
from orcidx.paimon_table.read.plan import TableFile
from orcidx.paimon_table.read.row_evidence import RowEvidence
from orcidx.paimon_table.read.shared_reading import SharedReading
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.small_groups import WaitingFile

__all__ = ["FileRows"]


@dataclass(frozen=True)
class FileRows(ABC):
    """The rows of one file in a scan, without the rows that its deletion vector or its file index excludes.
    ``metrics``: the metrics of the scan, to which the metrics of this file are added."""

    kept: RowEvidence
    reading: SharedReading
    metrics: ScanMetrics

    @property
    def file(self) -> TableFile:
        return self.kept.file

    @abstractmethod
    def batches(self, *, together: bool = False) -> Iterator[pa.RecordBatch | WaitingFile]:
        """The rows that satisfy the predicate that is pushed to the file. ``together``: whether the caller decodes the
        rows of waiting files."""

    @abstractmethod
    def places(self) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Batches of rows with their positions in the file. Every row was tested with the predicate."""

    @abstractmethod
    def explain(self) -> FileExplanation:
        """Explains which parts of the file a scan would read, and why."""
