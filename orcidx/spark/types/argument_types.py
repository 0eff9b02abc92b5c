"""Types of the arguments of ``orcidx.spark``, and of objects from Spark's JVM."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.predicate import Predicate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from orcidx.paimon_table.table import Table

__all__ = [
    "ClusterBy",
    "Given",
    "JavaObject",
    "KeyFrames",
    "OnePath",
    "Paths",
    "Schema",
    "SortBy",
    "SparkWhere",
    "TableName",
]

OnePath: TypeAlias = str | os.PathLike[str]
"""A directory or URL."""
Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, directory, glob or URL prefix, or a list of these."""
Given: TypeAlias = str | Predicate | pc.Expression | Sequence[Any]
"""A condition in one of the forms that orcidx itself reads: SQL text, a predicate built with ``col``, a pyarrow
Expression, or a DNF list."""
SparkWhere: TypeAlias = "Given | Column"
"""``Given``, or a Column of Spark."""
Schema: TypeAlias = "StructType | pa.Schema | Mapping[str, Any] | str"
"""A schema: pyspark's, pyarrow's, Spark's JSON of a schema, or DDL text."""
SortBy: TypeAlias = str | Sequence[str | tuple[str, str]]
"""Names, or tuples (name, "descending")."""
ClusterBy: TypeAlias = str | Sequence[str]
KeyFrames: TypeAlias = "Mapping[str, DataFrame] | None"
"""For each column, the wanted keys as a DataFrame with one column."""
TableName: TypeAlias = "str | os.PathLike[str] | Table"
"""A Paimon table: its directory, or an open table."""
JavaObject: TypeAlias = Any
"""An object of the JVM. py4j looks up its members by name when they are used."""
