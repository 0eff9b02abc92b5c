"""Accepts Polars expressions as ``where``. An expression is translated completely, or an error is raised.

``scan_polars`` may leave out parts that are not supported, because Polars filters the rows again. With ``where``, no
engine filters the rows again, so every part must be supported.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.computed import Computed, Values, computed, quotient
from orcidx.predicate.largest_nan_leaf import LargestNanLeaf
from orcidx.predicate.nodes import Leaf, Op, PolarsExpression, Predicate
from orcidx.predicate.polars_tree import TreeTranslator, entry_of, literal_of, path_of

__all__ = ["from_polars_expression", "is_polars"]

_ARITHMETIC = {
    "Plus": lambda left, right: left + right,
    "Minus": lambda left, right: left - right,
    "Multiply": lambda left, right: left * right,
    "TrueDivide": quotient,
}


def is_polars(where: object) -> bool:
    """Whether an object is a Polars expression. The function does not import Polars."""
    return type(where).__name__ == "Expr" and type(where).__module__.partition(".")[0] == "polars"


def from_polars_expression(expression: PolarsExpression) -> Predicate:
    """Makes a predicate from a Polars expression. In this predicate, NaN is above every number, whatever the option
    ``nan`` is.

    Columns, literals, comparisons, arithmetic, ``&``, ``|``, ``~``, is_null, is_not_null, is_nan, is_between, is_in,
    and str.starts_with, ends_with and contains (literal) are supported. Raises ``InvalidQuery`` for anything else.
    """
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception as error:  # Polars raises its own exceptions, which are not imported here
        raise InvalidQuery(f"the Polars expression {expression} cannot be parsed: {error}") from error
    return _Whole(str(expression)).visit(tree, negated=False)


class _Whole(TreeTranslator):
    """Raises an error for parts that are not supported."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def visit(self, node: Any, *, negated: bool) -> Predicate:
        try:
            return self._visit(node, negated)
        except InvalidQuery:
            raise
        except Exception as error:
            raise InvalidQuery(
                f"a part of the Polars expression {self._shown} is not supported; use "
                "orcidx.scan_polars(...).filter(...), which supports every expression"
            ) from error

    def _binary(self, body: dict[str, Any], negated: bool) -> Any:
        sides = body["left"], body["right"]
        plain = any("Literal" in one or "Cast" in one for one in sides)
        if body["op"] in self.COMPARISONS and (not plain or any("BinaryExpr" in one for one in sides)):
            op, unequal = self.COMPARISONS[body["op"]]
            made = computed(op, *map(self._value, sides))
            found = replace(made, comparisons=replace(made.comparisons, nan_is_largest=True))
            return ~found if unequal is not negated else found
        return super()._binary(body, negated)

    def _value(self, node: Any) -> Any:
        kind, body = entry_of(node)
        if kind == "BinaryExpr" and body["op"] in _ARITHMETIC:
            left, right = self._value(body["left"]), self._value(body["right"])
            if not isinstance(left, Values):
                left, right = (left, right) if isinstance(right, Values) else (Computed(left), right)
            return _ARITHMETIC[body["op"]](left, right)
        if kind == "Column":
            return Computed(pc.field(*path_of(node)))
        return literal_of(node)

    def _is_in(self, inputs: list[Any], negated: bool) -> Any:
        values = self.members(inputs)
        if None in values:
            raise InvalidQuery(
                "is_in has a list with null. Versions of Polars evaluate such lists differently; remove null from "
                "the list"
            )
        return LargestNanLeaf(path_of(inputs[0]), Op.IN, tuple(values), negated)

    def _leaf(self, path: tuple[str, ...], op: Op, literals: tuple[Any, ...], negated: bool) -> Leaf:
        return LargestNanLeaf(path, op, literals, negated)
