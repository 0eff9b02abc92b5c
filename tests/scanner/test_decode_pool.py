"""The thread pool that decodes columns. Any thread may resize it at any time, and the interpreter may end at any
time."""

import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

from orcidx.scanner import chains
from orcidx.scanner.decode_pool import run_all


@pytest.fixture
def cpus():
    before = pa.cpu_count()
    yield
    pa.set_cpu_count(before)


def test_the_pool_may_be_resized_by_another_thread_at_any_time(cpus):
    """A thread may get the pool, and another thread may shut the pool down before the first thread starts its tasks. No
    RuntimeError is raised."""
    end, failures = threading.Event(), []

    def work(size):
        try:
            while not end.is_set():
                pa.set_cpu_count(size)
                assert run_all([lambda i=i: i for i in range(4)], use_threads=True) == [0, 1, 2, 3]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in (2, 3, 4)]
    for thread in threads:
        thread.start()
    end.wait(1)
    end.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_tasks_have_ended_when_an_interrupt_leaves(cpus):
    pa.set_cpu_count(2)
    begun, end, ended = threading.Event(), threading.Event(), []

    def interrupted():
        begun.wait()
        threading.Timer(0.05, end.set).start()
        raise KeyboardInterrupt

    def slow():
        begun.set()
        end.wait()
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_all([interrupted, slow], use_threads=True)
    assert ended == [True]


def test_tasks_run_here_when_the_interpreter_takes_no_more(monkeypatch, cpus):
    pa.set_cpu_count(2)

    class Ended:
        size = 0

        def offer(self, _):
            return False

    monkeypatch.setattr(chains, "POOL", Ended())
    assert run_all([lambda i=i: i for i in range(3)], use_threads=True) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork, so all tests import orcidx without it")
def test_orcidx_imports_without_fork():
    """orcidx can be imported on Windows, which has no ``os.register_at_fork``."""
    script = """
import os
del os.register_at_fork, os.fork
import orcidx.paimon_table.table, orcidx.scanner.many_files
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=120)


@pytest.mark.parametrize(("away", "others"), [(60.0, False), (0.0, True)])
def test_a_lone_chain_is_handed_over_while_the_caller_is_away(
    monkeypatch: pytest.MonkeyPatch, away: float, others: bool
) -> None:
    monkeypatch.setattr(chains, "AWAY_SECONDS", away)
    monkeypatch.setattr(chains, "perf_counter", lambda: 5.0)
    begun = threading.Event()
    one = chains.Chains([1], 2)
    first = one.add([0], [threading.get_ident])
    one.add([0], [begun.set])
    one.start_early()
    one.finish(first)
    assert first.results == [threading.get_ident()]
    assert begun.wait(60 if others else 0.05) is others
    one.close()
