"""``where_in``: keeps the rows whose keys are in a small DataFrame. The keys are collected once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate import Leaf, Op, Predicate, all_of
from orcidx.spark.sessions.arrow_tables import frame_of, table_of
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.argument_types import KeyFrames
from orcidx.spark.types.column_names import quoted
from orcidx.spark.types.spark_types import arrow_schema_of, struct_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MOST_KEYS", "Keys", "keys_of", "pruning_by", "restricted_to"]

MOST_KEYS = 100_000
"""The maximum number of keys that are looked up one by one. For more keys only their range is used."""
SMALL_BYTES = 16 << 20
"""The largest size in bytes, by Spark's estimate, of a frame whose keys are collected without a shuffle. Spark's
``distinct`` is a job of two stages with a shuffle. It took 280 ms for 100 keys, and collecting the same keys took
80 ms."""
_NARROW = ("Project", "Filter")
_MEASURED = ("LocalRelation", "InMemoryRelation", "Range")
"""Kinds of plans without inputs. Spark knows how many rows such a plan has. For files, Spark knows the stored bytes.
For other plans, Spark guesses the size."""
_STORED, _OF_PYTHON = "LogicalRelation", "LogicalRDD"
_TYPES = ("byte", "short", "integer", "long", "string", "date")


@dataclass(frozen=True)
class Keys:
    """The distinct keys of a column, in the column's own type. No key is null."""

    column: str
    values: pa.Array

    @property
    def pruning(self) -> Predicate:
        """A predicate that is true for every row with one of the keys."""
        if len(self.values) <= MOST_KEYS:
            return Leaf((self.column,), Op.IN, tuple(self.values))
        ends = pc.min_max(self.values)
        return Leaf((self.column,), Op.BETWEEN, (ends["min"], ends["max"]))

    @property
    def note(self) -> str:
        """The text about the keys, as ``why`` shows it."""
        how = "" if len(self.values) <= MOST_KEYS else ", too many to look up each key, so only their range is used"
        return f"{len(self.values):,} keys of {self.column}{how}"


def keys_of(where_in: KeyFrames, relation: DataFrame, *, case_sensitive: bool) -> tuple[Keys, ...]:
    """Evaluates the DataFrames. Each DataFrame has one column. Raises ``InvalidQuery`` if the type of this column is
    not exactly that of the relation's column, or if readers and indexes may compare values of this type differently."""
    if where_in is None:
        return ()
    if not isinstance(where_in, Mapping):
        raise InvalidQuery('where_in must be a mapping: {"column": a DataFrame with the keys}')
    fields = {one.name if case_sensitive else one.name.casefold(): one for one in relation.schema.fields}
    found = []
    for name, frame in where_in.items():
        field = fields.get(name if case_sensitive else str(name).casefold())
        if field is None:
            raise InvalidQuery(
                f"where_in: the schema has no column {name!r}; the columns are {', '.join(relation.columns)}",
                column=name,
            )
        if not hasattr(frame, "schema") or len(getattr(frame, "columns", ())) != 1:
            raise InvalidQuery(
                "where_in needs a DataFrame with a single column, which has the keys: select this column", column=name
            )
        kind, own = field.dataType.jsonValue(), frame.schema.fields[0].dataType.jsonValue()
        if kind not in _TYPES or field.metadata:
            raise InvalidQuery(
                f"where_in does not support keys of type {field.dataType.simpleString()}: use a join instead",
                column=name,
            )
        if own != kind:
            own_name, wanted = frame.schema.fields[0].dataType.simpleString(), field.dataType.simpleString()
            raise InvalidQuery(
                f"the keys have the type {own_name}, but the column has {wanted}: cast the keys", column=name
            )
        arrow = arrow_schema_of(struct_json([("key", kind)]))
        found.append(Keys(field.name, _taken(frame, arrow)))
    return tuple(found)


def _taken(frame: DataFrame, schema: pa.Schema) -> pa.Array:
    """The distinct keys that are not null. Three kinds of frames need no shuffle. A frame that is known to be small is
    collected directly. Small files are read by one task. For rows from Python, each task removes its own duplicates."""
    keys = frame.toDF("key").where("key IS NOT NULL")
    leaf, size, is_counted = _leaf_of(keys)
    if is_counted and size <= SMALL_BYTES:
        found = table_of(keys, schema)["key"]
    elif leaf == _STORED and size <= SMALL_BYTES:
        found = table_of(keys.coalesce(1).distinct(), schema)["key"]
    elif leaf == _OF_PYTHON:
        from pyspark.sql.pandas.types import from_arrow_schema

        once = keys.mapInArrow(partial(_distinct_keys, schema=schema, most=MOST_KEYS), from_arrow_schema(schema))
        found = table_of(once, schema)["key"]
        if found.null_count:
            found = table_of(keys.distinct(), schema)["key"]
    else:
        found = table_of(keys.distinct(), schema)["key"]
    return pc.unique(found)


def _leaf_of(frame: DataFrame) -> tuple[str, int, bool]:
    """Finds the single plan whose rows contain all rows of a frame. Returns the kind of the plan, the plan's size in
    bytes by Spark's estimate, and whether Spark counted this size. The kind is an empty text if there is no such
    plan."""
    if is_connect(frame.sparkSession):
        return "", 0, False
    plan = frame._jdf.queryExecution().optimizedPlan()  # the job uses the same plan
    node = plan
    while (name := node.getClass().getSimpleName()) in _NARROW:
        node = node.child()
    if name not in (*_MEASURED, _STORED, _OF_PYTHON):
        return "", 0, False
    stats = node.stats()
    # For some nodes of the type ``_OF_PYTHON``, for example checkpoints, Spark has counted the rows. Then the size is
    # exact.
    is_counted = name in _MEASURED or (name == _OF_PYTHON and stats.rowCount().isDefined())
    return name, int(str(stats.sizeInBytes())), is_counted


def _distinct_keys(batches: Iterator[pa.RecordBatch], schema: pa.Schema, most: int) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the distinct keys of one task. If a task has more than ``most`` keys, the output is a single
    null."""
    seen = pa.array([], schema.field("key").type)
    for batch in batches:
        if len(seen) <= most:  # all batches must be taken from Spark, even if they are ignored
            seen = pc.unique(pa.concat_arrays([seen, batch.column(0).cast(seen.type)]))
    yield pa.RecordBatch.from_arrays([seen if len(seen) <= most else pa.nulls(1, seen.type)], schema=schema)


def pruning_by(keys: tuple[Keys, ...]) -> Predicate:
    """A predicate for skipping files. It is true for every row that has one of the wanted keys in each key column."""
    whole: Predicate = all_of(*(one.pruning for one in keys))
    return whole


def restricted_to(spark: SparkSession, frame: DataFrame, keys: tuple[Keys, ...]) -> DataFrame:
    """The rows of a DataFrame in which every key column has one of its keys."""
    from pyspark.sql import functions as F

    for one in keys:
        small = frame_of(spark, pa.table({"orcidx key": one.values}))
        frame = frame.join(F.broadcast(small), F.col(quoted(one.column)) == F.col("`orcidx key`"), "left_semi")
    return frame
