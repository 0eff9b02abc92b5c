"""Spark truncates nanoseconds to microseconds before it compares. Conditions of Spark must not lose rows because of
this."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from paimon_empty import empty_table

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.types import StructType

import orcidx
from orcidx import col
from orcidx.paimon import open_table
from orcidx.predicate import parse
from orcidx.predicate.fold import rewritten
from orcidx.spark.choosing.connect_pruning import certain_predicate
from orcidx.spark.conditions.floored_times import in_micros
from orcidx.spark.query.data_source import OrcidxReader
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.spark_types import arrow_schema_of

TIME = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
HOUR = 3600 * 10**9
FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "long"), ("t", "timestamp"))
]
SCHEMA = {"type": "struct", "fields": FIELDS}


def write_times(folder):
    """Writes the rows 0, 1 and 2. Row 0 is an hour before ``TIME``, row 1 is 500 nanoseconds after it, and row 2 is an
    hour after it."""
    time = 1_700_000_000_000_000_000
    times = pa.array([time - HOUR, time + 500, time + HOUR], pa.timestamp("ns", "UTC"))
    orcidx.write_table(pa.table({"id": [0, 1, 2], "t": times}), folder / "a.orc")


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (col("t") == TIME, [1]),
        (col("t") <= TIME, [0, 1]),
        (col("t") > TIME, [2]),
        (col("t") < TIME, [0]),
        (col("t").is_in([TIME]), [1]),
        (col("t").between(TIME, TIME), [1]),
        (~col("t").between(TIME, TIME), [0, 2]),
        (col("t").between(TIME - dt.timedelta(hours=1), TIME), [0, 1]),
        (col("t").between(None, TIME), []),
        (~col("t").between(None, TIME), [2]),
        (col("t") != TIME, [0, 2]),
    ],
)
def test_predicates_keep_rows_whose_microseconds_match(tmp_path, where, ids):
    write_times(tmp_path)
    floored = rewritten(parse(where), in_micros)
    assert orcidx.read_table(tmp_path, ["id"], floored)["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ([("t", "==", TIME.replace(tzinfo=None))], [1]),
        ([("t", "<=", pa.scalar(TIME, pa.timestamp("us", "UTC")))], [0, 1]),
        (col("t").between(pa.scalar(TIME), pa.scalar(TIME)), [1]),
    ],
)
def test_conditions_of_spark_connect_keep_rows_whose_microseconds_match(tmp_path, where, ids):
    write_times(tmp_path)
    certain = certain_predicate(Query(path=str(tmp_path), where=where), StructType.fromJson(SCHEMA))
    assert orcidx.read_table(tmp_path, ["id"], certain)["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (EqualTo(("t",), TIME), [1]),
        (In(("t",), (TIME,)), [1]),
        (LessThanOrEqual(("t",), TIME), [0, 1]),
        (Not(GreaterThan(("t",), TIME)), [0, 1]),
        (GreaterThan(("t",), TIME), [2]),
        (LessThan(("t",), TIME), [0]),
        (Not(EqualTo(("t",), TIME)), [0, 2]),
    ],
)
def test_pushed_filters_keep_rows_whose_microseconds_match(tmp_path, filters, ids):
    time = 1_700_000_000_000_000_000
    times = pa.array([time - HOUR, time + 500, time + HOUR], pa.timestamp("ns"))
    orcidx.write_table(pa.table({"id": [0, 1, 2], "t": times}), tmp_path / "a.orc")
    query = Query(path=str(tmp_path), format="orc")
    schema = begin_plan(query).schema
    reader = OrcidxReader(query, StructType.fromJson(schema), pushdown=True)
    reader.pushFilters([filters])
    where = reader._where(arrow_schema_of(schema))
    assert begin_plan(Query(path=str(tmp_path), format="orc", where=where)).rows.to_table()["id"].to_pylist() == ids


@pytest.mark.parametrize("session_zone", ["UTC", None])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (col("t") == TIME, [1]),
        (col("t") <= TIME, [0, 1]),
        (col("t") > TIME, [2]),
        (col("t") > TIME.replace(tzinfo=None), [2]),
        (col("t") < TIME, [0]),
        (col("t").is_in([TIME, None]), [1]),
        (col("t").between(TIME, TIME), [1]),
        (col("t") > np.datetime64("2023-11-14T22:13:20"), [2]),
        (col("t") > "2023-11-14T22:13:20Z", [2]),
        ([("t", "<=", pa.scalar(TIME, pa.timestamp("us", "UTC")))], [0, 1]),
        (col("t") == pa.scalar(1_700_000_000_000_000_500, pa.timestamp("ns", "UTC")), [1]),
    ],
)
def test_reads_by_tasks_compare_microseconds(tmp_path, where, ids, session_zone):
    write_times(tmp_path)
    plan = begin_plan(Query(path=str(tmp_path), format="orc", where=where, session_zone=session_zone))
    rows = plan.rows
    if plan.session is not None and plan.session.where is not None:
        rows = plan.session.on_clock(rows, "UTC")
    assert rows.to_table()["id"].to_pylist() == ids


def test_reads_of_tables_compare_microseconds(tmp_path):
    table = empty_table(tmp_path / "t", {"id": "BIGINT", "t": "TIMESTAMP(9)", "coarse": "TIMESTAMP(6)"})
    time = dt.datetime(2023, 11, 14, 22, 13, 20)
    times = pa.array([1_700_000_000_000_000_500], pa.timestamp("ns"))
    open_table(table).append(pa.table({"id": [1], "t": times, "coarse": pa.array([time], pa.timestamp("us"))}))

    def ids(where):
        return begin_plan(Query(path=str(table), where=where, jvm_zone="UTC")).rows.to_table()["id"].to_pylist()

    assert (ids(col("t") == time), ids(col("t") > time), ids(col("coarse") == time)) == ([1], [], [1])
