"""Index sections of remote stripes, fetched with the stripes' footers: requests for what is inside ask nobody.

A round trip costs tens of milliseconds, as much as a megabyte; and the footer of one stripe lies beside the index of
the next, so that a request that brings both is one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from orcidx.fetching.drive import Fetch

__all__ = ["PrefetchedRange", "served"]

T = TypeVar("T")


@dataclass(frozen=True)
class PrefetchedRange:
    """Bytes of a file that are here: ``data`` from ``offset`` on."""

    offset: int
    data: memoryview

    def find(self, offset: int, length: int) -> memoryview | None:
        """A range of the file; None when it is not (wholly) here."""
        start = offset - self.offset
        if start < 0 or start + length > len(self.data):
            return None
        return self.data[start : start + length]


def served(steps: Generator[Fetch, Any, T], held: PrefetchedRange | None) -> Generator[Fetch, Any, T]:
    """The same steps, without the requests that ``held`` answers."""
    if held is None:
        return (yield from steps)
    answer: Any = None
    while True:
        try:
            item = steps.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        found = [held.find(*one) for one in item.ranges]
        answer = (yield item) if None in found else found
