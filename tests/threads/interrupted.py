"""Interrupts reads and writes at random moments, and at instructions of modules that threads share.

    PYTHONPATH=.:tests python tests/threads/interrupted.py --count 20000 --seed 1

Half of the interrupts are raised by the handler of a timer's signal. The other half are raised by a trace function,
before a random instruction of the modules ``SHARED`` that the task runs. A signal handler can raise at these places
too. After each interrupt, the same task must run to its end, no thread may be busy, and no file except the result may
remain. If a task hangs, the process ends and prints the stacks of its threads.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import io
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs

import orcidx
from orcidx.fetching import drive
from orcidx.orc_writer.column_encoding import ENCODERS
from orcidx.scanner.chains import POOL
from orcidx.storage.threads import READERS, REQUESTS

SHARED = (
    "threads/awaiting", "storage/threads", "storage/event_loop", "storage/remote", "storage/ranges",
    "storage/fsspec_backend", "storage/arrow_backend", "storage/obstore_backend", "storage/given", "storage/writers",
    "storage/local_writing", "storage/listing", "fetching/drive", "scanner/file_queue", "scanner/decode_ahead",
    "scanner/decode_pool", "scanner/column_group", "scanner/small_stripes", "scanner/span_behind",
    "scanner/span_reader", "scanner/stripe_reader", "orc/stripe_streams", "orc/columns/base", "orc/metadata_cache",
    "orc_writer/memory", "orc_writer/writer", "orc_writer/lanes", "orc_writer/column_encoding",
    "orc_writer/stripe_writer", "rewriting/rewrite",
)  # fmt: skip
POOLS = (POOL, READERS, REQUESTS, ENCODERS, drive._OFF_LOOP)
PATIENCE = 60
"""The number of seconds after which a task counts as hung. A task takes some milliseconds."""


class Interrupt(KeyboardInterrupt):
    """The error that the handler raises. It is a KeyboardInterrupt, because an asyncio event loop would catch any other
    error and continue."""


class Tasks:
    """Each method runs a complete task and checks its result."""

    def __init__(self, root: Path) -> None:
        rows = 20_000
        rng = np.random.default_rng(1)
        columns = {f"n{i}": rng.integers(0, 1 << 40, rows) for i in range(3)}
        self.table = pa.table({**columns, "text": [f"value {i % 977}" for i in range(rows)], "x": rng.random(rows)})
        import obstore.store  # not at the top, because the core tests run without obstore

        self.root = root
        self.out = root / "out"
        self.out.mkdir()
        self.path = root / "many.orc"
        orcidx.write_table(self.table, self.path, stripe_size=1 << 17, compression="zlib")
        self.small = []
        for number in range(6):
            self.small.append(root / f"small{number}.orc")
            orcidx.write_table(self.table.slice(100 * number, 100), self.small[-1])
        self.memory = fsspec.filesystem("memory")
        self.memory.pipe_file("/many.orc", self.path.read_bytes())
        self.arrow = pyarrow.fs.SubTreeFileSystem(str(root), pyarrow.fs.LocalFileSystem())
        self.hidden = pyarrow.fs.PyFileSystem(_Hidden(pyarrow.fs.LocalFileSystem()))
        self.store = obstore.store.LocalStore(root)
        self.bucket = obstore.store.MemoryStore()
        orcidx.write_table(self.table, (self.bucket, "many.orc"), stripe_size=1 << 17)

    def scan(self) -> None:
        assert orcidx.scan(self.path, batch_size=3000).to_table().equals(self.table)

    def scan_one_column(self) -> None:
        assert orcidx.scan(self.path, columns=["text"], batch_size=3000).to_table().num_rows == self.table.num_rows

    def scan_filtered(self) -> None:
        assert orcidx.scan(self.path, where=orcidx.col("n0") > 1 << 39, batch_size=3000).count_rows() > 0

    def scan_small_files(self) -> None:
        assert orcidx.scan(self.small).to_table().num_rows == 600

    def scan_with_fsspec(self) -> None:
        assert orcidx.scan("memory://many.orc", columns=["n0", "text"]).to_table().num_rows == self.table.num_rows

    def scan_with_pyarrow(self) -> None:
        found = orcidx.scan(str(self.path), filesystem=self.hidden, columns=["n0", "text"]).to_table()
        assert found.num_rows == self.table.num_rows

    def scan_with_obstore(self) -> None:
        found = orcidx.scan((self.bucket, "many.orc"), columns=["n0", "text"]).to_table()
        assert found.num_rows == self.table.num_rows

    def scan_file_object(self) -> None:
        with self.path.open("rb") as file:
            assert orcidx.scan(file).to_table().num_rows == self.table.num_rows

    def scan_on_a_loop(self) -> None:
        async def read() -> int:
            return sum([batch.num_rows async for batch in orcidx.scan((self.bucket, "many.orc"), columns=["n0"])])

        assert asyncio.run(read()) == self.table.num_rows

    def write(self) -> None:
        orcidx.write_table(self.table, self.out / "written.orc", stripe_size=1 << 18)
        assert {one.name for one in self.out.iterdir()} <= {"written.orc", "rewritten.orc"}

    def write_in_little_memory(self) -> None:
        shared = orcidx.WriterMemory(1 << 20)
        writers = [orcidx.OrcWriter(io.BytesIO(), self.table.schema, max_memory=shared) for _ in range(2)]
        for one in writers:
            one.write(self.table)
        assert [one.close().rows for one in writers] == [self.table.num_rows] * 2

    def write_with_obstore(self) -> None:
        orcidx.write_table(self.table.slice(0, 5000), (self.bucket, "written.orc"), stripe_size=1 << 17)

    def rewrite(self) -> None:
        orcidx.rewrite(self.path, self.out / "rewritten.orc", sort_by="n0", overwrite=True)

    def all(self) -> list[Callable[[], None]]:
        return [getattr(self, name) for name, one in vars(Tasks).items() if callable(one) and name not in _NO_TASKS]


_NO_TASKS = {"__init__", "all"}


class _Hidden(pyarrow.fs.FSSpecHandler):  # type: ignore[misc]
    """A local file system that orcidx does not recognize as local."""


@contextmanager
def by_timer(after: float) -> Iterator[None]:
    """Makes a signal handler raise after ``after`` seconds, unless the code inside ends earlier."""
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Trace:
    """Counts the instructions of the modules ``SHARED`` that this thread runs, and raises an interrupt before
    instruction number ``at``."""

    def __init__(self, at: int = -1, *, shared: tuple[str, ...] = SHARED) -> None:
        self.at = at
        self.shared = shared
        self.seen = 0
        self.place = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.removesuffix(".py").endswith(self.shared) or "/orcidx/" not in name:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self.seen += 1
            if self.seen == self.at:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise Interrupt
        return self._step


@contextmanager
def by_trace(trace: Trace) -> Iterator[None]:
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def at_rest() -> bool:
    """Returns whether all pools become idle within some seconds."""
    end = time.monotonic() + PATIENCE / 2
    while any(pool.busy for pool in POOLS):
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def interrupted(tasks: Tasks, count: int, seed: int) -> dict[str, int]:
    """Interrupts random tasks ``count`` times. Returns the number of interrupts of each kind."""
    rng = random.Random(seed)
    came = {"timer": 0, "trace": 0}
    took: dict[str, float] = {}
    steps: dict[str, int] = {}
    everything = tasks.all()
    for task in everything:
        task()
        began = time.perf_counter()
        task()
        took[task.__name__] = time.perf_counter() - began
        trace = Trace()
        with by_trace(trace):
            task()
        steps[task.__name__] = trace.seen
    while sum(came.values()) < count:
        task = rng.choice(everything)
        # An error that a signal handler raises breaks a running asyncio event loop, with or without orcidx.
        kind = "timer" if came["timer"] <= came["trace"] and task.__name__ != "scan_on_a_loop" else "trace"
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        trace = Trace(rng.randint(1, steps[task.__name__]))
        try:
            with by_timer(rng.uniform(1e-5, took[task.__name__])) if kind == "timer" else by_trace(trace):
                task()
        except Interrupt:
            came[kind] += 1
        if rng.random() < 0.2:
            task()
            assert at_rest(), f"{task.__name__}: something still runs after {trace.place or 'a timer'}"
        faulthandler.cancel_dump_traceback_later()
    for task in everything:
        task()
    assert at_rest()
    return came


def raising(*_: object) -> None:
    raise Interrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, raising)
    pa.set_cpu_count(4)
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as root:
        began = time.monotonic()
        came = interrupted(Tasks(Path(root)), given.count, given.seed)
        sys.stdout.write(f"{came} in {time.monotonic() - began:.0f} s, seed {given.seed}\n")


if __name__ == "__main__":
    main()
