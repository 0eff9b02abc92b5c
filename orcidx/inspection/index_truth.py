"""Compares statistics and bloom filters with decoded values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import CorruptFile, Unsupported
from orcidx.inspection.measure import LENGTH_KINDS, Measured, columns_below, compared_bytes, measure
from orcidx.inspection.runs import HeldBytes, stored_bytes
from orcidx.inspection.sizes import BLOOM_KINDS
from orcidx.options import ReadOptions
from orcidx.orc.bloom import BloomFilters, hash_byte_strings, hash_integers
from orcidx.orc.bloom_keys import distrust_bloom, literal_hashes, may_wrap, surely_fits
from orcidx.orc.bounds import bound_statistics
from orcidx.orc.kinds import STREAM_NAMES, TypeKind
from orcidx.orc.metadata import unframe
from orcidx.orc.python_values import python_values
from orcidx.orc.reader import OrcReader
from orcidx.orc.row_index import RowIndex
from orcidx.orc.statistics import RawStatistics, unit_statistics
from orcidx.orc.timezones import Zone, zone_of_statistics
from orcidx.orc.types import INTEGER_KINDS, STRING_KINDS, OrcType
from orcidx.orc.wire import split_messages
from orcidx.orc_writer.messages import blob

__all__ = ["StripeTruth", "statistics_problems", "stripe_zone"]

_NO_LIMIT = 1 << 62
EARLY_LAYOUT = "the filter has a layout from before the format was final"
"""The reason that ``orc/bloom`` gives for filters that no reader uses."""

FoundDefect = tuple[str, str, int | None, str]


def statistics_problems(
    reader: OrcReader, raw: RawStatistics, measured: Sequence[Measured], options: ReadOptions, zone: Zone | None
) -> Iterator[tuple[int, str]]:
    """Yields a pair (number, problem) for each stripe, row group or file in which the statistics of a column contradict
    its values. ``measured`` has the measures of the values of each of these units. ``zone`` is the time zone in which
    the statistics store local times."""
    # A column inside lists can have more values than the stripe has rows. This is not damage, so the number of values
    # is not limited here.
    unlimited = replace(raw, rows=np.full(len(raw), _NO_LIMIT, np.int64))
    bounds = bound_statistics(unlimited, reader.facts, options, zone=zone)
    starts, stops = raw.extents
    hybrid = reader.facts.hybrid_calendar
    for unit, found in enumerate(measured):
        if unit >= len(raw) or starts[unit] == stops[unit]:
            continue
        for text in _wrong_counts(raw, unit, found, hybrid=hybrid, options=options):
            yield unit, text
        sides = (("minimum", bounds.lower, found.low, 1), ("maximum", bounds.upper, found.high, -1))
        for name, bound, value, sign in sides:
            if value is not None and bound.valid[unit] and bound.compare(value)[unit] == sign:
                yield unit, f"the {name} is {_shown(bound.value(unit))}, but the values include {_shown(value)}"


def _wrong_counts(
    raw: RawStatistics, unit: int, found: Measured, *, hybrid: bool, options: ReadOptions
) -> Iterator[str]:
    known = unit_statistics(raw, unit, hybrid=hybrid)
    if known.count == 0 and known.has_null is False:
        return  # 0 values and no nulls mean that there are no statistics (HIVE-20604)
    if known.count is not None and known.count != found.count:
        yield f"the count of values is {known.count:,}, but there are {found.count:,} values"
    if known.has_null is False and found.slots > found.count:
        yield f"the statistics exclude nulls, but there are {found.slots - found.count:,} nulls"
    if found.total is None or (options.utf8 == "replace" and raw.node.kind in STRING_KINDS):
        return  # with utf8="replace", a text that was read may be longer than the stored text
    if raw.node.kind is TypeKind.BOOLEAN and known.true_count is not None and known.true_count != found.total:
        yield f"the count of true values is {known.true_count:,}, but there are {found.total:,}"
    if raw.node.kind in INTEGER_KINDS | LENGTH_KINDS and known.sum is not None and known.sum != found.total:
        yield f"the stored sum is {known.sum:,}, but the sum of the values is {found.total:,}"


def _shown(value: Any) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return repr(text if len(text) <= 80 else f"{text[:80]}…") if isinstance(value, bytes) else text


def stripe_zone(reader: OrcReader, stripe: int) -> Zone | None:
    """Returns the time zone of the local times in a stripe's statistics and filters. The result is None if orcidx does
    not know the zone."""
    return zone_of_statistics(reader.footer(stripe).writer_timezone)


class StripeTruth:
    """Measures the values of one stripe, and looks up each of them in the bloom filters. ``problems`` has tuples (what,
    text, row group, column)."""

    def __init__(
        self, reader: OrcReader, stripe: int, index: RowIndex, options: ReadOptions, *, held: HeldBytes | None = None
    ) -> None:
        self.reader = reader
        self.stripe = stripe
        self.problems: list[FoundDefect] = []
        self._index = index
        self._options = options
        self._zone = stripe_zone(reader, stripe)
        self._filters: dict[int, list[tuple[str, list[BloomFilters]]]] = {}
        for node in reader.root.walk():
            for kind in BLOOM_KINDS:
                if (place := reader.extents(stripe).get((node.id, kind))) is not None:
                    self._open(node, kind, place, held)

    def _open(self, node: OrcType, kind: int, place: tuple[int, int], held: HeldBytes | None) -> None:
        reader, encoding = self.reader, self.reader.footer(self.stripe).encodings[node.id]
        name = STREAM_NAMES[kind]
        try:
            stored = stored_bytes(reader, place[0], place[1], held)
            raw = unframe(stored, reader.tail.postscript, name=name, limits=reader.tail.limits)
            starts, stops = split_messages(raw, 1, name)
            filters = [BloomFilters(blob(1, raw[start:stop])) for start, stop in zip(starts.tolist(), stops.tolist())]
        except (CorruptFile, Unsupported) as error:
            self.problems.append(("bloom filter", error.message, None, node.dotted))
            return
        if len(filters) != self._index.groups and self._index.columns:
            text = f"there are {len(filters)} filters for {self._index.groups} row groups"
            self.problems.append(("bloom filter", text, None, node.dotted))
            return
        for group, one in enumerate(filters):
            if one.reasons and one.reasons[0] and one.reasons[0] != EARLY_LAYOUT:
                self.problems.append(("bloom filter", one.reasons[0], group, node.dotted))
        if distrust_bloom(kind, node, encoding, reader.facts, self._options) is None and self._fits(node):
            self._filters.setdefault(node.id, []).append((name, filters))

    def _fits(self, node: OrcType) -> bool:
        """Whether the decoded values are equal to the values that the writer hashed. They can differ if a value is
        outside the range of the type."""
        if not may_wrap(node, self.reader.facts):
            return True
        column = self._index.columns.get(node.id)
        return column is not None and bool(
            surely_fits(bound_statistics(column.statistics, self.reader.facts, self._options)).all()
        )

    def measure(
        self, node: OrcType, group: int, pieces: Iterable[pa.Array], measured: dict[int, list[Measured]]
    ) -> pa.Array | None:
        """Measures the values of a row group of a column and its children, and adds the measures to ``measured``.
        Returns the values of the column as one array, or None if ``pieces`` is empty."""
        arrays, found = [], dict[int, Measured]()
        for piece in pieces:
            arrays.append(piece)
            for one, values in columns_below(node, piece):
                facts = measure(one, values)
                found[one.id] = facts if one.id not in found else found[one.id].joined(facts)
                for name, filters in self._filters.get(one.id, ()):
                    self._ask(one, values, group, name, filters)
        for column, facts in found.items():
            measured.setdefault(column, []).append(facts)
        return pa.concat_arrays(arrays) if arrays else None

    def _ask(self, node: OrcType, values: pa.Array, group: int, name: str, filters: list[BloomFilters]) -> None:
        distinct = pc.unique(values.drop_null())
        if group >= len(filters) or not len(distinct) or filters[group].reasons[0]:
            return
        missing = self._missing(node, distinct, filters[group])
        if len(missing):
            (value,), count = python_values(distinct.slice(int(missing[0]), 1)), len(missing)
            text = f"{name} lacks {count:,} of {len(distinct):,} values, such as {_shown(value)}"
            self.problems.append(("bloom filter", text, group, node.dotted))

    def _missing(self, node: OrcType, distinct: pa.Array, filters: BloomFilters) -> Any:
        """Returns the positions of the values that the filter does not contain."""
        hashes = _usual_hashes(node, distinct)
        places = list(range(len(distinct)))
        if hashes is not None:
            places = np.flatnonzero(~filters.may_contain(hashes)[0]).tolist()
        return self._missing_literals(node, distinct, filters, places)

    def _missing_literals(
        self, node: OrcType, distinct: pa.Array, filters: BloomFilters, places: Sequence[int]
    ) -> list[int]:
        """Returns the positions of the values for which the filter contains none of the keys that a reader would look
        up."""
        if node.kind is TypeKind.DATE:
            distinct = distinct.cast(pa.int32())
        missing = []
        for place, value in zip(places, distinct.take(pa.array(places, pa.int64())).to_pylist()):
            keys = literal_hashes(node, _literal(node, value), self.reader.facts, self._options, zone=self._zone)
            if keys and not filters.may_contain(np.array(keys, np.int64)).any():
                missing.append(place)
        return missing


def _usual_hashes(node: OrcType, distinct: pa.Array) -> Any:
    """Returns the keys that most writers use for the values, computed for all values at once. The result is None if
    each value must be looked up separately. If a filter does not contain the key of a value, the value is looked up
    again separately."""
    if node.kind in INTEGER_KINDS:
        return hash_integers(distinct.cast(pa.int64()).to_numpy(zero_copy_only=False).copy())
    if node.kind is TypeKind.DATE:
        return hash_integers(distinct.cast(pa.int32()).cast(pa.int64()).to_numpy(zero_copy_only=False).copy())
    if node.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return hash_integers(distinct.cast(pa.float64()).to_numpy(zero_copy_only=False).copy().view(np.int64))
    if node.kind in (TypeKind.STRING, TypeKind.VARCHAR) and pa.types.is_string(distinct.type):
        offsets = np.frombuffer(distinct.buffers()[1], np.int32, len(distinct) + 1, distinct.offset * 4)
        return hash_byte_strings(offsets.astype(np.int64), distinct.buffers()[2] or b"")
    if node.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        try:
            nanos = distinct.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # the value does not fit in 64 bits
            return None
        return hash_integers(nanos // 1_000_000)
    return None


def _literal(node: OrcType, value: Any) -> Any:
    if isinstance(value, str):
        return compared_bytes(node, value)
    return int(value) if node.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT) else value
