"""``weight_of`` returns the bytes of memory of a predicate, for caches that keep predicates alive."""

from __future__ import annotations

import decimal
import sys

import pyarrow as pa

from orcidx.predicate.arrow_expression import serialized_form
from orcidx.predicate.fold import Part, parts
from orcidx.predicate.nodes import BoundLeaf, External, Leaf, Predicate

__all__ = ["weight_of"]

NODE_BYTES = 512
"""Bytes of a leaf with its path, in its unbound and its bound form."""
SLOTS_BYTES = 32
"""Bytes of a literal in addition to its value: its slots in the tuples of given and bound literals, and in the array of
sorted literals."""
SHARED_TYPES = frozenset({int, bool, bytes, float, decimal.Decimal})
"""Types of literals that binding does not copy where the column has the same type."""


def weight_of(predicate: Predicate | None) -> int:
    """Returns the bytes of memory of a predicate, including the memory that binding and evaluation add."""
    return sum(map(_weight_of_part, parts(predicate)))


def _weight_of_part(node: Part) -> int:
    if isinstance(node, External):
        compared = 0 if node.comparisons is None else NODE_BYTES
        return compared + _weight_of_expression(node) + weight_of(node.may) + weight_of(node.may_not)
    if isinstance(node, BoundLeaf | Leaf):
        # When a predicate is bound to a schema, some of its literals are converted. For example, a text becomes bytes,
        # and a time becomes an integer. Such literals count twice. Numbers and bytes are in most cases shared with the
        # bound predicate, so they count once.
        sizes = sum(map(sys.getsizeof, node.literals))
        shared = SHARED_TYPES.issuperset(map(type, node.literals))
        return NODE_BYTES + (1 if shared else 2) * sizes + SLOTS_BYTES * len(node.literals)
    return NODE_BYTES


def _weight_of_expression(node: External) -> int:
    """The bytes of a pyarrow Expression, including the arrays in it. The size of the pickled form is used, because the
    Expression does not give its size. This size is doubled, because a bound copy of the Expression also exists."""
    try:
        return 2 * len(serialized_form(node.expression))
    except pa.ArrowException:  # the expression cannot be serialised, because it calls a function of the user
        return NODE_BYTES
