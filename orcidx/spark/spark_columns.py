"""A predicate of orcidx as a Column of Spark's, where the two mean the same."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

from orcidx.predicate import And, Constant, Leaf, Op, Or, Predicate, resolve_column
from orcidx.predicate.nodes import ExactTime

__all__ = ["column_of", "is_exact"]

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
    if not all(is_exact(value, kind) for value in where.literals):
        return None
    literals = [_literal(value) for value in where.literals]
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


def is_exact(value: Any, kind: pa.DataType) -> bool:
    """Whether a literal is of exactly the column's kind, so that Spark converts neither before it compares them."""
    types = pa.types
    if isinstance(value, bool):
        return bool(types.is_boolean(kind))
    if isinstance(value, int):
        return bool(_INTEGERS(kind) and -_MOST < value < _MOST)
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


def _literal(value: Any) -> Any:
    """The literal of what is exact."""
    from pyspark.sql import functions as F

    if isinstance(value, int) and not isinstance(value, bool):
        return F.expr(f"{value}L")
    return F.timestamp_micros(F.lit(value.nanos // 1000)) if isinstance(value, ExactTime) else F.lit(value)
