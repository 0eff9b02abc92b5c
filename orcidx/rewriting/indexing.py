"""Makes indexes for data that stays unchanged. Bloom filters are added, or all statistics and filters are computed
again.

The columns are decoded and given to the column writers of the ORC writer. From the output of these writers, only the
statistics and filters of row groups are used. Positions come from the row index of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.inspection.sizes import BLOOM_KINDS
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.orc.bloom_keys import distrust_bloom
from orcidx.orc.calendars import GREGORIAN_START
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import CompressionKind, EncodingKind, StreamKind, TypeKind, WriterKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.types import OrcType
from orcidx.orc.wire import read_index_entries
from orcidx.orc_writer.arrow_types import WriteNode, describe_schema
from orcidx.orc_writer.bloom_columns import bloom_columns
from orcidx.orc_writer.file_layout import StreamData, StripeData
from orcidx.orc_writer.messages import row_index_message
from orcidx.orc_writer.options import WriteOptions
from orcidx.orc_writer.stripe_writer import StripeWriter
from orcidx.planner.request import FileJob
from orcidx.rewriting.merged_statistics import with_bytes_on_disk, without_values
from orcidx.rewriting.sources import rows_in
from orcidx.rewriting.stripes import CannotPatch, StoredStripe, data_sizes, index_entries, position_table
from orcidx.storage import Source

if TYPE_CHECKING:
    from orcidx.orc_writer.framing import Framing

__all__ = ["Indexer", "bloom_columns_of", "bloom_nodes", "has_indexes", "has_no_scale", "is_trusted"]

_TIMES = frozenset({TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})
"""1582-10-15 as days since 1970. Days before this date have other numbers in a hybrid calendar."""


def bloom_nodes(root: OrcType, names: Sequence[str | int]) -> list[OrcType]:
    """The columns that ``bloom_filters=`` names by dotted names, "*", or ORC column ids."""
    return bloom_columns(list(root.walk()), names, option="bloom_filters")


def bloom_columns_of(reader: OrcReader, stripes: Sequence[int]) -> frozenset[int]:
    """Ids of the columns that have bloom filters in all of these stripes."""
    found: frozenset[int] | None = None
    for stripe in stripes:
        here = frozenset(column for (column, kind), _ in reader.extents(stripe).items() if kind in BLOOM_KINDS)
        found = here if found is None else found & here
    return found or frozenset()


def has_indexes(reader: OrcReader, stripes: Sequence[int]) -> bool:
    """Whether every column of these stripes has a row index."""
    if not reader.facts.row_index_stride:
        return not stripes
    return all((node.id, StreamKind.ROW_INDEX) in reader.extents(i) for i in stripes for node in reader.root.walk())


def is_trusted(node: OrcType, reader: OrcReader) -> bool:
    """Whether readers would trust a new bloom filter of this column in a file that still names its original writer."""
    facts = reader.facts
    encoding = ColumnEncoding(EncodingKind.DIRECT, 0, 1)
    if distrust_bloom(StreamKind.BLOOM_FILTER_UTF8, node, encoding, facts, USUAL_OPTIONS) is not None:
        return False
    # In the hybrid calendar, the bloom filter of a day before 1582 contains another key than in the Gregorian calendar.
    if facts.hybrid_calendar and node.kind in _TIMES:
        return False
    # In the bloom filters of dates and timestamps, older versions of Java ORC stored other keys than orcidx (ORC-101,
    # ORC-135).
    return facts.writer != WriterKind.JAVA or facts.writer_version >= 6 or node.kind not in _TIMES


def has_no_scale(node: OrcType) -> bool:
    """Whether a column is a DECIMAL of precision 0. The option ``decimal_zero_precision`` gives the scale in which such
    a column is read, so stored digits may be dropped. Values without these digits must not get into statistics and
    bloom filters."""
    return node.kind is TypeKind.DECIMAL and node.precision == 0


@dataclass(frozen=True)
class Indexer:
    """Makes the indexes of the stripes of one file. ``columns`` has the ids of the columns that get bloom filters."""

    source: Source
    reader: OrcReader
    columns: frozenset[int]
    options: ReadOptions
    fpp: float
    everything: bool
    """True: all statistics and filters are computed again. False: only filters are computed."""

    @cached_property
    def _tops(self) -> list[OrcType]:
        """The top-level columns that must be decoded."""
        return [top for top in self.reader.root.children if self.everything or top.ids & self.columns]

    @cached_property
    def _request(self) -> tuple[list[tuple[str, ...]], WriteNode, WriteOptions]:
        if self.reader.root.kind is not TypeKind.STRUCT:  # indexes are made for the fields of a top-level struct
            raise CannotPatch(
                "indexes can be added only if the top-level type is a struct, but it is not", file=self.reader.name
            )
        names = [top.path[:1] for top in self._tops]
        if len(set(names)) < len(names):
            raise CannotPatch(
                "indexes can be added only if column names are unique, but two columns have the same name",
                file=self.reader.name,
            )
        schema = rows_in([self._job(None)], names, options=self.options).schema
        numbers = self._numbers
        wanted = [number for number, id in numbers.items() if id in self.columns]
        options = WriteOptions(
            compression="none",
            row_index_stride=self.reader.facts.row_index_stride,
            dictionary_key_size_threshold=0,
            bloom_filter_columns=wanted,
            bloom_filter_fpp=self.fpp,
            use_threads=self.options.use_threads,
        )
        root = describe_schema(schema, options)
        kinds = [node.kind for top in self._tops for node in top.walk()]
        if [node.kind for node in root.all_nodes][1:] != kinds:
            raise CannotPatch(
                "orcidx would write a column with another type than it has in the file, so new indexes would not match "
                "the stored values",
                file=self.reader.name,
            )
        return names, root, options

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """Maps column ids of the writer to column ids of the file. The ids differ, because the writer has only some of
        the file's columns."""
        found = {0: 0}
        for top in self._tops:
            for node in top.walk():
                found[len(found)] = node.id
        return found

    def _job(self, stripe: int | None) -> FileJob:
        chosen = None if stripe is None else (stripe,)
        return FileJob(self.source, stripes=chosen, fingerprint=self.reader.fingerprint)

    def _batches(self, stripe: int) -> Iterator[pa.RecordBatch]:
        names, _, _ = self._request
        yield from rows_in([self._job(stripe)], names, options=self.options)

    def index(self, stripe: StoredStripe, data: StripeData, framing: Framing) -> tuple[StripeData, list[bytes]]:
        """Returns ``data`` of the stripe with its new indexes. Also returns the new statistics of its columns if all
        indexes are computed again, and otherwise an empty list."""
        _, root, options = self._request
        uncompressed = replace(framing, kind=CompressionKind.NONE, compressor=None)
        writer = StripeWriter(root, options, uncompressed, name=self.reader.name)
        for batch in self._batches(stripe.number):
            self._check_days(batch)
            at = 0
            while at < batch.num_rows:
                rest = batch.slice(at)
                taken = writer.slice_rows(rest)
                writer.write(rest.slice(0, taken), writer.rows)
                at += taken
        if writer.rows != stripe.rows:
            raise CannotPatch(
                f"{writer.rows} rows were read, but the stripe has {stripe.rows} rows", file=self.reader.name
            )
        made = writer.finish()
        numbers = self._numbers
        news = {(numbers[stream.column], stream.kind): bytes(stream.data) for stream in made.streams if stream.is_index}
        encodings = [
            replace(one, bloom_encoding=1) if (column, StreamKind.BLOOM_FILTER_UTF8) in news else one
            for column, one in enumerate(data.encodings)
        ]
        streams = self._streams(stripe, data, news, framing)
        if not self.everything:
            return replace(data, streams=streams, encodings=encodings), []
        sizes = data_sizes(streams)
        by_id = {numbers[number]: message for number, message in enumerate(made.statistics)}
        by_id |= {node.id: without_values(by_id[node.id]) for node in self.reader.root.walk() if has_no_scale(node)}
        statistics = [with_bytes_on_disk(by_id[column], sizes[column]) for column in range(len(by_id))]
        return replace(data, streams=streams, encodings=encodings, statistics=statistics), statistics

    def _streams(
        self,
        stripe: StoredStripe,
        data: StripeData,
        news: Mapping[tuple[int, int], bytes],
        framing: Framing,
    ) -> list[StreamData]:
        kept = [
            stream
            for stream in data.streams
            if not stream.is_index
            or (stream.kind == StreamKind.ROW_INDEX and not self.everything)
            or (stream.kind in BLOOM_KINDS and not self.everything and stream.column not in self.columns)
        ]
        added = [
            StreamData(column, kind, framing.frame(raw))
            for (column, kind), raw in news.items()
            if kind == StreamKind.BLOOM_FILTER_UTF8
        ]
        if self.everything:
            moved = {s.column: s for s in data.streams if s.kind == StreamKind.ROW_INDEX}
            nodes = list(self.reader.root.walk())
            for node in nodes:
                fresh = news[node.id, StreamKind.ROW_INDEX]
                joined = self._joined(stripe, node, framing.unframe(moved[node.id].data), fresh, framing)
                added.append(StreamData(node.id, StreamKind.ROW_INDEX, framing.frame(joined)))
        streams = [*added, *kept]
        index = sorted((s for s in streams if s.is_index), key=lambda s: (s.column, s.kind))
        return [*index, *(s for s in streams if not s.is_index)]

    def _joined(self, stripe: StoredStripe, node: OrcType, moved: bytes, fresh: bytes, framing: Framing) -> bytes:
        """Joins the positions of the row index ``moved`` with the statistics of the row index ``fresh``."""
        matrix, _, _ = index_entries(stripe, node, moved, compressed=framing.kind is not CompressionKind.NONE)
        _, _, starts, stops = read_index_entries(fresh, max(len(fresh), 1))
        if len(starts) != len(matrix):
            raise CannotPatch(
                f"the stored row index has {len(matrix)} row groups, but the rows fill {len(starts)} row groups",
                column=node.dotted,
            )
        statistics = [fresh[a:b] for a, b in zip(starts.tolist(), stops.tolist())]
        if has_no_scale(node):
            statistics = [*map(without_values, statistics)]
        return row_index_message(position_table(matrix), statistics)

    def _check_days(self, batch: pa.RecordBatch) -> None:
        """Checks that data of a hybrid calendar may be marked as proleptic. All its days must be the same in both
        calendars."""
        if not self.everything or not self.reader.facts.hybrid_calendar:
            return
        for name, column in zip(batch.schema.names, batch.columns):
            if not _times_in(column.type):
                continue
            if pa.types.is_nested(column.type):
                raise CannotPatch(
                    "a nested column with dates or timestamps cannot be copied from a file in the hybrid calendar",
                    column=name,
                )
            least = pc.min(column.cast(pa.date32())).cast(pa.int32()).as_py()
            if least is not None and least < GREGORIAN_START:
                raise CannotPatch(
                    "days before 1582-10-15 cannot be copied from a file in the hybrid calendar", column=name
                )


def _times_in(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_times_in(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
