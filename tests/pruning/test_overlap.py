"""The overlap depth of row groups. It shows whether a sort would help."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import orcidx
from orcidx.explain.overlap import overlap_depth


def brute(ranges):
    return [sum(low <= high2 and low2 <= high for low2, high2 in ranges) for low, high in ranges]


@pytest.mark.parametrize("seed", range(20))
def test_depth_is_the_number_of_ranges_that_meet(seed):
    rng = np.random.default_rng(seed)
    ranges = [tuple(sorted(rng.integers(0, 30, 2).tolist())) for _ in range(int(rng.integers(1, 40)))]
    found = overlap_depth("x", *zip(*ranges))
    depths = brute(ranges)
    assert (found.row_groups, found.greatest) == (len(ranges), max(depths))
    assert found.average == round(sum(depths) / len(depths), 2)
    texts = overlap_depth("x", *([f"{edge:03}".encode() for edge in edges] for edges in zip(*ranges)))
    assert texts == found


def test_unbounded_row_groups_meet_all():
    assert overlap_depth("x", [1, 3], [2, 4], unbounded=1) == overlap_depth("x", [5, 8], [6, 9], unbounded=1)
    assert overlap_depth("x", [1, 3], [2, 4], unbounded=1).greatest == 3
    assert overlap_depth("x", [], [], unbounded=4).average == 4


def test_explain_shows_what_sorting_gains(tmp_path):
    rng = np.random.default_rng(0)
    data = pa.table({"id": rng.permutation(10_000), "city": [f"c{i}" for i in rng.integers(0, 500, 10_000)]})
    orcidx.write_table(data, tmp_path / "a.orc", row_index_stride=1000)
    orcidx.rewrite(tmp_path / "a.orc", tmp_path / "b.orc", sort_by="id")
    before, after = (orcidx.open(tmp_path / name).scan().explain() for name in ("a.orc", "b.orc"))
    depths = {depth.column: depth.average for depth in before.overlap}
    assert depths == {"id": 10.0, "city": 10.0}
    assert {depth.column: depth.average for depth in after.overlap} == {"id": 1.0, "city": 10.0}
    assert "id    10 of 10" in str(before)
    assert "id    1 of 10" in str(after)
    assert json.loads(json.dumps(after.to_dict()["overlap"]))[0] == {
        "column": "id", "row_groups": 10, "average": 1.0, "greatest": 1, "unbounded": 0, "unread": 0,
    }  # fmt: skip
    assert "Overlap depth" in after.to_html()
    asked = orcidx.open(tmp_path / "a.orc").scan(where="id = 5").explain()
    assert [depth.column for depth in asked.overlap] == ["id"]


def test_files_are_counted_together(tmp_path):
    for number in range(3):
        orcidx.write_table(pa.table({"id": range(100)}), tmp_path / f"{number}.orc")
    (depth,) = orcidx.scan(tmp_path).explain().overlap
    assert (depth.row_groups, depth.average) == (3, 3.0)


def test_row_groups_beyond_the_limit_are_counted_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr("orcidx.scanner.overlap.MOST_GROUPS", 5)
    for number in range(3):
        orcidx.write_table(pa.table({"id": range(4_500)}), tmp_path / f"{number}.orc", row_index_stride=1000)
    told = orcidx.scan(tmp_path).explain()
    (depth,) = told.overlap
    assert (depth.row_groups, depth.unread) == (5, 10)
    assert "of 5, at most 1; 10 more were not examined" in str(told)
