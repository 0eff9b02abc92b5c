"""What stores share in writing: temporary names, and the promise of ``create``.

Locally, and where a file system can rename, an object is written under a hidden temporary name beside its place,
``.name.<uuid>.tmp``, and renamed; a process that dies leaves such a file at most. Object stores get one PUT, which is
whole or nothing by itself.

``create`` is exclusive, or it is refused: of all calls for one name, by whatever thread, process or machine, one is
told True. Each store's module says what makes it so. Who has nothing looks, then writes (``look_then_put``) where
``single_writer`` is said, and refuses else.

A server that takes a condition and ignores it would tell everybody True. So what rests on a server's word is tried out
first, once a process and bucket: a second create of one hidden name must be denied (``prove``).
"""

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
    """Whether an object is what a writer that died may have left."""
    return _TEMPORARY.fullmatch(name.rpartition("/")[2]) is not None


def temporary_name(name: str) -> str:
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last[:180]}.{uuid.uuid4().hex}.tmp"


def refused(what: str, instead: str = "") -> Unsupported:
    other = f"; {instead}" if instead else ""
    return Unsupported(
        f"{what}, so two jobs that write at once could lose each other's work{other}; "
        "or make sure that no other job writes there, and say so with single_writer=True"
    )


def when_dropped(sink: object, discard: Callable[..., None], *parts: object) -> weakref.finalize[..., object]:
    """Has an unfinished write discarded when nobody holds its sink any more, or the process ends."""
    return weakref.finalize(sink, _dropped, discard, parts, os.getpid())


def _dropped(discard: Callable[..., None], parts: tuple[object, ...], process: int) -> None:
    if os.getpid() != process:  # a copy in a forked process: the upload is the parent's
        return
    if asyncio._get_running_loop() is None:
        discard(*parts)
    else:  # the garbage collector came by on the loop that requests are sent from, which must not wait for itself
        spawn(partial(discard, *parts))


def look_then_put(store: Store, path: str, data: bytes) -> bool:
    """Creates where nobody else writes; two that do it at once would both be told True."""
    if store.exists(path):
        return False
    store.put(path, data)
    return True


_proven: set[Hashable] = set()
"""Buckets, by file system or store, that were seen to deny a second create."""


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
        except Exception as error:  # who may not delete may well commit; ``clean`` takes such names away
            if classify(error) not in ("denied", "missing"):
                raise
    if not honoured:
        raise refused("this server ignores the condition that an object must not exist yet (If-None-Match)")
    _proven.add(key)
