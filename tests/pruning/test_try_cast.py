"""TRY_CAST returns the value of CAST, or null if CAST fails, for all types and texts, and everywhere in a query."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx import InvalidQuery, col
from orcidx.predicate import parse
from orcidx.predicate.json_form import predicate_from_json, predicate_to_json
from orcidx.predicate.sql_values import _CASTS
from orcidx.predicate.tried_casts import values_that_fit

TEXTS = [
    *("5", "-5", "+5", " 5", "5 ", "5\n", "", "-", "007", "1_000", "٣", "0x1F", "-0x1F", "0X1f", "0x", "300", "beef"),
    *("1.0", "1e3", ".5", "5.", "1e", "1e400", "+1.5", "nan", "NaN", "-nan", "nan(1)", "inf", "-Infinity", "infinite"),
    *("true", "TRUE", "True", "t", "yes", "0", "1", "false", "FaLsE"),
    *("2020-01-01", "2020-1-1", "20200101", "2020-02-30", " 2020-01-01", "10000-01-01", "-0001-01-01"),
    *("2020-01-01 10", "2020-01-01 10:00", "2020-01-01T10:00:00.123456", "2020-01-01 10:00:00.1234567"),
    *("2020-01-01T10:00:00Z", "2020-01-01 10:00:00+02:00", "18446744073709551616", "9223372036854775808", None),
]
VALUES: dict[str, pa.Array] = {
    "text": pa.array(TEXTS),
    "large text": pa.array(TEXTS, pa.large_string()),
    "text view": pa.array(TEXTS).cast(pa.string_view()) if hasattr(pa, "string_view") else pa.array(TEXTS),
    "bytes": pa.array([b"5", b"\xff", b"x", None], pa.binary()),
    "integers": pa.array([0, 1, -1, 127, 128, -129, 1 << 24, (1 << 24) + 1, 1 << 62, None]),
    "unsigned": pa.array([0, 255, (1 << 64) - 1, None], pa.uint64()),
    "doubles": pa.array([0.0, -0.0, 1.0, 1.5, 1e30, -1e300, float("nan"), float("inf"), None]),
    "floats": pa.array([0.5, 3.0, 1e30, None], pa.float32()),
    "decimals": pa.array([Decimal("1.00"), Decimal("1.50"), Decimal(10**25), Decimal(300), None], pa.decimal128(30, 2)),
    "bool": pa.array([True, False, None]),
    "dates": pa.array([0, -1, 20_000, None], pa.date32()),
    "instants": pa.array([0, 1, -1, 1 << 60, None], pa.timestamp("ns", "UTC")),
    "seconds": pa.array([0, 1 << 40, 1 << 62, None], pa.timestamp("s")),
    "times": pa.array([0, 1, None], pa.time64("us")),
    "nulls": pa.nulls(3),
    "lists": pa.array([[1], None]),
}


def _one_by_one(values: pa.Array, kind: pa.DataType) -> pa.Array:
    found = []
    for at in range(len(values)):
        try:
            found.append(values[at : at + 1].cast(kind))
        except pa.ArrowInvalid:
            found.append(pa.nulls(1, kind))
    return pa.concat_arrays(found)


def _bits(values: pa.Array) -> pa.Array:
    """Returns the values in a form in which NaN equals itself."""
    wide = pa.types.is_floating(values.type) or pa.types.is_temporal(values.type)
    return values.view({32: pa.int32(), 64: pa.int64()}[values.type.bit_width]) if wide else values


@pytest.mark.parametrize("kind", dict.fromkeys(_CASTS.values()), ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_each_value_is_what_a_cast_of_it_gives(name: str, kind: pa.DataType) -> None:
    """If no value of a type can be cast to the other type, TRY_CAST raises the error of CAST."""
    values = VALUES[name]
    try:
        expected = _one_by_one(values, kind)
    except pa.ArrowNotImplementedError:
        with pytest.raises(pa.ArrowNotImplementedError):
            values_that_fit(values, kind)
        return
    found = values_that_fit(values, kind)
    assert found.type == kind
    assert _bits(found).equals(_bits(expected))


@pytest.mark.parametrize("kind", dict.fromkeys(_CASTS.values()), ids=str)
def test_random_texts(kind: pa.DataType, rng: np.random.Generator) -> None:
    """A text consists of characters of numbers and times, or is one of ``TEXTS`` with one changed character."""
    letters = np.array(list("0123456789+-.eExXaAfFnNiI:TZ trueTRUE"))
    made = ["".join(rng.choice(letters, rng.integers(1, 8))) for _ in range(2_000)]
    for text in filter(None, TEXTS):
        at = int(rng.integers(len(text)))
        made.append(text[:at] + str(rng.choice(letters)) + text[at + 1 :])
    values = pa.array(made)
    assert _bits(values_that_fit(values, kind)).equals(_bits(_one_by_one(values, kind)))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("tried") / "a.orc"
    table = pa.table(
        {
            "id": range(6),
            "s": ["1", "x", None, "3", "400", "nan"],
            "n": [1, 2, 300, 4, None, 6],
            "d": ["2020-01-01", "2020-02-30", "soon", None, "2021-05-06", ""],
            "r": [{"t": text} for text in ("1", "x", "2", None, "7", "y")],
        }
    )
    orcidx.write_table(table, path)
    return path


CASES = [
    ("TRY_CAST(s AS INT) = 1", [0]),
    ("NOT TRY_CAST(s AS INT) = 1", [3, 4]),
    ("TRY_CAST(s AS INT) <> 1", [3, 4]),
    ("TRY_CAST(s AS INT) IS NULL", [1, 2, 5]),
    ("TRY_CAST(s AS INT) IS NOT NULL", [0, 3, 4]),
    ("TRY_CAST(s AS TINYINT) IS NULL", [1, 2, 4, 5]),
    ("TRY_CAST(n AS TINYINT) > 1", [1, 3, 5]),
    ("TRY_CAST(n AS TINYINT) IS NULL AND n IS NOT NULL", [2]),
    ("TRY_CAST(n AS VARCHAR) = '4'", [3]),
    ("TRY_CAST(s AS BIGINT) = n", [0]),
    ("TRY_CAST(s AS INT) IN (1, 400)", [0, 4]),
    ("TRY_CAST(s AS INT) BETWEEN 2 AND 500", [3, 4]),
    ("TRY_CAST(TRY_CAST(s AS INT) - 273 AS TINYINT) = 127", [4]),
    ("TRY_CAST(s AS INT) + TRY_CAST(n AS TINYINT) = 7", [3]),
    ("coalesce(TRY_CAST(s AS INT), id) = id", [1, 2, 3, 5]),
    ("TRY_CAST(d AS DATE) > DATE '2020-06-01'", [4]),
    ("year(TRY_CAST(d AS DATE)) = 2020", [0]),
    ("TRY_CAST(d AS TIMESTAMP) IS NULL", [1, 2, 3, 5]),
    ("TRY_CAST(r.t AS INT) >= 2", [2, 4]),
    ("id = 1 OR TRY_CAST(s AS INT) = 3", [1, 3]),
    ("TRY_CAST(id AS BIGINT) = 5", [5]),
]


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize(("where", "ids"), CASES)
def test_rows(path: Any, where: str, ids: list[int], nan: Any) -> None:
    scan = orcidx.scan(path, ["id"], where, nan=nan)
    assert scan.to_table()["id"].to_pylist() == ids
    assert scan.count_rows() == len(ids)
    assert orcidx.aggregate(path, {"n": "count(*)"}, where, nan=nan)["n"].to_pylist() == [len(ids)]
    split = pickle.loads(pickle.dumps(scan.splits()))
    assert [row for one in split for row in one.scan().to_table()["id"].to_pylist()] == ids
    assert "try_cast" in str(orcidx.scan(path, where=where).explain())


def test_nan_is_the_largest_value_where_asked(path: Any) -> None:
    assert orcidx.read_table(path, ["id"], "TRY_CAST(s AS DOUBLE) > 2")["id"].to_pylist() == [3, 4]
    assert orcidx.read_table(path, ["id"], "TRY_CAST(s AS DOUBLE) > 2", nan="largest")["id"].to_pylist() == [3, 4, 5]


def test_in_python(path: Any) -> None:
    assert orcidx.read_table(path, ["id"], col("s").try_cast(pa.int8()) == 3)["id"].to_pylist() == [3]


def test_forms(path: Any) -> None:
    """A condition restored from pickle or JSON equals the original, and differs from the same condition with CAST."""
    where = parse("TRY_CAST(s AS INT) = 1")
    for again in (
        pickle.loads(pickle.dumps(where)),
        predicate_from_json(json.loads(json.dumps(predicate_to_json(where)))),
    ):
        assert again == where
        assert again != parse("CAST(s AS INT) = 1")
        assert orcidx.read_table(path, ["id"], again)["id"].to_pylist() == [0]
        assert orcidx.read_table(path, ["id"], ~again)["id"].to_pylist() == [3, 4]


def test_a_constant_that_is_no_time_is_null(path: Any) -> None:
    times = orcidx.read_table(path, ["id"], "id = 1 OR TRY_CAST(d AS DATE) = TRY_CAST('2020-01-01' AS DATE)")
    assert times["id"].to_pylist() == [0, 1]
    for text in ("soon", "2020-01-01 10:00:00", "2020-01-01 00:00:00Z"):
        where = f"id = 1 OR TRY_CAST(d AS DATE) = TRY_CAST('{text}' AS DATE)"
        assert orcidx.read_table(path, ["id"], where)["id"].to_pylist() == [1]
        with pytest.raises(InvalidQuery):
            orcidx.read_table(path, ["id"], where.replace("TRY_CAST('", "CAST('"))


def test_cast_stays_an_error(path: Any) -> None:
    with pytest.raises(InvalidQuery, match="Failed to parse"):
        orcidx.read_table(path, ["id"], "CAST(s AS INT) = 1")
    with pytest.raises(InvalidQuery, match="int64 to date32"):
        orcidx.read_table(path, ["id"], "TRY_CAST(id AS DATE) IS NULL")
    with pytest.raises(InvalidQuery, match="casts a constant"):
        orcidx.read_table(path, ["id"], "id = TRY_CAST('x' AS INT)")


def test_a_column_of_the_name_that_is_used_within(tmp_path: Any) -> None:
    name = "TRY_CAST 0 AS int32"
    orcidx.write_table(pa.table({name: ["7", "x"], "s": ["1", "2"]}), tmp_path / "a.orc")
    where = f'TRY_CAST(s AS INT) = 1 AND TRY_CAST("{name}" AS INT) + TRY_CAST(s AS INT) = 8'
    assert orcidx.scan(tmp_path / "a.orc", where=where).count_rows() == 1


def test_many_texts_that_fail_are_found_at_once() -> None:
    """The texts must not be tested one by one, which took 1.6 s."""
    values = pa.array([f"w{at}" for at in range(65_536)])
    began = datetime.datetime.now()
    assert values_that_fit(values, pa.int32()).null_count == len(values)
    assert (datetime.datetime.now() - began).total_seconds() < 0.5
