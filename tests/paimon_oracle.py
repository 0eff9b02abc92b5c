"""Evaluates comparisons value by value in plain Python. The results are the oracle for the answers of Paimon's
indexes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def below(a: Any, b: Any) -> bool:
    """Whether a < b, if -0.0 equals 0.0 and NaN is above every number."""
    if is_nan(a) or is_nan(b):
        return not is_nan(a) and is_nan(b)
    return bool(a < b)


def same(a: Any, b: Any) -> bool:
    return (is_nan(a) and is_nan(b)) or a == b


def holds(op: str, value: Any, literals: Sequence[Any]) -> bool:
    """Whether ``value op literals`` is TRUE in SQL."""
    if op in ("isnull", "isnotnull"):
        return (value is None) == (op == "isnull")
    if value is None:
        return False
    if op == "in":
        return any(x is not None and same(value, x) for x in literals)
    if op == "notin":
        return not any(x is None or same(value, x) for x in literals)
    if op == "between":
        low, high = literals
        return None not in literals and not below(value, low) and not below(high, value)
    if op == "notbetween":
        low, high = literals
        return (low is not None and below(value, low)) or (high is not None and below(high, value))
    if op == "isnan":
        return is_nan(value)
    (literal,) = literals
    if literal is None:
        return False
    if op in ("startswith", "endswith", "contains", "like"):
        return bool(re.fullmatch(_pattern(op, literal), value, re.DOTALL))
    return {
        "eq": same(value, literal),
        "neq": not same(value, literal),
        "lt": below(value, literal),
        "lte": not below(literal, value),
        "gt": below(literal, value),
        "gte": not below(value, literal),
    }[op]


def _pattern(op: str, literal: str) -> str:
    if op == "like":
        return "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in literal)
    start, end = ("" if op == "startswith" else ".*"), ("" if op == "endswith" else ".*")
    return f"{start}{re.escape(literal)}{end}"


def first_values(
    values: Sequence[Any], k: int, *, descending: bool, nulls_first: bool, candidates: Sequence[int]
) -> list[Any]:
    """Returns the values of the first ``k`` candidate rows, with None for null. Floats have the order of Java's
    compare."""

    def rank(row: int) -> Any:
        value = values[row]
        if isinstance(value, float):
            return (2, 0.0) if is_nan(value) else (1, value, math.copysign(1, value))
        return value

    nulls = [row for row in candidates if values[row] is None]
    others = sorted((row for row in candidates if values[row] is not None), key=rank, reverse=descending)
    return [values[row] for row in (nulls + others if nulls_first else others + nulls)[:k]]
