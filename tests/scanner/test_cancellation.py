"""Async scans that are cancelled, or not read to the end.

A cancelled scan raises CancelledError. Nothing is closed while it is used, the event loop is not blocked, and asyncio
reports no problem.
"""

import asyncio
import logging
import threading

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from goldens import FIXTURES

import orcidx
from orcidx.errors import StorageError
from orcidx.fetching.drive import Fetch, Turn, arun_in_turn, off_loop
from orcidx.paimon import open_table
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.file_scan import scan_stripe
from orcidx.storage import RangeReader, open_reader

TABLE = FIXTURES / "paimon" / "tables" / "db.db" / "append_dv32"


@pytest.fixture
def silent(caplog):
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.records] == []


@pytest.fixture
def files(tmp_path):
    for number in range(4):
        pyarrow.orc.write_table(pa.table({"id": np.arange(1000)}), tmp_path / f"{number}.orc", row_index_stride=100)
    return tmp_path


def run_checked(main):
    """Runs ``main`` in asyncio's debug mode, which reports coroutines that were never awaited and lost exceptions."""

    async def checked():
        # Slow callbacks are not reported, because the machine may be busy.
        asyncio.get_running_loop().slow_callback_duration = 3600
        return await main

    return asyncio.run(checked(), debug=True)


@pytest.mark.parametrize("cancellations", [1, 2, 5])
def test_a_call_off_the_loop_is_waited_for_however_often_it_is_cancelled(cancellations):
    begun, end = threading.Event(), threading.Event()

    def call():
        begun.set()
        assert end.wait(60)

    async def main():
        task = asyncio.create_task(off_loop(call))
        assert await asyncio.to_thread(begun.wait, 60)
        for _ in range(cancellations):
            task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_checked(main())


@pytest.mark.parametrize("kind", ["files", "table"])
def test_a_cancelled_pass_is_cancelled_and_nothing_else(files, kind, monkeypatch, silent):
    """The scan is cancelled while it makes a batch. The error must be ``CancelledError``, not ``ValueError: generator
    already executing``."""
    begun, end = threading.Event(), threading.Event()
    monkeypatch.setattr("orcidx.scanner.file_scan.scan_stripe", held(begun, end))
    scan = orcidx.scan(files, batch_size=100) if kind == "files" else open_table(TABLE).scan(batch_size=100)

    async def read():
        async for _ in scan:
            pass

    async def main():
        task = asyncio.create_task(read())
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_checked(main())


def held(begun, end):
    """Returns a replacement for ``scan_stripe`` that sets ``begun`` and then waits for ``end``."""

    def steps(*args, **kwargs):
        begun.set()
        assert end.wait(60)
        yield from scan_stripe(*args, **kwargs)

    return steps


def test_leaving_a_pass_closes_nothing_on_the_loop(files, monkeypatch, silent):
    closing = []
    reader = open_reader(files / "0.orc")
    reader.close()
    for owner in (FileQueue, type(reader)):
        noted = owner.close

        def close(self, noted=noted):
            closing.append(threading.current_thread())
            noted(self)

        monkeypatch.setattr(owner, "close", close)

    async def main():
        batches = aiter(orcidx.scan(files, batch_size=100))
        await anext(batches)
        await batches.aclose()

    run_checked(main())
    assert closing
    assert threading.main_thread() not in closing


class Failing:
    """Remote storage in which every request waits for ``go`` and then fails."""

    is_local = False
    name = "failing"

    def __init__(self):
        self.go = threading.Event()

    def read_ranges(self, ranges, *, most=None):
        assert self.go.wait(60)
        raise StorageError("refused")


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_failure_is_not_called_unseen(cancelled, silent):
    storage: RangeReader = Failing()

    class Turns:
        left = 1

        def take(self, *, wait):
            self.left -= 1
            return Turn(steps, storage) if self.left == 0 else None

    def steps():
        yield Fetch(((0, 1),), "data")

    async def read():
        async for _ in arun_in_turn(Turns()):
            pass

    async def main():
        task = asyncio.create_task(read())
        if cancelled:
            for _ in range(20):
                await asyncio.sleep(0.001)
            task.cancel()
            for _ in range(20):
                await asyncio.sleep(0.001)
        storage.go.set()
        with pytest.raises(asyncio.CancelledError if cancelled else StorageError):
            await task
        for _ in range(20):
            await asyncio.sleep(0.001)

    run_checked(main())
