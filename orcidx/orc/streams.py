"""Describes the streams that a column has in a stripe, and the positions in a row-index entry.

The table ``kinds.LAYOUTS`` lists the value streams of each type and encoding, in their order, and the contents of each
stream. If the stripe has a PRESENT stream for the column, this stream comes before the value streams (ORC-1130). A
row-index entry is a flat list of numbers. It has the numbers of one stream after the other, in the order of the
streams:

    bytes       uncompressed file: offset in the stream
                compressed file: offset of the chunk's header, and offset in the decompressed chunk
    byte RLE    the same numbers as for ``bytes``, and then the number of values to skip in the run
    int RLE     the same numbers as for byte RLE
    bits        the same numbers as for byte RLE, and then the number of bits to skip in the byte (0 to 8)
"""

from __future__ import annotations

from collections.abc import Sequence

from orcidx.errors import CorruptFile
from orcidx.orc.kinds import INTEGER_STREAM, LAYOUTS, EncodingKind, StreamKind, StreamShape, StreamSpec, TypeKind
from orcidx.orc.types import OrcType

__all__ = [
    "DECIMAL64_DIGITS",
    "PositionIterator",
    "StreamShape",
    "StreamSpec",
    "is_decimal64",
    "is_dictionary",
    "position_count",
    "position_offsets",
    "rle_version",
    "stream_layout",
]

DECIMAL64_DIGITS = 18
"""Decimals of more digits keep the layout with two streams, even in files of version [1, 9999]."""

PRESENT = StreamSpec(StreamKind.PRESENT, StreamShape.BITS)


def is_dictionary(encoding: EncodingKind) -> bool:
    return encoding in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)


def rle_version(encoding: EncodingKind) -> int:
    """The version, 1 or 2, of the integer run-length encoding of a column's streams. It does not follow from the file's
    version."""
    return 2 if encoding in (EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2) else 1


def is_decimal64(column: OrcType, *, decimal64: bool) -> bool:
    """Whether a column is stored as one stream of unscaled signed RLEv2 integers. For ``decimal64`` see
    ``FileFacts``."""
    return decimal64 and column.kind is TypeKind.DECIMAL and 0 < column.precision <= DECIMAL64_DIGITS


def stream_layout(column: OrcType, encoding: EncodingKind, *, decimal64: bool) -> tuple[StreamSpec, ...]:
    """The value streams of a column in the order of their positions, without PRESENT.

    Raises ``CorruptFile`` for an encoding that the type cannot have.
    """
    layout = LAYOUTS.get((column.kind, encoding))
    if layout is None:
        raise CorruptFile(
            f"encoding {encoding.name} is not allowed for a column of type {column.kind.name.lower()}",
            column=column.dotted,
        )
    return INTEGER_STREAM if is_decimal64(column, decimal64=decimal64) else layout


def position_offsets(
    layout: Sequence[StreamSpec], *, has_present: bool, compressed: bool
) -> dict[StreamKind, tuple[int, StreamSpec]]:
    """Returns two values for each stream that has positions: the index of the stream's first number in a row-index
    entry, and the stream's ``StreamSpec``."""
    offsets: dict[StreamKind, tuple[int, StreamSpec]] = {}
    at = 0
    for spec in (PRESENT, *layout) if has_present else layout:
        if spec.positioned:
            offsets[spec.kind] = (at, spec)
            at += spec.shape.positions(compressed=compressed)
    return offsets


def position_count(layout: Sequence[StreamSpec], *, has_present: bool, compressed: bool) -> int:
    """How many numbers an entry of the row index has."""
    streams = position_offsets(layout, has_present=has_present, compressed=compressed).values()
    return sum(spec.shape.positions(compressed=compressed) for _, spec in streams)


class PositionIterator:
    """The numbers of one index entry of one column. Each stream of the column takes its own numbers, in the order of
    the streams."""

    __slots__ = ("_at", "_values")

    def __init__(self, values: Sequence[int] | None) -> None:
        """If ``values`` is None, the row group begins at the start of every stream. An empty entry of the first row
        group means the same. Java wrote such empty entries before ORC-569 and ORC-621."""
        self._values = values
        self._at = 0

    @classmethod
    def start(cls) -> PositionIterator:
        """Positions at the start of every stream."""
        return cls(None)

    def take(self) -> int:
        """The next number. Raises ``CorruptFile`` if there is none."""
        if self._values is None:
            return 0
        if self._at >= len(self._values):
            raise CorruptFile(
                f"a row index entry has only {len(self._values)} positions, but the column's streams need more"
            )
        value = self._values[self._at]
        self._at += 1
        return value
