"""Reads stripes in their stored form, and recompresses them chunk by chunk, without decoding a value.

A position in a row index refers to a byte of a stream before compression. After recompression the position refers to
the same byte, but the numbers that give the place of this byte in the compressed stream change. A position also counts
the values that are before it in a run or a byte. These counts do not change."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import CorruptFile, OrcidxError, located
from orcidx.inspection.sizes import BLOOM_KINDS
from orcidx.orc.compression import Codec, decompressed_chunks, open_codec
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import STREAM_NAMES, CompressionKind, StreamKind
from orcidx.orc.metadata import unframe
from orcidx.orc.reader import OrcReader
from orcidx.orc.streams import position_offsets, stream_layout
from orcidx.orc.types import OrcType
from orcidx.orc.wire import read_index_entries
from orcidx.orc_writer.chunks import OutStream
from orcidx.orc_writer.file_layout import INDEX_KINDS, StreamData, StripeData
from orcidx.orc_writer.framing import Framing
from orcidx.orc_writer.messages import row_index_message
from orcidx.orc_writer.positions import WrittenPositions
from orcidx.rewriting.merged_statistics import with_bytes_on_disk

__all__ = ["CannotPatch", "StoredStripe", "raw_positions", "stored_stripe", "stripe_messages"]

Int64s = npt.NDArray[np.int64]
StreamKey = tuple[int, int]


class CannotPatch(OrcidxError):
    """The indexes of a stripe cannot be kept, so its rows must be encoded. The message says why."""


@dataclass(frozen=True, kw_only=True)
class StoredStripe:
    """The streams of a stripe by (column id, kind), in file order. ``statistics`` has its ColumnStatistics messages."""

    reader: OrcReader
    number: int
    streams: Mapping[StreamKey, memoryview]
    encodings: Sequence[ColumnEncoding]
    timezone: str | None
    statistics: Sequence[bytes]
    digests: dict[StreamKey, int] = field(default_factory=dict)
    """CRC-32 of each stream that was read, before compression."""

    @property
    def rows(self) -> int:
        return self.reader.stripes[self.number].rows

    def unframed(self, place: StreamKey) -> bytes:
        """The decompressed bytes of an index stream, without chunk headers."""
        name = STREAM_NAMES[StreamKind(place[1])]
        tail = self.reader.tail
        return unframe(self.streams[place], tail.postscript, name=name, limits=tail.limits)

    def data(self) -> StripeData:
        """The stripe in its stored form."""
        return StripeData(
            rows=self.rows,
            streams=[StreamData(column, kind, data) for (column, kind), data in self.streams.items()],
            encodings=self.encodings,
            statistics=self.statistics,
            writer_timezone=self.timezone,
        )

    def recompressed(self, framing: Framing) -> StripeData:
        """The stripe, recompressed. Raises ``CannotPatch`` if the row index does not match the streams."""
        codec = open_codec(self.reader.facts.compression)
        block = self.reader.facts.block_size
        outs: dict[StreamKey, _Stream] = {}
        for (column, kind), data in self.streams.items():
            if kind in INDEX_KINDS:
                continue
            name = STREAM_NAMES[StreamKind(kind)]
            with located(file=self.reader.name, stripe=self.number, column=str(column)):
                outs[column, kind] = _Stream.recompress(data, codec, block, framing, name)
            self.digests[column, kind] = outs[column, kind].digest
        streams = []
        nodes = {node.id: node for node in self.reader.root.walk()}
        for column, kind in self.streams:
            if kind == StreamKind.ROW_INDEX:
                moved = self._moved_index(nodes[column], outs, framing)
                streams.append(StreamData(column, kind, framing.frame(moved)))
            elif kind in BLOOM_KINDS:
                streams.append(StreamData(column, kind, framing.frame(self.unframed((column, kind)))))
        # The bytes are copied, because a view becomes invalid when its stream is deleted.
        streams += [StreamData(column, kind, bytes(out.stream.finish())) for (column, kind), out in outs.items()]
        return replace(self.data(), streams=streams, statistics=self._resized(streams))

    def _resized(self, streams: Sequence[StreamData]) -> list[bytes]:
        sizes = data_sizes(streams)
        return [with_bytes_on_disk(one, sizes[column]) for column, one in enumerate(self.statistics)]

    def _moved_index(self, node: OrcType, outs: Mapping[StreamKey, _Stream], framing: Framing) -> bytes:
        raw = self.unframed((node.id, StreamKind.ROW_INDEX))
        compressed = self.reader.facts.compressed
        matrix, starts, stops = index_entries(self, node, raw, compressed=compressed)
        positions = WrittenPositions(len(matrix))
        for kind, (at, spec) in self.layout(node).items():
            out = outs.get((node.id, kind))
            offsets = np.zeros(len(matrix), np.int64)
            if out is not None:
                within = matrix[:, at + 1] if compressed else None
                offsets = raw_positions(matrix[:, at], within, out.starts, out.bounds, out.length)
            now_compressed = framing.kind is not CompressionKind.NONE
            _add_positions(positions, out, offsets, now_compressed)
            for i in range(1 + compressed, spec.shape.positions(compressed=compressed)):
                positions.append(matrix[:, at + i])
        return row_index_message(positions, [raw[a:b] for a, b in zip(starts.tolist(), stops.tolist())])

    def layout(self, node: OrcType, *, compressed: bool | None = None) -> dict[StreamKind, tuple[int, Any]]:
        """For each stream with positions, two values: the index of the stream's first position in an entry of the
        column's row index, and the stream's ``StreamSpec``. ``compressed`` says whether the row index belongs to a
        compressed file. If ``compressed`` is None, the value for the file of this stripe is used."""
        facts = self.reader.facts
        compressed = facts.compressed if compressed is None else compressed
        layout = stream_layout(node, self.encodings[node.id].kind, decimal64=facts.decimal64)
        present = (node.id, StreamKind.PRESENT) in self.streams
        return position_offsets(layout, has_present=present, compressed=compressed)


def data_sizes(streams: Iterable[StreamData]) -> Counter[int]:
    """The bytes of the streams that are not indexes, by column id."""
    sizes: Counter[int] = Counter()
    for stream in streams:
        if not stream.is_index:
            sizes[stream.column] += stream.length
    return sizes


def _add_positions(positions: WrittenPositions, out: _Stream | None, offsets: Int64s, compressed: bool) -> None:
    if out is not None:
        out.stream.add_positions(positions, np.ascontiguousarray(offsets))
    else:
        for _ in range(1 + compressed):
            positions.append(offsets)


def position_table(matrix: Int64s) -> WrittenPositions:
    """The positions of row groups, from an array (groups, numbers)."""
    table = WrittenPositions(len(matrix))
    for number in matrix.T:
        table.append(number)
    return table


def index_entries(
    stripe: StoredStripe, node: OrcType, raw: bytes, *, compressed: bool
) -> tuple[Int64s, Int64s, Int64s]:
    """The positions of a column's row groups as an array (groups, numbers), and the places of its statistics in
    ``raw``. ``compressed`` says whether the index belongs to a compressed file."""
    bounds, values, starts, stops = read_index_entries(raw, stripe.reader.tail.limits.metadata_items)
    layout = stripe.layout(node, compressed=compressed)
    width = sum(spec.shape.positions(compressed=compressed) for _, spec in layout.values())
    counts = np.diff(bounds)
    if len(counts) and counts[0] == 0:  # ORC-569: an entry without positions means the start of every stream
        values, counts = np.concatenate((np.zeros(width, np.int64), values)), np.concatenate(([width], counts[1:]))
    if (counts != width).any():
        raise CannotPatch(
            f"an entry of the row index has {int(counts[counts != width][0])} positions, but must have {width}",
            file=stripe.reader.name,
            stripe=stripe.number,
            column=node.dotted,
        )
    return values.reshape(len(counts), width), starts, stops


@dataclass(frozen=True)
class _Stream:
    """A recompressed stream, and the chunks of its original. ``starts`` has the positions of the headers of these
    chunks. ``bounds`` has the bounds of the chunks before compression. There is one more bound than there are
    chunks."""

    stream: OutStream
    starts: Int64s
    bounds: Int64s
    length: int
    digest: int

    @staticmethod
    def recompress(data: memoryview, codec: Codec | None, block: int, framing: Framing, name: str) -> _Stream:
        stream = OutStream(framing.compressor, framing.block_size)
        starts, bounds, digest = [], [0], 0
        for start, chunk in decompressed_chunks(data, codec, block, name=name):
            stream.write(chunk)
            digest = zlib.crc32(chunk, digest)
            starts.append(start)
            bounds.append(bounds[-1] + len(chunk))
        stream.finish()
        numbers = np.array(starts, np.int64), np.array(bounds, np.int64)
        return _Stream(stream, *numbers, len(data), digest)


def raw_positions(offsets: Int64s, within: Int64s | None, starts: Int64s, bounds: Int64s, length: int) -> Int64s:
    """Converts positions to offsets in the stream before compression. Raises ``CannotPatch`` if no chunk starts at a
    position."""
    if within is None:
        raw = offsets
    else:
        chunk = np.searchsorted(starts, offsets)
        at_end = (chunk == len(starts)) & (offsets == length)
        known = np.append(starts, length)[np.minimum(chunk, len(starts))] == offsets
        if not (known | at_end).all():
            raise CannotPatch("a position in the row index is not the start of a compressed chunk")
        raw = bounds[np.minimum(chunk, len(bounds) - 1)] + within
    if ((raw < 0) | (raw > bounds[-1])).any():
        raise CannotPatch("a position in the row index is outside the stream")
    return raw


def stripe_messages(reader: OrcReader, stripe: int) -> list[bytes]:
    """The ColumnStatistics messages of a stripe by column id. If the file does not have the messages of all columns,
    the messages of the last columns are missing in the list."""
    bounds, starts, stops = reader.tail.stripe_statistics
    if stripe >= len(bounds) - 1:
        return []
    raw = reader.tail.raw_metadata
    first, last = int(bounds[stripe]), int(bounds[stripe + 1])
    return [raw[a:b] for a, b in zip(starts[first:last].tolist(), stops[first:last].tolist())][: reader.tail.columns]


def stored_stripe(reader: OrcReader, number: int) -> StoredStripe:
    """Reads all streams of a stripe. Raises ``CannotPatch`` for streams of unknown kinds."""
    footer = reader.footer(number)
    stripe = reader.stripes[number]
    places = footer.streams.items()
    if len(places) != len(footer.streams):
        raise CannotPatch("the stripe has streams of unknown kinds", file=reader.name, stripe=number)
    known = {node.id for node in reader.root.walk()}
    strangers = [column for (column, _), _ in places if column not in known]
    if strangers:
        raise CorruptFile(
            f"a stream has the column id {strangers[0]}, but the file has no such column",
            file=reader.name,
            stripe=number,
        )
    size = stripe.index_length + stripe.data_length
    whole = memoryview(b"")
    if size:
        (data,) = reader.storage.read_ranges([(stripe.offset, size)])
        whole = memoryview(data).cast("B")
    return StoredStripe(
        reader=reader,
        number=number,
        streams={place: whole[at - stripe.offset : at - stripe.offset + length] for place, (at, length) in places},
        encodings=[footer.encodings[column] for column in range(len(footer.encodings))],
        timezone=footer.writer_timezone,
        statistics=stripe_messages(reader, number),
    )
