"""Values that are computed from columns, and conditions on such values: ``col("a") + 1 < col("b")``.

pyarrow evaluates conditions on computed values row by row, with its own meaning. Arithmetic that overflows raises an
error, ``/`` gives doubles, and integers are compared with doubles as doubles. The option ``nan`` says how NaN compares
(``comparisons``). Indexes cannot evaluate these conditions. Only nulls of the columns are used for pruning: every
operation except ``coalesce`` gives null where an operand is null.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.predicate.arrow_expression import from_expression
from orcidx.predicate.comparisons import Comparisons
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.nodes import External, Leaf, Op, Predicate, all_of, canonical_literal
from orcidx.predicate.tried_casts import tried_cast

__all__ = [
    "SCALAR_FUNCTIONS",
    "Computed",
    "Values",
    "comparison_of",
    "computed",
    "condition_of",
    "is_strict",
    "operand_expression",
]

SCALAR_FUNCTIONS = {
    "abs": "abs_checked",
    "ceil": "ceil",
    "floor": "floor",
    "round": "round",
    "sqrt": "sqrt_checked",
    "lower": "utf8_lower",
    "upper": "utf8_upper",
    "length": "utf8_length",
    "trim": "utf8_trim_whitespace",
    "ltrim": "utf8_ltrim_whitespace",
    "rtrim": "utf8_rtrim_whitespace",
    "reverse": "utf8_reverse",
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
"""The functions of one value. Each key is the name in SQL and in ``Values.function``. Each value is the name of
pyarrow's function."""


class Values:
    """The common base of columns and computed values. It defines arithmetic and the functions of
    ``SCALAR_FUNCTIONS``."""

    __slots__ = ()

    def _expression(self) -> pc.Expression:
        raise NotImplementedError

    def __add__(self, other: Any) -> Computed:
        return _call("add_checked", self, other)

    def __radd__(self, other: Any) -> Computed:
        return _call("add_checked", other, self)

    def __sub__(self, other: Any) -> Computed:
        return _call("subtract_checked", self, other)

    def __rsub__(self, other: Any) -> Computed:
        return _call("subtract_checked", other, self)

    def __mul__(self, other: Any) -> Computed:
        return _call("multiply_checked", self, other)

    def __rmul__(self, other: Any) -> Computed:
        return _call("multiply_checked", other, self)

    def __truediv__(self, other: Any) -> Computed:
        return quotient(self, other)

    def __rtruediv__(self, other: Any) -> Computed:
        return quotient(other, self)

    def __neg__(self) -> Computed:
        return _call("negate_checked", self)

    def __abs__(self) -> Computed:
        return self.function("abs")

    def function(self, name: str) -> Computed:
        """A function of this value.

        Parameters
        ----------
        name : str
            The name, such as "lower", "length" or "year".

        Returns
        -------
        Computed

        Raises
        ------
        InvalidQuery
            The function is unknown. The error lists all functions.

        Examples
        --------
        >>> import orcidx, pyarrow as pa
        >>> table = pa.table({"name": ["Ada", "Grace"]})
        >>> _ = orcidx.write_table(table, "names.orc")
        >>> orcidx.scan("names.orc", where=orcidx.col("name").function("length") > 3).to_table().to_pylist()
        [{'name': 'Grace'}]
        """
        if name not in SCALAR_FUNCTIONS:
            raise InvalidQuery(f"there is no function {name!r}; the functions are {', '.join(SCALAR_FUNCTIONS)}")
        return _call(SCALAR_FUNCTIONS[name], self)

    def cast(self, kind: pa.DataType) -> Computed:
        """The value converted to another Arrow type. Reading raises an error if a value does not fit.

        Parameters
        ----------
        kind : pyarrow.DataType
            The other type.

        Returns
        -------
        Computed
        """
        return Computed(self._expression().cast(kind), strict=is_strict(self))

    def try_cast(self, kind: pa.DataType) -> Computed:
        """The value converted to another Arrow type. The result is null if the value does not fit.

        Parameters
        ----------
        kind : pyarrow.DataType
            The other type.

        Returns
        -------
        Computed
        """
        return Computed(tried_cast(self._expression(), kind), strict=is_strict(self))

    def coalesce(self, *others: Any) -> Computed:
        """The first value that is not null among this value and ``others``, in this order.

        Parameters
        ----------
        *others : Column, Computed or a plain value
            The values that replace this value where it is null.

        Returns
        -------
        Computed
        """
        return Computed(_call("coalesce", self, *others)._expression(), strict=False)


class Computed(Values):
    """A value computed from columns. A comparison of this value makes a predicate that pyarrow evaluates."""

    __slots__ = ("_computed", "_strict")

    def __init__(self, expression: pc.Expression, *, strict: bool = True) -> None:
        self._computed = expression
        self._strict = strict

    def _expression(self) -> pc.Expression:
        return self._computed

    def __eq__(self, other: object) -> External:  # type: ignore[override]
        return computed(Op.EQ, self, other)

    def __ne__(self, other: object) -> External:  # type: ignore[override]
        return ~computed(Op.EQ, self, other)

    def __lt__(self, other: Any) -> External:
        return computed(Op.LT, self, other)

    def __le__(self, other: Any) -> External:
        return computed(Op.LE, self, other)

    def __gt__(self, other: Any) -> External:
        return computed(Op.GT, self, other)

    def __ge__(self, other: Any) -> External:
        return computed(Op.GE, self, other)

    def __hash__(self) -> int:
        return hash(str(self._computed))

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value; compare it with a value or a column")

    def __repr__(self) -> str:
        return str(self._computed)

    def is_in(self, values: Iterable[object]) -> Predicate:
        """Whether the value equals one of ``values``."""
        members = tuple(values)
        if not members:
            raise InvalidQuery("is_in of a computed value needs at least one value")
        parts = tuple((Op.EQ, operand_expression(self), operand_expression(one)) for one in members)
        return comparison_of(Comparisons(parts), strict=is_strict(self), tested=operand_expression(self))

    def between(self, low: object, high: object) -> External:
        """Whether ``low <= value <= high``. Both ends are included."""
        value = operand_expression(self)
        both = (Op.GE, value, operand_expression(low)), (Op.LE, value, operand_expression(high))
        return comparison_of(Comparisons(both, every=True), strict=is_strict(self), tested=value)

    def is_null(self) -> External:
        """Whether the value is null."""
        return condition_of(operand_expression(self).is_null(), strict=False)

    def is_not_null(self) -> External:
        """Whether the value is not null."""
        return ~self.is_null()


def _call(function: str, *operands: Any) -> Computed:
    """The value of a function that gives null where an operand is null."""
    expression = pc.Expression._call(function, [operand_expression(one) for one in operands])
    return Computed(expression, strict=all(map(is_strict, operands)))


def quotient(dividend: Any, divisor: Any) -> Computed:
    """Division as doubles, also for integers, as in Spark and DuckDB. Division by zero gives an infinity or NaN."""
    first, second = (operand_expression(one).cast(pa.float64()) for one in (dividend, divisor))
    return Computed(pc.Expression._call("divide", [first, second]), strict=is_strict(dividend) and is_strict(divisor))


def operand_expression(operand: object) -> pc.Expression:
    """The Expression of a column, of a computed value or of a constant. Raises ``InvalidQuery`` for a constant that no
    Arrow type can represent."""
    if isinstance(operand, Values):
        return operand._expression()
    if isinstance(operand, pc.Expression):
        return operand
    try:
        return pc.scalar(operand if isinstance(operand, pa.Scalar) else _scalar(canonical_literal(operand)))
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidQuery(f"{operand!r:.80} fits no Arrow type, so nothing can be computed from it") from error


def _scalar(value: object) -> object:
    """Converts a literal to a value from which pyarrow makes a constant. Times keep their nanoseconds."""
    if isinstance(value, ExactTime):
        return pa.scalar(value.nanos, pa.time64("ns") if value.of_day else pa.timestamp("ns", value.zone))
    if isinstance(value, datetime.datetime) and getattr(value, "nanosecond", 0) > 0:  # a Timestamp of pandas
        return pa.scalar(value, pa.timestamp("ns", None if value.tzinfo is None else "UTC"))
    return value


def is_strict(operand: object) -> bool:
    """Whether the operand is null wherever one of its columns is null."""
    if isinstance(operand, pc.Expression):
        return False  # the caller's Expression may call a function that returns a value for null
    return operand._strict if isinstance(operand, Computed) else True


def computed(op: Op, left: object, right: object) -> External:
    """Makes a comparison in which a side is a computed value, or both sides are columns."""
    strict = is_strict(left) and is_strict(right)
    return comparison_of(Comparisons(((op, operand_expression(left), operand_expression(right)),)), strict=strict)


def comparison_of(comparisons: Comparisons, *, strict: bool, tested: pc.Expression | None = None) -> External:
    """Makes a condition from comparisons. ``strict`` and ``tested`` have the same meaning as in ``condition_of``."""
    return replace(condition_of(comparisons.ieee(), strict=strict, tested=tested), comparisons=comparisons)


def condition_of(expression: pc.Expression, *, strict: bool, tested: pc.Expression | None = None) -> External:
    """Makes a condition that pyarrow evaluates. ``strict`` says that the condition is null wherever one of its columns
    is null. In this case, nulls of the columns rule out rows.

    ``tested``: the value that BETWEEN or IN tests. If it is given, ``strict`` holds only for the columns of this value.
    If another operand is null, the condition need not be null: NULL OR TRUE is TRUE, and NULL AND FALSE is FALSE."""
    node = from_expression(expression)
    columns = node.columns if tested is None else from_expression(tested.is_null()).columns
    if not strict or node.columns is None or columns is None:
        return node
    present = [Leaf(path, Op.IS_NULL, negated=True) for path in columns]
    return replace(node, may=all_of(node.may, *present), may_not=all_of(node.may_not, *present), is_exact=False)
