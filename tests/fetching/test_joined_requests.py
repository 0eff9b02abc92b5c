"""Ranges are joined into few requests: which gaps between ranges are read, too, and what happens to their bytes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from range_server import RangeServer

from orcidx import ReadOptions, StorageError
from orcidx.storage import open_reader
from orcidx.storage.failures import Retries
from orcidx.storage.ranges import GapDiscardingBuffer, join_fetches, merge_ranges, scatter

MIB = 1 << 20
DATA = os.urandom(9 * MIB)
FAR = [(4 * MIB, 5000), (0, 100), (4 * MIB + 6000, 10), (7 * MIB, 1), (2 * MIB - 5, 10), (9 * MIB - 70_000, 10)]
WANTED = [DATA[offset : offset + length] for offset, length in FAR]

ranges_anywhere = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 30)), max_size=12)


@given(
    ranges=ranges_anywhere,
    most=st.integers(1, 4),
    over_read=st.integers(0, 600),
    size=st.integers(1, 600),
    gap=st.integers(0, 9),
)
def test_joined_fetches_hold_the_same_parts(
    ranges: list[tuple[int, int]], most: int, over_read: int, size: int, gap: int
) -> None:
    merged = merge_ranges(ranges, gap=gap, size=size)
    joined = join_fetches(merged, most=most, over_read=over_read, size=size)
    assert [fetch for one in joined for fetch in one.fetches] == merged, "each part is in exactly one request"
    data = bytes(i % 251 for i in range(600))
    buffers = []
    for one in joined:
        body = memoryview(data)[one.offset : one.offset + one.length]
        assert len(body) == one.length >= one.needed
        buffers += [body[fetch.offset - one.offset :][: fetch.length] for fetch in one.fetches]
    assert [bytes(part) for part in scatter(len(ranges), merged, buffers)] == [data[o : o + n] for o, n in ranges]
    assert sum(one.length - one.needed for one in joined) <= over_read
    assert all(one.length <= size or len(one.fetches) == 1 for one in joined)


@given(ranges=ranges_anywhere, most=st.integers(1, 4), over_read=st.integers(0, 600))
def test_no_more_requests_than_wanted_where_the_bytes_allow(
    ranges: list[tuple[int, int]], most: int, over_read: int
) -> None:
    """The widest gaps are not read. There are more requests than wanted only if reading one more gap would read too
    many bytes."""
    merged = merge_ranges(ranges, gap=0, size=1000)
    gaps = sorted(after.offset - before.offset - before.length for before, after in itertools.pairwise(merged))
    least = sum(gaps[: max(0, len(merged) - most)])
    joined = join_fetches(merged, most=most, over_read=over_read, size=1000)
    if least <= over_read:
        assert len(joined) == min(most, len(merged))
        assert sum(one.length - one.needed for one in joined) == least
    else:
        assert len(joined) > most


@given(st.data())
def test_a_gap_discarding_buffer_keeps_its_stretches_however_the_bytes_come(data: st.DataObject) -> None:
    marks = sorted(data.draw(st.lists(st.integers(0, 200), unique=True, min_size=2, max_size=12)))
    stretches = [(start, stop - start) for start, stop in itertools.pairwise(marks)][:: data.draw(st.integers(1, 3))]
    body = os.urandom(200)
    buffer = GapDiscardingBuffer(stretches)
    at = 0
    while at < len(body):
        step = data.draw(st.integers(1, 90))
        buffer.take(body[at : at + step])
        at += step
    assert buffer.seen == len(body)
    assert [bytes(kept) for kept in buffer.kept] == [body[start : start + length] for start, length in stretches]
    assert all(kept.readonly for kept in buffer.kept)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setattr(Retries, "delay", lambda self, attempt: 0.001)
    with RangeServer({"data.orc": DATA}) as running:
        yield running


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_far_ranges_come_in_as_many_requests_as_wanted(server: RangeServer, most: int) -> None:
    """However far apart the ranges are, one read takes at most ``most`` requests."""
    reader = open_reader(f"{server.url}/data.orc")
    assert [bytes(one) for one in reader.read_ranges(FAR, most=most)] == WANTED
    assert len(server.gets) <= most
    assert [bytes(one) for one in asyncio.run(reader.aread_ranges(FAR, most=most))] == WANTED
    assert reader.metrics.bytes_fetched == sum(one.sent for one in server.gets)
    assert reader.metrics.requests == len(server.gets) <= 2 * most


def test_what_lies_between_is_not_kept(server: RangeServer) -> None:
    reader = open_reader(f"{server.url}/data.orc")
    first, second = reader.read_ranges([(10, 100), (8 * MIB, 50)], most=1)
    (get,) = server.gets
    assert get.sent == 8 * MIB + 40
    assert [len(memoryview(one.obj)) for one in (first, second)] == [100, 50]


def test_a_request_stays_within_the_budget_and_merge_size(server: RangeServer) -> None:
    for options in (ReadOptions(io_bytes=3 * MIB), ReadOptions(merge_size=3 * MIB)):
        server.log.clear()
        reader = open_reader(f"{server.url}/data.orc", options=options)
        assert [bytes(one) for one in reader.read_ranges(FAR, most=1)] == WANTED
        assert 1 < len(server.gets) <= len(FAR)
        assert max(one.sent for one in server.gets) <= 3 * MIB


def test_a_chosen_gap_is_the_widest_that_closes(server: RangeServer) -> None:
    reader = open_reader(f"{server.url}/data.orc", options=ReadOptions(merge_gap=MIB))
    assert [bytes(one) for one in reader.read_ranges(FAR, most=1)] == WANTED
    assert len(server.gets) == 5


def test_what_goes_wrong_on_the_way_is_asked_again(server: RangeServer) -> None:
    for fault in ("503", "short", "reset", "whole"):
        server.faults.extend([fault])
        reader = open_reader(f"{server.url}/data.orc")
        assert [bytes(one) for one in reader.read_ranges(FAR, most=1)] == WANTED, fault
    server.faults.extend(["short"] * 20)
    with pytest.raises(StorageError):
        open_reader(f"{server.url}/data.orc").read_ranges(FAR, most=1)
