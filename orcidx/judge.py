"""Which rows of a file may match: all evidence of a file and its stripes, coarse to fine, before any data is read."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcidx.io_loop import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.kinds import StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex, build_row_index
from orcidx.orc.types import OrcType
from orcidx.predicate import BoundPredicate
from orcidx.selection import RowSelection
from orcidx.stripe_scan import StripeRows

__all__ = ["FileJudge", "StripeDecision"]


@dataclass(frozen=True)
class StripeDecision:
    """What was decided on one stripe. ``index``: its row index, where that can be used to seek."""

    stripe: int
    rows: StripeRows
    index: RowIndex | None


class FileJudge:
    """Judges the stripes of one file."""

    def __init__(
        self,
        reader: OrcReader,
        where: BoundPredicate | None,
        wanted: RowSelection,
        columns: Iterable[OrcType],
        job: Any,
        options: ReadOptions,
    ) -> None:
        self.reader = reader
        self.where = where
        self.wanted = wanted
        self.options = options
        self.nodes = {node.id: node for column in columns for node in column.walk()}

    def stripes(self) -> list[int]:
        """Numbers of the stripes that hold wanted rows."""
        alive = self.wanted.any_in(self.reader.stripe_bounds)
        return [stripe for stripe, kept in enumerate(alive.tolist()) if kept]

    def decide(self, stripe: int) -> Generator[Fetch, Any, StripeDecision]:
        """Judges one stripe, whose footer is here."""
        bounds = self.reader.stripe_bounds
        start, stop = int(bounds[stripe]), int(bounds[stripe + 1])
        may = self.wanted.slice(start, stop)
        index = None
        if self.where is not None or not (may.is_all or may.is_empty):
            index = yield from self._row_index(stripe)
        group_bounds = np.array([0, stop - start] if stop > start else [0], np.int64) if index is None else index.bounds
        must = RowSelection.all(stop - start) if self.where is None else RowSelection.none(stop - start)
        seekable = index is not None and index.unseekable(self.nodes) is None
        return StripeDecision(stripe, StripeRows(start, group_bounds, may, must), index if seekable else None)

    def _row_index(self, stripe: int) -> Generator[Fetch, Any, RowIndex | None]:
        """The row index of the columns that are read; None where the stripe has none."""
        extents = self.reader.extents(stripe)
        places = {
            column: extent
            for column in self.nodes
            if (extent := extents.get((column, StreamKind.ROW_INDEX))) is not None and extent[1]
        }
        if not places:
            return None
        answer = yield Fetch(tuple(places.values()), "index")
        buffers = dict(zip(places, answer, strict=True))
        nodes = [self.nodes[column] for column in places]
        return build_row_index(self.reader.tail, stripe, self.reader.footer(stripe), nodes, buffers)
