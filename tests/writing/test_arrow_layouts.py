"""Views, run-end encoded arrays and dictionaries can be written, also inside lists, structs and unions. They are
encoded in slices of limited size."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from writing.plain_rows import arrow_rows
from writing.written_tables import written

import orcidx
from orcidx.orc_writer.array_layouts import written_bytes
from orcidx.orc_writer.stripe_writer import SLICE_BYTES, StripeWriter

LAYOUTS = {
    "text views": pa.array(["a", "some text that is longer", None, "d"], pa.string_view()),
    "binary views": pa.array([b"a", None, b"some bytes that are more", b""], pa.binary_view()),
    "runs": pc.run_end_encode(pa.array([1, 1, None, 2])),
    "runs of texts": pc.run_end_encode(pa.array(["x", "x", None, "y"])),
    "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    "list views": pa.array([["a"], [], None, ["b", "c"]], pa.list_view(pa.string_view())),
    "large list views": pa.array([[1], [], None, [2, 3]], pa.large_list_view(pa.int64())),
    "lists of views": pa.array([["a"], [], None, ["b"]], pa.list_(pa.string_view())),
    "fixed lists of views": pa.array([["a", "b"], None, ["b", "c"], ["c", None]], pa.list_(pa.string_view(), 2)),
    "maps of views": pa.MapArray.from_arrays(
        pa.array([0, 1, 2, 2, 4]), pa.array(list("abcd"), pa.string_view()), pa.array(list("efgh"), pa.string_view())
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_below_others(name):
    plain = LAYOUTS[name]
    longer = pa.concat_arrays([plain, plain]).slice(1, 5)
    codes = pa.array([0, 1, 0, 0, 1], pa.int8())
    nested = {
        "plain": longer,
        "struct": pa.StructArray.from_arrays([longer], ["x"], mask=pa.array([False, True, False, False, True])),
        "list": pa.ListArray.from_arrays(
            pa.array([0, 1, 3, 3, 4, 5]), longer, mask=pa.array([False, True, False, False, False])
        ),
        "union": pa.UnionArray.from_sparse(codes, [longer, pa.array(range(5))]),
        "dense": pa.UnionArray.from_dense(codes, pa.array([3, 1, 0, 4, 0], pa.int32()), [longer, pa.array(range(5))]),
    }
    table = pa.table(nested)
    with orcidx.open(written(table, row_index_stride=2)) as file:
        assert arrow_rows(file.read()) == arrow_rows(table)
    with orcidx.open(written(table.slice(1, 3))) as file:
        assert arrow_rows(file.read()) == arrow_rows(table.slice(1, 3))


def test_lists_without_elements_of_nested_extensions():
    uuids = pa.uuid().wrap_array(pa.array([bytes(16)] * 3, pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), uuids)
    starts, ones = pa.array([0, 1, 2], pa.int32()), pa.array([1, 1, 1], pa.int32())
    nulls = pa.array([True] * 3)
    table = pa.table(
        {
            "fixed": pa.FixedSizeListArray.from_arrays(lists, 1, mask=nulls),
            "view": pa.ListViewArray.from_arrays(starts, ones, lists, mask=nulls),
            "empty": pa.ListViewArray.from_arrays(starts, pa.array([0, 0, 0], pa.int32()), lists),
        }
    )
    assert orcidx.read_table(written(table)).to_pydict() == {"fixed": [None] * 3, "view": [None] * 3, "empty": [[]] * 3}


def test_lists_of_the_size_0():
    """Lists of the fixed size 0 can be written. Earlier, they were refused if their elements had to be converted to
    another layout, because pyarrow's ``from_arrays`` refuses the size 0."""
    valid = pa.py_buffer(bytes([0b101]))
    for values in (
        pa.array([], pa.string_view()),
        pc.run_end_encode(pa.array([1])).slice(0, 0),
        pa.array([], pa.int64()),
    ):
        lists = pa.Array.from_buffers(pa.list_(values.type, 0), 3, [valid], children=[values])
        table = pa.table({"top": lists, "struct": pa.StructArray.from_arrays([lists], ["x"])})
        for part in (table, table.slice(1)):
            assert orcidx.read_table(written(part)).to_pylist() == part.to_pylist()


def test_what_an_array_comes_to():
    thousand = pa.array(["x" * 1000])
    views = pa.array(["y" * 100] * 50, pa.string_view())
    sizes = {
        "dictionary of long texts": (pa.DictionaryArray.from_arrays([0] * 20_000, thousand), 20_160_000),
        "dictionary of even texts": (
            pa.DictionaryArray.from_arrays(pa.array([1] * 90_000, pa.int32()), pa.array(["x" * 90, "x" * 110])),
            90_000 * (100 + 4),  # the mean length is used, because no text is four times as long
        ),
        "dictionary of uneven texts": (
            pa.DictionaryArray.from_arrays(pa.array([1] * 90_000, pa.int32()), pa.array([*["x"] * 99, "x" * 1000])),
            90_000 * (1 + 4),
        ),
        "runs": (pa.RunEndEncodedArray.from_arrays([5000], pa.array([7])), 40_000),
        "runs of texts": (pa.RunEndEncodedArray.from_arrays([5000], thousand), 5_020_000),
        "sliced views": (views.slice(10, 5), 580),
        "short views": (pa.array(["abc", None], pa.string_view()), 35),
        "numbers": (pa.array(range(10)).slice(2, 3), 24),
        "struct": (pa.StructArray.from_arrays([views], ["v"]).slice(10, 8), 8 * 116 + 1),
        "list views of all": (pa.ListViewArray.from_arrays([0] * 100, [50] * 100, views), 100 * 50 * 116 + 800),
    }
    assert {name: written_bytes(array) for name, (array, _) in sizes.items()} == {n: s for n, (_, s) in sizes.items()}


@pytest.mark.parametrize("kind", ["views", "dictionary", "runs", "nested dictionary", "skewed"])
def test_slices_are_neither_large_nor_single_rows(monkeypatch, kind):
    """A slice of a string-view array has the buffers of the whole array. If its size were computed from these buffers,
    the array would be written row by row."""
    rows = 40_000
    texts = [f"a text that is not short at all {i % 5000:06d}" * 12 for i in range(rows)]
    array = {
        "views": lambda: pa.array(texts, pa.string_view()),
        "dictionary": lambda: pa.array(texts).dictionary_encode(),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([rows]), pa.array([texts[0]])),
        "nested dictionary": lambda: pa.StructArray.from_arrays([pa.array(texts).dictionary_encode()], ["x"]),
        "skewed": lambda: pa.array(["x" * 2_000_000] * 20 + ["y"] * (rows - 20)),
    }[kind]()
    slices = []
    write = StripeWriter.write

    def spy(self, batch, first_row):
        slices.append((batch.num_rows, written_bytes(batch.column(0))))
        write(self, batch, first_row)

    monkeypatch.setattr(StripeWriter, "write", spy)
    orcidx.write_table(pa.table({"c": array}), io.BytesIO(), dictionary_key_size_threshold=0)
    assert all(size <= SLICE_BYTES or count == 1 for count, size in slices)
    assert sum(count for count, _ in slices) == rows
    assert len(slices) < 30


def test_a_frame_of_polars(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"s": [f"text {i} of some length" for i in range(3000)], "n": np.arange(3000)})
    orcidx.write_table(frame, tmp_path / "p.orc")
    assert polars.from_arrow(orcidx.open(tmp_path / "p.orc").read()).equals(frame)
