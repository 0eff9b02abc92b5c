"""Reads Polars expressions from the tree that ``expr.meta.serialize(format="json")`` returns.

The form of the tree differs between versions of Polars, and Polars filters the rows again itself. So the result is only
used for pruning. Parts that are not supported, and comparisons after a cast in Polars, become True.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate.binding import keep_bindable
from orcidx.predicate.column_paths import resolve_column
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.literals import domain_of
from orcidx.predicate.nodes import (
    MIRRORED,
    NANOS,
    Constant,
    Domain,
    Leaf,
    Op,
    Predicate,
    all_of,
    any_of,
    canonical_literal,
)
from orcidx.predicate.padded_leaf import PaddedLeaf

__all__ = ["TreeTranslator", "entry_of", "from_polars", "literal_of", "path_of"]

_EPOCH = datetime.date(1970, 1, 1)
_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}
_NULL = {"Literal": {"Scalar": {"Null": "Null"}}}
_NATURAL: dict[Domain, tuple[type, ...]] = {
    Domain.BOOL: (bool,),
    Domain.INT: (int,),
    Domain.DECIMAL: (int, Decimal),
    Domain.STRING: (str,),
    Domain.BINARY: (bytes,),
    Domain.DATE: (datetime.date,),
    Domain.TIMESTAMP: (ExactTime,),
}


class _NotUnderstood(Exception):
    """Raised in this module for a part of the tree that is not used for pruning."""


def from_polars(tree: Any, schema: pa.Schema, *, nan: Literal["ieee", "largest"] = "largest") -> Predicate:
    """A predicate that is TRUE wherever the Polars predicate is true. Bind it with the same ``nan``.

    ``tree`` is the parsed JSON, and ``schema`` is the Arrow schema that Polars sees. In Polars, NaN is the largest
    value. So with ``nan="ieee"``, comparisons of floats become True.
    """
    return keep_bindable(_Pruning(schema, nan).visit(tree, negated=False), schema)


class TreeTranslator:
    """Walks the tree. Subclasses decide how to translate leaves and parts that are not supported."""

    COMPARISONS: ClassVar[dict[str, tuple[Op, bool]]] = {
        "Eq": (Op.EQ, False),
        "NotEq": (Op.EQ, True),
        "Lt": (Op.LT, False),
        "LtEq": (Op.LE, False),
        "Gt": (Op.GT, False),
        "GtEq": (Op.GE, False),
        "EqValidity": (Op.EQ_NULL_SAFE, False),
        "NotEqValidity": (Op.EQ_NULL_SAFE, True),
    }

    def visit(self, node: Any, *, negated: bool) -> Predicate:
        raise NotImplementedError

    def _leaf(self, path: tuple[str, ...], op: Op, literals: tuple[Any, ...], negated: bool) -> Leaf:
        raise NotImplementedError

    def _is_in(self, inputs: list[Any], negated: bool) -> Predicate:
        raise NotImplementedError

    def _visit(self, node: Any, negated: bool) -> Predicate:
        kind, body = entry_of(node)
        if kind == "Column":
            return Leaf(path_of(node), Op.EQ, (not negated,))
        # For IN, Polars' SQL can produce a cast of null. NOT of NULL is NULL, so ``negated`` has no effect.
        if kind == "Cast" and body["expr"] == _NULL:
            return Constant(False)
        if kind == "Literal":
            return Constant(literal_of(node) is (not negated))
        if kind == "BinaryExpr":
            return self._binary(body, negated)
        if kind == "Function":
            return self._function(body["function"], body["input"], negated)
        raise _NotUnderstood

    def _binary(self, body: dict[str, Any], negated: bool) -> Predicate:
        op, left, right = body["op"], body["left"], body["right"]
        if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
            join: Callable[..., Predicate] = all_of if ("And" in op) is not negated else any_of
            return join(self.visit(left, negated=negated), self.visit(right, negated=negated))
        kind, unequal = self.COMPARISONS[op]
        if "Literal" in left or "Cast" in left:
            left, right, kind = right, left, MIRRORED.get(kind, kind)
        return self._leaf(path_of(left), kind, (literal_of(right),), unequal is not negated)

    def _function(self, function: Any, inputs: list[Any], negated: bool) -> Predicate:
        family, name = entry_of(function)
        name, options = entry_of(name) if isinstance(name, dict) else (name, {})
        if family == "Boolean" and name == "Not":
            return self.visit(inputs[0], negated=not negated)
        if family == "Boolean" and name in ("IsNull", "IsNotNull"):
            return Leaf(path_of(inputs[0]), Op.IS_NULL, (), (name == "IsNotNull") is not negated)
        if family == "Boolean" and name == "IsNan":
            return Leaf(path_of(inputs[0]), Op.IS_NAN, (), negated)
        if family == "Boolean" and name == "IsBetween":
            return self._between(inputs, options["closed"], negated)
        if family == "Boolean" and name == "IsIn":
            return self._is_in(inputs, negated)
        texts = {"StartsWith": Op.STARTS_WITH, "EndsWith": Op.ENDS_WITH}
        if family == "StringExpr" and (name in texts or (name == "Contains" and options["literal"] is True)):
            return self._leaf(path_of(inputs[0]), texts.get(name, Op.CONTAINS), (literal_of(inputs[1]),), negated)
        raise _NotUnderstood

    def _between(self, inputs: list[Any], closed: str, negated: bool) -> Predicate:
        path, low, high = path_of(inputs[0]), literal_of(inputs[1]), literal_of(inputs[2])
        first = self._leaf(path, Op.GE if closed in ("Both", "Left") else Op.GT, (low,), negated)
        last = self._leaf(path, Op.LE if closed in ("Both", "Right") else Op.LT, (high,), negated)
        return any_of(first, last) if negated else all_of(first, last)

    def members(self, inputs: list[Any]) -> list[Any]:
        """The values of the list of an ``is_in``. In the tree, this list is a list, a series, or a series of one list
        (from IN of Polars' SQL)."""
        kind, body = entry_of(inputs[1])
        if kind == "Alias":
            kind, body = entry_of(body[0])
        if kind != "Literal":
            raise _NotUnderstood
        stored = body["Series"] if "Series" in body else body["Scalar"]["List"]
        values = pa.ipc.open_stream(bytes(stored)).read_all().column(0).combine_chunks()
        if pa.types.is_large_list(values.type) and len(values) == 1:
            values = values.flatten()
        return [canonical_literal(value) for value in values]


class _Pruning(TreeTranslator):
    def __init__(self, schema: pa.Schema, nan: str) -> None:
        self.schema = schema
        self.nan = nan

    def visit(self, node: Any, *, negated: bool) -> Predicate:
        try:
            return self._visit(node, negated)
        except (_NotUnderstood, InvalidQuery, LookupError, TypeError, ValueError, OverflowError, pa.ArrowException):
            return Constant(True)

    def _is_in(self, inputs: list[Any], negated: bool) -> Predicate:
        path = path_of(inputs[0])
        present = tuple(value for value in self.members(inputs) if value is not None)
        leaf = self._leaf(path, Op.IN, present, negated)
        # In some versions of Polars, null can match a list. So rows with null are kept.
        return any_of(leaf, Leaf(path, Op.IS_NULL))

    def _leaf(self, path: tuple[str, ...], op: Op, literals: tuple[Any, ...], negated: bool) -> Leaf:
        """Translates a leaf. Raises ``_NotUnderstood`` if Polars casts the leaf's literals, floors the values of its
        column, or orders NaN differently."""
        kind = resolve_column(path, self.schema)[1]
        domain = domain_of(kind)
        if domain is Domain.TIMESTAMP and kind.unit != "ns":
            raise _NotUnderstood  # Polars compares values that are rounded down to the unit
        if domain is Domain.FLOAT and self.nan != "largest":
            raise _NotUnderstood
        if not all(value is None or _is_natural(value, kind, domain) for value in literals):
            raise _NotUnderstood
        return PaddedLeaf(path, op, literals, negated)


def _is_natural(value: Any, kind: pa.DataType, domain: Domain) -> bool:
    if domain is Domain.FLOAT:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (value != value or float(np.float32(value)) == value if kind != pa.float64() else True)
    return isinstance(value, _NATURAL.get(domain, ())) and isinstance(value, bool) is (domain is Domain.BOOL)


def entry_of(node: Any) -> tuple[str, Any]:
    """The only key of a node that is a dict, and the value of this key."""
    if not isinstance(node, dict) or len(node) != 1:
        raise _NotUnderstood
    return next(iter(node.items()))


def path_of(node: Any) -> tuple[str, ...]:
    kind, body = entry_of(node)
    if kind == "Column" and isinstance(body, str):
        return (body,)
    if kind == "Function" and "StructExpr" in body["function"]:
        return (*path_of(body["input"][0]), body["function"]["StructExpr"]["FieldByName"])
    raise _NotUnderstood


def literal_of(node: Any) -> Any:
    kind, body = entry_of(node["Literal"])
    name, value = entry_of(body)
    if name == "Null":
        return None
    if value is None:
        raise _NotUnderstood  # NaN and infinities cannot be written in JSON
    if kind == "Dyn" and name in ("Int", "Float"):
        return value
    if name in ("Boolean", "String"):
        return value
    if name.startswith(("Int", "UInt")):
        return int(value)
    if name.startswith("Float"):
        return float(value)
    if name == "Binary":
        return bytes(value)
    if name == "Date":
        return _EPOCH + datetime.timedelta(days=value)
    if name == "Datetime":
        ticks, unit, zone = value
        return ExactTime(ticks * NANOS[_UNITS[unit]], None if zone is None else "UTC")
    if name == "Decimal":
        unscaled, _, scale = value
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    raise _NotUnderstood
