"""Spark truncates nanoseconds to microseconds before it compares. Predicates that are made from analysed conditions
must keep every row that Spark keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx
from orcidx.predicate import Constant, Leaf, Op
from orcidx.predicate.exact_time import ExactTime
from orcidx.spark.conditions.analysed_conditions import analysed, pushed_predicate

pytestmark = pytest.mark.java

SECOND = 10**9
TIME = 1_700_000_000 * SECOND


def test_predicates_of_analysed_conditions_keep_the_rows_of_spark(spark: Any, tmp_path: Path) -> None:
    times = pa.array([TIME - SECOND, TIME + 500, TIME + SECOND, None], pa.timestamp("ns"))
    orcidx.write_table(pa.table({"id": [0, 1, 2, 3], "t": times}), tmp_path / "a.orc")
    frame = spark.read.schema("id BIGINT, t TIMESTAMP").orc(str(tmp_path))
    at = "TIMESTAMP '2023-11-14 22:13:20'"
    conditions = {
        f"t = {at}": [1],
        f"t <= {at}": [0, 1],
        f"t > {at}": [2],
        f"t <> {at}": [0, 2],
        f"t IN ({at}, {at} + INTERVAL 1 HOUR)": [1],
        f"t <=> {at}": [1],
        f"NOT (t <=> {at})": [0, 2, 3],
        f"t BETWEEN {at} AND {at}": [1],
        f"t NOT BETWEEN {at} AND {at}": [0, 2],
        f"t >= {at} AND rand() >= 0": [1, 2],
        f"t <= {at} AND rand() >= 0": [0, 1],
    }
    for condition, ids in conditions.items():
        found = analysed(frame.where(condition), frozenset(frame.columns), collated=frozenset())
        kept = orcidx.read_table(tmp_path, ["id"], found.may, wall_clock_zone="UTC")
        assert kept["id"].to_pylist() == ids, condition
    assert [row.id for row in frame.where(f"t = {at}").collect()] == [1]


def test_times_of_conditions_are_in_the_zone_of_the_session(spark: Any) -> None:
    """In Catalyst's JSON, Spark 4.1 writes times in the session's zone, and omits a fraction that is zero. Predicates
    must have the right instants."""
    frame = spark.createDataFrame([], "id BIGINT, t TIMESTAMP")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        for text, nanos in (("2023-11-14 14:13:20", TIME), ("2023-11-14 14:13:20.5", TIME + SECOND // 2)):
            filtered = frame.where(f"t >= TIMESTAMP '{text}'")
            found = analysed(filtered, frozenset(frame.columns), collated=frozenset())
            assert found.may == Leaf(("t",), Op.GE, (ExactTime(nanos, "UTC"),))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_many_times_of_a_condition_prove_nothing(spark: Any) -> None:
    """The condition has 2,001 times. For so many, orcidx does not get the values from the JVM, but only their texts.
    The zone of the texts depends on the version of Spark, so the condition rules out no rows."""
    frame = spark.createDataFrame([], "id BIGINT, t TIMESTAMP")
    texts = [f"TIMESTAMP '2023-11-14 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}.5'" for i in range(2001)]
    filtered = frame.where(f"t IN ({', '.join(texts)})")
    may, is_exact, *_ = pushed_predicate(filtered, frozenset(frame.columns), "UTC", collated=frozenset(), once=True)
    assert (may, is_exact) == (Constant(True), False)
