"""A lease on a job of a directory. As long as the lease is renewed, other calls treat the job as running."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from types import TracebackType

from orcidx.errors import OrcidxError, StorageError
from orcidx.storage.folder import Folder
from orcidx.threads.tasks import Task, spawn
from orcidx.threads.waiting import Flag

__all__ = ["Lease", "leased_until"]

LEASE_SECONDS = 60.0
"""Seconds for which a killed job blocks the next job. The clocks of two drivers must differ by less than this."""
_RENEWALS = 4
"""The number of renewals in the time for which a lease is valid. The job goes on if up to three of them fail."""


def leased_until(folder: Folder, name: str) -> float:
    """The end of the lease with this name, in seconds since 1970. The result is 0 if there is no lease. A damaged lease
    counts as ended."""
    raw = folder.read(name)
    try:
        return float(json.loads(raw)["until"]) if raw is not None else 0.0
    except (ValueError, KeyError, TypeError):
        return 0.0


class Lease:
    """A lease that is held in a ``with`` block. A thread renews the lease. The lease is released at the end of the
    block, also after an error."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._until = 0.0
        self._over = Flag()
        self._thread: Task[None] | None = None

    def __enter__(self) -> Lease:
        self._put()
        self._thread = spawn(self._renew)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.wait()
        with suppress(OrcidxError, OSError):  # if the lease cannot be deleted, it expires
            self._folder.delete(self._name)

    def check(self) -> None:
        """Raises ``StorageError`` if the lease has expired. After that time another call may have undone the job."""
        if time.time() >= self._until:
            raise StorageError(
                "the lease of this rewrite could not be renewed and has ended, so nothing was replaced. Start the "
                "rewrite again",
                file=self._folder.name,
            )

    def _put(self) -> None:
        until = time.time() + LEASE_SECONDS
        self._folder.put(self._name, json.dumps({"until": until}).encode())
        self._until = until

    def _renew(self) -> None:
        while not self._over.wait(LEASE_SECONDS / _RENEWALS):
            with suppress(OrcidxError, OSError):  # the next renewal may succeed; otherwise check() raises an error
                self._put()
