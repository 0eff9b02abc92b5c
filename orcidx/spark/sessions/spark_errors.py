"""Converts errors of Spark to messages of one sentence. The errors come from Spark's analysis, or from jobs that Spark
runs while it makes a relation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from orcidx.errors import InvalidQuery

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Column

    from orcidx.spark.types.argument_types import JavaObject

__all__ = ["raised_as_invalid_query", "sentence_of", "spark_errors", "unknown_column"]


def spark_errors() -> tuple[type[Exception], ...]:
    """The errors that Spark raises when it makes a DataFrame."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:  # e.g. in a client of Spark Connect
        return (PySparkException,)
    return PySparkException, Py4JJavaError


def sentence_of(error: BaseException) -> str:
    """The first line of the error's message. For an error that comes from Java, this is the message of the Java
    exception, without the stack trace."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage() or java.toString())
    return next(iter(text.strip().splitlines()), type(error).__name__).rstrip("; ")


def unknown_column(error: PySparkException) -> str | None:
    """The column that Spark does not find. The result is None for any other error."""
    condition = getattr(error, "getCondition", None) or error.getErrorClass
    if not str(condition() or "").startswith("UNRESOLVED_COLUMN"):
        return None
    named = (error.getMessageParameters() or {}).get("objectName")
    return None if named is None else str(named).strip("`").replace("`.`", ".").replace("``", "`")


@contextmanager
def raised_as_invalid_query(condition: Column | JavaObject | str, verb: str) -> Iterator[None]:
    """Raises Spark's errors about a condition as ``InvalidQuery``. ``verb``: what Spark cannot do with the condition,
    such as "compute". The text of the condition is fetched only for the message, because fetching it may take a round
    trip to the JVM."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = f"Spark does not {verb} where={str(condition)!r:.200}: {sentence_of(error)}"
        raise InvalidQuery(text, column=unknown_column(error)) from None
