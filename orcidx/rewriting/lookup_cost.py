"""What a lookup of one value reads of files, before and after they were rewritten: said where it is more.

Bytes of the data of one row group, times the overlap depth of the column that is asked (``explain/overlap``): about as
many row groups does a lookup read that nothing else helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orcidx.errors import OrcidxError
from orcidx.explain.overlap import overlap_depth
from orcidx.explain.render import rounded
from orcidx.inspection.column_facts import column_ranges
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import group_count
from orcidx.planner.read_bytes import data_planned
from orcidx.spellings import counted, size_text

__all__ = ["LookupCost", "lookup_cost", "lookup_notes", "size_notes"]

MOST_GROUPS = 20_000
MOST_COLUMNS = 64
"""Row groups and columns beyond which nothing is said: their indexes would take too long to read."""

SAMPLED_STRIPES = 8
"""Stripes of whose middle row group the bytes are counted."""

READS_MORE = 1.1
TAKES_MORE = 1.02
"""Times as many bytes that a lookup reads, and that a file takes, above which it is said. Chunks end elsewhere in every
file, which moves the bytes of a row group."""


@dataclass(frozen=True)
class LookupCost:
    """``row_group``: bytes of the data of a row group, on average; ``depths``: the overlap depth by column; ``most``:
    bytes of all data."""

    row_group: float
    depths: Mapping[str, float]
    most: int

    def by(self, column: str) -> float:
        """Bytes of a lookup by a column."""
        return min(self.row_group * self.depths[column], self.most)


def lookup_cost(readers: Sequence[OrcReader]) -> LookupCost | None:
    """Of files with row groups; None where there are none, too many, or a damaged index."""
    stripes = [(one, number) for one in readers for number, stripe in enumerate(one.stripes) if stripe.rows]
    groups = sum(group_count(one.stripes[number].rows, one.facts.row_index_stride) for one, number in stripes)
    if not stripes or groups > MOST_GROUPS or len(readers[0].root.ids) > MOST_COLUMNS:
        return None
    if not all(one.facts.row_index_stride for one, _ in stripes):
        return None
    step = -(-len(stripes) // SAMPLED_STRIPES)
    try:
        sizes = [_middle_bytes(one, number) for one, number in stripes[::step]]
        most = sum(one.stripes[number].data_length for one, number in stripes)
        return LookupCost(sum(sizes) / len(sizes), dict(_depths(readers)), most)
    except OrcidxError:  # whoever reads the file says where
        return None


def _middle_bytes(reader: OrcReader, stripe: int) -> int:
    nodes = list(reader.root.walk())
    index = read_row_index(reader, stripe, nodes)
    kept = np.zeros(index.groups, np.bool_)
    kept[index.groups // 2] = True
    return data_planned(reader, stripe, [node.id for node in nodes], index=index, kept=kept)


def _depths(readers: Sequence[OrcReader]) -> Iterator[tuple[str, float]]:
    least: dict[str, list[object]] = {}
    greatest: dict[str, list[object]] = {}
    for reader in readers:
        repeated = reader.root.repeated_ids
        nodes = {node.id: node for node in reader.root.walk() if node.path and node.id not in repeated}
        for column, found in column_ranges(reader, list(nodes.values())).items():
            least.setdefault(nodes[column].dotted, []).extend(found.lows)
            greatest.setdefault(nodes[column].dotted, []).extend(found.highs)
    for name, edges in least.items():
        yield name, overlap_depth(name, edges, greatest[name]).average


def lookup_notes(before: LookupCost | None, after: LookupCost | None) -> tuple[str, ...]:
    """A sentence on the columns by which a lookup reads more than before; the worst one with its numbers."""
    if before is None or after is None:
        return ()
    reads = {name: (before.by(name), after.by(name)) for name in after.depths if name in before.depths}
    more = {name: now / max(old, 1) for name, (old, now) in reads.items() if now > READS_MORE * old}
    if not more:
        return ()
    worst = max(more, key=lambda name: more[name])
    old, now = reads[worst]
    others = f" (so by {counted(len(more) - 1, 'more column')})" if len(more) > 1 else ""
    return (
        f"a lookup by {worst} reads more: about {size_text(round(now))}, {size_text(round(old))} before; its overlap "
        f"depth is {rounded(after.depths[worst])}, and was {rounded(before.depths[worst])}{others}",
    )


def size_notes(before: int, after: int) -> tuple[str, ...]:
    """A sentence where the result is larger."""
    if after <= TAKES_MORE * before:
        return ()
    return (f"the result is larger: {size_text(after)}, {size_text(before)} before",)
