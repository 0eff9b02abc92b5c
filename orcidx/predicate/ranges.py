"""``BothEnds`` joins two leaves of an AND that are the ends of one range, so each value of the column is tested once.

``BothEnds`` is used only when rows are evaluated. Statistics and indexes get the two leaves as the caller wrote them.
Tests set ``ENABLED`` to False to compare the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orcidx.predicate.fold import fold
from orcidx.predicate.nodes import Bound, BoundLeaf, Domain, Node, Op, all_of, any_of

__all__ = ["BothEnds", "with_ranges"]

ENABLED = True

_LOW = frozenset({Op.GT, Op.GE})
_HIGH = frozenset({Op.LT, Op.LE})
_DOMAINS = frozenset(Domain) - {Domain.BOOL, Domain.NULL, Domain.NESTED}
"""The domains in which two leaves can be joined. Floats are included, because NaN is in no range: with nan="largest"
NaN is above the low end of a range, but NaN is never below the high end."""


@dataclass(frozen=True, eq=False)
class BothEnds(Node):
    """Two leaves of one column, evaluated together."""

    low: BoundLeaf
    high: BoundLeaf


def with_ranges(root: Bound) -> Bound:
    """Returns the predicate's tree. Wherever an AND has both ends of a range, a BothEnds replaces the two leaves."""
    if not ENABLED:
        return root
    found: Bound = fold(
        root,
        lambda part: part,
        both=lambda found: all_of(*_joined(list(found))),
        either=lambda found: any_of(*found),
    )
    return found


def _joined(children: list[Any]) -> list[Any]:
    """The children of an AND. A BothEnds takes the place of the first of its two leaves."""
    open_ends: dict[tuple[Any, ...], int] = {}
    joined: list[Any] = []
    for child in children:
        if _is_end(child):
            is_low = child.op in _LOW
            place = open_ends.pop((child.path, child.type, not is_low), None)
            if place is not None:
                other = joined[place]
                joined[place] = BothEnds(child, other) if is_low else BothEnds(other, child)
                continue
            open_ends.setdefault((child.path, child.type, is_low), len(joined))
        joined.append(child)
    return joined


def _is_end(node: object) -> bool:
    return isinstance(node, BoundLeaf) and not node.negated and node.domain in _DOMAINS and node.op in _LOW | _HIGH
