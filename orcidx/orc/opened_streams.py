"""``OpenedStreams``: the open streams of a stripe, the places of their bytes, and the plan of the bytes to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.orc.compression import CHUNK_HEADER, open_codec
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.stream_sources import HeldStream
from orcidx.orc.stripe_plan import group_ranges
from orcidx.orc.stripe_streams import DEMAND_BYTES, Ahead, PlannedStream, StreamReads
from orcidx.orc.stripe_tables import StreamTable
from orcidx.orc.types import OrcType
from orcidx.pruning.row_forms import runs_of_mask
from orcidx.storage import RangeReader, start_read

if TYPE_CHECKING:
    from orcidx.orc.row_index import RowIndex

__all__ = ["OpenedStreams"]

Bools = npt.NDArray[np.bool_]


class OpenedStreams:
    """The open streams of one stripe of the file ``storage``.

    ``extents``: the offset and the length of each stream. ``read_ahead``: the maximum number of bytes of a piece of a
    stream. ``held``: the offset of the stripe in the file and all bytes of its streams, if they are in memory.
    ``fetched``: whole streams that were already read, by column id and kind. ``ahead_bytes``: the maximum number of
    bytes of a remote file that are requested before they are needed.
    """

    def __init__(
        self,
        storage: RangeReader,
        facts: FileFacts,
        extents: StreamTable,
        *,
        read_ahead: int,
        held: tuple[int, memoryview] | None,
        fetched: Mapping[tuple[int, StreamKind], Any],
        ahead_bytes: int,
    ) -> None:
        self.codec = open_codec(facts.compression)
        self._storage = storage
        self._facts = facts
        self._extents = extents
        self._read_ahead = read_ahead
        self._by_chunks = facts.compressed and storage.is_local
        """Whether bytes after the end of a plan are read one chunk at a time."""
        self._held = held
        self._fetched = fetched
        self._ahead: Ahead | None = None
        if ahead_bytes and not storage.is_local:
            self._ahead = Ahead(partial(start_read, storage), most=ahead_bytes)
        self._opened: dict[int, dict[StreamKind, list[PlannedStream]]] = {}

    @cached_property
    def _reads(self) -> StreamReads:
        storage = self._storage
        return StreamReads(
            storage.read_ranges,
            self._read_ahead,
            framed=self._by_chunks,
            demand=self._demand(),
            read_into=getattr(storage, "read_into", None),
            local_file=getattr(storage, "local_file", None),
            ahead=self._ahead,
        )

    def _demand(self) -> int:
        """The number of bytes to read at once after the end of a plan. For a compressed remote file this is at least
        the largest possible size of a chunk."""
        if self._by_chunks or not self._facts.compressed:
            return DEMAND_BYTES
        return max(DEMAND_BYTES, CHUNK_HEADER + self._facts.block_size)

    @property
    def are_at_hand(self) -> bool:
        """Whether the bytes are in memory or in a local file."""
        return self._held is not None or getattr(self._storage, "local_file", None) is not None

    def open(self, column: int, kind: StreamKind) -> PlannedStream | HeldStream:
        """Opens a stream as the source of a window. If the stripe does not have the stream, the source is empty."""
        if self._held is not None:
            first, data = self._held
            offset, length = self._extents.get((column, kind), (first, 0))
            return HeldStream(data, offset - first, length)
        offset, length = self._extents.get((column, kind), (0, 0))
        source = PlannedStream(self._reads, offset=offset, length=length)
        if (column, kind) in self._fetched:
            source.put(0, self._fetched[column, kind])
        self._opened.setdefault(column, {}).setdefault(kind, []).append(source)
        return source

    def sources(self, column: int, kind: StreamKind) -> list[PlannedStream]:
        """A list that has only the source of the first window that was opened on a stream. The list is empty if the
        bytes are in memory."""
        return self._opened.get(column, {}).get(kind, [])[:1]

    def stored_bytes(self, column: OrcType) -> int:
        """The number of stored bytes in the open streams of a column and of all columns below it."""
        opened = (sources for node in column.walk() for sources in self._opened.get(node.id, {}).values())
        return sum(sources[0].length for sources in opened)

    def plan(self, columns: Iterable[OrcType], groups: Bools, index: RowIndex | None) -> list[PlannedStream]:
        """Plans which row groups will be read from the open streams of these columns and of all columns below them.
        Returns the streams that need bytes. ``index`` has the positions of the row groups."""
        planned: list[PlannedStream] = []
        if self._held is not None:
            return planned
        runs = runs_of_mask(groups)
        for column in columns:
            for node in column.walk() if column.names else (column,):
                for kind, sources in self._opened.get(node.id, {}).items():
                    ranges = group_ranges(
                        None if index is None else index.stream_positions(node.id, kind),
                        groups,
                        length=sources[0].length,
                        block_size=self._facts.block_size,
                        on_demand=self._by_chunks,
                        runs=runs,
                    )
                    for source in sources:
                        source.plan(ranges)
                        planned.append(source)
        return planned

    def close(self) -> None:
        """Cancels the requests that are no longer needed."""
        if self._ahead is not None:
            for kinds in self._opened.values():
                for sources in kinds.values():
                    for source in sources:
                        source.close()
