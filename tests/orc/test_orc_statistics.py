"""Statistics: their typed values, and the bounds that follow from them. Statistics of some writers are not trusted."""

from __future__ import annotations

import datetime
import io
import math
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orc_messages as pb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orcidx
from orcidx import CorruptFile, InvalidQuery, ReadOptions
from orcidx.orc import statistics
from orcidx.orc.bounds import NumberBounds, StatisticsColumn, bound_statistics, distrust
from orcidx.orc.calendars import hybrid_days, proleptic_days
from orcidx.orc.decimal_text import read_decimal
from orcidx.orc.integer_range import file_test
from orcidx.orc.kinds import CompressionKind, TypeKind, WriterKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.statistics import (
    RawStatistics,
    decode_statistics,
    file_statistics,
    stripe_statistics,
    unit_statistics,
    units_table,
)
from orcidx.orc.stored_totals import stored_totals
from orcidx.orc.timezones import CALM_FROM, CALM_UNTIL, load_zone
from orcidx.orc.types import OrcType
from orcidx.predicate import bind
from orcidx.predicate.literals import scaled_floor

K = TypeKind
FACTS = FileFacts(
    writer=WriterKind.JAVA,
    writer_version=9,
    software_version="",
    compression=CompressionKind.NONE,
    block_size=65536,
    row_index_stride=1000,
    hybrid_calendar=False,
    decimal64=False,
)
OPTIONS = ReadOptions()


def raw(node: OrcType, *units: bytes, rows: int = 10, level: str = "stripe") -> RawStatistics:
    stops = np.cumsum([len(unit) for unit in units], dtype=np.int64)
    starts = stops - [len(unit) for unit in units]
    return decode_statistics(
        node, level, b"".join(units), (starts, stops), rows=np.full(len(units), rows), stripes=range(len(units))
    )


def node(kind: TypeKind, **fields: Any) -> OrcType:
    return OrcType(id=1, kind=kind, path=("c",), **fields)


def bound(
    one: RawStatistics, facts: FileFacts = FACTS, *, zone: str | None = "UTC", **options: Any
) -> StatisticsColumn:
    return bound_statistics(one, facts, OPTIONS.override(**options), zone=load_zone(zone) if zone else None)


def both(column: StatisticsColumn, unit: int = 0) -> tuple[Any, Any]:
    return column.lower.value(unit), column.upper.value(unit)


def integers(low: int, high: int, count: int = 10, has_null: bool | None = False) -> bytes:
    return pb.statistics(count, has_null, pb.blob(2, pb.sint(1, low) + pb.sint(2, high)))


def test_the_file_s_extremes_of_integers_rule_out_what_lies_outside() -> None:
    """The file's minimum and maximum are used only if the column's type can hold them. If the type cannot hold them,
    stored values have wrapped around."""

    def rules_out(where: Any, *one: int, kind: TypeKind = K.BYTE, rows: int = 10) -> bool:
        (leaf,) = bind(where, pa.schema([("c", pa.int64())])).leaves()
        message = pb.blob(7, pb.statistics(rows)) + pb.blob(7, integers(*one))
        file: Any = SimpleNamespace(rows=rows, footer_bytes=message)
        test = file_test(leaf, node(kind), FACTS, OPTIONS)
        return test is not None and test(file)

    c = orcidx.col("c")
    assert [rules_out(c > literal, 3, 7) for literal in (6, 7)] == [False, True]
    assert [rules_out(c < literal, 3, 7) for literal in (3, 4)] == [True, False]
    assert rules_out(c > 127, -128, 127)
    assert not rules_out(c > 128, -128, 128), "larger values wrap"
    assert not rules_out(c < -129, -129, 127)
    assert [rules_out(c > 7, 3, 7, count) for count in (0, 1, 9, 10, 11)] == [False, True, True, True, False]
    assert not rules_out(c > 7, 7, 3), "no range"
    assert not rules_out(c > 7, 3, 7, kind=K.DATE)


# Literals are compared with bounds exactly


def test_bounds_of_units_that_have_none() -> None:
    some = np.array([True, False, True])
    for values, scale, expected in (
        ([5, 0, -7], 0, [5, None, -7]),
        ([150, 0, -1], 2, [Decimal("1.50"), None, Decimal("-0.01")]),
        ([1.5, 0.0, -2.5], 0, [1.5, None, -2.5]),
    ):
        bounds = NumberBounds(np.array(values), some, some, scale)
        assert bounds.at(np.arange(3)) == expected
        assert bounds.at(np.array([2, 0])) == [expected[2], expected[0]]
        assert [bounds.value(unit) for unit in range(3)] == expected


def test_values_that_compare_with_a_literal_themselves() -> None:
    every = np.ones(2, bool)
    integers, floats = NumberBounds(np.array([1, 2]), every, every), NumberBounds(np.array([1.5, 2]), every, every)
    assert integers.plain(1) is integers.values
    assert integers.plain((1 << 63) - 1) is integers.values
    assert [integers.plain(literal) for literal in (1.0, Decimal(1), 1 << 63)] == [None] * 3
    assert floats.plain(1.0) is floats.values
    assert [floats.plain(literal) for literal in (1, Decimal(1))] == [None] * 2
    assert NumberBounds(np.array([1, 2]), every, every, 1).plain(1) is None
    assert integers.where(np.array([True, False])).plain(1) is None


def test_bounds_that_are_looked_up_among_literals() -> None:
    every, units = np.ones(2, bool), np.array([1, 0])
    plain, scaled = NumberBounds(np.array([1, 2]), every, every), NumberBounds(np.array([150, 200]), every, every, 2)
    assert plain.sortable(units, np.array([7])).dtype == np.int64
    assert plain.sortable(units, np.array([7])).tolist() == [2, 1]
    assert plain.sortable(units, np.array([7, 1 << 70], object)).dtype == object
    assert scaled.sortable(units, np.array([7])).tolist() == [Decimal(2), Decimal("1.5")]


INT64 = st.integers(-(2**63), 2**63 - 1)
ANY_INT = st.integers(-(2**70), 2**70) | INT64


@given(st.lists(INT64, min_size=1), ANY_INT | st.decimals(allow_nan=False, allow_infinity=True))
def test_integers_compare_exactly(values: list[int], literal: int | Decimal) -> None:
    ones = np.ones(len(values), bool)
    signs = NumberBounds(np.array(values, np.int64), ones, ones).compare(literal)
    assert signs.tolist() == [(value > literal) - (value < literal) for value in values]


@given(st.lists(ANY_INT, min_size=1), ANY_INT, st.integers(0, 38))
def test_decimals_compare_exactly(unscaled: list[int], literal: int, scale: int) -> None:
    values = np.array(unscaled, object)
    ones = np.ones(len(values), bool)
    bounds = NumberBounds(values, ones, ones, scale)
    signs = bounds.compare(Decimal((int(literal < 0), tuple(map(int, str(abs(literal)))), -20)))
    exact = [value * 10**20 - literal * 10**scale for value in unscaled]
    assert signs.tolist() == [(value > 0) - (value < 0) for value in exact]


def test_hostile_exponents_cost_nothing() -> None:
    assert scaled_floor(Decimal("1E+999999"), 2)[0] == 10**100
    assert scaled_floor(Decimal("-1E-999999"), 2) == (-1, False)
    assert scaled_floor(Decimal("0E+999999"), 2) == (0, True)
    assert read_decimal(b"1E+999999") is None
    assert read_decimal(b"NaN") is None


def test_zeros_are_equal_and_floats_compare_as_doubles() -> None:
    ones = np.ones(2, bool)
    bounds = NumberBounds(np.array([-0.0, 1.5]), ones, ones)
    assert bounds.compare(0.0).tolist() == [0, 1]
    assert bounds.compare(math.inf).tolist() == [-1, -1]


# Facts about nulls


def test_null_facts() -> None:
    units = [
        (10, False),  # no nulls
        (10, None),  # the writer does not say whether there are nulls, but there are as many values as rows
        (9, None),
        (9, True),
        (0, True),  # all null
        (0, None),
        (0, False),  # impossible: neither values nor nulls
        (None, None),  # no statistics
        (11, False),  # impossible: more values than rows
        (10, True),  # contradiction: as many values as rows, but the writer says that there are nulls
        (9, False),  # some values are missing because their parents are null
    ]
    column = bound(raw(node(K.INT), *[integers(1, 5, count, null) for count, null in units]))
    may = [False, False, True, True, True, True, True, True, True, True, True]
    assert column.may_null.tolist() == may
    assert np.flatnonzero(column.all_null).tolist() == [4, 5]
    assert np.flatnonzero(~column.lower.valid).tolist() == [4, 5, 6, 8]
    assert "HIVE-20604" in (column.reason(6) or "")
    assert "more values" in (column.reason(8) or "")
    assert column.reason(4) is None


def test_missing_statistics_prove_nothing() -> None:
    column = bound(raw(node(K.STRING), b"", b""))
    assert both(column) == (None, None)
    assert column.may_null.all()
    assert not column.all_null.any()


def test_repeated_columns_prove_nothing() -> None:
    column = bound_statistics(raw(node(K.INT), integers(1, 5)), FACTS, OPTIONS, repeated=True)
    assert (both(column), column.may_null.tolist(), column.count.tolist()) == ((None, None), [True], [-1])
    assert "list, map or union" in (column.distrusted or "")


# Bounds by type


def test_integer_bounds() -> None:
    column = bound(raw(node(K.SHORT), integers(-5, 9), integers(9, -5), integers(0, 40000), pb.statistics(10, False)))
    assert [both(column, i) for i in range(4)] == [(-5, 9), (None, None), (None, None), (None, None)]
    assert column.lower.exact.tolist() == [True, False, False, False]
    assert column.reason(1) == "the minimum is above the maximum"


def test_timestamp_ntz_of_spark() -> None:
    marked = node(K.LONG, attributes=(("spark.sql.catalyst.type", "timestamp_ntz"),))
    big = 2**62
    column = bound(raw(marked, integers(-big, big)))
    assert both(column) == (-big * 1000, big * 1000)
    assert column.lower.compare(-big * 1000).tolist() == [0]
    assert both(bound(raw(marked, integers(-5, 5)), timestamp_ntz=False)) == (-5, 5)


def doubles(low: float, high: float, total: float | None) -> bytes:
    typed = pb.double(1, low) + pb.double(2, high) + (b"" if total is None else pb.double(3, total))
    return pb.statistics(10, False, pb.blob(3, typed))


def test_nan_hides_bounds() -> None:
    nan = math.nan
    units = [doubles(1, 2, 3), doubles(1, 2, nan), doubles(nan, 2, 3), doubles(1, 2, None), doubles(1, 2, math.inf)]
    column = bound(raw(node(K.DOUBLE), *units, pb.statistics(10, False)))
    assert column.lower.valid.tolist() == [True, False, False, True, True, False]
    assert column.may_nan.tolist() == [False, True, True, True, False, True]
    assert column.reason(1) == "a value is NaN"


def strings(low: bytes | None, high: bytes | None, lower: bytes | None = None, upper: bytes | None = None) -> bytes:
    fields = {1: low, 2: high, 4: lower, 5: upper}
    typed = b"".join(pb.blob(number, text) for number, text in fields.items() if text is not None)
    return pb.statistics(10, False, pb.blob(4, typed))


def test_string_bounds() -> None:
    units = [strings(b"a", b"z"), strings(None, b"z", b"a"), strings(None, None, b"a", b"b"), strings(None, b"z")]
    column = bound(raw(node(K.STRING), *units))
    assert [both(column, i) for i in range(4)] == [(b"a", b"z"), (b"a", b"z"), (b"a", b"b"), (None, b"z")]
    assert column.lower.exact.tolist() == [True, False, False, False]
    assert column.upper.exact.tolist() == [True, True, False, True]


def test_early_java_compared_utf16() -> None:
    """Early Java compared strings as UTF-16, so characters beyond the BMP sorted before U+E000 to U+FFFF."""
    early = replace(FACTS, writer_version=0)
    low, high = "\U00010000".encode(), "\ufffd".encode()
    column = bound(raw(node(K.STRING), strings(low, b"z"), strings(b"a", high), level="row_group"), early)
    assert [both(column, i) for i in range(2)] == [(None, b"z"), (b"a", None)]


def test_replaced_bytes_move_in_the_order() -> None:
    column = bound(raw(node(K.STRING), strings(b"a", b"\xf8"), strings(b"a", b"z")), utf8="replace")
    assert [both(column, i) for i in range(2)] == [(b"a", None), (b"a", b"z")]


TEXTS = st.text(alphabet="\x01\x1f !ab\u00fc", max_size=4).map(lambda text: text.encode())


@given(st.lists(TEXTS, min_size=1, max_size=6), TEXTS, st.booleans())
def test_char_bounds_hold_for_trimmed_values(values: list[bytes], literal: bytes, padded: bool) -> None:
    """The bounds hold whether the writer compared padded values or the values without padding."""
    stored = [value.ljust(8) if padded else value for value in values]
    column = bound(raw(node(K.CHAR, max_length=8), strings(min(stored), max(stored))))
    trimmed = [value.rstrip(b" ") for value in values]
    wanted = literal.rstrip(b" ")
    assert column.lower.value(0) <= min(trimmed)
    assert column.upper.value(0) >= max(trimmed)
    assert not column.lower.exact[0]
    if wanted in trimmed:
        assert column.lower.compare(wanted)[0] <= 0 <= column.upper.compare(wanted)[0]


def decimals(low: str, high: str) -> bytes:
    return pb.statistics(10, False, pb.blob(6, pb.blob(1, low) + pb.blob(2, high)))


def test_decimal_bounds_round_outwards() -> None:
    units = [
        decimals("-1.5", "2"),
        decimals("-1.555", "1.555"),
        decimals("1e3", "12345678901234567890.12"),
        decimals("x", "1"),
        decimals("0", "1e999999999"),
    ]
    column = bound(raw(node(K.DECIMAL, precision=38, scale=2), *units))
    assert [both(column, i) for i in range(5)] == [
        (Decimal("-1.50"), Decimal("2.00")),
        (Decimal("-1.56"), Decimal("1.56")),
        (Decimal("1000.00"), Decimal("12345678901234567890.12")),
        (None, Decimal("1.00")),
        (Decimal("0.00"), None),
    ]
    assert column.lower.exact.tolist() == [True, False, True, False, True]
    assert column.lower.compare(Decimal("-1.5")).tolist()[:2] == [0, -1]


def dates(low: int, high: int) -> bytes:
    return pb.statistics(10, False, pb.blob(7, pb.sint(1, low) + pb.sint(2, high)))


def test_dates_of_the_hybrid_calendar() -> None:
    one = raw(node(K.DATE), dates(-171655, 5), dates(-(2**40), 5))
    assert both(bound(one)) == (-171655, 5)
    hybrid = replace(FACTS, hybrid_calendar=True)
    assert both(bound(one, hybrid)) == (-171664, 5)
    assert both(bound(one, hybrid, calendar="stored")) == (-171655, 5)
    assert both(bound(one, hybrid), 1) == (None, None)
    item = unit_statistics(one, 0, hybrid=True)
    assert (item.minimum, item.maximum) == (datetime.date(1500, 1, 1), datetime.date(1970, 1, 6))
    assert unit_statistics(one, 1, hybrid=True).minimum == -(2**40)


@given(st.integers(-800_000, 100_000))
def test_calendars_are_inverse(day: int) -> None:
    assert day in hybrid_days(int(proleptic_days(np.array([day]))[0]))


def timestamps(low: int, high: int, low_nanos: int | None = None, high_nanos: int | None = None) -> bytes:
    typed = pb.sint(3, low) + pb.sint(4, high)
    typed += b"" if low_nanos is None else pb.uint(5, low_nanos)
    typed += b"" if high_nanos is None else pb.uint(6, high_nanos)
    return pb.statistics(10, False, pb.blob(9, typed))


def test_timestamp_bounds() -> None:
    day = 86_400_000
    units = [
        timestamps(day, 2 * day),
        timestamps(day, 2 * day, 1, 8),  # ORC stores nanoseconds plus one, so 1 and 8 mean 0 and 7
        timestamps(-2 * day, -day, -499, 1),  # a negative number of nanoseconds, as Arrow's writer stores it
        timestamps(-500, -400, 1, 1),  # without a correction, this would be read as half a second after the epoch
        timestamps(-(10**15), 10**15, 1, 1),  # beyond int64 nanoseconds
        pb.statistics(10, False, pb.blob(9, pb.sint(1, 5) + pb.sint(2, 6))),  # only the bounds in local time
    ]
    column = bound(raw(node(K.TIMESTAMP), *units))
    milli = 1_000_000
    assert both(column, 0) == (day * milli, 2 * day * milli + 999_999)
    assert both(column, 1) == (day * milli, 2 * day * milli + 7)
    assert both(column, 2) == (-2 * day * milli - 500, -day * milli)
    assert both(column, 3) == (-500 * milli, 600 * milli)
    assert both(column, 4) == (-(10**21), 10**21)
    assert both(column, 5) == (None, None)
    assert column.lower.exact.tolist() == [False, True, True, False, True, False]
    assert column.upper.compare(10**21).tolist()[4] == 0


@pytest.mark.parametrize("further", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_timestamps_at_the_ends_of_64_bits_of_nanoseconds(sign: int, further: int) -> None:
    millis = sign * ((2**63 - 1) // 10**6 + further)
    column = bound(raw(node(K.TIMESTAMP_INSTANT), timestamps(millis, millis, 1, 1_000_000)))
    assert both(column) == (millis * 10**6, millis * 10**6 + 999_999)


def test_timestamps_that_are_not_trusted() -> None:
    one = raw(node(K.TIMESTAMP), timestamps(10**9, 2 * 10**9))
    assert "ORC-135" in (bound(one, replace(FACTS, writer_version=5)).distrusted or "")
    assert "timezone" in (bound(one, timezone="Europe/Oslo").distrusted or "")
    trino = bound(one, replace(FACTS, writer=WriterKind.TRINO, writer_version=4))
    assert both(trino)[1] == (2 * 10**9 + 1) * 1_000_000 + 999_999
    assert not bound(one, replace(FACTS, writer_version=5)).may_null[0]


def test_hybrid_timestamps_are_widened() -> None:
    millis = -171655 * 86_400_000
    one = raw(node(K.TIMESTAMP), timestamps(millis, millis, 1, 1))
    low, high = both(bound(one, replace(FACTS, hybrid_calendar=True)))
    assert (low, high) == (-171664 * 86_400_000 * 10**6, -171655 * 86_400_000 * 10**6)


@pytest.mark.parametrize(
    ("zone", "year", "hours"),
    [
        ("UTC", 1850, 0),
        ("GMT+05:30", 1990, 0),
        ("Europe/Oslo", 1969, 24),
        ("Europe/Oslo", 1970, 24),
        ("Europe/Oslo", 1990, 1),
        ("Asia/Kolkata", 1990, 1),
        ("Asia/Tehran", 1990, 1.5),
        ("Pacific/Apia", 1990, 25),
        ("Europe/Oslo", 2036, 1),
        ("Europe/Oslo", 2037, 24),
        (None, 1990, 24),
    ],
)
def test_wall_clocks_of_other_tables(zone: str | None, year: int, hours: float) -> None:
    """Bounds of timestamps without a time zone are widened by the possible difference between two time zone tables."""
    milli = int(np.datetime64(f"{year}-01-01", "ms").astype(int)) + (year > 1970) * 43_200_000
    one = raw(node(K.TIMESTAMP), timestamps(milli, milli, 1, 1))
    slack = int(hours * 3_600_000)
    near_epoch = 1000 if year == 1970 else 0
    column = bound(one, zone=zone)
    assert both(column) == ((milli - slack) * 10**6, (milli + slack + near_epoch) * 10**6)
    assert column.lower.exact[0] == (slack == 0)
    instants = bound(raw(node(K.TIMESTAMP_INSTANT), timestamps(milli, milli, 1, 1)), zone=zone)
    assert both(instants) == (milli * 10**6, (milli + near_epoch) * 10**6)


@pytest.mark.parametrize(
    ("second", "milli", "hours"),
    [(CALM_FROM, -1, 24), (CALM_FROM, 0, 1), (CALM_UNTIL, -1, 1), (CALM_UNTIL, 0, 24)],
)
def test_tables_differ_little_from_1970_to_2037(second: int, milli: int, hours: int) -> None:
    at, slack = 1000 * second + milli, 3_600_000 * hours
    column = bound(raw(node(K.TIMESTAMP), timestamps(at, at, 1, 1)), zone="Europe/Oslo")
    assert both(column) == ((at - slack) * 10**6, (at + slack) * 10**6)


def test_boolean_bounds() -> None:
    units = [
        pb.statistics(count, False, pb.blob(5, pb.packed(1, [true])))
        for count, true in ((10, 0), (10, 10), (10, 3), (10, 11))
    ]
    column = bound(raw(node(K.BOOLEAN), *units))
    assert [both(column, i) for i in range(4)] == [(0, 0), (1, 1), (0, 1), (None, None)]


@pytest.mark.parametrize(
    ("kind", "facts", "level", "wanted"),
    [
        (K.STRING, {"writer_version": 0}, "stripe", "HIVE-8732"),
        (K.STRING, {"writer_version": 0}, "row_group", None),
        (K.INT, {"writer_version": 0}, "file", None),
        (K.DATE, {"writer_version": 0, "writer": WriterKind.CPP}, "file", None),
        (K.DECIMAL, {"writer_version": 6}, "row_group", "ORC-517"),
        (K.DECIMAL, {"writer_version": 6, "writer": WriterKind.CPP}, "row_group", None),
        (K.DECIMAL, {"writer_version": 7}, "row_group", None),
        (K.TIMESTAMP_INSTANT, {"writer_version": 5}, "file", "ORC-135"),
    ],
)
def test_writers_that_are_not_trusted(kind: TypeKind, facts: dict[str, Any], level: Any, wanted: str | None) -> None:
    reason = distrust(node(kind, precision=10, scale=2), level, replace(FACTS, **facts), OPTIONS)
    assert re.search(wanted, reason or "") if wanted else reason is None


@pytest.mark.parametrize(
    ("precision", "version", "is_wrong"),
    [
        (0, 6, False),
        (1, 6, True),
        (18, 6, True),
        (19, 6, False),
        (18, 5, False),
        (18, 7, False),
    ],
)
def test_short_decimals_of_one_version_of_java_are_not_trusted(precision: int, version: int, is_wrong: bool) -> None:
    one = node(K.DECIMAL, precision=precision)
    assert (distrust(one, "row_group", replace(FACTS, writer_version=version), OPTIONS) is not None) == is_wrong


# Statistics as Python values and as a table


def test_python_values() -> None:
    stamp = unit_statistics(raw(node(K.TIMESTAMP_INSTANT), timestamps(1, 10**9, 8, 8)), 0, hybrid=False)
    assert stamp.minimum == datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)
    assert (stamp.minimum_nanos, stamp.maximum_nanos) == (1_000_007, 10**15 + 7)
    far = unit_statistics(raw(node(K.TIMESTAMP), timestamps(-(10**17), 0)), 0, hybrid=False)
    assert far.minimum == -(10**23)
    text = unit_statistics(raw(node(K.STRING), strings(b"a\xff", None, None, b"b")), 0, hybrid=False)
    assert (text.minimum, text.maximum, text.upper_bound, text.count) == ("a\ufffd", None, "b", 10)
    box = pb.blob(1, pb.double(1, 1.0) + pb.double(4, 2.0)) + pb.packed(2, [1, 3])
    geo = unit_statistics(raw(node(K.GEOMETRY), pb.statistics(1, False, pb.blob(13, box))), 0, hybrid=False)
    assert geo.geospatial is not None
    assert (geo.geospatial.bounds, geo.geospatial.types) == ({"xmin": 1.0, "ymax": 2.0}, (1, 3))
    sizes = pb.blob(12, pb.uint(1, 0) + pb.uint(2, 4) + pb.uint(3, 9))
    lists = unit_statistics(raw(node(K.LIST, children=(node(K.INT),)), pb.statistics(3, None, sizes)), 0, hybrid=False)
    assert (lists.minimum_children, lists.maximum_children, lists.total_children) == (0, 4, 9)
    assert lists.has_null is None


def test_table_has_a_row_for_each_column_and_unit() -> None:
    units = [raw(node(K.INT), integers(1, 5), integers(-3, 2)), raw(node(K.TIMESTAMP), timestamps(0, 1500, 1, 1))]
    table = units_table(units, hybrid=False)
    assert table["minimum"].to_pylist() == ["1", "-3", "1970-01-01 00:00:00.0"]
    assert table["maximum"].to_pylist()[-1] == "1970-01-01 00:00:01.5"
    assert table["minimum_integer"].to_pylist() == [1, -3, None]
    assert table["stripe"].to_pylist() == [0, 1, 0]
    assert units_table([], hybrid=False).schema == table.schema


def test_what_follows_from_statistics_is_kept_with_them() -> None:
    """The results for a pair of ``facts`` and ``options`` objects are cached. For other objects they are computed
    again."""
    one = raw(node(K.INT), integers(1, 5), integers(-3, 2))
    assert bound_statistics(one, FACTS, OPTIONS) is bound_statistics(one, FACTS, OPTIONS)
    early = replace(FACTS, writer_version=0)
    assert bound_statistics(one, early, OPTIONS) is not bound_statistics(one, FACTS, OPTIONS)
    assert both(bound_statistics(one, FACTS, OPTIONS, repeated=True)) == (None, None)
    assert both(bound_statistics(one, FACTS, OPTIONS)) == (1, 5)
    assert stored_totals(one, FACTS, OPTIONS).minima.known.all()
    assert not stored_totals(one, FACTS, OPTIONS, ends=False).minima.known.any()
    assert stored_totals(one, FACTS, OPTIONS) is stored_totals(one, FACTS, OPTIONS)


def test_statistics_of_stripes_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 1 << 40, 60_000) for name in "abc"})
    orcidx.write_table(table, sink, stripe_size=1 << 18)
    reader = orcidx.open(sink.getvalue())._reader
    columns = reader.root.children
    stripes = len(reader.stripes)
    assert stripes > 3
    monkeypatch.setattr(statistics, "KEPT_UNITS", 2 * stripes)
    for column in columns:
        found = stripe_statistics(reader.tail, column)
        assert stripe_statistics(reader.tail, column) is found
        assert stripe_statistics(reader.tail, replace(column)) is not found
        assert file_statistics(reader.tail, column) is file_statistics(reader.tail, column)
        assert sum(map(len, reader.tail.decoded_statistics.values())) <= 2 * stripes
    assert [len(stripe_statistics(reader.tail, columns[0], stripes=some)) for some in ([0], [3, 1])] == [1, 2]


def test_statistics_of_a_file(golden_orc: Path) -> None:
    file = orcidx.open(golden_orc / "TestOrcFile.columnProjection.orc")
    whole = file.statistics("int1")
    assert whole is not None
    assert (whole.count, whole.minimum, whole.maximum) == (21000, -2147439072, 2147257982)
    first = file.statistics("int1", 0, 3)
    assert first is not None
    assert (first.count, first.row_group, first.level) == (1000, 3, "row_group")
    table = file.statistics_table("row_group")
    assert sum(table.filter(pa.compute.equal(table["column"], "int1"))["count"].to_pylist()) == 21000
    for wrong in (("int1", 9), ("int1", 0, 99), ("int1", None, 1), ("int2",), (17,)):
        with pytest.raises(InvalidQuery):
            file.statistics(*wrong)
    with pytest.raises(InvalidQuery, match="level"):
        file.statistics_table("column")


def test_damaged_metadata_is_found_when_it_is_asked_for() -> None:
    types = [pb.type_message("struct", [1], ["x"]), pb.type_message("bigint")]
    stripe = (b"", pb.stripe_footer([], [b"", b""]), 1)
    data = pb.orc_file(types, stripes=[stripe], metadata=pb.blob(1, b"\x0b"))
    file = orcidx.open(data)
    with pytest.raises(CorruptFile, match="Metadata"):
        file.statistics("x", 0)
