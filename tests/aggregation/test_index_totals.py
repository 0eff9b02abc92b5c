"""Totals from Paimon indexes: groups from bitmaps, sums from bit slices, minima and maxima from range-bitmaps."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import index_here
from pyroaring import BitMap

import orcidx
from orcidx.paimon import bitmap, bsi, build_file_index
from orcidx.paimon.bsi import BsiPart, Contents
from orcidx.paimon.data_types import parse_type
from orcidx.paimon.file_index import file_index_of
from orcidx.paimon.index_totals import Ends, totals_of


def written(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    orcidx.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def aggregated(
    table: pa.Table, spec: Any, asked: dict[str, str], by: Any = None, where: Any = None, **more: Any
) -> Any:
    """Returns the rows of the result, and the facts in its metadata, such as the number of rows that were decoded."""
    data = written(table)
    index = build_file_index(table, spec) if isinstance(spec, dict) else spec
    with orcidx.open(data) as file:
        found = file.scan(where=where, file_index=index, **more).aggregate(asked, by)
    return found.to_pylist(), json.loads(found.schema.metadata[b"orcidx"])


TABLE = pa.table({"g": ["a", "b", "a", None, "b", "a"], "v": [10, 1000, 10, 7, None, -7]})
ALL = {"n": "count(*)", "c": "count(v)", "s": "sum(v)", "lo": "min(v)", "hi": "max(v)", "m": "avg(v)"}


def row(*values: Any) -> dict[str, Any]:
    return dict(zip(ALL, values))


def test_a_bitmap_gives_groups_and_bit_slices_give_sums() -> None:
    found, facts = aggregated(TABLE, {"bitmap": {"g": {}}, "bsi": {"v": {}}}, ALL, "g")
    assert found == [
        {"g": "a"} | row(3, 3, Decimal(13), -7, 10, 13 / 3),
        {"g": "b"} | row(2, 1, Decimal(1000), 1000, 1000, 1000.0),
        {"g": None} | row(1, 1, Decimal(7), 7, 7, 7.0),
    ]
    assert facts["rows"] == {"Paimon bitmap and bsi indexes": 6}
    assert facts["bytes_read"] == 0


def test_rows_that_match_and_are_not_deleted(saves: Callable[..., bool]) -> None:
    spec = {"bitmap": {"g": {}}, "bsi": {"v": {}}}
    found, facts = aggregated(TABLE, spec, ALL, where="g = 'a'", deletion_vector=[0], selection=[0, 2, 4, 5])
    assert found == [row(2, 2, Decimal(3), -7, 10, 1.5)]
    if saves("Paimon index"):
        assert facts["rows"] == {"Paimon bsi index": 2}, "the bitmap says which rows match"


def test_slices_of_codes_are_never_added_up() -> None:
    """A range-bitmap stores codes instead of values. The codes of [10, 1000, 10, 7] add up to 4, which is not the sum
    of the values."""
    table = pa.table({"v": [10, 1000, 10, 7]})
    found, facts = aggregated(table, {"range-bitmap": {"v": {}}}, {"s": "sum(v)", "a": "avg(v)"}, selection=[0, 1, 2])
    assert found == [{"s": Decimal(1020), "a": 340.0}]
    assert facts["rows"] == {"decoded": 3}
    found, facts = aggregated(
        table, {"range-bitmap": {"v": {}}}, {"lo": "min(v)", "n": "count(v)"}, selection=[0, 1, 2]
    )
    assert (found, facts["rows"]) == ([{"lo": 10, "n": 3}], {"Paimon range-bitmap index": 3})


def test_a_bitmap_adds_up_values_by_their_rows() -> None:
    table = pa.table({"v": [0.1] * 10 + [float("nan"), -0.0, 0.0, None]})
    found, facts = aggregated(table, {"bitmap": {"v": {}}}, {"s": "sum(v)", "lo": "min(v)"}, selection=range(3, 10))
    assert (found, facts["rows"]) == ([{"s": 0.7000000000000001, "lo": 0.1}], {"Paimon bitmap index": 7})
    assert found[0]["s"] == float(7 * Fraction(0.1)), "the exact sum, rounded once"


def test_values_that_are_equal_are_one_group() -> None:
    """-0.0 and 0.0 are one group, although an index stores them as two values. All NaNs are one value in an index."""
    table = pa.table({"v": [0.0, -0.0, float("nan"), -float("nan"), 1.0, None]})
    found, facts = aggregated(table, {"bitmap": {"v": {}}}, {"n": "count(*)"}, "v")
    assert [row["n"] for row in found] == [2, 1, 2, 1]
    assert str(found[0]["v"]) == "0.0"
    assert facts["rows"] == {"Paimon bitmap index": 6}


def test_text_of_fixed_length_is_one_group_without_its_spaces() -> None:
    keys = BitMap([0]), BitMap([1, 2])
    contents = bitmap.Contents(3, BitMap(), (b"a", b"a   "), keys)
    index = totals_of(bitmap.BitmapIndex(bitmap.write(contents, parse_type("CHAR(4)")), "CHAR(4)"))
    assert index is not None
    assert index.groups() == [(b"a", BitMap([0, 1, 2]))]


@pytest.mark.parametrize(
    ("key", "kind", "message"), [(b"abcde", "CHAR(4)", "5 characters"), (b"\xff", "STRING", "not valid UTF-8")]
)
def test_text_that_is_read_otherwise_proves_nothing(key: bytes, kind: str, message: str) -> None:
    contents = bitmap.Contents(1, BitMap(), (key,), (BitMap([0]),))
    with pytest.raises(orcidx.CorruptFile, match=message):
        totals_of(bitmap.BitmapIndex(bitmap.write(contents, parse_type(kind)), kind))


@pytest.mark.parametrize("smallest", [0, 5])
def test_bit_slices_count_from_the_smallest_of_their_part(smallest: int) -> None:
    """A BSI has one part for the numbers from 0 on, and one part for the absolute values of negative numbers. Each part
    stores its smallest value. Java always writes 0 as this value, but readers accept any number."""
    numbers, negative = [5, 9, 12], [6, 5]
    contents = Contents(6, part(numbers, smallest, 0), part(negative, smallest, 3))
    index = totals_of(bsi.BsiIndex(bsi.write(contents), "INT"))
    assert index is not None
    assert index.count(None) == 5
    assert index.total(None) == sum(numbers) - sum(negative)
    assert index.total(BitMap([1, 3, 5])) == 9 - 6
    assert index.ends(None) == Ends(-6, 12)
    assert index.ends(BitMap([0, 2])) == Ends(5, 12)
    assert index.ends(BitMap([5])) == Ends(None, None)


def part(numbers: list[int], smallest: int, first: int) -> BsiPart:
    rows = range(first, first + len(numbers))
    bits = (max(numbers) - smallest).bit_length()
    slices = [BitMap([r for r, n in zip(rows, numbers) if n - smallest >> bit & 1]) for bit in range(bits)]
    return BsiPart(smallest, max(numbers), BitMap(rows), tuple(slices))


def test_sums_of_bit_slices_exceed_64_bits() -> None:
    table = pa.table({"v": [(1 << 63) - 1] * 5 + [1 - (1 << 63)], "d": pa.array([Decimal("1.25")] * 6)})
    asked = {"s": "sum(v)", "d": "sum(d)", "lo": "min(d)"}
    found, facts = aggregated(table, {"bsi": {"v": {}, "d": {}}}, asked, selection=range(5))
    assert found == [{"s": Decimal(5 * ((1 << 63) - 1)), "d": Decimal("6.25"), "lo": Decimal("1.25")}]
    assert facts["rows"] == {"Paimon bsi index": 5}


@pytest.mark.parametrize("nan", ["ieee", "largest"])
@pytest.mark.parametrize("kind", ["range-bitmap", "bitmap"])
def test_nan_is_the_last_code(kind: str, nan: Any) -> None:
    table = pa.table({"v": [1.0, float("nan"), None, 3.0, 8.0]})
    found, facts = aggregated(table, {kind: {"v": {}}}, {"hi": "max(v)", "lo": "min(v)"}, selection=range(4), nan=nan)
    assert found[0]["lo"] == 1.0
    assert str(found[0]["hi"]) == ("3.0" if nan == "ieee" else "nan")
    assert list(facts["rows"]) == [f"Paimon {kind} index"]


def test_codes_of_fixed_length_texts_have_no_ends() -> None:
    """As CHAR values, ``a`` is smaller than ``a\\0``. The stored bytes of ``a`` end in a space, so they are larger than
    those of ``a\\0``. The codes of a range-bitmap have the order of the stored bytes, so they give no minimum and no
    maximum."""
    data = build_file_index(
        pa.table({"c": ["a ", "a\0"]}), {"range-bitmap": {"c": {}}, "bitmap": {"c": {}}}, types={"c": "CHAR(2)"}
    )
    found = {}
    for kind in ("range-bitmap", "bitmap"):
        index = data.index("c", kind)
        assert index is not None
        found[kind] = totals_of(index)
    assert found["bitmap"].ends(None) == Ends(b"a", b"a\0")
    assert not found["range-bitmap"].has_ends


def test_days_have_ends_and_times_have_none() -> None:
    moment = np.datetime64("2026-01-01T00:00:00.000001", "us")
    table = pa.table({"d": pa.array([1, 2, 3], pa.date32()), "t": pa.array([moment] * 3)})
    found, facts = aggregated(table, {"bsi": {"d": {}, "t": {}}}, {"x": "max(d)"}, selection=[0, 1])
    assert (found[0]["x"].day, facts["rows"]) == (3, {"Paimon bsi index": 2})
    _, facts = aggregated(table, {"bsi": {"d": {}, "t": {}}}, {"x": "max(t)"}, selection=[0, 1])
    assert facts["rows"] == {"decoded": 2}


def test_an_index_of_another_type_proves_nothing() -> None:
    table = pa.table({"v": [1, 2, 3]})
    index = build_file_index(table, {"bsi": {"v": {}}}, types={"v": "INT"})
    found, facts = aggregated(table, index, {"s": "sum(v)"}, selection=[0, 1])
    assert (found, facts["rows"]) == ([{"s": Decimal(3)}], {"decoded": 2})


def wrong_indexes() -> list[Any]:
    """Returns indexes of ``v`` that break their format or contradict the file. Each test id says what is wrong."""
    beyond = Contents(3, part([1 << 40, 2, 3], 0, 0), None)
    twice = bitmap.Contents(3, BitMap(), (1, 2), (BitMap([0, 1]), BitMap([1])))
    lost = bitmap.Contents(3, BitMap(), (1, 2), (BitMap([0]), BitMap([1])))
    above = Contents(3, BsiPart(0, 2, BitMap([0, 1, 2]), (BitMap([0]), BitMap([0, 1]))), None)
    return [
        pytest.param(bsi.BsiIndex(bsi.write(beyond), "INT"), id="a number beyond the type"),
        pytest.param(bsi.BsiIndex(bsi.write(above), "INT"), id="a number above the largest"),
        pytest.param(bitmap.BitmapIndex(bitmap.write(twice, parse_type("INT")), "INT"), id="a row twice"),
        pytest.param(bitmap.BitmapIndex(bitmap.write(lost, parse_type("INT")), "INT"), id="a row that is lost"),
    ]


@pytest.mark.parametrize("index", wrong_indexes())
def test_an_index_that_is_wrong_is_decoded(index: Any) -> None:
    table = pa.table({"v": pa.array([1, 2, 3], pa.int32())})
    wrong = file_index_of([("v", index.kind, index)], {"v": "INT"})
    found, facts = aggregated(table, wrong, {"s": "sum(v)", "n": "count(v)"}, selection=[0, 1, 2], deletion_vector=[2])
    assert (found, facts["rows"]) == ([{"s": Decimal(3), "n": 2}], {"decoded": 2})
    assert "damaged" in facts["notes"][0]
    with pytest.raises(orcidx.CorruptFile):
        aggregated(table, wrong, {"s": "sum(v)"}, selection=[0, 1], strict_index=True)


def test_an_index_of_other_rows_is_decoded() -> None:
    index = build_file_index(pa.table({"v": [5, 6, 7, 8]}), {"bsi": {"v": {}}})
    found, facts = aggregated(pa.table({"v": [1, 2, 3]}), index, {"s": "sum(v)"}, selection=[0, 1])
    assert (found, facts["rows"]) == ([{"s": Decimal(3)}], {"decoded": 2})


def test_rows_that_may_match_are_decoded_and_the_others_not(saves: Callable[..., bool]) -> None:
    """No index answers the condition. Row groups that match as a whole are summed from bit slices, and the row groups
    at the ends of the range are decoded."""
    rng = np.random.default_rng(1)
    table = pa.table({"t": np.arange(10_000), "v": rng.integers(-100, 100, 10_000), "f": rng.random(10_000)})
    data = written(table, row_index_stride=1000)
    with orcidx.open(data) as file:
        scan = file.scan(where="t between 500 and 8700", file_index=build_file_index(table, {"bsi": {"v": {}}}))
        found = scan.aggregate({"s": "sum(v)", "n": "count(*)"}, None)
    assert found["s"][0].as_py() == int(table["v"].to_numpy()[500:8701].sum())
    assert found["n"][0].as_py() == 8201
    if saves("row-group statistics", "file statistics", "stripe statistics"):
        assert json.loads(found.schema.metadata[b"orcidx"])["rows"] == {"decoded": 1201, "Paimon bsi index": 7000}


def test_many_values_are_decoded() -> None:
    table = pa.table({"g": np.arange(50), "v": np.arange(50)})
    with mock.patch("orcidx.paimon.index_totals.MOST_VALUES", 49):
        found, facts = aggregated(table, {"bitmap": {"g": {}}, "bsi": {"v": {}}}, {"s": "sum(v)"}, "g")
    assert len(found) == 50
    assert facts["rows"] == {"decoded": 50}
    with mock.patch("orcidx.scanner.index_totals.MOST_COMBINATIONS", 49):
        _, facts = aggregated(table, {"bitmap": {"g": {}}, "bsi": {"v": {}}}, {"s": "sum(v)"}, "g")
    assert facts["rows"] == {"decoded": 50}


def test_indexes_beside_the_files_give_groups_without_a_condition(tmp_path: Path, saves: Callable[..., bool]) -> None:
    for number in range(3):
        orcidx.write_table(pa.table({"g": ["a", "b", "a"], "v": [number, 2, 3]}), tmp_path / f"{number}.orc")
    index_here(tmp_path, {"bitmap": {"g": {}}, "bsi": {"v": {}}}, embedded_bytes=0)
    found = orcidx.aggregate(tmp_path, {"n": "count(*)", "s": "sum(v)"}, by="g")
    assert found.to_pylist() == [{"g": "a", "n": 6, "s": Decimal(12)}, {"g": "b", "n": 3, "s": Decimal(6)}]
    if saves("catalog"):
        assert json.loads(found.schema.metadata[b"orcidx"])["rows"] == {"Paimon bitmap and bsi indexes": 9}
