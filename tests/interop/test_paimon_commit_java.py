"""orcidx changes tables, and Paimon's Java library uses them later: it reads, appends, compacts, deletes, expires and
rolls back."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from paimon_invariants import check_table, files_of, snapshot
from paimon_soak import JAVA_USER, Compactions, soak, table_for_soak

import orcidx
from orcidx import write_table
from orcidx.errors import InvalidQuery
from orcidx.paimon import DeletionVector, open_table, write_deletion_vectors
from orcidx.paimon.data_types import parse_type
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.predicate import col

TYPES = {"id": "BIGINT", "city": "STRING"}
INDEXED = {"file-index.bitmap.columns": "city", "file-index.bloom-filter.columns": "id"}
INDEXED |= {"file-index.bloom-filter.id.items": "1000"}


def rows(start: int, count: int = 1000) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": [f"city {i % 40}" for i in numbers]})


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def expire(paimon_java: Any, name: str) -> None:
    """Expires all snapshots but one, with Java."""
    config = paimon_java.paimon.options.ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1)
    config = config.snapshotTimeRetain(paimon_java.jvm.java.time.Duration.ofMillis(1)).build()
    paimon_java.table(name).newExpireSnapshots().config(config).expire()


def clean_orphans(paimon_java: Any, name: str) -> None:
    """Removes every file to which no snapshot refers, even if the file is new, with Java."""
    operation = paimon_java.paimon.operation.LocalOrphanFilesClean(
        paimon_java.table(name), paimon_java.jvm.java.lang.System.currentTimeMillis() + 60_000, False
    )
    operation.clean()


def same_everywhere(paimon_java: Any, name: str, folder: Path, expected: list[int], city: int = 7) -> None:
    """Checks that Java and orcidx return these rows, with and without a filter, and that the index loses no row
    in Java."""
    assert ids(paimon_java.read(name)) == expected
    assert ids(open_table(folder).scan().to_table()) == expected
    wanted = [i for i in expected if i % 40 == city]
    where = paimon_java.leaf(name, "city", "equal", f"city {city}")
    assert ids(paimon_java.read(name, where)) == wanted
    assert set(wanted) <= set(ids(paimon_java.read(name, where, exact=False)))
    assert ids(open_table(folder).scan(where=col("city") == f"city {city}").to_table()) == wanted


def live_on(paimon_java: Any, name: str, folder: Path, expected: list[int]) -> list[int]:
    """Appends rows, expires all snapshots but one and removes orphans, with Java. After each step, all rows must exist.
    If a commit of orcidx wrongly dropped a data file, one of these steps would delete the file."""
    fresh = max(expected, default=0) + 100_000
    paimon_java.write(name, rows(fresh, 10))
    expected = sorted([*expected, *range(fresh, fresh + 10)])
    same_everywhere(paimon_java, name, folder, expected)
    expire(paimon_java, name)
    same_everywhere(paimon_java, name, folder, expected)
    clean_orphans(paimon_java, name)
    same_everywhere(paimon_java, name, folder, expected)
    check_table(folder)
    return expected


@pytest.mark.parametrize("threshold", ["1 mb", "10 b"])
def test_rewrite_on_an_append_table_survives_expiry(paimon_java: Any, threshold: str) -> None:
    """After orcidx has rewritten file indexes, Java's expiry of snapshots must not delete the data files. If pypaimon
    rewrites the indexes, the expiry deletes the data files."""
    name = f"rewritten_{threshold.split()[1]}"
    options = {"bucket": "-1", "file-index.in-manifest-threshold": threshold}
    folder = paimon_java.create(name, TYPES, options=options)
    for start in (0, 1000):
        paimon_java.write(name, rows(start))
    before = files_of(folder)
    spec = {"bitmap": {"city": {}}, "bloom-filter": {"id": {"items": 1000}}}
    result = open_table(folder).rewrite_file_index(spec=spec)
    assert (result.kind, result.rows, len(result.files["done"])) == ("COMPACT", 2000, 2)
    assert result.snapshot_id == before.document["id"] + 1
    after = check_table(folder)
    assert {name: after.document.get(name) for name in ("commitKind", "commitIdentifier", "deltaRecordCount")} == {
        "commitKind": "COMPACT",
        "commitIdentifier": 2**63 - 1,
        "deltaRecordCount": 0,
    }
    strip = ("_EXTRA_FILES", "_EMBEDDED_FILE_INDEX")
    for old, new in zip(before.live.values(), after.live.values()):
        assert {k: v for k, v in old["_FILE"].items() if k not in strip} == {
            k: v for k, v in new["_FILE"].items() if k not in strip
        }
    assert all(file.index is not None or file.embedded_index is not None for file in open_table(folder).files())
    where = paimon_java.leaf(name, "city", "equal", "city 7")
    assert paimon_java.read(name, where, exact=False).num_rows == 50  # only the index excludes rows
    assert open_table(folder).rewrite_file_index(spec=spec).snapshot_id is None
    live_on(paimon_java, name, folder, list(range(2000)))


def test_rewrite_with_deletion_vectors_where_java_fails(paimon_java: Any) -> None:
    """If a table has deletion vectors, Java's own rewrite of its file indexes fails with "File deletion conflicts
    detected". orcidx's rewrite succeeds, and the deleted rows stay deleted."""
    name = "rewritten_dv"
    folder = paimon_java.create(name, TYPES, options={"bucket": "-1", "deletion-vectors.enabled": "true", **INDEXED})
    paimon_java.write(name, rows(0))
    paimon_java.write(name, rows(1000))
    (folder / "index").mkdir(exist_ok=True)
    vectors = {file.entry.name: DeletionVector([0, 1, 2]) for file in open_table(folder).files()}
    paimon_java.commit_deletions(name, write_deletion_vectors(folder / "index" / "index-x-0", vectors))
    expected = [i for i in range(2000) if i % 1000 > 2]
    before = files_of(folder)
    table = open_table(folder)
    result = table.rewrite_file_index(only_missing=False, spec={"bitmap": {"city": {}}})
    assert len(result.files["done"]) == 2
    after = check_table(folder)
    assert after.document["indexManifest"] == before.document["indexManifest"]
    same_everywhere(paimon_java, name, folder, expected)
    vectors = {file.entry.name: DeletionVector([0, 1, 2, 3]) for file in open_table(folder).files()}
    paimon_java.commit_deletions(name, write_deletion_vectors(folder / "index" / "index-y-0", vectors))
    expected = [i for i in range(2000) if i % 1000 > 3]
    live_on(paimon_java, name, folder, expected)


def test_rewrite_on_a_keyed_table_keeps_empty_deletion_files(paimon_java: Any) -> None:
    """A commit of pypaimon replaces the empty list of Java's deletion file by null, and then Java's next write fails.
    orcidx keeps the empty list."""
    name = "rewritten_pk"
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    folder = paimon_java.create(name, {**TYPES, "id": "BIGINT NOT NULL"}, primary_keys=["id"], options=options)
    paimon_java.write(name, rows(0, 2000), compact=True)
    paimon_java.write(name, rows(10, 5))
    paimon_java.write(name, rows(20, 5), compact=True)
    before = files_of(folder)
    assert any(record["_DELETIONS_VECTORS_RANGES"] == [] for record in before.index)
    open_table(folder).rewrite_file_index(spec={"bitmap": {"city": {}}})
    assert check_table(folder).index == before.index
    assert ids(paimon_java.read(name)) == list(range(2000))
    paimon_java.write(name, rows(0, 200))
    paimon_java.write(name, rows(5000, 10), compact=True)
    assert ids(paimon_java.read(name)) == [*range(2000), *range(5000, 5010)]
    expire(paimon_java, name)
    assert ids(paimon_java.read(name)) == [*range(2000), *range(5000, 5010)]


def test_an_index_that_a_file_had_before_comes_back_under_another_name(paimon_java: Any) -> None:
    """A rewrite gives a file an index that the file had before. Paimon's scan ignores a file entry that a manifest has
    deleted. If the index had its old name, the new entry would be ignored, and the rows would be lost."""
    name = "rewritten_back"
    folder = paimon_java.create(name, TYPES, options={"bucket": "-1"})
    paimon_java.write(name, rows(0))
    for spec in ("city", "id", "city", "id"):
        kind = {"bitmap": {spec: {}}} if spec == "city" else {"bsi": {spec: {}}}
        open_table(folder).rewrite_file_index(spec=kind, only_missing=False)
        check_table(folder)
        same_everywhere(paimon_java, name, folder, list(range(1000)))
    live_on(paimon_java, name, folder, list(range(1000)))


def test_partitions_in_a_rewrite_and_rollback(paimon_java: Any) -> None:
    name = "rewritten_partitions"
    types = {**TYPES, "dt": "STRING"}
    options = {"bucket": "2", "bucket-key": "id", **INDEXED}
    folder = paimon_java.create(name, types, partition_keys=["dt"], options=options)
    paimon_java.write(name, rows(0, 500).append_column("dt", pa.array(["a"] * 500)))
    paimon_java.write(name, rows(500, 500).append_column("dt", pa.array(["b"] * 500)))
    before = snapshot(folder)["id"]
    spec = {"range-bitmap": {"id": {}}}
    result = open_table(folder).rewrite_file_index(where=col("dt") == "b", spec=spec, only_missing=False)
    assert len(result.files["done"]) == len(result.files["skipped"]) == 2
    check_table(folder)
    same_everywhere(paimon_java, name, folder, list(range(1000)))
    paimon_java.table(name).rollbackTo(before)
    assert snapshot(folder)["id"] == before
    same_everywhere(paimon_java, name, folder, list(range(1000)))
    again = open_table(folder).rewrite_file_index(where="dt = 'b'", spec=spec, only_missing=False)
    assert again.snapshot_id == before + 1
    same_everywhere(paimon_java, name, folder, list(range(1000)))


DELETIONS = {"deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("bucket", [{"bucket": "-1"}, {"bucket": "2", "bucket-key": "id"}])
@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_deletes_are_merged_and_java_lives_on(paimon_java: Any, bucket: dict[str, str], bitmap64: str) -> None:
    """orcidx deletes rows three times, and merges the new positions into the deletion vectors of earlier deletes. Then
    Java continues to use the table. The test runs with both kinds of deletion vectors and both kinds of append
    tables."""
    name = f"deleted_{bucket['bucket'].strip('-')}_{bitmap64}"
    options = {**DELETIONS, **bucket, "deletion-vectors.bitmap64": bitmap64, **INDEXED}
    folder = paimon_java.create(name, TYPES, options=options)
    for start in (0, 1000, 2000):
        paimon_java.write(name, rows(start))
    expected = list(range(3000))
    for where, gone in (
        (col("id").between(990, 1009), range(990, 1010)),
        ("city = 'city 7' AND id < 500", range(7, 500, 40)),
        (col("id") < 20, range(20)),
    ):
        before = files_of(folder)
        result = open_table(folder).delete(where)
        count = len(set(expected) & set(gone))
        assert (result.kind, result.rows) == ("OVERWRITE", count)
        expected = [i for i in expected if i not in gone]
        after = check_table(folder)
        assert after.live == before.live
        assert (after.document["deltaRecordCount"], after.document["totalRecordCount"]) == (0, 3000)
        assert sum(w["_CARDINALITY"] for r in after.index for w in r["_DELETIONS_VECTORS_RANGES"]) == 3000 - len(
            expected
        )
        same_everywhere(paimon_java, name, folder, expected)
        assert open_table(folder).delete(where).snapshot_id is None  # nothing is left to delete
    open_table(folder).rewrite_file_index(spec={"bsi": {"id": {}}}, only_missing=False)
    expected = live_on(paimon_java, name, folder, expected)
    assert open_table(folder).delete(col("id") < 5000).rows == len([i for i in expected if i < 5000])
    same_everywhere(paimon_java, name, folder, [i for i in expected if i >= 5000])


def test_java_merges_its_deletes_with_ours(paimon_java: Any) -> None:
    name = "deleted_both"
    folder = paimon_java.create(name, TYPES, options={**DELETIONS, "bucket": "-1"})
    paimon_java.write(name, rows(0))
    open_table(folder).delete(col("id") < 10)
    (file,) = open_table(folder).files()
    assert file.deletion is not None
    merged = file.deletion.read() | DeletionVector(range(500, 600))
    paimon_java.commit_deletions(
        name, write_deletion_vectors(folder / "index" / "index-z-0", {file.entry.name: merged})
    )
    open_table(folder).delete(col("id") == 999)
    check_table(folder)
    live_on(paimon_java, name, folder, [i for i in range(10, 999) if not 500 <= i < 600])


def test_everything_is_deleted_when_it_is_said(paimon_java: Any) -> None:
    name = "deleted_all"
    folder = paimon_java.create(name, TYPES, options={**DELETIONS, "bucket": "-1"})
    paimon_java.write(name, rows(0))
    with pytest.raises(InvalidQuery, match="everything=True"):
        open_table(folder).delete()
    dry = open_table(folder).delete(everything=True, dry_run=True)
    assert (dry.rows, dry.snapshot_id, dry.dry_run) == (1000, None, True)
    assert snapshot(folder)["id"] == 1
    assert open_table(folder).delete(everything=True).rows == 1000
    check_table(folder)
    live_on(paimon_java, name, folder, [])


FLAT = {
    "id": "BIGINT",
    "city": "STRING",
    "small": "SMALLINT",
    "tiny": "TINYINT",
    "flag": "BOOLEAN",
    "real": "FLOAT",
    "score": "DOUBLE",
    "price": "DECIMAL(10, 2)",
    "wide": "DECIMAL(30, 5)",
    "code": "VARCHAR(30)",
    "fixed": "CHAR(4)",
    "raw": "BYTES",
    "day": "DATE",
    "clock": "TIME(0)",
    "at": "TIMESTAMP(6)",
    "sharp": "TIMESTAMP(3)",
}


def flat_rows(start: int, count: int, *, times: bool = True) -> pa.Table:
    """Returns rows of every type, with nulls, texts that statistics cut, and years before 1970."""
    numbers = range(start, start + count)

    def some(values: list[Any], kind: pa.DataType, every: int) -> pa.Array:
        return pa.array([None if i % every == 1 else value for i, value in enumerate(values)], kind)

    moment = datetime.datetime(1955, 3, 4, 5, 6, 7, 891_000)
    moments = [moment + datetime.timedelta(days=97 * i, microseconds=1_000 * i) for i in numbers]
    fine = datetime.timedelta(microseconds=7)
    clock = pa.array([i * 1000 % 86_400_000 for i in numbers], pa.int32())
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "city": pa.array([f"city {i % 40}" for i in numbers]),
        "small": some([i % 30_000 - 15_000 for i in numbers], pa.int16(), 7),
        "tiny": some([i % 256 - 128 for i in numbers], pa.int8(), 5),
        "flag": some([i % 3 == 0 for i in numbers], pa.bool_(), 9),
        "real": some([i / 4 - 50 for i in numbers], pa.float32(), 11),
        "score": some([i * 1.5 - 3000 for i in numbers], pa.float64(), 13),
        "price": some([Decimal(i) / 100 - 7 for i in numbers], pa.decimal128(10, 2), 4),
        "wide": some([Decimal(i) * 10**18 - 7 for i in numbers], pa.decimal128(30, 5), 6),
        "code": some([f"{i:05d} naïve ☃ text {i}" for i in numbers], pa.string(), 8),
        "fixed": some([f"c{i % 900}" for i in numbers], pa.string(), 10),
        "raw": some([bytes([i % 256, 0, 255]) for i in numbers], pa.binary(), 12),
        "day": some([moment.date() for moment in moments], pa.date32(), 14),
        "clock": clock.cast(pa.time32("ms")) if times else clock,
        "at": some([fine + moment for moment in moments], pa.timestamp("us"), 15),
        "sharp": some(moments, pa.timestamp("ms"), 16),
    }
    return pa.table(columns)


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows in the order of id, with times of day as numbers and all timestamps in one unit."""
    found = table.sort_by("id")
    fixed = found.schema.get_field_index("fixed")
    found = found.set_column(fixed, "fixed", pc.utf8_rtrim(found["fixed"], " "))
    for i, column in enumerate(found.schema):
        if pa.types.is_time(column.type):
            found = found.set_column(i, column.name, found[column.name].cast(pa.int32()))
        if pa.types.is_timestamp(column.type):
            found = found.set_column(i, column.name, found[column.name].cast(pa.timestamp("us")))
    return found.to_pylist()


def _types_of(path: Path) -> list[Any]:
    """Returns the column types in the footer of an ORC file."""
    with orcidx.open(path) as file:
        types = file.tail.footer.types
        return [(t.kind, t.field_names, t.max_length, t.precision, t.scale, t.attributes) for t in types]


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_appended_rows_of_every_type_and_their_statistics(paimon_java: Any, form: str) -> None:
    """The statistics have the same bytes as Java's for the same rows, for columns of every type."""
    folders = {}
    for who in ("java", "ours"):
        options = {"bucket": "-1", "file.format": form, **INDEXED}
        folders[who] = paimon_java.create(f"appended_{form}_{who}", FLAT, options=options)
    given = flat_rows(0, 700)
    paimon_java.write(f"appended_{form}_java", flat_rows(0, 700, times=False), carrier=write_table)
    result = open_table(folders["ours"]).append(given)
    assert (result.kind, result.rows, result.snapshot_id, len(result.files["new"])) == ("APPEND", 700, 1, 1)
    (java,), (ours,) = (list(check_table(folders[who]).live.values()) for who in ("java", "ours"))
    theirs, mine = java["_FILE"], ours["_FILE"]
    kinds = [parse_type(kind) for kind in FLAT.values()]
    for bound in ("_MIN_VALUES", "_MAX_VALUES"):  # values are compared first, so that the error names the column
        values = [dict(zip(FLAT, BinaryRow(who["_VALUE_STATS"][bound]).values(kinds))) for who in (mine, theirs)]
        assert values[0] == values[1]
    assert mine["_VALUE_STATS"] == theirs["_VALUE_STATS"]
    if form == "orc":
        types = [_types_of(next(folder.rglob("data-*.orc"))) for folder in folders.values()]
        assert types[0] == types[1], "types, lengths and paimon.id are Java's"
    same = set(theirs) - {"_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME", "_EMBEDDED_FILE_INDEX", "_EXTRA_FILES"}
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}
    assert [name.rpartition(".")[2] for name in mine["_EXTRA_FILES"]] == ["index"]
    name = f"appended_{form}_ours"
    expected = plain(given)
    assert plain(open_table(folders["ours"]).scan().to_table()) == expected
    assert plain(paimon_java.read(name)) == expected
    asked = {column: str(expected[42][column]) for column in FLAT if column not in ("id", "raw")}
    asked |= {"clock": "00:00:42", "flag": "true", "sharp": asked["sharp"][:23]}
    for column, value in asked.items():
        found = paimon_java.read(name, paimon_java.leaf(name, column, "equal", value))
        assert 42 in found["id"].to_pylist(), column
    open_table(folders["ours"]).append(flat_rows(700, 50).to_reader(7))
    paimon_java.write(name, flat_rows(750, 50, times=False), carrier=write_table)
    expire(paimon_java, name)
    assert plain(paimon_java.read(name)) == plain(flat_rows(0, 800))[:700] + plain(
        pa.concat_tables([flat_rows(700, 50), flat_rows(750, 50)])
    )


def test_appends_to_buckets_and_partitions_continue_javas(paimon_java: Any) -> None:
    """Appended rows go to the bucket that Java chooses for the key, and the sequence numbers follow those of Java's
    files."""
    name = "appended_buckets"
    types = {**TYPES, "dt": "STRING"}
    options = {"bucket": "3", "bucket-key": "id", "file-index.bitmap.columns": "city"}
    folder = paimon_java.create(name, types, partition_keys=["dt"], options=options)

    def dated(start: int, count: int) -> pa.Table:
        days = pa.array([None if i % 3 == 0 else f"2026-0{i % 3}" for i in range(start, start + count)], pa.string())
        return rows(start, count).append_column("dt", days)

    paimon_java.write(name, dated(0, 300))
    java = {(r["_PARTITION"], r["_BUCKET"]): r["_FILE"]["_MAX_SEQUENCE_NUMBER"] for r in files_of(folder).live.values()}
    result = open_table(folder).append(dated(300, 300))
    assert len(result.files["new"]) == 9
    ours = check_table(folder).delta
    assert {(r["_PARTITION"], r["_BUCKET"]): r["_FILE"]["_MIN_SEQUENCE_NUMBER"] - 1 for r in ours} == java
    same_everywhere(paimon_java, name, folder, list(range(600)))
    # Java reads only the bucket of the key's hash, so rows in another bucket would not be found.
    for key in (5, 305, 411):
        where = paimon_java.leaf(name, "id", "equal", str(key))
        assert ids(paimon_java.read(name, where)) == [key]
        assert ids(open_table(folder).scan(where=col("id") == key).to_table()) == [key]
    paimon_java.write(name, dated(600, 30))
    expire(paimon_java, name)
    same_everywhere(paimon_java, name, folder, list(range(630)))


def test_a_table_that_only_orcidx_wrote_and_deleted_from(paimon_java: Any) -> None:
    """orcidx starts with an empty table and makes forty appends, deletes and a rewrite. Then Java reads the table,
    merges its manifests and expires snapshots."""
    name = "appended_only"
    options = {**DELETIONS, "bucket": "-1", "manifest.merge-min-count": "8"}
    folder = paimon_java.create(name, TYPES, options=options)
    for start in range(0, 800, 20):
        open_table(folder).append(rows(start, 20))
    assert len(check_table(folder).infos) < 20
    open_table(folder).delete(col("id").between(100, 299))
    open_table(folder).rewrite_file_index(spec={"bitmap": {"city": {}}})
    check_table(folder)
    expected = [i for i in range(800) if not 100 <= i <= 299]
    same_everywhere(paimon_java, name, folder, expected)
    before = snapshot(folder)["id"]
    assert paimon_java.compact(name, JAVA_USER) == 40
    check_table(folder)
    same_everywhere(paimon_java, name, folder, expected)
    paimon_java.table(name).rollbackTo(before)
    same_everywhere(paimon_java, name, folder, expected)
    assert paimon_java.compact(name, JAVA_USER) == 40
    live_on(paimon_java, name, folder, expected)


def test_java_compacts_while_two_processes_change_the_table(paimon_java: Any) -> None:
    """This is a short run of ``python tests/paimon_soak.py 2 1000 --java``. The last compaction
    commits without a conflict."""
    name = "soaked"
    folder = table_for_soak(paimon_java.path(name))
    java = Compactions(lambda: paimon_java.compact(name, JAVA_USER))
    counts = soak(folder, 2, 8, lambda: java)
    assert counts["append"] > 2
    expected = ids(open_table(folder).scan().to_table())
    java.once()
    assert java.committed, java.conflicts
    assert ids(paimon_java.read(name)) == ids(open_table(folder).scan().to_table()) == expected
    check_table(folder)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Europe/Oslo"])
def test_instants_that_a_jvm_moved_are_put_back(paimon_java: Any, jvm_in: Any, zone: str) -> None:
    """Java interprets the UTC wall clock time of an instant as a time in the zone of the JVM, and stores the instant of
    that time. A scan with ``jvm_zone`` returns the original instants."""
    name = f"moved_{zone.partition('/')[2].lower()}"
    types = {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    folder = paimon_java.create(name, types, options={"bucket": "-1"})
    begin = datetime.datetime(1901, 1, 1, 12, tzinfo=datetime.UTC)
    moments = [begin + datetime.timedelta(hours=8761 * i, microseconds=i) for i in range(190)]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    with jvm_in(zone):
        paimon_java.write_instants(name, [(moment - epoch) // datetime.timedelta(microseconds=1) for moment in moments])
    table = open_table(folder)
    assert table.scan().to_table()["at"].to_pylist() != moments
    scan = table.scan(jvm_zone=zone)
    assert scan.to_table()["at"].to_pylist() == moments
    assert not scan.to_batches().notes
    for where, expected in (
        (col("at") == moments[70], [70]),
        (col("at") > moments[150], list(range(151, 190))),
        ((col("at") <= moments[3]) | (col("id") == 9), [0, 1, 2, 3, 9]),
    ):
        assert ids(table.scan(where=where, jvm_zone=zone).to_table()) == expected
        assert table.scan(where=where, jvm_zone=zone).count_rows() == len(expected)
    first = table.scan(top=[("at", "desc")], limit=2, jvm_zone=zone).to_table()
    assert first["id"].to_pylist() == [189, 188]
    with pytest.raises(InvalidQuery, match="not a time zone such as"):
        table.scan(jvm_zone="Middle/Earth")


@pytest.mark.parametrize(
    "placed",
    [{"partition_keys": ["at"]}, {"options": {"bucket": "3", "bucket-key": "at"}}],
    ids=["partition", "bucket"],
)
def test_instants_that_place_rows_are_asked_as_they_come(paimon_java: Any, jvm_in: Any, placed: dict[str, Any]) -> None:
    """Partitions and buckets come from the true instants, but files store the instants that the JVM moved."""
    name = f"placed_by_instants_{next(iter(placed))}"
    types = {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    folder = paimon_java.create(name, types, **{"options": {"bucket": "-1"}, **placed})
    moments = [datetime.datetime(2026, 3, 4, hour, tzinfo=datetime.UTC) for hour in range(0, 24, 4)]
    with jvm_in("America/New_York"):
        paimon_java.write_instants(name, [int(moment.timestamp()) * 1_000_000 for moment in moments])
    table = open_table(folder)
    for zone in (None, "America/New_York"):
        found = table.scan(jvm_zone=zone).to_table().to_pylist()
        for row in found:
            assert table.scan(where=col("at") == row["at"], jvm_zone=zone).to_table().to_pylist() == [row], zone
        assert (sorted(row["at"] for row in found) == moments) == (zone is not None)
    for zone in ("America/New_York", "UTC"):
        assert table.plan(col("at") == moments[0], jvm_zone=zone).skipped, zone
