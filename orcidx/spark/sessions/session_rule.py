"""A rule of a Spark session's optimizer. The rule calls Python to find the files of each scan that have no matching
row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from orcidx.errors import Unsupported
from orcidx.spark.sessions.compiled_java import made
from orcidx.spark.sessions.served import text_from_java
from orcidx.spark.sessions.spark_session import is_connect, require_spark
from orcidx.spark.types.argument_types import JavaObject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ScanAnswers", "add_rule", "check_session", "has_rule", "remove_rule"]

_RULE = "IndexedFilesRule"
_ASKED = "java.util.function.BiFunction"


class ScanAnswers(Protocol):
    """The results that the rule needs from Python. Spark may call the methods from several threads."""

    def indexed(self, relations: str) -> str:
        """Returns the numbers of the relations of a query that may have an index, separated by commas. ``relations``
        has the directories of each relation."""

    def skipped_files(self, question: str, listing: Callable[[], str]) -> str:
        """Returns the numbers of the files that a scan skips, separated by commas. ``listing`` is a function that
        returns the text of the scan's files."""


class _Callback:
    """The object that Java calls, with one method for two purposes. While a query is planned, Java passes the
    directories of the query's relations, without a listing. When a scan lists its files, Java passes the listing and
    the facts about the scan, such as the filters."""

    def __init__(self, answers: ScanAnswers) -> None:
        self._answers = answers

    def apply(self, question: str | JavaObject, listing: JavaObject | None) -> str:
        text = text_from_java(question)
        if listing is None:
            return self._answers.indexed(text)
        return self._answers.skipped_files(text, lambda: text_from_java(listing.get()))

    class Java:
        implements = (_ASKED,)


def check_session(spark: SparkSession) -> None:
    """Raises ``Unsupported`` for a session without an optimizer in this process."""
    require_spark()
    if is_connect(spark):
        raise Unsupported(
            "this process cannot change the optimizer of a Spark Connect server; use a classic session, or read with "
            "orcidx.spark.read"
        )


def has_rule(spark: SparkSession) -> bool:
    """Whether the session's optimizer has the rule."""
    rules = _experimental(spark).extraOptimizations()
    return any(_is_own(rules.apply(number)) for number in range(rules.size()))


def add_rule(spark: SparkSession, answers: ScanAnswers) -> None:
    """Adds a rule to the optimizer. ``answers`` has methods that return which relations of a query may have an index,
    and which files the scans of these relations skip."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    try:
        ensure_callback_server_started(gateway)
    except OSError as error:
        raise Unsupported(f"Spark cannot call Python, because no port of this machine can be bound: {error}") from None
    rule = made(gateway, _RULE)
    rule.setAsked(_Callback(answers))
    _set_rules(spark, rule)


def remove_rule(spark: SparkSession) -> None:
    """Removes the rule from the optimizer. Other rules stay."""
    _set_rules(spark, None)


def _experimental(spark: SparkSession) -> Any:
    return spark._jsparkSession.experimental()


def _is_own(rule: JavaObject) -> bool:
    return bool(rule.getClass().getName() == _RULE)


def _set_rules(spark: SparkSession, added: JavaObject | None) -> None:
    found = _experimental(spark).extraOptimizations()
    rules = spark._jvm.scala.collection.mutable.ArrayBuffer()
    append = getattr(rules, "$plus$eq")
    for number in range(found.size()):
        if not _is_own(found.apply(number)):
            append(found.apply(number))
    if added is not None:
        append(added)
    getattr(_experimental(spark), "extraOptimizations_$eq")(rules.toSeq())
