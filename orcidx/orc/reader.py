"""One ORC file: its tail, its stripes, and the opening of a stripe for decoding.

``OrcReader`` keeps the metadata that it has read (tail, stripe footers, row indexes). ``OpenStripe`` opens the streams
for column readers. ``StripeBytes`` reads all data according to a plan. See ``stripe_plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property, partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import located
from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import CHUNK_HEADER, open_codec
from orcidx.orc.footer_records import StripeInformation
from orcidx.orc.footers import StreamTable
from orcidx.orc.kinds import STREAM_NAMES, StreamKind
from orcidx.orc.metadata import FileFacts, FileTail
from orcidx.orc.metadata_cache import FOOTERS, PARSED_PER_STORED_BYTE, read_tail_cached
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.small_stripe import HeldStream
from orcidx.orc.stripe_footer import ColumnEncoding, StripeFooter, parse_stripe_footer
from orcidx.orc.stripe_plan import group_ranges
from orcidx.orc.stripe_streams import DEMAND_BYTES, Ahead, PlannedStream, StripeBytes
from orcidx.orc.types import OrcType
from orcidx.orc.window import Window
from orcidx.pruning.row_forms import runs_of_mask
from orcidx.storage import Fingerprint, RangeReader, start_read

if TYPE_CHECKING:
    from orcidx.options import ReadOptions
    from orcidx.orc.row_index import RowIndex

__all__ = ["OpenStripe", "OrcReader", "held_bytes", "stripe_limits"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Range = tuple[int, int]

STRIPE_EXPANSION = 16
"""The factor by which the held bytes of a stripe may always exceed its stored data, for every value of the option
``held_bytes``."""


def stripe_limits(stripe: StripeInformation, options: ReadOptions) -> Limits:
    """The limits on the memory that may be allocated while one stripe is read."""
    return Limits(options.batch_bytes, held_bytes=held_bytes(stripe, options))


def held_bytes(stripe: StripeInformation, options: ReadOptions) -> int:
    """The maximum number of bytes that windows and dictionaries may hold while one stripe is read."""
    return max(options.held_bytes, STRIPE_EXPANSION * stripe.data_length)


class OrcReader:
    """The metadata of one open file. The tail is read when the object is created. The caller that opened ``storage``
    must close it."""

    def __init__(self, storage: RangeReader, limits: MetadataLimits | None = None) -> None:
        self.storage = storage
        self.tail: FileTail
        self.root: OrcType
        self.tail, self.root = read_tail_cached(storage, limits or MetadataLimits())
        self._listed = 0
        self.name: str = self.tail.name
        self.facts: FileFacts = self.tail.facts
        self.stripes: tuple[StripeInformation, ...] = self.tail.footer.stripes
        self._footers: dict[int, StripeFooter] = {}

    def through(self, storage: RangeReader) -> OrcReader:
        """The same tail, for reading the same version of the file through another reader. Footers of stripes are not
        shared, so that an open file does not hold all footers that its scans have read."""
        _ = self.stripe_bounds  # computed before the copy, so that all copies share the result
        found = object.__new__(OrcReader)
        found.__dict__.update(self.__dict__, storage=storage, _footers={}, _listed=0)
        return found

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The version of the file. None if its storage does not report versions."""
        return self.storage.fingerprint()

    @property
    def schema_key(self) -> bytes:
        """A key for the schema of the file. The keys of two files are equal if their schemas and attributes are equal,
        and only then."""
        return self.tail.footer.type_bytes

    @cached_property
    def stripe_bounds(self) -> Int64s:
        """The number of the first row of each stripe, and at the end the number of rows of the file."""
        return np.array(list(accumulate((stripe.rows for stripe in self.stripes), initial=0)), np.int64)

    # ------------------------------------------------------------------ stripe footers and indexes

    def footer_range(self, stripe: int) -> Range:
        """Offset and length of a stripe's footer in the file."""
        information = self.stripes[stripe]
        return information.footer_offset, information.footer_length

    def whole(self) -> memoryview | None:
        """All bytes of a file that is in memory, or that is small enough to be read by one call. None for any other
        file."""
        whole: Callable[[], memoryview | None] | None = getattr(self.storage, "whole", None)
        return None if whole is None else whole()

    @property
    def needs_no_gil(self) -> bool:
        """Whether decoding needs neither Python's lock (GIL) nor a request. This is the case if the bytes are in memory
        or in a local file, and if the codec is written in C."""
        codec = open_codec(self.facts.compression)
        at_hand = getattr(self.storage, "local_file", None) is not None or self.whole() is not None
        return at_hand and (codec is None or codec.native is not None)

    def has_footer(self, stripe: int) -> bool:
        if stripe not in self._footers:
            known = FOOTERS.get(self.cache_key(stripe))
            if known is not None:
                self._footers[stripe] = known
        return stripe in self._footers

    def cache_key(self, *parts: Hashable) -> tuple[Hashable, ...] | None:
        """A cache key for an object parsed from this version of the file. None if the storage reports no versions."""
        identity = self.storage.identity
        return None if identity is None else (identity, *parts)

    def put_footer(self, stripe: int, data: bytes | memoryview) -> None:
        """Parses ``data``, the bytes at ``footer_range``, and keeps the footer. Raises ``CorruptFile`` if the bytes are
        not a stripe footer."""
        footer = parse_stripe_footer(data, self.tail, stripe)
        self._listed += len(footer.streams) + len(footer.encodings)
        with located(file=self.name, stripe=stripe):
            self.tail.limits.check_items(self._listed, "streams and encodings")
        self._footers[stripe] = footer
        FOOTERS.put(self.cache_key(stripe), footer, 1024 + PARSED_PER_STORED_BYTE * len(data))

    def footer(self, stripe: int) -> StripeFooter:
        """The stripe's footer. It is read now unless it was read before."""
        known = self._footers.get(stripe)
        if known is not None:
            return known
        if not self.has_footer(stripe):
            (data,) = self.storage.read_ranges([self.footer_range(stripe)])
            self.put_footer(stripe, memoryview(data))
        return self._footers[stripe]

    def extents(self, stripe: int) -> StreamTable:
        """The streams of a stripe whose footer was read: (column id, stream kind) -> (offset in the file, length)."""
        return self.footer(stripe).streams


class OpenStripe:
    """The open streams of one stripe, for column readers (the protocol ``StripeStreams``).

    ``index``: the stripe's row index for the columns that are read. It is None if no index can be trusted.
    ``dictionaries``: ids of the string columns that are dictionary-encoded in every stripe. ``held``: the offset of the
    stripe in the file and all bytes of its streams, if they are in memory. ``fetched``: whole streams that were already
    read, by column id and kind. ``ahead_bytes``: the maximum number of bytes of a remote file that are requested before
    they are needed.
    """

    def __init__(
        self,
        reader: OrcReader,
        number: int,
        *,
        index: RowIndex | None,
        read_ahead: int,
        limits: Limits,
        dictionaries: frozenset[int] = frozenset(),
        held: tuple[int, memoryview] | None = None,
        fetched: Mapping[tuple[int, StreamKind], Any] = MappingProxyType({}),
        ahead_bytes: int = 0,
    ) -> None:
        self.reader = reader
        self.number = number
        self.index = index
        self.limits = limits
        self.dictionaries = dictionaries
        self.footer = reader.footer(number)
        self.rows = reader.stripes[number].rows
        self.writer_timezone = self.footer.writer_timezone
        self._extents = self.footer.streams
        self._on_demand = reader.facts.compressed and reader.storage.is_local
        whole = reader.whole()
        self._held = held if whole is None else (0, whole)
        self._fetched = fetched
        self._ahead: Ahead | None = None
        if ahead_bytes and not self.is_local:
            self._ahead = Ahead(partial(start_read, reader.storage), most=ahead_bytes)
        self._read_ahead = read_ahead
        self._codec = open_codec(reader.facts.compression)
        self._opened: dict[int, dict[StreamKind, list[PlannedStream]]] = {}
        self.windows: list[Window] = []
        self.wasted = (0, 0)
        """Chunks and bytes that windows decompressed for rows that were not used."""

    @cached_property
    def _bytes(self) -> StripeBytes:
        storage = self.reader.storage
        return StripeBytes(
            storage.read_ranges,
            self._extents,
            self._read_ahead,
            framed=self._on_demand,
            demand=self._demand(),
            read_into=getattr(storage, "read_into", None),
            local_file=getattr(storage, "local_file", None),
            ahead=self._ahead,
        )

    def close(self) -> None:
        """Cancels the requests that are no longer needed."""
        if self._ahead is not None:
            for kinds in self._opened.values():
                for sources in kinds.values():
                    for source in sources:
                        source.close()

    def apart(self) -> OpenStripe:
        """Opens the same stripe again for the readers of one column. These readers may be at other rows than the
        readers of other columns. The result has its own limits."""
        _ = self._bytes  # created before the copy, so that all copies share it
        apart = OpenStripe.__new__(OpenStripe)
        apart.__dict__.update(self.__dict__)
        apart.limits = self.limits.apart()
        return apart

    def stored_bytes(self, column: OrcType) -> int:
        """The number of stored bytes in the open streams of a column and of all columns below it."""
        opened = (sources for node in column.walk() for sources in self._opened.get(node.id, {}).values())
        return sum(sources[0].length for sources in opened)

    def _demand(self) -> int:
        """The number of bytes to read at once after the end of a plan. For a compressed remote file this is at least
        the largest possible size of a chunk."""
        facts = self.reader.facts
        whole = facts.compressed and not self.reader.storage.is_local
        return max(DEMAND_BYTES, CHUNK_HEADER + facts.block_size) if whole else DEMAND_BYTES

    @property
    def is_local(self) -> bool:
        """Whether small reads take little time."""
        return self.reader.storage.is_local

    @property
    def needs_no_gil(self) -> bool:
        """Whether decoding needs neither Python's lock (GIL) nor a request. This is the case if the bytes are in memory
        or in a local file, and if the codec is written in C."""
        at_hand = self._held is not None or getattr(self.reader.storage, "local_file", None) is not None
        return at_hand and (self._codec is None or self._codec.native is not None)

    def encoding(self, column: int) -> ColumnEncoding:
        return self.footer.encodings[column]

    def has(self, column: int, kind: StreamKind) -> bool:
        """Whether the stripe has the stream, even if the stream is empty."""
        return (column, kind) in self._extents

    def window(self, column: int, kind: StreamKind) -> Window:
        """A window on one stream. If the stripe does not have the stream, the window is empty."""
        source: PlannedStream | HeldStream
        if self._held is not None:
            first, data = self._held
            offset, length = self._extents.get((column, kind), (first, 0))
            source = HeldStream(data, offset - first, length)
        else:
            source = self._bytes.stream(column, kind)
            if (column, kind) in self._fetched:
                source.put(0, self._fetched[column, kind])
            self._opened.setdefault(column, {}).setdefault(kind, []).append(source)
        window = Window(source, self._codec, self.reader.facts.block_size, name=STREAM_NAMES[kind], limits=self.limits)
        self.windows.append(window)
        return window

    def sources(self, column: int, kind: StreamKind) -> list[PlannedStream]:
        """A list that has only the source of the first window that was opened on a stream. The list is empty if the
        bytes are in memory."""
        return self._opened.get(column, {}).get(kind, [])[:1]

    # ------------------------------------------------------------------ planning

    def plan(self, columns: Iterable[OrcType], groups: Bools) -> list[PlannedStream]:
        """Plans which row groups will be read from the open streams of these columns and of all columns below them.

        Returns the streams that need bytes.
        """
        planned: list[PlannedStream] = []
        if self._held is None:
            runs = runs_of_mask(groups)
            for column in columns:
                for node in column.walk() if column.names else (column,):
                    planned += self._plan_column(node, groups, runs)
        return planned

    def _plan_column(self, node: OrcType, groups: Bools, runs: Int64s) -> list[PlannedStream]:
        planned: list[PlannedStream] = []
        for kind, sources in self._opened.get(node.id, {}).items():
            positions = self.index.stream_positions(node.id, kind) if self.index is not None else None
            length = sources[0].length
            ranges = group_ranges(
                positions,
                groups,
                length=length,
                block_size=self.reader.facts.block_size,
                on_demand=self._on_demand,
                runs=runs,
            )
            for source in sources:
                source.plan(ranges)
                planned.append(source)
        return planned
