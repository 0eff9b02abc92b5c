"""If files have different schemas or are damaged, the call raises one error that names the files and the option."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx
from orcidx import CorruptFile, InvalidQuery
from orcidx.spark import read, reading, why
from orcidx.spark.conditions.listed_files import SparkFiles
from orcidx.spark.query import plan
from orcidx.spark.query.read_query import Query


@pytest.fixture(scope="module")
def later_column(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("later")
    orc.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "0.orc")
    orc.write_table(pa.table({"id": pa.array([3, 4], pa.int32()), "new": [1.5, 2.5]}), folder / "1.orc")
    return folder


@pytest.fixture(scope="module")
def other_type(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    orc.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "0.orc")
    orc.write_table(pa.table({"id": ["5", "6"]}), folder / "1.orc")
    return folder


@pytest.mark.java
def test_a_column_of_other_files(spark: Any, later_column: Path) -> None:
    from pyspark.sql import functions as F

    for asked in (
        {"columns": ["new"]},
        {"columns": ["NEW"], "engine": "orcidx"},
        {"columns": ["new"], "limit": 3},
        {"where": "new > 2"},
        {"where": F.col("new") > 2},
        {"where": orcidx.col("new") > 2},
        {"where_in": {"new": spark.range(3)}},
    ):
        with pytest.raises(InvalidQuery) as raised:
            read(spark, later_column, **asked)
        for told in ("0.orc", "1.orc", "{'mergeSchema': True}", "schema="):
            assert told in str(raised.value)
        assert "\n" not in str(raised.value)
    found = read(spark, later_column, where="new > 2", options={"mergeSchema": True})
    assert [row.id for row in found.collect()] == [4]
    with pytest.raises(InvalidQuery, match=r"1\.orc' has it, but schema= does not name it"):
        read(spark, later_column, ["new"], schema="id int")
    with pytest.raises(InvalidQuery) as other:
        read(spark, later_column, ["nex"])
    assert "mergeSchema" not in str(other.value)
    with pytest.raises(InvalidQuery) as literal:
        read(spark, later_column, where=orcidx.col("id") > "x")
    assert "has it" not in str(literal.value)


@pytest.mark.java
def test_a_column_of_two_types(spark: Any, other_type: Path) -> None:
    for asked in ({"options": {"mergeSchema": True}}, {"engine": "orcidx"}):
        with pytest.raises(InvalidQuery) as raised:
            read(spark, other_type, **asked)
        for told in ("0.orc", "1.orc", "int", "string", "schema="):
            assert told in str(raised.value)
        assert "\n" not in str(raised.value)
    assert read(spark, other_type, schema="id STRING").count() == 4


@pytest.mark.java
@pytest.mark.parametrize("files", [2, 5])
def test_what_a_planning_task_finds_is_raised_here(
    spark: Any, other_type: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """Tasks of Spark plan the read if there are many files. If a task finds an error, the driver raises it with
    orcidx's own type, the file, and the place in the file, but without a traceback of Spark."""
    monkeypatch.setattr(reading, "DRIVER_METADATA_FILES", 3)
    for number in range(files - 1):
        shutil.copy(other_type / "0.orc", tmp_path / f"{number}.orc")
    shutil.copy(other_type / "1.orc", tmp_path / "z.orc")
    with pytest.raises(InvalidQuery, match=r"it is int in .*0\.orc.*z\.orc") as raised:
        read(spark, tmp_path, engine="orcidx")
    assert "Traceback" not in str(raised.value)
    (tmp_path / "z.orc").write_bytes(b"ORC?" * 50)
    with pytest.raises(CorruptFile, match="ignoreCorruptFiles") as broken:
        read(spark, tmp_path, engine="orcidx")
    assert broken.value.file == str(tmp_path / "z.orc")


@pytest.mark.java
def test_a_directory_without_a_whole_file(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(b"ORC?" * 50)
    for engine in ("auto", "spark", "orcidx"):
        with pytest.raises(CorruptFile, match="ignoreCorruptFiles") as raised:
            read(spark, tmp_path, engine=engine)
        assert raised.value.file == str(tmp_path / "a.orc")
    assert read(spark, tmp_path, schema="id int", options={"ignoreCorruptFiles": True}).count() == 0


@pytest.mark.java
def test_storage_that_only_spark_knows(
    spark: Any, later_column: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only Spark knows the scheme or the keys of this storage. If orcidx cannot list it, no error is raised."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise orcidx.StorageError("no keys")

    monkeypatch.setattr(plan, "open_table", refuse)
    monkeypatch.setattr("orcidx.spark.choosing.remaining_files.list_sources", refuse)
    monkeypatch.setattr(SparkFiles, "stores", refuse)  # this method opens the directories that Spark lists
    frame = read(spark, later_column, where="id = 3")
    assert frame.count() == 1
    assert why(frame).engine == "spark"
    listed = read(spark, [str(later_column)], where="id = 3")
    assert "cannot list the files to look for indexes (no keys)" in str(why(listed))
    shutil.copytree(later_column, tmp_path / "table")
    (tmp_path / "table/schema").mkdir()
    for path, kind in ((later_column, "paimon"), (tmp_path / "table", None)):
        # The directory may be a Paimon table, whose rows are not simply the rows of all its files. So an error is
        # raised.
        with pytest.raises(orcidx.StorageError):
            read(spark, path, format=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"limit": "3"}, "limit must be a whole number, not '3'"),
        ({"limit": True}, "limit must be a whole number, not True"),
        ({"limit": -1}, "limit must not be negative, but is -1"),
        ({"target_bytes": "1m"}, "target_bytes must be a whole number, not '1m'"),
        ({"target_bytes": None}, "target_bytes must be a whole number, not None"),
        ({"target_bytes": 0}, "target_bytes must not be below 1, but is 0"),
        ({"snapshot_id": "x"}, "snapshot_id must be a whole number, not 'x'"),
        ({"deletion_vector": [1]}, r"deletion_vector must be {path: ...}, not \[1\]"),
        ({"storage_options": "anon"}, "storage_options must be {option: ...}, not 'anon'"),
        ({"columns": "id"}, r"columns must be a list: give \['id'\]"),
        ({"top": "id", "limit": 3}, r"top must be a list: give \['id'\]"),
        ({"top": ["id"]}, "give limit= to say how many"),
        ({"format": "parquet"}, "format must be 'orc' or 'paimon'"),
    ],
)
def test_options_that_cannot_be_meant(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidQuery, match=told):
        Query(path="p", **asked)


@pytest.mark.parametrize(
    ("where", "own"),
    [("id > 5 AND text = 'a'", True), ("id > 5 AND try_cast(text AS int) = 5", False), ("upper(text) = 'A'", False)],
)
def test_what_is_computed_is_sparks(spark: Any, tmp_path: Path, where: str, own: bool) -> None:
    orc.write_table(pa.table({"id": [5, 6, 7], "text": ["a", "a", "5"]}), tmp_path / "a.orc")
    frame = read(spark, tmp_path, where=where, engine="orcidx")
    assert ("Spark computes a part" not in str(why(frame))) == own
    expected = spark.read.orc(str(tmp_path)).where(where)
    assert sorted(frame.collect()) == sorted(expected.collect())
