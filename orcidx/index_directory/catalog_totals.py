"""Computes totals of the files of a directory from its catalog, for all files in which every row matches.

A file is included under three conditions. The catalog has the exact version of the file. The catalog proves that every
row matches. For each wanted column the catalog has a count, a sum, and a minimum and a maximum that are values of the
column (see ``orc.stored_totals``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.exact_sums import integer_sum
from orcidx.aggregation.known_units import KnownColumn, KnownUnit, TotalledColumn
from orcidx.index_directory.catalog import STATISTICS_OPTIONS, StatisticsKey, proved_values
from orcidx.index_directory.file_pruning import Bools, FilePlan, Int64s, changed_statistics
from orcidx.options import ReadOptions
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import arrow_type, decimal_digits

__all__ = ["known_units"]


def known_units(
    plan: FilePlan, columns: Mapping[str, TotalledColumn], options: ReadOptions, eligible: Bools | None = None
) -> tuple[list[KnownUnit], Bools]:
    """The totals that the catalog proves, by partition, and the files that are included in them. ``eligible``: the
    files in which only the predicate can exclude rows. If it is given, no other file is included."""
    rows = plan.known.rows
    taken = plan.fresh & plan.matching & (rows > 0)
    if eligible is not None:
        taken &= eligible
    parts = []
    for name, asked in columns.items():
        part = _Column.of(plan, name, asked, options)
        taken &= part.key >= 0
        parts.append(part)
    if not taken.any():
        return [], taken
    units = []
    for files in _alike(plan.known.partitions.codes, [part.key for part in parts], taken):
        found = {part.name: part.over(files) for part in parts}
        units.append(KnownUnit(int(files[0]), int(rows[files].sum()), found))
    return units, taken


def _alike(codes: Int64s, keys: list[Int64s], taken: Bools) -> Iterator[Int64s]:
    """Groups the included files. The files of a group have the same partition and the same type of each column."""
    files = np.flatnonzero(taken)
    number = codes[files]
    for key in keys:
        number = number * (int(key.max()) + 1) + key[files]
    order = np.argsort(number, kind="stable")
    ends = np.flatnonzero(np.diff(number[order])) + 1
    yield from np.split(files[order], ends)


@dataclass(frozen=True)
class _Column:
    """One column in all files. For each file, ``key`` has the index of the file's statistics in ``found``, or -1 if no
    statistics prove the wanted totals."""

    name: str
    key: Int64s
    found: list[tuple[StatisticsKey, pa.Array]]

    @staticmethod
    def of(plan: FilePlan, name: str, asked: TotalledColumn, options: ReadOptions) -> _Column:
        catalog = plan.known.catalog
        off = changed_statistics(catalog, options)
        key = np.full(plan.known.count, -1, np.int64)
        found: list[tuple[StatisticsKey, pa.Array]] = []
        if options.row_index and not plan.known.partitions.hides(name):
            for one, kept in catalog.statistics.items():
                if one.column == name and one not in off and _is_read_as(one, asked.kind, options):
                    key[proved_values(kept, asked.wanted)] = len(found)
                    found.append((one, kept))
        return _Column(name, key, found)

    def over(self, files: Int64s) -> KnownColumn:
        """The totals over files that have the same key."""
        key, kept = self.found[int(self.key[files[0]])]
        count, _, low, high, total = kept.take(pa.array(files)).flatten()
        has = pc.greater(count, 0)
        ends = pc.min_max(low.filter(has))["min"], pc.min_max(high.filter(has))["max"]
        minimum, maximum = (_form(one.as_py(), key) for one in ends)
        return KnownColumn(pc.sum(count).as_py() or 0, integer_sum(total.drop_null()), minimum, maximum)


def _is_read_as(key: StatisticsKey, kind: pa.DataType, options: ReadOptions) -> bool:
    """Whether a column of this ORC type keeps its values if it is read as the Arrow type ``kind``."""
    node = key.node
    if key.type == "timestamp_ntz" or (node.kind is TypeKind.STRING and options.utf8 != "strict"):
        return False
    have = arrow_type(node, STATISTICS_OPTIONS)
    if have == kind or (pa.types.is_string(have) and pa.types.is_string(kind)):
        return True
    both = pa.types.is_integer(have) and pa.types.is_signed_integer(kind)
    return bool(both and have.bit_width <= kind.bit_width)


def _form(value: Any, key: StatisticsKey) -> Any:
    """A bound of the catalog in the form that ``aggregation.value_forms`` uses."""
    node = key.node
    if value is None or node.kind is not TypeKind.DECIMAL:
        return value + 0.0 if isinstance(value, float) else value
    return Decimal(value).scaleb(-decimal_digits(node, STATISTICS_OPTIONS)[1])
