"""The writer's time zone as tables: the instants at which its offset from UTC changes, and the new offsets.

Names may be IANA names (also "US/Pacific", "EST", "PST8PDT"), Java's three-letter ids, and fixed offsets such as
"GMT+08:00". The rules come from TZif files (RFC 9636) of the system or, if there are none, of the ``tzdata`` package.
Before the first transition a zone has its first standard time. After the last transition the file's POSIX rule applies.
The rule is expanded for 400 years. After 400 years the calendar repeats, so the transitions repeat as well.
"""

from __future__ import annotations

import re
import struct
import zoneinfo
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.options import ValueOptions
from orcidx.orc.calendars import gregorian_day

__all__ = [
    "CALM_FROM",
    "CALM_UNTIL",
    "DAY_SECONDS",
    "FARTHEST_ZONE",
    "HINTS_FROM",
    "HINT_SECONDS",
    "NEVER",
    "ORC_EPOCH",
    "Zone",
    "chosen_zone",
    "clock_zone",
    "load_zone",
    "zone_of_statistics",
]

Int64s = npt.NDArray[np.int64]

ORC_EPOCH = 1420070400
"""2015-01-01 00:00:00 UTC in seconds since 1970. The DATA stream of timestamps counts seconds from this local time
in the writer's zone."""

NEVER = (1 << 62) - 1
"""A time in seconds that is after every transition."""
DAY_SECONDS = 86400
FARTHEST_ZONE = 15 * 3600
"""The largest offset of a time zone from UTC, in seconds."""
FOUR_CENTURIES = 146097 * DAY_SECONDS

HINTS_FROM = -(1 << 32)
"""1833-11-24 in seconds since 1970. No zone has a change before it, except markers for the beginning of time."""
HINT_SECONDS = 1 << 23
"""97 days in seconds, the time from one element of ``Zone.hints`` to the next. In this time a zone has few
transitions."""

CALM_FROM, CALM_UNTIL = 2 * DAY_SECONDS, 2_114_208_000
"""1970-01-03 and 2036-12-30 in seconds since 1970. Between these two times, all tables of time zones agree, except for
the differences in ``Zone.shifts``. Each of the two times is two days away from times at which the
tables may differ. Before 1970 the tables are guesses, and from 2037 on Java uses a rule."""

_NAME = re.compile(r"[A-Za-z0-9_+\-]{1,32}(/[A-Za-z0-9_+\-]{1,32}){0,3}")
"""A pattern for names of zones. It allows 32 characters in each part of a name. Today no part has more than 20, and
file systems do not allow 256."""
_FIXED = re.compile(r"(?:GMT|UTC|UT|Z)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

# The names in java.time.ZoneId.SHORT_IDS. Older JVMs wrote these names for the zones.
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_UTC = frozenset({"UTC", "GMT", "UT", "Z", "Zulu", "Etc/UTC", "Etc/GMT", "GMT0", "UCT", "Universal", "Greenwich"})


@dataclass(frozen=True, eq=False)
class Zone:
    """``transitions``: instants in seconds since 1970, ascending. ``offsets``: the offsets from UTC before, between and
    after the transitions, in seconds east. There is one more offset than there are transitions. From ``repeats_from``
    on, the transitions and offsets repeat every 400 years. ``mean_time``: the offset of the local mean time before the
    first transition. It is not in ``offsets``."""

    name: str
    transitions: Int64s
    offsets: Int64s
    repeats_from: int
    mean_time: int

    @property
    def is_utc(self) -> bool:
        return not self.offsets.any()

    @property
    def is_fixed(self) -> bool:
        """Whether the zone's offset has never changed. All time zone tables then agree."""
        return not len(self.transitions)

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        """The possible differences, in seconds, between a local time in this table and in another table of the same
        zone, for times from ``CALM_FROM`` to ``CALM_UNTIL``. They are the differences between any two offsets that the
        zone had in that time. One hour in either direction is also included (decision 0020)."""
        if self.is_fixed:
            return (0,)
        first, last = np.searchsorted(self.transitions, [CALM_FROM, CALM_UNTIL], "right")
        known = set(self.offsets[first : last + 1].tolist()) | ({self.mean_time} if first == 0 else set())
        return tuple(sorted({a - b for a in known for b in known} | {-3600, 0, 3600}))

    def offset_at(self, second: int) -> int:
        """The offset from UTC at an instant before ``repeats_from``, in seconds east."""
        return int(self.offsets[int(np.searchsorted(self.transitions, second, "right"))])

    @cached_property
    def hints(self) -> npt.NDArray[np.int32]:
        """Element ``i`` is the number of transitions at or before ``HINTS_FROM`` plus ``i`` times ``HINT_SECONDS``.
        There are elements up to the time of the last transition."""
        last = max(HINTS_FROM, int(self.transitions[-1])) if len(self.transitions) else HINTS_FROM
        grid = np.arange(HINTS_FROM, last + HINT_SECONDS + 1, HINT_SECONDS)
        return np.searchsorted(self.transitions, grid, "right").astype(np.int32)

    def same_rules(self, other: Zone) -> bool:
        """Whether both zones always have the same local time."""
        return self.name == other.name or (
            np.array_equal(self.transitions, other.transitions) and np.array_equal(self.offsets, other.offsets)
        )

    def offsets_at(self, seconds: Int64s) -> Int64s:
        """The offset from UTC at each instant, in seconds east. Before the first transition it is the offset of local
        mean time."""
        late = np.maximum(seconds - self.repeats_from, -1) // FOUR_CENTURIES + 1
        places = np.searchsorted(self.transitions, seconds - late * FOUR_CENTURIES, "right")
        return np.where((places == 0) & bool(len(self.transitions)), self.mean_time, self.offsets[places])

    def instants_of(self, walls: Int64s, near: Int64s) -> Int64s:
        """Converts the local times in ``walls`` to instants. ``near``: instants close to the results. The search starts
        from these instants.

        For an hour that occurs twice or never, the result is the same as in ORC Java, which moves timestamps between
        zones with SerializationUtils.convertBetweenTimezones.
        """
        return walls - self.offsets_at(walls - self.offsets_at(near))

    def offsets_near(self, second: int) -> set[int]:
        """All offsets that the zone has within two days of an instant or a local time."""
        late = max(0, second + 2 * DAY_SECONDS - self.repeats_from) // FOUR_CENTURIES + (
            second + 2 * DAY_SECONDS >= self.repeats_from
        )
        second -= late * FOUR_CENTURIES
        first, last = np.searchsorted(self.transitions, [second - 2 * DAY_SECONDS, second + 2 * DAY_SECONDS], "right")
        found = set(self.offsets[first : last + 1].tolist())
        return found | {self.mean_time} if first == 0 else found

    @property
    def epoch(self) -> int:
        """The instant at which the local time in the zone was 2015-01-01 00:00:00."""
        guess = ORC_EPOCH - self.offset_at(ORC_EPOCH)
        return ORC_EPOCH - self.offset_at(guess)


def fixed_zone(name: str, offset: int) -> Zone:
    """A zone whose offset from UTC never changes."""
    return Zone(name, np.empty(0, np.int64), np.array([offset], np.int64), NEVER, offset)


@lru_cache(maxsize=64)
def load_zone(name: str) -> Zone:
    """The zone of this name. Raises ``Unsupported`` for an unknown name. The message names the option that sets another
    zone."""
    if name in _UTC:
        return fixed_zone(name, 0)
    if (fixed := _FIXED.fullmatch(name)) is not None:
        sign, hours, minutes, seconds = fixed.groups()
        offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if offset <= 18 * 3600:
            return fixed_zone(name, -offset if sign == "-" else offset)
    for known in (_SHORT_IDS.get(name), name):
        if known is not None and _NAME.fullmatch(known) and (data := _tzif(known)) is not None:
            return _parse(name, data)
    shown = name if len(name) <= 64 else name[:64] + "..."
    if _tzif("Europe/Paris") is None:
        raise Unsupported(
            f"the time zone {shown!r} cannot be used, because no time zone data is installed on this machine; install "
            "it with python -m pip install tzdata"
        )
    # Newer Debian versions have names such as US/Pacific in a separate package. The Python package tzdata has
    # them, too.
    old = ", or get old names with python -m pip install tzdata" if find_spec("tzdata") is None else ""
    raise Unsupported(
        f"the writer's time zone {shown!r} is unknown on this machine; give a known zone with the option timezone={old}"
    )


def clock_zone(options: ValueOptions) -> Zone | None:
    """The zone of the option ``wall_clock_zone``. Raises ``InvalidQuery`` for an unknown zone."""
    name = options.wall_clock_zone
    return None if name is None else _zone_of_option("wall_clock_zone", name)


def chosen_zone(option: str | None, writer: str | None) -> Zone | None:
    """The zone in which timestamps are read. It is the zone of the option, or otherwise the writer's zone. None if the
    file names no zone."""
    if option is not None:
        return _zone_of_option("timezone", option)
    return load_zone(writer) if writer else None


def _zone_of_option(option: str, name: str) -> Zone:
    try:
        return load_zone(name)
    except Unsupported:
        raise InvalidQuery(
            f"{option}={name!r} is not a time zone that is known on this machine; give a name such as 'Europe/Oslo'"
        ) from None


def zone_of_statistics(writer: str | None) -> Zone | None:
    """The zone whose table the writer of a stripe used for the local times in statistics and bloom filters. It is UTC
    if the stripe names no zone, and None for an unknown zone."""
    try:
        return load_zone(writer or "UTC")
    except Unsupported:
        return None


def _tzif(name: str) -> bytes | None:
    for directory in zoneinfo.TZPATH:
        path = Path(directory, name)
        if path.is_file():
            data = path.read_bytes()
            return data if data.startswith(b"TZif") else None
    *package, leaf = name.split("/")
    try:
        found = resources.files(".".join(["tzdata.zoneinfo", *package])).joinpath(leaf)
        return found.read_bytes()
    except (ModuleNotFoundError, FileNotFoundError, IsADirectoryError):
        return None


def _parse(name: str, data: bytes) -> Zone:
    """Parses a TZif file of version 2 or later: its 64-bit block and its footer."""
    try:
        first = struct.unpack_from(">20x6l", data)
        start = 44 + _block_size(first, 4)
        counts = struct.unpack_from(">20x6l", data, start)
        return _parse_block(name, data, start + 44, counts)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptFile(f"the time zone file of {name!r} is damaged: {error}") from error


def _block_size(counts: tuple[int, ...], width: int) -> int:
    utc_flags, standard_flags, leaps, times, types, letters = counts
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard_flags + utc_flags


def _parse_block(name: str, data: bytes, start: int, counts: tuple[int, ...]) -> Zone:
    times, types = counts[3], counts[4]
    transitions = np.frombuffer(data, ">i8", times, start).astype(np.int64)
    kinds = np.frombuffer(data, np.uint8, times, start + 8 * times)
    type_start = start + 9 * times
    raw = [struct.unpack_from(">lBB", data, type_start + 6 * kind) for kind in range(types)]
    offset_of = np.array([offset for offset, _, _ in raw], np.int64)
    footer = data[start + _block_size(counts, 8) :].strip(b"\n").decode("ascii")
    # Before the first transition, the first standard time of the zone applies. The local mean time is not used. ORC C++
    # and Java do the same.
    ancient = next((kind for kind in kinds.tolist() if not raw[kind][1]), 0)
    offsets = np.concatenate(([offset_of[ancient]], offset_of[kinds]))
    rule = _parse_rule(footer) if footer else None
    if rule is None:
        return Zone(name, transitions, offsets, NEVER, raw[0][0])
    first_year = 1970 if not times else max(1970, 1970 + int(transitions[-1]) // 31556952)
    last = int(transitions[-1]) if times else -NEVER
    laid_out = [(at, offset) for at, offset in rule.lay_out(first_year, first_year + 402) if at > last]
    more = np.array(laid_out, np.int64).reshape(-1, 2)
    offsets = np.concatenate((offsets, more[:, 1]))
    repeats_from = _seconds(first_year + 401, 1, 1)
    return Zone(name, np.concatenate((transitions, more[:, 0])), offsets, repeats_from, raw[0][0])


# ---------------------------------------------------------------------- POSIX rules


@dataclass(frozen=True)
class _Rule:
    """A POSIX TZ rule. ``switches``: two pairs, for the start and the end of daylight saving time. Each pair has a day
    rule, and the time of the switch on that day. The time is in seconds after midnight, on the clock before the switch.
    ``switches`` is None if the zone has no daylight saving time."""

    standard: int
    daylight: int
    switches: tuple[tuple[str, int], tuple[str, int]] | None

    def lay_out(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """The transitions as pairs of an instant and the offset from this instant on, in ascending order."""
        if self.switches is None:
            return [(_seconds(first_year, 1, 1) - DAY_SECONDS, self.standard)]
        (begin, begin_time), (end, end_time) = self.switches
        found = []
        for year in range(first_year, last_year):
            found.append((_day_of(begin, year) + begin_time - self.standard, self.daylight))
            found.append((_day_of(end, year) + end_time - self.daylight, self.standard))
        return sorted(found)


_OFFSET = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_RULE = re.compile(
    rf"(?:<[^>]+>|[A-Za-z]+)({_OFFSET})(?:(?:<[^>]+>|[A-Za-z]+)({_OFFSET})?,([^,/]+)(?:/({_OFFSET}))?,([^,/]+)(?:/({_OFFSET}))?)?"
)


def _parse_rule(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"rule {text!r}")
    standard = -_clock(match[1])
    if match[3] is None:
        return _Rule(standard, standard, None)
    daylight = -_clock(match[2]) if match[2] else standard + 3600
    begin, end = (match[3], _clock(match[4] or "2")), (match[5], _clock(match[6] or "2"))
    return _Rule(standard, daylight, (begin, end))


def _clock(text: str) -> int:
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1)))
    return -seconds if text.startswith("-") else seconds


def _seconds(year: int, month: int, day: int) -> int:
    """Midnight of a day of the proleptic Gregorian calendar, in seconds since 1970."""
    return gregorian_day(year, month, day) * DAY_SECONDS


def _day_of(rule: str, year: int) -> int:
    """Midnight of the day that ``M3.2.0``, ``J60`` or ``59`` names in a year."""
    new_year = _seconds(year, 1, 1)
    if rule.startswith("M"):
        month, week, weekday = map(int, rule[1:].split("."))
        first = _seconds(year, month, 1)
        shift = (weekday - (first // DAY_SECONDS + 4)) % 7
        length = (_seconds(year + month // 12, month % 12 + 1, 1) - first) // DAY_SECONDS
        day = shift + 7 * (week - 1)
        return first + (day if day < length else day - 7) * DAY_SECONDS
    if rule.startswith("J"):
        leap = _seconds(year, 3, 1) - new_year == 60 * DAY_SECONDS
        number = int(rule[1:])
        return new_year + (number - 1 + (leap and number >= 60)) * DAY_SECONDS
    return new_year + int(rule) * DAY_SECONDS
