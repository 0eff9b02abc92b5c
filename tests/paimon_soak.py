"""Many processes change one Paimon table at random, while Paimon's Java compacts it. A model says which rows are right.

Run it by hand: ``python tests/paimon_soak.py WORKERS ROUNDS [--java]``. Tests run short versions.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from paimon_empty import empty_table
from paimon_invariants import check_table, snapshot, snapshot_numbers

from orcidx import CommitConflict
from orcidx.paimon import open_table
from orcidx.paimon_table.commit.changed import Changed
from orcidx.predicate import col

FIRST = 100
SPEC = {"bitmap": {"city": {}}}
JAVA_USER = "java-compaction"
KEEP_ALL = {
    "snapshot__num_retained__min": "1000000",
    "snapshot__num_retained__max": "1000000",
    "snapshot__time_retained": "100 d",
}


@dataclass(frozen=True)
class Step:
    """The result of one change of one process. If ``snapshot`` is None, nothing was committed."""

    snapshot: int | None
    user: str | None
    operation: str
    what: Any = None
    again: int = 0
    """How often Java's rename replaced the snapshot of this change, so that the change was made again."""


@dataclass
class Compactions:
    """Counts Java's compactions that committed, that had nothing to do, and that failed because of another change."""

    compact: Callable[[], int]
    committed: int = 0
    nothing: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)

    def once(self) -> None:
        try:
            files = self.compact()
        except Exception as error:  # an error of py4j is the only sign of a conflict
            (reason, *_) = [line for line in str(error).splitlines() if "onflict" in line] or [str(error)[:2000]]
            self.conflicts[reason.strip()[:200]] += 1
        else:
            self.committed += files > 0
            self.nothing += files == 0


def rows(start: int, count: int = FIRST) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "city": [f"city {i % 10}" for i in numbers]})


def _change(path: str, operation: str, start: int, residue: int) -> Step:
    table = open_table(path)
    if operation == "append":
        found = table.append(rows(start, 10), retries=200)
        return _step(found, operation, list(range(start, start + 10)))
    if operation == "delete":
        where = (col("city") == f"city {residue}") & (col("id") < start)
        found = table.delete(where, isolation="serializable", retries=200)
        return _step(found, operation, (residue, start))
    return _step(table.rewrite_file_index(spec=SPEC, retries=200), operation)


def _step(found: Changed, operation: str, what: Any = None) -> Step:
    again = sum("was overwritten by" in note for note in found.notes)
    return Step(found.snapshot_id, found.commit_user, operation, what, again)


def _work(path: str, seed: int, rounds: int, start: Any, wishes: Any, out: Any) -> None:
    """Makes random changes and reports what was committed. It requests compactions, but does not wait for them."""
    chance = random.Random(seed)
    operations = ["append", "append", "delete", "rewrite", *(["compact"] if wishes is not None else [])]
    done = []
    start.wait()
    for turn in range(rounds):
        operation = chance.choice(operations)
        if operation == "compact":
            wishes.release()
            continue
        try:
            done.append(_change(path, operation, (seed * 10_000 + turn) * 10, chance.randrange(10)))
        except CommitConflict as error:
            done.append(Step(None, None, "conflict" if error.snapshot_id is None else "lost", str(error)))
    out.put(done)


def soak(folder: Path, workers: int, rounds: int, compactions: Callable[[], Compactions] | None = None) -> Counter[str]:
    """Lets processes change a table that holds ``rows(0)``, and compares the rows of each snapshot with a model.

    ``compactions`` is called after the processes have started, because a JVM should not be forked. Returns how many
    changes of each kind were committed.
    """
    fork = multiprocessing.get_context("fork")
    queue, start = fork.Queue(), fork.Event()
    wishes = None if compactions is None else fork.Semaphore(0)
    given = (rounds, start, wishes, queue)
    processes = [fork.Process(target=_work, args=(str(folder), seed, *given)) for seed in range(1, workers + 1)]
    for process in processes:
        process.start()
    java = None if compactions is None else compactions()
    over = threading.Event()
    compactor = threading.Thread(target=_compact_on_request, args=(java, wishes, over))
    compactor.start()
    start.set()
    try:
        done = [step for _ in processes for step in queue.get(timeout=30_000)]
    finally:
        over.set()
        compactor.join()
    for process in processes:
        process.join(60)
    return _compared(folder, done, java)


def _compact_on_request(java: Compactions | None, wishes: Any, over: threading.Event) -> None:
    while java is not None and not over.is_set():
        if wishes.acquire(timeout=0.5):
            while wishes.acquire(block=False):  # one compaction serves all requests so far
                pass
            java.once()


def _compared(folder: Path, done: list[Step], java: Compactions | None) -> Counter[str]:
    assert [step for step in done if step.operation == "conflict"] == []
    committed = {step.snapshot: step for step in done if step.snapshot is not None}
    assert len(committed) == sum(step.snapshot is not None for step in done), "two changes have the same snapshot"
    numbers = snapshot_numbers(folder)
    assert numbers == list(range(1, len(numbers) + 1)), "snapshots have gaps"
    others = []
    for number in numbers[1:]:
        user = snapshot(folder, number)["commitUser"]
        if number in committed:
            assert user == committed[number].user, f"snapshot {number} is of {user}, not of {committed[number]}"
        else:
            others.append((user, snapshot(folder, number)["commitKind"]))
    assert others == [(JAVA_USER, "COMPACT")] * (java.committed if java else 0)
    model = set(range(FIRST))
    for number in sorted(committed):
        step = committed[number]
        if step.operation == "append":
            model |= set(step.what)
        elif step.operation == "delete":
            residue, start = step.what
            model -= {i for i in model if i % 10 == residue and i < start}
    check_table(folder)
    found = sorted(open_table(folder).scan().to_table()["id"].to_pylist())
    assert found == sorted(model), (set(found) ^ model, len(found), len(model))
    assert not (lost := [step.what for step in done if step.operation == "lost"]), lost
    beside = Counter({"compact": len(others), "made again": sum(step.again for step in done)})
    return Counter(step.operation for step in committed.values()) + beside


def table_for_soak(folder: Path) -> Path:
    """Makes a table with a hundred rows and sidecars. Java compacts it after every few files. No snapshot expires."""
    given = {"file_index__in_manifest_threshold": "10 b", "compaction__min__file_num": "3"}
    made = empty_table(folder, **given, **KEEP_ALL)
    open_table(made).append(rows(0))
    return made


def main() -> None:
    workers, rounds = int(sys.argv[1]), int(sys.argv[2])
    java: list[Compactions] = []

    def started() -> Compactions:
        from conftest import PAIMON_JAR, SHORT_LIVED, jar_cache
        from interop.paimon_java import PaimonJava
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]").config("spark.jars", str(jar_cache() / PAIMON_JAR))
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.extraJavaOptions", SHORT_LIVED)
        bridge = PaimonJava(builder.getOrCreate(), Path(scratch))
        java.append(Compactions(lambda: bridge.compact("t", JAVA_USER)))
        return java[0]

    with tempfile.TemporaryDirectory() as scratch:
        folder = table_for_soak(Path(scratch) / "warehouse" / "db.db" / "t")
        counts = soak(folder, workers, rounds // workers, started if "--java" in sys.argv else None)
        sys.stdout.write(f"{workers} processes, {rounds} rounds: {dict(counts)}, all right\n")
        for found in java:
            sys.stdout.write(f"compactions: {found.committed} committed, {found.nothing} with nothing to do, ")
            sys.stdout.write(f"{found.conflicts.total()} lost: {dict(found.conflicts)}\n")


if __name__ == "__main__":
    main()
