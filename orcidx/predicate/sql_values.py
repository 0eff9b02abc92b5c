"""Computed values in SQL text: arithmetic, ``||``, CAST, COALESCE and functions of one value."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from orcidx.predicate.computed import SCALAR_FUNCTIONS, Computed, is_strict, operand_expression, quotient

__all__ = ["as_computed", "is_computed", "value_of"]

_CASTS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "TEXT": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
_BINARY = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe)


def _function_name(node: Any) -> str | None:
    """The SQL name of a function of one value. The result is None for any other node."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return name if name in SCALAR_FUNCTIONS and len(node.expressions) == 1 else None
    if not isinstance(node, exp.Func):
        return None
    names = {name.lower() for name in node.sql_names()}
    if isinstance(node, exp.Trim):
        names = {{"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")}
    found = next((name for name in SCALAR_FUNCTIONS if name in names), None)
    others = [key for key, value in node.args.items() if key not in ("this", "position") and value]
    return found if not others or (found == "round" and _is_whole(node, others)) else None


def _is_whole(node: Any, others: list[str]) -> bool:
    """Whether round() has 0 digits, written explicitly."""
    return others == ["decimals"] and node.args["decimals"] == exp.Literal.number(0)


def is_computed(node: exp.Expr) -> bool:
    """Whether a part of the tree is a value that is computed from columns. Columns and literals are not computed
    values."""
    if isinstance(node, exp.Paren):
        return is_computed(node.this)
    if isinstance(node, (exp.Cast, exp.Neg)):
        return not isinstance(node.this, exp.Literal) and not (isinstance(node, exp.Neg) and _is_number(node.this))
    return isinstance(node, (*_BINARY, exp.Coalesce)) or _function_name(node) is not None


def _is_number(node: Any) -> bool:
    return isinstance(node, exp.Literal) or (isinstance(node, (exp.Paren, exp.Neg)) and _is_number(node.this))


def value_of(
    node: exp.Expr,
    *,
    column: Callable[[Any], tuple[str, ...]],
    literal: Callable[[Any], Any],
    refuse: Callable[..., Exception],
) -> Any:
    """Makes an operand for ``computed`` from a column, a literal or a value that is computed from them."""

    def value(part: exp.Expr) -> Any:
        return value_of(part, column=column, literal=literal, refuse=refuse)

    if isinstance(node, exp.Paren):
        return value(node.this)
    if isinstance(node, (exp.Column, exp.Dot)):
        return Computed(pc.field(*column(node)))
    if not is_computed(node):
        found = literal(node)
        # Arithmetic is done with doubles, because most columns in such expressions are doubles.
        return float(found) if isinstance(found, Decimal) else found
    if isinstance(node, exp.Neg):
        inner = value(node.this)
        if isinstance(inner, bool) or not isinstance(inner, (Computed, int, float)):
            raise refuse(node, "has a minus before a value that is not a number")
        return -inner
    if isinstance(node, exp.Coalesce):
        first = value(node.this)
        return as_computed(first).coalesce(*map(value, node.expressions))
    if isinstance(node, exp.Cast):
        kind = _CASTS.get(node.to.this.name)
        if kind is None:
            raise refuse(node, f"casts to a type that is not supported; the types are {', '.join(_CASTS)}")
        if node.to.expressions:  # engines differ in whether a cast truncates texts
            raise refuse(node, "casts to a type with a length or a precision, which is not supported in where")
        operand = as_computed(value(node.this))
        return operand.try_cast(kind) if isinstance(node, exp.TryCast) else operand.cast(kind)
    if isinstance(node, _BINARY):
        return _binary(node, as_computed(value(node.this)), value(node.expression))
    name = _function_name(node)
    assert name is not None
    operand = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    while isinstance(operand, (exp.TsOrDsToDate, exp.TsOrDsToTimestamp)):
        operand = operand.this
    return as_computed(value(operand)).function(name)


def as_computed(value: object) -> Computed:
    """The operand of ``value_of`` as a computed value, also if it is a literal."""
    return value if isinstance(value, Computed) else Computed(operand_expression(value))


def _binary(node: Any, left: Computed, right: Any) -> Computed:
    arithmetic: dict[Any, Callable[[Any, Any], Computed]] = {
        exp.Add: Computed.__add__,
        exp.Sub: Computed.__sub__,
        exp.Mul: Computed.__mul__,
        exp.Div: quotient,
    }
    if type(node) in arithmetic:
        return arithmetic[type(node)](left, right)
    parts = [left._expression(), as_computed(right)._expression(), pc.scalar("")]
    joined = pc.Expression._call("binary_join_element_wise", parts, pc.JoinOptions())
    return Computed(joined, strict=is_strict(left) and is_strict(right))
