"""The only walk over the tree of a predicate: a caller gives the result for each part, and how AND and OR combine
results.

And and Or are built by ``&``, ``|``, ``all_of`` and ``any_of`` and taken apart only here, so that a new kind of node is
handled in one place (``tests/test_house_rules.py`` checks this).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from orcidx.predicate.nodes import And, Bound, BoundLeaf, Constant, External, Leaf, Or, Predicate, all_of, any_of

__all__ = ["conjuncts", "fold", "leaves", "parts", "rewritten"]

T = TypeVar("T")
Part = Leaf | BoundLeaf | Constant | External
"""What a tree has below its ANDs and ORs."""


def fold(
    node: Predicate | Bound,
    part: Callable[[Part], T],
    *,
    both: Callable[[Iterator[T]], T],
    either: Callable[[Iterator[T]], T],
) -> T:
    """The results of ``part`` for each leaf, Constant or External, combined by ``both`` for AND and by ``either`` for
    OR.

    These get an iterator over the results of the children, from left to right and at least one. Each result is computed
    when it is requested: a function that stops early (such as ``any``) skips the rest of the tree, and state that it
    sets before the next request is visible to the next child.
    """
    if isinstance(node, And):
        return both(fold(child, part, both=both, either=either) for child in node.children)
    if isinstance(node, Or):
        return either(fold(child, part, both=both, either=either) for child in node.children)
    return part(node)


def rewritten(node: Predicate | Bound, part: Callable[[Any], Any]) -> Any:
    """The predicate with another node in place of each part; None where ``part`` has none for one of them."""
    return fold(node, part, both=_joined(all_of), either=_joined(any_of))


def _joined(join: Callable[..., Any]) -> Callable[[Iterator[Any]], Any]:
    def joined(children: Iterator[Any]) -> Any:
        found = list(children)
        return None if any(child is None for child in found) else join(*found)

    return joined


def parts(node: Predicate | Bound | None) -> Iterator[Part]:
    """The leaves, Constants and Externals, from left to right; empty for None."""
    if isinstance(node, And | Or):
        for child in node.children:
            yield from parts(child)
    elif node is not None:
        yield node


def leaves(node: Predicate | Bound) -> Iterator[Any]:
    """The leaves (Leaf, or BoundLeaf of a bound predicate) left to right, with those that prune for an External."""
    for one in parts(node):
        if isinstance(one, BoundLeaf | Leaf):
            yield one
        elif isinstance(one, External):
            yield from leaves(one.may)


def conjuncts(node: Predicate | Bound) -> tuple[Any, ...]:
    """The predicates that must all be TRUE: those of an AND, or the predicate itself."""
    return node.children if isinstance(node, And) else (node,)
