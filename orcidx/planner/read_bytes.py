"""The bytes that a query reads, counted in one place: what explanations show, and what a scan's counters are held to.

Three numbers. *Without evidence*: the data streams of the columns that are read, in every stripe. *Planned*: those of
them that hold the row groups which evidence leaves. *Counted* (``ScanMetrics.bytes_read``): what storage gave, with
tails, footers and indexes. Of data, no more is counted than is planned, but for the over-read:

* of a file on this machine, ``CHUNK_HEADER`` bytes for each chunk whose end only its header tells, and, of
  a stripe of up to ``SMALL_STRIPE`` bytes (``scanner.small_stripes``) all of which is wanted and comes with one read,
  its indexes and the dictionaries that were asked before;
* of a remote one, what lies between neighbouring ranges that are fetched together (``merge_gap``, and
  ``JOINED_OVER_READ_BYTES`` of ``planner.data_fetches``).

Dictionaries that are read as evidence count with the indexes. Less is counted where columns wait for the filter of
others and no row of theirs survives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from orcidx.orc.kinds import DATA_KINDS, StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex
from orcidx.orc.stripe_plan import group_ranges

__all__ = ["data_planned", "data_without_evidence"]


def data_without_evidence(reader: OrcReader, stripe: int, columns: Iterable[int]) -> int:
    """Bytes of the data streams of these column ids in a stripe. Reads the stripe's footer, unless it is in memory."""
    return sum(length for _, _, length in _data_streams(reader, stripe, columns))


def data_planned(
    reader: OrcReader, stripe: int, columns: Iterable[int], *, index: RowIndex | None, kept: npt.NDArray[np.bool_]
) -> int:
    """Bytes of those streams that a scan reads if rows of every column are wanted. ``index``: the row index for
    seeking, None if the stripe is read whole; ``kept``: for each row group whether rows of it remain."""
    planned, block_size = 0, reader.facts.block_size
    for column, kind, length in _data_streams(reader, stripe, columns):
        positions = None if index is None else index.stream_positions(column, kind)
        ranges = group_ranges(positions, kept, length=length, block_size=block_size)
        planned += sum(stop - start for start, stop in ranges)
    return planned


def _data_streams(reader: OrcReader, stripe: int, columns: Iterable[int]) -> Iterator[tuple[int, StreamKind, int]]:
    """Column, kind and length of the existing streams."""
    extents = reader.extents(stripe)
    for column in columns:
        for kind in DATA_KINDS:
            if (found := extents.get((column, kind))) is not None:
                yield column, kind, found[1]
