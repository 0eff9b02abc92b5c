"""Converts Arrow tables to DataFrames and back. Spark does this itself since 4.0. For earlier versions, this module
converts row by row.

This module is for the small tables of a job (files, tasks, reports). The columns of these tables are numbers, strings,
bytes, and lists and structs of such values. Rows of data pass between Spark and Python as Arrow batches in every
version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from orcidx.spark.sessions.spark_session import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frame_of", "table_of"]

SPEAKS_ARROW = (4, 0)
"""The first version of Spark with ``toArrow``, and with a ``createDataFrame`` that accepts Arrow tables."""


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame of the rows."""
    if spark_version() >= SPEAKS_ARROW:
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = list(zip(*(column.to_pylist() for column in table.columns)))
    return spark.createDataFrame(rows, from_arrow_schema(table.schema))


def table_of(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """The rows of a DataFrame that has the columns of ``schema``, converted to the types of ``schema``."""
    if spark_version() >= SPEAKS_ARROW:
        return frame.toArrow().select(schema.names).cast(schema)
    return pa.Table.from_pylist([row.asDict(recursive=True) for row in frame.collect()], schema=schema)
