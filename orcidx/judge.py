"""Which rows of a file may match: all evidence of a file and its stripes, coarse to fine, before any data is read."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from orcidx.io_loop import Fetch
from orcidx.options import ReadOptions
from orcidx.orc.reader import OrcReader
from orcidx.predicate import BoundPredicate
from orcidx.selection import RowSelection
from orcidx.stripe_scan import StripeRows

__all__ = ["FileJudge", "StripeDecision"]


@dataclass(frozen=True)
class StripeDecision:
    """What was decided on one stripe."""

    stripe: int
    rows: StripeRows
    index: Any


class FileJudge:
    """Judges the stripes of one file."""

    def __init__(
        self,
        reader: OrcReader,
        where: BoundPredicate | None,
        wanted: RowSelection,
        job: Any,
        options: ReadOptions,
    ) -> None:
        self.reader = reader
        self.where = where
        self.wanted = wanted
        self.options = options

    def stripes(self) -> list[int]:
        alive = self.wanted.any_in(self.reader.stripe_bounds)
        return [stripe for stripe, kept in enumerate(alive.tolist()) if kept]

    def decide(self, stripe: int) -> Generator[Fetch, Any, StripeDecision]:
        bounds = self.reader.stripe_bounds
        start, stop = int(bounds[stripe]), int(bounds[stripe + 1])
        may = self.wanted.slice(start, stop)
        must = RowSelection.all(stop - start) if self.where is None else RowSelection.none(stop - start)
        rows = StripeRows(start, self.reader.group_bounds(stripe), may, must)
        return StripeDecision(stripe, rows, None)
        yield  # a generator: later evidence asks for bytes
