"""The loops that do the I/O for step generators give the same results, and work ahead when they may."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orcidx.io_loop import Fetch, run, run_async, run_in_turn, run_value


class Storage:
    """Answers a range with its own numbers, and remembers what was asked."""

    def __init__(self):
        self.asked = []

    def read_ranges(self, ranges):
        self.asked.append((tuple(ranges), threading.current_thread().name))
        return [f"{offset}+{length}" for offset, length in ranges]

    async def aread_ranges(self, ranges):
        return self.read_ranges(ranges)


def steps(name, log=None):
    (footer,) = yield Fetch(((1, 2),), "footer")
    (data,) = yield Fetch(((3, 4),), "data")
    if log is not None:
        log.append(f"decoding {name}")
    yield f"{name} {footer}"
    yield f"{name} {data}"


def test_run():
    storage = Storage()
    assert list(run(steps("a"), storage)) == ["a 1+2", "a 3+4"]
    assert len(storage.asked) == 2


def test_run_value():
    def asks():
        (data,) = yield Fetch(((5, 6),), "index")
        return data

    assert run_value(asks(), Storage()) == "5+6"


def test_run_async():
    async def collect():
        return [item async for item in run_async(steps("a"), Storage())]

    assert asyncio.run(collect()) == ["a 1+2", "a 3+4"]


@pytest.mark.parametrize("threads", [0, 2])
def test_in_turn(threads):
    pool = ThreadPoolExecutor(threads) if threads else None
    starts = iter([lambda: steps("a"), lambda: steps("b"), lambda: steps("c")])
    found = [item for results in run_in_turn(starts, Storage(), pool) for item in results]
    assert found == [f"{name} {data}" for name in "abc" for data in ("1+2", "3+4")]
    if pool:
        pool.shutdown()


def test_the_next_is_fetched_but_not_decoded_ahead():
    log, storage = [], Storage()
    with ThreadPoolExecutor(1) as pool:
        turns = run_in_turn(iter([lambda: steps("a", log), lambda: steps("b", log)]), storage, pool)
        first = next(turns)
        assert next(first) == "a 1+2"
        while len(storage.asked) < 3:  # b's footer request is on its way
            pass
        assert log == ["decoding a"]
        assert list(first) == ["a 3+4"]
        assert list(next(turns)) == ["b 1+2", "b 3+4"]
        assert list(turns) == []


def test_an_error_of_the_storage_reaches_the_caller():
    class Broken(Storage):
        def read_ranges(self, ranges):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(run(steps("a"), Broken()))
    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="gone"):
        list(next(run_in_turn(iter([lambda: steps("a")]), Broken(), pool)))
