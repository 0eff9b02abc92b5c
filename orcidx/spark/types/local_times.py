"""Converts times without a zone in a predicate. Spark interprets such times in the session's time zone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.orc.timezones import Zone, load_zone
from orcidx.predicate import Constant, Domain, Leaf, Op, Predicate, any_of, resolve_column
from orcidx.predicate.exact_time import ExactTime
from orcidx.predicate.fold import rewritten
from orcidx.predicate.literals import point_of

__all__ = ["instant_of", "on_any_clock", "on_session_clock"]

_COMPARING = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.BETWEEN, Op.EQ_NULL_SAFE})
_NANOS_PER_SECOND = 1_000_000_000
_FARTHEST_ZONE_NANOS = 18 * 3600 * _NANOS_PER_SECOND
"""The largest offset of a time zone from UTC (java.time.ZoneOffset)."""


def on_session_clock(where: Predicate, schema: pa.Schema, session_zone: str, *, case_sensitive: bool) -> Predicate:
    """The predicate with its time literals converted to the kind of time that the column has.

    For a column of instants, a time without a zone is converted to an instant by the session's zone. For a column of
    local times, an instant is converted to a local time by the session's zone. A pyarrow Expression is not changed.
    Raises ``InvalidQuery`` for an unknown column."""

    def moved(part: Predicate) -> Predicate:
        if not isinstance(part, Leaf) or part.op not in _COMPARING:
            return part
        _, kind = resolve_column(part.path, schema, case_sensitive=case_sensitive)
        if not pa.types.is_timestamp(kind):
            return part
        zone = load_zone(session_zone)
        return replace(part, literals=tuple(_moved(value, kind, zone, part.column) for value in part.literals))

    return rewritten(where, moved)  # type: ignore[no-any-return]


def on_any_clock(
    where: Predicate, schema: pa.Schema, *, case_sensitive: bool, unknown: Collection[str] = ()
) -> Predicate:
    """Returns a predicate that is true for every row for which ``where`` is true, whatever the session's time zone is.

    Planning uses this predicate if the session's zone is not known. If the result of ``where`` depends on no zone,
    ``where`` itself is returned. ``unknown``: columns whose values depend on the zone. Raises ``InvalidQuery`` for an
    unknown column.
    """

    def widened(part: Predicate) -> Predicate:
        if not isinstance(part, Leaf):
            return part
        path, kind = resolve_column(part.path, schema, case_sensitive=case_sensitive)
        if path[0] in unknown:
            return Constant(True)
        if part.op not in _COMPARING or not pa.types.is_timestamp(kind):
            return part
        times = [_on_utc(value, kind, part.column) for value in part.literals]
        if not any(times):
            return part
        return _widened(part, [at if at is not None else value for at, value in zip(times, part.literals)])

    return rewritten(where, widened)  # type: ignore[no-any-return]


def _nanos_of_other(value: Any, kind: pa.DataType, column: str) -> int | None:
    """The nanoseconds of a literal that must be converted to the column's kind of time. Such a literal is an instant if
    the column has local times, and a local time if the column has instants. The result is None for a time of the
    column's own kind, for null, and for a value that is not a time. Binding raises the error about a value that is not
    a time."""
    if value is None:
        return None
    other = pa.timestamp(kind.unit, None if kind.tz else "UTC")
    try:
        return int(point_of(value, other, Domain.TIMESTAMP, column=column).below)
    except InvalidQuery:
        return None


def _on_utc(value: Any, kind: pa.DataType, column: str) -> ExactTime | None:
    """The literal as the column's kind of time, as if the zone were UTC. The result is None for a literal that already
    has that kind, or that is not a time."""
    nanos = _nanos_of_other(value, kind, column)
    if nanos is None:
        return None
    return ExactTime(nanos, "UTC") if kind.tz else ExactTime(nanos)


def _widened(leaf: Leaf, values: Sequence[Any]) -> Predicate:
    """Returns a predicate with a wider range of times than the leaf. It is true for every row for which the leaf is
    true in at least one time zone."""
    path, known = leaf.path, [one for one in values if one is not None]
    if leaf.op in (Op.LT, Op.LE, Op.GT, Op.GE):
        upper = (leaf.op in (Op.LT, Op.LE)) != leaf.negated
        return replace(leaf, literals=(_shifted(values[0], _FARTHEST_ZONE_NANOS if upper else -_FARTHEST_ZONE_NANOS),))
    # A negated leaf matches all times except a few. In each zone, these few are other times. So each time matches in
    # some zone, and no time is excluded.
    if leaf.negated:
        return Constant(True) if leaf.op is Op.EQ_NULL_SAFE else Leaf(path, Op.IS_NULL, (), True)
    if leaf.op is Op.BETWEEN:
        if len(known) < 2:
            return replace(leaf, literals=tuple(values))
        return replace(
            leaf, literals=(_shifted(values[0], -_FARTHEST_ZONE_NANOS), _shifted(values[1], _FARTHEST_ZONE_NANOS))
        )
    near = [
        Leaf(path, Op.BETWEEN, (_shifted(one, -_FARTHEST_ZONE_NANOS), _shifted(one, _FARTHEST_ZONE_NANOS)))
        for one in known
    ]
    if leaf.op is Op.EQ_NULL_SAFE and len(known) < len(values):
        near.append(Leaf(path, Op.IS_NULL))
    widened: Predicate = any_of(*near)
    return widened


def _shifted(value: Any, nanos: int) -> Any:
    """The time, moved by an offset. If a list of times contains a value of another kind, this value is not changed.
    Binding raises the error about such a value."""
    return replace(value, nanos=value.nanos + nanos) if isinstance(value, ExactTime) else value


def _moved(value: Any, kind: pa.DataType, zone: Zone, column: str) -> Any:
    nanos = _nanos_of_other(value, kind, column)
    if nanos is None:
        return value
    second, rest = divmod(nanos, _NANOS_PER_SECOND)
    if kind.tz is not None:
        return ExactTime(instant_of(second, zone) * _NANOS_PER_SECOND + rest, "UTC")
    wall = second + int(zone.offsets_at(np.array([second]))[0])
    return ExactTime(wall * _NANOS_PER_SECOND + rest)


def instant_of(wall: int, zone: Zone) -> int:
    """The instant of a local time in a zone, by the rules of java.time. For a local time that occurs twice, the first
    instant is returned. A local time that does not occur is moved by the length of the gap."""
    offsets = sorted(zone.offsets_near(wall), reverse=True)
    for offset in offsets:
        if int(zone.offsets_at(np.array([wall - offset]))[0]) == offset:
            return wall - offset
    return wall - offsets[-1]
