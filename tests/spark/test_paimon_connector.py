"""``orcidx.spark.read`` and Paimon's own Spark connector return the same rows of Paimon tables, in one session.

The tests need Spark 3.5, the newest version with a connector that can be downloaded
(docs/decisions/0011-paimon-java.md). ``.ci/run`` creates a session with this Spark version and the
connector. CONTRIBUTING.md says how to create one by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from goldens import FIXTURES
from interop.paimon_sql import counted
from paimon_invariants import check_table

from orcidx import paimon
from orcidx.errors import Unsupported
from orcidx.spark import read

pytestmark = pytest.mark.connector

COLUMNS = """id BIGINT, k INT, b BOOLEAN, t TINYINT, sm SMALLINT, f FLOAT, d DOUBLE, dec DECIMAL(9, 2),
wide DECIMAL(30, 5), s STRING, c CHAR(5), vc VARCHAR(8), bin BINARY, da DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ,
arr ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<x: INT, y: STRING>"""
VALUES = {
    "k": "CAST(id % 10 AS INT)",
    "b": "id % 2 = 0",
    "t": "CAST(id % 256 - 128 AS TINYINT)",
    "sm": "CAST(id * 3 - 500 AS SMALLINT)",
    "f": "CASE id % 9 WHEN 0 THEN FLOAT('NaN') WHEN 1 THEN FLOAT('-0.0') ELSE CAST(id / 4 AS FLOAT) END",
    "d": "CASE id % 9 WHEN 0 THEN DOUBLE('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN DOUBLE('-Infinity') ELSE id / 7D END",
    "dec": "CAST(id * 2.25 - 300 AS DECIMAL(9, 2))",
    "wide": "CAST(id AS DECIMAL(30, 5)) * 10000000000000000",
    "s": "IF(id % 13 = 0, '', concat('text ', id % 30, ' ü'))",
    "c": "concat('c', id % 4)",
    "vc": "concat('v', id % 20)",
    "bin": "CAST(concat('b', id % 50) AS BINARY)",
    "da": "date_add(DATE '1960-01-01', int(id * 100))",
    "ts": "timestamp_micros(id * 60000000123456 - 9000000000000000)",
    "ntz": "to_timestamp_ntz('1950-01-01 00:00:00') + make_dt_interval(int(id) * 50, 0, 0, id * 0.001234)",
    "arr": "array(int(id), NULL, 7)",
    "m": "map('a', int(id), 'b', NULL)",
    "st": "named_struct('x', int(id), 'y', NULL)",
}
INDEXES = {
    "file-index.bloom-filter.columns": "s,id,bin,da",
    "file-index.bloom-filter.s.items": "300",
    "file-index.bitmap.columns": "k,vc,t,da",
}
WHERES = [
    "k = 3",
    "k = 33",
    "k IN (1, 2, 99) AND s = 'text 11 ü'",
    "k <> 3",
    "NOT (k IN (1, 2, 3))",
    "k IS NULL",
    "b",
    "NOT b AND t > 100",
    "t <=> NULL",
    "t <=> 6",
    "sm BETWEEN -100 AND 50",
    "f > 70.0",
    "f = 0.0",
    "d > 40.0",
    "d < -1.0",
    "isnan(d)",
    "NOT (d <= 10.0)",
    "dec = 6.00",
    "dec >= 120.5 OR dec < -290",
    "wide > 2500000000000000000",
    "s = ''",
    "s LIKE 'text 2%'",
    "s > 'text 5' AND vc <= 'v15'",
    "c = 'c1'",
    "c IN ('c1   ', 'c2')",
    "c > 'c2'",
    "vc = 'v7' OR vc = 'v8' OR k = 1",
    "bin = X'623133'",
    "da < DATE '1970-01-01'",
    "da = DATE '2001-01-25'",
    "ts >= TIMESTAMP '1999-12-31 12:00:00'",
    "ts < '1970-01-01'",
    "ntz > TIMESTAMP_NTZ '1970-01-01 00:00:00'",
    "st.x > 150",
    "arr IS NULL AND m IS NOT NULL",
    "id = 77 OR (s = 'text 4 ü' AND b)",
    "id > 1000",
]
LOST = {"f = 0.0", "d < -1.0"}
"""Filters for which Paimon 0.9.0 loses rows. Paimon skips files whose minimum is NaN. ORC Java writes this minimum if
the first value of a file is NaN."""


def rows(start: int, end: int) -> str:
    """Returns a query for rows of every type. All columns but ``id`` have some nulls."""
    values = [f"IF((id + {n}) % 11 = 3, NULL, {sql}) AS {name}" for n, (name, sql) in enumerate(VALUES.items())]
    return f"SELECT id, {', '.join(values)} FROM range({start}, {end}, 1, 1)"


@pytest.fixture(scope="module")
def typed(paimon_sql: Any) -> Any:
    """An append table with every type, in three files. The indexes of the last file are in a file beside it."""
    paimon_sql.create("typed", COLUMNS, options={"bucket": "-1", **INDEXES})
    paimon_sql.insert("typed", rows(0, 200))
    paimon_sql.insert("typed", rows(200, 290))
    paimon_sql.run("ALTER TABLE {db}.typed SET TBLPROPERTIES ('file-index.in-manifest-threshold' = '1 B')")
    paimon_sql.insert("typed", rows(290, 300))
    return paimon_sql


def test_every_type_and_index(typed: Any) -> None:
    files = paimon.open_table(typed.path("typed")).files()
    assert [(file.index is not None, file.embedded_index is not None) for file in files].count((False, False)) == 0
    assert typed.check("typed") == 300


@pytest.mark.parametrize("where", WHERES)
def test_filters(typed: Any, where: str) -> None:
    """A filter of orcidx returns the same rows as the connector. For the conditions in ``LOST``, the connector's own
    filter loses rows, so Spark filters all rows of the connector instead."""
    found = typed.check("typed", where, ["id", "s"], pushed=where not in LOST)
    assert found < 300
    assert found or where in ("k = 33", "t <=> NULL", "id > 1000")
    if where in LOST:
        assert typed.table("typed").where(where).count() < found


def test_random_filters(typed: Any, rng: np.random.Generator) -> None:
    for _ in range(12):
        typed.check("typed", random_filter(rng), ["id"])


def random_filter(rng: np.random.Generator) -> str:
    """Returns up to three comparisons with values of the table, joined and sometimes negated."""
    where = ""
    for _ in range(int(rng.integers(1, 4))):
        name = str(rng.choice(["id", "k", "t", "sm", "s", "vc", "dec"]))
        operation = str(rng.choice(["=", "=", "<>", "<", ">=", "<=>", "IS NULL", "IS NOT NULL", "IN"]))
        leaf = f"{name} {operation}"
        if operation == "IN":
            leaf += f" ({literal(name, rng)}, {literal(name, rng)})"
        elif not operation.endswith("NULL"):
            leaf += f" {literal(name, rng)}"
        leaf = f"NOT ({leaf})" if rng.random() < 0.2 else leaf
        where = f"({where}) {rng.choice(['AND', 'OR'])} {leaf}" if where else leaf
    return where


def literal(name: str, rng: np.random.Generator) -> str:
    number = int(rng.integers(-5, 310))
    texts = {"s": f"'text {number % 32} ü'", "vc": f"'v{number % 22}'", "dec": f"{number * 2.25 - 300}"}
    made = {**texts, "k": number % 12, "t": number % 260 - 130, "sm": number * 3 - 500}
    return str(made.get(name, number))


def test_columns_limit_and_top(typed: Any) -> None:
    typed.check("typed", "k = 3", ["st", "arr", "ts"])
    assert read(typed.spark, typed.path("typed"), limit=17, jvm_zone="UTC").count() == 17
    assert read(typed.spark, typed.path("typed"), ["id"], "k = 3", limit=1000).count() == typed.check("typed", "k = 3")
    for top, order in [
        (["dec", "id"], "dec ASC NULLS LAST, id"),
        ([("s", "desc", "first"), ("id", "desc")], "s DESC NULLS FIRST, id DESC"),
        ([("d", "desc", "last"), "id"], "d DESC NULLS LAST, id"),
    ]:
        found = read(typed.spark, typed.path("typed"), ["id", "d"], "t > -100", top=top, limit=20)
        order = f"SELECT id, d FROM paimon.db.typed WHERE t > -100 ORDER BY {order} LIMIT 20"
        assert list(map(repr, found.collect())) == list(map(repr, typed.spark.sql(order).collect())), top


# ---------------------------------------------------------------------- partitions, deletes and updates


def test_partitions(paimon_sql: Any) -> None:
    """Partition values are texts that must be escaped in paths, nulls and dates. A partition is overwritten, and rows
    are deleted and updated."""
    columns = "id BIGINT, v STRING, p STRING, day DATE, n INT"
    paimon_sql.create("parted", columns, partitions="p, day, n", options={"bucket": "-1"})
    paimon_sql.insert(
        "parted",
        """SELECT id, concat('v', id), element_at(array('plain', 'a b/c=d%', 'é', NULL), int(id % 4) + 1),
        IF(id % 3 = 0, NULL, date_add(DATE '2024-01-01', int(id % 2))), IF(id % 5 = 0, NULL, int(id % 2))
        FROM range(200)""",
    )
    paimon_sql.run(
        "INSERT OVERWRITE {db}.parted PARTITION (p = 'é', day = DATE '2024-01-01', n = 0) VALUES (1000, 'new')",
        "DELETE FROM {db}.parted WHERE p = 'plain' AND id < 100",
        "UPDATE {db}.parted SET v = 'changed' WHERE n = 1 AND id % 7 = 0",
    )
    assert paimon_sql.check("parted") < 201
    for where in (
        "p = 'a b/c=d%'",
        "p IS NULL AND id > 50",
        "day > DATE '2024-01-01' OR p = 'é'",
        "n IN (0, 5) AND v <> 'v2'",
        "n IS NULL AND day IS NULL",
        "v = 'changed'",
        "v <> 'v0' AND p LIKE 'pl%'",
    ):
        assert paimon_sql.check("parted", where) > 0, where
    assert paimon_sql.check("parted", snapshot_id=1) == 200


def test_deletion_vectors_of_an_append_table(paimon_sql: Any) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "file-index.bitmap.columns": "k"}
    paimon_sql.create("append_dv", "id BIGINT, k INT, s STRING", options=options)
    paimon_sql.insert("append_dv", "SELECT id, int(id % 10), concat('s', id) FROM range(0, 500, 1, 2)")
    paimon_sql.run(
        "DELETE FROM {db}.append_dv WHERE id % 7 = 0",
        "UPDATE {db}.append_dv SET s = 'updated', k = 77 WHERE id BETWEEN 100 AND 120",
        """MERGE INTO {db}.append_dv AS t
        USING (SELECT id, int(id) AS k, 'merged' AS s FROM range(480, 520)) AS n ON t.id = n.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    )
    assert any(file.deletion is not None for file in paimon.open_table(paimon_sql.path("append_dv")).files())
    assert paimon_sql.check("append_dv") == 500 - 72 + 23
    for where in ("k = 77", "k = 3", "k > 400", "s = 'updated' OR s = 's200'", "id = 7", "k = 500 AND s = 'merged'"):
        paimon_sql.check("append_dv", where)
    assert paimon_sql.check("append_dv", snapshot_id=1) == 500


@pytest.mark.parametrize("bucket", ["3", "-1"], ids=["fixed", "dynamic"])
def test_primary_keys(paimon_sql: Any, bucket: str) -> None:
    """Rows are upserted and deleted by key, in a partitioned table with deletion vectors and indexes."""
    name = f"keyed_{'fixed' if bucket == '3' else 'dynamic'}"
    options = {"bucket": bucket, "primary-key": "p,k", "deletion-vectors.enabled": "true"}
    options |= {"dynamic-bucket.target-row-num": "100", "file-index.bloom-filter.columns": "v", "sequence.field": "at"}
    paimon_sql.create(name, "k STRING, v BIGINT, at TIMESTAMP, p INT", partitions="p", options=options)
    select = "SELECT concat('key ', id), id{}, timestamp_seconds(1700000000 + {}), int(id % 2) FROM range({}, {})"
    paimon_sql.insert(name, select.format("", 0, 0, 400))
    paimon_sql.insert(name, select.format(" + 1000", 5, 100, 200))
    paimon_sql.insert(name, select.format(" + 5000", -5, 150, 450))
    paimon_sql.run(
        f"DELETE FROM {{db}}.{name} WHERE k IN ('key 3', 'key 150', 'key 420')",
        f"UPDATE {{db}}.{name} SET v = -1, at = TIMESTAMP '2040-01-01 00:00:00' WHERE v BETWEEN 1100 AND 1120",
    )
    assert any(file.deletion is not None for file in paimon.open_table(paimon_sql.path(name)).files())
    assert len({file.bucket for file in paimon.open_table(paimon_sql.path(name)).files()}) > 1
    assert paimon_sql.check(name) == 447
    for where, count in [
        ("k = 'key 77'", 1),
        ("k = 'key 77' AND p = 1", 1),
        ("k = 'key 77' AND p = 0", 0),
        ("k = 'key 3'", 0),
        ("k IN ('key 1', 'key 120', 'key 440', 'nothing')", 3),
        ("v = -1", 21),
        ("v = 150", 0),
        ("v > 5000 AND p = 0", 24),
        ("at > TIMESTAMP '2030-01-01 00:00:00' OR k = 'key 0'", 22),
        ("k > 'key 39' AND k < 'key 4'", 10),
    ]:
        assert paimon_sql.check(name, where, ["v", "k"]) == count, where


def test_keys_that_need_merging(paimon_sql: Any) -> None:
    options = {"bucket": "1", "primary-key": "k", "num-sorted-run.compaction-trigger": "100"}
    paimon_sql.create("merging", "k INT, v INT", options=options)
    paimon_sql.insert("merging", "SELECT int(id), 0 FROM range(100)")
    paimon_sql.insert("merging", "SELECT int(id), 1 FROM range(50, 150)")
    with pytest.raises(Unsupported, match="must be merged by primary key"):
        read(paimon_sql.spark, paimon_sql.path("merging"))
    paimon_sql.run("CALL paimon.sys.compact(table => 'db.merging')")
    assert paimon_sql.check("merging") == 150
    assert paimon_sql.check("merging", "v = 0") == 50


# ---------------------------------------------------------------------- schemas that change


def test_schema_evolution(paimon_sql: Any) -> None:
    """Paimon 0.9.0 applies wrong filters to files of an older schema, so rows are missing or the read fails. So Spark
    evaluates the filters in this test."""
    name = "evolved"
    columns = "id INT, a STRING, gone INT, f FLOAT, st STRUCT<x: INT, y: STRING>"
    paimon_sql.create(name, columns, options={"bucket": "-1", "file-index.bitmap.columns": "id,a"})
    first = "(1, 'one', 10, 1.5, named_struct('x', 1, 'y', 'u'))"
    paimon_sql.insert(name, f"VALUES {first}, (2, NULL, NULL, NULL, NULL)")
    changes = ["DROP COLUMN gone", "ADD COLUMN gone STRING", "ADD COLUMN first DATE FIRST", "RENAME COLUMN a TO b"]
    changes += ["ALTER COLUMN id TYPE BIGINT", "ALTER COLUMN f TYPE DOUBLE"]
    indexed = "SET TBLPROPERTIES ('file-index.bitmap.columns' = 'id,{}')"
    paimon_sql.run(*(f"ALTER TABLE {{db}}.{name} {change}" for change in [*changes, indexed.format("b")]))
    second = "(DATE '2024-02-29', 3000000000, 'three', 0.1, named_struct('x', 3, 'y', 'w'), 'back')"
    paimon_sql.insert(name, f"VALUES {second}")
    changes = ["RENAME COLUMN b TO a", indexed.format("a")]
    paimon_sql.run(*(f"ALTER TABLE {{db}}.{name} {change}" for change in changes))
    paimon_sql.insert(name, "VALUES (NULL, 2, 'one', 2.5, NULL, NULL)")
    assert paimon_sql.check(name) == 4
    for where, count in [
        ("id = 2", 2),
        ("id > 2000000000", 1),
        ("a = 'one'", 2),
        ("a IS NULL", 1),
        ("gone IS NULL", 3),
        ("gone = 'back'", 1),
        ("f >= 1.5", 2),
        ("first IS NOT NULL OR id = 1", 2),
        ("st.x = 3", 1),
    ]:
        assert paimon_sql.check(name, where, pushed=False) == count, where
    assert paimon_sql.table(name).where("a = 'one'").count() == 1
    assert paimon_sql.check(name, snapshot_id=1) == 2


def test_tables_of_a_later_paimon(paimon_sql: Any) -> None:
    """Paimon 1.4.2 wrote these tables, and 0.9.0 can read them."""
    for name in ("append_partitioned", "append_index_files", "append_dv32", "pk_dv32"):
        folder = FIXTURES / "paimon/tables/db.db" / name
        expected = paimon_sql.spark.read.format("paimon").load(str(folder))
        found = read(paimon_sql.spark, folder)
        assert found.schema.simpleString() == expected.schema.simpleString()
        rows = counted(found)
        assert rows == counted(expected), name
        assert rows.total() > 0


def test_the_connector_lives_on_with_a_table_changed_here(paimon_sql: Any) -> None:
    """The connector makes a table, and orcidx appends rows, deletes rows and adds indexes. Then the connector can still
    read, filter and change the table, and orcidx can delete rows again."""
    folder = paimon_sql.create(
        "changed", "id BIGINT, city STRING", options={"bucket": "-1", "deletion-vectors.enabled": "true"}
    )
    paimon_sql.insert("changed", "SELECT id, concat('c', id % 40) FROM range(1000)")
    rows = pa.table({"id": pa.array(range(1000, 2000), pa.int64()), "city": [f"c{i % 40}" for i in range(1000, 2000)]})
    paimon.open_table(folder).append(rows)
    paimon.open_table(folder).delete("id < 3")
    spec = {"bitmap": {"city": {"version": 1}}}  # Paimon 0.9 cannot read bitmaps of version 2
    assert len(paimon.open_table(folder).rewrite_file_index(spec=spec).files["done"]) >= 2
    check_table(folder)

    def ids(where: str = "true") -> list[int]:
        paimon_sql.run("REFRESH TABLE {db}.changed")
        return sorted(row["id"] for row in paimon_sql.table("changed").where(where).collect())

    assert ids() == list(range(3, 2000))
    assert ids("id = 1500") == [1500]
    assert ids("city = 'c7'") == list(range(7, 2000, 40))
    paimon_sql.run("DELETE FROM {db}.changed WHERE id BETWEEN 100 AND 109")
    paimon_sql.insert("changed", "VALUES (5000L, 'z')")
    expected = [*range(3, 100), *range(110, 2000), 5000]
    assert ids() == expected
    assert paimon.open_table(folder).delete("id >= 1990").rows == 11
    check_table(folder)
    assert ids() == [i for i in expected if i < 1990]
