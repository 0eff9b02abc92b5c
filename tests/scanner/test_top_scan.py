"""``scan(top=..., limit=...)`` returns the first rows of a full sort, and reads only rows that can be among them."""

import asyncio
import datetime
import decimal
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from indexed_directory import index_here

import orcidx
from orcidx import InvalidQuery, StorageError, col
from orcidx.scanner.top_scan import TopPass

ROWS = 1200
KEYS = ["i", "f", "f4", "s", "d", "t", "m", "day", "b", "raw", "near", "same"]


def mixed(rng: np.random.Generator, first: int = 0) -> pa.Table:
    """Returns sort keys of every type, with ties, nulls, NaN, -0.0 and 0.0. ``id`` identifies the rows."""
    few = rng.integers(-40, 40, ROWS)
    nulls = [rng.random(ROWS) < rng.choice([0.0, 0.1, 0.9]) for _ in range(10)]
    floats = few / 4
    floats[rng.random(ROWS) < 0.05] = math.nan
    floats[rng.random(ROWS) < 0.05] = -0.0
    texts = [f"{'é' if value % 3 else 'z'}{value}" for value in few.tolist()]
    moments = (few * 1_000_003 + 86_400_000_000_007).astype("i8")
    return pa.table(
        {
            "id": np.arange(first, first + ROWS),
            "i": pa.array(few, pa.int32(), mask=nulls[0]),
            "f": pa.array(floats, pa.float64(), mask=nulls[1]),
            "f4": pa.array(floats.astype("f4"), pa.float32(), mask=nulls[2]),
            "s": pa.array(texts, pa.string(), mask=nulls[3]),
            "d": pa.array([decimal.Decimal(value) / 100 for value in few.tolist()], pa.decimal128(12, 2)),
            "t": pa.array(moments, pa.timestamp("ns"), mask=nulls[4]),
            "m": pa.array(moments // 1000, pa.timestamp("us", "UTC"), mask=nulls[5]),
            "day": pa.array(few.astype("i4"), pa.int32(), mask=nulls[6]).cast(pa.date32()),
            "b": pa.array(few > 0, pa.bool_(), mask=nulls[7]),
            "raw": pa.array([text.encode() for text in texts], pa.binary(), mask=nulls[8]),
            "near": pa.array(np.arange(ROWS) + rng.integers(0, 300, ROWS), pa.int64(), mask=nulls[9]),
            "same": np.zeros(ROWS, np.int64),
        }
    )


def sorted_ids(table: pa.Table, top: list[tuple[str, str, str]], k: int) -> list[int]:
    """Sorts in Python, by one key after the other, starting with the last key. The sort is stable, so equal rows keep
    their order."""
    rows = list(range(table.num_rows))
    for name, direction, nulls in reversed(top):
        values = table[name].cast(pa.int64()).to_pylist() if name in ("t", "m") else table[name].to_pylist()

        def place(row: int, values: list[Any] = values, down: bool = direction == "desc") -> Any:
            value = values[row]
            is_nan = isinstance(value, float) and math.isnan(value)
            return (is_nan, 0 if is_nan else value.encode() if isinstance(value, str) else value)

        there = sorted((row for row in rows if values[row] is not None), key=place, reverse=direction == "desc")
        missing = [row for row in rows if values[row] is None]
        rows = missing + there if nulls == "first" else there + missing
    return table["id"].take(pa.array(rows[:k], pa.int64())).to_pylist()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Any:
    """Returns (the paths of three files, all of their rows)."""
    folder = tmp_path_factory.mktemp("top")
    rng = np.random.default_rng(11)
    tables = [mixed(rng, number * ROWS) for number in range(3)]
    for number, table in enumerate(tables):
        orcidx.write_table(table, folder / f"{number}.orc", row_index_stride=100, stripe_size=1 << 18)
    return [folder / f"{number}.orc" for number in range(3)], pa.concat_tables(tables)


@pytest.mark.parametrize("name", KEYS)
def test_the_first_rows_are_those_of_a_sort(files, name: str) -> None:
    paths, table = files
    one = table.slice(0, ROWS)
    for direction in ("asc", "desc"):
        for nulls in ("first", "last"):
            top = [(name, direction, nulls)]
            want = sorted_ids(one, top, ROWS)
            for k in (7, 400):
                got = orcidx.scan(paths[0], ["id"], top=top, limit=k).to_table()
                assert got["id"].to_pylist() == want[:k], (top, k)
    got = orcidx.scan(paths, ["id", name], top=top, limit=40).to_table()
    assert got.schema.names == ["id", name]
    assert got["id"].to_pylist() == sorted_ids(table, top, 40), top


def test_random_orders_conditions_and_options(files, rng) -> None:
    paths, _ = files
    conditions = [None, col("i") > 0, col("near").between(100, 900), col("s").is_null(), col("id") < 0]
    for _ in range(25):
        names = rng.choice(KEYS, rng.integers(1, 4), replace=False).tolist()
        top = [(name, str(rng.choice(["asc", "desc"])), str(rng.choice(["first", "last"]))) for name in names]
        where = conditions[rng.integers(len(conditions))]
        k = int(rng.choice([0, 1, 3, 50, 700, 100_000]))
        options = {"nan": str(rng.choice(["ieee", "largest"])), "row_index": bool(rng.random() < 0.8)}
        scan = orcidx.scan(paths, where=where, top=top, limit=k, batch_size=int(rng.choice([10, 65536])), **options)
        chosen = orcidx.read_table(paths, where=where)
        assert scan.to_table()["id"].to_pylist() == sorted_ids(chosen, top, k), (top, where, k, options)


@pytest.mark.levels("bounds of the first rows", "row-group statistics", "stripe statistics", "file statistics")
def test_few_row_groups_are_read(tmp_path) -> None:
    """If values are sorted or nearly sorted, few of 103 row groups are read. If they are random or all equal, more are
    read."""
    n = 100_000
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": np.arange(n),
            "near": np.arange(n) + rng.integers(0, 5_000, n),
            "any": rng.permutation(n),
            "same": [0] * n,
        }
    )
    orcidx.write_table(table, tmp_path / "a.orc", row_index_stride=1000, stripe_size=1 << 18)
    assert len(orcidx.open(tmp_path / "a.orc").stripes) > 3

    def read(*top: Any, k: int = 10, **more: Any) -> int:
        with orcidx.scan(tmp_path / "a.orc", ["id"], top=list(top), limit=k, **more).to_batches() as batches:
            assert sum(batch.num_rows for batch in batches) == k
            assert batches.metrics.row_groups == 103
            return batches.metrics.row_groups_kept

    assert read("id") == read(("id", "desc")) == read("same") == 1
    assert read("id", k=2500) <= 4
    assert read("near") <= 3
    assert read(("near", "desc")) <= 3
    assert read("any") < 60
    assert read("id", row_index=False) == 103  # without the row index, nothing is ruled out
    assert read("same", ("id", "desc")) == 103  # each row group may have the largest id
    assert read("id", where=col("id") > 70_500) == 1


def test_files_that_cannot_hold_a_first_row_are_not_read(tmp_path, saves) -> None:
    for number in range(20):
        table = pa.table({"id": np.arange(1000) + 1000 * ((number * 7) % 20)})
        orcidx.write_table(table, tmp_path / f"{number:02}.orc")
    with orcidx.scan(tmp_path, top=[("id", "desc")], limit=5).to_batches() as batches:
        assert [row for batch in batches for row in batch["id"].to_pylist()] == [19999, 19998, 19997, 19996, 19995]
        assert batches.metrics.files == 20
        if saves("bounds of the first rows", "file statistics"):
            assert batches.metrics.row_groups_kept == 1


def test_columns_of_directories_and_missing_ones_sort(tmp_path) -> None:
    for day in (3, 1, 2):
        (tmp_path / f"day={day}").mkdir()
        orcidx.write_table(pa.table({"id": [day * 10, day * 10 + 1]}), tmp_path / f"day={day}" / "a.orc")
    orcidx.write_table(pa.table({"id": [7], "extra": [1]}), tmp_path / "day=2" / "b.orc")
    schema = pa.schema({"id": pa.int64(), "extra": pa.int64(), "day": pa.int32()})
    scan = orcidx.scan(tmp_path, ["id"], schema=schema, top=["extra", ("day", "desc"), "id"], limit=4)
    assert scan.to_table()["id"].to_pylist() == [7, 30, 31, 20]


def test_times_that_are_cut_to_a_unit_tie(tmp_path) -> None:
    """10.9 ms and 10.1 ms are both read as 10 ms, so they are equal keys. The second key decides, and 10.9 ms can come
    first."""
    nanos = pa.array([10_900_000, 10_100_000, 11_000_000, -1_000_900_000], pa.timestamp("ns"))
    table = pa.table({"t": pa.chunked_array([nanos] * 500), "id": np.arange(2000)})
    orcidx.write_table(table, tmp_path / "a.orc", row_index_stride=100)
    for top in ([("t", "asc"), ("id", "desc")], [("t", "desc"), ("id", "asc")]):
        scan = orcidx.scan(tmp_path / "a.orc", top=top, limit=900, timestamp_unit="ms")
        everything = orcidx.read_table(tmp_path / "a.orc", timestamp_unit="ms")
        assert scan.to_table()["id"].to_pylist() == sorted_ids(everything, [(*key, "last") for key in top], 900)


def test_char_compares_without_its_padding(tmp_path) -> None:
    """``a`` is less than ``a\\x01``. The stored ``a`` is padded with a space, which is larger than ``\\x01``."""
    texts = ["a\x01", "a", "b", "a\x02", "a"] * 300
    schema = pa.schema([pa.field("c", pa.string(), metadata={"orc.type": "char(3)"}), pa.field("id", pa.int64())])
    orcidx.write_table(pa.table([texts, np.arange(1500)], schema=schema), tmp_path / "a.orc", row_index_stride=100)
    for char in ("padded", "trimmed"):
        got = orcidx.scan(tmp_path / "a.orc", top=["c"], limit=700, char=char).to_table()
        assert [text.rstrip(" ") for text in got["c"].to_pylist()] == ["a"] * 600 + ["a\x01"] * 100


def test_deleted_and_chosen_rows(files) -> None:
    paths, table = files
    one = table.slice(0, ROWS)
    gone = sorted_ids(one, [("near", "asc", "last")], 50)
    left = [i for i in range(ROWS) if i not in set(gone) and i < 900]
    with orcidx.open(paths[0]) as f:
        got = f.read(["id"], top=["near"], limit=20, deletion_vector=gone, row_range=(0, 900))
        assert got["id"].to_pylist() == sorted_ids(one.take(left), [("near", "asc", "last")], 20)
        numbered = f.read(["near"], top=["near"], limit=20, row_numbers=True)
        assert numbered.schema.names == ["near", "row_number"]
        assert numbered["row_number"].to_pylist() == gone[:20]
        for strings in ("dictionary", "view"):
            texts = f.read(["id"], top=[("s", "desc")], limit=30, strings=strings)
            assert texts["id"].to_pylist() == sorted_ids(one, [("s", "desc", "last")], 30)


def test_every_way_to_read_has_the_order(files) -> None:
    paths, table = files
    scan = orcidx.scan(paths, ["id"], top=[("near", "desc"), "id"], limit=25)
    want = sorted_ids(table, [("near", "desc", "last"), ("id", "asc", "last")], 25)

    async def read() -> list[int]:
        return [row async for batch in scan for row in batch["id"].to_pylist()]

    assert asyncio.run(read()) == want
    assert scan.head(4)["id"].to_pylist() == want[:4]
    assert pa.table(scan)["id"].to_pylist() == want
    assert pickle.loads(pickle.dumps(scan)).to_table()["id"].to_pylist() == want
    assert scan.count_rows() == 25
    assert "top ['near', 'id']" in repr(scan)
    said = str(scan.explain())
    assert "the first 25 rows by near descending, id ascending" in said
    assert orcidx.open(paths[0].read_bytes()).read(["id"], top=["day"], limit=3).num_rows == 3


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"top": ["id"]}, "give limit= to say how many"),
        ({"top": ["idd"], "limit": 1}, "did you mean 'id'"),
        ({"top": ["list"], "limit": 1}, "one value per row: 'list' is list<"),
        ({"top": [("id", "down")], "limit": 1}, '"asc" or "desc"'),
        ({"top": [], "limit": 1}, "contains no column"),
        ({"top": 5, "limit": 1}, "top is 5"),
        ({"top": "id", "limit": 1}, r"give \['id'\]"),
        ({"top": [7], "limit": 1}, "an entry of top is 7"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, query: dict[str, Any], message: str) -> None:
    orcidx.write_table(pa.table({"id": [1, 2], "list": [[1], [2]]}), tmp_path / "a.orc")
    with pytest.raises(InvalidQuery, match=message):
        orcidx.scan(tmp_path / "a.orc", **query).to_table()


def test_no_splits_and_no_stripes_of_an_order(tmp_path) -> None:
    orcidx.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.orc")
    scan = orcidx.scan(tmp_path / "a.orc", top=["id"], limit=1)
    with pytest.raises(InvalidQuery, match="limit"):
        scan.splits()
    with pytest.raises(InvalidQuery, match="top"):
        next(scan.stripes())


@pytest.mark.parametrize("columns", [None, ["id"]])
def test_rows_are_sorted_by_the_names_of_their_files(tmp_path, columns: list[str] | None) -> None:
    for number in range(3):
        orcidx.write_table(pa.table({"id": [number, number + 10]}), tmp_path / f"{number}.orc")
    scan = orcidx.scan(tmp_path, columns, top=[("file", "desc"), "id"], limit=3, file_path="file")
    assert scan.to_table()["id"].to_pylist() == [2, 12, 1]
    assert scan.to_table().column_names == ["id", "file"]
    assert orcidx.scan(tmp_path / "1.orc", top=["file"], limit=1, file_path="file").to_table()["id"].to_pylist() == [1]


def test_dates_that_python_lacks_are_bounds_too(tmp_path) -> None:
    days = pa.array([2**31 - 1, -(2**31), 5, 6] * 100, pa.int32()).cast(pa.date32())
    orcidx.write_table(pa.table({"day": days}), tmp_path / "a.orc", row_index_stride=10)
    got = orcidx.scan(tmp_path / "a.orc", top=[("day", "desc")], limit=150).to_table()
    assert got["day"].cast(pa.int32()).to_pylist() == [2**31 - 1] * 100 + [6] * 50
    assert datetime.date(1970, 1, 7) == got["day"][-1].as_py()


@pytest.mark.parametrize("schema", [None, pa.schema([("s", pa.string_view()), ("id", pa.int64())])])
def test_views_of_several_files(tmp_path, schema: pa.Schema | None) -> None:
    """Arrow cannot sort string views. For several files, the schema of the scan has views as well."""
    for number in range(3):
        ids = range(number * 100, number * 100 + 100)
        orcidx.write_table(pa.table({"id": ids, "s": [f"text {one % 7}" for one in ids]}), tmp_path / f"{number}.orc")
    for top in (["id"], ["s", ("id", "desc")]):
        found = orcidx.scan(tmp_path, ["s", "id"], top=top, limit=3, strings="view", schema=schema).to_table()
        plain = orcidx.scan(tmp_path, ["s", "id"], top=top, limit=3).to_table()
        assert found.schema.field("s").type == pa.string_view()
        assert found.to_pylist() == plain.to_pylist()


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_file_that_is_replaced_between_the_passes(
    tmp_path, monkeypatch: pytest.MonkeyPatch, small: bool, indexed: bool
) -> None:
    """The first pass chooses stripes by the statistics and the index of a file. These facts are not used for another
    version of the file."""
    rows = 200 if small else 40_000
    for number in range(3):
        ids = range(number * rows, (number + 1) * rows)
        cities = ["abcdefgh"[one * 2654435761 % 8] for one in ids]
        orcidx.write_table(pa.table({"id": ids, "city": cities}), tmp_path / f"{number}.orc")
    if indexed:
        index_here(tmp_path, {"bitmap": {"city": {}}})
    plain = TopPass._stripes

    def replaced(self: TopPass) -> Any:
        found = plain(self)
        other = pa.table({"id": range(2 * rows, 3 * rows), "city": ["b"] * (rows - 10) + ["a"] * 10})
        orcidx.write_table(other, tmp_path / "other.tmp")
        (tmp_path / "other.tmp").replace(tmp_path / "2.orc")
        return found

    monkeypatch.setattr(TopPass, "_stripes", replaced)
    scan = orcidx.scan(tmp_path, where="city = 'a'", top=[("id", "desc")], limit=5)
    with pytest.raises(StorageError, match="changed"):
        scan.to_table()
