"""The differences between Spark's interpretation of a condition's text and orcidx's own SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.extras import needed
from orcidx.predicate import External, Leaf, Op, Predicate, any_of, parse, resolve_column
from orcidx.predicate.fold import Part, parts, rewritten
from orcidx.spark.types.argument_types import SparkWhere

__all__ = ["check_computed", "may_mean_otherwise", "parse_text"]

_ESCAPED = re.compile(r"[\"\\]|\$\{")
_MARKED = re.compile(r"'\s*'|(?<!\w)[A-WYZa-wyz]&?'|--|/\*")


def may_mean_otherwise(text: str) -> bool:
    """Whether Spark may interpret a text differently from orcidx's SQL. The meaning of some parts of a text depends on
    Spark's version and settings. These parts are double quotes, escapes, quotes in a string, adjacent strings, strings
    with a prefix such as raw strings, comments, and variables (``${name}``). Spark replaces variables within strings as
    well."""
    return _ESCAPED.search(text) is not None or _MARKED.search(re.sub(r"'[^']*'", "'", text)) is not None


_ALIKE = frozenset(
    {"add", "subtract", "multiply", "divide", "cast", "utf8_length", "binary_length", "negate", "invert", "is_null"}
    | {"add_checked", "subtract_checked", "multiply_checked", "divide_checked", "negate_checked", "invert_kleene"}
)
"""pyarrow's functions with the same results as Spark's. Other functions differ. For example, pyarrow's trim removes all
white space, and pyarrow's round rounds half to even."""


def parse_text(where: SparkWhere) -> Predicate:
    """Parses a text like ``parse``, but with Spark's meaning: isnan(NULL) is false, so its negation is true for nulls.

    Raises ``InvalidQuery`` for a text that Spark may interpret differently. A delete with the text 'a\\b' in its
    condition was once executed with orcidx's meaning, and deleted the wrong rows.
    """
    if isinstance(where, str) and may_mean_otherwise(where):
        raise InvalidQuery(
            f"{where!r:.200}: Spark has its own rules for double quotes, backslashes, quotes within a string, strings "
            "with a prefix and ${variables}, and orcidx does not know them; give the condition as an orcidx.col "
            "predicate, or apply it to the DataFrame with filter()"
        )
    if not isinstance(where, str):
        return parse(where)
    with needed("sqlglot"):
        from orcidx.predicate.sql_text import from_sql

    found: Predicate = rewritten(from_sql(where, dots_reach=True), _of_spark)
    return found


def check_computed(where: Predicate, schema: pa.Schema, *, case_sensitive: bool) -> None:
    """Raises ``InvalidQuery`` for computations with different results in pyarrow and Spark. pyarrow computes the parts
    of an instant (such as the hour) in UTC, and Spark computes them in the session's time zone. Division by zero gives
    infinity in pyarrow. In Spark, it gives null or an error."""
    for part in parts(where):
        if not isinstance(part, External):
            continue
        for path in part.columns or ():
            found, kind = resolve_column(path, schema, case_sensitive=case_sensitive)
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                raise InvalidQuery(
                    f"orcidx would compute with {found[0]} in UTC, but Spark computes in the session's time zone: "
                    f"leave the condition that computes with {found[0]} out of where=, and apply it to the DataFrame "
                    "with filter()"
                )
        if other := sorted(set(re.findall(r"\b([a-z_0-9]+)\(", str(part.expression))) - _ALIKE):
            raise InvalidQuery(
                f"orcidx would compute {', '.join(other)} with pyarrow, whose results may differ from Spark's: leave "
                f"the condition that uses {other[0]} out of where=, and apply it to the DataFrame with filter()"
            )
        if not all(re.match(r"cast\(-?[\d.]*[1-9]", one) for one in _divisors(str(part.expression))):
            raise InvalidQuery(
                "orcidx and Spark have different results for division by zero: leave the condition with the division "
                "by a column out of where=, and apply it to the DataFrame with filter()"
            )


def _divisors(expression: str) -> Iterator[str]:
    """For each division in the text of a pyarrow Expression, yields the text after the division's first argument. If
    the first argument has a quoted text, yields the text of the entire Expression, because a quoted text may contain
    brackets."""
    for found in re.finditer(r"\bdivide\(", expression):
        depth = 0
        for at in range(found.end(), len(expression)):
            depth += (expression[at] in "({") - (expression[at] in ")}")
            if expression[at] == '"' or (not depth and expression[at] == ","):
                yield expression if expression[at] == '"' else expression[at + 2 :]
                break


def _of_spark(node: Part) -> Any:
    if isinstance(node, Leaf) and node.op is Op.IS_NAN and node.negated:
        return any_of(node, Leaf(node.path, Op.IS_NULL))
    return node
