"""Finds the first rows in an order by several columns. Each column has a sort direction, and its nulls come first or
last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery

__all__ = ["FirstRows", "SortKey", "first_rows", "parse_order", "sorts"]


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. NaN is above every number. -0.0 equals 0.0. Text is sorted by its UTF-8 bytes."""

    column: str
    descending: bool
    nulls_first: bool


def parse_order(top: Sequence[Any]) -> tuple[SortKey, ...]:
    """Makes the keys from ``[("score", "desc", "last"), ...]``. The direction (default "asc") and the place of nulls
    (default "last") may be left out.

    Raises ``InvalidQuery`` for any other value.
    """
    if isinstance(top, str):
        raise InvalidQuery(f"top must be a list: give [{top!r}]")
    if not isinstance(top, Iterable):
        raise InvalidQuery(f"top is {top!r}, of type {type(top).__name__}: give a list of columns")
    keys = []
    for entry in top:
        given = tuple(entry) if isinstance(entry, tuple | list) else (entry,)
        column, direction, nulls = (*given, *("", "asc", "last")[len(given) :])[:3]
        known = isinstance(column, str) and direction in ("asc", "desc") and nulls in ("first", "last")
        if not known or len(given) > 3:
            raise InvalidQuery(
                f'an entry of top is {entry!r}, but must be like ("column", "asc" or "desc", "first" or "last")'
            )
        keys.append(SortKey(column, direction == "desc", nulls == "first"))
    if not keys:
        raise InvalidQuery("top contains no column: name a column to sort by")
    return tuple(keys)


def first_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[SortKey], k: int) -> pa.Table:
    """Returns the first ``k`` rows of all batches in the order of ``keys``, sorted. If rows are equal, the earlier rows
    are kept.

    Memory holds at most ``k`` kept rows and about ``k`` new rows. If a batch has more than ``k`` rows, memory holds the
    whole batch.
    """
    first = FirstRows(schema, keys, k)
    for batch in batches:
        first.add(batch)
    return first.table()


class FirstRows:
    """Collects the first ``k`` of the given rows, in the order of ``keys``. If rows are equal, the earlier rows are
    kept."""

    def __init__(self, schema: pa.Schema, keys: Sequence[SortKey], k: int) -> None:
        self._keys = keys
        self._k = k
        self._best = pa.Table.from_batches([], schema)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows. New rows are sorted only when the number of new rows is as large as the number of kept rows. So
        each row is sorted only a few times, even if ``k`` is large."""
        if self._k and batch.num_rows:
            self._waiting.append(pa.table(batch))
            self._rows += batch.num_rows
            if self._rows >= self._k:
                self.table()

    def table(self) -> pa.Table:
        """Returns the first ``k`` of the rows that were added so far, sorted."""
        if self._waiting:
            self._best = _first(pa.concat_tables([self._best, *self._waiting]), self._keys, self._k)
            self._waiting, self._rows = [], 0
        return self._best

    def last(self) -> dict[str, pa.Scalar] | None:
        """The values of the ``k``-th row, by column. A row that sorts after the ``k``-th row cannot be among the first
        ``k`` rows. The result is None if fewer than ``k`` rows were added."""
        table = self.table()
        if table.num_rows < self._k:
            return None
        return {name: table[name][self._k - 1] for name in table.column_names}


def sorts(kind: pa.DataType) -> bool:
    """Whether columns of this type can be sorted here: numbers, booleans, text, bytes, dates and times."""
    if pa.types.is_dictionary(kind):
        return sorts(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind) or isinstance(kind, pa.BaseExtensionType))


def _first(table: pa.Table, keys: Sequence[SortKey], k: int) -> pa.Table:
    columns: list[Any] = []
    orders: list[tuple[str, str]] = []

    def add(values: object, descending: bool) -> None:
        orders.append((str(len(columns)), "descending" if descending else "ascending"))
        columns.append(values)

    for key in keys:
        values = _sortable(table[key.column])
        add(pc.is_null(values), key.nulls_first)
        if pa.types.is_floating(values.type):
            add(pc.fill_null(pc.is_nan(values), False), key.descending)
            values = pc.add(values, 0.0)  # turns -0.0 into 0.0
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        add(values, key.descending)
    numbers = pa.array(range(table.num_rows), pa.int64())
    add(numbers, False)
    names = [name for name, _ in orders]
    order = pc.sort_indices(pa.table(columns, names=names), sort_keys=orders)
    return table.take(order.slice(0, k)).combine_chunks()


def _sortable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Converts the values to a type that Arrow can sort."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _sortable(values.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return values.cast(pa.string())
    return values.cast(pa.binary()) if pa.types.is_binary_view(kind) else values
