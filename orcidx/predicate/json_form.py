"""Converts predicates to JSON (dicts, lists, texts and numbers), for tasks that are sent between machines.

A node is ``{"and": [..]}``, ``{"or": [..]}``, ``{"constant": true}``, ``{"expression": base64 of Arrow's own form}`` or
a leaf ``{"column": [path], "op": "LT", "literals": [..], "negated": false}``. If JSON has no type for a literal, the
literal names its type: ``{"decimal": "1.50"}``. ``predicate_from_json(predicate_to_json(p)) == p`` holds.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.arrow_expression import expression_of_form, from_expression, serialized_form
from orcidx.predicate.char_leaf import CharLeaf
from orcidx.predicate.comparisons import COMPARISONS, Comparisons
from orcidx.predicate.computed import comparison_of
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import Part, fold
from orcidx.predicate.largest_nan_leaf import LargestNanLeaf
from orcidx.predicate.nodes import And, Constant, External, Leaf, Op, Or, Predicate, canonical_literal
from orcidx.predicate.padded_leaf import PaddedLeaf

__all__ = ["predicate_from_json", "predicate_to_json"]


def predicate_to_json(predicate: Predicate) -> dict[str, Any]:
    """The predicate as a value for ``json.dumps``. Raises ``InvalidQuery`` for a literal that cannot be written in
    JSON."""
    return fold(
        predicate,
        _part_to_json,
        both=lambda children: {"and": list(children)},
        either=lambda children: {"or": list(children)},
    )


def _part_to_json(predicate: Part) -> dict[str, Any]:
    if isinstance(predicate, Constant):
        return {"constant": predicate.value}
    if isinstance(predicate, External):
        found: dict[str, Any] = {"expression": _expression_to_json(predicate.expression)}
        if predicate.comparisons is not None:
            made = predicate.comparisons
            sides = [[op.name, _expression_to_json(left), _expression_to_json(right)] for op, left, right in made.parts]
            found["comparisons"] = {"parts": sides, "every": made.every, "negated": made.negated}
            if made.nan_is_largest:
                found["comparisons"]["nan"] = "largest"
        return found
    if isinstance(predicate, Leaf):
        literals = [_literal_to_json(value) for value in predicate.literals]
        path = list(predicate.path)
        leaf = {"column": path, "op": predicate.op.name, "literals": literals, "negated": predicate.negated}
        if isinstance(predicate, CharLeaf):
            return {**leaf, "char": predicate.length}
        if isinstance(predicate, LargestNanLeaf):
            return {**leaf, "nan": "largest"}
        return {**leaf, "padded": True} if isinstance(predicate, PaddedLeaf) else leaf
    raise InvalidQuery(f"{predicate!r} cannot be written as JSON")


_DEEPEST_NESTING = 100
"""The deepest nesting of a predicate in JSON. Real predicates nest less deeply, because an AND inside an AND becomes
one AND. Evaluating a predicate with deeper nesting would exceed Python's recursion limit."""


def predicate_from_json(data: Any) -> Predicate:
    """Restores a predicate from the value of ``predicate_to_json``. Raises ``InvalidQuery`` for any other value."""
    try:
        return _node(data, _DEEPEST_NESTING)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, InvalidOperation) as error:
        if isinstance(error, InvalidQuery):
            raise
        raise InvalidQuery(f"the JSON value is not a predicate: {data!r}") from error
    except pa.ArrowException as error:
        raise InvalidQuery(f"the pyarrow Expression in JSON cannot be read: {error}") from error


def _node(data: dict[str, Any], levels: int) -> Predicate:
    if not levels:
        raise InvalidQuery(f"the predicate in JSON is nested more than {_DEEPEST_NESTING} levels deep")
    if "and" in data:
        return And(tuple(_node(child, levels - 1) for child in data["and"]))
    if "or" in data:
        return Or(tuple(_node(child, levels - 1) for child in data["or"]))
    if "constant" in data:
        # The number 1 equals True, but is refused, because constants are compared by "is".
        if not isinstance(data["constant"], bool | None):
            raise InvalidQuery(f"{data['constant']!r} is not a constant; expected true, false or null")
        return Constant(data["constant"])
    if "expression" in data:
        return _external(data)
    path = tuple(data["column"])
    if not path or not all(isinstance(name, str) for name in path) or not isinstance(data["negated"], bool):
        raise InvalidQuery(f"the JSON value is not a predicate: {data!r}")
    leaf = path, Op[data["op"]], tuple(map(_literal_from_json, data["literals"])), data["negated"]
    if (length := data.get("char")) is not None:
        if type(length) is not int or length < 1:
            raise InvalidQuery(f"{length!r} is not the length of a CHAR column")
        return CharLeaf(*leaf, length)
    if data.get("nan") == "largest":
        return LargestNanLeaf(*leaf)
    return PaddedLeaf(*leaf) if data.get("padded") is True else Leaf(*leaf)


def _external(data: dict[str, Any]) -> Predicate:
    """Restores a condition that pyarrow evaluates. A condition that was made from comparisons is stored as
    comparisons."""
    if "comparisons" not in data:
        return from_expression(_expression_from_json(data["expression"]))
    made = data["comparisons"]
    parts = tuple(
        (Op[op], _expression_from_json(left), _expression_from_json(right)) for op, left, right in made["parts"]
    )
    flags = made["every"], made["negated"]
    if not parts or not all(isinstance(flag, bool) for flag in flags) or any(op not in COMPARISONS for op, *_ in parts):
        raise InvalidQuery(f"the JSON value is not a list of comparisons: {made!r:.200}")
    return comparison_of(Comparisons(parts, *flags, made.get("nan") == "largest"), strict=False)


def _expression_to_json(expression: pc.Expression) -> str:
    return base64.b64encode(serialized_form(expression)).decode()


def _expression_from_json(text: str) -> pc.Expression:
    return expression_of_form(base64.b64decode(text, validate=True))


_TO_JSON: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (float, "float", float.hex),
    (bytes, "bytes", lambda value: binascii.hexlify(value).decode()),
    (Decimal, "decimal", str),
    (datetime.datetime, "datetime", datetime.datetime.isoformat),
    (datetime.date, "date", datetime.date.isoformat),
    (datetime.time, "time", datetime.time.isoformat),
    (np.datetime64, "datetime64", lambda value: [int(value.astype(np.int64)), *np.datetime_data(value.dtype)]),
    (ExactTime, "nanoseconds", lambda value: [value.nanos, value.zone, value.of_day]),
)
_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "datetime64": lambda parts: np.datetime64(parts[0], (parts[1], parts[2])),
    "nanoseconds": lambda parts: ExactTime(int(parts[0]), parts[1], bool(parts[2])),
}


def _literal_to_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, datetime.datetime) and getattr(value, "nanosecond", 0) > 0:  # a Timestamp of pandas
        value = canonical_literal(pa.scalar(value, pa.timestamp("ns", None if value.tzinfo is None else "UTC")))
    for kind, name, convert in _TO_JSON:
        if isinstance(value, kind):
            return {name: convert(value)}
    raise InvalidQuery(f"the literal {value!r} ({type(value).__name__}) cannot be written as JSON")


def _literal_from_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int)):
        return value
    ((name, form),) = value.items()
    return _FROM_JSON[name](form)
