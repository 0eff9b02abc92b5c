"""Finds ranges of a file that belong to no stripe, header or footer. No reader reads such bytes. Zeros before a stripe
are allowed. ORC Java fills the rest of an HDFS block with zeros, so no stripe is in two blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orcidx.inspection.holes import READ_BYTES
from orcidx.orc.foreign import MAGIC
from orcidx.orc.reader import OrcReader

__all__ = ["MOST_PADDING_BYTES", "Unowned", "unowned_stretches"]

MOST_PADDING_BYTES = 1 << 30
"""The maximum number of zero bytes that count as padding. Blocks of HDFS have 128 or 256 MiB."""


@dataclass(frozen=True)
class Unowned:
    """A range of bytes that belongs to no part of the file. It has ``length`` bytes at ``offset``, and lies before a
    stripe. If ``stripe`` is None, it lies before the footers."""

    offset: int
    length: int
    stripe: int | None

    @property
    def text(self) -> str:
        """A sentence about the bytes."""
        place = "the footers" if self.stripe is None else f"stripe {self.stripe}"
        return f"{self.length:,} bytes from {self.offset:,} on, before {place}, belong to no part of the file"

    def __str__(self) -> str:
        return self.text


def unowned_stretches(reader: OrcReader) -> Iterator[Unowned]:
    """Yields the ranges in the order of the file, without padding before stripes."""
    tail = reader.tail
    postscript = tail.postscript
    lengths = postscript.metadata_length + postscript.footer_length + postscript.size
    places: list[tuple[int, int, int | None]] = [(one.offset, one.end, n) for n, one in enumerate(reader.stripes)]
    footers = tail.size - postscript.stripe_statistics_length - lengths
    end = len(MAGIC)
    for offset, stop, stripe in [*sorted(places), (footers, footers, None)]:
        if offset > end and (stripe is None or not _is_padding(reader, end, offset - end)):
            yield Unowned(end, offset - end, stripe)
        end = max(end, stop)


def _is_padding(reader: OrcReader, offset: int, length: int) -> bool:
    if length > MOST_PADDING_BYTES:
        return False
    for start in range(offset, offset + length, READ_BYTES):
        (data,) = reader.storage.read_ranges([(start, min(READ_BYTES, offset + length - start))])
        if np.frombuffer(data, np.uint8).any():
            return False
    return True
