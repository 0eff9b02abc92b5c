"""Counts the bytes that a query reads, for explanations and for the tests of a scan's counters.

Evidence means statistics, bloom filters, dictionaries and indexes. There are three numbers. *Without evidence* counts
the data streams of the columns that are read, in every stripe. *Planned* counts only the parts of these streams that
contain row groups which evidence does not rule out. *Counted* (``ScanMetrics.bytes_read``) has all bytes that the
storage returned for a scan, including tails, footers and indexes that were not in memory. An explanation adds the
planned bytes to the bytes of the tails, footers and indexes that a new process reads. It reads these tails, footers and
indexes again, even if they are in memory. The counted bytes of data may exceed the planned bytes by at most the
following over-read:

* For a local file: ``CHUNK_HEADER`` bytes for each chunk whose end is known only from its header. A stripe of up to
  ``SMALL_STRIPE`` bytes (``scanner.small_stripes``) is read at once if all of it is needed. In this case the bytes of
  its indexes are counted, and also the bytes of the dictionaries that were read before.
* For a remote file: the bytes between neighbouring ranges that are fetched together (``merge_gap``, and
  ``JOINED_OVER_READ_BYTES`` of ``planner.data_fetches``).

In a directory of small local files, the tail of a file may be read before the whole file, or instead of the whole file.
An explanation counts the whole file once.

Dictionaries that are read as evidence count as indexes. Some columns may be read only after the rows were filtered by
other columns. If no rows remain, the remaining columns are not read, and fewer bytes are counted.
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
    """Returns the number of bytes of a stripe's data streams, for the columns with these ids. The stripe's footer is
    read, unless it is in memory."""
    return sum(length for _, _, length in _data_streams(reader, stripe, columns))


def data_planned(
    reader: OrcReader, stripe: int, columns: Iterable[int], *, index: RowIndex | None, kept: npt.NDArray[np.bool_]
) -> int:
    """Returns the number of bytes that a scan reads from the data streams of ``columns``, if it reads all of these
    columns. ``index`` is the row index for seeking, or None if the stripe is read completely. ``kept`` says for each
    row group whether some of its rows remain."""
    planned, block_size = 0, reader.facts.block_size
    for column, kind, length in _data_streams(reader, stripe, columns):
        positions = None if index is None else index.stream_positions(column, kind)
        ranges = group_ranges(positions, kept, length=length, block_size=block_size)
        planned += sum(stop - start for start, stop in ranges)
    return planned


def _data_streams(reader: OrcReader, stripe: int, columns: Iterable[int]) -> Iterator[tuple[int, StreamKind, int]]:
    """Yields the column, the kind and the length of each existing data stream of these columns."""
    extents = reader.extents(stripe)
    for column in columns:
        for kind in DATA_KINDS:
            if (found := extents.get((column, kind))) is not None:
                yield column, kind, found[1]
