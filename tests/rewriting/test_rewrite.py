"""``orcidx.rewrite``: after each kind of rewrite, orcidx, pyarrow and pyorc read the same rows. No statistics or
filters are wrong."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyorc
import pytest
from pyarrow import orc

import orcidx
from orcidx import col
from orcidx.errors import CorruptFile, InvalidQuery, StorageError, Unsupported
from orcidx.inspection.check import check_file
from orcidx.orc.reader import OrcReader
from orcidx.rewriting import stripes
from orcidx.rewriting.indexing import Indexer, bloom_columns_of
from orcidx.rewriting.merged_statistics import merge_statistics
from orcidx.storage import describe_source
from orcidx.storage.local import LocalSink

STRIDE = 1000
ROWS = 3500


def table(seed: int = 0, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = rng.permutation(rows) + seed * rows
    words = [f"city {i}" for i in range(50)]
    days = pa.array(rng.integers(-9000, 20000, rows).astype(np.int32)).cast(pa.date32())
    holes = rng.random(rows) < 0.1
    return pa.table(
        {
            "id": keys,
            "city": pa.array([words[i] for i in rng.integers(0, 50, rows)], mask=holes),
            "price": pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "day": days,
            "at": pa.array(rng.integers(-(10**17), 10**18, rows)).cast(pa.timestamp("ns")),
            "x": pa.array(rng.normal(size=rows), mask=holes),
            "flag": pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < 0.3),
            "tags": pa.array([["a"] * int(k) for k in rng.integers(0, 3, rows)]),
            "in": pa.StructArray.from_arrays([pa.array(rng.integers(0, 9, rows), mask=holes)], ["y"]),
        }
    )


TABLE = table()


def make(path: Path, writer: str = "orcidx", data: pa.Table = TABLE, **options: object) -> str:
    if writer == "orcidx":
        orcidx.write_table(data, path, row_index_stride=STRIDE, stripe_size=64 << 10, **options)
    else:
        orc.write_table(data, path, row_index_stride=STRIDE, stripe_size=64 << 10, **options)
    return str(path)


def check_readers(path: str, expected: pa.Table) -> None:
    assert orcidx.open(path).read().equals(expected)
    assert orc.read_table(path).equals(expected)
    with open(path, "rb") as file:
        rows = list(pyorc.Reader(file, column_names=["id", "city"]))
    assert rows == list(zip(expected["id"].to_pylist(), expected["city"].to_pylist()))


def check_evidence(path: str, expected: pa.Table) -> None:
    """Checks that conditions find the same rows with indexes and without them, and that row ranges return the right
    rows."""
    file = orcidx.open(path)
    for row, names in ((0, ("id", "city", "at")), (len(expected) - 1, ("price", "day", "x"))):
        for name in names:
            value = expected[name][row]
            for where in (col(name) == value, col(name) > value):
                found = file.read(["id"], where)
                assert found.equals(file.read(["id"], where, row_index=False, bloom_filters=False)), (name, value)
    picked = [(0, 1), (STRIDE, STRIDE + 5), (len(expected) - 7, len(expected))]
    for start, stop in picked:
        assert file.read(row_range=(start, stop)).equals(expected.slice(start, stop - start))


WAYS = [
    ({}, "copy"),
    ({"compression": "snappy"}, "recompress"),
    ({"compression": "uncompressed"}, "recompress"),
    ({"compression": "zstd", "compression_level": 9}, "recompress"),
    ({"compression_block_size": 2048}, "recompress"),
    ({"bloom_filters": ["id", "city", "day", "at", "in.y"]}, "index"),
    ({"bloom_filters": ["id"], "compression": "lz4"}, "recompress and index"),
    ({"stripe_size": 1 << 20}, "encode"),
    ({"row_index_stride": 500}, "encode"),
]


@pytest.mark.parametrize("writer", ["orcidx", "pyarrow"])
@pytest.mark.parametrize(("options", "way"), WAYS, ids=[str(way) for way in WAYS])
def test_the_cheapest_way_keeps_every_row(tmp_path, writer, options, way):
    source = make(tmp_path / "a.orc", writer, compression="zlib")
    target = str(tmp_path / "b.orc")
    planned = orcidx.rewrite(source, target, dry_run=True, **options)
    assert planned.way == way
    assert planned.bytes_after is None
    assert not os.path.exists(target)
    done = orcidx.rewrite(source, target, **options)
    assert done.way == way
    assert done.rows == ROWS
    assert done.bytes_after == os.path.getsize(target)
    check_readers(target, TABLE)
    check_evidence(target, TABLE)
    before, after = orcidx.open(source), orcidx.open(target)
    named = after.writer if way == "encode" else before.writer
    assert after.writer == named
    if way == "encode":
        assert after.writer.software.startswith("orcidx ")
    else:
        assert [s.rows for s in after.stripes] == [s.rows for s in before.stripes]
        assert after.statistics("id").minimum == before.statistics("id").minimum
    if "bloom_filters" in options:
        explained = after.scan(["id"], col("id") == 2 * ROWS + 1, row_index=True).explain()
        assert explained.funnel[3].after == 0
        assert "distrusted" not in str(explained)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_copies_are_the_same_bytes(tmp_path):
    source = make(tmp_path / "a.orc")
    orcidx.rewrite(source, tmp_path / "b.orc")
    before, after = Path(source).read_bytes(), (tmp_path / "b.orc").read_bytes()
    end = max(stripe.end for stripe in orcidx.open(source).stripes)
    assert before[:end] == after[:end]


@pytest.mark.parametrize("from_codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("to_codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_positions_survive_every_pair_of_codecs(tmp_path, from_codec, to_codec):
    """Chunks are shorter than row groups, so positions are inside chunks."""
    source = make(tmp_path / "a.orc", compression=from_codec, compression_block_size=1 << 10)
    orcidx.rewrite(source, tmp_path / "b.orc", compression=to_codec, compression_block_size=3000)
    file = orcidx.open(tmp_path / "b.orc")
    for start in range(0, ROWS, STRIDE):
        assert file.read(row_range=(start + 3, start + 9)).equals(TABLE.slice(start + 3, 6))
    assert "damaged" not in str(file.scan(where=col("id") == 5).explain())


def test_merging_copies_stripes_and_merges_statistics(tmp_path):
    parts = [table(seed) for seed in range(3)]
    for number, part in enumerate(parts):
        make(tmp_path / f"part-{number}.orc", data=part)
    whole = pa.concat_tables(parts)
    done = orcidx.rewrite(tmp_path, tmp_path / "merged" / "all.orc", merge=True)
    assert done.way == "copy"
    assert done.files[0].sources == tuple(str(tmp_path / f"part-{i}.orc") for i in range(3))
    merged = str(tmp_path / "merged" / "all.orc")
    check_readers(merged, whole)
    check_evidence(merged, whole)
    orcidx.write_table(whole, tmp_path / "anew.orc", row_index_stride=STRIDE)
    found, expected = (orcidx.open(path) for path in (merged, tmp_path / "anew.orc"))
    for name in ("id", "city", "price", "day", "at", "flag", "tags", "in.y"):
        ours, theirs = found.statistics(name), expected.statistics(name)
        for field in ("count", "has_null", "minimum", "maximum", "true_count", "total_children", "sum"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)


def test_files_of_two_writers_are_indexed_anew(tmp_path):
    """The merged file names orcidx as its writer. So the statistics and filters of pyarrow's file are not copied. If
    they were copied, readers would trust them as if orcidx had computed them."""
    make(tmp_path / "a.orc", "orcidx", compression="zstd", bloom_filter_columns=["city"])
    make(tmp_path / "b.orc", "pyarrow", table(1), compression="zstd")
    sources = [tmp_path / "a.orc", tmp_path / "b.orc"]
    done = orcidx.rewrite(sources, tmp_path / "c.orc", merge=True)
    assert done.way == "index"
    assert "several writers" in done.files[0].reasons[0]
    target = str(tmp_path / "c.orc")
    whole = pa.concat_tables([TABLE, table(1)])
    check_readers(target, whole)
    check_evidence(target, whole)
    file = orcidx.open(target)
    assert file.writer.software.startswith("orcidx ")
    for stripe in range(len(file.stripes)):
        explained = file.scan(["id"], (col("city") == "city 77"), stripes=[stripe]).explain()
        assert explained.funnel[3].after == 0, "every stripe has filters that are trusted"


def test_filters_of_a_writer_that_is_not_believed_are_not_added_to(tmp_path):
    data = pa.table({"id": range(5000), "small": pa.array(np.arange(5000) % 100 - 50, pa.int8())})
    source = make(tmp_path / "a.orc", "pyarrow", data, compression="zstd")
    done = orcidx.rewrite(source, tmp_path / "b.orc", bloom_filters=["small"])
    assert done.way == "index"
    assert "small" in done.files[0].reasons[0]
    file = orcidx.open(tmp_path / "b.orc")
    assert file.writer.software.startswith("orcidx ")
    assert file.read().equals(data)


def test_existing_filters_survive_encoding(tmp_path):
    source = make(tmp_path / "a.orc", bloom_filter_columns=["city"])
    orcidx.rewrite(source, tmp_path / "b.orc", sort_by="id", bloom_filters=["day"])
    file = orcidx.open(tmp_path / "b.orc")
    for where in (col("city") == "city 77", col("day") == pa.scalar(20001, pa.date32())):
        assert file.scan(["id"], where).count_rows() == 0
    assert not file.scan(["id"], col("city") == "city 7x").explain().funnel[3].after


@pytest.mark.parametrize("memory", [1 << 30, 10_000], ids=["memory", "duckdb"])
@pytest.mark.parametrize(
    "keys", [["id"], [("city", "descending"), "id"], [("x", "ascending"), "id"], ["at"], ["price", "id"]]
)
def test_sorting(tmp_path, memory, keys):
    if memory < 1 << 20:
        pytest.importorskip("duckdb")
    source = make(tmp_path / "a.orc")
    done = orcidx.rewrite(source, tmp_path / "b.orc", sort_by=keys, sort_memory=memory)
    assert done.way == "encode"
    assert "sorted by" in done.files[0].reasons[0]
    pairs = [(key, "ascending") if isinstance(key, str) else key for key in keys]
    expected = TABLE.take(pc.sort_indices(TABLE, sort_keys=pairs))
    found = orcidx.open(tmp_path / "b.orc").read()
    assert found.equals(expected)


def test_a_sort_spills_into_the_temporary_directory(tmp_path, monkeypatch):
    """orcidx gives DuckDB a temporary directory for sorts that do not fit into memory. By default, DuckDB would use the
    working directory, which may not be writable."""
    duckdb = pytest.importorskip("duckdb")
    connect = duckdb.connect
    given = []

    def spy(**options):
        given.append(Path(options["config"]["temp_directory"]))
        assert given[0].parent == tmp_path / "spilled"
        assert given[0].is_dir()
        return connect(**options)

    (tmp_path / "spilled").mkdir()
    monkeypatch.setattr(duckdb, "connect", spy)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spilled"))
    source = make(tmp_path / "a.orc")
    orcidx.rewrite(source, tmp_path / "b.orc", sort_by="id", sort_memory=1000)
    assert orcidx.open(tmp_path / "b.orc").read(["id"])["id"].to_pylist() == sorted(TABLE["id"].to_pylist())
    assert len(given) == 1
    assert not given[0].exists()


def test_sorting_a_directory_file_by_file(tmp_path):
    (tmp_path / "in" / "k=1").mkdir(parents=True)
    for number in range(2):
        make(tmp_path / "in" / "k=1" / f"{number}.orc", data=table(number))
    done = orcidx.rewrite(tmp_path / "in", tmp_path / "out", sort_by="id")
    assert [one.target for one in done.files] == [str(tmp_path / "out" / "k=1" / f"{i}.orc") for i in range(2)]
    assert orcidx.scan(tmp_path / "out").to_table()["id"].to_pylist() == list(range(2 * ROWS))


def test_clustering_narrows_both_columns(tmp_path):
    rng = np.random.default_rng(5)
    data = pa.table({"a": rng.integers(0, 1000, 40_000), "b": [f"k{i:05}" for i in rng.integers(0, 9000, 40_000)]})
    source = make(tmp_path / "a.orc", data=data)
    orcidx.rewrite(source, tmp_path / "b.orc", cluster_by=["a", "b"], row_index_stride=STRIDE)
    kept = {}
    for name in ("a.orc", "b.orc"):
        file = orcidx.open(tmp_path / name)
        for where in ("a = 500", "b = 'k04500'"):
            kept[name, where] = file.scan(where=where).explain().funnel[2].after
    assert kept["a.orc", "a = 500"] == kept["a.orc", "b = 'k04500'"] >= 40
    assert kept["b.orc", "a = 500"] <= 14
    assert kept["b.orc", "b = 'k04500'"] <= 14
    by_id = [("a", "ascending"), ("b", "ascending")]
    assert orcidx.open(tmp_path / "b.orc").read().sort_by(by_id).equals(data.sort_by(by_id))


def test_clustering_goes_by_rows_not_by_distinct_values(tmp_path):
    """The order uses few bits for rare values, even if there are many distinct rare values. So enough bits remain to
    separate the frequent values."""
    rng = np.random.default_rng(3)
    frequent = [rng.integers(0, 1000, 40_000) for _ in "ab"]
    rare = [rng.integers(1000, 10**9, 40_000) for _ in "ab"]
    data = pa.table({name: np.where(rng.random(40_000) < 0.9, *both) for name, *both in zip("ab", frequent, rare)})
    source = make(tmp_path / "a.orc", data=data)
    orcidx.rewrite(source, tmp_path / "b.orc", cluster_by=["a", "b"], row_index_stride=400)
    with orcidx.open(tmp_path / "b.orc") as file:
        kept = [file.scan(where=f"{name} = 500").explain().funnel[2].after for name in "ab"]
    assert max(kept) <= 24  # of 100 row groups; an ideal order would keep 10


def test_filters_of_booleans_do_not_stop_a_rewrite(tmp_path):
    """pyarrow writes a bloom filter for every named column, even for a column of booleans. orcidx can rewrite such a
    file."""
    data = pa.table({"b": [True, False] * 50, "id": range(100), "s": [{"x": i} for i in range(100)]})
    orc.write_table(data, tmp_path / "a.orc", bloom_filter_columns=[1, 2, 3, 4])
    orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", sort_by=[("id", "descending")])
    assert orcidx.open(tmp_path / "b.orc").read().sort_by("id").equals(data)


def test_in_place(tmp_path):
    source = make(tmp_path / "a.orc")
    orcidx.rewrite(source, source, compression="snappy")
    assert orcidx.open(source).compression == "SNAPPY"
    assert orcidx.open(source).read().equals(TABLE)
    assert os.listdir(tmp_path) == ["a.orc"]


def test_a_target_that_is_there(tmp_path):
    source, other = make(tmp_path / "a.orc"), make(tmp_path / "b.orc", data=table(1))
    before = Path(other).read_bytes()
    with pytest.raises(InvalidQuery, match="overwrite=True"):
        orcidx.rewrite(source, other)
    with pytest.raises(InvalidQuery, match="overwrite=True"):
        orcidx.rewrite([source, other], other, merge=True)
    assert Path(other).read_bytes() == before
    orcidx.rewrite([source, other], other, merge=True, overwrite=True)
    assert orcidx.open(other).num_rows == 2 * ROWS


def test_different_columns(tmp_path):
    source = make(tmp_path / "a.orc", data=pa.table({"id": [1, 2], "x": [1.0, 2.0]}))
    other = make(tmp_path / "b.orc", data=pa.table({"id": pa.array([3], pa.int32())}))
    with pytest.raises(InvalidQuery, match=r"a\.orc and .*b\.orc have different columns .*'x'.*schema="):
        orcidx.rewrite([source, other], tmp_path / "c.orc", merge=True)
    schema = orcidx.open(source).schema
    done = orcidx.rewrite([source, other], tmp_path / "c.orc", merge=True, schema=schema)
    assert done.way == "encode"
    assert orcidx.open(tmp_path / "c.orc").read().to_pydict() == {"id": [1, 2, 3], "x": [1.0, 2.0, None]}


@pytest.mark.parametrize("options", [{}, {"compression": "snappy"}, {"bloom_filters": ["id"]}, {"sort_by": "id"}])
def test_a_damaged_source_leaves_nothing(tmp_path, options):
    source = make(tmp_path / "a.orc", compression="zlib")
    raw = bytearray(Path(source).read_bytes())
    first = orcidx.open(source).stripes[0]
    at = first.footer_offset if not options else first.offset + first.index_length
    raw[at : at + 3] = b"\xfe\xff\xff"  # the header of a chunk that is longer than the file
    Path(source).write_bytes(raw)
    with pytest.raises(CorruptFile, match=r"a\.orc"):
        orcidx.rewrite(source, tmp_path / "b.orc", **options)
    assert os.listdir(tmp_path) == ["a.orc"]


def test_a_row_index_that_cannot_be_patched(tmp_path, monkeypatch):
    """If positions are outside of chunks, the rows are encoded again, and the result says so."""
    source = make(tmp_path / "a.orc", compression="uncompressed")
    right = stripes.read_index_entries

    def behind(*given):
        bounds, values, *extents = right(*given)
        return bounds, np.where(values > 0, values + 10**6, 0), *extents

    monkeypatch.setattr(stripes, "read_index_entries", behind)
    done = orcidx.rewrite(source, tmp_path / "b.orc", compression="zstd")
    assert orcidx.open(tmp_path / "b.orc").read().equals(TABLE)
    assert done.way == "encode"
    assert "row index" in done.files[0].reasons[0]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    source = make(tmp_path / "a.orc")

    def full(self, data):
        raise StorageError("No space left on device")

    monkeypatch.setattr(LocalSink, "write", full)
    for options in ({}, {"compression": "snappy"}, {"sort_by": "id"}):
        with pytest.raises(StorageError, match="No space"):
            orcidx.rewrite(source, tmp_path / "b.orc", **options)
    assert os.listdir(tmp_path) == ["a.orc"]


@pytest.mark.parametrize("options", [{}, {"compression": "snappy"}, {"sort_by": "id"}])
def test_verifying_finds_what_went_wrong(tmp_path, monkeypatch, options):
    source = make(tmp_path / "a.orc")
    whole = LocalSink.write

    def flip(self, data):
        raw = bytearray(data)
        if len(raw) > 2000:
            raw[1000] ^= 255
        whole(self, raw)

    monkeypatch.setattr(LocalSink, "write", flip)
    with pytest.raises(StorageError, match="differs from the sources"):
        orcidx.rewrite(source, tmp_path / "b.orc", **options)
    assert os.listdir(tmp_path) == ["a.orc"]
    orcidx.rewrite(source, tmp_path / "b.orc", verify=False, **options)


def test_verifying_asks_new_filters(tmp_path, monkeypatch):
    source = make(tmp_path / "a.orc")
    right = Indexer._batches

    def other_values(self, stripe):
        for batch in right(self, stripe):
            yield pa.record_batch([pc.add(batch.column(0), 10**9)], names=["id"])

    monkeypatch.setattr(Indexer, "_batches", other_values)
    with pytest.raises(StorageError, match="bloom filter of id in stripe 0 lacks the value"):
        orcidx.rewrite(source, tmp_path / "b.orc", bloom_filters=["id"])
    assert os.listdir(tmp_path) == ["a.orc"]


def test_refused_files(tmp_path):
    acid = tmp_path / "acid.orc"
    orcidx.write_table(TABLE.select(["id"]), acid, metadata={"hive.acid.version": "2"})
    with pytest.raises(Unsupported, match="Hive ACID"):
        orcidx.rewrite(acid, tmp_path / "b.orc")
    with pytest.raises(InvalidQuery, match="no files"):
        orcidx.rewrite(str(tmp_path / "*.parquet"), tmp_path / "b.orc")
    with pytest.raises(InvalidQuery, match="no column 'idd'"):
        orcidx.rewrite(make(tmp_path / "a.orc"), tmp_path / "b.orc", sort_by="idd")
    with pytest.raises(InvalidQuery, match="no column 'idd'"):
        orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", cluster_by=["idd"], dry_run=True)
    with pytest.raises(InvalidQuery, match="bloom_filters: there is no column"):
        orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", bloom_filters=["idd"])
    with pytest.raises(InvalidQuery, match="cannot be ordered"):
        orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", sort_by="tags")
    with pytest.raises(InvalidQuery, match="unknown option"):
        orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", compresion="zstd")
    with pytest.raises(InvalidQuery, match="two sources would be written to"):
        orcidx.rewrite([tmp_path / "a.orc", tmp_path / "a.orc"], tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["a.orc", "acid.orc"]


def test_an_encrypted_file_is_refused(golden_orc, tmp_path):
    with pytest.raises(Unsupported, match="encrypted"):
        orcidx.rewrite(golden_orc / "encrypted" / "sample1.orc", tmp_path / "b.orc")


def test_attributes_types_and_metadata_survive_encoding(tmp_path):
    schema = pa.schema(
        [
            pa.field("code", pa.string(), metadata={"iceberg.id": "7"}),
            pa.field("s", pa.struct([pa.field("y", pa.int64(), metadata={"iceberg.id": "9"})])),
        ]
    )
    data = pa.table({"code": ["ab", "c"], "s": [{"y": 1}, None]}, schema=schema)
    source = tmp_path / "a.orc"
    orcidx.write_table(data, source, types={"code": "char(4)"}, metadata={"by": "me"})
    orcidx.rewrite(source, tmp_path / "b.orc", sort_by=("code",))
    before, after = orcidx.open(source), orcidx.open(tmp_path / "b.orc")
    assert after.orc_schema == before.orc_schema == "struct<code:char(4),s:struct<y:bigint>>"
    assert [c.attributes for c in after.columns] == [c.attributes for c in before.columns]
    assert after.columns[1].children[0].attributes == (("iceberg.id", "9"),)
    assert after.user_metadata == before.user_metadata


def test_empty_files(tmp_path):
    source = make(tmp_path / "a.orc", data=TABLE.slice(0, 0))
    for options in (
        {},
        {"compression": "snappy"},
        {"bloom_filters": ["id"]},
        {"sort_by": "id"},
        {"cluster_by": ["id", "x"]},
    ):
        orcidx.rewrite(source, tmp_path / "b.orc", overwrite=True, **options)
        assert orcidx.open(tmp_path / "b.orc").read().equals(TABLE.slice(0, 0))


def test_to_a_url_and_from_bytes(tmp_path):
    out = io.BytesIO()
    orcidx.write_table(TABLE, out)
    orcidx.rewrite(out.getvalue(), "memory://rewritten/b.orc", compression="snappy")
    assert orcidx.open("memory://rewritten/b.orc").read().equals(TABLE)
    with pytest.raises(InvalidQuery, match="overwrite"):
        orcidx.rewrite(out.getvalue(), "memory://rewritten/b.orc")


def test_statistics_that_cannot_be_merged_are_left_out():
    """If one of the sources has no bounds, the merged statistics have no bounds. If they had only one of the two
    bounds, ORC Java would skip all rows."""
    from orcidx.orc.kinds import TypeKind
    from orcidx.orc_writer.messages import blob, sint, uint

    whole = uint(1, 5) + blob(2, sint(1, -3) + sint(2, 9) + sint(3, 4)) + uint(10, 0)
    bare = uint(1, 5) + uint(10, 1)
    nulls = uint(1, 0) + uint(10, 1)
    assert merge_statistics(TypeKind.LONG, [whole, bare]) == uint(1, 10) + uint(10, 1)
    assert merge_statistics(TypeKind.LONG, [whole, nulls]) == uint(1, 5) + blob(
        2, sint(1, -3) + sint(2, 9) + sint(3, 4)
    ) + uint(10, 1)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_the_order_does_not_depend_on_memory(tmp_path, direction, kind):
    """Sorts with little and with much memory return the same order. NaN comes after all numbers and before nulls, and
    equal rows keep their order. In descending order, DuckDB alone would sort NaN first."""
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(5)
    choices = [float("nan"), None, 0.0, -0.0, float("inf"), -float("inf"), 1.5, -2.0]
    values = pa.array([choices[i] for i in rng.integers(0, len(choices), 5000)], kind)
    again = pa.array([choices[i] for i in rng.integers(0, len(choices), 5000)], kind)
    orcidx.write_table(pa.table({"x": values, "y": again, "row": range(5000)}), tmp_path / "a.orc")
    found = []
    for memory in (1000, 1 << 30):
        keys = [("x", direction), ("y", "ascending")]
        orcidx.rewrite(tmp_path / "a.orc", tmp_path / f"{memory}.orc", sort_by=keys, sort_memory=memory)
        found.append(orcidx.open(tmp_path / f"{memory}.orc").read())
    assert found[0]["row"].equals(found[1]["row"])
    last = found[0]["x"].to_pylist()
    assert last[-1] is None
    assert str(last[5000 - values.null_count - 1]) == "nan"


def test_null_unions_are_refused_where_rows_are_encoded(tmp_path: Path) -> None:
    """Arrow's unions have no validity bitmap, so null unions cannot be encoded again. They remain in stripes that are
    copied."""
    path = tmp_path / "u.orc"
    for rows, has_nulls in (([(3, 1), (1, None)], True), ([(3, 1), (1, "a")], False)):
        with path.open("wb") as out, pyorc.Writer(out, "struct<k:int,u:uniontype<int,string>>") as writer:
            for row in rows:
                writer.write(row)
        copied = orcidx.rewrite(path, tmp_path / "copy.orc", overwrite=True)
        assert copied.files[0].notes == ()
        with (tmp_path / "copy.orc").open("rb") as file:
            assert list(pyorc.Reader(file)) == rows
        target = tmp_path / f"sorted{has_nulls}.orc"
        if not has_nulls:
            assert orcidx.rewrite(path, target, sort_by="k").files[0].notes == ()
            continue
        for dry_run in (True, False):
            with pytest.raises(Unsupported, match=r"the union has nulls.*u\.orc.*column u"):
                orcidx.rewrite(path, target, sort_by="k", dry_run=dry_run)
        assert not target.exists()
        orcidx.rewrite(path, target, sort_by="k", schema=pa.schema([("k", pa.int32())]))
        assert orcidx.open(target).read()["k"].to_pylist() == [1, 3]


@pytest.mark.parametrize("root", ["int", "string"])
def test_merging_files_of_two_writers_whose_rows_are_no_structs(tmp_path: Path, root: str) -> None:
    """When files of two writers are merged, new indexes are made for the columns of a struct. These files have only a
    root column, which is no struct, so their rows are encoded again."""
    rows = [1, None, 5] if root == "int" else ["a", None, "b"]
    paths = [tmp_path / "a.orc", tmp_path / "b.orc"]
    for path in paths:
        with path.open("wb") as out, pyorc.Writer(out, root, row_index_stride=1000) as writer:
            for row in rows * 700:
                writer.write(row)
    data = bytearray(paths[1].read_bytes())
    postscript = len(data) - 1 - data[-1]
    data[data.index(b"\x30\x06", postscript) + 1] = 5  # the version of the writer
    paths[1].write_bytes(data)
    for verify in (True, False):
        target = tmp_path / f"c{verify}.orc"
        assert orcidx.rewrite(paths, target, merge=True, verify=verify).way == "encode"
        assert check_file(describe_source(target)).ok
        assert [list(row.values()) for row in orcidx.read_table(target).to_pylist()] == [[row] for row in rows * 1400]


@pytest.mark.parametrize("is_null", [False, True])
def test_unions_in_null_structs(tmp_path: Path, is_null: bool) -> None:
    """Rows can be sorted even if their struct is null and therefore has no union. Rows are refused only if their struct
    is not null, but its union is null."""
    path, target = tmp_path / "u.orc", tmp_path / "sorted.orc"
    rows = [(3, (1,)), (1, None), (2, (None if is_null else "x",))]
    with path.open("wb") as out, pyorc.Writer(out, "struct<k:int,s:struct<u:uniontype<int,string>>>") as writer:
        for row in rows:
            writer.write(row)
    if is_null:
        with pytest.raises(Unsupported, match=r"the union has nulls.*column s\.u"):
            orcidx.rewrite(path, target, sort_by="k")
        return
    orcidx.rewrite(path, target, sort_by="k")
    with target.open("rb") as file:
        assert list(pyorc.Reader(file)) == sorted(rows, key=lambda row: row[0])


def test_different_field_ids_are_not_merged(tmp_path: Path) -> None:
    """Files with different field ids are refused, because all rows of the merged file would have the field ids of the
    first file."""
    paths = []
    for number in ("1", "2"):
        fields = [pa.field("y", pa.int64(), metadata={"iceberg.id": number})]
        paths.append(tmp_path / f"{number}.orc")
        orcidx.write_table(pa.table({"in": pa.array([{"y": 5}], pa.struct(fields))}), paths[-1])
    with pytest.raises(InvalidQuery, match=r"different columns \(the field id of 'in\.y' is 1 and 2\)"):
        orcidx.rewrite(paths, tmp_path / "one.orc", merge=True)


@pytest.mark.parametrize("order", [None, "a"])
def test_field_ids_are_not_lost(tmp_path: Path, order: str | None) -> None:
    """If field ids were lost, readers that match columns by field id would read nulls."""
    field = pa.field("a", pa.int64(), metadata={"paimon.id": "7"})
    with_id, without = tmp_path / "with.orc", tmp_path / "without.orc"
    orcidx.write_table(pa.table([[1]], schema=pa.schema([field])), with_id)
    orcidx.write_table(pa.table({"a": [2]}), without)
    target = tmp_path / "one.orc"
    with pytest.raises(InvalidQuery, match=r"only the second has a field id of 'a'; name the second file first"):
        orcidx.rewrite([without, with_id], target, merge=True, sort_by=order)
    made = orcidx.rewrite([with_id, without], target, merge=True, sort_by=order)
    (note,) = [note for note in made.files[0].notes if "field id" in note]
    assert "without.orc has no field id of 'a', so its rows get the id 7" in note
    wanted = pa.schema([pa.field("n", pa.int64(), metadata={"field_id": "7"})])
    assert orcidx.scan(target, schema=wanted, match="field_id").to_table()["n"].to_pylist() == [1, 2]
    assert orcidx.rewrite([without, without], target, merge=True, overwrite=True).files[0].notes == ()
    orcidx.rewrite([without, with_id], target, merge=True, overwrite=True, schema=pa.schema([field]))
    assert orcidx.scan(target, schema=wanted, match="field_id").to_table()["n"].to_pylist() == [2, 1]


def test_timestamps_of_spark_are_not_merged_with_numbers(tmp_path: Path) -> None:
    """Spark stores timestamps without a zone as bigint, and only an attribute distinguishes them from numbers. The
    merge is refused, because the merged file would have the attributes of the first file."""
    times = pa.table({"in": pa.array([{"t": 5}], pa.struct([("t", pa.timestamp("us"))]))})
    numbers = pa.table({"in": pa.array([{"t": 5}], pa.struct([("t", pa.int64())]))})
    paths = [tmp_path / "a.orc", tmp_path / "b.orc"]
    orcidx.write_table(times, paths[0], spark=True)
    orcidx.write_table(numbers, paths[1])
    for sources in (paths, paths[::-1]):
        with pytest.raises(InvalidQuery, match=r"different columns \(the type of 'in\.t' is"):
            orcidx.rewrite(sources, tmp_path / "c.orc", merge=True)
    orcidx.rewrite([paths[0], paths[0]], tmp_path / "c.orc", merge=True)
    assert orcidx.read_table(tmp_path / "c.orc").to_pylist() == times.to_pylist() * 2


def test_files_of_different_partitions_are_not_merged(tmp_path: Path) -> None:
    """The values of partitions are only in the names of directories, so one file would lose them."""
    data = pa.table({"k": ["a", "b"], "v": [1, 2]})
    orcidx.write_dataset(data, tmp_path / "d", partition_by="k")
    orcidx.write_dataset(data, tmp_path / "d", partition_by="k", mode="append")
    for dry_run in (True, False):
        with pytest.raises(InvalidQuery, match=r"k=a.*k=b.*different partitions.*values of k"):
            orcidx.rewrite(tmp_path / "d", tmp_path / "all.orc", merge=True, dry_run=dry_run)
    for name in ("k=a", "k=b"):
        (tmp_path / "stored" / name).mkdir(parents=True)
        orcidx.write_table(data, tmp_path / "stored" / name / "one.orc")
    orcidx.rewrite(tmp_path / "stored", tmp_path / "all.orc", merge=True)
    assert orcidx.read_table(tmp_path / "all.orc").num_rows == 4, "these files store the values"
    orcidx.rewrite(tmp_path / "d" / "k=a", tmp_path / "e" / "k=a" / "all.orc", merge=True)
    orcidx.rewrite(tmp_path / "d", tmp_path / "f", sort_by="v")
    assert orcidx.scan(tmp_path / "e").to_table().to_pylist() == [{"v": 1, "k": "a"}] * 2
    assert orcidx.scan(tmp_path / "f").to_table().num_rows == 4


def test_filters_of_columns_that_the_schema_leaves_out_do_not_stop_a_rewrite(tmp_path: Path) -> None:
    """The source has filters of columns that the schema leaves out. The rewrite drops these filters, and raises an
    error only if the caller requests a filter of such a column."""
    data = pa.table({"a": [1, 2], "b": ["x", "y"], "in": pa.array([{"y": 1}, {"y": 2}])})
    source = make(tmp_path / "a.orc", data=data, bloom_filter_columns=["a", "b", "in.y"])
    schema = pa.schema([("a", pa.int64())])
    orcidx.rewrite(source, tmp_path / "b.orc", schema=schema)
    assert orcidx.open(tmp_path / "b.orc").read().to_pylist() == [{"a": 1}, {"a": 2}]
    assert bloom_columns_of(OrcReader(describe_source(tmp_path / "b.orc").open()), [0]) == {1}
    with pytest.raises(InvalidQuery, match="there is no column 'b'"):
        orcidx.rewrite(source, tmp_path / "c.orc", schema=schema, bloom_filters=["b"])


def test_columns_with_the_same_name(tmp_path: Path) -> None:
    """New bloom filters, and the notes about lookups, find columns by their names. A rewrite must also work if two
    columns have the same name."""
    data = pa.Table.from_arrays([pa.array(range(3000)), pa.array(map(str, range(3000)))], names=["a", "a"])
    source = make(tmp_path / "a.orc", data=data)
    for options in ({"bloom_filters": ["*"]}, {"row_index_stride": 500}):
        target = tmp_path / "b.orc"
        assert orcidx.rewrite(source, target, overwrite=True, **options).way == "encode"
        assert orcidx.open(target).read().equals(data)
        assert check_file(describe_source(target)).ok


def test_verifying_knows_the_forms_in_which_options_store_values(tmp_path: Path) -> None:
    """With these options, some values are stored in another form: CHAR values are padded, and timestamps without a zone
    are stored as numbers, as Spark does. The verification does not report these forms as errors."""
    words, times = pa.array(["ab", None, "c d"]), pa.array([1, None, -3_000_000], pa.timestamp("us"))
    data = pa.table(
        {
            "s": words,
            "t": times,
            "z": times.cast(pa.timestamp("us", "UTC")),
            "in": pa.StructArray.from_arrays([words, times], ["s", "t"], mask=pa.array([False, True, False])),
            "l": pa.array([[1, None], None, [2]], pa.list_(pa.timestamp("us"))),
            "m": pa.array([[("a", 5)], None, []], pa.map_(pa.string(), pa.timestamp("us"))),
        }
    )
    source = make(tmp_path / "a.orc", data=data)
    target = tmp_path / "b.orc"
    for options in ({"spark": True}, {"types": {"s": "char(5)", "in.s": "char(4)"}}):
        assert orcidx.rewrite(source, target, overwrite=True, **options).way == "encode"
        found = orcidx.read_table(target, char="trimmed", timestamp_unit="us")
        assert found["z"].cast(data["z"].type).equals(data["z"])
        assert found.drop_columns("z").to_pylist() == data.drop_columns("z").to_pylist()
    orcidx.rewrite(source, target, overwrite=True, types={"s": "char(5)"}, spark=True, sort_by=[("t", "descending")])
    assert orcidx.open(target).read()["s"].to_pylist() == ["ab   ", "c d  ", None]
    with pytest.raises(orcidx.ValueOutOfRange, match=r"row 2.*does not fit into char\(2\).*column s"):
        orcidx.rewrite(source, target, overwrite=True, types={"s": "char(2)"})


def test_unions_are_verified_without_a_warning(tmp_path: Path) -> None:
    children = [pa.array([1, 2]), pa.array(["a"]), pa.array([0.5])]
    union = pa.UnionArray.from_dense(pa.array([0, 1, 2, 0], pa.int8()), pa.array([0, 0, 0, 1], pa.int32()), children)
    source = make(tmp_path / "a.orc", data=pa.table({"k": [4, 3, 2, 1], "u": union}))
    orcidx.rewrite(source, tmp_path / "b.orc", sort_by="k")
    assert orcidx.open(tmp_path / "b.orc").read()["u"].to_pylist() == [2, 0.5, "a", 1]
