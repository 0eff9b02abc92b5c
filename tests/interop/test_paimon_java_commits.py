"""Paimon's Java library reads deletion vectors, hash files and file indexes of orcidx, and uses them in its tables."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx.paimon import (
    DeletionVector,
    FileIndexOptions,
    HashIndex,
    build_file_index,
    key_hash,
    open_table,
    read_deletion_vectors,
    write_deletion_vectors,
)
from orcidx.predicate import col

ROWS = 5000


def vectors(rng: np.random.Generator, *, bitmap64: bool) -> dict[str, DeletionVector]:
    """Returns deletion vectors with every kind of container, empty ones and edges. 64-bit vectors also have far
    positions."""
    sparse = np.unique(rng.integers(0, 2**31 - 1, 300))
    positions: dict[str, Any] = {
        "empty": [],
        "first": [0],
        "edges": [65535, 65536, 131071, 2**31 - 2, 2**31 - 1],
        "run": range(1000, 200_000),
        "runs": [row for start in range(0, 90_000, 700) for row in range(start, start + 90)],
        "dense": np.flatnonzero(rng.random(150_000) < 0.5),
        "sparse": sparse,
    }
    if bitmap64:
        positions["far"] = [5, 2**32 - 1, 2**32, 2**34 + 7, 2**50]
    return {name: DeletionVector(given, bitmap64=bitmap64) for name, given in positions.items()}


def check_ranges(paimon_java: Any, written: dict[str, DeletionVector], ranges: Any) -> None:
    for name, where in ranges.items():
        positions = written[name].positions.tolist()
        near = {0, 1, 2**33, *(position + 1 for position in positions[:500])}
        last = 2**63 if written[name].bitmap64 else 2**31 - 1  # Java refuses larger positions
        asked = sorted({*positions, *(position for position in near if position <= last)})
        kind, count, deleted = paimon_java.deleted(where.path, where.offset, where.length, where.cardinality, asked)
        assert (kind, count, deleted) == ("64" if written[name].bitmap64 else "32", len(positions), positions), name


@pytest.mark.parametrize("bitmap64", [False, True])
def test_paimon_reads_ranges_of_one_file_and_of_rolled_ones(
    paimon_java: Any, rng: np.random.Generator, tmp_path: Path, bitmap64: bool
) -> None:
    written = vectors(rng, bitmap64=bitmap64)
    check_ranges(paimon_java, written, write_deletion_vectors(tmp_path / "index-0", written))
    rolled = write_deletion_vectors(tmp_path / "index", written, target_size=200)
    assert len({where.path for where in rolled.values()}) > 2
    check_ranges(paimon_java, written, rolled)


def test_paimon_reads_both_kinds_in_one_file(paimon_java: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    narrow, wide = vectors(rng, bitmap64=False), vectors(rng, bitmap64=True)
    written = {f"{name}-32": vector for name, vector in narrow.items()}
    written |= {f"{name}-64": vector for name, vector in wide.items()}
    check_ranges(paimon_java, written, write_deletion_vectors(tmp_path / "index-0", written))


def sorted_ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def data_rows(start: int) -> pa.Table:
    numbers = range(start, start + ROWS)
    city = [None if i % 50 == 3 else f"city {i % 40}" for i in numbers]
    return pa.table({"id": list(numbers), "city": city, "score": [float(i * 7 % 1000) for i in numbers]})


TYPES = {"id": "BIGINT", "city": "STRING", "score": "DOUBLE"}


@pytest.mark.parametrize("bitmap64", [False, True])
def test_deletions_committed_to_an_append_table(paimon_java: Any, bitmap64: bool) -> None:
    name = f"committed_{64 if bitmap64 else 32}"
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bitmap64).lower()}
    folder = paimon_java.create(name, TYPES, options=options)
    for start in (0, ROWS, 2 * ROWS):
        paimon_java.write(name, data_rows(start))
    (folder / "index").mkdir()
    gone = {0: [0, 7, ROWS - 1], ROWS: [*range(100, 4000)], 2 * ROWS: [*range(0, ROWS, 2)]}
    for target_size in (None, 20):  # the second commit writes several files, which replace the file of the first commit
        files = open_table(folder).files()
        first_id = {file.entry.name: pa.orc.read_table(file.path, columns=["id"])["id"][0].as_py() for file in files}
        written = {file: DeletionVector(gone[first], bitmap64=bitmap64) for file, first in first_id.items()}
        path = folder / "index" / ("index-orcidx" if target_size is None else "index-orcidx-rolled")
        ranges = write_deletion_vectors(path, written, target_size=target_size)
        paimon_java.commit_deletions(name, ranges)
        expected = sorted(set(range(3 * ROWS)) - {first + row for first, rows in gone.items() for row in rows})
        assert sorted_ids(paimon_java.read(name)) == expected
        assert sorted_ids(open_table(folder).scan().to_table()) == expected
        where = paimon_java.leaf(name, "city", "equal", "city 11")
        alive = [i for i in expected if i % 40 == 11 and i % 50 != 3]
        assert sorted_ids(paimon_java.read(name, where)) == alive
        assert sorted_ids(open_table(folder).scan(where=col("city") == "city 11").to_table()) == alive
        gone = {first: [*rows, 5001 % ROWS] for first, rows in gone.items()}
    assert len({where.path for where in ranges.values()}) == 3


@pytest.mark.parametrize("bitmap64", [False, True])
def test_deletions_in_place_of_those_of_a_keyed_table(paimon_java: Any, bitmap64: bool) -> None:
    """Java merges its next deletions into the vectors that orcidx wrote."""
    name = f"replaced_{64 if bitmap64 else 32}"
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bitmap64).lower()}
    types = {**TYPES, "id": "BIGINT NOT NULL"}
    folder = paimon_java.create(name, types, primary_keys=["id"], options=options)
    paimon_java.write(name, data_rows(0), compact=True)
    paimon_java.write(name, data_rows(0).slice(10, 5))
    (file,) = [file for file in open_table(folder).files() if file.deletion is not None]
    before = file.deletion.read()
    assert before.positions.tolist() == [10, 11, 12, 13, 14]
    assert before.bitmap64 == bitmap64
    after = before | DeletionVector(range(100, 200), bitmap64=bitmap64)
    ranges = write_deletion_vectors(folder / "index" / "index-orcidx", {file.entry.name: after})
    paimon_java.commit_deletions(name, ranges)
    expected = [i for i in range(ROWS) if not 100 <= i < 200]
    assert sorted_ids(paimon_java.read(name)) == expected == sorted_ids(open_table(folder).scan().to_table())
    paimon_java.write(name, data_rows(0).slice(300, 1), kind="DELETE")
    expected.remove(300)
    assert sorted_ids(paimon_java.read(name)) == expected == sorted_ids(open_table(folder).scan().to_table())
    merged = {row for path in folder.glob("index/*") for _, vector in read_deletion_vectors(path) for row in vector}
    assert 300 in merged


SPEC = {
    "file-index.bitmap.columns": "city",
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": str(ROWS),
    "file-index.range-bitmap.columns": "score",
    "file-index.bsi.columns": "id",
}


@pytest.mark.parametrize("embedded", [False, True])
def test_file_indexes_committed_to_a_table_prune_its_reads(paimon_java: Any, embedded: bool) -> None:
    """Java does not filter the rows here, so it returns all rows that the index leaves. The index leaves single rows,
    not whole files."""
    name = f"indexed_{'embedded' if embedded else 'sidecar'}"
    folder = paimon_java.create(name, TYPES, options={"bucket": "-1"})
    for start in (0, ROWS):
        paimon_java.write(name, data_rows(start))
    leaf = paimon_java.leaf
    asked = {
        "city": (leaf(name, "city", "equal", "city 11"), col("city") == "city 11"),
        "null": (leaf(name, "city", "isNull"), col("city").is_null()),
        "score": (leaf(name, "score", "between", "100", "120.5"), col("score").between(100, 120.5)),
        "id": (leaf(name, "id", "in", "17", str(ROWS + 4)), col("id").is_in([17, ROWS + 4])),
        "both": (
            paimon_java.both(leaf(name, "id", "lessThan", "900"), leaf(name, "score", "greaterThan", "990")),
            (col("id") < 900) & (col("score") > 990),
        ),
        "absent": (leaf(name, "city", "equal", "city 111"), col("city") == "city 111"),
    }
    before = {label: paimon_java.read(name, java, exact=False).num_rows for label, (java, _) in asked.items()}
    indexes: dict[str, bytes | str] = {}
    for file in open_table(folder).files():
        built = build_file_index(file.path, FileIndexOptions.parse(SPEC), types=TYPES).to_bytes()
        indexes[file.entry.name] = built
        if not embedded:
            indexes[file.entry.name] = f"{file.entry.name}.index"
            Path(f"{file.path}.index").write_bytes(built)
    paimon_java.commit_file_indexes(name, indexes)
    table = open_table(folder)
    assert all((file.embedded_index is not None) == embedded for file in table.files())
    for label, (java, where) in asked.items():
        expected = sorted_ids(paimon_java.read(name, java))
        pruned = sorted_ids(paimon_java.read(name, java, exact=False))
        assert pruned == expected == sorted_ids(table.scan(where=where).to_table()), label
        assert before[label] > len(expected), label
    assert sorted_ids(paimon_java.read(name)) == list(range(2 * ROWS))


def test_a_bloom_filter_alone_skips_files(paimon_java: Any) -> None:
    name = "bloomed"
    folder = paimon_java.create(name, TYPES, options={"bucket": "-1"})
    even = pa.table({"id": range(0, 2 * ROWS, 2), "city": ["x"] * ROWS, "score": [0.5] * ROWS})
    odd = even.set_column(0, "id", pa.array(range(1, 2 * ROWS, 2)))
    for rows in (even, odd):
        paimon_java.write(name, rows)
    where = paimon_java.leaf(name, "id", "equal", "4001")
    assert paimon_java.read(name, where, exact=False).num_rows == 2 * ROWS
    indexes = {
        file.entry.name: build_file_index(file.path, {"bloom-filter": {"id": {"items": ROWS, "fpp": 0.001}}}).to_bytes()
        for file in open_table(folder).files()
    }
    paimon_java.commit_file_indexes(name, indexes)
    left = paimon_java.read(name, where, exact=False)
    assert left.num_rows == ROWS
    assert 4001 in left["id"].to_pylist()


# ---------------------------------------------------------------------- hash index

KEY_TYPES = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "s": "STRING",
    "y": "BYTES",
    "m": "DECIMAL(9, 2)",
    "w": "DECIMAL(30, 5)",
    "da": "DATE",
    "t3": "TIMESTAMP(3)",
    "t9": "TIMESTAMP(9)",
}


def key_rows(rng: np.random.Generator, count: int) -> pa.Table:
    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        drawn = [values[int(i)] if rng.random() < 0.9 else None for i in rng.integers(0, len(values), count)]
        return pa.array(drawn, kind)

    start = datetime.datetime(2001, 2, 3, 4, 5, 6, 7000)
    texts = ["", "a", "seven77", "eight888", "ü" * 9, "x" * 100]
    wide = [Decimal(0), Decimal("1.00001"), Decimal("-" + "9" * 25 + ".99999")]
    return pa.table(
        {
            "b": some([True, False], pa.bool_()),
            "t": some([0, -128, 127], pa.int8()),
            "i": some([0, -1, 2**31 - 1, -(2**31)], pa.int32()),
            "l": some([0, -1, 2**63 - 1, -(2**63)], pa.int64()),
            "f": some([0.0, -0.0, 1.5, float("inf"), float("nan")], pa.float32()),
            "d": some([0.0, -0.0, 1.5, float("-inf"), float("nan")], pa.float64()),
            "s": some(texts, pa.string()),
            "y": some([text.encode() for text in texts], pa.binary()),
            "m": some([Decimal("0.00"), Decimal("-1234567.89")], pa.decimal128(9, 2)),
            "w": some(wide, pa.decimal128(30, 5)),
            "da": some([datetime.date(1969, 12, 31), datetime.date(2020, 2, 29)], pa.date32()),
            "t3": some([start], pa.timestamp("ns")),
            "t9": some([start, start + datetime.timedelta(microseconds=1)], pa.timestamp("ns")),
        }
    )


def test_key_hashes(paimon_java: Any, rng: np.random.Generator) -> None:
    rows = key_rows(rng, 800)
    for columns in [[name] for name in KEY_TYPES] + [list(KEY_TYPES), ["s", "l"], ["w", "t9", "y"]]:
        types = {name: KEY_TYPES[name] for name in columns}
        keys = rows.select(columns)
        ours = key_hash(keys.combine_chunks().to_batches()[0], list(types.values()))
        assert ours.tolist() == paimon_java.key_hashes(types, keys), columns


def test_a_dynamic_bucket_table_goes_on_with_our_hash_files(paimon_java: Any) -> None:
    """Java updates rows, and finds the bucket of each old key in the hash files of orcidx. If a hash were wrong, the
    updated row would exist twice, in two buckets."""
    name = "dynamic"
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "100"}
    types = {"k": "STRING NOT NULL", "v": "BIGINT"}
    folder = paimon_java.create(name, types, primary_keys=["k"], options=options)
    keys = [f"key number {i}" for i in range(450)]
    paimon_java.write(name, pa.table({"k": keys, "v": [1] * 450}))
    table = open_table(folder)
    files = sorted(folder.glob("index/*"))
    assert len(files) == 5
    hashes = {}
    for bucket in {file.bucket for file in table.files()}:
        paths = [file.path for file in table.files() if file.bucket == bucket]
        rows = pa.concat_tables([pa.orc.read_table(path, columns=["k"]) for path in paths])
        hashes[bucket] = key_hash(rows, ["STRING"])
    for file in files:
        before = HashIndex.from_bytes(file.read_bytes())
        (bucket,) = [bucket for bucket, found in hashes.items() if set(found.tolist()) == set(before.hashes.tolist())]
        rebuilt = HashIndex(sorted(hashes[bucket].tolist(), reverse=True)).to_bytes()
        assert sorted(paimon_java.hashes(name, file.name)) == sorted(hashes[bucket].tolist())
        file.write_bytes(rebuilt)
        assert paimon_java.hashes(name, file.name) == sorted(hashes[bucket].tolist(), reverse=True)
    paimon_java.write(name, pa.table({"k": [*keys[::3], "a new key"], "v": [2] * 151}))
    rows = paimon_java.read(name).to_pylist()
    assert len(rows) == 451
    assert sum(row["v"] == 2 for row in rows) == 151
