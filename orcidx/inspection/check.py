"""Checks a complete file. Every value is decoded twice: once in order, and once from the stored positions of its row
group. Statistics, bloom filters and the lengths of streams are compared with the values.

Indexes are checked by the rules of the reader (``orc/bounds``, ``orc/bloom_keys``). If the reader does not trust an
index because of the file's writer, the index is not reported as a problem. An index that the reader trusts must be
correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.errors import CorruptFile, OrcidxError, StorageError, Unsupported, ValueOutOfRange
from orcidx.inspection.holes import describe_hole, find_hole
from orcidx.inspection.index_truth import StripeTruth, statistics_problems, stripe_zone
from orcidx.inspection.measure import Measured
from orcidx.inspection.runs import HeldBytes, stripe_streams
from orcidx.inspection.unowned import Unowned, unowned_stretches
from orcidx.options import USUAL_OPTIONS, ReadOptions
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.file_statistics import read_row_index
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata_limits import MetadataLimits
from orcidx.orc.python_values import python_values
from orcidx.orc.reader import OpenStripe, OrcReader, stripe_limits
from orcidx.orc.row_index import RowIndex, usual_bounds
from orcidx.orc.statistics import RawStatistics, file_statistics, stripe_statistics
from orcidx.orc.timezones import Zone
from orcidx.orc.types import OrcType
from orcidx.scanner.column_group import ColumnGroup
from orcidx.storage import Source

__all__ = ["FileCheck", "Problem", "check_file"]

STRIPES_AT_ONCE = 100
"""The number of stripes whose statistics are compared together. If small stripes were compared one by one, the
comparison would take half of the time of the check."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """A problem in a file. ``what`` is "file", "tail", "stripe footer", "row index", "data", "positions", "statistics",
    "bloom filter", "length" or "zeros". The kind "zeros" means a range of zeros in a file with other problems. The
    other attributes give the place as exactly as it is known."""

    what: str
    text: str
    stripe: int | None = None
    row_group: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        places = (("stripe", self.stripe), ("row group", self.row_group), ("column", self.column))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        return f"{self.what}{f' ({where})' if where else ''}: {self.text}"


@dataclass(frozen=True)
class FileCheck:
    """The result of checking a file. ``broken`` has each (stripe, row group) in which a value could not be decoded.
    ``unowned`` has bytes that belong to no part of the file. Such bytes are unusual but not a problem."""

    file: str
    bytes: int
    rows: int
    stripes: int
    row_groups: int
    problems: tuple[Problem, ...]
    broken: frozenset[tuple[int, int]] = frozenset()
    unowned: tuple[Unowned, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def disproved(self) -> frozenset[tuple[int, int]]:
        """Each (stripe, row group) whose statistics contradict the decoded values. Either the statistics or the values
        may be damaged."""
        return frozenset(
            (problem.stripe, problem.row_group)
            for problem in self.problems
            if problem.what == "statistics" and problem.stripe is not None and problem.row_group is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        names = ("file", "ok", "bytes", "rows", "stripes", "row_groups")
        problems = [dict(problem.__dict__) for problem in self.problems]
        unowned = [{**one.__dict__, "text": one.text} for one in self.unowned]
        return {**{name: getattr(self, name) for name in names}, "problems": problems, "unowned": unowned}


def check_file(
    source: Source, *, options: ReadOptions | None = None, on_stripe: Callable[[int, int], None] | None = None
) -> FileCheck:
    """Checks a file. ``on_stripe`` is called with the number of each finished stripe and the number of all stripes.
    ``options`` has limits. It also says how invalid UTF-8, and decimals with too many digits, are read. Damage is
    part of the result and raises no exception. Raises ``StorageError`` and OSErrors if bytes cannot be read."""
    asked = options or USUAL_OPTIONS
    options = asked.override(
        strings="string", timestamp_unit="ns", timestamp_ntz=False, timezone=None, wall_clock_zone=None, char="stored",
        utf8="strict" if asked.utf8 == "strict" else "replace", calendar="proleptic", encrypted="masked",
        row_index=True, bloom_filters=True,
    )  # fmt: skip
    storage = source.open(options)
    with closing(storage):
        try:
            reader = OrcReader(storage, MetadataLimits.of(options))
        except StorageError:
            raise
        except OrcidxError as error:
            return FileCheck(source.name, storage.size(), 0, 0, 0, (Problem("tail", error.message),))
        if reader.tail.size == 0:
            text = "the file is empty (zero bytes); it may be incomplete"
            return FileCheck(source.name, 0, 0, 0, 0, (Problem("file", text),))
        return replace(_Check(reader, options, asked.timezone).run(on_stripe), file=source.name)


class _Check:
    """Checks one file."""

    def __init__(self, reader: OrcReader, options: ReadOptions, unknown_zone: str | None) -> None:
        self.reader = reader
        self.options = options
        self.unknown_zone = unknown_zone
        """The time zone for reading a stripe if orcidx does not know the zone that the stripe names."""
        self.problems: list[Problem] = []
        self.broken: set[tuple[int, int]] = set()
        self.groups = 0
        root = reader.root
        self.columns = root.children if root.kind is TypeKind.STRUCT else (root,)
        encryption = reader.tail.footer.encryption
        roots = set() if encryption is None else set(encryption.roots)
        self.masked = frozenset[int]().union(*(node.ids for node in root.walk() if node.id in roots))
        """Columns whose values are read in masked form. Their indexes describe the real values."""
        self.file: dict[int, Measured | None] = {}
        self.measured: dict[int, list[tuple[int, Measured]]] = {}
        """For each column, the stripes whose statistics have not been compared yet."""

    def run(self, on_stripe: Callable[[int, int], None] | None) -> FileCheck:
        reader = self.reader
        for stripe in range(len(reader.stripes)):
            self._stripe(stripe)
            if stripe % STRIPES_AT_ONCE == STRIPES_AT_ONCE - 1 or stripe == len(reader.stripes) - 1:
                self._whole_stripes()
            if on_stripe is not None:
                on_stripe(stripe, len(reader.stripes))
        for node in reader.root.walk():
            measured = self.file.get(node.id)
            if measured is not None:
                self._statistics(node, [measured], partial(file_statistics, reader.tail, node))
        if self.problems and (hole := find_hole(reader.storage)) is not None:
            self._found("zeros", describe_hole(hole), None)
        tail = reader.tail
        return FileCheck(
            reader.name,
            tail.size,
            tail.footer.rows,
            len(reader.stripes),
            self.groups,
            tuple(self.problems),
            frozenset(self.broken),
            tuple(unowned_stretches(reader)),
        )

    def _found(self, what: str, text: str, stripe: int | None, group: int | None = None, column: str = "") -> None:
        self.problems.append(Problem(what, text, stripe, group, column or None))

    # ------------------------------------------------------------------ a stripe

    def _stripe(self, stripe: int) -> None:
        reader = self.reader
        bounds = usual_bounds(reader.tail, stripe)
        try:
            reader.footer(stripe)
            index: RowIndex | None = read_row_index(reader, stripe, reader.root.walk())
        except (CorruptFile, Unsupported) as error:
            self._found("stripe footer", error.message, stripe)
            self.broken |= {(stripe, group) for group in range(len(bounds) - 1)}
            self.file = dict.fromkeys((node.id for node in reader.root.walk()), None)
            return
        assert index is not None
        for column in index.untrusted.keys() - self.masked:
            reason = index.untrusted[column]
            self._found("row index", reason, stripe, column=self._name(column))
        if index.columns:
            bounds = index.bounds
        self.groups += len(bounds) - 1
        information = reader.stripes[stripe]
        length = information.footer_offset - information.offset
        (held,) = reader.storage.read_ranges([(information.offset, length)])
        whole = (information.offset, memoryview(held).cast("B"))
        truth = StripeTruth(reader, stripe, index, self.options, held=whole)
        counted: dict[int, tuple[int, int]] = {}
        for node in self.columns:
            counted |= self._column(stripe, node, index, bounds, whole, truth)
        self._lengths(stripe, counted, whole)
        for what, text, place, name in truth.problems:
            self._found(what, text, stripe, place, name)

    def _name(self, column: int) -> str:
        return next((node.dotted for node in self.reader.root.walk() if node.id == column), str(column))

    def _column(
        self,
        stripe: int,
        node: OrcType,
        index: RowIndex,
        bounds: Int64s,
        held: HeldBytes,
        truth: StripeTruth,
    ) -> dict[int, tuple[int, int]]:
        """Checks a column and its children. Returns for each column id the number of values, and the number of slots
        (values and nulls). Damaged columns are left out."""
        unseekable = index.unseekable(node.ids)
        # Only row groups after the first one are read a second time, from the positions in the row index.
        several = len(bounds) > 2
        if unseekable is not None and node.ids <= index.columns.keys():
            self._found("positions", unseekable, stripe, column=node.dotted)
        measured: dict[int, list[Measured]] = {}
        group = 0
        try:
            ahead = self._open(stripe, node, bounds, held, index if unseekable is None else None)
            again = self._open(stripe, node, bounds, held, index) if unseekable is None and several else None
            for group, (start, stop) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist())):
                whole = truth.measure(node, group, _pieces(ahead, stop - start), measured)
                if again is not None and group and not self._same(again, whole, start, stop):
                    text = (
                        "the values read from the row index's position differ from those read from the stripe's start"
                    )
                    self._found("positions", text, stripe, group, node.dotted)
        except (CorruptFile, Unsupported, ValueOutOfRange) as error:
            stream = f" (stream {error.stream}, offset {error.offset})" if error.stream else ""
            self._found("data", f"{error.message}{stream}", stripe, group, error.column or node.dotted)
            self.broken |= {(stripe, after) for after in range(group, len(bounds) - 1)}
            for one in node.walk():
                self.file[one.id] = None
            return {}
        for one in node.walk():
            found = measured.get(one.id)
            if found is not None:
                self._levels(stripe, one, found, index)
        return {
            column: (sum(one.count for one in groups), sum(one.slots for one in groups))
            for column, groups in measured.items()
        }

    def _open(self, stripe: int, node: OrcType, bounds: Int64s, held: HeldBytes, index: RowIndex | None) -> ColumnGroup:
        limits = stripe_limits(self.reader.stripes[stripe], self.options)
        opened = OpenStripe(self.reader, stripe, index=index, read_ahead=0, limits=limits, held=held)
        options = self.options
        if stripe_zone(self.reader, stripe) is None:
            options = options.override(timezone=self.unknown_zone)
        return ColumnGroup(opened, [node], [options], exact_times=[True], bounds=bounds, use_threads=False)

    def _same(self, group: ColumnGroup, expected: pa.Array | None, start: int, stop: int) -> bool:
        if expected is None:
            return True
        try:
            # Without ``lose_place``, a group that is already at this row would not seek by the row index.
            group.lose_place()
            group.seek(start)
            found = pa.concat_arrays(list(_pieces(group, stop - start)))
        except (CorruptFile, Unsupported, ValueOutOfRange):
            return False
        return bool(found.equals(expected)) or repr(python_values(found)) == repr(python_values(expected))

    # ------------------------------------------------------------------ comparing statistics and lengths

    def _levels(self, stripe: int, node: OrcType, groups: list[Measured], index: RowIndex) -> None:
        """Compares the statistics of row groups. Also combines the measured values of row groups for the statistics of
        the stripe and the file."""
        if node.id in index.columns:
            self._statistics(node, groups, lambda: index.columns[node.id].statistics, [stripe] * len(groups))
        whole = groups[0] if groups else Measured(0, 0)
        for more in groups[1:]:
            whole = whole.joined(more)
        self.measured.setdefault(node.id, []).append((stripe, whole))
        before = self.file.get(node.id, Measured(0, 0))
        self.file[node.id] = None if before is None else before.joined(whole)

    def _whole_stripes(self) -> None:
        """Compares the statistics of the stripes that were measured since the last call."""
        for node in self.reader.root.walk():
            zones: dict[Zone | None, list[tuple[int, Measured]]] = {}
            for stripe, found in self.measured.pop(node.id, ()):
                zones.setdefault(stripe_zone(self.reader, stripe), []).append((stripe, found))
            for units in zones.values():
                self._stripes_alike(node, units)

    def _stripes_alike(self, node: OrcType, units: list[tuple[int, Measured]]) -> None:
        stripes, measured = [stripe for stripe, _ in units], [found for _, found in units]
        try:
            raw = stripe_statistics(self.reader.tail, node, stripes=stripes)
        except (CorruptFile, Unsupported) as error:
            if len(units) == 1:
                self._found("statistics", error.message, stripes[0], column=node.dotted)
            # Perhaps only one of several stripes is damaged. So each stripe is then checked separately.
            for unit in units if len(units) > 1 else ():
                self._stripes_alike(node, [unit])
            return
        self._statistics(node, measured, lambda: raw, stripes)

    def _statistics(
        self, node: OrcType, measured: list[Measured], read: Callable[[], RawStatistics], stripes: Sequence[int] = ()
    ) -> None:
        """Compares statistics with measured values. For each element of ``measured``, ``stripes`` has the number of the
        stripe. ``stripes`` is empty for the statistics of the file."""
        try:
            raw = read()
        except (CorruptFile, Unsupported) as error:
            self._found("statistics", error.message, None, column=node.dotted)
            return
        zone = stripe_zone(self.reader, stripes[0]) if stripes else None
        for unit, text in statistics_problems(self.reader, raw, measured, self.options, zone):
            group = unit if raw.level == "row_group" else None
            self._found("statistics", text, stripes[unit] if stripes else None, group, node.dotted)

    def _lengths(self, stripe: int, counted: dict[int, tuple[int, int]], held: HeldBytes) -> None:
        """Checks each stream that consists of runs. The stream must have as many values as the column, and must not end
        in the middle of a run. ``counted`` has for each column id the number of values, and the number of slots (values
        and nulls)."""
        kinds = {node.id: node.kind for node in self.reader.root.walk()}
        for stream in stripe_streams(self.reader, stripe, frozenset(counted), held=held):
            expected = _expected_values(stream.kind, stream.encoding, kinds[stream.column_id])
            if stream.damage is not None:
                self._found("length", f"stream {stream.kind}: {stream.damage}", stripe, column=stream.column)
            elif expected is not None and stream.values is not None:
                wanted = expected(*counted[stream.column_id])
                if stream.values != wanted:
                    text = f"stream {stream.kind} has {stream.values:,} values instead of {wanted:,}"
                    self._found("length", text, stripe, column=stream.column)


def _expected_values(kind: str, encoding: str, of: TypeKind) -> Callable[[int, int], int] | None:
    if kind == "PRESENT":
        return lambda count, slots: -(-slots // 8)
    if kind == "LENGTH" and encoding.startswith("DICTIONARY"):
        return None
    if kind == "DATA" and of is TypeKind.BOOLEAN:
        return lambda count, slots: -(-count // 8)
    return lambda count, slots: count


def _pieces(group: ColumnGroup, rows: int) -> Iterator[pa.Array]:
    """Reads the next rows as one or more arrays. Each array has fewer rows if a batch would exceed the limit on its
    bytes."""
    at_once = rows
    while rows:
        at_once = min(at_once, rows)
        try:
            (array,) = group.read(at_once)
        except BatchTooLarge:
            at_once = max(1, at_once // 2)
            continue
        rows -= at_once
        yield array
