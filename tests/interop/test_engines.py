"""Tests of ``orcidx.dataset`` and ``scan_polars`` with DuckDB, Polars, DataFusion and pyarrow: the rows of queries, and
the conditions that are pushed down."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orcidx
from orcidx import InvalidQuery, Unsupported, col
from orcidx.engines.arrow_dataset import OrcDataset, OrcFragment
from orcidx.engines.arrow_scanner import OrcScanner
from orcidx.paimon import DeletionVector

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")

ROWS, GROUP = 5000, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes one file for each of three years. The columns: ascending ids; numbers, including null, NaN, 0.0 and -0.0;
    texts; times."""
    root = tmp_path_factory.mktemp("engines")
    odd = [math.nan, None, 0.0, -0.0, 1.5, -math.inf, 7.25]
    for year in range(3):
        (root / f"year={2020 + year}").mkdir()
        ids = np.arange(year * ROWS, (year + 1) * ROWS)
        columns = {
            "id": ids,
            "x": pa.array([odd[i % 7] if i % 3 else i / 8 for i in range(ROWS)], pa.float64()),
            "text": [None if i % 10 == 9 else f"v{i % 13}" for i in range(ROWS)],
            "time": pa.array([None if i % 5 == 0 else int(i) * 1_000_500 for i in ids], pa.timestamp("ns")),
        }
        path = root / f"year={2020 + year}" / "a.orc"
        pyarrow.orc.write_table(pa.table(columns), path, row_index_stride=GROUP, batch_size=GROUP)
    return root


@pytest.fixture(scope="module")
def table(folder):
    return orcidx.scan(folder).to_table()


@pytest.fixture
def rows(folder):
    return orcidx.dataset(folder)


class Noted(OrcDataset):
    """A dataset that notes what engines push into it."""

    def __init__(self, scan):
        super().__init__(scan)
        self.asked = []

    def scanner(self, *args, **kwargs):
        self.asked.append(kwargs)
        return super().scanner(*args, **kwargs)


@pytest.fixture
def noted(folder):
    return Noted(orcidx.scan(folder))


def same(one, other):
    """Whether the rows are equal. NaN equals NaN."""

    def plain(table):
        kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
        return repr(table.cast(pa.schema(list(zip(table.schema.names, kinds)))).to_pydict())

    return one.schema == other.schema and one.num_rows == other.num_rows and plain(one) == plain(other)


# ---------------------------------------------------------------------- pyarrow


def test_a_dataset_answers_as_pyarrows_own(folder, rows, table):
    assert isinstance(rows, pa.dataset.Dataset)
    assert rows.schema == table.schema
    assert rows.count_rows() == table.num_rows
    assert same(rows.to_table(), table)
    assert same(rows.head(7, columns=["text", "id"]), table.select(["text", "id"]).slice(0, 7))
    chosen = pc.field("id") > 9990
    assert rows.count_rows(chosen) == 5009
    assert same(rows.take([3, 1], columns=["id"], filter=chosen), table.select(["id"]).filter(chosen).take([3, 1]))
    assert sum(batch.num_rows for batch in rows.to_batches(filter=chosen, batch_size=100)) == 5009
    twice = rows.to_table(columns={"twice": pc.field("id") * 2}, filter=pc.field("id") == 4)
    assert twice.to_pydict() == {"twice": [8]}
    assert rows.to_table(columns=[]).num_rows == table.num_rows
    assert same(rows.filter(chosen).to_table(), table.filter(chosen))
    assert rows.scanner(columns=["id"]).to_reader().read_all().num_rows == table.num_rows
    assert same(pickle.loads(pickle.dumps(rows)).to_table(["id"]), table.select(["id"]))
    fragments = list(rows.get_fragments())
    assert [fragment.count_rows() for fragment in fragments] == [ROWS] * 3
    assert same(pa.concat_tables(fragment.to_table() for fragment in fragments), table)
    assert same(pickle.loads(pickle.dumps(fragments[1])).head(3), table.slice(ROWS, 3))
    assert fragments[0].physical_schema == rows.schema
    assert rows.partition_expression.equals(fragments[0].partition_expression)


def test_no_method_of_the_bases_is_left(rows):
    """The methods of pyarrow's base classes would read a C++ object that does not exist. So orcidx's classes must
    override each of these methods."""
    faces = [
        (OrcDataset, pa.dataset.Dataset),
        (OrcFragment, pa.dataset.Fragment),
        (OrcScanner, pa.dataset.Scanner),
    ]
    for mine, base in faces:
        left = [n for n in vars(base) if not n.startswith("__") and getattr(mine, n) is getattr(base, n)]
        left = [n for n in left if not n.startswith("from_")]  # these make other scanners
        assert not left
    for name in ("sort_by", "join", "join_asof", "replace_schema"):
        with pytest.raises(Unsupported, match=name):
            getattr(rows, name)(None)
    with pytest.raises(Unsupported, match="scan_batches"):
        rows.scanner().scan_batches()


def decoded(monkeypatch):
    """Returns a function that counts the rows which later scans return."""
    passes = []
    original = orcidx.Scan.to_early_batches
    monkeypatch.setattr(orcidx.Scan, "to_early_batches", lambda self: (passes.append(original(self)), passes[-1])[1])
    return lambda: sum(one.metrics.rows_returned for one in passes)


def test_a_dataset_reads_no_more_than_it_is_asked_for(folder, rows, table, monkeypatch):
    """A dataset reads only the rows that are requested. ``Scanner.from_batches`` of pyarrow would read the whole
    dataset ahead."""
    work = decoded(monkeypatch)
    rows.head(3)
    assert work() == 3
    assert rows.take([2 * ROWS + 1, 4, 4]).column("id").to_pylist() == [2 * ROWS + 1, 4, 4]
    assert work() == 5
    batches = rows.to_batches(batch_size=GROUP)
    next(batches)
    assert work() == 5 + GROUP
    reader = rows.scanner(batch_size=GROUP).to_reader()
    reader.read_next_batch()
    assert work() == 5 + 2 * GROUP
    assert rows.head(3, columns=["id"], filter=pc.field("id") > 7, batch_size=GROUP).num_rows == 3
    assert rows.take([1], filter=pc.field("id") > 7, batch_size=GROUP).column("id").to_pylist() == [9]
    assert work() <= 5 + 4 * GROUP


def test_who_stops_early_has_not_read_for_a_whole_batch(rows):
    """Few rows match. A query that needs only one or two rows gets a small batch, and does not read on until a whole
    batch is full."""
    few = pc.field("text") == "v3"
    assert rows.head(1, filter=few).num_rows == 1
    assert rows.last_metrics.row_groups_kept == ROWS // GROUP
    next(rows.to_batches(filter=few))
    assert rows.last_metrics.row_groups_kept == ROWS // GROUP
    assert len(duckdb.sql("select id from rows where text = 'v3' limit 2").fetchall()) == 2
    assert rows.last_metrics.row_groups_kept == ROWS // GROUP
    assert rows.count_rows(few) == 3 * len([i for i in range(ROWS) if i % 13 == 3 and i % 10 != 9])


def test_take(folder, table):
    for rows in (orcidx.dataset(folder), orcidx.dataset(folder, batch_size=70)):
        for indices in ([], [0], [14999, 0, 7, 7], np.array([4999, 5000]), pa.array([9999, 10000], pa.uint16())):
            assert same(rows.take(indices), table.take(pa.array(indices, pa.int64())))
    upper = orcidx.dataset(folder, where=col("id") >= 7500)
    assert upper.take([0, 7499], columns=["id"]).to_pydict() == {"id": [7500, 14999]}
    deleted = {folder / "year=2020" / "a.orc": DeletionVector(range(1, 4999))}
    rest = orcidx.dataset(folder, deletion_vector=deleted)
    assert rest.take([2, 1, 0], columns=["id"]).to_pydict() == {"id": [5000, 4999, 0]}
    for wrong in ([15000], [-1], [1.5], [None], 3, ["a"]):
        with pytest.raises(InvalidQuery, match="row"):
            orcidx.dataset(folder).take(wrong)
    with pytest.raises(InvalidQuery, match="no row 10"):
        orcidx.dataset(folder).take([10], filter=pc.field("id") < 10)


def test_expressions_over_files_without_columns(rows):
    computed = {"one": pc.scalar(1), "next": pc.field("id") + 1}
    assert rows.head(2, columns=computed).to_pydict() == {"one": [1, 1], "next": [1, 2]}
    only = rows.to_table(columns={"one": pc.scalar(1)}, filter=pc.field("id") < 3)
    assert only.to_pydict() == {"one": [1, 1, 1]}
    assert rows.head(4, columns={"one": pc.scalar(1)}).num_rows == 4


def test_a_dataset_is_written_by_pyarrow(rows, table, tmp_path):
    """``write_dataset`` uses the Arrow stream, because the C++ object of a dataset does not exist."""
    pa.dataset.write_dataset(rows, tmp_path / "a", format="parquet")
    assert same(pa.dataset.dataset(tmp_path / "a").to_table().sort_by("id"), table)
    pa.dataset.write_dataset(rows.scanner(columns=["id"]), tmp_path / "b", format="parquet")
    assert pa.dataset.dataset(tmp_path / "b").to_table().num_rows == table.num_rows
    assert same(pa.table(rows), table)


def test_what_a_dataset_refuses(folder, rows):
    with pytest.raises(InvalidQuery, match="a condition must be boolean"):
        rows.to_table(filter=pc.field("id") + 1)
    with pytest.raises(InvalidQuery, match="head"):
        rows.head(-1)
    with pytest.raises(InvalidQuery, match="no column 'nothing'"):
        rows.to_table(columns=["nothing"])
    with pytest.raises(InvalidQuery, match="no column 'nothing'"):
        rows.to_table(filter=pc.field("nothing") == 1)
    with pytest.raises(Unsupported, match="limit"):
        orcidx.dataset(folder, limit=3)


CONDITIONS = {
    "predicate": (col("id") >= 4990) & (col("year") == 2020) & col("text").is_not_null(),
    "text": "id >= 4990 AND year = 2020 AND text IS NOT NULL",
    "list": [("id", ">=", 4990), ("year", "==", 2020), ("text", "!=", "none")],
    "computed": (col("id") + 0 >= 4990) & (col("year") == 2020) & col("text").is_not_null(),
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=list(CONDITIONS))
@pytest.mark.parametrize("kind", ["plain", "filtered", "rounded and filtered", "fragments"])
def test_conditions_of_orcidx_are_filters(folder, table, kind, condition):
    """Conditions of orcidx can be used as filters of a dataset. Earlier, pyarrow raised a ``TypeError`` about pickles
    or native files."""
    expression = (pc.field("id") >= 4990) & (pc.field("year") == 2020) & pc.field("text").is_valid()
    rows = orcidx.dataset(folder, timestamp_unit="ms" if "rounded" in kind else "ns")
    if "filtered" in kind:
        own = pc.field("time") >= pa.scalar(4_994, pa.timestamp("ms"))
        rows, expression = rows.filter(own), expression & own
    expected = orcidx.dataset(folder, timestamp_unit="ms" if "rounded" in kind else "ns").to_table().filter(expression)
    assert 0 < expected.num_rows < 10
    if kind == "fragments":
        # Without indexes, a file is ruled out only when it is read. So there is a fragment for each of the three files.
        assert len(list(rows.get_fragments(condition))) == 3
        parts = [part.to_table(filter=condition) for part in rows.get_fragments()]
        assert same(pa.concat_tables(parts), expected)
        assert sum(part.count_rows(condition) for part in rows.get_fragments()) == expected.num_rows
        return
    assert same(rows.to_table(filter=condition), expected)
    assert kind != "plain" or rows.last_metrics.rows_returned == expected.num_rows
    assert same(rows.to_table(columns=["x"], filter=condition), expected.select(["x"]))
    assert same(rows.filter(condition).to_table(), expected)
    assert same(pa.Table.from_batches(rows.to_batches(filter=condition), rows.schema), expected)
    assert same(rows.head(2, filter=condition), expected.slice(0, 2))
    assert same(rows.take([1], filter=condition), expected.slice(1, 1))
    assert rows.count_rows(condition) == rows.filter(condition).count_rows() == expected.num_rows


def test_what_is_no_filter_of_a_dataset(folder, rows):
    for given_filter in (5, True, "id >", [], col("id"), col("id") + 1, col("nothing") == 1):
        for road in (rows.to_table, rows.count_rows, next(rows.get_fragments()).to_table):
            with pytest.raises(InvalidQuery):
                road(filter=given_filter)
        with pytest.raises(InvalidQuery):
            rows.filter(given_filter).to_table()


def test_a_name_is_no_list_of_columns(tmp_path):
    """A text is refused as ``columns``. Earlier, the text was split into letters, and the columns with these names were
    returned."""
    orcidx.write_table(pa.table({"name": [1], "n": [2], "a": [3]}), tmp_path / "a.orc")
    rows = orcidx.dataset(tmp_path)
    for road in (rows.to_table, rows.scanner, rows.to_batches, lambda columns: rows.head(1, columns=columns)):
        with pytest.raises(InvalidQuery, match=r"columns must be a list or a dictionary; give \['name'\]"):
            road(columns="name")
    assert rows.to_table(columns=("name",)).to_pylist() == [{"name": 1}]


FIELDS = st.sampled_from(
    [
        pc.field("id") < 1200,
        pc.field("id") == 7777,
        pc.field("year") == 2021,
        pc.field("year").isin([2020, 1999]),
        pc.field("text") == "v3",
        ~pc.field("text").isin(["v3", "v4"]),
        pc.field("text").is_null(),
        pc.field("x") > 1,
        pc.field("x") == 0.0,
        ~(pc.field("x") <= 7),
        pc.field("x").is_nan(),
        pc.field("time") >= pa.scalar(3_000_000, pa.timestamp("ns")),
        pc.starts_with(pc.field("text"), "v1"),
        (pc.field("id") + 1) == 100,
    ]
)
EXPRESSIONS = st.recursive(
    FIELDS,
    lambda inner: st.builds(lambda a, b, both: (a & b) if both else (a | b), inner, inner, st.booleans()),
    max_leaves=4,
)


@given(expression=EXPRESSIONS, columns=st.sampled_from([None, ["id"], ["x", "year"], []]))
@settings(max_examples=40)
def test_filters_are_exact(folder, table, expression, columns):
    expected = table.filter(expression)
    found = orcidx.dataset(folder).to_table(columns=columns, filter=expression)
    assert found.num_rows == expected.num_rows
    assert columns == [] or same(found, expected if columns is None else expected.select(columns))


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("unit", ["us", "ms"])
def test_times_are_compared_as_the_dataset_shows_them(folder, unit, shift):
    """The stored times are finer than the unit of the dataset, so the dataset shows them rounded down. Conditions must
    compare the rounded values, as pyarrow does."""
    rows = orcidx.dataset(folder, timestamp_unit=unit)
    whole = rows.to_table()
    some = whole.column("time")[1234].value + shift
    for bound in (pa.scalar(some, pa.timestamp(unit)), pa.scalar(some * 1000 + 1, pa.timestamp("ns"))):
        field = pc.field("time")
        for expression in (field == bound, field <= bound, field > bound, field != bound, ~(field < bound)):
            assert rows.count_rows(expression) == whole.filter(expression).num_rows


@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_a_filtered_dataset_compares_times_as_the_dataset_shows_them(folder, unit):
    rows = orcidx.dataset(folder, timestamp_unit=unit, row_numbers=True)
    field, bound = pc.field("time"), rows.to_table().column("time")[1234]
    for expression in (
        field == bound,
        field <= bound,
        ~(field > bound),
        field.isin([bound]),
        pc.field("row_number") < 7,
    ):
        asked = rows.to_table(filter=expression)
        kept = rows.filter(expression)
        assert asked.num_rows
        pieces = [piece.to_table() for piece in kept.get_fragments()]
        for found in (
            kept.to_table(),
            pickle.loads(pickle.dumps(kept)).to_table(),
            kept.head(2 * len(asked)),
            kept.filter(pc.field("id") >= 0).to_table(),
            rows.filter(pc.field("id") >= 0).filter(expression).to_table(),
            pa.table(kept),
            pa.concat_tables(pieces),
        ):
            assert same(found, asked)
        assert kept.to_table(columns=["id"]).equals(asked.select(["id"]))
        assert kept.scanner(schema=pa.schema([rows.schema.field("id")])).to_table().equals(asked.select(["id"]))
        assert kept.to_table(columns={"n": pc.field("id") + 1}, filter=pc.field("id") > 1235).num_rows == sum(
            value > 1235 for value in asked["id"].to_pylist()
        )
        assert kept.count_rows() == rows.filter(expression).scanner().count_rows() == asked.num_rows
        assert kept.count_rows(pc.field("id") > 1235) == asked.filter(pc.field("id") > 1235).num_rows


@pytest.mark.parametrize("unit", ["us", "s"])
def test_times_inside_of_lists_and_structs_are_compared_as_the_dataset_shows_them(tmp_path, unit):
    kind, times = pa.timestamp("ns"), [1_700_000_000_000_000_000, 1_700_000_000_000_000_500, None]
    columns = {"l": pa.array([[time] for time in times], pa.list_(kind)), "s": pa.array(times, kind)}
    columns["s"] = pa.StructArray.from_arrays([columns["s"]], names=["t"])
    orcidx.write_table(pa.table(columns), tmp_path / "a.orc")
    rows = orcidx.dataset(tmp_path / "a.orc", timestamp_unit=unit)
    bound = pa.scalar(times[0], kind).cast(pa.timestamp(unit))
    for value in (pc.list_element(pc.field("l"), 0), pc.struct_field(pc.field("s"), [0]), pc.field("s", "t")):
        found = [rows.to_table(filter=value == bound).num_rows, rows.filter(value == bound).to_table().num_rows]
        assert [*found, rows.count_rows(value == bound), rows.filter(value == bound).count_rows()] == [2] * 4


def test_a_narrowed_dataset(folder, table):
    rows = orcidx.dataset(folder, columns=["text", "id"], where=col("year") == 2021, row_numbers=True, file_path=True)
    assert rows.schema.names == ["text", "id", "file_path", "row_number"]
    found = rows.to_table(columns=["row_number"], filter=pc.field("id") >= 2 * ROWS - 3)
    assert found.to_pydict() == {"row_number": [ROWS - 3, ROWS - 2, ROWS - 1]}


def test_a_narrowed_dataset_without_regard_to_case(tmp_path):
    orcidx.write_table(pa.table({"Id": [1, 2], "At": [{"X": 3, "y": 4}] * 2, "n": [5, 6]}), tmp_path / "a.orc")
    columns = ["ID", "at.x", ("N",)]
    rows = orcidx.dataset(tmp_path / "a.orc", columns=columns, where="iD > 1", case_sensitive=False)
    assert rows.to_table().to_pydict() == {"Id": [2], "At": [{"X": 3}], "n": [6]}
    assert rows.to_table(["At"], filter=pc.field("n") > 5).to_pydict() == {"At": [{"X": 3}]}
    assert rows.count_rows(pc.field("Id") > 1) == 1


# ---------------------------------------------------------------------- engines


def test_duckdb(noted, table):
    result = duckdb.sql("select id, text from noted where id between 6100 and 6109 and year = 2021 order by id")
    assert [row[0] for row in result.fetchall()] == list(range(6100, 6110))
    pushed = noted.asked[-1]
    assert set(pushed["columns"]) == {"id", "text", "year"} or set(pushed["columns"]) == {"id", "text"}
    assert pushed["filter"] is not None
    assert noted.last_metrics.row_groups_kept == 1
    assert noted.last_metrics.files_skipped == 2
    assert duckdb.sql("select count(*) from noted").fetchall() == [(3 * ROWS,)]
    listed = duckdb.sql("select count(*) from noted where text in ('v3', 'v4')")
    assert listed.fetchall() == [(table.filter(pc.field("text").isin(["v3", "v4"])).num_rows,)]
    like = duckdb.sql("select id from noted where text like 'v1%' and id < 20")
    assert like.fetchall() == [(1,), (10,), (11,), (12,), (14,)]
    assert len(duckdb.sql("select * from noted limit 5").fetchall()) == 5


def test_duckdb_compares_zoned_times(tmp_path):
    """DuckDB can compare times in nanoseconds only with literals. This is also so for pyarrow's own datasets. DuckDB
    can compare times in microseconds with all values."""
    times = pa.array([0, 10**18, 1_500_000_000_123_456_789, None], pa.timestamp("ns", "UTC"))
    pyarrow.orc.write_table(pa.table({"id": [1, 2, 3, 4], "t": times}), tmp_path / "a.orc")
    fine, coarse = orcidx.dataset(tmp_path / "a.orc"), orcidx.dataset(tmp_path / "a.orc", timestamp_unit="us")
    for one in (fine, coarse):
        connection = duckdb.connect()
        connection.register("rows", one)
        for condition, ids in [("> '2001-01-01 00:00:00+00'", [(2,), (3,)]), ("= '1970-01-01 00:00:00+00'", [(1,)])]:
            assert connection.sql(f"select id from rows where t {condition}").fetchall() == ids
    assert duckdb.sql("select id from coarse where t between to_timestamp(5) and now()").fetchall() == [(2,), (3,)]
    assert duckdb.sql("select id from coarse where t = '2017-07-14 02:40:00.123456+00'").fetchall() == [(3,)]
    assert duckdb.sql("select id from coarse where t > to_timestamp(1400000000)").fetchall() == [(3,)]


def test_polars_over_the_dataset(noted, table):
    frame = pl.scan_pyarrow_dataset(noted).filter(pl.col("id") == 7003).select("text", "year").collect()
    assert frame.rows() == [("v1", 2021)]
    assert set(noted.asked[-1]["columns"]) == {"id", "text", "year"} or noted.asked[-1]["columns"] == ["text", "year"]
    assert noted.last_metrics.row_groups_kept == 1
    assert pl.scan_pyarrow_dataset(noted).select(pl.len()).collect().item() == table.num_rows


def test_datafusion(noted, table, monkeypatch):
    datafusion = pytest.importorskip("datafusion")
    asked = []
    original = OrcFragment.scanner
    monkeypatch.setattr(OrcFragment, "scanner", lambda self, *a, **k: (asked.append(k), original(self, *a, **k))[1])
    context = datafusion.SessionContext()
    context.register_dataset("rows", noted)
    (batch,) = [one for one in context.sql("select text, year from rows where id = 12345").collect() if one.num_rows]
    assert batch.to_pylist() == [{"text": "v5", "year": 2022}]
    assert len(asked) == 3
    assert all(one["filter"] is not None and "x" not in one["columns"] for one in asked)
    counted = context.sql("select count(*) as n from rows").collect()
    assert counted[0].column(0).to_pylist() == [table.num_rows]


# ---------------------------------------------------------------------- Polars


POLARS = [
    pl.col("id") == 7003,
    pl.col("id").is_between(100, 200) | (pl.col("year") == 2022),
    pl.col("x") > 7,
    pl.col("x").is_nan(),
    ~(pl.col("x") <= 1.5),
    pl.col("x") == 0.0,
    pl.col("text").is_in(["v3", "v12"]),
    ~pl.col("text").is_in(["v3", "v12"]),
    pl.col("text").str.starts_with("v1"),
    pl.col("text").is_null() & (pl.col("id") % 4 == 1),
    pl.col("year") == 1999,
    pl.col("time") > pl.lit(5_000_000).cast(pl.Datetime("ns")),
    pl.col("text").map_elements(lambda text: len(set(text)) == 2 and hash(text) is not None, return_dtype=pl.Boolean),
]


@pytest.mark.parametrize("predicate", POLARS, ids=str)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_scan_polars_is_exact(folder, table, predicate, engine):
    frame = pl.from_arrow(table)
    expected = frame.filter(predicate).select("id", "x", "year")
    found = orcidx.scan_polars(folder).filter(predicate).select("id", "x", "year").collect(engine=engine)
    assert found.sort("id").equals(expected.sort("id"))


def test_scan_polars_pushes_down(folder, monkeypatch):
    passes = []
    original = orcidx.Scan.to_batches

    def noted(self):
        batches = original(self)
        passes.append((self, batches.metrics))
        return batches

    monkeypatch.setattr(orcidx.Scan, "to_batches", noted)
    lazy = orcidx.scan_polars(folder)
    assert lazy.filter(pl.col("id") == 7003).select("text").collect().rows() == [("v1",)]
    scan, metrics = passes[-1]
    assert set(scan.request.columns) == {("id",), ("text",)}
    assert metrics.row_groups_kept == 1
    assert lazy.head(10).collect().height == 10
    assert passes[-1][0].row_limit == 10
    assert lazy.filter(pl.col("x") > 2).head(5).collect().height == 5
    assert lazy.select(pl.len()).collect().item() == 3 * ROWS
    with pytest.raises(Unsupported, match="limit"):
        orcidx.scan_polars(folder, limit=3)


def test_scan_polars_with_added_columns(folder):
    lazy = orcidx.scan_polars(folder, columns=["id"], where="year = 2022", row_numbers=True, strings="string")
    frame = lazy.filter(pl.col("row_number") >= ROWS - 2).collect()
    assert frame.to_dict(as_series=False) == {"id": [3 * ROWS - 2, 3 * ROWS - 1], "row_number": [ROWS - 2, ROWS - 1]}


def test_conditions_on_file_names_that_are_not_shown(folder, table, monkeypatch):
    """The condition of the dataset uses the column of file names, even if a query does not select this column."""
    here = f"path = '{folder / 'year=2021' / 'a.orc'}'"
    wanted = table["id"].to_pylist()[ROWS : 2 * ROWS]
    rows = orcidx.dataset(folder, where=here, file_path="path")
    filtered = orcidx.dataset(folder, file_path="path").filter(pc.match_substring(pc.field("path"), "year=2021"))
    for each in (rows, filtered):
        assert each.to_table(["id"])["id"].to_pylist() == wanted
        assert each.to_table([]).shape == (ROWS, 0)
        assert each.scanner(schema=pa.schema([("id", pa.int64())])).to_table().to_pydict() == {"id": wanted}
        assert each.count_rows(pc.field("id") >= wanted[5]) == ROWS - 5
        assert each.head(2, columns=["year"]).to_pydict() == {"year": [2021, 2021]}
        assert each.take([3], columns=["id"]).to_pydict() == {"id": [wanted[3]]}
    for reader in ("", "none"):
        monkeypatch.setenv("ORCIDX_POLARS_READER", reader)
        lazy = orcidx.scan_polars(folder, where=here, file_path="path")
        assert lazy.select("id").collect()["id"].to_list() == wanted
        assert lazy.filter(pl.col("id") >= wanted[5]).select(pl.len()).collect().item() == ROWS - 5
    connection = duckdb.connect()
    orcidx.register_duckdb(connection, "named", folder, where=here, file_path="path")
    assert connection.sql("SELECT count(*), min(id) FROM named").fetchall() == [(ROWS, wanted[0])]


# ---------------------------------------------------------------------- capsules


def test_a_scan_is_a_stream_for_everyone(folder):
    scan = orcidx.scan(folder, ["id", "text"], where="id < 3000")
    for _ in range(3):
        assert pa.table(scan).num_rows == 3000
        assert pa.RecordBatchReader.from_stream(scan).read_all().num_rows == 3000
        assert pl.DataFrame(scan).height == 3000
        assert duckdb.sql("select max(id), count(*) from scan").fetchall() == [(2999, 3000)]
    assert pa.schema(scan) == scan.schema


def test_engines_that_stop_early_leave_no_file_open(folder):
    rows = orcidx.dataset(folder)
    batches = rows.to_batches(batch_size=10)
    assert next(batches).num_rows <= 10
    del batches
    assert rows.head(3).num_rows == 3


def test_filter_of_a_dataset_compares_times_in_the_unit_of_the_schema(tmp_path):
    """``filter`` keeps the rows that a filter of ``to_table`` keeps, although the stored times have more digits."""
    nanos = pa.array([1500, 2500, None], pa.timestamp("ns"))
    orcidx.write_table(pa.table({"t": nanos, "n": [1, 2, 3]}), tmp_path / "times.orc")
    whole = orcidx.dataset(tmp_path / "times.orc", timestamp_unit="us")
    table = whole.to_table()
    at = pa.scalar(1, pa.timestamp("us"))
    for condition in (pc.field("t") == at, pc.field("t") > at, ~(pc.field("t") > at), pc.field("t").isin([at])):
        found = pickle.loads(pickle.dumps(whole.filter(condition)))
        rows = table.filter(condition)
        assert found.to_table() == rows
        assert found.count_rows() == found.head(9).num_rows == rows.num_rows
        assert pa.concat_tables(part.to_table() for part in found.get_fragments()) == rows
        both = found.filter(pc.field("n") > 1)
        assert both.to_table(["n"]) == rows.filter(pc.field("n") > 1).select(["n"])
        assert both.count_rows(pc.field("n") < 3) == rows.filter(pc.field("n") == 2).num_rows


def test_filter_of_a_dataset_may_use_columns_that_it_does_not_show(tmp_path):
    rows = {"a": [1, 2], "b": [4, 5], "t": pa.array([1500, 2500], pa.timestamp("ns")), "s": [{"y": 1}, {"y": 2}]}
    (tmp_path / "year=2020").mkdir()
    orcidx.write_table(pa.table(rows), tmp_path / "year=2020" / "one.orc")
    few = orcidx.dataset(tmp_path, columns=["a"], timestamp_unit="us")
    for condition in (pc.field("b") > 4, pc.field("year") == 2020, pc.field("t") > pa.scalar(2, pa.timestamp("us"))):
        assert few.filter(condition).to_table()["a"].to_pylist()[-1] == 2
    dotted = (pc.field("s.y") > 1) & (pc.field("t") >= pa.scalar(1, pa.timestamp("us")))
    whole = orcidx.dataset(tmp_path, timestamp_unit="us")
    assert whole.filter(dotted).to_table(columns=["a"])["a"].to_pylist() == [2]


def test_polars_compares_with_days_after_the_year_9999(tmp_path):
    days = pa.array([0, 2_932_896, None], pa.date32())
    orcidx.write_table(pa.table({"day": days}), tmp_path / "days.orc")
    far = pl.lit(5_000_000).cast(pl.Int32).cast(pl.Date)
    assert orcidx.scan_polars(tmp_path / "days.orc").filter(pl.col("day") < far).collect().height == 2
