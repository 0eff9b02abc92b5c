"""Converts a predicate of orcidx to a Spark Column, if both have the same meaning."""

from __future__ import annotations

import datetime as dt
import decimal
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from orcidx.predicate import Constant, Leaf, Op, Predicate, resolve_column
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import Part, fold
from orcidx.spark.types.column_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["is_exact_in_spark", "spark_column"]

_END = object()
_INTEGERS = pa.types.is_integer
_INTEGER_LIMIT = 1 << 63
"""Only integers between the negative of this limit and the limit are passed to Spark. The limits are excluded."""

_MOST_DIGITS = 38
"""The largest precision of a decimal in Spark."""


def spark_column(where: Predicate, schema: pa.Schema, *, case_sensitive: bool) -> Column | None:
    """Returns the Column. Returns None if Spark cannot express the predicate, or would compare differently, for example
    after rounding.

    The times in ``where`` have the kinds of their columns (see ``on_session_clock``). Raises ``InvalidQuery`` for an
    unknown column.
    """
    return fold(
        where,
        lambda part: _column_of(part, schema, case_sensitive),
        both=partial(_joined, operator.and_),
        either=partial(_joined, operator.or_),
    )


def _joined(join: Callable[[Column, Column], Column], columns: Iterator[Column | None]) -> Column | None:
    whole = next(columns)
    while whole is not None and (column := next(columns, _END)) is not _END:
        whole = None if column is None else join(whole, column)
    return whole


def _column_of(part: Part, schema: pa.Schema, case_sensitive: bool) -> Column | None:
    from pyspark.sql import functions as F

    if isinstance(part, Constant):
        return F.lit(part.value)
    if not isinstance(part, Leaf):
        return None
    path, kind = resolve_column(part.path, schema, case_sensitive=case_sensitive)
    if not all(is_exact_in_spark(value, kind) for value in part.literals) or not _has_room(part.literals, kind):
        return None
    literals = [_literal(value) for value in part.literals]
    column = F.col(".".join(map(quoted, path)))
    asked = _asked(column, part, literals)
    return None if asked is None else (~asked if part.negated else asked)


def _asked(column: Column, leaf: Leaf, literals: list[Column]) -> Column | None:
    from pyspark.sql import functions as F

    match leaf.op:
        case Op.EQ:
            return column == literals[0]
        case Op.LT:
            return column < literals[0]
        case Op.LE:
            return column <= literals[0]
        case Op.GT:
            return column > literals[0]
        case Op.GE:
            return column >= literals[0]
        case Op.IN:
            return column.isin(literals) if literals else F.lit(False)
        case Op.BETWEEN:
            return column.between(*literals)
        case Op.IS_NULL:
            return column.isNull()
        case Op.EQ_NULL_SAFE:
            return column.eqNullSafe(literals[0])
        case Op.STARTS_WITH:
            return column.startswith(literals[0])
        case Op.ENDS_WITH:
            return column.endswith(literals[0])
        case Op.CONTAINS:
            return column.contains(literals[0])
    return None


def is_exact_in_spark(value: object, kind: pa.DataType) -> bool:
    """Whether a literal has exactly the column's kind. Spark then converts neither the literal nor the column before it
    compares them."""
    types = pa.types
    if isinstance(value, bool):
        return bool(types.is_boolean(kind))
    if isinstance(value, int):
        return bool(_INTEGERS(kind) and -_INTEGER_LIMIT < value < _INTEGER_LIMIT)
    if isinstance(value, float):
        return bool(types.is_floating(kind))
    if isinstance(value, str):
        return bool(types.is_string(kind))
    if isinstance(value, decimal.Decimal):
        return bool(types.is_decimal(kind) and value.is_finite())
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return bool(types.is_date(kind))
    if isinstance(value, ExactTime) and value.zone is not None:
        return bool(types.is_timestamp(kind) and kind.tz is not None and value.nanos % 1000 == 0)
    return False


def _has_room(values: Sequence[object], kind: pa.DataType) -> bool:
    """Whether one decimal type of Spark can represent the column and all values. Otherwise Spark rounds them before it
    compares them, or raises an error. The result is True for columns of other types."""
    if not pa.types.is_decimal(kind):
        return True
    whole, fraction = kind.precision - kind.scale, kind.scale
    for value in values:
        if isinstance(value, decimal.Decimal):
            parts = value.as_tuple()
            exponent = int(parts.exponent)
            whole = max(whole, len(parts.digits) + exponent)
            fraction = max(fraction, -exponent)
    return bool(whole + fraction <= _MOST_DIGITS)


def _literal(value: object) -> Column:
    """The literal of an exact value."""
    from pyspark.sql import functions as F

    if isinstance(value, dt.date):  # lit() fails for years before 1000 and moves days between 1582-10-05 and 1582-10-14
        return F.expr(f"DATE '{value.isoformat()}'")
    if isinstance(value, int) and not isinstance(value, bool):
        return F.expr(f"{value}L")
    return F.timestamp_micros(F.lit(value.nanos // 1000)) if isinstance(value, ExactTime) else F.lit(value)
