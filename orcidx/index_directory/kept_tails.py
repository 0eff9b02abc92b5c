"""Stores the last bytes of a directory's files (their footers) in a few objects beside the catalog.

    _orcidx/tails/<digest>.tails    the last bytes of some files as they are stored, one after the other

Each row of the catalog is about one file. It says where the tail of this file is stored, and has the CRC-32 of the
tail. A tail has all parts that are needed to open a file: the footer, the statistics of the stripes, and the footer of
the last stripe. A stored tail is used only if the file still has the version that is in the catalog. If a stored tail
cannot be read, the file's own tail is read. No tail is stored for a local file, for a file that one request reads
completely, and for a tail longer than ``LONGEST_TAIL_BYTES``.

The name of an object is a digest of the object's content, so a job that runs again writes the same object. ``clean``
deletes objects that no catalog names.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc.metadata import TAIL_REQUEST_BYTES, FileTail
from orcidx.storage import RangeReader, Source
from orcidx.storage.folder import Folder
from orcidx.storage.kept_tails import KeptTail, share

__all__ = ["LONGEST_TAIL_BYTES", "TAILS", "TAIL_FIELDS", "TailPlaces", "keep_tails", "tail_bytes"]

TAILS = "tails"
LONGEST_TAIL_BYTES = 32 << 10
"""The maximum number of bytes of a stored tail. It is half of the bytes that one request for a tail reads (decision
0070)."""
TAIL_FIELDS = pa.schema(
    [("tails", pa.string()), ("tail_at", pa.int64()), ("tail_length", pa.int64()), ("tail_crc", pa.int64())]
)
"""Fields of a catalog's row about the tail: the object's name in ``_orcidx/``, and the position of the tail in the
object."""


def tail_bytes(source: Source, reader: RangeReader, tail: FileTail) -> bytes | None:
    """The tail to store for an open file. The result is None if the file's tail is not stored."""
    if source.kind == "path" or tail.size <= TAIL_REQUEST_BYTES or not tail.footer.stripes:
        return None
    said = tail.postscript
    length = said.size + said.footer_length + said.metadata_length
    last = tail.footer.stripes[-1].footer_offset
    if tail.size - last <= LONGEST_TAIL_BYTES:
        length = max(length, tail.size - last)
    if length > LONGEST_TAIL_BYTES:
        return None
    return bytes(reader.read_ranges([(tail.size - length, length)])[0])


def keep_tails(folder: Folder, rows: Sequence[MutableMapping[str, Any]]) -> None:
    """Writes the tails of some files. Each row has the tail of its file in ``tail_bytes``, and gets the place where the
    tail is stored."""
    kept = [row for row in rows if row.get("tail_bytes")]
    if not kept:
        return
    data = b"".join(row["tail_bytes"] for row in kept)
    name = f"{TAILS}/{hashlib.sha256(data).hexdigest()[:32]}.tails"
    folder.put(name, data)
    at = 0
    for row in kept:
        one = row["tail_bytes"]
        row.update({"tails": name, "tail_at": at, "tail_length": len(one), "tail_crc": zlib.crc32(one)})
        at += len(one)


@dataclass(frozen=True)
class TailPlaces:
    """The places where the tails of the files of a plan are stored. ``entry`` has the number of each file's row in the
    result of ``read`` (columns of ``TAIL_FIELDS``). ``fresh`` says whether that row describes the listed version of the
    file."""

    folder: Folder
    entry: npt.NDArray[np.int64]
    fresh: npt.NDArray[np.bool_]
    read: Callable[[], pa.Table]

    @cached_property
    def _rows(self) -> pa.Table:
        # For a catalog in several parts, ``read`` also returns the paths, which are not needed.
        return self.read().select(TAIL_FIELDS.names)

    def of(self, files: npt.NDArray[np.int64]) -> list[KeptTail | None]:
        """The stored tails of these files, in the order in which the files will be opened. The item of a file without a
        stored tail is None."""
        known = files[self.fresh[files]]
        rows = self._rows.take(pa.array(self.entry[known]))
        found: dict[int, KeptTail] = {}
        sources: dict[str, Source] = {}
        for file, (name, at, length, crc) in zip(known.tolist(), zip(*(column.to_pylist() for column in rows.columns))):
            if None in (name, at, length, crc) or not (at >= 0 and 0 < length <= LONGEST_TAIL_BYTES):
                continue
            if name not in sources:
                sources[name] = self.folder.source(name)
            found[file] = KeptTail(sources[name], at, length, crc)
        return share([found.get(file) for file in files.tolist()])
