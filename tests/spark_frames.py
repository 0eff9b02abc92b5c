"""Converts Arrow tables to DataFrames and back. Spark 3.5 has no public function for this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet


def collected(frame: Any) -> pa.Table:
    """Returns ``frame.toArrow()``, also on Spark 3.5."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else to_arrow_schema(frame.schema))


def frame_from(spark: Any, table: pa.Table, scratch: Path) -> Any:
    """Returns ``spark.createDataFrame(table)``. On Spark 3.5, it uses a Parquet file in ``scratch``."""
    if hasattr(type(spark.range(0)), "toArrow"):
        return spark.createDataFrame(table)
    pa.parquet.write_table(table, scratch / "frame.parquet")
    return spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(scratch / "frame.parquet"))
