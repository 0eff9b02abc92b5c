"""Combines evidence about a predicate. This module also has ``Verdict``, the result of an index for one predicate.

Every result has two parts. Rows outside ``may`` certainly do not match, and rows of ``must`` certainly match. Nothing
is known about the other rows. Evidence is combined for each leaf before AND and OR are applied. So ``a = 1 OR b = 2``
is pruned even if a bitmap has a result only for ``a`` and statistics have a result only for ``b``. NOT is part of the
leaves, and a row matches only if the predicate is TRUE for it. Therefore AND is the intersection of results and OR is
their union, both for ``may`` and for ``must``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from orcidx.predicate import Bound, BoundLeaf, Constant, External
from orcidx.predicate.fold import Part, fold, leaves
from orcidx.pruning.findings import Evidence, Finding, LeafState, Note
from orcidx.pruning.reasons import Reason, proofs_in, reasons_in
from orcidx.pruning.selection import RowSelection

__all__ = ["Outcome", "Verdict", "evaluate"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of an index for a predicate, over the rows ``0 .. n - 1`` of one data file.

    ``a & b`` and ``a | b`` combine the results for two predicates, as AND and OR do. ``a.refine(b)`` combines two
    results for the same predicate.

    Parameters
    ----------
    kind : str
        ``"remain"``: nothing is proved, and every row may match. ``"skip"``: no row matches. ``"rows"``: only the rows
        of ``rows`` may match.
    rows : pyroaring.BitMap, optional
        Empty for ``"skip"``, None for ``"remain"``. The verdict uses the bitmap, so copy the bitmap before changing it.
    exact : bool
        Whether the predicate is true for every row of ``rows``.

    Examples
    --------
    >>> from orcidx import Verdict
    >>> from pyroaring import BitMap
    >>> one, two = Verdict.of(BitMap([1, 2, 3])), Verdict.of(BitMap([2, 3, 4]), exact=True)
    >>> (one & two).rows, (one & two).exact
    (BitMap([2, 3]), False)
    >>> one.refine(two).exact
    True
    """

    kind: Literal["remain", "skip", "rows"]
    rows: BitMap | None = None
    exact: bool = False

    @classmethod
    def remain(cls) -> Verdict:
        """A verdict that proves nothing.

        Returns
        -------
        Verdict
        """
        return cls("remain")

    @classmethod
    def skip(cls) -> Verdict:
        """A verdict that no row matches.

        Returns
        -------
        Verdict
        """
        return cls("skip", BitMap(), True)

    @classmethod
    def of(cls, bitmap: BitMap, exact: bool = False) -> Verdict:
        """Makes a verdict from a bitmap. The verdict says that only the rows of the bitmap may match.

        Parameters
        ----------
        bitmap : pyroaring.BitMap
            Row numbers, counted from 0. It is not copied.
        exact : bool
            Whether every row of the bitmap matches.

        Returns
        -------
        Verdict
        """
        return cls("rows", bitmap, exact)

    @property
    def is_empty(self) -> bool:
        """Whether it is proved that no row matches. This is true for ``"skip"``, and for ``"rows"`` with an empty
        bitmap."""
        return self.rows is not None and not self.rows

    def __and__(self, other: Verdict) -> Verdict:
        if self.kind == "skip" or other.kind == "skip":
            return Verdict.skip()
        if self.rows is None or other.rows is None:
            # If only one side has ``rows``, the result has these rows. They may include rows that do not match, so the
            # result is not exact.
            rows = other.rows if self.rows is None else self.rows
            return Verdict.remain() if rows is None else Verdict.of(rows)
        return Verdict.of(self.rows & other.rows, self.exact and other.exact)

    def __or__(self, other: Verdict) -> Verdict:
        if self.rows is None or other.rows is None:
            return Verdict.remain()
        if self.kind == "skip":
            return other
        if other.kind == "skip":
            return self
        return Verdict.of(self.rows | other.rows, self.exact and other.exact)

    def refine(self, other: Verdict) -> Verdict:
        """Combines two results for the same predicate.

        Parameters
        ----------
        other : Verdict
            The result that is combined with this result.

        Returns
        -------
        Verdict
            The intersection. It is exact if either result is exact.
        """
        if other.rows is None or self.kind == "skip":
            return self
        if self.rows is None or other.kind == "skip":
            return other
        return Verdict.of(self.rows & other.rows, self.exact or other.exact)


MayMust = tuple[RowSelection, RowSelection]


@dataclass(frozen=True)
class Outcome:
    """The result of pruning after all evidence was evaluated.

    ``may`` has every row of ``span`` that can match. Every row of ``must`` matches. ``states`` has the states of the
    leaves, in the order of a walk of the tree. They can be sliced, and passed as ``prior`` to a finer evaluation.
    """

    root: Bound
    span: RowSelection
    may: RowSelection
    must: RowSelection
    states: tuple[LeafState, ...]
    notes: tuple[Note, ...]

    @property
    def proved(self) -> bool:
        """Whether every row that may match certainly matches, so that no residual filter is needed."""
        return self.may.count == self.must.count

    def slice(self, start: int, stop: int) -> Outcome:
        """The outcome of the rows ``[start, stop)``, renumbered from 0."""
        if stop - start == self.span.length:
            return self
        span, may, must = (part.slice(start, stop) for part in (self.span, self.may, self.must))
        states = tuple(state.slice(start, stop) for state in self.states)
        return Outcome(self.root, span, may, must, states, self.notes)

    def reasons(self, start: int, stop: int) -> tuple[Reason, ...]:
        """The reasons why no row of ``[start, stop)`` can match. The result is empty if some row may match. See
        ``reasons_in``."""
        if start >= stop or not self.may.slice(start, stop).is_empty:
            return ()
        return self.slice(start, stop).reasons_in(np.array([0, stop - start]))[0]

    def reasons_in(self, bounds: npt.NDArray[np.int64]) -> list[tuple[Reason, ...]]:
        """For each group ``[bounds[g], bounds[g + 1])``, the reasons why some of its rows cannot match. There is no
        reason if all rows of the group may match. If one piece of evidence ruled out the whole group, it is the only
        reason. There are several reasons in two cases: the branches of an OR ruled out the group only together, or some
        rows of the group remain."""
        return reasons_in(self.root, self.states, bounds, span=self.span, may=self.may)

    def proofs_in(self, bounds: npt.NDArray[np.int64]) -> list[tuple[Reason, ...]]:
        """For each group, the evidence that proved that some of its rows match. Each finding occurs only once."""
        return proofs_in(self.root, self.states, bounds)


def evaluate(
    root: Bound, evidence: Sequence[Evidence], span: RowSelection, *, prior: Sequence[LeafState] | None = None
) -> Outcome:
    """Evaluates all evidence for a bound predicate (``BoundPredicate.root``) over the rows of ``span``.

    ``evidence`` is ordered from coarse to fine. Each piece of evidence is evaluated for the whole tree, but only for
    undecided rows. A row is decided for a leaf in three cases: the leaf rules out the row, a sibling under AND rules
    out the row, or the row certainly matches a sibling under OR. For one leaf, the sets ``may`` of all findings are
    intersected, and the sets ``must`` are united. AND intersects the results of its children, and OR unites them.
    ``prior`` has the ``states`` of a coarser outcome over the same rows."""
    nothing = RowSelection.none(span.length)
    states = [LeafState(span, nothing) for _ in leaves(root)] if prior is None else list(prior)
    evaluation = _Evaluation(states, span, nothing)
    may, must = evaluation.add_evidence(root, span, None)
    for one in evidence:
        if may.count == must.count:  # everything is decided
            break
        may, must = evaluation.add_evidence(root, may, one)
    notes = list(evaluation.notes)
    for one in evidence:
        notes += one.notes
    return Outcome(root, span, may, must, tuple(evaluation.states), tuple(dict.fromkeys(notes)))


class _Evaluation:
    """Walks the tree once for each piece of evidence. States belong to positions in the tree, not to leaves. ``_alive``
    has the rows for which the next node is evaluated. ``nothing``: no row of the span."""

    def __init__(self, states: list[LeafState], span: RowSelection, nothing: RowSelection) -> None:
        self.states = states
        self.notes: list[Note] = []
        self._nothing = nothing
        self._alive = span
        self._evidence: Evidence | None = None
        self._place = 0

    def add_evidence(self, root: Bound, alive: RowSelection, evidence: Evidence | None) -> MayMust:
        """Evaluates one piece of evidence. Returns the rows of ``alive`` that may match, and the rows of ``alive`` that
        certainly match."""
        self._alive, self._evidence, self._place = alive, evidence, 0
        return self._leaf(root) if isinstance(root, BoundLeaf) else self._visit(root)

    def _visit(self, node: Bound) -> MayMust:
        return fold(node, self._part, both=self._all, either=self._any)

    def _part(self, node: Part) -> MayMust:
        if isinstance(node, BoundLeaf):
            return self._leaf(node)
        if isinstance(node, External):
            return self._visit(node.may)[0], self._nothing
        assert isinstance(node, Constant)
        return (self._alive, self._alive) if node.value is True else (self._nothing, self._nothing)

    def _all(self, children: Iterator[MayMust]) -> MayMust:
        asked = must = self._alive
        for may, sure in children:
            self._alive = may  # the next child is evaluated for the rows that remain after this child
            must = must & sure
        left, self._alive = self._alive, asked
        return left, must

    def _any(self, children: Iterator[MayMust]) -> MayMust:
        asked, may, must = self._alive, self._nothing, self._nothing
        for possible, sure in children:
            may, must = may | possible, must | sure
            self._alive = asked - must  # the next child is evaluated for rows that do not certainly match yet
        self._alive = asked
        return may, must

    def _leaf(self, leaf: BoundLeaf) -> MayMust:
        alive, evidence = self._alive, self._evidence
        place, self._place = self._place, self._place + 1
        state = self.states[place]
        asked = alive if state.may is alive else state.may & alive
        if evidence is not None and not asked.is_empty:
            open_question = asked if state.must.is_empty else asked - state.must
            finding = None if open_question.is_empty else evidence.test(leaf, open_question)
            if finding is not None:
                state = self.states[place] = self._add(leaf, state, finding, open_question)
                asked = state.may & alive
        return asked, state.must if asked is state.may else state.must & asked

    def _add(self, leaf: BoundLeaf, state: LeafState, finding: Finding, asked: RowSelection) -> LeafState:
        if not asked.is_all:  # results for rows outside ``asked`` are ignored
            finding = replace(finding, may=finding.may | ~asked, must=finding.must & asked)
        may, must = state.may & finding.may, state.must
        if not finding.must.is_empty:
            must = must | finding.must
            if not must.issubset(may):
                text = "this evidence says that some rows match, but other evidence says that they do not match"
                self.notes.append(Note(finding.source, "damaged", text, leaf.column))
                return state
        return LeafState(may, must, (*state.findings, finding))
