"""Sizes add up to the file size, and the runs of every stream hold the values of its column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcidx
import orcidx.cli
from orcidx.inspection.column_facts import Ranges, column_facts
from orcidx.inspection.runs import _integer_runs_1, stripe_streams
from orcidx.inspection.sizes import file_sizes
from orcidx.orc.kinds import StreamKind

DEMO = Path(orcidx.cli.__file__).with_name("demo") / "lineitem.orc"


def test_sizes_add_up():
    with orcidx.open(DEMO) as file:
        sizes = file_sizes(file.reader)
        told = file.tail.postscript
    assert sizes.other == 3  # the magic bytes
    assert sizes.footer == told.footer_length
    plain = sizes.to_dict()
    parts = sum(value for name, value in plain.items() if name.endswith("_bytes"))
    assert plain["bytes"] == DEMO.stat().st_size == parts + sum(one["bytes"] for one in plain["columns"])
    orderkey = plain["columns"][1]
    assert orderkey["bytes"] == orderkey["data_bytes"] + orderkey["row_index_bytes"] + orderkey["bloom_filter_bytes"]
    assert orderkey["bloom_filter_bytes"] > 0


def test_runs_hold_all_values():
    with orcidx.open(DEMO) as file:
        streams = list(stripe_streams(file.reader, 0))
        rows = file.stripes[0].rows
    walked = [one for one in streams if one.values is not None and one.kind in ("DATA", "SECONDARY")]
    assert len(walked) > 10
    assert {one.values for one in walked} == {rows}
    assert not any(one.damage for one in streams)
    assert {kind for one in walked for kind in one.runs} >= {"direct", "short repeat", "delta"}


@pytest.mark.parametrize("name", ["demo-11-zlib.orc", "TestOrcFile.testSnappy.orc", "over1k_bloom.orc"])
def test_runs_of_other_writers(golden_orc, name):
    with orcidx.open(golden_orc / name) as file:
        streams = list(stripe_streams(file.reader, 0))
        counts = {node.id: file.statistics(node.id, 0).count for node in file.columns}
    for one in streams:
        if one.kind == "DATA" and one.values is not None and "direct" in one.runs:
            assert one.values == counts[one.column_id], one
    assert not any(one.damage for one in streams)


def test_a_stream_that_is_cut_says_so(tmp_path):
    with orcidx.open(DEMO) as file:
        offset, _ = file.reader.extents(0)[9, StreamKind.LENGTH]
    data = bytearray(DEMO.read_bytes())
    data[offset : offset + 2] = b"\xff\xff"
    (tmp_path / "a.orc").write_bytes(data)
    with orcidx.open(tmp_path / "a.orc") as file:
        (cut,) = [one for one in stripe_streams(file.reader, 0, frozenset({9})) if one.offset == offset]
    assert cut.damage
    assert cut.to_dict()["values"] == 0


def test_how_sorted_a_column_is():
    def order(*ranges):
        lows, highs = zip(*ranges)
        return Ranges(tuple(range(len(lows))), lows, highs, lows, highs).order

    assert order((0, 1), (1, 2), (5, 9)) == "ascending"
    assert order((7, 9), (3, 6), (0, 3)) == "descending"
    assert order((4, 4), (4, 4)) == "constant"
    assert order((0, 9), (0, 9), (0, 9), (0, 9)) == "overlap depth 4 of 4"
    assert order((0, 5), (4, 9)) == "overlap depth 2 of 2"
    assert order((0, 5)) is None


def test_times_without_a_zone_are_told_by_the_zone_of_their_writer(tmp_path):
    """The file names the zone of its writer. So the bounds of times must not be widened by a day, as they are for an
    unknown zone. With wider bounds, the row groups of an ascending column would overlap."""
    minutes = np.datetime64("2023-11-14T22:13") + np.arange(13_000)
    orcidx.write_table(pa.table({"ts": minutes.astype("datetime64[us]")}), tmp_path / "a.orc", row_index_stride=1000)
    with orcidx.open(tmp_path / "a.orc") as file:
        (facts,) = column_facts(file.reader)
        (depth,) = file.scan().explain().overlap
    assert facts.order == "ascending"
    assert (depth.row_groups, depth.average, depth.greatest) == (13, 1.0, 1)


def test_facts_of_columns():
    with orcidx.open(DEMO) as file:
        facts = {one.column: one for one in column_facts(file.reader)}
        sizes = file_sizes(file.reader)
    assert facts["l_shipdate"].order == "ascending"
    assert facts["l_orderkey"].nulls == 0
    assert sum(one.bytes for one in facts.values()) + sizes.columns[0].bytes == sum(c.bytes for c in sizes.columns)


@pytest.mark.parametrize("cut", [False, True])
def test_runs_of_version_1_are_those_that_a_walk_of_each_byte_finds(rng, cut):
    data, told = b"", []
    for run in range(200):
        literals = run % 3
        count = int(rng.integers(1, 129)) if literals else 1
        numbers = rng.integers(0, 1 << 40, count) >> rng.integers(0, 40, count)
        data += bytes([256 - count]) if literals else bytes([run % 128, 255])
        data += b"".join(
            bytes([*((n >> 7 * i & 127 | 128) for i in range(w - 1)), n >> 7 * (w - 1)])
            for n, w in ((int(n), -(-max(int(n).bit_length(), 1) // 7)) for n in numbers)
        )
        told.append(("literals", count) if literals else ("repeat", run % 128 + 3))
    walk = _integer_runs_1(data[:-1] if cut else data)
    assert [next(walk) for _ in told[:-1]] == told[:-1]
    if cut:
        with pytest.raises(IndexError):
            next(walk)
    else:
        assert list(walk) == told[-1:]
