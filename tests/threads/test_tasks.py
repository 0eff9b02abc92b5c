"""Unit tests of tasks, pools, and the objects that threads wait for."""

import os
import subprocess
import sys
import threading
import time

import pytest

from orcidx.threads.tasks import Cancelled, Once, Pool, Task, side_by_side, spawn
from orcidx.threads.waiting import Channel, Flag, Held, Mutex, Tally


def test_a_pool_runs_calls_in_their_order_by_so_many_threads():
    pool, order, go = Pool(1), [], threading.Event()
    tasks = [pool.submit(go.wait)] + [pool.submit(lambda i=i: order.append(i)) for i in range(5)]
    assert pool.busy >= 6
    go.set()
    for task in tasks:
        task.wait()
    assert order == [0, 1, 2, 3, 4]
    assert pool.threads == 1


def test_a_task_ends_with_its_error_and_tells_once():
    told = []
    task = Pool(1).submit(lambda: 1 // 0)
    task.call_when_done(lambda: told.append(task.done()))
    assert isinstance(task.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        task.result()
    task.call_when_done(lambda: told.append(task.done()))
    task.finish(3)
    assert told == [True, True]
    assert not task.cancel()


def test_a_task_that_waits_can_be_cancelled_and_one_that_runs_by_its_hook():
    pool, go, ran, stopped = Pool(1), threading.Event(), [], []
    begun = threading.Event()
    first, second = pool.submit(lambda: begun.set() or go.wait()), pool.submit(lambda: ran.append(1))
    begun.wait()
    assert second.cancel()
    assert second.cancel()
    with pytest.raises(Cancelled):
        second.result()
    assert not first.cancel()
    go.set()
    first.result()
    assert not ran
    other = Task()
    other.on_cancel = lambda: stopped.append(1)
    assert other.cancel()
    assert stopped == [1]


def test_a_pool_shrinks_without_losing_calls():
    pool = Pool(4)
    for size in (4, 1, 3, 1, 2) * 40:
        pool.size = size
        tasks = [pool.submit(lambda i=i: i) for i in range(6)]
        assert [task.result() for task in tasks] == list(range(6))
    assert pool.threads <= 4


def test_calls_run_here_where_there_can_be_no_thread(monkeypatch):
    from orcidx.threads import tasks

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(tasks, "start_new_thread", refuse)
    here = threading.get_ident()
    assert Pool(2).submit(threading.get_ident).result() == here
    assert not Pool(2).offer(threading.get_ident)
    assert spawn(threading.get_ident).result() == here
    assert side_by_side(lambda n: n + 1, [1, 2], 4) == [2, 3]


def test_side_by_side_keeps_the_order_and_raises_the_first_error():
    assert side_by_side(lambda n: (time.sleep(0.01 * (3 - n)), n)[1], [0, 1, 2, 3], 3) == [0, 1, 2, 3]
    assert side_by_side(lambda n: n, [], 3) == []
    begun = []

    def fail(n):
        begun.append(n)
        if n in (1, 2):
            raise ValueError(n)
        return n

    with pytest.raises(ValueError, match="1"):
        side_by_side(fail, range(1000), 2)
    assert len(begun) < 1000


def test_run_all_ends_what_it_began_before_an_interrupt_leaves():
    pool, ended, begun = Pool(2), [], threading.Event()

    def slow():
        begun.set()
        time.sleep(0.1)
        ended.append(1)

    def interrupted():
        begun.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run_all([slow, interrupted])
    assert ended == [1]
    pool.run_all([])


def test_a_mutex_lets_one_in_and_never_twice_the_same():
    mutex, inside, most = Mutex(), [], []

    def work(_):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.0005)
        inside.pop()

    side_by_side(lambda n: mutex.run(work, n), range(50), 5)
    assert max(most) == 1
    with pytest.raises(RuntimeError, match="inside"):
        mutex.run(lambda: mutex.run(int))
    assert mutex.attempt(lambda: None)
    tried = []
    mutex.run(lambda: tried.append(mutex.attempt(int)))
    assert tried == [False]
    assert mutex.run(max, 1, 2) == 2


def test_a_channel_holds_no_more_than_its_capacity():
    channel, taken = Channel(2), []
    writer = spawn(lambda: [channel.put(i) for i in range(100)])
    for _ in range(100):
        taken.append(channel.get())
    writer.result()
    assert taken == list(range(100))


def test_a_flag_wakes_who_waits():
    flag = Flag()
    began = time.monotonic()
    assert not flag.wait(0.02)
    assert time.monotonic() - began >= 0.02
    waiting = spawn(lambda: flag.wait(60))
    flag.set()
    assert waiting.result()
    assert flag.wait(0)


def test_sums_of_threads_are_exact():
    tally, held = Tally(), Held()

    def work(owner):
        for size in range(1000):
            tally.add(1)
            held.set(owner, size)

    side_by_side(work, range(8), 8)
    assert tally.sum == 8000
    assert held.sum == 8 * 999


def test_once_serves_everybody_by_one_thread():
    served = []

    def serve(ready):
        served.append(1)
        time.sleep(0.01)
        if len(served) == 1:
            ready.finish(error=OSError("no more files"))
        else:
            ready.finish("here")

    once = Once(serve)
    with pytest.raises(OSError, match="no more"):
        once.get()
    assert side_by_side(lambda _: once.get(), range(5), 5) == ["here"] * 5
    assert len(served) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_begins_anew():
    pool, mutex, go = Pool(1), Mutex(), threading.Event()
    pool.submit(go.wait)
    holder = spawn(lambda: mutex.run(go.wait))
    while mutex.attempt(int):
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        fine = pool.submit(lambda: 7).result() == 7 and mutex.run(lambda: 8) == 8 and pool.threads == 1
        os._exit(0 if fine else 1)
    go.set()
    holder.wait()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_was_handed_over_is_done_when_the_interpreter_ends():
    script = """
import atexit, sys, time
from orcidx.threads import tasks
pool = tasks.Pool(1)
atexit.register(lambda: print("late", pool.submit(lambda: 5).result()))
for i in range(3):
    pool.submit(lambda i=i: (time.sleep(0.02), print(i)))
class Last:
    def __del__(self):
        print("last", pool.submit(lambda: 6).result())
sys.last = Last()
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:4] == ["0", "1", "2", "late 5"]
