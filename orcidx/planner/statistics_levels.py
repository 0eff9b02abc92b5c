"""Statistics as evidence, at three levels: the file, its stripes, and the row groups of a stripe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.evidence import StatisticsEvidence
from orcidx.orc.kinds import TypeKind
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import RawStatistics, file_statistics, stripe_statistics
from orcidx.orc.timezones import Zone
from orcidx.orc.types import OrcType
from orcidx.planner.pruned_columns import PrunedColumns

__all__ = ["StatisticsLevels"]


@dataclass(frozen=True)
class StatisticsLevels:
    """The statistics of the predicate's columns at each level."""

    columns: PrunedColumns

    def of_file(self) -> StatisticsEvidence:
        """Returns the statistics of the file, which are in its footer."""
        tail = self.columns.reader.tail
        bounds = np.array([0, tail.footer.rows], np.int64)
        return self._evidence("file statistics", lambda node: file_statistics(tail, node), bounds, zone=None)

    def of_stripes(self) -> StatisticsEvidence:
        """Returns the statistics of all stripes, which are in the file's metadata."""
        tail = self.columns.reader.tail
        bounds = self.columns.reader.stripe_bounds
        return self._evidence("stripe statistics", lambda node: stripe_statistics(tail, node), bounds, zone=None)

    def _evidence(
        self, name: str, read: Callable[[OrcType], RawStatistics], bounds: npt.NDArray[np.int64], *, zone: Zone | None
    ) -> StatisticsEvidence:
        found = {}
        missing = {}
        for path, node in self.columns.leaf_nodes.items():
            try:
                found[path] = self.columns.bounded(node, read(node), zone)
            except (CorruptFile, Unsupported) as error:
                missing[path] = f"damaged: {error.message}"
        return StatisticsEvidence(name, found, bounds, self.columns.options, missing=missing)

    @property
    def zone_narrows_bounds(self) -> bool:
        """Whether the zone of a stripe's writer gives tighter bounds. This is true for timestamps without a zone."""
        kinds = [node.kind for node in self.columns.leaf_nodes.values()]
        return self.columns.options.row_index and TypeKind.TIMESTAMP in kinds

    def of_stripe(self, stripe: int, rows: int) -> StatisticsEvidence:
        """Returns the statistics of one stripe, interpreted in the time zone of the stripe's writer. The zone gives
        tighter bounds for timestamps."""
        bounds = np.array([0, rows], np.int64)
        tail = self.columns.reader.tail
        return self._evidence(
            "stripe statistics",
            lambda node: stripe_statistics(tail, node, stripes=[stripe]),
            bounds,
            zone=self.columns.zone(stripe),
        )

    def of_groups(self, stripe: int, index: RowIndex) -> StatisticsEvidence:
        """The statistics of the row groups of a stripe."""
        found = {}
        missing = {}
        for path, node in self.columns.leaf_nodes.items():
            if node.id in index.columns:
                found[path] = self.columns.bounded(node, index.columns[node.id].statistics, self.columns.zone(stripe))
            elif node.id in index.untrusted:
                missing[path] = index.untrusted[node.id]
        name = "row-group statistics"
        return StatisticsEvidence(name, found, index.bounds, self.columns.options, stripe=stripe, missing=missing)
