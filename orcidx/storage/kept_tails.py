"""The last bytes of files, which are stored together in objects beside the files. With these objects, a file can be
opened without a request for its own tail.

The files of a scan are opened in order. So the tails of the next files are fetched together with the first tail. The
first fetch takes at most ``FIRST_BYTES`` bytes of tails, and each later fetch takes at most ``MOST_AT_ONCE`` bytes.
Adjacent tails in an object are fetched by one request."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from orcidx.errors import OrcidxError
from orcidx.storage.ranges import RangeReader, start_read
from orcidx.storage.stores import Source
from orcidx.threads.tasks import Task

__all__ = ["KeptTail", "share"]

FIRST_BYTES = 256 << 10
MOST_AT_ONCE = 4 << 20
"""The most bytes of tails that one fetch takes. The first fetch takes at most ``FIRST_BYTES``."""


class Counts(Protocol):
    """An object that counts requests."""

    requests: int
    bytes_read: int


@dataclass(frozen=True)
class KeptTail:
    """Where the last bytes of one version of a file are stored: ``length`` bytes at ``offset`` of ``source``. ``crc``
    is the CRC-32 of these bytes. ``shared``: the tails that are fetched together with this one. It is None in an object
    that was copied to another process."""

    source: Source
    offset: int
    length: int
    crc: int
    shared: SharedTails | None = field(default=None, repr=False, compare=False)

    def read(self, metrics: Counts) -> memoryview | None:
        """Returns the bytes of the tail, or None if the bytes cannot be read or their CRC-32 differs. ``metrics``
        counts the requests."""
        shared = SharedTails((self,)) if self.shared is None else self.shared
        data = shared.bytes_of(self, metrics)
        return data if data is not None and zlib.crc32(data) == self.crc else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "shared": None}


class SharedTails:
    """Several tails that are fetched together when the first of them is needed. ``before``: the group with the tails of
    the previous files. The bytes of ``before`` are kept during the fetch, because several files are opened at a time.
    The bytes of the group that precedes ``before`` are freed."""

    def __init__(self, tails: Sequence[KeptTail], before: SharedTails | None = None) -> None:
        self._tails = tails
        self._before = before
        self._fetches: dict[Any, _Fetch] = {}

    def bytes_of(self, tail: KeptTail, metrics: Counts) -> memoryview | None:
        """Returns the bytes of one tail, or None if the object with the tail cannot be read."""
        try:
            fetches = self._fetches
            # There is no lock here. So if two threads come here at the same time, both may send the request.
            if not fetches:
                if self._before is not None and self._before._before is not None:
                    self._before._before._fetches = {}
                    self._before._before = None
                fetches = self._fetches = self._begun()
            return fetches[tail.source.location].bytes_of(tail, metrics)
        except (OrcidxError, OSError):  # the caller then reads the tail from the file
            return None

    def _begun(self) -> dict[Any, _Fetch]:
        members: dict[Any, list[KeptTail]] = {}
        for one in self._tails:
            members.setdefault(one.source.location, []).append(one)
        return {location: _Fetch(tails) for location, tails in members.items()}


class _Fetch:
    """The requests for one object, running or finished."""

    def __init__(self, tails: Sequence[KeptTail]) -> None:
        self._reader: RangeReader | None = tails[0].source.open()
        self._task: Task[list[memoryview]] = start_read(self._reader, [(one.offset, one.length) for one in tails])
        self._places = {(one.offset, one.length): number for number, one in enumerate(tails)}

    def bytes_of(self, tail: KeptTail, metrics: Counts) -> memoryview:
        try:
            return self._task.result()[self._places[tail.offset, tail.length]]
        finally:
            reader, self._reader = self._reader, None
            if reader is not None and self._task.done():
                metrics.requests += reader.metrics.requests
                metrics.bytes_read += reader.metrics.bytes_fetched
                reader.close()


def share(tails: Sequence[KeptTail | None]) -> list[KeptTail | None]:
    """Assigns the tails to groups that are fetched together. ``tails``: the tails of files in the order in which the
    files are opened. None stands for a file without a stored tail. The result has the same order."""
    shared: list[KeptTail | None] = [None] * len(tails)
    together: SharedTails | None = None
    for members in _parts(tails):
        together = SharedTails([tail for _, tail in members], together)
        for number, tail in members:
            shared[number] = replace(tail, shared=together)
    return shared


def _parts(tails: Sequence[KeptTail | None]) -> Iterator[list[tuple[int, KeptTail]]]:
    """Yields groups of limited size. A group has the tails that are not None, each with its position in ``tails``."""
    members: list[tuple[int, KeptTail]] = []
    size, most = 0, FIRST_BYTES
    for number, tail in enumerate(tails):
        if tail is None:
            continue
        if members and size + tail.length > most:
            yield members
            members, size, most = [], 0, MOST_AT_ONCE
        members.append((number, tail))
        size += tail.length
    if members:
        yield members
