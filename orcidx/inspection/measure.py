"""Measures decoded values as ORC's statistics do: counts, minimum, maximum and sum. Values have the physical form in
which predicates compare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, OrcType

__all__ = ["LENGTH_KINDS", "Measured", "columns_below", "compared_bytes", "measure"]

LENGTH_KINDS = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.BINARY})
"""Types whose ``total`` is the number of bytes of their values."""
_ORDERED = (
    INTEGER_KINDS
    | FLOAT_KINDS
    | STRING_KINDS
    | {TypeKind.DATE, TypeKind.DECIMAL, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT}
)
_LARGEST_SUM = 1 << 63


@dataclass(frozen=True)
class Measured:
    """Measures of one column over some rows. ``slots`` counts values and nulls, and ``count`` counts values. ``low``
    and ``high`` are bounds without NaN, or None if there are no values. ``total`` is the sum of integers, the bytes of
    texts and binaries, or the number of true values. ``total`` is None if the sum is unknown."""

    slots: int
    count: int
    low: Any = None
    high: Any = None
    total: int | None = 0

    def joined(self, other: Measured) -> Measured:
        """Returns the measures over the rows of this object and of ``other``."""
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        total = None if self.total is None or other.total is None else self.total + other.total
        low, high = min(lows, default=None), max(highs, default=None)
        return Measured(self.slots + other.slots, self.count + other.count, low, high, total)


def columns_below(node: OrcType, array: pa.Array) -> Iterator[tuple[OrcType, pa.Array]]:
    """Yields a column and its children with their values. Unions and their children are left out. Arrow reads a null of
    a union as a null of its first variant, so the counts would differ from the written counts."""
    if node.kind is TypeKind.UNION:
        return
    yield node, array
    if node.kind is TypeKind.STRUCT:
        valid = array.is_valid() if array.null_count else None
        for i, child in enumerate(node.children):
            values = array.field(i)
            yield from columns_below(child, values if valid is None else values.filter(valid))
    elif node.kind is TypeKind.LIST:
        yield from columns_below(node.children[0], array.flatten())
    elif node.kind is TypeKind.MAP:
        first, last = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array.offsets) else (0, 0)
        for child, values in zip(node.children, (array.keys, array.items), strict=True):
            yield from columns_below(child, values.slice(first, last - first))


def measure(node: OrcType, array: pa.Array) -> Measured:
    """Measures the values of one column. Timestamps are measured as nanoseconds in decimal128(38, 0)."""
    slots, count = len(array), len(array) - array.null_count
    low, high = _extremes(node, array) if count and node.kind in _ORDERED else (None, None)
    return Measured(slots, count, low, high, _total(node, array, low, high, count))


def _extremes(node: OrcType, array: pa.Array) -> tuple[Any, Any]:
    if node.kind in FLOAT_KINDS:
        array = array.filter(pc.invert(pc.is_nan(array)))
    elif node.kind is TypeKind.DATE:
        array = array.cast(pa.int32())
    elif pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    found = pc.min_max(array)
    low, high = found["min"].as_py(), found["max"].as_py()
    if isinstance(low, str):
        return compared_bytes(node, low), compared_bytes(node, high)
    if isinstance(low, Decimal) and node.kind is not TypeKind.DECIMAL:
        return int(low), int(high)
    return low, high


def compared_bytes(node: OrcType, text: str) -> bytes:
    """The bytes with which a text is compared. CHAR is compared without its trailing blanks."""
    raw = text.encode()
    return raw.rstrip(b" ") if node.kind is TypeKind.CHAR else raw


def _total(node: OrcType, array: pa.Array, low: Any, high: Any, count: int) -> int | None:
    if node.kind in INTEGER_KINDS:
        fits = low is None or max(abs(low), abs(high)) * count < _LARGEST_SUM
        return (pc.sum(array).as_py() or 0) if fits else None
    if node.kind is TypeKind.BOOLEAN:
        return pc.sum(array).as_py() or 0
    if node.kind in LENGTH_KINDS:
        return pc.sum(pc.binary_length(array)).as_py() or 0
    return None
