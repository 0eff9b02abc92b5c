"""Collects the value ranges of the row groups of a scan's files. ``explain`` shows how much these ranges overlap. See
``explain/overlap``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orcidx.errors import OrcidxError
from orcidx.explain.overlap import ColumnDepth, overlap_depth
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.row_index import group_count
from orcidx.orc.statistics import PARTS
from orcidx.orc.timezones import Zone, zone_of_statistics
from orcidx.orc.types import OrcType
from orcidx.scanner.file_scan import FileScan

__all__ = ["GroupRanges"]

MOST_COLUMNS = 64
MOST_GROUPS = 20_000
"""The most columns whose ranges are collected, and the most row groups of all files together."""


@dataclass
class _Ranges:
    least: list[Any] = field(default_factory=list)
    greatest: list[Any] = field(default_factory=list)
    unbounded: int = 0


class GroupRanges:
    """Collects the ranges of the predicate's columns. Without a predicate, collects the ranges of all columns that are
    read."""

    def __init__(self) -> None:
        self._columns: dict[str, _Ranges] = {}
        self._groups = 0
        self._unread = 0

    def add(self, scan: FileScan) -> None:
        """Reads the row indexes of a file. A damaged or missing index gives no ranges."""
        nodes = list(_asked_nodes(scan))
        for stripe, info in enumerate(scan.reader.stripes):
            if not nodes or not info.rows:
                return
            if self._groups >= MOST_GROUPS:
                self._unread += group_count(info.rows, scan.reader.facts.row_index_stride)
                continue
            try:
                index = read_row_index(scan.reader, stripe, nodes)
            except OrcidxError:  # the part of the explanation about this stripe reports the damage
                return
            self._groups += index.groups
            zone = zone_of_statistics(scan.reader.footer(stripe).writer_timezone)
            for node in nodes:
                if node.id in index.columns:
                    self._add(node, scan, index.columns[node.id].statistics, zone)

    def _add(self, node: OrcType, scan: FileScan, raw: Any, zone: Zone | None) -> None:
        bounds = scan.evidence.pruner.columns.bounded(node, raw, zone)
        ranges = self._columns.setdefault(node.dotted, _Ranges())
        known = bounds.lower.valid & bounds.upper.valid
        units = np.flatnonzero(known)
        ranges.least += bounds.lower.at(units)
        ranges.greatest += bounds.upper.at(units)
        ranges.unbounded += int((~known & ~bounds.all_null).sum())

    @property
    def depths(self) -> tuple[ColumnDepth, ...]:
        """The overlap of the row groups, for each column that has more than one row group."""
        found = [
            overlap_depth(name, one.least, one.greatest, one.unbounded, unread=self._unread)
            for name, one in self._columns.items()
        ]
        return tuple(depth for depth in found if depth.row_groups > 1)


def _asked_nodes(scan: FileScan) -> Iterator[OrcType]:
    where = scan.evidence.pruner.where
    names = set(scan.columns.schema.names) if where is None else {".".join(leaf.path) for leaf in where.leaves()}
    repeated = scan.reader.root.repeated_ids
    found = 0
    for node in scan.reader.root.walk():
        wanted = node.path and (node.path[0] in names or node.dotted in names)
        if wanted and node.kind in PARTS and not node.children and node.id not in repeated and found < MOST_COLUMNS:
            found += 1
            yield node
