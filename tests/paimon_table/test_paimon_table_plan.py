"""Plans of Paimon tables: snapshots, manifests, pruning, schema evolution, merging. Java wrote some of the tables, and
the tests write the others."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import pickle
import random
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import obstore
import obstore.store
import pyarrow as pa
import pyarrow.fs
import pytest
from goldens import FIXTURES, GOLDEN_PAIMON, roots
from memory_files import MemoryFiles
from paimon_tables import PaimonTable, serialized

from orcidx.errors import CorruptFile, FileGone, InvalidQuery, OrcidxError, Unsupported
from orcidx.paimon import DeletionVector, open_table, write_deletion_vectors
from orcidx.paimon.data_types import DataField, parse_type
from orcidx.paimon.hash_index import bucket_of_hash, key_hash
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.paimon_table.metadata.manifest import RowStats
from orcidx.paimon_table.metadata.partition_path import partition_path
from orcidx.paimon_table.read.bucket_pruning import bucket_filter
from orcidx.paimon_table.read.file_pruning import Bounds, FileBounds, stats_bounds
from orcidx.predicate import bind, col, parse
from orcidx.predicate.literals import domain_of
from orcidx.pruning.selection import RowSelection
from orcidx.storage.hadoop_store import hadoop_source

FROZEN = FIXTURES / "paimon" / "tables" / "db.db"


def predicate(recorded: list[Any]) -> Any:
    op, *arguments = recorded
    if op == "and":
        return predicate(arguments[0]) & predicate(arguments[1])
    if op == "or":
        return predicate(arguments[0]) | predicate(arguments[1])
    if op == "isnull":
        return col(arguments[0]).is_null()
    return col(arguments[0]) == arguments[1] if op == "eq" else col(arguments[0]) > arguments[1]


def recorded_tables(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((root / "tables" / "expected").glob("*.json"))]


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_tables_list_their_files_and_deletion_vectors(root: Path) -> None:
    for recorded in recorded_tables(root):
        table = open_table(root / "tables" / "db.db" / recorded["table"])
        assert table.snapshot_id == recorded["latest_snapshot"]
        assert table.table_schema.options == recorded["options"]
        files = {file.entry.name: file for file in table.files()}
        assert sorted(files) == sorted(file["file_name"] for file in recorded["data_files"])
        for expected in recorded["data_files"]:
            file = files[expected["file_name"]]
            directory = f"{expected['partition_path']}bucket-{expected['bucket']}"
            assert Path(file.path).relative_to(table.path).as_posix() == f"{directory}/{file.entry.name}"
            assert Path(file.path).stat().st_size == file.size
            assert file.format == "orc"
            assert file.rows == expected["row_count"]
            assert file.level == expected["level"]
            assert file.schema_id == expected["schema_id"]
            assert len(file.embedded_index or b"") == (expected["embedded_index_length"] or 0)
            assert [Path(file.index.name).name for _ in "x" if file.index] == expected["extra_files"]
        for split in recorded["splits"]:
            for name, deletion in split["files_with_deletion"]:
                found = files[name].deletion
                assert (found is None) == (deletion is None)
                if found is not None:
                    assert found.path.endswith(deletion[0])
                    assert [found.offset, found.length, found.cardinality] == deletion[1:]
        positions = {
            vector["data_file"]: vector["positions"]
            for index in recorded["index_manifest"]
            for vector in index.get("dv_ranges", [])
        }
        for name, file in files.items():
            assert (file.deletion is not None) == (name in positions)
            assert file.deletion is None or list(file.deletion.read()) == positions[name]


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_java_tables_are_planned_without_losing_a_file_with_rows(root: Path) -> None:
    for recorded in recorded_tables(root):
        table = open_table(root / "tables" / "db.db" / recorded["table"])
        if not all(split["raw_convertible"] for split in recorded["splits"]):
            with pytest.raises(Unsupported, match=r"bucket 4 must be merged by primary key: keys of .* overlap"):
                table.plan()
            continue
        everything = table.plan()
        assert {task.file.entry.name for task in everything.tasks} == {
            name for split in recorded["splits"] for name, _ in split["files_with_deletion"]
        }
        for query in recorded.get("queries", []):
            plan = table.plan(predicate(query["filter"]))
            assert len(plan.tasks) + len(plan.skipped) == len(everything.tasks)
            assert bool(plan.tasks) or not query["rows"]
            assert all(skipped.reasons for skipped in plan.skipped)
            assert not plan.notes
        assert pickle.loads(pickle.dumps(everything)) == everything


def test_a_merging_bucket_that_the_predicate_excludes_does_not_matter() -> None:
    table = open_table(FROZEN / "pk_dynamic_bucket")
    assert len(table.files()) == 7
    with pytest.raises(Unsupported, match="compact the table"):
        table.plan(col("v") == 10**9)
    with pytest.raises(InvalidQuery, match="nope"):
        table.plan(col("nope") == 1)


def test_level_zero_is_not_visible_with_deletion_vectors() -> None:
    table = open_table(FROZEN / "pk_dv32", snapshot_id=3)
    plan = table.plan()
    assert all(task.file.level > 0 for task in plan.tasks)
    hidden = [skipped for skipped in plan.skipped if skipped.file.level == 0]
    assert len(hidden) == sum(file.level == 0 for file in table.files())
    assert all("not visible" in str(skipped.reasons[0]) for skipped in hidden)


def test_time_travel() -> None:
    path = FROZEN / "append_dv32"
    assert [len(open_table(path, snapshot_id=n).files()) for n in (1, 2, 3, 4)] == [1, 2, 2, 2]
    tables = [open_table(path, snapshot_id=n) for n in (2, 3)]
    deletions = [[file.deletion and file.deletion.cardinality for file in table.files()] for table in tables]
    assert deletions[0] == [None, None]
    assert deletions[1] != [None, None]
    with pytest.raises(InvalidQuery, match="snapshot 9"):
        open_table(path, snapshot_id=9)
    assert open_table(path).schema == pa.schema(
        [("id", pa.int32()), ("s", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us"))]
    )


def test_tables_in_other_storages() -> None:
    memory, store = fsspec.filesystem("memory"), obstore.store.MemoryStore()
    frozen = FROZEN / "append_partitioned"
    for path in sorted(frozen.rglob("*")):
        if path.is_file():
            name = f"db/t/{path.relative_to(frozen).as_posix()}"
            memory.pipe(f"/{name}", path.read_bytes())
            obstore.put(store, name, path.read_bytes())
    expected = open_table(frozen).scan(where=col("dt") == "a b/c=d").to_table()
    assert expected.num_rows == 20
    by_url = open_table("memory://db/t")
    assert all(file.path.startswith("memory://db/t/dt=") for file in by_url.files())
    local = pyarrow.fs.LocalFileSystem()
    for table in (
        by_url,
        open_table("/db/t", filesystem=memory),
        open_table("db/t", filesystem=store),
        open_table((store, "db/t")),
        open_table(str(frozen), filesystem=local),
        open_table(frozen.as_uri()),
        pickle.loads(pickle.dumps(by_url)),
    ):
        assert table.scan(where=col("dt") == "a b/c=d").to_table() == expected
    memory.rm("/db/t/snapshot/LATEST")
    obstore.delete(store, "db/t/snapshot/LATEST")
    assert open_table("memory://db/t").snapshot_id == open_table("db/t", filesystem=store).snapshot_id == 1
    memory.rm("/db", recursive=True)
    with pytest.raises(InvalidQuery, match="directory"):
        open_table(b"bytes")


# ---------------------------------------------------------------------- own tables


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "t")


def rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


def names(plan: Any) -> list[str]:
    return [task.file.entry.name for task in plan.tasks]


def test_no_table_and_no_snapshot(table: PaimonTable, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a Paimon table"):
        open_table(tmp_path / "nothing")
    table.schema({0: ("a", "INT")})
    empty = open_table(table.path)
    assert empty.snapshot_id is None
    assert empty.files() == []
    assert empty.plan(col("a") == 1).tasks == ()


def test_hints_may_be_stale_or_missing(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    table.add("data-0.orc", rows(a=pa.array([1], pa.int32())))
    for _ in range(3):
        table.commit()
    latest = table.path / "snapshot" / "LATEST"
    for hint, expected in (("1", 3), ("2", 3), ("junk", 3), ("", 3), ("3\n", 3), ("77", 3)):
        latest.write_text(hint)
        assert open_table(table.path).snapshot_id == expected
    latest.unlink()
    (table.path / "snapshot" / "snapshot-1").unlink()
    assert open_table(table.path).snapshot_id == 3
    shutil.rmtree(table.path / "snapshot")
    assert open_table(table.path).snapshot_id is None
    (table.path / "snapshot").mkdir()
    latest.write_text("5")
    with pytest.raises(CorruptFile, match="LATEST refers to snapshot 5"):
        open_table(table.path)


def test_a_newer_schema_than_the_snapshots_counts_but_not_in_time_travel(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    table.add("data-0.orc", rows(a=pa.array([1], pa.int32())))
    table.commit()
    table.schema({0: ("b", "INT")})
    assert open_table(table.path).schema.names == ["b"]
    assert open_table(table.path, snapshot_id=1).schema.names == ["a"]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_deletes_cancel_adds_by_the_full_identity(tmp_path: Path, codec: str) -> None:
    table = PaimonTable(tmp_path / "t", codec=codec)
    table.schema({0: ("a", "INT")})
    data = rows(a=pa.array([1], pa.int32()))
    first = table.add("data-0.orc", data)
    table.add("data-1.orc", data)
    rewritten = {**first, "_FILE": {**first["_FILE"], "_EXTRA_FILES": ["data-0.orc.index"]}}
    table.entries.append(rewritten)
    table.delete(first)
    upgraded = table.add("data-2.orc", data)
    table.entries.append({**upgraded, "_FILE": {**upgraded["_FILE"], "_LEVEL": 5}})
    table.delete(upgraded)
    for lists in (1, 3):
        table.commit(lists=lists)
        files = open_table(table.path).files()
        assert [(file.entry.name, file.level) for file in files] == [
            ("data-1.orc", 0),
            ("data-0.orc", 0),
            ("data-2.orc", 5),
        ]
        assert files[1].index is not None
        assert files[1].index.name.endswith("t/bucket-0/data-0.orc.index")


@pytest.mark.parametrize("kinds", [(0, 1, 0), (1, 0, 0)])
@pytest.mark.parametrize("merged_from", ["1", "100"])
def test_a_file_that_was_added_again_is_live(table: PaimonTable, merged_from: str, kinds: tuple[int, ...]) -> None:
    """A scan returns the rows of a file that was added again, because the snapshot also counts them. A change of the
    table succeeds."""
    table.schema({0: ("a", "INT")}, options={"bucket": "-1", "manifest.merge-min-count": merged_from})
    added = table.add("data-0.orc", rows(a=pa.array([1], pa.int32())))
    table.entries[:] = [{**added, "_KIND": kind} for kind in kinds]
    table.add("data-1.orc", rows(a=pa.array([2], pa.int32())))
    table.commit(lists=2)
    assert sorted(open_table(table.path).scan().to_table()["a"].to_pylist()) == [1, 2]
    for number in (3, 4):
        open_table(table.path).append(rows(a=pa.array([number], pa.int32())))
        assert sorted(open_table(table.path).scan().to_table()["a"].to_pylist()) == list(range(1, number + 1))


def test_a_file_that_is_added_twice_is_damage_for_every_reader(table: PaimonTable) -> None:
    """A scan and an append both refuse a table in which a file is added twice."""
    table.schema({0: ("a", "INT")}, options={"bucket": "-1"})
    table.entries.append({**table.add("data-0.orc", rows(a=pa.array([1], pa.int32())))})
    table.commit()
    with pytest.raises(CorruptFile, match=r"data-0\.orc is added twice"):
        open_table(table.path).scan().to_table()
    with pytest.raises(CorruptFile, match=r"data-0\.orc is added twice"):
        open_table(table.path).append(rows(a=pa.array([3], pa.int32())))


def test_layouts(table: PaimonTable, tmp_path: Path) -> None:
    table.schema({0: ("a", "INT")}, options={"data-file.path-directory": "data", "index-file-in-data-file-dir": "true"})
    data = rows(a=pa.array([1, 2], pa.int32()))
    elsewhere = (tmp_path / "elsewhere" / "data-1.orc").as_posix()
    table.add("data-0.orc", data, directory="data/bucket-0")
    table.add("data-1.orc", data, _EXTERNAL_PATH=elsewhere, _EXTRA_FILES=["data-1.orc.index"])
    table.add("data-2.orc", data, _BUCKET=-2, directory="data/bucket-postpone")
    ranges = write_deletion_vectors(table.path / "data" / "bucket-0" / "index-7", {"data-0.orc": DeletionVector([1])})
    table.add_deletions("index-7", ranges)
    ranges = write_deletion_vectors(tmp_path / "index-8", {"data-1.orc": DeletionVector([0])})
    table.add_deletions("index-8", ranges, _EXTERNAL_PATH=(tmp_path / "index-8").as_posix())
    table.commit()
    files = open_table(table.path).files()
    assert Path(files[0].path) == table.path / "data" / "bucket-0" / "data-0.orc"
    assert files[1].path == elsewhere
    assert files[1].index.name == elsewhere + ".index"
    assert Path(files[2].path).parent.name == "bucket-postpone"
    assert [list(file.deletion.read()) for file in files[:2]] == [[1], [0]]


@pytest.mark.parametrize(
    "place", ["s3://secret/data-0.orc", "http://127.0.0.1:9/x.orc", "memory://x/y.orc", "zip::file:///tmp/a.zip"]
)
@pytest.mark.parametrize("what", ["data", "deletions"])
def test_files_in_other_stores_need_trust(table: PaimonTable, place: str, what: str) -> None:
    """Anyone who can write the table can put any path into a manifest, and the file there would be read with the
    credentials of the reader. So files in other stores are refused, unless ``external_paths`` allows them."""
    table.schema({0: ("a", "INT")})
    given = {"_EXTERNAL_PATH": place} if what == "data" else {}
    table.add("data-0.orc", rows(a=pa.array([1, 2], pa.int32())), **given)
    if what == "deletions":
        ranges = write_deletion_vectors(table.path / "index" / "index-0", {"data-0.orc": DeletionVector([1])})
        table.add_deletions("index-0", ranges, _EXTERNAL_PATH=place)
    table.commit()
    with pytest.raises(InvalidQuery, match=r"another store.*external_paths=\[\.\.\.\].*--external-paths"):
        open_table(table.path).files()
    if "::" not in place:
        trusted = open_table(table.path, external_paths=["s3://other", place.rpartition("/")[0]])
        assert trusted.files()[0].path == place or what == "deletions"
        with pytest.raises(InvalidQuery, match="another store"):
            open_table(table.path, external_paths=["s3://sec", place]).files()
    with pytest.raises(InvalidQuery, match="must be a list"):
        open_table(table.path, external_paths="s3://secret")


def test_external_files_in_the_file_systems_of_a_session(table: PaimonTable) -> None:
    """External files are read if they have the table's scheme and host. Files with another scheme or host are
    refused."""
    table.schema({0: ("a", "INT")})
    elsewhere = "hdfs://node:8020/else where/data-0.orc"
    table.add("data-0.orc", rows(a=pa.array([1, 2], pa.int32())), _EXTERNAL_PATH=elsewhere, _EXTRA_FILES=["x.index"])
    table.commit()
    held = {one.relative_to(table.path).as_posix(): one.read_bytes() for one in table.path.rglob("*") if one.is_file()}
    for root in ("hdfs://node:8020/t", "hdfs://other/t", "s3a://node:8020/t"):
        files = MemoryFiles()
        files.held = {f"{root}/{name}": data for name, data in held.items()}
        opened = open_table(hadoop_source(root, files))
        if not root.startswith("hdfs://node"):
            with pytest.raises(InvalidQuery, match=r"another store, 'hdfs://node.*Spark session"):
                opened.files()
            continue
        (found,) = opened.files()
        assert found.path == found.source.location == elsewhere
        assert found.index is not None
        assert found.index.name == "hdfs://node:8020/else where/x.index"
        assert found.source.filesystem is files


def test_a_layout_that_leads_out_of_the_table_is_refused(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")}, options={"data-file.path-directory": "x/../../other"})
    table.add("data-0.orc", rows(a=pa.array([1, 2], pa.int32())), directory="bucket-0")
    table.commit()
    with pytest.raises(CorruptFile, match="is outside of the table"):
        open_table(table.path).files()


def test_wrong_cardinality_and_second_vector(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    table.add("data-0.orc", rows(a=pa.array([1, 2], pa.int32())))
    ranges = write_deletion_vectors(table.path / "index" / "index-0", {"data-0.orc": DeletionVector([1])})
    table.add_deletions("index-0", ranges)
    table.deletions[0]["_DELETIONS_VECTORS_RANGES"][0]["_CARDINALITY"] = 2
    table.commit()
    (file,) = open_table(table.path).files()
    with pytest.raises(CorruptFile, match="should have 2 according to the manifest"):
        file.deletion.read()
    table.add_deletions("index-0", ranges)
    table.commit()
    with pytest.raises(CorruptFile, match="two deletion vectors"):
        open_table(table.path).files()


def test_an_empty_text_of_a_partition_is_text(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("dt", "STRING")}, partition_keys=("dt",))
    empty = serialized(["STRING"], [""])
    data = rows(a=pa.array([1], pa.int32()), dt=pa.array([""]))
    table.add("data-0.orc", data, partition=empty, directory="dt=__DEFAULT_PARTITION__/bucket-0")
    table.commit({"_MIN_VALUES": empty, "_MAX_VALUES": empty, "_NULL_COUNTS": [0]})
    assert open_table(table.path).files()[0].partition == {"dt": ""}


def test_partitions_prune_files_and_manifests(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("dt", "STRING"), 2: ("n", "INT")}, partition_keys=("dt", "n"))
    for i, (dt, n) in enumerate([("x", 1), ("y", 2), (None, 3), ("x", None)]):
        data = rows(a=pa.array([i], pa.int32()), dt=pa.array([dt], pa.string()), n=pa.array([n], pa.int32()))
        default = "__DEFAULT_PARTITION__"
        table.add(
            f"data-{i}.orc",
            data,
            partition=serialized(["STRING", "INT"], [dt, n]),
            directory=f"dt={dt or default}/n={n or default}/bucket-0",
        )
    stats = {
        "_MIN_VALUES": serialized(["STRING", "INT"], ["x", 1]),
        "_MAX_VALUES": serialized(["STRING", "INT"], ["y", 3]),
        "_NULL_COUNTS": [1, 1],
    }
    table.commit(stats)
    opened = open_table(table.path)
    assert all(Path(file.path).exists() for file in opened.files())
    assert [file.partition for file in opened.files()][3] == {"dt": "x", "n": None}
    assert names(opened.plan(col("dt") == "x")) == ["data-0.orc", "data-3.orc"]
    assert names(opened.plan(col("dt") != "x")) == ["data-1.orc"]
    assert names(opened.plan(col("dt").is_null())) == ["data-2.orc"]
    assert names(opened.plan(col("dt").starts_with("y") | (col("n") == 3))) == ["data-1.orc", "data-2.orc"]
    assert names(opened.plan((col("n") < 2) | col("n").is_null())) == ["data-0.orc", "data-3.orc"]
    fresh = open_table(table.path)
    assert fresh.plan(col("n") == 7).tasks == ()
    assert not fresh.view._entries  # the manifest list excludes the manifest, so its entries are not read


def test_statistics_prune_through_schema_evolution(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("b", "STRING"), 2: ("gone", "INT"), 3: ("f", "FLOAT")})
    data = rows(
        a=pa.array([1, 5], pa.int32()),
        b=pa.array(["k", "m"]),
        gone=pa.array([7, 7], pa.int32()),
        f=pa.array([1.0, 2.0], pa.float32()),
    )
    table.add("old.orc", data)
    table.schema({3: ("g", "DOUBLE"), 0: ("a2", "BIGINT"), 4: ("gone", "INT"), 1: ("b", "STRING")})
    table.add(
        "new.orc",
        rows(
            g=pa.array([1.0, 9.0]), a2=pa.array([10, 20]), gone=pa.array([1, None], pa.int32()), b=pa.array(["z", None])
        ),
    )
    table.commit()
    opened = open_table(table.path)
    assert names(opened.plan(col("a2") <= 5)) == ["old.orc"]
    assert names(opened.plan(col("a2") > 5)) == ["new.orc"]
    assert names(opened.plan(col("a2").between(6, 9))) == []
    assert names(opened.plan(col("gone") == 7)) == []
    assert names(opened.plan(col("gone").is_null())) == ["old.orc", "new.orc"]
    assert names(opened.plan(col("gone").is_not_null())) == ["new.orc"]
    assert names(opened.plan(col("b").starts_with("l"))) == ["old.orc"]
    assert names(opened.plan(col("g") > 5)) == ["old.orc", "new.orc"], "bounds of another float type are not used"
    (old, _) = opened.plan().tasks
    assert [(m.field.name, m.file_field and m.file_field.name, m.is_same) for m in old.mapping] == [
        ("g", "f", False),
        ("a2", "a", False),
        ("gone", None, False),
        ("b", "b", True),
    ]
    table.schema({0: ("a2", "STRING")})
    with pytest.raises(Unsupported, match="cannot cast between"):
        open_table(table.path).plan()


def test_dense_statistics_name_their_columns(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT"), 1: ("b", "INT")})
    data = rows(a=pa.array([1], pa.int32()), b=pa.array([50], pa.int32()))
    stats = {"_MIN_VALUES": serialized(["INT"], [50]), "_MAX_VALUES": serialized(["INT"], [50]), "_NULL_COUNTS": [0]}
    table.add("data-0.orc", data, _VALUE_STATS=stats, _VALUE_STATS_COLS=["b"])
    table.add("data-1.orc", data, _VALUE_STATS={**stats, "_NULL_COUNTS": None}, _VALUE_STATS_COLS=["b"])
    none = {"_MIN_VALUES": serialized([], []), "_MAX_VALUES": serialized([], []), "_NULL_COUNTS": None}
    table.add("data-2.orc", data, _VALUE_STATS=none, _VALUE_STATS_COLS=[])
    table.commit()
    opened = open_table(table.path)
    assert names(opened.plan(col("b") == 1)) == ["data-2.orc"]
    assert names(opened.plan(col("b").is_null())) == ["data-1.orc", "data-2.orc"]
    assert names(opened.plan(col("a") == 3)) == ["data-0.orc", "data-1.orc", "data-2.orc"]


def test_damaged_statistics_keep_the_file_and_say_so(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    data = rows(a=pa.array([1], pa.int32()))
    good = {"_MIN_VALUES": serialized(["INT"], [1]), "_MAX_VALUES": serialized(["INT"], [1]), "_NULL_COUNTS": [0]}
    for i, change in enumerate(
        [
            {"_MIN_VALUES": b"\x00"},
            {"_MIN_VALUES": serialized(["INT"], [3])},
            {"_NULL_COUNTS": [9]},
            {"_MAX_VALUES": b"\x7f\xff\xff\xff"},
            {"_MAX_VALUES": serialized([], [])},
        ]
    ):
        table.add(f"data-{i}.orc", data, _VALUE_STATS={**good, **change})
    table.commit()
    plan = open_table(table.path).plan(col("a") == 77)
    assert len(plan.tasks) == 5
    assert {note.kind for note in plan.notes} == {"damaged"}


def test_bucket_pruning(table: PaimonTable) -> None:
    table.schema({0: ("k", "STRING NOT NULL"), 1: ("v", "INT")}, options={"bucket": "4", "bucket-key": "k"})
    keys = [f"key {i}" for i in range(40)]
    buckets = bucket_of_hash(key_hash(pa.record_batch([pa.array(keys)], ["k"]), ["STRING"]), 4)
    for bucket in range(4):
        members = [key for key, b in zip(keys, buckets) if b == bucket]
        data = rows(k=pa.array(members), v=pa.array([bucket] * len(members), pa.int32()))
        none = {"_MIN_VALUES": serialized([], []), "_MAX_VALUES": serialized([], []), "_NULL_COUNTS": None}
        table.add(
            f"data-{bucket}.orc",
            data,
            directory=f"bucket-{bucket}",
            _BUCKET=bucket,
            _TOTAL_BUCKETS=4,
            _VALUE_STATS=none,
            _VALUE_STATS_COLS=[],
        )
    table.commit()
    opened = open_table(table.path)
    for key, bucket in zip(keys, buckets):
        plan = opened.plan((col("k") == key) & (col("v") >= 0))
        assert names(plan) == [f"data-{bucket}.orc"]
    assert "another bucket" in str(plan.skipped[0].reasons[0])
    wanted = {f"data-{b}.orc" for b in buckets[:2]}
    assert set(names(opened.plan(col("k").is_in(keys[:2])))) == wanted
    assert len(opened.plan((col("k") == keys[0]) | (col("v") == 1)).tasks) == 4
    assert len(opened.plan(col("k") != keys[0]).tasks) == 4


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("INT", "BIGINT", [-1, -5, 3, -7]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)]),
        ("DECIMAL(10, 2)", "DECIMAL(20, 2)", [decimal.Decimal(text) for text in ("1.25", "7.50", "-3.00")]),
    ],
)
def test_files_are_not_skipped_by_the_bucket_if_the_type_of_the_key_has_changed(
    table: PaimonTable, old: str, new: str, values: list[Any]
) -> None:
    options = {"bucket": "4", "bucket-key": "k"}
    table.schema({0: ("k", old), 1: ("v", "INT")}, options=options)
    kind = parse_type(old)
    keys = pa.array(values, kind.arrow_type)
    buckets = bucket_of_hash(key_hash(pa.record_batch([keys], ["k"]), [kind]), 4).tolist()
    for bucket in set(buckets):
        places = [i for i, found in enumerate(buckets) if found == bucket]
        data = pa.table({"k": keys.take(places), "v": pa.array(places, pa.int32())})
        name = f"data-{bucket}.orc"
        table.add(name, data, directory=f"bucket-{bucket}", _BUCKET=bucket, _TOTAL_BUCKETS=4)
    table.schema({0: ("k", new), 1: ("v", "INT")}, options=options)
    table.commit()
    opened = open_table(table.path)
    for i, value in enumerate(values):
        assert opened.scan(where=col("k") == value).to_table()["v"].to_pylist() == [i]


def key_table(table: PaimonTable, files: list[tuple[int, int, int, int]], **options: str) -> Any:
    """Makes a table with primary keys. Each item of ``files`` is (level, smallest key, largest key, number of deleted
    rows)."""
    table.schema({0: ("k", "INT NOT NULL"), 1: ("v", "INT")}, primary_keys=("k",), options=options)
    for i, (level, low, high, deleted) in enumerate(files):
        data = rows(k=pa.array([low, high], pa.int32()), v=pa.array([i, i], pa.int32()))
        keys = (["INT"], [low], [high])
        table.add(f"data-{i}.orc", data, keys=keys, _LEVEL=level, _DELETE_ROW_COUNT=deleted, _TOTAL_BUCKETS=1)
    table.commit()
    return open_table(table.path)


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        ([(0, 1, 5, 0)], {}, None),
        ([(0, 1, 5, 1)], {}, "1 deletions"),
        ([(5, 1, 5, 0), (5, 6, 9, 0)], {}, None),
        ([(5, 1, 5, 0), (5, 6, 9, 2)], {}, "2 deletions"),
        ([(0, 1, 5, 0), (5, 6, 9, 0), (4, -3, 0, 0)], {}, None),
        ([(4, 1, 5, 0), (5, 5, 9, 0)], {}, "overlap"),
        ([(4, 1, 9, 0), (5, 3, 4, 0)], {}, "overlap"),
        ([(4, 1, 9, 0), (5, 3, 4, 0)], {"deletion-vectors.enabled": "true"}, None),
        ([(4, 1, 9, 0), (5, 3, 4, 0), (0, 1, 9, 1)], {"deletion-vectors.enabled": "true"}, None),
        (
            [(4, 1, 9, 0), (0, 3, 4, 0)],
            {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
            "overlap",
        ),
        ([(4, 1, 9, 0), (5, 3, 4, 0), (0, 1, 9, 0)], {"merge-engine": "first-row"}, None),
        ([(0, 9, 1, 0)], {}, "greater than its largest"),
    ],
)
def test_which_key_tables_need_merging(
    table: PaimonTable, files: list[tuple[int, int, int, int]], options: dict[str, str], problem: str | None
) -> None:
    opened = key_table(table, files, **options)
    if problem is None:
        hidden = bool(options)  # with deletion vectors or first-row, files of level 0 are not read
        assert names(opened.plan()) == [f"data-{i}.orc" for i, file in enumerate(files) if file[0] or not hidden]
    else:
        with pytest.raises(Unsupported, match=problem):
            opened.plan()
        with pytest.raises(Unsupported, match=problem):
            opened.plan(col("v") == 10**6)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data-evolution.enabled", "true"),
        ("type", "format-table"),
        ("branch", "b1"),
        ("query-auth.enabled", "true"),
        ("chain-table.enabled", "true"),
        ("scan.fallback-branch", "b1"),
        ("scan.mode", "compacted-full"),
        ("scan.snapshot-id", "1"),
        ("incremental-between", "1,2"),
    ],
)
def test_options_that_change_rows_are_refused(table: PaimonTable, option: str, value: str) -> None:
    table.schema({0: ("a", "INT")}, options={option: value})
    table.commit()
    with pytest.raises(Unsupported, match=f"option {option} = '{value}'"):
        open_table(table.path).plan()
    if option.startswith(("scan.mode", "scan.snapshot", "incremental")):
        assert open_table(table.path, snapshot_id=1).scan().count_rows() == 0


def test_what_is_not_known_is_noted(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")}, options={"option.of.tomorrow": "1", "scan.mode": "latest", "bucket": "-1"})
    table.add("data-1.orc", pa.table({"a": pa.array([1], pa.int32())}))
    table.commit()
    schema = table.path / "schema" / "schema-0"
    schema.write_text(json.dumps(json.loads(schema.read_text()) | {"keyOfTomorrow": 1}))
    snapshot = table.path / "snapshot" / "snapshot-1"
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"fieldOfTomorrow": 1, "nothing": None}))
    scan = open_table(table.path).scan()
    assert [note.text for note in scan.notes] == [
        "orcidx does not know and ignores: option 'option.of.tomorrow', key 'keyOfTomorrow' of schema 0, "
        "field 'fieldOfTomorrow' of snapshot 1"
    ]
    assert scan.to_table()["a"].to_pylist() == [1]


# ---------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("text", "value", "legacy", "plain"),
    [
        ("STRING", b"a b/c=d", "a b%2Fc%3Dd", None),
        ("STRING", b"\"#%'*:?\\{}[]^\x7f\n", "%22%23%25%27%2A%3A%3F%5C%7B%7D%5B%5D%5E%7F%0A", None),
        ("STRING", b"a\0b", "a%00b", None),
        ("STRING", b"\0", "%00", None),
        ("STRING", b"  ", "__DEFAULT_PARTITION__", None),
        ("STRING", None, "__DEFAULT_PARTITION__", None),
        ("BOOLEAN", True, "true", None),
        ("BIGINT", -5, "-5", None),
        ("DECIMAL(5, 2)", decimal.Decimal("1.50"), "1.50", None),
        ("DECIMAL(38, 10)", decimal.Decimal("0E-10"), "0.0000000000", None),
        ("DATE", 19723, "19723", "2024-01-01"),
        ("TIMESTAMP(3)", 1704067200_000_000000, "2024-01-01T00%3A00", "2024-01-01 00%3A00%3A00.000"),
        ("TIMESTAMP(6)", 1704067201_000_100000, "2024-01-01T00%3A00%3A01.000100", "2024-01-01 00%3A00%3A01.000100"),
        ("TIMESTAMP(0)", -1_000_000_000, "1969-12-31T23%3A59%3A59", "1969-12-31 23%3A59%3A59"),
        ("TIMESTAMP(3)", 1_456_700, "1970-01-01T00%3A00%3A00.001456700", "1970-01-01 00%3A00%3A00.0014567"),
        ("TIMESTAMP(3)", -62135596800_000_000_000, "0001-01-01T00%3A00", "0001-01-01 00%3A00%3A00.000"),
        ("TIME(0)", 3_661_001_000_000, "3661001", "01%3A01%3A01"),
        ("TIME(1)", 1_000_000, "1", "00%3A00%3A00.0"),
        ("TIME(2)", 1_000_000, "1", "00%3A00%3A00.00"),
        ("TIME(3)", 10_000_000, "10", "00%3A00%3A00.01"),
        ("TIME(9)", 86_399_999_000_000, "86399999", "23%3A59%3A59.999"),
        ("STRING", "\u00a0".encode(), "\u00a0", None),
        ("STRING", b"\x1c\x0b ", "__DEFAULT_PARTITION__", None),
        ("STRING", b"a\xed\xa0\x80b\xff", "a\ufffdb\ufffd", None),
    ],
)
def test_partition_directories(text: str, value: Any, legacy: str, plain: str | None) -> None:
    field = DataField(0, "p", parse_type(text))
    for is_legacy, expected in ((True, legacy), (False, plain or legacy)):
        path = partition_path([field], [value], default_name="__DEFAULT_PARTITION__", legacy=is_legacy)
        assert path == f"p={expected}/"
    assert partition_path([], [], default_name="x", legacy=True) == ""


def test_instants_are_named_like_local_times_by_the_legacy_names_alone() -> None:
    field, value = DataField(0, "p", parse_type("TIMESTAMP_LTZ(3)")), 1704067200_000_000000
    assert partition_path([field], [value], default_name="x", legacy=True) == "p=2024-01-01T00%3A00/"
    with pytest.raises(Unsupported, match="the time of its own zone"):
        partition_path([field], [value], default_name="x", legacy=False)


def test_partitions_that_a_jvm_names_have_no_known_directory() -> None:
    with pytest.raises(Unsupported, match=r"FLOAT depends on the JVM that writes it: Java before 19"):
        partition_path([DataField(0, "p", parse_type("FLOAT"))], [1.0], default_name="x", legacy=True)
    with pytest.raises(Unsupported, match="years 1 to 9999"):
        partition_path([DataField(0, "p", parse_type("DATE"))], [10**7], default_name="x", legacy=False)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("VARIANT", "VARIANT"),
        ("BLOB NOT NULL", "BLOB NOT NULL"),
        ("GEOMETRY('srid:4326') NOT NULL", r"GEOMETRY\('srid:4326'\) NOT NULL"),
        ({"type": "VECTOR", "element": "FLOAT", "length": 4}, "VECTOR"),
        ({"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "VARIANT"}]}, "ROW<`x` VARIANT>"),
    ],
)
def test_a_column_of_a_type_that_is_not_carried_does_not_block_the_others(
    table: PaimonTable, kind: Any, said: str
) -> None:
    table.schema({0: ("a", "INT"), 2: ("b", "STRING")})
    table.add("data-1.orc", pa.table({"a": pa.array([1, 2], pa.int32()), "v": [b"x", b"y"], "b": ["p", "q"]}))
    table.add("data-2.parquet", pa.table({"a": pa.array([3], pa.int32()), "v": [b"z"], "b": ["r"]}))
    table.commit()
    schema = table.path / "schema" / "schema-0"
    document = json.loads(schema.read_text())
    document["fields"].insert(1, {"id": 1, "name": "v", "type": kind})
    schema.write_text(json.dumps(document))
    opened = open_table(table.path)
    assert opened.schema.names == ["a", "b"]
    assert opened.scan(["b"], "a > 1").to_table()["b"].to_pylist() == ["q", "r"]
    assert opened.scan(["a"], top=[("b", "desc")], limit=1).to_table()["a"].to_pylist() == [3]
    assert opened.scan(["a"], "a > 1").count_rows() == 2
    assert opened.aggregate({"n": "sum(a)"}, "b != 'q'")["n"].to_pylist() == [4]
    for columns in (None, ["v"], ["a", "v"]):
        with pytest.raises(
            Unsupported, match=rf"has the type {said}, which orcidx cannot read; select the other .*\['a', 'b'\]"
        ):
            opened.scan(columns)
    with pytest.raises(Unsupported):
        opened.append(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))
    document["partitionKeys"] = ["v"]
    schema.write_text(json.dumps(document))
    with pytest.raises(Unsupported, match="partitions by a column of type"):
        open_table(table.path)


def test_a_file_with_another_type_than_its_schema_says_is_damaged(table: PaimonTable) -> None:
    table.schema({0: ("a", "MAP<INT, INT>")})
    table.add("data-1.orc", pa.table({"a": [b"x"]}))
    table.commit()
    with pytest.raises(
        CorruptFile, match="has the type binary in the file, but the schema of the file says MAP<INT, INT>"
    ):
        open_table(table.path).scan().to_table()


def test_files_of_partitions_that_a_jvm_names_are_looked_for(table: PaimonTable) -> None:
    table.schema({0: ("v", "INT"), 1: ("d", "DOUBLE"), 2: ("s", "STRING")}, partition_keys=("d", "s"))
    # Since Java 19, the text of 2e23 is "2.0E23". Before Java 19, it is the second text.
    texts = {"2.0E23": 1, "1.9999999999999998E23": 2, "NaN": 3}
    for text, number in texts.items():
        value = float(text)
        rows = pa.table({"v": pa.array([number], pa.int32()), "d": [value], "s": ["a/b"]})
        partition = serialized(["DOUBLE", "STRING"], [value, "a/b"])
        table.add(f"data-{number}.orc", rows, directory=f"d={text}/s=a%2Fb/bucket-0", partition=partition)
    table.commit()
    opened = open_table(table.path)
    assert [file.partition["d"] for file in opened.files()][:2] == [2e23, 2e23]
    assert sorted(opened.scan(["v"]).to_table()["v"].to_pylist()) == [1, 2, 3]
    assert opened.scan(["v"], col("d").is_nan()).to_table()["v"].to_pylist() == [3]
    assert sorted(opened.scan(["v"], col("d") == 2e23).to_table()["v"].to_pylist()) == [1, 2]
    there = table.path / "d=NaN" / "s=a%2Fb" / "bucket-0" / "data-3.orc"
    elsewhere = table.path / "d=x" / "s=other" / "bucket-0" / "data-3.orc"  # in the directory of another partition
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(there.read_bytes())
    assert Path(open_table(table.path).files()[2].path) == there
    second = table.path / "d=nan" / "s=a%2Fb" / "bucket-0" / "data-3.orc"
    second.parent.mkdir(parents=True)
    second.write_bytes(there.read_bytes())
    with pytest.raises(CorruptFile, match=r"data-3\.orc is in several directories: d=.* and d="):
        open_table(table.path).files()
    second.unlink()
    there.unlink()
    with pytest.raises(FileGone, match=r"data-3\.orc"):
        open_table(table.path).files()


@pytest.mark.parametrize("root", roots("paimon", GOLDEN_PAIMON))
def test_rows_of_every_type_decode(root: Path) -> None:
    for key in json.loads((root / "hash" / "key_hashes.json").read_text())["keys"]:
        types = [parse_type(text) for text in key["types"]]
        row = BinaryRow(struct.pack(">i", len(types)) + bytes.fromhex(key["row_hex"]))
        for kind, value, recorded in zip(types, row.values(types), key["values"]):
            assert physical(kind, recorded) == value or value != value


def physical(kind: Any, recorded: Any) -> Any:
    if recorded is None:
        return None
    if kind.root in ("FLOAT", "DOUBLE"):
        return struct.unpack(">f" if kind.root == "FLOAT" else ">d", bytes.fromhex(recorded))[0]
    if kind.root in ("BINARY", "VARBINARY"):
        return bytes.fromhex(recorded)
    if kind.root in ("CHAR", "VARCHAR"):
        return recorded.encode()
    if kind.root == "DECIMAL":
        return decimal.Decimal(recorded).scaleb(-kind.scale, decimal.Context(prec=60))
    if kind.root == "TIME":
        return recorded * 1_000_000
    if kind.root.startswith("TIMESTAMP"):
        return recorded[0] * 1_000_000 + recorded[1]
    return recorded


def test_damaged_rows() -> None:
    kinds = ["STRING", "DECIMAL(38, 0)", "TIMESTAMP(6)", "INT", "BYTES"]
    types = [parse_type(text) for text in kinds]
    good = serialized(kinds, ["longer than seven", 10**30, (5, 7000), 3, b"abc"])
    source = random.Random(1)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(source.randint(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            BinaryRow(bytes(data[: source.randint(0, len(data))] if source.random() < 0.3 else data)).values(types)
        except CorruptFile:
            continue
    with pytest.raises(CorruptFile, match="no field 5"):
        BinaryRow(good).value(5, types[0])


COLUMN = pa.schema([("i", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("t", pa.timestamp("us"))])


@pytest.mark.parametrize(
    ("where", "low", "high", "nulls", "expected"),
    [
        ("i = 5", 1, 5, 0, True),
        ("i = 6", 1, 5, 0, False),
        ("i <> 5", 5, 5, 0, False),
        ("i <> 5", 5, 6, 0, True),
        ("i < 1", 1, 5, 0, False),
        ("i <= 1", 1, 5, 0, True),
        ("NOT i < 1", 0, 0, 0, False),
        ("NOT i >= 1", 1, 5, 0, False),
        ("NOT i > 5", 6, 9, 0, False),
        ("NOT i <= 5", 1, 5, 0, False),
        ("i IN (7, 9)", 1, 8, 0, True),
        ("i IN (9, 11)", 1, 8, 0, False),
        ("i NOT IN (3, 4)", 3, 3, 0, False),
        ("i NOT IN (3, 4)", 3, 4, 0, True),
        ("i BETWEEN 3 AND 4", 5, 9, 0, False),
        ("i NOT BETWEEN 3 AND 9", 5, 9, 0, False),
        ("i NOT BETWEEN 3 AND 8", 5, 9, 0, True),
        ("i IS NULL", 1, 5, 0, False),
        ("i IS NULL", 1, 5, None, True),
        ("i IS NOT NULL", None, None, 10, False),
        ("i IS NOT NULL", None, None, 9, True),
        ("i > 3", None, None, 10, False),
        ("i > 3", None, None, 9, True),
        ("i <=> 3", 5, 9, 0, False),
        ("i <=> 3", 5, 9, 5, False),
        ("NOT i <=> 3", 3, 3, 5, True),
        ("NOT i <=> 3", 3, 3, 0, False),
        ("f <> 5", 5.0, 5.0, 0, True),
        ("NOT f > 5", 6.0, 7.0, 0, True),
        ("f > 5", 1.0, 2.0, 0, False),
        ("s LIKE 'b%'", b"a", b"az", 0, False),
        ("s LIKE 'b%'", b"a", b"b", 0, True),
        ("s LIKE 'b%'", b"ba", b"c", 0, True),
        ("s LIKE 'b%'", b"c", b"d", 0, False),
        ("s NOT LIKE 'b%'", b"ba", b"bz", 0, False),
        ("s LIKE '%b'", b"x", b"y", 0, True),
    ],
)
def test_bounds_against_one_leaf(where: str, low: Any, high: Any, nulls: int | None, expected: bool) -> None:
    if "<=>" in where:
        leaf: Any = col("i").eq_null_safe(3)
        leaf = ~leaf if where.startswith("NOT") else leaf
    elif "LIKE" in where:
        leaf = col("s").like(where.split("'")[1])
        leaf = ~leaf if "NOT" in where else leaf
    else:
        leaf = comparison(where)
    bound = bind(parse(leaf), COLUMN).root
    assert may_be_true(bound, Bounds(low, high, nulls, 10)) is expected


@pytest.mark.parametrize(
    ("kind", "bounds", "text"),
    [
        ("int64", Bounds(None, None, 1, 3), "1 of 3 rows null"),
        ("int64", Bounds(None, None, 3, 3), "every row is null"),
        ("int64", Bounds(None, None, None, 3), ""),
        ("string", Bounds(b"a", None, None, 3), "min 'a'"),
        ("binary", Bounds(b"a", b"b", 0, 3), "min 61, max 62, no null"),
        ("int64", Bounds(1, 2, 0, 3), "min 1, max 2, no null"),
        ("bool", Bounds(False, True, 0, 3), "min false, max true, no null"),
        ("date32", Bounds(19723, 19727, 0, 2), "min 2024-01-01, max 2024-01-05, no null"),
        ("timestamp[us]", Bounds(0, 1_000_000, None, 2), "min 1970-01-01 00:00:00, max 1970-01-01 00:00:00.001"),
        ("decimal", Bounds(decimal.Decimal("1.50"), decimal.Decimal("2.00"), 0, 2), "min 1.50, max 2.00, no null"),
    ],
)
def test_the_text_of_bounds_names_the_ends_that_are_known(kind: str, bounds: Bounds, text: str) -> None:
    """Bounds are shown in the same form as bounds in ORC statistics. For example, dates are not shown as numbers of
    days.
    """
    arrow = pa.decimal128(5, 2) if kind == "decimal" else pa.type_for_alias(kind)
    leaf: Any = SimpleNamespace(domain=domain_of(arrow), type=arrow)
    assert bounds.text(leaf) == text


def may_be_true(leaf: Any, bounds: Bounds) -> bool:
    """Whether a file with these bounds can have rows that match ``leaf``, which was bound to a column before."""
    found = FileBounds("manifest", 1, lambda i, column: bounds).test(leaf, RowSelection.all(1))
    return found is None or not found.may.is_empty


def comparison(where: str) -> Any:
    negated = where.startswith("NOT ") or " NOT IN" in where or " NOT BETWEEN" in where or "IS NOT" in where
    column, op, *literals = where.replace("NOT ", "").replace("(", "").replace(")", "").replace(",", "").split()
    values = [int(value) for value in literals if value.isdigit()]
    name = col(column)
    made = {
        "=": lambda: name == values[0],
        "<>": lambda: name != values[0],
        "<": lambda: name < values[0],
        "<=": lambda: name <= values[0],
        ">": lambda: name > values[0],
        ">=": lambda: name >= values[0],
        "IN": lambda: name.is_in(values),
        "BETWEEN": lambda: name.between(*values),
        "IS": lambda: name.is_null(),
    }[op]()
    return ~made if negated else made


def test_nan_as_the_largest_is_above_every_maximum() -> None:
    bounds = Bounds(1.0, 2.0, 0, 10)
    for nan, expected in (("ieee", False), ("largest", True)):
        assert may_be_true(bind(col("f") > 5, COLUMN, nan=nan).root, bounds) is expected
        assert may_be_true(bind(col("f") == 5, COLUMN, nan=nan).root, bounds) is False


def test_statistics_of_a_column_in_which_a_nan_came_first_or_that_are_damaged() -> None:
    def bounds(low: float | None, high: float | None, nulls: int = 0) -> tuple[Any, Any]:
        minima, maxima = (serialized(["DOUBLE"], [value]) for value in (low, high))
        found = stats_bounds(RowStats(minima, maxima, (nulls,)), 0, parse_type("DOUBLE"), 10)
        return found.low, found.high

    assert bounds(1.0, 2.0) == (1.0, 2.0)
    assert bounds(math.nan, 2.0) == bounds(1.0, math.nan) == bounds(math.nan, math.nan) == (None, None)
    assert bounds(None, None, nulls=10) == (None, None)
    with pytest.raises(CorruptFile, match=r"the minimum 2\.0, which is greater than its maximum 1\.0"):
        bounds(2.0, 1.0, 0)
    for low, high, nulls in ((1.0, 2.0, 11), (1.0, 2.0, -1)):
        with pytest.raises(CorruptFile):
            bounds(low, high, nulls)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("a   ", "a   ", (b"a", b"a")),
        ("a\x01  ", "a\x01  ", (b"a\x01", b"a\x01")),
        ("a\x01  ", "b   ", (b"a", b"b   ")),
        ("a b ", "b   ", (b"a b", b"b   ")),
    ],
)
def test_bounds_of_padded_text_hold_for_it_without_blanks(low: str, high: str, expected: tuple[bytes, bytes]) -> None:
    minima, maxima = serialized(["STRING"], [low]), serialized(["STRING"], [high])
    found = stats_bounds(RowStats(minima, maxima, (0,)), 0, parse_type("CHAR(4)"), 10)
    assert (found.low, found.high) == expected


def test_maxima_in_whole_milliseconds_may_hide_microseconds(table: PaimonTable) -> None:
    table.schema({0: ("t", "TIMESTAMP(6)")})
    noon = datetime.datetime(2024, 1, 1, 12)
    table.add("data-0.orc", rows(t=pa.array([noon], pa.timestamp("us"))))
    table.commit()
    opened = open_table(table.path)
    assert len(opened.plan(col("t") > noon + datetime.timedelta(microseconds=500)).tasks) == 1
    assert len(opened.plan(col("t") > noon + datetime.timedelta(milliseconds=1)).tasks) == 0


# ---------------------------------------------------------------------- damage


def test_names_stay_inside_the_table(table: PaimonTable) -> None:
    table.schema({0: ("a", "INT")})
    data = rows(a=pa.array([1], pa.int32()))
    entry = table.add("data-0.orc", data)
    for name in ("../data-0.orc", "..", "", "a\x00b"):
        table.entries = [{**entry, "_FILE": {**entry["_FILE"], "_FILE_NAME": name}}]
        table.commit()
        with pytest.raises(CorruptFile, match="the invalid file name"):
            open_table(table.path).files()
    snapshot = table.path / "snapshot" / f"snapshot-{table.snapshot_id}"
    snapshot.write_text(snapshot.read_text().replace(f"base-{table.snapshot_id}", "../../x"))
    with pytest.raises(CorruptFile, match="name of a manifest"):
        open_table(table.path).files()


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"id": 1}', "[" * 10_000, '{"id": "1", "schemaId": 0}', "\xff"])
def test_damaged_snapshots_and_schemas(table: PaimonTable, document: str) -> None:
    table.schema({0: ("a", "INT")})
    table.commit()
    path = table.path / "snapshot" / "snapshot-1"
    good = path.read_text()
    path.write_text(document, encoding="latin-1")
    with pytest.raises(CorruptFile, match="snapshot"):
        open_table(table.path)
    path.write_text(good)
    (table.path / "schema" / "schema-0").write_text(document, encoding="latin-1")
    with pytest.raises(CorruptFile, match="schema"):
        open_table(table.path)


def test_schemas_with_types_to_come(table: PaimonTable) -> None:
    """A table with a column of an unknown type can be opened, because the other columns can be read. A scan of the
    unknown column is refused.
    """
    table.schema({0: ("a", "QUBIT")})
    opened = open_table(table.path)
    with pytest.raises(Unsupported, match="QUBIT"):
        opened.scan()


def plain_table(path: Path) -> Path:
    """Makes a table whose manifests have every kind of content. The manifests are not compressed, so that mutations
    change every part of them."""
    table = PaimonTable(path)
    table.schema({0: ("id", "INT"), 1: ("dt", "STRING")}, partition_keys=("dt",))
    data = rows(id=pa.array([3], pa.int32()), dt=pa.array(["x"]))
    partition = serialized(["STRING"], ["x"])
    where = {"directory": "dt=x/bucket-0", "partition": partition}
    table.add("data-0.orc", data, **where, _EXTRA_FILES=["data-0.orc.index"])
    table.delete(table.add("data-1.orc", data, **where, _EMBEDDED_FILE_INDEX=b"abc"))
    ranges = write_deletion_vectors(path / "index" / "index-0", {"data-0.orc": DeletionVector([0])})
    table.add_deletions("index-0", ranges, _PARTITION=partition)
    table.commit({"_MIN_VALUES": partition, "_MAX_VALUES": partition, "_NULL_COUNTS": [0]})
    return path


@pytest.mark.parametrize("kind", ["append_dv32", "append_partitioned", "plain"])
def test_mutated_metadata_raises_only_orcidx_errors(kind: str, tmp_path: Path) -> None:
    """After a change of any byte of any metadata file, the table can be opened, or orcidx raises one of its errors."""
    source = random.Random(11)
    copy = plain_table(tmp_path / kind) if kind == "plain" else shutil.copytree(FROZEN / kind, tmp_path / kind)
    targets = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.suffix != ".orc"]
    for _ in range(200):
        path = source.choice(targets)
        original = path.read_bytes()
        data = bytearray(original)
        for _ in range(source.randint(1, 3)):
            data[source.randrange(len(data))] = source.randrange(256)
        path.write_bytes(data[: source.randint(0, len(data))] if source.random() < 0.15 else data)
        try:
            opened = open_table(copy)
            for task in opened.plan(col("id") == 3).tasks:
                if task.file.deletion is not None:
                    task.file.deletion.read()
            opened.files()
        except (OrcidxError, FileNotFoundError):
            continue
        finally:
            path.write_bytes(original)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("INT", [3, -7, None]),
        ("STRING", ["a", "", None]),
        ("DATE", [datetime.date(1969, 12, 31), datetime.date(2026, 1, 1), None]),
        ("TIME(3)", [datetime.time(1, 2, 3, 4000), None]),
        ("TIMESTAMP(3)", [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000), None]),
        ("TIMESTAMP(6)", [datetime.datetime(2026, 1, 1, 0, 0, 0, 7), None]),
        ("DECIMAL(9, 2)", [decimal.Decimal("-1.50"), None]),
        ("BOOLEAN", [True, False]),
    ],
)
def test_the_bucket_of_a_key_of_each_type(sql: str, values: list[Any]) -> None:
    kind = parse_type(sql)
    schema: Any = SimpleNamespace(bucket_fields=[DataField(0, "k", kind)], options={})
    batch = pa.record_batch([pa.array(values, kind.arrow_type)], ["k"])
    expected = bucket_of_hash(key_hash(batch, [kind]), 997).tolist()
    for value, bucket in zip(values, expected):
        where = col("k").is_null() if value is None else col("k") == value
        found = bucket_filter(schema, bind(where, batch.schema).root)
        assert found is not None
        assert [one for one in range(997) if found.may_hold(one, 997)] == [bucket]
    both = bucket_filter(schema, bind(col("k").is_in(values[:2]), batch.schema).root)
    assert both is not None
    found_of_both = {one for one in range(997) if both.may_hold(one, 997)}
    assert found_of_both >= {bucket for value, bucket in zip(values[:2], expected) if value is not None}
