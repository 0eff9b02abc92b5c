"""``orcidx.scan`` over many files: order, partitions, different schemas, limits, pruning, closing, threads and
loops."""

import asyncio
import pickle
import threading

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_directory import index_here
from range_server import RangeServer
from work_done import small_reads

import orcidx
from orcidx import InvalidQuery, RowSelection, StorageError, col
from orcidx.paimon import DeletionVector
from orcidx.storage import local

ROWS = 1000


def write(path, first, rows=ROWS, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"id": np.arange(first, first + rows), "text": [f"v{i % 7}" for i in range(rows)], **more}
    pyarrow.orc.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture
def tree(tmp_path):
    """Writes four files of 1,000 rows in Hive directories. The year is 2023 or 2024, and the city is null in one
    directory."""
    cities = ["no", "se", "no", "__HIVE_DEFAULT_PARTITION__"]
    for i, city in enumerate(cities):
        write(tmp_path / f"year={2023 + i // 2}" / f"city={city}" / f"{i}.orc", i * ROWS)
    (tmp_path / "_SUCCESS").touch()
    return tmp_path


@pytest.fixture
def opened(monkeypatch):
    """Returns lists of the local files that were opened or read by one call, and of those that are still open."""
    paths, still = small_reads(monkeypatch), set()
    start, close = local.LocalReader.__init__, local.LocalReader.close

    def noted(self, path, **more):
        start(self, path, **more)
        paths.append(str(path))
        still.add(id(self))

    def closed(self):
        still.discard(id(self))
        close(self)

    monkeypatch.setattr(local.LocalReader, "__init__", noted)
    monkeypatch.setattr(local.LocalReader, "close", closed)
    return paths, still


# ---------------------------------------------------------------------- sources and order


def test_a_directory_a_glob_and_a_list(tree):
    # The directory of the null partition sorts before "city=no".
    whole = orcidx.scan(tree, ["id"]).to_table().column("id").to_pylist()
    assert whole == [*range(2000), *range(3000, 4000), *range(2000, 3000)]
    assert orcidx.scan(f"{tree}/year=2024/**/*.orc", ["id"]).count_rows() == 2000
    files = sorted(tree.rglob("*.orc"), key=lambda path: path.name, reverse=True)
    listed = orcidx.scan(files, ["id"], file_path=True, row_numbers=True).to_table()
    assert listed.column("id").to_pylist() == [*range(3000, 4000), *range(2000, 3000), *range(1000, 2000), *range(1000)]
    assert listed.column("row_number").to_pylist() == list(range(ROWS)) * 4
    assert listed.column("file_path").to_pylist() == [str(file) for file in files for _ in range(ROWS)]
    assert orcidx.scan(files[0]).schema.names == ["id", "text"]


def test_nothing_to_scan(tmp_path):
    with pytest.raises(InvalidQuery, match="no files to scan"):
        orcidx.scan(tmp_path)
    with pytest.raises(InvalidQuery, match="no files to scan"):
        orcidx.scan(f"{tmp_path}/*.orc")
    with pytest.raises(FileNotFoundError):
        orcidx.scan(tmp_path / "absent")
    schema = pa.schema([("x", pa.int64())])
    empty = orcidx.scan(tmp_path, schema=schema, where="x > 1", row_numbers="n")
    assert empty.to_table().schema == pa.schema([("x", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    assert (empty.count_rows(), empty.head(3).num_rows, list(empty.stripes())) == (0, 0, [])


def test_empty_files_of_a_directory_are_left_out(tmp_path):
    (tmp_path / "a.orc").touch()  # Hive writes such empty files
    write(tmp_path / "b.orc", 5, 3)
    assert orcidx.scan(tmp_path).to_table().column("id").to_pylist() == [5, 6, 7]


# ---------------------------------------------------------------------- partitions


def test_partitions_are_columns(tree):
    table = orcidx.scan(tree).to_table()
    assert table.schema.field("year").type == pa.int64()
    assert table.schema.field("city").type == pa.string()
    rows = {(row["year"], row["city"], row["id"] // ROWS) for row in table.to_pylist()}
    assert rows == {(2023, "no", 0), (2023, "se", 1), (2024, "no", 2), (2024, None, 3)}
    assert orcidx.scan(tree, ["city", "id", "year"]).schema.names == ["city", "id", "year"]
    assert orcidx.scan(tree, hive_partitions=False).schema.names == ["id", "text"]


def test_partition_types_follow_all_values(tmp_path):
    for value in ("1", "02", "x"):
        write(tmp_path / f"k={value}" / "n=1" / "a.orc", 0, 1)
    table = orcidx.scan(tmp_path, ["k", "n"]).to_table()
    assert table.to_pydict() == {"k": ["02", "1", "x"], "n": [1, 1, 1]}
    typed = pa.schema([("id", pa.int64()), ("n", pa.int8()), ("k", pa.string())])
    assert orcidx.scan(tmp_path, schema=typed).to_table().column("n").to_pylist() == [1, 1, 1]
    with pytest.raises(InvalidQuery, match="k=x is not a valid int32") as caught:
        orcidx.scan(tmp_path, schema=pa.schema([("k", pa.int32())]))
    assert caught.value.file.endswith("a.orc")
    assert caught.value.column == "k"


def test_a_partition_stands_before_a_column_of_the_file(tmp_path):
    write(tmp_path / "text=other" / "a.orc", 0, 2)
    table = orcidx.scan(tmp_path).to_table()
    assert table.to_pydict() == {"id": [0, 1], "text": ["other", "other"]}
    assert orcidx.scan(tmp_path, where="text = 'v0'").count_rows() == 0


@pytest.mark.parametrize("files", [1, 2])
def test_a_path_of_one_name_is_the_name_of_a_partition(tmp_path, files):
    """A path of one name, such as ``("text",)``, and the name ``"text"`` both mean the partition column ``text``, also
    in a scan of a single file. Engines and aggregations pass paths."""
    for number in range(files):
        write(tmp_path / f"text=other/day={number}" / "a.orc", 0, 2)
    table = orcidx.scan(tmp_path, [("day",), "id", ("text",)], where="id = 1").to_table()
    assert table.to_pydict() == {"day": [*range(files)], "id": [1] * files, "text": ["other"] * files}
    totals = orcidx.aggregate(tmp_path, {"n": "count(*)", "last": "max(text)"}, "id < 2", "day")
    assert totals.to_pydict() == {"day": [*range(files)], "n": [2] * files, "last": ["other"] * files}
    assert orcidx.dataset(tmp_path).to_table(["text", "day"])["text"].to_pylist() == ["other", "other"] * files
    top = orcidx.scan(tmp_path, ["id"], top=[("day", "desc"), ("id", "desc")], limit=1)
    assert top.to_table().to_pydict() == {"id": [1]}


@pytest.mark.parametrize(
    ("where", "files", "rows"),
    [
        ("year = 2024", 2, 2000),
        ("year = 2024 and id >= 2500", 2, 1500),
        ("city is null", 1, 1000),
        ("city = 'se' or city is null", 2, 2000),
        ("city <> 'no'", 1, 1000),
        ("year = 1999", 0, 0),
        ("year = 2023 or id = 3999", 4, 2001),
    ],
)
def test_files_that_their_partition_rules_out_are_not_read(tree, opened, where, files, rows):
    schema = orcidx.scan(tree).schema
    scan = orcidx.scan(tree, where=where, schema=schema)
    opened[0].clear()
    batches = scan.to_batches()
    assert sum(batch.num_rows for batch in batches) == rows
    assert len(set(opened[0])) == files
    assert batches.metrics.files == 4
    assert batches.metrics.files_skipped >= 4 - files
    assert scan.count_rows() == rows
    assert not opened[1]


def test_a_predicate_on_the_path(tree):
    files = [str(path) for path in sorted(tree.rglob("*.orc"))]
    batches = orcidx.scan(files, ["id"], col("file_path") == files[1], file_path=True).to_batches()
    assert {path for batch in batches for path in batch.column("file_path").to_pylist()} == {files[1]}
    assert batches.metrics.files_skipped == 3
    with pytest.raises(InvalidQuery, match="already a column 'id'"):
        orcidx.scan(files, file_path="id").to_table()


# ---------------------------------------------------------------------- reconciliation


def test_later_files_are_read_into_the_first_ones_schema(tmp_path):
    paths = [
        write(tmp_path / "a.orc", 0, 3, s=[{"x": 1, "y": "a"}] * 3),
        write(tmp_path / "b.orc", 10, 2, s=[{"y": "b", "z": 1.5}, None], extra=[1, 2]),
    ]
    other = pa.table({"text": ["t"], "id": pa.array([20], pa.int8())})
    pyarrow.orc.write_table(other, tmp_path / "c.orc")
    scan = orcidx.scan([*paths, tmp_path / "c.orc"])
    table = scan.to_table()
    table.validate(full=True)
    assert table.schema.names == ["id", "text", "s"]
    assert table.column("id").to_pylist() == [0, 1, 2, 10, 11, 20]
    assert table.column("s").to_pylist() == [*[{"x": 1, "y": "a"}] * 3, {"x": None, "y": "b"}, None, None]
    nested = orcidx.scan([*paths, tmp_path / "c.orc"], ["s.y", "id"], where="s.y = 'b' or id = 20").to_table()
    assert nested.to_pylist() == [{"s": {"y": "b"}, "id": 10}, {"s": None, "id": 20}]
    with pytest.raises(InvalidQuery) as caught:
        orcidx.scan([tmp_path / "c.orc", *paths]).to_table()
    assert (caught.value.file, caught.value.column) == (paths[0], "id")
    assert all(kind in str(caught.value) for kind in ("int64", "int8"))


def test_the_example_files_scan_as_one(golden_orc):
    found = [golden_orc / name for name in ("TestOrcFile.testSnappy.orc", "TestOrcFile.testWithoutIndex.orc")]
    table = orcidx.scan(found, file_path=True).to_table()
    table.validate(full=True)
    single = [orcidx.open(path).read() for path in found]
    assert table.num_rows == sum(one.num_rows for one in single)
    assert table.drop_columns(["file_path"]).slice(0, single[0].num_rows).equals(single[0])


@pytest.mark.parametrize("stored", [{}, {"p": [1, 1, 1]}, {"p": [{"q": 1}] * 3}])
def test_totals_and_paths_of_the_partition_column_of_one_file(tmp_path, stored):
    """The value of the directory replaces a stored column of the same name, even if the name is given as a path."""
    (tmp_path / "p=2").mkdir()
    orcidx.write_table(pa.table({"x": [1, 2, 3], **stored}), tmp_path / "p=2" / "a.orc")
    rows = [{"x": x, "p": 2} for x in (1, 2, 3)]
    assert orcidx.scan(tmp_path, [("x",), ("p",)]).to_table().to_pylist() == rows
    assert orcidx.scan(tmp_path, [("p",)]).to_table().to_pylist() == [{"p": 2}] * 3
    assert orcidx.dataset(tmp_path).to_table(["p"]).to_pylist() == [{"p": 2}] * 3
    assert orcidx.aggregate(tmp_path, {"s": "sum(p)", "m": "max(p)"}).to_pylist() == [{"s": 6, "m": 2}]
    assert orcidx.aggregate(tmp_path, {"n": "max(x)"}, by="p").to_pylist() == [{"p": 2, "n": 3}]
    assert orcidx.aggregate(tmp_path, {"n": "max(P)"}, "x < 3", case_sensitive=False).to_pylist() == [{"n": 2}]


# ---------------------------------------------------------------------- options for single files


def test_selections_deletion_vectors_and_indexes_by_path(tree):
    files = sorted(tree.rglob("*.orc"), key=lambda path: path.name)
    table = orcidx.open(files[3]).read()
    index = orcidx.paimon.build_file_index(table, {"bitmap": {"text": {}}}).to_bytes()
    scan = orcidx.scan(
        files,
        ["id"],
        where="text = 'v3'",
        selection={files[0]: RowSelection.from_runs([(0, 100)], ROWS), str(files[1]): [3, 10, 11]},
        deletion_vector={files[2]: DeletionVector([3, 10]), files[0]: [17]},
        file_index={files[3]: index},
    )
    expected = [i for i in range(4000) if i % ROWS % 7 == 3]
    asked = {*range(100), 1003, 1010, 1011, *range(2000, 4000)} - {17, 2003, 2010}
    kept = [i for i in expected if i in asked]
    assert scan.to_table().column("id").to_pylist() == kept
    assert scan.count_rows() == len(kept)
    assert "Paimon" in str(scan.explain())
    with pytest.raises(InvalidQuery, match="not among the 4 files"):
        orcidx.scan(files, selection={"elsewhere.orc": [1]})
    with pytest.raises(InvalidQuery, match="is for 5 rows"):
        orcidx.scan(files, selection={files[0]: RowSelection.all(5)}).to_table()


def test_a_file_that_is_listed_twice_has_its_deletion_vector_twice(tree, monkeypatch):
    monkeypatch.chdir(tree / "year=2023" / "city=no")
    file = tree / "year=2023" / "city=no" / "0.orc"
    for sources in ([file, file], ["0.orc", "./0.orc", file]):
        for key in ("0.orc", file):
            scan = orcidx.scan(sources, ["id"], deletion_vector={key: [0, 1]}, selection={str(file): range(5)})
            assert scan.to_table().column("id").to_pylist() == [2, 3, 4] * len(sources)


def test_a_damaged_file_index_keeps_the_rows(tree):
    file = next(tree.rglob("*.orc"))
    scan = orcidx.scan(file, where="text = 'v3'", file_index={file: b"no index"})
    assert scan.count_rows() == 143
    assert "damaged" in str(scan.explain())
    with pytest.raises(orcidx.CorruptFile):
        orcidx.scan(file, where="text = 'v3'", file_index={file: b"no index"}, strict_index=True).count_rows()


# ---------------------------------------------------------------------- iterating over batches


@given(
    limit=st.none() | st.integers(0, 900),
    batch_size=st.integers(1, 400),
    low=st.integers(0, 900),
    files=st.integers(1, 5),
    filtered=st.booleans(),
)
@settings(max_examples=40)
def test_limit_and_batches(tmp_path_factory, limit, batch_size, low, files, filtered):
    folder = tmp_path_factory.getbasetemp() / "limits"
    if not folder.exists():
        for i in range(5):
            write(folder / f"{i}.orc", i * 200, 200)
    paths = [folder / f"{i}.orc" for i in range(files)]
    scan = orcidx.scan(paths, where=col("id") >= low if filtered else None, limit=limit, batch_size=batch_size)
    expected = [i for i in range(files * 200) if i >= low or not filtered][:limit]

    async def collect():
        return [batch async for batch in scan]

    for batches in (list(scan), asyncio.run(collect())):
        assert all(0 < batch.num_rows <= batch_size for batch in batches)
        assert [value for batch in batches for value in batch.column("id").to_pylist()] == expected
    assert scan.count_rows() == len(expected)
    assert scan.head(10).column("id").to_pylist() == expected[:10]


def test_early_close_frees_the_files(tree, opened):
    paths, still = opened
    for i in range(4, 20):  # some files are opened ahead; how many depends on timing
        write(tree / "year=2024" / "city=se" / f"{i}.orc", i * ROWS)
    with orcidx.scan(tree, batch_size=500).to_batches() as batches:
        next(batches)
        assert still
    assert not still
    assert len(paths) < 20

    async def first():
        batches = aiter(orcidx.scan(tree, batch_size=500))
        batch = await anext(batches)
        assert still
        await batches.aclose()
        return batch.num_rows

    assert asyncio.run(first()) == 500
    stripes = orcidx.scan(tree).stripes()
    next(stripes)
    stripes.close()
    assert orcidx.scan(tree, limit=0).to_table().num_rows == 0
    assert not still


def test_errors_come_at_their_turn(tree, opened):
    files = sorted(tree.rglob("*.orc"), key=lambda path: path.name)
    scan = orcidx.scan(files, ["id"], batch_size=500)
    files[2].write_bytes(b"not an ORC file, though long enough to be one")
    seen = []
    with pytest.raises(orcidx.CorruptFile) as caught:
        seen.extend(batch.num_rows for batch in scan)
    assert sum(seen) == 2000
    assert caught.value.file == str(files[2])
    assert not opened[1]


def test_a_scan_pickles_and_is_shared_by_threads(tree):
    scan = orcidx.scan(tree, where="id >= 500", file_path="path")
    expected = scan.to_table()
    assert pickle.loads(pickle.dumps(scan)).to_table() == expected
    tables = []
    threads = [threading.Thread(target=lambda: tables.append(scan.to_table())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tables == [expected] * 4


def test_stripes_of_many_files(tree):
    decisions = [(stripe.file.scan.reader.name, stripe.decision.rows_after) for stripe in orcidx.scan(tree).stripes()]
    assert [rows for _, rows in decisions] == [ROWS] * 4
    assert sum(batch.num_rows for stripe in orcidx.scan(tree).stripes() for batch in stripe) == 4000


# ---------------------------------------------------------------------- remote


@pytest.fixture
def served(tree):
    objects = {f"t/{path.relative_to(tree)}": path.read_bytes() for path in tree.rglob("*.orc")}
    with RangeServer(objects, latency=0.03) as server:
        yield server


def test_footers_of_remote_files_are_fetched_ahead(served):
    urls = [f"{served.url}/{path}" for path in sorted(served.objects)] * 4
    scan = orcidx.scan(urls, where="id = 1700")
    table = scan.to_table()
    assert table.num_rows == 4
    assert served.most_at_once > 1
    served.log.clear()

    async def collect():
        return [batch async for batch in scan]

    assert pa.Table.from_batches(asyncio.run(collect())) == table


def test_an_async_pass_leaves_the_event_loop_free(served):
    urls = [f"{served.url}/{path}" for path in sorted(served.objects)]
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.002)

    async def main():
        ticker = asyncio.create_task(tick())
        rows = sum([batch.num_rows async for batch in orcidx.scan(urls)])
        ticker.cancel()
        return rows

    assert asyncio.run(main()) == 4000
    assert len(ticks) > 10


def test_a_changed_object_is_refused(served):
    path = sorted(served.objects)[0]
    with orcidx.open(f"{served.url}/{path}") as f:
        scan = f.scan()
        assert scan.count_rows() == ROWS
        served.objects[path] = served.objects[sorted(served.objects)[1]] + b"x"
        with pytest.raises(StorageError, match="changed") as caught:
            scan.to_table()
        assert path in caught.value.file


@pytest.mark.parametrize("strings", ["string", "view", "dictionary"])
def test_rows_are_named_by_arrays_whatever_texts_become(tmp_path, strings):
    path = tmp_path / "a.orc"
    orcidx.write_table(pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]}), path)
    for name, left in (("selection", [1, 3]), ("deletion_vector", [2])):
        for rows in (np.array([0, 2]), [0, 2], DeletionVector([0, 2]) if name == "deletion_vector" else [0, 2]):
            assert orcidx.scan(path, strings=strings, **{name: {path: rows}}).to_table()["a"].to_pylist() == left
            assert orcidx.open(path).scan(strings=strings, **{name: rows}).to_table()["a"].to_pylist() == left


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("with_index", [False, True])
def test_a_partition_column_replaces_a_struct_and_its_fields(tmp_path, with_index, files):
    """The partition column ``s`` replaces the struct ``s`` of the files, so there is no column ``s.x``. Earlier, a scan
    of a directory with one file returned the field of the struct."""
    for number in range(files):
        (tmp_path / f"s={number}").mkdir()
        table = pa.table({"s": [{"x": 10}, {"x": 11}], "n": [1, 2]})
        orcidx.write_table(table, tmp_path / f"s={number}" / "a.orc")
    if with_index:
        index_here(tmp_path, {"bitmap": {"n": {}}})
    for column in ("s.x", ("s", "x")):
        for names in ([column], [column, "n"]):
            for scan in (orcidx.scan(tmp_path, names), orcidx.scan(tmp_path, names, "n = 2")):
                for road in (scan.to_table, scan.explain, lambda scan=scan: list(scan)):
                    with pytest.raises(InvalidQuery, match=r"no column 's\.x'; the columns are s, n"):
                        road()
    for where in ("s.x = 11", "s.x + 0 = 11", col("s", "x") == 11):
        with pytest.raises(InvalidQuery, match=r"no column 's\.x'"):
            orcidx.scan(tmp_path, ["n"], where).to_table()
        with pytest.raises(InvalidQuery, match=r"no column 's\.x'"):
            orcidx.aggregate(tmp_path, {"n": "count(*)"}, where)
    with pytest.raises(InvalidQuery, match=r"no column 's\.x'"):
        orcidx.aggregate(tmp_path, {"x": "max(s.x)"})
    with pytest.raises(InvalidQuery, match=r"no column 'S\.x'"):
        orcidx.scan(tmp_path, ["S.x"], case_sensitive=False).to_table()
    assert set(orcidx.scan(tmp_path, ["s"]).to_table()["s"].to_pylist()) == set(range(files))
    stored = orcidx.scan(tmp_path, ["s.x"], hive_partitions=False).to_table()
    assert stored["s"].to_pylist() == [{"x": 10}, {"x": 11}] * files
