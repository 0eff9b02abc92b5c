"""Settings that are read from a session, the placement of rows on partitions, and a machine without Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.spark import register, registering
from orcidx.spark import session as new_session
from orcidx.spark.query.placement import keys_of_partitions, place
from orcidx.spark.sessions import arrow_tables
from orcidx.spark.sessions import spark_session as sessions
from orcidx.spark.sessions.arrow_tables import frame_of, table_of
from orcidx.spark.sessions.orc_settings import CASE, INFERENCE, ZONE
from orcidx.spark.sessions.spark_session import facts_of, java_problem


def test_without_java_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark.sql")
    monkeypatch.setattr(pyspark.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="openjdk-17-jre-headless"):
        new_session()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(Unsupported, match=r"11\.0\.2.*openjdk-17-jre-headless"):
        new_session()
    old.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    assert java_problem() is None


@pytest.mark.java
def test_the_running_session_is_taken(spark: Any) -> None:
    assert new_session() is spark
    with pytest.raises(InvalidQuery, match="running"):
        new_session("local[2]")
    facts = facts_of(spark)
    assert (facts.session_zone, facts.case_sensitive, facts.infers_partitions, facts.slots) == ("UTC", False, True, 2)
    assert facts.clock_zone


@pytest.mark.java
def test_settings_that_are_not_set_have_the_defaults_of_spark(spark: Any) -> None:
    other = spark.newSession()
    names = {"session_zone": ZONE, "case_sensitive": CASE, "infers_partitions": INFERENCE}
    for values in ({}, {ZONE: "Asia/Tokyo", CASE: "true", INFERENCE: "false", "spark.a": f"1\n{CASE} -> false"}):
        for name in names.values():
            other.conf.unset(name)
        for name, value in values.items():
            other.conf.set(name, value)
        facts = facts_of(other)
        for field, name in names.items():
            assert str(getattr(facts, field)).lower() == other.conf.get(name).lower()


@pytest.mark.java
@pytest.mark.parametrize("count", [1, 7, 64])
def test_rows_are_placed(spark: Any, count: int) -> None:
    bins = [i * 31 % count for i in range(3 * count)]
    frame = place(spark, pa.table({"i": range(len(bins))}), bins, count)
    assert frame.columns == ["i"]
    assert frame.rdd.getNumPartitions() == count
    found = {row.i: row.at for row in frame.selectExpr("i", "spark_partition_id() AS at").collect()}
    assert found == dict(enumerate(bins))


def test_what_an_old_spark_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "spark_version", lambda: (3, 5))
    with pytest.raises(Unsupported, match=r"Spark 4\.0.*createOrReplaceTempView"):
        register(None)
    monkeypatch.setattr(sessions, "spark_version", lambda: (3, 4))
    with pytest.raises(Unsupported, match=r"pyspark 3\.5 or later, but 3\.4 is"):
        sessions.require_spark()


@pytest.mark.java
def test_tables_pass_row_by_row(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark 4.0, tables are sent row by row. This form must preserve all values."""
    monkeypatch.setattr(arrow_tables, "spark_version", lambda: (3, 5))
    inner = pa.list_(pa.struct([("low", pa.binary()), ("count", pa.int64())]))
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "text": (pa.string(), ["ü", None, ""]),
        "bytes": (pa.binary(), [b"\x00\xff", None, b""]),
        "number": (pa.int64(), [2**62, None, -1]),
        "small": (pa.int32(), [1, None, -1]),
        "ratio": (pa.float64(), [0.1, None, float("inf")]),
        "flag": (pa.bool_(), [True, None, False]),
        "nested": (inner, [[{"low": b"\xfe", "count": 1}, {"low": None, "count": None}], None, []]),
    }
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    assert table_of(frame_of(spark, table).coalesce(1), table.schema).equals(table)
    assert table_of(frame_of(spark, table.slice(0, 0)), table.schema).equals(table.slice(0, 0))
    assert place(spark, table, [0, 1, 2], 3).count() == 3


@pytest.mark.java
@pytest.mark.parametrize("count", [1, 2, 7, 64, 500])
def test_keys_hash_to_their_partitions(spark: Any, count: int) -> None:
    """Before Spark 4.1, a row gets a key whose hash puts the row into the wanted partition."""
    keys = pa.table({"k": pa.array(keys_of_partitions(count), pa.int32()), "wanted": range(count)})
    frame = frame_of(spark, keys).repartition(count, "k").selectExpr("wanted", "spark_partition_id() AS at")
    assert [row.wanted for row in frame.collect() if row.at != row.wanted] == []
    assert frame.count() == count
