"""Pruning: evidence, the one evaluator that combines it, and ``Verdict``, what an index answers to one predicate.

Every answer is one-way. Rows outside ``may`` surely do not match, rows inside it may; rows of ``must`` surely match.
Evidence is combined per leaf before AND and OR, so ``a = 1 OR b = 2`` with a bitmap on ``a`` and statistics on ``b``
still prunes. Because NOT lives in the leaves and only TRUE counts, AND is intersection and OR is union, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from pyroaring import BitMap

from orcidx.predicate import And, BoundLeaf, External, Or
from orcidx.pruning.selection import RowSelection

__all__ = ["Evidence", "Finding", "LeafState", "Note", "NoteKind", "Outcome", "Reason", "Verdict", "evaluate"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer of an index to a predicate, over the rows ``0 .. n - 1`` of one data file.

    ``kind``: ``"remain"`` nothing is proved, every row may match; ``"skip"`` no row matches; ``"rows"`` the rows of
    ``rows`` may match and no others. ``rows``: a ``pyroaring.BitMap``, empty for ``"skip"``, ``None`` for
    ``"remain"``; it belongs to the verdict, copy it to change it. ``exact``: the predicate is true for every row of
    ``rows``.

    ``a & b`` and ``a | b`` combine the answers to two predicates, as AND and OR do; ``a.refine(b)`` combines two
    answers to the same predicate.
    """

    kind: Literal["remain", "skip", "rows"]
    rows: BitMap | None = None
    exact: bool = False

    @classmethod
    def remain(cls) -> Verdict:
        """Nothing is proved."""
        return cls("remain")

    @classmethod
    def skip(cls) -> Verdict:
        """No row matches."""
        return cls("skip", BitMap(), True)

    @classmethod
    def of(cls, bitmap: BitMap, exact: bool = False) -> Verdict:
        """Only the rows of ``bitmap`` may match, or do match when ``exact``. The bitmap is not copied."""
        return cls("rows", bitmap, exact)

    @property
    def is_empty(self) -> bool:
        """Whether it is proved that no row matches: ``"skip"``, or ``"rows"`` without a row."""
        return self.rows is not None and not self.rows

    def __and__(self, other: Verdict) -> Verdict:
        if self.kind == "skip" or other.kind == "skip":
            return Verdict.skip()
        if self.rows is None or other.rows is None:
            # What remains unproved on one side keeps the rows of the other, and makes them uncertain.
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
        """Both answers to the same predicate at once: the intersection, exact when either is."""
        if other.rows is None or self.kind == "skip":
            return self
        if self.rows is None or other.kind == "skip":
            return other
        return Verdict.of(self.rows & other.rows, self.exact or other.exact)


@dataclass(frozen=True)
class Finding:
    """What one evidence says of one leaf over a span of rows.

    ``may`` holds every row for which the (possibly negated) leaf is TRUE; for every row of ``must`` it is. Only rows
    that were asked about count: outside ``alive`` both may hold anything. ``describe(row)`` tells, for a row that is
    not in ``may`` (or is in ``must``), the fact that decided, such as ``"max 81.5"``; it is called for the
    explanation only, and pickles.
    """

    may: RowSelection
    must: RowSelection
    source: str
    describe: Callable[[int], str]


NoteKind = Literal["absent", "distrusted", "stale", "damaged", "silent", "off"]


@dataclass(frozen=True)
class Note:
    """Why an evidence could not speak, or not as well as it might.

    ``kind``: ``"absent"`` there is none; ``"distrusted"`` it is known to be wrong of this writer; ``"stale"`` the data
    changed after it was made; ``"damaged"`` it breaks its format or contradicts another; ``"silent"`` it cannot answer
    this question; ``"off"`` an option, or its cost, turned it off.
    """

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
        """What it could not say, and why; grows as it is asked."""

    def test(self, leaf: BoundLeaf, alive: RowSelection) -> Finding | None:
        """Tests one leaf for the rows of ``alive``; None when it cannot say. Handles ``leaf.negated`` itself."""


@dataclass(frozen=True)
class LeafState:
    """What is known of the leaf at one place of the tree."""

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

    def __call__(self, row: int) -> str:
        return self.finding.describe(row + self.start)


@dataclass(frozen=True)
class Reason:
    """Why rows were skipped, or proved: the question, who answered, and the fact that decided."""

    source: str
    leaf: str
    detail: str

    def __str__(self) -> str:
        return f"{self.leaf}: {self.detail} ({self.source})" if self.leaf else f"{self.detail} ({self.source})"


@dataclass(frozen=True)
class Outcome:
    """What pruning knows after all evidence was heard.

    ``may`` holds every row of ``span`` that can match; every row of ``must`` does. ``states`` are the leaves' states in
    the order in which a walk of the tree meets them; give them (sliced) as ``prior`` to a finer evaluation.
    """

    root: Any
    span: RowSelection
    may: RowSelection
    must: RowSelection
    states: tuple[LeafState, ...]
    notes: tuple[Note, ...]

    @property
    def proved(self) -> bool:
        """Whether every row that may match does, so that no residual filter is needed."""
        return self.may.count == self.must.count

    def slice(self, start: int, stop: int) -> Outcome:
        """The outcome of the rows ``[start, stop)``, numbered from 0."""
        span, may, must = (part.slice(start, stop) for part in (self.span, self.may, self.must))
        states = tuple(state.slice(start, stop) for state in self.states)
        return Outcome(self.root, span, may, must, states, self.notes)

    def reasons(self, start: int, stop: int, *, partial: bool = False) -> tuple[Reason, ...]:
        """Why no row of ``[start, stop)`` can match; empty when some row may, unless ``partial`` reasons are wanted.

        One reason where one evidence sufficed; several for the branches of an OR, or where only together they left
        no row.
        """
        left, asked = self.may.slice(start, stop), self.span.slice(start, stop)
        if start >= stop or not (left.is_empty or (partial and left.count < stop - start)):
            return ()
        unasked = (Reason("selection", "", "none of these rows was asked for"),)
        if asked.is_empty:
            return unasked
        found = _Blame(self, start, stop).of_root() if left.count < asked.count else []
        return tuple(dict.fromkeys(found))

    def proofs(self, start: int, stop: int) -> tuple[Reason, ...]:
        """What proved rows of ``[start, stop)`` to match: every finding with such rows, once."""
        found = []
        for state, leaf in zip(self.states, _leaves(self.root)):
            for finding in state.findings:
                rows = finding.must.slice(start, stop)
                if not rows.is_empty:
                    row = start + int(rows.runs()[0, 0])
                    found.append(Reason(finding.source, repr(leaf.leaf), finding.describe(row)))
        return tuple(dict.fromkeys(found))


def evaluate(
    root: Any, evidence: Sequence[Evidence], span: RowSelection, *, prior: Sequence[LeafState] | None = None
) -> Outcome:
    """Hears all evidence on a bound predicate (``BoundPredicate.root``) over the rows of ``span``.

    ``evidence`` goes from coarse to fine. One after the other it is heard on the whole tree, and only on rows that are
    still alive there: not ruled out for the leaf, nor by a sibling under AND, nor already sure under OR. Per leaf the
    answers intersect; AND intersects, OR unites. ``prior`` are the ``states`` of a coarser outcome over the same rows.
    """
    leaves = list(_leaves(root))
    states = list(prior) if prior is not None else [LeafState(span, RowSelection.none(span.length)) for _ in leaves]
    fold = _Fold(states)
    may, must = fold.run(root, span, None)
    for one in evidence:
        if may.count == must.count:  # all is decided
            break
        may, must = fold.run(root, may, one)
    notes = list(dict.fromkeys([*fold.notes, *(note for one in evidence for note in one.notes)]))
    return Outcome(root, span, may, must, tuple(fold.states), tuple(notes))


class _Fold:
    """One walk of the tree after the other; the states belong to the places of the leaves, not to the leaves."""

    def __init__(self, states: list[LeafState]) -> None:
        self.states = states
        self.notes: list[Note] = []
        self._place = 0

    def run(self, root: Any, alive: RowSelection, evidence: Evidence | None) -> tuple[RowSelection, RowSelection]:
        self._place = 0
        return self._visit(root, alive, evidence)

    def _visit(self, node: Any, alive: RowSelection, evidence: Evidence | None) -> tuple[RowSelection, RowSelection]:
        nothing = RowSelection.none(alive.length)
        if isinstance(node, BoundLeaf):
            return self._hear(node, alive, evidence)
        if isinstance(node, And):
            must = alive
            for child in node.children:
                alive, sure = self._visit(child, alive, evidence)
                must = must & sure
            return alive, must
        if isinstance(node, Or):
            may, must = nothing, nothing
            for child in node.children:
                possible, sure = self._visit(child, alive - must, evidence)
                may, must = may | possible, must | sure
            return may, must
        if isinstance(node, External):
            return self._visit(node.may, alive, evidence)[0], nothing
        return (alive, alive) if node.value is True else (nothing, nothing)

    def _hear(
        self, leaf: BoundLeaf, alive: RowSelection, evidence: Evidence | None
    ) -> tuple[RowSelection, RowSelection]:
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
        if not asked.is_all:  # what it says of rows that it was not asked about does not count
            finding = replace(finding, may=finding.may | ~asked, must=finding.must & asked)
        may, must = state.may & finding.may, state.must
        if not finding.must.is_empty:
            must = must | finding.must
            if not must.issubset(may):
                text = "it says of some rows that they match, where another answer says that they do not"
                self.notes.append(Note(finding.source, "damaged", text, leaf.column))
                return state
        return LeafState(may, must, (*state.findings, finding))


def _leaves(node: Any) -> Iterator[BoundLeaf]:
    """The leaves in the order of the walk."""
    if isinstance(node, BoundLeaf):
        yield node
    elif isinstance(node, (And, Or)):
        for child in node.children:
            yield from _leaves(child)
    elif isinstance(node, External):
        yield from _leaves(node.may)


class _Blame:
    """Finds who ruled out a stretch of rows; walks the tree as the fold does."""

    def __init__(self, outcome: Outcome, start: int, stop: int) -> None:
        self._root = outcome.root
        self._states = iter(outcome.states)
        self._start, self._stop = start, stop
        self._asked = outcome.span.slice(start, stop)

    def of_root(self) -> list[Reason]:
        return self._visit(self._root)[1]

    def _visit(self, node: Any) -> tuple[RowSelection, list[Reason]]:
        """Rows of the stretch that the node leaves, and why the others cannot match."""
        if isinstance(node, BoundLeaf):
            return self._leaf(node, next(self._states))
        if isinstance(node, And):
            parts = [self._visit(child) for child in node.children]
            for left, reasons in parts:
                if left.is_empty:
                    return left, reasons
            left = self._asked
            for part, _ in parts:
                left = left & part
            return left, [reason for _, reasons in parts for reason in reasons]
        if isinstance(node, Or):
            parts = [self._visit(child) for child in node.children]
            left = RowSelection.none(self._asked.length)
            for part, _ in parts:
                left = left | part
            return left, [reason for _, reasons in parts for reason in reasons]
        if isinstance(node, External):
            return self._visit(node.may)
        if node.value is True:
            return self._asked, []
        reason = Reason("predicate", "", "the predicate can never be true")
        return RowSelection.none(self._asked.length), [reason]

    def _leaf(self, leaf: BoundLeaf, state: LeafState) -> tuple[RowSelection, list[Reason]]:
        left, reasons = self._asked, []
        for finding in state.findings:
            narrowed = left & finding.may.slice(self._start, self._stop)
            if narrowed.count < left.count:
                row = self._start + int((left - narrowed).runs()[0, 0])
                reasons.append(Reason(finding.source, repr(leaf.leaf), finding.describe(row)))
                left = narrowed
                if left.is_empty:
                    return left, reasons[-1:]
        return left, reasons
