"""Rows of INT96 columns are compared with the same rows in milliseconds."""

from __future__ import annotations

import pyarrow as pa

from orcidx.storage.int96 import MillisecondRows


def test_batches_of_other_sizes_are_compared_row_by_row() -> None:
    schema = pa.schema([("t", pa.timestamp("ms"))])
    parts = [pa.record_batch([pa.array(part, pa.timestamp("ms"))], schema=schema) for part in ([1, 2], [], [3, 4, 5])]
    rows = MillisecondRows(iter(parts))
    taken = [rows.take(count) for count in (1, 0, 3, 1, 0)]
    found = [part["t"].cast(pa.int64()).to_pylist() if part.num_columns else [] for part in taken]
    assert found == [[1], [], [2, 3, 4], [5], []]
