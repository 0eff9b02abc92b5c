"""Counts the bytes that a query reads, for explanations and for the tests of a scan's counters.

Evidence means statistics, bloom filters, dictionaries and indexes. There are three numbers. *Without evidence* counts
the data streams of the columns that are read, in every stripe. *Planned* counts only the parts of these streams that
contain row groups which evidence does not rule out. *Counted* (``ScanMetrics.bytes_read``) has all bytes that the
storage returned for a scan, including tails, footers and indexes that were not in memory, and also catalogs of
directories, file indexes and deletion vectors. Planning a scan of a table reads snapshots, schemas, manifest lists and
manifests. These reads are in none of the numbers, and neither is the catalog of ``fresh="catalog"``, which replaces a
listing. An explanation adds the planned bytes to the bytes of the tails, footers and indexes that a new process reads.
It reads these tails, footers and indexes again, even if they are in memory. The counted bytes of data may exceed the
planned bytes by at most the following over-read:

* For a local file: ``CHUNK_HEADER`` bytes for each chunk whose end is known only from its header. A stripe of up to
  ``SMALL_STRIPE_BYTES`` bytes (``scanner.small_stripes``) is read at once if all of it is needed. In this case the
  bytes of its indexes are counted, and also the bytes of the dictionaries that were read before.
* For a remote file: the bytes between neighbouring ranges that are fetched together (``merge_gap``, and
  ``JOINED_OVER_READ_BYTES`` of ``planner.data_fetches``). This holds for ranges of data. An explanation reads the
  footers and indexes of a remote file in the same requests as a scan, so it counts the bytes between them.

In a directory of small local files, the tail of a file may be read before the whole file, or instead of the whole file.
The first file may also be read for the schema. An explanation counts these reads, but it does not know for which files
a scan needs column readers. So its number is not exact.

Dictionaries that are read as evidence count as indexes. If evidence proves that all remaining rows of a stripe match,
the columns that only the condition uses are neither planned nor read. Some columns may be read only after the rows were
filtered by other columns. If no rows remain, the remaining columns are not read, and fewer bytes are counted. In a
stripe where only some rows are proved, columns that only the condition uses may be read only for the other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orcidx.orc.kinds import DATA_KINDS, StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex
from orcidx.orc.stripe_plan import group_ranges
from orcidx.storage.remote import BytesAtHand

__all__ = ["Planned", "data_planned", "data_without_evidence"]


@dataclass(frozen=True)
class Planned:
    """The number of bytes of a stripe that are planned, and the number of these bytes that a scan requests from storage
    after the stripe was pruned."""

    planned: int = 0
    requested: int = 0


def data_without_evidence(reader: OrcReader, stripe: int, columns: Iterable[int]) -> int:
    """Returns the number of bytes of a stripe's data streams, for the columns with these ids. The stripe's footer is
    read, unless it is in memory."""
    return sum(length for *_, length in _data_streams(reader, stripe, columns))


def data_planned(
    reader: OrcReader,
    stripe: int,
    columns: Iterable[int],
    *,
    index: RowIndex | None,
    kept: npt.NDArray[np.bool_],
    fetched: Collection[tuple[int, StreamKind]],
) -> Planned:
    """Returns the number of bytes that a scan reads from the data streams of ``columns``, if it reads all of these
    columns. ``index`` is the row index for seeking, or None if the stripe is read completely. ``kept`` says for each
    row group whether some of its rows remain. ``fetched`` has the streams that were read to prune the stripe.

    These streams are not requested again. Ranges of a remote file are not requested either, if the read of the tail, or
    the read of footers of small stripes, has returned them."""
    planned, requested, block_size = 0, 0, reader.facts.block_size
    at_hand: BytesAtHand | None = getattr(reader.storage, "at_hand", None)
    for column, kind, offset, length in _data_streams(reader, stripe, columns):
        positions = None if index is None else index.stream_positions(column, kind)
        for start, stop in group_ranges(positions, kept, length=length, block_size=block_size):
            planned += stop - start
            if (column, kind) in fetched or (
                at_hand is not None and at_hand.find(offset + start, stop - start) is not None
            ):
                continue
            requested += stop - start
    return Planned(planned, requested)


def _data_streams(reader: OrcReader, stripe: int, columns: Iterable[int]) -> Iterator[tuple[int, StreamKind, int, int]]:
    """Yields the column, the kind, the offset in the file and the length of each existing data stream of these
    columns."""
    extents = reader.extents(stripe)
    for column in columns:
        for kind in DATA_KINDS:
            if (found := extents.get((column, kind))) is not None:
                yield column, kind, *found
