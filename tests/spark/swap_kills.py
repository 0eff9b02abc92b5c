"""Kills processes that swap the files of a rewrite. A process is killed before each change that it makes to a file.

``python swap_kills.py DIRECTORY SCRATCH KEPT`` plans a rewrite of the directory and makes the staged files, as the job
of ``orcidx.spark.rewrite`` does, but without Spark. Then, for n = 0, 1, ..., the directory is copied to ``SCRATCH/n``.
A fork swaps the files of this copy, and is killed (SIGKILL) before its n-th change. The last fork is the
first one that completes the swap. Calls of ``recover`` are killed in the same way. They begin with a copy in which the
swap was killed before the first new file got its name. Their copies are ``SCRATCH/recover-n``. KEPT is the number of
seconds of ``keep_old``. The script prints a JSON object. For each copy, the object has the change before which the
process was killed, or null if the process completed.

The forks call ``kill_before``. In ``test_killed_swaps``, the driver of a whole rewrite also calls it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from orcidx.spark.jobs.rewrite_directory import _Job, _Task, recover
from orcidx.spark.jobs.swaps import Swaps
from orcidx.storage import describe_source
from orcidx.storage.folder import Folder

CHANGES = {"os.rename", "os.remove", "os.link", "os.rmdir", "os.truncate"}
ASKED = {"sort_by": "id", "cluster_by": None, "bloom_filters": ()}


def kill_before(number: int, directory: str, said: int) -> None:
    """Kills this process before its change ``number`` to a file of the directory. Before the kill, a description of the
    change is written to the file descriptor ``said``."""
    left = number

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event == "open":
            path, _, flags = arguments
            changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        else:
            path, changes = arguments[0] if arguments else "", event in CHANGES
        if not changes or not isinstance(path, str) or not path.startswith(directory):
            return
        if left == 0:
            os.write(said, f"{event} {os.path.relpath(path, directory)}".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    sys.addaudithook(hook)


def expire_leases(directory: Path) -> None:
    """Sets the ends of the leases of killed jobs to a time in the past."""
    for lease in directory.rglob("*.lease"):
        lease.write_text(json.dumps({"until": 0}))


class _Counters:
    def add(self, **_: Any) -> None:
        pass


def killed_in(call: Callable[[], object], copy: Path, number: int) -> str:
    """Runs the call in a fork that is killed. Returns the change before which the fork was killed, or "" if the call
    completed."""
    read, said = os.pipe()
    child = os.fork()
    if not child:
        kill_before(number, str(copy), said)
        call()
        os._exit(0)
    os.close(said)
    _, status = os.waitpid(child, 0)
    with open(read, "rb") as file:
        found = file.read().decode()
    assert (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL) == bool(found), status
    assert found or os.WEXITSTATUS(status) == 0
    return found


def main(directory: str, scratch: str, kept: str) -> None:
    root = describe_source(directory)
    swaps = Swaps(Folder(root))
    job = _Job.plan(root, directory, ASKED, 256 << 20, swaps, None)
    manifest = swaps.begin(job.key, job.groups)
    counters: Any = _Counters()
    task = _Task({group.number: group for group in job.groups}, job.folder, ASKED, counters)
    reported = {group.number: task._make(group) for group in job.groups}
    found: dict[str, str] = {}

    def swap(copy: Path) -> None:
        copied = Swaps(Folder(describe_source(str(copy))))
        copied._token = swaps._token
        with copied.lease():
            copied.commit(manifest, job.groups, reported, float(kept))

    def kill_each(prefix: str, given: Path, call: Callable[[Path], object]) -> None:
        number, killed = 0, True
        while killed:
            copy = Path(scratch) / f"{prefix}{number}"
            shutil.copytree(given, copy)
            found[copy.name] = killed_in(partial(call, copy), copy, number)
            number, killed = number + 1, bool(found[copy.name])

    kill_each("", Path(directory), swap)
    first = next(name for name, before in found.items() if before.startswith("os.rename") and ".rewritten" in before)
    expire_leases(Path(scratch) / first)
    kill_each("recover-", Path(scratch) / first, lambda copy: recover(None, str(copy)))
    sys.stdout.write(json.dumps({name: before or None for name, before in found.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
