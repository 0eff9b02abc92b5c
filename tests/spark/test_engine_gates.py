"""Tests every row of the table of decision 0014. If Spark and orcidx read a file differently, "auto" returns Spark's
values.

Indexes, and orcidx's tasks that look up keys, are used only if this does not change the values.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

from orcidx import CorruptFile, InvalidQuery, col
from orcidx.spark import build_file_index, disable, enable, explain, read, register, why
from orcidx.spark.choosing import engine_rules as choosing

pytestmark = pytest.mark.java

ROWS = 60


def rows(frame: Any) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes orcidx's tasks look up keys of an index in tables of any size."""
    monkeypatch.setattr(choosing, "LEAST_LOOKUP_BYTES", 0)
    monkeypatch.setattr(choosing, "LATE_COLUMNS", 1)
    monkeypatch.setattr(choosing, "RARE_SHARE", 1)


def compare(spark: Any, folder: Path, conditions: dict[str, str], **paths: Any) -> None:
    """Compares the rows with Spark's. ``conditions`` has the engine that "auto" must choose for each condition."""
    build_file_index(spark, folder, {"bloom-filter": {"key": {"items": 100}}}, progress=False).count()
    plain = paths.get("plain") or (lambda: spark.read.orc(str(folder)))
    for where, engine in conditions.items():
        frame = read(spark, paths.get("path", folder), where=where)
        assert why(frame).engine == engine, (where, str(why(frame)))
        assert rows(frame) == rows(plain().where(where)), where
        assert frame.schema == plain().schema


def write_days(path: Path, first: dt.date) -> None:
    """Writes days with pyarrow. The days are of the Gregorian calendar, but the file does not say so."""
    days = [first + dt.timedelta(days=n) for n in range(ROWS)]
    at = [dt.datetime(day.year, day.month, day.day, 12) for day in days]
    data = {"key": range(ROWS), "day": days, "at": pa.array(at, pa.timestamp("us")), "n": range(ROWS)}
    orc.write_table(pa.table(data), path)


def test_days_before_the_gregorian_calendar_of_cpp_writers(spark: Any, tmp_path: Path, looked_up: None) -> None:
    write_days(tmp_path / "old.orc", dt.date(1500, 1, 1))
    write_days(tmp_path / "new.orc", dt.date(2020, 1, 1))
    shown = spark.read.orc(str(tmp_path / "old.orc")).selectExpr("min(day) day", "max(at) at").first()
    asked = [f"day = '{shown.day}'", f"at <= '{shown.at}'", f"at > '{shown.at}'", "key = 7 AND day < '1800-01-01'"]
    compare(spark, tmp_path, dict.fromkeys([*asked, "key = 7"], "spark"))
    mine = read(spark, tmp_path, ["day"], where="n = 0", engine="orcidx")
    assert {str(row.day) for row in mine.collect()} == {"1500-01-01", "2020-01-01"}, "the days that were written"


def test_days_of_now_are_looked_up_by_either(spark: Any, tmp_path: Path, looked_up: None) -> None:
    write_days(tmp_path / "a.orc", dt.date(2020, 1, 1))
    write_days(tmp_path / "b.orc", dt.date(2021, 1, 1))
    compare(spark, tmp_path, {"key = 7": "orcidx", "key = 7 AND day > '2020-06-01'": "orcidx", "n = 7": "spark"})


def test_what_orcidx_or_the_catalog_does_not_know_is_sparks(spark: Any, tmp_path: Path, looked_up: None) -> None:
    """Spark reads months, because Python's Arrow has no type for them. Spark also reads times inside structs, lists and
    maps, because the catalog has no statistics for them."""
    inner = {"a": "struct<day:date>", "b": "array<timestamp>", "c": "map<string,date>", "d": "struct<x:int>"}
    texts = [f"CAST(null AS {text}) AS {name}" for name, text in inner.items()]
    frame = spark.range(ROWS).selectExpr("id AS key", "INTERVAL '1' MONTH AS months", *texts)
    frame.coalesce(1).write.orc(str(tmp_path / "t"))
    build_file_index(spark, tmp_path / "t", {"bloom-filter": {"key": {"items": 100}}}, progress=False).count()
    for name, engine in {"months": "spark", "a": "spark", "b": "spark", "c": "spark", "d": "orcidx"}.items():
        few = read(spark, tmp_path / "t", ["key", name], where="key = 7")
        assert why(few).engine == engine, name
        assert few.count() == 1
    assert rows(few) == rows(spark.read.orc(str(tmp_path / "t")).where("key = 7").select("key", "d"))


def test_long_digits_of_directories_are_decimals(spark: Any, tmp_path: Path, looked_up: None) -> None:
    for value in ("12345678901234567890", "7"):
        (tmp_path / f"p={value}").mkdir()
        write_days(tmp_path / f"p={value}" / "0.orc", dt.date(2020, 1, 1))
    compare(spark, tmp_path, {"key = 7": "spark", "p = 7": "spark", "key = 7 AND p > 8": "spark"})


def test_directories_before_a_wildcard_are_no_columns(spark: Any, tmp_path: Path, looked_up: None) -> None:
    (tmp_path / "p=1").mkdir()
    for name in ("a", "b"):
        write_days(tmp_path / "p=1" / f"{name}.orc", dt.date(2020, 1, 1))
    glob = str(tmp_path / "p=1" / "*.orc")
    compare(spark, tmp_path, {"key = 7": "orcidx", "n = 7": "spark"}, path=glob, plain=lambda: spark.read.orc(glob))


def test_files_of_no_bytes_and_of_no_columns_are_passed_over(spark: Any, tmp_path: Path, looked_up: None) -> None:
    write_days(tmp_path / "a.orc", dt.date(2020, 1, 1))
    (tmp_path / "b.orc").touch()
    compare(spark, tmp_path, {"key = 7": "orcidx", "n = 7": "spark"})


def test_what_spark_has_no_reader_for_is_read_here(spark: Any, tmp_path: Path) -> None:
    kind = "struct<key:bigint,at:timestamp with local time zone>"
    with (tmp_path / "a.orc").open("wb") as file, pyorc.Writer(file, kind) as writer:
        writer.write((1, dt.datetime(2020, 1, 1, tzinfo=dt.UTC)))
    frame = read(spark, tmp_path, where="key = 1")
    try:
        spark.read.orc(str(tmp_path)).collect()
    except Exception:  # Spark 4.3 raises an error
        assert why(frame).engine == "orcidx"
    else:
        assert why(frame).engine == "spark"
        assert frame.collect() == spark.read.orc(str(tmp_path)).collect()
    assert frame.count() == 1


def told(error: Exception) -> bool:
    """Returns whether orcidx's own message, with the file and the option, is one of the lines of the JVM's error."""
    wanted = "b.orc", "orcidx.spark.read(..., options={'ignoreCorruptFiles': True}) skips such files"
    return any(all(one in line for one in wanted) for line in str(error).splitlines())


def test_a_damaged_file_names_itself_and_the_option(spark: Any, tmp_path: Path) -> None:
    """Each engine names the damaged file. With the option, the file is skipped. If a footer is damaged, Spark also
    needs the schema to skip the file."""
    write_days(tmp_path / "a.orc", dt.date(2020, 1, 1))
    write_days(tmp_path / "b.orc", dt.date(2020, 1, 1))
    whole = (tmp_path / "b.orc").read_bytes()
    (tmp_path / "b.orc").write_bytes(whole[:3] + b"\xff" * 400 + whole[403:])
    for engine in ("auto", "spark", "orcidx"):
        with pytest.raises(Exception, match=r"b\.orc") as raised:
            read(spark, tmp_path, engine=engine).collect()
        assert engine != "orcidx" or told(raised.value)
    register(spark)
    for asked in ({"limit": 10**6}, {"top": [("n", "desc")], "limit": 3}, {"where": "n >= 0", "engine": "orcidx"}):
        with pytest.raises(Exception, match="CorruptFile") as raised:
            read(spark, tmp_path, **asked).collect()
        assert told(raised.value), asked
    with pytest.raises(Exception, match="CorruptFile") as raised:
        spark.read.format("orcidx").load(str(tmp_path)).collect()
    assert told(raised.value)
    passed = {"ignoreCorruptFiles": True}
    schema = spark.read.orc(str(tmp_path / "a.orc")).schema
    assert read(spark, tmp_path, schema=schema, options=passed).count() == ROWS
    with pytest.raises(CorruptFile, match=r"give schema= as well .*b\.orc"):
        read(spark, tmp_path, options=passed)


@pytest.mark.parametrize("where_set", ["session", "hadoop"])
def test_columns_that_are_found_by_their_places(spark: Any, tmp_path: Path, where_set: str) -> None:
    """With ``orc.force.positional.evolution``, Spark reads the file's columns x and y as y and x. So statistics and
    indexes of the file must not be used by column names."""
    orc.write_table(
        pa.table({"x": pa.array([1, 2], pa.int32()), "y": pa.array([100, 200], pa.int32())}), tmp_path / "a.orc"
    )
    build_file_index(spark, tmp_path, {"bitmap": {"x": {}}}, progress=False).count()
    name, schema = "orc.force.positional.evolution", "y int, x int"
    hadoop = spark._jsc.hadoopConfiguration()
    set_, unset = (spark.conf.set, spark.conf.unset) if where_set == "session" else (hadoop.set, hadoop.unset)
    set_(name, "true")
    try:
        plain = rows(spark.read.schema(schema).orc(str(tmp_path)).where("y = 1"))
        assert plain == Counter({"Row(y=1, x=100)": 1})
        frame = read(spark, tmp_path, where="y = 1", schema=schema)
        assert rows(frame) == plain
        assert name in str(why(frame))
        enable(spark)
        try:
            assert rows(spark.read.schema(schema).orc(str(tmp_path)).where("y = 1")) == plain
        finally:
            disable(spark)
        assert name in str(why()[-1])
        for given in ({"engine": "orcidx"}, {"limit": 1}, {"top": ["y"], "limit": 1}):
            with pytest.raises(InvalidQuery, match=name):
                read(spark, tmp_path, where="y = 1", schema=schema, **given)
        with pytest.raises(InvalidQuery, match=name):
            explain(spark, tmp_path, "y = 1")
    finally:
        unset(name)
    assert rows(read(spark, tmp_path, where="x = 1", engine="orcidx")) == Counter({"Row(x=1, y=100)": 1})


def test_a_default_of_a_schema_is_no_evidence(spark: Any, tmp_path: Path, looked_up: None) -> None:
    """If a column is missing in a file, Spark uses the DEFAULT value, so the column must not count as null."""
    orc.write_table(pa.table({"key": [1, 2]}), tmp_path / "a.orc")
    orc.write_table(pa.table({"key": [3, 4], "c": pa.array([5, 6], pa.int32())}), tmp_path / "b.orc")
    build_file_index(spark, tmp_path, {"bitmap": {"key": {}, "c": {}}}, progress=False).count()
    from pyspark.sql import types

    field = {"name": "c", "type": "integer", "nullable": True, "metadata": {"EXISTS_DEFAULT": "9"}}
    key = {"name": "key", "type": "long", "nullable": True, "metadata": {}}
    schema = types.StructType.fromJson({"type": "struct", "fields": [key, field]})
    for where in ("c = 9", "c IS NOT NULL", "c > 5", "key = 1", "key = 3 AND c = 9"):
        plain = rows(spark.read.schema(schema).orc(str(tmp_path)).where(where))
        assert rows(read(spark, tmp_path, where=where, schema=schema)) == plain, where
    for given in ({"engine": "orcidx"}, {"limit": 1}):
        with pytest.raises(InvalidQuery, match="'c' has a DEFAULT"):
            read(spark, tmp_path, where=col("c") == 9, schema=schema, **given)


@pytest.mark.parametrize(
    ("name", "value"), [("spark.sql.orc.mergeSchema", "true"), ("orc.schema.evolution.case.sensitive", "false")]
)
def test_settings_by_which_orcidx_would_read_other_values(spark: Any, tmp_path: Path, name: str, value: str) -> None:
    orc.write_table(pa.table({"key": [1, 2]}), tmp_path / "a.orc")
    orc.write_table(pa.table({"key": [3, 4], "c": [5, 6]}), tmp_path / "b.orc")
    build_file_index(spark, tmp_path, {"bitmap": {"key": {}}}, progress=False).count()
    spark.conf.set(name, value)
    try:
        plain = spark.read.orc(str(tmp_path)).where("key = 3")
        frame = read(spark, tmp_path, where="key = 3")
        assert (rows(frame), frame.schema) == (rows(plain), plain.schema)
        assert why(frame).files_left == 1
        with pytest.raises(InvalidQuery, match=name):
            read(spark, tmp_path, where="key = 3", limit=1)
    finally:
        spark.conf.unset(name)
