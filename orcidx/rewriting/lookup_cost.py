"""Estimates how much a lookup of one value reads before and after a rewrite, and reports an increase.

The estimate is the bytes of one row group, times the overlap depth of the column (``explain/overlap``). A lookup reads
about this number of row groups if no other index helps."""

from __future__ import annotations

from collections import Counter
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
"""The maximum numbers of row groups and of columns for an estimate. Reading more indexes would take too long."""

SAMPLED_STRIPES = 8
"""The number of stripes of which the middle row group is measured."""

READS_MORE = 1.1
TAKES_MORE = 1.02
"""The factors by which the bytes of a lookup, or the size of a file, must grow before the growth is reported. Small
changes are normal. In every file, chunks end at other positions, and this changes the bytes of a row group."""


@dataclass(frozen=True)
class LookupCost:
    """``row_group`` is the average size of a row group in bytes. ``depths`` has the overlap depth of each column.
    ``most`` is the size of all data in bytes."""

    row_group: float
    depths: Mapping[str, float]
    most: int

    def by(self, column: str) -> float:
        """The number of bytes that a lookup by this column reads."""
        return min(self.row_group * self.depths[column], self.most)


def lookup_cost(readers: Sequence[OrcReader]) -> LookupCost | None:
    """Makes the estimate for files. Returns None if the files have no row groups, if they have too many row groups, or
    if an index is damaged."""
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
    except OrcidxError:  # reading the file later reports where the damage is
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
        named = [node for node in reader.root.walk() if node.path and node.id not in repeated]
        times = Counter(node.dotted for node in named)
        # Columns with the same name may have values of different types, which cannot be compared.
        nodes = {node.id: node for node in named if times[node.dotted] == 1}
        for column, found in column_ranges(reader, list(nodes.values())).items():
            least.setdefault(nodes[column].dotted, []).extend(found.lows)
            greatest.setdefault(nodes[column].dotted, []).extend(found.highs)
    for name, edges in least.items():
        yield name, overlap_depth(name, edges, greatest[name]).average


def lookup_notes(before: LookupCost | None, after: LookupCost | None) -> tuple[str, ...]:
    """A sentence about the columns for which a lookup reads more than before. Its numbers are about the column with the
    largest increase."""
    if before is None or after is None:
        return ()
    reads = {name: (before.by(name), after.by(name)) for name in after.depths if name in before.depths}
    more = {name: now / max(old, 1) for name, (old, now) in reads.items() if now > READS_MORE * old}
    if not more:
        return ()
    worst = max(more, key=lambda name: more[name])
    old, now = reads[worst]
    others = f" (also by {counted(len(more) - 1, 'more column')})" if len(more) > 1 else ""
    return (
        f"a lookup by {worst} reads more: about {size_text(round(now))}, before {size_text(round(old))}; the overlap "
        f"depth was {rounded(before.depths[worst])} and is now {rounded(after.depths[worst])}{others}",
    )


def size_notes(before: int, after: int) -> tuple[str, ...]:
    """A sentence that says how much larger the result is than before. There is no sentence if the result is not
    larger."""
    if after <= TAKES_MORE * before:
        return ()
    return (f"the result is larger: {size_text(after)}, before {size_text(before)}",)
