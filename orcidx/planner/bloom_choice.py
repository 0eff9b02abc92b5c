"""Chooses which bloom filters of a stripe are read. A filter must be trusted, and must be able to decide a leaf of the
predicate that earlier evidence left undecided. Its size must be small compared with the data that it may save."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, Unsupported
from orcidx.fetching.drive import Fetch
from orcidx.orc.bloom import BloomFilters
from orcidx.orc.bloom_keys import MAY_WRAP, distrust_bloom, may_wrap, surely_fits
from orcidx.orc.evidence import BloomEvidence, bloom_answers
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import unframe
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import file_statistics, stripe_statistics
from orcidx.orc.types import OrcType
from orcidx.planner.pruned_columns import PrunedColumns
from orcidx.predicate import BoundLeaf
from orcidx.pruning.findings import NoteKind
from orcidx.pruning.selection import RowSelection
from orcidx.spellings import size_text

__all__ = ["BloomChoice"]

Path = tuple[str, ...]

BLOOM_SHARE = 1.0
"""A bloom filter is fetched if its bytes are at most this share of the data that it may save. A larger filter would
save nothing."""


@dataclass(frozen=True)
class BloomChoice:
    """Finds and fetches the bloom filters of the predicate's columns. With ``at_any_cost``, a filter is fetched even if
    it is larger than the data that it may save."""

    columns: PrunedColumns
    at_any_cost: bool = False

    def fetch(
        self, stripe: int, leaves: Iterable[BoundLeaf], may: RowSelection, index: RowIndex
    ) -> Generator[Fetch, Any, BloomEvidence | None]:
        """Fetches the bloom filters for leaves that are undecided for some rows of ``may``. Only filters that are
        trusted and small enough are fetched. Returns None if there are no filters for these leaves."""
        reader, options = self.columns.reader, self.columns.options
        ignored: dict[Path, tuple[NoteKind, str]] = {}
        chosen: dict[Path, tuple[OrcType, tuple[int, int]]] = {}
        believed: dict[Path, npt.NDArray[np.bool_]] = {}
        bounds = index.bounds
        saved = -1.0
        for leaf in leaves:
            node = self.columns.leaf_nodes.get(leaf.path)
            found = None if node is None or leaf.path in chosen else self._stream(stripe, node)
            if node is None or found is None or not bloom_answers(leaf, node, options):
                continue
            if saved < 0:
                saved = self.columns.data_bytes(stripe) * float(may.any_in(bounds).mean())
            if isinstance(found, str):
                ignored[leaf.path] = "distrusted", found
            elif found[1] > BLOOM_SHARE * saved and not self.at_any_cost:
                ignored[leaf.path] = "off", f"the filter has {size_text(found[1])}, more than the data that it may save"
            else:
                if may_wrap(node, reader.facts):
                    believed[leaf.path] = self._fitting_groups(stripe, node, index)
                    if not believed[leaf.path].any():
                        ignored[leaf.path] = "distrusted", MAY_WRAP
                        continue
                chosen[leaf.path] = node, found
        if not chosen and not ignored:
            return None
        answer = (yield Fetch(tuple(extent for _, extent in chosen.values()), "bloom")) if chosen else ()
        filters = {}
        for (path, (node, _)), buffer in zip(chosen.items(), answer, strict=True):
            try:
                tail = reader.tail
                raw = unframe(buffer, tail.postscript, name="BLOOM_FILTER_UTF8", limits=tail.limits)
                filters[path] = node, BloomFilters(raw)
            except (CorruptFile, Unsupported) as error:
                ignored[path] = "damaged", error.message
        zone = self.columns.zone(stripe)
        return BloomEvidence(
            filters, bounds, reader.facts, options, stripe=stripe, zone=zone, believed=believed, ignored=ignored
        )

    def _fitting_groups(self, stripe: int, node: OrcType, index: RowIndex) -> npt.NDArray[np.bool_]:
        """Returns a bool for each row group: whether every value fits the column's type, according to the statistics of
        the row group. If the row groups have no statistics, the statistics of the stripe or the file are used."""
        fits = np.zeros(len(index.bounds) - 1, np.bool_)
        if node.id in index.columns:
            fits |= surely_fits(self.columns.bounded(node, index.columns[node.id].statistics))
        tail = self.columns.reader.tail
        for read in (partial(stripe_statistics, stripes=[stripe]), file_statistics):
            if not fits.all():
                with suppress(CorruptFile):  # if the stripe's statistics are damaged, those of the file are used
                    fits |= surely_fits(self.columns.bounded(node, read(tail, node)))
        return fits

    def places(self, stripe: int, leaves: Iterable[BoundLeaf]) -> list[tuple[int, int]]:
        """Returns the file ranges of the stripe's bloom filters that can be used for these leaves."""
        if not self.columns.options.bloom_filters:
            return []
        nodes: dict[int, OrcType] = {}
        for leaf in leaves:
            node = self.columns.leaf_nodes.get(leaf.path)
            if node is not None and bloom_answers(leaf, node, self.columns.options):
                nodes[node.id] = node
        most = min(BLOOM_SHARE * self.columns.data_bytes(stripe), self.columns.options.io_bytes // 4)
        found = [self._stream(stripe, node) for node in nodes.values()]
        return [place for place in found if isinstance(place, tuple) and place[1] <= most]

    def _stream(self, stripe: int, node: OrcType) -> tuple[int, int] | str | None:
        """Returns the file range of the column's filters, or the reason why they are not trusted. The result is None if
        the column has no filters."""
        reader = self.columns.reader
        footer = reader.footer(stripe)
        reason = None
        for kind in (StreamKind.BLOOM_FILTER_UTF8, StreamKind.BLOOM_FILTER):
            extent: tuple[int, int] | None = footer.streams.get((node.id, kind))
            if extent is None or not extent[1]:
                continue
            distrusted = distrust_bloom(kind, node, footer.encodings[node.id], reader.facts, self.columns.options)
            if distrusted is None:
                return extent
            reason = reason or distrusted
        return reason
