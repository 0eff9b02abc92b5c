"""``LookupCost``: what a lookup reads, and the causes for which a lookup reads more than before a rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcidx.errors import OrcidxError
from orcidx.explain.overlap import overlap_depth
from orcidx.explain.render import rounded
from orcidx.inspection.column_facts import column_ranges
from orcidx.options import USUAL_OPTIONS
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import group_count
from orcidx.orc.statistics import stripe_statistics
from orcidx.orc.types import OrcType
from orcidx.scanner.small_stripes import SMALL_STRIPE_BYTES
from orcidx.spellings import counted, size_text
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["READS_MORE", "LookupCost", "growth_causes"]

MOST_GROUPS = 20_000
"""The overlap depth is not computed for files with more row groups than this."""

READS_MORE = 1.1
REQUESTS_MORE = 1.5
"""The factors by which the bytes of a lookup, or its requests, must grow before the growth is reported. Small changes
are normal. In every file, chunks end at other positions, and this changes the bytes of a row group."""


@dataclass(frozen=True)
class LookupCost:
    """What a lookup reads on average. ``index_bytes`` is the part of ``bytes`` for tails, footers and indexes."""

    bytes: float
    requests: float
    index_bytes: float

    def __str__(self) -> str:
        return f"{size_text(round(self.bytes))} in {counted(max(1, round(self.requests)), 'request')}"

    def growth(self, before: LookupCost) -> float:
        """The growth of the bytes divided by ``READS_MORE``, or the growth of the requests divided by
        ``REQUESTS_MORE``, whichever is larger. A result above 1 is reported."""
        size, requests = self.bytes / max(before.bytes, 1), self.requests / max(before.requests, 1)
        return max(size / READS_MORE, requests / REQUESTS_MORE)


def growth_causes(
    old: Sequence[OrcReader], new: OrcReader, column: str, was: LookupCost, now: LookupCost
) -> Iterator[str]:
    """Yields the reasons why a lookup by this column reads more than before."""
    if new.tail.size <= SMALL_FILE_BYTES:
        yield "a file of this size is read completely"
        return
    before, after = _depth(old, column), _depth([new], column)
    share = _groups([new]) / max(_groups(old), 1)
    # If row groups have fewer rows, more of them overlap, although a lookup reads no more rows. So the depth may grow
    # as much as the number of row groups.
    if before is not None and after is not None and after > READS_MORE * before * max(share, 1):
        yield f"the overlap depth was {rounded(before)} and is now {rounded(after)}"
    reads_more = now.bytes > READS_MORE * was.bytes
    rows = _group_rows(old), _group_rows([new])
    if reads_more and rows[1] > READS_MORE * rows[0]:
        yield f"row groups have {rows[1]:,} rows, before {rows[0]:,}"
    chunks = _chunk_bytes(old), _chunk_bytes([new])
    if reads_more and chunks[1] > READS_MORE * chunks[0]:
        yield f"a chunk of up to {size_text(chunks[1])} is decompressed as a whole" + (
            f", before up to {size_text(chunks[0])}" if chunks[0] else ", and before, streams were not compressed"
        )
    sizes = _stripe_bytes(old), _stripe_bytes([new])
    if now.requests > REQUESTS_MORE * was.requests and sizes[0] <= SMALL_STRIPE_BYTES < sizes[1]:
        yield f"stripes of up to {size_text(SMALL_STRIPE_BYTES)} are read by one request, and larger stripes by several"
    stripes = len(_stripes(old)), len(_stripes([new]))
    if stripes[1] > REQUESTS_MORE * stripes[0]:
        yield f"there are {counted(stripes[1], 'stripe')}, before {stripes[0]:,}"
    if now.index_bytes - was.index_bytes > (now.bytes - was.bytes) / 4 > 0:
        read = size_text(round(now.index_bytes)), size_text(round(was.index_bytes))
        yield f"tails, footers and indexes take {read[0]}, before {read[1]}"


def _stripes(readers: Sequence[OrcReader]) -> list[tuple[OrcReader, int]]:
    return [(one, number) for one in readers for number, stripe in enumerate(one.stripes) if stripe.rows]


def _groups(readers: Sequence[OrcReader]) -> int:
    return sum(group_count(one.stripes[number].rows, one.facts.row_index_stride) for one, number in _stripes(readers))


def _group_rows(readers: Sequence[OrcReader]) -> int:
    """The number of rows of the largest row group. A stripe of a file without row groups is one row group."""
    sizes = (
        min(rows, one.facts.row_index_stride or rows)
        for one, number in _stripes(readers)
        for rows in [one.stripes[number].rows]
    )
    return max(sizes, default=0)


def _chunk_bytes(readers: Sequence[OrcReader]) -> int:
    """The maximum number of bytes of a chunk before compression. The result is 0 if no file is compressed."""
    return max([one.facts.block_size if one.facts.compressed else 0 for one in readers], default=0)


def _stripe_bytes(readers: Sequence[OrcReader]) -> int:
    return max([one.stripes[number].end - one.stripes[number].offset for one, number in _stripes(readers)], default=0)


def _depth(readers: Sequence[OrcReader], column: str) -> float | None:
    """The overlap depth of the row groups in a column (see ``explain.overlap``). None if it is not known."""
    if _groups(readers) > MOST_GROUPS:
        return None
    least: list[Any] = []
    greatest: list[Any] = []
    for reader in readers:
        nodes = [node for node in reader.root.walk() if node.path and node.dotted == column]
        try:
            lows, highs = _bounds(reader, nodes[0]) if len(nodes) == 1 else ((), ())
        except OrcidxError:  # reading the file later reports where the damage is
            return None
        least += lows
        greatest += highs
    return overlap_depth(column, least, greatest).average if least else None


def _bounds(reader: OrcReader, node: OrcType) -> tuple[Sequence[Any], Sequence[Any]]:
    """The bounds of the row groups in their stored form. If the file has no row groups, these are the bounds of the
    stripes."""
    if reader.facts.row_index_stride:
        ranges: Mapping[int, Any] = column_ranges(reader, [node])
        return (ranges[node.id].lows, ranges[node.id].highs) if node.id in ranges else ((), ())
    bounds = bound_statistics(stripe_statistics(reader.tail, node), reader.facts, USUAL_OPTIONS, zone=None)
    known = (bounds.lower.valid & bounds.upper.valid).nonzero()[0]
    return bounds.lower.at(known), bounds.upper.at(known)
