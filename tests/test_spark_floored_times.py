"""Spark truncates nanoseconds to microseconds before it compares, so its conditions must not lose rows."""

import datetime as dt

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan, LessThanOrEqual, Not
from pyspark.sql.types import StructType

import orcidx
from orcidx.spark.query.data_source import OrcidxReader
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.spark_types import arrow_schema_of

TIME = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
HOUR = 3600 * 10**9


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
