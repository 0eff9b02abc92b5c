"""Tests of files whose top-level type is not a struct. pyorc can write such files. orcidx reads their rows without
columns."""

from __future__ import annotations

import io

import pyorc
import pytest

import orcidx

pl = pytest.importorskip("polars")


@pytest.mark.parametrize(
    ("root", "rows"),
    [("string", ["a", None, "b"]), ("array<int>", [[1], None, []]), ("map<string,int>", [{"a": 1}, {}, None])],
)
def test_no_column_of_a_file_whose_top_level_type_is_no_struct(root: str, rows: list[object]) -> None:
    sink = io.BytesIO()
    with pyorc.Writer(sink, root) as writer:
        for row in rows * 700:
            writer.write(row)
    data = sink.getvalue()
    assert orcidx.read_table(data, []).num_rows == 2100
    assert sum(batch.num_rows for batch in orcidx.scan(data, [])) == 2100
    assert orcidx.aggregate(data, {"n": "count(*)"})["n"].to_pylist() == [2100]
    assert orcidx.scan_polars(data).select(pl.len()).collect().item() == 2100
    with orcidx.open(data) as file:
        assert file.read([], selection=[1, 2, 2099]).num_rows == 3
        assert file.scan(selection=[0, 5]).aggregate({"n": "count(*)"})["n"].to_pylist() == [2]
