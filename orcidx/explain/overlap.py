"""Measures how much the ranges of row groups overlap. The overlap shows how much a lookup by a column reads, and how
much sorting by the column would save.

The depth of a row group is the number of row groups whose ranges overlap its own range, including itself. A lookup of a
value in the row group reads about this number of row groups, unless bloom filters or other indexes exclude some of
them. In a file that is sorted by the column the depth is 1, or a little more if row groups share a value. In a file
without order the depth is the number of row groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ColumnDepth", "overlap_depth"]


@dataclass(frozen=True)
class ColumnDepth:
    """How much the row groups overlap in one column. ``average`` and ``greatest`` are the average and the greatest
    depth. ``row_groups`` is the number of row groups, without the row groups that contain only nulls. ``unbounded`` is
    the number of row groups without a known range. These row groups count as overlapping all other row groups.
    ``unread`` is the number of further row groups that were not examined."""

    column: str
    row_groups: int
    average: float
    greatest: int
    unbounded: int = 0
    unread: int = 0


def overlap_depth(
    column: str, least: Sequence[Any], greatest: Sequence[Any], unbounded: int = 0, *, unread: int = 0
) -> ColumnDepth:
    """Computes the overlap depth of the row groups of a column. ``least`` and ``greatest`` are the bounds of each row
    group as comparable values."""
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
