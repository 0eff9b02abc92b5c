"""Random histories of two jobs on the indexes of one directory. Some calls of the store fail. The results of the jobs
are compared with a simple model.

    PYTHONPATH=.:tests python tests/index_directory/histories.py --count 1000 --seed 1

In each round, two jobs run at the same time. A job builds, refreshes, cleans or describes the indexes, or reads the
files. At each call of the store, one of the two jobs is chosen to go on. Files are added, changed and deleted
before a round, and in some rounds also while the jobs run. Each round checks:

* If a job returned without an error, its indexes are committed. So the catalog has each file that the job indexed,
unless the file has changed since then.
* A read returns the rows of the files as they were listed, or raises an error which says that a file changed or that
the store failed.
* Every catalog in use can be read. Every index that it names exists, is complete, and belongs to the named file.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import fsspec
import pyarrow as pa
from fsspec.registry import _registry
from index_directory.faulty_store import WORLDS, Died, FaultyFileSystem, World

import orcidx
from orcidx import InvalidQuery, StorageError, col
from orcidx.index_directory import clean as cleaning
from orcidx.index_directory.clean import clean_indexes
from orcidx.index_directory.describe import describe_indexes
from orcidx.index_directory.lookup import plan_listing
from orcidx.options import ReadOptions
from orcidx.planner.request import FileJob
from orcidx.scanner.file import make_scan
from orcidx.spark.jobs import build_index
from orcidx.storage import failures, list_sources, writers

ROOT = "bucket/data"
URL = "gs://" + ROOT
SPEC = {"bloom-filter": {"id": {"items": 20}}, "bitmap": {"city": {}}}
CITIES = ("Oslo", "Rom", "Bern", "Bonn")
NAMES = ("a.orc", "b.orc", "k=1/c.orc", "k=1/d.orc", "k=2/e.orc")
VERSIONS = 6
CLEANED_AFTER = 5_000
"""The age in seconds after which ``clean`` deletes. All rounds are shorter, and some pauses between rounds are
longer."""
CLEAR = (StorageError, FileNotFoundError)
"""Errors that a job may raise if the store fails, or if a file changes while the job runs."""


@cache
def content(version: int) -> bytes:
    """Returns one version of a data file. The ids of its rows show which version it is."""
    ids = list(range(10 * version, 10 * version + 20))
    table = pa.table({"id": pa.array(ids, pa.int64()), "city": [CITIES[(i + version) % 3] for i in ids]})
    out = io.BytesIO()
    orcidx.write_table(table, out, compression="none")
    return out.getvalue()


@cache
def matching(data: bytes, city: str) -> tuple[int, ...]:
    with orcidx.open(data) as file:
        table = file.read(["id", "city"]).to_pydict()
    return tuple(i for i, name in zip(table["id"], table["city"], strict=True) if name == city)


@contextmanager
def local_jobs(world: World) -> Iterator[None]:
    """Runs Spark's jobs without Spark. The tasks run in this process, one after the other, and waits take no time."""
    with ExitStack() as stack:
        for name, instead in (
            ("facts_of", lambda spark: SimpleNamespace(slots=1)),
            ("run_over_files", _run_here),
            ("frame_of", lambda spark, table: table),
            ("Progress", _NoProgress),
        ):
            stack.enter_context(mock.patch.object(build_index, name, instead))
        stack.enter_context(mock.patch.object(failures.Retries, "delay", return_value=0.0))
        stack.enter_context(mock.patch.object(cleaning, "time", SimpleNamespace(time_ns=lambda: world.now)))
        yield


def _run_here(spark: Any, files: pa.Table, bins: Any, task: Any) -> pa.Table:
    return pa.Table.from_batches(task(files.to_batches()), schema=task.schema)


class _NoProgress:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.counters = SimpleNamespace(add=lambda **_: None)

    def __enter__(self) -> _NoProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class History:
    """One history: its world, and the conditions that must hold for it."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.storage = {"world": seed}
        self.tally: Counter[str] = Counter()
        self.committed: dict[str, str] = {}
        """The etag of the version of each file that a completed job has indexed."""

    # ------------------------------------------------------------------ jobs

    def build(self) -> None:
        self._index(lambda: build_index.build_file_index(None, URL, SPEC, embedded_bytes=self.embedded, **self._where))

    def refresh(self) -> None:
        self._index(lambda: build_index.refresh(None, URL, **self._where))

    def _index(self, job: Any) -> None:
        """Runs a job, and notes the versions that the files had before the job. If the job reports a file as indexed,
        the catalog must have the noted version or a later version of the file from now on."""
        before = self._data()
        for row in job().to_pylist():
            if row["status"] in ("built", "rebuilt", "fresh") and row["path"] in before:
                self.committed[row["path"]] = before[row["path"]]

    def clean(self) -> None:
        clean_indexes(URL, older_than=CLEANED_AFTER, **self._where)

    def describe(self) -> None:
        told = describe_indexes(URL, verify=True, **self._where)
        assert "damaged" not in told.states, told.files.to_pylist()

    def read(self) -> None:
        city = self.random.choice(CITIES)
        sources = list_sources(URL, **self._where)
        versions = [source.listed.etag for source in sources]
        plan = plan_listing(sources, col("city") == city)
        assert not any(note.kind == "damaged" for note in plan.notes), plan.notes
        expected = []
        for version in versions:
            expected += matching(self.versions[version], city)
        found: list[int] = []
        if plan.kept:
            jobs = [
                FileJob(sources[i], file_index=plan.indexes.get(i), fingerprint=sources[i].listed) for i in plan.kept
            ]
            scan = make_scan(
                jobs, ["id"], col("city") == city, limit=None, row_numbers=False, schema=None, options=ReadOptions()
            )
            found = scan.to_table()["id"].to_pylist()
        assert sorted(found) == sorted(expected), (city, plan)
        self.tally["reads right"] += 1
        self.tally["files ruled out"] += len(sources) - len(plan.kept)

    @property
    def _where(self) -> dict[str, Any]:
        return {"storage_options": self.storage}

    # ------------------------------------------------------------------ the data

    def change(self) -> None:
        """Another program writes, replaces or deletes a data file."""
        path = f"{ROOT}/{self.random.choice(NAMES)}"
        if path in self.world.objects and self.random.random() < 0.25 and len(self._data()) > 1:
            del self.world.objects[path]
        else:
            self.world.put(path, content(self.random.randrange(VERSIONS)))
        self._note()

    def _data(self) -> dict[str, str]:
        """Returns the version of each data file by its path below the root."""
        return {
            path.removeprefix(ROOT + "/"): one.etag for path, one in self.world.objects.items() if "_orcidx" not in path
        }

    def _note(self) -> None:
        for path, one in self.world.objects.items():
            if "_orcidx" not in path:
                self.versions[one.etag] = one.data

    # ------------------------------------------------------------------ rounds

    def run(self) -> Counter[str]:
        self.versions: dict[str, bytes] = {}
        self.embedded = self.random.choice([0, 500])
        for _ in range(3):
            self.change()
        with local_jobs(self.world):
            for _ in range(self.random.randint(2, 4)):
                self._round()
        WORLDS.pop(self.world.seed, None)
        return self.tally + self.world.told

    def _round(self) -> None:
        world = self.world
        for _ in range(self.random.randint(0, 2)):
            self.change()
        mixed = self.random.choice(["", "", "moves"])
        world.change = self.change if mixed else None
        world.faults, world.deaths = self.random.choice([(0, 0), (0.03, 0), (0.1, 0), (0.02, 0.01)])
        kinds = [self.build, self.build, self.refresh, self.refresh, self.clean, self.read, self.read, self.describe]
        chosen = [self.random.choice(kinds) for _ in range(2)]
        results = world.run({f"{number} {job.__name__}": job for number, job in enumerate(chosen)})
        world.faults = world.deaths = 0.0
        world.change = None
        for name, result in results.items():
            self._judge(name.partition(" ")[2], result)
        self._settled()
        world.now += self.random.choice([0, 0, 2 * CLEANED_AFTER]) * 10**9

    def _judge(self, job: str, result: Any) -> None:
        self.tally[job] += 1
        if isinstance(result, AssertionError):
            raise result
        if isinstance(result, InvalidQuery) and job in ("refresh", "describe"):
            assert "no indexes" in str(result), result  # nothing was built yet
        elif isinstance(result, (Died, *CLEAR)):
            self.tally[f"failed by {type(result).__name__}"] += 1
        elif isinstance(result, BaseException):
            raise AssertionError(f"{job} failed with an unexpected {type(result).__name__}: {result}") from result

    def _settled(self) -> None:
        """Checks what must hold between rounds, when no job writes and no call fails."""
        now = self._data()
        self.committed = {path: version for path, version in self.committed.items() if now.get(path) == version}
        try:
            told = describe_indexes(URL, verify=True, **self._where)
        except InvalidQuery:
            assert not self.committed, "a job has committed indexes, but there are none"
            return
        states = {row["path"]: row["state"] for row in told.files.to_pylist()}
        lost = {path: states.get(path) for path in self.committed if states.get(path) != "fresh"}
        assert not lost, f"committed indexes are lost: {lost}"
        assert "damaged" not in states.values(), told.files.to_pylist()
        self.read()


def run(seeds: range) -> tuple[Counter[str], list[str]]:
    """Runs the histories of these seeds. Returns the numbers of jobs and failures, and the texts of the errors."""
    tally: Counter[str] = Counter()
    wrong = []
    before = _registry.get("gs")
    fsspec.register_implementation("gs", FaultyFileSystem, clobber=True)
    try:
        for seed in seeds:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    tally += History(seed).run()
            except Exception as error:
                wrong.append(f"history {seed}: {type(error).__name__}: {str(error)[:600]}")
            writers._proven.clear()
    finally:  # restores the protocol "gs", because other tests use it, too
        _registry.pop("gs")
        if before is not None:
            fsspec.register_implementation("gs", before, clobber=True)
    return tally, wrong


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--count", type=int, default=1000)
    words.add_argument("--seed", type=int, default=1)
    asked = words.parse_args()
    start = time.monotonic()
    tally, wrong = run(range(asked.seed * 1_000_000, asked.seed * 1_000_000 + asked.count))
    for text in wrong[:20]:
        print(text)
    took = time.monotonic() - start
    print(f"seed {asked.seed}: {asked.count} histories, {dict(tally)}, {len(wrong)} wrong, {took:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
