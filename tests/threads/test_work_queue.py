"""``WorkQueue``: each piece of work is done once, in order, by the caller or by threads of the pool."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from orcidx.scanner.work_queue import WorkQueue
from orcidx.threads.work import Call, WorkItem


@pytest.fixture
def queue() -> Iterator[WorkQueue]:
    queue = WorkQueue(3)
    yield queue
    queue.close()


def test_one_thread_works_in_order() -> None:
    queue, done = WorkQueue(1), []
    works = [Call(lambda number=number: done.append(number)) for number in range(50)]
    queue.add(works[:20])
    assert done == []
    queue.finish([works[3]])
    assert done == [0, 1, 2, 3], "later work is not needed"
    queue.add(works[20:])
    queue.finish(works[40:])
    assert done == list(range(50))
    queue.finish(works[4:40])


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_all_work_is_done_once(threads: int) -> None:
    queue, done = WorkQueue(threads), []
    waiting: list[WorkItem] = []
    for number in range(400):
        works = [Call(lambda place=(number, part): done.append(place)) for part in range(3)]
        queue.add(works)
        waiting += works
        if number % 7 == 6:
            queue.finish(waiting[:9])
            del waiting[:9]
        if number % 50 == 49:
            time.sleep(0.002)  # the threads go back to the pool
    queue.finish(waiting)
    assert sorted(done) == [(number, part) for number in range(400) for part in range(3)]
    queue.close()


def test_threads_help(queue: WorkQueue) -> None:
    """Work that waits for other work can only end if several threads work."""
    meeting = threading.Barrier(2, timeout=20)
    works = [Call(meeting.wait) for _ in range(6)]
    queue.add(works)
    queue.finish(works)
    assert [work.error for work in works] == [None] * 6


def test_errors_are_kept(queue: WorkQueue) -> None:
    works = [Call(lambda number=number: 1 // (number % 2)) for number in range(20)]
    queue.add(works)
    queue.finish(works)
    assert [type(work.error) for work in works] == [ZeroDivisionError, type(None)] * 10
    alone = Call(lambda: {}["no"])
    alone.run()
    assert isinstance(alone.error, KeyError)


def test_an_interrupt_of_the_caller_is_raised() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    queue, works = WorkQueue(1), [Call(interrupted), Call(int)]
    queue.add(works)
    with pytest.raises(KeyboardInterrupt):
        queue.finish([works[1]])
    queue.finish([works[1]])
    queue.close()


def test_closing_drops_work_and_waits(queue: WorkQueue) -> None:
    begun, done = threading.Event(), []

    def slow() -> None:
        begun.set()
        time.sleep(0.05)
        done.append("slow")

    first = Call(slow)
    queue.add([first])
    assert begun.wait(20)
    alone = WorkQueue(1)
    dropped = Call(lambda: done.append("dropped"))
    alone.add([dropped])
    alone.close()
    queue.close()
    assert done == ["slow"]
    with pytest.raises(ValueError, match="was dropped"):
        alone.finish([dropped])
    alone.add([dropped])  # it has not run
    alone.finish([dropped])
    assert done == ["slow", "dropped"]


def test_what_the_queue_does_not_take(queue: WorkQueue) -> None:
    work = Call(int)
    with pytest.raises(ValueError, match="never added"):
        queue.finish([work])
    queue.add([work])
    with pytest.raises(ValueError, match="added before"):
        queue.add([work])
    queue.finish([work])
    with pytest.raises(ValueError, match="added before"):
        queue.add([work])
    with pytest.raises(TypeError):
        queue.add([int])  # type: ignore[list-item]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_threads_work(queue: WorkQueue) -> None:
    """The child has no threads of the pool, and does the rest alone."""
    done: list[int] = []
    works = [Call(lambda number=number: done.append(number)) for number in range(300)]
    queue.add(works[:100])
    for pause in (0.0, 0.0002, 0.0008, 0.003):
        time.sleep(pause)  # the threads work, wait for more work, or are back in the pool
        child = os.fork()
        if child == 0:
            right = False
            try:
                queue.add(works[100:])
                queue.finish(works)
                right = sorted(done) == list(range(300))
            finally:
                os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.add(works[100:])
    queue.finish(works)
    assert sorted(done) == list(range(300))
