"""Determines which files can be skipped with Spark Connect. Spark Connect returns neither an analysed expression nor a
listing.

Spark analyses a condition when the DataFrame runs, with the session's settings at that time. So a condition skips files
only if orcidx can parse the condition, and if the literals have exactly the columns' types. A condition on times skips
a file only if the file has no matching row in any time zone that the session may have. The client and the server may
see different files under the same path. So a file is skipped only if the server's file has the same size and time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, bind, resolve_column
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import Part, conjuncts, rewritten
from orcidx.spark.conditions.floored_times import in_micros
from orcidx.spark.conditions.listed_files import Listing
from orcidx.spark.conditions.query_text import may_mean_otherwise
from orcidx.spark.conditions.relation import paths_of
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.literal_values import TRUSTED_DAYS
from orcidx.spark.types.spark_columns import is_exact_in_spark
from orcidx.spark.types.spark_types import arrow_schema_of, collated
from orcidx.storage import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


__all__ = ["certain_predicate", "listing_of_client", "listing_of_server"]

_ANY = Constant(True)
_OPS = frozenset(
    {Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.BETWEEN, Op.IS_NULL, Op.EQ_NULL_SAFE, Op.STARTS_WITH, Op.ENDS_WITH,
     Op.CONTAINS}
)  # fmt: skip
_NANOS = tuple((day - dt.date(1970, 1, 1)).days * 86_400_000_000_000 for day in TRUSTED_DAYS)
_KINDS = ("path", "hadoop")
"""The kinds of sources whose names also occur in Spark's listing. Spark writes "file:" before a local path."""


def certain_predicate(query: Query, schema: StructType) -> Predicate:
    """A predicate that is true for every row for which the condition of a query is true, whatever the session's
    settings are when the DataFrame runs.

    ``schema``: the relation's ``StructType``. For a Column, and for a text that orcidx cannot parse, the predicate is
    just True, which skips nothing."""
    where = query.where
    if where is None or hasattr(where, "cast") or (isinstance(where, str) and may_mean_otherwise(where)):
        return _ANY
    apart = collated(schema) | {one.name for one in schema.fields if one.metadata}
    arrow = arrow_schema_of(schema.jsonValue())
    try:
        asked = query.on_any_clock(arrow) if isinstance(where, str) else query.predicate(arrow)
    except InvalidQuery:
        return _ANY
    if asked is None:
        return _ANY
    certain = [rewritten(one, lambda part: _certain_part(part, arrow, apart, query)) for one in conjuncts(asked)]
    found: Predicate = rewritten(all_of(*(one for one in certain if one is not None)), in_micros)
    return found


def _certain_part(node: Part, schema: pa.Schema, apart: frozenset[str], query: Query) -> Predicate | None:
    """A part of a predicate, with its column spelled as in the schema. The result is None if Spark may interpret the
    part differently."""
    if isinstance(node, Constant):
        return node
    if not isinstance(node, Leaf) or node.op not in _OPS:
        return None
    try:
        path, kind = resolve_column(node.path, schema, case_sensitive=query.case_sensitive)
        bind(node, schema, nan=query.options.nan, case_sensitive=query.case_sensitive)
    except InvalidQuery:
        return None
    if len(path) > 1 or path[0] in apart or not all(_fits(value, kind) for value in node.literals):
        return None
    return Leaf((path[0],), node.op, node.literals, node.negated)


def _fits(value: Any, kind: pa.DataType) -> bool:
    if not is_exact_in_spark(value, kind):
        return False
    if pa.types.is_decimal(
        kind
    ):  # if the value has more digits than the column, Spark may round both before it compares them
        digits, scale = value.as_tuple().digits, -value.as_tuple().exponent
        return bool(scale <= kind.scale and len(digits) - scale <= kind.precision - kind.scale)
    if isinstance(value, ExactTime):
        return bool(_NANOS[0] < value.nanos < _NANOS[1])
    return not isinstance(value, dt.date) or value >= TRUSTED_DAYS[0]


# ---------------------------------------------------------------------- files


def listing_of_client(sources: Sequence[Source]) -> Listing:
    """Makes a listing of the files that the client sees. The server's listing (``listing_of_server``) is needed only if
    some of these files can be skipped."""
    known = [one for one in sources if one.kind in _KINDS and one.listed is not None and one.listed.mtime is not None]
    versions = [one.listed for one in known if one.listed is not None]
    return Listing(
        tuple(f"file:{one.location}" if one.kind == "path" else str(one.location) for one in known),
        np.array([one.size for one in versions], np.int64),
        np.array([(one.mtime or 0) // 1_000_000 for one in versions], np.int64),
    )


def listing_of_server(spark: SparkSession, path: str | Sequence[str], options: Mapping[str, str]) -> Listing:
    """Lists the files with their sizes and times by one job on the server. The job does not open the files."""
    reader = spark.read.format("binaryFile").options(**{k: v for k, v in options.items() if k != "mergeSchema"})
    found = reader.load(paths_of(path)).selectExpr("path", "length", "unix_millis(modificationTime) AS time")
    rows = found.collect()
    return Listing(
        tuple(row.path for row in rows),
        np.array([row.length for row in rows], np.int64),
        np.array([row.time for row in rows], np.int64),
    )
