"""The columns that a scan reads or that its predicate uses, with their statistics, time zones and stored sizes. These
are known before the data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orcidx.options import ReadOptions
from orcidx.orc.bounds import StatisticsColumn, bound_statistics
from orcidx.orc.kinds import StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import RawStatistics
from orcidx.orc.timezones import Zone, zone_of_statistics
from orcidx.orc.types import OrcType
from orcidx.planner.read_bytes import data_without_evidence

__all__ = ["PrunedColumns"]

Path = tuple[str, ...]


@dataclass(frozen=True)
class PrunedColumns:
    """The columns of one file that a scan needs. ``nodes`` has the columns that are read, by column id. ``leaf_nodes``
    has the predicate's columns, by path. ``options``: the options of the scan with ``calendar="proleptic"``, because
    conditions always compare dates of the proleptic calendar."""

    reader: OrcReader
    nodes: Mapping[int, OrcType]
    leaf_nodes: Mapping[Path, OrcType]
    options: ReadOptions

    def bounded(self, node: OrcType, raw: RawStatistics, zone: Zone | None = None) -> StatisticsColumn:
        """Makes a ``StatisticsColumn`` from ``raw``, the raw statistics of a column."""
        repeated = node.id in self.reader.root.repeated_ids
        return bound_statistics(raw, self.reader.facts, self.options, repeated=repeated, zone=zone)

    def zone(self, stripe: int) -> Zone | None:
        """Returns the time zone in which the writer stored the timestamps of a stripe. Only the stripe's footer names
        this zone."""
        return zone_of_statistics(self.reader.footer(stripe).writer_timezone)

    def data_bytes(self, stripe: int) -> int:
        """The number of bytes of the stripe's data streams. Only streams of the columns that are read are counted."""
        return data_without_evidence(self.reader, stripe, self.nodes)

    def dictionary_bytes(self, stripe: int, node: OrcType) -> int:
        """Returns the number of stored bytes of a column's dictionary. The result is 0 if the column has no
        dictionary."""
        if self.reader.footer(stripe).encodings[node.id].dictionary_size == 0:
            return 0
        extents = self.reader.extents(stripe)
        return sum(extents.get((node.id, kind), (0, 0))[1] for kind in (StreamKind.LENGTH, StreamKind.DICTIONARY_DATA))
