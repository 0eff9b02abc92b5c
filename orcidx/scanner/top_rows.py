"""The first rows in an order: several columns, each with its direction and the place of its nulls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery

__all__ = ["SortKey", "first_rows", "parse_order"]


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. NaN is above every number; -0.0 equals 0.0; text sorts by its UTF-8 bytes."""

    column: str
    descending: bool
    nulls_first: bool


def parse_order(top: Sequence[Any]) -> tuple[SortKey, ...]:
    """From ``[("score", "desc", "last"), ...]``; the direction ("asc") and the place of nulls ("last") may be left out.

    Raises ``InvalidQuery``.
    """
    keys = []
    for entry in top:
        given = (entry,) if isinstance(entry, str) else tuple(entry)
        column, direction, nulls = (*given, *("", "asc", "last")[len(given) :])[:3]
        known = isinstance(column, str) and direction in ("asc", "desc") and nulls in ("first", "last")
        if not known or len(given) > 3:
            raise InvalidQuery(f'top has {entry!r}, where ("column", "asc" or "desc", "first" or "last") is meant')
        keys.append(SortKey(column, direction == "desc", nulls == "first"))
    if not keys:
        raise InvalidQuery("top names no column")
    return tuple(keys)


def first_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, keys: Sequence[SortKey], k: int) -> pa.Table:
    """The first ``k`` rows of all batches in the order of ``keys``, sorted; of equal rows the earlier ones.

    Holds ``k`` rows and a batch at a time.
    """
    best = schema.empty_table()
    for batch in batches:
        if k and batch.num_rows:
            best = _first(pa.concat_tables([best, pa.table(batch)]), keys, k)
    return best


def _first(table: pa.Table, keys: Sequence[SortKey], k: int) -> pa.Table:
    columns: list[Any] = []
    orders: list[tuple[str, str]] = []

    def add(values: Any, descending: bool) -> None:
        orders.append((str(len(columns)), "descending" if descending else "ascending"))
        columns.append(values)

    for key in keys:
        values = table[key.column]
        add(pc.is_null(values), key.nulls_first)
        if pa.types.is_floating(values.type):
            add(pc.fill_null(pc.is_nan(values), False), key.descending)
            values = pc.add(values, 0.0)  # makes -0.0 a 0.0
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        add(values, key.descending)
    numbers = pa.array(range(table.num_rows), pa.int64())
    add(numbers, False)
    names = [name for name, _ in orders]
    order = pc.sort_indices(pa.table(columns, names=names), sort_keys=orders)
    return table.take(order.slice(0, k)).combine_chunks()
