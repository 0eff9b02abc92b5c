"""The results of evidence about a leaf: findings, notes on what evidence could not answer, and the state of the leaf
that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from orcidx.predicate import BoundLeaf
from orcidx.pruning.selection import RowSelection

__all__ = ["Evidence", "Finding", "LeafState", "Note", "NoteKind"]


@dataclass(frozen=True)
class Finding:
    """The result of one evidence about one leaf over a span of rows.

    ``may`` holds every row for which the (possibly negated) leaf is TRUE; for every row of ``must`` it is. Only rows
    that were asked about count: outside ``alive`` both may hold anything. ``describe(rows)`` tells, for each of some
    rows (int64) that are not in ``may`` (or are in ``must``), the fact that decided, such as ``"max 81.5"``; it is
    called for the explanation only, and pickles.
    """

    may: RowSelection
    must: RowSelection
    source: str
    describe: Callable[[npt.NDArray[np.int64]], list[str]]


NoteKind = Literal["absent", "distrusted", "stale", "damaged", "silent", "off", "gone"]


@dataclass(frozen=True)
class Note:
    """Why an evidence could not answer, or not fully. ``kind``: ``"absent"``: there is none; ``"distrusted"``: it is
    known to be wrong for this writer; ``"stale"``: the data changed after it was made; ``"damaged"``: it breaks its
    format or contradicts another; ``"silent"``: it cannot answer this question; ``"off"``: an option or its cost turned
    it off; ``"gone"``: the file has disappeared since it was listed."""

    source: str
    kind: NoteKind
    text: str
    column: str | None = None
    stripe: int | None = None


class Evidence(Protocol):
    """Something that knows which rows a leaf can match: statistics, a bloom filter, an index."""

    name: str
    """Such as "row-group statistics", for the explanation."""

    @property
    def notes(self) -> Iterable[Note]:
        """Notes on what it could not answer; the list grows as it is asked."""

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Tests one leaf for the rows of ``alive``; None when it cannot say. Handles ``leaf.negated`` itself."""


@dataclass(frozen=True)
class LeafState:
    """The state of the leaf at one place of the tree."""

    may: RowSelection
    must: RowSelection
    findings: tuple[Finding, ...] = ()

    def slice(self, start: int, stop: int) -> LeafState:
        """The same over the rows ``[start, stop)``, numbered from 0."""
        findings = tuple(
            Finding(found.may.slice(start, stop), found.must.slice(start, stop), found.source, _Shifted(found, start))
            for found in self.findings
        )
        return LeafState(self.may.slice(start, stop), self.must.slice(start, stop), findings)


@dataclass(frozen=True)
class _Shifted:
    finding: Finding
    start: int

    def __call__(self, rows: npt.NDArray[np.int64]) -> list[str]:
        return self.finding.describe(rows + self.start)
