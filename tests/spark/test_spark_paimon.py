"""``orcidx.spark.read`` returns the same rows of Paimon tables as Paimon's own reader in the same JVM."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from goldens import FIXTURES
from interop.test_paimon_tables_java import INDEXES, START, TYPES, read_by_java, rows_of_all_types, sorted_rows
from paimon_tables import PaimonTable
from spark_frames import collected

import orcidx
from orcidx import col, paimon
from orcidx.errors import InvalidQuery, Unsupported
from orcidx.spark import append, delete, read, register, rewrite_file_index, why
from orcidx.spark.query.plan import begin_plan
from orcidx.spark.query.read_query import Query
from orcidx.spark.types.spark_types import arrow_schema_of

pytestmark = pytest.mark.java

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SPARK_TYPES = {
    "st": "string",
    "vc": "string",
    "bi": "binary",
    "ti": "int",
    "ts0": "timestamp_ntz",
    "ts9": "timestamp_ntz",
    "lz": "timestamp",
    "wide": "decimal(30,5)",
}


def in_spark_types(table: pa.Table, like: pa.Schema) -> pa.Table:
    """Converts Paimon's result to the Arrow types of Spark: times of day as numbers, and timestamps in microseconds."""
    columns = []
    for field in like:
        column = table.column(field.name)
        if pa.types.is_time(column.type):
            column = column.cast(pa.int32())
        columns.append(column.cast(field.type, safe=False))
    return pa.table(columns, schema=like)


def test_every_type_as_paimon_reads_it(spark: Any, paimon_java: Any) -> None:
    name = "spark_types"
    folder = paimon_java.create(name, TYPES, options={"bucket": "-1", "file.format": "orc", **INDEXES})
    data = rows_of_all_types()
    paimon_java.write(name, data)
    paimon_java.write(name, data.slice(3, 50))
    leaf = paimon_java.leaf
    moment = START + dt.timedelta(seconds=20, microseconds=20)
    schema = paimon.open_table(folder).scan().schema
    for where, java_where in [
        (None, None),
        ("st = 'longer 7 ü'", leaf(name, "st", "equal", "longer 7 ü")),
        (col("dec") == Decimal("2.5"), leaf(name, "dec", "equal", "2.50")),
        (col("ts6") == moment, leaf(name, "ts6", "equal", str(moment))),
        (
            "st = 'longer 7 ü' OR l = 0",
            paimon_java.either(leaf(name, "st", "equal", "longer 7 ü"), leaf(name, "l", "equal", "0")),
        ),
    ]:
        frame = read(spark, folder, where=where, jvm_zone="UTC")
        found = collected(frame)
        expected = read_by_java(paimon_java, name, schema, java_where)
        assert found.num_rows > 0
        assert sorted_rows(found) == sorted_rows(in_spark_types(expected, found.schema)), where
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert {name: kinds[name] for name in SPARK_TYPES} == SPARK_TYPES


def test_deletion_vectors_and_snapshots(spark: Any, paimon_java: Any) -> None:
    name = "spark_keyed"
    types = {"k": "STRING NOT NULL", "v": "BIGINT"}
    options = {"bucket": "2", "deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v"}
    folder = paimon_java.create(name, types, primary_keys=["k"], options=options)
    keys = [f"key number {i}" for i in range(200)]
    paimon_java.write(name, pa.table({"k": keys, "v": list(range(200))}), compact=True)
    first = paimon.open_table(folder).snapshot_id
    paimon_java.write(name, pa.table({"k": keys[::7], "v": [-1] * len(keys[::7])}), compact=True)
    paimon_java.write(name, pa.table({"k": keys[::50], "v": [0] * 4}), kind="DELETE", compact=True)
    assert any(file.deletion is not None for file in paimon.open_table(folder).files())
    found = collected(read(spark, folder))
    expected = read_by_java(paimon_java, name, paimon.open_table(folder).schema)
    assert sorted_rows(found) == sorted_rows(expected.cast(found.schema))
    assert found.num_rows == 196
    assert read(spark, folder, ["k"], "v = -1", format="paimon").count() == expected["v"].to_pylist().count(-1)
    assert read(spark, folder, snapshot_id=first).count() == 200
    best = read(spark, folder, ["K"], top=[("v", "desc"), "k"], limit=3).collect()
    assert [row.K for row in best] == ["key number 199", "key number 198", "key number 197"]


def test_a_table_that_needs_merging_says_so(spark: Any, paimon_java: Any) -> None:
    name = "spark_merging"
    options = {"bucket": "1", "write-only": "true"}
    folder = paimon_java.create(name, {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    for _ in range(2):
        paimon_java.write(name, pa.table({"k": pa.array([1], pa.int32())}))
    with pytest.raises(Unsupported, match="must be merged by primary key"):
        read(spark, folder)


@pytest.mark.parametrize("name", ["append_dv32", "append_partitioned", "append_index_files"])
def test_frozen_tables(spark: Any, name: str) -> None:
    folder = FIXTURES / "paimon/tables/db.db" / name
    expected = paimon.open_table(folder).scan().to_table()
    found = collected(read(spark, folder))
    assert sorted_rows(found) == sorted_rows(in_spark_types(expected, found.schema))


def test_instants_that_a_jvm_moved(spark: Any, paimon_java: Any, jvm_in: Any) -> None:
    """Instants that are returned as they are stored cause a warning. If the zone of the JVM that wrote them is given,
    the original instants are returned."""
    name, zone = "spark_moved", "America/New_York"
    folder = str(paimon_java.create(name, {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}))
    # The times include changes to and from summer time.
    moments = [START + dt.timedelta(hours=877 * i, microseconds=i) for i in range(60)]
    moments = [moment.replace(tzinfo=dt.UTC) for moment in moments]
    with jvm_in(zone):
        paimon_java.write_instants(name, [(m - EPOCH) // dt.timedelta(microseconds=1) for m in moments])
    with pytest.warns(RuntimeWarning, match="at: the instants are returned as they are in the ORC files.*jvm_zone="):
        stored = read(spark, folder)
    assert "jvm_zone=" in str(why(stored))
    assert collected(stored)["at"].to_pylist() != moments
    register(spark)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert collected(read(spark, folder, ["id"])).num_rows == 60
        assert collected(read(spark, folder, jvm_zone=zone).orderBy("id"))["at"].to_pylist() == moments
        for where, expected in (
            (col("at") == moments[7], [7]),
            (f"at >= '{moments[50]:%Y-%m-%d %H:%M:%S.%f}'", list(range(50, 60))),
        ):
            frame = read(spark, folder, ["id"], where, jvm_zone=zone)
            assert sorted(row.id for row in frame.collect()) == expected
        best = read(spark, folder, ["id"], top=[("at", "desc")], limit=2, jvm_zone=zone).collect()
        assert [row.id for row in best] == [59, 58]
    source = spark.read.format("orcidx").option("jvm_zone", zone).option("where", f"at < '{moments[3]:%F %T.%f}'")
    assert sorted(row.at.astimezone(dt.UTC) for row in source.load(folder).collect()) == moments[:3]
    with pytest.raises(InvalidQuery, match="not a time zone such as"):
        read(spark, folder, jvm_zone="Middle/Earth")


def test_changes_of_instants_that_a_jvm_moved_are_refused(spark: Any, paimon_java: Any, jvm_in: Any) -> None:
    name = "spark_moved_changes"
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    types = {"id": "BIGINT", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    folder = paimon_java.create(name, types, options=options)
    with jvm_in("Asia/Kolkata"):
        paimon_java.write_instants(name, list(range(20)))
    more = spark.range(20, 25).selectExpr("id", "timestamp_micros(id) as at")
    changes: list[tuple[Any, Any]] = [
        (rewrite_file_index, {"spec": {"bsi": {"at": {}}}}),
        (delete, {"where": "at < '1970-01-01 00:00:00.000003'"}),
        (append, {"rows": more}),
    ]
    for change, given in changes:
        with pytest.raises(Unsupported, match="jvm_zone"):
            change(spark, folder, **given)
        with pytest.raises(InvalidQuery, match='must be "UTC"'):
            change(spark, folder, **given, jvm_zone="Asia/Kolkata")
    assert rewrite_file_index(spark, folder, spec={"bsi": {"id": {}}}).rows == 20
    assert delete(spark, folder, "id < 3").rows == 3
    assert append(spark, folder, more, jvm_zone="UTC").rows == 5


def test_a_zone_is_for_tables(spark: Any, tmp_path: Path) -> None:
    orcidx.write_table(pa.table({"id": [1]}), tmp_path / "a.orc")
    with pytest.raises(InvalidQuery, match="jvm_zone are only for Paimon tables"):
        read(spark, tmp_path / "a.orc", jvm_zone="UTC")


def _table(folder: Path, types: dict[str, str], rows: list[pa.Table]) -> Path:
    table = PaimonTable(folder)
    table.schema({number: (name, kind) for number, (name, kind) in enumerate(types.items())})
    for number, part in enumerate(rows):
        table.add(f"data-{number}.orc", part)
    table.commit()
    return folder


def test_a_data_file_that_vanishes_is_named(spark: Any, tmp_path: Path) -> None:
    folder = _table(tmp_path / "t", {"id": "BIGINT"}, [pa.table({"id": range(10)}), pa.table({"id": range(10)})])
    frame = read(spark, folder)
    assert frame.count() == 20
    (gone,) = folder.rglob("data-1.orc")
    gone.unlink()
    with pytest.raises(Exception, match=r"StorageError: the file was deleted after the read was planned.*data-1\.orc"):
        frame.count()


def test_names_and_types_are_checked_at_once(spark: Any, tmp_path: Path) -> None:
    folder = _table(tmp_path / "t", {"id": "BIGINT", "a`b": "STRING"}, [pa.table({"id": [1], "a`b": ["x"]})])
    assert read(spark, folder, ["a`b"], top=["a`b"], limit=1).collect() == [("x",)]
    with pytest.raises(InvalidQuery, match="id"):
        read(spark, folder, ["ie"])
    with pytest.raises(InvalidQuery, match="snapshot"):
        read(spark, folder, snapshot_id=77)


def test_nested_types_and_nanoseconds(tmp_path: Path) -> None:
    """Nanoseconds are rounded down to microseconds at every depth, and type names are those of Spark. This test does
    not use Spark."""
    from orcidx.spark.query.read_task import conform

    stamp = pa.timestamp("ns")
    nanos = [-1, 1, None]
    values = pa.array(nanos, pa.int64()).cast(stamp)
    batch = pa.RecordBatch.from_arrays(
        [
            values,
            pa.array([{"t": v} for v in values.to_numpy(zero_copy_only=False)], pa.struct([("t", stamp)])),
            pa.ListArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), values),
            pa.MapArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), pa.array(["a", "b", "c"]), values),
        ],
        ["a", "b", "c", "d"],
    )
    ntz = "timestamp_ntz"
    shown: dict[str, Any] = {
        "a": ntz,
        "b": {"type": "struct", "fields": [{"name": "t", "type": ntz}]},
        "c": {"type": "array", "elementType": ntz},
        "d": {"type": "map", "keyType": "string", "valueType": ntz},
    }
    schema = arrow_schema_of({"fields": [{"name": name, "type": kind} for name, kind in shown.items()]})
    found = conform(batch, schema)
    found.validate(full=True)
    before, after = dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1)
    assert found.schema == schema
    assert found["a"].to_pylist() == [before, after, None]
    assert found["b"].to_pylist() == [{"t": before}, {"t": after}, {"t": None}]
    assert found["c"].to_pylist() == [[before], [after, None], []]
    assert found["d"].to_pylist() == [[("a", before)], [("b", after), ("c", None)], []]
    plan = begin_plan(Query(path=str(_table(tmp_path / "t", {"t": "TIMESTAMP(9)"}, []))))
    assert plan.schema["fields"][0]["type"] == ntz
