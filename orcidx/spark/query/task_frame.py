"""Makes the DataFrame whose rows are read by the tasks of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orcidx.scanner.top_rows import SortKey
from orcidx.spark.query.parts import TaskPart
from orcidx.spark.query.plan import Plan
from orcidx.spark.query.read_task import ROW, TASK, ReadTasks
from orcidx.spark.sessions.hadoop_files import shipped
from orcidx.spark.types.column_names import quoted
from orcidx.spark.types.spark_types import width_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["frame_of_tasks", "sort_column"]

_ROW_BYTES, _NUMBER_BYTES = 8, 8
"""The bytes that Catalyst adds to each row (EstimationUtils.getSizePerRow), and the bytes that it assumes for each
number of ``spark.range``."""


def frame_of_tasks(spark: SparkSession, plan: Plan, tasks: list[bytes], parts: Sequence[TaskPart]) -> DataFrame:
    """Returns the rows of a plan in its columns, order and limit. ``tasks``: the pickled tasks."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType.fromJson(plan.schema)
    if plan.order:
        schema = StructType([*schema.fields, StructField(TASK, IntegerType()), StructField(ROW, IntegerType())])
    if tasks:
        numbers, stride = _numbers(spark, len(tasks), _claimed_bytes(plan, parts))
        frame = numbers.mapInArrow(shipped(ReadTasks(tuple(tasks), stride), plan.query.reached), schema)
    else:
        frame = spark.createDataFrame([], schema).limit(0)  # with limit(0), Catalyst knows that the frame is empty
    if plan.order:
        keys = [sort_column(frame[quoted(key.column)], key) for key in plan.order]
        frame = frame.orderBy(*keys, frame[quoted(TASK)], frame[quoted(ROW)])
    if plan.query.limit is not None:
        frame = frame.limit(plan.query.limit)
    stored = schema.names[: len(plan.columns)]
    if stored == schema.names and stored == list(plan.columns):
        return frame
    return frame.select(*(frame[quoted(one)].alias(name) for one, name in zip(stored, plan.columns)))


def _claimed_bytes(plan: Plan, parts: Sequence[TaskPart]) -> int:
    """The size that is passed to Catalyst for the rows. It is the larger of two numbers. One is the number of stored
    bytes that are read. The other is the number of rows, as far as it is known, times the bytes that Catalyst assumes
    for a row."""
    stored, rows = sum(part.size for part in parts), sum(part.rows or 0 for part in parts)
    return max(stored, rows * (_ROW_BYTES + width_of(plan.schema)))


def _numbers(spark: SparkSession, count: int, size: int) -> tuple[DataFrame, int]:
    """A relation with one row in each of ``count`` partitions, for which Catalyst estimates ``size`` bytes. The value
    of the row is the partition's number times a stride. The stride is returned as well.

    Catalyst assumes that the output of a Python function is as large as its input. If the input were a few rows, one
    for each task, Catalyst would broadcast the millions of rows that the tasks read. Here the input is a filtered
    range. Catalyst estimates the size of a range before the filter, as eight bytes per number. Making a number of the
    range takes a nanosecond. The plan must have no shuffle between the range and the function, because after a shuffle
    Catalyst knows the actual size of the input, which is small.
    """
    stride = max(1, -(-size // (_NUMBER_BYTES * count)))
    numbers = spark.range(0, count * stride, 1, count)
    return (numbers if stride == 1 else numbers.where(f"id % {stride} = 0")), stride


def sort_column(column: Column, key: SortKey) -> Column:
    """Returns Spark's sort expression of a sort key: ascending or descending, with nulls first or last."""
    direction = "desc" if key.descending else "asc"
    sorted_column: Column = getattr(column, f"{direction}_nulls_{'first' if key.nulls_first else 'last'}")()
    return sorted_column
