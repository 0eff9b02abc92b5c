"""Readers of dates and timestamps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from orcidx.errors import ValueOutOfRange
from orcidx.options import ReadOptions
from orcidx.orc import tested_values, timestamps
from orcidx.orc.calendars import GREGORIAN_START, proleptic_days
from orcidx.orc.columns.base import Fixed, StripeStreams, allocate
from orcidx.orc.columns.numbers import Integers
from orcidx.orc.int_rle import IntRle
from orcidx.orc.kept_rows import Mask
from orcidx.orc.kinds import StreamKind
from orcidx.orc.metadata import FileFacts, TypeKind
from orcidx.orc.streams import PositionIterator
from orcidx.orc.timezones import DAY_SECONDS, HINT_SECONDS, HINTS_FROM, ORC_EPOCH, chosen_zone, clock_zone
from orcidx.orc.types import OrcType

__all__ = ["Dates", "Timestamps"]

LABELS_MAY_DIFFER = (GREGORIAN_START + 2) * DAY_SECONDS
"""Instants before this may be before the start of the Gregorian calendar in some time zone."""
PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
MEAN_TIMES = -2208988800
"""1900-01-01 in seconds since 1970. ORC Java computes with java.util, which has no local mean times before this date.
Spark computes with java.time, which has them. Spark keeps the local date and time when it converts between the two."""
BLOCK_VALUES = 1 << 14
"""The number of values that are held between the streams and the output, in two buffers of int64."""
EXACT = pa.decimal128(38, 0)
"""Nanoseconds since 1970 for any year. Predicates compare timestamps in this type if they do not fit into 64 bits."""


class Dates(Integers):
    """DATE: days since 1970. In files with the hybrid calendar the days are converted to the proleptic calendar."""

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        early = timestamps.read_days(self._data, view.cast("i"), count, GREGORIAN_START, streaming=streaming)
        self._move(view, count, early=early)

    def _read_dense_kept(self, view: memoryview, mask: Mask) -> None:
        early = timestamps.read_kept_days(self._data, view.cast("i"), mask, GREGORIAN_START)
        self._move(view, mask.count, early=early)

    def _dense_within(self, found: memoryview, low: int, high: int) -> None:
        move = _to_proleptic if self.facts.moves_days(self.options) else None
        tested_values.days_within(self._data, found, low, high, GREGORIAN_START, move)

    def _move(self, view: memoryview, count: int, *, early: bool) -> None:
        """Converts days to the proleptic calendar if the file has the hybrid calendar. ``early``: whether some days may
        be before the switch of calendars."""
        if early and self.facts.moves_days(self.options):
            _to_proleptic(view[: count * self.width])


def _to_proleptic(view: memoryview) -> None:
    """Converts days of the hybrid calendar to the proleptic calendar. The conversion cannot overflow, because it makes
    the oldest days later, and no day more than ten days earlier."""
    days = np.frombuffer(view, np.int32)
    days[:] = proleptic_days(days)


class Timestamps(Fixed):
    """Reads TIMESTAMP as the local time in the writer's zone. With ``wall_clock_zone``, reads it as the instant that
    has this local time in another zone. Reads TIMESTAMP_INSTANT in UTC.

    ``exact``: whether to read decimal128(38, 0) of nanoseconds instead of the unit in the options.
    """

    width = 8

    def __init__(
        self, node: OrcType, streams: StripeStreams, options: ReadOptions, facts: FileFacts, *, exact: bool = False
    ) -> None:
        super().__init__(node, streams, options, facts)
        self._exact = exact
        if exact:
            self.width = 16
            self.arrow_type = EXACT
        version = self.run_length_version
        self._seconds = IntRle(streams.window(node.id, StreamKind.DATA), version=version, signed=True)
        self._nanos = IntRle(streams.window(node.id, StreamKind.SECONDARY), version=version, signed=False)
        zone = clock = None
        if node.kind is TypeKind.TIMESTAMP:
            zone = chosen_zone(options.timezone, streams.writer_timezone)
            clock = clock_zone(options)
        self._start = ORC_EPOCH if zone is None else zone.epoch
        self._zone = None if zone is None or zone.is_utc else zone
        self._clock = None if clock is None or clock.is_utc else clock
        self._stays = clock is not None and zone is not None and zone.same_rules(clock)

    def _seek_values(self, mine: PositionIterator, positions: Mapping[int, PositionIterator]) -> None:
        self._seconds.seek(mine)
        self._nanos.seek(mine)

    def _skip_values(self, count: int) -> None:
        self._seconds.skip(count)
        self._nanos.skip(count)

    def _read_dense(self, view: memoryview, count: int, *, streaming: bool) -> None:
        _, first = allocate(min(count, BLOCK_VALUES) * 8)
        _, second = allocate(min(count, BLOCK_VALUES) * 8)
        for start in range(0, count, BLOCK_VALUES):
            stop = min(count, start + BLOCK_VALUES)
            out = view[start * self.width : stop * self.width]
            self._read_block(first.cast("q"), second.cast("q"), out, stop - start)

    def _read_block(self, seconds: memoryview, nanos: memoryview, out: memoryview, count: int) -> None:
        self._seconds.read(seconds, count)
        self._nanos.read(nanos, count)
        earliest = timestamps.decode(seconds, nanos, count, self._start)
        if self._clock is None:
            self._show(seconds, count, earliest)
        elif not self._stays or earliest < MEAN_TIMES:
            values = np.frombuffer(seconds, np.int64, count)
            decoded = values.copy()
            self._show(seconds, count, earliest)
            moved = self._clock.instants_of(values, decoded)
            values[:] = np.where(decoded < MEAN_TIMES, moved, decoded) if self._stays else moved
        if self._exact:
            timestamps.combine_exactly(seconds, nanos, count, out)
            return
        bad = timestamps.combine(seconds, nanos, count, PER_SECOND[self.options.timestamp_unit], out.cast("q"))
        if bad >= 0:
            raise ValueOutOfRange(
                f"a timestamp {seconds[bad]} seconds from 1970 does not fit timestamp[{self.options.timestamp_unit}]; "
                f"read with timestamp_unit={'us' if self.options.timestamp_unit == 'ns' else 's'!r}"
            )

    def _show(self, seconds: memoryview, count: int, earliest: int) -> None:
        """Converts instants to local times in the writer's zone, in the proleptic calendar."""
        if self._zone is not None:
            timestamps.to_wall_clock(
                seconds,
                count,
                transitions=self._zone.transitions,
                offsets=self._zone.offsets,
                hints=self._zone.hints,
                hints_from=HINTS_FROM,
                hint_seconds=HINT_SECONDS,
                repeats_from=self._zone.repeats_from,
            )
        if earliest < LABELS_MAY_DIFFER and self.facts.moves_days(self.options):
            values = np.frombuffer(seconds, np.int64, count)
            days = values // DAY_SECONDS
            values += (proleptic_days(days) - days) * DAY_SECONDS
