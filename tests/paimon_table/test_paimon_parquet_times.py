"""Timestamps that a table's Parquet files store as INT96. Paimon stores TIMESTAMP(7) to TIMESTAMP(9) as INT96."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_tables import FORMATS, PaimonTable

from orcidx import ValueOutOfRange
from orcidx.paimon import Table, open_table
from orcidx.predicate import col

PRECISE = "TIMESTAMP(9)"
LOCAL = "TIMESTAMP(9) WITH LOCAL TIME ZONE"
LAST = datetime.datetime(9999, 12, 31)
FIRST = datetime.datetime(1500, 1, 1)
DAY = datetime.datetime(2020, 1, 1)
NEXT = datetime.datetime(2021, 1, 1)


def write_int96(rows: pa.Table, where: Any) -> None:
    pq.write_table(rows, where, use_deprecated_int96_timestamps=True, row_group_size=5)


def in_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, values: list[Any], kind: Any, arrow: pa.DataType | None = None
) -> Table:
    """A table with the columns ``id`` and ``t``. Its only file stores timestamps as INT96."""
    monkeypatch.setitem(FORMATS, "parquet", write_int96)
    table = PaimonTable(folder)
    table.schema({0: ("id", "INT"), 1: ("t", kind)}, options={"bucket": "-1"})
    rows = pa.table(
        {"id": pa.array(range(len(values)), pa.int32()), "t": pa.array(values, arrow or pa.timestamp("us"))}
    )
    table.add("a.parquet", rows, _VALUE_STATS_COLS=[])
    table.commit()
    return open_table(folder)


@pytest.fixture(autouse=True)
def without_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = PaimonTable._stats
    monkeypatch.setattr(PaimonTable, "_stats", lambda table, rows, types: stats(table, rows.select([]), {}))


@pytest.mark.parametrize("kind", [PRECISE, LOCAL])
@pytest.mark.parametrize("value", [LAST, FIRST])
def test_a_time_outside_of_nanoseconds_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: datetime.datetime
) -> None:
    """INT96 can hold times in years that do not fit into 64-bit nanoseconds. pyarrow converts them to a wrong time. For
    example, a time in 9999 becomes a time in 1816."""
    table = in_table(tmp_path, monkeypatch, [DAY, None, *[DAY] * 6, value, DAY], kind)
    literal = DAY if kind == PRECISE else DAY.replace(tzinfo=datetime.UTC)
    for where in (None, col("t") > literal, col("t") < literal):
        with pytest.raises(ValueOutOfRange, match="'t' has a timestamp"):
            table.scan(where=where).to_table()
    with pytest.raises(ValueOutOfRange, match="'t' has a timestamp"):
        table.rewrite_file_index(spec={"bsi": {"t": {}}}, jvm_zone="UTC")
    assert table.scan(["id"]).to_table().num_rows == 10


@pytest.mark.parametrize("nanos", [-(1 << 63), -(1 << 63) + 1, -1, 0, 999_999, (1 << 63) - 1])
def test_every_time_of_nanoseconds_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nanos: int) -> None:
    table = in_table(tmp_path, monkeypatch, [nanos, None, nanos], PRECISE, pa.timestamp("ns"))
    assert table.scan().to_table()["t"].cast(pa.int64()).to_pylist() == [nanos, None, nanos]


@pytest.mark.parametrize("precision", [0, 3, 6])
def test_a_time_is_read_if_its_unit_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: int
) -> None:
    """Other writers store timestamps of lower precisions as INT96, too. They are read if they fit into the unit."""
    table = in_table(tmp_path, monkeypatch, [LAST, DAY, None, FIRST], f"TIMESTAMP({precision})")
    assert table.scan().to_table()["t"].to_pylist() == [LAST, DAY, None, FIRST]
    assert table.scan(["id"], where=col("t") > DAY).to_table()["id"].to_pylist() == [0]
    assert table.scan(["id"], where=col("t") < DAY).to_table()["id"].to_pylist() == [3]


@pytest.mark.parametrize("shape", ["list", "struct", "map"])
def test_a_nested_time_outside_of_nanoseconds_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    time = pa.timestamp("us")
    row = {"type": "ROW", "fields": [{"id": 2, "name": "a", "type": PRECISE}, {"id": 3, "name": "b", "type": "INT"}]}
    kinds: dict[str, tuple[Any, pa.DataType]] = {
        "list": ({"type": "ARRAY", "element": PRECISE}, pa.list_(time)),
        "struct": (row, pa.struct({"a": time, "b": pa.int32()})),
        "map": ({"type": "MAP", "key": "STRING", "value": PRECISE}, pa.map_(pa.string(), time)),
    }
    shapes: dict[str, Callable[[Any], Any]] = {
        "list": lambda value: [DAY, value],
        "struct": lambda value: {"a": value, "b": 1},
        "map": lambda value: [("k", DAY), ("l", value)],
    }
    made = shapes[shape]
    good = in_table(tmp_path / "good", monkeypatch, [made(DAY), None, made(NEXT)] * 3, *kinds[shape])
    assert good.scan().to_table().num_rows == 9
    bad = in_table(tmp_path / "bad", monkeypatch, [made(DAY), None, made(NEXT), made(LAST)] * 3, *kinds[shape])
    with pytest.raises(ValueOutOfRange, match="'t' has a timestamp"):
        bad.scan().to_table()


def test_conditions_on_times_with_a_local_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow reads INT96 without a zone, but conditions with a zone are still accepted."""
    days = [DAY.replace(tzinfo=datetime.UTC), None, NEXT.replace(tzinfo=datetime.UTC)]
    table = in_table(tmp_path, monkeypatch, days, LOCAL, pa.timestamp("us", "UTC"))
    for _ in range(2):
        assert table.scan(["id"], where=col("t") == days[0]).to_table()["id"].to_pylist() == [0]
        assert table.scan(where=col("t") > days[0]).to_table()["t"].cast(pa.timestamp("us", "UTC")).to_pylist() == [
            days[2]
        ]
        table.rewrite_file_index(spec={"bsi": {"t": {}}}, jvm_zone="UTC")
        table = open_table(tmp_path)


def test_conditions_on_a_time_with_a_local_time_zone_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = DAY.replace(tzinfo=datetime.UTC)
    row = {"type": "ROW", "fields": [{"id": 2, "name": "a", "type": LOCAL}]}
    values = [{"a": day}, None, {"a": NEXT.replace(tzinfo=datetime.UTC)}]
    table = in_table(tmp_path, monkeypatch, values, row, pa.struct({"a": pa.timestamp("us", "UTC")}))
    assert table.scan(where=col("t")["a"] > day).to_table()["id"].to_pylist() == [2]
