"""HTTP: the requests in the server's log, and what happens when the server fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from range_server import RangeServer

from orcidx import ReadOptions, StorageError
from orcidx.storage import describe_source, open_reader
from orcidx.storage.failures import Retries

pytest.importorskip("aiohttp")

DATA = os.urandom(3_000_000)
# Five clusters, each with eight ranges of 4 KiB. Gaps are 12 KiB inside a cluster, and 0.5 MB between clusters.
RANGES = [(cluster * 600_000 + i * 16_384, 4096) for cluster in range(5) for i in range(8)]
WANTED = [DATA[offset : offset + length] for offset, length in RANGES]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setattr(Retries, "delay", lambda self, attempt: 0.001)
    with RangeServer({"data.orc": DATA, "empty.orc": b"", "small.orc": b"abc"}) as running:
        yield running


def test_tail_is_one_request_with_size_and_version(server: RangeServer) -> None:
    reader = open_reader(f"{server.url}/data.orc")
    assert not server.log
    tail, size = reader.read_tail(65536)
    assert (bytes(tail), size) == (DATA[-65536:], len(DATA))
    assert [(one.method, one.range, one.status) for one in server.log] == [("GET", "bytes=-65536", 206)]
    assert reader.size() == len(DATA)
    known = reader.fingerprint()
    assert known.size == len(DATA)
    assert len(known.etag or "") == 32
    assert known.mtime == 0
    assert reader.identity is not None
    assert [bytes(b) for b in reader.read_ranges([(len(DATA) - 65536, 10), (len(DATA) - 3, 3)])] == [
        DATA[-65536:-65526],
        DATA[-3:],
    ]
    assert len(server.log) == 1, "ranges inside the tail need no request"
    reader.close()


def test_tail_of_tiny_and_empty_objects(server: RangeServer) -> None:
    for name, content in [("small.orc", b"abc"), ("empty.orc", b"")]:
        reader = open_reader(f"{server.url}/{name}")
        tail, size = reader.read_tail(65536)
        assert (bytes(tail), size) == (content, len(content))
        assert reader.read_ranges([(0, 0), (0, len(content))]) == [b"", content]
    assert len(server.log) == 2


def test_merging_and_requests_in_flight(server: RangeServer) -> None:
    server.latency = 0.05
    reader = open_reader(f"{server.url}/data.orc", options=ReadOptions(merge_gap=100_000))
    reader.read_tail(100)
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert len(server.log) == 1 + 5
    assert server.most_at_once == 5, "all five requests run at the same time"
    counted = reader.metrics.to_dict()
    assert (counted["requests"], counted["ranges"], counted["retries"]) == (6, 1 + len(RANGES), 0)
    assert counted["bytes_asked"] == 100 + 4096 * len(RANGES)
    assert counted["bytes_fetched"] == sum(one.sent for one in server.log) == 100 + 5 * (7 * 16_384 + 4096)
    server.log.clear()
    default = open_reader(f"{server.url}/data.orc")
    assert [bytes(b) for b in default.read_ranges(RANGES)] == WANTED
    assert len(server.log) == 1, "for a remote object, ranges are joined across gaps of 0.5 MB"


def test_in_flight_is_bounded_by_the_byte_budget(server: RangeServer) -> None:
    server.latency = 0.02
    options = ReadOptions(merge_gap=0, io_bytes=2 * 4096)
    reader = open_reader(f"{server.url}/data.orc", options=options)
    assert [bytes(b) for b in reader.read_ranges(RANGES[:10])] == WANTED[:10]
    assert len(server.log) == 10
    assert server.most_at_once == 2


def test_await_from_another_loop(server: RangeServer) -> None:
    server.latency = 0.2  # slow responses, so that even on a busy machine eight requests run at once
    readers = [open_reader(f"{server.url}/data.orc") for _ in range(8)]

    async def read_all() -> tuple[list[list[memoryview]], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        out = await asyncio.gather(*(reader.aread_ranges(RANGES) for reader in readers))
        ticking.cancel()
        return list(out), ticks

    buffers, ticks = asyncio.run(read_all())
    assert all([bytes(b) for b in one] == WANTED for one in buffers)
    assert server.most_at_once == 8
    assert ticks >= 3, "the caller's loop must stay free"


def test_cancelled_await_ends(server: RangeServer) -> None:
    server.faults.extend(["stall"])
    reader = open_reader(f"{server.url}/data.orc")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.aread_ranges([(0, 10)]), 0.1)

    asyncio.run(give_up())
    assert reader.read_ranges([(0, 10)]) == [DATA[:10]]


@pytest.mark.parametrize("fault", ["503", "500", "429", "short", "reset"])
def test_one_failure_is_retried(server: RangeServer, fault: str) -> None:
    for read_first in (False, True):
        reader = open_reader(f"{server.url}/data.orc")
        if read_first:
            reader.read_tail(100)
        server.log.clear()
        server.faults.append(fault)
        if read_first:
            assert reader.read_ranges([(10, 1000)]) == [DATA[10:1010]]
        else:
            assert reader.read_tail(100) == (DATA[-100:], len(DATA))
        assert len(server.gets) == 2
        if fault != "reset":  # aiohttp itself repeats a GET after a closed connection
            assert reader.metrics.retries == 1


@pytest.mark.parametrize("fault", ["503", "short", "reset"])
def test_retries_are_bounded(server: RangeServer, fault: str) -> None:
    reader = open_reader(f"{server.url}/data.orc")
    reader.read_tail(100)
    server.log.clear()
    server.faults.extend([fault] * 100)
    with pytest.raises(StorageError, match="1000 bytes at 10") as caught:
        reader.read_ranges([(10, 1000)])
    assert caught.value.offset == 10
    assert caught.value.file == f"{server.url}/data.orc"
    assert len(server.gets) == (8 if fault == "reset" else 4)  # aiohttp repeats each reset request


@pytest.mark.parametrize(("fault", "kind"), [("403", PermissionError), ("401", PermissionError), ("400", StorageError)])
def test_what_cannot_get_better_is_not_retried(server: RangeServer, fault: str, kind: type[Exception]) -> None:
    server.faults.extend([fault] * 2)
    with pytest.raises(kind):
        open_reader(f"{server.url}/data.orc").read_tail(10)
    assert len(server.log) == 1


def test_missing_object(server: RangeServer) -> None:
    with pytest.raises(FileNotFoundError):
        open_reader(f"{server.url}/nothing.orc").read_tail(10)
    assert len(server.log) == 1


@pytest.mark.parametrize(("etags", "shorter"), [(True, 0), (True, 1000), (False, 1000), (False, 2_999_999)])
def test_changed_object_is_noticed(server: RangeServer, etags: bool, shorter: int) -> None:
    server.etags = etags
    reader = open_reader(f"{server.url}/data.orc")
    reader.read_tail(10)
    server.objects["data.orc"] = os.urandom(len(DATA) - shorter)
    with pytest.raises(StorageError, match="changed"):
        reader.read_ranges([(1000, 100)])
    assert len(server.log) == 2


def test_expected_version_needs_no_request(server: RangeServer) -> None:
    source = describe_source(f"{server.url}/data.orc")
    first = source.open()
    first.read_tail(10)
    known = first.fingerprint()
    server.log.clear()
    again = source.open(expected=known)
    assert again.identity == first.identity
    assert again.size() == len(DATA)
    assert not server.log
    assert again.read_ranges([(5, 5)]) == [DATA[5:10]]
    server.objects["data.orc"] = DATA[::-1]
    for method, argument in [("read_tail", 10), ("read_ranges", [(5, 5)])]:
        with pytest.raises(StorageError, match="changed"):
            getattr(source.open(expected=known), method)(argument)


def test_range_past_the_end_is_not_retried(server: RangeServer) -> None:
    with pytest.raises(StorageError, match=r"has 3000000"):
        open_reader(f"{server.url}/data.orc").read_ranges([(2_999_995, 10)])
    assert len(server.log) == 1


def test_server_without_ranges(server: RangeServer) -> None:
    server.faults.append("whole")
    reader = open_reader(f"{server.url}/data.orc")
    assert reader.read_tail(10) == (DATA[-10:], len(DATA))
    assert [bytes(b) for b in reader.read_ranges(RANGES)] == WANTED
    assert len(server.log) == 1


def test_large_object_without_ranges_is_refused(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcidx.storage.fsspec_requests._LARGEST_WHOLE", 1 << 20)
    server.faults.append("whole")
    with pytest.raises(StorageError, match="does not support range requests"):
        open_reader(f"{server.url}/data.orc").read_tail(10)


def test_wrong_range_is_refused(server: RangeServer) -> None:
    reader = open_reader(f"{server.url}/data.orc")
    reader.read_tail(10)
    server.faults.append("shifted")
    with pytest.raises(StorageError, match=r"bytes=10-19.* another range"):
        reader.read_ranges([(10, 10)])


def test_unreachable_server_fails_in_bounded_time(server: RangeServer) -> None:
    url = server.url
    server.__exit__()
    try:
        with pytest.raises(StorageError):
            open_reader(f"{url}/data.orc").read_tail(10)
    finally:
        server.__enter__()


def test_options_reach_the_file_system(server: RangeServer) -> None:
    reader = open_reader(f"{server.url}/data.orc?token=1", storage_options={"headers": {"X-Key": "secret"}})
    assert reader.read_tail(3)[0] == DATA[-3:]
    assert server.log[0].path == "/data.orc?token=1"
