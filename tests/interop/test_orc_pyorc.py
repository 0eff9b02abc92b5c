"""Columns of every type, flat and nested, with every pattern of nulls, are read forwards, in any order of row groups,
and with conditions.

pyorc writes the files with many small row groups and chunks, so that runs and values cross their ends.
"""

import functools

import numpy as np
import pyarrow as pa
import pytest
from interop.pyorc_columns import KINDS, Kind, deep_of, list_of, map_of, struct_of, write

import orcidx

ROWS = 400
STRIDE = 40
NESTINGS = {"plain": lambda kind: kind, "struct": struct_of, "list": list_of, "map": map_of, "deep": deep_of}


@functools.cache
def written(name: str, nesting: str, compression: str = "ZLIB", root_nulls: bool = False) -> tuple[bytes, pa.Table]:
    kind: Kind = NESTINGS[nesting](KINDS[name])
    return write(kind, ROWS, compression=compression, stride=STRIDE, root_nulls=root_nulls)


SLOW = {"list", "map"}  # the quick run tests lists and maps as part of "deep"
CASES = [
    pytest.param(name, nesting, marks=[pytest.mark.slow] if nesting in SLOW else [])
    for name in KINDS
    for nesting in NESTINGS
]


@pytest.mark.parametrize(("name", "nesting"), CASES)
def test_forwards_in_steps(name: str, nesting: str) -> None:
    data, table = written(name, nesting)
    with orcidx.open(data) as file:
        assert file.read(timestamp_unit="us").equals(table)
        for batch_size in (7, 64):
            batches = list(file.scan(timestamp_unit="us", batch_size=batch_size))
            assert all(batch.num_rows <= batch_size for batch in batches)
            read = pa.Table.from_batches(batches)
            read.validate(full=True)
            assert read.equals(table)


@pytest.mark.parametrize(("name", "nesting"), CASES)
def test_backwards_by_positions(name: str, nesting: str, rng: np.random.Generator) -> None:
    data, table = written(name, nesting)
    with orcidx.open(data) as file:
        for start in [*reversed(range(0, ROWS, STRIDE)), *rng.integers(0, ROWS, 2).tolist()]:
            part = file.read(row_range=(start, start + 9), timestamp_unit="us")
            assert part.equals(table.slice(start, 9)), start


@pytest.mark.parametrize(("name", "nesting"), CASES)
def test_skipping(name: str, nesting: str, rng: np.random.Generator) -> None:
    data, table = written(name, nesting)
    with orcidx.open(data) as file:
        for share in (0.01, 0.3):
            mask = rng.random(ROWS) < share
            read = file.read(selection=mask, timestamp_unit="us", batch_size=33)
            assert read.equals(table.filter(pa.array(mask))), share


@pytest.mark.parametrize("name", KINDS)
def test_uncompressed(name: str) -> None:
    data, table = written(name, "deep", "NONE")
    with orcidx.open(data) as file:
        assert file.read(timestamp_unit="us").equals(table)
        for start in reversed(range(0, ROWS, 3 * STRIDE)):
            assert file.read(row_range=(start, start + 3), timestamp_unit="us").equals(table.slice(start, 3))


@pytest.mark.parametrize("nesting", ["plain", "deep"])
@pytest.mark.parametrize("name", ["bigint", "dictionary", "boolean"])
def test_rows_that_are_null_as_a_whole(name: str, nesting: str, rng: np.random.Generator) -> None:
    """ORC C++ can write rows whose root struct is null. They have no values in any column."""
    data, table = written(name, nesting, root_nulls=True)
    with orcidx.open(data) as file:
        assert file.read(timestamp_unit="us").equals(table)
        for start in reversed(range(0, ROWS, STRIDE)):
            assert file.read(row_range=(start, start + 9)).equals(table.slice(start, 9)), start
        mask = rng.random(ROWS) < 0.1
        assert file.read(selection=mask).equals(table.filter(pa.array(mask)))
        assert file.scan(batch_bytes=300).to_table().equals(table)


@pytest.mark.parametrize("name", ["string", "dictionary", "binary", "char-dictionary"])
@pytest.mark.parametrize("nesting", ["plain", "deep"])
def test_batches_split_by_bytes(name: str, nesting: str) -> None:
    data, table = written(name, nesting)
    with orcidx.open(data) as file:
        whole = list(file.scan())
        batches = list(file.scan(batch_bytes=200))
        assert len(batches) > len(whole)
        assert pa.Table.from_batches(batches).equals(table)
