"""Sorts rows with pyarrow in memory, or with DuckDB if the rows do not fit in the memory for sorting.

In both directions NaN comes after the numbers, and nulls come last. Equal rows keep their order. DuckDB gets dates and
times as integers, so it returns all values bit for bit. There is no form in which DuckDB returns unions bit for bit, so
unions raise an error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, StorageError, Unsupported
from orcidx.extras import needed
from orcidx.rewriting.z_order import MOST_KEY_COLUMNS, SAMPLE_ROWS, ZOrder

__all__ = ["Order", "OrderKey", "asked_order"]

SORT_ROWS = 1 << 16
"""The number of rows of a batch after sorting."""
_KEY = "orcidx z-order key"
_ROW = "orcidx row"


@dataclass(frozen=True)
class OrderKey:
    name: str
    descending: bool = False


@dataclass(frozen=True)
class Order:
    """``keys`` has the columns to sort by. ``cluster_by`` has the columns to cluster by instead. ``memory`` is the
    maximum number of bytes of rows that are sorted in memory."""

    keys: tuple[OrderKey, ...] = ()
    cluster_by: tuple[str, ...] = ()
    memory: int = 1 << 30

    def __bool__(self) -> bool:
        return bool(self.keys or self.cluster_by)

    def __str__(self) -> str:
        if self.cluster_by:
            return f"clustered by {', '.join(self.cluster_by)}"
        return f"sorted by {', '.join(key.name + (' descending' if key.descending else '') for key in self.keys)}"

    def check(self, schema: pa.Schema) -> None:
        """Raises ``InvalidQuery`` for columns that do not exist or cannot be ordered."""
        self.check_names(schema.names)
        for name in self.columns:
            if pa.types.is_nested(schema.field(name).type):
                raise InvalidQuery(f"a {schema.field(name).type} cannot be ordered", column=name)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(key.name for key in self.keys), *self.cluster_by)

    def check_names(self, names: Sequence[str]) -> None:
        argument = "cluster_by" if self.cluster_by else "sort_by"
        for name in self.columns:
            count = list(names).count(name)
            if count == 0:
                raise InvalidQuery(f"{argument}: there is no column {name!r}; the columns are {', '.join(names)}")
            if count > 1:
                raise InvalidQuery(f"{argument}: {count} columns have the name {name!r}; rename all but one of them")

    def apply(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, sample: Callable[[], pa.Table]
    ) -> Iterator[pa.RecordBatch]:
        """Sorts or clusters the rows. ``sample()`` returns a table of some rows with the columns ``cluster_by``."""
        held: list[pa.RecordBatch] = []
        size = 0
        source = iter(batches)
        for batch in source:
            held.append(batch)
            size += batch.nbytes
            if size > self.memory:
                curve = ZOrder.of(sample(), self.cluster_by) if self.cluster_by else None
                return _through_duckdb(self, chain(held, source), schema, curve)
        return self._in_memory(pa.Table.from_batches(held, schema))

    def _in_memory(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if self.cluster_by:
            curve = ZOrder.of(_thinned(table.select(list(self.cluster_by))), self.cluster_by)
            keyed = pa.table({_KEY: curve.keys(table)})
            order = pc.sort_indices(keyed, sort_keys=[(_KEY, "ascending")])
        else:
            chosen = pa.table({str(i): table[key.name] for i, key in enumerate(self.keys)})
            directions = [(str(i), "descending" if key.descending else "ascending") for i, key in enumerate(self.keys)]
            order = pc.sort_indices(chosen, sort_keys=directions)
        whole = table.combine_chunks()
        for at in range(0, len(order), SORT_ROWS):
            yield from whole.take(order.slice(at, SORT_ROWS)).to_batches()


def _thinned(table: pa.Table) -> pa.Table:
    step = -(-table.num_rows // SAMPLE_ROWS)
    return table if step < 2 else table.take(pa.array(range(0, table.num_rows, step)))


def asked_order(
    sort_by: str | Iterable[str | tuple[str, str]] | None, cluster_by: str | Sequence[str] | None, memory: int
) -> Order:
    """Makes the order from the caller's arguments. ``sort_by`` has names, or pairs (name, "ascending" | "descending")
    as in pyarrow."""
    if sort_by and cluster_by:
        raise InvalidQuery("both sort_by and cluster_by are given; give only one of them")
    columns = tuple([cluster_by] if isinstance(cluster_by, str) else cluster_by or ())
    if any(not isinstance(name, str) for name in columns) or len(columns) > MOST_KEY_COLUMNS:
        raise InvalidQuery(f"cluster_by must be a list of at most {MOST_KEY_COLUMNS} column names, not {cluster_by!r}")
    keys = []
    for given in [sort_by] if isinstance(sort_by, str) else sort_by or ():
        name, direction = (given, "ascending") if isinstance(given, str) else _pair(given)
        keys.append(OrderKey(name, direction == "descending"))
    return Order(tuple(keys), columns, memory)


def _pair(given: Any) -> tuple[str, str]:
    try:
        name, direction = given
    except (TypeError, ValueError):
        name = direction = None
    if not isinstance(name, str) or direction not in ("ascending", "descending"):
        raise InvalidQuery(f"sort_by: {given!r} is neither a name nor (name, 'ascending' | 'descending')")
    return name, str(direction)


# ---------------------------------------------------------------------- beyond memory


def _through_duckdb(
    order: Order, batches: Iterable[pa.RecordBatch], schema: pa.Schema, curve: ZOrder | None
) -> Iterator[pa.RecordBatch]:
    with needed("duckdb"):
        import duckdb
    kinds = [crossing_type(field.type, field.name) for field in schema]
    # The names of two columns may differ only in case, and DuckDB ignores case. So numbers are used as names.
    names = [str(number) for number in range(len(schema))]
    fields = [
        *map(pa.field, names, kinds),
        *([pa.field(_KEY, pa.int64())] if curve else []),
        pa.field(_ROW, pa.int64()),
    ]

    def crossing() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            columns = [_view(column, kind) for column, kind in zip(batch.columns, kinds)]
            columns += [curve.keys(batch)] if curve else []
            columns.append(pa.array(np.arange(first, first + batch.num_rows)))
            first += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    given = pa.RecordBatchReader.from_batches(pa.schema(fields), crossing())
    by = ", ".join([f'"{_KEY}"'] if curve else [_order_term(key, schema) for key in order.keys])
    chosen = ", ".join(f'"{name}"' for name in names)
    # By default DuckDB writes temporary files below the working directory, which may not be writable.
    with tempfile.TemporaryDirectory(prefix="orcidx-") as spill:
        limit = f"{max(order.memory, 64 << 20)}B"
        connection = duckdb.connect(config={"memory_limit": limit, "temp_directory": spill})
        try:
            found = connection.from_arrow(given).query("rows", f'SELECT {chosen} FROM rows ORDER BY {by}, "{_ROW}"')
            read = getattr(found, "to_arrow_reader", None) or found.fetch_record_batch  # for DuckDB before 1.4
            for batch in read(SORT_ROWS):
                back = zip(batch.columns, kinds, schema.types)
                columns = [_view(column.cast(crossed), kind) for column, crossed, kind in back]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except duckdb.IOException as error:
            raise StorageError(
                f"sorting on disk failed: {error}; set TMPDIR to a directory with more free space"
            ) from error
        finally:
            connection.close()


def _order_term(key: OrderKey, schema: pa.Schema) -> str:
    """The SQL term that sorts as pyarrow does. DuckDB treats NaN as the greatest number, so NaN would come first in
    descending order without the test for NaN."""
    number = schema.names.index(key.name)
    term = f'"{number}" {"DESC" if key.descending else "ASC"} NULLS LAST'
    return f'isnan("{number}") NULLS LAST, {term}' if pa.types.is_floating(schema.field(number).type) else term


_SAFE = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
)  # fmt: skip


def crossing_type(kind: pa.DataType, name: str) -> pa.DataType:
    """The type in which a column is given to DuckDB. Raises ``Unsupported`` for a type whose values DuckDB would
    change."""
    types = pa.types
    if kind in _SAFE or types.is_decimal128(kind):
        return kind
    if types.is_date32(kind):
        return pa.int32()
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_struct(kind) and kind.num_fields:
        return pa.struct([(f"{i}", crossing_type(kind.field(i).type, name)) for i in range(kind.num_fields)])
    if types.is_list(kind):
        return pa.list_(crossing_type(kind.value_type, name))
    if types.is_map(kind):
        key, item = crossing_type(kind.key_type, name), crossing_type(kind.item_type, name)
        return pa.list_(pa.struct([("key", key), ("value", item)]))
    raise Unsupported(
        f"DuckDB, which sorts on disk, would change values of type {kind}; raise sort_memory= to sort in memory",
        column=name,
    )


def _view(array: Any, kind: pa.DataType) -> Any:
    """An array of the type ``kind`` with the same buffers. Before sorting, ``kind`` is the ``crossing_type`` of the
    array's type. After sorting, ``kind`` is the original type."""
    if array.type == kind:
        return array
    types = pa.types
    if types.is_struct(array.type):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        children = [_view(array.field(i), field.type) for i, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if types.is_map(array.type) or types.is_list(array.type):
        children = [_view(_entries(array), _entry_type(kind))]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=children)
    return array.view(kind)


def _entries(array: Any) -> Any:
    if not pa.types.is_map(array.type):
        return array.values
    kind = _entry_type(array.type)
    keys, items = array.keys, array.items
    return pa.StructArray.from_arrays([keys, items], fields=[kind.field(0), kind.field(1)])


def _entry_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    return kind.value_type
