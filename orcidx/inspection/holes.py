"""Finds ranges of zeros in a file. An incomplete copy or upload leaves such ranges if it set the length of the file but
did not write all bytes."""

from __future__ import annotations

import numpy as np

from orcidx.orc.foreign import ZEROS
from orcidx.storage import RangeReader

__all__ = ["MOST_READ_BYTES", "READ_BYTES", "describe_hole", "find_hole"]

FILE_SYSTEM_BLOCK_BYTES = 4096
"""The size of a block of a file system. Only complete blocks of zeros are reported, because single zeros are also
values."""
READ_BYTES = 8 << 20
"""Bytes of one read, the same as the largest read of a local file."""
MOST_READ_BYTES = 1 << 30
"""The maximum number of bytes that are searched. The result is only a hint, so it must not take the time of reading a
terabyte."""


def find_hole(storage: RangeReader) -> tuple[int, int] | None:
    """Returns the longest range of complete blocks of zeros among the first ``MOST_READ_BYTES`` bytes, as (start, stop)
    in the file. The result is None if there is no such range."""
    size = min(storage.size(), MOST_READ_BYTES)
    longest, start = (0, 0), 0
    for offset in range(0, size - size % FILE_SYSTEM_BLOCK_BYTES, READ_BYTES):
        length = min(READ_BYTES, size - size % FILE_SYSTEM_BLOCK_BYTES - offset)
        (data,) = storage.read_ranges([(offset, length)])
        filled = np.flatnonzero(np.frombuffer(data, np.int64).reshape(-1, FILE_SYSTEM_BLOCK_BYTES // 8).any(axis=1))
        for stop in (offset + filled * FILE_SYSTEM_BLOCK_BYTES).tolist():
            longest = max(longest, (stop - start, start))
            start = stop + FILE_SYSTEM_BLOCK_BYTES
        longest = max(longest, (offset + length - start, start))
    return (longest[1], sum(longest)) if longest[0] else None


def describe_hole(hole: tuple[int, int]) -> str:
    """A text that describes the range."""
    return f"the bytes of the file from {hole[0]:,} to {hole[1]:,} are zeros, {ZEROS}"
