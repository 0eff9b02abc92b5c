"""Columns compared with columns, arithmetic, functions and Polars expressions, in every form that ``where`` takes."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcidx
from orcidx import InvalidQuery, ValueOutOfRange, col
from orcidx.predicate import bind, parse
from orcidx.scanner import small_filter

pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("computed") / "a.orc"
    table = pa.table(
        {
            "id": range(10),
            "k": [None, 1, 2, 3, 9, 9, 9, 9, 9, 9],
            "s": ["Oslo", "rom "] * 5,
            "p": [i * 1.5 for i in range(10)],
            "f": [float("nan"), 1.0] * 5,
            "d": [datetime.date(2020 + i, 1, 1) for i in range(10)],
            "m": pa.array([Decimal(i) for i in range(10)], pa.decimal128(10, 2)),
            "r": [{"x": i} for i in range(10)],
            "none": pa.nulls(10, pa.int64()),
        }
    )
    orcidx.write_table(table, path)
    return path


def found(path, where):
    return orcidx.read_table(path, ["id"], where)["id"].to_pylist()


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id = id + 0", range(10)),
        ("id < k", [4, 5, 6, 7, 8]),
        ("not (id = k)", [4, 5, 6, 7, 8]),
        ("id <> k", [4, 5, 6, 7, 8]),
        ("lower(s) = 'oslo' and id > 4", [6, 8]),
        ("upper(trim(s)) in ('ROM', 'X') and id < 4", [1, 3]),
        ("year(d) between 2023 and 2025", [3, 4, 5]),
        ("id * 2 + 1 = 7", [3]),
        ("7 = id * 2 + 1", [3]),
        ("p / 2 > 3", [5, 6, 7, 8, 9]),
        ("id / 2 = 1.5", [3]),
        ("p * 1.1 > 10", [7, 8, 9]),
        ("-id < -7", [8, 9]),
        ("abs(id - 5) <= 1", [4, 5, 6]),
        ("s || 'x' = 'Oslox' and id < 2", [0]),
        ("coalesce(k, 0) = 0", [0]),
        ("r.x + 1 = 3", [2]),
        ("cast(id as double) > 8.5", [9]),
        ("length(s) = 4 and id = k", [1, 2, 3, 9]),
        ("id between k and 5", [1, 2, 3]),
        ("3 between id and k", [3]),
        ("5 between k and 7 and id < 3", [1, 2]),
        ("3.5 not between 1 and id", [0, 1, 2, 3]),
        ("date '2021-01-01' between d and d", [1]),
        ("null between id and 5", []),
        ("k + 1 is null", [0]),
        ("k + 1 is not null and id < 2", [1]),
        ("id = 3 or id = k + 0", [1, 2, 3, 9]),
        ("m > id - 1 and id > 8", [9]),
        (col("id") + 0 == col("id"), range(10)),
        (col("id") < col("k"), [4, 5, 6, 7, 8]),
        (col("id") != col("k"), [4, 5, 6, 7, 8]),
        ((col("s").function("lower") == "oslo") & (col("id") > 4), [6, 8]),
        (col("r", "x") * 2 == 6, [3]),
        (1 - col("id") > 0, [0]),
        ((col("id") + 1).between(3, 4), [2, 3]),
        ((col("id") + 1).is_in([3, 5]), [2, 4]),
        (abs(col("id") - 5) <= 1, [4, 5, 6]),
        (col("k").coalesce(0) == 0, [0]),
        (2 / col("p") > 1, [0, 1]),
        (pl.col("id") > 7, [8, 9]),
        ((pl.col("id") == pl.col("k")) & (pl.col("s") != "Oslo"), [1, 3, 9]),
        (pl.col("id").is_in([1, 5]), [1, 5]),
        (~pl.col("id").is_in([1, 5]) & (pl.col("id") < 3), [0, 2]),
        (pl.col("k").is_null(), [0]),
        (pl.col("id").is_between(2, 4, closed="left"), [2, 3]),
        (pl.col("s").str.starts_with("O") & (pl.col("id") < 3), [0, 2]),
        (pl.col("id") * 2 == 8, [4]),
        (pl.col("f") > 5, [0, 2, 4, 6, 8]),  # in Polars, NaN is the largest number
        (pl.col("d") > datetime.date(2027, 6, 1), [8, 9]),
    ],
    ids=str,
)
def test_rows(path, where, ids):
    assert found(path, where) == list(ids)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("id + 1 <=> 2", "null-safely"),
        ("1 + 1 = 2", "compares no column"),
        ("soundex(s) = 'x'", "the functions are coalesce, abs"),
        ("id % 2 = 0", "is an unknown function"),
        ("cast(id as uuid) = 1", "casts to a type"),
        ("id + 'a' = 2", "cannot evaluate"),
        ("id + 9223372036854775807 > 0", "overflow"),
        (pl.col("s").str.to_lowercase() == "oslo", "is not supported"),
        (pl.col("id").is_in([1, None]), "list with null"),
    ],
    ids=str,
)
def test_what_is_refused(path, where, message):
    with pytest.raises(InvalidQuery, match=message):
        found(path, where)


NANS = {"ieee": [], "largest": [0, 2, 4, 6, 8]}
"""Rows of ``path`` in which f is NaN."""


@pytest.mark.parametrize("nan", NANS)
@pytest.mark.parametrize(
    ("where", "always", "with_nan"),
    [
        ("f + 0 > 1", [], True),
        ("f + 0 >= p", [], True),
        ("f >= p", [], True),
        ("f = f", [1, 3, 5, 7, 9], True),
        ("f <> f", [], None),
        ("not (f < p)", [], None),
        ("f + 0 in (1, 7)", [1, 3, 5, 7, 9], False),
        ("f + 0 between p and 9", [], False),
        ("f < id", [3, 5, 7, 9], False),
        ("id < f", [], True),
        ("m < f + 0", [], True),
        (pl.col("f") + 0 > 1, [], True),
        (pl.col("f") >= pl.col("p"), [], True),
        (pl.col("f") == pl.col("f"), [1, 3, 5, 7, 9], True),
        (pl.col("f") != pl.col("f"), [], False),
        (col("f") == col("f"), [1, 3, 5, 7, 9], True),
        ((col("f") + 0).is_in([float("nan"), 7]), [], True),
        (~(col("f") + 0 <= 1), [], None),
    ],
    ids=str,
)
def test_computed_comparisons_follow_the_meaning_of_nan(path, where, always, with_nan, nan):
    """``with_nan`` says when rows with NaN match. True means only with nan="largest". False means never. None means
    always with nan="ieee", and with nan="largest" only if the condition has no ``<>``."""
    is_polars = isinstance(where, pl.Expr)
    meaning = "largest" if is_polars else nan
    rows = NANS[meaning] if with_nan else []
    if with_nan is None:
        rows = NANS["largest"] if meaning == "ieee" or "<>" not in str(where) else []
    expected = sorted([*always, *rows])
    options = {} if is_polars else {"nan": nan}
    found = orcidx.scan(path, ["id"], where, **options)
    assert found.to_table()["id"].to_pylist() == expected
    assert found.count_rows() == len(expected)
    for split in found.splits():
        assert orcidx.Split.from_json(split.to_json()).scan().count_rows() == len(expected)


@pytest.mark.parametrize("other", ["id < 5 and not (f = f)", pl.col("id") < 5, pl.col("id") + 0 < 5], ids=str)
@pytest.mark.parametrize(
    ("where", "with_nan"),
    [
        (pl.col("f") > 5, True),
        (pl.col("f") + 0 > 5, True),
        (col("f") > 5, False),
        ("f + 0 > 5", False),
        (pl.col("f").is_in([7.0, float("nan")]), True),
    ],
    ids=str,
)
def test_each_condition_keeps_its_meaning_of_nan(path, where, with_nan, other):
    """In a Polars expression, NaN is above every number. In other conditions it is not."""
    first = orcidx.scan(path, ["id"], where)
    expected = [0, 2, 4] if with_nan else []
    for scan in (first.filter(other), orcidx.scan(path, ["id"], other).filter(where)):
        assert scan.to_table()["id"].to_pylist() == expected
        assert scan.count_rows() == len(expected)
        assert sum(orcidx.Split.from_json(one.to_json()).scan().count_rows() for one in scan.splits()) == len(expected)


def test_null_stays_null_where_nan_is_the_largest(tmp_path):
    nan = float("nan")
    values = [None, nan, 1.0]
    pairs = [(one, other) for one in values for other in values]
    table = pa.table({"f": pa.array([one for one, _ in pairs]), "g": pa.array([other for _, other in pairs])})
    orcidx.write_table(table, tmp_path / "a.orc")
    whole = [row for row, pair in enumerate(pairs) if None not in pair]
    for comparison in ("f = g", "f < g", "f <= g", "f > g", "f >= g"):
        found = [
            orcidx.open(tmp_path / "a.orc").read([], where, row_numbers=True, nan="largest")["row_number"].to_pylist()
            for where in (comparison, f"NOT ({comparison})")
        ]
        assert sorted([*found[0], *found[1]]) == whole


def test_a_field_of_a_struct_of_which_others_are_not_read(tmp_path):
    """The condition needs other fields of the struct than the result."""
    rows = pa.table({"s": [{"a": 1.0, "b": "x", "c": 2}, {"a": float("nan"), "b": "y", "c": 3}, None]})
    orcidx.write_table(rows, tmp_path / "a.orc")
    for where, nan, count in (("s.a + 0 > 0", "ieee", 1), ("s.a + 0 > 0", "largest", 2), ("s.a < s.c", "ieee", 1)):
        assert orcidx.scan(tmp_path / "a.orc", [], where, nan=nan).count_rows() == count


def test_an_expression_of_pyarrow_keeps_its_meaning(path):
    for nan in NANS:
        assert orcidx.scan(path, where=pc.field("f") + 0 > 1, nan=nan).count_rows() == 0


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize("where", ["v = v", "year(v) = 1970", "CAST(v AS DATE) = DATE '1970-01-01'", "v + 0 IS NULL"])
def test_times_beyond_nanoseconds_are_an_error_of_ours(tmp_path, where, unit):
    """The error of a computed comparison is ``ValueOutOfRange``, not Python's ``OverflowError``. A comparison with a
    constant raises no error."""
    table = pa.table({"id": [0, 1, 2], "v": pa.array([1 << 40, 5, None], pa.timestamp("s"))})
    orcidx.write_table(table, tmp_path / "a.orc")
    with pytest.raises(ValueOutOfRange, match="1099511627776 seconds from 1970 does not fit"):
        orcidx.scan(tmp_path / "a.orc", ["id"], where, timestamp_unit=unit).to_table()
    plain = orcidx.scan(tmp_path / "a.orc", ["id"], "v > '2020-01-01'", timestamp_unit=unit)
    assert plain.to_table()["id"].to_pylist() == [0]


def test_functions_by_name():
    with pytest.raises(InvalidQuery, match="no function 'soundex'"):
        col("s").function("soundex")
    with pytest.raises(TypeError, match="no truth value"):
        bool(col("a") + 1)


def test_what_can_be_pruned_is(path, monkeypatch):
    """Scans with computed conditions, and with columns that have only nulls, rule out all rows. In the last condition,
    every row matches, so no row is ruled out.
    """
    monkeypatch.setattr(small_filter, "ENABLED", False)
    tested = ("none + 0 between id and 5", "none + 0 not between id and 5", "none + 0 in (id, 5)")
    for where in ("id = id + 0 and p > 100", "none = id", "none + 1 > 0", col("id") < col("none"), *tested):
        scan = orcidx.scan(path, where=where)
        assert {stage.name: stage.after for stage in scan.explain().funnel}["rows"] == 0, where
        with scan.to_batches() as batches:
            assert list(batches) == []
            assert batches.metrics.row_groups_kept == 0
    kept = orcidx.scan(path, where="coalesce(none, 1) = 1")
    assert kept.count_rows() == 10


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("coalesce(none, 0) + id > 7", [8, 9]),
        ("id - coalesce(none, 0) > 7", [8, 9]),
        ("id * coalesce(none, 1) > 7", [8, 9]),
        ("id / coalesce(none, 1) > 7", [8, 9]),
        ("-coalesce(none, 7) = -7", range(10)),
        ("abs(coalesce(none, -1)) = id", [1]),
        ("cast(coalesce(none, 1) as double) = id", [1]),
        ("try_cast(coalesce(none, 1) as double) = id", [1]),
        ("s || coalesce(cast(none as varchar), 'x') = 'Oslox' and id < 2", [0]),
        ("id between coalesce(none, 0) and 1", [0, 1]),
        ("id not between none and 5", [6, 7, 8, 9]),
        ("id not between 5 and none", range(5)),
        ("not (id + 0 between none and 5)", [6, 7, 8, 9]),
        ("id + 0 in (none, 5)", [5]),
        ("id + 0 in (coalesce(none, 5), 7)", [5, 7]),
        (1 + col("none").coalesce(0) == col("id"), [1]),
        (3 - col("none").coalesce(0) == col("id"), [3]),
        (2 * col("none").coalesce(1) == col("id"), [2]),
        (8 / col("none").coalesce(2) == col("id"), [4]),
        (col("id") + pc.coalesce(pc.field("none"), 0) > 8, [9]),
        (~(col("id") + 0).between(col("none"), 5), [6, 7, 8, 9]),
        ((col("id") + 0).is_in([col("none"), 5]), [5]),
    ],
    ids=str,
)
def test_nulls_rule_out_no_row_where_the_condition_is_not_null(path, monkeypatch, where, ids):
    monkeypatch.setattr(small_filter, "ENABLED", False)
    assert found(path, where) == list(ids)
    assert orcidx.scan(path, where=where).count_rows() == len(ids)


def test_it_pickles(path):
    scan = pickle.loads(pickle.dumps(orcidx.scan(path, where="id = id + 0")))
    assert scan.count_rows() == 10
    assert "add_checked" in repr(scan)


TIMES = pa.table(
    {
        "a": pa.array([datetime.time(9), datetime.time(11), None], pa.time32("ms")),
        "b": pa.array([datetime.time(12), datetime.time(12), datetime.time(12)], pa.time32("ms")),
        "t": pa.array([0, 1, None], pa.timestamp("ns")),
        "z": pa.array([0, 1, None], pa.timestamp("ns", "UTC")),
    }
).to_batches()[0]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("TIME '10:00:00' BETWEEN a AND b", [True, False, False]),
        ("TIME '10:00:00.000000001' NOT BETWEEN a AND b", [False, True, False]),
        ("b BETWEEN TIME '10:00:00' AND b", [True, True, True]),
        ("coalesce(a, TIME '10:00:00') <= TIME '10:00:00'", [True, False, True]),
        ("TIMESTAMP '1970-01-01 00:00:00.000000001' BETWEEN t AND t", [False, True, False]),
        ("t > TIMESTAMP '0001-01-01 00:00:00.000000001'", [True, True, False]),
        ("z < TIMESTAMP '9999-12-31 23:59:59-23:00'", [True, True, False]),
        (col("t").coalesce(pd.Timestamp("1970-01-01 00:00:00.000000001")) == col("t"), [True, True, False]),
        (col("t").coalesce(pd.Timestamp("1970-01-01 00:00:00.000000001")) > pd.Timestamp(0), [False, True, True]),
        (col("t") == pd.NaT, [False, False, False]),
    ],
)
def test_constants_that_are_times(where, kept):
    assert bind(parse(where), TIMES.schema).evaluate(TIMES).tolist() == kept


@pytest.mark.parametrize(
    "where",
    [
        "12345678901234567890123456789 BETWEEN id AND k",
        "id + 0 = 12345678901234567890123456789",
        "d BETWEEN TIMESTAMP '0001-01-01 00:00:00.000000001' AND d",
        "-(TIME '10:00:00') < id",
        "-(X'61') < id",
        "-NULL < id",
        "id = -TRUE",
        "d > -(DATE '2020-01-01')",
    ],
)
def test_a_constant_that_cannot_be_computed_with_raises_an_own_error(path, where):
    with pytest.raises(InvalidQuery):
        found(path, where)
    for constant in (2**70, object(), 1j):
        with pytest.raises(InvalidQuery, match="fits no Arrow type"):
            col("id").coalesce(constant)
