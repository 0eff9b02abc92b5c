"""How far the ranges of row groups overlap: what a lookup by a column costs, and what sorting by it would gain.

The depth of a row group is the number of row groups whose ranges meet its own, itself included. About that many row
groups are read by a lookup of one of its values, if nothing else rules them out. In a file that is sorted by the column
the depth is 1, or a little more where row groups share a value; in a file without order it is the number of row
groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ColumnDepth", "overlap_depth"]


@dataclass(frozen=True)
class ColumnDepth:
    """The ``average`` and the ``greatest`` depth of ``row_groups``, without row groups that hold only nulls.
    ``unbounded`` row groups have no known range, and meet all others. ``unread``: further row groups that were not
    looked at."""

    column: str
    row_groups: int
    average: float
    greatest: int
    unbounded: int = 0
    unread: int = 0


def overlap_depth(
    column: str, least: Sequence[Any], greatest: Sequence[Any], unbounded: int = 0, *, unread: int = 0
) -> ColumnDepth:
    """``least`` and ``greatest``: the bounds of each row group, as comparable values."""
    if not least:
        return ColumnDepth(column, unbounded, float(unbounded), unbounded, unbounded, unread)
    rank = {edge: number for number, edge in enumerate(sorted({*least, *greatest}))}
    starts = np.array(list(map(rank.__getitem__, least)))
    stops = np.array(list(map(rank.__getitem__, greatest)))
    begun = np.searchsorted(np.sort(starts), stops, side="right")
    ended = np.searchsorted(np.sort(stops), starts, side="left")
    groups = len(least) + unbounded
    depths = np.append(begun - ended + unbounded, np.full(unbounded, groups))
    return ColumnDepth(column, groups, round(float(depths.mean()), 2), int(depths.max()), unbounded, unread)
