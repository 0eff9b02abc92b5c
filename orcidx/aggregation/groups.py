"""``GroupTotals``: totals of columns by group. They are computed from record batches and from known totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.column_totals import ColumnTotals, Wanted, wanted_of
from orcidx.aggregation.exact_sums import integer_sums
from orcidx.aggregation.functions import Aggregate, result_type
from orcidx.aggregation.value_forms import as_form, comparable, restored

__all__ = ["Group", "GroupTotals"]

GroupKey = tuple[Any, ...]
Int64s = npt.NDArray[np.int64]


@dataclass
class Group:
    """The totals of one group: its number of rows, and the totals of its columns by name."""

    rows: int
    columns: dict[str, ColumnTotals]


@dataclass
class GroupTotals:
    """Totals of all groups. All groups are held in memory. ``by``: names and types of the columns of the key.
    ``columns``: types of the aggregated columns, by name."""

    aggregates: tuple[Aggregate, ...]
    by: Mapping[str, pa.DataType]
    columns: Mapping[str, pa.DataType]
    groups: dict[GroupKey, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted: dict[str, Wanted] = {name: wanted_of(self.aggregates, name) for name in self.columns}
        if not self.by:
            self.group(())

    def wanted(self, column: str) -> Wanted:
        """Returns which totals of a column are computed."""
        return self._wanted[column]

    def group(self, key: GroupKey) -> Group:
        """Returns the group of a key, and creates the group if it does not exist. The values of the key are in the
        forms of ``value_forms``."""
        found = self.groups.get(key)
        if found is None:
            totals = {name: ColumnTotals(kind, self._wanted[name]) for name, kind in self.columns.items()}
            found = self.groups[key] = Group(0, totals)
        return found

    def merge(self, other: GroupTotals) -> None:
        """Adds totals of other rows."""
        for key, theirs in other.groups.items():
            group = self.group(key)
            group.rows += theirs.rows
            for name, column in theirs.columns.items():
                group.columns[name].merge(column)

    # ------------------------------------------------------------------ adding rows

    def add(self, rows: int, keys: Sequence[pa.Array], values: Mapping[str, pa.Array]) -> None:
        """Adds rows. ``keys``: the columns of the key. ``values``: the aggregated columns by name."""
        if not rows:
            return
        if not keys:
            self._add_to(self.group(()), rows, values)
            return
        numbers, found = _numbered(keys, rows)
        if len(found) == 1:
            self._add_to(self.group(found[0]), rows, values)
            return
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=len(found))
        groups = [self.group(key) for key in found]
        for group, count in zip(groups, counts.tolist()):
            group.rows += count
        for name, array in values.items():
            _add_column([group.columns[name] for group in groups], numbers[order], array.take(pa.array(order)))

    def _add_to(self, group: Group, rows: int, values: Mapping[str, pa.Array]) -> None:
        group.rows += rows
        for name, array in values.items():
            group.columns[name].add(array)

    # ------------------------------------------------------------------ the result

    def table(self, *, nan: Literal["ieee", "largest"]) -> pa.Table:
        """Returns a table with a row for each group, sorted by key with nulls last. Without a key, the table
        has one row."""
        names = [*self.by, *(aggregate.name for aggregate in self.aggregates)]
        columns: list[pa.Array] = []
        for place, kind in enumerate(self.by.values()):
            columns.append(restored([key[place] for key in self.groups], kind))
        for aggregate in self.aggregates:
            columns.append(self._column(aggregate, nan))
        table = pa.Table.from_arrays(columns, names=names)
        return table.take(_key_order(columns[: len(self.by)])) if self.by else table

    def _column(self, aggregate: Aggregate, nan: Literal["ieee", "largest"]) -> pa.Array:
        groups = self.groups.values()
        name = aggregate.column
        if name is None:
            return pa.array([group.rows for group in groups], pa.int64())
        kind = self.columns[name]
        wanted = result_type(aggregate, kind)
        values: list[Any] = [group.columns[name].result(aggregate, nan=nan) for group in groups]
        if aggregate.function in ("min", "max", "quantile_disc"):
            return restored(values, kind)
        if pa.types.is_decimal(wanted):
            return _decimals(values, wanted)
        return pa.array(values, wanted)


def _decimals(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Converts unscaled values to an array of decimals."""
    words = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    valid = None
    if None in values:
        valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(words)])


def _key_order(keys: Sequence[pa.Array]) -> pa.Array:
    names = [str(place) for place in range(len(keys))]
    table = pa.table([comparable(key) for key in keys], names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])


def _numbered(keys: Sequence[pa.Array], rows: int) -> tuple[Int64s, list[GroupKey]]:
    """Returns for each row the number of its group, and the keys of all groups."""
    numbers = np.zeros(rows, np.int64)
    entries: list[list[Any]] = []
    for key in keys:
        coded = pc.dictionary_encode(_one_nan(comparable(key)), null_encoding="encode")
        found = coded.dictionary.to_pylist()
        numbers = numbers * len(found) + np.asarray(coded.indices)
        numbers, entries = _compacted(numbers, entries, found)
    return numbers, [tuple(entry) for entry in zip(*entries)]


def _compacted(numbers: Int64s, entries: list[list[Any]], found: list[Any]) -> tuple[Int64s, list[list[Any]]]:
    """Renumbers the groups so that the numbers have no gaps. Otherwise the numbers could overflow if the key has many
    columns with many distinct values."""
    used, numbers = np.unique(numbers, return_inverse=True)
    before, last = np.divmod(used, len(found))
    kept = [[entry[place] for place in before.tolist()] for entry in entries]
    return numbers, [*kept, [as_form(found[place]) for place in last.tolist()]]


def _one_nan(values: pa.Array) -> pa.Array:
    """Gives all NaN values the same bits, because a dictionary distinguishes values by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)


def _add_column(totals: Sequence[ColumnTotals], numbers: Int64s, values: pa.Array) -> None:
    """Adds values of many groups, sorted by group. ``numbers``: the ascending group number of each row."""
    if values.null_count:
        valid = np.asarray(values.is_valid())
        numbers, values = numbers[valid], values.drop_null()
    if not len(values):
        return
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    present = numbers[starts].tolist()
    stops = [*starts[1:].tolist(), len(numbers)]
    for group, start, stop in zip(present, starts.tolist(), stops):
        totals[group].count += stop - start
    wanted, kind = totals[0].wanted, totals[0].kind
    if wanted.sum and pa.types.is_floating(kind):
        numbers_of_values = np.asarray(values.cast(pa.float64()))
        for group, start, stop in zip(present, starts.tolist(), stops):
            totals[group].floats.add(numbers_of_values[start:stop])
    elif wanted.sum:
        for group, total in zip(present, integer_sums(values, starts)):
            totals[group].total += total
    if wanted.ends:
        _add_bounds(totals, numbers, comparable(values))
    if wanted.order:
        alike = comparable(values)
        for group, start, stop in zip(present, starts.tolist(), stops):
            totals[group].ranks.add(alike.slice(start, stop - start))


def _add_bounds(totals: Sequence[ColumnTotals], numbers: Int64s, values: pa.Array) -> None:
    if pa.types.is_floating(values.type):
        nan = np.isnan(np.asarray(values))
        if nan.any():
            for group in np.unique(numbers[nan]).tolist():
                totals[group].has_nan = True
            numbers, values = numbers[~nan], values.filter(pa.array(~nan))
    if not len(values):
        return
    table = pa.table({"group": numbers, "value": values})
    order = np.asarray(pc.sort_indices(table, sort_keys=[("group", "ascending"), ("value", "ascending")]))
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts[1:], len(numbers)) - 1
    least = values.take(pa.array(order[starts])).to_pylist()
    greatest = values.take(pa.array(order[ends])).to_pylist()
    for group, low, high in zip(numbers[starts].tolist(), least, greatest):
        totals[group].take_bounds(low, high)
