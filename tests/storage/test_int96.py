"""Rows of INT96 columns are also read in milliseconds, and compared with the same rows in smaller units. This detects
times that do not fit into the smaller unit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from orcidx.errors import ValueOutOfRange
from orcidx.storage.int96 import MillisecondRows, check_range


def test_batches_of_other_sizes_are_compared_row_by_row() -> None:
    schema = pa.schema([("t", pa.timestamp("ms"))])
    parts = [pa.record_batch([pa.array(part, pa.timestamp("ms"))], schema=schema) for part in ([1, 2], [], [3, 4, 5])]
    rows = MillisecondRows(iter(parts))
    taken = [rows.take(count) for count in (1, 0, 3, 1, 0)]
    found = [part["t"].cast(pa.int64()).to_pylist() if part.num_columns else [] for part in taken]
    assert found == [[1], [], [2, 3, 4], [5], []]


def test_other_timestamps_beside_int96_are_not_compared() -> None:
    """If a struct has an INT96 field, only this field is read in milliseconds. Several columns can have the same
    name."""
    micros, millis = pa.timestamp("us"), pa.timestamp("ms")

    def rows(kind: pa.DataType, first: int, second: int) -> list[pa.Array]:
        return [
            pa.array([{"a": first, "b": 1_600_000_000_123_456}], pa.struct([("a", kind), ("b", micros)])),
            pa.array([second], kind),
        ]

    exact = pa.table([*rows(millis, 5, 7), *rows(millis, 6, 8)], ["s", "t", "s", "t"])
    good = [*rows(micros, 5001, 7002), *rows(micros, 6000, 8999)]
    check_range(pa.record_batch(good, ["s", "t", "s", "t"]), exact)
    for place, wrong in enumerate((rows(micros, 4999, 0)[0], rows(micros, 0, 8000)[1])):
        with pytest.raises(ValueOutOfRange, match="column 's'" if place == 0 else "column 't'"):
            check_range(pa.record_batch([*good[:place], wrong, *good[place + 1 :]], ["s", "t", "s", "t"]), exact)
