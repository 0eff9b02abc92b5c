"""Scans of tables that released Paimon writes return the same rows as Paimon's own reader."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

from orcidx.errors import Unsupported
from orcidx.paimon import (
    FileIndexOptions,
    build_file_index,
    key_hash,
    open_table,
    read_deletion_vectors,
    read_file_index,
)
from orcidx.paimon.hash_index import bucket_of_hash
from orcidx.predicate import col

ROWS = 300
START = datetime.datetime(2020, 1, 1)
TYPES = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "s": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dec": "DECIMAL(9, 2)",
    "wide": "DECIMAL(30, 5)",
    "vc": "VARCHAR(10)",
    "st": "STRING",
    "bi": "BYTES",
    "da": "DATE",
    "ti": "TIME(3)",
    "ts0": "TIMESTAMP(0)",
    "ts3": "TIMESTAMP(3)",
    "ts6": "TIMESTAMP(6)",
    "ts9": "TIMESTAMP(9)",
    "lz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
INDEXES = {
    "file-index.bitmap.columns": "st,i,da,b",
    "file-index.range-bitmap.columns": "l,d,dec,ts6,vc",
    "file-index.bloom-filter.columns": "st,bi,i",
    "file-index.bsi.columns": "s,ts3",
    "file-index.bloom-filter.st.items": "300",
    "file-index.bloom-filter.bi.items": "300",
    "file-index.bloom-filter.i.items": "300",
}


def column(make: Callable[[int], Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if i % 11 == 3 else make(i) for i in range(ROWS)], kind)


def moments(micros: int, kind: pa.DataType) -> pa.Array:
    return column(lambda i: START + datetime.timedelta(seconds=i, microseconds=micros * i), kind)


def rows_of_all_types() -> pa.Table:
    return pa.table(
        {
            "b": column(lambda i: i % 2 == 0, pa.bool_()),
            "t": column(lambda i: i % 100, pa.int8()),
            "s": column(lambda i: i * 3, pa.int16()),
            "i": column(lambda i: i * 7 - 500, pa.int32()),
            "l": column(lambda i: i * 2**33, pa.int64()),
            "f": column(lambda i: i / 3, pa.float32()),
            "d": column(lambda i: -i / 7, pa.float64()),
            "dec": column(lambda i: Decimal(i) / 4, pa.decimal128(9, 2)),
            "wide": column(lambda i: Decimal(i) * 10**20, pa.decimal128(30, 5)),
            "vc": column(lambda i: f"v{i % 20}", pa.string()),
            "st": column(lambda i: f"longer {i % 30} ü", pa.string()),
            "bi": column(lambda i: bytes([i % 256]) * 9, pa.binary()),
            "da": column(lambda i: (START + datetime.timedelta(days=i)).date(), pa.date32()),
            "ti": column(lambda i: i * 1000 + 1, pa.int32()),
            "ts0": moments(0, pa.timestamp("ns")),
            "ts3": moments(1000, pa.timestamp("ns")),
            "ts6": moments(1, pa.timestamp("ns")),
            "ts9": moments(1, pa.timestamp("ns")),
            "lz": moments(0, pa.timestamp("ns", "UTC")),
        }
    )


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def read_by_java(paimon_java: Any, name: str, schema: pa.Schema, where: Any = None) -> pa.Table:
    read = paimon_java.read(name, where)
    return pa.table([column.cast(field.type) for column, field in zip(read.columns, schema)], schema=schema)


def check(paimon_java: Any, name: str, where: Any = None, java_where: Any = None) -> int:
    """Compares the rows of both readers. Returns the number of rows."""
    scan = open_table(paimon_java.path(name)).scan(where=where)
    rows = scan.to_table()
    expected = read_by_java(paimon_java, name, rows.schema, java_where)
    assert sorted_rows(rows) == sorted_rows(expected)
    assert scan.count_rows() == rows.num_rows
    return rows.num_rows


def alter(paimon_java: Any, name: str, *changes: Any) -> None:
    identifier = paimon_java.paimon.catalog.Identifier.create("db", name)
    paimon_java.catalog.alterTable(identifier, paimon_java._list(changes), False)


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_every_type_and_index(paimon_java: Any, form: str) -> None:
    name = f"types_{form}"
    paimon_java.create(name, TYPES, options={"bucket": "-1", "file.format": form, **INDEXES})
    data = rows_of_all_types()
    paimon_java.write(name, data)
    paimon_java.write(name, data.slice(3, 50))
    assert check(paimon_java, name) == ROWS + 50
    leaf = paimon_java.leaf
    moment = START + datetime.timedelta(seconds=20, microseconds=20)
    for where, java_where in [
        (col("st") == "longer 7 ü", leaf(name, "st", "equal", "longer 7 ü")),
        (col("i").is_in([-500, -479, -493, 1]), leaf(name, "i", "in", "-500", "-479", "-493", "1")),
        (col("l") > 250 * 2**33, leaf(name, "l", "greaterThan", str(250 * 2**33))),
        (col("d") <= -40, leaf(name, "d", "lessOrEqual", "-40")),
        (col("dec") == Decimal("2.5"), leaf(name, "dec", "equal", "2.50")),
        (col("da") < datetime.date(2020, 1, 9), leaf(name, "da", "lessThan", "2020-01-09")),
        (col("s").is_null(), leaf(name, "s", "isNull")),
        (col("vc").is_not_null(), leaf(name, "vc", "isNotNull")),
        (col("ts6") == moment, leaf(name, "ts6", "equal", str(moment))),
        (col("b") == True, leaf(name, "b", "equal", "true")),  # noqa: E712
        (
            (col("vc") >= "v5") & (col("s") < 300),
            paimon_java.both(leaf(name, "vc", "greaterOrEqual", "v5"), leaf(name, "s", "lessThan", "300")),
        ),
        (
            (col("st") == "longer 7 ü") | (col("l") == 0),
            paimon_java.either(leaf(name, "st", "equal", "longer 7 ü"), leaf(name, "l", "equal", "0")),
        ),
    ]:
        assert 0 < check(paimon_java, name, where, java_where) < ROWS + 50, where


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_schema_evolution(paimon_java: Any, form: str) -> None:
    name = f"evolved_{form}"
    options = {"bucket": "-1", "file.format": form, "file-index.bitmap.columns": "a,c"}
    paimon_java.create(name, {"a": "INT", "b": "STRING", "c": "FLOAT", "d": "INT"}, options=options)
    numbers = [1, 2, None, 4]
    first = {"a": pa.array(numbers, pa.int32()), "b": pa.array(["w", None, "y", "z"])}
    first |= {"c": pa.array([1.5, None, 2.5, 3.5], pa.float32()), "d": pa.array([7, 8, 9, None], pa.int32())}
    paimon_java.write(name, pa.table(first))
    change = paimon_java.paimon.schema.SchemaChange
    types = paimon_java.data_type
    alter(paimon_java, name, change.dropColumn("d"))
    alter(paimon_java, name, change.renameColumn("a", "n"), change.addColumn("d", types("STRING")))
    alter(paimon_java, name, change.updateColumnType("n", types("BIGINT")))
    alter(paimon_java, name, change.updateColumnType("c", types("DOUBLE")), change.renameColumn("b", "a"))
    second = {"n": pa.array([2**40, 2]), "a": pa.array(["v", None]), "c": pa.array([0.1, None])}
    paimon_java.write(name, pa.table({**second, "d": pa.array(["x", None])}))
    assert check(paimon_java, name) == 6
    leaf = paimon_java.leaf
    for where, java_where, count in [
        (col("n") == 2, leaf(name, "n", "equal", "2"), 2),
        (col("n") > 2, leaf(name, "n", "greaterThan", "2"), 2),
        (col("a") == "z", leaf(name, "a", "equal", "z"), 1),
        (col("c") >= 2.5, leaf(name, "c", "greaterOrEqual", "2.5"), 2),
        (col("d").is_null(), leaf(name, "d", "isNull"), 5),
        (col("d") == "x", leaf(name, "d", "equal", "x"), 1),
    ]:
        assert check(paimon_java, name, where, java_where) == count, where
    assert open_table(paimon_java.path(name), snapshot_id=1).scan().schema.names == ["a", "b", "c", "d"]


@pytest.mark.parametrize("bitmap64", [False, True])
def test_deletion_vectors_in_buckets(paimon_java: Any, bitmap64: bool) -> None:
    name = f"keyed_{64 if bitmap64 else 32}"
    options = {"bucket": "3", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bitmap64).lower()}
    types = {"k": "STRING NOT NULL", "v": "BIGINT"}
    folder = paimon_java.create(name, types, primary_keys=["k"], options={**options, "file-index.bitmap.columns": "v"})
    keys = [f"key number {i}" for i in range(500)]
    paimon_java.write(name, pa.table({"k": keys, "v": list(range(500))}), compact=True)
    for round_ in range(3):
        chosen = keys[round_ * 30 :: 7]
        paimon_java.write(name, pa.table({"k": chosen, "v": [round_] * len(chosen)}), compact=True)
    gone = keys[::50]
    paimon_java.write(name, pa.table({"k": gone, "v": [0] * len(gone)}), kind="DELETE", compact=True)
    paimon_java.write(name, pa.table({"k": ["not compacted"], "v": [5]}))
    assert check(paimon_java, name) >= 490  # without the last row, which is not visible before Paimon compacts it
    table = open_table(folder)
    vectors = [vector for path in folder.glob("index/*") for _, vector in read_deletion_vectors(path)]
    assert {vector.bitmap64 for vector in vectors} == {bitmap64}
    assert any(file.deletion is not None for file in table.files())
    for key in keys[1:8]:
        where = (col("k") == key) & (col("v") >= 0)
        assert len({task.file.bucket for task in table.plan(where).tasks}) == 1
        leaf = paimon_java.leaf(name, "k", "equal", key)
        assert check(paimon_java, name, where, leaf) == 1
    leaf = paimon_java.leaf(name, "v", "equal", "2")
    assert check(paimon_java, name, col("v") == 2, leaf) > 1


def test_key_hashes_and_merging(paimon_java: Any) -> None:
    name = "hashed"
    types = {"k": "INT NOT NULL", "s": "STRING NOT NULL", "v": "INT"}
    options = {"bucket": "2", "write-only": "true"}
    folder = paimon_java.create(name, types, primary_keys=["k", "s"], options=options)
    data = {"k": pa.array(range(100), pa.int32()), "s": [f"some text {i}" for i in range(100)]}
    paimon_java.write(name, pa.table({**data, "v": pa.array([1] * 100, pa.int32())}))
    assert check(paimon_java, name) == 100
    for bucket in (0, 1):
        rows = pa.concat_tables(
            [
                pa.orc.read_table(task.file.path).select(["k", "s"])
                for task in open_table(folder).plan().tasks
                if task.file.bucket == bucket
            ]
        )
        hashes = key_hash(rows, ["INT", "STRING"])
        assert set(bucket_of_hash(hashes, 2).tolist()) == {bucket}
    paimon_java.write(name, pa.table({**data, "v": pa.array([2] * 100, pa.int32())}))
    with pytest.raises(Unsupported, match="must be merged by primary key"):
        open_table(folder).scan()


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_partition_directories(paimon_java: Any, legacy: str) -> None:
    name = f"partitioned_{legacy}"
    types = {"v": "INT", "s": "STRING", "d": "DATE", "i": "INT", "b": "BOOLEAN"}
    types |= {"t": "TIMESTAMP(3)", "x": "DECIMAL(5, 2)"}
    options = {"bucket": "-1", "partition.legacy-name": legacy}
    folder = paimon_java.create(name, types, partition_keys=["s", "d", "i", "b", "t", "x"], options=options)
    texts = ["plain", None, "a b/c=d%", "\"#'*:?\\{}[]^~é", " ", "x" * 40]
    count = len(texts)
    days = [datetime.date(2024, 1, 1), None, datetime.date(1969, 12, 31), *[datetime.date(2000, 2, 29)] * 3]
    data = {
        "v": pa.array(range(count), pa.int32()),
        "s": texts,
        "d": pa.array(days, pa.date32()),
        "i": pa.array([1, None, -5, 0, 2**31 - 1, 7], pa.int32()),
        "b": [True, None, False, True, False, True],
        "t": pa.array([None, *(START + datetime.timedelta(seconds=1.5 * i) for i in range(5))], pa.timestamp("ns")),
        "x": pa.array([Decimal("1.50"), None, Decimal("-2.25"), *[Decimal(3)] * 3], pa.decimal128(5, 2)),
    }
    paimon_java.write(name, pa.table(data))
    table = open_table(folder)
    assert all(Path(file.path).exists() for file in table.files())
    assert check(paimon_java, name) == count
    for where in (col("s") == texts[2], col("d").is_null(), col("i") > 5, col("t") == START, col("x") < 0):
        plan = table.plan(where)
        assert 0 < len(plan.tasks) < count
        assert {str(reason.source) for skipped in plan.skipped for reason in skipped.reasons} == {"partition"}
        assert check(paimon_java, name, where, in_java(paimon_java, name, where)) == len(plan.tasks)


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_partition_directories_that_the_jvm_names(paimon_java: Any, jvm_in: Any, legacy: str) -> None:
    """In directory names, the text of a float depends on the JVM's version, and the text of an instant on its zone. The
    text of bytes in a legacy name is that of a Java object, such as "[B@1b2c3d"."""
    name = f"named_by_jvm_{legacy}"
    types = {"v": "INT", "f": "FLOAT", "d": "DOUBLE", "c": "TIME(3)", "t": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
    if legacy == "false":
        # The legacy name of a BYTES value is like "[B@1b2c3d". Java itself does not find such a directory again.
        types["y"] = "BYTES"
    keys = [key for key in types if key != "v"]
    options = {"bucket": "-1", "partition.legacy-name": legacy, "orc.timestamp-ltz.legacy.type": "false"}
    folder = paimon_java.create(name, types, partition_keys=keys, options=options)
    floats = [0.1, -0.0, 0.0, float("nan"), None, 2e23]
    count = len(floats)
    data = {
        "v": pa.array(range(count), pa.int32()),
        "f": pa.array([*floats[:5], float("inf")], pa.float32()),
        "d": pa.array(floats, pa.float64()),
        "c": pa.array([0, 1, 10, 999, None, 86_399_999], pa.int32()),
        "t": pa.array([*range(0, 5 * 1_800_000, 1_800_000), None], pa.timestamp("ms", "UTC")).cast(
            pa.timestamp("ns", "UTC")
        ),
    }
    if "y" in types:
        data["y"] = pa.array([b"a/b", b"", None, b"\xff", b"\xed\xa0\x80", b"x"], pa.binary())
    with jvm_in("Asia/Kolkata"):
        paimon_java.write(name, pa.table(data))
        expected = sorted(paimon_java.read(name)["v"].to_pylist())
    assert expected == list(range(count))
    table = open_table(folder)
    assert all(Path(file.path).exists() for file in table.files())
    assert sorted(table.scan().to_table()["v"].to_pylist()) == expected
    for where, rows in ((col("d") == 2e23, [5]), (col("d") == 0, [1, 2]), (col("f").is_nan(), [3])):
        assert sorted(table.scan(["v"], where).to_table()["v"].to_pylist()) == rows
    assert sorted(table.scan(["v"], col("d") > 1, nan="largest").to_table()["v"].to_pylist()) == [3, 5]
    # Bounds do not exclude the partition of NaN, so it is in the plan beside the partition of 2e23.
    assert len(table.plan(col("d") == 2e23).tasks) == 2
    with pytest.raises(Unsupported, match="depends on the JVM"):
        table.append(table.scan().to_table())


def in_java(paimon_java: Any, name: str, where: Any) -> Any:
    """Converts the predicate to Paimon's predicate."""
    operation = {"==": "equal", ">": "greaterThan", "<": "lessThan", "is_null": "isNull"}[where.op.value]
    return paimon_java.leaf(name, where.column, operation, *(str(value) for value in where.literals))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "null"])
def test_manifest_codecs_and_many_snapshots(paimon_java: Any, codec: str) -> None:
    name = f"manifests_{codec}"
    options = {"bucket": "-1", "manifest.compression": codec, "manifest.target-file-size": "1 kb"}
    folder = paimon_java.create(name, {"a": "INT"}, options={**options, "metadata.stats-mode": "full"})
    for number in range(6):
        paimon_java.write(name, pa.table({"a": pa.array([number], pa.int32())}))
    assert check(paimon_java, name) == 6
    for snapshot in range(1, 7):
        assert open_table(folder, snapshot_id=snapshot).scan().count_rows() == snapshot
    assert len(open_table(folder).plan(col("a") == 3).tasks) == 1


@pytest.mark.parametrize("threshold", ["1 b", "10 kb"])
def test_keys_of_maps_are_indexed_beside_the_file_or_in_the_manifest(paimon_java: Any, threshold: str) -> None:
    name = f"maps_{threshold.replace(' ', '_')}"
    java_types = paimon_java.paimon.types.DataTypes
    options = {
        "bucket": "-1",
        "file-index.bitmap.columns": "m[a],m[absent],id",
        "file-index.range-bitmap.columns": "m[b]",
        "file-index.bloom-filter.columns": "m[a]",
        "file-index.bloom-filter.m[a].items": "200",
        "file-index.in-manifest-threshold": threshold,
    }
    folder = paimon_java.create(
        name, {"id": "INT", "m": java_types.MAP(java_types.STRING(), java_types.INT())}, options=options
    )

    def row(i: int) -> list[tuple[str, int | None]] | None:
        return [None, [], [("a", i % 10)], [("b", i), ("a", None)], [("b", None), ("a", 3)]][i % 5]

    maps = [row(i) for i in range(ROWS)]
    data = pa.table({"id": pa.array(range(ROWS), pa.int32()), "m": pa.array(maps, pa.map_(pa.string(), pa.int32()))})
    paimon_java.write(name, data)
    table = open_table(folder)
    (file,) = table.files()
    size = len(file.embedded_index) if file.embedded_index else Path(file.index.name).stat().st_size
    assert FileIndexOptions.parse(table.table_schema.options).is_embedded(size) == (file.embedded_index is not None)
    assert (file.embedded_index is not None) == (threshold == "10 kb")
    types = {"id": "INT", "m": "MAP<STRING, INT>"}
    with read_file_index(file.embedded_index or file.index, types=types, strict=True, rows=ROWS) as index:
        values = {key: [dict(entries or ()).get(key) for entries in maps] for key in ("a", "b", "absent")}
        for key, where, holds in [
            ("a", col("m[a]") == 3, lambda value: value == 3),
            ("a", col("m[a]").is_null(), lambda value: value is None),
            ("b", col("m[b]") < 100, lambda value: value is not None and value < 100),
            ("absent", col("m[absent]").is_not_null(), lambda value: value is not None),
        ]:
            verdict = index.evaluate(where)
            assert list(verdict.rows or ()) == [i for i, value in enumerate(values[key]) if holds(value)], where
        built = build_file_index(data, FileIndexOptions.parse(options), types=types)
        assert {(e.column, e.kind): e.length for e in built.entries} == {
            (e.column, e.kind): e.length for e in index.entries
        }
    leaf = paimon_java.leaf(name, "id", "equal", "33")
    assert check(paimon_java, name, col("id") == 33, leaf) == 1
