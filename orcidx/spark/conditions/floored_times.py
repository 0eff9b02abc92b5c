"""Comparisons with times, with Spark's meaning.

Spark truncates the nanoseconds of files to microseconds before it compares. orcidx compares exact nanoseconds."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.predicate import Constant, Domain, Leaf, Op, Predicate, all_of, any_of, resolve_column
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import Part, rewritten
from orcidx.predicate.literals import point_of

__all__ = ["in_micros", "in_micros_of_columns"]

_EPOCH = dt.datetime(1970, 1, 1)
_CHANGED = frozenset({Op.EQ, Op.LE, Op.GT, Op.IN, Op.BETWEEN, Op.EQ_NULL_SAFE})
"""The comparisons for which the nanoseconds of a stored time can change the result, if the literal is in whole
microseconds."""


def in_micros_of_columns(where: Predicate, schema: pa.Schema, unit: str, *, case_sensitive: bool) -> Predicate:
    """Rewrites the comparisons with timestamp columns of this unit by ``in_micros``. ``unit``: the unit in ``schema``
    of the columns that may have nanoseconds in the files.

    The literals can have every type that a timestamp column is compared with. A comparison with a literal that has
    nanoseconds is not changed, because Spark has no such literal. Raises ``InvalidQuery`` for an unknown column."""

    def changed(part: Part) -> Part | Predicate:
        if not isinstance(part, Leaf) or part.op not in _CHANGED:
            return part
        _, kind = resolve_column(part.path, schema, case_sensitive=case_sensitive)
        if not pa.types.is_timestamp(kind) or kind.unit != unit:
            return part
        times = _whole_micros(part, kind)
        return part if times is None else in_micros(replace(part, literals=times))

    return rewritten(where, changed)  # type: ignore[no-any-return]


def _whole_micros(leaf: Leaf, kind: pa.DataType) -> tuple[ExactTime | None, ...] | None:
    """The literals of a comparison with a timestamp column. The result is None if a literal has nanoseconds, or is not
    a time of the column's kind. Binding raises the error about a literal that is not such a time."""
    times = []
    for value in leaf.literals:
        try:
            point = None if value is None else point_of(value, kind, Domain.TIMESTAMP, column=leaf.column)
        except InvalidQuery:
            return None
        if point is not None and (point.below != point.above or point.below % 1000):
            return None
        times.append(None if point is None else ExactTime(int(point.below), "UTC" if kind.tz else None))
    return tuple(times)


def in_micros(part: Part) -> Part | Predicate:
    """Rewrites a comparison with a time, so that orcidx gets Spark's result for stored nanoseconds. Spark truncates
    them to microseconds before it compares."""
    if not isinstance(part, Leaf):
        return part
    part = replace(part, literals=tuple(map(_exact, part.literals)))
    if not any(isinstance(one, ExactTime) for one in part.literals):
        return part
    plain = replace(part, negated=False)
    times = [one for one in part.literals if isinstance(one, ExactTime)]
    if part.op in (Op.LE, Op.GT):
        found: Predicate = replace(plain, op=Op.LT if part.op is Op.LE else Op.GE, literals=(_next(times[0]),))
    elif part.op in (Op.EQ, Op.IN):
        within = (all_of(_time_leaf(part, Op.GE, one), _time_leaf(part, Op.LT, _next(one))) for one in times)
        found = any_of(*within, *([Constant(None)] if len(times) < len(part.literals) else []))
    elif part.op is Op.BETWEEN:
        low, high = part.literals
        until = _time_leaf(part, Op.LT, _next(high)) if isinstance(high, ExactTime) else _time_leaf(part, Op.LE, high)
        found = all_of(_time_leaf(part, Op.GE, low), until)
    elif part.op is Op.EQ_NULL_SAFE:
        window = all_of(_time_leaf(part, Op.GE, times[0]), _time_leaf(part, Op.LT, _next(times[0])))
        found = all_of(Leaf(part.path, Op.IS_NULL, (), True), window)
    else:
        found = plain
    return ~found if part.negated else found


def _time_leaf(leaf: Leaf, op: Op, time: object) -> Leaf:
    return Leaf(leaf.path, op, (time,))


def _next(time: ExactTime) -> ExactTime:
    """Returns the time one microsecond later."""
    return replace(time, nanos=time.nanos + 1000)


def _exact(value: Any) -> Any:
    """A ``datetime`` as an ``ExactTime``. Any other literal is returned unchanged."""
    if not isinstance(value, dt.datetime):
        return value
    zone = None if value.tzinfo is None else "UTC"
    epoch = _EPOCH if zone is None else _EPOCH.replace(tzinfo=dt.UTC)
    return ExactTime((value - epoch) // dt.timedelta(microseconds=1) * 1000, zone)
