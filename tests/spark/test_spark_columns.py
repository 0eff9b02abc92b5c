"""Predicates that are converted to Columns of Spark. Only predicates that Spark compares exactly are converted."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from orcidx import col
from orcidx.predicate import Predicate
from orcidx.spark.types.spark_columns import spark_column

pytestmark = pytest.mark.java

SCHEMA = pa.schema([("wide", pa.decimal128(38, 0)), ("fine", pa.decimal128(38, 18)), ("five", pa.decimal128(5, 0))])


def test_decimals_that_spark_would_round_are_no_columns(spark: Any) -> None:
    """Spark's decimals have at most 38 digits. For example, to compare 0.0000001 with a DECIMAL(38, 0), Spark rounds it
    to 0. Such predicates must not be converted."""
    rounded: list[Predicate] = [
        col("wide") != Decimal("1E-7"),
        col("wide").is_in([Decimal("1E-7"), Decimal(1)]),
        col("fine").is_in([Decimal("1E+37"), Decimal(1)]),
        col("five").is_in([Decimal("1E+36"), Decimal("0.01")]),
        col("five") < Decimal("1E+40"),
        col("five") > Decimal("1E-40"),
        col("five") > Decimal("1.0500000000000000000000000000000000000000001"),
    ]
    for where in rounded:
        assert spark_column(where, SCHEMA, case_sensitive=True) is None, where
    exact: list[Predicate] = [
        col("wide") < Decimal("1E+37"),
        col("fine") == Decimal("1.05"),
        col("five") == Decimal("1.255"),
        col("five").is_in([Decimal("1E+30"), Decimal("0.01")]),
    ]
    for where in exact:
        assert spark_column(where, SCHEMA, case_sensitive=True) is not None, where


def test_dates_of_every_year_are_the_same_days_in_spark(spark: Any) -> None:
    """Spark's ``lit`` cannot be used, because it raises an error for years before 1000, and moves days that the Julian
    calendar skipped."""
    days = [dt.date(1, 1, 1), dt.date(999, 2, 28), dt.date(1582, 10, 10), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
    frame = spark.createDataFrame([(str(day),) for day in days], "text STRING").selectExpr("CAST(text AS DATE) AS day")
    for number, day in enumerate(days):
        where = spark_column(col("day") == day, pa.schema([("day", pa.date32())]), case_sensitive=True)
        assert where is not None
        frame = frame.withColumn(f"is_{number}", where)
    found = [list(row)[1:] for row in frame.drop("text").collect()]
    assert found == [[number == place for number in range(len(days))] for place in range(len(days))]
