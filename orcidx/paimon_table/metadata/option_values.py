"""Parses values of table options: durations such as "10 ms", "1 h", "3 min", and whole numbers."""

from __future__ import annotations

import re

from orcidx.errors import InvalidQuery

__all__ = ["parse_duration", "parse_whole"]

_UNITS = {
    1e-9: ("ns", "nano", "nanosecond"),
    1e-6: ("us", "µs", "micro", "microsecond"),
    1e-3: ("ms", "milli", "millisecond"),
    1.0: ("s", "sec", "second"),
    60.0: ("m", "min", "minute"),
    3600.0: ("h", "hour"),
    86400.0: ("d", "day"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}
_FORM = re.compile(r"([0-9]{1,18})\s*([a-zµ]*)")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def parse_duration(name: str, text: str) -> float:
    """Parses a duration and returns it in seconds. A number without a unit is in milliseconds. Raises ``InvalidQuery``
    for an invalid text. The message names the option."""
    found = _FORM.fullmatch(text.strip().lower())
    unit = (found[2] or "ms") if found else ""
    seconds = _SECONDS.get(unit, _SECONDS.get(unit.removesuffix("s")))
    if found is None or seconds is None:
        raise InvalidQuery(f"{name} is {text!r}, which is not a duration such as '10 ms'")
    return int(found[1]) * seconds


def parse_whole(name: str, text: str, *, least: int) -> int:
    """Parses a whole number. Raises ``InvalidQuery`` for an invalid text and for a number below ``least``. The message
    names the option."""
    if _WHOLE.fullmatch(text.strip()) is None or int(text) < least:
        raise InvalidQuery(f"{name} is {text!r}, which is not a whole number of at least {least}")
    return int(text)
