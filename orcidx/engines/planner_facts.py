"""The facts about a scan that the planner of an engine uses to choose the order of joins: the number of rows, and the
ranges of columns. All facts come from metadata, no row is read.

Engines use the facts not only for estimates. Polars answers ``count(*)`` from the number of rows, and skips a scan if
the range of a column rules out the condition. So a number of rows is given only if it is exact, and a range only if it
contains every value that a read returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from orcidx.aggregation.functions import Aggregate
from orcidx.aggregation.value_forms import Comparable
from orcidx.engines.pruning_gain import is_local
from orcidx.orc.statistics import file_statistics
from orcidx.scanner.aggregate_pass import COUNT_ALONE, asked_of_indexes
from orcidx.scanner.file_queue import FileQueue
from orcidx.scanner.metrics import ScanMetrics
from orcidx.scanner.scan import Scan
from orcidx.scanner.unit_totals import AggregatePlan, Origins, UnitTotals

__all__ = ["ColumnRange", "TableFacts", "row_count", "table_facts"]

REMOTE_TAILS = 8
"""The maximum number of files in a store whose rows are counted. Each file takes one or two requests."""

COUNTED_FILES = 1000
"""The maximum number of files whose rows are counted for each query, unless a catalog has their numbers of rows. Each
file takes about 0.04 ms."""

RANGED_FILES = 32
"""The maximum number of files whose statistics give ranges. For each file, a range takes about 0.1 ms."""


@dataclass(frozen=True)
class ColumnRange:
    """The minimum and the maximum of one column, in the forms of ``value_forms``, and its number of nulls. Minimum and
    maximum are None if the column has only nulls."""

    minimum: Comparable | None
    maximum: Comparable | None
    nulls: int


@dataclass(frozen=True)
class TableFacts:
    """The facts about a scan. ``rows``: the exact number of rows. None if it is not known. ``ranges``: the ranges of
    some columns."""

    rows: int | None
    ranges: Mapping[str, ColumnRange]


def row_count(scan: Scan) -> int | None:
    """The exact number of rows. The result is None if the metadata does not give this number, or if too many files in a
    store would have to be read."""
    if scan.request.where is not None or not (is_local(scan) or len(scan.jobs) <= REMOTE_TAILS):
        return None
    return scan.count_rows()


def table_facts(scan: Scan, names: Sequence[str]) -> TableFacts:
    """The number of rows, and the ranges of those columns of ``names`` that have integers, dates or decimals.

    For files in a store and for a scan with a condition, there are no facts. For files in a store, they would take a
    request for each file of each query. The rows of more than ``COUNTED_FILES`` files are counted only with a catalog,
    and only ``RANGED_FILES`` files are searched for ranges. A range is left out if the statistics of a file do not
    prove its minimum and maximum. A column of row numbers has no range."""
    if scan.request.where is not None or not is_local(scan):
        return TableFacts(None, {})
    if len(scan.jobs) > RANGED_FILES:
        return TableFacts(scan.count_rows() if _few_to_count(scan) else None, {})
    plans = {
        name: _ends_of(name, kind)
        for name in names
        if name != scan.request.row_numbers and _has_range(kind := scan.schema.field(name).type)
    }
    totals = {name: plan.totals() for name, plan in plans.items()}
    request = replace(scan.resolved, columns=tuple((name,) for name in plans), row_numbers=None)
    rows = 0
    with FileQueue(scan.jobs, request, ScanMetrics(), open_all=True, tails_alone=True) as files:
        for file in files:
            rows += file.scan.rows.count
            tail = file.scan.reader.tail
            for name in list(plans):
                units = UnitTotals(plans[name], file.scan, totals[name], Origins(), {})
                if not units.take_whole("file statistics", tail.footer.rows, partial(file_statistics, tail)):
                    del plans[name]
    ranges = {}
    for name in plans:
        group = totals[name].group(())
        column = group.columns[name]
        ranges[name] = ColumnRange(column.minimum, column.maximum, group.rows - column.count)
    return TableFacts(rows, ranges)


def _few_to_count(scan: Scan) -> bool:
    jobs = scan.jobs
    if len(jobs) > COUNTED_FILES:
        jobs = asked_of_indexes(scan.indexes, jobs, scan.resolved.counting, COUNT_ALONE, ScanMetrics()).jobs
    return len(jobs) <= COUNTED_FILES


def _ends_of(name: str, kind: pa.DataType) -> AggregatePlan:
    ends = Aggregate("least", "min", name), Aggregate("greatest", "max", name)
    return AggregatePlan(ends, (), {name: (name,)}, {name: kind})


def _has_range(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_decimal(kind))
