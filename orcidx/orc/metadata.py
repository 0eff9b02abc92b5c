"""Reads the tail of an ORC file. The tail describes the rest of the file.

    "ORC" | stripe* | [encrypted stripe statistics] | Metadata | Footer | PostScript | 1 byte: length of PostScript

PostScript is never compressed. Footer, Metadata and every StripeFooter are compressed in chunks with the file's codec.
The contents of the file are not trusted. Lengths are checked against the file's size. Their sums cannot overflow,
because they are Python integers. The tree of types is checked against the numbering that the format requires.
Statistics are kept as raw bytes until they are used.

A file of zero bytes opens as an empty file with the schema ``struct<>``. Java's writer leaves such files for tasks
without rows, and Hive reads them in the same way.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from orcidx.errors import CorruptFile, Unsupported, located
from orcidx.orc.compression import check_block_size, open_codec, read_framed
from orcidx.orc.footer_records import StripeInformation, TypeRecord
from orcidx.orc.footers import FooterParts, count_types, read_types, split_footer, split_postscript
from orcidx.orc.foreign import HEAD_BYTES, MAGIC, describe_foreign, describe_head
from orcidx.orc.kinds import CompressionKind, TypeKind, WriterKind
from orcidx.orc.metadata_checks import check_extents, check_types
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.wire import Message, split_messages, split_nested_messages

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from orcidx.options import ValueOptions
    from orcidx.orc.wire import Int64s

__all__ = [
    "OWN_SOFTWARE",
    "CompressionKind",
    "Encryption",
    "FileFacts",
    "FileTail",
    "Footer",
    "PostScript",
    "TailReader",
    "TypeKind",
    "WriterKind",
    "is_own",
    "read_tail",
]

TAIL_REQUEST_BYTES = 64 << 10
"""Bytes of the first request. Reading them takes less time than a round trip. The rest of a larger footer takes a
second request (decision 0017)."""
DEFAULT_BLOCK_SIZE = 256 << 10
MOST_ROWS = (1 << 63) - 1


# In proto2 libraries an unknown enum value becomes 0. With these dicts, orcidx can tell an unknown value from 0.
_COMPRESSION_KINDS = {int(kind): kind for kind in CompressionKind}
_TYPE_KINDS = {int(kind): kind for kind in TypeKind}
_WRITER_KINDS = {int(kind): kind for kind in WriterKind}


@dataclass(frozen=True, kw_only=True)
class PostScript:
    """Lengths are in bytes. ``version``: the version in the file. It is () if the PostScript has no version. Such a
    file has version 0.11. ``block_size``: the largest size of a decompressed chunk. ``size``: the size of the
    PostScript, including the last byte of the file, which contains the PostScript's length."""

    footer_length: int
    compression: CompressionKind
    block_size: int
    version: tuple[int, ...]
    metadata_length: int
    writer_version: int
    stripe_statistics_length: int
    size: int = 0


@dataclass(frozen=True)
class Encryption:
    """The encrypted columns. Without keys, the masked values in the ordinary streams are read."""

    roots: tuple[int, ...]
    """Column ids whose subtrees are encrypted."""
    key_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Footer:
    """``rows``: the sum of the rows of all stripes. The number of rows in the footer is not used, because some writers
    do not write it. ``writer``: a ``WriterKind``, or a plain int for later writers."""

    rows: int
    stripes: tuple[StripeInformation, ...]
    type_bytes: bytes = field(repr=False)
    """The stored bytes of the types. They are equal in files of one schema."""
    user_metadata: Mapping[str, bytes] = field(hash=False)
    raw: bytes = field(repr=False)
    """The whole message."""
    most_items: int = field(repr=False)
    """The most children, names and attributes of types that the limits on metadata allow."""
    row_index_stride: int
    writer: int
    calendar: int
    software_version: str
    encryption: Encryption | None

    @cached_property
    def types(self) -> tuple[TypeRecord, ...]:
        """All columns, by column id."""
        return tuple(read_types(self.type_bytes, self.most_items, _type_record))

    @cached_property
    def statistics_extents(self) -> tuple[Int64s, Int64s]:
        """The starts and stops of the ColumnStatistics messages in ``raw``. There is one message for each column, but
        the last columns may have none."""
        return split_messages(self.raw, 7, "Footer", self.most_items)

    def raw_statistics(self, column: int) -> bytes:
        """The ColumnStatistics of a column for the whole file. b"" if there are none."""
        starts, stops = self.statistics_extents
        return self.raw[starts[column] : stops[column]] if column < len(starts) else b""


SPARK_VERSION = "org.apache.spark.version"
"""The key of user metadata in every file that Spark has written."""


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """The properties of a file that are needed to decode it and to decide whether its statistics can be trusted. They
    do not include the stripes."""

    writer: int
    writer_version: int
    software_version: str
    compression: CompressionKind
    block_size: int
    row_index_stride: int
    hybrid_calendar: bool
    """Whether days before 1582-10-15 are dates of the Julian calendar."""
    decimal64: bool
    """Whether the file has version [1, 9999]. Such a file stores decimals of up to 18 digits as one signed RLEv2
    stream."""
    by_spark: bool = False
    """Whether Spark itself wrote the file. Spark rounds decimals to their type before it passes them to ORC."""

    @property
    def compressed(self) -> bool:
        return self.compression is not CompressionKind.NONE

    def moves_days(self, options: ValueOptions) -> bool:
        """Whether days before 1582-10-15 are converted to the proleptic calendar when they are read."""
        return self.hybrid_calendar and options.calendar == "proleptic"


class TailReader(Protocol):
    """The parts of a range reader that ``read_tail`` needs."""

    name: str

    def read_tail(self, length: int) -> tuple[Buffer, int]: ...

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]: ...


@dataclass(frozen=True, kw_only=True)
class FileTail:
    """Everything at the end of a file. ``size``: the size of the file in bytes. ``footer_size``: the size of the
    decompressed Footer in bytes."""

    name: str
    size: int
    postscript: PostScript
    footer: Footer
    framed_metadata: bytes = field(repr=False)
    limits: MetadataLimits = field(default=MetadataLimits(), repr=False)
    footer_size: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of the file."""
        return self.footer.rows

    @cached_property
    def decoded_statistics(self) -> dict[tuple[str, int], Any]:
        """Decoded statistics of the file and of all stripes, by level and column id. See ``statistics``."""
        return {}

    @property
    def footer_bytes(self) -> bytes:
        """The Footer message."""
        return self.footer.raw

    @property
    def format_version(self) -> str:
        """The format version, such as "0.12". A version that this library does not know is read as the newest version
        that it knows."""
        return ".".join(map(str, self.postscript.version)) or "0.11"

    @cached_property
    def columns(self) -> int:
        """The number of column ids."""
        return count_types(self.footer.type_bytes)

    @cached_property
    def facts(self) -> FileFacts:
        footer, postscript = self.footer, self.postscript
        return FileFacts(
            writer=footer.writer,
            writer_version=postscript.writer_version,
            software_version=footer.software_version,
            compression=postscript.compression,
            block_size=postscript.block_size,
            row_index_stride=footer.row_index_stride,
            hybrid_calendar=_is_hybrid(footer),
            decimal64=postscript.version == (1, 9999),
            by_spark=SPARK_VERSION in footer.user_metadata,
        )

    @cached_property
    def checksum(self) -> int:
        """CRC-32 of the size, the stripes, the rows and all statistics. Different data very rarely has the same
        checksum."""
        numbers = array("q", (self.size, self.footer.rows))
        for one in self.footer.stripes:
            numbers.extend((one.offset, one.index_length, one.data_length, one.footer_length, one.rows))
        checksum = zlib.crc32(numbers.tobytes(), zlib.crc32(self.framed_metadata))
        for start, stop in zip(*(ends.tolist() for ends in self.footer.statistics_extents)):
            checksum = zlib.crc32(self.footer.raw[start:stop], checksum)
        return checksum

    @cached_property
    def raw_metadata(self) -> bytes:
        """The Metadata message (statistics of every stripe). It is decompressed when it is first used. b"" if there is
        none."""
        return unframe(self.framed_metadata, self.postscript, name="Metadata", limits=self.limits)

    @cached_property
    def stripe_statistics(self) -> tuple[Int64s, Int64s, Int64s]:
        """The positions of the ColumnStatistics in ``raw_metadata``, as the arrays bounds, starts and stops. The
        messages of stripe i have the indexes from bounds[i] up to, but not including, bounds[i + 1]. They are in the
        order of the column ids. There may be messages for fewer stripes or columns than the file has."""
        with located(file=self.name):
            return split_nested_messages(self.raw_metadata, 1, 1, "Metadata", self.limits.metadata_items)


def _is_hybrid(footer: Footer) -> bool:
    """Whether days before 1582-10-15 are Julian. The footer's ``calendar`` field is 1 for the hybrid and 2 for the
    proleptic calendar. If it is absent, a file of ORC Java has the hybrid calendar. If another writer did not write the
    field, its file has proleptic days."""
    if footer.calendar in (1, 2):
        return footer.calendar == 1
    return footer.writer == WriterKind.JAVA


OWN_SOFTWARE = "orcidx "


def is_own(software_version: str) -> bool:
    """Whether orcidx wrote a file. The format has no writer number for orcidx, so orcidx uses the number of ORC C++
    (decision 0041). Some versions of ORC C++ write statistics that are not trusted, because these versions have
    defects. orcidx has none of these defects."""
    return software_version.startswith(OWN_SOFTWARE)


def unframe(
    buffer: Buffer, postscript: PostScript, *, name: str, limits: MetadataLimits | None = None, most: int | None = None
) -> bytes:
    """The bytes of a footer or an index stream, decompressed and without chunk headers.

    ``most``: the largest size of the result in bytes. If it is None, it is computed from the number of stored bytes by
    ``limits``, or by ``MetadataLimits()`` if ``limits`` is None. Raises ``Unsupported`` if the result is larger.
    """
    if postscript.compression is CompressionKind.NONE or not len(memoryview(buffer)):
        return bytes(buffer)
    codec = open_codec(postscript.compression)
    stored = memoryview(buffer)
    most = (limits or MetadataLimits()).bytes_of(len(stored)) if most is None else most
    return read_framed(stored, codec, postscript.block_size, name=name, max_size=most)


def read_tail(
    reader: TailReader,
    *,
    limits: MetadataLimits | None = None,
    is_sound: Callable[[Footer], bool] | None = None,
) -> FileTail:
    """Reads and checks the tail. Makes one request of ``TAIL_REQUEST_BYTES`` bytes, and a second request if the footers
    are larger.

    ``is_sound``: a function that returns True if the types in a footer were already checked, for example in another
    file. They are then not checked again.

    Raises ``CorruptFile`` for bytes that violate the format. Raises ``Unsupported`` for codecs and types of later
    versions, and for more metadata than ``limits`` allow (``MetadataLimits()`` if ``limits`` is None).
    """
    with located(file=reader.name):
        last, size = reader.read_tail(TAIL_REQUEST_BYTES)
        last = memoryview(last).cast("B")
        if size == 0:
            return _empty_file(reader.name)
        whole = partial(_read_footers, reader, last, size, limits or MetadataLimits(), is_sound)
        if not _has_magic(last, size):
            return _read_unmarked(reader, last, size, whole)
        try:
            return whole()
        except CorruptFile as error:
            if looks := describe_head(_head(reader, last, size)):
                place = {"stripe": error.stripe, "stream": error.stream, "offset": error.offset}
                raise CorruptFile(f"{looks} ({error.message})").at(**place) from error
            raise


def _has_magic(last: memoryview, size: int) -> bool:
    length = last[-1]
    return 3 <= length < size and bytes(last[-4:-1]) == MAGIC


def _head(reader: TailReader, last: memoryview, size: int) -> bytes:
    """The first bytes of a file. ``last``: the last bytes of the file, which were already read."""
    if len(last) == size:
        return bytes(last[:HEAD_BYTES])
    return bytes(reader.read_ranges([(0, min(HEAD_BYTES, size))])[0])


def _read_unmarked(reader: TailReader, last: memoryview, size: int, whole: Callable[[], FileTail]) -> FileTail:
    """Reads a file whose PostScript does not contain "ORC". Either Hive 0.11.0 wrote the file, with "ORC" only at the
    beginning, or the file is not an ORC file."""
    head = _head(reader, last, size)
    if not head.startswith(MAGIC):
        raise CorruptFile(describe_foreign(head, size))
    try:
        return whole()
    except (CorruptFile, Unsupported) as error:
        raise CorruptFile(f"{describe_foreign(head, size)} ({error.message})") from error


def _read_footers(
    reader: TailReader,
    last: memoryview,
    size: int,
    limits: MetadataLimits,
    is_sound: Callable[[Footer], bool] | None,
) -> FileTail:
    postscript = _read_postscript(last, size)
    wanted = postscript.metadata_length + postscript.footer_length + postscript.size
    if wanted > len(last):
        (more,) = reader.read_ranges([(size - wanted, wanted - len(last))])
        last = memoryview(bytes(more) + bytes(last))
    footer_end = len(last) - postscript.size
    footer_start = footer_end - postscript.footer_length
    limits = limits.for_file(size)
    raw = unframe(last[footer_start:footer_end], postscript, name="Footer", limits=limits)
    footer = _read_footer(raw, limits)
    if is_sound is None or not is_sound(footer):
        check_types(footer.types, limits)
    check_extents(footer.stripes, size - wanted - postscript.stripe_statistics_length)
    return FileTail(
        name=reader.name,
        size=size,
        postscript=postscript,
        footer=footer,
        framed_metadata=bytes(last[footer_start - postscript.metadata_length : footer_start]),
        limits=limits,
        footer_size=len(raw),
    )


_EMPTY_STRUCT = bytes((4 << 3 | 2, 2, 1 << 3, TypeKind.STRUCT))
"""The types of a file without columns."""


def _empty_file(name: str) -> FileTail:
    postscript = PostScript(
        footer_length=0,
        compression=CompressionKind.NONE,
        block_size=DEFAULT_BLOCK_SIZE,
        version=(0, 12),
        metadata_length=0,
        writer_version=0,
        stripe_statistics_length=0,
    )
    footer = Footer(
        rows=0,
        stripes=(),
        type_bytes=_EMPTY_STRUCT,
        user_metadata={},
        raw=b"",
        most_items=1,
        row_index_stride=0,
        writer=WriterKind.JAVA,
        calendar=0,
        software_version="",
        encryption=None,
    )
    return FileTail(name=name, size=0, postscript=postscript, footer=footer, framed_metadata=b"")


def _read_postscript(last: memoryview, size: int) -> PostScript:
    length = last[-1]
    if length == 0 or length + 1 > size:
        raise CorruptFile(
            f"according to the last byte of the file the PostScript has {length} bytes, but in a file of {size} bytes "
            f"it must have 1 to {size - 1} bytes"
        )
    raw = last[-1 - length : -1]
    footer_length, kind, block_size, version, metadata_length, writer_version, stripe_statistics_length = (
        split_postscript(raw, DEFAULT_BLOCK_SIZE)
    )
    if kind not in _COMPRESSION_KINDS:
        raise Unsupported(f"compression kind {kind} is unknown; the known kinds are 0 to {max(_COMPRESSION_KINDS)}")
    compression = _COMPRESSION_KINDS[kind]
    if compression is not CompressionKind.NONE:
        check_block_size(block_size)
    postscript = PostScript(
        footer_length=footer_length,
        compression=compression,
        block_size=block_size,
        version=version,
        metadata_length=metadata_length,
        writer_version=writer_version,
        stripe_statistics_length=stripe_statistics_length,
        size=length + 1,
    )
    claimed = footer_length + metadata_length + stripe_statistics_length
    if claimed + postscript.size > size:
        raise CorruptFile(
            f"according to the PostScript the footers have {claimed} bytes, but the file has only "
            f"{size - postscript.size} bytes before the PostScript"
        )
    return postscript


def _read_footer(raw: bytes, limits: MetadataLimits) -> Footer:
    parts = split_footer(raw, limits.metadata_items)
    stripes, rows = listed_stripes(parts, limits)
    return Footer(
        rows=rows,
        stripes=stripes,
        type_bytes=parts.type_bytes,
        user_metadata=user_metadata(parts.items) if parts.items else {},
        raw=raw,
        most_items=limits.metadata_items,
        row_index_stride=parts.stride,
        writer=_WRITER_KINDS.get(parts.writer, parts.writer),
        calendar=parts.calendar,
        software_version=software_name(parts.software),
        encryption=None if parts.encryption is None else _read_encryption(Message(parts.encryption, "Encryption")),
    )


def listed_stripes(parts: FooterParts, limits: MetadataLimits) -> tuple[tuple[StripeInformation, ...], int]:
    """The stripes of a footer, and the sum of their rows. ``limits``: the maximum numbers of stripes and columns."""
    limits.check_columns(parts.types - 1)  # the root is not counted as a column
    limits.check_stripes(len(parts.stripes))
    stripes = tuple([StripeInformation(*one) for one in parts.stripes])
    rows = sum([stripe.rows for stripe in stripes])
    if rows > MOST_ROWS:
        raise CorruptFile(f"the stripes have {rows} rows together, but an ORC file can have at most {MOST_ROWS}")
    return stripes, rows


def user_metadata(items: Sequence[bytes]) -> dict[str, bytes]:
    """The key-value pairs of a footer."""
    found = [Message(item, "UserMetadataItem") for item in items]
    return {item.text(1, "replace"): item.blob(2) for item in found}


def software_name(software: bytes | None) -> str:
    """The name of the software that wrote the file, as text. "" if the file does not have it."""
    return (software or b"").decode("utf-8", "replace")


def _type_record(column: int, fields: tuple[Any, ...]) -> TypeRecord:
    known = _TYPE_KINDS.get(fields[0])
    if known is None:
        raise Unsupported(
            f"type kind {fields[0]} of column id {column} is unknown; the known kinds are 0 to {max(_TYPE_KINDS)}"
        )
    return TypeRecord(known, *fields[1:])


def _read_encryption(message: Message) -> Encryption:
    keys = [Message(item, "EncryptionKey") for item in message.blobs(2)]
    variants = [Message(item, "EncryptionVariant") for item in message.blobs(3)]
    return Encryption(
        roots=tuple(variant.uint(1) for variant in variants), key_names=tuple(key.text(1, "replace") for key in keys)
    )
