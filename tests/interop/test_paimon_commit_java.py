"""Tables changed here, on which Paimon's Java then lives: it reads, appends, compacts, deletes, expires, rolls back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_invariants import check_table, files_of, snapshot

from orcidx.errors import InvalidQuery
from orcidx.paimon import DeletionVector, open_table, write_deletion_vectors
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
    """Java's expiry, down to one snapshot."""
    config = paimon_java.paimon.options.ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1)
    config = config.snapshotTimeRetain(paimon_java.jvm.java.time.Duration.ofMillis(1)).build()
    paimon_java.table(name).newExpireSnapshots().config(config).expire()


def clean_orphans(paimon_java: Any, name: str) -> None:
    """Java's removal of every file that no snapshot names, however young."""
    operation = paimon_java.paimon.operation.LocalOrphanFilesClean(
        paimon_java.table(name), paimon_java.jvm.java.lang.System.currentTimeMillis() + 60_000, False
    )
    operation.clean()


def same_everywhere(paimon_java: Any, name: str, folder: Path, expected: list[int], city: int = 7) -> None:
    """Java and orcidx give these rows, filtered too, and Java's index alone no fewer."""
    assert ids(paimon_java.read(name)) == expected
    assert ids(open_table(folder).scan().to_table()) == expected
    wanted = [i for i in expected if i % 40 == city]
    where = paimon_java.leaf(name, "city", "equal", f"city {city}")
    assert ids(paimon_java.read(name, where)) == wanted
    assert set(wanted) <= set(ids(paimon_java.read(name, where, exact=False)))
    assert ids(open_table(folder).scan(where=col("city") == f"city {city}").to_table()) == wanted


def live_on(paimon_java: Any, name: str, folder: Path, expected: list[int]) -> list[int]:
    """Java appends, expires to one snapshot and removes orphans; E1 shows only then."""
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
    """E1: through pypaimon's commit, Java's expiry deletes the data files."""
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
    assert paimon_java.read(name, where, exact=False).num_rows == 50  # the index alone
    assert open_table(folder).rewrite_file_index(spec=spec).snapshot_id is None
    live_on(paimon_java, name, folder, list(range(2000)))


def test_rewrite_with_deletion_vectors_where_java_fails(paimon_java: Any) -> None:
    """E7: Java's own rewrite on such a table ends with "File deletion conflicts detected"."""
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
    """E3: pypaimon gives Java's empty deletion file back as null, and Java's next write fails."""
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
    """An identity that a manifest deletes is dead for Paimon's scan: the same index once more would lose the rows."""
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
    """E9, with both kinds of vectors and both kinds of append tables."""
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
