"""``Verdict``: what an index answers to one predicate.

Every answer is one-way: rows outside it surely do not match; rows inside it may. ``exact`` says that they surely do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyroaring import BitMap

__all__ = ["Verdict"]


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
