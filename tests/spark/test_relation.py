"""Spark relations that contain only some files of another relation."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orcidx import write_table
from orcidx.spark import build_file_index, disable, enable, read, why
from orcidx.spark.choosing import engine_rules as choosing
from orcidx.spark.conditions.relation import Relation, escaped, relation_of
from orcidx.spark.sessions.hadoop_files import SessionFiles


def of_files(spark: Any, path: Path, kept: str) -> tuple[Any, list[str]]:
    """Returns a relation of the files whose paths match ``kept``, and the names of the files whose status Spark
    requests for it."""
    whole = relation_of(spark, str(path))
    listing = whole.listing
    assert listing is not None
    names = [name for name in listing.names if re.search(kept, name)]
    frame = whole.of_files(names, [name for name in listing.names if name not in names])
    left = Relation(spark, frame, None).listing
    assert left is not None
    assert sorted(left.names) == sorted(names)
    assert frame.schema == whole.frame.schema
    location = frame._jdf.queryExecution().analyzed().collectLeaves().head().relation().location()
    roots = location.rootPaths()
    return frame, [roots.apply(number).getName() for number in range(roots.size())]


@pytest.fixture(scope="module")
def directory(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes eight files in two partitions. Only the name "same.orc" occurs twice. The directory's name has characters
    that are special in a glob."""
    path = tmp_path_factory.mktemp("relation") / "a b%20ü,{x}[1]'"
    for part in (0, 1):
        (path / f"part={part}").mkdir(parents=True)
        for name in ("same", "one", "two", "three"):
            target = path / f"part={part}" / f"{name}{'' if name == 'same' else part}.orc"
            made = path.parent / "made"
            spark.range(1).selectExpr(f"'{name}' AS name").coalesce(1).write.mode("overwrite").orc(str(made))
            target.write_bytes(next(made.glob("*.orc")).read_bytes())
    return path


def test_named_files_of_one_directory_are_listed_once_more_where_that_is_cheaper(spark: Any, directory: Path) -> None:
    frame, looked_up = of_files(spark, directory, "one|two")
    assert looked_up == [directory.name]
    assert Counter(map(tuple, frame.collect())) == Counter((name, part) for name in ("one", "two") for part in (0, 1))
    # A listing of eight files costs more than a look-up of one file.
    assert of_files(spark, directory, "one0")[1] == ["one0.orc"]
    frame, looked_up = of_files(spark, directory, "part=0")
    # A listing by name would also return part=1/same.orc, so files are looked up one by one.
    assert sorted(looked_up) == ["one0.orc", "same.orc", "three0.orc", "two0.orc"]
    assert {row.part for row in frame.collect()} == {0}
    assert frame.count() == 4


def test_names_that_a_glob_reads_otherwise_go_by_their_paths(spark: Any, directory: Path) -> None:
    strange = directory.parent / "strange"
    strange.mkdir()
    for name in ("x,y.orc", "{z}.orc", "x.orc", "y.orc"):
        (strange / name).write_bytes((directory / "part=0" / "same.orc").read_bytes())
    assert of_files(spark, strange, "/(x,y|x)[.]orc")[1] == ["x,y.orc", "x.orc"]
    assert of_files(spark, strange, "/[xy][.]orc")[1] == ["strange"]


STRANGE = ["p=1/a\x01b", "p=1/a\x02b", "p=1/\x03\x01\x02\x031", "p=\x01x/a", "p=1\x02/a", "p=1/c"]
STATUS = ["a; isDirectory=false; length=1; modification_time=3;", "b", "c"]


@pytest.mark.parametrize("compiled", [1000, 0])
@pytest.mark.parametrize("names", [STRANGE, STATUS], ids=["control characters", "like a status"])
@pytest.mark.parametrize("root", ["d", "r\x01o\x02t"], ids=["plain", "strange"])
def test_names_that_hold_what_separates_names(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, names: list[str], compiled: int
) -> None:
    """File names may contain the separators of a listing. This must not cause an IndexError, and no rows may be
    missing. Plain SQL also skips files."""
    monkeypatch.setattr("orcidx.spark.conditions.relation.COMPILED_ABOVE_FILES", compiled)
    for number, name in enumerate(names):
        path = tmp_path / root / f"{name}.orc"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(pa.table({"k": [number * 10, number * 10 + 1]}), path)
    folder = str(tmp_path / root)
    built = build_file_index(spark, folder, {"bitmap": {"k": {}}}, progress=False)
    assert {row.status for row in built.collect()} == {"built"}
    listed = [one.path.removeprefix("file:") for one in SessionFiles(spark).list(f"file://{folder}")]
    assert {one for one in listed if one.endswith(".orc")} == {f"{folder}/{name}.orc" for name in names}
    for number in range(len(names)):
        frame = read(spark, folder, where=f"k = {number * 10 + 1}")
        assert [row.k for row in frame.collect()] == [number * 10 + 1], names[number]
        assert (why(frame).files, why(frame).files_left) == (len(names), 1)
    enable(spark)
    try:
        for number in range(len(names)):
            frame = spark.read.orc(folder).where(f"k = {number * 10 + 1}")
            assert [row.k for row in frame.collect()] == [number * 10 + 1], names[number]
            assert (why()[-1].files, why()[-1].files_left) == (len(names), 1)
            assert folder in str(why()[-1])
    finally:
        disable(spark)


def test_where_too_little_falls_of_too_many_all_are_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(0, 600, 1, 6).write.orc(str(tmp_path / "d"))
    build_file_index(spark, str(tmp_path / "d"), {"bitmap": {"id": {}}}, progress=False).count()
    assert why(read(spark, str(tmp_path / "d"), where="id >= 100")).files_left == 5
    monkeypatch.setattr(choosing, "MOST_NAMED", 1)
    frame = read(spark, str(tmp_path / "d"), where="id >= 100")
    told = why(frame)
    assert (told.files, told.files_left, told.by) == (6, 6, {})
    assert told.bytes == told.bytes_left
    assert "1 of 6 files have no matching rows" in str(told)
    assert frame.count() == 500
    # The two files are more than ``MOST_NAMED``, but few enough for a filter on file names.
    assert why(read(spark, str(tmp_path / "d"), where="id >= 400")).files_left == 2


def test_files_are_listed_by_spark_alone(spark: Any, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Spark lists the files, because a second listing by orcidx would double the time for many files."""
    build_file_index(spark, str(directory), {"bitmap": {"name": {}}}, progress=False).count()

    def lists(*_: object, **__: object) -> None:
        raise AssertionError("listed a second time")

    monkeypatch.setattr("orcidx.spark.choosing.remaining_files.list_sources", lists)
    wanted = sorted(map(tuple, spark.read.orc(escaped(str(directory))).where("name = 'two'").collect()))
    for compiled in (1000, 3):  # above this number of files, orcidx's Java code is used
        monkeypatch.setattr("orcidx.spark.conditions.relation.COMPILED_ABOVE_FILES", compiled)
        frame = read(spark, str(directory), where="name = 'two'")
        assert (why(frame).files, why(frame).files_left) == (8, 2)
        assert sorted(map(tuple, frame.collect())) == wanted == [("two", 0), ("two", 1)]
        assert why(read(spark, str(directory), where="part = 1")).files_left == 4
