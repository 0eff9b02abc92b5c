"""Options, schemas and values with which no file can be written raise a clear error, and no file is left."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from writing.four_readers import Checker
from writing.plain_rows import arrow_rows
from writing.random_tables import random_options, random_table
from writing.written_tables import written

import orcidx
from orcidx import InvalidQuery, OrcidxError, Unsupported, ValueOutOfRange

HOSTILE = [
    {"compression": 3},
    {"compression": b"zstd"},
    {"compression_level": "3"},
    {"compression_level": 2.5},
    {"compression_level": True},
    {"compression_level": 10**30},
    {"compression_block_size": "64k"},
    {"compression_block_size": 1 << 23},
    {"stripe_size": 1e9},
    {"stripe_size": None},
    {"row_index_stride": True},
    {"row_index_stride": 1 << 31},
    {"dictionary_key_size_threshold": True},
    {"dictionary_key_size_threshold": math.nan},
    {"dictionary_key_size_threshold": "always"},
    {"dictionary_key_size_threshold": -0.1},
    {"bloom_filter_columns": "a"},
    {"bloom_filter_columns": [True]},
    {"bloom_filter_columns": [1.0]},
    {"bloom_filter_columns": [None]},
    {"bloom_filter_columns": [-1]},
    {"bloom_filter_columns": [2]},
    {"bloom_filter_columns": 5},
    {"bloom_filter_columns": [""]},
    {"bloom_filter_columns": ["a"], "row_index_stride": 0},
    {"bloom_filter_fpp": "low"},
    {"bloom_filter_fpp": math.nan},
    {"bloom_filter_fpp": 1},
    {"bloom_filter_fpp": True},
    {"metadata": {"k": 3}},
    {"metadata": {3: "v"}},
    {"metadata": {"k": None}},
    {"metadata": ["k"]},
    {"metadata": {"k\udfff": "v"}},
    {"types": {"a": 5}},
    {"types": {"a": "char(0)"}},
    {"types": {"a": "char(4)"}},
    {"types": {"b": "char(4)"}},
    {"types": "char(4)"},
    {"uint64": "double"},
    {"time": True},
    {"null_type": ["string"]},
    {"use_threads": "no"},
    {"spark": 1},
    {"nothing": 1},
]


@pytest.mark.parametrize("options", HOSTILE, ids=str)
def test_hostile_options(tmp_path, options):
    with pytest.raises((InvalidQuery, Unsupported)) as caught:
        orcidx.write_table(pa.table({"a": [1]}), tmp_path / "x.orc", **options)
    assert len(str(caught.value)) > 15
    assert not list(tmp_path.iterdir())


REFUSED = {
    "uint64": (pa.array([1], pa.uint64()), 'uint64="long"'),
    "time32": (pa.array([1], pa.time32("s")), 'time="long"'),
    "time64": (pa.array([1], pa.time64("ns")), 'time="long"'),
    "duration": (pa.array([1], pa.duration("ms")), 'time="long"'),
    "null": (pa.nulls(1), 'null_type="string"'),
    "interval": (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "cast the column"),
    "decimal of 50 digits": (pa.array([1], pa.decimal256(50, 0)), "cast the column"),
    "decimal of negative scale": (pa.array([100], pa.decimal128(5, -2)), "cast the column"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("depth", [0, 2])
def test_types_that_orc_has_not(tmp_path, name, depth):
    array, advice = REFUSED[name]
    if depth:
        array = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1], array)], ["in"])
    with pytest.raises(Unsupported) as caught:
        orcidx.write_table(pa.table({"c": array}), tmp_path / "x.orc")
    assert advice in str(caught.value)
    assert caught.value.column == ("c.in.item" if depth else "c")
    assert not list(tmp_path.iterdir())


def test_what_options_make_of_them():
    table = pa.table(
        {
            "u": pa.array([0, 2**63 - 1, None], pa.uint64()),
            "t": pa.array([1, 2, None], pa.time32("ms")),
            "w": pa.array([1, 2, None], pa.time64("us")),
            "d": pa.array([-1, 2, None], pa.duration("ns")),
            "n": pa.nulls(3),
        }
    )
    long = written(table, uint64="long", time="long", null_type="string")
    assert arrow_rows(orcidx.open(long).read()) == arrow_rows(table)
    wide = written(pa.table({"u": pa.array([2**64 - 1], pa.uint64())}), uint64="decimal")
    assert orcidx.open(wide).read().column("u").to_pylist() == [2**64 - 1]
    with pytest.raises(ValueOutOfRange, match=r"row 1: 9223372036854775808"):
        written(pa.table({"u": pa.array([0, 2**63], pa.uint64())}), uint64="long")


@pytest.mark.parametrize("name", ["too long for char", "a null where none may be", "digits", "text"])
def test_values_that_cannot_be_written(tmp_path, name):
    rows = 30_000
    good = np.arange(rows)
    if name == "too long for char":
        array = pa.array(["abc" if i != 20_001 else "abcdef" for i in good])
    elif name == "text":
        raw = pa.array([b"fine" if i != 20_001 else b"\xff\xfe" for i in good])
        array = pa.Array.from_buffers(pa.string(), rows, raw.buffers())
    elif name == "digits":
        raw = pa.array([100 if i == 20_001 else 99 for i in good]).cast(pa.decimal128(20, 0))
        array = pa.Array.from_buffers(pa.decimal128(2, 0), rows, raw.buffers())
    else:
        array = pa.array([None if i == 20_001 else 1 for i in good])
    field = pa.field("c", array.type, nullable=name != "a null where none may be")
    table = pa.Table.from_arrays([array], schema=pa.schema([field]))
    options = {"types": {"c": "char(3)"}} if name == "too long for char" else {}
    (tmp_path / "x.orc").write_bytes(b"what was there before")
    for threads in (False, True):
        with pytest.raises(ValueOutOfRange, match="row 20001") as caught:
            orcidx.write_table(
                table, tmp_path / "x.orc", row_index_stride=1000, stripe_size=1 << 14, use_threads=threads, **options
            )
        assert caught.value.column == "c"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.orc"]
    assert (tmp_path / "x.orc").read_bytes() == b"what was there before"


def test_values_under_nulls_are_not_looked_at():
    """A value that ORC cannot store is no error if it is inside a null struct or list."""
    bad = pa.array([0, -500, 3], pa.int64()).cast(pa.timestamp("ms"))
    struct = pa.StructArray.from_arrays([bad], ["t"], mask=pa.array([False, True, False]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), bad, mask=pa.array([False, True, False]))
    table = pa.table({"s": struct, "l": lists})
    assert arrow_rows(orcidx.open(written(table)).read()) == arrow_rows(table)


@settings(max_examples=8)
@given(seed=st.integers(0, 2**32), rows=st.integers(0, 120), columns=st.integers(1, 3))
def test_any_table_under_any_options(seed, rows, columns):
    """orcidx, pyarrow and pyorc read the files as a whole, after seeks, and with predicates. ``test_four_readers`` also
    reads such files with Java."""
    rng = np.random.default_rng(seed)
    table = random_table(rng, rows, columns)
    Checker(None).check(table, random_options(rng, table), rng, predicates=2)


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3)
            )
            for name in orcidx.WriteOptions.__dataclass_fields__
        },
    )
)
def test_any_option_is_taken_or_refused(options):
    try:
        file = written(pa.table({"a": [1, 2, None], "s": ["x", "y", "z"]}), **options)
    except OrcidxError:
        return
    assert orcidx.open(file).num_rows == 3
