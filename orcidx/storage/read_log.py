"""``Request``: an entry of the log that ``ReadMetrics`` may keep."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """One request that was sent to the storage: for ``length`` bytes at ``offset``, answered after ``seconds``."""

    offset: int
    length: int
    seconds: float
