"""``quantile_disc`` returns the value at a given position of the sorted values. The value comes from decoded values,
bit slices or bitmaps."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from conftest import SEED
from pyroaring import BitMap

import orcidx
from orcidx import paimon
from orcidx.aggregation.functions import parse_aggregates
from orcidx.aggregation.ranks import Ranks, place_of
from orcidx.aggregation.value_forms import NAN
from orcidx.cli import _orcidx
from orcidx.paimon.order_totals import CountedOrder, SliceOrder

SHARES = ("0", "0.001", "0.25", "0.5", "0.9", "1")


def written(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    orcidx.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def right(values: list[Any], share: str) -> Any:
    known = sorted(value for value in values if value is not None)
    return known[max(1, math.ceil(Fraction(share) * len(known))) - 1] if known else None


def rows(rng: np.random.Generator, count: int = 500) -> pa.Table:
    def holes() -> Any:
        return rng.random(count) < 0.1

    return pa.table(
        {
            "t": np.arange(count),
            "i": pa.array(rng.integers(-50, 50, count), pa.int32(), mask=holes()),
            "d": pa.array([Decimal(int(one)).scaleb(-2) for one in rng.integers(-999, 9999, count)], mask=holes()),
            "f": pa.array(rng.normal(size=count), mask=holes()),
            "s": pa.array([f"é{one}" for one in rng.integers(0, 40, count)], mask=holes()),
            "day": pa.array(
                [datetime.date(1969, 12, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 90, count)]
            ),
            "b": pa.array(rng.random(count) < 0.5, mask=holes()),
            "g": rng.integers(0, 3, count),
            "n": pa.nulls(count, pa.int64()),
        }
    )


KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "bsi": {"i": {}, "d": {}, "day": {}},
    "range-bitmap": {"f": {}, "s": {}},
    "bitmap": {"g": {}, "b": {}},
}


@pytest.mark.parametrize("indexed", [False, True], ids=["decoded", "indexes"])
@pytest.mark.parametrize("where", [None, "t >= 100 and t < 350", "i > 0", "t < 0"], ids=str)
@pytest.mark.parametrize("column", ["i", "d", "f", "s", "day", "b", "n"])
def test_they_are_values_at_their_place(column: str, where: str | None, indexed: bool) -> None:
    rng = np.random.default_rng(SEED)
    data = written(table := rows(rng), row_index_stride=50)
    index = paimon.build_file_index(data, KINDS) if indexed else None
    deleted = np.sort(rng.choice(500, 60, replace=False))
    asked = {f"q{number}": f"quantile_disc({column}, {share})" for number, share in enumerate(SHARES)}
    asked["n"] = f"count({column})"
    kept = [row for row in table.to_pylist() if row["t"] not in deleted and (where is None or _matches(row, where))]
    with orcidx.open(data) as file:
        scan = file.scan(where=where, file_index=index, deletion_vector=deleted)
        found, grouped = scan.aggregate(asked), scan.aggregate(asked, "g")
    values = [row[column] for row in kept]
    assert found.to_pylist() == [
        {f"q{number}": right(values, share) for number, share in enumerate(SHARES)}
        | {"n": sum(value is not None for value in values)}
    ]
    assert found.schema.field("q0").type == table.schema.field(column).type
    for row in grouped.to_pylist():
        inside = [one[column] for one in kept if one["g"] == row["g"]]
        assert [row[f"q{number}"] for number in range(len(SHARES))] == [right(inside, share) for share in SHARES]
    if indexed and column in "idfs" and where is None:
        assert set(json.loads(found.schema.metadata[b"orcidx"])["rows"]) == {
            f"Paimon {'bsi' if column in 'id' else 'range-bitmap'} index"
        }


def _matches(row: dict[str, Any], where: str) -> bool:
    if where == "i > 0":
        return row["i"] is not None and row["i"] > 0
    return 100 <= row["t"] < 350 if where.startswith("t >=") else row["t"] < 0


def test_many_files_of_which_some_have_indexes(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    tables, indexes = [rows(rng, 200) for _ in range(4)], {}
    for number, table in enumerate(tables):
        path = tmp_path / f"{number}.orc"
        orcidx.write_table(table, path)
        if number < 3:
            indexes[str(path)] = paimon.build_file_index(path, KINDS)
    asked = {column: f"quantile_disc({column}, 0.37)" for column in ("i", "d", "f", "s", "day", "b")}
    found = orcidx.scan(tmp_path, file_index=indexes).aggregate(asked).to_pylist()
    everything = pa.concat_tables(tables)
    assert found == [{column: right(everything[column].to_pylist(), "0.37") for column in asked}]


@pytest.mark.parametrize(
    ("nan", "share", "wanted"),
    [("ieee", "1", 3.0), ("largest", "1", float("nan")), ("largest", "0.6", 3.0), ("largest", "0", -1.0)],
)
@pytest.mark.parametrize("kind", [None, "range-bitmap", "bitmap"])
def test_nan_is_last_or_left_out(nan: str, share: str, wanted: float, kind: str | None) -> None:
    data = written(pa.table({"v": [float("nan"), 2.0, -1.0, 3.0, float("nan"), None]}))
    index = None if kind is None else paimon.build_file_index(data, {kind: {"v": {}}})
    with orcidx.open(data) as file:
        found = file.scan(nan=nan, file_index=index).aggregate({"q": f"quantile_disc(v, {share})"})["q"][0].as_py()
    assert found == wanted or (found != found and wanted != wanted)
    alone = written(pa.table({"v": [float("nan")]}))
    assert math.isnan(orcidx.aggregate(alone, {"q": "quantile_disc(v, 0.5)"})["q"][0].as_py())


def test_places() -> None:
    assert [place_of(Fraction(share), 10) for share in ("0", "0.05", "0.1", "0.11", "0.5", "1")] == [0, 0, 0, 1, 4, 9]
    assert place_of(Fraction("0.1"), 3 * 10**17) == 3 * 10**16 - 1, "no rounding"


def test_orders_of_slices_and_counts() -> None:
    numbers = [7, 0, 5, 5, 12, 3]
    slices = [BitMap(row for row, number in enumerate(numbers) if number >> bit & 1) for bit in range(4)]
    order = SliceOrder(BitMap(range(6)), slices, least=100)
    assert [order.at(place) - 100 for place in range(6)] == sorted(numbers)
    assert dict(order.counts()) == {100: 1, 103: 1, 105: 2, 107: 1, 112: 1}
    counted = CountedOrder({5: 2, 1: 1, NAN: 3})
    assert ([counted.at(place) for place in range(3)], counted.numbers, counted.nans) == ([1, 5, 5], 3, 3)


def test_values_that_are_sent_elsewhere_leave_their_index() -> None:
    ranks = Ranks(pa.int64())
    ranks.add_index(CountedOrder({5: 2, 1: 1}))
    copy = pickle.loads(pickle.dumps(ranks))
    copy.add(pa.array([3]))
    copy.merge(ranks)
    assert [copy.value(Fraction(place, 7), nan_is_largest=True) for place in range(1, 8)] == [1, 1, 3, 5, 5, 5, 5]
    assert Ranks(pa.int64()).value(Fraction(1, 2), nan_is_largest=True) is None


def test_how_they_are_asked_for() -> None:
    asked = parse_aggregates(
        {"a": "quantile_disc(a.b, 0.25)", "b": 'Quantile_Disc( "x, 1" ,.5)', "c": "quantile_disc(c, 1)"}
    )
    assert [(one.column, one.share) for one in asked] == [
        ("a.b", Fraction(1, 4)), ("x, 1", Fraction(1, 2)), ("c", Fraction(1)),
    ]  # fmt: skip
    assert str(asked[0]) == "quantile_disc(a.b, 0.25)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantile_disc(v)", "give a column and a share from 0 to 1"),
        ("quantile_disc(v, 1.01)", "give a column and a share from 0 to 1"),
        ("quantile_disc(v, -0.5)", "give a column and a share from 0 to 1"),
        ("quantile_disc(v, x)", "give a column and a share from 0 to 1"),
        ("quantile_disc(*, 0.5)", "a function takes one column"),
        ("quantile_disc(v, 0.1, 0.2)", "a function takes one column"),
        ("percentile(v, 0.5)", r"quantile_disc\(price, 0.5\)"),
        ("quantile_disc(l, 0.5)", "cannot be ordered"),
        ("sum(v, 0.5)", "a function takes one column"),
    ],
)
def test_what_cannot_be_asked(text: str, message: str) -> None:
    data = written(pa.table({"v": [1], "l": [[1]]}))
    with pytest.raises(orcidx.InvalidQuery, match=message):
        orcidx.aggregate(data, {"q": text})


def test_in_the_shell(tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"v": [5, 1, 9, 7]}), tmp_path / "a.orc")
    select = "quantile_disc(v, 0.5), quantile_disc(v, 1) as hi"
    found = CliRunner().invoke(_orcidx, ["aggregate", str(tmp_path / "a.orc"), "--select", select, "--json"])
    assert json.loads(found.stdout) == {"quantile_disc(v, 0.5)": 5, "hi": 9}
