"""The loops that do the I/O for step generators all give the same results, and fetch ahead where this is allowed."""

import asyncio
import threading
import time
from contextlib import nullcontext

import pytest

from orcidx.fetching.drive import PENDING, Fetch, Turn, arun_in_turn, off_loop, run, run_in_turn, run_value


class Storage:
    """Answers each range with the text "offset+length", and keeps a list of the requested ranges."""

    def __init__(self, is_local=False):
        self.asked = []
        self.is_local = is_local

    def read_ranges(self, ranges):
        self.asked.append((tuple(ranges), threading.current_thread().name))
        return [f"{offset}+{length}" for offset, length in ranges]


class List:
    """A list of turns that are all known from the start. ``finished`` has the number of each turn that has finished."""

    def __init__(self, storage, *starts):
        self.finished = []
        self.turns = [
            Turn(start, storage, lambda number=number: self.finished.append(number))
            for number, start in enumerate(starts)
        ]

    def take(self, *, wait):
        return self.turns.pop(0) if self.turns else None


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


async def collect(results):
    return [item async for item in results]


@pytest.mark.parametrize("is_local", [True, False])
def test_in_turn(is_local):
    expected = [f"{name} {data}" for name in "abc" for data in ("1+2", "3+4")]
    turns = [List(Storage(is_local), *(lambda name=name: steps(name) for name in "abc")) for _ in range(2)]
    assert list(run_in_turn(turns[0])) == expected
    assert asyncio.run(collect(arun_in_turn(turns[1]))) == expected
    assert turns[0].finished == turns[1].finished == [0, 1, 2]


@pytest.mark.parametrize("awaited", [False, True])
def test_the_turn_that_runs_asks_before_the_one_behind_it(awaited):
    """Two turns make requests, and the requests of the first turn come first. In a scan, the first turn also decides
    which requests later turns share, such as one request for several footers."""
    order = []

    def asks(name):
        order.append(name)
        yield Fetch(((1, 2),), "footer")
        yield name

    turns = List(Storage(), lambda: asks("a"), lambda: asks("b"))
    found = asyncio.run(collect(arun_in_turn(turns))) if awaited else list(run_in_turn(turns))
    assert found == order == ["a", "b"]


def test_the_next_is_fetched_but_not_decoded_ahead():
    log, storage = [], Storage()
    turns = List(storage, lambda: steps("a", log), lambda: steps("b", log))
    results = run_in_turn(turns)
    assert next(results) == "a 1+2"
    deadline = time.monotonic() + 10
    while len(storage.asked) < 3 and time.monotonic() < deadline:  # until the footer of b is requested
        time.sleep(0.001)
    assert len(storage.asked) >= 3
    assert log == ["decoding a"]
    assert list(results) == ["a 3+4", "b 1+2", "b 3+4"]


def shared_steps(name, shared):
    """Steps of a turn that needs a footer. One turn fetches the footer for all turns."""
    while "coming" in shared:
        yield PENDING
    if "footer" not in shared:
        shared["coming"] = True
        (shared["footer"],) = yield Fetch(((1, 2),), "footer")
        del shared["coming"]
    (data,) = yield Fetch(((3, 4),), "data")
    yield f"{name} {shared['footer']} {data}"


@pytest.mark.parametrize("is_local", [True, False])
def test_a_turn_waits_for_what_the_one_before_has_asked_for(is_local):
    expected = [f"{name} 1+2 3+4" for name in "abc"]
    for collected in (lambda turns: list(run_in_turn(turns)), lambda turns: asyncio.run(collect(arun_in_turn(turns)))):
        storage, shared = Storage(is_local), {}
        turns = [lambda name=name, shared=shared: shared_steps(name, shared) for name in "abc"]
        assert collected(List(storage, *turns)) == expected
        assert sorted(ranges for ranges, _ in storage.asked) == [((1, 2),)] + [((3, 4),)] * 3
    assert list(run(shared_steps("a", {}), Storage())) == ["a 1+2 3+4"]


def test_local_reads_stay_in_the_callers_thread():
    storage = Storage(is_local=True)
    assert len(list(run_in_turn(List(storage, lambda: steps("a"), lambda: steps("b"))))) == 4
    assert {thread for _, thread in storage.asked} == {threading.current_thread().name}


def test_stages_are_entered():
    seen = []
    results = run_in_turn(List(Storage(), lambda: steps("a")), stage=lambda name: (seen.append(name), nullcontext())[1])
    assert len(list(results)) == 2
    assert list(dict.fromkeys(seen)) == ["plan", "read", "decode"]


def test_early_close_ends_the_steps():
    closed = []

    def endless():
        try:
            while True:
                yield "row"
        finally:
            closed.append(True)

    results = run_in_turn(List(Storage(), endless, lambda: steps("b")))
    assert next(results) == "row"
    results.close()
    assert closed == [True]


def test_an_error_of_the_storage_reaches_the_caller():
    class Broken(Storage):
        def read_ranges(self, ranges):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(run(steps("a"), Broken()))
    for is_local in (True, False):
        with pytest.raises(OSError, match="gone"):
            list(run_in_turn(List(Broken(is_local), lambda: steps("a"))))
        with pytest.raises(OSError, match="gone"):
            asyncio.run(collect(arun_in_turn(List(Broken(is_local), lambda: steps("a")))))


def test_an_error_ahead_waits_for_its_turn():
    def fails():
        raise ValueError("bad")
        yield

    results = run_in_turn(List(Storage(), lambda: steps("a"), fails))
    assert [next(results), next(results)] == ["a 1+2", "a 3+4"]
    with pytest.raises(ValueError, match="bad"):
        next(results)


def test_a_cancelled_call_off_the_loop_has_ended():
    ended = []

    def work():
        time.sleep(0.05)
        ended.append(True)

    async def cancelled():
        task = asyncio.create_task(off_loop(work))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(cancelled())
