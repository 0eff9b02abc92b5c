"""Tests of the facts that the planners of engines get: exact numbers of rows, and ranges that contain every value.
Polars answers counts from the numbers and skips scans because of the ranges, so a wrong fact would lose rows."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from indexed_directory import index_here

import orcidx
from orcidx import CorruptFile
from orcidx.engines import planner_facts, pruning_gain
from orcidx.engines.planner_facts import ColumnRange, TableFacts, table_facts
from orcidx.engines.polars import planned_table
from orcidx.engines.polars.lazy_scan import _Source

pl = pytest.importorskip("polars")
pytest.importorskip("polars.io.external_reader", reason="this version of Polars has no reader interface")


def facts_of(sources: Any, **options: Any) -> TableFacts:
    scan = orcidx.scan(sources, **options)
    return table_facts(scan, scan.schema.names)


DAY = dt.date(2024, 2, 28)
TABLE = pa.table(
    {
        "id": pa.array([-5, None, 7, 3], pa.int64()),
        "small": pa.array([1, 2, 3, -128], pa.int8()),
        "day": pa.array([DAY, None, dt.date(1969, 12, 30), None], pa.date32()),
        "price": pa.array([Decimal("-1.50"), Decimal("12.25"), None, Decimal("0.00")], pa.decimal128(9, 2)),
        "nothing": pa.array([None] * 4, pa.int32()),
        "x": [1.0, 2.0, None, 4.0],
        "text": ["a", "b", None, "d"],
        "deep": [{"id": 1}, {"id": 2}, None, {"id": 4}],
    }
)
RANGES = {
    "id": ColumnRange(-5, 7, 1),
    "small": ColumnRange(-128, 3, 0),
    "day": ColumnRange(-2, (DAY - dt.date(1970, 1, 1)).days, 2),
    "price": ColumnRange(Decimal("-1.50"), Decimal("12.25"), 1),
    "nothing": ColumnRange(None, None, 4),
}


def test_facts_of_one_file(tmp_path: Path) -> None:
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    assert facts_of(tmp_path / "a.orc") == TableFacts(4, RANGES)
    assert facts_of(tmp_path / "a.orc", columns=["text", "small"]) == TableFacts(4, {"small": RANGES["small"]})
    assert facts_of(tmp_path / "a.orc", row_numbers="row").ranges == RANGES
    assert facts_of(tmp_path / "a.orc", where="id > 3") == TableFacts(None, {})
    assert facts_of(tmp_path / "a.orc", row_index=False) == TableFacts(4, {})


def test_facts_of_a_directory(tmp_path: Path) -> None:
    """The second file has other types, lacks columns, and is in another partition. Its statistics do not prove the
    range of ``price``, because they have integers."""
    other = pa.table(
        {
            "id": pa.array([100, 2], pa.int32()),
            "small": pa.array([5, 6], pa.int8()),
            "price": pa.array([5, 6], pa.int8()),
        }
    )
    for year, table in ((2023, TABLE), (2024, other)):
        (tmp_path / f"year={year}").mkdir()
        orcidx.write_table(table, tmp_path / f"year={year}" / "a.orc")
    schema = TABLE.schema.append(pa.field("year", pa.int32()))
    facts = facts_of(tmp_path, schema=schema)
    assert facts.rows == 6
    assert facts.ranges["id"] == ColumnRange(-5, 100, 1)
    assert facts.ranges["small"] == ColumnRange(-128, 6, 0)
    assert facts.ranges["day"] == ColumnRange(RANGES["day"].minimum, RANGES["day"].maximum, 4)
    assert facts.ranges["nothing"] == ColumnRange(None, None, 6)
    assert facts.ranges["year"] == ColumnRange(2023, 2024, 0)
    assert facts.ranges.keys() == {"id", "small", "day", "nothing", "year"}


def test_facts_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        orcidx.write_table(TABLE, tmp_path / f"{number}.orc")
    monkeypatch.setattr(planner_facts, "RANGED_FILES", 3)
    assert facts_of(tmp_path) == TableFacts(16, {})
    monkeypatch.setattr(planner_facts, "COUNTED_FILES", 3)
    assert facts_of(tmp_path) == TableFacts(None, {})
    index_here(tmp_path, {"bloom-filter": {"id": {"items": 10, "fpp": 0.1}}})
    assert facts_of(tmp_path) == TableFacts(16, {})


def test_files_in_a_store_are_not_read_for_facts(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    fsspec.filesystem("memory").pipe("/facts/a.orc", (tmp_path / "a.orc").read_bytes())
    assert facts_of("memory://facts/a.orc") == TableFacts(None, {})


# --- Polars -----------------------------------------------------------------------------------------------------------


def test_polars_knows_the_number_of_rows(tmp_path: Path) -> None:
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    lazy = orcidx.scan_polars(tmp_path / "a.orc")
    assert "ESTIMATED ROWS: 4" in lazy.explain()
    assert "ESTIMATED ROWS" not in orcidx.scan_polars(tmp_path / "a.orc", where="id > 3").explain()
    assert lazy.collect_schema().names() == TABLE.column_names


def test_polars_joins_the_small_side_first(tmp_path: Path) -> None:
    """Polars keeps the order of joins in which a query is written if it does not know the numbers of rows."""
    orcidx.write_table(pa.table({"a": range(100_000), "b": [i % 100 for i in range(100_000)]}), tmp_path / "large.orc")
    orcidx.write_table(pa.table({"a": range(100_000)}), tmp_path / "middle.orc")
    orcidx.write_table(pa.table({"b": range(100), "c": range(100)}), tmp_path / "small.orc")
    tables = {name: orcidx.scan_polars(tmp_path / f"{name}.orc") for name in ("large", "middle", "small")}
    query = pl.SQLContext(tables).execute(
        "SELECT count(*) FROM large, middle, small WHERE large.a = middle.a AND large.b = small.b AND c = 7"
    )
    plan = query.explain()
    assert plan.index("middle.orc") > max(plan.index("large.orc"), plan.index("small.orc")), plan
    assert query.collect().item() == 1000


def test_tables_that_look_alike_are_read_separately(tmp_path: Path) -> None:
    """Polars reads equal scans only once. These scans have the same text, schema, number of rows and range."""
    sources = []
    for number, middle in enumerate((2, 5)):
        orcidx.write_table(pa.table({"id": [1, middle, 9]}), tmp_path / f"{number}.orc")
        sources.append((tmp_path / f"{number}.orc").read_bytes())
    one, other = (orcidx.scan_polars(source) for source in sources)
    assert pl.concat([one, other]).collect()["id"].to_list() == [1, 2, 9, 1, 5, 9]
    assert one.join(other, on="id").collect()["id"].sort().to_list() == [1, 9]
    found = pl.collect_all([each.filter(pl.col("id") > 1).select(pl.col("id").min()) for each in (one, other)])
    assert [each.item() for each in found] == [2, 5]


@pytest.fixture(params=["changed a moment ago", "changed some time ago"])
def last_change(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice. In the second run all files are old enough, so their facts are remembered."""
    if request.param == "changed some time ago":
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)
    return str(request.param)


@pytest.mark.usefixtures("last_change")
def test_facts_are_those_of_the_files_at_the_query(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"id": [1, 2, 3]}), path)
    lazy = orcidx.scan_polars(path)
    above = lazy.filter(pl.col("id") > 10)
    for rows in ([1, 2, 3], [11, 12], [5, 6, 7, 8, 20]):
        orcidx.write_table(pa.table({"id": rows}), path)
        assert lazy.select(pl.len()).collect().item() == len(rows)
        assert above.collect()["id"].to_list() == [one for one in rows if one > 10]
        assert lazy.with_row_index().filter(pl.col("index") > 0).collect()["id"].to_list() == rows[1:]


def test_facts_are_remembered_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_change: str
) -> None:
    asked: list[list[str]] = []

    def counted(scan: orcidx.Scan, names: list[str]) -> TableFacts:
        asked.append(sorted(names))
        return table_facts(scan, names)

    monkeypatch.setattr(planned_table, "table_facts", counted)
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]})
    for name in ("0.orc", "1.orc"):
        orcidx.write_table(table, tmp_path / name)
    lazy = orcidx.scan_polars(tmp_path)
    remembered = last_change == "changed some time ago"
    for _ in range(3):
        assert lazy.select("a", "b").collect().height == 6
        assert lazy.select("c").filter(pl.col("c") > 9).collect().height == 0
    assert asked == [["a", "b"], ["c"]] * (1 if remembered else 3)
    asked.clear()
    longer = pa.table({"a": [1, 2], "b": [4, 50], "c": [70, 8]})
    orcidx.write_table(longer, tmp_path / "1.orc")
    assert lazy.select("a", "b").collect()["b"].to_list() == [4, 5, 6, 4, 50]
    assert lazy.filter(pl.col("c") > 9).select("c").collect().height == 1
    assert asked == [["a", "b"], ["c"]]
    asked.clear()
    monkeypatch.setattr(planned_table, "MOST_KNOWN", 1)
    for name in ("a", "b", "a"):
        assert lazy.select(name).collect().height == 5
    assert asked == [["a"], ["b"], ["a"]]


def test_a_copy_of_a_table_remembers_no_facts(tmp_path: Path) -> None:
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    scan = orcidx.scan(tmp_path / "a.orc")
    table = planned_table._Table(_Source(scan, 1), pl.DataFrame(TABLE).schema, None)
    table._known = planned_table._Known(planner_facts.file_versions(scan), {("id",): "options"})
    assert pickle.loads(pickle.dumps(table))._known == planned_table._Known()


def test_nulls_of_deleted_rows_do_not_skip_a_scan(tmp_path: Path) -> None:
    """The file has as many nulls as there are selected rows, but no selected row is null."""
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"id": pa.array([1, None, 2, None], pa.int64())}), path)
    assert facts_of(path, selection={path: [0, 2]}) == TableFacts(2, {"id": ColumnRange(1, 2, 2)})
    lazy = orcidx.scan_polars(path, selection={path: [0, 2]})
    assert lazy.select(pl.len()).collect().item() == 2
    assert lazy.filter(pl.col("id").is_not_null()).collect()["id"].to_list() == [1, 2]
    assert lazy.filter(pl.col("id").is_null()).collect().height == 0


def test_a_damaged_file_raises_the_error_of_the_reader(tmp_path: Path) -> None:
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    lazy = orcidx.scan_polars(tmp_path / "a.orc")
    whole = (tmp_path / "a.orc").read_bytes()
    (tmp_path / "a.orc").write_bytes(whole[:-20] + b"\0" * 20)
    with pytest.raises(CorruptFile):
        lazy.collect()
    (tmp_path / "a.orc").unlink()
    with pytest.raises(FileNotFoundError):
        lazy.collect()


def test_without_the_interface_for_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars.io.scan_options._options", None)
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    lazy = orcidx.scan_polars(tmp_path / "a.orc")
    assert "ESTIMATED ROWS" not in lazy.explain()
    assert lazy.select(pl.len()).collect().item() == 4
    assert lazy.filter(pl.col("id") > 3).collect()["id"].to_list() == [7]


ENDS = {
    "id": [-6, -5, -4, 6, 7, 8, 0],
    "day": [dt.date(1969, 12, 29), dt.date(1969, 12, 30), DAY, dt.date(2024, 2, 29)],
    "price": [Decimal("-1.51"), Decimal("-1.50"), Decimal("12.25"), Decimal("12.26"), Decimal(0)],
    "nothing": [0],
    "small": [-129, -128, 3, 4],
}
COMPARED: list[Any] = [
    lambda column, value: column < value,
    lambda column, value: column <= value,
    lambda column, value: column == value,
    lambda column, value: column != value,
    lambda column, value: column >= value,
    lambda column, value: column > value,
    lambda column, value: column.is_in([value]),
    lambda column, value: column.eq_missing(value),
    lambda column, value: column.ne_missing(value),
    lambda column, value: column.is_null() | (column > value),
    lambda column, value: ~(column < value),
    lambda column, value: column.is_not_null() & (column >= value),
]


@pytest.fixture(params=["tiny", "not tiny"])
def tiny_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test twice. In the second run, no file is tiny, so conditions may be pushed into the scan."""
    if request.param == "not tiny":
        monkeypatch.setattr(pruning_gain, "TINY_BYTES", -1)


@pytest.mark.usefixtures("tiny_bytes")
@pytest.mark.parametrize("name", ENDS)
def test_conditions_at_the_ends_of_ranges(tmp_path: Path, name: str) -> None:
    orcidx.write_table(TABLE, tmp_path / "a.orc")
    lazy, expected = orcidx.scan_polars(tmp_path / "a.orc"), pl.DataFrame(TABLE).lazy()
    for value in ENDS[name]:
        for compared in COMPARED:
            condition = compared(pl.col(name), value)
            assert lazy.filter(condition).collect().equals(expected.filter(condition).collect()), str(condition)
            rows = lazy.filter(condition).select(pl.len()).collect().item()
            assert rows == expected.filter(condition).collect().height, str(condition)


@pytest.mark.usefixtures("tiny_bytes")
@pytest.mark.parametrize("seed", range(3))
def test_random_conditions_and_joins(tmp_path: Path, seed: int) -> None:
    """Random tables in several files, random conditions near the ends of their ranges, and joins of them."""
    draw = random.Random(seed)
    tables = {}
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        parts = []
        for number in range(draw.randint(1, 3)):
            low, rows = draw.randint(-50, 50), draw.randint(0, 60)
            values = [None if draw.random() < 0.1 else low + draw.randint(0, 20) for _ in range(rows)]
            part = pa.table(
                {
                    f"{name}_key": pa.array(values, pa.int32()),
                    f"{name}_day": pc.cast(pa.array(values, pa.int32()), pa.date32()),
                    f"{name}_price": pa.array(
                        [None if v is None else Decimal(v) / 4 for v in values], pa.decimal128(9, 2)
                    ),
                    f"{name}_row": pa.array([number * 100 + row for row in range(rows)], pa.int64()),
                }
            )
            orcidx.write_table(part, tmp_path / name / f"{number}.orc", row_index_stride=10)
            parts.append(part)
        tables[name] = pa.concat_tables(parts)
    read = {name: orcidx.scan_polars(tmp_path / name) for name in tables}
    held = {name: pl.DataFrame(table).lazy() for name, table in tables.items()}
    for _ in range(40):
        wheres = []
        for name in tables:
            edge = draw.randint(-55, 75)
            kind = draw.choice(["key", "day", "price"])
            value: Any = edge
            if kind == "day":
                value = dt.date(1970, 1, 1) + dt.timedelta(days=edge)
            elif kind == "price":
                value = Decimal(edge) / 4
            wheres.append(draw.choice(COMPARED)(pl.col(f"{name}_{kind}"), value))
        how: Any = draw.choice(["inner", "left", "semi", "anti", "full"])
        answers = []
        for frames in (read, held):
            left, right = frames["left"].filter(wheres[0]), frames["right"].filter(wheres[1])
            joined = left.join(right, left_on="left_key", right_on="right_key", how=how).collect()
            answers.append((joined.sort(joined.columns), left.select(pl.len()).collect().item()))
        assert answers[0][0].equals(answers[1][0]), (seed, wheres)
        assert answers[0][1] == answers[1][1], (seed, wheres)
