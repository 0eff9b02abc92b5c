"""Files that are read whole or in one request: snapshots, schemas, manifests, index files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from orcidx.errors import CorruptFile
from orcidx.storage import RangeReader, Source
from orcidx.storage.local_file import read_small

__all__ = ["read_part", "read_whole"]

_LARGEST_FILE = 1 << 31
"""Bytes of the largest file that is read whole."""
_FIRST_REQUEST = 1 << 20
"""Bytes of the first request; only a larger file needs a second."""


def read_whole(source: Source) -> memoryview:
    """All bytes, read by one request up to 1 MiB; raises ``CorruptFile`` above 2 GiB, which none of these files
    reaches."""
    if source.kind == "path":
        if (small := read_small(source.location, _FIRST_REQUEST, _FIRST_REQUEST)) is not None:
            return memoryview(small[0])
        try:  # most often this looks for the next snapshot: a missing file is not opened
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
            raise CorruptFile(f"{size} bytes are too many for such a file", file=source.name)
        return reader.read_ranges([(0, size)])[0]


def read_part(source: Source, offset: int, length: int) -> memoryview:
    """The bytes from ``offset``: ``length`` of them, or fewer where the file ends."""
    with _opened(source) as reader:
        length = min(length, reader.size() - offset)
        return reader.read_ranges([(offset, length)])[0] if length > 0 else memoryview(b"")


@contextmanager
def _opened(source: Source) -> Iterator[RangeReader]:
    reader = source.open()
    try:
        yield reader
    finally:
        if source.kind != "reader":  # the caller's own stays open
            reader.close()
