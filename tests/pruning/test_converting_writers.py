"""Writers that convert values: their statistics describe the given values, but readers get the stored values.

A real writer makes each file. Each predicate is evaluated on all rows of a plain read, and then with every index. No
row may be missing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from goldens import FIXTURES
from interop.java_writer import JavaWriter
from pruning.every_level import LEVELS, differences, only

import orcidx
from orcidx import InvalidQuery, ValueOutOfRange, col
from orcidx.planner import bloom_choice

pyorc = pytest.importorskip("pyorc")


@pytest.fixture(autouse=True)
def every_bloom_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes scans use bloom filters even if they are larger than the data."""
    monkeypatch.setattr(bloom_choice, "BLOOM_SHARE", float("inf"))


def by_pyorc(kind: str, values: Sequence[Any], **options: Any) -> bytes:
    out = io.BytesIO()
    chosen = {"bloom_filter_columns": ["x"], "row_index_stride": 10, **options}
    with pyorc.Writer(out, f"struct<x:{kind}>", **chosen) as writer:
        writer.writerows([(value,) for value in values])
    return out.getvalue()


def by_java(spark: Any, folder: Path, kind: str, values: Sequence[Any], **settings: Any) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.orc"
    JavaWriter(spark, path, f"struct<x:{kind}>", **{"orc__bloom__filter__columns": "x", **settings}).write(
        [(value,) for value in values]
    )
    return path


def check(source: Any, literals: Iterable[Any], **options: Any) -> int:
    """Evaluates every comparison with each literal. Returns how many comparisons have matching rows."""
    found = 0
    with orcidx.open(source) as file:
        stored = file.read(**options)["x"].to_pylist()
        for literal in literals:
            questions = (
                (col("x") == literal, [value == literal for value in stored]),
                (col("x").is_in([literal]), [value == literal for value in stored]),
                (col("x") <= literal, [value <= literal for value in stored]),
                (col("x") < literal, [value < literal for value in stored]),
                (col("x") >= literal, [value >= literal for value in stored]),
                (col("x") > literal, [value > literal for value in stored]),
                (col("x") != literal, [value != literal for value in stored]),
                (col("x").between(literal, literal), [value == literal for value in stored]),
            )
            for where, answers in questions:
                assert file.scan(where=where, **options).count_rows() == sum(answers), where
                found += any(answers)
    return found


def kept(source: Any, where: Any, **options: Any) -> int:
    """Returns how many row groups are read for a predicate."""
    with orcidx.open(source) as file:
        return sum(int(stripe.decision.kept.sum()) for stripe in file.scan([], where, **options).stripes())


# ---------------------------------------------------------------------- floats


@pytest.mark.parametrize("given", [0.1, 16777217.0, 1e-50, -1e-50, 1e300, -1e300, 0.30000001192092896])
def test_floats_that_were_doubles(given: float) -> None:
    """ORC C++ stores values rounded to FLOAT, but its statistics and filters have the doubles. So orcidx also rounds
    the bounds, and does not use the filters."""
    with np.errstate(over="ignore"):
        stored = float(np.float32(given))
    assert check(by_pyorc("float", [given] * 25), [given, stored]) > 0


def test_floats_among_others() -> None:
    given = [0.1, 0.2, 0.3, 16777217.0, 1e-50, 5.5] * 5
    assert check(by_pyorc("float", given), [*given[:6], *np.float32(given[:6]).astype(float).tolist()]) > 20


def test_bounds_of_floats_still_prune() -> None:
    file = by_pyorc("float", [i + 0.1 for i in range(100)])
    assert kept(file, col("x") == float(np.float32(25.1))) == 1
    assert kept(file, col("x") > 99.2) == 0
    assert kept(file, col("x") <= 19.5) == 2


# ---------------------------------------------------------------------- integers beyond their type


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [("smallint", 70000, 4464), ("int", 2**32 + 5, 5), ("int", 2**31, -(2**31)), ("tinyint", 300, 44)],
)
def test_integers_that_wrap_in_files_of_pyorc(kind: str, given: int, stored: int) -> None:
    assert check(by_pyorc(kind, [given] * 10 + [1, 2, 3] * 10), [stored, 1, 99]) > 4


@pytest.mark.java
@pytest.mark.parametrize(
    ("kind", "given", "stored"), [("smallint", 70000, 4464), ("int", 2**32 + 5, 5), ("tinyint", 300, 44)]
)
def test_integers_that_wrap_in_files_of_java(spark: Any, tmp_path: Path, kind: str, given: int, stored: int) -> None:
    path = by_java(spark, tmp_path, kind, [given, 1, 2, 3], orc__row__index__stride=1000)
    assert check(path, [stored, 1, 99]) > 4


class RawDays:
    """A converter that makes pyorc accept days as numbers."""

    @staticmethod
    def to_orc(*given: Any) -> int:
        return int(given[0])

    @staticmethod
    def from_orc(*given: Any) -> int:
        return int(given[0])


@pytest.mark.parametrize("days", [2**31, -(2**31) - 1, 2**32 + 5, -(2**40)])
def test_dates_beyond_32_bits_are_refused(days: int) -> None:
    """Days that do not fit into 32 bits are refused. Truncated to 32 bits, they would be other dates. The statistics
    have these other dates, but the bloom filter does not contain them."""
    data = by_pyorc("date", [1] * 10 + [days] + [2] * 9, converters={pyorc.TypeKind.DATE: RawDays})
    with orcidx.open(data) as file:
        with pytest.raises(ValueOutOfRange, match="do not fit into the 32 bits of date32") as caught:
            file.read()
        assert (caught.value.column, caught.value.stripe) == ("x", 0)
        assert file.scan([], row_range=(0, 10)).count_rows() == 10
    edges = by_pyorc("date", [2**31 - 1, -(2**31), 1], converters={pyorc.TypeKind.DATE: RawDays})
    with orcidx.open(edges) as file:
        assert file.read()["x"].cast(pa.int32()).to_pylist() == [2**31 - 1, -(2**31), 1]


def test_filters_are_believed_row_group_by_row_group() -> None:
    """If the statistics of a row group are within the type, its filter is used, even if values of a neighbouring row
    group wrapped around."""
    values = [*range(0, 20, 2), *range(0, 18, 2), 70000, *range(0, 20, 2)]
    with orcidx.open(by_pyorc("smallint", values, bloom_filter_fpp=0.0001)) as file:
        scan = file.scan(where=col("x") == 7)
        (stripe,) = scan.stripes()
        assert stripe.decision.kept.tolist() == [False, True, False]
        assert any("1 of 3 row groups" in note.text for note in scan.explain().notes)


# ---------------------------------------------------------------------- texts that Java cuts or cannot decode


@pytest.mark.java
@pytest.mark.parametrize(
    "values",
    [
        ["a" * 2000, "a" * 1024],
        ["a" * 2000, "a" * 1023 + "b"],
        ["é" * 2000, "é" * 512, "é" * 511 + "ê"],
        ["a" * 1000 + "\U0010ffff" * 20, "a" * 1000],
        ["a" * 1000 + "\ufffe" * 20],
        ["\U0010ffff" * 500],
        ["\ud7ff" * 500],
        ["b", "a\ufffdb", "\ufffd", "\U0001f600"],
    ],
    ids=lambda values: f"{values[0][-1:]!a}{len(values)}",
)
def test_texts_that_java_cuts(spark: Any, tmp_path: Path, values: list[str]) -> None:
    cut = [value[:length] for value in values for length in (1024, 512, 1000)]
    assert check(by_java(spark, tmp_path, "string", values), {*values, *cut, "a" * 1023 + "b", "\ufffd"}) > 5


@pytest.mark.java
@pytest.mark.parametrize(
    "value",
    [b"\xff", b"a\x80", b"b\xfe\xff", b"\xed\xa0\x80", b"a" * 1023 + b"\xff" * 9, b"a" * 1000 + b"\xff" * 90,
     b"\xff" * 2000, b"\xed\xa0\x80" * 500, b"a" * 1020 + b"\xf0\x9f" * 20],
    ids=lambda value: f"{value[:2].hex()}{len(value)}",
)  # fmt: skip
def test_texts_that_are_no_utf8(spark: Any, tmp_path: Path, value: bytes) -> None:
    """Java's bounds have U+FFFD in place of bytes that are not UTF-8. Spark's ``cast(binary as string)`` makes such
    values."""
    for others in ([], [b"b"], [b"A", "\U0010ffff".encode()]):
        path = by_java(spark, tmp_path, "string", [value, *others])
        stored = [value, *others]
        with orcidx.open(path) as file:
            for literal in ("a", "b", "\u00e9", "\ud7ff", "\ufffe", "\uffff", "\U00010000", "a" * 1023 + "\uffff"):
                raw = literal.encode()
                for where, count in (
                    (col("x") > literal, sum(each > raw for each in stored)),
                    (col("x") < literal, sum(each < raw for each in stored)),
                    (col("x") == literal, sum(each == raw for each in stored)),
                ):
                    assert file.scan([], where, utf8="unchecked").count_rows() == count, (where, others)


@pytest.mark.java
def test_whole_bounds_of_java_still_prune(spark: Any, tmp_path: Path) -> None:
    path = by_java(spark, tmp_path, "string", ["bär", "b\ufffdr", "b\ufffds", "c"])
    assert kept(path, col("x") < "b") == kept(path, col("x") > "c") == 0
    path = by_java(spark, tmp_path, "string", ["b\ufffdr", "b\ufffds"])
    assert kept(path, col("x") < "b") == kept(path, col("x") > "c") == 0
    assert kept(path, col("x") >= "b\uffff") == 1


@pytest.mark.parametrize(
    ("name", "stored", "literals"),
    [
        ("maximum", [b"a", b"b\xff", b"b\xf0\x9f\x98\x80"], ["b\U0001f600", "b\U0010ffff", "b", "a", "c"]),
        ("minimum", [b"b\x80", b"b\xc3\xa9", b"c"], ["b\xa0", "b\xe9", "b", "c"]),
    ],
)
def test_bounds_that_java_decoded_to_join_them(name: str, stored: list[bytes], literals: list[str]) -> None:
    """Before ORC-203, Java decoded bounds before it merged them. A bound with U+FFFD was then compared in decoded form,
    so the merged bounds may not contain all stored bytes."""
    file = FIXTURES / "converted" / f"java-1.5.13-{name}.orc"
    for level in LEVELS:
        with only(level), orcidx.open(file) as opened:
            for literal in literals:
                for where, answers in (
                    (col("x") > literal, [value > literal.encode() for value in stored]),
                    (col("x") < literal, [value < literal.encode() for value in stored]),
                    (col("x") == literal, [value == literal.encode() for value in stored]),
                ):
                    scan = opened.scan([], where, utf8="unchecked")
                    assert scan.count_rows() == 1000 * sum(answers), (level, where)


def test_bounds_that_java_joined_still_prune() -> None:
    """A merged bound can lack stored values, so it cannot rule out literals that these values may equal. It rules out
    all other literals. Row groups have no merged bounds, so their statistics rule out even these literals."""
    file = FIXTURES / "converted" / "java-1.5.13-char.orc"
    with only("file statistics"):
        assert kept(file, col("x") < "a") == kept(file, col("x") >= "d") == 0
        assert kept(file, col("x") > "b\U0001f601") == 3
    with only("row-group statistics"):
        assert kept(file, col("x") > "b\U0001f601") == 0
        assert kept(file, col("x") == "b\xe9") == 1


# ---------------------------------------------------------------------- time zones

HOUR = 3600
ZONES = {
    "Africa/Windhoek": (1990, 2037, 2041), "Africa/Casablanca": (1975, 2012, 2038, 2060), "Europe/Oslo": (1917, 1965),
    "America/Nassau": (1942, 1962, 2007), "Asia/Tehran": (1977, 1978, 1979, 2022), "EST5EDT": (1921, 1966, 1974),
    "America/Los_Angeles": (1890, 2015, 2040), "Asia/Kolkata": (1942, 2020), "Pacific/Apia": (2011,),
}  # fmt: skip
"""Zones with an unusual offset, and zones for which Java's table and orcidx's table differ in some of these years."""


@pytest.mark.java
@pytest.mark.parametrize("zone", ZONES)
def test_times_whose_zone_has_other_rules_at_the_writer(spark: Any, jvm_in: Any, tmp_path: Path, zone: str) -> None:
    """Some files have a single value, which is their minimum and maximum. If the statistics differed from the value
    that is read, the row would not be found."""
    for year in ZONES[zone]:
        start = int(np.datetime64(f"{year}-01-01", "s").astype(int))
        seconds = [start + day * 24 * HOUR + hour * HOUR for day in (0, 80, 100, 180, 300) for hour in (1, 13)]
        with jvm_in(zone):
            for part in (seconds[:1], seconds[4:5], seconds):
                path = by_java(spark, tmp_path, "timestamp", [second * 10**9 for second in part])
                with orcidx.open(path) as file:
                    assert file._reader.footer(0).writer_timezone == zone
                    stored = file.read(timestamp_unit="us")["x"].to_pylist()
                check(path, [stored[0], stored[-1]], timestamp_unit="us")


# ---------------------------------------------------------------------- decimals


@pytest.mark.java
def test_decimals_of_a_larger_scale_than_their_type(spark: Any, tmp_path: Path) -> None:
    """The vectors are filled without Hive's rounding. No filter contains the value that a reader computes from
    1.555."""
    path = tmp_path / "d.orc"
    java = JavaWriter(spark, path, "struct<x:decimal(38,2)>", orc__bloom__filter__columns="x")
    java.schema = spark._jvm.org.apache.orc.TypeDescription.fromString("struct<x:decimal(38,3)>")
    java.write([(Decimal(value),) for value in ("1.555", "-7.129", "2.5")])
    with orcidx.open(path) as file:
        with pytest.raises(ValueOutOfRange, match="decimal_rounding='truncate'") as caught:
            file.read()
        assert caught.value.column == "x"
        assert file.scan(where=col("x") == Decimal("2.51")).count_rows() == 0
    literals = [Decimal(value) for value in ("1.55", "1.56", "-7.12", "-7.13", "2.5", "1.555")]
    assert check(path, literals, decimal_rounding="truncate") > 5
    assert check(path, literals, decimal_rounding="half_up") > 5


# ---------------------------------------------------------------------- unions, and parents that are null

NESTED = (
    "struct<before:uniontype<int,string>,"
    "s:struct<f:float,n:smallint,c:char(5),deep:struct<i:int,t:string>,u:uniontype<smallint,float>>,"
    "u:uniontype<float,smallint>,after:float>"
)
ASKED = {
    ("s", "f"): [0.1, float(np.float32(0.1)), 16777217.0, 0.0, 1e-50],
    ("s", "n"): [70000, 4464, 0, 7],
    ("s", "c"): ["abcde", "abc", "abcdef", ""],
    ("s", "deep", "i"): [2**32 + 5, 5, 0],
    ("s", "deep", "t"): ["x" * 2000, "x" * 1024, "", "b"],
    ("after",): [0.1, float(np.float32(0.1)), 1e300, 0.0],
}


def nested_rows() -> list[tuple[Any, ...]]:
    """Returns values that every writer must convert. Their parents are sometimes null, sometimes for a whole row group.
    The rows also have unions of such values."""
    rng = np.random.default_rng(11)
    rows = []
    for row in range(120):
        f, n, i = rng.choice([0.1, 16777217.0, 1e-50, 5.5]), rng.choice([70000, 7, -3]), rng.choice([2**32 + 5, 5, -9])
        text = str(rng.choice(["x" * 2000, "x" * 1024, "b", "\U0001f600"]))
        deep = None if row % 4 == 1 or 60 <= row < 80 else (int(i), None if row % 7 == 0 else text)
        variant = None if row % 5 == 0 or 90 <= row < 100 else (row % 2, (70000 if row % 2 == 0 else 0.1))
        other = None if row % 6 == 0 or 20 <= row < 30 else (row % 2, (0.1 if row % 2 == 0 else 70000))
        below = (float(f), None if row % 9 == 0 else int(n), str(rng.choice(["abcdefgh", "abc  ", "é"])), deep, variant)
        first = None if row % 3 == 0 else (row % 2, row if row % 2 == 0 else str(row))
        rows.append((first, None if row % 8 == 3 or 40 <= row < 60 else below, other, float(f)))
    return rows


def ask_below_null_parents(source: Any, **options: Any) -> int:
    """Evaluates every predicate of ``every_level`` on all columns in ``ASKED``. Returns how many predicates have
    matching rows."""
    found = 0
    for path, literals in ASKED.items():
        answered, wrong = differences(source, path, literals, **options)
        assert not wrong, wrong[:3]
        found += answered
    with orcidx.open(source) as file:
        nulls = file.read(**options)["s"].null_count
        assert file.scan(where=col("s").is_null(), **options).count_rows() == nulls > 20
        assert file.scan(where="s.f = 5.5 or s is null", **options).to_table().num_rows > nulls
        for path in (("u",), ("s", "u"), ("before",)):  # conditions on unions are refused
            with pytest.raises(InvalidQuery, match="is a union, which conditions cannot test"):
                file.scan(where=col(*path).is_null(), **options).count_rows()
    return found


@pytest.mark.parametrize("options", [{}, {"row_index_stride": 20}])
def test_unions_and_null_parents_of_pyorc(options: dict[str, Any]) -> None:
    out = io.BytesIO()
    chosen = {"bloom_filter_columns": [5, 6, 7, 9, 10, 17], "row_index_stride": 10, **options}
    with pyorc.Writer(out, NESTED, **chosen) as writer:
        for first, below, other, after in nested_rows():
            if below is not None:
                below = (*below[:4], None if below[4] is None else below[4][1])
            bare = (None if first is None else first[1], below, None if other is None else other[1], after)
            writer.write(bare)
    assert ask_below_null_parents(out.getvalue()) > 60


@pytest.mark.java
def test_unions_and_null_parents_of_java(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "nested.orc"
    blooms = "s.f,s.n,s.c,s.deep.i,s.deep.t,after"
    JavaWriter(spark, path, NESTED, orc__bloom__filter__columns=blooms).write(nested_rows())
    assert ask_below_null_parents(path) > 60
