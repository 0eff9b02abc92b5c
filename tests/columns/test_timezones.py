"""Compares time zone tables with the standard library."""

import datetime
import random
import zoneinfo

import pytest

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc import timezones
from orcidx.orc.timezones import ORC_EPOCH, chosen_zone, load_zone

NAMES = [
    *("America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo"),
    *("Africa/Casablanca", "Asia/Tehran", "Pacific/Apia", "US/Pacific", "EST", "PST8PDT", "Europe/Dublin"),
    *("America/Godthab", "Asia/Gaza", "Antarctica/Troll"),
]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("name", NAMES)
def test_offsets_equal_those_of_zoneinfo(name):
    zone, reference = load_zone(name), zoneinfo.ZoneInfo(name)
    numbers = random.Random(7)
    seconds = [numbers.randrange(-3_000_000_000, 13_000_000_000) for _ in range(3000)]
    for transition in zone.transitions[-900:].tolist():
        seconds += [transition - 1, transition]
    for second in seconds:
        if not -62_000_000_000 < second < 250_000_000_000 or second >= zone.repeats_from:
            continue
        if len(zone.transitions) and second < zone.transitions[0]:
            continue
        moment = (EPOCH + datetime.timedelta(seconds=second)).astimezone(reference)
        assert zone.offset_at(second) == moment.utcoffset().total_seconds(), (name, second)


def test_before_the_first_transition_it_is_standard_time():
    """zoneinfo has local mean time (-7:52:58) before the first transition. ORC's readers and writers do not use local
    mean time."""
    assert load_zone("America/Los_Angeles").offset_at(-3_700_000_000) == -8 * 3600


def test_the_epoch_of_orc():
    assert load_zone("America/Los_Angeles").epoch == 1420099200
    assert load_zone("UTC").epoch == ORC_EPOCH == 1420070400


@pytest.mark.parametrize(
    ("name", "hours"),
    [("GMT+08:00", 8), ("GMT-3", -3), ("UTC+5:30", 5.5), ("+02:00", 2), ("GMT", 0), ("Z", 0), ("GMT+0530", 5.5)],
)
def test_fixed_offsets(name, hours):
    assert load_zone(name).offset_at(0) == hours * 3600


def test_short_ids_of_java():
    assert load_zone("PST").epoch == load_zone("America/Los_Angeles").epoch
    assert load_zone("JST").offset_at(0) == 9 * 3600


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "", "GMT+99", "/etc/localtime", "a\0b"])
def test_unknown_names_say_which_option_helps(name):
    with pytest.raises(Unsupported, match="timezone="):
        load_zone(name)


def test_where_old_names_come_from(monkeypatch):
    monkeypatch.setattr(timezones, "_tzif", {"Europe/Paris": b"TZif"}.get)
    monkeypatch.setattr(timezones, "find_spec", {"tzdata": None}.get)
    with pytest.raises(Unsupported, match=r"'US/Pacific' is unknown on this machine; .* python -m pip install tzdata"):
        load_zone.__wrapped__("US/Pacific")


def test_the_option_wins_and_is_checked():
    assert chosen_zone("Asia/Tokyo", "UTC").offset_at(0) == 9 * 3600
    assert chosen_zone(None, None) is None
    with pytest.raises(InvalidQuery, match="Nowhere"):
        chosen_zone("Nowhere", "UTC")
