"""Combines evidence about a predicate. Also has ``Verdict``, the answer of an index to one predicate.

Every answer has two parts. Rows outside ``may`` certainly do not match, and rows of ``must`` certainly match; nothing
is known about the others. Evidence is combined for each leaf before AND and OR. So ``a = 1 OR b = 2`` is pruned even if
a bitmap answers only for ``a`` and statistics only for ``b``. NOT is part of the leaves and only TRUE counts, so AND is
the intersection and OR the union, both for ``may`` and for ``must``.
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
    """Answer of an index to a predicate, over the rows ``0 .. n - 1`` of one data file.

    ``a & b`` and ``a | b`` combine the answers to two predicates, as AND and OR do; ``a.refine(b)`` combines two
    answers to the same predicate.

    Parameters
    ----------
    kind : str
        ``"remain"``: nothing is proved, and every row may match. ``"skip"``: no row matches. ``"rows"``: the rows of
        ``rows`` may match, and no others.
    rows : pyroaring.BitMap, optional
        Empty for ``"skip"``, None for ``"remain"``. It belongs to the verdict; copy it to change it.
    exact : bool
        The predicate is true for every row of ``rows``.

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
        """A verdict that only the rows of a bitmap may match.

        Parameters
        ----------
        bitmap : pyroaring.BitMap
            Row numbers, counted from 0. It is not copied.
        exact : bool
            Every row of the bitmap does match.

        Returns
        -------
        Verdict
        """
        return cls("rows", bitmap, exact)

    @property
    def is_empty(self) -> bool:
        """Whether it is proved that no row matches: ``"skip"``, or ``"rows"`` without a row."""
        return self.rows is not None and not self.rows

    def __and__(self, other: Verdict) -> Verdict:
        if self.kind == "skip" or other.kind == "skip":
            return Verdict.skip()
        if self.rows is None or other.rows is None:
            # rows that one side does not decide: the rows of the other are kept, but are no longer exact
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
        """Combines two answers to the same predicate.

        Parameters
        ----------
        other : Verdict
            The other answer.

        Returns
        -------
        Verdict
            The intersection, which is exact if either is.
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

    ``may`` holds every row of ``span`` that can match. Every row of ``must`` matches. ``states``: the states of the
    leaves, in the order of a walk of the tree. They can be passed (sliced) as ``prior`` to a finer evaluation.
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
        """The outcome of the rows ``[start, stop)``, numbered from 0."""
        span, may, must = (part.slice(start, stop) for part in (self.span, self.may, self.must))
        states = tuple(state.slice(start, stop) for state in self.states)
        return Outcome(self.root, span, may, must, states, self.notes)

    def reasons(self, start: int, stop: int) -> tuple[Reason, ...]:
        """Why no row of ``[start, stop)`` can match; empty when some row may. See ``reasons_in``."""
        if start >= stop or not self.may.slice(start, stop).is_empty:
            return ()
        return self.slice(start, stop).reasons_in(np.array([0, stop - start]))[0]

    def reasons_in(self, bounds: npt.NDArray[np.int64]) -> list[tuple[Reason, ...]]:
        """Why rows of each group ``[bounds[g], bounds[g + 1])`` cannot match. Empty if all of them may match. If one
        evidence ruled out the whole group, it is the only reason. There are several reasons if only the branches of an
        OR together ruled it out, and if some rows remain."""
        return reasons_in(self.root, self.states, bounds, span=self.span, may=self.may)

    def proofs_in(self, bounds: npt.NDArray[np.int64]) -> list[tuple[Reason, ...]]:
        """What proved that rows of each group match: every finding with such rows, without repetitions."""
        return proofs_in(self.root, self.states, bounds)


def evaluate(
    root: Bound, evidence: Sequence[Evidence], span: RowSelection, *, prior: Sequence[LeafState] | None = None
) -> Outcome:
    """Evaluates all evidence for a bound predicate (``BoundPredicate.root``) over the rows of ``span``.

    ``evidence`` goes from coarse to fine. Each one is asked about the whole tree, and only about rows that are still
    undecided: rows that are ruled out for the leaf or by a sibling under AND are not asked about, nor rows that
    certainly match under OR. The answers about a leaf are intersected. AND intersects, OR unites. ``prior``: the
    ``states`` of a coarser outcome over the same rows."""
    unknown = LeafState(span, RowSelection.none(span.length))
    states = list(prior) if prior is not None else [unknown for _ in leaves(root)]
    hearing = _Hearing(states, span)
    may, must = hearing.hear(root, span, None)
    for one in evidence:
        if may.count == must.count:  # everything is decided
            break
        may, must = hearing.hear(root, may, one)
    notes = list(dict.fromkeys([*hearing.notes, *(note for one in evidence for note in one.notes)]))
    return Outcome(root, span, may, must, tuple(hearing.states), tuple(notes))


class _Hearing:
    """Walks the tree once for each evidence. States belong to places in the tree, not to leaves. ``_alive``: the rows
    that the next node is asked about."""

    def __init__(self, states: list[LeafState], span: RowSelection) -> None:
        self.states = states
        self.notes: list[Note] = []
        self._nothing = RowSelection.none(span.length)
        self._alive = span
        self._evidence: Evidence | None = None
        self._place = 0

    def hear(self, root: Bound, alive: RowSelection, evidence: Evidence | None) -> MayMust:
        """The alive rows that may match and that must match, after this evidence."""
        self._alive, self._evidence, self._place = alive, evidence, 0
        return self._visit(root)

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
            self._alive = may  # the next child is asked about the rows that this one left
            must = must & sure
        left, self._alive = self._alive, asked
        return left, must

    def _any(self, children: Iterator[MayMust]) -> MayMust:
        asked, may, must = self._alive, self._nothing, self._nothing
        for possible, sure in children:
            may, must = may | possible, must | sure
            self._alive = asked - must  # the next child is asked about rows that are not sure yet
        self._alive = asked
        return may, must

    def _leaf(self, leaf: BoundLeaf) -> MayMust:
        alive, evidence = self._alive, self._evidence
        place, self._place = self._place, self._place + 1
        state = self.states[place]
        asked = state.may & alive
        if evidence is not None and not asked.is_empty:
            open_question = asked - state.must
            finding = None if open_question.is_empty else evidence.test(leaf, open_question)
            if finding is not None:
                state = self.states[place] = self._add(leaf, state, finding, open_question)
                asked = state.may & alive
        return asked, state.must if asked is state.may else state.must & asked

    def _add(self, leaf: BoundLeaf, state: LeafState, finding: Finding, asked: RowSelection) -> LeafState:
        if not asked.is_all:  # answers about rows that were not asked about are ignored
            finding = replace(finding, may=finding.may | ~asked, must=finding.must & asked)
        may, must = state.may & finding.may, state.must
        if not finding.must.is_empty:
            must = must | finding.must
            if not must.issubset(may):
                text = "it says of some rows that they match, where another answer says that they do not"
                self.notes.append(Note(finding.source, "damaged", text, leaf.column))
                return state
        return LeafState(may, must, (*state.findings, finding))
