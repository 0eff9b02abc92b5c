"""Finds the first rows of a table in a given order. The files are read one after the other. Their rows are converted to
the table's types and then compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.options import ReadOptions
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.predicate import Predicate
from orcidx.scanner.top_rows import FirstRows, SortKey
from orcidx.scanner.top_scan import bound_condition

__all__ = ["FirstOfTable"]


class FirstOfTable:
    """The first rows that have been found so far, in the order of a scan. CHAR values are sorted without trailing
    blanks, because comparisons ignore these blanks."""

    def __init__(
        self, schema: pa.Schema, order: Sequence[SortKey], count: int, *, table: TableSchema, options: ReadOptions
    ) -> None:
        self._order = order
        self._options = options
        taken = set(schema.names)
        self._sorted_by: dict[str, str] = {}
        for name in dict.fromkeys(key.column for key in order):
            if table.by_name[name].type.root == "CHAR":
                trimmed = f"{name} trimmed"
                while trimmed in taken:
                    trimmed += "_"
                self._sorted_by[name] = trimmed
        for trimmed in self._sorted_by.values():
            schema = schema.append(pa.field(trimmed, pa.string()))
        trimmed_order = [replace(key, column=self._sorted_by.get(key.column, key.column)) for key in order]
        self._rows = FirstRows(schema, trimmed_order, count)

    def add(self, batch: pa.RecordBatch) -> None:
        for name, trimmed in self._sorted_by.items():
            batch = batch.append_column(trimmed, pc.ascii_rtrim(batch.column(name).cast(pa.string()), " "))
        self._rows.add(batch)

    def table(self) -> pa.Table:
        return self._rows.table()

    def bound(self) -> Predicate | None:
        """A condition on the rows of the next file. It excludes rows that sort after all rows that have been found so
        far."""
        last, key = self._rows.last(), self._order[0]
        if last is None:
            return None
        value = last[self._sorted_by.get(key.column, key.column)]
        return bound_condition(key, value, self._options, strictly=len(self._order) == 1)
