"""The cost of writing a file in calls of the package's Python functions.

The counts are for Python 3.11, where a comprehension is a call. Later versions make fewer calls.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from work_done import python_calls

import orcidx


def test_calls_of_one_row(tmp_path: Path) -> None:
    """A file of one row takes at most 240 calls. An earlier version made 719 calls, because it wrote each stream
    separately, decoded unused statistics, and described the schema for each file."""
    table = pa.table({"k": [1], "v": ["a"], "x": [1.5]})
    orcidx.write_table(table, tmp_path / "first.orc")  # a warm-up that is not counted
    assert python_calls(lambda: orcidx.write_table(table, tmp_path / "second.orc"), own=True) <= 240
    assert orcidx.read_table(tmp_path / "second.orc") == table


def test_statistics_of_what_was_written(tmp_path: Path) -> None:
    """The result of ``write_table`` has the same statistics as the file. They are decoded only when they are used."""
    result = orcidx.write_table(pa.table({"k": [3, 1, None], "s": ["a", "b", "c"]}), tmp_path / "a.orc")
    assert list(result.statistics) == ["", "k", "s"]
    with orcidx.open(tmp_path / "a.orc") as file:
        assert dict(result.statistics) == {name: file.statistics(name) for name in ("k", "s")} | {
            "": result.statistics[""]
        }
    assert result.statistics == dict(result.statistics)
    assert "minimum=1" in repr(result.statistics)
