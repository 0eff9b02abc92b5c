"""Makes predicates from other forms: SQL text, pyarrow Expressions, DNF lists, Spark filters, Polars expressions.

An adapter keeps the meaning that its engine gives to a condition. If an adapter cannot evaluate a condition exactly for
some rows, these rows are kept, and the engine tests them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.extras import needed
from orcidx.predicate.arrow_expression import from_expression
from orcidx.predicate.nodes import Constant, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.padded_leaf import PaddedLeaf
from orcidx.predicate.polars_where import from_polars_expression, is_polars

__all__ = ["from_expression", "from_spark", "predicate_of"]

SHORT_TEXT = 1000
"""The largest number of characters of an SQL text whose predicate is cached. Parsing the text of a range condition
takes 0.3 ms. A scan that computes a sum over that range takes five times as long."""


def predicate_of(where: Any) -> Predicate:
    """Makes a predicate from SQL text, a pyarrow or Polars expression or a DNF list. Raises ``InvalidQuery`` if this is
    impossible."""
    if isinstance(where, str):
        return _of_short_text(where) if len(where) <= SHORT_TEXT else _of_text(where)
    if isinstance(where, pc.Expression):
        return from_expression(where)
    if isinstance(where, (list, tuple)):
        return from_dnf(where)
    if is_polars(where):
        return from_polars_expression(where)
    raise InvalidQuery(
        f"where={where!r} is not a predicate: give a predicate built with orcidx.col, SQL text, a pyarrow or Polars "
        'expression, or a list such as [("price", ">", 100)]'
    )


def _of_text(where: str) -> Predicate:
    with needed("sqlglot"):
        from orcidx.predicate.sql_text import from_sql  # imports sqlglot, which most scans do not need

    return from_sql(where)


_of_short_text = lru_cache(maxsize=128)(_of_text)
"""Returns the same predicate object for the same text, so its cached plan is found again (``planner/schema_plan``)."""


# ---------------------------------------------------------------------- disjunctive normal form

_DNF_OPS: dict[str, tuple[Op, bool]] = {
    "=": (Op.EQ, False),
    "==": (Op.EQ, False),
    "!=": (Op.EQ, True),
    "<>": (Op.EQ, True),
    "<": (Op.LT, False),
    "<=": (Op.LE, False),
    ">": (Op.GT, False),
    ">=": (Op.GE, False),
    "in": (Op.IN, False),
    "not in": (Op.IN, True),
    "is": (Op.EQ_NULL_SAFE, False),
    "is not": (Op.EQ_NULL_SAFE, True),
    "like": (Op.LIKE, False),
    "not like": (Op.LIKE, True),
}


def from_dnf(where: Sequence[Any]) -> Predicate:
    """Translates a list ``[(column, op, value), ...]`` to an AND. Translates a list of such lists to an OR of ANDs.

    The operators are ``= == != <> < <= > >= in``, ``not in``, ``is``, ``is not`` (null-safe), ``like`` and ``not
    like``, with SQL's meaning. A column is a name, or a tuple of names for a field of a struct. Raises ``InvalidQuery``
    for any other list.
    """
    if not where:
        raise InvalidQuery("the filter list is empty; leave out 'where' to read every row")
    if isinstance(where, tuple):
        return _triple(where)
    if all(isinstance(item, tuple) for item in where):
        return all_of(*(_triple(item) for item in where))
    if all(isinstance(item, list) and item and all(isinstance(x, tuple) for x in item) for item in where):
        return any_of(*(all_of(*(_triple(x) for x in item)) for item in where))
    raise InvalidQuery(f"{where!r} is neither a list of (column, op, value) nor a list of such lists")


def _triple(item: tuple[Any, ...]) -> Leaf:
    if len(item) != 3:
        raise InvalidQuery(f"{item!r} is not a tuple (column, op, value)")
    column, symbol, value = item
    path = (column,) if isinstance(column, str) else column
    if not (isinstance(path, tuple) and path and all(isinstance(name, str) and name for name in path)):
        raise InvalidQuery(
            f"{column!r} in {item!r} is not a column; give a name, or a tuple of names for a field of a struct"
        )
    key = symbol.lower() if isinstance(symbol, str) else symbol
    if key not in _DNF_OPS:
        raise InvalidQuery(f"{symbol!r} in {item!r} is not an operator; the operators are {', '.join(_DNF_OPS)}")
    op, negated = _DNF_OPS[key]
    if op is Op.IN:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidQuery(f"{symbol!r} in {item!r} needs a list of values")
        return Leaf(path, op, tuple(value), negated)
    return Leaf(path, op, (value, "\\") if op is Op.LIKE else (value,), negated)


# ---------------------------------------------------------------------- Spark

_SPARK_OPS = {
    "EqualTo": Op.EQ,
    "EqualNullSafe": Op.EQ_NULL_SAFE,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
    "StringStartsWith": Op.STARTS_WITH,
    "StringEndsWith": Op.ENDS_WITH,
    "StringContains": Op.CONTAINS,
}


def from_spark(filters: Iterable[Any]) -> Predicate:
    """The conjunction of pyspark's data source filters (``pyspark.sql.datasource.Filter``). All of them must hold.

    An unknown filter is left out, because Spark evaluates every filter again. Pass the result through
    ``keep_bindable``, because a literal may have a type that cannot be compared here. Then bind it with
    ``nan="largest"``.
    """
    return all_of(*(_spark(one) for one in filters))


def _spark(one: Any) -> Predicate:
    kind = type(one).__name__
    if kind == "Not":
        # Constant(True) stands for a filter that cannot be translated. The negation of such a filter cannot be
        # translated either, so the constant is not negated.
        child = _spark(one.child)
        return child if isinstance(child, Constant) else ~child
    if kind in _SPARK_OPS:
        return PaddedLeaf(tuple(one.attribute), _SPARK_OPS[kind], (one.value,))
    if kind == "In":
        return PaddedLeaf(tuple(one.attribute), Op.IN, tuple(one.value))
    if kind in ("IsNull", "IsNotNull"):
        return Leaf(tuple(one.attribute), Op.IS_NULL, negated=kind == "IsNotNull")
    return Constant(True)
