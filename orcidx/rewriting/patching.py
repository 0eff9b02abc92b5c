"""Makes files from the stripes of other files. Stripes are copied, recompressed or given indexes, and no row is
encoded."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from orcidx.options import ReadOptions
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.reader import OrcReader
from orcidx.orc_writer.file_layout import FileLayout, FileTypes
from orcidx.rewriting.indexing import Indexer
from orcidx.rewriting.merged_statistics import merge_statistics, with_bytes_on_disk
from orcidx.rewriting.plan import RewritePlan
from orcidx.rewriting.sources import InputFile
from orcidx.rewriting.stripes import StoredStripe, data_sizes, stored_stripe, stripe_messages
from orcidx.storage.sink import PART_BYTES

if TYPE_CHECKING:
    from orcidx.storage.stores import Sink

__all__ = ["patch_files", "stripe_digest"]


def patch_files(
    inputs: Sequence[InputFile],
    plan: RewritePlan,
    sink: Sink,
    *,
    options: ReadOptions,
    fpp: float,
    advance: Callable[[int], None],
) -> list[int | dict[tuple[int, int], int]]:
    """Writes the file, but does not close the sink. ``advance(rows)`` is called after each stripe. Returns the
    checksums for the verification of each stripe: the CRC-32 of its bytes, or of each stream before compression. Raises
    ``CannotPatch`` if the rows must be encoded."""
    layout = FileLayout(
        sink=sink,
        types=FileTypes(inputs[0].reader.tail.footer.types),
        framing=plan.framing,
        row_index_stride=plan.stride,
        identity=plan.identity,
    )
    digests: list[int | dict[tuple[int, int], int]] = []
    news: list[list[bytes]] = []
    sizes: Counter[int] = Counter()
    for number, one in enumerate(inputs):
        indexer = Indexer(one.source, one.reader, plan.blooms, options, fpp, plan.everything) if plan.index else None
        for stripe in one.stripes:
            if number not in plan.recompress and indexer is None:
                digests.append(_copy(layout, one.reader, stripe))
            else:
                stored = stored_stripe(one.reader, stripe)
                data = stored.recompressed(plan.framing) if number in plan.recompress else stored.data()
                if indexer is not None:
                    data, statistics = indexer.index(stored, data, plan.framing)
                    news.append(statistics)
                sizes.update(data_sizes(data.streams))
                layout.append(data)
                digests.append(stored.digests if number in plan.recompress else stream_digests(stored))
            advance(one.reader.stripes[stripe].rows)
    layout.finish(_file_statistics(inputs, plan, news, sizes), plan.user_metadata)
    return digests


def _copy(layout: FileLayout, reader: OrcReader, stripe: int) -> int:
    info = reader.stripes[stripe]
    reader.footer(stripe)  # if the footer is damaged, this raises an error before the stripe is copied
    digest = 0

    def pieces() -> Iterator[bytes | memoryview]:
        nonlocal digest
        for piece in _stored_pieces(reader, info):
            digest = zlib.crc32(piece, digest)
            yield piece

    lengths = info.index_length, info.data_length, info.footer_length
    layout.append_raw(pieces(), lengths, rows=info.rows, statistics=stripe_messages(reader, stripe))
    return digest


def stripe_digest(reader: OrcReader, stripe: int) -> int:
    """CRC-32 of a stripe's bytes."""
    digest = 0
    for piece in _stored_pieces(reader, reader.stripes[stripe]):
        digest = zlib.crc32(piece, digest)
    return digest


def _stored_pieces(reader: OrcReader, stripe: StripeInformation) -> Iterator[memoryview]:
    """The bytes of a stripe in their stored form."""
    at = stripe.offset
    while at < stripe.end:
        (piece,) = reader.storage.read_ranges([(at, min(PART_BYTES, stripe.end - at))])
        yield piece
        at += len(piece)


def stream_digests(stored: StoredStripe) -> dict[tuple[int, int], int]:
    """The CRC-32 of each data stream in its stored form. The column ids of the result are negative. A negative id marks
    a stream that was copied."""
    return {(-1 - column, kind): zlib.crc32(data) for (column, kind), data in stored.streams.items() if kind <= 5}


def _file_statistics(
    inputs: Sequence[InputFile], plan: RewritePlan, news: Sequence[Sequence[bytes]], sizes: Counter[int]
) -> list[bytes]:
    nodes = list(inputs[0].reader.root.walk())
    if plan.everything and news:
        return [merge_statistics(node.kind, [stripe[node.id] for stripe in news]) for node in nodes]
    filled = [one for one in inputs if one.rows] or list(inputs[:1])
    if len(filled) == 1:
        footer = filled[0].reader.tail.footer
        known = len(footer.statistics_extents[0])
        messages = [footer.raw_statistics(node.id) for node in nodes[:known]]
    else:
        raw = [one.reader.tail.footer.raw_statistics for one in filled]
        messages = [merge_statistics(node.kind, [of(node.id) for of in raw]) for node in nodes]
    if not plan.recompress or not all(number in plan.recompress for number, one in enumerate(inputs) if one.rows):
        return messages
    return [with_bytes_on_disk(message, sizes[column]) for column, message in enumerate(messages)]
