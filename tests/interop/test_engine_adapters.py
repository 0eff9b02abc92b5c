"""Tests of the adapters of DuckDB and Polars: row counts for their planners, conditions that indexes answer, and
frames."""

from __future__ import annotations

import math
import pickle
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx import CorruptFile, StorageError, col
from orcidx.engines import duckdb as duckdb_adapter
from orcidx.engines import pruning_gain
from orcidx.engines.polars import lazy_scan as polars_adapter
from orcidx.engines.pruning_gain import pays
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.scan import Scan

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")

ROWS = 3000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    odd = [math.nan, None, 0.0, -0.0, 1.5, -math.inf, 7.25]
    return pa.table(
        {
            "id": np.arange(3 * ROWS),
            "x": pa.array([odd[i % 7] if i % 3 else i / 8 for i in range(3 * ROWS)], pa.float64()),
            "text": [None if i % 10 == 9 else f"v{i % 13}" for i in range(3 * ROWS)],
            "price": pa.array([Decimal(i % 997) for i in range(3 * ROWS)], pa.decimal128(12, 2)),
        }
    )


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("adapters")
    for part in range(3):
        orcidx.write_table(table.slice(part * ROWS, ROWS), root / f"{part}.orc", row_index_stride=1000)
    return root


CONDITIONS = [
    "id = 4321",
    "id between 100 and 200 or id > 8990",
    "id < 10 and text = 'v3'",
    "text = 'v3'",
    "text in ('v3', 'v4') and x > 1",
    "text not in ('v3', 'v4')",
    "text is null and id % 4 = 1",
    "x > 7 and id < 50",
    "x = 0",
    "not (x <= 7)",
    "isnan(x) and id >= 8999",
    "price > 990 and id <= 2000",
    "price = 12.00",
    "id + 1 = 4322",
]


# --- DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["source", "dataset"])
def connection(request: pytest.FixtureRequest, folder: Any, table: pa.Table, monkeypatch: Any) -> Any:
    """A connection with the tables ``rows`` and ``expected``. ``rows`` uses the adapter of DuckDB 2 or that of older
    versions. ``expected`` is in memory."""
    if request.param == "dataset":
        monkeypatch.setattr(duckdb_adapter, "_source_class", lambda: None)
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "rows", folder)
    connection.register("expected", table)
    return connection


@pytest.mark.parametrize("condition", CONDITIONS)
def test_duckdb_answers(connection: Any, condition: str) -> None:
    query = "select count(*), sum(id), count(x), min(text), sum(price) from {} where " + condition
    expected = connection.sql(query.format("expected")).fetchall()
    assert connection.sql(query.format("rows")).fetchall() == expected
    # When the second query runs, the adapter of DuckDB 2 has already stored which conditions are worth pushing down.
    assert connection.sql(query.format("rows")).fetchall() == expected


def test_duckdb_joins_and_stops_early(connection: Any) -> None:
    both = "select count(*), sum(a.id) from rows a join rows b on a.id = b.id where a.id < 30 and b.text = 'v3'"
    assert connection.sql(both).fetchall() == connection.sql(both.replace("rows", "expected")).fetchall()
    assert len(connection.sql("select * from rows limit 5").fetchall()) == 5
    assert connection.sql("select count(*) from rows").fetchall() == [(3 * ROWS,)]
    assert connection.sql("select text from rows where id = 13 order by 1").fetchall() == [("v0",)]


def test_strings_are_varchar_whatever_stripes_hold(table: pa.Table, tmp_path: Any) -> None:
    """All columns of strings are VARCHAR in DuckDB. In column ``a``, stripes have nulls and different dictionaries.
    Each value of ``b`` is unique, and ``c`` has lists of strings."""
    texts = [None if i % 11 == 0 else f"{i // 700}-{i % 17}" for i in range(4000)]
    unique = [f"u{i}" for i in range(4000)]
    rows = pa.table({"id": range(4000), "a": texts, "b": unique, "c": [[text] for text in texts]})
    orcidx.write_table(rows, tmp_path / "a.orc", stripe_size=20_000, batch_size=500)
    orcidx.write_table(rows.slice(100, 900), tmp_path / "b.orc")
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "rows", [tmp_path / "a.orc", tmp_path / "b.orc"], batch_size=300)
    connection.register("expected", pa.concat_tables([rows, rows.slice(100, 900)]))
    for query in (
        "select * from {} order by id, b",
        "select a, count(*), min(b), max(id) from {} group by a order by a",
        "select b, a from {} where a = '2-3' or a is null order by b",
        "select count(*) from {} x join {} y on x.a = y.a where x.id < 50 and y.b > 'u3'",
        "select distinct c from {} where id < 900 and a like '1-%' order by c",
        "describe {}",
    ):
        found = connection.sql(query.format("rows", "rows")).fetchall()
        assert found == connection.sql(query.format("expected", "expected")).fetchall()


def planned(connection: Any, query: str) -> str:
    return str(connection.sql(f"explain {query}").fetchall()[-1][1])


def test_duckdbs_planner_knows_rows_and_what_indexes_answer(folder: Any) -> None:
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "rows", folder)
    assert "~9,000 rows" in planned(connection, "select * from rows")
    plan = planned(connection, "select * from rows where id = 4321 and text = 'v3'")
    assert 'Filters: "id" = 4321' in plan
    assert "Expression: text = 'v3'" in plan.replace('"text"', "text")
    assert "Filters" not in planned(connection, "select * from rows where id > 100")
    orcidx.register_duckdb(connection, "few", folder, where="id < 5", columns=["id"])
    assert connection.sql("select * from few").fetchall() == [(0,), (1,), (2,), (3,), (4,)]
    assert "rows" not in planned(connection, "select * from few").partition("~9")[2]
    connection.unregister("few")
    with pytest.raises(duckdb.Error):
        connection.sql("select * from few")


def test_a_damaged_file_is_an_error_in_duckdb(folder: Any, tmp_path: Any) -> None:
    damaged = bytearray((folder / "0.orc").read_bytes())
    damaged[3 : len(damaged) // 2] = b"\xff" * (len(damaged) // 2 - 3)
    (tmp_path / "a.orc").write_bytes(damaged)
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "rows", tmp_path / "a.orc")
    with pytest.raises((CorruptFile, duckdb.Error), match=r"stripe 0"):
        connection.sql("select sum(id), max(text), sum(x) from rows").fetchall()


# --- what is worth pushing --------------------------------------------------------------------------------------------


def test_a_condition_pays_where_indexes_leave_out_half(folder: Any) -> None:
    def worth(where: Any, **more: Any) -> bool:
        return pays(orcidx.scan(folder, where=where, **more))

    assert worth(col("id") < 4000)
    assert worth(col("id") < 3900)
    assert not worth(col("id") < 5000)
    assert worth(col("id") == -1)
    assert not worth(col("text") == "v3")
    assert not worth(None)
    # Of so many files, ``pays`` opens only some.
    assert pays(orcidx.scan([folder / "1.orc"] * 100, where=col("id") < 10))


def test_polars_filters_tiny_files(folder: Any, tmp_path: Any, monkeypatch: Any) -> None:
    for part in range(2):
        orcidx.write_table(pa.table({"id": [10 * part, 10 * part + 1]}), tmp_path / f"{part}.orc")
    size = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert size < pruning_gain.TINY_BYTES

    def refuse(*_: Any, **__: Any) -> bool:
        raise AssertionError

    monkeypatch.setattr(polars_adapter, "pays", refuse)
    rows = orcidx.scan_polars(tmp_path).filter(pl.col("id") == 10)
    in_memory = orcidx.scan_polars((tmp_path / "1.orc").read_bytes()).filter(pl.col("id") == 10)
    for each in (rows, in_memory):
        assert pl.DataFrame({"id": [10]}).equals(each.collect())
    monkeypatch.setattr(pruning_gain, "TINY_BYTES", size)
    assert pruning_gain.is_tiny(orcidx.scan(tmp_path))
    monkeypatch.setattr(pruning_gain, "TINY_BYTES", size - 1)
    assert not pruning_gain.is_tiny(orcidx.scan(tmp_path))
    (tmp_path / "1.orc").unlink()
    with pytest.raises((StorageError, pl.exceptions.ComputeError), match=r"1\.orc"):
        rows.collect()


def test_few_stripes_are_decided(tmp_path: Any, monkeypatch: Any) -> None:
    rows = pa.table({"id": np.arange(40_000), "text": [f"v{i % 13}" for i in range(40_000)]})
    orcidx.write_table(rows, tmp_path / "a.orc", stripe_size=4096)
    with orcidx.open(tmp_path / "a.orc") as opened:
        assert len(opened.stripes) > 30
    decided: list[int] = []
    decide = FileScan.decide

    def counted(scan: FileScan, stripe: int) -> Any:
        decided.append(stripe)
        return decide(scan, stripe)

    monkeypatch.setattr(FileScan, "decide", counted)
    monkeypatch.setattr(pruning_gain, "LARGE_ROWS", 40_000)
    assert pays(orcidx.scan(tmp_path / "a.orc", where="text = 'v3'"), most_kept=0.25)
    assert 0 < len(decided) <= pruning_gain.DECIDED_STRIPES
    decided.clear()
    assert pays(orcidx.scan(tmp_path / "a.orc", where="id < 19000"))
    assert len(decided) <= pruning_gain.DECIDED_STRIPES
    assert not pays(orcidx.scan(tmp_path / "a.orc", where="id < 26000"))


def test_a_condition_pays_where_it_keeps_few_rows_of_a_sample(folder: Any, monkeypatch: Any) -> None:
    def worth(where: Any, most: float, **more: Any) -> bool:
        return pays(orcidx.scan(folder, where=where, **more), most_kept=most)

    few, many = col("text") == "v3", col("text") != "v3"
    assert not worth(few, 0.25), "too few rows for a sample"
    monkeypatch.setattr(pruning_gain, "LARGE_ROWS", ROWS)
    assert worth(few, 0.25)
    assert not worth(few, 0.0)
    assert not worth(many, 0.25)
    assert worth(many, 1.0)
    assert worth(few, 0.25, columns=["x"])
    with orcidx.open(folder / "0.orc") as opened:  # ``pays`` tries only rows of the selection
        assert pays(opened.scan(where=few), most_kept=0.25)
        rows = [row for row in range(ROWS) if row % 13 == 3 and row % 10 != 9]
        monkeypatch.setattr(pruning_gain, "LARGE_ROWS", 1)
        assert not pays(opened.scan(where=few, selection=rows), most_kept=0.25)


def test_a_condition_pays_in_a_store(folder: Any) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/adapters/a.orc", (folder / "0.orc").read_bytes())
    assert pays(orcidx.scan("memory://adapters/a.orc", where=col("text") == "v3"))
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "rows", "memory://adapters/a.orc")
    plan = planned(connection, "select * from rows where text = 'v3'")
    assert "Filters" in plan
    assert "~3,000 rows" in planned(connection, "select * from rows")
    found = orcidx.scan_polars("memory://adapters/a.orc").filter(pl.col("text") == "v3").select("id").collect()
    assert found.height == connection.sql("select count(*) from rows where text = 'v3'").fetchall()[0][0]


# --- Polars -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["table", "table, all pushed", "reader", "none", "none, all pushed"])
def lazy(request: pytest.FixtureRequest, folder: Any, monkeypatch: Any) -> Any:
    """A lazy frame, through each of the interfaces of Polars. With "all pushed", every condition is pushed. Otherwise
    the default rule decides, but the files of this test are too small for the estimate from a sample that the rule
    uses."""
    interface, _, pushed = request.param.partition(", ")
    monkeypatch.setenv("ORCIDX_POLARS_READER", interface)
    if interface == "reader":
        monkeypatch.setitem(sys.modules, "polars.io.scan_options._options", None)
    if pushed:
        monkeypatch.setattr(pruning_gain, "TINY_BYTES", -1)
        monkeypatch.setattr(pruning_gain, "LARGE_ROWS", 0)
        monkeypatch.setattr(polars_adapter, "PUSHED_SHARE", 1.0)
    return orcidx.scan_polars(folder)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id IN (17, 4100)", [17, 4100]),
        ("id IN (17, NULL)", [17]),
        ("id IN (17) OR id = 8999", [17, 8999]),
        ("NOT (id NOT IN (3, 4) OR text = 'v3')", [4]),
        ("id NOT IN (3, NULL)", []),
    ],
)
def test_in_of_polars_sql_prunes(folder: Any, monkeypatch: Any, condition: str, ids: list[int]) -> None:
    pushed: list[Any] = []
    to_batches = Scan.to_batches

    def recording(scan: Scan, *given: Any, **more: Any) -> Any:
        pushed.append(scan.request.where)
        return to_batches(scan, *given, **more)

    monkeypatch.setattr(Scan, "to_batches", recording)
    context = pl.SQLContext(rows=orcidx.scan_polars(folder))
    found = context.execute(f"SELECT id FROM rows WHERE {condition} ORDER BY id").collect()
    assert found["id"].to_list() == ids
    assert all(where is not None for where in pushed)


SLICES: dict[str, Any] = {
    "head": lambda rows: rows.head(7),
    "within": lambda rows: rows.slice(2999, 3),
    "far": lambda rows: rows.slice(8998, 50),
    "none": lambda rows: rows.slice(20_000, 5),
    "tail": lambda rows: rows.tail(4),
    "from the end": lambda rows: rows.slice(-3001, 2),
    "filtered head": lambda rows: rows.filter(pl.col("text") == "v3").head(3),
    "filtered within": lambda rows: rows.filter(pl.col("id") > 5000).slice(3, 2),
    "head filtered": lambda rows: rows.head(50).filter(pl.col("id") % 7 == 3),
    "numbered": lambda rows: rows.with_row_index().filter(pl.col("id") == 4000),
    "numbered slice": lambda rows: rows.with_row_index().slice(3000, 2),
    "first in order": lambda rows: rows.sort("id", descending=True).head(3),
    "no columns": lambda rows: rows.select(pl.len()),
    "no columns, filtered": lambda rows: rows.filter(pl.col("id") < 17).select(pl.len()),
    "literal": lambda rows: rows.select(pl.lit(1)),
    "other order": lambda rows: rows.select("text", "id").slice(5, 3),
    "joined": lambda rows: rows.join(rows.filter(pl.col("id") < 9), on="id").select("id", "text").sort("id"),
    "nothing": lambda rows: rows.filter(pl.col("id") < 0),
}


@pytest.mark.parametrize("form", SLICES)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_slices_and_counts(lazy: Any, table: pa.Table, form: str, engine: Any) -> None:
    expected = SLICES[form](pl.DataFrame(table).lazy()).collect()
    assert SLICES[form](lazy).collect(engine=engine).equals(expected)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_polars_answers(lazy: Any, table: pa.Table, condition: str) -> None:
    query = "select count(*), sum(id), count(x), min(text), sum(price) from self where " + condition
    query = query.replace("isnan(x)", "x = cast('nan' as double)")
    assert lazy.sql(query).collect().equals(pl.DataFrame(table).lazy().sql(query).collect())


def test_polars_pushes_what_indexes_answer(lazy: Any, monkeypatch: Any) -> None:
    scans: list[Scan] = []
    original = Scan.to_batches
    monkeypatch.setattr(Scan, "to_batches", lambda self: (scans.append(self), original(self))[1])
    assert lazy.filter((pl.col("id") == 4321) & (pl.col("text") == "v5")).select("x").collect().height == 1
    assert scans[-1].request.where is not None
    assert lazy.filter(pl.col("text") == "v5").select("x").collect().height > 100
    assert (scans[-1].request.where is not None) is (polars_adapter.PUSHED_SHARE == 1.0)
    assert {path[0] for path in scans[-1].request.columns or ()} == {"x", "text"}
    assert lazy.head(10).collect().height == 10
    assert scans[-1].row_limit == 10


SPACES = {
    "equal": pl.col("c") == "ab",
    "equal, padded": pl.col("c") == "ab  ",
    "unequal": pl.col("c") != "ab",
    "unequal, padded": pl.col("c") != "ab  ",
    "not in": ~pl.col("c").is_in(["ab", "abcd"]),
    "negated": ~((pl.col("c") == "ab") | (pl.col("id") < 3)),
    "greater": pl.col("c") > "ab",
    "less": pl.col("c") < "ab ",
    "between": ~pl.col("c").is_between(pl.lit("a"), pl.lit("ab")),
    "starts": pl.col("c").str.starts_with("ab "),
    "ends": pl.col("c").str.ends_with(" "),
    "contains": pl.col("c").str.contains("b ", literal=True),
    "nested": pl.col("s").struct.field("c") != "ab",
}


@pytest.mark.parametrize("reader", ["reader", "none"])
@pytest.mark.parametrize("char", ["stored", "padded", "trimmed"])
def test_polars_compares_the_spaces_of_char(tmp_path: Any, monkeypatch: Any, reader: str, char: Any) -> None:
    """The first file stores strings, and the second file stores the columns of the same names as CHAR."""
    monkeypatch.setenv("ORCIDX_POLARS_READER", reader)
    monkeypatch.setattr(polars_adapter, "pays", lambda *_, **__: True)
    texts = ["ab", "abcd", None, "b", "ab "] * 4
    rows = pa.table({"id": range(20), "c": texts, "s": [{"c": text} for text in texts]})
    orcidx.write_table(rows, tmp_path / "0.orc")
    orcidx.write_table(rows, tmp_path / "1.orc", types={"c": "char(4)", "s.c": "char(4)"})
    for sources in (tmp_path, tmp_path / "1.orc"):
        lazy = orcidx.scan_polars(sources, char=char)
        whole = lazy.collect()
        for name, condition in SPACES.items():
            assert lazy.filter(condition).collect().equals(whole.filter(condition)), name


@pytest.mark.parametrize("reader", ["reader", "none"])
@pytest.mark.parametrize("nan", ["ieee", "largest"])
def test_polars_orders_nan_in_every_scan(tmp_path: Any, monkeypatch: Any, reader: str, nan: Any) -> None:
    monkeypatch.setenv("ORCIDX_POLARS_READER", reader)
    monkeypatch.setattr(polars_adapter, "pays", lambda *_, **__: True)
    numbers = [1.0, math.nan, None, 7.0]
    rows = pa.table({"id": range(4), "x": numbers, "s": [{"x": number} for number in numbers]})
    orcidx.write_table(rows, tmp_path / "a.orc")
    lazy = orcidx.scan_polars(tmp_path, nan=nan)
    whole = lazy.collect()
    for x in (pl.col("x"), pl.col("s").struct.field("x")):
        for condition in (
            x > 5,
            ~(x < 5),
            ~x.is_between(0, 5),
            ~(x.is_nan() | (x <= 1)),
            x.is_in([1.0, math.nan]),
            x == pl.lit(math.nan),
            (x >= 7) & (pl.col("id") < 3),
        ):
            assert lazy.filter(condition).collect().equals(whole.filter(condition)), condition


def test_polars_frames(folder: Any) -> None:
    assert orcidx.scan_polars(folder, batch_size=100).select("id").collect().height == 3 * ROWS
    lazy = orcidx.scan_polars(folder)
    assert pickle.loads(pickle.dumps(lazy)).collect().height == 3 * ROWS
    source = polars_adapter._Source(orcidx.scan(folder, batch_size=1 << 18), 1)
    frames = list(source.frames(["id"], (2990, 20), []))
    assert [value for frame in frames for value in frame["id"].to_list()] == list(range(2990, 3010))


def test_errors_come_through_polars(lazy: Any, folder: Any, tmp_path: Any) -> None:
    damaged = bytearray((folder / "0.orc").read_bytes())
    damaged[3 : len(damaged) // 2] = b"\xff" * (len(damaged) // 2 - 3)
    (tmp_path / "a.orc").write_bytes(damaged)
    with pytest.raises(CorruptFile, match="stripe 0"):
        orcidx.scan_polars(tmp_path / "a.orc").collect()
