"""Compares the sizes of written files with pyarrow's sizes, for the shapes of data in ``benchmarks.written_sizes``."""

from __future__ import annotations

import importlib.util
import io
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import orcidx

_PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "written_sizes.py"
_SPEC = importlib.util.spec_from_file_location("written_sizes", _PATH)  # the module is not part of the package
assert _SPEC is not None
assert _SPEC.loader is not None
shapes = importlib.util.module_from_spec(_SPEC)
sys.modules["written_sizes"] = shapes  # dataclasses look up their module by this name
_SPEC.loader.exec_module(shapes)
SHAPES, sizes, table_of = shapes.SHAPES, shapes.sizes, shapes.table_of

ROWS = 20_000
SLACK = 160
"""Bytes of a small file that do not depend on the shape of data: statistics of stripes, the name of the writer."""


@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_is_larger_than_pyarrows(name: str) -> None:
    table = table_of(name, ROWS)
    own, theirs, _ = sizes(table, "zstd")
    assert own <= 1.02 * theirs + SLACK, f"{own} bytes, pyarrow {theirs}: {own / theirs:.3f}"


@pytest.mark.parametrize("rows", [200_000, 500_000, 1_000_000])
def test_long_repeats_are_no_larger_than_pyarrows(rows: int) -> None:
    """Runs end with row groups, which makes files larger at zstd's usual levels. Still, files of sorted dates are at
    most 1.02 times as large as pyarrow's files."""
    table = table_of("date sorted", rows)
    own, theirs, _ = sizes(table, "zstd")
    assert own <= 1.02 * theirs, f"{own} bytes, pyarrow {theirs}: {own / theirs:.3f}"
    written = _written(table, use_threads=False)
    assert _written(table, use_threads=True) == written
    assert len(_written(table, compression_level=3)) > len(written)  # a level given by the caller is used unchanged
    assert orc.read_table(io.BytesIO(written)).equals(table)


@pytest.mark.parametrize("name", ["string hex ids", "string digits", "string sorted keys", "string sentences"])
def test_the_level_is_the_better_one_of_two(name: str) -> None:
    """If the caller gives no level, the writer tries two levels. The file is at most 0.5% larger than with the better
    level, because some bytes are traded for speed. Each run, with or without threads, writes the same bytes."""
    table = pa.concat_tables([table_of(name, 40_000, seed) for seed in (1, 2)])
    found = {level: _written(table, compression_level=level, use_threads=False) for level in (None, 1, 3)}
    assert len(found[None]) <= min(len(found[1]), len(found[3])) * 1.005
    assert _written(table, use_threads=True) == found[None]
    assert orc.read_table(io.BytesIO(found[None])).equals(table)


def test_streams_that_change_choose_anew() -> None:
    """A stream begins with random digits and ends with texts. The writer chooses the compression level again when the
    data changes, so the file is about as small as with the better level."""
    words = [" ".join(random.Random(i).choices(["alpha", "beta", "gamma", "delta", "omega"], k=9)) for i in range(300)]
    digits = [f"{random.Random(i).getrandbits(120):036d}" for i in range(20_000)]
    rows = digits + [words[i % 300] + str(i) for i in range(120_000)]
    found = {
        level: len(_written(pa.table({"x": rows}), compression_level=level, compression_block_size=1 << 16))
        for level in (None, 1, 3)
    }
    assert found[None] <= 1.01 * min(found[1], found[3])


def test_a_level_that_was_asked_for_is_kept() -> None:
    table = table_of("string hex ids", 40_000)
    assert len(_written(table, compression_level=3)) > 1.05 * len(_written(table))


@pytest.mark.parametrize("codec", ["zstd", "zlib", "snappy"])
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7])
def test_few_valued_integers_are_read_as_they_were(bits: int, codec: str, rng: np.random.Generator) -> None:
    """Runs of 3, 5, 6 and 7 bits may be written with 4 or 8 bits, because entropy coders compress these widths
    better."""
    columns = {}
    for count in (1, 3, 63, 64, 511, 512, 513, 5000):
        skewed = np.minimum(rng.geometric(0.3, count), 1 << bits) - 1
        columns[f"skewed {count}"] = skewed
        columns[f"even {count}"] = rng.integers(0, 1 << bits, count)
        columns[f"signed {count}"] = rng.integers(-(1 << bits) // 2, 1 << bits >> 1, count)
        columns[f"rises {count}"] = np.cumsum(skewed)
        columns[f"falls {count}"] = -np.cumsum(rng.integers(0, 1 << bits, count))
    for name, values in columns.items():
        table = pa.table({"x": values})
        written = _written(table, compression=codec, row_index_stride=1000)
        assert orc.read_table(io.BytesIO(written)).equals(table), name
        assert orcidx.read_table(written).equals(table), name


def test_few_valued_integers_take_less_in_whole_bytes(rng: np.random.Generator) -> None:
    """Random values from 0 to 9 are written in whole bytes for zstd, and with five bits if the file is not compressed.
    With five bits and zstd, the file would take 1.13 times the bytes of pyarrow's file."""
    table = pa.table({"x": rng.integers(0, 10, 100_000)})
    zstd, plain = (len(_written(table, compression=codec)) for codec in ("zstd", "uncompressed"))
    assert zstd < 0.46 * 100_000
    assert plain > 0.62 * 100_000  # five bits


def test_repeats_go_on_over_blocks(rng: np.random.Generator) -> None:
    """A value that is repeated is written as one run, or as several runs if it is repeated more than 512 times, the
    maximum length of a run. Runs are not cut at multiples of 512 values of the column."""
    for length in (3, 50, 511, 513, 600, 1500):
        values = np.repeat(rng.integers(0, 10**6, 60_000 // length), length)
        table = pa.table({"x": values, "y": -values})
        written = _written(table, compression="uncompressed", row_index_stride=0)
        runs = 2 * len(values) // length * -(-length // 512)
        assert len(written) <= 6.2 * runs + 400
        assert orc.read_table(io.BytesIO(written)).equals(table)
        grouped = _written(table, row_index_stride=700)
        assert orcidx.read_table(grouped, where="x >= 500000").equals(table.filter(values >= 500_000))


@pytest.mark.parametrize("threads", [False, True])
def test_dictionary_arrays_are_written_as_their_texts(threads: bool, rng: np.random.Generator) -> None:
    """A dictionary array is written as the same bytes as its plain texts, with one thread and with several threads."""
    entries = pa.array([f"customer-{i:08d}" for i in range(30_000)])
    numbers = pa.array(rng.integers(0, 30_000, 60_000).astype(np.int32), mask=rng.random(60_000) < 0.1)
    array = pa.DictionaryArray.from_arrays(numbers, entries)[7:]
    out = [io.BytesIO(), io.BytesIO()]
    for target, column in zip(out, (array, array.dictionary_decode()), strict=True):
        orcidx.write_table(pa.table({"x": column}), target, use_threads=threads, bloom_filter_columns=["x"])
    assert out[0].getvalue() == out[1].getvalue()
    assert orc.read_table(out[0])["x"].combine_chunks().equals(array.dictionary_decode())


def test_tables_written_at_once_are_as_those_written_alone() -> None:
    tables = [table_of("string json", 20_000, seed) for seed in range(4)]
    alone = [_written(table) for table in tables]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(_written, tables)) == alone


def _written(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    orcidx.write_table(table, out, dictionary_key_size_threshold=0, **options)
    return out.getvalue()
