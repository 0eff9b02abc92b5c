"""TIMESTAMP WITH LOCAL TIME ZONE in ORC files of Paimon's Java: instants that its JVM's zone has moved.

Unless ``orc.timestamp-ltz.legacy.type`` is false, Java takes the UTC wall clock of the instant for one of its own zone
when it writes, and the other way round when it reads:

    true instant     12:00 UTC  →  wall clock 12:00  →  12:00 in New York = 17:00 UTC    in the file

So the true instant is the wall clock, in the JVM's zone, of what the file has, read as UTC.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, Unsupported

__all__ = ["check_zone", "moves", "put_back"]

_FIRST_RULES = -2_208_988_800
"""Seconds: 1900. Java's ``java.sql.Timestamp`` has other rules of zones and calendars before."""
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


_LINKS_TO_UTC = ("UTC", "UCT", "Universal", "Zulu", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich")
_NAMES_OF_UTC = frozenset(["Z", *_LINKS_TO_UTC, *(f"Etc/{name}" for name in _LINKS_TO_UTC)])
"""Of the tz database (its files ``etcetera`` and ``backward``), and ISO 8601's letter."""


def check_zone(zone: str | None) -> str | None:
    """A zone by its name; those that always are UTC by that one. Raises ``InvalidQuery`` for one that is not known."""
    try:
        return None if zone is None else "UTC" if zone in _NAMES_OF_UTC else ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidQuery(f"jvm_zone is {zone!r}, which is no time zone; say UTC or America/New_York") from None


def moves(zone: str | None) -> bool:
    """Whether instants of the file are others than those that were meant, as far as the caller knows."""
    return zone not in (None, "UTC")


def put_back(array: pa.Array, zone: str) -> pa.Array:
    """The instants that a JVM in ``zone`` was given, of those that a file has; nested ones, too."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        earliest = pc.min(array.cast(pa.int64())).as_py()
        if earliest is not None and earliest < _FIRST_RULES * _TICKS[kind.unit]:
            raise Unsupported(f"instants before 1900 of a JVM in {zone}: its calendar and rules are others")
        local = pc.local_timestamp(array.cast(pa.timestamp(kind.unit, zone)))
        return pc.assume_timezone(local, "UTC").cast(kind)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        children = [put_back(array.field(i), zone) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        offsets = pa.array(np.array(array.offsets.to_numpy()))
        return pa.ListArray.from_arrays(offsets, put_back(array.values, zone), type=kind, mask=mask)
    if pa.types.is_map(kind):
        offsets = pa.array(np.array(array.offsets.to_numpy()))
        keys, items = put_back(array.keys, zone), put_back(array.items, zone)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    return array
