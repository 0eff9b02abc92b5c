"""Commits to Paimon tables on S3 with conditional writes. If the storage fails or is slow at any request, or the
process is killed, the table is either the old or the new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paimon_invariants import check_table, snapshot_numbers
from paimon_soak import SPEC, rows
from s3_server import s3_bucket

from orcidx import CommitUncertain, StorageError
from orcidx.paimon import open_table
from orcidx.predicate import col
from orcidx.storage.folder import Folder

PATH = "s3://faults/t"
OPERATIONS: dict[str, Callable[..., Any]] = {
    "append": lambda table, **given: table.append(rows(1000, 10), **given),
    "delete": lambda table, **given: table.delete(col("id") < 10, **given),
    "rewrite": lambda table, **given: table.rewrite_file_index(spec=SPEC, **given),
}
BEFORE = list(range(100))
AFTER = {"append": [*BEFORE, *range(1000, 1010)], "delete": list(range(10, 100)), "rewrite": BEFORE}
OPTIONS = {"bucket": "-1", "file.format": "orc", "deletion-vectors.enabled": "true"}
OPTIONS |= {"file-index.in-manifest-threshold": "10 b"}
TYPES = {"id": "BIGINT", "city": "STRING"}


class Bucket:
    """A bucket with a table of a hundred rows. ``restore`` restores the first state."""

    def __init__(self, options: dict[str, Any], folder: Path) -> None:
        import s3fs

        self.options = options
        self.folder = folder
        self.files = s3fs.S3FileSystem(**options, use_listings_cache=False)
        fields = [{"id": i, "name": name, "type": kind} for i, (name, kind) in enumerate(TYPES.items())]
        schema = {"id": 0, "fields": fields, "options": OPTIONS}
        self.files.pipe_file("faults/t/schema/schema-0", json.dumps(schema).encode())
        self.table().append(rows(0))
        self.kept = {name: self.files.cat_file(name) for name in self.files.find("faults/t")}

    def table(self) -> Any:
        return open_table(PATH, storage_options=self.options)

    def restore(self) -> None:
        for name in self.names() - self.kept.keys():
            self.files.rm_file(name)
        for name, data in self.kept.items():
            self.files.pipe_file(name, data)

    def names(self) -> set[str]:
        return set(self.files.find("faults/t"))

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_table()["id"].to_pylist())

    def check(self) -> list[int]:
        """Checks the invariants on a copy of the files. Returns the snapshots."""
        copy = self.folder / f"copy-{time.monotonic_ns()}"
        for name in self.names():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(self.files.cat_file(name))
        check_table(copy / "faults" / "t")
        return snapshot_numbers(copy / "faults" / "t")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with s3_bucket("faults") as (options, _):
        yield Bucket(options, tmp_path_factory.mktemp("s3"))


class Gone(OSError):
    """The error of a storage that is no longer reachable."""


def gone_after(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, operation: str, allowed: int) -> tuple[bool, bool]:
    """Runs an operation on a storage that fails after ``allowed`` writes. As after a kill, nothing can be undone. The
    same call is then repeated and must take effect once. Returns whether the storage failed, and whether the first call
    had committed."""
    bucket.restore()
    methods = {name: getattr(Folder, name) for name in ("put", "create", "read", "delete")}
    writes = 0

    def dying(name: str) -> Any:
        def call(self: Folder, *given: Any, **named: Any) -> Any:
            nonlocal writes
            if writes > allowed:
                raise Gone("no route to host")
            found = methods[name](self, *given, **named)
            writes += name in ("put", "create")
            if writes > allowed:
                raise Gone("the connection was lost")
            return found

        return call

    for name in methods:
        monkeypatch.setattr(Folder, name, dying(name))
    told: Any = None
    try:
        OPERATIONS[operation](bucket.table(), commit_user="job", identifier=1)
    except (Gone, StorageError, CommitUncertain) as error:
        told = getattr(error, "left_behind", ()) or "\n".join(getattr(error, "__notes__", ()))
    finally:
        for name, method in methods.items():
            monkeypatch.setattr(Folder, name, method)
    committed = "faults/t/snapshot/snapshot-2" in bucket.names()
    assert bucket.ids() == (AFTER[operation] if committed else BEFORE)
    if told is not None and not committed:
        orphans = {name.removeprefix("faults/t/") for name in bucket.names() - bucket.kept.keys()}
        assert all(name in told for name in orphans if not name.endswith(".index")), "no error names them"
    again = OPERATIONS[operation](bucket.table(), commit_user="job", identifier=1)
    assert (again.snapshot_id, again.repeated) == (2, committed)
    assert bucket.check() == [1, 2]
    assert bucket.ids() == AFTER[operation]
    return told is not None, committed


@pytest.mark.parametrize(("operation", "allowed"), [("append", 2), ("delete", 4), ("rewrite", 3)])
def test_a_storage_that_is_gone(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, operation: str, allowed: int) -> None:
    died, _ = gone_after(bucket, monkeypatch, operation, allowed)
    assert died


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_storage_that_is_gone_after_any_write(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    outcomes = []
    for allowed in range(20):
        died, committed = gone_after(bucket, monkeypatch, operation, allowed)
        outcomes.append(committed)
        if not died:
            break
    assert not died
    assert outcomes[0] is False
    assert len(outcomes) > 5
    assert outcomes == sorted(outcomes), "if a number of writes commits, a larger number commits too"


@pytest.mark.parametrize("operation", ["append", "delete"])
def test_a_slow_store_only_takes_longer(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """Another writer commits while the storage is slow. So orcidx's commit fails at first, and is then tried again."""
    bucket.restore()
    put, others = Folder.put, [rows(2000, 5)]

    def slow(self: Folder, name: str, data: bytes) -> None:
        if others and name.startswith("manifest/"):
            bucket.table().append(others.pop())
        put(self, name, data)

    monkeypatch.setattr(Folder, "put", slow)
    result = OPERATIONS[operation](bucket.table())
    monkeypatch.undo()
    assert (result.snapshot_id, result.attempts) == (3, 2)
    assert bucket.check() == [1, 2, 3]
    assert bucket.ids() == sorted([*AFTER[operation], *range(2000, 2005)])


KILLED = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
from orcidx.paimon import open_table
from orcidx.storage.folder import Folder
from test_paimon_commit_s3 import OPERATIONS, PATH
count, most = 0, int(sys.argv[3])
def dying(method):
    def call(self, *given, **named):
        global count
        found = method(self, *given, **named)
        count += 1
        if count == most:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call
Folder.put, Folder.create = dying(Folder.put), dying(Folder.create)
OPERATIONS[sys.argv[2]](open_table(PATH, storage_options=json.loads(sys.argv[4])), commit_user="job", identifier=1)
"""


def killed(bucket: Bucket, writes: int) -> tuple[int, bool]:
    """Runs a rewrite in a process that is killed after ``writes`` objects. Returns the exit code, and whether the
    rewrite had committed."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent), *sys.path])
    bucket.restore()
    arguments = [str(here), "rewrite", str(writes), json.dumps(bucket.options)]
    command = [sys.executable, "-P", "-c", KILLED, *arguments]
    process = subprocess.run(command, env={**os.environ, "PYTHONPATH": path})
    committed = "faults/t/snapshot/snapshot-2" in bucket.names()
    assert bucket.ids() == BEFORE
    again = OPERATIONS["rewrite"](bucket.table(), commit_user="job", identifier=1)
    assert (again.snapshot_id, again.repeated) == (2, committed)
    assert bucket.check() == [1, 2]
    return process.returncode, committed


@pytest.mark.slow
def test_kill_9_after_each_object(bucket: Bucket) -> None:
    """The process is killed after the delta list and after the snapshot. With ``ORCIDX_KILLS=all`` it is killed after
    each object. ``gone_after`` does the same without kills, for all operations."""
    if os.environ.get("ORCIDX_KILLS") != "all":
        assert [killed(bucket, writes) for writes in (4, 5)] == [(-signal.SIGKILL, False), (-signal.SIGKILL, True)]
        return
    outcomes = []
    for writes in range(1, 20):
        outcomes.append(killed(bucket, writes))
        if outcomes[-1][0] == 0:
            break
    assert outcomes[-3:] == [(-signal.SIGKILL, True), (-signal.SIGKILL, True), (0, True)]
    assert len(outcomes) > 5
