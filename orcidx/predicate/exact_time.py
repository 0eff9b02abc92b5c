"""``ExactTime``: times in nanoseconds, as literals of predicates."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExactTime"]


@dataclass(frozen=True)
class ExactTime:
    """A literal with a finer unit than Python's ``datetime`` and ``time``. It is made from pyarrow scalars.

    ``nanos`` counts from 1970-01-01 (in UTC if ``zone`` is not None), or from midnight if ``of_day`` is set.
    """

    nanos: int
    zone: str | None = None
    of_day: bool = False

    def __repr__(self) -> str:
        if self.of_day:
            return f"pa.scalar({self.nanos}, pa.time64('ns'))"
        return f"pa.scalar({self.nanos}, pa.timestamp('ns'{f', tz={self.zone!r}' if self.zone else ''}))"
