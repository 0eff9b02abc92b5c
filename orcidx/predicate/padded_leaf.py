"""``PaddedLeaf``: comparisons of engines that compare trailing spaces of CHAR values."""

from __future__ import annotations

from orcidx.predicate.nodes import Leaf, Op

__all__ = ["PaddedLeaf"]


class PaddedLeaf(Leaf):
    """A leaf of an engine that compares CHAR values with their trailing spaces, and that evaluates the condition again.

    A leaf of orcidx ignores these spaces. Only the schema of a file says whether the column has type CHAR. If it has
    this type, binding keeps ``EQ`` and ``IN`` leaves that are not negated, because such leaves keep every row that the
    engine keeps. All other leaves become True."""

    @property
    def keeps_all_of_char(self) -> bool:
        """Whether the leaf must keep every row if its column has type CHAR."""
        return self.negated or self.op not in (Op.EQ, Op.IN)
