"""A second, simple implementation of the meaning of ``where``: it evaluates one row at a time in plain Python.

Tests use it as the oracle for all code that evaluates or prunes. Values of a row are Python objects: int, float,
Decimal, str, bytes, bool, None; dates as ``datetime.date`` or int days, timestamps as int nanoseconds.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.predicate import And, Constant, External, Leaf, Op, Or

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Compared:
    """A comparison with a computed side. ``truth`` computes both sides for a row in plain Python, without orcidx."""

    op: Op
    left: Callable[[Callable[[tuple[str, ...]], Any]], Any]
    right: Callable[[Callable[[tuple[str, ...]], Any]], Any]
    paths: tuple[tuple[str, ...], ...]
    negated: bool = False

    def truth(self, value_of: Callable[[tuple[str, ...]], Any], nan: str) -> bool | None:
        left, right = self.left(value_of), self.right(value_of)
        if left is None or right is None:
            return None
        return (order(left, right, pa.float64(), nan) in ORDERS[self.op]) is not self.negated


ORDERS = {Op.EQ: (0,), Op.LT: (-1,), Op.LE: (-1, 0), Op.GT: (1,), Op.GE: (1, 0)}
COMPARED: dict[str, Compared] = {}
"""The meaning of generated computed conditions, and of their negations, by the text of the Expression."""


def known_as(condition: External, compared: Compared) -> External:
    """Notes the meaning of a condition and of its negation. Returns the condition."""
    COMPARED[str(condition.expression)] = compared
    COMPARED[str((~condition).expression)] = replace(compared, negated=not compared.negated)
    return condition


def meaning_of(condition: External) -> Compared:
    """Returns the meaning of a condition that was passed to ``known_as``, even if it was negated since."""
    text = str(condition.expression)
    while text.startswith("invert(invert("):
        text = text[len("invert(invert(") : -2]
    return COMPARED[text]


def truth(predicate: Any, value_of: Callable[[tuple[str, ...]], Any], schema: dict, nan: str = "ieee") -> bool | None:
    """Returns TRUE, FALSE or None (NULL) for one row.

    ``schema`` maps a path to its Arrow type, or to ("char", n).
    """
    if isinstance(predicate, Constant):
        return predicate.value
    if isinstance(predicate, (And, Or)):
        answers = [truth(child, value_of, schema, nan) for child in predicate.children]
        decisive = isinstance(predicate, Or)
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    if isinstance(predicate, External):
        return meaning_of(predicate).truth(value_of, nan)
    assert isinstance(predicate, Leaf)
    answer = leaf_truth(predicate, value_of(predicate.path), schema[predicate.path], nan)
    return answer if answer is None else answer is not predicate.negated


def leaf_truth(leaf: Leaf, value: Any, kind: Any, nan: str) -> bool | None:
    if leaf.op is Op.IS_NULL:
        return value is None
    if leaf.op is Op.EQ_NULL_SAFE:
        literal = leaf.literals[0]
        if value is None or literal is None:
            return value is None and literal is None
        return order(value, literal, kind, nan) == 0
    if value is None:
        return None
    if leaf.op is Op.IS_NAN:
        return isinstance(value, float) and math.isnan(value)
    if leaf.op is Op.IN:
        if any(x is not None and order(value, x, kind, nan) == 0 for x in leaf.literals):
            return True
        return None if None in leaf.literals else False
    if leaf.op is Op.BETWEEN:
        low, high = leaf.literals
        at_least = None if low is None else order(value, low, kind, nan) in (0, 1)
        at_most = None if high is None else order(value, high, kind, nan) in (0, -1)
        if at_least is False or at_most is False:
            return False
        return None if at_least is None or at_most is None else True
    if leaf.literals[0] is None:
        return None
    if leaf.op in (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE):
        return text(leaf, value.rstrip(" ") if isinstance(kind, tuple) else value)
    return order(value, leaf.literals[0], kind, nan) in ORDERS[leaf.op]


def order(value: Any, literal: Any, kind: Any, nan: str) -> int | None:
    """Compares two values and returns -1, 0 or 1, or None if they are unordered by IEEE 754."""
    left, right = plain(value, kind), plain(literal, kind)
    if isinstance(kind, tuple):
        left, right = left.rstrip(b" "), right.rstrip(b" ")
    if kind in (pa.float32(), pa.float64()) and isinstance(literal, Decimal):
        right = float(literal)
    unordered = [isinstance(x, (float, Decimal)) and math.isnan(x) for x in (left, right)]
    if any(unordered):
        return unordered[0] - unordered[1] if nan == "largest" else None
    left, right = exact(left), exact(right)
    return (left > right) - (left < right)


def exact(value: Any) -> Any:
    if isinstance(value, (float, Decimal)) and math.isfinite(value):
        return Fraction(value)
    return value


def plain(value: Any, kind: Any) -> Any:
    if isinstance(value, str) and (isinstance(kind, tuple) or kind == pa.string()):
        return value.encode()
    if isinstance(value, np.datetime64):
        nanos = int(value.astype("datetime64[ns]").astype(np.int64))
        return Fraction(nanos, 86_400 * 10**9) if pa.types.is_date(kind) else nanos
    if isinstance(value, datetime.datetime):
        since = value - (EPOCH if value.tzinfo is None else EPOCH.replace(tzinfo=datetime.UTC))
        nanos = since // datetime.timedelta(microseconds=1) * 1000
        return Fraction(nanos, 86_400 * 10**9) if pa.types.is_date(kind) else nanos
    if isinstance(value, datetime.date):
        days = (value - EPOCH.date()).days
        return days if pa.types.is_date(kind) else days * 86_400 * 10**9
    return value


def text(leaf: Leaf, value: Any) -> bool:
    pattern = leaf.literals[0]
    if leaf.op is Op.STARTS_WITH:
        return value.startswith(pattern)
    if leaf.op is Op.ENDS_WITH:
        return value.endswith(pattern)
    if leaf.op is Op.CONTAINS:
        return pattern in value
    escape, regex, i = leaf.literals[1], "", 0
    while i < len(pattern):
        if pattern[i] == escape:
            i += 1
            regex += re.escape(pattern[i])
        else:
            regex += {"%": ".*", "_": "."}.get(pattern[i]) or re.escape(pattern[i])
        i += 1
    return re.fullmatch(regex, value, re.DOTALL) is not None
