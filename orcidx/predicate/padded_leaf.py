"""``PaddedLeaf``: comparisons of engines that compare trailing spaces of CHAR values."""

from __future__ import annotations

from orcidx.predicate.nodes import Leaf, Op

__all__ = ["PaddedLeaf"]


class PaddedLeaf(Leaf):
    """A leaf of an engine that compares CHAR values with their trailing spaces, and that evaluates the condition again.

    A leaf of orcidx ignores these spaces. Whether a column has type CHAR is known for each file. If it has, binding
    keeps ``EQ`` and ``IN`` that are not negated, because they keep every row that the engine keeps. Other operators
    become True."""

    @property
    def keeps_all_of_char(self) -> bool:
        """Whether the leaf must keep every row if its column has type CHAR."""
        return self.negated or self.op not in (Op.EQ, Op.IN)
