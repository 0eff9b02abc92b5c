"""``UnitTotals``: totals of one file, from decoded rows and from the statistics of units. A unit is the file, a stripe
or a row group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.aggregation.column_totals import ColumnTotals, Wanted, wanted_of
from orcidx.aggregation.exact_sums import numbers_sum
from orcidx.aggregation.functions import Aggregate
from orcidx.aggregation.groups import GroupTotals
from orcidx.aggregation.value_forms import form_of
from orcidx.errors import CorruptFile, Unsupported
from orcidx.orc.statistics import RawStatistics
from orcidx.orc.stored_totals import StoredTotals, stored_totals
from orcidx.orc.types import OrcType
from orcidx.pruning.findings import Note
from orcidx.scanner.file_scan import FileScan
from orcidx.scanner.index_totals import UnitColumn, is_char, unit_column

__all__ = ["AggregatePlan", "Origins", "UnitTotals", "add_decoded"]

Path = tuple[str, ...]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Statistics = Callable[[OrcType], RawStatistics]
Origin = Literal["catalog", "metadata", "file statistics", "stripe statistics", "row-group statistics", "decoded"]


@dataclass
class Origins:
    """For each source of totals, such as statistics or an index, the number of rows whose totals came from this source.
    Also has the reasons why some statistics or indexes were not used. ``as_of`` is described at ``KnownTotals``."""

    rows: Counter[str] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)
    as_of: float | None = None


@dataclass(frozen=True)
class AggregatePlan:
    """An aggregation over a schema. ``paths``: the path of every named column, by its name. ``types``: the types of
    these columns."""

    aggregates: tuple[Aggregate, ...]
    by: tuple[str, ...]
    paths: Mapping[str, Path]
    types: Mapping[str, pa.DataType]

    @cached_property
    def totalled(self) -> tuple[str, ...]:
        """The columns that the aggregates use."""
        return tuple(dict.fromkeys(one.column for one in self.aggregates if one.column is not None))

    @cached_property
    def wanted(self) -> Mapping[str, Wanted]:
        """The totals that are needed for each column of the aggregates."""
        return {name: wanted_of(self.aggregates, name) for name in self.totalled}

    def totals(self) -> GroupTotals:
        """Makes totals to which no rows have been added yet."""
        columns = {name: self.types[name] for name in self.totalled}
        return GroupTotals(self.aggregates, {name: self.types[name] for name in self.by}, columns)


class UnitTotals:
    """Adds the totals of parts of one file to ``totals``, and the origin of these totals to ``origins``. ``constants``:
    columns that have the same value in every row, in addition to the constants of the file's job."""

    def __init__(
        self,
        plan: AggregatePlan,
        scan: FileScan,
        totals: GroupTotals,
        origins: Origins,
        constants: Mapping[str, pa.Scalar],
    ) -> None:
        self.plan = plan
        self.scan = scan
        self.totals = totals
        self.origins = origins
        sources = {source.field.name: source for source in scan.columns.schema_plan.fields}
        self.columns = {name: unit_column(scan, sources, plan.paths[name], plan.types[name]) for name in plan.paths}
        self.columns.update({name: UnitColumn(constant=value) for name, value in constants.items()})
        self.char = frozenset(name for name in plan.paths if is_char(sources, plan.paths[name]))

    @cached_property
    def key(self) -> tuple[Any, ...] | None:
        """The group key, if all rows of the file have the same group key. It is None if a column of the group key is
        not a constant."""
        constants = [self.columns[name].constant for name in self.plan.by]
        known = tuple(form_of(value) for value in constants if value is not None)
        return known if len(known) == len(constants) else None

    def take_whole(self, origin: Origin, rows: int, statistics: Statistics) -> bool:
        """Adds the totals of a unit in which all rows match, if statistics prove these totals. Returns whether the
        totals were added."""
        return bool(self.take(origin, np.array([rows], np.int64), statistics, np.array([True]))[0])

    def take(self, origin: Origin, rows: Int64s, statistics: Statistics, asked: Bools) -> Bools:
        """Adds the totals of units in which all rows match, if statistics prove these totals. ``asked`` has a bool for
        each unit: whether all its rows match. Returns a bool for each unit: whether its totals were added."""
        known = self._known(statistics) if self.key is not None and np.count_nonzero(asked) else None
        if known is None:
            return np.zeros(len(asked), np.bool_)
        assert self.key is not None
        taken = asked.copy()
        for name, totals in known.items():
            wanted = self.totals.wanted(name)
            taken &= totals.prove(sums=wanted.sum, ends=wanted.ends) & (not wanted.order)
        if not np.count_nonzero(taken):
            return taken
        count = int(np.add.reduce(rows[taken]))
        if not count:
            return taken  # no row has the group key, so there is no group
        self.origins.rows[origin if known else "metadata"] += count
        group = self.totals.group(self.key)
        group.rows += count
        for name, column in group.columns.items():
            constant = self.columns[name].constant
            if constant is not None:
                column.add_repeated(constant, count)
            else:
                _add_units(column, known[name], taken)
        return taken

    def _known(self, statistics: Statistics) -> dict[str, StoredTotals] | None:
        """Returns the stored totals of every aggregated column that is not a constant. Returns None if the totals of
        one of these columns are missing."""
        found: dict[str, StoredTotals] = {}
        for name in self.plan.totalled:
            column = self.columns[name]
            if column.constant is not None:
                continue
            if column.node is None or not self.scan.options.row_index:
                return None
            wanted = self.totals.wanted(name)
            try:
                raw = statistics(column.node)
                found[name] = stored_totals(raw, self.scan.reader.facts, self.scan.options, ends=wanted.ends)
            except (CorruptFile, Unsupported):  # only the statistics are damaged, so the rows are read
                return None
        return found

    def add_batches(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Adds decoded rows."""
        add_decoded(batches, self.plan, self.totals, self.origins, char=self.char)


def add_decoded(
    batches: Iterator[pa.RecordBatch], plan: AggregatePlan, totals: GroupTotals, origins: Origins, *, char: Set[str]
) -> None:
    """Adds decoded rows to the totals. ``char``: the columns of type CHAR. Spaces at the end of their values are
    ignored."""

    def values_of(batch: pa.RecordBatch, name: str) -> pa.Array:
        head, *below = plan.paths[name]
        values = batch.column(head)
        if below:
            values = pc.struct_field(values, below)
        return pc.ascii_rtrim(values, " ") if name in char else values

    for batch in batches:
        origins.rows["decoded"] += batch.num_rows
        keys = [values_of(batch, name) for name in plan.by]
        values = {name: values_of(batch, name) for name in plan.totalled}
        totals.add(batch.num_rows, keys, values)


def _add_units(column: ColumnTotals, known: StoredTotals, units: Bools) -> None:
    """Adds the stored totals of some units to the totals of a column. The statistics of these units prove all wanted
    totals."""
    column.count += int(np.add.reduce(known.count[units]))
    if column.wanted.sum:
        column.total += numbers_sum(known.sums.of_units(units))
    if not column.wanted.ends:
        return
    minima, maxima = known.minima.of_units(units), known.maxima.of_units(units)
    if len(minima):
        column.take_bounds(min(minima.tolist()), max(maxima.tolist()))
