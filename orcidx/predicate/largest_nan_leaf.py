"""``LargestNanLeaf``: comparisons in which NaN is above every number, whatever the option ``nan`` is."""

from __future__ import annotations

from orcidx.predicate.nodes import Leaf

__all__ = ["LargestNanLeaf"]


class LargestNanLeaf(Leaf):
    """A leaf of an engine in which NaN is above every number, such as Polars. The option ``nan`` does not change its
    meaning. So such leaves can be combined with other leaves."""
