"""Files of every Arrow type that pyarrow (ORC C++) can write, decoded and compared value by value."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcidx

ROWS = 3000
CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


def with_nulls(array: pa.Array, rng: np.random.Generator, share: float) -> pa.Array:
    indexes = pa.array(np.arange(len(array)), mask=rng.random(len(array)) < share)
    return array.take(indexes)


def lists(items: pa.Array, rng: np.random.Generator) -> pa.Array:
    offsets = np.concatenate(([0], np.sort(rng.integers(0, len(items), ROWS - 1)), [len(items)]))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def wide_table(rng: np.random.Generator, share: float) -> pa.Table:
    """Returns a table of many columns. ``share``: the share of nulls."""
    big = rng.integers(-(1 << 63), 1 << 63, ROWS)
    plain: dict[str, Any] = {
        "bool": pa.array(rng.random(ROWS) < 0.3),
        "int8": pa.array(big.astype(np.int8)),
        "int16": pa.array(big.astype(np.int16)),
        "int32": pa.array(big.astype(np.int32)),
        "int64": pa.array(big),
        "small": pa.array(rng.integers(0, 20, ROWS)),
        "runs": pa.array(np.repeat(rng.integers(0, 1000, ROWS // 30), 30)),
        "outliers": pa.array(np.where(rng.random(ROWS) < 0.02, big >> 20, rng.integers(0, 100, ROWS))),
        "float": pa.array(rng.standard_normal(ROWS).astype(np.float32)),
        "double": pa.array(rng.standard_normal(ROWS)),
        "string": pa.array([chr(0x40 + i % 0x300) * (i % 30) for i in range(ROWS)]),
        "binary": pa.array([bytes([i % 256]) * (i % 30) for i in range(ROWS)]),
        "date": pa.array(rng.integers(-700_000, 700_000, ROWS).astype(np.int32)).view(pa.date32()),
        "ns": pa.array(rng.integers(1_000_000_000, 1 << 62, ROWS)).view(pa.timestamp("ns")),
        "before": pa.array(-rng.integers(2_000_000_000, 1 << 62, ROWS)).view(pa.timestamp("ns")),
        "instant": pa.array(rng.integers(1_000_000_000, 1 << 62, ROWS)).view(pa.timestamp("ns", "UTC")),
        "decimal": pa.array(rng.integers(-(10**9), 10**9, ROWS)).cast(pa.decimal128(24, 4)),
        "wide": pa.array(big).cast(pa.decimal128(38, 10)),
    }
    columns = {name: with_nulls(array, rng, share) for name, array in plain.items()}
    columns["list"] = lists(columns["int64"], rng)
    columns["lists"] = lists(columns["list"], rng)
    keys = pa.array([f"key {i % 7}" for i in range(ROWS)])
    offsets = columns["list"].offsets
    columns["map"] = pa.MapArray.from_arrays(offsets, keys, columns["double"])
    columns["struct"] = pa.StructArray.from_arrays(
        [columns["string"], columns["list"]], ["s", "l"], mask=pa.array(rng.random(ROWS) < share)
    )
    columns["structs"] = lists(columns["struct"], rng)
    return pa.table(columns)


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pa.orc.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize("share", [0.0, 0.15, 1.0])
@pytest.mark.parametrize("codec", CODECS)
def test_every_type(codec: str, share: float, rng: np.random.Generator) -> None:
    table = wide_table(rng, share)
    data = written(
        table,
        compression=codec,
        stripe_size=64 << 10,
        row_index_stride=200,
        compression_block_size=64 << 10,
        dictionary_key_size_threshold=0.5 if share else 0.0,
    )
    with orcidx.open(data) as file:
        read = file.read()
        read.validate(full=True)
        for name in table.schema.names:
            assert read.column(name).equals(table.column(name)), name
        assert pa.Table.from_batches(file.scan(batch_size=333)).equals(read)
        for start in range(ROWS - 200, 0, -600):
            assert file.read(row_range=(start, start + 50)).equals(read.slice(start, 50))
        mask = rng.random(ROWS) < 0.02
        assert file.read(selection=mask).equals(read.filter(pa.array(mask)))


@pytest.mark.parametrize("version", ["0.11", "0.12"])
def test_both_versions(version: str, rng: np.random.Generator) -> None:
    table = wide_table(rng, 0.1)
    with orcidx.open(written(table, file_version=version, row_index_stride=200)) as file:
        assert file.read().equals(table)


def test_fractions_before_1970(rng: np.random.Generator) -> None:
    """For times before 1970, pyarrow's writer stores negative nanoseconds. ORC Java refuses them, and pyarrow reads
    them correctly."""
    nanos = pa.array([-500_000_000, -1, -999_999, -1_000_000, -1_500_000_000, -3_000_000_001]).view(pa.timestamp("ns"))
    table = pa.table({"t": nanos})
    data = written(table)
    assert pa.orc.read_table(io.BytesIO(data)).equals(table)
    with orcidx.open(data) as file:
        assert file.read().equals(table)


def test_unions() -> None:
    tags = pa.array([0, 1, 0, 1, 1, 0], pa.int8())
    sparse = pa.UnionArray.from_sparse(tags, [pa.array([1, 0, 2, 0, 0, None]), pa.array(["", "a", "", "b", None, ""])])
    dense = pa.UnionArray.from_dense(
        tags, pa.array([0, 0, 1, 1, 2, 2], pa.int32()), [pa.array([1, 2, None]), pa.array(["a", "b", None])]
    )
    with orcidx.open(written(pa.table({"sparse": sparse, "dense": dense}))) as file:
        table = file.read()
    for name in ("sparse", "dense"):
        assert table.column(name).to_pylist() == [1, "a", 2, "b", None, None]
        assert table.column(name).combine_chunks().type_codes.to_pylist() == tags.to_pylist()
