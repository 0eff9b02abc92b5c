"""Divides the byte budget of a scan among the stripes of the scan.

Two stripes are active at a time: one is decoded while the next one is fetched. The first stripe may use all bytes that
the second stripe does not hold. The second stripe may use at most half of the budget. If half is not enough, the second
stripe waits until it is the first stripe, and may then fetch more. So a stripe whose data fits into ``io_bytes`` needs
only a few requests."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ByteBudget", "Share"]


@dataclass
class ByteBudget:
    """The byte budget of a scan. ``most``: the number of bytes that all stripes may hold together. The class is not
    thread-safe."""

    most: int
    shares: list[Share] = field(default_factory=list)
    """The shares of the active stripes, in their order."""

    def enter(self) -> Share:
        """Creates the share of a new stripe, which comes after the active stripes."""
        share = Share(self)
        self.shares.append(share)
        return share


@dataclass(eq=False)
class Share:
    """The share of one stripe. ``held``: the number of bytes that the stripe has requested."""

    budget: ByteBudget
    held: int = 0

    def room(self, needed: int, *, whole: bool) -> int | None:
        """Returns the number of the ``needed`` bytes that the stripe may fetch now. Without ``whole``, the result is at
        most half of the budget. With ``whole``, the first stripe gets all needed bytes if the budget has room for them,
        and otherwise at most half of the budget. Any other stripe gets all needed bytes if there is room for them
        within half of the budget. Otherwise it has to wait, and the result is None."""
        half = self.budget.most // 2
        others = sum(share.held for share in self.budget.shares if share is not self)
        room = max(0, self.budget.most - others - self.held)
        if not whole or (self.budget.shares[0] is self and needed > room):
            return min(half, room)
        if self.budget.shares[0] is self or needed <= min(half, room):
            return needed
        return None

    def close(self) -> None:
        """Ends the share. Other stripes may then use the bytes that the stripe held."""
        self.budget.shares.remove(self)
