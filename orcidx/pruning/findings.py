"""The results of evidence for a leaf: findings, notes on missing results, and the state of the leaf that follows from
them."""

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
    """The result of one piece of evidence for one leaf over a span of rows.

    If the leaf is TRUE for a row, the row is in ``may``. If a row is in ``must``, the leaf is TRUE for this row. The
    negation of the leaf is included. Both sets are meaningful only for the rows ``alive`` of ``Evidence.test``.
    ``describe(rows)`` returns the deciding fact, such as ``"max 81.5"``, for each of the given row numbers (int64).
    Each given row is outside ``may`` or in ``must``. ``describe`` is called only for explanations, and can be pickled.
    """

    may: RowSelection
    must: RowSelection
    source: str
    describe: Callable[[npt.NDArray[np.int64]], list[str]]


NoteKind = Literal["absent", "distrusted", "stale", "damaged", "silent", "off", "gone"]


@dataclass(frozen=True)
class Note:
    """The reason why evidence has no result, or a result for only some rows. ``kind`` has one of the following values.
    ``"absent"``: there is no such evidence. ``"distrusted"``: the file's writer is known to write this evidence
    wrongly. ``"stale"``: the data changed after the evidence was made. ``"damaged"``: the evidence violates its format
    or contradicts other evidence. ``"silent"``: the evidence does not support this condition. ``"off"``: an option
    turned the evidence off, or evaluating it would take too long. ``"gone"``: the file was deleted after it was
    listed."""

    source: str
    kind: NoteKind
    text: str
    column: str | None = None
    stripe: int | None = None


class Evidence(Protocol):
    """Statistics, a bloom filter or an index that may prove for which rows a leaf is TRUE."""

    name: str
    """The name in explanations, such as "row-group statistics"."""

    @property
    def notes(self) -> Iterable[Note]:
        """Notes on missing results. The list grows with each evaluation."""

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Evaluates one leaf for the rows of ``alive``, including ``leaf.negated``. Returns None if the evidence has no
        result."""


@dataclass(frozen=True)
class LeafState:
    """The state of the leaf at one position of the tree."""

    may: RowSelection
    must: RowSelection
    findings: tuple[Finding, ...] = ()

    def slice(self, start: int, stop: int) -> LeafState:
        """Returns the state of the rows ``[start, stop)``, which are renumbered from 0."""
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
