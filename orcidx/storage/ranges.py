"""The parts that all range readers share: the protocol, the metrics, and merging of ranges.

A range is ``(offset, length)`` in bytes from the start of the object. Buffers are read-only ``memoryview``s of bytes.
Several buffers may be slices of one merged buffer. The merged buffer is freed when its last slice is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

from orcidx.errors import StorageError
from orcidx.options import RequestOptions
from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.read_metrics import ReadMetrics
from orcidx.storage.threads import READERS
from orcidx.threads.tasks import Task

__all__ = [
    "LentReader",
    "MergedRange",
    "RangeReader",
    "ReadMetrics",
    "merge_ranges",
]

ByteRange = tuple[int, int]

_KIB, _MIB = 1 << 10, 1 << 20


@runtime_checkable
class RangeReader(Protocol):
    """Reads byte ranges of one object. Its methods may be called from several threads. A reader cannot be pickled, but
    its ``Source`` can.

    ``name`` is the path or URL as the caller gave it. ``identity`` is a hashable key of this version of the object, for
    caches. It is ``None`` if the version is not known (bytes, file objects, a file that was changed a moment ago).

    Examples
    --------
    >>> from orcidx.storage import open_reader
    >>> reader = open_reader(b"0123456789")
    >>> reader.size(), [bytes(one) for one in reader.read_ranges([(0, 2), (8, 2)])]
    (10, [b'01', b'89'])
    """

    name: str
    is_local: bool
    metrics: ReadMetrics

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """A key for caches. It changes when the object's bytes change. None if the version is not known."""

    def size(self) -> int:
        """The object's size in bytes.

        Returns
        -------
        int
        """

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        """Reads the end of the object, in one request if the storage supports that.

        Parameters
        ----------
        length : int
            The maximum number of bytes to read.

        Returns
        -------
        (memoryview, int)
            The last ``min(length, size)`` bytes, and the size of the object.
        """

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        """Reads some ranges of the object.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes.
        most : int, optional
            The maximum number of requests to remote storage. To keep this limit, ranges are joined even if many bytes
            are between them. Together the requests have at most ``io_bytes`` bytes.

        Returns
        -------
        list of memoryview
            One buffer of exactly the requested length for each range, in the order of ``ranges``.

        Raises
        ------
        StorageError
            The storage fails (after a limited number of retries) or returns too few bytes, or the object has changed
            since it was opened. The error names the range.
        FileNotFoundError, PermissionError
            As the storage raises them.
        """

    async def aread_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        """``read_ranges`` for event loops. It awaits the requests if the storage is asynchronous, and otherwise uses a
        thread.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes.
        most : int, optional
            The maximum number of requests that may be sent, as in ``read_ranges``.

        Returns
        -------
        list of memoryview
            The same as from ``read_ranges``.

        Raises
        ------
        StorageError
            As in ``read_ranges``.
        """

    def fingerprint(self) -> Fingerprint:
        """The version of the object that was opened.

        Returns
        -------
        Fingerprint
        """

    def close(self) -> None:
        """Frees what the reader opened. An object of the caller is never closed. Later reads raise ``StorageError``."""


@dataclass(frozen=True)
class MergedRange:
    """One fetch of ``length`` bytes at ``offset``. ``parts``: for each requested range in the fetch, the index of the
    range, its start within the fetch, and its length."""

    offset: int
    length: int
    parts: tuple[tuple[int, int, int], ...]


def merge_ranges(ranges: Sequence[ByteRange], *, gap: int, size: int) -> list[MergedRange]:
    """The fetches that together contain ``ranges``, in the order of their offsets. Each requested range is a part of
    exactly one fetch.

    Parameters
    ----------
    ranges : sequence of (int, int)
        Offsets and lengths in bytes. They may overlap, repeat, and come in any order. Empty ranges are in no fetch.
    gap : int
        Two neighbouring ranges are joined if at most ``gap`` bytes are between them and the joined fetch has at most
        ``size`` bytes.
    size : int
        The maximum number of bytes of a joined fetch. A longer range is not split.

    Returns
    -------
    list of MergedRange

    Raises
    ------
    ValueError
        An offset or a length is negative.

    Examples
    --------
    >>> from orcidx.storage import merge_ranges
    >>> [(one.offset, one.length) for one in merge_ranges([(0, 10), (12, 8), (100, 5)], gap=4, size=50)]
    [(0, 20), (100, 5)]
    """
    merged: list[MergedRange] = []
    parts: list[tuple[int, int, int]] = []
    start = stop = 0
    for offset, length, index in sorted((offset, length, index) for index, (offset, length) in enumerate(ranges)):
        if offset < 0 or length < 0:
            raise ValueError(
                f"a range of {length} bytes at offset {offset} is not valid, because neither number can be negative"
            )
        if not length:
            continue
        end = offset + length
        if not (parts and (end <= stop or (offset - stop <= gap and end - start <= size))):
            if parts:
                merged.append(MergedRange(start, stop - start, tuple(parts)))
                parts = []
            start = stop = offset
        parts.append((index, offset - start, length))
        stop = max(stop, end)
    if parts:
        merged.append(MergedRange(start, stop - start, tuple(parts)))
    return merged


@dataclass(frozen=True)
class JoinedFetch:
    """One request for several neighbouring fetches and for the bytes between them."""

    fetches: tuple[MergedRange, ...]

    @property
    def offset(self) -> int:
        return self.fetches[0].offset

    @property
    def length(self) -> int:
        last = self.fetches[-1]
        return last.offset + last.length - self.offset

    @property
    def needed(self) -> int:
        return sum(fetch.length for fetch in self.fetches)


def join_fetches(merged: Sequence[MergedRange], *, most: int, over_read: int, size: int) -> list[JoinedFetch]:
    """Joins the fetches, smallest gaps first, until at most ``most`` requests are left.

    Joining stops earlier if the gaps in all requests would have more than ``over_read`` bytes together. No request
    becomes larger than ``size`` bytes."""
    gaps = [after.offset - before.offset - before.length for before, after in pairwise(merged)]
    closed: set[int] = set()
    for index in sorted(range(len(gaps)), key=gaps.__getitem__):
        if len(merged) - len(closed) <= most or gaps[index] > over_read:
            break
        first, last = index, index + 1
        while first - 1 in closed:
            first -= 1
        while last in closed:
            last += 1
        if merged[last].offset + merged[last].length - merged[first].offset <= size:
            closed.add(index)
            over_read -= gaps[index]
    joined: list[list[MergedRange]] = []
    for index, fetch in enumerate(merged):
        if index - 1 in closed:
            joined[-1].append(fetch)
        else:
            joined.append([fetch])
    return [JoinedFetch(tuple(fetches)) for fetches in joined]


def over_read_bytes(ranges: Sequence[ByteRange], *, most: int, options: RequestOptions) -> int:
    """The number of unneeded bytes that remote storage sends if the ranges are read in ``most`` requests. They are the
    bytes between the ranges."""
    gap, size = merge_limits(options, is_local=False)
    merged = merge_ranges(ranges, gap=gap, size=size)
    joined = join_fetches(merged, most=most, over_read=options.io_bytes, size=options.io_bytes)
    return sum(one.length - one.needed for one in joined)


TAKEN_AT_ONCE = 1 << 18
"""Bytes of a response body that a backend takes and passes to the buffer at a time."""


class GapDiscardingBuffer:
    """Keeps the needed parts of a response when its bytes arrive, and drops the other bytes. So only needed bytes take
    memory. ``stretches``: the needed parts, as pairs (start, length) within the request, in order."""

    def __init__(self, stretches: Sequence[ByteRange]) -> None:
        self._stretches = [(start, start + length, memoryview(bytearray(length))) for start, length in stretches]
        self._next = 0
        self.seen = 0
        """How many bytes have arrived."""

    def take(self, data: bytes | memoryview) -> None:
        """Takes the next bytes of the response."""
        begin, end = self.seen, self.seen + len(data)
        view = memoryview(data)
        for start, stop, kept in self._stretches[self._next :]:
            if start >= end:
                break
            first, last = max(start, begin), min(stop, end)
            if first < last:
                kept[first - start : last - start] = view[first - begin : last - begin]
            self._next += stop <= end
        self.seen = end

    @property
    def kept(self) -> list[memoryview]:
        """The bytes of the ``stretches``. Must be called only after all bytes have arrived."""
        return [kept.toreadonly() for _, _, kept in self._stretches]


def scatter(count: int, merged: Sequence[MergedRange], buffers: Sequence[memoryview]) -> list[memoryview]:
    """The requested ranges, as slices of the fetched buffers."""
    out = [memoryview(b"")] * count
    for fetch, buffer in zip(merged, buffers, strict=True):
        for index, within, length in fetch.parts:
            out[index] = buffer[within : within + length]
    return out


def merge_limits(options: RequestOptions | None, *, is_local: bool) -> tuple[int, int]:
    """The arguments ``gap`` and ``size`` for ``merge_ranges``. They depend on the kind of storage, because a local read
    takes microseconds and a remote request takes tens of milliseconds."""
    gap, size = (8 * _KIB, 8 * _MIB) if is_local else (_MIB, 16 * _MIB)
    if options is not None:
        gap = gap if options.merge_gap is None else options.merge_gap
        size = size if options.merge_size is None else options.merge_size
    return gap, size


def check_inside(ranges: Sequence[ByteRange], size: int, name: str) -> None:
    """Raises an error for a range outside the object, before memory for it is allocated."""
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > size:
            raise StorageError(
                f"{length} bytes at {offset} were requested, but the object has {size} bytes", file=name, offset=offset
            )


def object_changed(name: str, before: Fingerprint, after: Fingerprint | None = None) -> StorageError:
    """The error for an object that has changed since it was opened."""
    now = "" if after is None else f": {before} when opened, {after} now"
    return StorageError(f"the object has changed since it was opened{now}; open it again", file=name)


def as_expected(reader: RangeReader, name: str, expected: Fingerprint) -> RangeReader:
    """Returns the reader. Raises an error if the reader has opened another version of the object than the expected
    one."""
    found = reader.fingerprint()
    if not found.matches(expected):
        reader.close()
        raise object_changed(name, expected, found)
    return reader


def start_read(reader: RangeReader, ranges: Sequence[ByteRange], *, most: int | None = None) -> Task[list[memoryview]]:
    """Starts ``reader.read_ranges(ranges)``. The call runs on the storage's own event loop if there is one, and
    otherwise in a thread.

    Parameters
    ----------
    reader : RangeReader
        An open source.
    ranges : sequence of (int, int)
        Offsets and lengths in bytes.
    most : int, optional
        The maximum number of requests.

    Returns
    -------
    Task
        A future of the list of ``memoryview``.

    Examples
    --------
    >>> from orcidx.storage import open_reader, start_read
    >>> [bytes(one) for one in start_read(open_reader(b"0123456789"), [(2, 3)]).result()]
    [b'234']
    """
    limit = {} if most is None else {"most": most}
    start: Callable[..., Task[list[memoryview]]] | None = getattr(reader, "start_ranges", None)
    return READERS.submit(lambda: reader.read_ranges(ranges, **limit)) if start is None else start(ranges, **limit)


class LentReader:
    """Wraps a reader of the caller. Every call except ``close`` is passed on to the caller's reader."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def close(self) -> None:
        """Leaves the caller's reader open."""
