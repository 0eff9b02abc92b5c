"""Writes tables with different options. The rows that orcidx and pyarrow read must equal the written rows. After a seek
to a row group, orcidx and pyorc must return the same rows as in a read of the whole file."""

from __future__ import annotations

import inspect
import io

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from writing.written_tables import NULLS, check_equal, check_readers, table, written

import orcidx
from orcidx import InvalidQuery, Unsupported, ValueOutOfRange, col

pyorc = pytest.importorskip("pyorc")

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
ROWS = 2350


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize(("block", "stride"), [(1 << 10, 1000), (1 << 18, 100), (1 << 12, 10_000)])
def test_every_type_comes_back(rng, nulls, block, stride):
    data = table(rng, ROWS, nulls)
    for codec in CODECS:
        options = {"compression": codec, "compression_block_size": block, "row_index_stride": stride}
        file = written(data, **options)
        check_readers(file, data)
        with orcidx.open(file) as opened:
            whole = opened.read(timestamp_unit="us")
            for start in range(0, ROWS, stride * 3):
                part = opened.read(row_range=(start, min(ROWS, start + 5)), timestamp_unit="us")
                assert part.equals(whole.slice(start, 5))
        # In a text column without values, ORC C++ cannot skip rows, not even in its own files.
        names = ["int64"] if nulls == "all" else ["int64", "string", "list", "struct", "decimal(12,2)"]
        rows = pyorc.Reader(io.BytesIO(file), column_names=names)
        every = list(rows)
        for row in (stride, 2 * stride, ROWS - 1):
            if row < ROWS:
                rows.seek(row)
                assert next(rows) == every[row]


def test_what_was_written_for_pyarrow_needs_another_import_alone(rng, tmp_path):
    """Code that calls pyarrow's ``write_table`` works with orcidx if only the import is changed. Each option is tested
    with its default, and some options with another value. Columns can be given by name and by id."""
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(orc.write_table).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert len(given) >= 11
    data = table(rng, 500, "some").select(["small", "string"])
    own = {
        "batch_size": 64,
        "compression": "ZSTD",
        "compression_strategy": "compression",
        "padding_tolerance": 0.05,
        "dictionary_key_size_threshold": 0.8,
        "bloom_filter_columns": [2],
        "bloom_filter_fpp": 0.01,
    }
    for options in (given, given | own):
        orc.write_table(data, tmp_path / "theirs.orc", **options)
        orcidx.write_table(data, tmp_path / "ours.orc", **options)
        check_equal(orc.read_table(tmp_path / "ours.orc"), orc.read_table(tmp_path / "theirs.orc"), "pyarrow")
    with orcidx.open(tmp_path / "ours.orc") as file:
        assert "bloom filter" in str(file.scan(where=col("string") == "m is nowhere").explain())


def test_stripes_and_threads_change_nothing(rng):
    data = table(rng, ROWS, "some")
    one = written(data, stripe_size=1 << 14, row_index_stride=100, use_threads=False)
    two = written(data, stripe_size=1 << 14, row_index_stride=100, use_threads=True)
    assert one == two
    with orcidx.open(one) as file:
        assert len(file.stripes) > 5
    check_readers(one, data)


def test_batches_of_any_size_make_the_same_row_groups(rng):
    data = table(rng, 700, "some")
    whole = orcidx.open(written(data, row_index_stride=100)).statistics("small", stripe=0, row_group=3)
    out = io.BytesIO()
    with orcidx.OrcWriter(out, data.schema, row_index_stride=100) as writer:
        at = 0
        while at < 700:
            step = int(rng.integers(1, 90))
            writer.write(data.slice(at, step))
            at += step
    assert orcidx.open(out.getvalue()).statistics("small", stripe=0, row_group=3) == whole
    check_readers(out.getvalue(), data)


def test_own_blooms_are_believed(rng):
    data = pa.table({"id": rng.permutation(10_000)})
    file = orcidx.open(written(data, row_index_stride=1000, bloom_filter_columns=["id"]))
    explained = file.scan(where=col("id") == 5000).explain()
    assert "bloom filter" in str(explained)


def test_blooms_of_columns_without_values(rng):
    data = table(rng, 50, "all")
    check_readers(written(data, bloom_filter_columns=["*"], row_index_stride=20), data)


def test_an_empty_table_and_one_without_columns():
    empty = pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    check_readers(written(empty), empty)
    none = pa.table({"a": [1, 2, 3]}).select([])
    assert orcidx.open(written(none)).num_rows == 3
    assert orc.ORCFile(io.BytesIO(written(none))).nrows == 3


def test_errors_name_row_column_and_value_and_leave_nothing(tmp_path):
    from decimal import Decimal

    wide = pa.array([Decimal("1.00")] * 3, pa.decimal128(5, 2))
    buffers = wide.buffers()
    too_wide = pa.Array.from_buffers(pa.decimal128(2, 2), 3, buffers)
    bad = {
        "digits": (too_wide, "row 0.*100 has more digits"),
        "moment": (pa.array([0, 1, -500], pa.int64()).cast(pa.timestamp("ms")), "row 2.*-500 ms"),
        "text": (pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()), r"row 0: b'\\xff' is not UTF-8"),
        "key": (
            pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), pa.array([1, 2])),
            None,
        ),
    }
    for name, (array, message) in bad.items():
        if message is not None:
            with pytest.raises(ValueOutOfRange, match=message) as caught:
                orcidx.write_table(pa.table({name: array}), tmp_path / "x.orc")
            assert caught.value.column == name
            assert str(tmp_path / "x.orc") in str(caught.value)
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(ValueOutOfRange, match="row 1: the column is declared without nulls"):
        orcidx.write_table(pa.Table.from_arrays([pa.array([1, None])], schema=schema), tmp_path / "x.orc")
    inner = pa.array([[1], None, [3, 4]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ms")))
    deep = pa.table({"l": pa.StructArray.from_arrays([inner], ["in"])})
    check_equal(orcidx.open(written(deep)).read(timestamp_unit="ms"), deep, "orcidx")
    worse = pa.ListArray.from_arrays([0, 1, 1, 3], pa.array([1, 5, -5]).cast(pa.timestamp("ms")))
    with pytest.raises(ValueOutOfRange, match=r"row 2.*-5 ms") as caught:
        orcidx.write_table(pa.table({"l": pa.StructArray.from_arrays([worse], ["in"])}), tmp_path / "x.orc")
    assert caught.value.column == "l.in.item"
    assert not list(tmp_path.iterdir())


def test_another_schema_is_refused(tmp_path):
    writer = orcidx.OrcWriter(tmp_path / "x", pa.schema({"a": pa.int64()}))
    with pytest.raises(InvalidQuery, match="schema"):
        writer.write(pa.table({"b": [1]}))
    with pytest.raises(InvalidQuery, match="earlier error"):
        writer.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"compression": "lzo"}, Unsupported),
        ({"compression": "gzip"}, InvalidQuery),
        ({"compression_level": 40}, InvalidQuery),
        ({"compression": "snappy", "compression_level": 1}, InvalidQuery),
        ({"compression_block_size": 10}, InvalidQuery),
        ({"stripe_size": 1}, InvalidQuery),
        ({"row_index_stride": -1}, InvalidQuery),
        ({"bloom_filter_columns": [0]}, InvalidQuery),
        ({"bloom_filter_columns": ["b"]}, InvalidQuery),
        ({"bloom_filter_fpp": 0}, InvalidQuery),
        ({"no_such_option": 1}, InvalidQuery),
        ({"file_version": "0.11"}, Unsupported),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, error):
    with pytest.raises(error):
        orcidx.write_table(pa.table({"a": [1]}), tmp_path / "x.orc", **options)
    assert not list(tmp_path.iterdir())


def test_a_path_is_replaced_when_all_is_written(tmp_path):
    path = tmp_path / "t.orc"
    first = orcidx.write_table(pa.table({"a": [1, 2]}), path)
    assert (first.rows, first.bytes) == (2, path.stat().st_size)
    assert first.statistics["a"].maximum == 2
    with pytest.raises(ZeroDivisionError), orcidx.OrcWriter(path, pa.schema({"a": pa.int64()})) as writer:
        writer.write(pa.table({"a": [1 // (writer.rows)]}))
    assert orcidx.open(path).num_rows == 2
    orcidx.write_table(pa.table({"a": [3]}), str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.orc"]
    assert orcidx.open(path).read()["a"].to_pylist() == [3]


def test_a_scan_goes_into_a_writer(tmp_path, rng):
    data = pa.table({"a": np.arange(5000), "b": rng.random(5000)})
    orcidx.write_table(data, tmp_path / "one.orc")
    orcidx.write_table(orcidx.scan(tmp_path / "one.orc", where=col("a") >= 100), tmp_path / "two.orc")
    assert orcidx.open(tmp_path / "two.orc").read().equals(data.slice(100))
