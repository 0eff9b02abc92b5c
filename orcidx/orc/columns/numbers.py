"""Readers of booleans, integers, floats and decimals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc import decimals, kept_decimals, nulls, tested_values
from orcidx.orc.byte_rle import BooleanRle, ByteRle, RawBytes
from orcidx.orc.columns.base import (
    ColumnReader,
    Fixed,
    KeepsWhileDecoding,
    Pick,
    Present,
    StripeStreams,
    allocate,
    bitmap_size,
)
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts, TypeKind
from orcidx.orc.streaming_store import integers_use_streaming
from orcidx.orc.streams import PositionIterator, is_decimal64
from orcidx.orc.types import OrcType, decimal_digits

__all__ = ["Booleans", "Bytes", "Decimals", "Floats", "Integers"]

_WIDTHS: dict[TypeKind, tuple[int, Literal["h", "i", "q"]]] = {
    TypeKind.SHORT: (2, "h"),
    TypeKind.INT: (4, "i"),
    TypeKind.LONG: (8, "q"),
    TypeKind.DATE: (4, "i"),
}

BLOCK_BYTES = 1 << 16
"""The size of a block of floats if only some of them are kept. A block of this size stays in the processor's cache
until its kept values are copied."""

_STREAMING_INTEGERS = integers_use_streaming()


class Integers(KeepsWhileDecoding):
    """Reads SHORT, INT and LONG from a signed run-length stream. Values wrap around to the width of the type, as in ORC
    Java and C++."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self.width, self._format = _WIDTHS[node.kind]
        window = streams.window(node.id, StreamKind.DATA)
        self._data = IntRle(window, version=self.run_length_version, signed=True)

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        self._data.read(view.cast(self._format), count, streaming=streaming and _STREAMING_INTEGERS)

    def _read_dense_kept(self, view: memoryview, mask: Mask) -> None:
        self._data.read_kept(view.cast(self._format), mask)

    def _dense_within(self, found: memoryview, low: int, high: int) -> None:
        tested_values.integers_within(self._data, found, self.width, low, high)


class Bytes(Fixed):
    """Reads BYTE, which is stored as byte runs."""

    width = 1

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._data = ByteRle(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        self._data.read(view, count)


class Floats(KeepsWhileDecoding):
    """FLOAT and DOUBLE: IEEE values in little-endian order, without runs."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self.width = 4 if node.kind is TypeKind.FLOAT else 8
        self._data = RawBytes(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count * self.width)

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        self._data.read_into(view)

    def _read_dense_kept(self, view: memoryview, mask: Mask) -> None:
        _, block = allocate(min(mask.rows * self.width, BLOCK_BYTES))
        self._data.read_kept(view, self.width, mask, block)


class Booleans(ColumnReader):
    """Reads BOOLEAN, which is stored as bits in byte runs."""

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._data = BooleanRle(streams.window(node.id, StreamKind.DATA))

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._data.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._data.skip(count)

    def _read_values(self, present: Present) -> pa.Array:
        buffer, view = self.allocate(bitmap_size(present.count))
        if present.count:
            self._data.read_bits(view, 0, present.count)
        if present.bits is not None:
            buffer, out = self.allocate(bitmap_size(present.rows))
            nulls.nest_bits(view, present.view, present.rows, out)
        return pa.Array.from_buffers(self.arrow_type, present.rows, [present.bits, buffer], present.nulls)


class Decimals(KeepsWhileDecoding):
    """DECIMAL: unscaled varints, each with a scale. In decimal64 files the values are integers with the type's
    scale."""

    width = 16

    def __init__(self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts) -> None:
        super().__init__(node, streams, options, facts)
        self._precision, self._scale = decimal_digits(node, options)
        # Hive 0.11 wrote decimals of any scale with precision 0. In such columns, digits beyond the scale are cut off,
        # and no error is raised.
        exempt = node.precision == 0 and options.decimal_rounding == "error"
        self._rounding = "truncate" if exempt else options.decimal_rounding
        window = streams.window(node.id, StreamKind.DATA)
        self._values = RawBytes(window)
        self._integers: IntRle | None = None
        self._scales: IntRle | None = None
        if is_decimal64(node, decimal64=facts.decimal64):
            self._integers = IntRle(window, version=2, signed=True)
        else:
            scales = streams.window(node.id, StreamKind.SECONDARY)
            self._scales = IntRle(scales, version=self.run_length_version, signed=True)

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        if self._integers is not None:
            self._integers.seek(mine)
            return
        assert self._scales is not None
        self._values.seek(mine)
        self._scales.seek(mine)

    def _skip_values(self, count: int) -> None:
        if self._integers is not None:
            self._integers.skip(count)
            return
        assert self._scales is not None
        decimals.skip_varints(self._values.window, count)
        self._scales.skip(count)

    def narrow(self) -> None:
        """Makes the reader decode values to 64 bits, which have room for 18 digits. The reader still claims as many
        bytes as for 128 bits."""
        self.width = 8
        self.arrow_type = pa.decimal64(self._precision, self._scale)

    def _read_values(self, present: Present) -> pa.Array:
        if self.width == 8:
            self.limits.claim(present.rows * 8)
        return super()._read_values(present)

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        if self.width == 8:
            self._read_narrow(view.cast("q"), count)
            return
        if self._integers is not None:
            decimals.read_short_decimals(self._integers, view, count, scale=self._scale, precision=self._precision)
            return
        assert self._scales is not None
        decimals.read_decimals(
            self._values.window,
            self._scales,
            view,
            count,
            scale=self._scale,
            precision=self._precision,
            rounding=self._rounding,
            streaming=streaming,
        )

    def _read_dense_kept(self, view: memoryview, mask: Mask) -> None:
        digits: dict[str, int] = {"scale": self._scale, "precision": self._precision}
        if self._integers is not None:
            kept_decimals.read_kept_short_decimals(self._integers, view, mask, **digits)
            return
        assert self._scales is not None
        window = self._values.window
        kept_decimals.read_kept_decimals(window, self._scales, view, mask, rounding=self._rounding, **digits)

    def _read_kept(self, present: Present, mask: Mask, pick: Pick) -> pa.Array:
        if self.width == 8:
            return pick(self._read_values(present))
        return super()._read_kept(present, mask, pick)

    def _read_narrow(self, view: memoryview, count: int) -> None:
        digits: dict[str, int] = {"scale": self._scale, "precision": self._precision}
        if self._integers is not None:
            decimals.read_narrow_short_decimals(self._integers, view, count, **digits)
            return
        assert self._scales is not None
        window = self._values.window
        decimals.read_narrow_decimals(window, self._scales, view, count, rounding=self._rounding, **digits)

    def _dense_within(self, found: memoryview, low: int, high: int) -> None:
        digits: dict[str, int] = {"scale": self._scale, "precision": self._precision}
        if self._integers is not None:
            tested_values.short_decimals_within(self._integers, found, low, high, **digits)
            return
        assert self._scales is not None
        window = self._values.window
        tested_values.decimals_within(window, self._scales, found, low, high, rounding=self._rounding, **digits)
