"""Comparisons with times, with Spark's meaning.

Spark truncates the nanoseconds of files to microseconds before it compares. orcidx compares exact nanoseconds."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from orcidx.predicate import Constant, Leaf, Op, Predicate, all_of, any_of
from orcidx.predicate.fold import Part
from orcidx.predicate.nodes import ExactTime

__all__ = ["in_micros"]

_EPOCH = dt.datetime(1970, 1, 1)


def in_micros(part: Part) -> Part | Predicate:
    """Rewrites a comparison with a time for the nanoseconds in files. Spark truncates stored nanoseconds to
    microseconds before it compares."""
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
