"""The first rows of a table in an order: what its files give, one after the other, in the table's values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.predicate import all_of
from orcidx.scanner.top_rows import FirstRows
from orcidx.scanner.top_scan import bound_condition

if TYPE_CHECKING:
    from orcidx.paimon_table.read.scan import TableScan

__all__ = ["FirstOfTable"]


class FirstOfTable:
    """The first rows so far of a scan in an order. A CHAR sorts as it compares: without the blanks at its end."""

    def __init__(self, scan: TableScan) -> None:
        self._scan = scan
        taken = set(scan.schema.names)
        self._sorted_by: dict[str, str] = {}
        for name in dict.fromkeys(key.column for key in scan.top):
            if scan.table_schema.by_name[name].type.root == "CHAR":
                trimmed = f"{name} trimmed"
                while trimmed in taken:
                    trimmed += "_"
                self._sorted_by[name] = trimmed
        schema = scan.schema
        for trimmed in self._sorted_by.values():
            schema = schema.append(pa.field(trimmed, pa.string()))
        order = [replace(key, column=self._sorted_by.get(key.column, key.column)) for key in scan.top]
        self._rows = FirstRows(schema, order, scan.row_limit or 0)

    def add(self, batch: pa.RecordBatch) -> None:
        for name, trimmed in self._sorted_by.items():
            batch = batch.append_column(trimmed, pc.ascii_rtrim(batch.column(name).cast(pa.string()), " "))
        self._rows.add(batch)

    def table(self) -> pa.Table:
        return self._rows.table()

    def within_bound(self) -> TableScan:
        """The scan of the next file, whose rows must sort before the last of the first rows found so far."""
        scan, last, key = self._scan, self._rows.last(), self._scan.top[0]
        if last is None:
            return scan
        value = last[self._sorted_by.get(key.column, key.column)]
        bound = bound_condition(key, value, scan.options, strictly=len(scan.top) == 1)
        if bound is None:
            return scan
        return replace(scan, where=bound if scan.where is None else all_of(scan.where, bound))
