"""Converts the constants of a condition that Spark has analysed to values with which orcidx compares.

Catalyst's JSON shows dates and times as texts. The calendar and the time zone of the texts depend on Spark's version.
So times are fetched from the JVM. The JSON does not show bytes. If a predicate must be exact, dates and bytes are
fetched from the JVM, too."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcidx.orc.timezones import Zone
from orcidx.predicate.exact_time import ExactTime
from orcidx.spark.types.argument_types import JavaObject

__all__ = [
    "TRUSTED_DAYS",
    "UNKNOWN_VALUE",
    "Nodes",
    "is_understood",
    "literal_value",
    "wall_clock",
    "with_cast_instants",
    "with_instants",
    "with_values",
]

Nodes = list[dict[str, Any]]
"""An expression in Catalyst's JSON: its nodes in preorder."""
UNKNOWN_VALUE = object()
MOST_FETCHED_VALUES = 2000
"""The maximum number of values of a condition that are fetched from the JVM, by one call of a fifth of a millisecond
each. If a condition has more values, orcidx uses the texts in Catalyst's JSON."""
_VALUE = "value of the JVM"
TRUSTED_DAYS = dt.date(1901, 1, 1), dt.date(2037, 1, 1)
"""Outside of these bounds, calendars and clocks of writers and readers may differ (docs/decisions/0014)."""
_STEADY_SECONDS = 2 * 86400
"""Local times and instants have the same order if the zone keeps its offset for this many seconds before and after."""


def with_values(nodes: Nodes, expression: JavaObject) -> Nodes:
    """Returns the nodes of an expression, after adding the JVM's values to literals of dates, times and bytes. If there
    are too many literals, their values are not fetched. The texts of instants then become empty, because the time zone
    of these texts depends on Spark's version: it is the session's zone in Spark 4.1, and the JVM's zone before.
    ``literal_value`` returns ``UNKNOWN_VALUE`` for an empty text."""
    ends = [node for node in nodes if not node["num-children"]]
    wanted = [
        number
        for number, node in enumerate(ends)
        if node["class"].endswith(".Literal") and str(node["dataType"]) in _BY_VALUE and node["value"] is not None
    ]
    if not wanted:
        return nodes
    if len(wanted) <= MOST_FETCHED_VALUES and (leaves := expression.collectLeaves()).size() == len(ends):
        for number in wanted:
            ends[number][_VALUE] = leaves.apply(number).value()
        return nodes
    for number in wanted:
        if ends[number]["dataType"] == "timestamp":
            ends[number]["value"] = ""
    return nodes


def with_instants(nodes: Nodes, expression: JavaObject) -> Nodes:
    """Returns the nodes of an expression, after replacing the texts of instants by texts in UTC. If the JVM's value of
    an instant is not known, the text becomes empty, as in ``with_values``."""
    for node in with_values(nodes, expression):
        if node["class"].endswith(".Literal") and node["dataType"] in ("timestamp", "date"):
            value = node.pop(_VALUE, None)
            if node["dataType"] == "timestamp" and node["value"] is not None:
                node["value"] = "" if value is None else _utc_text(value)
    return nodes


def with_cast_instants(nodes: Nodes) -> Nodes:
    """Returns the nodes of an expression from ``IndexedFilesRule.java``, after replacing each instant by a literal with
    a text in UTC. In the expression, an instant is a cast from a local time in UTC. The text of any other instant
    becomes empty, because its zone depends on Spark's version."""
    found: Nodes = []
    for node in nodes:
        if node["class"].endswith(".Literal") and node["value"] is not None:
            if node["dataType"] == "timestamp":
                node = {**node, "value": ""}
            elif node["dataType"] == "timestamp_ntz" and found and _is_cast_from_utc(found[-1]):
                node = {**node, "dataType": "timestamp", "value": _utc_text(int(node["value"]))}
                found.pop()
        found.append(node)
    return found


def _is_cast_from_utc(node: Mapping[str, Any]) -> bool:
    """Whether a node converts a local time in UTC to an instant."""
    is_cast = node["class"].endswith(".Cast") and node["dataType"] == "timestamp"
    return is_cast and node.get("timeZoneId") == "UTC"


def _utc_text(micros: int) -> str:
    try:
        return f"{dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S.%f}"
    except OverflowError:
        return ""


def wall_clock(value: ExactTime, zone: Zone) -> ExactTime | None:
    """The local time of a zone at an instant. The result is None near a change of the zone's offset."""
    second = value.nanos // 1_000_000_000
    offsets = {
        int(one) for one in zone.offsets_at(np.array([second - _STEADY_SECONDS, second, second + _STEADY_SECONDS]))
    }
    if len(offsets) != 1:
        return None
    return ExactTime(value.nanos + offsets.pop() * 1_000_000_000)


def literal_value(node: Mapping[str, Any], clock: Zone) -> object:
    """The value of a literal node. The result is None for null, and ``UNKNOWN_VALUE`` if the value is not certain."""
    kind, text = node["dataType"], node["value"]
    if not isinstance(kind, str):
        return UNKNOWN_VALUE
    if text is None:
        return None
    if _VALUE in node:
        return _BY_VALUE[kind](node[_VALUE])
    if kind == "timestamp":
        value: Any = _instant(text, clock)
    else:
        base = "decimal" if kind.startswith("decimal") else kind
        value = _READERS[base](text) if base in _READERS else None
    return UNKNOWN_VALUE if value is None else value


def _date(text: str) -> dt.date | None:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return None
    return day if day >= TRUSTED_DAYS[0] else None


def _instant(text: str, clock: Zone) -> ExactTime | None:
    """The time in a text of ``java.sql.Timestamp``, if the text names exactly one instant."""
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{1,9})", text)
    day = None if match is None else _date(match[1])
    if match is None or day is None or not TRUSTED_DAYS[0] < day < TRUSTED_DAYS[1]:
        return None
    wall = (day - dt.date(1970, 1, 1)).days * 86400 + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    offsets = set(clock.offsets_near(wall))
    offsets = {one for one in offsets if int(clock.offsets_at(np.array([wall - one]))[0]) == one}
    if len(offsets) != 1:
        return None
    return ExactTime((wall - offsets.pop()) * 1_000_000_000 + int(match[5].ljust(9, "0")), "UTC")


_READERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: {"true": True, "false": False}.get(text),
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "string": str,
    "date": _date,
    "decimal": decimal.Decimal,
    "float": lambda text: float(np.float32(text)),
    "double": float,
    "timestamp_ntz": lambda text: ExactTime(int(text) * 1000) if re.fullmatch(r"-?\d+", text) else None,
}


def _day(days: int) -> Any:
    ordinal = days + dt.date(1970, 1, 1).toordinal()
    return dt.date.fromordinal(ordinal) if 1 <= ordinal <= dt.date.max.toordinal() else UNKNOWN_VALUE


_BY_VALUE: Mapping[str, Callable[[Any], Any]] = {
    "date": _day,
    "timestamp": lambda micros: ExactTime(micros * 1000, "UTC"),
    "timestamp_ntz": lambda micros: ExactTime(micros * 1000),
    "binary": bytes,
}


def is_understood(kind: str) -> bool:
    """Whether orcidx compares columns of a type in the same way as Spark."""
    return kind in _READERS or kind in _BY_VALUE or kind.startswith("decimal(")
