"""How far the ranges of row groups overlap: what a lookup by a column costs, and what sorting by it would gain.

The depth of a row group is the number of row groups whose ranges meet its own, itself counted: about as many does a
lookup of one of its values read, if nothing else rules them out. Sorted by the column, a file has a depth of 1, or a
little more where row groups share their last value; in no order, it is the number of row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ColumnDepth", "overlap_depth"]


@dataclass(frozen=True)
class ColumnDepth:
    """Of ``row_groups`` (those of nulls alone are left out): the ``average`` depth, and the ``greatest``. Those of
    which nothing is known, ``unbounded``, meet all. ``unread``: row groups behind them that were not looked at."""

    column: str
    row_groups: int
    average: float
    greatest: int
    unbounded: int = 0
    unread: int = 0


def overlap_depth(
    column: str, ranges: Sequence[tuple[Any, Any]], unbounded: int = 0, *, unread: int = 0
) -> ColumnDepth:
    """``ranges``: (least, greatest) of each row group, comparable values."""
    if not ranges:
        return ColumnDepth(column, unbounded, float(unbounded), unbounded, unbounded, unread)
    edges = sorted({edge for pair in ranges for edge in pair})
    rank = {edge: number for number, edge in enumerate(edges)}
    starts = np.array([rank[low] for low, _ in ranges])
    stops = np.array([rank[high] for _, high in ranges])
    begun = np.searchsorted(np.sort(starts), stops, side="right")
    ended = np.searchsorted(np.sort(stops), starts, side="left")
    groups = len(ranges) + unbounded
    depths = np.append(begun - ended + unbounded, np.full(unbounded, groups))
    return ColumnDepth(column, groups, round(float(depths.mean()), 2), int(depths.max()), unbounded, unread)
