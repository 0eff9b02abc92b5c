"""Random tables of every type are rewritten with random options. The rows are the same, and lookups find all of
them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc
from writing.written_tables import table

import orcidx
from orcidx import col
from orcidx.rewriting.row_hashes import rows_seen

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
SORTABLE = ["int16", "int64", "double", "string", "date", "decimal(12,2)", "nanos", "bool"]
ASKED = ["int8", "int64", "string", "date", "decimal(12,2)", "nanos", "double", "binary", "unique"]


def random_options(rng: np.random.Generator) -> dict[str, object]:
    options: dict[str, object] = {}
    if rng.random() < 0.5:
        options["compression"] = str(rng.choice(CODECS))
    if rng.random() < 0.3:
        options["compression_block_size"] = int(rng.choice([1 << 10, 5000, 1 << 18]))
    if rng.random() < 0.5:
        options["bloom_filters"] = [str(name) for name in rng.choice(ASKED, 3, replace=False)]
    if rng.random() < 0.2:
        options["stripe_size"] = int(rng.choice([1 << 14, 1 << 20]))
    kind = rng.random()
    if kind < 0.25:
        options["sort_by"] = [(str(rng.choice(SORTABLE)), str(rng.choice(["ascending", "descending"])))]
        options["sort_memory"] = int(rng.choice([1000, 1 << 30]))
    elif kind < 0.4:
        options["cluster_by"] = [str(name) for name in rng.choice(SORTABLE[:-1], 3, replace=False)]
    return options


def check(seed: int, directory) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 1000))
    data = table(rng, rows, str(rng.choice(["none", "some", "all", "group"])), 500)
    # These columns have years outside the range of nanoseconds.
    data = data.drop_columns(["seconds", "millis", "micros", "instant"])
    source, target = str(directory / "a.orc"), str(directory / "b.orc")
    codec, stride = str(rng.choice(CODECS)), int(rng.choice([100, 1000, 10_000]))
    if rng.random() < 0.5:
        orcidx.write_table(data, source, compression=codec, row_index_stride=stride, stripe_size=1 << 16)
    else:
        orc.write_table(data, source, compression=codec, row_index_stride=max(1000, stride), stripe_size=1 << 16)
    before = orcidx.open(source).read()
    options = random_options(rng)
    done = orcidx.rewrite(source, target, overwrite=True, **options)
    after = orcidx.open(target).read()
    ordered = "sort_by" in options or "cluster_by" in options
    one, other = rows_seen(before.to_batches()), rows_seen(after.to_batches())
    assert one.same_rows(other) if ordered else one == other, (seed, done)
    assert rows_seen(orc.read_table(target).cast(after.schema).to_batches()) == other
    file = orcidx.open(target)
    for name in ASKED:
        values = after[name].drop_null()
        if not len(values):
            continue
        value = values[int(rng.integers(0, len(values)))]
        expected = pc.sum(pc.equal(after[name], value)).as_py()
        assert file.scan([name], col(name) == value).count_rows() == expected, (seed, name, value, done)


@pytest.mark.parametrize("seed", range(3))
def test_random_rewrites(seed, tmp_path):
    check(seed, tmp_path)


@pytest.mark.slow
def test_many_random_rewrites(tmp_path):
    for seed in range(100, 130):
        check(seed, tmp_path)


def test_hashes_tell_rows_apart():
    data = pa.table({"a": [1, 2, None], "b": ["x", "y", "z"]})
    seen = rows_seen(data.to_batches())
    for other in (
        data.set_column(0, "a", pa.array([1, 2, 0])),
        data.set_column(0, "a", pa.array([2, 1, None])),
        data.set_column(1, "b", pa.array(["x", "y", "zz"])),
        data.slice(0, 2),
    ):
        assert not seen.same_rows(rows_seen(other.to_batches()))
    turned = data.take(pa.array([2, 0, 1]))
    assert seen.same_rows(rows_seen(turned.to_batches()))
    assert seen != rows_seen(turned.to_batches())
    assert seen == rows_seen(data.to_batches(max_chunksize=1))
    floats = [pa.table({"x": [value]}) for value in (0.0, -0.0, float("nan"))]
    assert len({rows_seen(one.to_batches()).total for one in floats}) == 3
