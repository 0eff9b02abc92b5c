"""Makes Spark's relation of a query, the query's condition in Spark's form, and the part of this condition that can
skip files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orcidx.errors import InvalidQuery
from orcidx.predicate import Constant, all_of, bind
from orcidx.spark.choosing.choice import Unreadable
from orcidx.spark.choosing.connect_pruning import certain_predicate
from orcidx.spark.choosing.schema_differences import without_common_schema
from orcidx.spark.conditions.analysed_conditions import Condition, analysed
from orcidx.spark.conditions.key_frames import Keys, pruning_by
from orcidx.spark.conditions.relation import Relation, relation_of
from orcidx.spark.conditions.text_conditions import filtered_by
from orcidx.spark.query.read_query import Query
from orcidx.spark.sessions.spark_errors import sentence_of, spark_errors
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.spark_columns import spark_column
from orcidx.spark.types.spark_types import arrow_schema_of, collated
from orcidx.spellings import nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "as_column",
    "check_asked_columns",
    "condition_of_query",
    "make_relation",
    "needed_columns",
    "with_condition",
    "with_keys",
]


def make_relation(spark: SparkSession, query: Query) -> Relation:
    try:
        found = relation_of(
            spark, query.path, query.schema, options=query.reader_options, table=query.table, at=query.at
        )
        if is_connect(spark):
            found.frame.schema  # noqa: B018  (Spark Connect examines the files when the schema is requested)
    except spark_errors() as error:
        if query.reader_options.get("mergeSchema") == "true" and (text := without_common_schema(query)):
            raise InvalidQuery(text) from None
        raise Unreadable(sentence_of(error)) from error
    return found


def as_column(relation: Relation, query: Query) -> Column:
    """The query's predicate as a condition of Spark. Raises ``Unreadable`` if Spark cannot express the predicate."""
    schema = arrow_schema_of(relation.frame.schema.jsonValue())
    where = query.predicate(schema)
    assert where is not None
    bind(where, schema, nan=query.options.nan, case_sensitive=query.case_sensitive)
    column = spark_column(where, schema, case_sensitive=query.case_sensitive)
    if column is None:
        raise Unreadable("no condition of Spark has the same meaning as the predicate in where=")
    return column


def with_condition(frame: DataFrame, condition: Column | str | None) -> DataFrame:
    return frame if condition is None else filtered_by(frame, condition)


def condition_of_query(relation: Relation, query: Query, filtered: DataFrame) -> Condition:
    """The part of the condition that can skip files, and the columns that the condition names."""
    columns = frozenset(relation.frame.columns)
    if query.where is None:
        return Condition(Constant(True), frozenset())
    schema = relation.frame.schema
    if not is_connect(relation.spark):
        return analysed(filtered, columns, collated=collated(schema))
    may = certain_predicate(query, schema)
    if may == Constant(True):
        return Condition(
            may, columns, "Spark Connect does not show how Spark interprets it, and orcidx may interpret it differently"
        )
    return Condition(may, columns)


def with_keys(asked: Condition, keys: tuple[Keys, ...]) -> Condition:
    """Combines the condition and the keys. If the condition cannot be evaluated, the keys can still skip files."""
    untestable = asked.untestable if asked.obstacle is None else (asked.obstacle,)
    columns = asked.columns | {one.column for one in keys}
    return Condition(all_of(asked.may, pruning_by(keys)), columns, untestable=untestable)


def needed_columns(relation: Relation, asked: Condition, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of the relation that are read: the columns of the result and of the condition."""
    wanted = {one.casefold() for one in (*(columns or relation.frame.columns), *asked.columns)}
    return tuple(name for name in relation.frame.columns if name.casefold() in wanted)


def check_asked_columns(query: Query, frame: DataFrame) -> None:
    """Raises ``InvalidQuery`` for an unknown column. The message has the most similar name."""
    if not query.columns:  # the schema comes from the JVM as a long text, so it is not fetched here
        return
    names = frame.columns
    known = {query.folded(name) for name in names}
    for one in query.columns:
        if query.folded(one) not in known:
            near = nearest(one, names)
            hint = f"did you mean {near!r}?" if near else f"the columns are {', '.join(names[:20])}"
            raise InvalidQuery(f"the schema has no column {one!r}; {hint}", column=one)
