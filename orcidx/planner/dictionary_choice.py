"""Chooses which dictionaries of a stripe are read. A dictionary is read if its string column is in an undecided leaf,
and if the dictionary is small compared with the data."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from orcidx.errors import Unsupported
from orcidx.fetching.drive import Fetch
from orcidx.orc.dictionary import StreamBuffers, fetch_dictionaries
from orcidx.orc.evidence import DictionaryEvidence
from orcidx.orc.types import STRING_KINDS, OrcType
from orcidx.planner.pruned_columns import PrunedColumns
from orcidx.predicate import BoundLeaf

__all__ = ["DictionaryChoice"]

Path = tuple[str, ...]

DICTIONARY_SHARE = 0.1
LARGEST_DICTIONARY = 1 << 20
"""The limits on a dictionary that is read only to rule out a stripe: its share of the data, and its bytes (decision
0113)."""


@dataclass
class DictionaryChoice:
    """Finds and fetches the dictionaries of the predicate's columns, and keeps them for reading the data."""

    columns: PrunedColumns
    _fetched: dict[int, StreamBuffers] = field(default_factory=dict)

    def fetch(self, stripe: int, leaves: Iterable[BoundLeaf]) -> Generator[Fetch, Any, DictionaryEvidence | None]:
        """Fetches the dictionaries of the columns in undecided string leaves. Only dictionaries that are small compared
        with the data are fetched. Returns None if there are no such dictionaries."""
        chosen: dict[Path, OrcType] = {}
        for leaf in leaves:
            node = self.columns.leaf_nodes.get(leaf.path)
            if node is None or node.kind not in STRING_KINDS:
                continue
            size = self.columns.dictionary_bytes(stripe, node)
            if 0 < size <= LARGEST_DICTIONARY and size <= DICTIONARY_SHARE * self.columns.data_bytes(stripe):
                chosen[leaf.path] = node
        if not chosen:
            return None
        reader, options = self.columns.reader, self.columns.options
        try:
            found = yield from fetch_dictionaries(reader, stripe, tuple(chosen.values()), options)
        except Unsupported:  # a dictionary is too large after decompression; reading its column raises the error
            return None
        self._keep(stripe, found.streams)
        entries = dict(zip(chosen, found.entries, strict=True))
        return DictionaryEvidence(entries.get, self.columns.reader.stripes[stripe].rows)

    def _keep(self, stripe: int, streams: StreamBuffers) -> None:
        """Keeps the fetched dictionaries of a stripe for reading its data. The dictionaries of the previous stripe are
        also kept, because the data of that stripe may not have been read yet."""
        self._fetched[stripe] = streams
        while len(self._fetched) > 2:
            del self._fetched[next(iter(self._fetched))]

    def take(self, stripe: int) -> StreamBuffers:
        """Removes and returns the streams that were fetched for the dictionaries of a stripe."""
        return self._fetched.pop(stripe, {})
