"""What a session is asked, rows placed on partitions, and a machine without Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.spark import session as new_session
from orcidx.spark.placement import keys_of_partitions, place
from orcidx.spark.sessions import facts_of, java_problem


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
@pytest.mark.parametrize("count", [1, 7, 64])
def test_rows_are_placed(spark: Any, count: int) -> None:
    bins = [i * 31 % count for i in range(3 * count)]
    frame = place(spark, pa.table({"i": range(len(bins))}), bins, count)
    assert frame.columns == ["i"]
    assert frame.rdd.getNumPartitions() == count
    found = {row.i: row.at for row in frame.selectExpr("i", "spark_partition_id() AS at").collect()}
    assert found == dict(enumerate(bins))


@pytest.mark.java
@pytest.mark.parametrize("count", [1, 2, 7, 64, 500])
def test_keys_hash_to_their_partitions(spark: Any, count: int) -> None:
    """How rows are placed before Spark 4.1."""
    keys = pa.table({"k": pa.array(keys_of_partitions(count), pa.int32()), "wanted": range(count)})
    frame = spark.createDataFrame(keys).repartition(count, "k").selectExpr("wanted", "spark_partition_id() AS at")
    assert [row.wanted for row in frame.collect() if row.at != row.wanted] == []
    assert frame.count() == count
