"""Comparisons of computed values, written as pyarrow Expressions, in which NaN is above every number.

pyarrow compares by IEEE 754. With ``nan="largest"``, a comparison is replaced if one of its sides has a floating type.
The new comparison also tests each side for NaN. The result is still null where a side is null.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.predicate.arrow_expression import computed_table
from orcidx.predicate.decimal_digits import not_evaluated, with_enough_digits
from orcidx.predicate.nodes import Op
from orcidx.predicate.tried_casts import taken_out

__all__ = ["COMPARISONS", "Comparisons"]

COMPARISONS = {
    Op.EQ: pc.Expression.__eq__,
    Op.LT: pc.Expression.__lt__,
    Op.LE: pc.Expression.__le__,
    Op.GT: pc.Expression.__gt__,
    Op.GE: pc.Expression.__ge__,
}


@dataclass(frozen=True, eq=False)
class Comparisons:
    """A list of comparisons (operator, left, right). With ``every``, all of them must be true. Without ``every``, at
    least one comparison must be true. With ``negated``, the result is negated. With ``nan_is_largest``, NaN is above
    every number whatever the option ``nan`` is."""

    parts: tuple[tuple[Op, pc.Expression, pc.Expression], ...]
    every: bool = False
    negated: bool = False
    nan_is_largest: bool = False

    def __invert__(self) -> Comparisons:
        return replace(self, negated=not self.negated)

    def ieee(self) -> pc.Expression:
        """The condition with pyarrow's meaning."""
        return self._joined([COMPARISONS[op](left, right) for op, left, right in self.parts])

    def largest(self, schema: pa.Schema, *, tries: bool) -> pc.Expression | None:
        """The condition in which NaN equals NaN and is above every number. The result is None if no side has a floating
        type, because the condition then has no NaN. ``tries`` says whether a side contains TRY_CAST. Raises
        ``InvalidQuery`` if pyarrow cannot evaluate a side."""
        sides = [side for _, *both in self.parts for side in both]
        known = _floating(*_without_tried(sides, schema) if tries else (sides, schema))
        if not any(known):
            return None
        pairs = zip(known[::2], known[1::2])
        return self._joined([_largest(op, left, right, *pair) for (op, left, right), pair in zip(self.parts, pairs)])

    def _joined(self, conditions: list[pc.Expression]) -> pc.Expression:
        whole = reduce((lambda one, other: one & other) if self.every else (lambda one, other: one | other), conditions)
        return ~whole if self.negated else whole


def _largest(op: Op, left: pc.Expression, right: pc.Expression, left_floats: bool, right_floats: bool) -> pc.Expression:
    """A comparison in which NaN is above every number. The added tests for NaN do not change the result where a side is
    null, because NULL OR FALSE is NULL."""
    first, second = _is_nan(left, left_floats), _is_nan(right, right_floats)
    if op is Op.EQ:
        return (left == right) | (first & second)
    if op in (Op.LT, Op.GE):
        less = (left < right) | (second & ~first)
        return less if op is Op.LT else ~less
    greater = (left > right) | (first & ~second)
    return greater if op is Op.GT else ~greater


def _is_nan(side: pc.Expression, floats: bool) -> pc.Expression:
    """Whether a side is NaN. The result is null where the side is null. pyarrow has no such test for types without NaN.
    For these types, the test is made from a null test."""
    if floats:
        return pc.Expression._call("is_nan", [side])
    return ~side.is_valid() & pc.scalar(pa.scalar(None, pa.bool_()))


def _without_tried(sides: list[pc.Expression], schema: pa.Schema) -> tuple[list[pc.Expression], pa.Schema]:
    """The sides with columns in place of TRY_CAST, and the schema with these columns added."""
    left, tried = zip(*(taken_out(side, schema.names) for side in sides))
    fields = {one.name: pa.field(one.name, one.kind) for of_side in tried for one in of_side}
    return list(left), pa.schema([*schema, *fields.values()])


def _floating(sides: list[pc.Expression], schema: pa.Schema) -> list[bool]:
    """Returns for each side whether it has a floating type for rows of the schema."""
    spare = max(schema.names, key=len, default="") + "_"
    # ``Schema.empty_table`` does not support unions, but ``from_batches`` does
    table = pa.Table.from_batches([], schema.append(pa.field(spare, pa.null())))
    try:
        result = computed_table([with_enough_digits(side, schema) for side in sides], table)
    except pa.ArrowException as error:
        raise not_evaluated(", ".join(map(str, sides)), error) from error
    return [pa.types.is_floating(kind) for kind in result.schema.types]
