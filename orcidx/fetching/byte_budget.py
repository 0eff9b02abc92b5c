"""Who of the stripes under way may hold how many of the bytes that a scan fetches.

Two stripes are under way at a time: one is decoded, the next is fetched meanwhile. The first may take all that the
other does not hold; the other no more than half, and it waits for its turn where that is not enough, so that a stripe
comes in few requests whenever ``io_bytes`` hold what is needed of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ByteBudget", "Share"]


@dataclass
class ByteBudget:
    """``most``: bytes that all stripes of a scan may hold together. Used by one thread at a time."""

    most: int
    shares: list[Share] = field(default_factory=list)
    """Of the stripes under way, in their order."""

    def enter(self) -> Share:
        """The share of a stripe that begins; those before it began earlier."""
        share = Share(self)
        self.shares.append(share)
        return share


@dataclass(eq=False)
class Share:
    """What one stripe holds: ``held`` bytes that it has asked for."""

    budget: ByteBudget
    held: int = 0

    def room(self, needed: int, *, whole: bool) -> int | None:
        """Bytes that the stripe may fetch now, of ``needed`` that it would like; None where it has to wait.

        ``whole``: it wants all of them or none, if that can be; else half the budget is enough.
        """
        half = self.budget.most // 2
        others = sum(share.held for share in self.budget.shares if share is not self)
        room = max(0, self.budget.most - others - self.held)
        if not whole or (self.budget.shares[0] is self and needed > room):
            return min(half, room)
        if self.budget.shares[0] is self or needed <= min(half, room):
            return needed
        return None

    def close(self) -> None:
        """Gives back what the stripe held."""
        self.budget.shares.remove(self)
