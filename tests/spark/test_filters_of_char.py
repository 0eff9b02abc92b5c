"""Spark compares the padded values of CHAR columns, so pushed filters must keep values that differ only in trailing
spaces."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

import orcidx
from orcidx.spark.query.data_source import OrcidxReader
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.spark_types import arrow_schema_of

COLUMN = ("c",)


@pytest.mark.parametrize(
    ("filters", "needed"),
    [
        (Not(EqualTo(COLUMN, "ab")), {0, 1, 3, 4, 5}),
        (Not(EqualNullSafe(COLUMN, "ab")), {0, 1, 2, 3, 4, 5}),
        (Not(In(COLUMN, ("ab", "x"))), {0, 1, 3, 4, 5}),
        (GreaterThan(COLUMN, "ab"), {0, 1, 3, 4}),
        (LessThan(COLUMN, "ab  "), {5}),
        (StringStartsWith(COLUMN, "ab "), {0, 4}),
        (StringEndsWith(COLUMN, " "), {0, 3, 4}),
        (StringContains(COLUMN, "b "), {0, 3, 4}),
        (EqualTo(COLUMN, "ab  "), {0, 4}),
        (IsNotNull(COLUMN), {0, 1, 3, 4, 5}),
    ],
)
def test_pushed_filters_keep_rows_whose_padded_values_match(tmp_path, filters, needed):
    texts = ["ab", "abcd", None, "b", "ab ", "ab\x01"]
    orcidx.write_table(pa.table({"id": range(6), "c": texts}), tmp_path / "a.orc", types={"c": "char(4)"})
    query = Query(path=str(tmp_path), format="orc")
    schema = begin_plan(query).schema
    reader = OrcidxReader(query, StructType.fromJson(schema), pushdown=True)
    reader.pushFilters([filters])
    where = reader._where(arrow_schema_of(schema))
    rows = begin_plan(Query(path=str(tmp_path), format="orc", where=where)).rows.to_table()
    assert needed <= set(rows["id"].to_pylist())
    if isinstance(filters, EqualTo):
        assert rows.num_rows == 2
