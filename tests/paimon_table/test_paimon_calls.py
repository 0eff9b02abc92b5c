"""What reading and changing a small Paimon table costs beside its values, in calls of the package's Python functions.

Counts are of Python 3.11, where a comprehension is a call; later versions make fewer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_empty import empty_table
from work_done import python_calls

from orcidx import col
from orcidx.paimon import open_table

ROWS = pa.table({"id": range(100), "city": [f"c{i}" for i in range(100)]})
ONE = pa.table({"id": [5], "city": ["x"]})


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two of one file of 100 rows each: the first takes what a process does once."""
    paths = [empty_table(tmp_path / name) for name in ("first", "second")]
    for path in paths:
        open_table(path).append(ROWS)
    return paths


def calls(tables: list[Path], use: Any) -> int:
    use(open_table(tables[0]))
    return python_calls(lambda: use(open_table(tables[1])), own=True)


def test_calls_of_a_lookup(tables: list[Path]) -> None:
    """2,566 in September; 927 measured."""
    found = []

    def look(table: Any) -> None:
        found.append(table.scan(where=col("id") == 5, use_threads=False).to_table().num_rows)

    assert calls(tables, look) <= 1000
    assert found == [1, 1]


def test_calls_of_an_append(tables: list[Path]) -> None:
    """Of one row: 4,729 then."""
    assert calls(tables, lambda table: table.append(ONE)) <= 2000
    assert open_table(tables[1]).scan(use_threads=False).count_rows() == 101


def test_calls_of_a_delete(tables: list[Path]) -> None:
    """Of one row of one file: 5,952 then."""
    assert calls(tables, lambda table: table.delete(col("id") == 7)) <= 2500
    assert open_table(tables[1]).scan(use_threads=False).count_rows() == 99
