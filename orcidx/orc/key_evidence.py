"""Tests statistics and bloom filters for many keys at once. A unit is a file, a stripe or a row group. For each unit
the functions find the keys that the unit may contain.

The keys are the literals of an IN predicate in ascending order (``BoundLeaf.sorted_literals``). The module ``evidence``
decides only whether a unit may contain any of the keys.
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
    """Finds the keys between the minimum and the maximum of each unit. Returns two arrays with an entry for each unit:
    the index of the first of these keys, and the index after the last one. If minimum and maximum are unknown, the
    range has all keys. If every row is null, the range is empty."""
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
    """Tests which literals each filter may contain. ``chosen``: the indexes of the tested literals. The result has one
    row for each filter, and one column for each tested literal. ``usable``: a mask of the filters that can be used. A
    filter that cannot be used is treated as if it contained all literals."""
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
