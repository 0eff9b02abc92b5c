"""Reads times with writers' zones and calendars, and times at the limits of int64. Reads decimals at the limits of the
fast decoding."""

from __future__ import annotations

import datetime
import io
import random
import zoneinfo
from decimal import Decimal

import pyarrow as pa
import pytest
from columns.column_encoder import Encoded, Stored, encode_column, node, numbered
from columns.test_column_vectors import nanoseconds

import orcidx
from orcidx.errors import CorruptFile, InvalidQuery, ValueOutOfRange
from orcidx.orc.kinds import TypeKind
from orcidx.orc.timezones import load_zone
from orcidx.orc.types import OrcType

STAMP = node(TypeKind.TIMESTAMP)
SINCE_2015 = 1420070400
YEAR_9999 = 253402300799 - SINCE_2015
YEAR_1 = -62135596800 - SINCE_2015


def times(*pairs: tuple[int, int], root: OrcType = STAMP, zone: str | None = "UTC") -> Encoded:
    return encode_column(numbered(root), [Stored(*pair) for pair in pairs], writer_timezone=zone)


def decimals(numbers: list[tuple[int, int]], precision: int = 10, scale: int = 2) -> Encoded:
    root = numbered(node(TypeKind.DECIMAL, precision=precision, scale=scale))
    return encode_column(root, [Stored(*number) for number in numbers])


def test_decimals_of_too_many_digits() -> None:
    for precision in (1, 5, 17, 18, 19, 37, 38):
        most = 10**precision - 1
        assert decimals([(most, 0), (-most, 0)], precision, 0).read().to_pylist() == [Decimal(most), Decimal(-most)]
        for value in (most + 1, -most - 1):
            for before in (0, 600):
                with pytest.raises(CorruptFile, match="precision"):
                    decimals([(1, 0)] * before + [(value, 0)], precision, 0).read()
    with pytest.raises(CorruptFile, match="precision"):
        decimals([(10**9, 0)]).read()  # ten digits become twelve at the type's scale
    with pytest.raises(CorruptFile, match="128 bits"):
        decimals([(10**30, -20)], 38, 0).read()


def test_every_unit_holds_years_1_and_9999_but_one() -> None:
    fractions = ((0, 123_456_789 << 3), (-SINCE_2015 - 9, 900_000_000 << 3))
    encoded = times((YEAR_9999, 999_999_999 << 3), (YEAR_1, 0), *fractions)
    moments = [(253402300799, 999_999_999), (-62135596800, 0), (SINCE_2015, 123_456_789), (-10, 900_000_000)]
    for unit, per_second in (("s", 1), ("ms", 1000), ("us", 10**6)):
        found = encoded.read(timestamp_unit=unit)
        assert found.type == pa.timestamp(unit)
        expected = [second * per_second + nanos * per_second // 10**9 for second, nanos in moments]
        assert nanoseconds(found) == expected
    with pytest.raises(ValueOutOfRange, match=r"timestamp\[ns\]; read with timestamp_unit='us' \(column c"):
        encoded.read()
    exact = encoded.open(exact_times=True)
    assert exact.arrow_type == pa.decimal128(38, 0)
    assert exact.read(4).to_pylist() == [Decimal(second * 10**9 + nanos) for second, nanos in moments]


def test_seconds_before_1970_are_those_of_java_from_a_millisecond_on() -> None:
    """Java's writer rounds the seconds of times before 1970 towards 1970. The reader subtracts a second again if the
    fraction is 1 ms or more."""
    stored = [(-SINCE_2015 - 9, nanos << 3) for nanos in (0, 999_999, 1_000_000)]
    expected = [-9 * 10**9, -9 * 10**9 + 999_999, -10 * 10**9 + 1_000_000]
    assert nanoseconds(times(*stored).read()) == expected


def test_times_below_a_struct_come_in_the_wanted_unit_beside_a_condition_on_it() -> None:
    data = io.BytesIO()
    moment = datetime.datetime(2020, 1, 1, 1, 2, 3, 500_000)
    orcidx.write_table(pa.table({"s": [{"t": moment}, None]}), data)
    with orcidx.open(data.getvalue()) as file:
        found = file.scan(["s"], "s IS NOT NULL", timestamp_unit="s").to_table()
    assert found.schema.field("s").type == pa.struct([("t", pa.timestamp("s"))])
    assert found.to_pylist() == [{"s": {"t": moment.replace(microsecond=0)}}]


def test_the_ends_of_64_bits() -> None:
    """Reads the last and the first timestamp in int64 nanoseconds (2262-04-11 23:47:16.854775807 and 1677-09-21
    00:12:43.145224192), and the timestamps one second inside of these limits."""
    last, first = (1 << 63) - 1, -(1 << 63)
    for value in (last, first, last - 10**9, first + 10**9):
        second, nanos = divmod(value, 10**9)
        stored = second - SINCE_2015 + (second < 0 and nanos > 999999)
        assert nanoseconds(times((stored, nanos << 3)).read()) == [value]
    for value in (last + 1, first - 1):
        second, nanos = divmod(value, 10**9)
        with pytest.raises(ValueOutOfRange):
            times((second - SINCE_2015 + (second < 0), nanos << 3)).read()
    with pytest.raises(ValueOutOfRange, match="read with timestamp_unit='s'"):
        times((1 << 60, 0)).read(timestamp_unit="us")


@pytest.mark.parametrize(
    "name", ["America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "GMT+08:00"]
)
def test_wall_clocks_of_the_writer(name: str) -> None:
    zone = load_zone(name)
    numbers = random.Random(5)
    instants = [numbers.randrange(-2_000_000_000, 12_000_000_000) for _ in range(300)]
    for transition in zone.transitions[zone.transitions > -1_000_000_000][:60].tolist():
        instants += [transition - 1, transition, transition + 1]
    encoded = times(*((second - zone.epoch, 0) for second in instants), zone=name)
    if name.startswith("GMT"):
        offsets = [8 * 3600] * len(instants)
    else:
        reference = zoneinfo.ZoneInfo(name)
        utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        moments = [(utc + datetime.timedelta(seconds=second)).astimezone(reference) for second in instants]
        offsets = [int(moment.utcoffset().total_seconds()) for moment in moments]
    expected = [second + offset for second, offset in zip(instants, offsets)]
    assert nanoseconds(encoded.read(timestamp_unit="s")) == expected
    ordered = times(*((second - zone.epoch, 0) for second in sorted(instants)), zone=name)
    assert nanoseconds(ordered.read(timestamp_unit="s")) == [wall for _, wall in sorted(zip(instants, expected))]


def test_zones_repeat_every_400_years() -> None:
    zone = load_zone("America/Los_Angeles")
    summer, winter = 7_789_000_000, 7_773_000_000
    cycles = 12_622_780_800
    for second in (summer, winter):
        near = nanoseconds(times((second - zone.epoch, 0), zone=zone.name).read(timestamp_unit="s"))[0]
        for cycle in (1, 2, 20, 1000):
            far = times((second + cycle * cycles - zone.epoch, 0), zone=zone.name).read(timestamp_unit="s")
            assert nanoseconds(far) == [near + cycle * cycles]


def test_the_second_comes_off_before_the_zone_is_asked() -> None:
    """For a time before 1970 with a fraction, the reader subtracts a second, and then looks up the offset of the zone.
    At a transition, the stored time would have another offset (ORC-2151)."""
    zone = load_zone("America/Los_Angeles")
    before = [at for at in zone.transitions.tolist() if -1_000_000_000 < at < 0][-1]
    found = times((before - zone.epoch, 500_000_000 << 3), zone=zone.name).read()
    assert nanoseconds(found) == [(before - 1 + zone.offset_at(before - 1)) * 10**9 + 500_000_000]


def test_the_hybrid_calendar_ends_by_the_writers_clock() -> None:
    """The writer's wall clock decides where the hybrid calendar changes to the Gregorian calendar. In Tokyo, this clock
    reached the first Gregorian day before UTC did."""
    zone = load_zone("Asia/Tokyo")
    offset = int(zone.offsets[0])
    first_gregorian = -141427 * 86400
    for wall, expected in ((first_gregorian, first_gregorian), (first_gregorian - 1, first_gregorian - 10 * 86400 - 1)):
        stored = wall - offset - zone.epoch
        found = times((stored, 0), zone="Asia/Tokyo").open(hybrid=True, timestamp_unit="s").read(1)
        assert nanoseconds(found) == [expected]


def test_wall_clocks_as_instants_of_their_own_zone_are_the_stored_instants() -> None:
    for name in ("Europe/Berlin", "America/Los_Angeles", "UTC"):
        zone = load_zone(name)
        changes = zone.transitions[zone.transitions > -2_000_000_000][:60].tolist() or [0]
        instants = [change + shift for change in changes for shift in (-3601, -1, 0, 1800, 3600)]
        encoded = times(*((second - zone.epoch, 0) for second in instants), zone=name)
        found = encoded.read(timestamp_unit="s", wall_clock_zone=name)
        assert (found.type, nanoseconds(found)) == (pa.timestamp("s", "UTC"), instants)


@pytest.mark.parametrize("writer", ["UTC", "Asia/Tokyo"])
def test_wall_clocks_as_instants_of_another_zone(writer: str) -> None:
    """Reads wall clock times of the years 1 to 9999 as instants of New York, which used local mean time before 1883.
    The years around Tokyo's changes of the clocks (1948 to 1951) are left out."""
    reader = zoneinfo.ZoneInfo("America/New_York")
    numbers = random.Random(7)
    hours = [numbers.randrange(0, 87_000_000, 7) for _ in range(400)]
    walls = [datetime.datetime(1, 1, 2) + datetime.timedelta(hours=hour) for hour in hours]
    walls += [
        datetime.datetime(2021, 3, 14, 1, 59, 59),
        datetime.datetime(2021, 3, 14, 3),
        datetime.datetime(1850, 1, 1),
    ]
    walls = [wall for wall in walls if not 1880 < wall.year < 1955 and not _is_odd(wall, reader)]
    zone = load_zone(writer)
    to_utc = zone.offset_at(0)
    epoch = datetime.datetime(1970, 1, 1)
    stored = [(int((wall - epoch).total_seconds()) - to_utc - zone.epoch, 0) for wall in walls]
    found = times(*stored, zone=writer).read(timestamp_unit="s", wall_clock_zone=reader.key)
    assert nanoseconds(found) == [int(wall.replace(tzinfo=reader).timestamp()) for wall in walls]


def _is_odd(wall: datetime.datetime, zone: zoneinfo.ZoneInfo) -> bool:
    """Whether the zone's clocks show this time twice or never."""
    return wall.replace(tzinfo=zone).utcoffset() != wall.replace(tzinfo=zone, fold=1).utcoffset()


def test_an_hour_shown_twice_or_never_is_what_orc_java_makes_of_it() -> None:
    """Clocks in Berlin show 2021-10-31 02:30 twice, and never show 2021-03-28 02:30. For both times, the result has the
    offset of standard time, as with ORC Java."""
    twice, never = 1635647400, 1616898600
    for wall, instant in ((twice, twice - 3600), (never, never - 3600)):
        found = times((wall - SINCE_2015, 0), zone="UTC").read(timestamp_unit="s", wall_clock_zone="Europe/Berlin")
        assert nanoseconds(found) == [instant]


def test_an_unknown_clock_zone_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="wall_clock_zone='Mars'"):
        times((0, 0), zone="UTC").read(wall_clock_zone="Mars")
