"""A reader that records the calls of its methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orcidx.storage.fingerprint import Fingerprint
from orcidx.storage.ranges import ByteRange, RangeReader, start_read
from orcidx.threads.tasks import Task

__all__ = ["RecordingReader"]


class RecordingReader:
    """Passes every call on to another reader and records the calls, for tests and analysis.

    ``asked`` lists ``("tail", length)`` and ``("ranges", ((offset, length), ...))`` in the order of the calls.

    Parameters
    ----------
    reader : RangeReader
        The other reader.

    Examples
    --------
    >>> from orcidx.storage import RecordingReader, open_reader
    >>> reader = RecordingReader(open_reader(b"0123456789"))
    >>> [bytes(one) for one in reader.read_ranges([(2, 3)])]
    [b'234']
    >>> reader.asked
    [('ranges', ((2, 3),))]
    """

    def __init__(self, reader: RangeReader) -> None:
        self.reader = reader
        self.name = reader.name
        self.is_local = reader.is_local
        self.metrics = reader.metrics
        self.asked: list[tuple[str, Any]] = []

    @property
    def identity(self) -> tuple[Any, ...] | None:
        return self.reader.identity

    @property
    def ranges(self) -> list[ByteRange]:
        """Every ``(offset, length)`` of every call. Tails are not included."""
        return [pair for kind, pairs in self.asked if kind == "ranges" for pair in pairs]

    def size(self) -> int:
        """Calls ``RangeReader.size`` of the other reader.

        Returns
        -------
        int
        """
        return self.reader.size()

    def read_tail(self, length: int) -> tuple[memoryview, int]:
        """Calls ``RangeReader.read_tail`` of the other reader, and records the call.

        Parameters
        ----------
        length : int
            The maximum number of bytes to read.

        Returns
        -------
        (memoryview, int)
            The last ``min(length, size)`` bytes, and the size of the object.
        """
        self.asked.append(("tail", length))
        return self.reader.read_tail(length)

    def read_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        """Calls ``RangeReader.read_ranges`` of the other reader, and records the call.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes.
        most : int, optional
            The maximum number of requests that may be sent.

        Returns
        -------
        list of memoryview
            One buffer for each range, in order.
        """
        self.asked.append(("ranges", tuple(ranges)))
        return self.reader.read_ranges(ranges, most=most)

    async def aread_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> list[memoryview]:
        """Calls ``RangeReader.aread_ranges`` of the other reader, and records the call.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes.
        most : int, optional
            The maximum number of requests that may be sent.

        Returns
        -------
        list of memoryview
            One buffer for each range, in order.
        """
        self.asked.append(("ranges", tuple(ranges)))
        return await self.reader.aread_ranges(ranges, most=most)

    def start_ranges(self, ranges: Sequence[ByteRange], *, most: int | None = None) -> Task[list[memoryview]]:
        """Calls ``start_read`` with the other reader, and records the call.

        Parameters
        ----------
        ranges : sequence of (int, int)
            Offsets and lengths in bytes.
        most : int, optional
            The maximum number of requests that may be sent.

        Returns
        -------
        Task
            A future of the list of ``memoryview``.
        """
        self.asked.append(("ranges", tuple(ranges)))
        return start_read(self.reader, ranges, most=most)

    def fingerprint(self) -> Fingerprint:
        """Calls ``RangeReader.fingerprint`` of the other reader.

        Returns
        -------
        Fingerprint
        """
        return self.reader.fingerprint()

    def close(self) -> None:
        self.reader.close()
