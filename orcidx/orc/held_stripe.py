"""A stripe whose bytes are all in memory, as a source for column readers. Unlike ``OpenStripe``, it needs no plans and
no row index."""

from __future__ import annotations

from orcidx.orc.columns.base import Limits
from orcidx.orc.compression import open_codec
from orcidx.orc.footer_records import ColumnEncoding
from orcidx.orc.kinds import STREAM_NAMES, StreamKind
from orcidx.orc.metadata import FileFacts
from orcidx.orc.stream_sources import HeldStream
from orcidx.orc.stripe_footer import StripeFooter
from orcidx.orc.window import Window

__all__ = ["HeldStripe"]


class HeldStripe:
    """Implements the ``StripeStreams`` protocol for a stripe in memory. ``held``: a pair of an offset in the file and
    the bytes of the file from this offset on.

    ``dictionaries``: ids of the string columns that are read as Arrow dictionaries.
    """

    def __init__(
        self,
        held: tuple[int, memoryview],
        footer: StripeFooter,
        rows: int,
        facts: FileFacts,
        *,
        limits: Limits,
        dictionaries: frozenset[int],
    ) -> None:
        self.rows = rows
        self.limits = limits
        self.dictionaries = dictionaries
        self.writer_timezone = footer.writer_timezone
        self.windows: list[Window] = []
        self._first, self._data = held
        self._footer = footer
        self._codec = open_codec(facts.compression)
        self._block_size = facts.block_size

    def has(self, column: int, kind: StreamKind) -> bool:
        """Whether the stripe has the stream, even if the stream is empty."""
        return (column, kind) in self._footer.streams

    def encoding(self, column: int) -> ColumnEncoding:
        return self._footer.encodings[column]

    def window(self, column: int, kind: StreamKind) -> Window:
        """A window on one stream. If the stripe does not have the stream, the window is empty."""
        offset, length = self._footer.streams.get((column, kind), (self._first, 0))
        source = HeldStream(self._data, offset - self._first, length)
        window = Window(source, self._codec, self._block_size, name=STREAM_NAMES[kind], limits=self.limits)
        self.windows.append(window)
        return window
