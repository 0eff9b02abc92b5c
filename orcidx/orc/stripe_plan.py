"""Which bytes of a stripe a selection of row groups needs. Pure: no I/O, no decoding.

A row group's values start where its row-index entry points and end where the next entry points, or a little later: the
run (at most 4,356 bytes for RLEv2 patched base, 1,281 for RLEv1) or the chunk that holds the boundary is shared by both
groups, and such a run may end in the chunk behind. The end is planned tight; a reader that meets a run across the
planned end fetches the rest on demand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from orcidx.orc.row_index import StreamPositions

__all__ = ["group_ranges", "group_runs"]

LONGEST_RUN = 4400
CHUNK_HEADER = 3

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def group_runs(groups: Bools) -> Int64s:
    """Runs of consecutive True values as an array of (start, stop) pairs."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], groups, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)


def group_ranges(
    positions: StreamPositions | None, groups: Bools, *, length: int, block_size: int, on_demand: bool = False
) -> list[tuple[int, int]]:
    """Byte ranges of one stream, relative to its start, that hold the wanted row groups.

    ``positions`` None means that the stream has none (dictionaries, or no row index): it is needed whole. Offsets must
    have been checked to lie within ``length``. ``on_demand``: leave out the last chunk of a stretch, whose end only its
    header tells; for storage where one more small read is cheap.
    """
    if length == 0 or not groups.any():
        return []
    if positions is None or groups.all():
        return [(0, length)]
    starts = positions.offsets
    ranges: list[tuple[int, int]] = []
    for first, after in group_runs(groups).tolist():
        start = int(starts[first])
        stop = length
        if after < len(groups):
            stop = _end(positions, after, length=length, block_size=block_size, on_demand=on_demand)
        if start >= stop:
            continue
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(stop, ranges[-1][1]))
        else:
            ranges.append((start, stop))
    return ranges


def _end(positions: StreamPositions, group: int, *, length: int, block_size: int, on_demand: bool) -> int:
    """Where the bytes that the groups before ``group`` need end."""
    offset = int(positions.offsets[group])
    shares_run = bool(positions.mid_run[group])
    if positions.within is None:
        return min(length, offset + (LONGEST_RUN if shares_run else 0))
    if on_demand or (not shares_run and not positions.within[group]):
        return min(length, offset)
    chunks = 2 if shares_run and int(positions.within[group]) + LONGEST_RUN > block_size else 1
    later = np.unique(positions.offsets[group:])
    later = later[later > offset]
    chunk_end = offset + chunks * (CHUNK_HEADER + block_size)
    return min(length, chunk_end, int(later[chunks - 1]) if len(later) >= chunks else length)
