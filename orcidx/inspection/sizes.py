"""Computes how the bytes of a file are used: by column and stream, by kind of index, and in its footers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orcidx.orc.kinds import STREAM_NAMES, StreamKind
from orcidx.orc.reader import OrcReader
from orcidx.orc.types import OrcType

__all__ = ["BLOOM_KINDS", "FILE_PARTS", "ColumnSize", "FileSizes", "file_sizes"]

BLOOM_KINDS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
FILE_PARTS = ("stripe_footers", "stripe_statistics", "footer", "postscript", "other")
"""The parts of ``FileSizes`` that belong to no column."""


@dataclass(frozen=True)
class ColumnSize:
    """Bytes of one column without its children, by kind of stream. The name of the root column is ``""``."""

    column: str
    column_id: int
    type: str
    streams: Mapping[str, int] = field(hash=False)

    @property
    def row_index(self) -> int:
        """Bytes of the row indexes of the column: statistics and positions of the row groups."""
        return self.streams.get(STREAM_NAMES[StreamKind.ROW_INDEX], 0)

    @property
    def bloom_filters(self) -> int:
        """Bytes of the bloom filters of the column."""
        return sum(self.streams.get(STREAM_NAMES[kind], 0) for kind in BLOOM_KINDS)

    @property
    def bytes(self) -> int:
        """All bytes of the column."""
        return sum(self.streams.values())

    @property
    def data(self) -> int:
        """Bytes of the values of the column."""
        return self.bytes - self.row_index - self.bloom_filters


@dataclass(frozen=True)
class FileSizes:
    """The bytes of the parts of a file. The sum of the parts is ``bytes``.

    ``other`` has the magic bytes, the padding between stripes, and streams without a readable column, such as streams
    of encrypted columns.
    """

    file: str
    bytes: int
    columns: tuple[ColumnSize, ...]
    stripe_footers: int
    stripe_statistics: int
    footer: int
    postscript: int

    @property
    def other(self) -> int:
        known = self.stripe_footers + self.stripe_statistics + self.footer + self.postscript
        return self.bytes - known - sum(column.bytes for column in self.columns)

    def to_dict(self) -> dict[str, Any]:
        """The sizes as JSON values."""
        columns = [
            {
                "column": one.column,
                "column_id": one.column_id,
                "type": one.type,
                "bytes": one.bytes,
                "data_bytes": one.data,
                "row_index_bytes": one.row_index,
                "bloom_filter_bytes": one.bloom_filters,
                "streams": dict(one.streams),
            }
            for one in self.columns
        ]
        return {
            "file": self.file,
            "bytes": self.bytes,
            "columns": columns,
            **{f"{name}_bytes": getattr(self, name) for name in FILE_PARTS},
        }


def file_sizes(reader: OrcReader) -> FileSizes:
    """Adds up the lengths of the streams, which are in the stripe footers. Nothing else is read."""
    by_column: dict[int, Counter[str]] = {}
    for stripe in range(len(reader.stripes)):
        for (column, kind), (_, length) in reader.extents(stripe).items():
            by_column.setdefault(column, Counter())[STREAM_NAMES[StreamKind(kind)]] += length
    postscript = reader.tail.postscript
    return FileSizes(
        file=reader.name,
        bytes=reader.tail.size,
        columns=tuple(_column_size(node, by_column.get(node.id, Counter())) for node in reader.root.walk()),
        stripe_footers=sum(stripe.footer_length for stripe in reader.stripes),
        stripe_statistics=postscript.metadata_length,
        footer=postscript.footer_length,
        postscript=postscript.size,
    )


def _column_size(node: OrcType, streams: Counter[str]) -> ColumnSize:
    return ColumnSize(node.dotted if node.path else "", node.id, str(node), dict(sorted(streams.items())))
