"""Times without a zone in a predicate, as Spark means them: on the session's clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.orc.timezones import Zone, load_zone
from orcidx.predicate import And, Domain, Leaf, Op, Or, Predicate, all_of, any_of, resolve_column
from orcidx.predicate.literals import convert
from orcidx.predicate.nodes import ExactTime

__all__ = ["instant_of", "on_session_clock"]

_COMPARING = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.BETWEEN, Op.EQ_NULL_SAFE})
_SECOND = 1_000_000_000


def on_session_clock(where: Predicate, schema: pa.Schema, session_zone: str, *, case_sensitive: bool) -> Predicate:
    """The predicate with the literals of time columns in the kind of time that the column holds.

    A time without a zone for an instant, and an instant for a column of wall clocks, go through the session's zone. A
    pyarrow Expression stays as it is. Raises ``InvalidQuery`` for an unknown column.
    """
    if isinstance(where, And | Or):
        join = all_of if isinstance(where, And) else any_of
        parts = [on_session_clock(one, schema, session_zone, case_sensitive=case_sensitive) for one in where.children]
        joined: Predicate = join(*parts)
        return joined
    if not isinstance(where, Leaf) or where.op not in _COMPARING:
        return where
    _, kind = resolve_column(where.path, schema, case_sensitive=case_sensitive)
    if not pa.types.is_timestamp(kind):
        return where
    zone = load_zone(session_zone)
    return replace(where, literals=tuple(_moved(value, kind, zone, where.column) for value in where.literals))


def _moved(value: Any, kind: pa.DataType, zone: Zone, column: str) -> Any:
    if value is None:
        return None
    other = pa.timestamp(kind.unit, None if kind.tz else "UTC")
    try:
        nanos = convert(value, other, Domain.TIMESTAMP, column=column).below
    except InvalidQuery:
        return value  # of the column's own kind, or nothing that it can be compared with: binding tells
    second, rest = divmod(nanos, _SECOND)
    if kind.tz is not None:
        return ExactTime(instant_of(second, zone) * _SECOND + rest, "UTC")
    wall = second + int(zone.offsets_at(np.array([second]))[0])
    return ExactTime(wall * _SECOND + rest)


def instant_of(wall: int, zone: Zone) -> int:
    """The instant at which the zone's clocks showed a second, as java.time has it: the first of two, and where clocks
    jumped over it, as far behind the jump."""
    offsets = sorted(zone.offsets_near(wall), reverse=True)
    for offset in offsets:
        if int(zone.offsets_at(np.array([wall - offset]))[0]) == offset:
            return wall - offset
    return wall - offsets[-1]
