"""Tests of decimals, timestamps and dates: the values that a DATA stream and a SECONDARY stream encode together."""

import datetime as dt
import decimal
from decimal import Decimal

import numpy as np
import pytest
from columns.raw_column import DATA, PRESENT, SECONDARY, V1, raw_column, values
from streams.encoders import Stream, direct, fixed_delta, v1_literals, varint, zigzag

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported, ValueOutOfRange
from orcidx.orc.kinds import TypeKind

# --- decimals ---------------------------------------------------------------------------------------------------------


def unscaled(data: str, rows: int, scales: str, *, precision: int = 38, scale: int = 0, **options) -> list[int]:
    """Reads decimals and returns them as integers at the type's scale."""
    column = raw_column(
        TypeKind.DECIMAL, {DATA: data, SECONDARY: scales}, rows, encoding=V1, precision=precision, scale=scale
    )
    with decimal.localcontext(prec=60):
        return [int(value.scaleb(scale)) for value in values(column, **options)]


def test_varints_of_every_length() -> None:
    data = (
        "f8e8e2cff4cbb6da0d 86c1cccd9ed5c511 b4f6fcf3b9ba16 cae7a3a6df1c eaadc0e524 f8948c2f 86a43c 944d 62"
    ).replace(" ", "")
    expected = [493827160549382716 // 10 ** (2 * n) for n in range(9)]
    assert expected[-1] == 49
    assert unscaled(data, 9, "06000c", scale=6) == expected
    column = raw_column(TypeKind.DECIMAL, {DATA: data, SECONDARY: "06000c"}, 9, encoding=V1, precision=38, scale=6)
    for skipped in range(9):
        reader = column.open()
        reader.skip(skipped)
        assert [int(value.scaleb(6)) for value in reader.read(9 - skipped).to_pylist()] == expected[skipped:]


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ("aacdb3f29ef099d6bef8b69ee4b7fdce8f34", 17320508075688772935274463415058723669),
        ("a9cdb3f29ef099d6bef8b69ee4b7fdce8f34", -17320508075688772935274463415058723669),
        ("feffffffff8f918a93e8a3ecd096d4ccf6ac02", 10**38 - 1),
        ("fdffffffff8f918a93e8a3ecd096d4ccf6ac02", -(10**38) + 1),
        ("808080b1ac8bafc7d715", 10**20),
    ],
)
def test_long_numbers(data: str, number: int) -> None:
    assert unscaled(data, 1, "ff00") == [number]


@pytest.mark.parametrize(
    "data",
    ["8080808080c0b0f5f3aefdcb94d7e1f1d38ceb01", "ffffffffff8f918a93e8a3ecd096d4ccf6ac02"],
    ids=["1e40", "-1e38"],
)
def test_more_digits_than_the_precision(data: str) -> None:
    with pytest.raises(CorruptFile, match=r"precision|128 bits") as caught:
        unscaled(data, 1, "ff00")
    assert caught.value.column == "c"


def test_more_than_128_bits() -> None:
    fits = varint((1 << 128) - 1).hex()
    with pytest.raises(CorruptFile, match="precision"):
        unscaled(fits, 1, "ff00")
    for bits in (128, 130, 400):
        with pytest.raises(CorruptFile, match="128 bits") as caught:
            unscaled(varint(1 << bits).hex(), 1, "ff00")
        assert caught.value.stream == "DATA"


def test_scales_below_the_types() -> None:
    ones = varint(zigzag(1)).hex() * 21
    # scales 20, 19, ... 0
    assert unscaled(ones, 21, "12ff28", scale=20) == [10**n for n in range(21)]


def test_scales_above_the_types() -> None:
    numbers = "808080b1ac8bafc7d715" * 21  # 10**20 at scales 0, 1, ... 20
    for rounding in ("truncate", "half_up", "error"):
        assert unscaled(numbers, 21, "120100", decimal_rounding=rounding) == [10 ** (20 - n) for n in range(21)]


@pytest.mark.parametrize(("rounding", "expected"), [("truncate", [1, -1, 1, 0]), ("half_up", [2, -2, 1, 1])])
def test_digits_beyond_the_types_scale(rounding: str, expected: list[int]) -> None:
    """The values are 1.5, -1.5, 1.49 and 0.5, read at scale 0. ORC C++ truncates them, ORC Java rounds half up."""
    data = b"".join(varint(zigzag(number)) for number in (15, -15, 149, 5)).hex()
    scales = v1_literals([1, 1, 2, 1], signed=True).data.hex()
    assert unscaled(data, 4, scales, decimal_rounding=rounding) == expected
    for options in ({"decimal_rounding": "error"}, {}):
        with pytest.raises(ValueOutOfRange, match="decimal_rounding='truncate'"):
            unscaled(data, 4, scales, **options)


def test_negative_scales_multiply() -> None:
    assert unscaled(varint(zigzag(7)).hex(), 1, v1_literals([-3], signed=True).data.hex()) == [7000]


@pytest.mark.parametrize("scale", [39, 127, 1 << 31, (1 << 63) - 1, -39, -(1 << 31), -(1 << 63)])
def test_absurd_scales(scale: int) -> None:
    with pytest.raises(CorruptFile, match="between -38 and 38") as caught:
        unscaled("0e", 1, v1_literals([scale], signed=True).data.hex(), scale=2)
    assert caught.value.stream == "SECONDARY"


def test_the_scales_that_differ_most() -> None:
    assert unscaled("0e", 1, v1_literals([38], signed=True).data.hex(), decimal_rounding="truncate") == [0]
    with pytest.raises(CorruptFile, match="128 bits"):
        unscaled("0e", 1, v1_literals([-38], signed=True).data.hex(), scale=2)


def test_precision_0_of_old_hive() -> None:
    column = raw_column(TypeKind.DECIMAL, {DATA: "1e", SECONDARY: "ff02"}, 1, encoding=V1, precision=0)
    assert values(column) == [Decimal("1.500000")]
    array = column.read(decimal_zero_precision=(38, 18))
    assert (array.type.precision, array.type.scale) == (38, 18)


def test_precision_0_has_no_digit_too_many() -> None:
    data = varint(zigzag(15_555_555_555)).hex()
    streams = {DATA: data, SECONDARY: v1_literals([10], signed=True).data.hex()}
    column = raw_column(TypeKind.DECIMAL, streams, 1, encoding=V1, precision=0)
    assert values(column) == [Decimal("1.555555")]


def test_decimal64() -> None:
    streams = {PRESENT: "05ff0400ff80", DATA: "c0403f02"}
    column = raw_column(TypeKind.DECIMAL, streams, 128, precision=12, scale=2, decimal64=True)
    numbers = [Decimal(n).scaleb(-2) for n in range(-32, 33)]
    assert values(column) == [*numbers[:64], *[None] * 56, numbers[64], *[None] * 7]


def test_decimal64_beyond_the_precision() -> None:
    data = direct([10**12], signed=True).data
    column = raw_column(TypeKind.DECIMAL, {DATA: data}, 1, precision=12, scale=2, decimal64=True)
    with pytest.raises(CorruptFile, match="precision"):
        values(column)


@pytest.mark.parametrize("sizes", [(1,), (3, 4), (1, 2, 3, 4, 5, 6, 7, 8), (1, 1, 1, 1, 1, 1, 9), (8, 9, 14, 16, 17)])
@pytest.mark.parametrize("scales", [(2,), (0, 1, 2), (2, 3), (7,), (-1, 2)])
@pytest.mark.parametrize("scale", [2, 7, 12])
def test_many_decimals(rng: np.random.Generator, sizes: tuple[int, ...], scales: tuple[int, ...], scale: int) -> None:
    """The decimals are blocks of small and large varints in any mixture, at one scale or several scales."""
    rows = 2500
    bits = [7 * int(size) for size in rng.choice(sizes, rows)]
    codes = [(1 << bit - 1) + int.from_bytes(rng.bytes(16)) % (1 << bit - 1) for bit in bits]
    if sizes == (1,):
        codes[:3] = [0, 1, 127]
    at = [int(chosen) for chosen in rng.choice(scales, rows)]
    number = [(code >> 1) ^ -(code & 1) for code in codes]
    wanted = []
    for value, digits in zip(number, at, strict=True):
        cut = abs(value) // 10 ** max(digits - scale, 0) * 10 ** max(scale - digits, 0)
        wanted.append(cut if value >= 0 else -cut)
    data = b"".join(varint(code) for code in codes).hex()
    runs = [direct(at[start : start + 512], signed=True).data for start in range(0, rows, 512)]
    column = raw_column(TypeKind.DECIMAL, {DATA: data, SECONDARY: b"".join(runs)}, rows, precision=38, scale=scale)
    if max(map(abs, wanted)) >= 10**38:
        with pytest.raises(CorruptFile, match=r"precision|128 bits"):
            values(column, decimal_rounding="truncate")
        return
    with decimal.localcontext(prec=60):
        assert [int(value.scaleb(scale)) for value in values(column, decimal_rounding="truncate")] == wanted


@pytest.mark.parametrize("precision", [4, 5, 6, 9])
def test_the_precision_bounds_small_decimals(precision: int) -> None:
    """At the type's scale and at smaller scales, the largest number of ``precision`` digits is read, and the next
    number is refused."""
    for digits in (2, 1, 0):
        largest = 10 ** (precision - 2 + digits) - 1
        for value, fits in ((largest, True), (-largest, True), (largest + 1, False), (-largest - 1, False)):
            data = "02" * 99 + varint(zigzag(value)).hex()
            column = raw_column(
                TypeKind.DECIMAL,
                {DATA: data, SECONDARY: fixed_delta(digits, 0, 100, signed=True).data},
                100,
                precision=precision,
                scale=2,
            )
            if fits:
                assert values(column)[-1] == Decimal(value).scaleb(-digits)
            else:
                with pytest.raises(CorruptFile, match="precision"):
                    values(column)


def test_more_decimals_than_a_cache_holds(rng: np.random.Generator) -> None:
    numbers = [int(number) for number in rng.integers(-(10**6), 10**6, 70_000)]
    numbers[65_000] = 10**30
    data = b"".join(varint(2 * number if number >= 0 else -2 * number - 1) for number in numbers).hex()
    scales = fixed_delta(2, 0, 512, signed=True).data * 137
    column = raw_column(TypeKind.DECIMAL, {DATA: data, SECONDARY: scales}, len(numbers), precision=38, scale=2)
    with decimal.localcontext(prec=60):
        assert [int(value.scaleb(2)) for value in values(column)] == numbers


def test_more_dates_than_a_cache_holds(rng: np.random.Generator) -> None:
    days = rng.integers(-20_000, 20_000, 300_000)
    data = b"".join(direct(days[start : start + 512].tolist(), signed=True).data for start in range(0, len(days), 512))
    column = raw_column(TypeKind.DATE, {DATA: data}, len(days))
    assert column.open().read(len(days)).cast("int32").to_pylist() == days.tolist()


# --- timestamps -------------------------------------------------------------------------------------------------------

EPOCH = 1420070400
UTC = dt.UTC


def stamps(*pairs: tuple[int, int], kind=TypeKind.TIMESTAMP, timezone="UTC", hybrid=False, **options) -> list:
    """Reads pairs of (seconds since 1970, coded nanoseconds) and returns nanoseconds since 1970."""
    streams = {
        DATA: direct([first - EPOCH for first, _ in pairs], signed=True).data,
        SECONDARY: direct([second for _, second in pairs], signed=False).data,
    }
    column = raw_column(kind, streams, len(pairs), timezone=timezone)
    return column.open(hybrid=hybrid, **options).read(len(pairs)).cast("int64").to_pylist()


def test_rows_of_the_cpp_tests() -> None:
    """The timestamps are from ORC C++'s own tests: years 1900 to 2000, with fractions of every kind."""
    data = "f69ff4c6bd03ffecf3bc03ffb1f8841b9d86d7fa1a9db8cddc1a9deac3be1a9d9cbaa01a9d88a6821a9dba9ce4199deee1cd18"
    nanos = "f600a8d1f9d603009e01ec76f476fc7684778c77fd0b"
    column = raw_column(TypeKind.TIMESTAMP, {DATA: data, SECONDARY: nanos}, 10, encoding=V1)
    read = column.read(timestamp_unit="ns").cast("string").to_pylist()
    assert read == [
        "2000-03-12 15:00:00.000000000",
        "2000-03-20 12:00:00.123456789",
        "1900-01-01 00:00:00.000000000",
        "1900-05-05 12:34:56.190000000",
        "1901-05-05 12:34:56.190100000",
        "1902-05-05 12:34:56.190200000",
        "1903-05-05 12:34:56.190300000",
        "1904-05-05 12:34:56.190400000",
        "1905-05-05 12:34:56.190500000",
        "1910-05-05 12:34:56.191000000",
    ]


def test_rows_of_the_cpp_tests_with_nulls() -> None:
    """The rows were written in California, in summer."""
    streams = {PRESENT: "ffcc", DATA: "fcbbb5be31a1eee210f892ee0f92a0d430", SECONDARY: "01085e"}
    column = raw_column(TypeKind.TIMESTAMP, streams, 8, encoding=V1, timezone="America/Los_Angeles")
    assert column.read(timestamp_unit="ms").cast("string").to_pylist() == [
        "2013-05-10 10:40:50.110",
        "2014-06-11 11:41:51.120",
        None,
        None,
        "2015-07-12 12:42:52.130",
        "2016-08-13 13:43:53.140",
        None,
        None,
    ]


@pytest.mark.parametrize("zeros", range(8))
def test_nanoseconds_without_their_zeros(zeros: int) -> None:
    expected = 10 ** (zeros + 1) if zeros else 1
    assert stamps((5, 1 << 3 | zeros)) == [5 * 10**9 + expected]


def test_fractions_before_1970() -> None:
    """For times before 1970, Java's writer rounds the seconds towards 1970. So if the fraction is 1 ms or more, the
    time lies in the previous second (ORC-763)."""
    assert stamps((-5, 999_999 << 3), (-5, 1_000_000 << 3), (-5, 0), (0, 5 << 3 | 7)) == [
        -5 * 10**9 + 999_999,
        -6 * 10**9 + 1_000_000,
        -5 * 10**9,
        500_000_000,
    ]


def test_negative_nanoseconds_as_pyarrow_writes_them() -> None:
    half = (-5 << 3 | 7) % (1 << 64)
    assert stamps((0, half), (-3, half)) == [-500_000_000, -3_500_000_000]


@pytest.mark.parametrize("nanos", [10**9 << 3, 10 << 3 | 7, (1 << 60) << 3, (-(10**9) << 3) % (1 << 64), 1 << 63])
def test_nanoseconds_that_are_more_than_a_second(nanos: int) -> None:
    with pytest.raises(CorruptFile, match="not within a second") as caught:
        stamps((5, nanos))
    assert caught.value.stream == "SECONDARY"


@pytest.mark.parametrize("seconds", [(1 << 63) - 1, -(1 << 63), (1 << 61) + 1, -(1 << 61) - 1])
@pytest.mark.parametrize("unit", ["s", "ns"])
def test_seconds_that_are_no_date(seconds: int, unit: str) -> None:
    streams = {DATA: direct([seconds], signed=True).data, SECONDARY: direct([8], signed=False).data}
    with pytest.raises(CorruptFile, match="seconds from 2015"):
        raw_column(TypeKind.TIMESTAMP, streams, 1, timezone="Europe/Oslo").read(timestamp_unit=unit)


def test_units() -> None:
    # The time is -3 s plus a fraction. It is stored as -2, because Java's writer truncates seconds towards 1970.
    pair = (-2, 123_456_789 << 3)
    assert stamps(pair, timestamp_unit="ns") == [-2_876_543_211]
    assert stamps(pair, timestamp_unit="us") == [-2_876_544]
    assert stamps(pair, timestamp_unit="ms") == [-2_877]
    assert stamps(pair, timestamp_unit="s") == [-3]


@pytest.mark.parametrize("year", [1, 1677, 2263, 9999])
@pytest.mark.parametrize("kind", [TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT])
def test_years_that_nanoseconds_do_not_reach(year: int, kind: TypeKind) -> None:
    second = int((dt.datetime(year, 1, 1) - dt.datetime(1970, 1, 1)).total_seconds())
    with pytest.raises(ValueOutOfRange, match="timestamp_unit='us'"):
        stamps((second, 0), kind=kind)
    assert stamps((second, 8), kind=kind, timestamp_unit="us") == [second * 10**6]
    column = raw_column(
        kind, {DATA: direct([second - EPOCH], signed=True).data, SECONDARY: direct([8], signed=False).data}, 1
    )
    assert column.open(exact_times=True).read(1).to_pylist() == [second * 10**9 + 1]


def test_the_writers_zone() -> None:
    """DATA holds seconds since 2015 by the writer's clock. The result is the writer's wall clock, in summer and
    winter."""
    la_2015 = 8 * 3600  # seconds from midnight UTC to midnight in Los Angeles
    winter, summer = EPOCH - 86_400, EPOCH + 200 * 86_400
    assert stamps((winter, 0), timezone="America/Los_Angeles") == [winter * 10**9]
    assert stamps((summer, 0), timezone="America/Los_Angeles") == [(summer + 3600) * 10**9]
    # the last second before the clocks go forward on 2015-03-08, and the first second after
    switch = 1425808800 - la_2015
    assert stamps((switch - 1, 0), (switch, 0), timezone="US/Pacific") == [
        int(dt.datetime(2015, 3, 8, 1, 59, 59, tzinfo=UTC).timestamp()) * 10**9,
        int(dt.datetime(2015, 3, 8, 3, 0, 0, tzinfo=UTC).timestamp()) * 10**9,
    ]


def test_an_instant_has_no_zone() -> None:
    assert stamps((5, 0), kind=TypeKind.TIMESTAMP_INSTANT, timezone="America/Los_Angeles") == [5 * 10**9]
    assert stamps((5, 0), kind=TypeKind.TIMESTAMP_INSTANT, timezone="Nowhere/Land") == [5 * 10**9]


@pytest.mark.parametrize("missing", [None, ""])
def test_without_a_zone_the_stored_clock_is_shown(missing: str | None) -> None:
    assert stamps((5, 0), timezone=missing) == [5 * 10**9]


def test_a_forced_zone() -> None:
    summer = EPOCH + 200 * 86_400
    column = raw_column(
        TypeKind.TIMESTAMP,
        {DATA: direct([summer - EPOCH], signed=True).data, SECONDARY: direct([0], signed=False).data},
        1,
        timezone="Nowhere/Land",
    )
    with pytest.raises(Unsupported, match="timezone="):
        column.read()
    assert column.read(timezone="America/Los_Angeles").cast("int64").to_pylist() == [(summer + 3600) * 10**9]
    assert column.read(timezone="GMT+08:00").cast("int64").to_pylist() == [summer * 10**9]
    with pytest.raises(InvalidQuery, match="is not a time zone that is known on this machine"):
        column.read(timezone="Nowhere/Else")


# --- calendars --------------------------------------------------------------------------------------------------------


def dates(*days: int, **options) -> list:
    column = raw_column(TypeKind.DATE, {DATA: direct(days, signed=True).data}, len(days))
    return column.open(hybrid=True, **options).read(len(days)).cast("int32").to_pylist()


def test_dates_of_the_hybrid_calendar() -> None:
    """In the hybrid calendar, 1500-01-01 is day -171655, as Spark writes it, and 1582-10-04 is followed by
    1582-10-15."""
    assert dates(-171_655, -141_427, -141_428, 0) == [-171_664, -141_427, -141_438, 0]
    assert dates(-171_655, calendar="stored") == [-171_655]


def test_the_oldest_date_fits_both_calendars() -> None:
    assert dates(-(1 << 31), calendar="stored") == [-(1 << 31)]
    assert -(1 << 31) < dates(-(1 << 31))[0] < -(1 << 31) + 50_000


def test_timestamps_of_the_hybrid_calendar() -> None:
    """The date 0001-01-01 00:00 is -62135769600 in the hybrid calendar and -62135596800 in the proleptic one."""
    assert stamps((-62_135_769_600, 0), hybrid=True, timestamp_unit="s") == [-62_135_596_800]
    assert stamps((-62_135_769_600, 0), hybrid=True, timestamp_unit="s", calendar="stored") == [-62_135_769_600]
    assert stamps((-62_135_769_600 - 1, 5 << 3 | 7), hybrid=True, timestamp_unit="ms") == [-62_135_596_800_000 - 1500]


def test_runs_of_dates() -> None:
    run = fixed_delta(-141_430, 1, 6, signed=True)
    column = raw_column(TypeKind.DATE, {DATA: Stream((run,)).data}, 6)
    read = column.open(hybrid=True).read(6).to_pylist()
    assert read == [dt.date(1582, 10, day) for day in (2, 3, 4, 15, 16, 17)]
