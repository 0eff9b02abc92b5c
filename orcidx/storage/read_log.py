"""``Request``: an entry of the log that ``ReadMetrics`` can keep."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """One request to the storage for ``length`` bytes at ``offset``. ``seconds``: the time until the response."""

    offset: int
    length: int
    seconds: float
