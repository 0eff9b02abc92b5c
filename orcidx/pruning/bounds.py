"""Compares one leaf with bounds. No other module decides what a minimum and a maximum prove for an operator.

A unit is anything that has bounds: a file, a stripe, a row group, a partition or a manifest. The bounds hold for every
value. Bounds, nulls and NaN give two results for each unit: whether the leaf *can* be TRUE for some row, and
whether it *is* TRUE for every row. For a negated leaf, the two results of the leaf without its negation are inverted
and swapped. So nulls and NaN need no separate rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from orcidx.predicate import BoundLeaf, Op, like_prefix
from orcidx.predicate.nodes import EQUALITIES, object_array

__all__ = [
    "FEW_LITERALS",
    "ColumnBounds",
    "UnitBounds",
    "ValueBounds",
    "leaf_in_bounds",
    "numbers_rule_out",
    "successor",
    "within_bounds",
]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]
EndValues = npt.NDArray[Any]
Value = int | float | Decimal | bytes
"""A literal in the form in which predicates compare it: a date in days, a time or timestamp in nanoseconds, a text as
UTF-8."""

_Literal_contra = TypeVar("_Literal_contra", contravariant=True)

FEW_LITERALS = 16
"""At most this many literals are compared one by one with all bounds. With 24 literals this takes 1.4 times as long as
a comparison by rank (decision 0113)."""


class UnitBounds(Protocol[_Literal_contra]):
    """The lower or the upper bounds of n units. ``valid`` says which units have a bound."""

    @property
    def valid(self) -> Bools: ...

    @property
    def known(self) -> int:
        """The number of units that have a bound."""

    def compare(self, literal: _Literal_contra) -> Signs:
        """The sign of ``bound - literal`` for each unit. It is undefined for units that are not valid."""

    def plain(self, literal: _Literal_contra) -> EndValues | None:
        """Returns the bounds as an array that can be compared with the literal. The result is None if some unit has no
        bound, or if the bounds can only be compared by ``compare``."""

    def sortable(self, units: Int64s, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the bounds of some units, in a form that can be looked up among sorted literals. All of these units
        must have a bound."""


@dataclass(frozen=True, eq=False)
class ValueBounds:
    """Bounds that are Python values in an array of objects. A unit without a bound has None."""

    values: npt.NDArray[Any]
    valid: Bools

    @classmethod
    def of(cls, values: Sequence[Value | None]) -> ValueBounds:
        """Makes bounds from values, one unit for each value. A value that is NaN gives no bound."""
        return cls(object_array(values), np.array([value is not None and value == value for value in values], np.bool_))

    @property
    def known(self) -> int:
        """The number of units that have a bound."""
        return int(np.count_nonzero(self.valid))

    def compare(self, literal: Value) -> Signs:
        """The sign of ``bound - literal`` for each unit. It is 0 for units that are not valid."""
        signs = np.zeros(len(self.values), np.int8)
        known, other = self.values[self.valid], np.empty((), object)
        other[()] = literal  # NumPy removes zero bytes at the end of a bytes object, except in an array of objects
        signs[self.valid] = (known > other).astype(np.int8) - (known < other).astype(np.int8)
        return signs

    def plain(self, literal: Value) -> None:
        """Always None, because objects can only be compared by ``compare``."""

    def sortable(self, units: Int64s, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The bounds of some units, as objects."""
        return self.values[units]


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnBounds:
    """The known facts about one column in each of n units.

    ``lower`` and ``upper`` hold for every value except NaN. None means that no unit has a bound. ``may_null`` says
    whether a row may be null. ``all_null`` says whether every row is null. ``may_nan`` says whether a value may be NaN.
    """

    lower: UnitBounds[Any] | None
    upper: UnitBounds[Any] | None
    may_null: Bools
    all_null: Bools
    may_nan: Bools


def successor(prefix: bytes) -> bytes | None:
    """Returns the smallest bytes that are greater than all bytes with this prefix. The result is None if there are no
    such bytes."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


@overload
def within_bounds(op: Op, low: int, high: int, literal: float = 0) -> tuple[bool, bool]: ...


@overload
def within_bounds(op: Op, low: EndValues, high: EndValues, literal: float = 0) -> tuple[Bools, Bools]: ...


def within_bounds(
    op: Op, low: int | EndValues, high: int | EndValues, literal: float = 0
) -> tuple[bool | Bools, bool | Bools]:
    """Compares all values between two bounds with a literal. Returns whether some value may satisfy the operator, and
    whether every value satisfies it.

    ``low`` and ``high`` are the two bounds, as numbers or arrays. They may also be the signs of ``bound - literal``;
    the argument ``literal`` is then 0. If a bound is unknown, its sign is -1 for ``low`` and 1 for ``high``, so the
    bound rules out no literal.
    """
    if op is Op.LT:
        return low < literal, high < literal
    if op is Op.LE:
        return low <= literal, high <= literal
    if op is Op.GT:
        return high > literal, low > literal
    if op is Op.GE:
        return high >= literal, low >= literal
    return (low <= literal) & (high >= literal), (low == literal) & (high == literal)  # the operator is an equality


_COMPARISONS = (*EQUALITIES, Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN)


def numbers_rule_out(leaf: BoundLeaf, low: int, high: int) -> bool:
    """Whether no value from ``low`` to ``high`` can satisfy a leaf that is not negated.

    The result is False for operators that are not comparisons.
    """
    op, literals = leaf.op, leaf.literals
    if op not in _COMPARISONS or leaf.negated:
        return False
    if op is Op.BETWEEN:
        return bool(high < literals[0] or low > literals[1])
    for literal in literals:  # noqa: SIM110  a generator takes longer for one literal
        if within_bounds(op, low, high, literal)[0]:
            return False
    return True


def leaf_in_bounds(leaf: BoundLeaf, known: ColumnBounds) -> tuple[Bools, Bools]:
    """For each unit, whether the leaf may be TRUE for some row, and whether it is TRUE for every row. The negation of
    the leaf is included."""
    may_null, all_null, negated = known.may_null, known.all_null, leaf.negated
    if leaf.op is Op.IS_NULL:
        return (~all_null, ~may_null) if negated else (may_null, all_null)
    can, every = _Values(leaf, known).answer()
    if leaf.op is Op.EQ_NULL_SAFE and negated:
        return may_null | ~every, all_null | ~can
    if negated:
        can, every = ~every, ~can
    return can & ~all_null, every & ~may_null


class _Values:
    """What bounds prove about the values of all units, for one leaf without its negation. Nulls are not considered
    here."""

    def __init__(self, leaf: BoundLeaf, known: ColumnBounds) -> None:
        self.leaf = leaf
        self.known = known
        self.nan = known.may_nan
        self.units = len(known.may_null)

    def answer(self) -> tuple[Bools, Bools]:
        """For each unit, whether some value may satisfy the operator, and whether every value satisfies it. The result
        is (false, true) for a unit without values."""
        op, literals = self.leaf.op, self.leaf.literals
        if op is Op.IS_NAN:
            return self.nan, np.zeros_like(self.nan)
        if op is Op.IN and len(literals) > FEW_LITERALS:
            return self._in_many()
        if op in EQUALITIES:
            can, every = self._compared(Op.EQ, literals[0]) if len(literals) == 1 else self._in(literals)
            return can, every & ~self.nan
        if op is Op.BETWEEN:
            low, high = self._compared(Op.GE, literals[0]), self._compared(Op.LE, literals[1])
            return low[0] & high[0], low[1] & high[1] & ~self.nan
        if op is Op.STARTS_WITH:
            return self._prefix(literals[0], exactly=True)
        if op is Op.LIKE:
            return self._prefix(like_prefix(literals[0]), exactly=False)
        if op in (Op.ENDS_WITH, Op.CONTAINS):
            empty = np.full(self.units, not literals[0])
            return np.ones_like(empty), empty
        can, every = self._compared(op, literals[0])
        # If NaN is the largest value, NaN > literal and NaN >= literal are true. In all other cases a comparison with
        # NaN is false.
        if op in (Op.GT, Op.GE) and self.leaf.nan == "largest":
            return can | self.nan, every
        return can, every & ~self.nan

    def _compared(self, op: Op, literal: Value) -> tuple[Bools, Bools]:
        """The result for values that are not NaN."""
        lower, upper = self.known.lower, self.known.upper
        if lower is not None and upper is not None:
            least, most = lower.plain(literal), upper.plain(literal)
            if least is not None and most is not None and isinstance(literal, int | float):
                return within_bounds(op, least, most, literal)
        low = _signs(self.known.lower, literal, -1, self.units)
        high = _signs(self.known.upper, literal, 1, self.units)
        return within_bounds(op, low, high)

    def _in(self, literals: Sequence[Value]) -> tuple[Bools, Bools]:
        """The result for values that are not NaN."""
        can, every = np.zeros(self.units, np.bool_), np.zeros(self.units, np.bool_)
        for literal in literals:
            possible, sure = self._compared(Op.EQ, literal)
            can |= possible
            every |= sure
        return can, every

    def _in_many(self) -> tuple[Bools, Bools]:
        """Whether some literal is between the bounds. All units are tested at once, by the rank of their lower bounds
        among the literals."""
        lower, upper, keys = self.known.lower, self.known.upper, self.leaf.sorted_literals
        at, every = np.zeros(self.units, np.int64), np.zeros(self.units, np.bool_)
        if lower is not None:
            units = np.flatnonzero(lower.valid)
            at[units] = np.searchsorted(keys, lower.sortable(units, keys))
        can: Bools = at < len(keys)
        if upper is not None:
            units = np.flatnonzero(upper.valid & can)
            nearest, high = keys[at[units]], upper.sortable(units, keys)
            can[units] = (nearest <= high).astype(np.bool_)
            if lower is not None:
                both = np.flatnonzero(lower.valid[units] & can[units])
                single = (lower.sortable(units[both], keys) == high[both]).astype(np.bool_)
                every[units[both]] = single & (nearest[both] == high[both]).astype(np.bool_)
        return can, every & ~self.nan

    def _prefix(self, prefix: bytes, *, exactly: bool) -> tuple[Bools, Bools]:
        """The result for a prefix. Values with the prefix are the values from the prefix up to its successor."""
        nothing = np.zeros(self.units, np.bool_)
        if not prefix:
            return ~nothing, ~nothing if exactly else nothing
        can, every = self._compared(Op.GE, prefix)
        above = successor(prefix)
        if above is not None:
            below, all_below = self._compared(Op.LT, above)
            can, every = can & below, every & all_below
        return can, every if exactly else nothing


def _signs(bounds: UnitBounds[Any] | None, literal: Value, unknown: int, units: int) -> Signs:
    """The sign of ``bound - literal`` for each unit. It is ``unknown`` for units without a bound."""
    known = 0 if bounds is None else bounds.known
    if bounds is None or not known:
        return np.full(units, unknown, np.int8)
    signs = bounds.compare(literal)
    return signs if known == units else np.where(bounds.valid, signs, np.int8(unknown))
