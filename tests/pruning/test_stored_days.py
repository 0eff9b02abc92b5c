"""The option ``calendar="stored"``. A scan returns stored days, but conditions compare dates of the proleptic calendar.
Statistics and bloom filters must be compared in the same way."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from java_footers import as_java_writes

import orcidx
from orcidx import col

FIRST, OTHER = datetime.date(1500, 1, 1), datetime.date(1500, 1, 10)
STORED_FIRST = -171655
"""1500-01-01 in the hybrid calendar. The same number is 1500-01-10 in the proleptic calendar."""
ROWS = 20_000


@pytest.fixture
def hybrid(tmp_path: Path) -> str:
    """A file of the hybrid calendar. Half of its rows have 1500-01-01."""
    days = pa.array(np.repeat([STORED_FIRST, 18_000], ROWS), pa.int32()).cast(pa.date32())
    path = tmp_path / "hybrid.orc"
    table = pa.table({"d": days, "x": range(2 * ROWS)})
    orcidx.write_table(table, path, compression="none", bloom_filter_columns=["d"])
    path.write_bytes(as_java_writes(path.read_bytes()))
    return str(path)


@pytest.mark.parametrize("calendar", ["proleptic", "stored"])
def test_conditions(hybrid: str, calendar: Any) -> None:
    file = orcidx.open(hybrid)
    middle = datetime.date(1500, 1, 5)
    wheres = {
        col("d") == FIRST: ROWS, col("d") == OTHER: 0, col("d") != FIRST: ROWS, col("d") != OTHER: 2 * ROWS,
        col("d") < middle: ROWS, col("d") > middle: ROWS, col("d").isin([OTHER, FIRST]): ROWS,
    }  # fmt: skip
    for where, count in wheres.items():
        options: dict[str, Any] = {"calendar": calendar}
        assert file.scan(where=where, **options).to_table().num_rows == count
        assert file.scan(where=where, **options).count_rows() == count
        assert file.scan(where=where, row_index=False, bloom_filters=False, **options).count_rows() == count
        assert orcidx.aggregate(hybrid, {"n": "count(*)", "s": "sum(x)"}, where, **options)["n"].to_pylist() == [count]


@pytest.mark.parametrize("calendar", ["proleptic", "stored"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_first_rows(tmp_path: Path, calendar: Any, order: Any) -> None:
    """The first rows are sorted by the days that the scan returns."""
    path = tmp_path / "hybrid.orc"
    numbers = STORED_FIRST + np.random.default_rng(1).integers(0, 30, 400)
    days = pa.array(numbers.astype(np.int32)).cast(pa.date32())
    orcidx.write_table(pa.table({"d": days}), path, compression="none", row_index_stride=10)
    path.write_bytes(as_java_writes(path.read_bytes()))
    expected = sorted(orcidx.read_table(path, calendar=calendar)["d"].to_pylist(), reverse=order == "desc")
    found = orcidx.scan(path, top=[("d", order)], limit=10, calendar=calendar).to_table()
    assert found["d"].to_pylist() == expected[:10]


@pytest.mark.parametrize("calendar", ["proleptic", "stored"])
def test_keys(hybrid: str, calendar: Any) -> None:
    file = orcidx.open(hybrid)
    assert file.may_contain("d", [FIRST, OTHER], calendar=calendar).to_pylist() == [True, False]


def test_overlap(hybrid: str, tmp_path: Path) -> None:
    """``explain`` compares the row groups of different files in one calendar."""
    other = tmp_path / "proleptic.orc"
    orcidx.write_table(pa.table({"d": [OTHER], "x": [1]}), other)
    paths = [hybrid, str(other)]
    proleptic, stored = (orcidx.scan(paths, ["d"], calendar=name).explain() for name in ("proleptic", "stored"))
    assert stored.overlap == proleptic.overlap
