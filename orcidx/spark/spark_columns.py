"""A predicate of orcidx as a Column of Spark's, where the two mean the same."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

from orcidx.predicate import And, Constant, Leaf, Op, Or, Predicate, resolve_column
from orcidx.predicate.nodes import ExactTime

__all__ = ["column_of"]

_INTEGERS, _MOST = pa.types.is_integer, 1 << 63


def column_of(where: Predicate, schema: pa.Schema, *, case_sensitive: bool) -> Any:
    """The Column; None where Spark would compare otherwise, as by rounding, or has no word for it.

    ``where`` has its times as the columns have them (``on_session_clock``). Raises ``InvalidQuery`` for an unknown
    column.
    """
    from pyspark.sql import functions as F

    if isinstance(where, Constant):
        return F.lit(where.value)
    if isinstance(where, (And, Or)):
        whole = None
        for child in where.children:
            part = column_of(child, schema, case_sensitive=case_sensitive)
            if part is None:
                return None
            if whole is None:
                whole = part
            else:
                whole = (whole & part) if isinstance(where, And) else (whole | part)
        return whole
    if not isinstance(where, Leaf):
        return None
    path, kind = resolve_column(where.path, schema, case_sensitive=case_sensitive)
    literals = [_literal(value, kind) for value in where.literals]
    if any(one is None for one in literals):
        return None
    column = F.col(".".join("`" + part.replace("`", "``") + "`" for part in path))
    asked = _asked(column, where, literals)
    return None if asked is None else (~asked if where.negated else asked)


def _asked(column: Any, leaf: Leaf, literals: list[Any]) -> Any:
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


def _literal(value: Any, kind: pa.DataType) -> Any:
    """The literal of exactly the column's kind; None for any other."""
    from pyspark.sql import functions as F

    types = pa.types
    if isinstance(value, bool):
        return F.lit(value) if types.is_boolean(kind) else None
    if isinstance(value, int) and -_MOST <= value < _MOST:
        return F.expr(f"{value}L") if _INTEGERS(kind) and value > -_MOST else None
    if isinstance(value, float):
        return F.lit(value) if types.is_floating(kind) else None
    if isinstance(value, str):
        return F.lit(value) if types.is_string(kind) else None
    if isinstance(value, decimal.Decimal):
        return F.lit(value) if types.is_decimal(kind) and value.is_finite() else None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return F.lit(value) if types.is_date(kind) else None
    if isinstance(value, ExactTime) and value.zone is not None and types.is_timestamp(kind) and kind.tz is not None:
        micros, rest = divmod(value.nanos, 1000)
        return None if rest else F.timestamp_micros(F.lit(micros))
    return None
