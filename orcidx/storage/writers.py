"""What stores share in writing: temporary names, and the promise of ``create``.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its final one,
``.name.<uuid>.tmp``, and then renamed. A process that dies leaves at most such a file. Object stores get one PUT, which
is atomic.

``create`` is exclusive, or it is refused: of all calls for one name, on any thread, process or machine, exactly one
returns True. Each store's module says what makes its create exclusive. A store that has no such means refuses; with
``single_writer`` it looks and then writes (``look_then_put``).

With a server that accepts a condition and ignores it, every call would return True. So a server's conditional create is
tried out first, once for each process and bucket: a second create of one hidden name must be denied (``prove``)."""

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

__all__ = ["is_temporary", "look_then_put", "prove", "refused", "temporary_name", "when_dropped"]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


def is_temporary(name: str) -> bool:
    """Whether an object may be the temporary file of a writer that died."""
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


def when_dropped(sink: object, discard: Callable[..., None], *parts: object) -> weakref.finalize[..., object]:
    """Discards an unfinished write when its sink is garbage-collected or the process ends."""
    return weakref.finalize(sink, _dropped, discard, parts, os.getpid())


def _dropped(discard: Callable[..., None], parts: tuple[object, ...], process: int) -> None:
    if os.getpid() != process:  # in a forked process: the upload belongs to the parent
        return
    if asyncio._get_running_loop() is None:
        discard(*parts)
    else:  # the garbage collector runs on the event loop that sends the requests, which must not wait for itself
        spawn(partial(discard, *parts))


def look_then_put(store: Store, path: str, data: bytes) -> bool:
    """Creates an object where nobody else writes: of two calls at the same time both could return True."""
    if store.exists(path):
        return False
    store.put(path, data)
    return True


_proven: set[Hashable] = set()
"""Buckets, by file system or store, that have denied a second create when tried out."""


def prove(key: Hashable, path: str, create: Callable[[str, bytes], bool], delete: Callable[[str], None]) -> None:
    """Raises ``Unsupported`` where a server takes the condition of a create and ignores it."""
    if key in _proven:
        return
    name = temporary_name(path)
    try:
        honoured = create(name, b"1") and not create(name, b"2")
    finally:
        try:
            delete(name)
        # a writer without the right to delete may still commit; ``clean`` removes such names
        except Exception as error:
            if classify(error) not in ("denied", "missing"):
                raise
    if not honoured:
        raise refused("this server ignores the condition that an object must not exist yet (If-None-Match)")
    _proven.add(key)
