"""Facts about each column, to be shown on one line: statistics, bytes, and how sorted the column is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcidx.explain.overlap import overlap_depth
from orcidx.explain.render import rounded
from orcidx.inspection.sizes import file_sizes
from orcidx.options import USUAL_OPTIONS
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.reader import OrcReader
from orcidx.orc.statistics import file_statistics, unit_statistics
from orcidx.orc.timezones import zone_of_statistics
from orcidx.orc.types import OrcType

__all__ = ["ColumnFacts", "Ranges", "column_facts", "column_ranges"]


@dataclass(frozen=True)
class Ranges:
    """The ranges of one column's row groups, in the order of the rows. Each bound is given as its rank among all
    bounds, so columns of any type can be drawn. ``lows`` and ``highs`` are the bounds in their stored form. Row groups
    without a range are left out."""

    groups: tuple[int, ...]
    low_ranks: tuple[int, ...]
    high_ranks: tuple[int, ...]
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]

    @classmethod
    def of(cls, groups: Sequence[int], lows: Sequence[Any], highs: Sequence[Any]) -> Ranges:
        """Ranks all bounds together."""
        places = {value: place for place, value in enumerate(sorted({*lows, *highs}))}
        low_ranks, high_ranks = (tuple(places[value] for value in part) for part in (lows, highs))
        return cls(tuple(groups), low_ranks, high_ranks, tuple(lows), tuple(highs))

    @property
    def overlap(self) -> float:
        """The average overlap depth, as in ``explain`` (``explain/overlap``). The value 1 is the best that sorting can
        achieve."""
        return overlap_depth("", self.low_ranks, self.high_ranks).average

    @property
    def of_few_values(self) -> bool:
        """Whether nearly all row groups have the same few bounds, as in a column of few different values. Each row
        group then contains most of the values, and a bloom filter rules out no row group."""
        return len({*self.low_ranks, *self.high_ranks}) <= 2 + len(self.groups) // 10

    @property
    def order(self) -> str | None:
        """A text: "ascending", "descending", "constant", or the overlap depth. It is None if there are fewer than two
        row groups."""
        count = len(self.groups)
        if count < 2:
            return None
        lows, highs = np.array(self.low_ranks), np.array(self.high_ranks)
        if lows.min() == highs.max():
            return "constant"
        if (lows[1:] >= highs[:-1]).all():
            return "ascending"
        if (highs[1:] <= lows[:-1]).all():
            return "descending"
        return f"overlap depth {rounded(self.overlap)} of {count:,}"


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about one column. A fact is None if the file does not have it. ``bytes`` is the stored size of the column
    and its children, with indexes."""

    column: str
    type: str
    values: int | None
    nulls: int | None
    minimum: Any
    maximum: Any
    sum: Any
    bytes: int
    order: str | None


def column_facts(reader: OrcReader) -> list[ColumnFacts]:
    """Returns the facts of every column except the root, in the order of their ids. The function reads footers and row
    indexes."""
    sizes = {one.column_id: one.bytes for one in file_sizes(reader).columns}
    repeated = reader.root.repeated_ids
    ranges = column_ranges(reader, [node for node in reader.root.walk() if node.id not in repeated])
    found = []
    for node in reader.root.walk():
        if not node.path:
            continue
        known = unit_statistics(file_statistics(reader.tail, node), 0, hybrid=reader.facts.hybrid_calendar)
        nulls = None
        if known.count is not None and node.id not in repeated:
            nulls = reader.tail.footer.rows - known.count
        low = known.minimum if known.minimum is not None else known.lower_bound
        if isinstance(low, float):
            low += 0.0  # a minimum of zero is stored as -0.0, and adding 0.0 makes it 0.0
        high = known.maximum if known.maximum is not None else known.upper_bound
        size = sum(sizes.get(column, 0) for column in node.ids)
        order = ranges[node.id].order if node.id in ranges else None
        found.append(ColumnFacts(node.dotted, str(node), known.count, nulls, low, high, known.sum, size, order))
    return found


def column_ranges(reader: OrcReader, nodes: list[OrcType]) -> dict[int, Ranges]:
    """Returns the ranges of each column whose bounds can be trusted, by column id. The function reads the row
    indexes."""
    options = USUAL_OPTIONS
    found: dict[int, list[tuple[int, Any, Any]]] = {}
    first = 0
    for stripe in range(len(reader.stripes)):
        index = read_row_index(reader, stripe, nodes)
        zone = zone_of_statistics(reader.footer(stripe).writer_timezone)
        for node in nodes:
            if node.id not in index.columns:
                continue
            bounds = bound_statistics(index.columns[node.id].statistics, reader.facts, options, zone=zone)
            valid = np.flatnonzero(bounds.lower.valid & bounds.upper.valid).tolist()
            found.setdefault(node.id, []).extend(
                (first + unit, bounds.lower.value(unit), bounds.upper.value(unit)) for unit in valid
            )
        first += index.groups
    return {column: Ranges.of(*zip(*items)) for column, items in found.items() if items}
