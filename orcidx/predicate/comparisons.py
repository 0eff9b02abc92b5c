"""Comparisons of computed values with NaN above every number, in pyarrow's Expressions.

pyarrow compares by IEEE 754. With ``nan="largest"`` a comparison with a floating side is replaced by one that tests
each side for NaN; its result stays null where a side is null.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
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
    """Comparisons as (operator, left, right). One of them must be true, or all with ``every``. ``negated``: NOT of
    that."""

    parts: tuple[tuple[Op, pc.Expression, pc.Expression], ...]
    every: bool = False
    negated: bool = False

    def __invert__(self) -> Comparisons:
        return replace(self, negated=not self.negated)

    def ieee(self) -> pc.Expression:
        """The condition with pyarrow's meaning."""
        return self._joined([COMPARISONS[op](left, right) for op, left, right in self.parts])

    def largest(self, schema: pa.Schema, *, tries: bool) -> pc.Expression | None:
        """The condition with NaN equal to NaN and above every number; None where no side is floating, so that both
        mean the same. ``tries``: a side has TRY_CAST. Raises ``InvalidQuery`` where pyarrow cannot evaluate a side."""
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
    """A comparison in this order. Where a side is null the added tests are null or make no difference: NULL OR FALSE is
    NULL."""
    first, second = _is_nan(left, left_floats), _is_nan(right, right_floats)
    if op is Op.EQ:
        return (left == right) | (first & second)
    if op in (Op.LT, Op.GE):
        less = (left < right) | (second & ~first)
        return less if op is Op.LT else ~less
    greater = (left > right) | (first & ~second)
    return greater if op is Op.GT else ~greater


def _is_nan(side: pc.Expression, floats: bool) -> pc.Expression:
    """Whether a side is NaN, null where it is null; also for types without NaN, for which pyarrow has no such test."""
    if floats:
        return pc.Expression._call("is_nan", [side])
    return ~side.is_valid() & pc.scalar(pa.scalar(None, pa.bool_()))


def _without_tried(sides: list[pc.Expression], schema: pa.Schema) -> tuple[list[pc.Expression], pa.Schema]:
    """The sides with columns in place of TRY_CAST, and the schema with these."""
    left, tried = zip(*(taken_out(side, schema.names) for side in sides))
    fields = {one.name: pa.field(one.name, one.kind) for of_side in tried for one in of_side}
    return list(left), pa.schema([*schema, *fields.values()])


def _floating(sides: list[pc.Expression], schema: pa.Schema) -> list[bool]:
    """Which of the sides are of a floating type over rows of the schema."""
    from pyarrow import acero

    spare = max(schema.names, key=len, default="") + "_"
    table = pa.Table.from_batches([], schema.append(pa.field(spare, pa.null())))  # empty_table() knows no unions
    try:
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
        names = [str(place) for place in range(len(sides))]
        project = acero.Declaration("project", acero.ProjectNodeOptions(sides, names))
        result = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)
    except pa.ArrowException as error:
        raise InvalidQuery(f"pyarrow cannot evaluate {', '.join(map(str, sides))}: {error}") from error
    return [pa.types.is_floating(kind) for kind in result.schema.types]
