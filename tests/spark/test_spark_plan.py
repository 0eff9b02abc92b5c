"""Planning without Spark: how a read is split into parts, and which parts are read together."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_tables import PaimonTable
from pyarrow import orc

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.scanner.scan import Scan
from orcidx.spark.query.parts import TaskPart, pack_sizes, split_orc, split_paimon
from orcidx.spark.query.plan import FILE_BYTES, LEAST_TASK_BYTES, Plan, assign, begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.hive_columns import partition_types
from orcidx.storage import Source


def test_the_longest_go_first_into_the_emptiest_bin() -> None:
    sizes = [10, 90, 50, 50, 100]
    loads: Counter[int] = Counter()
    for number, size in zip(pack_sizes(sizes, 100), sizes):
        loads[number] += size
    assert sorted(loads) == [0, 1, 2]
    assert max(loads.values()) == 100


def test_no_more_bins_than_parts_and_none_for_none() -> None:
    assert pack_sizes([1000], 10) == [0]
    assert pack_sizes([0, 0], 10) == [0, 0]
    assert pack_sizes([], 10) == []


def test_a_target_below_one_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="target_bytes"):
        pack_sizes([1], 0)
    with pytest.raises(InvalidQuery, match="target_bytes"):
        Query(path="x", target_bytes=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Writes the same rows as plain ORC files and as a Paimon table."""
    table = PaimonTable(tmp_path / "t")
    table.schema({0: ("id", "BIGINT")})
    (tmp_path / "plain").mkdir()
    for start in (0, 100):
        rows = pa.table({"id": pa.array(range(start, start + 100), pa.int64())})
        orc.write_table(rows, tmp_path / "plain" / f"{start}.orc")
        table.add(f"data-{start}.orc", rows)
    table.commit()
    return tmp_path


def _parts(plan: Plan) -> list[TaskPart]:
    return split_orc(plan.rows, 1 << 20) if isinstance(plan.rows, Scan) else split_paimon(plan.rows)


def _ids(tasks: list[bytes]) -> list[int]:
    return [i for task in tasks for batch in pickle.loads(task).batches() for i in batch.column("id").to_pylist()]


@pytest.mark.parametrize("name", ["plain", "t"])
def test_tasks_give_the_rows_of_a_directory_and_of_a_table(data: Path, name: str) -> None:
    path = str(data / name)
    plan = begin_plan(Query(path=path, columns=["ID"], where="id > 150"))
    assert plan.schema["fields"] == [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    assert len(_parts(plan)) == 1
    assert _ids(assign(plan, _parts(plan), 1 << 20)) == list(range(151, 200))
    whole = begin_plan(Query(path=path))
    assert len(assign(whole, _parts(whole), 1)) == 2
    assert len(assign(whole, _parts(whole), 1 << 30)) == 1
    assert _ids(assign(whole, _parts(whole), 1 << 30)) == list(range(200))
    few = begin_plan(Query(path=path, limit=30))
    assert len(_ids(assign(few, _parts(few), 1))) == 30
    best = begin_plan(Query(path=path, top=[("id", "desc")], limit=3))
    assert _ids(assign(best, _parts(best), 1 << 30)) == [199, 198, 197]


def test_a_directory_that_is_no_table(data: Path) -> None:
    with pytest.raises(FileNotFoundError):
        begin_plan(Query(path=str(data / "plain"), format="paimon"))
    with pytest.raises(InvalidQuery, match="snapshot_id and jvm_zone are only for Paimon"):
        begin_plan(Query(path=str(data / "plain"), snapshot_id=1))


def test_a_table_brings_its_own_indexes_and_schema(data: Path) -> None:
    for given in ({"schema": pa.schema([("id", pa.int64())])}, {"deletion_vector": {"x": None}}, {"file_index": {}}):
        with pytest.raises(InvalidQuery, match="cannot be given for a Paimon table"):
            begin_plan(Query(path=str(data / "t"), **given))  # type: ignore[arg-type]


def test_tasks_are_smaller_where_slots_would_idle(data: Path) -> None:
    plan = begin_plan(Query(path=str(data / "plain")))
    assert plan.target(8) == LEAST_TASK_BYTES
    big = Plan(plan.query, plan.rows, plan.schema, plan.columns, listed=(0, 1 << 30))
    assert big.target(16) == 1 << 26
    small = Plan(plan.query, plan.rows, plan.schema, plan.columns, listed=(2000, 2000 << 10))
    assert small.target(4) == 500 * (FILE_BYTES + 1024), "a task for each slot, with the cost of opening files"
    assert big.target(1) == plan.query.target_bytes


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-5", "007"], "integer"),
        (["1", "3000000000"], "long"),
        (["1", "2.5"], "double"),
        (["3000000000", "2.5"], "string"),
        (["2024-01-01", None], "date"),
        (["2024-01-01", "2024-01-01 10:00:00"], "timestamp"),
        (["2024-01-01", "1"], "string"),
        (["2024-13-01"], "string"),
        (["99999999999999999999"], "string"),
        ([None], "string"),
    ],
)
def test_directories_are_typed_as_spark_infers_them(texts: list[Any], kind: str) -> None:
    names = ["__HIVE_DEFAULT_PARTITION__" if text is None else text for text in texts]
    files = [Source(name, "path", f"/t/k={name}/f.orc", root="/t") for name in names]
    assert partition_types(files) == {"k": kind}
    assert partition_types(files, infer=False) == {"k": "string"}


def test_directories_rule_files_out_before_any_is_opened(tmp_path: Path) -> None:
    for day in range(4):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        orc.write_table(pa.table({"i": [day]}), folder / "a.orc")
    plan = begin_plan(Query(path=str(tmp_path), where="i >= 0 AND (day = 1 OR day = 3)"))
    assert isinstance(plan.rows, Scan)
    assert [job.constants["day"].as_py() for job in plan.rows.jobs] == [1, 3]
    assert plan.listed[1] == sum((tmp_path / f"day={day}" / "a.orc").stat().st_size for day in (1, 3))
    assert begin_plan(Query(path=str(tmp_path), where="day > 5")).rows.jobs == ()  # type: ignore[union-attr]


def test_a_file_is_not_asked_whether_it_is_a_table(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No check is made whether a file is a table, because this would take a few requests to remote storage."""
    monkeypatch.setattr("orcidx.spark.query.plan.open_table", lambda *_, **__: pytest.fail("asked"))
    assert len(begin_plan(Query(path=str(data / "plain" / "0.orc"))).rows.schema.names) == 1
    with pytest.raises(FileNotFoundError):
        begin_plan(Query(path="memory://nowhere/0.orc"))


HIVE = pa.table({"_col0": [1], "_col1": [10]})
NAMED = pa.table({"v": [20], "id": [2]})
ID_V = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.mark.parametrize("first", ["hive", "named"])
def test_files_with_both_kinds_of_names_are_refused(tmp_path: Path, first: str) -> None:
    """Spark decides for each file whether it finds columns by position. orcidx's tasks must read all files in the same
    way."""
    for number, table in enumerate((HIVE, NAMED) if first == "hive" else (NAMED, HIVE)):
        orc.write_table(table, tmp_path / f"{number}.orc")
    rows = begin_plan(Query(path=str(tmp_path), format="orc", schema=ID_V)).rows
    assert isinstance(rows, Scan)
    with pytest.raises(Unsupported, match=r"Spark finds the columns of this file by .*1\.orc"):
        split_orc(rows, 1000)


@pytest.mark.parametrize("schema", [ID_V, None])
def test_files_with_one_kind_of_names_are_read(tmp_path: Path, schema: pa.Schema | None) -> None:
    for number in range(2):
        orc.write_table(HIVE, tmp_path / f"{number}.orc")
    rows = begin_plan(Query(path=str(tmp_path), format="orc", schema=schema)).rows
    assert isinstance(rows, Scan)
    assert len(split_orc(rows, 1000)) == 2
    assert rows.to_table().columns[1].to_pylist() == [10, 10]
