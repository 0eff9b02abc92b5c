"""Times without a zone in a predicate are interpreted in the session's zone. These tests do not use Spark."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo

import pyarrow as pa
import pytest

from orcidx import InvalidQuery, col
from orcidx.orc.timezones import load_zone
from orcidx.predicate import bind, parse
from orcidx.predicate.exact_time import ExactTime
from orcidx.spark.types.local_times import instant_of, on_any_clock, on_session_clock

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("plain", pa.timestamp("us")), ("text", pa.string())])
EPOCH = dt.datetime(1970, 1, 1)


def moved(where: object, zone: str = "Europe/Berlin") -> object:
    return on_session_clock(parse(where), SCHEMA, zone, case_sensitive=False)


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30"])
def test_walls_become_instants_as_in_java_time(name: str) -> None:
    """If a local time occurs twice, it means the first instant. If clocks skip a local time, it is moved forward by the
    length of the gap. Python does the same with fold=0."""
    numbers = random.Random(3)
    walls = [EPOCH + dt.timedelta(minutes=numbers.randrange(-30_000_000, 60_000_000)) for _ in range(300)]
    for year in (1985, 2021, 2300):
        for month in range(1, 13):
            walls += [dt.datetime(year, month, day, hour, 15) for day in range(24, 29) for hour in range(4)]
    reference = dt.timezone(dt.timedelta(hours=5.5)) if name[0] == "+" else zoneinfo.ZoneInfo(name)
    zone = load_zone(name)
    for wall in walls:
        expected = int(wall.replace(tzinfo=reference).timestamp())
        assert instant_of(int((wall - EPOCH).total_seconds()), zone) == expected, wall


def test_literals_of_the_other_kind_go_through_the_sessions_zone() -> None:
    wall, instant = dt.datetime(2021, 7, 1, 12), dt.datetime(2021, 7, 1, 10, tzinfo=dt.UTC)
    seconds = int(instant.timestamp())
    for literal in (wall, "2021-07-01 12:00:00"):
        assert moved(col("AT") > literal) == (col("AT") > ExactTime(seconds * 10**9, "UTC"))
    assert moved(col("plain") > instant) == (col("plain") > ExactTime((seconds + 7200) * 10**9))
    assert moved("at = DATE '2021-07-01'") == (col("at") == ExactTime((seconds - 12 * 3600) * 10**9, "UTC"))


def test_everything_else_stays() -> None:
    instant = dt.datetime(2021, 7, 1, 10, tzinfo=dt.UTC)
    for where in (
        col("at") > instant,
        col("plain").is_in([dt.datetime(2021, 7, 1), None]),
        (col("text") == "2021-07-01") | col("at").is_null(),
        pa.compute.field("at") > pa.scalar(instant),
    ):
        assert moved(where) == parse(where)
    with pytest.raises(InvalidQuery, match="at"):
        moved("ta > '2021-07-01'")


def test_what_is_true_on_any_clock() -> None:
    """A row is kept if it matches in at least one of the zones that a session can have. Conditions that do not depend
    on a zone do not change."""
    numbers = random.Random(5)
    hours = [dt.datetime(2021, 7, 1) + dt.timedelta(hours=n) for n in range(-40, 41)]
    instants = pa.array([one.replace(tzinfo=dt.UTC) for one in hours], pa.timestamp("us", "UTC"))
    rows = pa.table({"at": instants, "plain": pa.array(hours, pa.timestamp("us")), "text": ["x"] * len(hours)})
    kept = 0
    for _ in range(200):
        name, (low, high) = numbers.choice(["at", "plain"]), sorted(numbers.sample(hours, 2))
        if name == "plain":
            low, high = low.replace(tzinfo=dt.UTC), high.replace(tzinfo=dt.UTC)
        column = col(name)
        asked = numbers.choice(
            [column < low, column >= low, column == low, column.is_in([low, None, high]), column.between(low, high)]
        )
        where = parse(~asked if numbers.random() < 0.5 else asked)
        wide = set(map(tuple, _rows(rows, on_any_clock(where, SCHEMA, case_sensitive=False))))
        for zone in ("UTC", "+18:00", "-18:00", "Europe/Berlin"):
            found = _rows(rows, on_session_clock(where, SCHEMA, zone, case_sensitive=False))
            assert set(map(tuple, found)) <= wide, (where, zone)
            kept += len(found)
    assert kept > 1000
    plain = parse((col("at") > dt.datetime(2021, 7, 1, tzinfo=dt.UTC)) | col("text").is_null())
    assert on_any_clock(plain, SCHEMA, case_sensitive=False) == plain


def _rows(table: pa.Table, where: object) -> list[list[object]]:
    batch = table.to_batches()[0]
    mask = bind(where, table.schema).evaluate(batch)
    return [list(row.values()) for row in batch.filter(pa.array(mask)).to_pylist()]
