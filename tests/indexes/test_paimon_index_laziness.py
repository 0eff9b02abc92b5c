"""Tests how many requests and bytes of a large index a single lookup needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcidx import paimon
from orcidx.paimon.body import FIRST_READ_BYTES, Body
from orcidx.storage import open_reader

ROWS = 300_000


class Counting:
    """A source that keeps a list of the ranges that were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[list[tuple[int, int]]] = []

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.asked.append(list(ranges))
        return [memoryview(self.data)[offset : offset + length] for offset, length in ranges]

    @property
    def bytes_asked(self) -> int:
        return sum(length for ranges in self.asked for _, length in ranges)


@pytest.fixture(scope="module")
def column() -> pa.Array:
    values = np.random.default_rng(7).integers(0, ROWS // 3, ROWS)
    return pa.array(values, pa.int32(), mask=values % 1000 == 0)


def remote(kind: str, column: pa.Array, options: dict[str, Any], sql: str = "INT") -> tuple[Any, Counting, Any]:
    built = paimon.build_index(kind, column, sql, options)
    source = Counting(built.to_bytes())
    return paimon.read_index(kind, Body(source, 0, len(source.data)), sql), source, built


def test_a_value_of_a_bitmap_takes_one_block_and_one_bitmap(column: pa.Array) -> None:
    index, source, built = remote("bitmap", column, {})
    assert len(source.data) > 1_000_000
    assert len(source.asked) == 1  # the first bytes, which contain the head
    assert source.asked[0] == [(0, FIRST_READ_BYTES)]
    verdict = index.evaluate("eq", [77_777])
    assert verdict == built.evaluate("eq", [77_777])
    assert [len(ranges) for ranges in source.asked] == [1, 1, 1]  # one range each: first bytes, block, bitmap
    assert source.bytes_asked < FIRST_READ_BYTES + (16 << 10) + 100
    index.evaluate("eq", [77_778])
    assert len(source.asked) <= 4  # the block is cached
    many = list(range(1, 100_000, 1000))
    before = len(source.asked)
    assert index.evaluate("in", many) == built.evaluate("in", many)
    assert len(source.asked) == before + 2  # one request for all blocks, and one for all bitmaps


def test_a_value_of_a_range_bitmap_takes_one_chunk_and_the_slices(column: pa.Array) -> None:
    index, source, built = remote("range-bitmap", column, {"chunk-size": "1kb"})
    assert index.evaluate("eq", [77_777]) == built.evaluate("eq", [77_777])
    assert len(source.asked) <= 6
    asked = source.bytes_asked
    dictionary = len(index._dictionary.keys()) * 4
    slices = sum(len(piece) for piece in stored_slices(index))
    assert asked < FIRST_READ_BYTES + slices + dictionary / 4 + (8 << 10)


def stored_slices(index: Any) -> list[bytes]:
    from orcidx.paimon.roaring import write_bitmap

    return [write_bitmap(rows) for rows in (index.numbers.existence, *index.numbers.slices())]


def test_a_range_reads_only_the_slices_that_can_decide() -> None:
    values = pa.array(np.arange(1 << 17) % (1 << 16), pa.int32())
    index, source, _ = remote("range-bitmap", values, {})
    assert len(index.evaluate("gte", [1 << 15]).rows) == 1 << 16  # only the top slice is read
    first = source.bytes_asked
    index.evaluate("eq", [5])
    assert source.bytes_asked - first > 10 * 8192


def test_values_outside_of_a_range_bitmap_read_nothing_more(column: pa.Array) -> None:
    index, source, _ = remote("range-bitmap", column, {})
    before = len(source.asked)
    assert not index.evaluate("eq", [-5]).rows
    assert not index.evaluate("gt", [ROWS]).rows
    assert len(source.asked) == before


def test_version_1_reads_its_head_and_one_bitmap(column: pa.Array) -> None:
    index, source, built = remote("bitmap", column, {"version": 1})
    assert index.evaluate("eq", [77_777]) == built.evaluate("eq", [77_777])
    head = 10 + 4 + len(index._layout.entries().offsets) * 8
    assert source.bytes_asked < FIRST_READ_BYTES + head + 100


def test_text_heads_of_unknown_size_are_read_in_growing_steps() -> None:
    values = pa.array([f"{i:0500d}" for i in range(3_000)])
    for version in (1, 2):
        index, source, built = remote("bitmap", values, {"version": version}, "STRING")
        literal = values[1234].as_py()
        assert index.evaluate("eq", [literal]) == built.evaluate("eq", [literal])
        assert index == built
        assert len(source.asked) < 15


def test_a_large_container_is_read_in_parts(tmp_path: Any, column: pa.Array) -> None:
    rows = pa.table({"a": column, "b": column})
    spec = {"bitmap": {"a": {}, "b": {}}, "range-bitmap": {"b": {}}}
    built = paimon.build_file_index(rows, spec, types={"a": "INT", "b": "INT"})
    path = tmp_path / "data.orc.index"
    path.write_bytes(built.to_bytes())
    reader = open_reader(path)
    with paimon.read_file_index(reader, types={"a": "INT", "b": "INT"}, rows=ROWS) as index:
        assert index.evaluate("a = 77777 AND b = 77777") == built.evaluate("a = 77777 AND b = 77777")
        assert reader.metrics.bytes_fetched < path.stat().st_size / 10
        assert index.to_bytes() == built.to_bytes()
    reader.close()
    with paimon.read_file_index(path, types={"a": "INT", "b": "INT"}) as index:
        assert index.evaluate("a = 77777").exact
