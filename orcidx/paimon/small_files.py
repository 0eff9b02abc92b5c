"""Reads small files of a table, such as snapshots, schemas, manifests and index files. One function reads a whole file.
Another function reads a part of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from orcidx.errors import CorruptFile
from orcidx.storage import RangeReader, Source
from orcidx.storage.local_file import read_small

__all__ = ["read_part", "read_whole"]

_LARGEST_FILE = 1 << 31
"""The largest size in bytes of a file that is read whole."""
_FIRST_REQUEST = 1 << 20
"""The size of the first request in bytes. A second request is needed only for a file that has more bytes."""


def read_whole(source: Source) -> memoryview:
    """All bytes of a file. A file of at most 1 MiB is read by one request. Raises ``CorruptFile`` for a file of more
    than 2 GiB, because no valid file of these kinds is so large."""
    if source.kind == "path":
        if (small := read_small(source.location, _FIRST_REQUEST, _FIRST_REQUEST)) is not None:
            return memoryview(small[0])
        try:  # most calls look for a snapshot that does not exist yet; stat finds this without opening a file
            os.stat(source.location)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):
            pass
    with _opened(source) as reader:
        tail, size = reader.read_tail(_FIRST_REQUEST)
        if len(tail) == size:
            return tail
        if size > _LARGEST_FILE:
            raise CorruptFile(
                f"the file has {size} bytes, but a metadata file must have less than 2 GiB", file=source.name
            )
        return reader.read_ranges([(0, size)])[0]


def read_part(source: Source, offset: int, length: int) -> memoryview:
    """``length`` bytes from ``offset``, or fewer bytes if the file is shorter."""
    with _opened(source) as reader:
        length = min(length, reader.size() - offset)
        return reader.read_ranges([(offset, length)])[0] if length > 0 else memoryview(b"")


@contextmanager
def _opened(source: Source) -> Iterator[RangeReader]:
    reader = source.open()
    try:
        yield reader
    finally:
        if source.kind != "reader":  # a reader that the caller passed is not closed
            reader.close()
