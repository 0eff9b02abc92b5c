"""Divides the bytes that a scan may fetch among its stripes.

Two stripes are active at a time: one is decoded while the next is fetched. The first may take all bytes that the other
does not hold. The second may take at most half, and waits for its turn if that is not enough. So a stripe takes few
requests as long as ``io_bytes`` can hold its data."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ByteBudget", "Share"]


@dataclass
class ByteBudget:
    """``most``: the bytes that all stripes of a scan may hold together. Not thread-safe."""

    most: int
    shares: list[Share] = field(default_factory=list)
    """The shares of the active stripes, in their order."""

    def enter(self) -> Share:
        """Creates the share of a stripe that begins after the others."""
        share = Share(self)
        self.shares.append(share)
        return share


@dataclass(eq=False)
class Share:
    """The share of one stripe. ``held``: the bytes that it has requested."""

    budget: ByteBudget
    held: int = 0

    def room(self, needed: int, *, whole: bool) -> int | None:
        """How many of the ``needed`` bytes the stripe may fetch now. None if it has to wait. ``whole``: it takes all of
        them or none, if the budget can hold them. Otherwise half the budget is enough."""
        half = self.budget.most // 2
        others = sum(share.held for share in self.budget.shares if share is not self)
        room = max(0, self.budget.most - others - self.held)
        if not whole or (self.budget.shares[0] is self and needed > room):
            return min(half, room)
        if self.budget.shares[0] is self or needed <= min(half, room):
            return needed
        return None

    def close(self) -> None:
        """Returns the bytes that the stripe held."""
        self.budget.shares.remove(self)
