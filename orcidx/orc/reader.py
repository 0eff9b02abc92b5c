"""One ORC file: its tail, its stripes, and the opening of a stripe for decoding.

``OrcReader`` keeps the metadata that it has read (tail, stripe footers, row indexes). ``OpenStripe`` opens the streams
for column readers. ``OpenedStreams`` reads all data according to a plan. See ``stripe_plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcidx.errors import located
from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import open_codec
from orcidx.orc.footer_records import ColumnEncoding, StripeInformation
from orcidx.orc.kinds import STREAM_NAMES, StreamKind
from orcidx.orc.metadata import FileFacts, FileTail
from orcidx.orc.metadata_cache import FOOTERS, PARSED_PER_STORED_BYTE, read_tail_cached
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.opened_streams import OpenedStreams
from orcidx.orc.stripe_footer import StripeFooter, parse_stripe_footer
from orcidx.orc.stripe_streams import PlannedStream
from orcidx.orc.stripe_tables import StreamTable
from orcidx.orc.types import OrcType
from orcidx.orc.window import Window
from orcidx.storage import Fingerprint, RangeReader

if TYPE_CHECKING:
    from orcidx.options import ReadOptions
    from orcidx.orc.row_index import RowIndex

__all__ = ["OpenStripe", "OrcReader", "held_bytes", "stripe_limits"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
ByteRange = tuple[int, int]

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
    must close it. ``rereads``: whether tails, footers and indexes are read even if they are in the caches. They are
    put into the caches in any case."""

    def __init__(self, storage: RangeReader, limits: MetadataLimits | None = None, *, rereads: bool = False) -> None:
        self.storage = storage
        self.rereads = rereads
        self.tail: FileTail
        self.root: OrcType
        self.tail, self.root = read_tail_cached(storage, limits or MetadataLimits(), rereads=rereads)
        self._listed = 0
        self.name: str = self.tail.name
        self.facts: FileFacts = self.tail.facts
        self.stripes: tuple[StripeInformation, ...] = self.tail.footer.stripes
        self._footers: dict[int, StripeFooter] = {}

    def through(self, storage: RangeReader) -> OrcReader:
        """An ``OrcReader`` with the same tail that reads the same version of the file from ``storage``. Footers of
        stripes are not shared, so that an open file does not hold all footers that its scans have read."""
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

    def footer_range(self, stripe: int) -> ByteRange:
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
            known = None if self.rereads else FOOTERS.get(self.cache_key(stripe))
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
    """The open streams of one stripe. Implements the protocol ``StripeStreams``, which column readers use.

    ``index``: the stripe's row index for the columns that are read. It is None if no index can be trusted.
    ``dictionaries``: ids of the string columns that are dictionary-encoded in every stripe. ``read_ahead``, ``held``,
    ``fetched`` and ``ahead_bytes`` are described in ``OpenedStreams``.
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
        whole = reader.whole()
        self.streams = OpenedStreams(
            reader.storage,
            reader.facts,
            self.footer.streams,
            read_ahead=read_ahead,
            held=held if whole is None else (0, whole),
            fetched=fetched,
            ahead_bytes=ahead_bytes,
        )
        self.windows: list[Window] = []
        self.wasted = (0, 0)
        """Chunks and bytes that windows decompressed for rows that were not used."""

    def apart(self) -> OpenStripe:
        """Opens the same stripe again for the readers of one column. These readers may be at other rows than the
        readers of other columns. The result has its own limits."""
        apart = OpenStripe.__new__(OpenStripe)
        apart.__dict__.update(self.__dict__)
        apart.limits = self.limits.apart()
        return apart

    @property
    def writer_timezone(self) -> str | None:
        return self.footer.writer_timezone

    @property
    def is_local(self) -> bool:
        """Whether small reads take little time."""
        return self.reader.storage.is_local

    @property
    def needs_no_gil(self) -> bool:
        """Whether decoding needs neither Python's lock (GIL) nor a request. This is the case if the bytes are in memory
        or in a local file, and if the codec is written in C."""
        codec = self.streams.codec
        return self.streams.are_at_hand and (codec is None or codec.native is not None)

    def encoding(self, column: int) -> ColumnEncoding:
        return self.footer.encodings[column]

    def has(self, column: int, kind: StreamKind) -> bool:
        """Whether the stripe has the stream, even if the stream is empty."""
        return (column, kind) in self.footer.streams

    def window(self, column: int, kind: StreamKind) -> Window:
        """A window on one stream. If the stripe does not have the stream, the window is empty."""
        streams = self.streams
        source, block_size = streams.open(column, kind), self.reader.facts.block_size
        window = Window(source, streams.codec, block_size, name=STREAM_NAMES[kind], limits=self.limits)
        self.windows.append(window)
        return window

    def plan(self, columns: Iterable[OrcType], groups: Bools) -> list[PlannedStream]:
        """Plans which row groups will be read from the open streams of these columns and of all columns below them.

        Returns the streams that need bytes.
        """
        return self.streams.plan(columns, groups, self.index)
