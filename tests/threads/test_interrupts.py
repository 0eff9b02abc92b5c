"""A few interrupts of reads and writes. The tasks are in ``interrupted.py``, which can also be run longer by hand."""

import ast
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("obstore")
from threads import interrupted

import orcidx

PACKAGE = Path(orcidx.__file__).parent
COUNT = int(os.environ.get("ORCIDX_INTERRUPTS", "80"))
PATIENCE = 120 + COUNT
"""The number of seconds after which a process counts as hung."""

LEFT_LOCKED = re.compile(
    r"threading\.(?!local\b)\w+|\bqueue\.\w*Queue\b|concurrent\.futures"
    r"|from (?:threading|queue|concurrent)\b|run_coroutine_threadsafe|wrap_future|run_in_executor|to_thread\b"
)
"""Names of locks that may stay locked if an interrupt comes at a bad moment. ``orcidx/threads`` has a replacement for
each."""

SHELL = """
import signal, sys
from orcidx.cli import main
signal.signal(signal.SIGVTALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_VIRTUAL, float(sys.argv.pop(1)))
main()
"""
"""Runs a command and interrupts it after a number of seconds of its own processor time."""

LOST = """
import time
import weakref
import click
from orcidx import cli

class Gone:
    pass

def interrupt(_):
    raise KeyboardInterrupt

@click.command()
def probe():
    gone = Gone()
    kept = weakref.ref(gone, interrupt)
    del gone
    for _ in range(500):
        time.sleep(0.01)
    print("went on")

cli._COMMANDS["probe"] = ("__main__", "probe", "")
cli.main(["probe"])
"""
"""Runs a command in which an interrupt comes in a callback that cannot raise errors."""

with_timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers that interrupt")

WRAPPED = """
import click
from orcidx import cli

class Interrupted:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt

@click.command()
def probe():
    type("Made", (), {"member": Interrupted()})
    print("went on")

cli._COMMANDS["probe"] = ("__main__", "probe", "")
cli.main(["probe"])
"""
"""Runs a command in which an interrupt comes while a class is made. Python 3.11 raises a ``RuntimeError`` then."""


@with_timers
def test_interrupts_leave_nothing_at_work():
    seed = "1" if "CI" in os.environ else str(int.from_bytes(os.urandom(3), "big"))
    soak = Path(__file__).with_name("interrupted.py")
    command = [sys.executable, "-P", str(soak), "--count", str(COUNT), "--seed", seed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert f"seed {seed}" in done.stdout


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # an interrupted write leaves an open file that has no name
def test_a_write_that_is_interrupted_leaves_no_temporary_file(tmp_path):
    """The write is interrupted before each instruction of the module that creates and renames the temporary file."""
    table = pa.table({"a": [1, 2, 3]})
    count = interrupted.Trace(shared=("storage/local_writing",))
    with interrupted.by_trace(count):
        orcidx.write_table(table, tmp_path / "a.orc")
    for at in range(1, count.seen + 1):
        trace = interrupted.Trace(at, shared=("storage/local_writing",))
        with suppress(interrupted.Interrupt), interrupted.by_trace(trace):
            orcidx.write_table(table, tmp_path / "a.orc")
        assert [one.name for one in tmp_path.iterdir()] == ["a.orc"], trace.place
    assert count.seen > 60  # instructions: more than 100 with Python 3.11, and 79 with Python 3.15


@with_timers
@pytest.mark.parametrize("command", [["scan", "--stats"], ["check"], ["rewrite", "OUT"]], ids=lambda one: one[0])
def test_the_shell_ends_at_an_interrupt(tmp_path, command):
    """The interrupt comes at different moments. The process ends, prints no Python traceback, and leaves no temporary
    file."""
    path = tmp_path / "many.orc"
    rows = 200_000
    orcidx.write_table(pa.table({"a": range(rows), "b": [f"{i}" for i in range(rows)]}), path, stripe_size=1 << 20)
    words = [str(tmp_path / "out.orc") if word == "OUT" else word for word in command]
    for after in (0.001, 0.01, 0.03, 0.1):
        shell = [sys.executable, "-P", "-c", SHELL, str(after), words[0], str(path), *words[1:]]
        done = subprocess.run(shell, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        assert done.returncode in (0, 130, -signal.SIGINT), done.stderr
        assert b"Traceback" not in done.stderr
    assert {one.name for one in tmp_path.iterdir()} <= {"many.orc", "out.orc"}


@pytest.mark.parametrize("script", [LOST, WRAPPED], ids=["in a callback", "while a class is made"])
def test_an_interrupt_is_not_lost(script: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (130, b"", False), done.stderr


def test_no_lock_is_left_by_an_interrupt():
    """The package never runs Python code while it holds a lock, because an interrupt of this code could leave the lock
    held. Threads wait for each other with ``orcidx/threads``."""
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if LEFT_LOCKED.search(text) is None:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute | ast.Import | ast.ImportFrom | ast.Name):
                found = LEFT_LOCKED.search(ast.unparse(node))
                if found is not None:
                    wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {found[0]}")
    assert not wrong, "\n".join(wrong)
