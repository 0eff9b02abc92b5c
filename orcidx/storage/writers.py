"""Functions for writing that all stores share: temporary names, and exclusive ``create``.

On local disks, and in file systems that can rename, an object is first written under a hidden temporary name in the
same directory, ``.name.<uuid>.tmp``. It is then renamed to its final name. A process that is killed leaves at most this
temporary file. Object stores get one PUT, which is atomic.

``create`` is exclusive, or it raises an error. If several threads, processes or machines call ``create`` for one name,
exactly one of the calls returns True. The module of each store describes how ``create`` is made exclusive. A store that
cannot guarantee this raises an error. With ``single_writer`` such a store checks for the name and then writes
(``check_then_put``).

Some servers accept a conditional request, but ignore its condition. On such a server every call would return True. So
orcidx tests the conditional create of a server once for each process and bucket. It creates one hidden name twice, and
the second create must be denied (``prove``)."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
import weakref
from collections.abc import Callable, Hashable
from functools import partial

from orcidx.errors import Unsupported
from orcidx.storage.failures import classify
from orcidx.storage.stores import Store
from orcidx.threads.tasks import spawn

__all__ = ["check_then_put", "discard_when_collected", "is_temporary", "prove", "refused", "temporary_name"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


def is_temporary(name: str) -> bool:
    """Whether an object may be the temporary file of a writer that was killed."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def temporary_name(name: str) -> str:
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last[:180]}.{uuid.uuid4().hex}.tmp"


def refused(what: str, instead: str = "") -> Unsupported:
    other = f"; {instead}" if instead else ""
    return Unsupported(
        f"{what}, so two jobs that write at the same time could lose each other's work{other}; or make sure that no "
        "other job writes there, and pass single_writer=True"
    )


def discard_when_collected(sink: object, discard: Callable[..., None], *parts: object) -> weakref.finalize[..., object]:
    """Discards an unfinished write when its sink is garbage-collected or the process ends."""
    return weakref.finalize(sink, _discard_unfinished, discard, parts, os.getpid())


def _discard_unfinished(discard: Callable[..., None], parts: tuple[object, ...], process: int) -> None:
    if os.getpid() != process:  # in a forked process the upload belongs to the parent
        return
    if asyncio._get_running_loop() is None:
        discard(*parts)
    else:  # the garbage collector runs on the event loop that sends the requests, and must not wait for that loop
        spawn(partial(discard, *parts))


def check_then_put(store: Store, path: str, data: bytes) -> bool:
    """Checks whether the object exists. If it does not exist, writes it. The caller must ensure that no other process
    creates the object. If two calls ran at the same time, both could return True."""
    if store.exists(path):
        return False
    store.put(path, data)
    return True


_proven: set[Hashable] = set()
"""Buckets, by file system or store, that denied the second create of the test."""


def prove(key: Hashable, path: str, create: Callable[[str, bytes], bool], delete: Callable[[str], None]) -> None:
    """Raises ``Unsupported`` if a server accepts a conditional create but ignores its condition."""
    if key in _proven:
        return
    name = temporary_name(path)
    try:
        honoured = create(name, b"1") and not create(name, b"2")
    finally:
        try:
            delete(name)
        # A writer may lack the permission to delete the test object. Then ``clean`` removes it later.
        except Exception as error:
            if classify(error) not in ("denied", "missing"):
                raise
    if not honoured:
        raise refused("this server ignores the condition that an object must not exist yet (If-None-Match)")
    _proven.add(key)
