"""The only code that walks the tree of a predicate. A caller gives the result for each part, and functions that combine
results for AND and OR.

And and Or are built by ``&``, ``|``, ``all_of`` and ``any_of``. Only this module takes them apart, so a new kind of
node needs a change in one place only (``tests/test_house_rules.py`` checks this)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from orcidx.predicate.nodes import And, Bound, BoundLeaf, Constant, External, Leaf, Or, Predicate, all_of, any_of

__all__ = ["Part", "conjuncts", "fold", "is_read_by_pyarrow", "leaves", "parts", "rewritten"]

T = TypeVar("T")
Part = Leaf | BoundLeaf | Constant | External
"""A node of a predicate's tree that is neither an AND nor an OR."""


def fold(
    node: Predicate | Bound,
    part: Callable[[Part], T],
    *,
    both: Callable[[Iterator[T]], T],
    either: Callable[[Iterator[T]], T],
) -> T:
    """Computes ``part`` for each leaf, Constant or External, and combines the results by ``both`` for AND and by
    ``either`` for OR.

    ``both`` and ``either`` get an iterator over the results of the children, from left to right, with at least one
    result. A result is computed when it is requested. A function that stops early (such as ``any``) skips the rest of
    the tree. If the function changes a variable before it requests the next result, the evaluation of the next child
    uses the new value.
    """
    if isinstance(node, And):
        return both(fold(child, part, both=both, either=either) for child in node.children)
    if isinstance(node, Or):
        return either(fold(child, part, both=both, either=either) for child in node.children)
    return part(node)


def rewritten(node: Predicate | Bound, part: Callable[[Any], Any]) -> Any:
    """The predicate in which each part is replaced by the node that ``part`` returns. If ``part`` returns None for any
    part, the result is None."""
    return fold(node, part, both=_joined(all_of), either=_joined(any_of))


def _joined(join: Callable[..., Any]) -> Callable[[Iterator[Any]], Any]:
    def joined(children: Iterator[Any]) -> Any:
        found = list(children)
        return None if any(child is None for child in found) else join(*found)

    return joined


def parts(node: Predicate | Bound | None) -> Iterator[Part]:
    """The leaves, Constants and Externals, from left to right. The result is empty for None."""
    if isinstance(node, And | Or):
        for child in node.children:
            yield from parts(child)
    elif node is not None:
        yield node


def leaves(node: Predicate | Bound) -> Iterator[Any]:
    """The leaves from left to right: Leaf, or BoundLeaf for a bound predicate. For an External, the leaves that are
    used to prune for it are returned."""
    return iter((node,)) if isinstance(node, BoundLeaf | Leaf) else _leaves_below(node)


def _leaves_below(node: Predicate | Bound) -> Iterator[Any]:
    for one in parts(node):
        if isinstance(one, BoundLeaf | Leaf):
            yield one
        elif isinstance(one, External):
            yield from leaves(one.may)


def is_read_by_pyarrow(node: Bound) -> Callable[[str], bool]:
    """Returns a function that says for the name of a column whether an External of the predicate may read it. pyarrow
    evaluates Externals, and expects strings and decimals in pyarrow's usual forms. All other columns may be read in
    the form that is fastest."""
    names: set[str] = set()
    for one in parts(node):
        if isinstance(one, External):
            if one.columns is None:
                return lambda name: True
            stored = {name: path[0] for name, path, _ in one.nested if path}
            names.update(stored.get(path[0], path[0]).casefold() for path in one.columns)
    return lambda name: name.casefold() in names


def conjuncts(node: Predicate | Bound) -> tuple[Any, ...]:
    """The predicates that must all be TRUE: the children of an AND, or the predicate itself."""
    return node.children if isinstance(node, And) else (node,)
