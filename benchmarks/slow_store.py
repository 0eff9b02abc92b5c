"""Reads files of a store that takes 20 ms for a request and 10 ms for a megabyte:  python -m benchmarks.slow_store

The benchmark measures what ``file_queue.REMOTE_AHEAD`` and ``dictionary_choice.DICTIONARY_SHARE`` cost and save
(decision 0113). The requests, the bytes and the time of waiting hardly depend on the machine.
"""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from fsspec.asyn import AsyncFileSystem

import orcidx
from orcidx import col
from orcidx.orc.metadata_cache import forget_metadata
from orcidx.planner import dictionary_choice
from orcidx.scanner import file_queue
from orcidx.storage import threads

REQUEST_SECONDS = 0.02
BYTES_PER_SECOND = 100e6
TEXT = 40


class SlowStore(AsyncFileSystem):  # type: ignore[misc]
    """A store that keeps objects in memory. Each request takes some time. The sizes of objects are known without a
    request."""

    cachable = False

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__()
        self.objects = objects
        self.requests = self.bytes = 0

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self.objects[path]), "type": "file"}

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data = self.objects[path][start:end]
        self.requests += 1
        self.bytes += len(data)
        await asyncio.sleep(REQUEST_SECONDS + len(data) / BYTES_PER_SECOND)
        return data


def measured(store: SlowStore, task: Callable[[], object], rounds: int = 3) -> str:
    """Returns the number of requests, the megabytes, and the least time in milliseconds."""
    times = []
    for _ in range(rounds):
        forget_metadata()
        store.requests = store.bytes = 0
        began = time.perf_counter()
        task()
        times.append(time.perf_counter() - began)
    return f"{store.requests} / {store.bytes / 1e6:.2f} / {1e3 * min(times):.0f}"


def table(first: int, rows: int, rng: np.random.Generator) -> pa.Table:
    """Makes a table of sorted keys, and of numbers that cannot be compressed."""
    return pa.table({"key": np.arange(first, first + rows), **{f"x{n}": rng.random(rows) for n in range(4)}})


def stored(rows: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    orcidx.write_table(rows, buffer, compression="none", **options)
    return buffer.getvalue()


# ---------------------------------------------------------------------- opening files ahead


def files_ahead() -> Iterator[str]:
    rng = np.random.default_rng(1)
    small = SlowStore({f"{n:02}.orc": stored(table(1000 * n, 1_000, rng)) for n in range(64)})
    large = SlowStore({f"{n:02}.orc": stored(table(30_000 * n, 30_000, rng)) for n in range(64)})

    def all_of(store: SlowStore, where: Any = None) -> Callable[[], object]:
        return lambda: sum(
            batch.num_rows for batch in orcidx.scan(sorted(store.objects), where=where, filesystem=store)
        )

    def first_of(store: SlowStore, files: int) -> Callable[[], object]:
        def take() -> None:
            batches = orcidx.scan(sorted(store.objects), filesystem=store, batch_size=1000).to_batches()
            for _ in range(files):
                next(batches)
            batches.close()

        return take

    tasks = {
        "64 files of 40 kB": (small, all_of(small)),
        "64 of 1.2 MB": (large, all_of(large)),
        "64 of 1.2 MB, a key in one": (large, all_of(large, col("key") == 1_000_000)),
        "64 of 40 kB, first 4": (small, first_of(small, 4)),
        "64 of 40 kB, first 20": (small, first_of(small, 20)),
    }
    yield "| REMOTE_AHEAD, threads | " + " | ".join(tasks) + " |"
    yield "|--:|" + "--:|" * len(tasks)
    for ahead, workers in ((0, 8), (1, 8), (2, 8), (4, 8), (6, 8), (8, 8), (16, 8), (16, 16), (32, 32)):
        threads.READERS._workers = workers
        threads.READERS.forget()
        with mock.patch.object(file_queue, "REMOTE_AHEAD", ahead):
            yield f"| {ahead}, {workers} | " + " | ".join(measured(*task) for task in tasks.values()) + " |"


# ---------------------------------------------------------------------- reading dictionaries

STRIPES, ROWS = 16, 100_000


def with_dictionary(distinct: int, share: float, payload: int, rng: np.random.Generator) -> tuple[bytes, str]:
    """Writes a file in which each stripe has ``distinct`` texts. One text is in ``share`` of the stripes. Returns the
    file and this text."""
    wanted = "7" + rng.bytes(TEXT // 2).hex()[1:]
    buffer = io.BytesIO()
    with orcidx.OrcWriter(
        buffer,
        pa.schema([("name", "string"), *((f"x{n}", "float64") for n in range(payload))]),
        compression="none",
        dictionary_key_size_threshold=1.0,
        stripe_size=1 << 30,
    ) as writer:
        for stripe in range(STRIPES):
            texts = np.array([rng.bytes(TEXT // 2).hex() for _ in range(distinct)], object)
            texts[:3] = "0" * TEXT, "f" * TEXT, wanted if stripe < share * STRIPES else "7" + "0" * (TEXT - 1)
            rows = {"name": np.concatenate([texts, rng.choice(texts, ROWS - distinct)])}
            rows |= {f"x{n}": rng.random(ROWS) for n in range(payload)}
            rng.shuffle(rows["name"])
            writer.write(pa.table(rows))
            writer.end_stripe()
    return buffer.getvalue(), wanted


def dictionaries() -> Iterator[str]:
    rng = np.random.default_rng(2)
    shares = (0.0, 0.5, 1.0)
    yield (
        "| texts of a stripe | share of the data | "
        + " | ".join(f"in {share:.0%}: {way}" for share in shares for way in ("asked", "never"))
        + " |"
    )
    yield "|--:|--:|" + "--:|" * 6
    for payload in (1, 8):
        for distinct in (500, 2_000, 5_000, 10_000, 20_000):
            cells = []
            for share in shares:
                data, wanted = with_dictionary(distinct, share, payload, rng)
                store = SlowStore({"a.orc": data})

                def ask(store: SlowStore = store, wanted: str = wanted) -> object:
                    return orcidx.open("a.orc", filesystem=store).scan(where=col("name") == wanted).to_table()

                for limit in (1e9, 0.0):
                    with mock.patch.object(dictionary_choice, "DICTIONARY_SHARE", limit):
                        cells.append(measured(store, ask))
            dictionary = distinct * (TEXT + 2)
            part = dictionary / (dictionary + ROWS * (8 * payload + np.log2(distinct) / 8))
            yield f"| {distinct:,} of {payload} | {part:.0%} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for part in (files_ahead, dictionaries):
        for line in part():
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
