"""Stretches of zeros in a file: what a copy or an upload leaves that was given its length and not all its bytes."""

from __future__ import annotations

import numpy as np

from orcidx.orc.foreign import ZEROS
from orcidx.storage import RangeReader

__all__ = ["MOST_READ", "describe_hole", "find_hole"]

BLOCK = 4096
"""Zeros are looked for in blocks of a file system: less is no hole, and values are zeros, too."""
_AT_ONCE = 8 << 20
MOST_READ = 1 << 30
"""Bytes that are looked at: what is reported is a help, and not worth reading a terabyte."""


def find_hole(storage: RangeReader) -> tuple[int, int] | None:
    """The longest stretch of whole blocks of zeros among the first ``MOST_READ`` bytes, as bytes of the file from and
    to; None where there is none."""
    size = min(storage.size(), MOST_READ)
    longest, start = (0, 0), 0
    for offset in range(0, size - size % BLOCK, _AT_ONCE):
        length = min(_AT_ONCE, size - size % BLOCK - offset)
        (data,) = storage.read_ranges([(offset, length)])
        filled = np.flatnonzero(np.frombuffer(data, np.int64).reshape(-1, BLOCK // 8).any(axis=1))
        for stop in (offset + filled * BLOCK).tolist():
            longest = max(longest, (stop - start, start))
            start = stop + BLOCK
        longest = max(longest, (offset + length - start, start))
    return (longest[1], sum(longest)) if longest[0] else None


def describe_hole(hole: tuple[int, int]) -> str:
    """In words."""
    return f"its bytes from {hole[0]:,} to {hole[1]:,} are zeros, {ZEROS}"
