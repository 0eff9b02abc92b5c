"""Parses the tail of a small file that is similar to a file opened before. Creates as few objects as possible.

The files of a directory are usually similar. The first file is opened with all checks and objects, and its ``Likeness``
is stored. Each further file is read by one call, and only the parts that may differ are examined. ``SmallTails``
returns None for every error, and for a file with any unusual part. ``OrcReader`` then opens the file and raises the
error, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.compression import BLOCK_SIZE_LIMIT, open_codec, read_framed
from orcidx.orc.footer_records import StripeInformation
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
from orcidx.orc.stripe_footer import StripeFooter, check_not_zeros, checked_footer
from orcidx.orc.tail_reads import TailPattern
from orcidx.orc.types import OrcType
from orcidx.storage.local import SMALL_FILE_BYTES

__all__ = ["FileKind", "FoundFile", "Like", "Likeness", "ReadTail", "SmallFile", "SmallTails", "likeness_of"]


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


ReadTail = tuple[Like, list[int], bytes, bytes | None]
"""A tail that ``TailReads`` has read: what is known of similar files, the numbers of the stripe, the Footer, and the
StripeFooter or None."""


FoundFile = tuple[memoryview, int, int, ReadTail | None]
"""A file that ``TailReads`` has read: its last bytes, its size, its modification time in nanoseconds, and its tail."""


@dataclass(slots=True)
class SmallFile:
    """``data``: the end of the file. ``size``: the size of the whole file in bytes. ``footer_bytes``: the Footer
    message. ``stripe_footer_bytes``: the StripeFooter message of the only stripe, if it was already decompressed."""

    data: bytes | memoryview
    size: int
    type_bytes: bytes
    rows: int
    stripes: tuple[StripeInformation, ...]
    footer_bytes: bytes = field(repr=False)
    kind: FileKind
    user_metadata: Mapping[str, bytes]
    stripe_footer_bytes: bytes | None = field(default=None, repr=False)

    @property
    def facts(self) -> FileFacts:
        return self.kind.facts

    def stripe_footer(self, stripe: StripeInformation, limits: MetadataLimits) -> StripeFooter:
        """The footer of a stripe, for a file whose bytes are all in memory. Raises the same errors as
        ``parse_stripe_footer``."""
        raw = self.stripe_footer_bytes
        if raw is not None:
            return checked_footer(raw, stripe, self.kind.columns, limits)
        start, facts = stripe.footer_offset, self.kind.facts
        framed = memoryview(self.data)[start : start + stripe.footer_length]
        check_not_zeros(framed)
        most = limits.bytes_of(len(framed))
        codec = open_codec(facts.compression)
        raw = read_framed(framed, codec, facts.block_size, name="StripeFooter", max_size=most)
        return checked_footer(raw, stripe, self.kind.columns, limits)


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
        data, size, _, tail = found
        if tail is not None:
            like, numbers, footer_bytes, stripe_footer = tail
            stripe = StripeInformation(*numbers)
            kind, metadata = like.kind, like.user_metadata
            rows = stripe.rows
            return SmallFile(data, size, like.type_bytes, rows, (stripe,), footer_bytes, kind, metadata, stripe_footer)
        length = data[-1]
        if not 3 <= length < len(data) or data[-4:-1] != MAGIC or self._limits.for_file(size) is not self._limits:
            return None
        try:
            return self._split(data, size, len(data) - 1 - length)
        except (CorruptFile, Unsupported):
            return None

    def _split(self, data: memoryview, size: int, footer_end: int) -> SmallFile | None:
        limits = self._limits
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
        if not encrypted and (codec is None or codec.native is not None):
            self.pattern = TailPattern(
                Like(parts.type_bytes, kind, metadata),
                postscript=bytes(postscript),
                footer=raw,
                codec=None if codec is None else codec.native,
                block_size=block_size,
                most_fields=limits.metadata_items,
                most_bytes=limits.metadata_bytes,
                most_size=SMALL_FILE_BYTES if limits.for_file(SMALL_FILE_BYTES) is limits else size,
            )
        return SmallFile(data, size, parts.type_bytes, rows, stripes, raw, kind, metadata)
