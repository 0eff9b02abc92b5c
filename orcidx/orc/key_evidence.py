"""What statistics and bloom filters prove about many keys at once: for each unit, the keys that it may contain.

The keys are the literals of an IN, in order (``BoundLeaf.sorted_literals``). ``evidence`` only decides whether a unit
may contain any of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from orcidx.options import ValueOptions
from orcidx.orc.bloom import BloomFilters
from orcidx.orc.bloom_keys import each_hash
from orcidx.orc.bounds import StatisticsColumn
from orcidx.orc.evidence import compares_alike
from orcidx.orc.metadata import FileFacts
from orcidx.orc.timezones import Zone
from orcidx.orc.types import OrcType
from orcidx.predicate import BoundLeaf

__all__ = ["filters_of_keys", "key_ranges"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


def key_ranges(leaf: BoundLeaf, column: StatisticsColumn, options: ValueOptions) -> tuple[Int64s, Int64s]:
    """For each unit the range of keys that its minimum and maximum allow, as the first key and the end. The range has
    all keys if minimum and maximum are unknown. It is empty if every row is null."""
    keys = leaf.sorted_literals
    starts = np.zeros(len(column), np.int64)
    stops = np.full(len(column), len(keys), np.int64)
    if compares_alike(leaf, column.node, options):
        low, high = np.flatnonzero(column.lower.valid), np.flatnonzero(column.upper.valid)
        starts[low] = np.searchsorted(keys, column.lower.sortable(low, keys), "left")
        stops[high] = np.searchsorted(keys, column.upper.sortable(high, keys), "right")
    return starts, np.where(column.all_null, starts, np.maximum(starts, stops))


def filters_of_keys(
    filters: BloomFilters,
    usable: Bools,
    leaf: BoundLeaf,
    chosen: Int64s,
    node: OrcType,
    facts: FileFacts,
    options: ValueOptions,
    *,
    zone: Zone | None,
) -> Bools:
    """Which filters may contain which of the ``chosen`` literals, in the shape (filters, chosen). ``usable``: the
    filters that can be used. The other filters count as if they contained every key."""
    literals = [leaf.literals[place] for place in chosen.tolist()]
    hashes, owners, unknown = each_hash(node, literals, facts, options, zone=zone)
    held = filters.may_contain(hashes)
    if np.array_equal(owners, np.arange(len(literals))):
        may = held
    else:  # a key with several hashes is absent if all hashes are absent
        may = np.zeros((len(filters), len(literals)), np.bool_)
        ranks = np.arange(len(owners)) - np.searchsorted(owners, owners)
        for rank in range(int(ranks.max(initial=-1)) + 1):
            these = ranks == rank
            may[:, owners[these]] |= held[:, these]
        may[:, unknown] = True
    may |= ~usable[:, None]
    return may
