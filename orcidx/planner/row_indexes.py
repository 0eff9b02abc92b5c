"""Reads the row indexes of one stripe in two steps: first the indexes of the predicate's columns, then the indexes of
the other columns.

The first step rules out most stripes. For a stripe that is ruled out, the second step is left out, so the other indexes
are not decoded. A local file is read in each step. For a remote file, a second request would take longer than reading
the bytes of the other indexes, so the request of the first step reads all indexes."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from functools import cached_property
from typing import Any

from orcidx.fetching.drive import Fetch
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata_cache import INDEXES, PARSED_PER_STORED_BYTE
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex, build_row_index
from orcidx.orc.types import OrcType

__all__ = ["StripeIndexes"]

ByteRange = tuple[int, int]


class StripeIndexes:
    """Reads the row indexes of one stripe. The stripe's footer must have been read before. ``nodes`` has the columns
    whose indexes are read, by column id. ``leaves`` has the ids of the predicate's columns."""

    def __init__(self, reader: OrcReader, stripe: int, nodes: Mapping[int, OrcType], leaves: Collection[int]) -> None:
        self._reader = reader
        self._stripe = stripe
        self._nodes = nodes
        self._leaves = leaves
        self._buffers: dict[int, Any] = {}
        self._index: RowIndex | None = None
        self.complete = False
        """Whether the index of every column was read."""

    def of_leaves(self) -> Generator[Fetch, Any, RowIndex | None]:
        """Returns the index of the predicate's columns, with their statistics. The result is None if the stripe has no
        index."""
        places = self._places
        asked = {column: place for column, place in places.items() if column in self._leaves}
        if not asked:
            return (yield from self.of_all())
        self._index = yield from self._read(asked, places)
        if self._index.untrusted:  # the indexes of other columns may have valid row groups
            return (yield from self.of_all())
        return self._index

    def of_all(self) -> Generator[Fetch, Any, RowIndex | None]:
        """The index of every column. It has no statistics of columns that are not in the predicate. The result is None
        if the stripe has no index."""
        if not self.complete:
            self.complete = True
            known = set() if self._index is None else {*self._index.columns, *self._index.untrusted}
            places = {column: place for column, place in self._places.items() if column not in known}
            if places:
                others = yield from self._read(places, places, only_seek=True)
                self._index = others if self._index is None else self._index.joined(others)
        return self._index

    @cached_property
    def _places(self) -> dict[int, ByteRange]:
        extents = self._reader.extents(self._stripe)
        return {
            column: extent
            for column in self._nodes
            if (extent := extents.get((column, StreamKind.ROW_INDEX))) is not None and extent[1]
        }

    def _read(
        self, places: Mapping[int, ByteRange], ahead: Mapping[int, ByteRange], *, only_seek: bool = False
    ) -> Generator[Fetch, Any, RowIndex]:
        """Returns the index of the columns in ``places``. If the file is remote, the indexes in ``ahead`` are fetched
        in the same request."""
        reader, stripe = self._reader, self._stripe
        key = reader.cache_key(stripe, tuple(places), only_seek)
        index = None if reader.rereads else INDEXES.get(key)
        if index is None:
            if not places.keys() <= self._buffers.keys():
                wanted = places if reader.storage.is_local else ahead
                answer = yield Fetch(tuple(wanted.values()), "index")
                self._buffers.update(zip(wanted, answer, strict=True))
            buffers = {column: self._buffers[column] for column in places}
            nodes = [self._nodes[column] for column in places]
            footer = reader.footer(stripe)
            index = build_row_index(reader.tail, stripe, footer, nodes, buffers, only_seek=only_seek)
            INDEXES.put(key, index, 1024 + PARSED_PER_STORED_BYTE * sum(map(len, buffers.values())))
        return index
