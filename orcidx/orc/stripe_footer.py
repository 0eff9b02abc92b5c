"""The footer of a stripe: its streams, the encodings of its columns, and the writer's time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from orcidx.errors import CorruptFile, located
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.foreign import ZEROS
from orcidx.orc.kinds import STREAM_NAMES, EncodingKind
from orcidx.orc.metadata import FileTail, unframe
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.stripe_tables import MOST_STREAMS, EncodingTable, StreamTable, split_stripe_footer
from orcidx.orc.wire import Message

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["StripeFooter", "check_not_zeros", "checked_footer", "parse_stripe_footer", "writer_timezone"]


class StripeFooter(NamedTuple):
    """``streams``: maps (column id, kind) to (offset in the file, length), in file order. ``encodings``: the encodings
    of the columns, by column id."""

    streams: StreamTable
    encodings: EncodingTable
    writer_timezone: str | None


def parse_stripe_footer(buffer: Buffer, tail: FileTail, stripe: int) -> StripeFooter:
    """Parses a stripe footer from its bytes in the file. ``stripe``: the number of the stripe, for error messages.

    Raises ``CorruptFile`` if the footer does not have exactly one encoding for each column of the file, if a stream
    extends past the stripe's data, or if a column has two streams of one kind.
    """
    with located(file=tail.name, stripe=stripe):
        check_not_zeros(buffer)
        raw = unframe(buffer, tail.postscript, name="StripeFooter", limits=tail.limits)
        return checked_footer(raw, tail.footer.stripes[stripe], tail.columns, tail.limits)


def check_not_zeros(stored: Buffer) -> None:
    """Raises an error if the stored bytes of a stripe footer are zeros. Zeros mean that the file has a hole."""
    if not bytes(stored).strip(b"\0"):
        raise CorruptFile(f"all bytes of the stripe's footer are zeros, {ZEROS}")


def checked_footer(raw: bytes, stripe: StripeInformation, columns: int, limits: MetadataLimits) -> StripeFooter:
    """Makes a stripe footer from the decompressed message ``raw``. ``columns``: the number of column ids of the file.
    Raises the errors of ``parse_stripe_footer``."""
    streams, encodings, others = split_stripe_footer(raw, limits.metadata_items)
    if len(streams) > MOST_STREAMS * columns:
        raise CorruptFile(
            f"the stripe's footer has {len(streams)} streams for {columns} columns, but can have at most "
            f"{MOST_STREAMS * columns}"
        )
    if encodings.largest_kind > EncodingKind.DICTIONARY_V2:
        raise CorruptFile(f"column encoding kind {encodings.largest_kind} is unknown; the known kinds are 0 to 3")
    if len(encodings) != columns:
        raise CorruptFile(
            f"the stripe's footer has {len(encodings)} column encodings for {columns} columns, but must have one for "
            "each column"
        )
    _locate(streams, stripe)
    return StripeFooter(streams, encodings, writer_timezone(others))


def writer_timezone(others: bytes) -> str | None:
    """The name of the writer's time zone. ``others``: the bytes of all fields of a stripe footer that are neither
    streams nor encodings."""
    message = Message(others, "StripeFooter") if others else None
    return message.text(3, "replace") if message is not None and message.has(3) else None


def _locate(table: StreamTable, stripe: StripeInformation) -> None:
    """Computes the offset of each stream by adding the lengths of the streams before it. The lengths of streams of
    unknown kinds, and of placeholders for encrypted streams, are added as well."""
    wrong = table.locate(stripe.offset, stripe.footer_offset)
    if wrong is not None:
        number, at = wrong
        kind, column, length = table.numbers_of(number)
        name = STREAM_NAMES.get(kind, str(kind))
        if at < 0:
            raise CorruptFile(f"column id {column} has two streams {name}")
        raise CorruptFile(
            f"stream {name} of column id {column} ends at offset {at + length}, but the stripe's data ends at offset "
            f"{stripe.footer_offset}"
        )
