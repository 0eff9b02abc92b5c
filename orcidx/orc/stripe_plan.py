"""Plans which bytes of a stripe a selection of row groups needs, without I/O or decoding.

The values of a row group start at the position that its row-index entry gives. They end at the position of the next
entry, or a little later, because two groups may share the run or the chunk at their boundary. A run has at most 4,356
bytes (RLEv2 patched base) or 1,281 bytes (RLEv1). The planned range includes the shared run or chunk, and the next
chunk if the run may end there. With ``on_demand`` the range of a compressed stream ends at the start of the shared
chunk. A reader that needs bytes after the planned range fetches them on demand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from orcidx.orc.compression import CHUNK_HEADER
from orcidx.orc.row_index import StreamPositions
from orcidx.pruning.row_forms import runs_of_mask

__all__ = ["group_ranges"]

LONGEST_RUN = 4400
"""The most bytes of a run. A run may end this far after its row group."""

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def group_ranges(
    positions: StreamPositions | None,
    groups: Bools,
    *,
    length: int,
    block_size: int,
    on_demand: bool = False,
    runs: Int64s | None = None,
) -> list[tuple[int, int]]:
    """Byte ranges of one stream that contain the wanted row groups. They are relative to the start of the stream.

    ``positions``: None if the stream has no positions (dictionaries, or no row index). In this case the whole stream is
    needed. The caller must have checked that no offset is larger than ``length``. ``on_demand``: whether to leave out
    the last chunk of a range, because only the header of the chunk gives its end. ``on_demand`` is set for storage
    where one more small read takes little time. ``runs``: the result of ``runs_of_mask(groups)``, if it is known.
    """
    runs = runs_of_mask(groups) if runs is None else runs
    if length == 0 or not len(runs):
        return []
    if positions is None or (runs[0, 0] == 0 and runs[0, 1] == len(groups)):
        return [(0, length)]
    if on_demand and positions.within is not None and len(runs) == 1:
        first, last = runs[0].tolist()
        stop = length if last == len(groups) else min(length, int(positions.offsets[last]))
        start = int(positions.offsets[first])
        return [(start, stop)] if start < stop else []
    starts = positions.offsets[runs[:, 0]]
    stops = np.full(len(runs), length, np.int64)
    inner = runs[:, 1] < len(groups)
    stops[inner] = _ends(positions, runs[inner, 1], length=length, block_size=block_size, on_demand=on_demand)
    ranges: list[tuple[int, int]] = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if start >= stop:
            continue
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(stop, ranges[-1][1]))
        else:
            ranges.append((start, stop))
    return ranges


def _ends(positions: StreamPositions, groups: Int64s, *, length: int, block_size: int, on_demand: bool) -> Int64s:
    """Returns for each of ``groups`` where the bytes of the previous group end, as an offset in the stream. All offsets
    are computed at once, because there may be thousands of groups."""
    offsets = positions.offsets[groups]
    shares_run = positions.mid_run[groups]
    if positions.within is None:
        return np.minimum(length, offsets + LONGEST_RUN * shares_run)
    if on_demand:
        return np.minimum(length, offsets)
    within = positions.within[groups]
    chunks = 1 + (shares_run & (within + LONGEST_RUN > block_size))
    known = np.unique(positions.offsets)
    later = known.searchsorted(offsets, "right") + chunks - 1
    chunk_starts = np.append(known, length)[np.minimum(later, len(known))]
    ends = np.minimum(offsets + chunks * (CHUNK_HEADER + block_size), chunk_starts)
    return np.minimum(length, np.where(shares_run | (within > 0), ends, offsets))
