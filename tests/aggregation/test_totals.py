"""Random totals are compared with a reference. Other tests are about inexact statistics, the types of the results, and
where totals come from."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest
from aggregation.totals import Tally, make_pool, run, run_pool
from click.testing import CliRunner
from conftest import SEED
from pruning.levels import without

import orcidx
from orcidx.cli import _orcidx
from orcidx.cli.aggregate import parse_select
from orcidx.orc import stored_totals


def origins(table: pa.Table) -> dict[str, int]:
    found: dict[str, int] = json.loads(table.schema.metadata[b"orcidx"])["rows"]
    return found


def written(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    orcidx.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


# ---------------------------------------------------------------------- random files


def test_files_of_the_c_plus_plus_writers_and_orcidx(saves: Callable[..., bool]) -> None:
    tally = Tally()
    assert run(range(12), 12, SEED, tally) == []
    assert tally.questions == 144
    assert tally.origins["decoded"]
    if saves("totals from statistics", "file statistics", "stripe statistics", "row-group statistics"):
        assert all(tally.origins[origin] for origin in ("file statistics", "row-group statistics"))


@pytest.mark.java
def test_files_of_the_java_writer(spark: Any, tmp_path: Path) -> None:
    tally = Tally()
    make_pool(spark, tmp_path, 12, SEED)
    assert run_pool(tmp_path, 6, SEED, tally) == []
    assert tally.files == {"java": 10, "vectors": 2}


# ---------------------------------------------------------------------- statistics that are not exact values


def believing_all(*, sums: bool = False, bounds: bool = False) -> Any:
    """Replaces ``stored_totals`` by a version without its checks, so that a test shows which wrong totals they
    prevent."""
    proved = stored_totals.stored_totals

    def believed(raw: Any, facts: Any, options: Any, **more: Any) -> Any:
        found = proved(raw, facts, options, **more)
        stated = [stored_totals_of(raw, unit, facts) for unit in range(len(raw))]
        if sums:
            found = replace(found, sums=stored_totals.Proved.of([one.sum for one in stated]))
        if bounds:
            sides = ([getattr(one, name) for one in stated] for name in ("minimum", "maximum"))
            minima, maxima = map(stored_totals.Proved.of, sides)
            found = replace(found, minima=minima, maxima=maxima)
        return found

    return mock.patch("orcidx.scanner.unit_totals.stored_totals", believed)


def stored_totals_of(raw: Any, unit: int, facts: Any) -> Any:
    from orcidx.orc.statistics import unit_statistics

    return unit_statistics(raw, unit, hybrid=False)


def by_pyorc(schema: str, rows: list[Any]) -> bytes:
    out = io.BytesIO()
    with pyorc.Writer(out, schema) as writer:
        for row in rows:
            writer.write((row,))
    return out.getvalue()


def test_bounds_beyond_the_type_prove_no_sum(saves: Callable[..., bool]) -> None:
    data = by_pyorc("struct<v:smallint>", [70000, 2])  # 70000 is stored as 4464
    found = orcidx.aggregate(data, {"s": "sum(v)", "m": "max(v)"})
    assert found.to_pylist() == [{"s": Decimal(4466), "m": 4464}]
    assert origins(found) == {"decoded": 2}
    if saves("totals from statistics"):
        with believing_all(sums=True, bounds=True):
            assert orcidx.aggregate(data, {"s": "sum(v)"})["s"][0].as_py() == 70002


def test_bounds_of_floats_are_rounded_as_the_values_are(saves: Callable[..., bool]) -> None:
    data = by_pyorc("struct<v:float>", [0.1, 0.1, 0.1])
    found = orcidx.aggregate(data, {"m": "min(v)", "s": "sum(v)"})
    assert found["m"][0].as_py() == float(np.float32(0.1))
    assert found["s"][0].as_py() == float(np.float32(0.1)) * 3
    assert origins(found) == {"decoded": 3}, "recorded sums of floats are not used"
    if saves("totals from statistics"):
        assert origins(orcidx.aggregate(data, {"m": "min(v)"})) == {"file statistics": 3}


def test_times_are_decoded() -> None:
    moment = np.datetime64("1969-12-21T23:59:59.499999999", "ns")
    data = written(pa.table({"t": pa.array([moment, moment])}))
    found = orcidx.aggregate(data, {"m": "min(t)"})
    assert found["m"][0].value == moment.astype(np.int64)
    assert origins(found) == {"decoded": 2}
    with orcidx.open(data) as file:
        recorded = file.statistics("t").minimum_nanos
    assert recorded is not None
    assert recorded < moment.astype(np.int64), "the recorded bound is not the minimum"


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, -0.0]])
@pytest.mark.parametrize("function", ["min", "max", "sum"])
def test_zero_has_one_sign(values: list[float], function: str) -> None:
    for data in (written(pa.table({"v": values})), by_pyarrow(pa.table({"v": values}))):
        found = orcidx.aggregate(data, {"x": f"{function}(v)"})["x"][0].as_py()
        assert str(found) == "0.0"
        assert orcidx.aggregate(data, {"n": "count(*)"}, by="v").num_rows == 1


def by_pyarrow(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.orc.write_table(table, out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("recorded", "count", "low", "high"),
    [
        (10, 2, 1, 4),
        (1, 2, 1, 4),
        ((1 << 63) - 2, 2, 1, (1 << 62) + 5),
        (-(1 << 63), 1, -(1 << 63), 0),
        (5, -1, 1, 4),
        (5, 0, 1, 4),
    ],
    ids=["above", "below", "overflow", "overflow of the least", "no count", "no value"],
)
def test_sums_that_cannot_be(recorded: int, count: int, low: int, high: int) -> None:
    assert not are_plausible(recorded, count, low, high)


def test_sums_that_can_be() -> None:
    assert are_plausible(5, 2, 1, 4)
    assert are_plausible(-8, 2, -4, 1)
    assert are_plausible(-(1 << 63) + 1, 1, -(1 << 63) + 1, -(1 << 63) + 1)


def are_plausible(*numbers: int) -> bool:
    found = stored_totals._are_plausible(*(np.array([one], np.int64) for one in numbers))
    return bool(found[0])


def test_strings_that_were_cut_are_decoded() -> None:
    data = written(pa.table({"s": ["x" * 1500 + "a", "x" * 1500 + "b"]}))
    found = orcidx.aggregate(data, {"m": "max(s)"})
    assert found["m"][0].as_py().endswith("xb")
    assert origins(found) == {"decoded": 2}


def test_unknown_writers_are_decoded(saves: Callable[..., bool]) -> None:
    data = written(pa.table({"v": [1, 2]}))
    if saves("totals from statistics"):
        assert origins(orcidx.aggregate(data, {"s": "sum(v)"})) == {"file statistics": 2}
    with mock.patch.object(stored_totals, "_BELIEVED", ()):
        found = orcidx.aggregate(data, {"s": "sum(v)", "n": "count(v)"})
    assert found.to_pylist() == [{"s": Decimal(3), "n": 2}]
    assert origins(found) == {"decoded": 2}


# ---------------------------------------------------------------------- results


def test_types() -> None:
    day = datetime.date(2026, 1, 2)
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.int16()),
            "d": [Decimal("1.25"), None],
            "f": pa.array([0.5, 1], pa.float32()),
            "t": [day, day],
        }
    )
    asked = {
        "n": "count(*)",
        "c": "count(d)",
        "si": "sum(i)",
        "sd": "sum(d)",
        "sf": "sum(f)",
        "ai": "AVG( i )",
        "ad": "avg(d)",
    }
    found = orcidx.aggregate(written(table), asked | {"mi": "min(i)", "mt": "max(t)"})
    assert found.schema.types == [
        pa.int64(), pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 2), pa.float64(), pa.float64(), pa.float64(),
        pa.int16(), pa.date32(),
    ]  # fmt: skip
    assert list(found.to_pylist()[0].values()) == [2, 1, Decimal(3), Decimal("1.25"), 1.5, 1.5, 1.25, 1, day]


def test_no_rows() -> None:
    data = written(pa.table({"v": [1, 2], "g": ["a", "b"]}))
    asked = {"n": "count(*)", "c": "count(v)", "s": "sum(v)", "m": "min(v)", "a": "avg(v)"}
    assert orcidx.aggregate(data, asked, "v > 5").to_pylist() == [{"n": 0, "c": 0, "s": None, "m": None, "a": None}]
    assert orcidx.aggregate(data, asked, "v > 5", by="g").num_rows == 0


def test_sums_of_floats_depend_on_no_order() -> None:
    values = [1e308, 1e308, -1e308, 1.0, 1e-320]
    for order in (values, values[::-1]):
        assert orcidx.aggregate(written(pa.table({"v": order})), {"s": "sum(v)"})["s"][0].as_py() == 1e308
    assert orcidx.aggregate(written(pa.table({"v": [1e308] * 2})), {"s": "sum(v)", "a": "avg(v)"}).to_pylist() == [
        {"s": float("inf"), "a": 1e308}
    ]


def test_sums_of_more_than_38_digits() -> None:
    most = Decimal("9" * 38)
    data = written(pa.table({"v": pa.array([most, most], pa.decimal128(38, 0))}))
    with pytest.raises(orcidx.ValueOutOfRange, match="more than 38 digits"):
        orcidx.aggregate(data, {"s": "sum(v)"})
    assert orcidx.aggregate(data, {"a": "avg(v)"})["a"][0].as_py() == 1e38


def test_sums_of_integers_exceed_64_bits() -> None:
    data = written(pa.table({"v": [(1 << 63) - 1] * 3}))
    assert orcidx.aggregate(data, {"s": "sum(v)"})["s"][0].as_py() == 3 * ((1 << 63) - 1)


@pytest.mark.parametrize("nan", ["ieee", "largest"])
def test_nan(nan: Any) -> None:
    data = written(pa.table({"v": [1.0, float("nan"), None], "w": [float("nan")] * 3}))
    found = orcidx.aggregate(data, {"lo": "min(v)", "hi": "max(v)", "w": "min(w)"}, nan=nan).to_pylist()[0]
    assert found["lo"] == 1.0
    assert (found["hi"] != found["hi"]) == (nan == "largest")
    assert found["w"] != found["w"]


def test_groups_of_text_that_is_padded_are_one() -> None:
    data = by_pyorc("struct<c:char(4)>", ["a", "a   ", "b"])
    found = orcidx.aggregate(data, {"n": "count(*)", "m": "max(c)"}, by="c")
    assert found.to_pylist() == [{"c": "a", "n": 2, "m": "a"}, {"c": "b", "n": 1, "m": "b"}]


def test_fields_of_structs_and_quoted_names() -> None:
    table = pa.table({"s": [{"a": 1, "b c": 2}, None], "x,(y": [3, 4]})
    found = orcidx.aggregate(written(table), {"a": "sum(s.a)", "q": 'max("x,(y")', "k": "sum(`s.b c`)"})
    assert found.to_pylist() == [{"a": Decimal(1), "q": 4, "k": Decimal(2)}]


# ---------------------------------------------------------------------- work


def test_a_range_over_a_sorted_file_decodes_its_ends(saves: Callable[..., bool]) -> None:
    table = pa.table({"t": np.arange(100_000), "v": np.arange(100_000)})
    data = written(table, row_index_stride=1000)
    found = orcidx.aggregate(data, {"s": "sum(v)", "n": "count(*)"}, "t between 10500 and 90200")
    assert found.to_pylist() == [{"s": Decimal(sum(range(10500, 90201))), "n": 90201 - 10500}]
    if saves("totals from statistics", "row-group statistics"):
        assert origins(found) == {"row-group statistics": 79_000, "decoded": 701}


def test_a_range_takes_whole_units_as_the_general_way_does(rng: np.random.Generator) -> None:
    rows = 6000
    days = np.sort(rng.integers(-1000, 1000, rows)).astype("datetime64[D]")
    floats = np.where(rng.random(rows) < 0.01, np.nan, np.sort(rng.normal(size=rows)))
    table = pa.table(
        {
            "t": pa.array(np.arange(rows), mask=np.repeat(rng.random(12) < 0.3, 500)),
            "f": floats,
            "d": days,
            "e": pa.array(np.arange(rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 0)),
            "v": rng.integers(-9, 9, rows),
        }
    )
    data = written(table, row_index_stride=100, stripe_size=1 << 14)
    asked = {"n": "count(*)", "s": "sum(v)", "c": "count(t)", "lo": "min(e)", "hi": "max(f)"}
    ends = rng.integers(-200, rows + 200, (40, 2)).tolist()
    conditions = [f"t between {low} and {high}" for low, high in ends[:15]]
    conditions += [f"e >= {low} and f < {high / rows:.3f}" for low, high in ends[15:25]]
    conditions += [f"d > date '2000-01-01' or t < {low}" for low, _ in ends[25:27]]
    conditions += [f"t <= {low} or (e > {high} and d < date '1972-01-01')" for low, high in ends[27:]]
    for condition in conditions:
        for nan in ("ieee", "largest"):
            found = orcidx.aggregate(data, asked, condition, nan=nan)
            with without("whole units of a range"):
                other = orcidx.aggregate(data, asked, condition, nan=nan)
            assert repr(found.to_pylist()) == repr(other.to_pylist()), condition  # compared as text, because NaN != NaN
            assert origins(found).get("decoded", 0) <= origins(other).get("decoded", 0) + 100


def test_a_range_goes_the_general_way_where_statistics_are_damaged() -> None:
    data = written(pa.table({"t": np.arange(5000), "v": np.ones(5000, int)}), row_index_stride=500)
    for name in ("stripe_statistics", "bound_statistics"):
        with mock.patch(f"orcidx.scanner.range_units.{name}", side_effect=orcidx.CorruptFile("broken")):
            assert orcidx.aggregate(data, {"s": "sum(v)"}, "t >= 1234")["s"][0].as_py() == 5000 - 1234


def test_partitions_give_groups_without_reading(tmp_path: Path, saves: Callable[..., bool]) -> None:
    for day in range(3):
        (tmp_path / f"dt={day}").mkdir()
        orcidx.write_table(pa.table({"v": [day, day + 1]}), tmp_path / f"dt={day}" / "a.orc")
    found = orcidx.aggregate(tmp_path, {"s": "sum(v)", "d": "sum(dt)", "n": "count(*)"}, by="dt")
    assert found["s"].to_pylist() == [1, 3, 5]
    assert found["d"].to_pylist() == [0, 2, 4]
    if saves("totals from statistics"):
        assert origins(found) == {"file statistics": 6}


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("where", [None, "v >= 0", "v > 0", "path like '%.orc'"])
def test_totals_of_the_column_of_file_names(tmp_path: Path, files: int, where: str | None) -> None:
    names = [str(tmp_path / f"{number}.orc") for number in range(files)]
    for number, name in enumerate(names):
        orcidx.write_table(pa.table({"v": [number, number + 1]}), name)
    found = orcidx.aggregate(tmp_path, {"n": "count(*)", "v": "max(v)"}, where, "path", file_path="path")
    counts = [1 if where == "v > 0" and not number else 2 for number in range(files)]
    assert found.to_pydict() == {"path": names, "n": counts, "v": [*range(1, files + 1)]}
    found = orcidx.aggregate(tmp_path, {"last": "max(path)", "n": "count(path)"}, where, file_path="path")
    assert found.to_pydict() == {"last": names[-1:], "n": [sum(counts)]}


@pytest.mark.parametrize("files", [1, 2])
def test_the_error_says_how_to_get_the_column_of_file_names(tmp_path: Path, files: int) -> None:
    for number in range(files):
        orcidx.write_table(pa.table({"v": [1, 2]}), tmp_path / f"{number}.orc")
    roads = [
        lambda: orcidx.aggregate(tmp_path, {"n": "count(*)"}, by="file_path"),
        lambda: orcidx.aggregate(tmp_path, {"n": "max(file_path)"}),
        lambda: orcidx.aggregate(tmp_path, {"n": "count(*)"}, "file_path like '%0.orc'"),
        lambda: orcidx.scan(tmp_path, ["file_path"]).to_table(),
        lambda: orcidx.scan(tmp_path, top=["file_path"], limit=1).to_table(),
    ]
    for road in roads:
        with pytest.raises(
            orcidx.InvalidQuery, match=r"no column 'file_path'.*with file_path=True; leave it out of columns="
        ):
            road()
    with pytest.raises(orcidx.InvalidQuery, match=r"no column 'row_number'.*leave it out of columns=, conditions"):
        orcidx.aggregate(tmp_path, {"n": "max(row_number)"}, row_numbers=True)
    found = orcidx.aggregate(tmp_path, {"n": "count(*)"}, by="file_path", file_path=True)
    assert found.to_pydict() == {
        "file_path": [str(tmp_path / f"{number}.orc") for number in range(files)],
        "n": [2] * files,
    }


@pytest.mark.parametrize("where", [None, "v > 0", "v > 0 and v < 9", "v is not null"])
def test_a_partition_of_an_empty_file_is_no_group(tmp_path: Path, where: str | None) -> None:
    for day, values in enumerate(([1, 2], [])):
        (tmp_path / f"dt={day}").mkdir()
        orcidx.write_table(pa.table({"v": pa.array(values, pa.int64())}), tmp_path / f"dt={day}" / "a.orc")
    found = orcidx.aggregate(tmp_path, {"n": "count(*)", "s": "sum(v)"}, by="dt", where=where)
    assert found.to_pylist() == [{"dt": 0, "n": 2, "s": 3}]


def test_row_index_off_decodes() -> None:
    data = written(pa.table({"v": [1, 2]}))
    found = orcidx.aggregate(data, {"s": "sum(v)"}, row_index=False)
    assert found["s"][0].as_py() == 3
    assert origins(found) == {"decoded": 2}


def test_damaged_statistics_are_decoded() -> None:
    data = written(pa.table({"v": [1, 2]}))
    with mock.patch("orcidx.scanner.aggregate_pass.file_statistics", side_effect=orcidx.CorruptFile("broken")):
        found = orcidx.aggregate(data, {"s": "sum(v)"})
    assert found["s"][0].as_py() == 3


# ---------------------------------------------------------------------- invalid requests


@pytest.mark.parametrize(
    ("aggregates", "by", "message"),
    [
        ({}, None, "no aggregate is given"),
        ("count(*)", None, "give a dictionary"),
        (
            {"x": "median(v)"},
            None,
            r"unknown function 'median': use \"quantile_disc\(price, 0.5\)\", which returns one of the column",
        ),
        ({"x": "mean(v)"}, None, "did you mean 'avg'"),
        ({"x": "sum(*)"}, None, "give the name of a column"),
        ({"x": "sum(v, w)"}, None, "takes one column"),
        ({"x": "v"}, None, "is not an aggregate"),
        ({"x": 3}, None, "is not an aggregate"),
        ({"x": "sum(nope)"}, None, "nope"),
        ({"x": "sum(s)"}, None, "only numbers can be added"),
        ({"x": "min(l)"}, None, "cannot be ordered"),
        ({"x": "count(*)"}, "l", "grouping by values"),
        ({"v": "count(*)"}, "v", "two columns of the result"),
        ({"x": "count(*)"}, [3], "give names of columns"),
    ],
)
def test_refusals(aggregates: Any, by: Any, message: str) -> None:
    data = written(pa.table({"v": [1], "s": ["a"], "l": [[1]]}))
    with pytest.raises(orcidx.InvalidQuery, match=message):
        orcidx.aggregate(data, aggregates, by=by)


def test_limits_are_refused() -> None:
    with pytest.raises(orcidx.InvalidQuery, match="leave out limit= and top="):
        orcidx.aggregate(written(pa.table({"v": [1]})), {"n": "count(*)"}, limit=3)


# ---------------------------------------------------------------------- the command line


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"v": [1, 2, 3], "g": ["a", "b", "a"]}), path)
    words = ["aggregate", str(path), "-s", "count(*), sum(v) as total", "--by", "g", "--json", "--explain"]
    done = CliRunner().invoke(_orcidx, words)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["count(*)"] for row in rows] == [2, 1]
    assert [str(row["total"]) for row in rows] == ["4", "2"]
    assert "3 from decoded" in done.stderr


def test_select_text() -> None:
    assert parse_select('count(*), sum("a,b") AS x') == {"count(*)": "count(*)", "x": 'sum("a,b")'}
    assert parse_select('count(*) n, max(b) "x y", sum(`a as b`)') == {
        "n": "count(*)",
        "x y": "max(b)",
        "sum(`a as b`)": "sum(`a as b`)",
    }
    with pytest.raises(orcidx.InvalidQuery, match="another name with AS"):
        parse_select("sum(v), sum(v)")
