"""Reading ahead: order, budget, overlap, errors, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from range_server import RangeServer

from orcidx import ReadOptions, StorageError
from orcidx.storage import Fetch, Prefetcher, RangeReader, RecordingReader, open_reader
from orcidx.storage.local import BytesReader

DATA = os.urandom(1_000_000)
STEPS = [((i * 50_000, 1000), (i * 50_000 + 5000, 500)) for i in range(20)]
WANTED = [[DATA[offset : offset + length] for offset, length in ranges] for ranges in STEPS]


class Counting(BytesReader):
    """Counts bytes that were read and not yet used by the consumer."""

    def __init__(self, data: bytes, delay: float = 0.0) -> None:
        super().__init__(data)
        self.delay = delay
        self.lock = threading.Lock()
        self.outstanding = self.most = self.calls = 0

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        with self.lock:
            self.calls += 1
            self.outstanding += sum(length for _, length in ranges)
            self.most = max(self.most, self.outstanding)
        time.sleep(self.delay)
        return super().read_ranges(ranges)

    def used(self, buffers: Sequence[memoryview]) -> None:
        with self.lock:
            self.outstanding -= sum(map(len, buffers))


@pytest.fixture(params=["bytes", "file", "http"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RangeReader]:
    if request.param == "http":
        pytest.importorskip("aiohttp")
        with RangeServer({"data.orc": DATA}) as server:
            yield open_reader(f"{server.url}/data.orc")
        return
    (tmp_path / "data.orc").write_bytes(DATA)
    opened = open_reader(DATA if request.param == "bytes" else tmp_path / "data.orc")
    yield opened
    opened.close()


def test_everything_comes_in_order(reader: RangeReader) -> None:
    recording = RecordingReader(reader)
    with Prefetcher((Fetch(recording, ranges, i) for i, ranges in enumerate(STEPS)), ahead=3) as fetched:
        got = [(fetch.tag, [bytes(b) for b in buffers]) for fetch, buffers in fetched]
    assert got == list(enumerate(WANTED))
    assert len(recording.ranges) == 2 * len(STEPS)


def test_async_iteration(reader: RangeReader) -> None:
    async def collect() -> list[list[bytes]]:
        with Prefetcher(Fetch(reader, ranges) for ranges in STEPS) as fetched:
            return [[bytes(b) for b in buffers] async for _, buffers in fetched]

    assert asyncio.run(collect()) == WANTED


@pytest.mark.parametrize("budget", [1, 1500, 4000, 100_000])
def test_the_budget_holds(budget: int) -> None:
    reader = Counting(DATA)
    options = ReadOptions(io_bytes=budget, merge_gap=0)
    last: list[memoryview] = []
    with Prefetcher((Fetch(reader, ranges) for ranges in STEPS), options=options, ahead=8) as fetched:
        while True:
            reader.used(last)
            found = next(fetched, None)
            if found is None:
                break
            last = found[1]
            time.sleep(0.001)
    assert reader.most <= max(budget, 1500)
    assert reader.calls == len(STEPS)
    if budget == 100_000:
        assert reader.most >= 1500 * 4


def test_reading_and_working_overlap() -> None:
    reader = Counting(DATA, delay=0.01)
    with Prefetcher((Fetch(reader, ranges) for ranges in STEPS[:4]), ahead=3) as fetched:
        next(fetched)
        deadline = time.monotonic() + 10
        while reader.calls < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert reader.calls == 4, "the other three are read while the caller works on the first"
        assert 0 < fetched.seconds_waiting < 10


def test_fetches_are_taken_lazily() -> None:
    taken = 0

    def fetches() -> Iterator[Fetch]:
        nonlocal taken
        for ranges in STEPS:
            taken += 1
            yield Fetch(open_reader(DATA), ranges)

    with Prefetcher(fetches(), ahead=2) as fetched:
        assert taken == 0
        next(fetched)
        assert taken == 3
    with Prefetcher(fetches(), ahead=0) as fetched:
        taken = 0
        next(fetched)
        assert taken == 1


def test_an_error_comes_at_its_turn_and_ends_it() -> None:
    reader = Counting(DATA)
    steps = [STEPS[0], ((len(DATA), 10),), STEPS[1]]
    fetched = Prefetcher(Fetch(reader, ranges) for ranges in steps)
    assert next(fetched)[1] == WANTED[0]
    with pytest.raises(StorageError):
        next(fetched)
    assert next(fetched, None) is None

    def broken() -> Iterator[Fetch]:
        yield Fetch(reader, STEPS[0])
        raise KeyError("planning failed")

    fetched = Prefetcher(broken())
    assert next(fetched)[1] == WANTED[0]
    with pytest.raises(KeyError, match="planning failed"):
        next(fetched)
    assert next(fetched, None) is None


def test_closing_cancels_what_is_under_way() -> None:
    pytest.importorskip("aiohttp")
    with RangeServer({"data.orc": DATA}) as server:
        reader = open_reader(f"{server.url}/data.orc")
        reader.size()
        server.stalled.update(f"bytes={ranges[0][0]}-{ranges[1][0] + 499}" for ranges in STEPS[1:])
        with Prefetcher(Fetch(reader, ranges) for ranges in STEPS) as fetched:
            assert next(fetched)[1] == WANTED[0]
            deadline = time.monotonic() + 20
            while len(server.log) < 4 and time.monotonic() < deadline:
                time.sleep(0.005)
            assert len(server.log) >= 4, "the next ones are under way, and will not be answered"
            before = time.monotonic()
        assert time.monotonic() - before < 20, "closing must not wait for them"
        assert next(fetched, None) is None
        dropped = Prefetcher(Fetch(reader, ranges) for ranges in STEPS)
        assert next(dropped)[1] == WANTED[0]
        del dropped
        server.stalled.clear()
        assert reader.read_ranges(STEPS[1]) == WANTED[1]


def test_threads_do_not_pile_up(tmp_path: Path) -> None:
    (tmp_path / "data.orc").write_bytes(DATA)
    reader = open_reader(tmp_path / "data.orc")
    counts = set()
    for _ in range(5):
        with Prefetcher((Fetch(reader, ranges) for ranges in STEPS), ahead=8) as fetched:
            for _ in fetched:
                pass
        counts.add(sum(thread.name.startswith("orcidx-reader") for thread in threading.enumerate()))
    assert max(counts) <= 8
    reader.close()


_FORKED = """
import os, sys
from orcidx.storage import describe_source, start_read
source = describe_source(sys.argv[1])
reader = source.open()
assert start_read(reader, [(0, 4)]).result(10) == [b"data"]
child = os.fork()
if not child:
    again = source.open()
    os._exit(0 if start_read(again, [(0, 4)]).result(10) == [b"data"] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_threads_are_made_anew_after_a_fork(tmp_path: Path) -> None:
    (tmp_path / "data.orc").write_bytes(b"data")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKED, str(tmp_path / "data.orc")]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, timeout=60, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
