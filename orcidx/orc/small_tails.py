"""``SmallTails``: parses the tail of a small file that is similar to a file opened before. Creates as few objects as
possible.

The files of a directory are usually similar. The first file is opened with all checks and objects, and its ``Likeness``
is stored. Each further file is read by one call, and only the parts that may differ are examined. ``SmallTails``
returns None for every error, and for a file with any unusual part. ``OrcReader`` then opens the file and raises the
error, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.compression import BLOCK_SIZE_LIMIT, open_codec, read_framed
from orcidx.orc.footers import split_footer, split_postscript
from orcidx.orc.foreign import MAGIC
from orcidx.orc.metadata import (
    DEFAULT_BLOCK_SIZE,
    SPARK_VERSION,
    FileFacts,
    FileTail,
    listed_stripes,
    software_name,
    user_metadata,
)
from orcidx.orc.metadata_checks import check_extents
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_file import FoundFile, SmallFile
from orcidx.orc.tail_reads import TailPattern
from orcidx.orc.types import OrcType
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["FileKind", "Like", "Likeness", "SmallTails", "likeness_of"]


class Likeness(NamedTuple):
    """Everything that determines how a file is read, except its stripes and statistics. The values come from the
    PostScript and the Footer."""

    type_bytes: bytes
    compression: int
    block_size: int
    version: tuple[int, ...]
    writer_version: int
    stride: int
    writer: int
    calendar: int
    software: str
    by_spark: bool


class FileKind(NamedTuple):
    """The parts that are equal in all files of one ``Likeness``."""

    facts: FileFacts
    root: OrcType
    columns: int
    """The number of column ids."""


def likeness_of(tail: FileTail) -> Likeness | None:
    """The ``Likeness`` of a file that was read and checked. None if a part is encrypted."""
    footer, postscript = tail.footer, tail.postscript
    if footer.encryption is not None:
        return None
    return Likeness(
        footer.type_bytes,
        int(postscript.compression),
        postscript.block_size,
        postscript.version,
        postscript.writer_version,
        footer.row_index_stride,
        int(footer.writer),
        footer.calendar,
        footer.software_version,
        SPARK_VERSION in footer.user_metadata,
    )


class Like(NamedTuple):
    """The parts that are equal in all files of one ``TailPattern``."""

    type_bytes: bytes
    kind: FileKind
    user_metadata: Mapping[str, bytes]


class SmallTails:
    """Splits the tails of small files into their parts. ``pattern``: what the tails of files like the last one share.
    ``kind_of``: the kind of files with a ``Likeness``, or None if no such file was opened before."""

    def __init__(self, limits: MetadataLimits, kind_of: Callable[[Likeness], FileKind | None]) -> None:
        self.pattern: TailPattern | None = None
        self._limits = limits
        self._kind_of = kind_of

    def split(self, found: FoundFile) -> SmallFile | None:
        """Returns the parts of a file. Returns None for every error, for a file with any unusual part, and if no file
        of its ``Likeness`` was opened before."""
        if isinstance(found, SmallFile):
            return found
        data, size = found.data, found.size
        length = data[-1]
        if not 3 <= length < len(data) or data[-4:-1] != MAGIC or self._limits.for_file(size) is not self._limits:
            return None
        try:
            return self._split(found, data, len(data) - 1 - length)
        except (CorruptFile, Unsupported):
            return None

    def _split(self, found: FoundFile, data: memoryview, footer_end: int) -> SmallFile | None:
        limits, size = self._limits, found.size
        postscript = data[footer_end:-1]
        footer_length, compression, block_size, version, metadata_length, writer_version, encrypted = split_postscript(
            postscript, DEFAULT_BLOCK_SIZE
        )
        wanted = metadata_length + footer_length + len(data) - footer_end
        if footer_length > footer_end or wanted + encrypted > size:
            return None
        codec = open_codec(compression)
        if codec is not None and not 0 < block_size <= BLOCK_SIZE_LIMIT:
            return None
        framed = data[footer_end - footer_length : footer_end]
        raw = read_framed(framed, codec, block_size, name="Footer", max_size=limits.bytes_of(footer_length))
        parts = split_footer(raw, limits.metadata_items)
        if parts.encryption is not None or len(parts.type_bytes) > limits.metadata_items:
            return None
        stripes, rows = listed_stripes(parts, limits)
        check_extents(stripes, size - wanted - encrypted)
        metadata = user_metadata(parts.items) if parts.items else {}
        likeness = Likeness(
            parts.type_bytes,
            compression,
            block_size,
            version,
            writer_version,
            parts.stride,
            parts.writer,
            parts.calendar,
            software_name(parts.software),
            SPARK_VERSION in metadata,
        )
        kind = self._kind_of(likeness)
        if kind is None:
            return None
        like = Like(parts.type_bytes, kind, metadata)
        if not encrypted and (codec is None or codec.native is not None):
            self.pattern = TailPattern(
                like,
                columns=kind.columns,
                postscript=bytes(postscript),
                footer=raw,
                codec=None if codec is None else codec.native,
                block_size=block_size,
                most_fields=limits.metadata_items,
                most_bytes=limits.metadata_bytes,
                most_size=SMALL_FILE_BYTES if limits.for_file(SMALL_FILE_BYTES) is limits else size,
            )
        return SmallFile(found, like, rows, stripes, raw)
