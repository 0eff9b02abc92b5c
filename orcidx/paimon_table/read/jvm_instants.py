"""Corrects instants (TIMESTAMP WITH LOCAL TIME ZONE) in ORC files. Paimon's Java shifts them by the zone of its JVM.

If ``orc.timestamp-ltz.legacy.type`` is false, Java does not shift instants. Otherwise, when Java writes an instant, it
takes the UTC time of the instant as a local time in the zone of the JVM. When Java reads, it does the reverse. For
example, a JVM in New York writes:

    true instant     12:00 UTC  →  wall clock 12:00  →  12:00 in New York = 17:00 UTC    in the file

So the true instant is computed in two steps. The stored instant is converted to local time in the JVM's zone. Then this
local time is taken as UTC.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.paimon_table.read.evolution import null_mask, own_offsets
from orcidx.predicate.nodes import NANOS

__all__ = ["check_zone", "moves", "put_back"]

_FIRST_RULES = -2_208_988_800
"""The beginning of the year 1900, in seconds since 1970. For earlier times, Java's ``java.sql.Timestamp`` uses other
rules for zones and calendars."""


_LINKS_TO_UTC = ("UTC", "UCT", "Universal", "Zulu", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich")
_NAMES_OF_UTC = frozenset(["Z", *_LINKS_TO_UTC, *(f"Etc/{name}" for name in _LINKS_TO_UTC)])
"""Names of UTC in the tz database (its files ``etcetera`` and ``backward``), and the letter Z of ISO 8601."""


def check_zone(zone: str | None) -> str | None:
    """Checks the name of a zone and returns it. Returns "UTC" for zones that are always UTC. Raises ``InvalidQuery``
    for an unknown zone."""
    try:
        return None if zone is None else "UTC" if zone in _NAMES_OF_UTC else ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidQuery(f"jvm_zone is {zone!r}, which is not a time zone such as UTC or America/New_York") from None


def moves(zone: str | None) -> bool:
    """Whether the instants in the file differ from the true instants, according to the zone that the caller gave."""
    return zone not in (None, "UTC")


def put_back(array: pa.Array, zone: str) -> pa.Array:
    """Computes the true instants from the instants that a JVM in ``zone`` wrote to a file. Nested instants are
    converted too."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        earliest = pc.min(array.cast(pa.int64())).as_py()
        if earliest is not None and earliest * NANOS[kind.unit] < _FIRST_RULES * NANOS["s"]:
            raise Unsupported(
                f"a JVM in {zone} wrote instants before 1900, but orcidx cannot convert such instants, because Java "
                "uses other calendar and zone rules before 1900"
            )
        local = pc.local_timestamp(array.cast(pa.timestamp(kind.unit, zone)))
        return pc.assume_timezone(local, "UTC").cast(kind)
    mask = null_mask(array)
    if pa.types.is_struct(kind):
        children = [put_back(array.field(i), zone) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(own_offsets(array), put_back(array.values, zone), type=kind, mask=mask)
    if pa.types.is_map(kind):
        keys, items = put_back(array.keys, zone), put_back(array.items, zone)
        return pa.MapArray.from_arrays(own_offsets(array), keys, items, type=kind, mask=mask)
    return array
