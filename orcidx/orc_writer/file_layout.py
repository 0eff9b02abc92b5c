"""Writes the parts of a file: header, stripes, Metadata, Footer, PostScript.

    "ORC" · stripes · Metadata · Footer · PostScript · its length (1 byte)

``FileLayout`` handles stripes, but no rows and no columns. The same code appends newly encoded stripes and stripes from
other files. The streams of a stripe from another file are copied or recompressed. The caller must ensure that the
codec, types and calendar of such a stripe are those of this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from typing import TYPE_CHECKING

from orcidx.errors import Unsupported
from orcidx.orc.footer_records import ColumnEncoding, StripeInformation, TypeRecord
from orcidx.orc.foreign import MAGIC
from orcidx.orc.kinds import StreamKind, TypeKind, WriterKind
from orcidx.orc.metadata import OWN_SOFTWARE
from orcidx.orc.metadata_checks import check_types
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc_writer.framing import Framing
from orcidx.orc_writer.messages import blob, packed, text, uint, varint

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from orcidx.storage.stores import Sink

__all__ = ["INDEX_KINDS", "FileLayout", "FileTypes", "Identity", "StreamData", "StripeData", "own_identity"]

INDEX_KINDS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})
_ENCODED_LENGTH = {TypeKind.CHAR, TypeKind.VARCHAR}


@dataclass(frozen=True)
class Identity:
    """The writer that computed the file's statistics. ``calendar``: 1 means hybrid, 2 means proleptic, and 0 means that
    no calendar is given. ``format_version``: the version of the ORC format. If it is empty, 0.11 is written."""

    writer: int = int(WriterKind.CPP)
    writer_version: int = 6
    software_version: str = ""
    calendar: int = 2
    format_version: tuple[int, ...] = (0, 12)


@cache
def own_identity() -> Identity:
    """The identity for files in which orcidx made all statistics, indexes and values. The format has no number for
    orcidx yet. Therefore the files have the number of ORC C++, and orcidx's own name in the software version. Because
    of this number, current readers use the bloom filters and timestamps of the files, and merge them with files of ORC
    C++. Readers would not do so if the number were unknown to them."""
    try:
        version = metadata.version("orcidx")
    except metadata.PackageNotFoundError:
        version = "0"
    return Identity(software_version=f"{OWN_SOFTWARE}{version}")


WRITTEN_TOGETHER = 1 << 16
"""Streams of a stripe are joined up to this many bytes and written by one call. A call takes as long as copying this
many bytes."""


@dataclass(frozen=True)
class StreamData:
    """One stream in its stored form, which is cut into chunks and compressed."""

    column: int
    kind: int
    data: Buffer

    @property
    def length(self) -> int:
        return len(memoryview(self.data))

    @property
    def is_index(self) -> bool:
        return self.kind in INDEX_KINDS


@dataclass(frozen=True, kw_only=True)
class StripeData:
    """A stripe that will be appended. ``encodings`` and ``statistics`` (ColumnStatistics messages) are by column id."""

    rows: int
    streams: Sequence[StreamData]
    encodings: Sequence[ColumnEncoding]
    statistics: Sequence[bytes]
    writer_timezone: str | None = None


@dataclass(frozen=True)
class FileTypes:
    """The types of all columns, by column id."""

    records: Sequence[TypeRecord]

    @cached_property
    def message(self) -> bytes:
        """The types as fields of a Footer."""
        return b"".join([blob(4, type_message(record)) for record in self.records])


@dataclass
class FileLayout:
    """Writes a file from start to end into ``sink``, and records offsets."""

    sink: Sink
    types: FileTypes
    framing: Framing
    row_index_stride: int
    identity: Identity = field(default_factory=own_identity)
    stripes: list[StripeInformation] = field(default_factory=list)
    offset: int = 0
    """Bytes written so far."""
    _statistics: list[Sequence[bytes]] = field(default_factory=list)

    def _write(self, data: Buffer) -> None:
        if self.offset == 0:
            if len(memoryview(data)) <= WRITTEN_TOGETHER:
                data = MAGIC + bytes(data)
            else:
                self.sink.write(MAGIC)
                self.offset = len(MAGIC)
        length = len(memoryview(data))
        if length:
            self.sink.write(data)
            self.offset += length

    def append(self, stripe: StripeData) -> StripeInformation:
        """Writes a stripe. The streams are written in the given order, but streams of the index come before streams of
        data."""
        index: list[tuple[int, int, int, Buffer]] = []
        data: list[tuple[int, int, int, Buffer]] = []
        for part in stripe.streams:
            places = index if part.kind in INDEX_KINDS else data
            places.append((part.kind, part.column, len(memoryview(part.data)), part.data))
        ordered = [*index, *data]
        footer = stripe_footer([place[:3] for place in ordered], stripe.encodings, stripe.writer_timezone)
        framed = self.framing.frame(footer)
        lengths = sum([place[2] for place in index]), sum([place[2] for place in data]), len(framed)
        parts = [*[place[3] for place in ordered], framed]
        return self.append_raw(parts, lengths, rows=stripe.rows, statistics=stripe.statistics)

    def append_raw(
        self, parts: Iterable[Buffer], lengths: tuple[int, int, int], *, rows: int, statistics: Sequence[bytes]
    ) -> StripeInformation:
        """Writes the unchanged bytes of a stripe. ``lengths``: the lengths of its index, its data and its footer."""
        start = self.offset or len(MAGIC)
        for part in [b"".join(parts)] if sum(lengths) <= WRITTEN_TOGETHER else parts:
            self._write(part)
        if self.offset - start != sum(lengths):
            raise ValueError(
                f"the written stripe has {self.offset - start} bytes, but its index, data and footer must have "
                f"{lengths[0]} + {lengths[1]} + {lengths[2]} bytes"
            )
        information = StripeInformation(start, *lengths, rows)
        self.stripes.append(information)
        self._statistics.append(statistics)
        return information

    def finish(self, file_statistics: Sequence[bytes], user_metadata: Mapping[str, bytes]) -> None:
        """Writes the tail. ``file_statistics``: ColumnStatistics messages by column id.

        Raises ``Unsupported`` for a file that ``orcidx.open`` cannot open with its default options."""
        self._write(b"")
        summaries = b"".join([blob(1, b"".join([blob(1, one) for one in stripe])) for stripe in self._statistics])
        content = self.offset
        described = self.framing.frame(summaries)
        plain_footer = self._footer(content, file_statistics, user_metadata)
        footer = self.framing.frame(plain_footer)
        postscript = b"".join(
            (
                uint(1, len(footer)),
                uint(2, self.framing.kind),
                uint(3, self.framing.block_size),
                packed(4, self.identity.format_version or (0, 11)),
                uint(5, len(described)),
                uint(6, self.identity.writer_version),
                varint(8000 << 3 | 2) + varint(len(MAGIC)) + MAGIC,
            )
        )
        tail = described, footer, postscript + bytes([len(postscript)])
        self._check_limits(
            content + sum(map(len, tail)), ((len(footer), len(plain_footer)), (len(described), len(summaries)))
        )
        self._write(b"".join(tail))

    def _check_limits(self, size: int, messages: Iterable[tuple[int, int]]) -> None:
        """Raises an error for files that the reader does not open by default. ``messages``: the lengths of messages as
        stored, and before compression."""
        limits = MetadataLimits().for_file(size)
        try:
            limits.check_columns(len(self.types.records) - 1)
            limits.check_stripes(len(self.stripes))
            check_types(self.types.records, limits)
            for stored, length in messages:
                limits.check_bytes(stored, length)
        except Unsupported as error:
            raise Unsupported(
                f"{error.message}. With default options the file could not be read: write more rows to each file (a "
                "larger file may have more metadata), larger stripes, or fewer columns with shorter names"
            ) from error

    def _footer(self, content: int, statistics: Sequence[bytes], user_metadata: Mapping[str, bytes]) -> bytes:
        parts = [uint(1, len(MAGIC)), uint(2, content)]
        parts += [
            blob(3, b"".join([uint(number, value) for number, value in enumerate(_numbers(stripe), 1)]))
            for stripe in self.stripes
        ]
        parts.append(self.types.message)
        parts += [blob(5, text(1, key) + blob(2, value)) for key, value in user_metadata.items()]
        parts.append(uint(6, sum([stripe.rows for stripe in self.stripes])))
        parts += [blob(7, message) for message in statistics]
        parts += [uint(8, self.row_index_stride), uint(9, self.identity.writer)]
        if self.identity.calendar:
            parts.append(uint(11, self.identity.calendar))
        if self.identity.software_version:
            parts.append(text(12, self.identity.software_version))
        return b"".join(parts)


def _numbers(stripe: StripeInformation) -> tuple[int, ...]:
    return stripe.offset, stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows


def stripe_footer(
    streams: Sequence[tuple[int, int, int]], encodings: Sequence[ColumnEncoding], timezone: str | None
) -> bytes:
    """A StripeFooter. ``streams``: a tuple (kind, column id, length) for each stream. ``encodings``: the encodings of
    all columns. The root column is included, because C++ requires it."""
    parts = [blob(1, uint(1, kind) + uint(2, column) + uint(3, length)) for kind, column, length in streams]
    for encoding in encodings:
        message = uint(1, encoding.kind)
        message += uint(2, encoding.dictionary_size) if encoding.dictionary_size else b""
        message += uint(3, encoding.bloom_encoding) if encoding.bloom_encoding else b""
        parts.append(blob(2, message))
    if timezone is not None:
        parts.append(text(3, timezone))
    return b"".join(parts)


def type_message(record: TypeRecord) -> bytes:
    """A Type of the footer. As in Java's files, lengths and digits are written only for types that have them."""
    parts = [uint(1, record.kind)]
    if record.subtypes:
        parts.append(packed(2, record.subtypes))
        parts += [text(3, name) for name in record.field_names]
    if record.kind in _ENCODED_LENGTH:
        parts.append(uint(4, record.max_length))
    if record.kind is TypeKind.DECIMAL:
        parts += [uint(5, record.precision), uint(6, record.scale)]
    if record.attributes:
        parts += [blob(7, text(1, key) + text(2, value)) for key, value in record.attributes]
    if record.crs is not None:
        parts.append(text(8, record.crs))
    if record.edge_algorithm is not None:
        parts.append(uint(9, record.edge_algorithm))
    return b"".join(parts)
