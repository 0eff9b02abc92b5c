"""The text of a condition with Spark's meaning. Spark analyses the text, and orcidx converts as much of it as possible
to predicates.

orcidx's own SQL differs from Spark's. In Spark, a backslash is an escape character, "A" is a string, and functions,
types and settings are Spark's own. So if a session can analyse the text, orcidx does not parse it. orcidx's tasks test
the part of the analysed tree that is a predicate of orcidx. If this part is not the whole condition, Spark applies its
own filter to the result, and a delete with this condition is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orcidx.errors import InvalidQuery
from orcidx.predicate import Predicate
from orcidx.predicate.fold import rewritten
from orcidx.spark.conditions.analysed_conditions import pushed_predicate
from orcidx.spark.conditions.floored_times import in_micros
from orcidx.spark.conditions.query_text import parse_text
from orcidx.spark.sessions.spark_errors import raised_as_invalid_query
from orcidx.spark.sessions.spark_session import is_connect
from orcidx.spark.types.argument_types import SparkWhere
from orcidx.spark.types.spark_types import collated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


__all__ = ["PushedCondition", "TextCondition", "as_in_spark", "filtered_by", "predicate_of_text"]


@dataclass(frozen=True)
class PushedCondition:
    """The predicate that orcidx evaluates for the text of a condition.

    ``where``: a predicate that is true for every row for which the text is true. ``exact``: whether the predicate is
    true only for these rows. ``columns``: the columns that the text names, or None if Spark does not give them.
    ``chars``: the CHAR columns among them. ``of_files``: whether the text uses the file that Spark's reader is
    reading."""

    where: Predicate
    exact: bool
    columns: frozenset[str] | None
    chars: frozenset[str] = frozenset()
    of_files: bool = False


@dataclass
class TextCondition:
    """A text with Spark's meaning. It is analysed with the schema of the files, as soon as this schema is known.

    ``clock_zone``: the JVM's time zone. ``once``: True if the condition is used in a single action. Then functions of
    the current time have their present value. ``on_connect``: a function that makes the predicate from Spark's schema.
    It is used with Spark Connect, which does not return analysed expressions."""

    spark: SparkSession
    text: str
    clock_zone: str
    once: bool = False
    on_connect: Callable[[StructType], Predicate] | None = field(default=None, repr=False)
    _found: dict[str, PushedCondition] = field(default_factory=dict, repr=False)

    def pushed(self, schema: Mapping[str, Any]) -> PushedCondition:
        """The part of the condition that orcidx can test. ``schema``: Spark's schema as JSON. Raises ``InvalidQuery``
        for a text that Spark cannot interpret."""
        from pyspark.sql.types import StructType

        key = str(schema)
        if key not in self._found:
            struct = StructType.fromJson(dict(schema))
            self._found[key] = self._on_connect(struct) if is_connect(self.spark) else self._analysed(struct)
        return self._found[key]

    @property
    def last(self) -> PushedCondition:
        """The last result of ``pushed``."""
        return next(reversed(self._found.values()))

    def _analysed(self, schema: StructType) -> PushedCondition:
        filtered = filtered_by(self.spark.createDataFrame([], schema), self.text)
        names = frozenset(schema.fieldNames())
        may, exact, columns, of_files = pushed_predicate(
            filtered, names, self.clock_zone, collated=collated(schema), once=self.once
        )
        chars = frozenset(one.name for one in schema.fields if one.metadata)
        return PushedCondition(rewritten(may, in_micros), exact, columns, chars & columns, of_files)

    def _on_connect(self, schema: StructType) -> PushedCondition:
        filtered_by(self.spark.createDataFrame([], schema), self.text)
        assert self.on_connect is not None
        return PushedCondition(self.on_connect(schema), False, None)


def as_in_spark(
    spark: SparkSession, where: SparkWhere, clock_zone: str, *, once: bool = False
) -> SparkWhere | TextCondition:
    """Gives a text the meaning that it has in Spark. Any other condition is returned unchanged. With Spark Connect, a
    text is returned unchanged, too."""
    is_text = isinstance(where, str) and not is_connect(spark)
    return TextCondition(spark, str(where), clock_zone, once=once) if is_text else where


def predicate_of_text(condition: TextCondition, schema: Mapping[str, Any]) -> Predicate:
    """The whole text as a predicate. Raises ``InvalidQuery`` if orcidx can test only a part of the text."""
    if is_connect(condition.spark):
        # Spark Connect gives no analysed tree. So texts that Spark may interpret differently are refused.
        return parse_text(condition.text)
    found = condition.pushed(schema)
    if not found.exact:
        raise InvalidQuery(
            f"orcidx cannot convert all of {condition.text!r:.200} to predicates with the same meaning as in Spark, "
            "so nothing is deleted: use only comparisons of columns with constants, or give a predicate of orcidx.col"
        )
    return found.where


def filtered_by(frame: DataFrame, condition: Column | str) -> DataFrame:
    """Filters a frame. Raises ``InvalidQuery`` for a condition that Spark cannot interpret."""
    with raised_as_invalid_query(condition, "understand"):
        filtered = frame.where(condition)
        if is_connect(frame.sparkSession):
            filtered.schema  # noqa: B018  (Spark Connect analyses the condition when the schema is requested)
    return filtered
