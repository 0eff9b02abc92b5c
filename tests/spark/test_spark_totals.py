"""``orcidx.spark.aggregate`` returns the totals of ``orcidx.aggregate``, on the driver and from tasks."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx.spark
from orcidx.errors import Unsupported
from orcidx.spark.jobs import totals

FILES, ROWS = 7, 60
ASKED = {"n": "count(*)", "s": "sum(v)", "m": "avg(f)", "lo": "min(s)", "hi": "max(t)", "d": "sum(d)"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("totals") / "events"
    for number in range(FILES):
        (root / f"p={number % 2}").mkdir(parents=True, exist_ok=True)
        first = number * ROWS
        table = pa.table(
            {
                "t": range(first, first + ROWS),
                "v": [None if one % 7 == 0 else one * (-1) ** one for one in range(first, first + ROWS)],
                "f": [float("nan") if one == 100 else one / 3 for one in range(first, first + ROWS)],
                "s": [f"s{one % 11}" for one in range(ROWS)],
                "d": [Decimal(one).scaleb(-2) for one in range(ROWS)],
            }
        )
        orcidx.write_table(table, root / f"p={number % 2}" / f"{number}.orc", row_index_stride=10)
    return root


def facts(table: pa.Table) -> Any:
    return json.loads(table.schema.metadata[b"orcidx"])


@pytest.mark.parametrize("in_tasks", [False, True])
def test_they_are_those_of_orcidx(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, in_tasks: bool) -> None:
    monkeypatch.setattr(totals, "DRIVER_FILES", 0 if in_tasks else 100)
    questions: list[tuple[str | None, Any]] = [("T BETWEEN 35 AND 311", None), (None, "p"), ("s = 's4' OR t < 3", "s")]
    for where, by in questions:
        asked = {f"x_{name}": call for name, call in ASKED.items() if by is None or f"({by})" not in call}
        found = orcidx.spark.aggregate(spark, str(directory), asked, where, by, target_bytes=1)
        plain = orcidx.aggregate(directory, asked, where and where.replace("T", "t"), by, nan="largest")
        assert repr(found.to_pylist()) == repr(plain.to_pylist())  # compared as text, because NaN is not equal to NaN
        assert sum(facts(found)["rows"].values()) == sum(facts(plain)["rows"].values())
        assert facts(found)["rows"] == facts(plain)["rows"]


def test_errors_of_tasks_are_those_of_the_files(
    spark: Any, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "DRIVER_FILES", 0)
    for number in range(3):
        orcidx.write_table(pa.table({"v": [number]}), tmp_path / f"{number}.orc")
    (tmp_path / "1.orc").write_bytes((tmp_path / "1.orc").read_bytes()[:-40] + bytes(40))
    with pytest.raises(orcidx.CorruptFile, match=r"1\.orc"):
        orcidx.spark.aggregate(spark, str(tmp_path), {"n": "count(*)"})


@pytest.mark.parametrize(
    ("asked", "where", "message"),
    [
        ({"n": "count(*)"}, "length(s) = 2", "cannot convert all"),
        ({"n": "sum(s)"}, None, "only numbers can be added"),
        ({"n": "median(v)"}, None, "unknown function"),
        ({"n": "count(*)"}, "nothing = 3", "nothing"),
    ],
)
def test_what_is_refused(spark: Any, directory: Path, asked: dict[str, str], where: Any, message: str) -> None:
    with pytest.raises(orcidx.InvalidQuery, match=message):
        orcidx.spark.aggregate(spark, str(directory), asked, where)


@pytest.mark.parametrize("in_tasks", [False, True])
def test_files_with_both_kinds_of_names_are_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_tasks: bool
) -> None:
    """In the second file, all names begin with _col, so Spark finds its columns by position. orcidx refuses to read
    such a file together with files that have other names."""
    monkeypatch.setattr(totals, "DRIVER_FILES", 0 if in_tasks else 100)
    orcidx.write_table(pa.table({"v": [1], "id": [10]}), tmp_path / "0.orc")
    orcidx.write_table(pa.table({"_col0": [2], "_col1": [20]}), tmp_path / "1.orc")
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    with pytest.raises(Unsupported, match=r"Spark finds the columns of this file by position.*1\.orc"):
        orcidx.spark.aggregate(spark, str(tmp_path), {"n": "sum(id)"}, schema=schema)
