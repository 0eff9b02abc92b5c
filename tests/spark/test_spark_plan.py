"""Planning without Spark: bins by bytes."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable
from pyarrow import orc

from orcidx.errors import InvalidQuery
from orcidx.options import ReadOptions
from orcidx.spark.plan import ReadPlan, pack, plan_read


def test_the_longest_go_first_into_the_emptiest_bin() -> None:
    sizes = [10, 90, 50, 50, 100]
    loads: Counter[int] = Counter()
    for number, size in zip(pack(sizes, 100), sizes):
        loads[number] += size
    assert sorted(loads) == [0, 1, 2]
    assert max(loads.values()) == 100


def test_no_more_bins_than_tasks_and_none_for_none() -> None:
    assert pack([1000], 10) == [0]
    assert pack([0, 0], 10) == [0, 0]
    assert pack([], 10) == []


def test_a_target_below_one_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="target_bytes"):
        pack([1], 0)


def _read(plan: ReadPlan) -> list[int]:
    return [i for task in plan.tasks for rows in pickle.loads(task.payload) for i in rows.column("id").to_pylist()]


def test_tasks_of_a_directory_and_of_a_table_give_their_rows(tmp_path: Path) -> None:
    options = ReadOptions(timestamp_unit="us", use_threads=False)
    table = PaimonTable(tmp_path / "t")
    table.schema({0: ("id", "BIGINT")})
    (tmp_path / "plain").mkdir()
    for start in (0, 100):
        rows = pa.table({"id": pa.array(range(start, start + 100), pa.int64())})
        orc.write_table(rows, tmp_path / "plain" / f"{start}.orc")
        table.add(f"data-{start}.orc", rows)
    table.commit()
    common: dict[str, Any] = {"target_bytes": 1 << 20, "storage_options": None, "options": options}
    for name in ("plain", "t"):
        plan = plan_read(tmp_path / name, ["id"], "id > 150", format=None, **common)
        assert (len(plan.tasks), _read(plan)) == (1, list(range(151, 200)))
        assert len(plan_read(str(tmp_path / name), None, None, format=None, **common).tasks) == 2
    with pytest.raises(FileNotFoundError):
        plan_read(tmp_path / "plain", None, None, format="paimon", **common)
