"""Tests the bridge to Paimon's Java library, which the interop tests use."""

from typing import Any

import pyarrow as pa

TYPES = {"id": "BIGINT", "city": "STRING"}
ROWS = pa.table({"id": range(20000), "city": ["Oslo", "Rom"] * 10000})
INDEX = {"file-index.bitmap.columns": "city", "file-index.in-manifest-threshold": "1 B"}


def test_append_table_with_a_bitmap_index(paimon_java: Any) -> None:
    folder = paimon_java.create("bridge_append", TYPES, options={"bucket": "-1", **INDEX})
    assert paimon_java.write("bridge_append", ROWS) == 20000
    where = paimon_java.leaf("bridge_append", "city", "equal", "Rom")
    assert paimon_java.read("bridge_append", where).num_rows == 10000
    assert paimon_java.read("bridge_append").equals(ROWS)
    (index,) = folder.glob("bucket-0/*.index")
    assert paimon_java.evaluate(index, TYPES, where) == ("ROWS", list(range(1, 20000, 2)))
    nowhere = paimon_java.leaf(TYPES, "city", "in", "Paris", "Bern")
    assert paimon_java.evaluate(index, TYPES, nowhere)[0] == "SKIP"
    assert paimon_java.read("bridge_append", paimon_java.both(where, nowhere)).num_rows == 0


def test_primary_key_table_with_deletion_vectors(paimon_java: Any) -> None:
    types = {"id": "BIGINT NOT NULL", "city": "STRING"}
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    folder = paimon_java.create("bridge_keyed", types, primary_keys=["id"], options=options)
    paimon_java.write("bridge_keyed", ROWS, compact=True)
    paimon_java.write("bridge_keyed", ROWS.slice(0, 10), kind="DELETE")
    paimon_java.write("bridge_keyed", pa.table({"id": [20], "city": ["Bern"]}), compact=True)
    rows = paimon_java.read("bridge_keyed").sort_by("id")
    assert rows.num_rows == 19990
    assert rows.slice(10, 1).to_pylist() == [{"id": 20, "city": "Bern"}]
    assert list(folder.glob("index/*"))
