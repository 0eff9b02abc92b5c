"""Finds the reasons why rows were skipped or kept, for many groups of rows at once.

The tree of the predicate is walked once for all groups, in the order in which ``evaluate`` walks it. Each finding for a
leaf narrows a selection of rows. Then the number of selected rows in each group shows which groups lost rows. The facts
that decided a finding, such as ``"max 81.5"``, are described only after the walk. All facts of one finding are
described in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.predicate import Bound, BoundLeaf, Constant, External
from orcidx.predicate.fold import Part, fold, leaves
from orcidx.pruning.findings import Finding, LeafState
from orcidx.pruning.selection import RowSelection

__all__ = ["UNASKED", "Fact", "Reason", "last_evaluated", "proofs_in", "reasons_in", "same_value_text"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Reasons = tuple["Reason", ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why rows were skipped or proved: the leaf, the evidence, and the deciding fact."""

    source: str
    leaf: str
    detail: str

    def __str__(self) -> str:
        return f"{self.leaf}: {self.detail} ({self.source})" if self.leaf else f"{self.detail} ({self.source})"


def same_value_text(value: pa.Scalar) -> str:
    """The deciding fact for a column that has the same value in all rows of a file."""
    try:
        shown = str(value) if value.is_valid else "null"
    except (OverflowError, ValueError):  # Python's times end at the years 1 and 9999, and have no nanoseconds
        shown = str(value.cast(pa.string()))
    return f"is {shown} in the whole file"


_COARSE_TO_FINE = (
    "partition", "constant", "file statistics", "index", "stripe statistics", "row-group statistics", "bloom filter",
    "dictionary",
)  # fmt: skip
"""Kinds of evidence from coarse to fine. Each is a part of the evidence's name."""


def last_evaluated(reasons: Sequence[Reason]) -> Reason:
    """Returns the reason whose evidence was evaluated last. ``reasons`` has one reason that ruled out all rows, or
    several reasons that ruled out all rows only together, for example as the branches of an OR. Some rows remained
    until the last evidence was evaluated."""
    last = reasons[0]
    if len(reasons) > 1:
        latest = _fineness(last.source)
        for reason in reasons[1:]:
            if (place := _fineness(reason.source)) >= latest:
                last, latest = reason, place
    return last


@lru_cache(maxsize=256)
def _fineness(source: str) -> int:
    return next((place for place, name in enumerate(_COARSE_TO_FINE) if name in source), -1)


UNASKED = Reason("selection", "", "none of these rows was requested")
_NEVER = Reason("predicate", "", "the predicate can never be true")


@dataclass(frozen=True)
class _Answer:
    """A finding for one leaf that ruled out or proved rows in some groups. ``groups`` has the numbers of these groups.
    ``rows`` has one affected row of each group."""

    groups: Int64s
    rows: Int64s
    leaf: str
    finding: Finding | None

    def reasons(self) -> Iterator[Reason]:
        if self.finding is None:
            return iter([_NEVER] * len(self.groups))
        source, leaf = self.finding.source, self.leaf
        return (Reason(source, leaf, detail) for detail in self.finding.describe(self.rows))

    def only(self, wanted: Bools) -> _Answer:
        """Returns the same finding for only the ``wanted`` groups. ``wanted`` has one bool for each group."""
        mine = wanted[self.groups]
        return self if mine.all() else _Answer(self.groups[mine], self.rows[mine], self.leaf, self.finding)


@dataclass(frozen=True)
class _Part:
    """The rows that a node of the predicate's tree does not rule out, the number of these rows in each group, and the
    findings that ruled out the other rows."""

    left: RowSelection
    counts: Int64s
    answers: list[_Answer]


def reasons_in(
    root: Bound, states: Sequence[LeafState], bounds: Int64s, *, span: RowSelection, may: RowSelection
) -> list[Reasons]:
    """See ``Outcome.reasons_in``. ``span`` has the requested rows. ``may`` has the rows of ``span`` that may match.
    ``states`` has the states of the leaves, in the order in which the tree is walked."""
    asked, left = span.count_in(bounds), may.count_in(bounds)
    found = _collected(
        len(asked), (one.only(left < asked) for one in _ReasonFinder(states, span, bounds).of_tree(root))
    )
    for group in np.flatnonzero((asked == 0) & (bounds[1:] > bounds[:-1])).tolist():
        found[group] = (UNASKED,)
    return found


def proofs_in(root: Bound, states: Sequence[LeafState], bounds: Int64s) -> list[Reasons]:
    """See ``Outcome.proofs_in``."""
    answers = (
        _Answer(groups, _first_rows(finding.must, bounds, groups), repr(leaf.leaf), finding)
        for state, leaf in zip(states, leaves(root))
        for finding in state.findings
        if len(groups := np.flatnonzero(finding.must.any_in(bounds)))
    )
    return _collected(len(bounds) - 1, answers)


def _collected(groups: int, answers: Iterable[_Answer]) -> list[Reasons]:
    """Returns the reasons of each group in order, without repetitions."""
    found: list[Reasons] = [()] * groups
    seen = set[tuple[str, str]]()
    for answer in answers:
        asked = (answer.leaf, "" if answer.finding is None else answer.finding.source)
        again = asked in seen  # if False, no group has this reason yet, so ``before`` is not searched
        seen.add(asked)
        for group, reason in zip(answer.groups.tolist(), answer.reasons()):
            before = found[group]
            if not (again and reason in before):
                found[group] = (*before, reason)
    return found


def _first_rows(rows: RowSelection, bounds: Int64s, groups: Int64s) -> Int64s:
    """The first row of ``rows`` in each of these groups. Every group must have at least one of these rows."""
    runs, starts = rows.runs(), bounds[groups]
    first: Int64s = np.maximum(runs[np.searchsorted(runs[:, 1], starts, "right"), 0], starts)
    return first


class _ReasonFinder:
    """Determines which findings ruled out rows. Walks the predicate's tree in the same order as ``evaluate``."""

    def __init__(self, states: Sequence[LeafState], span: RowSelection, bounds: Int64s) -> None:
        self._states = iter(states)
        self._asked = span
        self._counts = span.count_in(bounds)
        self._bounds = bounds

    def of_tree(self, root: Bound) -> list[_Answer]:
        return self._visit(root).answers

    def _visit(self, node: Bound) -> _Part:
        return fold(node, self._of_part, both=self._all, either=self._any)

    def _of_part(self, node: Part) -> _Part:
        if isinstance(node, BoundLeaf):
            return self._leaf(node, next(self._states))
        if isinstance(node, External):
            return self._visit(node.may)
        assert isinstance(node, Constant)
        if node.value is True:
            return _Part(self._asked, self._counts, [])
        every = np.arange(len(self._counts))
        return self._part(RowSelection.none(self._asked.length), [_Answer(every, self._bounds[:-1], "", None)])

    def _part(self, left: RowSelection, answers: list[_Answer]) -> _Part:
        return _Part(left, left.count_in(self._bounds), answers)

    def _any(self, parts: Iterator[_Part]) -> _Part:
        left, answers = RowSelection.none(self._asked.length), list[_Answer]()
        for part in parts:
            left = left | part.left
            answers += part.answers
        return self._part(left, answers)

    def _all(self, children: Iterator[_Part]) -> _Part:
        """For an AND, if several parts leave no row of a group, only the first of these parts is a reason."""
        parts, left, answers = list(children), self._asked, []
        unruled = np.ones(len(self._counts), np.bool_)
        blamed = []
        for part in parts:
            left = left & part.left
            alone = unruled & (part.counts == 0)
            blamed.append(alone)
            unruled &= ~alone
        for part, alone in zip(parts, blamed):
            answers += [answer.only(unruled | alone) for answer in part.answers]
        return self._part(left, answers)

    def _leaf(self, leaf: BoundLeaf, state: LeafState) -> _Part:
        left, counts, answers = self._asked, self._counts, list[_Answer]()
        text = repr(leaf.leaf)
        for finding in state.findings:
            narrowed = left & finding.may
            if narrowed is left:
                continue
            after = narrowed.count_in(self._bounds)
            groups = np.flatnonzero(after < counts)
            if len(groups):
                # If a finding rules out all remaining rows of a group, it becomes the only reason for the group. The
                # reasons of earlier findings, which ruled out only some rows of the group, are removed.
                emptied = (after == 0) & (counts > 0)
                answers = [answer.only(~emptied) for answer in answers]
                answers.append(_Answer(groups, _first_rows(left - narrowed, self._bounds, groups), text, finding))
            left, counts = narrowed, after
        return _Part(left, counts, answers)


@dataclass(frozen=True)
class Fact:
    """The only fact that decided the rows of a finding. It can be called in the same way as the finding's
    ``describe``."""

    text: str

    def __call__(self, rows: Int64s) -> list[str]:
        return [self.text] * len(rows)
