"""The cost of reading and changing a small Paimon table, in calls of the package's Python functions.

The counts are for Python 3.11, where a comprehension is a call. Later versions make fewer calls.
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
    """Makes two tables, each with one file of 100 rows. The first is used for a warm-up that is not counted, because a
    process does some work only once."""
    paths = [empty_table(tmp_path / name) for name in ("first", "second")]
    for path in paths:
        open_table(path).append(ROWS)
    return paths


def calls(tables: list[Path], use: Any) -> int:
    use(open_table(tables[0]))
    return python_calls(lambda: use(open_table(tables[1])), own=True)


def test_calls_of_a_lookup(tables: list[Path]) -> None:
    """At commit 145d4f3, a lookup of one row made 2,566 function calls."""
    found = []

    def look(table: Any) -> None:
        found.append(table.scan(where=col("id") == 5, use_threads=False).to_table().num_rows)

    assert calls(tables, look) <= 1000
    assert found == [1, 1]


def test_calls_of_an_append(tables: list[Path]) -> None:
    """At commit 145d4f3, an append of one row made 4,729 function calls."""
    assert calls(tables, lambda table: table.append(ONE)) <= 2000
    assert open_table(tables[1]).scan(use_threads=False).count_rows() == 101


def test_calls_of_a_delete(tables: list[Path]) -> None:
    """At commit 145d4f3, a delete of one row in one file made 5,952 function calls."""
    assert calls(tables, lambda table: table.delete(col("id") == 7)) <= 2500
    assert open_table(tables[1]).scan(use_threads=False).count_rows() == 99
